//! Frequencies, and their order.

use super::util::wrapped;
use flambeau_autograd::shorthand::number;
use flambeau_core::iter::promotion;
use flambeau_core::{DType, Device, Layout, Result, Scalar, Tensor, bail, ensure, ops as core};

type Opt<T> = Option<T>;

/// `parts` of whole numbers in a row, divided by `n d`.
fn frequencies(
    name: &str,
    parts: &[(i64, i64)],
    n: i64,
    d: f64,
    (dtype, layout, device, pin_memory): (Opt<DType>, Opt<Layout>, Opt<Device>, Opt<bool>),
) -> Result<Tensor> {
    let size: i64 = parts.iter().map(|(from, to)| to - from).sum();
    if size < 0 {
        bail!(Runtime, "Trying to create tensor with negative dimension {size}: [{size}]");
    }
    let dtype = dtype.unwrap_or_else(promotion::default_dtype);
    ensure!(
        dtype.is_floating() || dtype.is_complex(),
        Runtime,
        "{name} requires a floating point or complex dtype"
    );
    let range = |(from, to): &(i64, i64)| {
        let (from, to) = (Scalar::Int(*from), Scalar::Int(*to));
        core::arange_start(from, to, Some(dtype), layout, device, pin_memory)
    };
    let whole = match parts {
        [one] => range(one)?,
        parts => {
            let parts = parts.iter().map(range).collect::<Result<Vec<_>>>()?;
            core::cat(&parts, 0)?
        }
    };
    core::mul(&whole, &number(1.0 / (n as f64 * d))?)
}

/// `fft_fftfreq`
pub fn fft_fftfreq(
    n: i64,
    d: f64,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    if n < 0 {
        bail!(Runtime, "Trying to create tensor with negative dimension {n}: [{n}]");
    }
    let parts = [(0, n - n / 2), (-(n / 2), 0)];
    frequencies("fftfreq", &parts, n, d, (dtype, layout, device, pin_memory))
}
/// `fft_rfftfreq`
pub fn fft_rfftfreq(
    n: i64,
    d: f64,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    frequencies("rfftfreq", &[(0, n / 2 + 1)], n, d, (dtype, layout, device, pin_memory))
}

fn shifted(t: &Tensor, dim: Option<&[i64]>, by: impl Fn(i64) -> i64) -> Result<Tensor> {
    let dims = match dim {
        Some(d) => wrapped(d, t.dim())?,
        None => (0..t.dim()).collect(),
    };
    let shifts: Vec<i64> = dims.iter().map(|d| by(t.sizes()[*d])).collect();
    core::roll(t, &shifts, &super::util::as_dims(&dims))
}
/// `fft_fftshift`
pub fn fft_fftshift(self_: &Tensor, dim: Option<&[i64]>) -> Result<Tensor> {
    shifted(self_, dim, |n| n / 2)
}
/// `fft_ifftshift`
pub fn fft_ifftshift(self_: &Tensor, dim: Option<&[i64]>) -> Result<Tensor> {
    shifted(self_, dim, |n| n - n / 2)
}
