//! Gradients divided by a scale, and the scale of the next step.

use flambeau_core::backend::kernel::written;
use flambeau_core::backend::lists;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Scalar, Tensor, ensure, ops};

fn one(t: &Tensor, name: &str, dtype: DType, kind: &str) -> Result<()> {
    ensure!(t.numel() == 1, Runtime, "{name} must be a single-element tensor.");
    ensure!(t.dtype() == dtype, Runtime, "{name} must be {kind} tensor.");
    Ok(())
}
/// Whether all elements are finite. The smallest and the largest are NaN where one is.
fn finite(t: &Tensor) -> Result<bool> {
    if t.numel() == 0 {
        return Ok(true);
    }
    let (least, most) = ops::aminmax(t, None, false)?;
    Ok(least.try_item::<f64>()?.is_finite() && most.try_item::<f64>()?.is_finite())
}
/// `_amp_foreach_non_finite_check_and_unscale_`
pub fn amp_foreach_non_finite_check_and_unscale_(
    self_: &[Tensor],
    found_inf: &Tensor,
    inv_scale: &Tensor,
) -> Result<()> {
    one(inv_scale, "inv_scale", DType::F32, "a float")?;
    one(found_inf, "found_inf", DType::F32, "a float")?;
    if let Some(own) = lists::of(found_inf.device())
        && own.unscale(self_, found_inf, inv_scale)?
    {
        self_.iter().chain([found_inf]).for_each(written);
        return Ok(());
    }
    let scale = inv_scale.try_item::<f64>()?;
    for t in self_ {
        ensure!(
            t.is_floating_point() || t.is_complex(),
            Runtime,
            "_amp_foreach_non_finite_check_and_unscale_ takes floating tensors, not {}",
            t.dtype()
        );
        let t = if t.is_complex() { ops::view_as_real(t)? } else { t.clone() };
        if !finite(&t)? {
            ops::fill_(found_inf, Scalar::Float(1.0))?;
        }
        // a scale of 1 changes nothing, and gradients may be checked only
        if scale != 1.0 {
            ops::mul_(&t, &Tensor::wrapped_raw(scale)?)?;
        }
    }
    Ok(())
}
/// `_amp_update_scale_`
pub fn amp_update_scale_(
    self_: &Tensor,
    growth_tracker: &Tensor,
    found_inf: &Tensor,
    scale_growth_factor: f64,
    scale_backoff_factor: f64,
    growth_interval: i64,
) -> Result<()> {
    one(self_, "current_scale", DType::F32, "a float")?;
    one(growth_tracker, "growth_tracker", DType::I32, "an int")?;
    one(found_inf, "found_inf", DType::F32, "a float")?;
    let factors = [scale_growth_factor, scale_backoff_factor];
    if let Some(own) = lists::of(self_.device())
        && own.update_scale(self_, growth_tracker, found_inf, factors, growth_interval)?
    {
        [self_, growth_tracker].into_iter().for_each(written);
        return Ok(());
    }
    let scale = f64::from(self_.try_item::<f32>()?);
    let tracked = |n: i64| ops::fill_(growth_tracker, Scalar::Int(n));
    if found_inf.try_item::<f32>()? != 0.0 {
        ops::fill_(self_, Scalar::Float(scale * scale_backoff_factor))?;
        return tracked(0);
    }
    let steps = i64::from(growth_tracker.try_item::<i32>()?) + 1;
    if steps != growth_interval {
        return tracked(steps);
    }
    // a scale that is too large for its type would make every gradient infinite
    let grown = scale * scale_growth_factor;
    if (grown as f32).is_finite() {
        ops::fill_(self_, Scalar::Float(grown))?;
    }
    tracked(0)
}
