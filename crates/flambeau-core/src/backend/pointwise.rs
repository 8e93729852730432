//! The one way of pointwise operators: promotion, broadcasting, allocation, overlap checks, and the kernel of the device
//! that the operands are on.

use super::cpu::{execute, small};
use super::transfer::{cast_to, copy_into, on_host, resolve_lazy, to_vec};
use crate::DType;
use crate::dispatch::op::Kernels;
use crate::iter::layout::{broadcast_all, common_device, output_strides};
use crate::iter::overlap::{check_written, overlaps_partially};
use crate::iter::spec::{Label, MAX_OPERANDS, PointwiseCall, PointwiseKernel, PointwiseSpec, Promote, Rare};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::schema::OutDtype;
use flambeau_cpu::pointwise::{Loop, Param};
use smallvec::SmallVec;
use std::borrow::Cow;

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
pub fn pointwise<const N: usize, const P: usize>(
    spec: &'static PointwiseSpec,
    inputs: &[&Tensor; N],
    params: &[Param; P],
) -> Result<Tensor> {
    match small::way::<N, P>(spec, inputs).filter(|_| real(params)) {
        Some(way) => small::fresh(&way, inputs, params),
        None => pointwise_typed(spec, None, inputs, params),
    }
}

/// The short way into a fresh tensor, where it serves.
pub(super) fn small_fresh<const N: usize, const P: usize>(
    spec: &'static PointwiseSpec,
    inputs: &[&Tensor; N],
    params: &[Param; P],
) -> Result<Option<Tensor>> {
    let way = small::way::<N, P>(spec, inputs).filter(|_| real(params));
    way.map(|way| small::fresh(&way, inputs, params)).transpose()
}
/// Whether all numbers are real: others than complex elements refuse those that are not.
fn real(params: &[Param]) -> bool {
    params.iter().all(|p| p.im == 0.0)
}

/// Runs a pointwise operator in an explicitly given dtype (`None`: by its promotion rule) into a fresh tensor.
pub fn pointwise_typed(
    spec: &'static PointwiseSpec,
    compute: Option<DType>,
    inputs: &[&Tensor],
    params: &[Param],
) -> Result<Tensor> {
    planned(spec, &spec.kernels, compute, inputs, params)
}
/// [`pointwise_typed`] with other kernels than the formula's on devices that are not built in.
pub(super) fn planned(
    spec: &'static PointwiseSpec,
    kernels: &'static Kernels<PointwiseKernel>,
    compute: Option<DType>,
    inputs: &[&Tensor],
    params: &[Param],
) -> Result<Tensor> {
    run(spec, kernels, compute, inputs, params, None).map(|t| t.expect("a fresh output was asked for"))
}

/// Runs a pointwise operator into its first input.
///
/// # Errors
/// As [`pointwise`]; and when the result's shape or dtype does not fit.
pub fn pointwise_inplace<const N: usize, const P: usize>(
    spec: &'static PointwiseSpec,
    inputs: &[&Tensor; N],
    params: &[Param; P],
) -> Result<()> {
    if N == 0 {
        return Err(number_of_operands(spec));
    }
    if let Some(way) = small::way::<N, P>(spec, inputs)
        && real(params)
        && small::in_place(&way, inputs, params)?
    {
        return Ok(());
    }
    run(spec, &spec.kernels, None, inputs, params, Some(inputs[0])).map(drop)
}
/// Runs a pointwise operator in an explicitly given dtype (`None`: by its promotion rule) into an existing tensor of the
/// right shape.
///
/// # Errors
/// As [`pointwise_inplace`].
pub fn pointwise_into(
    spec: &'static PointwiseSpec,
    compute: Option<DType>,
    inputs: &[&Tensor],
    params: &[Param],
    into: &Tensor,
) -> Result<()> {
    planned_into(spec, &spec.kernels, compute, inputs, params, into)
}
/// [`pointwise_into`] with other kernels than the formula's on devices that are not built in.
pub(super) fn planned_into(
    spec: &'static PointwiseSpec,
    kernels: &'static Kernels<PointwiseKernel>,
    compute: Option<DType>,
    inputs: &[&Tensor],
    params: &[Param],
    into: &Tensor,
) -> Result<()> {
    run(spec, kernels, compute, inputs, params, Some(into)).map(drop)
}

