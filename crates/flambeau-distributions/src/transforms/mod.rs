//! `torch.distributions.transforms`: invertible maps of tensors with the log determinants of their Jacobians.
//!
//! ```
//! use torch::tensor;
//! use torch::distributions::transforms::{AffineTransform, ComposeTransform, ExpTransform, Transform};
//! let t = ComposeTransform::new([AffineTransform::new(1.0, 2.0).into(), ExpTransform.into()]);
//! let x = tensor([0.0]);
//! let y = t.call(&x);
//! assert_eq!(y.to_vec::<f32>(), [1f32.exp()]);
//! assert_eq!(t.inv(&y).to_vec::<f32>(), [0.0]);
//! assert!((t.log_abs_det_jacobian(&x, &y).item::<f32>() - (1.0 + 2f32.ln())).abs() < 1e-6);
//! ```

mod composed;
mod matrices;
mod pointwise;
mod simplex;

pub(crate) use composed::same_list;
pub use composed::{
    CatTransform, ComposeTransform, CumulativeDistributionTransform, IndependentTransform, ReshapeTransform,
    StackTransform,
};
pub(crate) use matrices::vector_to_tril;
pub use matrices::{CorrCholeskyTransform, LowerCholeskyTransform, PositiveDefiniteTransform};
pub use pointwise::{
    AbsTransform, AffineTransform, ExpTransform, PowerTransform, SigmoidTransform, SoftplusTransform,
    TanhTransform,
};
pub(crate) use simplex::clipped_sigmoid;
pub use simplex::{SoftmaxTransform, StickBreakingTransform};

use crate::argument::Param;
use crate::constraints::Constraint;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor, ops};
use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

fn refused<T>() -> Result<T> {
    Err(Error::unsupported(""))
}

/// A map `y = f(x)` with an inverse (at least a right inverse) and, where it is bijective, the log determinant of its
/// Jacobian (`torch.distributions.transforms.Transform`).
///
/// ```
/// use torch::{Result, Tensor, tensor};
/// use torch::distributions::{Constraint, DistributionExt, Normal, TransformedDistribution};
/// use torch::distributions::{constraints, transforms::Transform};
/// /// `y = -x`
/// struct Turned;
/// impl Transform for Turned {
///     fn name(&self) -> &'static str { "Turned" }
///     fn try_domain(&self) -> Result<Constraint> { Ok(constraints::real()) }
///     fn try_codomain(&self) -> Result<Constraint> { Ok(constraints::real()) }
///     fn try_call(&self, x: &Tensor) -> Result<Tensor> { Ok(-x) }
///     fn try_inverse(&self, y: &Tensor) -> Result<Tensor> { Ok(-y) }
///     fn bijective(&self) -> bool { true }
///     fn try_log_abs_det_jacobian(&self, x: &Tensor, _: &Tensor) -> Result<Tensor> { Ok(x * 0.0) }
/// }
/// let (normal, at) = (Normal::new(1.0, 1.0), tensor(-1.0));
/// let d = TransformedDistribution::new(normal.clone(), [Turned.into()]);
/// assert_eq!(d.log_prob(&at).item::<f64>(), normal.log_prob(&-&at).item::<f64>());
/// ```
#[doc(alias = "torch.distributions.Transform")]
#[doc(alias = "torch.distributions.transforms.Transform")]
pub trait Transform: Any + Send + Sync {
    /// The class's name.
    fn name(&self) -> &'static str;
    /// The inputs that it takes.
    ///
    /// # Errors
    /// Where that cannot be said.
    fn try_domain(&self) -> Result<Constraint>;
    /// The outputs that it gives.
    ///
    /// # Errors
    /// Where that cannot be said.
    fn try_codomain(&self) -> Result<Constraint>;
    /// `f(x)`
    ///
    /// # Errors
    /// An input that does not fit.
    fn try_call(&self, x: &Tensor) -> Result<Tensor>;
    /// `x` with `f(x) = y`.
    ///
    /// # Errors
    /// An output that does not fit.
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor>;
    /// Whether different inputs have different outputs, and every output of the codomain is one.
    fn bijective(&self) -> bool {
        false
    }
    /// The sign of the Jacobian's determinant: 1, -1, or a tensor of such.
    ///
    /// # Errors
    /// Where it is not known.
    #[doc(alias = "torch.distributions.transforms.Transform.sign")]
    fn try_sign(&self) -> Result<Param> {
        refused()
    }
    /// `log |det dy/dx|` at an input and its output.
    ///
    /// # Errors
    /// Where it is not known.
    #[doc(alias = "torch.distributions.transforms.Transform.log_abs_det_jacobian")]
    fn try_log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let _ = (x, y);
        refused()
    }
    /// The shape of the output for an input of that shape.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn try_forward_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        Ok(shape.to_vec())
    }
    /// The shape of the input for an output of that shape.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn try_inverse_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        Ok(shape.to_vec())
    }
    /// How many rightmost dimensions make one event, if the same for inputs and outputs.
    ///
    /// # Errors
    /// Where inputs and outputs differ.
    fn try_event_dim(&self) -> Result<usize> {
        let (x, y) = (self.try_domain()?.try_event_dim()?, self.try_codomain()?.try_event_dim()?);
        flambeau_core::ensure!(x == y, Value, "Please use either .domain.event_dim or .codomain.event_dim");
        Ok(x)
    }
    /// `f(x)`; panics where [`Transform::try_call`] gives an error.
    #[track_caller]
    fn call(&self, x: &Tensor) -> Tensor {
        expect(self.try_call(x))
    }
    /// `x` with `f(x) = y`, Python's `transform.inv(y)`; panics where [`Transform::try_inverse`] gives an error.
    #[track_caller]
    fn inv(&self, y: &Tensor) -> Tensor {
        expect(self.try_inverse(y))
    }
    /// `log |det dy/dx|` at an input and its output; panics where [`Transform::try_log_abs_det_jacobian`] gives an error.
    #[track_caller]
    fn log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Tensor {
        expect(self.try_log_abs_det_jacobian(x, y))
    }
    /// Whether another transform is the same map, as PyTorch's `==` says: an own class without a rule is the same as
    /// itself alone.
    fn same(&self, other: &dyn Transform) -> bool {
        std::ptr::addr_eq(std::ptr::from_ref(self), std::ptr::from_ref(other))
    }
    /// How many transforms stand in each other here, of transforms that have parts.
    #[doc(hidden)]
    fn levels(&self) -> usize {
        1
    }
    /// With its parts remembering (or no longer remembering) their last result, of transforms that have parts.
    #[doc(hidden)]
    fn parts_cached(&self, on: bool) -> Option<AnyTransform> {
        let _ = on;
        None
    }
    /// The inverse where it is not the plain one.
    #[doc(hidden)]
    fn own_inverse(&self) -> Option<AnyTransform> {
        None
    }
    /// PyTorch's text of the transform.
    fn to_text(&self) -> String {
        format!("{}()", self.name())
    }
}
/// Transforms that may stand in each other: what they do recurses, and an exhausted stack would end the process.
const MOST_LEVELS: usize = 256;

