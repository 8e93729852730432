//! Matrices of powers.

use crate::tensor::geometry::SizeVec;
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::{DType, ensure, ops};

fn powers(x: &Tensor, n: i64) -> Result<Tensor> {
    let mut shape = SizeVec::from_slice(x.sizes());
    shape.push(n);
    ops::cumprod(&ops::expand(&ops::unsqueeze(x, -1)?, &shape, false)?, -1, None)
}

/// `vander`
#[allow(non_snake_case)]
pub fn vander(x: &Tensor, n: Option<i64>, increasing: bool) -> Result<Tensor> {
    ensure!(x.dim() == 1, Runtime, "x must be a one-dimensional tensor.");
    let len = x.sizes()[0];
    let n = n.unwrap_or(len);
    ensure!(n >= 0, Runtime, "N must be non-negative.");
    let d = if x.dtype().is_integral(true) { DType::I64 } else { x.dtype() };
    let x = ops::to(x, Some(d), None, None, None, false, false, None)?;
    let ones = ops::ones(&[len, n.min(1)], Some(d), None, Some(x.device()), None)?;
    let up = if n <= 1 { ones } else { ops::cat(&[ones, powers(&x, n - 1)?], 1)? };
    if increasing { Ok(up) } else { ops::flip(&up, &[1]) }
}

/// `linalg_vander`
pub fn linalg_vander(x: &Tensor, n: Option<i64>) -> Result<Tensor> {
    ensure!(
        !matches!(x.dtype(), DType::Bool | DType::F16 | DType::BF16),
        Unsupported,
        "linalg.vander supports floating point, complex, and integer tensors, but got {}",
        x.dtype().scalar_type_name()
    );
    let x = if x.dim() == 0 { ops::unsqueeze(x, -1)? } else { x.clone() };
    let n = n.unwrap_or(x.sizes()[x.dim() - 1]);
    ensure!(n > 1, Runtime, "N must be greater than 1.");
    let p = powers(&x, n - 1)?;
    let mut shape = SizeVec::from_slice(x.sizes());
    shape.push(1);
    ops::cat(&[ops::ones(&shape, Some(p.dtype()), None, Some(p.device()), None)?, p], -1)
}
