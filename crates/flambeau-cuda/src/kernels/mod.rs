//! Kernels: sources, their compiled modules, arguments and launches. A family of kernels/ has a module here.

pub(crate) mod attention;
pub(crate) mod blas;
pub(crate) mod conv;
pub(crate) mod copy;
pub(crate) mod creation;
pub(crate) mod ctc;
mod dense;
pub(crate) mod dropout;
pub(crate) mod embedding;
pub(crate) mod indexing;
pub(crate) mod joining;
pub(crate) mod linalg;
pub(crate) mod linear;
pub(crate) mod lists;
pub(crate) mod loss;
pub(crate) mod norm;
pub(crate) mod optim;
pub(crate) mod padding;
pub(crate) mod pointwise;
pub(crate) mod pool;
pub(crate) mod random;
pub(crate) mod reduction;
pub(crate) mod rnn;
pub(crate) mod scan;
pub(crate) mod softmax;
pub(crate) mod sorting;
pub(crate) mod vision;

use crate::device::{self, here};
use crate::driver::{Function, Module, Shape, driver};
use crate::{fault, memory};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Error, Result, Tensor};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, OnceLock, PoisonError};

/// Arguments of a kernel: the fields of its struct, one after the other, each as aligned as it is large.
#[derive(Default)]
pub(crate) struct Args(Vec<u8>);
impl Args {
    pub(crate) fn new() -> Args {
        // as much as most kernels take
        Args(Vec::with_capacity(768))
    }
    /// Arguments that were written before.
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Args {
        self.0.extend_from_slice(bytes);
        self
    }
    pub(crate) fn int(mut self, v: i64) -> Args {
        self.0.extend_from_slice(&v.to_ne_bytes());
        self
    }
    pub(crate) fn word(self, v: u64) -> Args {
        self.int(v as i64)
    }
    pub(crate) fn number(self, v: f64) -> Args {
        self.word(v.to_bits())
    }
    pub(crate) fn geometry(mut self, g: &Geometry) -> Args {
        let out = &mut self.0;
        out.reserve(8 * (3 + DIMS * (2 + OPERANDS) + OPERANDS));
        let dims = g.sizes.len();
        for w in [g.n, dims as i64, g.mode()] {
            out.extend(w.to_ne_bytes());
        }
        row(out, &g.sizes);
        let divisions: [(u32, u32); DIMS] =
            std::array::from_fn(|d| g.sizes.get(d).map_or((0, 0), |n| division(*n)));
        divisions.iter().for_each(|d| out.extend(d.0.to_ne_bytes()));
        divisions.iter().for_each(|d| out.extend(d.1.to_ne_bytes()));
        for k in 0..OPERANDS {
            row(out, g.strides.get(k).map_or(&[][..], Vec::as_slice));
        }
        for k in 0..OPERANDS {
            out.extend(g.start.get(k).copied().unwrap_or(0).to_ne_bytes());
        }
        self
    }
}

