//! Workers that run on the processors near their devices (`torch.numa.binding`): where memory belongs to groups of processors
//! (NUMA nodes), the memory of another group takes longer to reach.
//!
//! A worker's device is the one whose number among those of its machine is the worker's local rank. What is near is read from
//! Linux's sysfs; the worker is started by `numactl`, which must be there, as PyTorch's launcher does it.

use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::{Error, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Which processors a worker may use.
///
/// ```
/// use torch::numa::binding::{AffinityMode, NumaOptions};
/// let mode: AffinityMode = "core-complex".parse()?;
/// assert_eq!(NumaOptions::new(mode).affinity_mode, AffinityMode::CoreComplex);
/// assert!("elsewhere".parse::<AffinityMode>().is_err());
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[doc(alias = "torch.numa.binding.AffinityMode")]
#[non_exhaustive]
pub enum AffinityMode {
    /// All of the NUMA node where its device is. The one to choose if in doubt.
    Node,
    /// All of the socket where its device is.
    Socket,
    /// A part of its device's node, whose cores are divided evenly among the node's devices.
    Exclusive,
    /// Those of its device's node that share one cache of the last level; another cache for each device as far as there are.
    CoreComplex,
}
impl std::str::FromStr for AffinityMode {
    type Err = Error;
    /// `node`, `socket`, `exclusive` or `core-complex`.
    fn from_str(name: &str) -> Result<AffinityMode> {
        Ok(match name {
            "node" => AffinityMode::Node,
            "socket" => AffinityMode::Socket,
            "exclusive" => AffinityMode::Exclusive,
            "core-complex" => AffinityMode::CoreComplex,
            other => bail!(
                Value,
                "argument --numa-binding/--numa_binding: invalid choice: '{other}' (choose from 'node', 'socket', 'exclusive', 'core-complex')"
            ),
        })
    }
}
/// How workers are bound to processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[doc(alias = "torch.numa.binding.NumaOptions")]
#[non_exhaustive]
pub struct NumaOptions {
    /// Which processors.
    pub affinity_mode: AffinityMode,
    /// Whether a worker starts all the same, unbound and with a warning, where binding fails. Default: false.
    pub should_fall_back_if_binding_fails: bool,
}
impl IntoArg<NumaOptions> for NumaOptions {
    fn into_arg(self) -> NumaOptions {
        self
    }
}
impl IntoArg<NumaOptions> for AffinityMode {
    fn into_arg(self) -> NumaOptions {
        NumaOptions::new(self)
    }
}
impl NumaOptions {
    /// Of these processors.
    pub fn new(affinity_mode: AffinityMode) -> NumaOptions {
        NumaOptions { affinity_mode, should_fall_back_if_binding_fails: false }
    }
    /// Sets whether a worker starts all the same where binding fails.
    pub fn should_fall_back_if_binding_fails(mut self, yes: bool) -> NumaOptions {
        self.should_fall_back_if_binding_fails = yes;
        self
    }
    /// What starts the worker of a local rank.
    pub(crate) fn wrap(self, command: &[String], local_rank: i64) -> Result<Vec<String>> {
        let bound = || {
            let all = Machine::here().processors(self.affinity_mode, local_rank)?;
            ensure!(is_there("numactl"), Runtime, "numactl CLI is required for NUMA binding");
            ensure!(!all.is_empty(), Runtime, "Must bind to a non-empty set of CPU indices");
            let by = ["numactl".to_owned(), format!("--physcpubind={}", written(&all))];
            Ok(by.into_iter().chain(command.iter().cloned()).collect())
        };
        match bound() {
            Err(e) if self.should_fall_back_if_binding_fails => {
                flambeau_core::settings::determinism::warn(&format!(
                    "Continuing executing without applying NUMA binding, despite exception {e}"
                ));
                Ok(command.to_vec())
            }
            done => done,
        }
    }
}
/// Whether a program is in one of the folders that are searched.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|d| d.join(program).is_file())
}

type Numbers = BTreeSet<u32>;
/// No machine has processors or nodes of higher numbers; a file that says so is not believed.
const MOST: u32 = 1 << 16;

