//! Transforms of complex numbers that are pairs of real ones in a last dimension, as PyTorch had them before `torch.fft`.

use super::util::{NOTHING, POINTS, ROOT};
use flambeau_core::{Result, Tensor, ensure, ops as core};

/// The dimensions of the signal.
fn dims(name: &str, t: &Tensor, signal_ndim: i64, pairs: bool) -> Result<Vec<i64>> {
    let rank = t.dim() as i64 - i64::from(pairs);
    ensure!(
        t.dtype().is_floating(),
        Runtime,
        "{name}: Expected an input tensor of floating types, but got {}",
        t.dtype().scalar_type_name()
    );
    ensure!(
        (1..=3).contains(&signal_ndim),
        Runtime,
        "{name}: Expected signal_ndim to be 1, 2, or 3, but got signal_ndim={signal_ndim}"
    );
    ensure!(
        rank >= signal_ndim,
        Runtime,
        "{name}: Given signal_ndim={signal_ndim}, expected an input tensor of at least {}D{}, but got input of {}D",
        signal_ndim + i64::from(pairs),
        if pairs { " (complex input adds an extra dimension)" } else { "" },
        t.dim()
    );
    ensure!(
        !pairs || t.sizes().last() == Some(&2),
        Runtime,
        "{name}: Expected an input tensor with a last dimension of size 2 representing real + imaginary components, but got {}",
        t.sizes().last().copied().unwrap_or(0)
    );
    Ok((rank - signal_ndim..rank).collect())
}
/// Pairs as complex numbers.
fn complex(t: &Tensor) -> Result<Tensor> {
    let st = t.strides();
    let fits = st.last() == Some(&1)
        && st[..st.len() - 1].iter().all(|s| s % 2 == 0)
        && t.storage_offset() % 2 == 0
        && !t.is_neg();
    if fits {
        core::view_as_complex(t)
    } else {
        core::complex(&core::select(t, -1, 0)?, &core::select(t, -1, 1)?)
    }
}
fn pairs(t: &Tensor) -> Result<Tensor> {
    core::view_as_real(t)
}

/// `torch.fft` of old
pub fn legacy_fft(self_: &Tensor, signal_ndim: i64, normalized: bool) -> Result<Tensor> {
    let d = dims("fft", self_, signal_ndim, true)?;
    pairs(&super::fft_c2c(&complex(self_)?, &d, if normalized { ROOT } else { NOTHING }, true)?)
}
/// `torch.ifft`
pub fn legacy_ifft(self_: &Tensor, signal_ndim: i64, normalized: bool) -> Result<Tensor> {
    let d = dims("ifft", self_, signal_ndim, true)?;
    pairs(&super::fft_c2c(&complex(self_)?, &d, if normalized { ROOT } else { POINTS }, false)?)
}
/// `torch.rfft`
pub fn legacy_rfft(self_: &Tensor, signal_ndim: i64, normalized: bool, onesided: bool) -> Result<Tensor> {
    let d = dims("rfft", self_, signal_ndim, false)?;
    pairs(&super::fft_r2c(self_, &d, if normalized { ROOT } else { NOTHING }, onesided)?)
}
/// `torch.irfft`
pub fn legacy_irfft(
    self_: &Tensor,
    signal_ndim: i64,
    normalized: bool,
    onesided: bool,
    signal_sizes: Option<&[i64]>,
) -> Result<Tensor> {
    let d = dims("irfft", self_, signal_ndim, true)?;
    let x = complex(self_)?;
    let given = signal_sizes.unwrap_or(&[]);
    ensure!(
        given.is_empty() || given.len() == d.len(),
        Runtime,
        "irfft: Expected signal_sizes to be empty (default) or of signal_ndim={signal_ndim}D, but got signal_sizes={}",
        flambeau_core::tensor::geometry::fmt_sizes(given)
    );
    let last = d[d.len() - 1] as usize;
    for (i, (n, k)) in given.iter().zip(&d).enumerate() {
        let have = x.sizes()[*k as usize];
        let want = if onesided && i + 1 == d.len() { n / 2 + 1 } else { *n };
        ensure!(
            have == want,
            Runtime,
            "irfft: Expected given input and signal_sizes to have same signal sizes, but got input of size {have} in signal dimension {i}, and signal_sizes={}",
            flambeau_core::tensor::geometry::fmt_sizes(given)
        );
    }
    let have = x.sizes()[last];
    let n = given.last().copied().unwrap_or(if onesided { 2 * (have - 1) } else { have });
    super::fft_c2r(&x, &d, if normalized { ROOT } else { POINTS }, n)
}
