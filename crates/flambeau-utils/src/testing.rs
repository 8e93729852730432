//! `torch.testing`: comparison of results with PyTorch's tolerances and texts, and random tensors for tests.

use flambeau_core::dispatch::value::IntoValue;
use flambeau_core::iter::promotion::promote_types;
use flambeau_core::{DType, Device, Error, Layout, Result, Scalar, Tensor, Value, ensure, ops};
use std::sync::Arc;

/// How [`assert_close_with`] compares.
#[derive(Clone)]
pub struct AssertCloseOptions {
    rtol: Option<f64>,
    atol: Option<f64>,
    equal_nan: bool,
    check_device: bool,
    check_dtype: bool,
    check_layout: bool,
    check_stride: bool,
    msg: Option<Message>,
}
type Message = Arc<dyn Fn(&str) -> String + Send + Sync>;
impl Default for AssertCloseOptions {
    fn default() -> Self {
        AssertCloseOptions {
            rtol: None,
            atol: None,
            equal_nan: false,
            check_device: true,
            check_dtype: true,
            check_layout: true,
            check_stride: false,
            msg: None,
        }
    }
}
macro_rules! switches {
    ($($(#[$m:meta])* $name:ident),*) => {$(
        $(#[$m])*
        pub fn $name(mut self, on: bool) -> Self {
            self.$name = on;
            self
        }
    )*};
}
impl AssertCloseOptions {
    /// PyTorch's defaults: tolerances by dtype, everything but strides compared.
    pub fn new() -> Self {
        Self::default()
    }
    /// The difference allowed as a part of what is expected; `atol` must be given too.
    pub fn rtol(mut self, rtol: f64) -> Self {
        self.rtol = Some(rtol);
        self
    }
    /// The difference allowed in any case; `rtol` must be given too.
    pub fn atol(mut self, atol: f64) -> Self {
        self.atol = Some(atol);
        self
    }
    /// A text instead of the one that says what differs.
    pub fn msg(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.msg = Some(Arc::new(move |_| text.clone()));
        self
    }
    /// A text made of the one that says what differs.
    pub fn msg_with(mut self, f: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.msg = Some(Arc::new(f));
        self
    }
    switches! {
        /// Whether NaN equals NaN.
        equal_nan,
        /// Whether tensors must be on the same device.
        check_device,
        /// Whether dtypes must be the same.
        check_dtype,
        /// Whether layouts must be the same.
        check_layout,
        /// Whether strides must be the same.
        check_stride
    }
}

/// Fails unless tensors, numbers, or lists and dictionaries of them are nearly equal: `|actual - expected| <= atol + rtol * |expected|`.
/// The tolerances are those of the dtype: `1.3e-6` and `1e-5` for float32, `1e-7` twice for float64, `1e-3` and `1e-5` for float16,
/// `1.6e-2` and `1e-5` for bfloat16, none for integers.
///
/// ```
/// use torch::testing::assert_close;
/// assert_close(&torch::tensor([1.0, 2.0]), &torch::tensor([1.0, 2.000001]));
/// let e = torch::testing::try_assert_close(&torch::tensor([1, 2]), &torch::tensor([1, 3]), &Default::default()).unwrap_err();
/// assert!(e.message().starts_with("Tensor-likes are not equal!\n\nMismatched elements: 1 / 2 (50.0%)"));
/// ```
///
/// Panics with PyTorch's text where they are not.
#[doc(alias = "torch.testing.assert_close")]
#[track_caller]
pub fn assert_close(actual: impl IntoValue, expected: impl IntoValue) {
    flambeau_core::api::ergonomic::expect(try_assert_close(actual, expected, &AssertCloseOptions::default()));
}
/// [`assert_close`] with options.
#[track_caller]
pub fn assert_close_with(actual: impl IntoValue, expected: impl IntoValue, options: &AssertCloseOptions) {
    flambeau_core::api::ergonomic::expect(try_assert_close(actual, expected, options));
}
/// [`assert_close_with`] with an error instead of a panic.
///
/// # Errors
/// An assertion's error with PyTorch's text; a type error for what cannot be compared; a value error for one tolerance without the
/// other.
pub fn try_assert_close(
    actual: impl IntoValue,
    expected: impl IntoValue,
    options: &AssertCloseOptions,
) -> Result<()> {
    check(&actual.into_value(), &expected.into_value(), options)
}
fn check(actual: &Value, expected: &Value, options: &AssertCloseOptions) -> Result<()> {
    for (given, other, name) in [(options.rtol, options.atol, "atol"), (options.atol, options.rtol, "rtol")] {
        ensure!(
            given.is_none() || other.is_some(),
            Value,
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no {name}."
        );
    }
    let mut place = String::new();
    compare(actual, expected, &mut place, options)
}

/// The older, laxer comparison: dtypes and strides may differ, NaN equals NaN, and float32 gets `1e-4` and `1e-5`.
///
/// ```
/// use torch::testing::assert_allclose;
/// use torch::{float64, nan, tensor};
/// assert_allclose(&tensor([1.0, nan]), &tensor([1.00005, nan]).to(float64));
/// ```
///
/// Panics where the values are not close.
#[doc(alias = "torch.testing.assert_allclose")]
#[track_caller]
pub fn assert_allclose(actual: &Tensor, expected: &Tensor) {
    flambeau_core::api::ergonomic::expect(try_assert_allclose(actual, expected, None, None, None));
}
/// [`assert_allclose`] with all its arguments, and an error instead of a panic.
///
/// # Errors
/// As [`try_assert_close`].
pub fn try_assert_allclose(
    actual: &Tensor,
    expected: &Tensor,
    rtol: Option<f64>,
    atol: Option<f64>,
    msg: Option<String>,
) -> Result<()> {
    let mut o = AssertCloseOptions { rtol, atol, equal_nan: true, check_dtype: false, ..Default::default() };
    if rtol.is_none() && atol.is_none() {
        let of = |d: DType| match d {
            DType::F16 => (1e-3, 1e-3),
            DType::F32 => (1e-4, 1e-5),
            DType::F64 => (1e-5, 1e-8),
            _ => (0.0, 0.0),
        };
        let (a, b) = (of(actual.dtype()), of(expected.dtype()));
        o = o.rtol(f64::max(a.0, b.0)).atol(f64::max(a.1, b.1));
    }
    if let Some(m) = msg.filter(|m| !m.is_empty()) {
        o = o.msg(m);
    }
    try_assert_close(actual, expected, &o)
}

/// The tolerances of a dtype.
fn tolerances(d: DType) -> (f64, f64) {
    match d {
        DType::F16 | DType::C32 => (1e-3, 1e-5),
        DType::BF16 => (1.6e-2, 1e-5),
        DType::F32 | DType::C64 => (1.3e-6, 1e-5),
        DType::F64 | DType::C128 => (1e-7, 1e-7),
        d if d.is_quantized() => (1.3e-6, 1e-5),
        _ => (0.0, 0.0),
    }
}
fn allowed(o: &AssertCloseOptions, a: DType, b: DType) -> (f64, f64) {
    match (o.rtol, o.atol) {
        (Some(r), Some(t)) => (r, t),
        _ => {
            let (x, y) = (tolerances(a), tolerances(b));
            (x.0.max(y.0), x.1.max(y.1))
        }
    }
}

fn failure(text: String, place: &str, o: &AssertCloseOptions) -> Error {
    let mut text = text;
    if !place.is_empty() {
        text.push_str(&format!("\n\nThe failure occurred for item {place}"));
    }
    Error::assertion(o.msg.as_ref().map_or_else(|| text.clone(), |f| f(&text)))
}

fn compare(a: &Value, e: &Value, place: &mut String, o: &AssertCloseOptions) -> Result<()> {
    if let (Some(x), Some(y)) = (a.items(), e.items()) {
        if x.len() != y.len() {
            let text = format!("The length of the sequences mismatch: {} != {}", x.len(), y.len());
            return Err(failure(text, place, o));
        }
        for (i, (x, y)) in x.iter().zip(y).enumerate() {
            within(&format!("[{i}]"), x, y, place, o)?;
        }
        return Ok(());
    }
    if let (Value::Dict(x), Value::Dict(y)) = (a, e) {
        let lacking = |of: &[(String, Value)], inside: &[(String, Value)]| {
            let mut v: Vec<String> = of
                .iter()
                .filter(|(k, _)| !inside.iter().any(|(n, _)| n == k))
                .map(|(k, _)| format!("'{k}'"))
                .collect();
            v.sort();
            format!("[{}]", v.join(", "))
        };
        let (missing, additional) = (lacking(y, x), lacking(x, y));
        if missing != "[]" || additional != "[]" {
            let mut text = "The keys of the mappings do not match:".to_string();
            for (what, list) in [("Missing", &missing), ("Additional", &additional)] {
                if list != "[]" {
                    text.push_str(&format!("\n{what} keys in the actual mapping: {list}"));
                }
            }
            return Err(failure(text, place, o));
        }
        let mut keys: Vec<&(String, Value)> = x.iter().collect();
        keys.sort_by(|p, q| p.0.cmp(&q.0));
        for (k, v) in keys {
            if let Some((_, w)) = y.iter().find(|(n, _)| n == k) {
                within(&format!("['{k}']"), v, w, place, o)?;
            }
        }
        return Ok(());
    }
    let text = match (a, e) {
        (Value::None, Value::None) => return Ok(()),
        (Value::None, _) | (_, Value::None) => {
            format!("None mismatch: {} is not {}", shown(a)?, shown(e)?)
        }
        (Value::Bool(x), Value::Bool(y)) if x == y => return Ok(()),
        (Value::Bool(_), Value::Bool(_)) => format!("Booleans mismatch: {} is not {}", shown(a)?, shown(e)?),
        (Value::Tensor(x), Value::Tensor(y)) => return tensors(x, y, place, o),
        (a, e) if a.as_scalar().is_some() && e.as_scalar().is_some() => return numbers(a, e, place, o),
        _ => {
            return Err(Error::type_(format!(
                "No comparison pair was able to handle inputs of type {} and {}.",
                class(a),
                class(e)
            )));
        }
    };
    Err(failure(text, place, o))
}
fn within(item: &str, a: &Value, e: &Value, place: &mut String, o: &AssertCloseOptions) -> Result<()> {
    let before = place.len();
    place.push_str(item);
    compare(a, e, place, o)?;
    place.truncate(before);
    Ok(())
}
fn shown(v: &Value) -> Result<String> {
    flambeau_core::text::repr(v)
}
fn class(v: &Value) -> String {
    match v {
        Value::Tensor(_) => "<class 'torch.Tensor'>".into(),
        v => format!("<class '{}'>", v.type_name()),
    }
}

fn magnitude(v: &Value) -> (f64, f64) {
    match v {
        Value::Complex(c) => (c.re, c.im),
        v => (v.as_scalar().map_or(f64::NAN, |s| s.to_f64()), 0.0),
    }
}
fn number(f: f64) -> Result<String> {
    shown(&Value::Float(f))
}
fn numbers(a: &Value, e: &Value, place: &str, o: &AssertCloseOptions) -> Result<()> {
    if o.check_dtype && a.type_name() != e.type_name() {
        let text = format!("The (d)types do not match: {} != {}.", class(a), class(e));
        return Err(failure(text, place, o));
    }
    let kind = |v: &Value| match v {
        Value::Float(_) => DType::F64,
        Value::Complex(_) => DType::C128,
        _ => DType::I64,
    };
    let (rtol, atol) = allowed(o, kind(a), kind(e));
    let (x, y) = (magnitude(a), magnitude(e));
    let nan = |v: (f64, f64)| v.0.is_nan() || v.1.is_nan();
    if x == y || (o.equal_nan && nan(x) && nan(y)) {
        return Ok(());
    }
    let difference = (x.0 - y.0).hypot(x.1 - y.1);
    if difference.is_finite() && difference <= atol + rtol * y.0.hypot(y.1) {
        return Ok(());
    }
    Err(failure(scalars(a, e, rtol, atol)?, place, o))
}
fn scalars(a: &Value, e: &Value, rtol: f64, atol: f64) -> Result<String> {
    let (x, y) = (magnitude(a), magnitude(e));
    let difference = (x.0 - y.0).hypot(x.1 - y.1);
    let expected = y.0.hypot(y.1);
    let part = if expected == 0.0 { f64::INFINITY } else { difference / expected };
    let whole = matches!(a, Value::Int(_) | Value::Bool(_)) && matches!(e, Value::Int(_) | Value::Bool(_));
    let absolute = if whole { format!("{difference}") } else { number(difference)? };
    let equality = rtol == 0.0 && atol == 0.0;
    let up_to = |t: f64| {
        if equality { Ok(String::new()) } else { number(t).map(|t| format!(" (up to {t} allowed)")) }
    };
    Ok(format!(
        "Scalars are not {}!\n\nExpected {} but got {}.\nAbsolute difference: {absolute}{}\nRelative difference: {}{}",
        if equality { "equal" } else { "close" },
        shown(e)?,
        shown(a)?,
        up_to(atol)?,
        number(part)?,
        up_to(rtol)?,
    ))
}

fn attribute<T: std::fmt::Display>(name: &str, a: T, e: T, place: &str, o: &AssertCloseOptions) -> Error {
    failure(format!("The values for attribute '{name}' do not match: {a} != {e}."), place, o)
}
fn tuple(v: &[i64]) -> String {
    let items: Vec<String> = v.iter().map(i64::to_string).collect();
    if v.len() == 1 { format!("({},)", items[0]) } else { format!("({})", items.join(", ")) }
}
fn tensors(a: &Tensor, e: &Tensor, place: &str, o: &AssertCloseOptions) -> Result<()> {
    if a.sizes() != e.sizes() {
        let size = |t: &Tensor| {
            let items: Vec<String> = t.sizes().iter().map(i64::to_string).collect();
            format!("torch.Size([{}])", items.join(", "))
        };
        return Err(attribute("shape", size(a), size(e), place, o));
    }
    if a.layout() != e.layout() {
        if o.check_layout {
            let name = |t: &Tensor| format!("torch.{}", t.layout().name());
            return Err(attribute("layout", name(a), name(e), place, o));
        }
    } else if o.check_stride && a.layout() == Layout::Strided && a.strides() != e.strides() {
        return Err(attribute("stride()", tuple(a.strides()), tuple(e.strides()), place, o));
    }
    if o.check_device && a.device() != e.device() {
        return Err(attribute("device", a.device().to_string(), e.device().to_string(), place, o));
    }
    let name = |t: &Tensor| format!("torch.{}", t.dtype().name());
    if o.check_dtype && a.dtype() != e.dtype() {
        return Err(attribute("dtype", name(a), name(e), place, o));
    }
    let (rtol, atol) = allowed(o, a.dtype(), e.dtype());
    let plain = |t: &Tensor| -> Result<Tensor> {
        let t = ops::detach(t)?;
        let t = if t.layout() == Layout::Strided {
            t
        } else {
            flambeau_sparse::generated::ops::to_dense(&t, None, None)?
        };
        let t = if t.dtype().is_quantized() { dequantized(&t)? } else { t };
        cast(&t, None, Device::Cpu)
    };
    let (mut a, mut e) = (plain(a)?, plain(e)?);
    if a.dtype() != e.dtype() {
        let d = promote_types(a.dtype(), e.dtype())?;
        (a, e) = (cast(&a, Some(d), Device::Cpu)?, cast(&e, Some(d), Device::Cpu)?);
    }
    let matches = ops::isclose(&a, &e, rtol, atol, o.equal_nan)?;
    let total = matches.numel() as usize;
    let good =
        cast(&matches, Some(DType::U8), Device::Cpu)?.to_vec::<u8>().iter().filter(|b| **b != 0).count();
    if good == total {
        return Ok(());
    }
    if a.dim() == 0 {
        let text = scalars(&item(&a)?, &item(&e)?, rtol, atol)?;
        return Err(failure(text, place, o));
    }
    Err(failure(elements(&a, &e, &matches, total - good, rtol, atol)?, place, o))
}
/// The numbers that a quantized tensor stands for, by the crate that has such tensors.
fn dequantized(t: &Tensor) -> Result<Tensor> {
    let op = flambeau_core::dispatch::registry::find("aten::dequantize.self");
    let op = op.ok_or_else(|| {
        Error::missing("comparison of quantized tensors without the features `quantization` and `by-name`")
    })?;
    flambeau_core::dispatch::value::arg(&op.call_boxed(&[Value::Tensor(t.clone())])?, 0)
}
fn cast(t: &Tensor, dtype: Option<DType>, device: Device) -> Result<Tensor> {
    ops::to(t, dtype, None, Some(device), None, false, false, None)
}
fn item(t: &Tensor) -> Result<Value> {
    let d = t.dtype();
    Ok(if d.is_complex() {
        let parts = ops::view_as_real(&ops::resolve_conj(t)?)?;
        let parts = cast(&parts, Some(DType::F64), Device::Cpu)?.to_vec::<f64>();
        Value::Complex(num_complex::Complex::new(parts[0], parts[1]))
    } else if d.is_floating() {
        Value::Float(cast(t, Some(DType::F64), Device::Cpu)?.to_vec::<f64>()[0])
    } else if d == DType::Bool {
        Value::Bool(cast(t, Some(DType::U8), Device::Cpu)?.to_vec::<u8>()[0] != 0)
    } else {
        Value::Int(cast(t, Some(DType::I64), Device::Cpu)?.to_vec::<i64>()[0])
    })
}
/// What differs most, absolutely and relatively.
fn elements(a: &Tensor, e: &Tensor, matches: &Tensor, wrong: usize, rtol: f64, atol: f64) -> Result<String> {
    let whole = !a.dtype().is_floating() && !a.dtype().is_complex();
    let flat = |t: &Tensor| -> Result<Tensor> {
        let t = ops::flatten(t, 0, -1)?;
        if whole { cast(&t, Some(DType::I64), Device::Cpu) } else { Ok(t) }
    };
    let (x, y, good) = (flat(a)?, flat(e)?, ops::flatten(matches, 0, -1)?);
    let difference = ops::abs(&ops::sub(&x, &y, Scalar::Int(1))?)?;
    let difference = ops::masked_fill(&difference, &good, Scalar::Int(0))?;
    let part = ops::div(&difference, &ops::abs(&y)?)?;
    let part = ops::masked_fill(&part, &good, Scalar::Int(0))?;
    let greatest = |t: &Tensor| -> Result<(Value, String)> {
        let (value, at) = ops::max_dim(t, 0, false)?;
        let mut left = at.to_vec::<i64>()[0];
        let mut index = vec![0; a.dim()];
        for (i, n) in a.sizes().iter().enumerate().rev() {
            index[i] = left % n;
            left /= n;
        }
        Ok((item(&value)?, tuple(&index)))
    };
    let ((most, at), (most_of, at_of)) = (greatest(&difference)?, greatest(&part)?);
    let total = a.numel();
    let equality = rtol == 0.0 && atol == 0.0;
    let up_to = |t: f64| {
        if equality { Ok(String::new()) } else { number(t).map(|t| format!(" (up to {t} allowed)")) }
    };
    Ok(format!(
        "Tensor-likes are not {}!\n\nMismatched elements: {wrong} / {total} ({:.1}%)\nGreatest absolute difference: {} at index {at}{}\n\
         Greatest relative difference: {} at index {at_of}{}",
        if equality { "equal" } else { "close" },
        100.0 * wrong as f64 / total as f64,
        shown(&most)?,
        up_to(atol)?,
        shown(&most_of)?,
        up_to(rtol)?,
    ))
}

/// What [`make_tensor`] makes besides shape and dtype.
#[derive(Clone, Copy, Debug, Default)]
pub struct MakeTensorOptions {
    /// The least element; by default -9, and 0 for unsigned integers and bool.
    pub low: Option<f64>,
    /// Above all elements; by default 9, for integers 10, for bool 2.
    pub high: Option<f64>,
    /// Whether it is a leaf that wants a gradient.
    pub requires_grad: bool,
    /// Whether it lies in memory with gaps.
    pub noncontiguous: bool,
    /// Whether zeros are replaced: by the least positive number, one, or true.
    pub exclude_zero: bool,
}
/// A tensor of random elements for tests, from the default generator: uniform in `[low, high)`.
///
/// ```
/// torch::manual_seed(0);
/// let t = torch::testing::make_tensor([2, 3], torch::float32, Default::default()).unwrap();
/// assert_eq!(t.sizes(), [2, 3]);
/// assert!(t.to_vec::<f32>().iter().all(|x| (-9.0..9.0).contains(x)));
/// ```
///
/// # Errors
/// Bounds that are no numbers or the wrong way round; gradients of integers.
#[doc(alias = "torch.testing.make_tensor")]
pub fn make_tensor(shape: impl AsRef<[i64]>, dtype: DType, o: MakeTensorOptions) -> Result<Tensor> {
    let shape = shape.as_ref();
    ensure!(
        !(o.low.is_some_and(f64::is_nan) || o.high.is_some_and(f64::is_nan)),
        Value,
        "`low` and `high` cannot be NaN, but got low={:?} and high={:?}",
        o.low,
        o.high
    );
    let unsigned = matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64);
    let float = dtype.is_floating() || dtype.is_complex();
    let (low, high) = match dtype {
        DType::Bool => (0.0, 2.0),
        _ if float => (-9.0, 9.0),
        _ if unsigned => (0.0, 10.0),
        _ => (-9.0, 10.0),
    };
    let (low, high) = (o.low.unwrap_or(low), o.high.unwrap_or(high));
    ensure!(low < high, Value, "`low` must be less than `high`, but got {low} >= {high}");
    ensure!(
        float || !o.requires_grad,
        Value,
        "`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype=torch.{}",
        dtype.name()
    );
    let mut t = if float {
        let t = ops::empty(shape, Some(dtype), None, None, None, None)?;
        let parts = if dtype.is_complex() { ops::view_as_real(&t)? } else { t.clone() };
        ops::uniform_(&parts, low, high, None)?;
        t
    } else {
        let (low, high) = (low.floor() as i64, high.ceil() as i64);
        ops::randint_low(low, high, shape, None, Some(dtype), None, None, None)?
    };
    if o.noncontiguous && t.numel() > 1 {
        let last = t.dim() as i64 - 1;
        let twice = ops::repeat_interleave_int(&t, 2, Some(last), None)?;
        t = ops::slice(&twice, last, Some(1), None, 2)?;
    }
    if o.exclude_zero {
        let zero = ops::eq(&t, &ops::zeros_like(&t, None, None, None, None, None)?)?;
        let least = if float { flambeau_core::finfo(dtype)?.tiny.into() } else { Scalar::Int(1) };
        ops::masked_fill_(&t, &zero, least)?;
    }
    if o.requires_grad {
        t.try_requires_grad_(true)?;
    }
    Ok(t)
}

#[cfg(feature = "by-name")]
pub(crate) mod by_name {
    use super::*;
    use flambeau_core::dispatch::object::Kwargs;
    use flambeau_core::dispatch::value::FromValue;
    use flambeau_library::NativeFn;
    use flambeau_library::slots::{Slots, one};

    fn close(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
        let names: &[&str] = &[
            "actual",
            "expected",
            "allow_subclasses",
            "rtol",
            "atol",
            "equal_nan",
            "check_device",
            "check_dtype",
            "check_layout",
            "check_stride",
            "msg",
        ];
        let s = Slots::new("assert_close", names, a, k)?;
        let d = AssertCloseOptions::default();
        let flag = |i: usize, default: bool| Ok::<bool, Error>(s.get(i)?.unwrap_or(default));
        let o = AssertCloseOptions {
            rtol: s.get(3)?,
            atol: s.get(4)?,
            equal_nan: flag(5, d.equal_nan)?,
            check_device: flag(6, d.check_device)?,
            check_dtype: flag(7, d.check_dtype)?,
            check_layout: flag(8, d.check_layout)?,
            check_stride: flag(9, d.check_stride)?,
            msg: None,
        };
        let o = match s.values[10] {
            None | Some(Value::None) => o,
            Some(Value::Object(f)) => {
                let f = f.clone();
                o.msg_with(move |m| match f.call(&[Value::Str(m.into())], &[]) {
                    Ok(v) => v.first().and_then(|v| String::from_value(v).ok()).unwrap_or_default(),
                    Err(e) => e.message().to_string(),
                })
            }
            Some(v) => o.msg(String::from_value(v)?),
        };
        check(s.must(0)?, s.must(1)?, &o)?;
        Ok(vec![Value::None])
    }
    fn tensor(v: &Value, like: Option<DType>) -> Result<Tensor> {
        if let Value::Tensor(t) = v {
            return Ok(t.clone());
        }
        let mut k = Vec::new();
        k.extend(like.map(|d| ("dtype".to_string(), Value::DType(d))));
        Tensor::from_value(
            flambeau_library::call("torch.tensor", &[v.clone()], &k)?.first().unwrap_or(&Value::None),
        )
    }
    fn allclose(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
        let s =
            Slots::new("assert_allclose", &["actual", "expected", "rtol", "atol", "equal_nan", "msg"], a, k)?;
        let actual = tensor(s.must(0)?, None)?;
        let expected = tensor(s.must(1)?, Some(actual.dtype()))?;
        try_assert_allclose(&actual, &expected, s.get(2)?, s.get(3)?, s.get(5)?)?;
        Ok(vec![Value::None])
    }
    fn make(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
        let shape = match a {
            [one] if one.items().is_some() => Vec::<i64>::from_value(one)?,
            all => all.iter().map(i64::from_value).collect::<Result<_>>()?,
        };
        let names: &[&str] = &[
            "dtype",
            "device",
            "low",
            "high",
            "requires_grad",
            "noncontiguous",
            "exclude_zero",
            "memory_format",
        ];
        let s = Slots::new("make_tensor", names, &[], k)?;
        let o = MakeTensorOptions {
            low: s.get(2)?,
            high: s.get(3)?,
            requires_grad: s.get(4)?.unwrap_or(false),
            noncontiguous: s.get(5)?.unwrap_or(false),
            exclude_zero: s.get(6)?.unwrap_or(false),
        };
        ensure!(
            s.get::<flambeau_core::MemoryFormat>(7)?.is_none(),
            Missing,
            "make_tensor with memory_format"
        );
        one(make_tensor(shape, DType::from_value(s.must(0)?)?, o)?)
    }
    pub(crate) const NAMES: &[(&str, NativeFn)] = &[
        ("torch.testing.assert_close", close),
        ("torch.testing.assert_allclose", allclose),
        ("torch.testing.make_tensor", make),
    ];
}
