//! The one iterator of pointwise operators: broadcasting, promotion, allocation, overlap checks, dimension collapsing,
//! vectorised inner loops, parallel split.

pub mod out;
mod plan;
pub mod planned;
pub mod promotion;
mod small;

use crate::DType;
use crate::ops::copy::{cast_to, copy_into, resolve_lazy};
use crate::tensor::access::byte_extent;
use crate::tensor::geometry::{self, SizeVec, fmt_sizes};
use crate::tensor::handle::Tensor;
use crate::tensor::storage::busy;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use flambeau_cpu::pointwise::{LoopFn, Param, Pointwise, STREAM};
use flambeau_memory::Holds;
use plan::Plan;
use promotion::ResultTypeState;
use smallvec::SmallVec;
use std::borrow::Cow;

/// How the dtype that an operator computes in follows from its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promote {
    /// PyTorch's type promotion over all inputs.
    Default,
    /// The same, but integers and bool compute in the default float dtype.
    IntToFloat,
    /// Promotion over all inputs but the first, which is a mask.
    SkipFirst,
    /// The first input's dtype; the others are cast to it.
    First,
    /// As `Default`, from the last input to the first, which errors tell: the operator is another one the other way round.
    Reversed,
    /// As `Default`; an integer zero in the second input, the divisor, is an error.
    Divide,
}

/// A pointwise operator for the iterator.
pub struct PointwiseSpec {
    /// Name without overload.
    pub name: &'static str,
    /// What "not implemented for" errors call it.
    pub label: &'static str,
    /// Formulas.
    pub kernel: &'static Pointwise,
    /// Promotion rule.
    pub promote: Promote,
    /// The dtypes with few loops in PyTorch that it has one for.
    pub rare: Rare,
}

const MAX_OPERANDS: usize = 4;

/// Dtypes that PyTorch has few loops for: those in which an operator computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rare(u8);
impl Rare {
    /// In none of them.
    pub const NONE: Rare = Rare(0);
    /// Complex numbers of float16.
    pub const COMPLEX32: Rare = Rare(1);
    /// Complex numbers of bfloat16.
    pub const BCOMPLEX32: Rare = Rare(2);
    /// 8-bit floats.
    pub const FLOAT8: Rare = Rare(4);
    /// Unsigned integers beyond a byte.
    pub const UNSIGNED: Rare = Rare(8);
    /// In all of them.
    pub const ALL: Rare = Rare(15);
    /// These and others.
    pub const fn and(self, o: Rare) -> Rare {
        Rare(self.0 | o.0)
    }
    /// Where a dtype belongs; the common ones to none.
    #[inline]
    fn of(d: DType) -> Rare {
        match d {
            DType::C32 => Rare::COMPLEX32,
            DType::BC32 => Rare::BCOMPLEX32,
            DType::F8E4M3 | DType::F8E5M2 => Rare::FLOAT8,
            DType::U16 | DType::U32 | DType::U64 => Rare::UNSIGNED,
            _ => Rare::NONE,
        }
    }
}

impl PointwiseSpec {
    /// The loop for a dtype, if the operator has one.
    #[inline]
    fn find(&self, compute: DType) -> Option<flambeau_cpu::pointwise::Loop> {
        let rare = Rare::of(compute);
        if rare != Rare::NONE && self.rare.0 & rare.0 == 0 {
            return None;
        }
        self.kernel.find(compute)
    }
    /// What is said of a dtype without a loop. PyTorch has loops of their own, with another name, for narrow floats and a
    /// single number on the right.
    #[cold]
    fn refusal(&self, compute: DType, inputs: &[&Tensor]) -> Error {
        let narrow = matches!(compute, DType::F8E4M3 | DType::F8E5M2);
        let number = inputs.get(1).is_some_and(|t| t.numel() == 1);
        match self.label {
            "mul_cpu" | "div_cpu" | "div_floor_cpu" if narrow && number => {
                Error::not_implemented_for(&format!("{}_reduced_float", self.label), compute)
            }
            "deg2rad_cpu" | "rad2deg_cpu" if narrow => {
                Error::not_implemented_for("mul_cpu_reduced_float", compute)
            }
            "sgn_cpu" if !compute.is_complex() => Error::not_implemented_for("sign_cpu", compute),
            "sigmoid_cpu" if narrow => Error::not_implemented_for("sigmoid_cpu_reduced_float", compute),
            label => Error::not_implemented_for(label, compute),
        }
    }
    #[inline]
    fn compute_of_same(&self, d: DType) -> DType {
        match self.promote {
            Promote::IntToFloat if d.is_integral(true) => promotion::default_dtype(),
            _ => d,
        }
    }
    fn compute_dtype(&self, inputs: &[&Tensor]) -> Result<DType> {
        let skip = usize::from(self.promote == Promote::SkipFirst);
        if self.promote == Promote::First {
            return Ok(inputs[0].dtype());
        }
        let inputs = &inputs[skip.min(inputs.len() - 1)..];
        let first = inputs[0].dtype();
        let d = if inputs.iter().all(|t| t.dtype() == first && !t.is_wrapped_number()) {
            first
        } else {
            let mut s = ResultTypeState::default();
            if self.promote == Promote::Reversed {
                inputs.iter().rev().try_for_each(|t| s.tensor(t))?;
            } else {
                inputs.iter().try_for_each(|t| s.tensor(t))?;
            }
            s.finish()?
        };
        Ok(self.compute_of_same(d))
    }
}

