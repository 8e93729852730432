//! Window functions.

use crate::iter::promotion;
use crate::ops::creation::factory;
use crate::tensor::geometry;
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::layout::Layout;
use crate::types::scalar::Scalar;
use crate::{DType, ensure, ops};
use std::f64::consts::PI;

type Opt<T> = Option<T>;

/// A window: `f(k, n)` at the points `k` of `m`, where `n` is the period.
fn points(m: i64, n: i64, d: DType, device: Device, f: impl Fn(f64, f64) -> f64) -> Result<Tensor> {
    if device == Device::Meta {
        return Tensor::empty_raw(&[m], d, device);
    }
    let v: Vec<f64> = match m {
        1 => vec![1.0],
        m => {
            let mut v = geometry::room(m)?;
            v.extend((0..m).map(|k| f(k as f64, n as f64)));
            v
        }
    };
    crate::backend::transfer::cast_to(&Tensor::from_vec_raw(v, &[m])?, d)
}
/// Modified Bessel function of the first kind, order 0, by its series.
fn bessel_i0(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > sum * 1e-17 {
        term *= quarter / (k * k);
        sum += term;
        k += 1.0;
    }
    sum
}
/// Sum of cosines with alternating signs.
fn cosines(a: &[f64]) -> impl Fn(f64, f64) -> f64 + '_ {
    move |k, n| {
        let at = 2.0 * PI * k / n;
        a.iter()
            .enumerate()
            .map(|(i, a)| if i % 2 == 0 { a * (i as f64 * at).cos() } else { -a * (i as f64 * at).cos() })
            .sum()
    }
}
/// Sums of cosines in a half type, rounded after each step as in PyTorch's chain of operators.
fn rounded(m: i64, n: i64, d: DType, a: &[f64]) -> Result<Tensor> {
    let number = |v: f64| crate::tensor::number::wrapped_number(Scalar::Float(v));
    let k = ops::arange(Scalar::Int(m), Some(d), None, None, None)?;
    let cosine = |t: &Tensor, by: f64| ops::mul(&ops::cos(t)?, &number(by)?);
    if let [alpha, beta] = *a {
        let at = ops::mul(&k, &number(PI * 2.0 / n as f64)?)?;
        return ops::add(&cosine(&at, -beta)?, &number(alpha)?, Scalar::Int(1));
    }
    let at = ops::mul(&k, &number(PI / n as f64)?)?;
    let part = |times: f64, by: f64| cosine(&ops::mul(&at, &number(times)?)?, by);
    let t = ops::sub(&part(4.0, a[2])?, &part(2.0, a[1])?, Scalar::Int(1))?;
    ops::add(&t, &number(a[0])?, Scalar::Int(1))
}
fn triangle(k: f64, n: f64) -> f64 {
    1.0 - (2.0 * k / n - 1.0).abs()
}
fn kaiser(beta: f64) -> impl Fn(f64, f64) -> f64 {
    move |k, n| {
        let x = 2.0 * k / n - 1.0;
        bessel_i0(beta * (1.0 - x * x).max(0.0).sqrt()) / bessel_i0(beta)
    }
}

/// The options of a call, as PyTorch's C++ prints them.
fn options(name: &str, dtype: Opt<DType>, layout: Opt<Layout>, device: Opt<Device>) -> String {
    let d = dtype.unwrap_or_else(promotion::default_dtype).c_name();
    // Hann's window is told no dtype where none was given, the others the default one
    let unsaid = if dtype.is_none() && name == "hann_window" { " (default)" } else { "" };
    let layout = match layout {
        None | Some(Layout::Strided) => "Strided (default)",
        Some(Layout::SparseCoo) => "Sparse",
        Some(Layout::SparseCsr) => "SparseCsr",
        Some(Layout::SparseCsc) => "SparseCsc",
        Some(Layout::SparseBsr) => "SparseBsr",
        Some(Layout::SparseBsc) => "SparseBsc",
        #[allow(unreachable_patterns)]
        Some(other) => other.name(),
    };
    let device = device.unwrap_or(Device::Cpu);
    format!(
        "TensorOptions(dtype={d}{unsaid}, device={device}, layout={layout}, requires_grad=false (default), \
         pinned_memory=false, memory_format=(nullopt))"
    )
}

