//! Copies, fills, and what moves integers without looking at them.

use crate::tensor::{affine, could_not_run, dense, mapped, rounded, rule, suggested, uniform_only, wrap};
use flambeau_core::generated::{copy as c, creation as m, indexing as i, joining as j};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::contiguous_strides;
use flambeau_core::tensor::quantized::Quantizer;
use flambeau_core::types::keys::Key::QuantizedCpu;
use flambeau_core::{DType, Device, Layout, MemoryFormat, Result, Scalar, Tensor, ensure, ops};

fn clone(t: &Tensor, format: Option<MemoryFormat>) -> Result<Tensor> {
    let format = match format {
        None | Some(MemoryFormat::Preserve) => suggested(t),
        Some(f) => f,
    };
    let q = rule(t, "clone")?;
    let copy = ops::clone(
        &t.integers()?,
        Some(if t.dtype().per_byte() > 1 { MemoryFormat::Contiguous } else { format }),
    )?;
    Tensor::from_integers(&copy, t.sizes(), t.dtype(), q)
}
fn to_copy(
    t: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    _non_blocking: bool,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    ensure!(
        dtype.is_none_or(|d| d.is_quantized()),
        Runtime,
        "Creation of quantized tensor requires quantized dtype like torch.quint8"
    );
    ensure!(dtype.is_none_or(|d| d == t.dtype()), Missing, "a quantized tensor with another quantized dtype");
    ensure!(layout.is_none_or(|l| l == Layout::Strided), Missing, "quantized tensors of sparse layouts");
    ensure!(
        device.is_none_or(|d| d == Device::Cpu),
        Missing,
        "quantized tensors on other devices than the CPU"
    );
    ensure!(pin_memory != Some(true), Missing, "pinned memory");
    clone(t, format)
}
fn copy_(to: &Tensor, from: &Tensor, non_blocking: bool) -> Result<()> {
    let (Some(a), b) = (to.quantizer(), from.quantizer()) else {
        let text = "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get a float \
                    Tensor from a quantized Tensor";
        return Err(flambeau_core::Error::runtime(text));
    };
    if let Some(b) = b {
        ensure!(
            a.scheme() == b.scheme() && to.dtype() == from.dtype(),
            Runtime,
            "Quantized Copy only works with same qscheme and scalar type"
        );
        to.set_quantizer(b)?;
        return ops::copy_(&to.integers()?, &from.integers()?, non_blocking);
    }
    ensure!(from.dtype() == DType::F32, Runtime, "Quantized copy only works with kFloat as source Tensor");
    let from = ops::expand(&from.alias_detached(), to.sizes(), false)?;
    match &*a {
        Quantizer::PerTensor { scale, zero_point } => {
            let whole = rounded(&from, to.dtype(), *scale, *zero_point)?;
            ops::copy_(&to.integers()?, &whole, false)
        }
        Quantizer::PerChannel { scales, zero_points, axis } => {
            let q = crate::tensor::quantized_by_channel(&from, scales, zero_points, *axis, to.dtype())?;
            ops::copy_(&to.integers()?, &q.integers()?, false)
        }
    }
}
/// The integer that stands for a number, in a tensor of its own.
pub(super) fn one_integer(t: &Tensor, v: f64) -> Result<Tensor> {
    let (scale, zero) = affine(t)?;
    rounded(&Tensor::scalar_raw(v as f32)?, t.dtype(), scale, zero)
}
fn fill_(t: &Tensor, v: Scalar) -> Result<()> {
    let whole = one_integer(t, v.to_f64())?;
    ops::copy_(&t.integers()?, &ops::expand(&whole, t.sizes(), false)?, false)
}
fn empty_like(
    t: &Tensor,
    dtype: Option<DType>,
    _layout: Option<Layout>,
    _device: Option<Device>,
    _pin: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    ensure!(
        dtype.is_none_or(|d| d == t.dtype()),
        Runtime,
        "It is currently not supported to specify a dtype that doesn't match the input tensor's dtype via empty_like.  \
         Specified: {} Input tensor's dtype: {}",
        dtype.unwrap_or(t.dtype()).scalar_type_name(),
        t.dtype().scalar_type_name()
    );
    let q = rule(t, "empty_like")?;
    if t.dtype().per_byte() > 1 {
        return Tensor::empty_quantized(t.sizes(), None, t.dtype(), q);
    }
    let like = ops::empty_like(&t.integers()?, None, None, None, None, format)?;
    wrap(&like, t.dtype(), &q)
}
fn new_empty(
    t: &Tensor,
    size: &[i64],
    dtype: Option<DType>,
    _layout: Option<Layout>,
    device: Option<Device>,
    _pin: Option<bool>,
) -> Result<Tensor> {
    match dtype {
        Some(d) if d != t.dtype() => ops::empty(size, Some(d), None, device, None, None),
        _ => Tensor::empty_quantized(size, Some(&contiguous_strides(size)), t.dtype(), rule(t, "new_empty")?),
    }
}
fn index_select(t: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor> {
    affine(t)?;
    mapped(t, |q| ops::index_select(q, dim, index))
}
/// Integers by one rule: those of other tensors are rounded anew.
fn cat(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        return Err(flambeau_core::Error::runtime("expected a non-empty list of Tensors"));
    };
    joined(tensors, dim, None, first.dtype())
}
/// The tensors one after the other, by a rule or that of the first.
pub(crate) fn joined(tensors: &[Tensor], dim: i64, by: Option<(f64, i64)>, d: DType) -> Result<Tensor> {
    for t in tensors {
        uniform_only(t, "cat")?;
        ensure!(t.quantizer().is_some(), Runtime, "All tensors should be quantized in 'cat'!");
        ensure!(t.dtype() == d, Runtime, "All dtypes must be the same in 'cat'!");
    }
    let (scale, zero) = match by {
        Some(by) => by,
        None => affine(&tensors[0])?,
    };
    let integers = tensors.iter().map(|t| {
        if affine(t)? == (scale, zero) {
            return t.integers();
        }
        rounded(&crate::ops::dequantize(t)?, d, scale, zero)
    });
    let integers = integers.collect::<Result<Vec<_>>>()?;
    wrap(&ops::cat(&integers, dim)?, d, &crate::tensor::uniform(scale, zero))
}
fn masked_fill(t: &Tensor, mask: &Tensor, v: f64) -> Result<Tensor> {
    let whole = one_integer(t, v)?;
    mapped(t, |q| ops::where_(mask, &whole, &dense(q)?))
}
fn index_put(t: &Tensor, at: &[Option<Tensor>], v: &Tensor, accumulate: bool) -> Result<Tensor> {
    ensure!(
        !accumulate,
        Runtime,
        "index_put for quantized tensors is currently not supported for accumulate=True"
    );
    let (scale, zero) = affine(t)?;
    let v = match v.quantizer() {
        Some(_) => crate::ops::dequantize(v)?,
        None => crate::tensor::cast(v, DType::F32)?,
    };
    let whole = rounded(&v, t.dtype(), scale, zero)?;
    mapped(t, |q| ops::index_put(q, at, &whole, false))
}

