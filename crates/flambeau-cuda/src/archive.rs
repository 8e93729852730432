//! Archives of compiled kernels: what `cargo xtask kernels --archive` makes and the feature `prebuilt` embeds.
//!
//! A kernel is known by the hash of its whole source and of the compiler's options, so an archive of other sources is never used: what
//! it lacks is compiled as ever. Several instances share a unit, which the compiler sees once for all architectures; within it their
//! names begin with `u0_`, `u1_` and so on.
//!
//! A file is the head, the table, and the units one after the other. The head says how long the whole is and what the table's
//! hash is, the table has the hash of each unit: what was cut or changed is an error before any of it reaches a driver.

use crate::driver::compiler::{self, OPTIONS};
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, ensure};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError};

/// What a kernel is known by.
pub type Key = [u8; 32];
const MAGIC: &[u8; 16] = b"flambeau kernels";
const VERSION: u32 = 1;
/// Magic, version, kind, length, hash of the table, length of the table.
const HEAD: usize = 16 + 4 + 4 + 8 + 32 + 8;
/// Instances that the compiler sees at once.
const TOGETHER: usize = 12;

/// For whom units are compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// NVIDIA's driver: files of its `fatbinary`, from which it takes what fits the device.
    Device = 1,
    /// The emulated one: libraries of the host.
    Host = 2,
}

/// The hash of a source that [`compiler::together`] put together.
pub(crate) fn key(text: &str) -> Key {
    let mut hash = Sha256::new();
    for part in OPTIONS.iter().chain([&text]) {
        hash.update(part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}
fn hash(bytes: &[u8]) -> Key {
    Sha256::digest(bytes).into()
}
fn damaged(what: &str) -> Error {
    Error::runtime(format!(
        "the archive of compiled kernels is damaged ({what}), and nothing of it is used: make it again with `cargo xtask kernels \
         --archive`"
    ))
}

/// Reads numbers and hashes one after the other.
struct Reader<'a>(&'a [u8]);
impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n).ok_or_else(|| damaged("it is cut"))?;
        self.0 = rest;
        Ok(head)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }
    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    fn size(&mut self) -> Result<usize> {
        usize::try_from(u64::from_le_bytes(self.array()?)).map_err(|_| damaged("a size"))
    }
}

