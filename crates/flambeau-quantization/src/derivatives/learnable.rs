//! Gradients of fake quantization by its input, its scale and its zero point.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::wrap_dim;
use flambeau_core::{DType, Result, Scalar, Tensor, ops};

/// What an input was rounded to, and where it left the range.
struct Rounded {
    scale: Tensor,
    zero: Tensor,
    /// Integers before they are cut to the range.
    whole: Tensor,
    low: Tensor,
    high: Tensor,
}
type Range = (i64, i64);
fn number(v: f64) -> Result<Tensor> {
    crate::tensor::number(v)
}
fn rounded(x: &Tensor, scale: &Tensor, zero: &Tensor, axis: Option<i64>, range: Range) -> Result<Rounded> {
    let mut sizes = vec![1; x.dim()];
    if let Some(a) = axis {
        sizes[wrap_dim(a, x.dim())?] = -1;
    }
    let wide = |t: &Tensor| ops::reshape(&t.alias_detached(), &sizes);
    let bound = |v: i64| Some(Scalar::Float(v as f64));
    let (scale, zero) = (wide(scale)?, wide(zero)?);
    let zero = ops::clamp(&ops::round(&zero)?, bound(range.0), bound(range.1))?;
    let steps = ops::mul(&x.alias_detached(), &ops::reciprocal(&scale)?)?;
    let whole = ops::round(&ops::add(&zero, &steps, Scalar::Int(1))?)?;
    let low = ops::lt(&whole, &number(range.0 as f64)?)?;
    let high = ops::gt(&whole, &number(range.1 as f64)?)?;
    Ok(Rounded { scale, zero, whole, low, high })
}
impl Rounded {
    fn outside(&self) -> Result<Tensor> {
        ops::logical_or(&self.low, &self.high)
    }
}
/// The sum over all elements that a parameter serves, in its sizes.
fn gathered(t: &Tensor, like: &Tensor, axis: Option<i64>, factor: f64) -> Result<Tensor> {
    let t = match axis {
        None => ops::sum(t, None, false, None)?,
        Some(a) => {
            let own = wrap_dim(a, t.dim())?;
            let others: Vec<i64> = (0..t.dim()).filter(|d| *d != own).map(|d| d as i64).collect();
            if others.is_empty() { t.clone() } else { ops::sum(t, Some(&others), false, None)? }
        }
    };
    ops::mul(&ops::reshape(&t, like.sizes())?, &number(factor)?)
}
/// By the input: what was in the range passes.
pub fn learnable_input(
    grad: &Tensor,
    x: &Tensor,
    scale: &Tensor,
    zero: &Tensor,
    axis: Option<i64>,
    quant_min: i64,
    quant_max: i64,
) -> Result<Tensor> {
    let r = rounded(x, scale, zero, axis, (quant_min, quant_max))?;
    ops::masked_fill(grad, &r.outside()?, Scalar::Float(0.0))
}
/// By the scale: how far the rounded number is from the input, in steps, and the bound where it was cut.
pub fn learnable_scale(
    grad: &Tensor,
    x: &Tensor,
    scale: &Tensor,
    zero: &Tensor,
    axis: Option<i64>,
    range: Range,
    factor: f64,
) -> Result<Tensor> {
    let r = rounded(x, scale, zero, axis, range)?;
    let less = |a: &Tensor, b: &Tensor| ops::sub(a, b, Scalar::Int(1));
    let number_again = ops::mul(&less(&r.whole, &r.zero)?, &r.scale)?;
    let inside = ops::div(&less(&number_again, &x.alias_detached())?, &r.scale)?;
    let bound = |v: i64| less(&number(v as f64)?, &r.zero);
    let slope = ops::where_(&r.high, &bound(range.1)?, &ops::where_(&r.low, &bound(range.0)?, &inside)?)?;
    gathered(&ops::mul(grad, &slope)?, scale, axis, factor)
}
/// By the zero point: what was cut moves against it.
pub fn learnable_zero(
    grad: &Tensor,
    x: &Tensor,
    scale: &Tensor,
    zero: &Tensor,
    axis: Option<i64>,
    range: Range,
    factor: f64,
) -> Result<Tensor> {
    let r = rounded(x, scale, zero, axis, range)?;
    let cut = crate::tensor::cast(&r.outside()?, DType::F32)?;
    let slope = ops::neg(&ops::mul(&cut, &r.scale)?)?;
    gathered(&ops::mul(grad, &slope)?, zero, axis, factor)
}
