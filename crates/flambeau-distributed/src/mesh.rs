//! Processes in a grid: a group along each of its dimensions (`torch.distributed.device_mesh`).

use crate::group::ProcessGroup;
use crate::sync::Monitor;
use crate::world::World;
use crate::{NewGroupOptions, try_new_group};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::{Error, Result, bail, ensure};
use std::fmt;
use std::sync::Arc;

/// A grid of a job's processes, with a group for each line along each dimension.
///
/// ```
/// use torch::distributed::{run_in_threads, device_mesh::{MeshOptions, init_device_mesh_with}};
///
/// let shown = run_in_threads(4, |_| {
///     let mesh = init_device_mesh_with("cpu", &[2, 2], MeshOptions::new().mesh_dim_names(["dp", "tp"]));
///     let rows = mesh.get_group("dp");
///     (mesh.to_string(), rows.ranks().to_vec())
/// });
/// assert_eq!(shown[1], ("DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1))".to_owned(), vec![1, 3]));
/// ```
#[derive(Clone)]
#[doc(alias = "torch.distributed.device_mesh.DeviceMesh")]
pub struct DeviceMesh(Arc<Inner>);
struct Inner {
    device_type: String,
    /// ranks in order
    ranks: Vec<i64>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    names: Option<Vec<String>>,
    /// by dimension; none where this process is not in the grid
    groups: Vec<Option<ProcessGroup>>,
    coordinate: Option<Vec<i64>>,
    root: Option<DeviceMesh>,
    /// grids that dimensions of this one were joined to
    joined: Monitor<Vec<DeviceMesh>>,
}

/// A dimension, by its place or its name.
///
/// ```
/// use torch::distributed::{run_in_threads, device_mesh::{MeshDim, MeshOptions, init_device_mesh_with}};
/// let sizes = run_in_threads(2, |_| {
///     let mesh = init_device_mesh_with("cpu", &[1, 2], MeshOptions::new().mesh_dim_names(["dp", "tp"]));
///     [MeshDim::from(0), "tp".into()].map(|d| mesh.get_group(d).size())
/// });
/// assert_eq!(sizes, [[1, 2], [1, 2]]);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MeshDim {
    /// Its place.
    Place(i64),
    /// Its name.
    Name(String),
}
impl From<i64> for MeshDim {
    fn from(i: i64) -> MeshDim {
        MeshDim::Place(i)
    }
}
impl From<i32> for MeshDim {
    fn from(i: i32) -> MeshDim {
        MeshDim::Place(i.into())
    }
}
impl From<&str> for MeshDim {
    fn from(s: &str) -> MeshDim {
        MeshDim::Name(s.to_owned())
    }
}
/// Names of dimensions, as an option takes them.
///
/// ```
/// use torch::distributed::device_mesh::{MeshOptions, init_device_mesh_with};
/// use torch::distributed::run_in_threads;
/// let places = run_in_threads(2, |_| {
///     let names = MeshOptions::new().mesh_dim_names(["replicate", "shard"]);
///     let mesh = init_device_mesh_with("cpu", &[1, 2], names);
///     mesh.mesh_dim_names().unwrap().to_vec()
/// });
/// assert_eq!(places[1], ["replicate", "shard"]);
/// ```
#[derive(Clone, Debug)]
pub struct MeshDimNames(Vec<String>);
impl<S: Into<String>, const N: usize> flambeau_core::api::into_arg::IntoArg<MeshDimNames> for [S; N] {
    fn into_arg(self) -> MeshDimNames {
        MeshDimNames(self.into_iter().map(Into::into).collect())
    }
}
impl flambeau_core::api::into_arg::IntoArg<MeshDimNames> for Vec<String> {
    fn into_arg(self) -> MeshDimNames {
        MeshDimNames(self)
    }
}

impl flambeau_core::api::into_arg::IntoArg<DeviceMesh> for DeviceMesh {
    fn into_arg(self) -> DeviceMesh {
        self
    }
}
impl flambeau_core::api::into_arg::IntoArg<DeviceMesh> for &DeviceMesh {
    fn into_arg(self) -> DeviceMesh {
        self.clone()
    }
}

/// Keywords of [`init_device_mesh_with`].
#[flambeau_macros::options]
pub struct MeshOptions {
    /// What the dimensions are called.
    pub(crate) mesh_dim_names: Option<MeshDimNames>,
}