/// A transform of any class; clones are the same transform.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::transforms::{AnyTransform, ExpTransform, SoftplusTransform};
/// let all: Vec<AnyTransform> = vec![ExpTransform.into(), SoftplusTransform.into()];
/// assert_eq!(all[0].try_call(&tensor(0.0))?.item::<f64>(), 1.0);
/// assert_eq!(format!("{all:?}"), "[ExpTransform(), SoftplusTransform()]");
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone)]
pub struct AnyTransform(Arc<dyn Transform>, usize);

impl<T: Transform> From<T> for AnyTransform {
    fn from(t: T) -> AnyTransform {
        let levels = t.levels();
        AnyTransform(Arc::new(t), levels)
    }
}
/// The levels of what is made of these parts.
fn levels_of<'a>(parts: impl IntoIterator<Item = &'a AnyTransform>) -> usize {
    1 + parts.into_iter().map(|t| t.1).max().unwrap_or(0)
}
/// Refuses to stand one more level above these parts.
///
/// # Errors
/// Too deep, in Python's words.
pub(crate) fn check_levels<'a>(parts: impl IntoIterator<Item = &'a AnyTransform>) -> Result<()> {
    flambeau_core::ensure!(levels_of(parts) <= MOST_LEVELS, Runtime, "maximum recursion depth exceeded");
    Ok(())
}
impl Deref for AnyTransform {
    type Target = dyn Transform;
    fn deref(&self) -> &dyn Transform {
        &*self.0
    }
}
impl fmt::Debug for AnyTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}
impl fmt::Debug for dyn Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}
impl dyn Transform {
    /// The transform as its own type.
    pub fn downcast_ref<T: Transform>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
    /// Whether two transforms are of one class.
    pub(crate) fn is<T: Transform>(&self) -> bool {
        self.plain().downcast_ref::<T>().is_some()
    }
    /// The transform without its memory.
    pub(crate) fn plain(&self) -> &dyn Transform {
        self.downcast_ref::<Cached>().map_or(self, |c| c.inner.plain())
    }
}
/// Whether two transforms are the same map, as PyTorch's `==` says.
///
/// ```
/// use torch::distributions::transforms::{AffineTransform, same};
/// let t = AffineTransform::new(0.0, 2.0);
/// assert!(same(&t, &AffineTransform::new(0.0, 2.0)) && !same(&t, &AffineTransform::new(0.0, 3.0)));
/// ```
pub fn same(a: &dyn Transform, b: &dyn Transform) -> bool {
    std::ptr::addr_eq(std::ptr::from_ref(a), std::ptr::from_ref(b)) || a.plain().same(b.plain())
}
/// The inverse of a transform; the inverse of that is the transform itself.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::transforms::{ExpTransform, inverse};
/// let log = inverse(&ExpTransform.into());
/// assert_eq!(log.try_call(&tensor(1.0))?.item::<f64>(), 0.0);
/// assert_eq!(inverse(&log).to_text(), "ExpTransform()");
/// # Ok::<(), torch::Error>(())
/// ```
pub fn inverse(t: &AnyTransform) -> AnyTransform {
    if let Some(i) = t.downcast_ref::<Inverse>() {
        return i.0.clone();
    }
    t.own_inverse().unwrap_or_else(|| Inverse(t.clone()).into())
}
/// The same transform that remembers its last result (`size` 1), so that the inverse of an output that was just computed
/// is its very input; or one that does not (0).
///
/// ```
/// use torch::tensor;
/// use torch::distributions::transforms::{TanhTransform, with_cache};
/// let (t, x) = (with_cache(&TanhTransform.into(), 1), tensor(100.0));
/// // without it the inverse of 1 would be another number
/// assert_eq!(t.try_inverse(&t.try_call(&x)?)?.item::<f64>(), 100.0);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Another size.
#[flambeau_macros::short]
pub fn try_with_cache(t: &AnyTransform, size: i64) -> Result<AnyTransform> {
    flambeau_core::ensure!((0..=1).contains(&size), Value, "cache_size must be 0 or 1");
    if let Some(i) = t.downcast_ref::<Inverse>() {
        return Ok(inverse(&try_with_cache(&i.0, size)?));
    }
    if let Some(parts) = t.parts_cached(size == 1) {
        return Ok(parts);
    }
    let plain = match t.downcast_ref::<Cached>() {
        Some(_) if size == 1 => return Ok(t.clone()),
        Some(c) => return Ok(c.inner.clone()),
        None => t.clone(),
    };
    Ok(if size == 1 { Cached { inner: plain, last: Mutex::default() }.into() } else { plain })
}

