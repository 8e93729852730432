//! What layers become: the quantized forms of float layers and of those that were trained with rounding.

use crate::fake_quantize::FakeQuantize;
use crate::flow::{self, Mapping, POST, class, wanted};
use crate::nn::conv::{Conv, ConvShape};
use crate::nn::conv_add::ConvAdd2d;
use crate::nn::float_functional::Functional;
use crate::nn::layer::{Layer, LayerKind, rule_of};
use crate::nn::linear::{Linear, LinearKind, quantized_weight, weight_by};
use crate::nn::qat::Qat;
use crate::observers::Observer;
use crate::qconfig::{Make, QConfig};
use crate::stubs::{Fused, Stub};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, bail, ops};
use flambeau_nn as nn;
use flambeau_nn::internal::{Padding, Run};
use flambeau_nn::{Module, Parameter};

/// Scale and zero point that the observer behind a module found.
pub(crate) fn observed(m: &dyn Module) -> Result<(f64, i64)> {
    let post = m.base().and_then(|b| b.module(POST));
    let Some(post) = post else {
        return Err(Error::attribute(format!(
            "'{}' object has no attribute 'activation_post_process'",
            class(m)
        )));
    };
    if let Some(o) = post.downcast_ref::<Observer>() {
        return rule_of(o.try_calculate_qparams()?);
    }
    if let Some(f) = post.downcast_ref::<FakeQuantize>() {
        return rule_of(f.try_calculate_qparams()?);
    }
    Err(Error::runtime("a module that observes nothing has no scale"))
}
pub(crate) fn plain(p: &Option<Parameter>) -> Option<Tensor> {
    p.as_ref().map(|p| p.tensor().alias_detached())
}
/// The arguments, weight and bias of a convolution.
pub(crate) fn conv_of(m: &dyn Module) -> Option<(ConvShape, Tensor, Option<Tensor>)> {
    macro_rules! of {
        ($($t:ident),*) => {$(
            if let Some(c) = m.downcast_ref::<nn::$t>() {
                let o = &c.options;
                let padding = match &o.padding {
                    Padding::Each(p) => p.to_vec(),
                    Padding::Name(_) => return None,
                };
                let shape = ConvShape {
                    in_channels: o.in_channels,
                    out_channels: o.out_channels,
                    kernel_size: o.kernel_size.0.to_vec(),
                    stride: o.stride.0.to_vec(),
                    output_padding: vec![0; padding.len()],
                    padding,
                    dilation: o.dilation.0.to_vec(),
                    groups: o.groups,
                    transposed: false,
                };
                return Some((shape, c.weight.tensor().alias_detached(), plain(&c.bias)));
            }
        )*};
    }
    of!(Conv1d, Conv2d, Conv3d);
    macro_rules! transposed {
        ($($t:ident),*) => {$(
            if let Some(c) = m.downcast_ref::<nn::$t>() {
                let o = &c.options;
                let shape = ConvShape {
                    in_channels: o.in_channels,
                    out_channels: o.out_channels,
                    kernel_size: o.kernel_size.0.to_vec(),
                    stride: o.stride.0.to_vec(),
                    output_padding: o.output_padding.0.to_vec(),
                    padding: o.padding.0.to_vec(),
                    dilation: o.dilation.0.to_vec(),
                    groups: o.groups,
                    transposed: true,
                };
                return Some((shape, c.weight.tensor().alias_detached(), plain(&c.bias)));
            }
        )*};
    }
    transposed!(ConvTranspose1d, ConvTranspose2d, ConvTranspose3d);
    None
}
/// The quantized form of a layer, if it is to have one.
pub(crate) fn swapped(m: &dyn Module, mapping: Mapping) -> Result<Option<Box<dyn Run>>> {
    let Some(q) = wanted(m) else { return Ok(None) };
    let new: Box<dyn Run> = match mapping {
        Mapping::Static => match static_form(m, &q)? {
            Some(new) => new,
            None => return Ok(None),
        },
        Mapping::Dynamic => {
            if let Some(l) = m.downcast_ref::<nn::Linear>() {
                let w = quantized_weight(l.weight.tensor(), &q.weight)?;
                Box::new(Linear::of(w, plain(&l.bias), (1.0, 0), LinearKind::Dynamic, false))
            } else if let Some(new) = crate::nn::recurrent::dynamic_form(m, &q)? {
                new
            } else if let Some(new) = crate::nn::embedding::quantized_form(m, &q)? {
                new
            } else {
                return Ok(None);
            }
        }
    };
    Ok(Some(new))
}
fn static_form(m: &dyn Module, q: &QConfig) -> Result<Option<Box<dyn Run>>> {
    if let Some(s) = m.downcast_ref::<Stub>() {
        if !s.quantize {
            return Ok(Some(Box::new(Layer::new(LayerKind::DeQuantize, 1.0, 0))));
        }
        let (scale, zero) = observed(m)?;
        let dtype = q.activation.dtype().unwrap_or(DType::QU8);
        return Ok(Some(Box::new(Layer::new(LayerKind::Quantize { dtype }, scale, zero))));
    }
    if let Some(f) = m.downcast_ref::<Functional>() {
        if f.is_quantized() {
            return Ok(None);
        }
        let (new, (scale, zero)) = (Functional::new(true), observed(m)?);
        new.set_rule(scale, zero);
        return Ok(Some(Box::new(new)));
    }
    if let Some(t) = m.downcast_ref::<Qat>() {
        return trained_form(m, t).map(Some);
    }
    if let Some(new) = crate::nn::embedding::quantized_form(m, q)? {
        return Ok(Some(new));
    }
    if let Some(c) = m.downcast_ref::<ConvAdd2d>()
        && let Some((_, w, _)) = conv_of(c.conv())
    {
        return Ok(Some(Box::new(c.quantized(&quantized_weight(&w, &q.weight)?, observed(m)?)?)));
    }
    let (body, relu) = match m.downcast_ref::<Fused>() {
        Some(f) if matches!(f.name(), "LinearReLU" | "ConvReLU1d" | "ConvReLU2d" | "ConvReLU3d") => {
            (f.part(0).map(|p| p.as_module()).unwrap_or(m), true)
        }
        _ => (m, false),
    };
    if let Some(l) = body.downcast_ref::<nn::Linear>() {
        let w = quantized_weight(l.weight.tensor(), &q.weight)?;
        return Ok(Some(Box::new(Linear::of(w, plain(&l.bias), observed(m)?, LinearKind::Static, relu))));
    }
    if let Some((shape, w, bias)) = conv_of(body) {
        let w = quantized_weight(&w, &q.weight)?;
        return Ok(Some(Box::new(Conv::of(shape, w, bias, observed(m)?, relu))));
    }
    if m.is::<nn::ReLU6>() {
        return Ok(Some(Box::new(Layer::new(LayerKind::ReLU6, 1.0, 0))));
    }
    if let Some(d) = m.downcast_ref::<nn::Dropout>() {
        return Ok(Some(Box::new(Layer::new(LayerKind::Dropout { p: d.options.p.to_f64() }, 1.0, 0))));
    }
    let Some(kind) = layer_kind(m, Some(&q.weight))? else { return Ok(None) };
    let (scale, zero) = observed(m)?;
    Ok(Some(Box::new(Layer::new(kind, scale, zero))))
}
/// What a layer of one tensor becomes that has a rule for its results; `by` looks at its weight, where that is quantized too.
pub(crate) fn layer_kind(m: &dyn Module, by: Option<&Make>) -> Result<Option<LayerKind>> {
    macro_rules! instance_norms {
        ($($t:ident $dims:literal),*) => {$(
            if let Some(l) = m.downcast_ref::<nn::$t>() {
                return Ok(Some(LayerKind::InstanceNorm {
                    dims: $dims,
                    channels: l.options.num_features,
                    weight: plain(&l.weight),
                    bias: plain(&l.bias),
                    eps: l.options.eps,
                }));
            }
        )*};
    }
    instance_norms!(InstanceNorm1d 1, InstanceNorm2d 2, InstanceNorm3d 3);
    let (norm, relu) = match m.downcast_ref::<Fused>() {
        Some(f) => (f.part(0).map_or(m, |p| p.as_module()), true),
        None => (m, false),
    };
    if (norm.is::<nn::BatchNorm2d>() || norm.is::<nn::BatchNorm3d>())
        && let Some((mean, var, eps, weight, bias)) = flow::batch_norm_of(norm)
    {
        let dims = if norm.is::<nn::BatchNorm2d>() { 2 } else { 3 };
        let like = |t: Option<Tensor>, v: f64| match t {
            Some(t) => Ok(t),
            None => ops::full_like(&mean, Scalar::Float(v), None, None, None, None, None),
        };
        let (weight, bias) = (like(weight, 1.0)?, like(bias, 0.0)?);
        return Ok(Some(LayerKind::BatchNorm { dims, weight, bias, mean, var, eps, relu }));
    }
    Ok(Some(if m.is::<nn::Hardswish>() {
        LayerKind::Hardswish
    } else if let Some(l) = m.downcast_ref::<nn::LeakyReLU>() {
        LayerKind::LeakyReLU { slope: l.options.negative_slope.to_f64() }
    } else if let Some(l) = m.downcast_ref::<nn::ELU>() {
        LayerKind::Elu { alpha: l.options.alpha.to_f64() }
    } else if let Some(l) = m.downcast_ref::<nn::LayerNorm>() {
        LayerKind::LayerNorm {
            shape: l.options.normalized_shape.0.to_vec(),
            weight: plain(&l.weight),
            bias: plain(&l.bias),
            eps: l.options.eps,
        }
    } else if let Some(l) = m.downcast_ref::<nn::GroupNorm>() {
        LayerKind::GroupNorm {
            groups: l.options.num_groups,
            channels: l.options.num_channels,
            weight: plain(&l.weight),
            bias: plain(&l.bias),
            eps: l.options.eps,
        }
    } else if let (Some(l), Some(by)) = (m.downcast_ref::<nn::PReLU>(), by) {
        LayerKind::PReLU { weight: slopes(l.weight.tensor(), by)? }
    } else {
        return Ok(None);
    }))
}

