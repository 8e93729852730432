//! Softmax and log-softmax.

use super::scan::around;
use crate::backend::cpu::access::Access;
use crate::backend::out::OutMeta;
use crate::backend::transfer::contiguous_raw;
use crate::generated::args;
use crate::tensor::geometry::wrap_dim;
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::{DType, Error, ensure, ops};
use flambeau_cpu::softmax::erased;
use flambeau_cpu::{Any, AnyMut};

fn meta(self_: &Tensor, dim: i64, half_to_float: bool) -> Result<OutMeta> {
    ensure!(!half_to_float, Runtime, "softmax with half to float conversion is not supported on CPU");
    wrap_dim(dim, self_.dim())?;
    Ok(OutMeta::of(self_.sizes(), self_.dtype(), self_.device()))
}
type Forward = fn(Any<'_>, usize, usize, usize, AnyMut<'_>) -> Option<()>;
/// PyTorch has kernels of two names: over the last dimension, and over another.
fn named(label: &str, x: &Tensor, dim: i64) -> Result<Error> {
    let last = wrap_dim(dim, x.dim())? + 1 >= x.dim();
    let label = if last { label.to_owned() } else { label.replace("_lastdim", "") };
    Ok(Error::not_implemented_for(&label, x.dtype()))
}
fn forward(label: &str, self_: &Tensor, dim: i64, out: &Tensor, kernel: Forward) -> Result<()> {
    if self_.numel() == 0 {
        return Ok(());
    }
    let x = contiguous_raw(self_)?;
    let g = around(&x, wrap_dim(dim, x.dim())?);
    let a = Access::new(&[&x], &[out])?;
    match kernel(a.any(0)?, g.outer, g.n, g.inner, a.any_mut(0)?) {
        Some(()) => Ok(()),
        None => Err(named(label, &x, dim)?),
    }
}
type Backward = fn(Any<'_>, Any<'_>, usize, usize, usize, AnyMut<'_>) -> Option<()>;
fn backward(label: &str, grad: &Tensor, y: &Tensor, dim: i64, out: &Tensor, kernel: Backward) -> Result<()> {
    if y.numel() == 0 {
        return Ok(());
    }
    let (dy, y) = (contiguous_raw(grad)?, contiguous_raw(y)?);
    let g = around(&y, wrap_dim(dim, y.dim())?);
    let a = Access::new(&[&dy, &y], &[out])?;
    kernel(a.any(0)?, a.any(1)?, g.outer, g.n, g.inner, a.any_mut(0)?)
        .ok_or_else(|| Error::not_implemented_for(label, y.dtype()))
}
macro_rules! softmaxes {
    ($($F:ident $meta:ident $cpu:ident $B:ident $bmeta:ident $bcpu:ident $api:ident $prim:ident $label:literal $kernel:ident $bkernel:ident;)*) => {$(
        #[doc = concat!("`_", stringify!($api), "`")]
        pub fn $meta(&args::$F { self_, dim, half_to_float }: &args::$F) -> Result<OutMeta> {
            meta(self_, dim, half_to_float)
        }
        #[doc = concat!("`_", stringify!($api), "`")]
        pub fn $cpu(&args::$F { self_, dim, .. }: &args::$F, out: &Tensor) -> Result<()> {
            forward($label, self_, dim, out, erased::$kernel)
        }
        #[doc = concat!("`_", stringify!($api), "_backward_data`")]
        pub fn $bmeta(&args::$B { grad_output, output, dim, input_dtype }: &args::$B) -> Result<OutMeta> {
            ensure!(
                grad_output.sizes() == output.sizes() && input_dtype == output.dtype(),
                Shape,
                "gradient and output of softmax must have the same sizes and dtype"
            );
            meta(output, dim, false)
        }
        #[doc = concat!("`_", stringify!($api), "_backward_data`")]
        pub fn $bcpu(&args::$B { grad_output, output, dim, .. }: &args::$B, out: &Tensor) -> Result<()> {
            backward($label, grad_output, output, dim, out, erased::$bkernel)
        }
        #[doc = concat!("`", stringify!($api), ".int`")]
        pub fn $api(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
            match dtype {
                Some(d) if d != self_.dtype() => {
                    ops::$prim(&ops::to(self_, Some(d), None, None, None, false, false, None)?, dim, false)
                }
                _ => ops::$prim(self_, dim, false),
            }
        }
    )*};
}
softmaxes! {
    SoftmaxData softmax_data_shape softmax_data_cpu SoftmaxBackwardData softmax_backward_data_shape softmax_backward_data_cpu softmax softmax_data
        "softmax_lastdim_kernel_impl" softmax softmax_backward;
    LogSoftmaxData log_softmax_data_shape log_softmax_data_cpu LogSoftmaxBackwardData log_softmax_backward_data_shape log_softmax_backward_data_cpu log_softmax log_softmax_data
        "log_softmax_lastdim_kernel_impl" log_softmax log_softmax_backward;
}

/// `_safe_softmax`
pub fn safe_softmax(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<Tensor> {
    let x = self_.alias_detached();
    let y = ops::softmax(&x, dim, dtype)?;
    if y.numel() == 0 || !x.dtype().is_floating() {
        return Ok(y);
    }
    let least = crate::tensor::wrapped_number::wrapped_number(f64::NEG_INFINITY.into())?;
    let empty = ops::eq(&ops::amax(&x, &[dim], true)?, &least)?;
    ops::masked_fill_(&y, &empty, crate::Scalar::Int(0))?;
    Ok(y)
}
