//! Padding.

use super::operands::{done, plain};
use crate::generated::args;
use flambeau_core::backend::out::OutMeta;
use flambeau_core::dispatch::autocast::{DeviceType, without};
use flambeau_core::internal::Access;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::{self, SizeVec, fmt_sizes};
use flambeau_core::{Error, Result, Scalar, Tensor, bail, ensure, ops as core_ops};

/// Padding before and after each dimension, in the order of dimensions.
fn by_dim(rank: usize, pad: &[i64], op: &str) -> Result<Vec<(i64, i64)>> {
    ensure!(
        pad.len().is_multiple_of(2),
        Runtime,
        "Length of pad must be even but instead it equals {}",
        pad.len()
    );
    ensure!(
        pad.len() <= 2 * rank,
        Runtime,
        "Length of pad should be no more than twice the number of dimensions of the input. Pad length is {}while the input has {rank}dimensions.",
        pad.len()
    );
    let _ = op;
    let mut all = vec![(0, 0); rank];
    for (k, p) in pad.chunks_exact(2).enumerate() {
        all[rank - 1 - k] = (p[0], p[1]);
    }
    Ok(all)
}
fn grown(size: i64, (before, after): (i64, i64)) -> Result<i64> {
    size.checked_add(before)
        .and_then(|s| s.checked_add(after))
        .ok_or_else(|| Error::runtime("pad: the padded size overflows"))
}

/// Sizes of the padded tensor.
fn constant_sizes(self_: &Tensor, pad: &[i64]) -> Result<(SizeVec, Vec<(i64, i64)>)> {
    let all = by_dim(self_.dim(), pad, "constant_pad_nd")?;
    let mut sizes = SizeVec::new();
    // PyTorch cuts first, by `narrow`, whose text the errors have
    let cut = |n: i64, p: &(i64, i64)| n.saturating_add(p.0.min(0)).saturating_add(p.1.min(0)) >= 0;
    let kept = all.iter().zip(self_.sizes()).all(|(p, n)| cut(*n, p));
    ensure!(kept, Runtime, "narrow(): length must be non-negative.");
    for (d, p) in all.iter().enumerate() {
        // what overflows is reported as PyTorch does, where it comes out negative
        let n = grown(self_.sizes()[d], *p).unwrap_or(-1);
        let left = self_.sizes()[d].saturating_add(p.0.min(0));
        ensure!(
            left >= 0 && left.saturating_add(p.1.min(0)) >= 0,
            Runtime,
            "narrow(): length must be non-negative."
        );
        ensure!(
            n >= 0,
            Runtime,
            "The input size {}, plus negative padding {} and {} resulted in a negative output size, which is invalid. Check dimension {d} of your input.",
            self_.sizes()[d],
            p.0,
            p.1
        );
        sizes.push(n);
    }
    Ok((sizes, all))
}
/// `constant_pad_nd`
pub fn constant_pad_nd(self_: &Tensor, pad: &[i64], value: Scalar) -> Result<Tensor> {
    let (sizes, all) = constant_sizes(self_, pad)?;
    let out = Tensor::empty_raw(&sizes, self_.dtype(), self_.device())?;
    if all.iter().any(|p| p.0 > 0 || p.1 > 0) {
        core_ops::fill_(&out, value)?;
    }
    let (mut to, mut from) = (out.clone(), self_.clone());
    for (d, p) in all.iter().enumerate() {
        if *p == (0, 0) {
            continue;
        }
        let n = self_.sizes()[d];
        let (first, last) = (p.0.saturating_neg().max(0), n.saturating_sub(p.1.saturating_neg().max(0)));
        if first >= last {
            return Ok(out);
        }
        from = core_ops::slice(&from, d as i64, Some(first), Some(last), 1)?;
        let start = p.0.max(0);
        to = core_ops::slice(&to, d as i64, Some(start), Some(start + last - first), 1)?;
    }
    core_ops::copy_(&to, &from, false)?;
    Ok(out)
}

const REFLECT: i64 = 0;
const REPLICATE: i64 = 1;
const CIRCULAR: i64 = 2;

