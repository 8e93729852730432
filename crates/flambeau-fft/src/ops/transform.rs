//! The transforms themselves, in sizes and dimensions that stand.

use super::util::{NOTHING, POINTS, ROOT};
use crate::generated::args;
use crate::layout;
use crate::plans::{self, Real};
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::{Access, RawTensor as _};
use flambeau_core::tensor::geometry::{SizeVec, contiguous_strides, wrap_dim};
use flambeau_core::{DType, Device, Error, Result, Tensor, ensure, ops as core};
use flambeau_cpu_fft::{Input, Output, Shape, transform};

fn wrapped(dim: &[i64], t: &Tensor) -> Result<Vec<usize>> {
    let mut dims = Vec::with_capacity(dim.len());
    for d in dim {
        let d = wrap_dim(*d, t.dim())?;
        ensure!(d < t.dim() && !dims.contains(&d), Runtime, "FFT dims must be unique");
        dims.push(d);
    }
    Ok(dims)
}
/// Which real and complex dtypes belong together.
fn complex_of(d: DType) -> DType {
    match d {
        DType::F16 => DType::C32,
        DType::F32 => DType::C64,
        _ => DType::C128,
    }
}
fn real_of(d: DType) -> DType {
    match d {
        DType::C32 => DType::F16,
        DType::C64 => DType::F32,
        _ => DType::F64,
    }
}
fn check(t: &Tensor, complex: bool, normalization: i64) -> Result<()> {
    let d = t.dtype();
    let name = d.scalar_type_name();
    if complex {
        ensure!(d.is_complex(), Runtime, "Only supports complex dtypes, but found: {name}");
    } else {
        ensure!(d.is_floating(), Type, "Only supports floating-point dtypes, but found: {name}");
    }
    if t.device() == Device::Cpu && !matches!(d, DType::F32 | DType::F64 | DType::C64 | DType::C128) {
        let part = if d == DType::C32 { "Half" } else { name };
        return Err(Error::unsupported(format!("MKL FFT doesn't support tensors of type: {part}")));
    }
    ensure!(
        (NOTHING..=POINTS).contains(&normalization),
        Runtime,
        "Unsupported normalization type {normalization}"
    );
    Ok(())
}
/// The factor that `normalization` asks for.
fn scale(normalization: i64, dims: &[usize], sizes: &[i64]) -> f64 {
    let points = dims.iter().map(|d| sizes[*d] as f64).product::<f64>();
    match normalization {
        ROOT => 1.0 / points.sqrt(),
        POINTS => 1.0 / points,
        _ => 1.0,
    }
}
/// A result whose innermost dimensions are `dims`, in this order.
fn laid_out(x: &[i64], sizes: &[i64], dims: &[usize]) -> SizeVec {
    layout::strides(sizes, &layout::order(x, dims), dims.len())
}
fn meta(sizes: &[i64], strides: SizeVec, d: DType, t: &Tensor) -> OutMeta {
    let mut m = OutMeta::of(sizes, d, t.device());
    if strides != contiguous_strides(sizes) {
        m.strides = Some(strides);
    }
    m
}

/// `_fft_c2c`
pub fn fft_c2c_shape(a: &args::FftC2c) -> Result<OutMeta> {
    let t = a.self_;
    check(t, true, a.normalization)?;
    let dims = layout::sorted(&wrapped(a.dim, t)?, t.strides(), 0);
    if dims.is_empty() {
        return Ok(OutMeta::of(t.sizes(), t.dtype(), t.device()));
    }
    Ok(meta(t.sizes(), laid_out(t.strides(), t.sizes(), &dims), t.dtype(), t))
}
/// `_fft_r2c`
pub fn fft_r2c_shape(a: &args::FftR2c) -> Result<OutMeta> {
    let t = a.self_;
    check(t, false, a.normalization)?;
    let dims = wrapped(a.dim, t)?;
    let last = last(&dims)?;
    let mut sizes = SizeVec::from_slice(t.sizes());
    if a.onesided {
        sizes[last] = sizes[last] / 2 + 1;
    }
    let dims = layout::sorted(&dims, t.strides(), 1);
    Ok(meta(&sizes, laid_out(t.strides(), &sizes, &dims), complex_of(t.dtype()), t))
}
fn last(dims: &[usize]) -> Result<usize> {
    dims.last().copied().ok_or_else(|| Error::runtime("ArrayRef: attempted to access back() of empty list"))
}
/// Strides of the complex result that the real transform of several dimensions goes through.
fn between(t: &Tensor, dims: &[usize]) -> SizeVec {
    let dims = &dims[..dims.len() - 1];
    if dims.is_empty() {
        return SizeVec::from_slice(t.strides());
    }
    laid_out(t.strides(), t.sizes(), &layout::sorted(dims, t.strides(), 0))
}
/// `_fft_c2r`
pub fn fft_c2r_shape(a: &args::FftC2r) -> Result<OutMeta> {
    let (t, n) = (a.self_, a.last_dim_size);
    check(t, true, a.normalization)?;
    let dims = wrapped(a.dim, t)?;
    let last = last(&dims)?;
    ensure!(n >= 1, Runtime, "Invalid number of data points ({n}) specified");
    ensure!(
        t.sizes()[last] > n / 2,
        Runtime,
        "{} values of a spectrum do not give {n} points",
        t.sizes()[last]
    );
    let mut sizes = SizeVec::from_slice(t.sizes());
    sizes[last] = n;
    Ok(meta(&sizes, laid_out(&between(t, &dims), &sizes, &[last]), real_of(t.dtype()), t))
}