/// As many words as there may be dimensions.
fn row(out: &mut Vec<u8>, v: &[i64]) {
    v.iter().for_each(|w| out.extend(w.to_ne_bytes()));
    out.resize(out.len() + 8 * (DIMS - v.len()), 0);
}
/// Division by a number as a product and a shift, for dividends below 2^31 (Granlund and Montgomery, PLDI 1994).
fn division(by: i64) -> (u32, u32) {
    let by = by.clamp(1, i64::from(i32::MAX)) as u64;
    let shift = 64 - (by - 1).leading_zeros();
    let factor = ((((1u64 << shift) - by) << 32) / by + 1) as u32;
    (factor, shift)
}
/// As in kernels/device/base.cuh.
pub(crate) const DIMS: usize = 12;
const OPERANDS: usize = 4;
/// Where the elements of operands lie that share the sizes of a call.
pub(crate) struct Geometry {
    pub(crate) n: i64,
    pub(crate) sizes: Vec<i64>,
    /// In bytes, a list for each operand.
    strides: Vec<Vec<i64>>,
    pub(crate) start: Vec<u64>,
    /// Sizes of the operands' elements in bytes; 0: not said.
    elements: Vec<i64>,
}
impl Geometry {
    /// Whether kernels move 16 bytes at once.
    pub(crate) fn packed(&self) -> bool {
        self.mode() >= 2
    }
    /// Whether all operands lie side by side.
    pub(crate) fn dense(&self) -> bool {
        self.mode() == 2
    }
    /// How kernels find places: WIDE, SHORT, DENSE and PACKED of kernels/device/base.cuh.
    fn mode(&self) -> i64 {
        let short = i64::from(self.n < i64::from(i32::MAX));
        let Some(last) = self.sizes.len().checked_sub(1) else { return short };
        let widest = self.elements.iter().copied().max().unwrap_or(0);
        let narrowest = self.elements.iter().copied().min().unwrap_or(0);
        if self.elements.len() != self.strides.len() || !(1..=16).contains(&widest) {
            return short;
        }
        let side_by_side = |(s, e): (&Vec<i64>, &i64)| s[last] == *e;
        let operands = || self.strides.iter().zip(&self.elements);
        if last == 0 && operands().all(side_by_side) && self.start.iter().all(|s| s % 16 == 0) {
            return 2;
        }
        // whole packs in a row, for the operands of the smallest elements too
        let fits = |(k, (s, e)): (usize, (&Vec<i64>, &i64))| {
            s[last] == 0 && k > 0
                || s[last] == *e && s[..last].iter().all(|s| s % 16 == 0) && self.start[k].is_multiple_of(16)
        };
        match short == 1
            && self.sizes[last] % (16 / narrowest.max(1)) == 0
            && operands().enumerate().all(fits)
        {
            true => 3,
            false => short,
        }
    }
    /// An operand's strides but the innermost.
    pub(crate) fn strides_but_last(&self, operand: usize) -> &[i64] {
        let s = self.strides.get(operand).map_or(&[][..], Vec::as_slice);
        &s[..s.len().saturating_sub(1)]
    }
    /// Where an operand starts.
    pub(crate) fn start_of(&self, operand: usize) -> u64 {
        self.start.get(operand).copied().unwrap_or(0)
    }
    /// Of operands that broadcast to `sizes`. `None` where there are too many dimensions, also after those are joined that lie
    /// one after the other.
    ///
    /// # Errors
    /// An operand that lies outside of its memory or on another device.
    pub(crate) fn of(sizes: &[i64], operands: &[&Tensor]) -> Result<Option<Geometry>> {
        let strides: Vec<Vec<i64>> = operands
            .iter()
            .map(|t| {
                let missing = sizes.len() - t.dim();
                let size = t.dtype().size() as i64;
                let of = |d: usize| match d.checked_sub(missing) {
                    Some(i) if t.sizes()[i] != 1 => t.strides()[i] * size,
                    _ => 0,
                };
                (0..sizes.len()).map(of).collect()
            })
            .collect();
        let start = operands.iter().map(|t| address(t)).collect::<Result<Vec<_>>>()?;
        let found = Geometry::joined(sizes, &strides, start);
        Ok(found
            .map(|g| Geometry { elements: operands.iter().map(|t| t.dtype().size() as i64).collect(), ..g }))
    }
    /// An operand's stride along the innermost dimension.
    pub(crate) fn stride(&self, operand: usize) -> Option<i64> {
        self.strides.get(operand)?.last().copied()
    }
    /// The same with larger units of 16, 8, 4 or 2 bytes in the place of elements of `size` bytes, and their size: where the
    /// innermost elements of the operands `moved` lie side by side, and those of all others in one place. `steps`: further
    /// distances between elements of those.
    pub(crate) fn widened(mut self, size: usize, moved: usize, steps: &[i64]) -> (Geometry, usize) {
        let Some(last) = self.sizes.len().checked_sub(1) else { return (self, size) };
        let side_by_side = |(k, st): (usize, &Vec<i64>)| st[last] == if k < moved { size as i64 } else { 0 };
        if !self.strides.iter().enumerate().all(side_by_side) {
            return (self, size);
        }
        let fits = |unit: usize| {
            let whole = |b: i64| (b.unsigned_abs() as usize).is_multiple_of(unit);
            let all =
                |k: usize| whole(self.start[k] as i64) && self.strides[k][..last].iter().all(|s| whole(*s));
            unit > size
                && whole(self.sizes[last] * size as i64)
                && (0..moved).all(all)
                && steps.iter().all(|s| whole(*s))
        };
        let Some(unit) = [16, 8, 4, 2].into_iter().find(|u| fits(*u)) else { return (self, size) };
        let times = (unit / size) as i64;
        self.sizes[last] /= times;
        self.n /= times;
        for k in 0..moved {
            self.strides[k][last] = unit as i64;
        }
        self.elements = Vec::new();
        (self, unit)
    }
    /// Of operands by their strides in bytes.
    pub(crate) fn joined(sizes: &[i64], strides: &[Vec<i64>], start: Vec<u64>) -> Option<Geometry> {
        let operands = strides;
        let mut joined: Vec<i64> = Vec::new();
        let mut steps: Vec<Vec<i64>> = vec![Vec::new(); operands.len()];
        for d in 0..sizes.len() {
            if sizes[d] == 1 {
                continue;
            }
            let follows = !joined.is_empty()
                && steps.iter().zip(strides).all(|(s, st)| s.last().is_some_and(|l| *l == st[d] * sizes[d]));
            if follows && let Some(last) = joined.last_mut() {
                *last *= sizes[d];
                steps.iter_mut().zip(strides).for_each(|(s, st)| {
                    if let Some(l) = s.last_mut() {
                        *l = st[d];
                    }
                });
            } else {
                joined.push(sizes[d]);
                steps.iter_mut().zip(strides).for_each(|(s, st)| s.push(st[d]));
            }
        }
        if joined.len() > DIMS {
            return None;
        }
        Some(Geometry {
            n: sizes.iter().product(),
            sizes: joined,
            strides: steps,
            start,
            elements: Vec::new(),
        })
    }
}