/// For each position of the padded dimension the one of the input that it shows.
fn sources(n: i64, (before, after): (i64, i64), mode: i64) -> Result<Vec<usize>> {
    let mut all = geometry::room(n + before + after)?;
    if mode == CIRCULAR {
        wrapped(&mut all, n, (before, after));
        return Ok(all);
    }
    all.extend((-before..n + after).map(|i| {
        let j = match mode {
            REFLECT => {
                let j = i.abs();
                if j >= n { 2 * (n - 1) - j } else { j }
            }
            _ => i.clamp(0, n - 1),
        };
        j as usize
    }));
    Ok(all)
}
/// [`sources`] of wrapping, by the copies that PyTorch makes: what stays of the input goes to its place, then each side gets
/// what stands at the other end of the padded dimension. Padding on one side with less on the other reads places that
/// nothing was copied to; where PyTorch finds unset memory the input goes round.
fn wrapped(all: &mut Vec<usize>, n: i64, (before, after): (i64, i64)) {
    let length = n + before + after;
    let round = |i: i64| (i - before).rem_euclid(n.max(1)) as usize;
    all.extend((0..length).map(round));
    if before > 0 {
        for i in 0..before.min(length) {
            if let Some(from) = all.get((length - before - after.max(0) + i).max(0) as usize).copied() {
                all[i as usize] = from;
            }
        }
    }
    if after > 0 {
        for i in 0..after.min(length) {
            if let Some(from) = all.get((before.max(0) + i) as usize).copied() {
                all[(length - after.min(length) + i) as usize] = from;
            }
        }
    }
}
/// The padded sizes, with PyTorch's checks.
fn padded_sizes(sizes: &[i64], pad: &[i64], mode: i64) -> Result<(SizeVec, Vec<(i64, i64)>)> {
    let all = by_dim(sizes.len(), pad, "pad")?;
    let mut out = SizeVec::new();
    for (d, p) in all.iter().enumerate() {
        let n = sizes[d];
        let (before, after) = *p;
        if *p != (0, 0) {
            match mode {
                REFLECT => ensure!(
                    before < n && after < n,
                    Runtime,
                    "Argument #{}: Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) at dimension {d} of input {}",
                    2 * (sizes.len() - d) + 2,
                    fmt_sizes(sizes)
                ),
                REPLICATE => {}
                CIRCULAR => {
                    ensure!(
                        before <= n && after <= n,
                        Runtime,
                        "Padding value causes wrapping around more than once."
                    );
                    ensure!(
                        n.saturating_add(before).saturating_add(after) >= 0,
                        Runtime,
                        "Negative padding value is resulting in an empty dimension"
                    );
                }
                _ => bail!(Value, "pad: mode must be 0, 1 or 2, got {mode}"),
            }
            ensure!(
                n > 0,
                Runtime,
                "pad: expected a non-empty dimension {d}, got an input of {}",
                fmt_sizes(sizes)
            );
        }
        let g = grown(n, *p)?;
        let sane = |v: i64| v.unsigned_abs() < 1 << 61;
        ensure!(sane(n) && sane(before) && sane(after), Runtime, "pad: the padded size overflows");
        out.push(g);
    }
    let n = pad.len() / 2;
    let first = sizes.len() - n;
    // what wraps may leave nothing
    let fits =
        mode == CIRCULAR || out[first..].iter().zip(&all[first..]).all(|(g, p)| *g >= 1 || *p == (0, 0));
    let named = |v: &[i64], joint: &str| {
        let axes = ["D", "H", "W"].iter().skip(3usize.saturating_sub(n)).zip(v);
        axes.map(|(a, v)| format!("{a}: {v}")).collect::<Vec<_>>().join(joint)
    };
    let (input, output) = (&sizes[first..], &out[first..]);
    ensure!(
        fits || n != 1,
        Runtime,
        "input ({}) is too small. Calculated output {}",
        named(input, ", "),
        named(output, " ")
    );
    ensure!(
        fits,
        Runtime,
        "Calculated output {} must be >= 1 in every dimension (input {})",
        named(output, " "),
        named(input, ", ")
    );
    Ok((out, all))
}
fn maps(sizes: &[i64], all: &[(i64, i64)], mode: i64) -> Result<Vec<Vec<usize>>> {
    let mut maps: Vec<Vec<usize>> =
        sizes.iter().zip(all).map(|(n, p)| sources(*n, *p, mode)).collect::<Result<_>>()?;
    let strides = geometry::contiguous_strides(sizes);
    for (m, s) in maps.iter_mut().zip(&strides) {
        m.iter_mut().for_each(|i| *i *= *s as usize);
    }
    Ok(maps)
}