/// `sum += g` where nobody else has a handle on `sum`, without dispatch: for the accumulation of gradients.
/// False, with nothing done, where the operator has to be called.
#[inline]
pub fn add_unshared(sum: &mut Tensor, g: &mut Tensor) -> bool {
    small::add_unshared(sum, g)
}

/// Runs a pointwise operator into a fresh tensor.
///
/// # Errors
/// Shapes that do not broadcast, dtypes that do not promote or have no kernel, devices that differ.
pub fn pointwise<const N: usize>(
    spec: &PointwiseSpec,
    inputs: &[&Tensor; N],
    params: &[Param],
) -> Result<Tensor> {
    match small::way(spec, inputs) {
        Some(way) => small::fresh(&way, inputs, params),
        None => pointwise_typed(spec, None, inputs, params),
    }
}

/// Non-temporal stores pay off when the operands together exceed what the caches will hold.
fn stream_flag(bytes: usize) -> u32 {
    if bytes > flambeau_cpu::engine::cache::stream_threshold() { STREAM } else { 0 }
}

/// Runs a pointwise operator in an explicitly given dtype (`None`: by its promotion rule) into a fresh tensor.
pub fn pointwise_typed(
    spec: &PointwiseSpec,
    compute: Option<DType>,
    inputs: &[&Tensor],
    params: &[Param],
) -> Result<Tensor> {
    run(spec, compute, inputs, params, None).map(|t| t.expect("a fresh output was asked for"))
}

/// Runs a pointwise operator into its first input.
///
/// # Errors
/// As [`pointwise`]; and when the result's shape or dtype does not fit.
pub fn pointwise_inplace<const N: usize>(
    spec: &PointwiseSpec,
    inputs: &[&Tensor; N],
    params: &[Param],
) -> Result<()> {
    if let Some(way) = small::way(spec, inputs)
        && small::in_place(&way, inputs, params)?
    {
        return Ok(());
    }
    run(spec, None, inputs, params, Some(inputs[0])).map(drop)
}
/// Runs a pointwise operator in an explicitly given dtype (`None`: by its promotion rule) into an existing tensor of the
/// right shape.
///
/// # Errors
/// As [`pointwise_inplace`].
pub fn pointwise_into(
    spec: &PointwiseSpec,
    compute: Option<DType>,
    inputs: &[&Tensor],
    params: &[Param],
    into: &Tensor,
) -> Result<()> {
    run(spec, compute, inputs, params, Some(into)).map(drop)
}

/// Runs a pointwise operator into `out`, which is resized to fit.
///
/// # Errors
/// As [`pointwise`]; and when the result's dtype cannot be cast to `out`'s.
pub fn pointwise_out(
    spec: &PointwiseSpec,
    inputs: &[&Tensor],
    params: &[Param],
    out: &mut Tensor,
) -> Result<()> {
    pointwise_out_typed(spec, None, inputs, params, out)
}
/// [`pointwise_out`] in an explicitly given dtype.
pub fn pointwise_out_typed(
    spec: &PointwiseSpec,
    compute: Option<DType>,
    inputs: &[&Tensor],
    params: &[Param],
    out: &mut Tensor,
) -> Result<()> {
    let shape = broadcast_all(inputs)?;
    let result = match compute {
        Some(d) => d,
        None => spec.compute_dtype(inputs)?,
    };
    if let Some(l) = spec.find(result) {
        // a real number made of a complex one is cast, whatever the operator asks of others
        let real = result.is_complex() && l.out.is_floating();
        let name = if real { "" } else { spec.name };
        crate::iter::out::check_out_dtype(name, l.out, out.dtype())?;
    }
    crate::iter::out::resize_output(out, &shape)?;
    run(spec, compute, inputs, params, Some(out)).map(drop)
}

