//! Spectra of windows that move over a signal.

use super::util::{NOTHING, POINTS, ROOT};
use crate::generated::args;
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::tensor::geometry::{SizeVec, fmt_sizes};
use flambeau_core::{
    DType, Device, Error, MemoryFormat, Result, Scalar, Tensor, bail, ensure, ops as core, with_dtype,
};
use flambeau_nn_functional::ops as nn;
use std::fmt::Display;

fn type_name(t: &Tensor) -> String {
    flambeau_core::types::type_info::cpp_type_name(t.dtype())
}
fn opt<T: Display>(v: Option<T>) -> String {
    v.map_or_else(|| "None".into(), |v| v.to_string())
}
/// The beginning of both functions' texts.
fn call(name: &str, t: &Tensor, n_fft: i64, hop: i64, win: i64, window: Option<&Tensor>) -> String {
    let window = window.map(|w| format!("{}{{{}}}", type_name(w), fmt_sizes(w.sizes())));
    format!(
        "{name}({}{}, n_fft={n_fft}, hop_length={hop}, win_length={win}, window={}",
        type_name(t),
        fmt_sizes(t.sizes()),
        opt(window)
    )
}

/// `stft.center`
pub fn stft(
    self_: &Tensor,
    n_fft: i64,
    hop_length: Option<i64>,
    win_length: Option<i64>,
    window: Option<&Tensor>,
    center: bool,
    pad_mode: &str,
    normalized: bool,
    onesided: Option<bool>,
    return_complex: Option<bool>,
    align_to_window: Option<bool>,
) -> Result<Tensor> {
    ensure!(
        !center || align_to_window.is_none(),
        Runtime,
        "stft align_to_window should only be set when center = false"
    );
    let mut x = self_.clone();
    if center {
        let mut sizes = vec![1; 3usize.saturating_sub(x.dim())];
        sizes.extend_from_slice(x.sizes());
        let pad = n_fft.div_euclid(2);
        let padded = nn::pad(&core::view(&x, &sizes)?, &[pad, pad], pad_mode, None)?;
        let rank = x.dim().min(padded.dim());
        // a signal without dimensions keeps all of them, as a Python slice from -0 does
        let from = if rank == 0 { 0 } else { padded.dim() - rank };
        x = core::view(&padded, &padded.sizes()[from..])?;
    }
    let hop = hop_length.unwrap_or(n_fft >> 2);
    let win = win_length.unwrap_or(n_fft);
    let complex_window = window.is_some_and(|w| w.is_complex());
    if let Some(w) = window {
        ensure!(
            w.device() == x.device(),
            Runtime,
            "stft input and window must be on the same device but got self on {} and window on {}",
            x.device(),
            w.device()
        );
    }
    let wants_complex = return_complex.unwrap_or(x.is_complex() || complex_window);
    ensure!(
        wants_complex || return_complex.is_some(),
        Runtime,
        "stft requires the return_complex parameter be given for real inputs, and will further require that return_complex=True in a future PyTorch release."
    );
    let text = |what: String| {
        format!(
            "{}, normalized={}, onesided={}, return_complex={}, align_to_window={}) : {what}",
            call("stft", &x, n_fft, hop, win, window),
            i32::from(normalized),
            opt(onesided.map(i32::from)),
            opt(return_complex.map(i32::from)),
            opt(align_to_window.map(i32::from))
        )
    };
    if !(x.dtype().is_floating() || x.is_complex()) {
        return Err(Error::unsupported(text("expected a tensor of floating point or complex values".into())));
    }
    let bad = |what: String| Err(Error::runtime(text(what)));
    if !(1..=2).contains(&x.dim()) {
        return bad("expected a 1D or 2D tensor".into());
    }
    let mut input = if x.dim() == 1 { core::unsqueeze(&x, 0)? } else { x.clone() };
    let (batch, len) = (input.sizes()[0], input.sizes()[1]);
    if n_fft <= 0 || n_fft > len {
        return bad(format!("expected 0 < n_fft < {len}, but got n_fft={win}"));
    }
    if hop <= 0 {
        return bad(format!("expected hop_length > 0, but got hop_length={hop}"));
    }
    if win <= 0 || win > n_fft {
        return bad(format!("expected 0 < win_length <= n_fft, but got win_length={win}"));
    }
    if let Some(w) = window.filter(|w| w.dim() != 1 || w.sizes()[0] != win) {
        return bad(format!(
            "expected a 1D window tensor of size equal to win_length={win}, but got window with size {}",
            fmt_sizes(w.sizes())
        ));
    }
    let align = align_to_window.unwrap_or(false);
    let left = (n_fft - win) / 2;
    let mut weights = window.cloned();
    if win < n_fft {
        let w = match window {
            Some(w) => w.clone(),
            None => core::ones(&[win], Some(x.dtype()), None, Some(x.device()), None)?,
        };
        weights = Some(nn::constant_pad_nd(&w, &[left, n_fft - win - left], Scalar::Int(0))?);
    }
    let mut frames = 1 + (len - n_fft) / hop;
    if !center && align {
        // the window's first point is the signal's, so frames reach beyond both ends
        frames = 1 + (len - win) / hop;
        input = nn::constant_pad_nd(&input, &[left, n_fft - win - left], Scalar::Int(0))?;
    }
    let st = [input.strides()[0], hop * input.strides()[1], input.strides()[1]];
    let mut y = core::as_strided(&input, &[batch, frames, n_fft], &st, None)?;
    if let Some(w) = &weights {
        y = core::mul(&y, w)?;
    }
    let complex = y.is_complex();
    let onesided = onesided.unwrap_or(!complex);
    let norm = if normalized { ROOT } else { NOTHING };
    let mut out = if complex {
        ensure!(!onesided, Runtime, "Cannot have onesided output if window or input is complex");
        super::fft_c2c(&y, &[2], norm, true)?
    } else {
        super::fft_r2c(&y, &[2], norm, onesided)?
    };
    out = core::transpose(&out, 1, 2)?;
    if x.dim() == 1 {
        out = core::squeeze_dim(&out, 0)?;
    }
    if wants_complex { Ok(out) } else { core::view_as_real(&out) }
}

