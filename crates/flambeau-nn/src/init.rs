//! `torch.nn.init`: fills that parameters start from, with PyTorch's random streams. Each has three forms, which run without
//! recording gradients: `NAME_` takes what is always given, `NAME_with` an options struct with the keywords, both give the
//! tensor back and panic on what does not fit; `try_NAME_` takes all arguments and gives errors.
//!
//! ```
//! use torch::nn::{Linear, init};
//! let layer = Linear::new(4, 3);
//! init::normal_(&layer.weight, 0.0, 0.02);
//! init::kaiming_normal_with(&layer.weight, init::KaimingOptions::new().mode("fan_out").nonlinearity("relu"));
//! init::zeros_(layer.bias());
//! ```

use crate::parameter::Parameter;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::settings::determinism::warn;
use flambeau_core::{DType, Device, Error, Generator, Result, Scalar, Tensor, bail, ensure, ops};

/// Writes values in row-major order.
fn write(t: &Tensor, values: Vec<f64>) -> Result<()> {
    if t.device() == Device::Meta {
        return Ok(());
    }
    let values = Tensor::from_vec_raw(values, t.sizes())?;
    flambeau_autograd::no_grad(|| ops::copy_(t, &values, false))
}
fn fill(t: &Tensor, v: Scalar) -> Result<()> {
    flambeau_autograd::no_grad(|| ops::fill_(t, v))
}