struct Unit {
    start: usize,
    nbytes: usize,
    hash: Key,
}
/// An archive whose table was checked.
pub struct Archive {
    bytes: Cow<'static, [u8]>,
    kind: Kind,
    /// Key, unit, place in it; by key.
    instances: Vec<(Key, u32, u32)>,
    units: Vec<Unit>,
}
impl Archive {
    /// # Errors
    /// What is no archive, one of another version, and one that was cut or changed.
    pub fn open(bytes: impl Into<Cow<'static, [u8]>>) -> Result<Archive> {
        let bytes = bytes.into();
        let mut head = Reader(&bytes);
        ensure!(head.take(16)? == MAGIC, Runtime, "this is no archive of compiled kernels");
        let version = head.u32()?;
        ensure!(
            version == VERSION,
            Runtime,
            "an archive of compiled kernels of version {version}, not {VERSION}"
        );
        let kind = match head.u32()? {
            1 => Kind::Device,
            2 => Kind::Host,
            _ => return Err(damaged("whom it is for")),
        };
        if head.size()? != bytes.len() {
            return Err(damaged("its length is another one"));
        }
        let wanted: Key = head.array()?;
        let length = head.size()?;
        let table = head.take(length)?;
        if hash(table) != wanted {
            return Err(damaged("its table was changed"));
        }
        let mut table = Reader(table);
        let (instances, units) = (table.u32()?, table.u32()?);
        let instance = |t: &mut Reader<'_>| Ok((t.array()?, t.u32()?, t.u32()?));
        let instances = (0..instances).map(|_| instance(&mut table)).collect::<Result<Vec<_>>>()?;
        let unit = |t: &mut Reader<'_>| Ok(Unit { start: t.size()?, nbytes: t.size()?, hash: t.array()? });
        let units = (0..units).map(|_| unit(&mut table)).collect::<Result<Vec<_>>>()?;
        let within = |u: &Unit| u.start.checked_add(u.nbytes).is_some_and(|end| end <= bytes.len());
        let sorted = instances.windows(2).all(|w| w[0].0 < w[1].0);
        if !sorted || !units.iter().all(within) || instances.iter().any(|i| i.1 as usize >= units.len()) {
            return Err(damaged("its table"));
        }
        Ok(Archive { bytes, kind, instances, units })
    }
    /// Number of instances.
    pub fn instances(&self) -> usize {
        self.instances.len()
    }
    /// The bytes of a unit.
    ///
    /// # Errors
    /// They were changed.
    pub fn unit(&self, unit: usize) -> Result<&[u8]> {
        let u = self.units.get(unit).ok_or_else(|| damaged("a unit that is not there"))?;
        let bytes = self.bytes.get(u.start..u.start + u.nbytes).ok_or_else(|| damaged("it is cut"))?;
        if hash(bytes) == u.hash { Ok(bytes) } else { Err(damaged("a unit was changed")) }
    }
    fn find(&self, key: &Key) -> Option<(usize, u32)> {
        let at = self.instances.binary_search_by(|i| i.0.cmp(key)).ok()?;
        self.instances.get(at).map(|i| (i.1 as usize, i.2))
    }
    /// The file of units: the bytes of each, and the keys of its instances in their order.
    pub fn write(kind: Kind, units: &[(Vec<u8>, Vec<Key>)]) -> Vec<u8> {
        let all: BTreeMap<Key, (u32, u32)> = units
            .iter()
            .zip(0u32..)
            .flat_map(|((_, keys), u)| keys.iter().zip(0u32..).map(move |(k, place)| (*k, (u, place))))
            .collect();
        let length = 8 + all.len() * 40 + units.len() * 48;
        let mut table = Vec::with_capacity(length);
        table.extend((all.len() as u32).to_le_bytes());
        table.extend((units.len() as u32).to_le_bytes());
        for (key, (unit, place)) in &all {
            table.extend(key);
            table.extend(unit.to_le_bytes());
            table.extend(place.to_le_bytes());
        }
        let mut start = HEAD + length;
        for (bytes, _) in units {
            table.extend((start as u64).to_le_bytes());
            table.extend((bytes.len() as u64).to_le_bytes());
            table.extend(hash(bytes));
            start += bytes.len();
        }
        let mut out = Vec::with_capacity(start);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend((kind as u32).to_le_bytes());
        out.extend((start as u64).to_le_bytes());
        out.extend(hash(&table));
        out.extend((length as u64).to_le_bytes());
        out.extend(table);
        units.iter().for_each(|(bytes, _)| out.extend(bytes));
        out
    }
}

/// The archive of this program: what the feature embeds, or what [`stand_in`] brought before.
fn installed() -> Result<Option<&'static Archive>> {
    let found = INSTALLED.get_or_init(|| embedded().map(Archive::open).transpose());
    match found {
        Ok(a) => Ok(a.as_ref()),
        Err(e) => Err(e.clone()),
    }
}
static INSTALLED: OnceLock<std::result::Result<Option<Archive>, Error>> = OnceLock::new();
#[cfg(feature = "prebuilt")]
fn embedded() -> Option<&'static [u8]> {
    Some(include_bytes!(env!(
        "FLAMBEAU_KERNEL_ARCHIVE",
        "the feature cuda-prebuilt embeds compiled kernels: make them with `cargo xtask kernels --archive`, and set \
         FLAMBEAU_KERNEL_ARCHIVE to the file's absolute path while this is compiled"
    )))
}
#[cfg(not(feature = "prebuilt"))]
fn embedded() -> Option<&'static [u8]> {
    None
}

