//! Resampling, one dimension at a time: every mode is separable.

use crate::generated::args;
use crate::ops::operands::{cast, done, plain};
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::text::size_tuple;
use flambeau_core::{DType, Error, MemoryFormat, Result, Tensor, bail, ensure};
use flambeau_cpu::vision::resample::{self as kernels, Weights};
use half::{bf16, f16};

fn round_to(v: f64, single: bool) -> f64 {
    if single { f64::from(v as f32) } else { v }
}

/// Step of the source position from one result to the next.
fn step(n: usize, m: usize, aligned: bool, scale: Option<f64>, single: bool) -> f64 {
    if aligned {
        return if m > 1 { round_to((n - 1) as f64 / (m - 1) as f64, single) } else { 0.0 };
    }
    let v = match scale {
        Some(s) if s > 0.0 => 1.0 / s,
        // the quotient of two floats, as it is computed in the element type
        _ if single => return f64::from(n as f32 / m as f32),
        _ => n as f64 / m as f64,
    };
    round_to(v, single)
}
/// The factor of nearest neighbours where PyTorch asks the sizes first: as many or twice as many results go by them.
fn by_sizes(n: i64, m: i64, scale: Option<f64>) -> Option<f64> {
    scale.filter(|s| !(m == n && *s != 1.0 || m == 2 * n && *s != 2.0))
}
/// Source position of result `i`.
fn source(i: usize, step: f64, aligned: bool, cubic: bool, single: bool) -> f64 {
    if aligned {
        return round_to(step * i as f64, single);
    }
    let v =
        if single { f64::from(step as f32 * (i as f32 + 0.5) - 0.5) } else { step * (i as f64 + 0.5) - 0.5 };
    if cubic { v } else { v.max(0.0) }
}
/// Keys' convolution kernel.
fn cubic_weight(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * a
    } else {
        0.0
    }
}

/// Lanczos' kernel with three lobes.
fn lanczos_weight(x: f64) -> f64 {
    let sinc =
        |x: f64| if x == 0.0 { 1.0 } else { (std::f64::consts::PI * x).sin() / (std::f64::consts::PI * x) };
    if x.abs() < 3.0 { sinc(x) * sinc(x / 3.0) } else { 0.0 }
}

/// Weights of a mode from `n` to `m` positions; `single` computes positions in float32.
fn weights(
    mode: &str,
    n: usize,
    m: usize,
    aligned: bool,
    antialias: bool,
    scale: Option<f64>,
    single: bool,
) -> Result<Weights> {
    let mut t = Weights { starts: vec![0], at: Vec::new(), w: Vec::new() };
    let last = n.saturating_sub(1);
    for i in 0..m {
        match mode {
            "nearest" => {
                let s = step(n, m, false, scale, true) as f32;
                t.at.push(((i as f32 * s).floor() as usize).min(last));
                t.w.push(1.0);
            }
            "nearest-exact" => {
                let s = step(n, m, false, scale, true) as f32;
                t.at.push((((i as f32 + 0.5) * s).floor() as usize).min(last));
                t.w.push(1.0);
            }
            "linear" | "cubic" | "lanczos" if antialias => {
                let s = step(n, m, aligned, scale, single);
                let (size, filter): (f64, fn(f64) -> f64) = match mode {
                    "linear" => (2.0, |x| (1.0 - x.abs()).max(0.0)),
                    "cubic" => (4.0, |x| cubic_weight(x, -0.5)),
                    _ => (6.0, lanczos_weight),
                };
                let (support, inverse) = if s >= 1.0 { (size * 0.5 * s, 1.0 / s) } else { (size * 0.5, 1.0) };
                let centre = s * (i as f64 + 0.5);
                let first = ((centre - support + 0.5) as i64).max(0);
                let end = ((centre + support + 0.5) as i64).min(n as i64);
                let from = t.w.len();
                for j in first..end {
                    let x = (j as f64 - centre + 0.5) * inverse;
                    t.at.push(j as usize);
                    t.w.push(filter(x));
                }
                let total: f64 = t.w[from..].iter().sum();
                if total != 0.0 {
                    t.w[from..].iter_mut().for_each(|w| *w /= total);
                }
            }
            "linear" => {
                if n == m {
                    t.at.push(i);
                    t.w.push(1.0);
                } else {
                    let x = source(i, step(n, m, aligned, scale, single), aligned, false, single);
                    let j = (x as usize).min(last);
                    let l = (x - j as f64).clamp(0.0, 1.0);
                    t.at.extend([j, (j + 1).min(last)]);
                    t.w.extend([1.0 - l, l]);
                }
            }
            "cubic" => {
                let x = source(i, step(n, m, aligned, scale, single), aligned, true, single);
                let j = (x.floor() as i64).min(last as i64);
                let l = (x - j as f64).clamp(0.0, 1.0);
                for k in -1..3 {
                    t.at.push((j + k).clamp(0, last as i64) as usize);
                    t.w.push(cubic_weight(l - k as f64, -0.75));
                }
            }
            _ => bail!(Value, "resample: unknown mode {mode}"),
        }
        t.starts.push(t.at.len());
    }
    Ok(t)
}