/// A grid of the job's processes in the order of their ranks. All processes call this.
///
/// # Errors
/// A type of device with a number, names that are given twice or too many of them, more places than there are processes, no job.
#[doc(alias = "torch.distributed.device_mesh.init_device_mesh")]
#[flambeau_macros::short(with)]
pub fn try_init_device_mesh(
    device_type: &str,
    mesh_shape: &[i64],
    options: MeshOptions,
) -> Result<DeviceMesh> {
    let names = options.mesh_dim_names.map(|n| n.0);
    if let Some(n) = &names {
        for (i, name) in n.iter().enumerate() {
            ensure!(
                !n[..i].contains(name),
                Runtime,
                "Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {}",
                tuple(n)
            );
        }
        ensure!(
            n.len() == mesh_shape.len(),
            Runtime,
            "mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): {} and len(mesh_shape):{}.",
            n.len(),
            mesh_shape.len()
        );
    }
    ensure!(
        device_type.chars().all(char::is_alphabetic),
        Runtime,
        "('Device type with index is not supported but got {device_type}. ', \"If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.\")"
    );
    let n = places(mesh_shape)?;
    // before a list of them is made
    let world = World::current().default_group()?.size();
    ensure!(n <= world, Runtime, "{}", larger(world, n));
    DeviceMesh::make(device_type, (0..n).collect(), mesh_shape, names)
}

fn larger(world: i64, places: i64) -> String {
    format!("Mesh should not be bigger than default world size {world}, but found {places} ranks!")
}
/// How many places a mesh of this shape has.
fn places(shape: &[i64]) -> Result<i64> {
    let n = shape.iter().try_fold(1i64, |n, m| n.checked_mul(*m).filter(|_| *m > 0));
    n.ok_or_else(|| Error::runtime(format!("sizes of a mesh are positive, got {shape:?}")))
}
/// As Python prints a tuple of texts.
fn tuple(all: &[String]) -> String {
    let shown: Vec<String> = all.iter().map(|n| format!("'{n}'")).collect();
    if let [one] = &shown[..] { format!("({one},)") } else { format!("({})", shown.join(", ")) }
}
fn numbers(all: &[i64]) -> String {
    let shown: Vec<String> = all.iter().map(i64::to_string).collect();
    if let [one] = &shown[..] { format!("({one},)") } else { format!("({})", shown.join(", ")) }
}
fn contiguous(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    strides
}
/// The places of a line along a dimension, for each such line.
fn lines(shape: &[i64], dim: usize) -> Vec<Vec<usize>> {
    let strides = contiguous(shape);
    let n: i64 = shape.iter().product();
    let starts = (0..n).filter(|i| i / strides[dim] % shape[dim] == 0);
    starts.map(|s| (0..shape[dim]).map(|k| (s + k * strides[dim]) as usize).collect()).collect()
}