/// Where an instance lies.
pub(crate) struct Found {
    archive: &'static Archive,
    pub(crate) unit: usize,
    /// What its kernels' names begin with there.
    pub(crate) prefix: String,
}
impl Found {
    /// The unit's bytes.
    ///
    /// # Errors
    /// They were changed.
    pub(crate) fn image(&self) -> Result<&'static [u8]> {
        self.archive.unit(self.unit)
    }
}
static SERVED: AtomicU64 = AtomicU64::new(0);
/// How many sources came out of the archive so far.
pub fn served() -> u64 {
    SERVED.load(Ordering::Relaxed)
}
/// Notes that one did.
pub(crate) fn serves() {
    SERVED.fetch_add(1, Ordering::Relaxed);
}
/// The instance of a source that was put together; `None` where there is no archive, or one that lacks it.
///
/// # Errors
/// The archive is damaged.
pub(crate) fn find(kind: Kind, text: &str) -> Result<Option<Found>> {
    let Some(archive) = installed()? else { return Ok(None) };
    if archive.kind != kind {
        return Ok(None);
    }
    let found = archive.find(&key(text));
    Ok(found.map(|(unit, place)| Found { archive, unit, prefix: prefix(place) }))
}
fn prefix(place: u32) -> String {
    format!("u{place}_")
}

/// A source: the files that it includes, and the macros that make its kernels, each with the kernel's name in front.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Instance {
    files: Vec<String>,
    calls: Vec<String>,
}
impl Instance {
    /// Of a source; `None` if it has anything else.
    pub fn of(source: &str) -> Option<Instance> {
        let mut all = Instance { files: Vec::new(), calls: Vec::new() };
        for line in source.lines().map(str::trim).filter(|l| !l.is_empty()) {
            if let Some(file) = line.strip_prefix("#include \"").and_then(|l| l.strip_suffix('"')) {
                all.files.push(file.into());
            } else {
                name(line)?;
                all.calls.push(line.into());
            }
        }
        (!all.calls.is_empty()).then_some(all)
    }
    /// The same with what makes one kernel alone: sources of the emulated device have whole families.
    pub fn only(mut self, kernel: &str) -> Instance {
        let own = |c: &String| name(c).is_some_and(|n| n == kernel);
        if self.calls.iter().any(own) {
            self.calls.retain(own);
        }
        self
    }
    /// The source.
    pub fn source(&self) -> String {
        let files: String = self.files.iter().map(|f| format!("#include \"{f}\"\n")).collect();
        self.calls.iter().fold(files, |s, c| s + c + "\n")
    }
    /// Its line in the list.
    pub fn line(&self) -> String {
        format!("{}\t{}", self.files.join(" "), self.calls.join("\t"))
    }
    /// Of such a line.
    ///
    /// # Errors
    /// No file, or no call.
    pub fn parse(line: &str) -> Result<Instance> {
        let bad = || Error::value(format!("no instance of a kernel: {line}"));
        let (files, calls) = line.split_once('\t').ok_or_else(bad)?;
        let files = files.split(' ').map(String::from).collect();
        let calls: Vec<String> = calls.split('\t').map(String::from).collect();
        if calls.iter().any(|c| name(c).is_none()) {
            return Err(bad());
        }
        Ok(Instance { files, calls })
    }
}
/// The name that a macro's call gives: the first of its arguments.
fn name(call: &str) -> Option<&str> {
    let (head, rest) = call.split_once('(')?;
    let word = |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let first = rest.strip_suffix(')')?.split(',').next()?.trim();
    (word(head) && word(first)).then_some(first)
}
/// Lines of a list that are not comments.
///
/// # Errors
/// A line that is no instance.
pub fn list(text: &str) -> Result<BTreeSet<Instance>> {
    text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).map(Instance::parse).collect()
}