/// `istft`
pub fn istft(
    self_: &Tensor,
    n_fft: i64,
    hop_length: Option<i64>,
    win_length: Option<i64>,
    window: Option<&Tensor>,
    center: bool,
    normalized: bool,
    onesided: Option<bool>,
    length: Option<i64>,
    return_complex: bool,
) -> Result<Tensor> {
    let hop = hop_length.unwrap_or(n_fft >> 2);
    let win = win_length.unwrap_or(n_fft);
    let x = self_;
    if let Some(w) = window {
        ensure!(
            w.device() == x.device(),
            Runtime,
            "istft input and window must be on the same device but got self on {} and window on {}",
            x.device(),
            w.device()
        );
    }
    ensure!(
        x.is_complex(),
        Type,
        "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
    );
    let rank = x.dim();
    if rank < 2 {
        // PyTorch asks for the third dimension from behind of the pairs
        let (n, wrong) = (rank as i64 + 1, if rank == 0 { -2 } else { -3 });
        bail!(
            Index,
            "Dimension out of range (expected to be in range of [{}, {}], but got {wrong})",
            -n,
            n - 1
        );
    }
    let (size, frames) = (x.sizes()[rank - 2], x.sizes()[rank - 1]);
    let text = |what: &str| {
        format!(
            "{}, center={}, normalized={}, onesided={}, length={}, return_complex={}) {what}",
            call("istft", x, n_fft, hop, win, window),
            i32::from(center),
            i32::from(normalized),
            opt(onesided.map(i32::from)),
            opt(length),
            i32::from(return_complex)
        )
    };
    let bad = |what: String| Err(Error::runtime(text(&format!(": {what}"))));
    if x.numel() == 0 {
        return bad("input tensor cannot be empty.".into());
    }
    if !(2..=3).contains(&rank) {
        return bad(format!("expected a tensor with 3 or 4 dimensions, but got {}", rank + 1));
    }
    let onesided = onesided.unwrap_or(size != n_fft);
    const SIZE: &str = "expected the frequency dimension (3rd to the last) of the input tensor to match";
    if onesided && n_fft / 2 + 1 != size {
        return bad(format!("{SIZE} n_fft / 2 + 1 when onesided=True, but got {size}"));
    }
    if !onesided && n_fft != size {
        return bad(format!("{SIZE} n_fft when onesided=False, but got {size}"));
    }
    if !(0 < hop && hop <= win) {
        return bad("expected 0 < hop_length <= win_length".into());
    }
    if !(0 < win && win <= n_fft) {
        return bad("expected 0 < win_length <= n_fft".into());
    }
    if window.is_some_and(|w| w.dim() != 1 || w.sizes()[0] != win) {
        return bad("Invalid window shape. window has to be 1D and length of `win_length`".into());
    }
    let real = if x.dtype() == DType::C128 { DType::F64 } else { DType::F32 };
    let mut weights = match window {
        Some(w) => w.clone(),
        None => core::ones(&[win], Some(real), None, Some(x.device()), None)?,
    };
    if win != n_fft {
        let left = (n_fft - win) / 2;
        weights = nn::constant_pad_nd(&weights, &[left, n_fft - win - left], Scalar::Int(0))?;
    }
    let mut input = if rank == 2 { core::unsqueeze(x, 0)? } else { x.clone() };
    input = core::transpose(&input, 1, 2)?;
    let norm = if normalized { ROOT } else { POINTS };
    if return_complex {
        ensure!(!onesided, Runtime, "Cannot have onesided output if window or input is complex");
        input = super::fft_c2c(&input, &[2], norm, false)?;
    } else {
        ensure!(!weights.is_complex(), Runtime, "Complex windows are incompatible with return_complex=False");
        if !onesided {
            input = core::slice(&input, -1, Some(0), Some(n_fft / 2 + 1), 1)?;
        }
        input = super::fft_c2r(&input, &[2], norm, n_fft)?;
    }
    let y = super::overlap_add(&core::mul(&input, &weights)?, hop)?;
    let square = core::pow(&weights, &flambeau_autograd::shorthand::number(2)?)?;
    let envelope = super::overlap_add(&core::expand(&square, &[1, frames, n_fft], false)?, hop)?;
    let whole = n_fft + hop * (frames - 1);
    let start = if center { n_fft / 2 } else { 0 };
    let end = match length {
        Some(n) => start + n,
        None if center => -(n_fft / 2),
        None => whole,
    };
    let cut = |t: &Tensor| core::slice(t, 1, Some(start), Some(end), 1);
    let (mut y, envelope) = (cut(&y)?, cut(&envelope)?);
    // meta tensors have no values to look at
    if envelope.device() != Device::Meta {
        let least = core::min(&core::abs(&envelope)?)?;
        if core::lt(&least, &flambeau_autograd::shorthand::number(1e-11)?)?.try_item::<bool>()? {
            return Err(Error::runtime(text("window overlap add min: 1\n[ CPUBoolType{} ]")));
        }
    }
    y = core::div(&y, &envelope)?;
    if rank == 2 {
        y = core::squeeze_dim(&y, 0)?;
    }
    if length.is_some() && end > whole {
        y = nn::constant_pad_nd(&y, &[0, end - whole], Scalar::Int(0))?;
    }
    Ok(y)
}