/// PyTorch has a dtype's own weights where no kernel for channels that come last is in use. Of two, the first is what the
/// rounded second leaves.
fn round_weights(t: &mut Weights, to: Option<DType>) {
    let round = |v: f64| match to {
        Some(DType::F16) => f16::from_f32(v as f32).to_f64(),
        Some(DType::BF16) => bf16::from_f32(v as f32).to_f64(),
        _ => v,
    };
    for i in 0..t.starts.len() - 1 {
        match &mut t.w[t.starts[i]..t.starts[i + 1]] {
            [first, second] => {
                *second = round(*second);
                *first = round(1.0 - *second);
            }
            all => all.iter_mut().for_each(|w| *w = round(*w)),
        }
    }
}

fn resized(t: &Tensor, dim: i64, size: i64) -> Result<OutMeta> {
    ensure!(
        dim >= 0 && (dim as usize) < t.dim(),
        Index,
        "resample: dimension {dim} of an input of {}",
        fmt_sizes(t.sizes())
    );
    let mut sizes = t.sizes().to_vec();
    ensure!(
        size > 0 && sizes[dim as usize] > 0,
        Runtime,
        "Input and output sizes should be greater than 0, but got input (size: {}) output (size: {size})",
        sizes[dim as usize]
    );
    sizes[dim as usize] = size;
    Ok(OutMeta::of(&sizes, t.dtype(), t.device()))
}
/// `_resample`
pub fn resample_shape(&args::Resample { self_, dim, size, .. }: &args::Resample) -> Result<OutMeta> {
    resized(self_, dim, size)
}
/// What each result of `_resample` is made of: what kernels of other devices than the CPU need to know too.
///
/// # Errors
/// An unknown mode.
pub fn resample_table(a: &args::Resample) -> Result<Weights> {
    let n = a.self_.sizes()[a.dim as usize] as usize;
    // for bytes, PyTorch has the weights in float64 before they are made whole numbers
    let single = !matches!(a.self_.dtype(), DType::F64 | DType::U8);
    let mut t = weights(a.mode, n, a.size as usize, a.align_corners, a.antialias, a.scale, single)?;
    round_weights(&mut t, a.weights);
    Ok(t)
}
/// [`resample_table`] of the resampling that `_resample_backward` is the gradient of.
///
/// # Errors
/// An unknown mode.
pub fn resample_backward_table(a: &args::ResampleBackward) -> Result<Weights> {
    let m = a.grad_output.sizes()[a.dim as usize] as usize;
    let single = a.grad_output.dtype() != DType::F64;
    let scale = if a.mode == "nearest" { by_sizes(a.size, m as i64, a.scale) } else { a.scale };
    weights(a.mode, a.size as usize, m, a.align_corners, a.antialias, scale, single)
}
/// `_resample`
pub fn resample_cpu(a: &args::Resample, out: &Tensor) -> Result<()> {
    let x = plain(a.self_)?;
    let d = a.dim as usize;
    let n = x.sizes()[d] as usize;
    let t = resample_table(a)?;
    let inner: i64 = x.sizes()[d + 1..].iter().product();
    if out.numel() == 0 {
        return Ok(());
    }
    let a = Access::new(&[&x], &[out])?;
    if x.dtype() == DType::U8 {
        kernels::bytes(&t, inner as usize, n, a.slice(0)?, a.slice_mut(0)?);
        return Ok(());
    }
    done(kernels::forward(&t, inner as usize, n, a.any(0)?, a.any_mut(0)?), "upsample", x.dtype())
}
/// `_resample_backward`
pub fn resample_backward_shape(
    &args::ResampleBackward { grad_output, dim, size, .. }: &args::ResampleBackward,
) -> Result<OutMeta> {
    resized(grad_output, dim, size)
}
/// `_resample_backward`
pub fn resample_backward_cpu(a: &args::ResampleBackward, out: &Tensor) -> Result<()> {
    let g = plain(a.grad_output)?;
    let d = a.dim as usize;
    let (t, given) = (resample_backward_table(a)?, a.size);
    let inner: i64 = g.sizes()[d + 1..].iter().product();
    if out.numel() == 0 {
        return Ok(());
    }
    let a = Access::new(&[&g], &[out])?;
    done(
        kernels::backward(&t, inner as usize, given as usize, a.any(0)?, a.any_mut(0)?),
        "upsample_backward",
        g.dtype(),
    )
}

