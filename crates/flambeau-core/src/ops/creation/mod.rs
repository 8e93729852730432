//! Factories.

mod vander;

pub use vander::*;

use crate::backend::elements::{self, Sequence};
use crate::backend::pointwise;
use crate::backend::transfer::{cast_to, to_device};
use crate::dispatch::op::Kernels;
use crate::iter::promotion;
use crate::iter::spec::Label;
use crate::iter::{PointwiseSpec, Promote, Rare};
use crate::ops;
use crate::ops::copy::format_like;
use crate::settings::determinism::fill_uninitialized;
use crate::tensor::geometry::{self, SizeVec};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::layout::{Layout, MemoryFormat};
use crate::types::scalar::Scalar;
use crate::types::type_info::c_number;
use crate::{DType, ensure};

/// Checks the options that every factory has, and fills in the defaults.
pub(crate) fn factory(
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<(DType, Device)> {
    if let Some(l) = layout.filter(|l| *l != Layout::Strided) {
        return Err(Error::missing(format!("factories with layout torch.{}", l.name())));
    }
    ensure!(pin_memory != Some(true), Missing, "pinned memory");
    Ok((dtype.unwrap_or_else(promotion::default_dtype), device.unwrap_or(Device::Cpu)))
}

/// What factories of zeros, and of anything, give for a sparse layout: nothing specified.
fn sparse_zeros(
    size: &[i64],
    dtype: DType,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Option<Result<Tensor>> {
    let layout = layout.filter(|l| *l != Layout::Strided)?;
    Some((|| {
        factory(None, None, device, pin_memory)?;
        ensure!(device.is_none_or(|d| d == Device::Cpu), Missing, "sparse tensors on other devices");
        crate::tensor::sparse::zeros(size, layout, dtype)
    })())
}

/// `empty.memory_format`
pub fn empty(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    if let Some(t) =
        sparse_zeros(size, dtype.unwrap_or_else(promotion::default_dtype), layout, device, pin_memory)
    {
        return t;
    }
    let (dtype, device) = factory(dtype, layout, device, pin_memory)?;
    fill_uninitialized(match memory_format {
        None | Some(MemoryFormat::Contiguous) => Tensor::empty_raw(size, dtype, device)?,
        Some(MemoryFormat::Preserve) => return Err(Error::runtime("unsupported memory format Preserve")),
        Some(f) => Tensor::empty_strided_raw(size, &geometry::format_strides(size, f)?, dtype, device)?,
    })
}

/// `empty_strided`
pub fn empty_strided(
    size: &[i64],
    stride: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (dtype, device) = factory(dtype, layout, device, pin_memory)?;
    fill_uninitialized(Tensor::empty_strided_raw(size, stride, dtype, device)?)
}

/// `zeros`
pub fn zeros(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    ensure!(size.iter().all(|s| *s >= 0), Runtime, "zeros: Dimension size must be non-negative.");
    zeros_any(size, dtype, layout, device, pin_memory)
}

fn zeros_any(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    if let Some(t) =
        sparse_zeros(size, dtype.unwrap_or_else(promotion::default_dtype), layout, device, pin_memory)
    {
        return t;
    }
    let (dtype, device) = factory(dtype, layout, device, pin_memory)?;
    if dtype.is_quantized() {
        return Err(Error::unsupported(
            "Could not run 'aten::zero_' with arguments from the 'QuantizedCPU' backend.",
        ));
    }
    Tensor::zeros_raw(size, dtype, device)
}

/// `full`: the dtype follows the value unless given.
pub fn full(
    size: &[i64],
    fill_value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let inferred = dtype.unwrap_or_else(|| promotion::scalar_default_dtype(fill_value));
    let (dtype, device) = factory(Some(inferred), layout, device, pin_memory)?;
    if fill_value.equals(0.0) && !matches!(fill_value, Scalar::Float(f) if f.is_sign_negative()) {
        return Tensor::zeros_raw(size, dtype, device);
    }
    let out = Tensor::empty_raw(size, dtype, device)?;
    fill_scalar_(&out, fill_value)?;
    Ok(out)
}
/// `ones`
pub fn ones(
    size: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    full(
        size,
        Scalar::Int(1),
        Some(dtype.unwrap_or_else(promotion::default_dtype)),
        layout,
        device,
        pin_memory,
    )
}

/// `empty_like`
pub fn empty_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    if let Some(t) = sparse_zeros(self_.sizes(), dtype.unwrap_or(self_.dtype()), layout, device, pin_memory) {
        return t;
    }
    let (dtype, device) = like(self_, dtype, layout, device, pin_memory)?;
    let st: SizeVec = format_like(self_, memory_format)?;
    fill_uninitialized(Tensor::empty_strided_raw(self_.sizes(), &st, dtype, device)?)
}
fn like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<(DType, Device)> {
    factory(Some(dtype.unwrap_or(self_.dtype())), layout, Some(device.unwrap_or(self_.device())), pin_memory)
}
/// `full_like`
pub fn full_like(
    self_: &Tensor,
    fill_value: Scalar,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let out = empty_like(self_, dtype, layout, device, pin_memory, memory_format)?;
    fill_scalar_(&out, fill_value)?;
    Ok(out)
}
/// `zeros_like`
pub fn zeros_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    if let Some(t) = sparse_zeros(self_.sizes(), dtype.unwrap_or(self_.dtype()), layout, device, pin_memory) {
        return t;
    }
    full_like(self_, Scalar::Int(0), dtype, layout, device, pin_memory, memory_format)
}
/// `ones_like`
pub fn ones_like(
    self_: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    full_like(self_, Scalar::Int(1), dtype, layout, device, pin_memory, memory_format)
}

