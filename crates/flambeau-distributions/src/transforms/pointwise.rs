//! Transforms of single numbers.

use super::{Transform, clipped_sigmoid, refused};
use crate::argument::{Param, broadcast_all};
use crate::constraints::{self, Constraint};
use crate::formula::e;
use flambeau_autograd::shorthand as s;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::tensor::geometry;
use flambeau_core::{Result, Scalar, Tensor, finfo, ops};

/// What all transforms of single numbers without arguments are made of.
macro_rules! plain {
    ($(#[$doc:meta])* $name:ident: $domain:expr => $codomain:expr, |$x:ident| $call:expr, |$y:ident| $inverse:expr,
     |$a:ident, $b:ident| $jacobian:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;
        impl $name {
            /// The transform, which has no arguments.
            pub fn new() -> Self {
                $name
            }
        }
        impl Transform for $name {
            fn name(&self) -> &'static str {
                stringify!($name)
            }
            fn try_domain(&self) -> Result<Constraint> {
                Ok($domain)
            }
            fn try_codomain(&self) -> Result<Constraint> {
                Ok($codomain)
            }
            fn try_call(&self, x: &Tensor) -> Result<Tensor> {
                let $x = e(x);
                ($call).0
            }
            fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
                let $y = e(y);
                ($inverse).0
            }
            fn bijective(&self) -> bool {
                true
            }
            fn try_sign(&self) -> Result<Param> {
                Ok(1.into())
            }
            fn try_log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
                let ($a, $b) = (e(x), e(y));
                let _ = &$b;
                ($jacobian).0
            }
            fn same(&self, other: &dyn Transform) -> bool {
                other.is::<$name>()
            }
        }
    };
}
plain!(
    /// `y = exp(x)`
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::transforms::{ExpTransform, Transform};
    /// assert_eq!(ExpTransform.try_call(&tensor([0.0]))?.to_vec::<f32>(), [1.0]);
    /// assert_eq!(ExpTransform.try_codomain()?.to_string(), "GreaterThan(lower_bound=0.0)");
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[doc(alias = "torch.distributions.transforms.ExpTransform")]
    ExpTransform: constraints::real() => constraints::positive(),
    |x| x.exp(), |y| y.log(), |x, _y| x
);
plain!(
    /// `y = 1 / (1 + exp(-x))`, kept away from 0 and 1.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::transforms::{SigmoidTransform, Transform};
    /// let y = SigmoidTransform.try_call(&tensor([0.0, 1000.0]))?.to_vec::<f32>();
    /// assert!(y[0] == 0.5 && y[1] < 1.0);
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[doc(alias = "torch.distributions.transforms.SigmoidTransform")]
    SigmoidTransform: constraints::real() => constraints::unit_interval(),
    |x| clipped_sigmoid(&x),
    |y| {
        let y = y.map(|y| {
            let info = finfo(y.dtype())?;
            ops::clamp(y, Some(Scalar::Float(info.tiny)), Some(Scalar::Float(1.0 - info.eps)))
        });
        y.log() - (-y).log1p()
    },
    |x, _y| -(-&x).softplus() - x.softplus()
);
plain!(
    /// `y = log(1 + exp(x))`, linear from x = 20 on.
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::transforms::{SoftplusTransform, Transform};
    /// assert_eq!(SoftplusTransform.try_call(&tensor([30.0]))?.to_vec::<f32>(), [30.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[doc(alias = "torch.distributions.transforms.SoftplusTransform")]
    SoftplusTransform: constraints::real() => constraints::positive(),
    |x| x.softplus(), |y| (-((-&y).expm1())).log() + y, |x, _y| -(-x).softplus()
);
plain!(
    /// `y = tanh(x)`; its inverse is unstable near -1 and 1 (see [`with_cache`](super::with_cache)).
    ///
    /// ```
    /// use torch::tensor;
    /// use torch::distributions::transforms::{TanhTransform, Transform};
    /// assert_eq!(TanhTransform.try_call(&tensor([0.0, 100.0]))?.to_vec::<f32>(), [0.0, 1.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[doc(alias = "torch.distributions.transforms.TanhTransform")]
    TanhTransform: constraints::real() => constraints::interval(-1.0, 1.0),
    |x| x.tanh(), |y| y.atanh(),
    |x, _y| 2.0 * (std::f64::consts::LN_2 - &x - (-2.0 * &x).softplus())
);

/// `y = |x|`, whose right inverse takes the positive input.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::transforms::{AbsTransform, Transform};
/// let y = AbsTransform.try_call(&tensor([-3.0]))?;
/// assert_eq!(AbsTransform.try_inverse(&y)?.to_vec::<f32>(), [3.0]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "torch.distributions.transforms.AbsTransform")]
pub struct AbsTransform;
impl AbsTransform {
    /// The transform, which has no arguments.
    pub fn new() -> Self {
        AbsTransform
    }
}
impl Transform for AbsTransform {
    fn name(&self) -> &'static str {
        "AbsTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        Ok(constraints::real())
    }
    fn try_codomain(&self) -> Result<Constraint> {
        Ok(constraints::positive())
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        ops::abs(x)
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        Ok(y.clone())
    }
    fn try_log_abs_det_jacobian(&self, _x: &Tensor, _y: &Tensor) -> Result<Tensor> {
        refused()
    }
    fn same(&self, other: &dyn Transform) -> bool {
        other.is::<AbsTransform>()
    }
}

