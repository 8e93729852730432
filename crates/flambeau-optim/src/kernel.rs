//! From tensors to the slices that the fused steps work on.

use flambeau_core::access::Access;
use flambeau_core::{DType, Device, Error, MemoryFormat, Result, Tensor, ops};
use flambeau_cpu::{Any, AnyMut};

/// A complex tensor as its real parts; any other as it is.
fn real(t: &Tensor) -> Result<Tensor> {
    if t.is_complex() { ops::view_as_real(&ops::resolve_conj(t)?) } else { Ok(t.clone()) }
}

/// Runs a fused step over a parameter, its gradient and the tensors that the step keeps, as flat slices of one dtype.
/// `f` gets the gradient, the parameter, and the state slices in their order.
///
/// # Errors
/// A gradient of another size, dtypes that the fused steps do not have, tensors that are borrowed.
pub(crate) fn fused(
    name: &str,
    p: &Tensor,
    grad: &Tensor,
    state: &[&Tensor],
    f: impl FnOnce(Any<'_>, AnyMut<'_>, Vec<AnyMut<'_>>) -> Option<Result<(), String>>,
) -> Result<()> {
    if p.device() != Device::Cpu {
        return Err(Error::missing(format!("{name}: parameters on {}", p.device())));
    }
    if !matches!(p.dtype(), DType::F32 | DType::F64 | DType::C64 | DType::C128) {
        return Err(Error::missing(format!("{name}: parameters of dtype {}", p.dtype())));
    }
    let _no_grad = flambeau_autograd::no_grad_guard();
    let target = real(p)?;
    // the kernels walk row-major memory; other layouts go through a copy
    let work = if target.is_contiguous() {
        target.clone()
    } else {
        ops::clone(&target, Some(MemoryFormat::Contiguous))?
    };
    let grad = real(grad)?;
    if grad.sizes() != target.sizes() || grad.dtype() != target.dtype() {
        return Err(Error::shape(format!(
            "{name}: a gradient of {} {} does not fit a parameter of {} {}",
            flambeau_core::geometry::fmt_sizes(grad.sizes()),
            grad.dtype(),
            flambeau_core::geometry::fmt_sizes(target.sizes()),
            target.dtype()
        )));
    }
    let mut grad = ops::resolve_neg(&ops::contiguous(&grad, MemoryFormat::Contiguous)?)?;
    if grad.storage().same(work.storage()) {
        grad = ops::clone(&grad, Some(MemoryFormat::Contiguous))?;
    }
    let state: Vec<Tensor> = state.iter().map(|t| real(t)).collect::<Result<_>>()?;
    {
        let outs: Vec<&Tensor> = std::iter::once(&work).chain(&state).collect();
        let access = Access::new(&[&grad], &outs)?;
        let rest = (1..outs.len()).map(|i| access.any_mut(i)).collect::<Result<Vec<_>>>()?;
        let done = f(access.any(0)?, access.any_mut(0)?, rest);
        done.unwrap_or_else(|| Err(format!("{name}: dtypes of a parameter and its state differ")))
            .map_err(Error::runtime)?;
    }
    if !work.is_same(&target) {
        ops::copy_(&target, &work, false)?;
    }
    Ok(())
}

/// Zeros of the parameter's size for a step to keep, row-major.
pub(crate) fn zeros(p: &Tensor) -> Result<Tensor> {
    Tensor::zeros_raw(p.sizes(), p.dtype(), p.device())
}