/// `interpolate`
pub fn interpolate(
    input: &Tensor,
    size: Option<&[i64]>,
    scale_factor: Option<&[f64]>,
    mode: &str,
    align_corners: Option<bool>,
    recompute_scale_factor: Option<bool>,
    antialias: bool,
) -> Result<Tensor> {
    let x = input.sizes();
    if matches!(mode, "nearest" | "area" | "nearest-exact") {
        ensure!(
            align_corners.is_none(),
            Value,
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        );
    }
    let aligned = align_corners.unwrap_or(false);
    let n = x.len().saturating_sub(2);
    let recompute = recompute_scale_factor.unwrap_or(false);
    let spatial = |t: &[i64]| fmt_sizes(t);
    let (mut scales, out): (Vec<Option<f64>>, Vec<i64>) = match (size, scale_factor) {
        (Some(_), Some(_)) => bail!(Value, "only one of size or scale_factor should be defined"),
        (None, None) => bail!(Value, "either size or scale_factor should be defined"),
        (Some(s), None) => {
            ensure!(
                s.len() == n || s.len() == 1,
                Value,
                "Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of {} and output size of {}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format.",
                spatial(x.get(2..).unwrap_or(&[])),
                size_tuple(s)
            );
            ensure!(!recompute, Value, "recompute_scale_factor is not meaningful with an explicit size.");
            (vec![None; n], if s.len() == n { s.to_vec() } else { vec![s[0]; n] })
        }
        (None, Some(f)) => {
            ensure!(
                f.len() == n || f.len() == 1,
                Value,
                "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial dimensions of {} and scale_factor of shape {f:?}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format.",
                spatial(x.get(2..).unwrap_or(&[]))
            );
            let f = if f.len() == n { f.to_vec() } else { vec![f[0]; n] };
            let out = (0..n)
                .map(|d| {
                    let size = (x[d + 2] as f64 * f[d]).floor();
                    let fits = size >= i64::MIN as f64 && size < i64::MAX as f64;
                    ensure!(fits, Runtime, "value cannot be converted to type int64_t without overflow");
                    Ok(size as i64)
                })
                .collect::<Result<_>>()?;
            (f.into_iter().map(Some).collect(), out)
        }
    };
    if recompute || mode == "area" {
        scales = vec![None; n];
    }
    // gradients always ask the sizes; results do in images, and in volumes with their channels last
    let last = x.len() == 5 && x[1] > 3 && input.is_contiguous_format(MemoryFormat::ChannelsLast3d);
    if mode == "nearest" && (x.len() == 4 || last) {
        for d in 0..n {
            scales[d] = by_sizes(x[d + 2], out[d], scales[d]);
        }
    }
    ensure!(
        !antialias || (matches!(mode, "bilinear" | "bicubic" | "lanczos") && x.len() == 4),
        Value,
        "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
    );
    let linear = match (x.len(), mode) {
        (3..=5, "nearest") => "nearest",
        (3..=5, "nearest-exact") => "nearest-exact",
        (3, "area") => return crate::ops::adaptive_avg_pool1d(input, &out),
        (4, "area") => return crate::ops::adaptive_avg_pool2d(input, &out),
        (5, "area") => return crate::ops::adaptive_avg_pool3d(input, &out),
        (3, "linear") | (4, "bilinear") | (5, "trilinear") => "linear",
        (4, "bicubic") => "cubic",
        (3..=5, "linear" | "bilinear" | "trilinear") => {
            let needs = ["linear", "bilinear", "trilinear"].iter().position(|m| *m == mode).unwrap_or(0) + 3;
            bail!(Unsupported, "Got {}D input, but {mode} mode needs {needs}D input", x.len())
        }
        (4, "lanczos") => {
            ensure!(antialias, Value, "Lanczos mode requires antialias=True");
            "lanczos"
        }
        _ => bail!(
            Unsupported,
            "Input Error: Only 3D, 4D and 5D input Tensors supported (got {}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode})",
            x.len()
        ),
    };
    if x[2..].iter().chain(&out).any(|d| *d <= 0) {
        let named = |v: &[i64]| {
            let axes = ["D", "H", "W"].iter().skip(3 - n).zip(v);
            axes.map(|(a, v)| format!("{a}: {v}")).collect::<Vec<_>>().join(", ")
        };
        bail!(
            Runtime,
            "Input and output sizes should be greater than 0, but got input ({}) {}output ({})",
            named(&x[2..]),
            if n == 1 { "and " } else { "" },
            named(&out)
        );
    }
    // one dimension after the other is resized: the whole must fit before the first is tried
    let whole = [&x[..2], &out].concat();
    flambeau_core::tensor::geometry::checked_bytes(&whole, input.element_size())?;
    ensure!(
        x[1..].iter().all(|d| *d > 0),
        Runtime,
        "Non-empty {}D data tensor expected but got a tensor with sizes {}",
        x.len(),
        fmt_sizes(x)
    );
    let d = input.dtype();
    let nearest = linear.starts_with("nearest");
    let flat_bytes = d == DType::U8 && (nearest || x.len() == 4);
    if !(d.is_floating() || flat_bytes) || (antialias && matches!(d, DType::F16 | DType::BF16)) {
        let label = match linear {
            _ if antialias => "compute_index_ranges_weights",
            // PyTorch has kernels of their own for small images
            "cubic" => "compute_indices_weights_cubic",
            _ if n == 2 && out[0] + out[1] <= 128 => {
                if nearest {
                    "upsample_nearest2d_channels_last"
                } else {
                    "upsample_bilinear2d_channels_last"
                }
            }
            _ if nearest => "compute_indices_weights_nearest",
            _ => "compute_indices_weights_linear",
        };
        return Err(Error::not_implemented_for(label, d));
    }
    // halves are resampled in float32 and rounded once; bytes, once for each dimension
    let own = d == DType::F64 || (d == DType::U8 && !nearest);
    let last_first = match linear {
        "linear" if n == 2 => {
            let last = x[1] > 3 && input.is_contiguous_format(MemoryFormat::ChannelsLast);
            last || out[0] + out[1] <= 128
        }
        "linear" if n == 3 => input.is_contiguous_format(MemoryFormat::ChannelsLast3d),
        _ => false,
    };
    let weights = (!last_first && matches!(d, DType::F16 | DType::BF16)).then_some(d);
    let mut y = cast(input, if own { d } else { DType::F32 })?;
    for k in (0..n).rev() {
        y = crate::ops::resample(&y, k as i64 + 2, out[k], linear, aligned, antialias, scales[k], weights)?;
    }
    cast(&y, d)
}
/// `interpolate` with one factor.
pub fn interpolate_by(
    input: &Tensor,
    size: Option<&[i64]>,
    scale_factor: Option<f64>,
    mode: &str,
    align_corners: Option<bool>,
    recompute_scale_factor: Option<bool>,
    antialias: bool,
) -> Result<Tensor> {
    let f = scale_factor.map(|s| [s]);
    let f = f.as_ref().map(|f| &f[..]);
    interpolate(input, size, f, mode, align_corners, recompute_scale_factor, antialias)
}
/// `upsample`
pub fn upsample(
    input: &Tensor,
    size: Option<&[i64]>,
    scale_factor: Option<&[f64]>,
    mode: &str,
    align_corners: Option<bool>,
) -> Result<Tensor> {
    interpolate(input, size, scale_factor, mode, align_corners, None, false)
}
/// `upsample_nearest`
pub fn upsample_nearest(
    input: &Tensor,
    size: Option<&[i64]>,
    scale_factor: Option<&[f64]>,
) -> Result<Tensor> {
    interpolate(input, size, scale_factor, "nearest", None, None, false)
}
/// `upsample_bilinear`
pub fn upsample_bilinear(
    input: &Tensor,
    size: Option<&[i64]>,
    scale_factor: Option<&[f64]>,
) -> Result<Tensor> {
    interpolate(input, size, scale_factor, "bilinear", Some(true), None, false)
}