/// The sizes that all inputs broadcast to.
pub fn broadcast_all(inputs: &[&Tensor]) -> Result<SizeVec> {
    let mut shape = SizeVec::from_slice(inputs[0].sizes());
    for t in &inputs[1..] {
        if t.sizes() != shape.as_slice() {
            shape = geometry::broadcast_shapes(&shape, t.sizes())?;
        }
    }
    Ok(shape)
}

/// The device that all inputs share; zero-dim CPU tensors go with any.
pub fn common_device(inputs: &[&Tensor]) -> Result<Device> {
    let mut dev = inputs[0].device();
    let mut decided = !(inputs[0].dim() == 0 && dev == Device::Cpu);
    for t in &inputs[1..] {
        let d = t.device();
        if d == dev || (t.dim() == 0 && d == Device::Cpu) {
            continue;
        }
        if !decided {
            dev = d;
            decided = true;
        } else {
            return Err(Error::device(format!(
                "Expected all tensors to be on the same device, but found at least two devices, {dev} and {d}!"
            )));
        }
    }
    Ok(dev)
}

fn run(
    spec: &PointwiseSpec,
    compute: Option<DType>,
    inputs: &[&Tensor],
    params: &[Param],
    into: Option<&Tensor>,
) -> Result<Option<Tensor>> {
    debug_assert!(inputs.len() < MAX_OPERANDS);
    // sizes are judged before dtypes
    let shape = broadcast_all(inputs)?;
    let device = common_device(inputs)?;
    let compute = match compute {
        Some(d) => d,
        None => spec.compute_dtype(inputs)?,
    };
    // products of narrow floats have a loop for tensors, and none for a single number on the right
    let narrow = matches!(compute, DType::F8E4M3 | DType::F8E5M2);
    let refused = narrow && spec.label == "mul_cpu" && inputs[1].numel() == 1;
    let l = spec.find(compute).filter(|_| !refused).ok_or_else(|| spec.refusal(compute, inputs))?;
    if let Some(out) = into {
        check_written(out, &shape, l.out, device)?;
    }
    if device == Device::Meta {
        return Ok(match into {
            Some(_) => None,
            None => {
                let st = output_strides(&shape, inputs);
                Some(Tensor::empty_strided_raw(&shape, &st, l.out, device)?)
            }
        });
    }
    // inputs in the dtype that the loop reads, without lazy bits
    let mut ready: SmallVec<[Cow<'_, Tensor>; 3]> = SmallVec::new();
    for (i, t) in inputs.iter().enumerate() {
        let mut t = if t.is_conj() || t.is_neg() { Cow::Owned(resolve_lazy(t)?) } else { Cow::Borrowed(*t) };
        if t.dtype() != l.ins[i] {
            t = Cow::Owned(cast_to(&t, l.ins[i])?);
        }
        if let Some(out) = into
            && overlaps_partially(out, &t)?
        {
            t = Cow::Owned(cast_to(&t, l.ins[i])?);
        }
        ready.push(t);
    }
    if spec.promote == Promote::Divide && compute.is_integral(false) {
        no_zero(&ready[1])?;
    }
    match into {
        Some(out) if out.dtype() == l.out && !out.is_conj() && !out.is_neg() => {
            execute(l.run, spec.kernel.cost, out, false, &shape, &ready, params)?;
            Ok(None)
        }
        Some(out) => {
            let tmp = Tensor::empty_raw(&shape, l.out, device)?;
            execute(l.run, spec.kernel.cost, &tmp, true, &shape, &ready, params)?;
            copy_into(out, &tmp)?;
            Ok(None)
        }
        None => {
            let st = output_strides(&shape, inputs);
            let out = Tensor::empty_strided_raw(&shape, &st, l.out, device)?;
            execute(l.run, spec.kernel.cost, &out, true, &shape, &ready, params)?;
            Ok(Some(out))
        }
    }
}

/// Refuses zeros among integer divisors.
fn no_zero(divisor: &Tensor) -> Result<()> {
    static ANY_ZERO: PointwiseSpec = PointwiseSpec {
        name: "any_zero",
        label: "logical_not_cpu",
        kernel: &flambeau_cpu::pointwise::LOGICAL_NOT,
        promote: Promote::Default,
        rare: Rare::UNSIGNED,
    };
    let zeros = pointwise(&ANY_ZERO, &[divisor], &[])?;
    if crate::ops::copy::to_vec::<crate::B8>(&zeros)?.iter().any(|z| z.get()) {
        return Err(Error::runtime("ZeroDivisionError"));
    }
    Ok(())
}

/// What any written-to tensor must satisfy.
pub fn check_written(out: &Tensor, shape: &[i64], dtype: DType, device: Device) -> Result<()> {
    if !promotion::can_cast(dtype, out.dtype()) {
        return Err(Error::dtype(format!(
            "result type {} can't be cast to the desired output type {}",
            dtype.scalar_type_name(),
            out.dtype().scalar_type_name()
        )));
    }
    if out.sizes() != shape {
        return Err(Error::shape(format!(
            "output with shape {} doesn't match the broadcast shape {}",
            fmt_sizes(out.sizes()),
            fmt_sizes(shape)
        )));
    }
    if out.device() != device {
        return Err(Error::device(format!(
            "Expected all tensors to be on the same device, but found at least two devices, {device} and {}!",
            out.device()
        )));
    }
    check_no_internal_overlap(out)
}
/// Refuses to write where several elements share one place.
pub fn check_no_internal_overlap(out: &Tensor) -> Result<()> {
    if geometry::has_internal_overlap(out.sizes(), out.strides()) {
        return Err(Error::storage(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. \
             Please clone() the tensor before performing the operation.",
        ));
    }
    Ok(())
}

/// `false`: disjoint or the very same elements. `true`: they may share some, so the input must be copied first.
///
/// # Errors
/// When both are dense and overlap in part: PyTorch refuses that.
fn overlaps_partially(out: &Tensor, input: &Tensor) -> Result<bool> {
    if !memory_meets(out, input) {
        return Ok(false);
    }
    if out.storage_offset() == input.storage_offset()
        && out.sizes() == input.sizes()
        && out.strides() == input.strides()
        && out.dtype() == input.dtype()
    {
        return Ok(false);
    }
    let dense = |t: &Tensor| geometry::is_non_overlapping_and_dense(t.sizes(), t.strides());
    if dense(out) && dense(input) {
        return Err(shared_memory());
    }
    Ok(true)
}
/// Outputs that share memory with an input.
#[cold]
pub fn shared_memory() -> Error {
    Error::storage(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory \
         location. Please clone() the tensor before performing the operation.",
    )
}
/// Whether the bytes between two tensors' first and last elements meet.
pub fn memory_meets(a: &Tensor, b: &Tensor) -> bool {
    if !a.storage().same(b.storage()) || a.numel() == 0 || b.numel() == 0 {
        return false;
    }
    let range = |t: &Tensor| {
        let s = t.storage_offset() * t.dtype().size() as i64;
        (s, s + geometry::span(t.sizes(), t.strides()) * t.dtype().size() as i64)
    };
    let ((a0, a1), (b0, b1)) = (range(a), range(b));
    a0 < b1 && b0 < a1
}

/// Strides in elements of `t` read as `shape`; 0 where it is broadcast.
fn broadcast_strides(t: &Tensor, shape: &[i64]) -> SizeVec {
    let extra = shape.len() - t.dim();
    let mut st = SizeVec::from_elem(0, shape.len());
    for i in 0..t.dim() {
        if !(t.sizes()[i] == 1 && shape[i + extra] != 1) {
            st[i + extra] = t.strides()[i];
        }
    }
    st
}

/// Dimensions from fastest to slowest, by the operands' strides: the first operand decides, later ones break ties.
fn dim_order(shape: &[i64], strides: &[SizeVec]) -> SmallVec<[usize; 6]> {
    let n = shape.len();
    let mut perm: SmallVec<[usize; 6]> = (0..n).rev().collect();
    let compare = |a: usize, b: usize| -> i32 {
        for st in strides {
            let (x, y) = (st[a], st[b]);
            if x == 0 || y == 0 {
                continue;
            }
            if x != y {
                return if x < y { -1 } else { 1 };
            }
            if shape[a] > shape[b] {
                return 1;
            }
        }
        0
    };
    for i in 1..n {
        let mut d1 = i;
        for d0 in (0..i).rev() {
            match compare(perm[d0], perm[d1]) {
                c if c > 0 => {
                    perm.swap(d0, d1);
                    d1 = d0;
                }
                c if c < 0 => break,
                _ => {}
            }
        }
    }
    perm
}

/// Strides of a fresh output: as the inputs where they agree, else in the order of the inputs' dimensions.
pub fn output_strides(shape: &[i64], inputs: &[&Tensor]) -> SizeVec {
    let same = |t: &&Tensor| t.sizes() == shape;
    if inputs.iter().all(|t| same(t) && t.is_contiguous()) {
        return geometry::contiguous_strides(shape);
    }
    let a = inputs[0];
    if inputs.iter().all(|t| same(t) && t.strides() == a.strides())
        && geometry::is_non_overlapping_and_dense(a.sizes(), a.strides())
    {
        return SizeVec::from_slice(a.strides());
    }
    let st: SmallVec<[SizeVec; 3]> = inputs.iter().map(|t| broadcast_strides(t, shape)).collect();
    let perm = dim_order(shape, &st);
    let order: SmallVec<[usize; 6]> = perm.iter().rev().copied().collect();
    geometry::strides_in_order(shape, &order)
}

/// Runs a loop over operands that are ready: right dtypes, inputs broadcastable to `shape`, no partial overlap.
pub(crate) fn execute<'t>(
    run: LoopFn,
    cost: u32,
    out: &Tensor,
    fresh: bool,
    shape: &[i64],
    inputs: &[Cow<'t, Tensor>],
    params: &[Param],
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let n_ops = inputs.len() + 1;
    let mut locks: SmallVec<[_; MAX_OPERANDS]> = inputs.iter().map(|t| (t.storage().lock(), false)).collect();
    if !fresh {
        locks.push((out.storage().lock(), true));
    }
    let _holds = Holds::of(&locks).map_err(busy)?;
    let mut ptrs = [std::ptr::null_mut::<u8>(); MAX_OPERANDS];
    let mut strides: SmallVec<[SizeVec; MAX_OPERANDS]> = SmallVec::new();
    let all = std::iter::once(out).chain(inputs.iter().map(|c| &**c));
    let mut bytes = 0;
    for (k, t) in all.enumerate() {
        let (p, n) = byte_extent(t)?;
        ptrs[k] = p;
        bytes += n;
        let item = t.dtype().size() as i64;
        // the stride of a single element may be anything; the others stay inside the storage
        let st = broadcast_strides(t, shape);
        strides.push(st.iter().zip(shape).map(|(s, n)| if *n == 1 { 0 } else { s * item }).collect());
    }
    let plan = Plan::new(shape, &strides, n_ops);
    let flags = if fresh { stream_flag(bytes) } else { 0 };
    // PyTorch writes through a view whose elements share memory, such as `unfold`; here one thread does it, because two
    // would race
    let alone = !fresh && !out.is_contiguous() && geometry::may_overlap(out.sizes(), out.strides());
    // SAFETY: operands are held (or fresh), their extents are checked, inputs do not overlap the output but as the
    // very same elements, and outputs that may overlap themselves have one thread.
    unsafe { plan.run(run, cost, &ptrs, params, flags, alone) };
    Ok(())
}

/// Writes one number to every element.
pub fn fill(spec: &PointwiseSpec, out: &Tensor, value: Param) -> Result<()> {
    if out.device() == Device::Meta || out.numel() == 0 {
        return Ok(());
    }
    let l = spec.find(out.dtype()).ok_or_else(|| Error::not_implemented_for(spec.label, out.dtype()))?;
    let value = match (out.is_conj(), out.is_neg()) {
        (false, false) => value,
        (c, n) => {
            let s = if n { -1.0 } else { 1.0 };
            Param { re: s * value.re, im: if c { -s } else { s } * value.im, int: value.int }
        }
    };
    execute(l.run, spec.kernel.cost, out, false, out.sizes(), &[], &[value])
}