/// The fallible form of a fill, with all arguments.
macro_rules! fills {
    ($($(#[$doc:meta])* $name:ident $try_name:ident ($($a:ident: $t:ty),*) |$x:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        ///
        #[doc = concat!("[`", stringify!($name), "`] with all arguments, and an error instead of a panic.")]
        ///
        /// # Errors
        /// A dtype or shape that does not fit; a tensor that is borrowed.
        pub fn $try_name($x: &Tensor $(, $a: $t)*) -> Result<()> {
            $body
        }
    )*};
}
/// An options struct: a setter per keyword.
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fm:meta])* $field:ident: $ty:ty = $default:expr, $arg:ty, |$v:ident| $set:expr;)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $(pub(crate) $field: $ty,)*
        }
        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
        impl $name {
            /// The documented defaults.
            pub fn new() -> Self {
                $name { $($field: $default,)* }
            }
            $($(#[$fm])*
            #[doc = concat!("Default: `", stringify!($default), "`.")]
            pub fn $field(mut self, $v: $arg) -> Self {
                self.$field = $set;
                self
            })*
        }
    )*};
}
options! {
    /// Keywords of [`uniform_with`].
    UniformOptions {
        /// Lower end.
        a: f64 = 0.0, impl Into<f64>, |v| v.into();
        /// Upper end.
        b: f64 = 1.0, impl Into<f64>, |v| v.into();
        /// Source of random numbers.
        generator: Option<Generator> = None, &Generator, |g| Some(g.clone());
    }
    /// Keywords of [`normal_with`].
    NormalOptions {
        /// Mean.
        mean: f64 = 0.0, impl Into<f64>, |v| v.into();
        /// Standard deviation.
        std: f64 = 1.0, impl Into<f64>, |v| v.into();
        /// Source of random numbers.
        generator: Option<Generator> = None, &Generator, |g| Some(g.clone());
    }
    /// Keywords of [`trunc_normal_with`].
    TruncNormalOptions {
        /// Mean.
        mean: f64 = 0.0, impl Into<f64>, |v| v.into();
        /// Standard deviation.
        std: f64 = 1.0, impl Into<f64>, |v| v.into();
        /// Lowest value.
        a: f64 = -2.0, impl Into<f64>, |v| v.into();
        /// Highest value.
        b: f64 = 2.0, impl Into<f64>, |v| v.into();
        /// Source of random numbers.
        generator: Option<Generator> = None, &Generator, |g| Some(g.clone());
    }
    /// Keywords of [`xavier_uniform_with`] and [`xavier_normal_with`].
    XavierOptions {
        /// Factor, as [`calculate_gain`] gives it.
        gain: f64 = 1.0, impl Into<f64>, |v| v.into();
        /// Source of random numbers.
        generator: Option<Generator> = None, &Generator, |g| Some(g.clone());
    }
    /// Keywords of [`kaiming_uniform_with`] and [`kaiming_normal_with`].
    KaimingOptions {
        /// Negative slope of the leaky ReLU that follows.
        a: f64 = 0.0, impl Into<f64>, |v| v.into();
        /// `"fan_in"` keeps the variance forwards, `"fan_out"` backwards.
        mode: String = "fan_in".into(), &str, |v| v.into();
        /// The activation that follows.
        nonlinearity: String = "leaky_relu".into(), &str, |v| v.into();
        /// Source of random numbers.
        generator: Option<Generator> = None, &Generator, |g| Some(g.clone());
    }
    /// Keywords of [`orthogonal_with`].
    OrthogonalOptions {
        /// Factor.
        gain: f64 = 1.0, impl Into<f64>, |v| v.into();
        /// Source of random numbers.
        generator: Option<Generator> = None, &Generator, |g| Some(g.clone());
    }
    /// Keywords of [`sparse_with`].
    SparseOptions {
        /// Standard deviation of what is not zero.
        std: f64 = 0.01, impl Into<f64>, |v| v.into();
        /// Source of random numbers.
        generator: Option<Generator> = None, &Generator, |g| Some(g.clone());
    }
    /// Keywords of [`dirac_with`].
    DiracOptions {
        /// Groups of the convolution.
        groups: i64 = 1, i64, |v| v;
    }
    /// Keywords of [`calculate_gain_with`].
    GainOptions {
        /// Parameter of the nonlinearity: the slope of a leaky ReLU.
        param: Option<f64> = None, impl Into<f64>, |v| Some(v.into());
    }
}
/// The short form of a fill, and the one with its keywords. Both give the tensor back.
macro_rules! forms {
    ($(
        $(#[$doc:meta])* $name:ident ($($a:ident: $t:ty),*)
        $(, $with:ident ($($wa:ident: $wt:ty),*) $options:ident)? => |$x:ident, $o:ident| $body:expr, $short:expr;
    )*) => {$(
        $(#[$doc])*
        /// Panics with the error's text where dtype or shape do not fit.
        #[track_caller]
        pub fn $name($x: &Tensor $(, $a: $t)*) -> &Tensor {
            expect($short);
            $x
        }
        $(
            #[doc = concat!("[`", stringify!($name), "`] with its keywords: [`", stringify!($options), "`].")]
            #[track_caller]
            pub fn $with($x: &Tensor $(, $wa: $wt)*, $o: $options) -> &Tensor {
                expect($body);
                $x
            }
        )?
    )*};
}
forms! {
    /// Uniform between `a` and `b`.
    ///
    /// ```
    /// let w = torch::empty([4, 3]);
    /// torch::nn::init::uniform_(&w, -0.1, 0.1);
    /// assert!(w.abs().max().item::<f32>() <= 0.1);
    /// ```
    #[doc(alias = "torch.nn.init.uniform_")]
    uniform_(a: impl Into<f64>, b: impl Into<f64>), uniform_with() UniformOptions =>
        |t, o| try_uniform_(t, o.a, o.b, o.generator.as_ref()), try_uniform_(t, a.into(), b.into(), None);
    /// Normal with the given mean and standard deviation.
    ///
    /// ```
    /// let w = torch::empty([100, 100]);
    /// torch::nn::init::normal_(&w, 3.0, 0.1);
    /// assert!((w.mean().item::<f64>() - 3.0).abs() < 0.01);
    /// ```
    #[doc(alias = "torch.nn.init.normal_")]
    normal_(mean: impl Into<f64>, std: impl Into<f64>), normal_with() NormalOptions =>
        |t, o| try_normal_(t, o.mean, o.std, o.generator.as_ref()), try_normal_(t, mean.into(), std.into(), None);
    /// One value everywhere.
    ///
    /// ```
    /// let w = torch::empty([2]);
    /// torch::nn::init::constant_(&w, 0.5);
    /// assert_eq!(w.to_vec::<f32>(), [0.5, 0.5]);
    /// ```
    #[doc(alias = "torch.nn.init.constant_")]
    constant_(val: impl Into<Scalar>) => |t, o| Ok(()), fill(t, val.into());
    /// Ones.
    ///
    /// ```
    /// let w = torch::empty([2]);
    /// assert_eq!(torch::nn::init::ones_(&w).to_vec::<f32>(), [1.0, 1.0]);
    /// ```
    #[doc(alias = "torch.nn.init.ones_")]
    ones_() => |t, o| Ok(()), try_ones_(t);
    /// Zeros.
    ///
    /// ```
    /// let w = torch::empty([2]);
    /// assert_eq!(torch::nn::init::zeros_(&w).to_vec::<f32>(), [0.0, 0.0]);
    /// ```
    #[doc(alias = "torch.nn.init.zeros_")]
    zeros_() => |t, o| Ok(()), try_zeros_(t);
    /// Ones on the diagonal of a matrix, zeros elsewhere.
    ///
    /// ```
    /// let w = torch::empty([2, 3]);
    /// assert_eq!(torch::nn::init::eye_(&w).to_vec2::<f32>(), [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]);
    /// ```
    #[doc(alias = "torch.nn.init.eye_")]
    eye_() => |t, o| Ok(()), try_eye_(t);
    /// Uniform within `gain * sqrt(6 / (fan_in + fan_out))` (Glorot and Bengio 2010).
    ///
    /// ```
    /// let w = torch::empty([2, 4]);
    /// torch::nn::init::xavier_uniform_(&w);
    /// assert!(w.abs().max().item::<f32>() <= 1.0);
    /// ```
    #[doc(alias = "torch.nn.init.xavier_uniform_")]
    xavier_uniform_(), xavier_uniform_with() XavierOptions =>
        |t, o| try_xavier_uniform_(t, o.gain, o.generator.as_ref()), try_xavier_uniform_(t, 1.0, None);
    /// Normal with standard deviation `gain * sqrt(2 / (fan_in + fan_out))` (Glorot and Bengio 2010).
    ///
    /// ```
    /// use torch::nn::init;
    /// let w = torch::empty([100, 100]);
    /// init::xavier_normal_with(&w, init::XavierOptions::new().gain(2.0));
    /// assert!((w.std().item::<f64>() - 0.2).abs() < 0.01);
    /// ```
    #[doc(alias = "torch.nn.init.xavier_normal_")]
    xavier_normal_(), xavier_normal_with() XavierOptions =>
        |t, o| try_xavier_normal_(t, o.gain, o.generator.as_ref()), try_xavier_normal_(t, 1.0, None);
    /// Uniform within `gain * sqrt(3 / fan)` (He et al. 2015).
    ///
    /// ```
    /// use torch::nn::init;
    /// let w = torch::empty([2, 6]);
    /// init::kaiming_uniform_with(&w, init::KaimingOptions::new().nonlinearity("relu"));
    /// assert!(w.abs().max().item::<f32>() <= 1.0);
    /// ```
    #[doc(alias = "torch.nn.init.kaiming_uniform_")]
    kaiming_uniform_(), kaiming_uniform_with() KaimingOptions =>
        |t, o| try_kaiming_uniform_(t, o), try_kaiming_uniform_(t, KaimingOptions::new());
    /// Normal with standard deviation `gain / sqrt(fan)` (He et al. 2015).
    ///
    /// ```
    /// use torch::nn::init;
    /// let w = torch::empty([100, 200]);
    /// init::kaiming_normal_with(&w, init::KaimingOptions::new().mode("fan_out").nonlinearity("linear"));
    /// assert!((w.std().item::<f64>() - 0.1).abs() < 0.01);
    /// ```
    #[doc(alias = "torch.nn.init.kaiming_normal_")]
    kaiming_normal_(), kaiming_normal_with() KaimingOptions =>
        |t, o| try_kaiming_normal_(t, o), try_kaiming_normal_(t, KaimingOptions::new());
    /// Normal with the given mean and standard deviation, drawn again outside -2 to 2.
    ///
    /// ```
    /// let w = torch::empty([100]);
    /// torch::nn::init::trunc_normal_(&w, 0.0, 5.0);
    /// assert!(w.abs().max().item::<f32>() <= 2.0);
    /// ```
    #[doc(alias = "torch.nn.init.trunc_normal_")]
    trunc_normal_(mean: impl Into<f64>, std: impl Into<f64>), trunc_normal_with() TruncNormalOptions =>
        |t, o| try_trunc_normal_(t, o.mean, o.std, o.a, o.b, o.generator.as_ref()),
        try_trunc_normal_(t, mean.into(), std.into(), -2.0, 2.0, None);
    /// A matrix with orthonormal rows or columns (Saxe et al. 2013); further dimensions count as columns.
    ///
    /// ```
    /// let w = torch::empty([2, 3]);
    /// torch::nn::init::orthogonal_(&w);
    /// assert!((w.matmul(&w.t()) - torch::eye(2)).abs().max().item::<f32>() < 1e-5);
    /// ```
    #[doc(alias = "torch.nn.init.orthogonal_")]
    orthogonal_(), orthogonal_with() OrthogonalOptions =>
        |t, o| try_orthogonal_(t, o.gain, o.generator.as_ref()), try_orthogonal_(t, 1.0, None);
    /// Kernels of a convolution that keeps its input's channels, per group.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    /// let conv = nn::Conv2dOptions::new(2, 2, 3).padding(1).bias(false).build();
    /// nn::init::dirac_(&conv.weight);
    /// let x = torch::randn([1, 2, 4, 4]);
    /// assert!(torch::allclose(&conv.call(&x), &x));
    /// ```
    #[doc(alias = "torch.nn.init.dirac_")]
    dirac_(), dirac_with() DiracOptions => |t, o| try_dirac_(t, o.groups), try_dirac_(t, 1);
    /// A matrix of normal elements with a part of each column set to zero (Martens 2010).
    ///
    /// ```
    /// let w = torch::empty([4, 3]);
    /// torch::nn::init::sparse_(&w, 0.5);
    /// assert_eq!(w.ne(0.0).sum_dim(0, false).to_vec::<i64>(), [2, 2, 2]);
    /// ```
    #[doc(alias = "torch.nn.init.sparse_")]
    sparse_(sparsity: impl Into<f64>), sparse_with(sparsity: impl Into<f64>) SparseOptions =>
        |t, o| try_sparse_(t, sparsity.into(), o.std, o.generator.as_ref()),
        try_sparse_(t, sparsity.into(), 0.01, None);
}
fills! {
    /// Uniform between `a` and `b`.
    uniform_ try_uniform_ (a: f64, b: f64, generator: Option<&Generator>) |t| {
        flambeau_autograd::no_grad(|| ops::uniform_(t, a, b, generator))
    };
    /// Normal with the given mean and standard deviation.
    normal_ try_normal_ (mean: f64, std: f64, generator: Option<&Generator>) |t| {
        flambeau_autograd::no_grad(|| ops::normal_(t, mean, std, generator))
    };
    /// One value everywhere.
    constant_ try_constant_ (val: f64) |t| fill(t, Scalar::Float(val));
    /// Ones.
    ones_ try_ones_ () |t| fill(t, Scalar::Int(1));
    /// Zeros.
    zeros_ try_zeros_ () |t| fill(t, Scalar::Int(0));
    /// Ones on the diagonal of a matrix, zeros elsewhere.
    eye_ try_eye_ () |t| {
        ensure!(t.dim() == 2, Value, "Only tensors with 2 dimensions are supported");
        let (rows, cols) = (t.sizes()[0], t.sizes()[1]);
        write(t, (0..rows * cols).map(|i| if i / cols == i % cols { 1.0 } else { 0.0 }).collect())
    };
    /// Uniform within `gain * sqrt(6 / (fan_in + fan_out))` (Glorot and Bengio 2010).
    xavier_uniform_ try_xavier_uniform_ (gain: f64, generator: Option<&Generator>) |t| {
        let (fan_in, fan_out) = fans(t)?;
        let std = gain * (2.0 / (fan_in + fan_out) as f64).sqrt();
        let bound = 3f64.sqrt() * std;
        try_uniform_(t, -bound, bound, generator)
    };
    /// Normal with standard deviation `gain * sqrt(2 / (fan_in + fan_out))` (Glorot and Bengio 2010).
    xavier_normal_ try_xavier_normal_ (gain: f64, generator: Option<&Generator>) |t| {
        let (fan_in, fan_out) = fans(t)?;
        try_normal_(t, 0.0, gain * (2.0 / (fan_in + fan_out) as f64).sqrt(), generator)
    };
    /// Uniform within `gain * sqrt(3 / fan)` (He et al. 2015).
    kaiming_uniform_ try_kaiming_uniform_ (o: KaimingOptions) |t| {
        if t.numel() == 0 {
            warn("Initializing zero-element tensors is a no-op");
            return Ok(());
        }
        let bound = 3f64.sqrt() * o.std(t)?;
        try_uniform_(t, -bound, bound, o.generator.as_ref())
    };
    /// Normal with standard deviation `gain / sqrt(fan)` (He et al. 2015).
    kaiming_normal_ try_kaiming_normal_ (o: KaimingOptions) |t| {
        if t.numel() == 0 {
            warn("Initializing zero-element tensors is a no-op");
            return Ok(());
        }
        try_normal_(t, 0.0, o.std(t)?, o.generator.as_ref())
    };
    /// Normal, drawn again outside `a` to `b`.
    trunc_normal_ try_trunc_normal_ (mean: f64, std: f64, a: f64, b: f64, generator: Option<&Generator>) |t| {
        truncated(t, mean, std, a, b, generator)
    };
    /// A matrix with orthonormal rows or columns, times `gain` (Saxe et al. 2013); further dimensions count as columns.
    orthogonal_ try_orthogonal_ (gain: f64, generator: Option<&Generator>) |t| orthogonal(t, gain, generator);
    /// Kernels of a convolution that keeps its input's channels, per group.
    dirac_ try_dirac_ (groups: i64) |t| dirac(t, groups);
    /// A matrix of normal elements with a part of each column set to zero (Martens 2010).
    sparse_ try_sparse_ (sparsity: f64, std: f64, generator: Option<&Generator>) |t| {
        ensure!(t.dim() == 2, Value, "Only tensors with 2 dimensions are supported");
        let (rows, cols) = (t.sizes()[0], t.sizes()[1]);
        let zeros = (sparsity * rows as f64).ceil() as usize;
        try_normal_(t, 0.0, std, generator)?;
        let mut values: Vec<f64> = t.try_to_vec()?;
        for c in 0..cols as usize {
            let order = ops::randperm(rows, None, Some(DType::I64), None, None, None)?;
            for r in order.try_to_vec::<i64>()?.into_iter().take(zeros) {
                values[r as usize * cols as usize + c] = 0.0;
            }
        }
        write(t, values)
    };
}

impl KaimingOptions {
    fn std(&self, t: &Tensor) -> Result<f64> {
        let (fan_in, fan_out) = fans(t)?;
        let fan = match self.mode.to_lowercase().as_str() {
            "fan_in" => fan_in,
            "fan_out" => fan_out,
            _ => bail!(Value, "Mode {} not supported, please use one of ['fan_in', 'fan_out']", self.mode),
        };
        Ok(try_calculate_gain(&self.nonlinearity, Some(self.a))? / (fan as f64).sqrt())
    }
}

/// Factor by which a nonlinearity's input should be scaled: `calculate_gain("relu")`. Panics on an unknown name.
///
/// ```
/// use torch::nn::init::{GainOptions, calculate_gain, calculate_gain_with};
/// assert_eq!(calculate_gain("relu"), 2f64.sqrt());
/// assert_eq!(calculate_gain_with("leaky_relu", GainOptions::new().param(1.0)), 1.0);
/// ```
#[track_caller]
#[doc(alias = "torch.nn.init.calculate_gain")]
pub fn calculate_gain(nonlinearity: &str) -> f64 {
    expect(try_calculate_gain(nonlinearity, None))
}
/// [`calculate_gain`] with its keyword: [`GainOptions`].
#[track_caller]
pub fn calculate_gain_with(nonlinearity: &str, options: GainOptions) -> f64 {
    expect(try_calculate_gain(nonlinearity, options.param))
}
/// [`calculate_gain`] with all arguments, and an error instead of a panic.
///
/// # Errors
/// An unknown name.
pub fn try_calculate_gain(nonlinearity: &str, param: Option<f64>) -> Result<f64> {
    Ok(match nonlinearity {
        "linear" | "conv1d" | "conv2d" | "conv3d" | "conv_transpose1d" | "conv_transpose2d"
        | "conv_transpose3d" | "sigmoid" => 1.0,
        "tanh" => 5.0 / 3.0,
        "relu" => 2f64.sqrt(),
        "leaky_relu" => (2.0 / (1.0 + param.unwrap_or(0.01).powi(2))).sqrt(),
        "selu" => 0.75,
        other => bail!(Value, "Unsupported nonlinearity {other}"),
    })
}

/// Inputs and outputs that each element of a weight connects.
fn fans(t: &Tensor) -> Result<(i64, i64)> {
    ensure!(
        t.dim() >= 2,
        Value,
        "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
    );
    let field: i64 = t.sizes()[2..].iter().product();
    Ok((t.sizes()[1] * field, t.sizes()[0] * field))
}

/// What linear layers and convolutions start from: weight and bias uniform within `1 / sqrt(fan_in)`.
pub(crate) fn linear_like(weight: &Parameter, bias: Option<&Parameter>) -> Result<()> {
    try_kaiming_uniform_(weight, KaimingOptions::new().a(5f64.sqrt()))?;
    let Some(bias) = bias else { return Ok(()) };
    let (fan_in, _) = fans(weight)?;
    if fan_in == 0 && weight.dim() > 2 {
        return Ok(());
    }
    let bound = if fan_in > 0 { 1.0 / (fan_in as f64).sqrt() } else { 0.0 };
    try_uniform_(bias, -bound, bound, None)
}

/// A fresh tensor like `t` in dtype and size, filled by `f`, as numbers.
fn drawn(t: &Tensor, f: impl FnOnce(&Tensor) -> Result<()>) -> Result<Vec<f64>> {
    let fresh = Tensor::empty_raw(t.sizes(), t.dtype(), t.device())?;
    f(&fresh)?;
    fresh.try_to_vec()
}

/// Distribution function of the normal distribution.
fn cdf(x: f64) -> Result<f64> {
    let erf = ops::erf(&Tensor::scalar_raw(x / 2f64.sqrt())?)?;
    Ok((1.0 + erf.try_item::<f64>()?) / 2.0)
}

/// Rounds of drawing until it is clear that no number will do, where PyTorch would go on for ever.
struct Tries {
    left: u64,
}
impl Tries {
    fn next(&mut self) -> Result<()> {
        ensure!(
            self.left > 0,
            Runtime,
            "trunc_normal_: the interval from a to b has practically none of the distribution"
        );
        self.left -= 1;
        Ok(())
    }
}

fn truncated(t: &Tensor, mean: f64, std: f64, a: f64, b: f64, g: Option<&Generator>) -> Result<()> {
    if t.device() == Device::Meta {
        return Ok(());
    }
    if mean < a - 2.0 * std || mean > b + 2.0 * std {
        warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
        );
    }
    if t.numel() == 0 {
        return Ok(());
    }
    let mut tries = Tries { left: 1_000 + 100_000_000 / t.numel() as u64 };
    // a number as the tensor's dtype holds it
    let held = |v: f64| -> Result<f64> { Tensor::scalar_raw(v)?.try_to(t.dtype())?.try_item() };
    let inside = cdf((b - mean) / std)? - cdf((a - mean) / std)?;
    if inside > 0.3 {
        let (low, high) = (held(a)?, held(b)?);
        let again = || drawn(t, |t| ops::normal_(t, mean, std, g));
        let mut values = again()?;
        while values.iter().any(|v| *v < low || *v > high) {
            tries.next()?;
            let fresh = again()?;
            for (v, f) in values.iter_mut().zip(fresh) {
                if *v < low || *v > high {
                    *v = f;
                }
            }
        }
        return write(t, values);
    }
    // rejection from a uniform proposal; the steps round as a chain of tensor operations does
    let round: fn(f64) -> f64 = match t.dtype() {
        DType::F64 => |v| v,
        DType::F32 => |v| v as f32 as f64,
        d => bail!(Missing, "trunc_normal_ far outside the mean for dtype {d}"),
    };
    let mode = a.max(mean.min(b));
    let peak = -0.5 * ((mode - mean) / std).powi(2);
    let accepted = |candidate: f64, chance: f64| {
        let z = round(round(candidate - round(mean)) / round(std));
        // what is no number is accepted, as it is in PyTorch
        let over = round(chance.ln()) > round(round(round(z * z) * -0.5) - round(peak));
        !over
    };
    let mut values = vec![0.0; t.numel() as usize];
    let mut pending = vec![true; values.len()];
    while pending.contains(&true) {
        tries.next()?;
        let candidates = drawn(t, |t| ops::uniform_(t, a, b, g))?;
        let chances = drawn(t, |t| ops::uniform_(t, 0.0, 1.0, g))?;
        for (i, p) in pending.iter_mut().enumerate().filter(|(_, p)| **p) {
            values[i] = candidates[i];
            *p = !accepted(candidates[i], chances[i]);
        }
    }
    write(t, values)
}

fn orthogonal(t: &Tensor, gain: f64, g: Option<&Generator>) -> Result<()> {
    ensure!(t.dim() >= 2, Value, "Only tensors with 2 or more dimensions are supported");
    if t.numel() == 0 || t.device() == Device::Meta {
        return Ok(());
    }
    if !matches!(t.dtype(), DType::F32 | DType::F64) {
        return Err(Error::not_implemented_for("geqrf_cpu", t.dtype()));
    }
    let rows = t.sizes()[0] as usize;
    let cols = t.numel() as usize / rows;
    let flat = Tensor::empty_raw(&[rows as i64, cols as i64], t.dtype(), t.device())?;
    try_normal_(&flat, 0.0, 1.0, g)?;
    let values: Vec<f64> = flat.try_to_vec()?;
    // the vectors of the shorter side, made orthonormal one after the other, twice for accuracy: the factor Q whose R
    // has a positive diagonal
    let (count, length) = (rows.min(cols), rows.max(cols));
    let at = |vector: usize, i: usize| if rows < cols { vector * cols + i } else { i * cols + vector };
    let mut q: Vec<Vec<f64>> = Vec::with_capacity(count);
    for k in 0..count {
        let mut v: Vec<f64> = (0..length).map(|i| values[at(k, i)]).collect();
        for _ in 0..2 {
            for u in &q {
                let dot: f64 = u.iter().zip(&v).map(|(a, b)| a * b).sum();
                v.iter_mut().zip(u).for_each(|(a, b)| *a -= dot * b);
            }
        }
        let norm = v.iter().map(|a| a * a).sum::<f64>().sqrt();
        v.iter_mut().for_each(|a| *a /= norm);
        q.push(v);
    }
    let mut out = vec![0.0; rows * cols];
    for (k, v) in q.iter().enumerate() {
        v.iter().enumerate().for_each(|(i, a)| out[at(k, i)] = a * gain);
    }
    write(t, out)
}

fn dirac(t: &Tensor, groups: i64) -> Result<()> {
    let sizes = t.sizes();
    ensure!((3..=5).contains(&sizes.len()), Value, "Only tensors with 3, 4, or 5 dimensions are supported");
    ensure!(groups > 0 && sizes[0] % groups == 0, Value, "dim 0 must be divisible by groups");
    let per_group = sizes[0] / groups;
    let strides = flambeau_core::tensor::geometry::contiguous_strides(sizes);
    let centre: i64 = (2..sizes.len()).map(|d| sizes[d] / 2 * strides[d]).sum();
    let mut values = vec![0.0; t.numel() as usize];
    for g in 0..groups {
        for d in 0..per_group.min(sizes[1]) {
            values[((g * per_group + d) * strides[0] + d * strides[1] + centre) as usize] = 1.0;
        }
    }
    write(t, values)
}