/// Runs a pointwise operator into `out`, which is resized to fit.
///
/// # Errors
/// As [`pointwise`]; and when the result's dtype cannot be cast to `out`'s.
pub fn pointwise_out(
    spec: &'static PointwiseSpec,
    rule: &OutDtype,
    inputs: &[&Tensor],
    params: &[Param],
    out: &mut Tensor,
) -> Result<()> {
    pointwise_out_typed(spec, rule, None, inputs, params, out)
}
/// [`pointwise_out`] in an explicitly given dtype.
pub fn pointwise_out_typed(
    spec: &'static PointwiseSpec,
    rule: &OutDtype,
    compute: Option<DType>,
    inputs: &[&Tensor],
    params: &[Param],
    out: &mut Tensor,
) -> Result<()> {
    planned_out(spec, &spec.kernels, rule, compute, inputs, params, out)
}
/// [`pointwise_out_typed`] with other kernels than the formula's on devices that are not built in.
pub(super) fn planned_out(
    spec: &'static PointwiseSpec,
    kernels: &'static Kernels<PointwiseKernel>,
    rule: &OutDtype,
    compute: Option<DType>,
    inputs: &[&Tensor],
    params: &[Param],
    out: &mut Tensor,
) -> Result<()> {
    if inputs.len() != spec.kernel.inputs {
        return Err(number_of_operands(spec));
    }
    let shape = broadcast_all(inputs)?;
    let result = match compute {
        Some(d) => d,
        None => spec.compute_dtype(inputs)?,
    };
    if let Some(l) = spec.find(result) {
        // a real number made of a complex one is cast, whatever the operator asks of others
        let real = result.is_complex() && l.out.is_floating();
        let rule = if real { &OutDtype::Cast } else { rule };
        super::out::check_out_dtype(rule, l.out, out.dtype())?;
    }
    super::out::resize_output(out, &shape)?;
    run(spec, kernels, compute, inputs, params, Some(out)).map(drop)
}

