//! Convolutions by NVIDIA's cuDNN of version 9 or later, loaded at run time where it is there: by its graphs of one operation,
//! which are how PyTorch calls it too. A convolution that it has no engine for is left to kernels of our own.
#![allow(unsafe_code)]

use super::Address;
use flambeau_core::types::order::{Mutex, MutexGuard};
use flambeau_core::{DType, Result};
use libloading::Library;
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError};

/// What is computed from what.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Direction {
    Forward,
    /// The gradient of the image from that of the output, which is also what a transposed convolution computes.
    Image,
    /// The gradient of the weight.
    Weight,
}
/// A convolution of tensors that lie side by side, which says all that a plan depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Convolution {
    pub(crate) direction: Direction,
    pub(crate) dtype: DType,
    /// Dimensions beside those of samples and channels: two, or three. Only so many of the numbers below count.
    pub(crate) dims: usize,
    /// Sizes.
    pub(crate) image: [i64; 5],
    pub(crate) weight: [i64; 5],
    pub(crate) output: [i64; 5],
    pub(crate) stride: [i64; 3],
    pub(crate) pad: [i64; 3],
    pub(crate) dilation: [i64; 3],
    /// Whether float32 may be multiplied as TensorFloat-32.
    pub(crate) tf32: bool,
    /// Whether each call has to give the same bits.
    pub(crate) deterministic: bool,
    /// Whether the fastest of so many engines is found by trying; 0: of all.
    pub(crate) tried: Option<usize>,
}
/// Where image, weight and output lie.
pub(crate) type Places = [Address; 3];

type Raw = *mut c_void;
type Status = c_int;
/// Names and numbers are those of cuDNN's header `cudnn_graph.h`.
mod sys {
    pub const SUCCESS: i32 = 0;
    // kinds of descriptors
    pub const CONVOLUTION: i32 = 1;
    pub const ENGINE: i32 = 2;
    pub const ENGINE_CONFIG: i32 = 3;
    pub const HEURISTICS: i32 = 4;
    pub const PLAN: i32 = 5;
    pub const FORWARD: i32 = 10;
    pub const BACKWARD_FILTER: i32 = 11;
    pub const BACKWARD_DATA: i32 = 12;
    pub const GRAPH: i32 = 15;
    pub const PACK: i32 = 16;
    pub const TENSOR: i32 = 17;
    // kinds of attributes
    pub const OF_HANDLE: i32 = 0;
    pub const OF_DTYPE: i32 = 1;
    pub const OF_INT: i32 = 3;
    pub const OF_FLOAT: i32 = 4;
    pub const OF_DOUBLE: i32 = 5;
    pub const OF_POINTER: i32 = 6;
    pub const OF_CONVOLUTION_MODE: i32 = 7;
    pub const OF_HEURISTICS: i32 = 8;
    pub const OF_NOTE: i32 = 11;
    pub const OF_DESCRIPTOR: i32 = 15;
    // attributes
    pub const COMPUTED_IN: i32 = 100;
    pub const MODE: i32 = 101;
    pub const DILATIONS: i32 = 102;
    pub const STRIDES: i32 = 103;
    pub const PADS_BEHIND: i32 = 104;
    pub const PADS_BEFORE: i32 = 105;
    pub const DIMENSIONS: i32 = 106;
    pub const HEURISTICS_MODE: i32 = 200;
    pub const HEURISTICS_GRAPH: i32 = 201;
    pub const HEURISTICS_RESULTS: i32 = 202;
    pub const CONFIG_ENGINE: i32 = 300;
    pub const PLAN_HANDLE: i32 = 400;
    pub const PLAN_CONFIG: i32 = 401;
    pub const PLAN_WORKSPACE: i32 = 402;
    pub const GRAPH_HANDLE: i32 = 800;
    pub const GRAPH_OPERATIONS: i32 = 801;
    pub const TENSOR_ALIGNMENT: i32 = 900;
    pub const TENSOR_DTYPE: i32 = 901;
    pub const TENSOR_SIZES: i32 = 902;
    pub const TENSOR_STRIDES: i32 = 903;
    pub const TENSOR_NAME: i32 = 906;
    pub const PACK_NAMES: i32 = 1000;
    pub const PACK_POINTERS: i32 = 1001;
    pub const PACK_WORKSPACE: i32 = 1003;
    pub const ENGINE_NOTES: i32 = 1303;
    // values
    pub const CROSS_CORRELATION: i32 = 1;
    /// By rules that take little time; then engines that take whatever the others do not.
    pub const MODES: [i32; 2] = [3, 2];
    pub const NOTE_MATRIX_UNITS: i32 = 0;
    pub const NOTE_NARROWED: i32 = 1;
    pub const NOTE_NONDETERMINISTIC: i32 = 4;
    pub const NOTES: usize = 9;
}