/// The slopes of a PReLU: quint8 by what was found, whatever dtype it was found for, as PyTorch has them.
fn slopes(w: &Tensor, by: &Make) -> Result<Tensor> {
    let q = quantized_weight(w, by)?;
    if q.dtype() == DType::QU8 {
        return Ok(q);
    }
    let (scale, zero) = crate::tensor::affine(&q)?;
    crate::ops::quantize_per_tensor(&w.alias_detached(), scale, zero, DType::QU8)
}
/// The float layer of one that was trained with rounding: batch normalisation is in its numbers.
pub(crate) fn float_form(t: &Qat) -> Result<Box<dyn Run>> {
    let Some((mean, var, eps, bw, bb)) = t.bn().and_then(flow::batch_norm_of) else {
        return flow::copy(t.body());
    };
    let (w, bias) = numbers_of(t.body())?;
    let (w, b) =
        flow::try_fuse_conv_bn_weights(&w, bias.as_ref(), (&mean, &var), eps, bw.as_ref(), bb.as_ref())?;
    flow::with_numbers(t.body(), &w, &b)
}
/// Weight and bias of a linear map or a convolution.
fn numbers_of(m: &dyn Module) -> Result<(Tensor, Option<Tensor>)> {
    match m.downcast_ref::<nn::Linear>() {
        Some(l) => Ok((l.weight.tensor().alias_detached(), plain(&l.bias))),
        None => conv_of(m)
            .map(|(_, w, b)| (w, b))
            .ok_or_else(|| Error::missing("quantized convolutions with padding by name")),
    }
}
/// What was trained as it was rounded, with the batch normalisation in it.
fn trained_form(m: &dyn Module, t: &Qat) -> Result<Box<dyn Run>> {
    let float = float_form(t)?;
    let (w, bias) = numbers_of(float.as_module())?;
    t.looked_at(&w)?;
    let by = t.weight_fake_quant();
    let w = if let Some(f) = by.downcast_ref::<FakeQuantize>() {
        let (scale, zero) = f.try_calculate_qparams()?;
        weight_by(&w, &f.spec.observer, &scale, &zero)?
    } else if let Some(o) = by.downcast_ref::<Observer>() {
        let (scale, zero) = o.try_calculate_qparams()?;
        weight_by(&w, &o.spec, &scale, &zero)?
    } else {
        bail!(Runtime, "a weight that nothing rounds cannot be quantized");
    };
    Ok(match conv_of(t.body()) {
        Some((shape, ..)) => Box::new(Conv::of(shape, w, bias, observed(m)?, t.relu())),
        None => Box::new(Linear::of(w, bias, observed(m)?, LinearKind::Static, t.relu())),
    })
}