/// `_overlap_add`
pub fn overlap_add_shape(&args::OverlapAdd { self_, step }: &args::OverlapAdd) -> Result<OutMeta> {
    let (z, rank) = (self_.sizes(), self_.dim());
    ensure!(
        rank >= 2 && z[rank - 2] >= 1 && step >= 1,
        Runtime,
        "frames and a positive step expected, but got {} and {step}",
        fmt_sizes(z)
    );
    let mut sizes = SizeVec::from_slice(&z[..rank - 2]);
    let reach = (z[rank - 2] - 1).checked_mul(step).and_then(|r| r.checked_add(z[rank - 1]));
    sizes.push(reach.ok_or_else(|| Error::runtime("frames reach too far"))?);
    Ok(OutMeta::new(sizes, self_.dtype(), self_.device()))
}
/// `_overlap_add`
pub fn overlap_add_cpu(&args::OverlapAdd { self_, step }: &args::OverlapAdd, out: &Tensor) -> Result<()> {
    let resolved = core::resolve_neg(&core::resolve_conj(self_)?)?;
    let x = core::contiguous(&resolved, MemoryFormat::Contiguous)?;
    let (n, whole) = (x.sizes()[x.dim() - 1] as usize, out.sizes()[out.dim() - 1] as usize);
    let frames = x.sizes()[x.dim() - 2] as usize;
    let d = x.dtype();
    let a = Access::new(&[&x], &[out])?;
    with_dtype!(d, T in [HALF, FLOAT, COMPLEX] => {
        let (x, y) = (a.slice::<T>(0)?, a.slice_mut::<T>(0)?);
        y.fill(T::default());
        if n == 0 {
            return Ok(());
        }
        for (x, y) in x.chunks_exact(frames * n).zip(y.chunks_exact_mut(whole)) {
            for (i, frame) in x.chunks_exact(n).enumerate() {
                for (y, x) in y[i * step as usize..].iter_mut().zip(frame) {
                    *y += *x;
                }
            }
        }
        Ok(())
    }, else Err(Error::not_implemented_for("overlap_add", d)))
}