static FILL: PointwiseSpec = PointwiseSpec {
    name: "fill_",
    label: Label::plain("fill_cpu"),
    kernel: &flambeau_cpu::pointwise::FILL,
    promote: Promote::First,
    rare: Rare::ALL,
    kernels: Kernels::new(&[]),
};

/// Writes one number to every element. No dispatch.
pub(crate) fn fill_scalar_(self_: &Tensor, value: Scalar) -> Result<()> {
    value.check_fits(self_.dtype())?;
    pointwise::fill(&FILL, self_, value.param())
}
/// The elements of an expanded tensor, each once.
pub(crate) fn distinct(t: &Tensor) -> Result<Tensor> {
    let mut sizes = SizeVec::from_slice(t.sizes());
    for (n, s) in sizes.iter_mut().zip(t.strides()) {
        if *s == 0 {
            *n = (*n).min(1);
        }
    }
    t.view_typed(sizes, SizeVec::from_slice(t.strides()), t.storage_offset(), t.dtype(), t.lazy_bits())
}
/// `fill_.Scalar`: one value for all, so elements may share their places.
pub fn fill_(self_: &Tensor, value: Scalar) -> Result<()> {
    if geometry::has_internal_overlap(self_.sizes(), self_.strides()) {
        return fill_scalar_(&distinct(self_)?, value);
    }
    fill_scalar_(self_, value)
}
/// `fill_.Tensor`
pub fn fill_tensor_(self_: &Tensor, value: &Tensor) -> Result<()> {
    ensure!(
        value.dim() == 0,
        Runtime,
        "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
        value.dim()
    );
    if geometry::has_internal_overlap(self_.sizes(), self_.strides()) {
        return ops::copy_(&distinct(self_)?, value, false);
    }
    ops::copy_(self_, value, false)
}
/// `zero_`
pub fn zero_(self_: &Tensor) -> Result<()> {
    fill_(self_, Scalar::Int(0))
}

type Opt<T> = Option<T>;

/// `eye`
pub fn eye(
    n: i64,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    ensure!(n >= 0, Runtime, "n must be greater or equal to 0, got {n}");
    eye_m(n, n, dtype, layout, device, pin_memory)
}
/// `eye.m`
pub fn eye_m(
    n: i64,
    m: i64,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    ensure!(n >= 0, Runtime, "n must be greater or equal to 0, got {n}");
    ensure!(m >= 0, Runtime, "m must be greater or equal to 0, got {m}");
    let t = zeros(&[n, m], dtype, layout, device, pin_memory)?;
    fill_scalar_(&crate::ops::views::diagonal(&t, 0, 0, 1)?, Scalar::Int(1))?;
    Ok(t)
}