/// `_upsample_bilinear2d_aa`
pub fn upsample_bilinear2d_aa(
    self_: &Tensor,
    output_size: &[i64],
    align_corners: bool,
    scales_h: Option<f64>,
    scales_w: Option<f64>,
) -> Result<Tensor> {
    let x = self_.sizes();
    ensure!(x.len() == 4, Runtime, "It is expected input_size equals to 4, but got size {}", x.len());
    let [h, w] = output_size else {
        bail!(Runtime, "It is expected output_size equals to 2, but got size {}", output_size.len());
    };
    ensure!(
        x[2] > 0 && x[3] > 0 && *h > 0 && *w > 0,
        Runtime,
        "Input and output sizes should be greater than 0, but got input (H: {}, W: {}) output (H: {h}, W: {w})",
        x[2],
        x[3]
    );
    let d = self_.dtype();
    if !(d.is_floating() || d == DType::U8) {
        return Err(Error::not_implemented_for("compute_index_ranges_weights", d));
    }
    flambeau_core::tensor::geometry::checked_bytes(&[x[0], x[1], *h, *w], self_.element_size())?;
    let y = cast(self_, if d == DType::F64 { d } else { DType::F32 })?;
    let y = crate::ops::resample(&y, 3, *w, "linear", align_corners, true, scales_w, None)?;
    let y = crate::ops::resample(&y, 2, *h, "linear", align_corners, true, scales_h, None)?;
    // bytes are rounded, not cut
    let y = if d == DType::U8 { flambeau_core::ops::round(&y)? } else { y };
    cast(&y, d)
}
/// `_upsample_bilinear2d_aa.vec`
pub fn upsample_bilinear2d_aa_vec(
    input: &Tensor,
    output_size: Option<&[i64]>,
    align_corners: bool,
    scale_factors: Option<&[f64]>,
) -> Result<Tensor> {
    match (output_size, scale_factors) {
        (Some(size), None) => crate::ops::upsample_bilinear2d_aa(input, size, align_corners, None, None),
        (None, Some(&[h, w])) if input.dim() == 4 => {
            let scaled = |d: usize, s: f64| -> Result<i64> {
                let size = (input.sizes()[d] as f64 * s).floor();
                let fits = size >= i64::MIN as f64 && size < i64::MAX as f64;
                ensure!(fits, Runtime, "value cannot be converted to type int64_t without overflow");
                Ok(size as i64)
            };
            let size = [scaled(2, h)?, scaled(3, w)?];
            crate::ops::upsample_bilinear2d_aa(input, &size, align_corners, Some(h), Some(w))
        }
        (None, Some(f)) => bail!(Runtime, "scale_factors: expected 2 of a 4-D input, got {}", f.len()),
        _ => bail!(Runtime, "Must specify exactly one of output_size and scale_factors"),
    }
}