/// `y = x^exponent` of positive numbers.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::transforms::{PowerTransform, Transform};
/// let t = PowerTransform::new(2.0);
/// let y = t.try_call(&tensor([3.0]))?;
/// assert_eq!((y.item::<f64>(), t.try_inverse(&y)?.item::<f64>()), (9.0, 3.0));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.transforms.PowerTransform")]
pub struct PowerTransform {
    exponent: Tensor,
}
impl PowerTransform {
    /// With that exponent.
    #[track_caller]
    pub fn new(exponent: impl IntoArg<Param>) -> Self {
        flambeau_core::api::ergonomic::expect(Self::try_new(&exponent.into_arg()))
    }
    /// With that exponent.
    ///
    /// # Errors
    /// When no memory is left.
    pub fn try_new(exponent: &Param) -> Result<Self> {
        let [exponent] = broadcast_all([exponent])?;
        Ok(PowerTransform { exponent })
    }
    /// The exponent.
    pub fn exponent(&self) -> &Tensor {
        &self.exponent
    }
}
fn broadcast_shapes(shapes: &[&[i64]]) -> Result<Vec<i64>> {
    geometry::broadcast_all(shapes)
}
impl Transform for PowerTransform {
    fn name(&self) -> &'static str {
        "PowerTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        Ok(constraints::positive())
    }
    fn try_codomain(&self) -> Result<Constraint> {
        Ok(constraints::positive())
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        ops::pow(x, &self.exponent)
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        e(y).pow(1.0 / e(&self.exponent)).0
    }
    fn bijective(&self) -> bool {
        true
    }
    fn try_sign(&self) -> Result<Param> {
        ops::sign(&self.exponent).map(Param::Tensor)
    }
    fn try_log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        (e(&self.exponent) * e(y) / e(x)).abs().log().0
    }
    fn try_forward_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        broadcast_shapes(&[shape, self.exponent.sizes()])
    }
    fn try_inverse_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        self.try_forward_shape(shape)
    }
    fn same(&self, other: &dyn Transform) -> bool {
        let Some(o) = other.downcast_ref::<PowerTransform>() else { return false };
        equal(&Param::Tensor(self.exponent.clone()), &Param::Tensor(o.exponent.clone()))
    }
}
/// Whether all elements are equal, after broadcasting.
fn equal(a: &Param, b: &Param) -> bool {
    if let (Some(a), Some(b)) = (a.number(), b.number()) {
        return a == b;
    }
    let all = || ops::all(&ops::eq(&a.operand()?, &b.operand()?)?)?.try_item::<bool>();
    all().unwrap_or(false)
}

/// `y = loc + scale x`, over events of `event_dim` dimensions.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::transforms::{AffineTransform, Transform};
/// let t = AffineTransform::new(1.0, tensor([2.0, -2.0]));
/// assert_eq!(t.try_call(&tensor([3.0, 3.0]))?.to_vec::<f32>(), [7.0, -5.0]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "torch.distributions.transforms.AffineTransform")]
pub struct AffineTransform {
    loc: Param,
    scale: Param,
    event_dim: usize,
}
impl AffineTransform {
    /// Of single numbers.
    pub fn new(loc: impl IntoArg<Param>, scale: impl IntoArg<Param>) -> Self {
        AffineTransform { loc: loc.into_arg(), scale: scale.into_arg(), event_dim: 0 }
    }
    /// Over events of so many dimensions.
    pub fn with_event_dim(self, event_dim: usize) -> Self {
        AffineTransform { event_dim, ..self }
    }
}
impl Transform for AffineTransform {
    fn name(&self) -> &'static str {
        "AffineTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        Ok(match self.event_dim {
            0 => constraints::real(),
            n => constraints::independent(constraints::real(), n),
        })
    }
    fn try_codomain(&self) -> Result<Constraint> {
        self.try_domain()
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        s::add(&self.loc.operand()?, &s::mul(&self.scale.operand()?, x)?)
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        s::div(&s::sub(y, &self.loc.operand()?)?, &self.scale.operand()?)
    }
    fn bijective(&self) -> bool {
        true
    }
    fn try_sign(&self) -> Result<Param> {
        Ok(match &self.scale {
            Param::Number(n) => {
                let n = n.to_f64();
                Param::Number(Scalar::Int(i64::from(n > 0.0) - i64::from(n < 0.0)))
            }
            Param::Tensor(t) => Param::Tensor(ops::sign(t)?),
        })
    }
    fn try_log_abs_det_jacobian(&self, x: &Tensor, _y: &Tensor) -> Result<Tensor> {
        let mut result = match &self.scale {
            Param::Number(n) => {
                let n = n.to_f64().abs();
                flambeau_core::ensure!(n != 0.0, Value, "math domain error");
                e(x).full(n.ln())
            }
            Param::Tensor(t) => e(t).abs().log(),
        };
        let mut shape = x.sizes();
        if self.event_dim > 0 {
            let sizes = result.sizes()?;
            let kept = sizes.len().saturating_sub(self.event_dim);
            result = result.map(|t| ops::view(t, &[&sizes[..kept], &[-1]].concat())).sum(-1);
            shape = &shape[..shape.len().saturating_sub(self.event_dim)];
        }
        result.expand(shape).0
    }
    fn try_forward_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        broadcast_shapes(&[shape, self.loc.sizes(), self.scale.sizes()])
    }
    fn try_inverse_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        self.try_forward_shape(shape)
    }
    fn same(&self, other: &dyn Transform) -> bool {
        let Some(o) = other.downcast_ref::<AffineTransform>() else { return false };
        equal(&self.loc, &o.loc) && equal(&self.scale, &o.scale)
    }
}
