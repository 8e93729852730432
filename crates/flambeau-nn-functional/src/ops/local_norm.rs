//! Normalisation across neighbouring channels.

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