/// The library's functions.
struct Functions {
    version: i64,
    create: unsafe extern "C" fn(*mut Raw) -> Status,
    set_stream: unsafe extern "C" fn(Raw, Raw) -> Status,
    descriptor: unsafe extern "C" fn(c_int, *mut Raw) -> Status,
    destroy: unsafe extern "C" fn(Raw) -> Status,
    set: unsafe extern "C" fn(Raw, c_int, c_int, i64, *const c_void) -> Status,
    get: unsafe extern "C" fn(Raw, c_int, c_int, i64, *mut i64, *mut c_void) -> Status,
    finalize: unsafe extern "C" fn(Raw) -> Status,
    execute: unsafe extern "C" fn(Raw, Raw, Raw) -> Status,
    _library: Library,
}
impl Functions {
    /// Those of the first library that has all of them.
    fn find() -> Option<Functions> {
        candidates()
            .iter()
            // SAFETY: NVIDIA's library has no initialisers that do more than set up its own state.
            .filter_map(|path| unsafe { Library::new(path).ok() })
            .find_map(|library| Functions::of(library).ok())
            .filter(|f| f.version >= 90_000)
    }
    fn of(library: Library) -> std::result::Result<Functions, libloading::Error> {
        // SAFETY: the library documents functions of these names with these types; the value keeps it loaded.
        unsafe {
            let version = library.get::<unsafe extern "C" fn() -> usize>(b"cudnnGetVersion\0")?();
            Ok(Functions {
                version: version as i64,
                create: *library.get(b"cudnnCreate\0")?,
                set_stream: *library.get(b"cudnnSetStream\0")?,
                descriptor: *library.get(b"cudnnBackendCreateDescriptor\0")?,
                destroy: *library.get(b"cudnnBackendDestroyDescriptor\0")?,
                set: *library.get(b"cudnnBackendSetAttribute\0")?,
                get: *library.get(b"cudnnBackendGetAttribute\0")?,
                finalize: *library.get(b"cudnnBackendFinalize\0")?,
                execute: *library.get(b"cudnnBackendExecute\0")?,
                _library: library,
            })
        }
    }
}
/// Where the library may be: where the system looks, where `CUDNN_PATH` says, and where NVIDIA's Python packages put it, beside the
/// folders that `LD_LIBRARY_PATH` names and in the environment that is active. Its parts are found beside it.
fn candidates() -> Vec<PathBuf> {
    let name = if cfg!(windows) { "cudnn64_9.dll" } else { "libcudnn.so.9" };
    let mut all = vec![PathBuf::from(name)];
    let of = |variable: &str| std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from);
    all.extend(["lib", "lib64", "bin"].iter().filter_map(|d| Some(of("CUDNN_PATH")?.join(d).join(name))));
    // nvidia/cu13/lib and nvidia/cublas/lib have nvidia/cudnn/lib beside them
    let listed = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let beside = |d: &Path| Some(d.parent()?.parent()?.join("cudnn/lib").join(name));
    all.extend(std::env::split_paths(&listed).filter_map(|d| beside(&d)));
    for root in ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|v| of(v)) {
        let versions = std::fs::read_dir(root.join("lib")).into_iter().flatten().flatten();
        let packages = versions.filter(|d| d.file_name().to_string_lossy().starts_with("python3"));
        all.extend(packages.map(|d| d.path().join("site-packages/nvidia/cudnn/lib").join(name)));
    }
    all
}
fn functions() -> Option<&'static Functions> {
    static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
    FOUND.get_or_init(Functions::find).as_ref()
}
/// The version of cuDNN that is there, as PyTorch says it: 91002 is 9.10.2.
pub(crate) fn version() -> Option<i64> {
    functions().map(|f| f.version)
}