/// The address of a tensor's first element, for a kernel of the thread's stream. All elements lie within the tensor's memory.
///
/// # Errors
/// Another device; memory that is too short.
pub(crate) fn address(t: &Tensor) -> Result<u64> {
    let d = device::ordinal(t.device())?;
    if t.numel() == 0 {
        return Ok(0);
    }
    let stream = here(d)?;
    let found = t.storage().with_handle(|handle| {
        let span: i64 = 1 + t.sizes().iter().zip(t.strides()).map(|(n, s)| (n - 1) * s).sum::<i64>();
        let size = t.dtype().size();
        memory::used(handle, stream)?.range(t.storage_offset() as usize * size, span as usize * size)
    })?;
    found.unwrap_or_else(|| Err(Error::device(format!("a tensor on {} has no memory", t.device()))))
}

/// The tensor as a dense one without lazy bits: itself where it is.
///
/// # Errors
/// Of the copy.
pub(crate) fn dense(t: &Tensor) -> Result<Tensor> {
    let plain = t.is_contiguous() && !t.is_conj() && !t.is_neg();
    if plain { Ok(t.clone()) } else { flambeau_core::backend::matrices::rows(t) }
}
/// The tensor without lazy bits: itself where it has none.
///
/// # Errors
/// Of the copy.
pub(crate) fn resolved(t: &Tensor) -> Result<Tensor> {
    if t.is_conj() || t.is_neg() { flambeau_core::backend::matrices::rows(t) } else { Ok(t.clone()) }
}
/// The tensor in a dtype, without lazy bits.
///
/// # Errors
/// Of the copy.
pub(crate) fn cast(t: &Tensor, dtype: DType) -> Result<Tensor> {
    if t.dtype() == dtype {
        return resolved(t);
    }
    let out = Tensor::empty_raw(t.sizes(), dtype, t.device())?;
    flambeau_core::backend::matrices::write(&out, t)?;
    Ok(out)
}
/// A dimension counted from the front; 0 of a tensor without any.
pub(crate) fn wrapped(dim: i64, rank: usize) -> usize {
    if dim < 0 { (dim + rank.max(1) as i64).max(0) as usize } else { dim as usize }
}
/// The C++ name of a dtype's elements; `None` for those that kernels have none for.
pub(crate) fn element(d: DType) -> Option<&'static str> {
    Some(match d {
        DType::U8 => "u8",
        DType::I8 => "i8",
        DType::I16 => "i16",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::U16 => "u16",
        DType::U32 => "u32",
        DType::U64 => "u64",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::Bool => "b8",
        DType::C32 => "pair<f16>",
        DType::BC32 => "pair<bf16>",
        DType::C64 => "pair<float>",
        DType::C128 => "pair<double>",
        DType::F8E4M3 => "e4m3",
        DType::F8E5M2 => "e5m2",
        _ => return None,
    })
}
/// Opaque elements of as many bytes.
pub(crate) fn opaque(size: usize) -> &'static str {
    match size {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        8 => "u64",
        _ => "bytes16",
    }
}