/// A vector of a sequence's numbers, computed in float64 (or int64) and cast.
fn sequence(n: i64, dtype: DType, device: Device, sequence: Sequence) -> Result<Tensor> {
    if device == Device::Meta || n == 0 {
        return Tensor::empty_raw(&[n], dtype, device);
    }
    geometry::checked_bytes(&[n], dtype.size())?;
    if let Some(elements) = elements::of(device) {
        let out = Tensor::empty_raw(&[n], dtype, device)?;
        if elements.sequence(&out, &sequence)? {
            return Ok(out);
        }
    }
    numbers(n, dtype, device, |i| sequence.at(i), sequence.whole())
}
/// A vector of numbers by their places, computed on the host.
fn numbers(
    n: i64,
    dtype: DType,
    device: Device,
    at: impl Fn(i64) -> Scalar,
    integral: bool,
) -> Result<Tensor> {
    if device == Device::Meta || n == 0 {
        return Tensor::empty_raw(&[n], dtype, device);
    }
    geometry::checked_bytes(&[n], dtype.size())?;
    let wide = if integral {
        Tensor::made_raw::<i64>(&[n], |v| (0..n).zip(v).for_each(|(i, v)| *v = at(i).to_i64()))?
    } else {
        Tensor::made_raw::<f64>(&[n], |v| (0..n).zip(v).for_each(|(i, v)| *v = at(i).to_f64()))?
    };
    let made = if wide.dtype() == dtype { wide } else { cast_to(&wide, dtype)? };
    to_device(made, device)
}
/// A length that was computed in floating point.
fn length(n: f64) -> Result<i64> {
    ensure!(n >= 0.0 && n < i64::MAX as f64, Runtime, "invalid size, possible overflow?");
    Ok(n as i64)
}