impl DeviceMesh {
    /// A grid of these ranks in row-major order. All processes of the job call this.
    ///
    /// # Errors
    /// Ranks that do not fill the shape or are given twice, more places than there are processes, no job.
    pub fn try_new(
        device_type: &str,
        ranks: &[i64],
        shape: &[i64],
        mesh_dim_names: Option<&[&str]>,
    ) -> Result<DeviceMesh> {
        let names = mesh_dim_names.map(|n| n.iter().map(|s| (*s).to_owned()).collect());
        DeviceMesh::make(device_type, ranks.to_vec(), shape, names)
    }
    fn make(
        device_type: &str,
        ranks: Vec<i64>,
        shape: &[i64],
        names: Option<Vec<String>>,
    ) -> Result<DeviceMesh> {
        let default = World::current().default_group()?;
        let (me, world) = (default.rank(), default.size());
        ensure!(
            places(shape)? == ranks.len() as i64 && !shape.is_empty(),
            Runtime,
            "{} ranks do not fill a mesh of the shape {shape:?}",
            ranks.len()
        );
        ensure!(ranks.len() as i64 <= world, Runtime, "{}", larger(world, ranks.len() as i64));
        ensure!(
            names.as_ref().is_none_or(|n| n.len() == shape.len()),
            Runtime,
            "a mesh of {} dimensions needs as many names, got {}",
            shape.len(),
            names.as_ref().map_or(0, Vec::len)
        );
        let mine = ranks.iter().filter(|r| **r == me).count();
        ensure!(mine <= 1, Assertion, "rank_coords.size(0) must be 0 or 1, got {mine}");
        let mut groups = Vec::new();
        for d in 0..shape.len() {
            // a line as long as the job is the default group, whatever its ranks: PyTorch does not look
            if shape[d] == world {
                groups.push(Some(default.clone()));
                continue;
            }
            let dim_name = names.as_ref().map_or_else(|| format!("dim_{d}"), |n| n[d].clone());
            let mut found = None;
            for l in lines(shape, d) {
                let members: Vec<i64> = l.iter().map(|i| ranks[*i]).collect();
                let o = NewGroupOptions::new().group_desc(format!("mesh_{dim_name}"));
                let g = try_new_group(&members, o)?;
                if g.is_member() {
                    found = Some(g);
                }
            }
            groups.push(found);
        }
        Ok(DeviceMesh::of(device_type, ranks, shape, contiguous(shape), names, groups, None))
    }
    fn of(
        device_type: &str,
        ranks: Vec<i64>,
        shape: &[i64],
        strides: Vec<i64>,
        names: Option<Vec<String>>,
        groups: Vec<Option<ProcessGroup>>,
        root: Option<DeviceMesh>,
    ) -> DeviceMesh {
        let me = World::current().default_group().map_or(-1, |g| g.rank());
        let plain = contiguous(shape);
        let coordinate = ranks
            .iter()
            .position(|r| *r == me)
            .map(|at| plain.iter().zip(shape).map(|(s, n)| at as i64 / s % n).collect());
        let joined = Monitor::new(Vec::new());
        let (device_type, shape) = (device_type.to_owned(), shape.to_vec());
        DeviceMesh(Arc::new(Inner {
            device_type,
            ranks,
            shape,
            strides,
            names,
            groups,
            coordinate,
            root,
            joined,
        }))
    }
    /// A grid of one dimension: the members of a group.
    #[doc(alias = "torch.distributed.device_mesh.DeviceMesh.from_group")]
    pub fn from_group(group: &ProcessGroup, device_type: &str) -> DeviceMesh {
        let ranks = group.ranks().to_vec();
        let shape = [ranks.len() as i64];
        DeviceMesh::of(device_type, ranks, &shape, vec![1], None, vec![Some(group.clone())], None)
    }
    /// A grid whose groups exist: one for each dimension.
    ///
    /// # Errors
    /// No group, another number of groups than dimensions, ranks that do not fill the shape.
    pub fn from_groups(
        groups: &[ProcessGroup],
        device_type: &str,
        ranks: &[i64],
        shape: &[i64],
        mesh_dim_names: &[&str],
    ) -> Result<DeviceMesh> {
        ensure!(!groups.is_empty(), Value, "Expects at least one ProcessGroup to be passed");
        ensure!(
            groups.len() == shape.len() && mesh_dim_names.len() == shape.len(),
            Value,
            "Expects mesh with ndim equal to number of ProcessGroups but got mesh {ranks:?} and {} ProcessGroups",
            groups.len()
        );
        ensure!(
            places(shape)? == ranks.len() as i64,
            Value,
            "{} ranks do not fill a mesh of the shape {shape:?}",
            ranks.len()
        );
        let names = mesh_dim_names.iter().map(|n| (*n).to_owned()).collect();
        let groups = groups.iter().cloned().map(Some).collect();
        Ok(DeviceMesh::of(device_type, ranks.to_vec(), shape, contiguous(shape), Some(names), groups, None))
    }
    /// The type of device.
    pub fn device_type(&self) -> &str {
        &self.0.device_type
    }
    /// The ranks in row-major order.
    pub fn mesh(&self) -> &[i64] {
        &self.0.ranks
    }
    /// The number of dimensions.
    pub fn ndim(&self) -> usize {
        self.0.shape.len()
    }
    /// The sizes of the dimensions.
    pub fn shape(&self) -> &[i64] {
        &self.0.shape
    }
    /// The number of places.
    pub fn size(&self) -> i64 {
        self.0.shape.iter().product()
    }
    /// The names of the dimensions.
    pub fn mesh_dim_names(&self) -> Option<&[String]> {
        self.0.names.as_deref()
    }
    /// This process's rank in the job.
    ///
    /// # Errors
    /// No job.
    #[doc(alias = "torch.distributed.device_mesh.DeviceMesh.get_rank")]
    pub fn get_rank(&self) -> Result<i64> {
        World::current().default_group().map(|g| g.rank())
    }
    /// This process's place along each dimension; none outside of the grid.
    #[doc(alias = "torch.distributed.device_mesh.DeviceMesh.get_coordinate")]
    pub fn get_coordinate(&self) -> Option<&[i64]> {
        self.0.coordinate.as_deref()
    }
    fn root(&self) -> DeviceMesh {
        self.0.root.clone().unwrap_or_else(|| self.clone())
    }
    fn dim(&self, dim: &MeshDim) -> Result<usize> {
        match dim {
            MeshDim::Place(i) => {
                let n = self.ndim() as i64;
                let at = if *i < 0 { i + n } else { *i };
                ensure!((0..n).contains(&at), Index, "list index out of range");
                Ok(at as usize)
            }
            MeshDim::Name(n) => {
                let names = self.0.names.as_deref().unwrap_or_default();
                match names.iter().position(|x| x == n) {
                    Some(i) => Ok(i),
                    None => Err(unknown(std::slice::from_ref(n), names)),
                }
            }
        }
    }
    /// The group of this process's line along a dimension. Panics with the error's text.
    #[track_caller]
    #[doc(alias = "torch.distributed.device_mesh.DeviceMesh.get_group")]
    pub fn get_group(&self, dim: impl Into<MeshDim>) -> ProcessGroup {
        expect(self.try_get_group(Some(dim.into())))
    }
    /// [`DeviceMesh::get_group`] with an error instead of a panic; a grid of one dimension needs none named.
    ///
    /// # Errors
    /// No dimension named where there are several, an unknown one, a process outside of the grid.
    pub fn try_get_group(&self, dim: Option<MeshDim>) -> Result<ProcessGroup> {
        let at = match dim {
            None if self.ndim() > 1 => bail!(
                Runtime,
                "('Found the DeviceMesh have {} dimensions', 'Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.', 'If you want to get the list of all the ProcessGroups in the DeviceMesh,please use `get_all_groups()` instead.')",
                self.ndim()
            ),
            None => 0,
            Some(MeshDim::Name(n)) => {
                let joined = self.root().0.joined.lock().iter().find(|m| m.named(&n)).cloned();
                if let Some(j) = joined {
                    return j.try_get_group(None);
                }
                self.dim(&MeshDim::Name(n))?
            }
            Some(d) => self.dim(&d)?,
        };
        let group = self.0.groups.get(at).cloned().flatten();
        group.ok_or_else(|| Error::runtime("DeviceMesh process groups not initialized!"))
    }
    fn named(&self, name: &str) -> bool {
        self.0.names.as_deref().is_some_and(|n| n.len() == 1 && n[0] == name)
    }
    /// The groups of this process's lines along all dimensions.
    ///
    /// # Errors
    /// A process outside of the grid.
    #[doc(alias = "torch.distributed.device_mesh.DeviceMesh.get_all_groups")]
    pub fn get_all_groups(&self) -> Result<Vec<ProcessGroup>> {
        (0..self.ndim()).map(|i| self.try_get_group(Some(MeshDim::Place(i as i64)))).collect()
    }
    /// This process's rank in its line along a dimension.
    ///
    /// # Errors
    /// As [`DeviceMesh::try_get_group`].
    #[doc(alias = "torch.distributed.device_mesh.DeviceMesh.get_local_rank")]
    pub fn get_local_rank(&self, dim: Option<MeshDim>) -> Result<i64> {
        ensure!(
            dim.is_some() || self.ndim() == 1,
            Runtime,
            "('Found the DeviceMesh have {} dimensions', 'Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.')",
            self.ndim()
        );
        Ok(self.try_get_group(dim)?.rank())
    }
    /// The grid of some of the dimensions that this process is in: Python's `mesh["dp", "tp"]`.
    ///
    /// # Errors
    /// A grid without names, unknown names, names in another order than the grid's.
    pub fn slice(&self, mesh_dim_names: &[&str]) -> Result<DeviceMesh> {
        let Some(names) = self.0.names.as_deref() else {
            bail!(Runtime, "Cannot slice a DeviceMesh without mesh_dim_names!")
        };
        let asked: Vec<String> = mesh_dim_names.iter().map(|n| (*n).to_owned()).collect();
        if let [one] = mesh_dim_names {
            let joined = self.root().0.joined.lock().iter().find(|m| m.named(one)).cloned();
            if let Some(j) = joined {
                return Ok(j);
            }
        }
        let mut dims = Vec::new();
        for n in &asked {
            match names.iter().position(|x| x == n) {
                Some(i) => dims.push(i),
                None => {
                    let mut valid = names.to_vec();
                    let joined = self.root().0.joined.lock().clone();
                    valid.extend(joined.iter().filter_map(|m| m.0.names.clone()).flatten());
                    return Err(unknown(&asked, &valid));
                }
            }
        }
        if dims.windows(2).any(|w| w[0] >= w[1]) {
            return Err(key(format!(
                "Invalid mesh_dim_names {} specified. Mesh dim indices should be in ascending order.",
                tuple(&asked)
            )));
        }
        if dims.len() == names.len() {
            return Ok(self.clone());
        }
        let plain = contiguous(&self.0.shape);
        // the places that share this process's place along the other dimensions
        let here = self.0.coordinate.clone().unwrap_or_else(|| vec![0; self.ndim()]);
        let ranks = (0..self.0.ranks.len())
            .filter(|at| {
                (0..self.ndim())
                    .all(|d| dims.contains(&d) || *at as i64 / plain[d] % self.0.shape[d] == here[d])
            })
            .map(|at| self.0.ranks[at])
            .collect();
        let pick = |l: &[i64]| dims.iter().map(|d| l[*d]).collect::<Vec<_>>();
        let groups = dims.iter().map(|d| self.0.groups[*d].clone()).collect();
        let (shape, strides) = (pick(&self.0.shape), pick(&self.0.strides));
        Ok(DeviceMesh::of(
            &self.0.device_type,
            ranks,
            &shape,
            strides,
            Some(asked),
            groups,
            Some(self.root()),
        ))
    }
    /// A grid of one dimension of all this grid's places, under a name. All processes of the grid call this.
    ///
    /// # Errors
    /// A grid without names, a name that a dimension has, what making a group meets.
    pub fn flatten(&self, mesh_dim_name: Option<&str>) -> Result<DeviceMesh> {
        let Some(names) = self.0.names.as_deref() else {
            bail!(Runtime, "Cannot flatten a DeviceMesh without mesh_dim_names!")
        };
        let name = mesh_dim_name.map_or_else(|| names.join("_"), str::to_owned);
        if self.ndim() == 1 && names[0] == name {
            return Ok(self.clone());
        }
        let root = self.root();
        let known = root.0.joined.lock().iter().find(|m| m.named(&name)).cloned();
        if let Some(k) = known {
            return Ok(k);
        }
        ensure!(
            !root.0.names.as_deref().unwrap_or_default().contains(&name),
            Value,
            "{name} already exists for submesh of the {root}. The mesh_dim_names of submesh and flattened mesh are {}. Please specify another valid mesh_dim_name.",
            tuple(root.0.names.as_deref().unwrap_or_default())
        );
        let default = World::current().default_group()?;
        let shape = [self.size()];
        let mut sorted = self.0.ranks.clone();
        sorted.sort_unstable();
        let group = if sorted == (0..default.size()).collect::<Vec<_>>() {
            Some(default)
        } else {
            // all of the root's processes make the groups of all such grids
            let dims: Vec<usize> =
                names.iter().filter_map(|n| root.0.names.as_deref()?.iter().position(|x| x == n)).collect();
            let plain = contiguous(&root.0.shape);
            let mut families: Vec<(Vec<i64>, Vec<i64>)> = Vec::new();
            for (at, r) in root.0.ranks.iter().enumerate() {
                let others: Vec<i64> = (0..root.ndim())
                    .filter(|d| !dims.contains(d))
                    .map(|d| at as i64 / plain[d] % root.0.shape[d])
                    .collect();
                match families.iter_mut().find(|f| f.0 == others) {
                    Some(f) => f.1.push(*r),
                    None => families.push((others, vec![*r])),
                }
            }
            let mut mine = None;
            for (_, members) in families {
                let g = try_new_group(&members, NewGroupOptions::new().group_desc(format!("mesh_{name}")))?;
                if g.is_member() {
                    mine = Some(g);
                }
            }
            mine
        };
        let least = self.0.strides.iter().min().copied().unwrap_or(1);
        let made = DeviceMesh::of(
            &self.0.device_type,
            self.0.ranks.clone(),
            &shape,
            vec![least],
            Some(vec![name]),
            vec![group],
            Some(root.clone()),
        );
        root.0.joined.lock().push(made.clone());
        Ok(made)
    }
}
/// A KeyError, which Python prints as the representation of its text.
fn key(text: String) -> Error {
    Error::new(flambeau_core::ErrorKind::Index, format!("\"{text}\""))
}
fn unknown(asked: &[String], valid: &[String]) -> Error {
    let shown: Vec<String> = valid.iter().map(|n| format!("'{n}'")).collect();
    key(format!(
        "Invalid mesh_dim_names {} specified. Valid mesh_dim_names are [{}].",
        tuple(asked),
        shown.join(", ")
    ))
}
impl fmt::Display for DeviceMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = &self.0;
        let shape = match &m.names {
            Some(n) => {
                let all: Vec<String> = n.iter().zip(&m.shape).map(|(n, s)| format!("{n}={s}")).collect();
                format!("({})", all.join(", "))
            }
            None => numbers(&m.shape),
        };
        write!(f, "DeviceMesh({shape}, '{}', stride={})", m.device_type, numbers(&m.strides))
    }
}
impl fmt::Debug for DeviceMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