/// The inverse of a transform.
struct Inverse(AnyTransform);
impl Transform for Inverse {
    fn name(&self) -> &'static str {
        "_InverseTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        self.0.try_codomain()
    }
    fn try_codomain(&self) -> Result<Constraint> {
        self.0.try_domain()
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        self.0.try_inverse(x)
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        self.0.try_call(y)
    }
    fn bijective(&self) -> bool {
        self.0.bijective()
    }
    fn try_sign(&self) -> Result<Param> {
        self.0.try_sign()
    }
    fn try_log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        ops::neg(&self.0.try_log_abs_det_jacobian(y, x)?)
    }
    fn try_forward_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        self.0.try_inverse_shape(shape)
    }
    fn try_inverse_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        self.0.try_forward_shape(shape)
    }
    fn levels(&self) -> usize {
        levels_of([&self.0])
    }
    fn same(&self, other: &dyn Transform) -> bool {
        other.downcast_ref::<Inverse>().is_some_and(|o| same(&*self.0, &*o.0))
    }
    fn to_text(&self) -> String {
        format!("_InverseTransform({})", self.0.to_text())
    }
}

/// A transform that remembers its last input and output.
struct Cached {
    inner: AnyTransform,
    last: Mutex<Option<(Tensor, Tensor)>>,
}
impl Cached {
    fn last(&self) -> Option<(Tensor, Tensor)> {
        self.last.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
    fn remember(&self, x: &Tensor, y: &Tensor) {
        let old = self.last.lock().unwrap_or_else(|e| e.into_inner()).replace((x.clone(), y.clone()));
        // tensors may run code of users when they are dropped, and that not under the lock
        drop(old);
    }
}
impl Transform for Cached {
    fn levels(&self) -> usize {
        levels_of([&self.inner])
    }
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn try_domain(&self) -> Result<Constraint> {
        self.inner.try_domain()
    }
    fn try_codomain(&self) -> Result<Constraint> {
        self.inner.try_codomain()
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        if let Some((_, y)) = self.last().filter(|(old, _)| old.is_same(x)) {
            return Ok(y);
        }
        let y = self.inner.try_call(x)?;
        self.remember(x, &y);
        Ok(y)
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        if let Some((x, _)) = self.last().filter(|(_, old)| old.is_same(y)) {
            return Ok(x);
        }
        let x = self.inner.try_inverse(y)?;
        self.remember(&x, y);
        Ok(x)
    }
    fn bijective(&self) -> bool {
        self.inner.bijective()
    }
    fn try_sign(&self) -> Result<Param> {
        self.inner.try_sign()
    }
    fn try_log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        self.inner.try_log_abs_det_jacobian(x, y)
    }
    fn try_forward_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        self.inner.try_forward_shape(shape)
    }
    fn try_inverse_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        self.inner.try_inverse_shape(shape)
    }
    fn try_event_dim(&self) -> Result<usize> {
        self.inner.try_event_dim()
    }
    fn same(&self, other: &dyn Transform) -> bool {
        same(self.inner.plain(), other)
    }
    fn to_text(&self) -> String {
        self.inner.to_text()
    }
}
