//! Transforms in one dimension.

use super::util::{norm_of, points, promoted, resized};
use flambeau_core::tensor::geometry::wrap_dim_strict;
use flambeau_core::{Result, Tensor, ensure, ops as core};

type Norm<'a> = Option<&'a str>;

fn to_real(t: &Tensor, n: Option<i64>, dim: i64, norm: Norm, forward: bool) -> Result<Tensor> {
    let mut x = promoted(t, true)?;
    let dim = wrap_dim_strict(dim, x.dim())?;
    let size = points(n.unwrap_or(2 * (x.sizes()[dim] - 1)))?;
    if n.is_some() {
        x = resized(&x, &[dim], &[size / 2 + 1])?;
    }
    let norm = norm_of(norm, forward)?;
    if forward {
        x = core::conj(&x)?;
    }
    super::fft_c2r(&x, &[dim as i64], norm, size)
}
fn from_real(
    name: &str,
    t: &Tensor,
    n: Option<i64>,
    dim: i64,
    norm: Norm,
    forward: bool,
    onesided: bool,
) -> Result<Tensor> {
    ensure!(
        !t.dtype().is_complex(),
        Type,
        "{name} expects a real input tensor, but got {}",
        t.dtype().scalar_type_name()
    );
    let mut x = promoted(t, false)?;
    let dim = wrap_dim_strict(dim, x.dim())?;
    let size = points(n.unwrap_or(x.sizes()[dim]))?;
    if n.is_some() {
        x = resized(&x, &[dim], &[size])?;
    }
    let y = super::fft_r2c(&x, &[dim as i64], norm_of(norm, forward)?, onesided)?;
    if forward { Ok(y) } else { core::conj(&y) }
}
fn complex(t: &Tensor, n: Option<i64>, dim: i64, norm: Norm, forward: bool) -> Result<Tensor> {
    let dim = wrap_dim_strict(dim, t.dim())?;
    let size = points(n.unwrap_or(t.sizes()[dim]))?;
    let x = if n.is_some() { resized(t, &[dim], &[size])? } else { t.clone() };
    super::fft_c2c(&x, &[dim as i64], norm_of(norm, forward)?, forward)
}

/// `fft_fft`
pub fn fft_fft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Norm) -> Result<Tensor> {
    if self_.dtype().is_complex() {
        complex(self_, n, dim, norm, true)
    } else {
        from_real("fft", self_, n, dim, norm, true, false)
    }
}
/// `fft_ifft`
pub fn fft_ifft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Norm) -> Result<Tensor> {
    if self_.dtype().is_complex() {
        complex(self_, n, dim, norm, false)
    } else {
        from_real("ifft", self_, n, dim, norm, false, false)
    }
}
/// `fft_rfft`
pub fn fft_rfft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Norm) -> Result<Tensor> {
    from_real("rfft", self_, n, dim, norm, true, true)
}
/// `fft_irfft`
pub fn fft_irfft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Norm) -> Result<Tensor> {
    to_real(self_, n, dim, norm, false)
}
/// `fft_hfft`
pub fn fft_hfft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Norm) -> Result<Tensor> {
    to_real(self_, n, dim, norm, true)
}
/// `fft_ihfft`
pub fn fft_ihfft(self_: &Tensor, n: Option<i64>, dim: i64, norm: Norm) -> Result<Tensor> {
    from_real("ihfft", self_, n, dim, norm, false, true)
}