/// What the compiler sees at once.
pub struct Plan {
    /// What no other text has.
    pub name: String,
    /// The text, with all that it includes.
    pub text: String,
    /// Whether it is for capability 9.0 alone: products of groups of warps.
    pub groups: bool,
    /// Keys of its instances.
    pub keys: Vec<Key>,
}
impl Plan {
    /// The text for nvcc: in a namespace, since nvcc brings the host's headers in, whose functions would be called where the sources mean
    /// their own (`lerp` of double numbers). NVRTC has no headers and gives the same code without.
    pub fn for_nvcc(&self) -> String {
        format!("namespace kernels {{\n{}}}\n", self.text)
    }
}
/// Units of a list: instances that include the same files.
///
/// # Errors
/// A file that is not there.
pub fn plan(all: &BTreeSet<Instance>) -> Result<Vec<Plan>> {
    let mut by_files: BTreeMap<&[String], Vec<&Instance>> = BTreeMap::new();
    for i in all {
        by_files.entry(&i.files).or_default().push(i);
    }
    let mut out = Vec::new();
    for part in by_files.values().flat_map(|v| v.chunks(TOGETHER)) {
        let mut unit = Instance { files: part[0].files.clone(), calls: Vec::new() };
        let mut keys = Vec::new();
        for (i, place) in part.iter().zip(0u32..) {
            keys.push(key(&compiler::together(&i.source())?));
            let renamed = |c: &String| c.replacen('(', &format!("({}", prefix(place)), 1);
            unit.calls.extend(i.calls.iter().map(renamed));
        }
        let text = compiler::together(&unit.source())?;
        out.push(Plan {
            name: hex(&key(&format!("namespace {text}"))),
            groups: text.contains("wgmma."),
            text,
            keys,
        });
    }
    Ok(out)
}

/// Appends what a kernel was asked for to the file that `FLAMBEAU_KERNEL_LIST` names.
pub(crate) fn note(source: &str, kernel: &str) {
    static FILE: OnceLock<Option<Mutex<std::fs::File>>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let path = std::env::var_os("FLAMBEAU_KERNEL_LIST")?;
        std::fs::OpenOptions::new().append(true).create(true).open(path).ok().map(Mutex::new)
    });
    let (Some(file), Some(instance)) = (file, Instance::of(source)) else { return };
    let mut line = instance.only(kernel).line();
    line.push('\n');
    // one call: several processes write to the file
    let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
}

/// What [`stand_in`] does to its archive.
#[derive(Clone, Copy, Debug)]
pub enum Harm {
    /// Nothing.
    None,
    /// Only so many bytes stay.
    Cut(usize),
    /// A byte changes.
    Change(usize),
}
/// Makes an archive of the sources of a list this program's, before any kernel was asked for: for tests. The emulated device's is made by
/// the host's compiler, that of a device is its text, which a driver refuses unless it does nothing at all.
///
/// # Errors
/// Of the compiler; there is one already.
pub fn stand_in(lines: &str, kind: Kind, harm: Harm) -> Result<()> {
    let units = plan(&list(lines)?)?.into_iter().map(|p| match kind {
        Kind::Host => Ok((std::fs::read(compiler::for_host(&p.text)?).map_err(compiler::disk)?, p.keys)),
        Kind::Device => Ok((p.text.into_bytes(), p.keys)),
    });
    let mut bytes = Archive::write(kind, &units.collect::<Result<Vec<_>>>()?);
    match harm {
        Harm::None => {}
        Harm::Cut(n) => bytes.truncate(n),
        Harm::Change(at) => {
            if let Some(b) = bytes.get_mut(at) {
                *b ^= 1;
            }
        }
    }
    let fresh = INSTALLED.set(Archive::open(bytes).map(Some)).is_ok();
    ensure!(fresh, Runtime, "there is an archive of compiled kernels already");
    Ok(())
}
/// A key as text, and back.
pub fn hex(key: &Key) -> String {
    key.iter().fold(String::new(), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    })
}
/// See [`hex`].
pub fn unhex(text: &str) -> Option<Key> {
    let mut out = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (i, b) in out.iter_mut().enumerate() {
        *b = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(out)
}
