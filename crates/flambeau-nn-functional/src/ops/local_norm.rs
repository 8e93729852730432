//! Normalisation over groups of channels and across neighbouring ones, composed of other operators.

use flambeau_core::geometry::fmt_sizes;
use flambeau_core::{Result, Tensor, ensure, ops as core_ops};

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
    ensure!(size > 0, Runtime, "local_response_norm: size must be positive, got {size}");
    // channels as rows of a plane whose columns are the positions
    let l: i64 = x[2..].iter().product();
    let square = core_ops::reshape(&core_ops::mul(input, input)?, &[x[0], 1, x[1], l])?;
    let square =
        super::constant_pad_nd(&square, &[0, 0, size / 2, (size - 1) / 2], flambeau_core::Scalar::Int(0))?;
    let mean = super::avg_pool2d(&square, &[size, 1], Some(&[1]), &[0], false, true, None)?;
    let number = super::util::number;
    let d = core_ops::add(
        &core_ops::mul(&core_ops::reshape(&mean, x)?, &number(alpha)?)?,
        &number(k)?,
        flambeau_core::Scalar::Int(1),
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
    super::native_group_norm(input, weight, bias, n, c, hxw, num_groups, eps).map(|r| r.0)
}