/// Numbers as sysfs writes them: `0-2,4,6-7`.
pub(crate) fn numbers(text: &str) -> Result<Numbers> {
    let number = |t: &str| -> Result<u32> {
        let n = t.trim().parse().ok().filter(|n| *n < MOST);
        n.ok_or_else(|| Error::runtime(format!("'{}' is no list of processors", text.trim())))
    };
    let mut all = Numbers::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        match part.split_once('-') {
            Some((low, high)) => all.extend(number(low)?..=number(high)?),
            None => all.extend([number(part)?]),
        }
    }
    Ok(all)
}
/// The same, written.
pub(crate) fn written(all: &Numbers) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for n in all {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == *n => *end = *n,
            _ => runs.push((*n, *n)),
        }
    }
    let one = |(a, b): (u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    runs.into_iter().map(one).collect::<Vec<_>>().join(",")
}

/// What sysfs says of a machine.
pub(crate) struct Machine {
    /// where its file systems are mounted
    pub(crate) root: PathBuf,
    /// the numbers of the devices that programs see, where they do not see all
    pub(crate) visible: Option<String>,
}
impl Machine {
    fn here() -> Machine {
        Machine { root: "/".into(), visible: std::env::var("CUDA_VISIBLE_DEVICES").ok() }
    }
    fn read(&self, path: impl AsRef<Path>) -> Result<String> {
        let path = self.root.join(path);
        std::fs::read_to_string(&path).map_err(|e| Error::from(e).at_path(&path))
    }
    /// The folders of NVIDIA's devices, by their places on the bus: the driver's order where devices are alike.
    fn devices(&self) -> Result<Vec<PathBuf>> {
        let folder = self.root.join("sys/bus/pci/devices");
        let all = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|d| d.path());
        let said = |d: &Path, what: &str| std::fs::read_to_string(d.join(what)).unwrap_or_default();
        // display controllers and 3D controllers
        let is_one =
            |d: &PathBuf| said(d, "vendor").trim() == "0x10de" && said(d, "class").starts_with("0x03");
        let mut found: Vec<PathBuf> = all.filter(is_one).collect();
        found.sort();
        if let Some(list) = &self.visible {
            let mut seen = Vec::new();
            for part in list.split(',').map(str::trim) {
                let Ok(n) = part.parse::<i64>() else {
                    bail!(Value, "CUDA_VISIBLE_DEVICES={list}: devices by number are needed for NUMA binding")
                };
                // as the driver reads it: what follows a number that is none of a device does not count
                let Some(d) = usize::try_from(n).ok().and_then(|n| found.get(n)) else { break };
                seen.push(d.clone());
            }
            found = seen;
        }
        ensure!(!found.is_empty(), Runtime, "No accelerator available for NUMA binding");
        Ok(found)
    }
    /// The nodes of all devices.
    fn nodes(&self) -> Result<Vec<u32>> {
        let one = |d: PathBuf| -> Result<u32> {
            let text = self.read(d.join("numa_node"))?;
            // machines of one node often say -1
            let n: i64 =
                text.trim().parse().map_err(|_| Error::runtime(format!("{}: no node", d.display())))?;
            Ok(n.clamp(0, i64::from(MOST)) as u32)
        };
        self.devices()?.into_iter().map(one).collect()
    }
    /// The processors of a node that this process may use.
    fn of_node(&self, node: u32) -> Result<Numbers> {
        let text = self.read(format!("sys/devices/system/node/node{node}/cpulist")).map_err(|e| {
            Error::runtime(format!("Could not determine CPUs corresponding to numa_node_index={node}. ({e})"))
        })?;
        let status = self.read("proc/self/status")?;
        let allowed = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
        let all = numbers(&text)?;
        Ok(match allowed {
            Some(a) => &all & &numbers(a)?,
            None => all,
        })
    }
    fn socket_of(&self, processor: u32) -> Result<u32> {
        let text = self
            .read(format!("sys/devices/system/cpu/cpu{processor}/topology/physical_package_id"))
            .map_err(|e| {
            Error::runtime(format!("Could not determine socket for cpu_index={processor} ({e})"))
        })?;
        text.trim().parse().map_err(|_| Error::runtime(format!("cpu{processor}: no socket")))
    }
    /// The processors that are parts of one core with this one.
    fn of_core(&self, processor: u32) -> Result<Numbers> {
        numbers(&self.read(format!("sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list"))?)
    }
    /// The processors that share the cache of the last level with this one.
    fn of_cache(&self, processor: u32) -> Result<Numbers> {
        let folder = self.root.join(format!("sys/devices/system/cpu/cpu{processor}/cache"));
        let mut last: Option<(u32, Numbers)> = None;
        for entry in std::fs::read_dir(&folder).map_err(|e| Error::from(e).at_path(&folder))?.flatten() {
            let d = entry.path();
            let index = entry.file_name();
            let is_index =
                index.to_str().and_then(|n| n.strip_prefix("index")?.parse::<u32>().ok()).is_some();
            if !is_index || !["Unified", "Data"].contains(&self.read(d.join("type"))?.trim()) {
                continue;
            }
            let level: u32 = self.read(d.join("level"))?.trim().parse().unwrap_or_default();
            if last.as_ref().is_none_or(|(l, _)| level > *l) {
                last = Some((level, numbers(&self.read(d.join("shared_cpu_list"))?)?));
            }
        }
        Ok(last.map(|l| l.1).unwrap_or_default())
    }
    /// A node's processors by what they share, known by the lowest number in it.
    fn shared(
        &self,
        node: u32,
        of: impl Fn(&Machine, u32) -> Result<Numbers>,
    ) -> Result<BTreeMap<u32, Numbers>> {
        let mut all: BTreeMap<u32, Numbers> = BTreeMap::new();
        for p in self.of_node(node)? {
            let first = of(self, p)?.first().copied().unwrap_or(p);
            all.entry(first).or_default().insert(p);
        }
        Ok(all)
    }
    /// Those that a worker may use.
    pub(crate) fn processors(&self, mode: AffinityMode, local_rank: i64) -> Result<Numbers> {
        let nodes = self.nodes()?;
        let Some((device, node)) = usize::try_from(local_rank).ok().and_then(|i| Some((i, *nodes.get(i)?)))
        else {
            bail!(Assertion, "Invalid device id {local_rank} of {} devices", nodes.len())
        };
        // which of its node's devices it is, and how many these are
        let place = nodes[..device].iter().filter(|n| **n == node).count();
        let beside = nodes.iter().filter(|n| **n == node).count();
        match mode {
            AffinityMode::Node => self.of_node(node),
            AffinityMode::Socket => {
                let first = self.of_node(node)?.first().copied();
                let Some(first) = first else { return Ok(Numbers::new()) };
                let socket = self.socket_of(first)?;
                let mut all = Numbers::new();
                for n in numbers(&self.read("sys/devices/system/node/possible")?)? {
                    let here = self.of_node(n)?;
                    if here.first().map(|p| self.socket_of(*p)).transpose()? == Some(socket) {
                        all.extend(here);
                    }
                }
                Ok(all)
            }
            AffinityMode::Exclusive => {
                let cores = self.shared(node, Machine::of_core)?;
                let (each, more) = (cores.len() / beside, cores.len() % beside);
                ensure!(
                    each > 0,
                    Runtime,
                    "There are only {} physical cores on numa_node_index={node}, but there are {beside} devices associated with this NUMA node.",
                    cores.len()
                );
                let start = place * each + place.min(more);
                let count = each + usize::from(place < more);
                Ok(cores.into_values().skip(start).take(count).flatten().collect())
            }
            AffinityMode::CoreComplex => {
                let mut caches: Vec<Numbers> = self.shared(node, Machine::of_cache)?.into_values().collect();
                // those with more processors first; the sort keeps the order of the others
                caches.sort_by_key(|c| std::cmp::Reverse(c.len()));
                let at = place.checked_rem(caches.len());
                Ok(at.map(|at| caches.swap_remove(at)).unwrap_or_default())
            }
        }
    }
}
