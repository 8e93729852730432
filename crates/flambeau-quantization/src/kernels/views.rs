//! Views: other geometries over the same integers. With one scale for all they are those of any tensor; with one per channel
//! the channels' dimension must be found again.

use crate::tensor::by_channel;
use flambeau_core::dispatch::op::AnyOp;
use flambeau_core::generated::views as v;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::wrap_dim;
use flambeau_core::tensor::quantized::Quantizer;
use flambeau_core::types::keys::Key::{Cpu, QuantizedCpu};
use flambeau_core::{Error, Result, Tensor, ensure, ops};
use std::sync::Arc;

/// The CPU's function of a row, which works on any strided memory.
macro_rules! strided {
    ($stat:ident) => {
        v::$stat.at(Cpu).ok_or_else(|| Error::runtime("a view without a function"))?
    };
}
/// PyTorch makes these by setting strides, which it does with one scale alone.
fn setting_strides(t: &Tensor) -> Result<()> {
    let one = t.quantizer().is_none_or(|q| q.scheme().is_per_tensor());
    ensure!(one, Runtime, "Setting strides is possible only on uniformly quantized tensor");
    Ok(())
}
/// A view whose channels lie along another dimension.
fn moved(t: &Tensor, view: Tensor, axis: impl FnOnce(i64) -> i64) -> Result<Tensor> {
    if let Some(q) = t.quantizer()
        && let Quantizer::PerChannel { scales, zero_points, axis: a } = &*q
    {
        view.set_quantizer(Arc::new(Quantizer::PerChannel {
            scales: scales.clone(),
            zero_points: zero_points.clone(),
            axis: axis(*a),
        }))?;
    }
    Ok(view)
}
/// A part of a tensor along `dim`: its rule has the part of the parameters.
fn part(
    t: &Tensor,
    view: Tensor,
    dim: i64,
    select: bool,
    cut: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let Some(q) = t.quantizer() else { return Ok(view) };
    let Quantizer::PerChannel { scales, zero_points, axis } = &*q else { return Ok(view) };
    let (mut s, mut z) = (scales.clone(), zero_points.clone());
    if wrap_dim(dim, t.dim())? as i64 == *axis {
        (s, z) = (cut(&s)?, cut(&z)?);
    }
    let new = if s.numel() > 1 {
        by_channel(&s, &z, if select { axis - 1 } else { *axis })?
    } else {
        Arc::new(Quantizer::PerTensor { scale: s.try_item()?, zero_point: z.try_item::<f64>()? as i64 })
    };
    view.set_quantizer(new)?;
    Ok(view)
}
fn select(t: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    let view = strided!(SELECT)(t, dim, index)?;
    part(t, view, dim, true, |p| ops::unsqueeze(&ops::select(p, 0, index)?, 0))
}
fn slice(t: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor> {
    let view = strided!(SLICE)(t, dim, start, end, step)?;
    part(t, view, dim, false, |p| ops::slice(p, 0, start, end, step))
}
fn uniform(t: &Tensor) -> bool {
    t.quantizer().is_none_or(|q| q.scheme().is_per_tensor())
}
fn along(t: &Tensor, dim: i64, sizes: &[i64]) -> Result<Vec<Tensor>> {
    let mut at = 0;
    let mut all = Vec::new();
    for n in sizes {
        all.push(slice(t, dim, Some(at), Some(at + n), 1)?);
        at += n;
    }
    Ok(all)
}
fn unbind(t: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    if uniform(t) {
        return strided!(UNBIND)(t, dim);
    }
    let n = t.sizes()[wrap_dim(dim, t.dim())?];
    (0..n).map(|i| select(t, dim, i)).collect()
}
fn split(t: &Tensor, size: i64, dim: i64) -> Result<Vec<Tensor>> {
    let all = strided!(SPLIT)(t, size, dim)?;
    if uniform(t) {
        return Ok(all);
    }
    let d = wrap_dim(dim, t.dim())?;
    along(t, dim, &all.iter().map(|p| p.sizes()[d]).collect::<Vec<_>>())
}
fn split_with_sizes(t: &Tensor, sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    let all = strided!(SPLIT_WITH_SIZES)(t, sizes, dim)?;
    if uniform(t) { Ok(all) } else { along(t, dim, sizes) }
}
fn unsqueeze(t: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, t.dim() + 1)? as i64;
    moved(t, strided!(UNSQUEEZE)(t, dim)?, |a| if a >= d { a + 1 } else { a })
}
/// Where the channels are once dimensions of size 1 among `dims` are gone; they must not be theirs.
fn squeezed(t: &Tensor, view: Tensor, dims: &[usize]) -> Result<Tensor> {
    let gone: Vec<i64> = dims.iter().filter(|d| t.sizes()[**d] == 1).map(|d| *d as i64).collect();
    if let Some(q) = t.quantizer()
        && let Quantizer::PerChannel { axis, .. } = &*q
    {
        ensure!(
            !gone.contains(axis),
            Runtime,
            "Squeeze is only possible on non-axis dimension for Per-Channel Quantized Tensors."
        );
    }
    moved(t, view, |a| a - gone.iter().filter(|d| **d < a).count() as i64)
}
fn squeeze_dims(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let view = strided!(SQUEEZE_DIMS)(t, dims)?;
    let dims = dims.iter().map(|d| wrap_dim(*d, t.dim())).collect::<Result<Vec<_>>>()?;
    squeezed(t, view, if t.dim() == 0 { &[] } else { &dims })
}

pub(super) fn fill() {
    let same: [&dyn AnyOp; 4] = [&v::VIEW, &v::EXPAND, &v::ALIAS, &v::DETACH];
    for op in same {
        op.adopt(QuantizedCpu);
    }
    v::AS_STRIDED.register(QuantizedCpu, |t, n, s, o| {
        setting_strides(t)?;
        strided!(AS_STRIDED)(t, n, s, o)
    });
    v::TRANSPOSE.register(QuantizedCpu, |t, a, b| {
        setting_strides(t)?;
        strided!(TRANSPOSE)(t, a, b)
    });
    v::PERMUTE.register(QuantizedCpu, |t, d| {
        setting_strides(t)?;
        strided!(PERMUTE)(t, d)
    });
    v::DIAGONAL.register(QuantizedCpu, |t, o, a, b| {
        setting_strides(t)?;
        strided!(DIAGONAL)(t, o, a, b)
    });
    v::UNFOLD.register(QuantizedCpu, |t, d, n, s| {
        setting_strides(t)?;
        strided!(UNFOLD)(t, d, n, s)
    });
    v::SELECT.register(QuantizedCpu, select);
    v::SLICE.register(QuantizedCpu, slice);
    v::UNBIND.register(QuantizedCpu, unbind);
    v::SPLIT.register(QuantizedCpu, split);
    v::SPLIT_WITH_SIZES.register(QuantizedCpu, split_with_sizes);
    v::UNSQUEEZE.register(QuantizedCpu, unsqueeze);
    v::SQUEEZE.register(QuantizedCpu, |t| {
        let all: Vec<usize> = (0..t.dim()).collect();
        squeezed(t, strided!(SQUEEZE)(t)?, &all)
    });
    v::SQUEEZE_DIM.register(QuantizedCpu, |t, d| squeeze_dims(t, &[d]));
    v::SQUEEZE_DIMS.register(QuantizedCpu, squeeze_dims);
}