/// `_pad_gather`
pub fn pad_gather_shape(&args::PadGather { self_, pad, mode }: &args::PadGather) -> Result<OutMeta> {
    let (sizes, _) = padded_sizes(self_.sizes(), pad, mode)?;
    Ok(OutMeta::new(sizes, self_.dtype(), self_.device()))
}
/// `_pad_gather`
pub fn pad_gather_cpu(&args::PadGather { self_, pad, mode }: &args::PadGather, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let (_, all) = padded_sizes(self_.sizes(), pad, mode)?;
    let x = plain(self_)?;
    let maps = maps(x.sizes(), &all, mode)?;
    let a = Access::new(&[&x], &[out])?;
    done(flambeau_cpu::padding::gather(&maps, a.any(0)?, a.any_mut(0)?), "pad", x.dtype())
}
/// `_pad_scatter`
pub fn pad_scatter_shape(
    &args::PadScatter { grad_output, sizes, pad, mode }: &args::PadScatter,
) -> Result<OutMeta> {
    let (want, _) = padded_sizes(sizes, pad, mode)?;
    ensure!(
        want[..] == *grad_output.sizes(),
        Shape,
        "pad backward: expected a gradient of {}, got {}",
        fmt_sizes(&want),
        fmt_sizes(grad_output.sizes())
    );
    Ok(OutMeta::of(sizes, grad_output.dtype(), grad_output.device()))
}
/// `_pad_scatter`
pub fn pad_scatter_cpu(
    &args::PadScatter { grad_output, sizes, pad, mode }: &args::PadScatter,
    out: &Tensor,
) -> Result<()> {
    let (_, all) = padded_sizes(sizes, pad, mode)?;
    let g = plain(grad_output)?;
    core_ops::zero_(out)?;
    if grad_output.numel() == 0 {
        return Ok(());
    }
    let maps = maps(sizes, &all, mode)?;
    let a = Access::new(&[&g], &[out])?;
    done(flambeau_cpu::padding::scatter(&maps, a.any(0)?, a.any_mut(0)?), "pad_backward", g.dtype())
}

/// `torch.nn.functional.pad`
pub fn pad(input: &Tensor, pad: &[i64], mode: &str, value: Option<f64>) -> Result<Tensor> {
    ensure!(pad.len().is_multiple_of(2), Runtime, "Padding length must be divisible by 2");
    ensure!(
        pad.len() <= input.dim() * 2,
        Runtime,
        "Padding length should be less than or equal to two times the input dimension but got padding length {} and input of dimension {}",
        pad.len(),
        input.dim()
    );
    if mode == "constant" {
        let value = value.map_or(Scalar::Int(0), Scalar::Float);
        return super::constant_pad_nd(input, pad, value);
    }
    let code = match mode {
        "reflect" => REFLECT,
        "replicate" => REPLICATE,
        "circular" => CIRCULAR,
        _ => bail!(Unsupported, "Unrecognised padding mode {mode}"),
    };
    ensure!(
        value.is_none_or(|v| v == 0.0),
        Runtime,
        "Padding mode \"{mode}\" doesn't take in value argument"
    );
    let n = pad.len() / 2;
    ensure!(
        (1..=3).contains(&n) && (input.dim() == n + 1 || input.dim() == n + 2),
        Unsupported,
        "Padding size {} is not supported for {}D input tensor.\nSupported combinations for non-constant padding:\n  - 2D \
         or 3D input: padding size = 2 (pads last dimension)\n  - 3D or 4D input: padding size = 4 (pads last 2 \
         dimensions)\n  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)",
        pad.len(),
        input.dim()
    );
    if code != CIRCULAR {
        let name = if code == REFLECT { "reflection" } else { "replication" };
        let batch = usize::from(input.dim() == n + 2);
        ensure!(
            input.sizes()[batch..].iter().all(|s| *s > 0),
            Runtime,
            "Expected {}D or {}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {}",
            n + 1,
            n + 2,
            fmt_sizes(input.sizes())
        );
        if input.dtype() == flambeau_core::DType::Bool {
            return Err(Error::not_implemented_for(&format!("{name}_pad{n}d"), input.dtype()));
        }
    }
    if code == CIRCULAR {
        return pad_circular(input, pad);
    }
    // PyTorch's operator has no rule
    if code == REFLECT && n == 3 {
        return without(DeviceType::Cpu, || super::pad_gather(input, pad, code));
    }
    super::pad_gather(input, pad, code)
}
/// `pad_circular`
pub fn pad_circular(input: &Tensor, padding: &[i64]) -> Result<Tensor> {
    let (_, all) = padded_sizes(input.sizes(), padding, CIRCULAR)?;
    let nothing = |(n, p): (&i64, &(i64, i64))| *p != (0, 0) && n + p.0.min(0) + p.1.min(0) <= 0;
    if input.sizes().iter().zip(&all).any(nothing) {
        // what to go round was cut away: PyTorch leaves memory there that nobody wrote, here it is zeros
        return super::constant_pad_nd(input, padding, Scalar::Int(0));
    }
    // PyTorch's operator has no rule
    without(DeviceType::Cpu, || super::pad_gather(input, padding, CIRCULAR))
}