/// What a call was refused for. It never leaves this module: whoever gets one goes on with another engine.
struct Refused;
type Tried<T> = std::result::Result<T, Refused>;
fn check(r: Status) -> Tried<()> {
    if r == sys::SUCCESS { Ok(()) } else { Err(Refused) }
}
/// A description of something, of which the library keeps the memory.
struct Descriptor {
    raw: Raw,
    f: &'static Functions,
}
// SAFETY: descriptors are plain memory of the library, which any thread may use, one at a time: after they are made they are only
// read, under the lock around the library's handle.
unsafe impl Send for Descriptor {}
// SAFETY: as for Send.
unsafe impl Sync for Descriptor {}
impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: was made once and is destroyed here alone.
        unsafe { (self.f.destroy)(self.raw) };
    }
}
impl Descriptor {
    fn new(f: &'static Functions, kind: i32) -> Tried<Descriptor> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle.
        check(unsafe { (f.descriptor)(kind, &mut raw) })?;
        if raw.is_null() { Err(Refused) } else { Ok(Descriptor { raw, f }) }
    }
    /// Sets an attribute to values, whose type is that of `kind`.
    fn set<T>(self, attribute: i32, kind: i32, values: &[T]) -> Tried<Descriptor> {
        // SAFETY: reads as many values as it is told, of the type that the callers below know for `kind`.
        check(unsafe {
            (self.f.set)(self.raw, attribute, kind, values.len() as i64, values.as_ptr().cast())
        })?;
        Ok(self)
    }
    fn ints(self, attribute: i32, values: &[i64]) -> Tried<Descriptor> {
        self.set(attribute, sys::OF_INT, values)
    }
    fn part(self, attribute: i32, part: &Descriptor) -> Tried<Descriptor> {
        self.set(attribute, sys::OF_DESCRIPTOR, &[part.raw])
    }
    /// A number as factors of this dtype are given.
    fn factor(self, attribute: i32, dtype: DType, v: f64) -> Tried<Descriptor> {
        match dtype {
            DType::F64 => self.set(attribute, sys::OF_DOUBLE, &[v]),
            _ => self.set(attribute, sys::OF_FLOAT, &[v as f32]),
        }
    }
    fn done(self) -> Tried<Descriptor> {
        // SAFETY: takes a description that was made.
        check(unsafe { (self.f.finalize)(self.raw) })?;
        Ok(self)
    }
    /// Reads values of an attribute: how many there are, at most as many as there is room for.
    fn get<T>(&self, attribute: i32, kind: i32, into: &mut [T]) -> Tried<usize> {
        let mut n = 0;
        // SAFETY: writes as many values as it is told at most, of the type that the callers below know for `kind`.
        check(unsafe {
            (self.f.get)(self.raw, attribute, kind, into.len() as i64, &mut n, into.as_mut_ptr().cast())
        })?;
        Ok((n.max(0) as usize).min(into.len()))
    }
}
/// A way to compute a convolution.
struct Plan {
    descriptor: Descriptor,
    /// Bytes that it works in.
    workspace: usize,
}
/// What is known of a convolution.
#[derive(Default)]
struct Known {
    /// Engines that were not tried yet, the likely best first.
    left: VecDeque<Descriptor>,
    plan: Option<Arc<Plan>>,
}
struct State {
    handle: Raw,
    known: HashMap<(Convolution, u32), Known>,
}
// SAFETY: the library takes its handle from any thread, one at a time; the lock around the state sees to that.
unsafe impl Send for State {}
/// More convolutions than this are not kept.
const KNOWN: usize = 4096;
/// Engines that are asked for at most.
const ENGINES: usize = 64;
/// Runs of an engine whose best time counts.
const RUNS: usize = 3;