/// The compiled module of a source.
///
/// # Errors
/// Of the compiler.
fn module(device: usize, source: &str) -> Result<Arc<Module>> {
    type Known = Mutex<HashMap<(usize, String), Arc<OnceLock<std::result::Result<Arc<Module>, Error>>>>>;
    static KNOWN: OnceLock<Known> = OnceLock::new();
    let known = KNOWN.get_or_init(Mutex::default);
    let cell = {
        let mut all = known.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry((device, source.to_string())).or_default().clone()
    };
    // compiling takes long: only who wants the same module waits
    cell.get_or_init(|| driver()?.load(device, source).map(Arc::new)).clone()
}
/// What tells a kernel from all others without its text: its family, the address of the formula that it computes where the family
/// has several, and the dtypes or other small numbers that its text is made for.
#[derive(Clone, Copy)]
pub(crate) struct Which(pub(crate) &'static str, pub(crate) usize, pub(crate) [u8; 4]);
impl Which {
    /// Its small numbers at once.
    fn small(&self) -> u32 {
        u32::from_ne_bytes(self.2)
    }
}
impl PartialEq for Which {
    fn eq(&self, other: &Which) -> bool {
        // a family by the place of its name: the same name at two places makes two entries of one kernel
        std::ptr::eq(self.0, other.0) && self.1 == other.1 && self.small() == other.small()
    }
}
impl Eq for Which {}
impl Hash for Which {
    fn hash<H: Hasher>(&self, to: &mut H) {
        to.write_u64(self.0.as_ptr().addr() as u64 ^ (self.1 as u64).rotate_left(32));
        to.write_u64(u64::from(self.small()));
    }
}
/// A hash of a few words that are known to be apart: addresses and small numbers of our own.
#[derive(Default)]
pub(crate) struct Mixed(u64);
impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }
    fn write_u64(&mut self, v: u64) {
        // Fibonacci hashing (Knuth 6.4); the map takes both ends of the word
        self.0 = (self.0.rotate_left(23) ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_usize(&mut self, v: usize) {
        self.write_u64(v as u64);
    }
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
/// A map of keys that nobody outside chooses.
pub(crate) type Quick<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;
thread_local! {
    /// How many launches this thread asked for.
    pub(crate) static LAUNCHES: Cell<u64> = const { Cell::new(0) };
    /// Kernels that this thread launched before.
    static FOUND: RefCell<Quick<(usize, Which), Function>> = RefCell::default();
}
/// A number in all readings, as `Param` of kernels/device/base.cuh; zeros for none.
pub(crate) fn scalar(list: Args, v: Option<flambeau_core::Scalar>) -> Args {
    let p = v.map(flambeau_core::Scalar::param);
    list.number(p.map_or(0.0, |p| p.re)).number(p.map_or(0.0, |p| p.im)).int(p.map_or(0, |p| p.int))
}
/// Threads for `n` elements.
pub(crate) fn shape(n: i64) -> Shape {
    let threads = (n.clamp(1, 256) as u64).next_multiple_of(32);
    Shape { threads: threads as u32, blocks: (n.max(1) as u64).div_ceil(threads).min(1 << 20) as u32 }
}
/// What a kernel leaves to the CPU, counted as what has no kernel at all.
///
/// # Errors
/// Of the copies and of the operator.
pub(crate) fn by_the_cpu(
    name: &'static str,
    inputs: &[&Tensor],
    out: &Tensor,
    compute: impl FnOnce(&[Tensor]) -> Result<Tensor>,
) -> Result<()> {
    crate::count(name);
    let host =
        inputs.iter().map(|t| flambeau_core::backend::transfer::on_host(t)).collect::<Result<Vec<_>>>()?;
    flambeau_core::backend::matrices::write(out, &compute(&host)?)
}
/// Launches a kernel on the thread's stream: `text` gives its source and its name there, and is asked at the first launch of
/// `which`. `CUDA_LAUNCH_BLOCKING=1` waits for it, so that its errors are its call's.
///
/// # Errors
/// Of the compiler and the launch.
pub(crate) fn launch(
    device: usize,
    which: Which,
    text: impl FnOnce() -> (String, String),
    shape: Shape,
    args: Args,
) -> Result<()> {
    launch_with_shared(device, which, 0, text, shape, args)
}
/// [`launch`] of a kernel whose blocks want `shared` bytes of shared memory beside what it declares.
///
/// # Errors
/// Of the compiler and the launch.
pub(crate) fn launch_with_shared(
    device: usize,
    which: Which,
    shared: u32,
    text: impl FnOnce() -> (String, String),
    shape: Shape,
    args: Args,
) -> Result<()> {
    lists::flush()?;
    LAUNCHES.set(LAUNCHES.get() + 1);
    let (driver, stream) = (driver()?, here(device)?);
    let queue = |f: &Function| driver.launch(device, stream, f, shape, &args.0);
    let known = FOUND.try_with(|all| all.borrow().get(&(device, which)).map(queue)).ok().flatten();
    match known {
        Some(queued) => queued?,
        None => {
            let (source, name) = text();
            crate::archive::note(&source, &name);
            let mut f = driver.find(device, &module(device, &source)?, &name)?;
            if shared > 0 {
                driver.grant_shared(&mut f, shared)?;
            }
            queue(&f)?;
            // a thread that ends keeps nothing
            let _ = FOUND.try_with(|all| all.borrow_mut().insert((device, which), f));
        }
    }
    static BLOCKING: OnceLock<bool> = OnceLock::new();
    if *BLOCKING.get_or_init(|| std::env::var("CUDA_LAUNCH_BLOCKING").is_ok_and(|v| v == "1")) {
        driver.wait(device, stream)?;
        fault::check(device)?;
    }
    Ok(())
}