fn run(
    spec: &'static PointwiseSpec,
    kernels: &'static Kernels<PointwiseKernel>,
    compute: Option<DType>,
    inputs: &[&Tensor],
    params: &[Param],
    into: Option<&Tensor>,
) -> Result<Option<Tensor>> {
    if inputs.len() != spec.kernel.inputs || inputs.is_empty() || inputs.len() >= MAX_OPERANDS {
        return Err(number_of_operands(spec));
    }
    // sizes are judged before dtypes
    let shape = broadcast_all(inputs)?;
    let device = common_device(inputs)?;
    let compute = match compute {
        Some(d) => d,
        None => spec.compute_dtype(inputs)?,
    };
    let Some(l) = spec.find(compute).filter(|_| !spec.refuses(compute, inputs)) else {
        if let Some(out) = into.filter(|_| spec.keeps_dtype()) {
            // whether the result can be written is asked before whether there is a loop
            check_written(out, &shape, compute, device)?;
        }
        return Err(spec.refusal(compute, inputs));
    };
    if !l.run.takes(inputs.len(), params.len()) {
        return Err(number_of_operands(spec));
    }
    if let Some(out) = into {
        check_written(out, &shape, l.out, device)?;
    }
    if (compute.is_floating() || compute.is_integral(false)) && !real(params) {
        return Err(crate::types::scalar::too_large(compute));
    }
    if device != Device::Cpu && device != Device::Meta {
        return elsewhere(spec, kernels, compute, l, inputs, params, into, &shape, device);
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
    // products and quotients of halves and a number are rounded once
    let number = |i: &&usize| inputs[**i].dim() == 0 && inputs[**i].dtype() != compute;
    let halves = matches!(compute, DType::F16 | DType::BF16);
    let l = match spec.kernel.numbers().iter().find(number) {
        Some(i) if halves && !inputs[*i].is_complex() => l.with_number(*i),
        _ => l,
    };
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

/// On a device that is not built in: the back end's kernel, or, in calls that the library makes for itself, the CPU's over
/// copies.
#[cold]
fn elsewhere(
    spec: &'static PointwiseSpec,
    kernels: &'static Kernels<PointwiseKernel>,
    compute: DType,
    l: Loop,
    inputs: &[&Tensor],
    params: &[Param],
    into: Option<&Tensor>,
    shape: &[i64],
    device: Device,
) -> Result<Option<Tensor>> {
    let (fresh, direct) = match into {
        Some(out) if out.dtype() == l.out && !out.is_conj() && !out.is_neg() => (out.clone(), true),
        _ => (Tensor::empty_strided_raw(shape, &output_strides(shape, inputs), l.out, device)?, false),
    };
    let own = match kernels.get(device) {
        Some(kernel) => Some(kernel),
        None => super::elements::of(device).and_then(|e| e.pointwise(spec)),
    };
    match own {
        Some(kernel) => {
            let ready = |(i, t): (usize, &&Tensor)| -> Result<Tensor> {
                let t = resolve_lazy(t)?;
                let shared = direct && overlaps_partially(&fresh, &t)?;
                if t.device() == device && t.dtype() == l.ins[i] && !shared {
                    return Ok(t);
                }
                if t.dim() == 0 && t.device() == Device::Cpu {
                    let own = of_dtype(&t, l.ins[i])?;
                    if let Some(e) = super::elements::of(device)
                        && let Some(kept) = e.constant(&own, device)?
                    {
                        return Ok(kept);
                    }
                }
                let moved = Tensor::empty_raw(t.sizes(), l.ins[i], device)?;
                copy_into(&moved, &t)?;
                Ok(moved)
            };
            let inputs = inputs.iter().enumerate().map(ready).collect::<Result<SmallVec<[Tensor; 3]>>>()?;
            kernel(&PointwiseCall { spec, compute, out: &fresh, inputs: &inputs, params })?;
            if direct {
                fresh.storage().bump_version();
            }
        }
        None => {
            let inputs = inputs.iter().map(|t| on_host(t)).collect::<Result<SmallVec<[Tensor; 3]>>>()?;
            let inputs: SmallVec<[&Tensor; 3]> = inputs.iter().collect();
            let made = pointwise_typed(spec, Some(compute), &inputs, params)?;
            copy_into(&fresh, &made)?;
        }
    }
    match into {
        Some(_) if direct => Ok(None),
        Some(out) => copy_into(out, &fresh).map(|()| None),
        None => Ok(Some(fresh)),
    }
}

/// A number of the host in another dtype.
fn of_dtype(t: &Tensor, dtype: DType) -> Result<Tensor> {
    if t.dtype() == dtype {
        return Ok(t.clone());
    }
    let own = Tensor::empty_raw(&[], dtype, Device::Cpu)?;
    copy_into(&own, t)?;
    Ok(own)
}

/// A call with fewer operands than the formula reads, or more.
#[cold]
fn number_of_operands(spec: &PointwiseSpec) -> Error {
    Error::runtime(format!(
        "{}: the formula takes {} tensors and {} numbers",
        spec.name, spec.kernel.inputs, spec.kernel.params
    ))
}

/// Refuses zeros among integer divisors.
fn no_zero(divisor: &Tensor) -> Result<()> {
    static ANY_ZERO: PointwiseSpec = PointwiseSpec {
        name: "any_zero",
        label: Label::plain("logical_not_cpu"),
        kernel: &flambeau_cpu::pointwise::LOGICAL_NOT,
        promote: Promote::Default,
        rare: Rare::UNSIGNED,
        kernels: Kernels::new(&[]),
    };
    let zeros = pointwise(&ANY_ZERO, &[divisor], &[])?;
    if to_vec::<crate::B8>(&zeros)?.iter().any(|z| z.get()) {
        return Err(Error::runtime("ZeroDivisionError"));
    }
    Ok(())
}

/// Writes one number to every element.
pub fn fill(spec: &'static PointwiseSpec, out: &Tensor, value: Param) -> Result<()> {
    if out.device() == Device::Meta || out.numel() == 0 {
        return Ok(());
    }
    if out.device() != Device::Cpu {
        let one = Tensor::empty_raw(&[], out.dtype(), Device::Cpu)?;
        fill(spec, &one, value)?;
        if !out.is_conj()
            && !out.is_neg()
            && let Some(elements) = super::elements::of(out.device())
            && one.storage().with_bytes(|b| elements.fill(out, b))??
        {
            out.storage().bump_version();
            return Ok(());
        }
        return copy_into(out, &super::transfer::to_device(one, out.device())?);
    }
    let l = spec.find(out.dtype()).ok_or_else(|| Error::not_implemented_for(spec.label.name, out.dtype()))?;
    if !l.run.takes(0, 1) || l.out != out.dtype() {
        return Err(number_of_operands(spec));
    }
    let value = match (out.is_conj(), out.is_neg()) {
        (false, false) => value,
        (c, n) => {
            let s = if n { -1.0 } else { 1.0 };
            Param { re: s * value.re, im: if c { -s } else { s } * value.im, int: value.int }
        }
    };
    execute(l.run, spec.kernel.cost, out, false, out.sizes(), &[], &[value])
}