fn arange_dtype(given: Opt<DType>, args: &[Scalar]) -> DType {
    given.unwrap_or_else(|| {
        if args.iter().all(|a| a.is_integral(true)) { DType::I64 } else { promotion::default_dtype() }
    })
}
/// `arange.start_step`
pub fn arange_step(
    start: Scalar,
    end: Scalar,
    step: Scalar,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    let real = |s: &Scalar| !matches!(s, Scalar::Complex(c) if c.im != 0.0);
    ensure!(
        [start, end, step].iter().all(real),
        Runtime,
        "value cannot be converted to type double without overflow"
    );
    let dtype = arange_dtype(dtype, &[start, end, step]);
    let (dtype, device) = factory(Some(dtype), layout, device, pin_memory)?;
    let integral = [start, end, step].iter().all(|a| a.is_integral(true));
    let (s, e, d) = (start.to_f64(), end.to_f64(), step.to_f64());
    ensure!(d != 0.0, Runtime, "step must be nonzero");
    ensure!(s.is_finite() && e.is_finite(), Runtime, "unsupported range: {} -> {}", c_number(s), c_number(e));
    ensure!(d.is_finite(), Runtime, "step must be finite but got {}", c_number(d));
    ensure!(
        (d > 0.0 && e >= s) || (d < 0.0 && e <= s),
        Runtime,
        "upper bound and lower bound inconsistent with step sign"
    );
    ensure!(
        !dtype.is_complex() && dtype != DType::Bool,
        Unsupported,
        "\"arange_cpu\" not implemented for '{}'",
        dtype.scalar_type_name()
    );
    let n = if integral && dtype.is_integral(false) {
        let (s, e, d) = (start.to_i64() as i128, end.to_i64() as i128, step.to_i64() as i128);
        let span = if d > 0 { e - s + d - 1 } else { s - e - d - 1 };
        i64::try_from(span / d.abs()).map_err(|_| Error::runtime("invalid size, possible overflow?"))?
    } else {
        length(((e - s) / d).ceil())?
    };
    // other numbers are computed in float64 and rounded once
    let of = match dtype.is_integral(false) {
        true => Sequence::Whole { start: start.to_i64(), step: step.to_i64() },
        false => Sequence::Steps { start: s, step: d },
    };
    sequence(n, dtype, device, of)
}
/// `arange.start`
pub fn arange_start(
    start: Scalar,
    end: Scalar,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    arange_step(start, end, Scalar::Int(1), dtype, layout, device, pin_memory)
}
/// `arange`
pub fn arange(
    end: Scalar,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    arange_step(Scalar::Int(0), end, Scalar::Int(1), dtype, layout, device, pin_memory)
}
/// `range.step`
pub fn range_step(
    start: Scalar,
    end: Scalar,
    step: Scalar,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    let (dtype, device) = factory(dtype, layout, device, pin_memory)?;
    let (s, e, d) = (start.to_f64(), end.to_f64(), step.to_f64());
    ensure!(d != 0.0, Runtime, "step must be nonzero");
    ensure!(s.is_finite() && e.is_finite(), Runtime, "unsupported range: {} -> {}", c_number(s), c_number(e));
    ensure!(d.is_finite(), Runtime, "step must be finite but got {}", c_number(d));
    ensure!(
        (d > 0.0 && e >= s) || (d < 0.0 && e <= s),
        Runtime,
        "upper bound and lower bound inconsistent with step sign"
    );
    let n = length(((e - s) / d).floor() + 1.0)?;
    sequence(n, dtype, device, Sequence::Steps { start: s, step: d })
}
/// `linspace`: the second half is counted from the end, as PyTorch does.
pub fn linspace(
    start: Scalar,
    end: Scalar,
    steps: i64,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    ensure!(steps >= 0, Runtime, "number of steps must be non-negative");
    let complex = start.is_complex() || end.is_complex();
    let dtype = dtype.unwrap_or_else(|| {
        if complex { promotion::default_complex_dtype() } else { promotion::default_dtype() }
    });
    let (dtype, device) = factory(Some(dtype), layout, device, pin_memory)?;
    if dtype == DType::Bool {
        return Err(Error::not_implemented_for("linspace_cpu", dtype));
    }
    if dtype.is_complex() {
        let parts = |f: fn(num_complex::Complex<f64>) -> f64| {
            linspace(
                f(start.to_complex()).into(),
                f(end.to_complex()).into(),
                steps,
                Some(dtype.to_real()),
                None,
                Some(device),
                None,
            )
        };
        return ops::complex(&parts(|c| c.re)?, &parts(|c| c.im)?);
    }
    ensure!(!complex, Runtime, "{}", complex_ends("linspace", dtype));
    if steps > 1 || (steps == 1 && dtype.is_integral(true)) {
        start.check_fits(dtype)?;
    }
    if steps > 1 {
        end.check_fits(dtype)?;
    }
    let (s, e) = (start.to_f64(), end.to_f64());
    let (single, whole) = (!dtype.is_integral(true) && dtype != DType::F64, dtype.is_integral(true));
    let (start, end) = if whole { (s.trunc(), e.trunc()) } else { (s, e) };
    sequence(steps, dtype, device, Sequence::Ends { start, end, n: steps, single, whole })
}
/// What is said of complex ends of a real sequence.
fn complex_ends(name: &str, dtype: DType) -> String {
    let inferred =
        if promotion::default_dtype() == DType::F64 { "c10::complex<double>" } else { "c10::complex<float>" };
    format!(
        "torch.{name}(): inferred dtype {inferred} can't be safely cast to passed dtype {}",
        dtype.scalar_type_name()
    )
}
/// The numbers of a linear sequence in float64: the second half is counted from the end.
fn steps_of(start: f64, end: f64, steps: i64) -> impl Fn(i64) -> f64 {
    let d = (end - start) / (steps - 1).max(1) as f64;
    move |i| {
        if i < steps / 2 || steps == 1 { start + d * i as f64 } else { end - d * (steps - i - 1) as f64 }
    }
}
/// `logspace`
pub fn logspace(
    start: Scalar,
    end: Scalar,
    steps: i64,
    base: f64,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    let (dtype, device) = factory(dtype, layout, device, pin_memory)?;
    let real = !start.is_complex() && !end.is_complex();
    ensure!(real || dtype.is_complex(), Runtime, "{}", complex_ends("logspace", dtype));
    if steps > 1 && (dtype == DType::Bool || dtype.is_wide_unsigned()) {
        return Err(Error::not_implemented_for("logspace_cpu", dtype));
    }
    if steps == 1 && real && dtype.is_floating() {
        // a single number is not rounded before it is raised
        let one = Scalar::Float(base.powf(start.to_f64()));
        return ops::full(&[1], one, Some(dtype), None, Some(device), None);
    }
    if dtype.is_integral(true) && real {
        ensure!(steps >= 0, Runtime, "number of steps must be non-negative");
        if steps > 0 {
            start.check_fits(dtype)?;
        }
        if steps > 1 {
            end.check_fits(dtype)?;
        }
        // a single number is not cut to an integer first
        let (s, e) = (start.to_f64(), end.to_f64());
        let at = if steps == 1 { steps_of(s, e, 1) } else { steps_of(s.trunc(), e.trunc(), steps) };
        return numbers(steps, dtype, device, |i| Scalar::Int(base.powf(at(i)) as i64), true);
    }
    let x = linspace(start, end, steps, Some(dtype), None, Some(device), None)?;
    let r = ops::pow(&crate::tensor::wrapped_number::wrapped_number(Scalar::Float(base))?, &x)?;
    ops::to(&r, Some(dtype), None, None, None, false, false, None)
}