pub(super) fn fill() {
    c::CLONE.register(QuantizedCpu, clone);
    c::TO_COPY.register(QuantizedCpu, to_copy);
    c::COPY_.register(QuantizedCpu, copy_);
    m::FILL_.register(QuantizedCpu, fill_);
    m::FILL_TENSOR_.register(QuantizedCpu, |t, v| fill_(t, Scalar::Float(v.try_item()?)));
    m::ZERO_.register(QuantizedCpu, |_| Err(could_not_run("zero_", "QuantizedCPU")));
    m::EMPTY_LIKE.register(QuantizedCpu, empty_like);
    m::ZEROS_LIKE.register(QuantizedCpu, |_, _, _, _, _, _| Err(could_not_run("zero_", "QuantizedCPU")));
    m::NEW_EMPTY.register(QuantizedCpu, new_empty);
    i::INDEX_SELECT.register(QuantizedCpu, index_select);
    i::INDEX.register(QuantizedCpu, |t, at| mapped(t, |q| ops::index(q, at)));
    i::INDEX_PUT.register(QuantizedCpu, index_put);
    i::MASKED_FILL.register(QuantizedCpu, |t, m, v| masked_fill(t, m, v.to_f64()));
    i::MASKED_FILL_TENSOR.register(QuantizedCpu, |t, m, v| masked_fill(t, m, v.try_item()?));
    j::CAT.register(QuantizedCpu, cat);
    j::FLIP.register(QuantizedCpu, |t, d| mapped(t, |q| ops::flip(q, d)));
    j::REPEAT.register(QuantizedCpu, |t, n| {
        affine(t)?;
        mapped(t, |q| ops::repeat(q, n))
    });
}
