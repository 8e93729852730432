//! Normalisation over groups of channels and across neighbouring ones, composed of other operators.

use flambeau_autograd::node::{any_tangent, dual_active};
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ensure, ops as core_ops};

/// `local_response_norm`
pub fn local_response_norm(input: &Tensor, size: i64, alpha: f64, beta: f64, k: f64) -> Result<Tensor> {
    let x = input.sizes();
    ensure!(
        x.len() >= 3,
        Value,
        "Expected 3D or higher dimensionality                          input (got {} dimensions)",
        x.len()
    );
    if input.numel() == 0 {
        return Ok(input.clone());
    }
    // channels as rows of a plane whose columns are the positions
    let l: i64 = x[2..].iter().product();
    let square = core_ops::reshape(&core_ops::mul(input, input)?, &[x[0], 1, x[1], l])?;
    let around = [0, 0, size.div_euclid(2), size.saturating_sub(1).div_euclid(2)];
    let square = crate::ops::constant_pad_nd(&square, &around, Scalar::Int(0))?;
    ensure!(
        size > 0,
        Runtime,
        "kernel size should be greater than zero, but got {}",
        if x.len() == 3 { format!("kH: {size} kW: 1") } else { format!("kT: {size} kH: 1 kW: 1") }
    );
    if x.len() > 3 && !input.dtype().is_floating() && input.dtype() != DType::I64 {
        return Err(Error::not_implemented_for("avg_pool3d_out_frame", input.dtype()));
    }
    let mean = crate::ops::avg_pool2d(&square, &[size, 1], Some(&[1]), &[0], false, true, None)?;
    let number = crate::ops::operands::number;
    let d = core_ops::add(
        &core_ops::mul(&core_ops::reshape(&mean, x)?, &number(alpha)?)?,
        &number(k)?,
        Scalar::Int(1),
    )?;
    core_ops::div(input, &core_ops::pow(&d, &number(beta)?)?)
}

/// `group_norm`
pub fn group_norm(
    input: &Tensor,
    num_groups: i64,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    _cudnn_enabled: bool,
) -> Result<Tensor> {
    let x = input.sizes();
    ensure!(
        x.len() >= 2,
        Runtime,
        "Expected at least 2 dimensions for input tensor but received {}",
        x.len()
    );
    let (n, c) = (x[0], x[1]);
    let hxw: i64 = x[2..].iter().product();
    ensure!(num_groups > 0, Runtime, "Expected num groups to be greater than 0, got {num_groups}");
    ensure!(
        c % num_groups == 0,
        Runtime,
        "Expected number of channels in input to be divisible by num_groups, but got input of shape {} and num_groups={num_groups}",
        fmt_sizes(x)
    );
    ensure!(c > 0, Runtime, "Expected number of channels to be greater than 0, got {c}");
    ensure!(hxw > 0, Runtime, "Expected HxW to be greater than 0, got {hxw}");
    crate::ops::fused_group_norm(input, weight, bias, n, c, hxw, num_groups, eps).map(|r| r.0)
}

/// `native_group_norm`: the statistics are differentiable as well.
pub fn native_group_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    n: i64,
    c: i64,
    hxw: i64,
    group: i64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (y, mean, rstd) = crate::ops::fused_group_norm(input, weight, bias, n, c, hxw, group, eps)?;
    let wanted = input.requires_grad() || (dual_active() && any_tangent(&[input]));
    if !wanted || (input.numel() == 0 && n > 0) {
        let attached = |t: Tensor| [weight, bias].into_iter().flatten().try_fold(t, without_effect);
        return Ok((y, attached(mean)?, attached(rstd)?));
    }
    let x =
        crate::ops::operands::cast(&core_ops::reshape(input, &[n, group, c / group * hxw])?, mean.dtype())?;
    let (var, mean) = core_ops::var_mean(&x, Some(&[2]), Some(Scalar::Int(0)), false)?;
    let eps = crate::ops::operands::number(eps)?;
    let rstd = core_ops::rsqrt(&core_ops::add(&var, &eps, Scalar::Int(1))?)?;
    Ok((y, mean, rstd))
}
/// The same values with a history that leads to `of` and gives it zeros: PyTorch's statistics are results of a node that
/// the parameters belong to.
fn without_effect(t: Tensor, of: &Tensor) -> Result<Tensor> {
    if !of.requires_grad() || of.numel() == 0 {
        return Ok(t);
    }
    let never = core_ops::full(&[], Scalar::Bool(false), Some(DType::Bool), None, Some(t.device()), None)?;
    core_ops::where_(&never, &crate::ops::operands::cast(&core_ops::select(of, 0, 0)?, t.dtype())?, &t)
}
/// Batch normalisation of nothing, which the parameters' gradients still go through.
pub(crate) fn unnormalised(input: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>) -> Result<Tensor> {
    let mut out = core_ops::clone(input, None)?;
    if let Some(w) = weight {
        out = core_ops::mul(&out, &core_ops::select(w, 0, 0)?)?;
    }
    if let Some(b) = bias {
        out = core_ops::add(&out, &core_ops::select(b, 0, 0)?, Scalar::Int(1))?;
    }
    Ok(out)
}
/// `rms_norm`
pub fn rms_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    eps: Option<f64>,
) -> Result<Tensor> {
    super::rows::some_dimension(normalized_shape)?;
    if let Some(w) = weight {
        super::rows::same_shape(w, "weight", normalized_shape)?;
    }
    ensure!(
        input.dim() >= normalized_shape.len(),
        Value,
        "Input tensor must have at least {} dimensions, but got {}",
        normalized_shape.len(),
        input.dim()
    );
    let eps = eps.unwrap_or(match input.dtype() {
        DType::F64 | DType::C128 => f64::EPSILON,
        // halves are computed in float32
        _ => f64::from(f32::EPSILON),
    });
    if input.is_complex() {
        let dims: Vec<i64> = (1..=normalized_shape.len() as i64).map(|d| -d).collect();
        let square = core_ops::mean(&core_ops::mul(input, input)?, Some(&dims), true, None)?;
        let eps = crate::ops::operands::number(eps)?;
        let scale = core_ops::rsqrt(&core_ops::add(&square, &eps, Scalar::Int(1))?)?;
        let y = core_ops::mul(input, &scale)?;
        return weight.map_or(Ok(y.clone()), |w| core_ops::mul(&y, w));
    }
    // weights of another dtype are multiplied by in a wider one, and the result is the input's
    let other =
        |w: &&Tensor| w.dtype() != input.dtype() && input.is_floating_point() && w.is_floating_point();
    let wider = weight
        .filter(other)
        .map(|w| crate::ops::operands::cast(w, crate::ops::operands::wide(input.dtype())));
    let wider = wider.transpose()?;
    crate::ops::fused_rms_norm(input, normalized_shape, wider.as_ref().or(weight), eps).map(|r| r.0)
}