/// The library for one device.
pub(crate) struct Convolutions {
    f: &'static Functions,
    state: Mutex<State>,
}
/// What a call needs of its driver: the stream's handle, memory to work in, and how long something takes there in milliseconds.
pub(crate) trait Surroundings {
    fn stream(&self) -> *mut c_void;
    /// Memory that stays until the call is over.
    ///
    /// # Errors
    /// There is not as much.
    fn workspace(&mut self, nbytes: usize) -> Result<Address>;
    /// Whether the stream records, so that nothing can be timed.
    fn records(&self) -> bool;
    /// # Errors
    /// Of the driver.
    fn timed(&self, f: &mut dyn FnMut()) -> Result<f64>;
}

impl Convolutions {
    /// The library, for the context that is current. `None` where there is none.
    pub(crate) fn new() -> Option<Convolutions> {
        let f = functions()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle.
        check(unsafe { (f.create)(&mut handle) }).ok()?;
        Some(Convolutions { f, state: Mutex::new(State { handle, known: HashMap::new() }) })
    }
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Queues a convolution. `false` where the library has no engine for it, or no memory for one.
    ///
    /// # Errors
    /// Of the driver, while engines are timed.
    pub(crate) fn run(&self, c: &Convolution, at: Places, s: &mut dyn Surroundings) -> Result<bool> {
        // what the addresses have in common, as far as engines care
        let aligned = 1 << at.iter().fold(16u64, |a, b| a | b).trailing_zeros();
        let mut key = (*c, aligned);
        if s.records() {
            key.0.tried = None;
        }
        if !self.known(&key) {
            return Ok(false);
        }
        if key.0.tried.is_some() {
            self.choose(&key, at, s)?;
        }
        while let Some(plan) = self.plan(&key) {
            let Ok(workspace) = s.workspace(plan.workspace) else { return Ok(false) };
            if self.execute(&plan, at, workspace, s.stream()).is_ok() {
                return Ok(true);
            }
            self.give_up(&key, &plan);
        }
        Ok(false)
    }
    /// Asks for engines where nobody did yet; whether there is an answer.
    fn known(&self, key: &(Convolution, u32)) -> bool {
        let mut state = self.lock();
        if state.known.contains_key(key) {
            return true;
        }
        if state.known.len() >= KNOWN {
            state.known.clear();
        }
        // a refusal is kept as well: it would be the same the next time
        let left = self.engines(state.handle, key).unwrap_or_default();
        state.known.insert(*key, Known { left, plan: None });
        true
    }
    /// The plan that is in use, or the next one that can be made.
    fn plan(&self, key: &(Convolution, u32)) -> Option<Arc<Plan>> {
        let mut state = self.lock();
        let handle = state.handle;
        let known = state.known.get_mut(key)?;
        while known.plan.is_none() {
            let engine = known.left.pop_front()?;
            known.plan = self.planned(handle, &engine).ok().map(Arc::new);
        }
        known.plan.clone()
    }
    /// No longer uses a plan that was refused when it ran.
    fn give_up(&self, key: &(Convolution, u32), plan: &Arc<Plan>) {
        if let Some(known) = self.lock().known.get_mut(key)
            && known.plan.as_ref().is_some_and(|p| Arc::ptr_eq(p, plan))
        {
            known.plan = None;
        }
    }
    /// Tries engines, once for each convolution, and keeps the fastest.
    fn choose(&self, key: &(Convolution, u32), at: Places, s: &mut dyn Surroundings) -> Result<()> {
        let plans: Vec<Plan> = {
            let mut state = self.lock();
            let handle = state.handle;
            let Some(known) = state.known.get_mut(key) else { return Ok(()) };
            let limit = match key.0.tried {
                Some(n) if n > 0 => n,
                _ => usize::MAX,
            };
            // for who comes meanwhile there is no plan yet: our own kernels serve that call
            let all = std::mem::take(&mut known.left);
            if known.plan.is_some() || all.is_empty() {
                known.left = all;
                return Ok(());
            }
            all.iter().filter_map(|e| self.planned(handle, e).ok()).take(limit).collect()
        };
        let mut timed = Vec::with_capacity(plans.len());
        for plan in plans {
            // what finds no memory is left out
            let Ok(workspace) = s.workspace(plan.workspace) else { continue };
            let mut ok = true;
            let mut run = || ok = ok && self.execute(&plan, at, workspace, s.stream()).is_ok();
            // the first run loads what the engine needs
            let mut best = f64::INFINITY;
            for k in 0..=RUNS {
                let time = s.timed(&mut run)?;
                best = if k == 0 { best } else { best.min(time) };
            }
            if ok {
                timed.push((best, plan));
            }
        }
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let Some(known) = self.lock().known.get_mut(key) {
            known.plan = timed.into_iter().next().map(|t| Arc::new(t.1));
        }
        Ok(())
    }
    fn execute(&self, plan: &Plan, at: Places, workspace: Address, stream: Raw) -> Tried<()> {
        let pointer = |a: Address| std::ptr::with_exposed_provenance_mut::<c_void>(a as usize);
        let pack = Descriptor::new(self.f, sys::PACK)?
            .set(sys::PACK_POINTERS, sys::OF_POINTER, &at.map(pointer))?
            .ints(sys::PACK_NAMES, &NAMES)?
            .set(sys::PACK_WORKSPACE, sys::OF_POINTER, &[pointer(workspace)])?
            .done()?;
        let state = self.lock();
        // SAFETY: the plan is for tensors of these sizes, whose memory is as large as the caller's tensors say; the workspace is
        // as large as the plan wants and stays until the stream has used it; the handle is used by one thread at a time.
        unsafe {
            check((self.f.set_stream)(state.handle, stream))?;
            check((self.f.execute)(state.handle, plan.descriptor.raw, pack.raw))
        }
    }
    fn planned(&self, handle: Raw, engine: &Descriptor) -> Tried<Plan> {
        let descriptor = Descriptor::new(self.f, sys::PLAN)?
            .set(sys::PLAN_HANDLE, sys::OF_HANDLE, &[handle])?
            .part(sys::PLAN_CONFIG, engine)?
            .done()?;
        let mut bytes = [0i64];
        descriptor.get(sys::PLAN_WORKSPACE, sys::OF_INT, &mut bytes)?;
        Ok(Plan { descriptor, workspace: bytes[0].max(0) as usize })
    }
    /// Engines for a convolution, the likely fastest first, without those that its wishes exclude.
    fn engines(&self, handle: Raw, (c, aligned): &(Convolution, u32)) -> Tried<VecDeque<Descriptor>> {
        let graph = self.graph(handle, c, i64::from(*aligned))?;
        let mut all = VecDeque::new();
        for mode in sys::MODES {
            let heuristics = Descriptor::new(self.f, sys::HEURISTICS)?
                .part(sys::HEURISTICS_GRAPH, &graph)?
                .set(sys::HEURISTICS_MODE, sys::OF_HEURISTICS, &[mode])?;
            // one of the two may know nothing
            let Ok(heuristics) = heuristics.done() else { continue };
            let room: Vec<Descriptor> =
                (0..ENGINES).map(|_| Descriptor::new(self.f, sys::ENGINE_CONFIG)).collect::<Tried<_>>()?;
            let mut raw: Vec<Raw> = room.iter().map(|d| d.raw).collect();
            let Ok(n) = heuristics.get(sys::HEURISTICS_RESULTS, sys::OF_DESCRIPTOR, &mut raw) else {
                continue;
            };
            all.extend(room.into_iter().take(n).filter(|e| self.suits(c, e).unwrap_or(true)));
        }
        Ok(all)
    }
    /// Whether an engine does what is wished; by PyTorch's rules.
    fn suits(&self, c: &Convolution, config: &Descriptor) -> Tried<bool> {
        let engine = Descriptor::new(self.f, sys::ENGINE)?;
        config.get(sys::CONFIG_ENGINE, sys::OF_DESCRIPTOR, &mut [engine.raw])?;
        let mut notes = [-1i32; sys::NOTES];
        let n = engine.get(sys::ENGINE_NOTES, sys::OF_NOTE, &mut notes)?;
        let has = |note| notes[..n].contains(&note);
        Ok(!(c.deterministic && has(sys::NOTE_NONDETERMINISTIC)
            || has(sys::NOTE_NARROWED)
            || c.dtype == DType::F32 && !c.tf32 && has(sys::NOTE_MATRIX_UNITS)))
    }
    fn graph(&self, handle: Raw, c: &Convolution, aligned: i64) -> Tried<Descriptor> {
        let (f, dims) = (self.f, c.dims);
        let element = match c.dtype {
            DType::F32 => 0,
            DType::F64 => 1,
            DType::F16 => 2,
            DType::BF16 => 9,
            _ => return Err(Refused),
        };
        let tensor = |sizes: &[i64; 5], name: i64| {
            let sizes = &sizes[..2 + dims];
            let mut strides = vec![1; sizes.len()];
            for d in (1..sizes.len()).rev() {
                strides[d - 1] = strides[d] * sizes[d];
            }
            Descriptor::new(f, sys::TENSOR)?
                .set(sys::TENSOR_DTYPE, sys::OF_DTYPE, &[element])?
                .ints(sys::TENSOR_SIZES, sizes)?
                .ints(sys::TENSOR_STRIDES, &strides)?
                .ints(sys::TENSOR_NAME, &[name])?
                .ints(sys::TENSOR_ALIGNMENT, &[aligned])?
                .done()
        };
        let tensors =
            [tensor(&c.image, NAMES[0])?, tensor(&c.weight, NAMES[1])?, tensor(&c.output, NAMES[2])?];
        // halves are summed in float32
        let sums = if c.dtype == DType::F64 { 1 } else { 0 };
        let convolution = Descriptor::new(f, sys::CONVOLUTION)?
            .set(sys::COMPUTED_IN, sys::OF_DTYPE, &[sums])?
            .set(sys::MODE, sys::OF_CONVOLUTION_MODE, &[sys::CROSS_CORRELATION])?
            .ints(sys::DIMENSIONS, &[dims as i64])?
            .ints(sys::DILATIONS, &c.dilation[..dims])?
            .ints(sys::STRIDES, &c.stride[..dims])?
            .ints(sys::PADS_BEFORE, &c.pad[..dims])?
            .ints(sys::PADS_BEHIND, &c.pad[..dims])?
            .done()?;
        // the numbers of all three operations' attributes have one order: factors of the sum and of what was there before, the
        // convolution, weight, image, output
        let (kind, first) = match c.direction {
            Direction::Forward => (sys::FORWARD, 700),
            Direction::Image => (sys::BACKWARD_DATA, 706),
            Direction::Weight => (sys::BACKWARD_FILTER, 712),
        };
        let [image, weight, output] = &tensors;
        let operation = Descriptor::new(f, kind)?
            .factor(first, c.dtype, 1.0)?
            .factor(first + 1, c.dtype, 0.0)?
            .part(first + 2, &convolution)?
            .part(first + 3, weight)?
            .part(first + 4, image)?
            .part(first + 5, output)?
            .done()?;
        Descriptor::new(f, sys::GRAPH)?
            .set(sys::GRAPH_HANDLE, sys::OF_HANDLE, &[handle])?
            .part(sys::GRAPH_OPERATIONS, &operation)?
            .done()
    }
}
/// How plans call image, weight and output.
const NAMES: [i64; 3] = [1, 2, 3];