/// What one pass reads.
enum From<'a> {
    Tensor(&'a Tensor),
    Itself,
}
/// Transforms dimension `d`.
fn pass<T: Real>(from: From, out: &Tensor, d: usize, shape: Shape, forward: bool, scale: f64) -> Result<()> {
    let sizes = out.sizes();
    let plan = match (&from, shape) {
        (From::Tensor(x), Shape::Half) => plans::plan::<T>(x.sizes()[d] as usize, shape),
        _ => plans::plan::<T>(sizes[d] as usize, shape),
    };
    let x_strides = match &from {
        From::Tensor(x) => x.strides(),
        From::Itself => out.strides(),
    };
    let (a, b, offsets) = layout::lines(sizes, x_strides, out.strides(), d);
    let ins: &[&Tensor] = match &from {
        From::Tensor(x) => &[x],
        From::Itself => &[],
    };
    let access = Access::new(ins, &[out])?;
    let plan = &plan;
    if shape == Shape::Real {
        let (x, y) = (T::complex(&access, 0)?, access.slice_mut::<T>(0)?);
        let conj = matches!(&from, From::Tensor(x) if x.is_conj());
        for (i, o) in offsets {
            let x = Input::Complex(&x[i..], conj);
            transform(plan, forward, scale, (x, &a), (Output::Real(&mut y[o..]), &b));
        }
        return Ok(());
    }
    let y = T::complex_mut(&access, 0)?;
    for (i, o) in offsets {
        let x = match &from {
            From::Itself => Input::Itself,
            From::Tensor(_) if shape != Shape::Complex => Input::Real(&access.slice::<T>(0)?[i..]),
            From::Tensor(t) => Input::Complex(&T::complex(&access, 0)?[i..], t.is_conj()),
        };
        transform(plan, forward, scale, (x, &a), (Output::Complex(&mut y[o..]), &b));
    }
    Ok(())
}
/// Calls a function for f32 or f64, as the tensor's parts are.
macro_rules! by_part {
    ($t:expr, $f:ident($($a:expr),*)) => {
        match $t.dtype() {
            DType::F32 | DType::C64 => $f::<f32>($($a),*),
            _ => $f::<f64>($($a),*),
        }
    };
}
/// Dimensions in the order in which they are transformed: innermost in memory first.
fn inside_out(dims: &[usize], out: &Tensor) -> Vec<usize> {
    let mut dims = dims.to_vec();
    dims.sort_by_key(|d| out.strides()[*d]);
    dims
}
/// A tensor that a kernel can read: its own sign, and strides that do not run backwards.
fn readable(t: &Tensor) -> Result<Tensor> {
    if t.is_neg() { core::resolve_neg(t) } else { Ok(t.clone()) }
}

fn complex<T: Real>(x: &Tensor, out: &Tensor, dims: &[usize], forward: bool, mut scale: f64) -> Result<()> {
    let mut from = From::Tensor(x);
    for d in inside_out(dims, out) {
        pass::<T>(from, out, d, Shape::Complex, forward, scale)?;
        (from, scale) = (From::Itself, 1.0);
    }
    Ok(())
}
/// `_fft_c2c`
pub fn fft_c2c_cpu(a: &args::FftC2c, out: &Tensor) -> Result<()> {
    if layout::is_empty(out.sizes()) {
        return Ok(());
    }
    let dims = wrapped(a.dim, a.self_)?;
    if dims.is_empty() {
        return core::copy_(out, a.self_, false);
    }
    let x = readable(a.self_)?;
    let scale = scale(a.normalization, &dims, out.sizes());
    by_part!(out, complex(&x, out, &dims, a.forward, scale))
}
fn from_real<T: Real>(x: &Tensor, out: &Tensor, dims: &[usize], onesided: bool, scale: f64) -> Result<()> {
    let (last, rest) = (dims[dims.len() - 1], &dims[..dims.len() - 1]);
    let shape = if onesided { Shape::Half } else { Shape::Whole };
    pass::<T>(From::Tensor(x), out, last, shape, true, scale)?;
    inside_out(rest, out)
        .into_iter()
        .try_for_each(|d| pass::<T>(From::Itself, out, d, Shape::Complex, true, 1.0))
}
/// `_fft_r2c`
pub fn fft_r2c_cpu(a: &args::FftR2c, out: &Tensor) -> Result<()> {
    if layout::is_empty(out.sizes()) || layout::is_empty(a.self_.sizes()) {
        return Ok(());
    }
    let dims = wrapped(a.dim, a.self_)?;
    let x = readable(a.self_)?;
    let scale = scale(a.normalization, &dims, x.sizes());
    by_part!(out, from_real(&x, out, &dims, a.onesided, scale))
}
fn to_real<T: Real>(x: &Tensor, out: &Tensor, dims: &[usize], scale: f64) -> Result<()> {
    let (last, rest) = (dims[dims.len() - 1], &dims[..dims.len() - 1]);
    if rest.is_empty() {
        return pass::<T>(From::Tensor(x), out, last, Shape::Real, false, scale);
    }
    let through = Tensor::empty_strided_raw(x.sizes(), &between(x, dims), x.dtype(), x.device())?;
    complex::<T>(x, &through, rest, false, 1.0)?;
    pass::<T>(From::Tensor(&through), out, last, Shape::Real, false, scale)
}
/// `_fft_c2r`
pub fn fft_c2r_cpu(a: &args::FftC2r, out: &Tensor) -> Result<()> {
    if layout::is_empty(out.sizes()) {
        return Ok(());
    }
    let dims = wrapped(a.dim, a.self_)?;
    let x = readable(a.self_)?;
    let scale = scale(a.normalization, &dims, out.sizes());
    by_part!(out, to_real(&x, out, &dims, scale))
}