macro_rules! windows {
    ($($name:ident($($a:ident: $t:ty),*) $f:expr, $cosines:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        pub fn $name(window_length: i64, periodic: bool, $($a: $t,)* dtype: Opt<DType>, layout: Opt<Layout>, device: Opt<Device>, pin_memory: Opt<bool>) -> Result<Tensor> {
            let given = || options(stringify!($name), dtype, layout, device);
            let sparse = layout.is_some_and(|l| l != Layout::Strided);
            ensure!(!sparse, Runtime, concat!(stringify!($name), " is not implemented for sparse types, got: {}"), given());
            let (d, at) = factory(dtype, layout, device, pin_memory)?;
            ensure!(d.is_floating() || d.is_complex(), Runtime, concat!(stringify!($name), " expects floating point dtypes, got: {}"), given());
            let device = at;
            ensure!(
                window_length >= 0,
                Runtime,
                concat!(stringify!($name), " requires non-negative window_length, got window_length={}"),
                window_length
            );
            let n = if periodic { window_length } else { window_length - 1 };
            let cosines: &[f64] = $cosines;
            if matches!(d, DType::F16 | DType::BF16) && device == Device::Cpu && window_length > 1 && !cosines.is_empty() {
                return rounded(window_length, n, d, cosines);
            }
            points(window_length, n, d, device, $f)
        }
    )*};
}
windows! {
    hann_window() cosines(&[0.5, 0.5]), &[0.5, 0.5];
    hamming_window(alpha: f64, beta: f64) cosines(&[alpha, beta]), &[alpha, beta];
    blackman_window() cosines(&[0.42, 0.5, 0.08]), &[0.42, 0.5, 0.08];
    bartlett_window() triangle, &[];
    kaiser_window(beta: f64) kaiser(beta), &[];
}

macro_rules! signals {
    ($($name:ident $python:literal $label:literal ($($a:ident: $t:ty),*) |$m:ident, $n:ident, $d:ident, $at:ident| $f:expr;)*) => {$(
        #[doc = concat!("`torch.signal.windows.", $python, "`")]
        pub fn $name($m: i64, $($a: $t,)* sym: bool, dtype: Opt<DType>, layout: Opt<Layout>, device: Opt<Device>, pin_memory: Opt<bool>) -> Result<Tensor> {
            ensure!($m >= 0, Value, concat!($label, " requires non-negative window length, got M={}"), $m);
            if let Some(l) = layout.filter(|l| *l != Layout::Strided) {
                return Err(Error::value(format!(
                    concat!($label, " is implemented for strided tensors only, got: torch.{}"),
                    l.name()
                )));
            }
            let (d, device) = factory(dtype, layout, device, pin_memory)?;
            ensure!(
                matches!(d, DType::F32 | DType::F64),
                Value,
                concat!($label, " expects float32 or float64 dtypes, got: {}"),
                d
            );
            let $n = if sym { $m - 1 } else { $m };
            let ($d, $at) = (d, device);
            let _ = ($d, $at);
            points($m, $n, d, device, $f)
        }
    )*};
}
fn positive(v: f64, what: &str, name: &str) -> Result<f64> {
    if v > 0.0 { Ok(v) } else { Err(Error::value(format!("{what} must be {name}, got: {v:?} instead."))) }
}
signals! {
    signal_bartlett "bartlett" "bartlett" () |m, n, d, at| triangle;
    signal_blackman "blackman" "blackman" () |m, n, d, at| cosines(&[0.42, 0.5, 0.08]);
    signal_cosine "cosine" "cosine" () |m, n, d, at| |k, n| (PI * (k + 0.5) / (n + 1.0)).sin();
    signal_exponential "exponential" "exponential" (center: Opt<f64>, tau: f64) |m, n, d, at| {
        let tau = positive(tau, "Tau", "positive")?;
        ensure!(n == m || center.is_none(), Value, "Center must be None for symmetric windows");
        if let (1, Some(c)) = (m, center) {
            // one point, wherever the center is
            return points(2, 1, d, at, move |_, _| (-c.abs() / tau).exp()).and_then(|t| ops::slice(&t, 0, Some(0), Some(1), 1));
        }
        let center = center.unwrap_or(n as f64 / 2.0);
        move |k, _| (-(k - center).abs() / tau).exp()
    };
    signal_gaussian "gaussian" "gaussian" (std: f64) |m, n, d, at| {
        let std = positive(std, "Standard deviation", "positive")?;
        move |k, n| (-0.5 * ((k - n / 2.0) / std).powi(2)).exp()
    };
    signal_general_cosine "general_cosine" "general_cosine" (a: &[f64]) |m, n, d, at| {
        ensure!(m <= 1 || !a.is_empty(), Value, "Coefficients cannot be empty");
        cosines(a)
    };
    signal_general_hamming "general_hamming" "general_cosine" (alpha: f64) |m, n, d, at| cosines(&[alpha, 1.0 - alpha]);
    signal_hamming "hamming" "general_cosine" () |m, n, d, at| cosines(&[0.54, 1.0 - 0.54]);
    signal_hann "hann" "general_cosine" () |m, n, d, at| cosines(&[0.5, 0.5]);
    signal_kaiser "kaiser" "kaiser" (beta: f64) |m, n, d, at| {
        ensure!(beta >= 0.0, Value, "beta must be non-negative, got: {beta:?} instead.");
        // PyTorch computes in the window's type, where I0 is infinite once the exponential is
        let most = if d == DType::F32 { f64::from(f32::MAX) } else { f64::MAX }.ln();
        let i0 = move |x: f64| if x > most { f64::INFINITY } else { bessel_i0(x) };
        move |k: f64, n: f64| {
            let x = 2.0 * k / n - 1.0;
            i0(beta * (1.0 - x * x).max(0.0).sqrt()) / i0(beta)
        }
    };
    signal_nuttall "nuttall" "general_cosine" () |m, n, d, at| cosines(&[0.3635819, 0.4891775, 0.1365995, 0.0106411]);
}