/// The number in a zero-dim tensor that stands for an end of a sequence.
fn ends(name: &str, start: Opt<&Tensor>, end: Opt<&Tensor>) -> Result<()> {
    let wrong = |t: Opt<&Tensor>| t.map_or(0, Tensor::dim);
    match (wrong(start), wrong(end)) {
        (0, 0) => Ok(()),
        (s, _) if end.is_none() => Err(Error::runtime(format!(
            "{name} only supports 0-dimensional start and end tensors, but got start with {s} dimension(s)."
        ))),
        (_, e) if start.is_none() => Err(Error::runtime(format!(
            "{name} only supports 0-dimensional start and end tensors, but got end with {e} dimension(s)."
        ))),
        (s, e) => Err(Error::runtime(format!(
            "{name} only supports 0-dimensional start and end tensors, but got start with {s} dimension(s) and end with \
             {e} dimension(s)."
        ))),
    }
}
macro_rules! ends_as_tensors {
    ($($f:ident($($base:ident: $bt:ty)?) $both:ident $first:ident $second:ident;)*) => {$(
        #[doc = concat!("`", stringify!($f), ".Tensor_Tensor`")]
        pub fn $both(start: &Tensor, end: &Tensor, steps: i64, $($base: $bt,)? dtype: Opt<DType>, layout: Opt<Layout>, device: Opt<Device>, pin_memory: Opt<bool>) -> Result<Tensor> {
            ends(stringify!($f), Some(start), Some(end))?;
            $f(start.try_item()?, end.try_item()?, steps, $($base,)? dtype, layout, device, pin_memory)
        }
        #[doc = concat!("`", stringify!($f), ".Tensor_Scalar`")]
        pub fn $first(start: &Tensor, end: Scalar, steps: i64, $($base: $bt,)? dtype: Opt<DType>, layout: Opt<Layout>, device: Opt<Device>, pin_memory: Opt<bool>) -> Result<Tensor> {
            ends(stringify!($f), Some(start), None)?;
            $f(start.try_item()?, end, steps, $($base,)? dtype, layout, device, pin_memory)
        }
        #[doc = concat!("`", stringify!($f), ".Scalar_Tensor`")]
        pub fn $second(start: Scalar, end: &Tensor, steps: i64, $($base: $bt,)? dtype: Opt<DType>, layout: Opt<Layout>, device: Opt<Device>, pin_memory: Opt<bool>) -> Result<Tensor> {
            ends(stringify!($f), None, Some(end))?;
            $f(start, end.try_item()?, steps, $($base,)? dtype, layout, device, pin_memory)
        }
    )*};
}
ends_as_tensors! {
    linspace() linspace_tensors linspace_tensor_scalar linspace_scalar_tensor;
    logspace(base: f64) logspace_tensors logspace_tensor_scalar logspace_scalar_tensor;
}

macro_rules! new_like {
    ($($name:ident($($a:ident: $t:ty),*) $f:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: this tensor's dtype and device unless told otherwise.")]
        pub fn $name(self_: &Tensor, size: &[i64], $($a: $t,)* dtype: Opt<DType>, layout: Opt<Layout>, device: Opt<Device>, pin_memory: Opt<bool>) -> Result<Tensor> {
            $f(size, $($a,)* Some(dtype.unwrap_or(self_.dtype())), layout, Some(device.unwrap_or(self_.device())), pin_memory)
        }
    )*};
}
new_like! {
    new_zeros() zeros_any;
    new_ones() ones;
    new_full(fill_value: Scalar) full;
    new_empty_strided(stride: &[i64]) empty_strided;
}
/// `new_empty`
pub fn new_empty(
    self_: &Tensor,
    size: &[i64],
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    empty(
        size,
        Some(dtype.unwrap_or(self_.dtype())),
        layout,
        Some(device.unwrap_or(self_.device())),
        pin_memory,
        None,
    )
}

/// Row and column numbers of a triangle's elements, row by row, as two rows.
fn triangle_indices(
    row: i64,
    col: i64,
    dtype: DType,
    device: Device,
    lower: bool,
    offset: i64,
) -> Result<Tensor> {
    ensure!(row >= 0, Runtime, "row must be non-negative, got{row}");
    ensure!(col >= 0, Runtime, "col must be non-negative, got{col}");
    if !matches!(dtype, DType::I32 | DType::I64) {
        let label = if lower { "tril_indices" } else { "triu_indices" };
        return Err(Error::not_implemented_for(label, dtype));
    }
    let below = lower_triangle_size(row as i128, col as i128, offset as i128 - i128::from(!lower));
    let n = if lower { below } else { row as i128 * col as i128 - below };
    let n = i64::try_from(n)
        .map_err(|_| Error::memory(format!("Storage size calculation overflowed with sizes=[2, {n}]")))?;
    if device == Device::Meta || n == 0 {
        return Tensor::empty_raw(&[2, n], dtype, device);
    }
    let t = Tensor::made_raw::<i64>(&[2, n], |v| {
        let (rows, cols) = v.split_at_mut(n as usize);
        let mut at = 0;
        // only the rows that have any: there may be many more
        let rows_with_any = if lower {
            offset.min(0).saturating_neg().min(row)..row
        } else {
            0..row.min(col.saturating_sub(offset))
        };
        for i in rows_with_any {
            // the first column that is not in the lower triangle of this row
            let edge = i.saturating_add(offset).saturating_add(i64::from(lower)).clamp(0, col);
            for j in if lower { 0..edge } else { edge..col } {
                (rows[at], cols[at]) = (i, j);
                at += 1;
            }
        }
    })?;
    to_device(if dtype == DType::I64 { t } else { cast_to(&t, dtype)? }, device)
}
/// Elements `(i, j)` of a matrix with `j - i <= offset`.
fn lower_triangle_size(row: i128, col: i128, offset: i128) -> i128 {
    // rows before `first` have none, rows from `full` on have all
    let first = (-offset).clamp(0, row);
    let full = (col - 1 - offset).clamp(first, row);
    let (a, b) = (first + offset + 1, full + offset);
    let partial = if full > first { (a + b) * (full - first) / 2 } else { 0 };
    partial + (row - full) * col
}
/// `tril_indices`
pub fn tril_indices(
    row: i64,
    col: i64,
    offset: i64,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    let (d, dev) = factory(Some(dtype.unwrap_or(DType::I64)), layout, device, pin_memory)?;
    triangle_indices(row, col, d, dev, true, offset)
}
/// `triu_indices`
pub fn triu_indices(
    row: i64,
    col: i64,
    offset: i64,
    dtype: Opt<DType>,
    layout: Opt<Layout>,
    device: Opt<Device>,
    pin_memory: Opt<bool>,
) -> Result<Tensor> {
    let (d, dev) = factory(Some(dtype.unwrap_or(DType::I64)), layout, device, pin_memory)?;
    triangle_indices(row, col, d, dev, false, offset)
}

/// `fill.Scalar`
pub fn fill(self_: &Tensor, value: Scalar) -> Result<Tensor> {
    let out = ops::clone(self_, None)?;
    ops::fill_(&out, value)?;
    Ok(out)
}

/// `fill.Tensor`
pub fn fill_with(self_: &Tensor, value: &Tensor) -> Result<Tensor> {
    let out = ops::clone(self_, None)?;
    ops::fill_tensor_(&out, value)?;
    Ok(out)
}

/// `empty_permuted`
pub fn empty_permuted(
    size: &[i64],
    physical_layout: &[i64],
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let (dtype, device) = factory(dtype, layout, device, pin_memory)?;
    let n = size.len();
    ensure!(
        physical_layout.len() == n,
        Runtime,
        "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {n} is not equal to len(physical_layout) = {}",
        physical_layout.len()
    );
    let mut seen = vec![false; n];
    let mut strides = SizeVec::from_elem(0, n);
    let mut step = 1i64;
    for d in physical_layout.iter().rev() {
        let at = usize::try_from(*d).ok().filter(|i| *i < n);
        let Some(i) = at else {
            return Err(Error::runtime(format!(
                "Dimension out of range (expected to be between 0 and {}, but got {d} at index {}).  NB: negative dims not currently supported; file an issue if you want it.",
                n.saturating_sub(1),
                physical_layout.iter().position(|x| x == d).unwrap_or(0)
            )));
        };
        ensure!(!std::mem::replace(&mut seen[i], true), Runtime, "Duplicate dim not allowed");
        strides[i] = step;
        step = step.saturating_mul(size[i].max(1));
    }
    Tensor::empty_strided_raw(size, &strides, dtype, device)
}
