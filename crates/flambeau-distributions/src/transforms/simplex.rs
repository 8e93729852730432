//! Transforms onto the simplex.

use super::Transform;
use crate::constraints::{self, Constraint};
use crate::formula::{Expr, e};
use flambeau_core::{Error, Result, Scalar, Tensor, ensure, finfo, ops};

/// The logistic function, kept away from 0 and 1 by the smallest steps of the dtype.
pub(crate) fn clipped_sigmoid(x: &Expr) -> Expr {
    x.sigmoid().map(|y| {
        let info = finfo(y.dtype())?;
        ops::clamp(y, Some(Scalar::Float(info.tiny)), Some(Scalar::Float(1.0 - info.eps)))
    })
}
fn vector(shape: &[i64]) -> Result<()> {
    ensure!(!shape.is_empty(), Value, "Too few dimensions on input");
    Ok(())
}
/// The last size.
fn last(t: &Tensor) -> Result<i64> {
    t.sizes().last().copied().ok_or_else(|| Error::index("tuple index out of range"))
}
/// The last size moved by `by`.
fn moved(shape: &[i64], by: i64) -> Result<Vec<i64>> {
    vector(shape)?;
    let mut out = shape.to_vec();
    if let Some(last) = out.last_mut() {
        *last += by;
    }
    Ok(out)
}

/// `y = exp(x) / sum(exp(x))`: not bijective, and coordinate by coordinate, which suits optimization.
///
/// ```
/// use torch::zeros;
/// use torch::distributions::transforms::{SoftmaxTransform, Transform};
/// assert_eq!(SoftmaxTransform.try_call(&zeros([4]))?.to_vec::<f32>(), [0.25; 4]);
/// assert!(!SoftmaxTransform.bijective());
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "torch.distributions.transforms.SoftmaxTransform")]
pub struct SoftmaxTransform;
impl SoftmaxTransform {
    /// The transform, which has no arguments.
    pub fn new() -> Self {
        SoftmaxTransform
    }
}
impl Transform for SoftmaxTransform {
    fn name(&self) -> &'static str {
        "SoftmaxTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        Ok(constraints::real_vector())
    }
    fn try_codomain(&self) -> Result<Constraint> {
        Ok(constraints::simplex())
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        let most = Expr(ops::max_dim(x, -1, true).map(|m| m.0));
        let p = (e(x) - most).exp();
        (&p / p.sum_keep(-1)).0
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        ops::log(y)
    }
    fn try_forward_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        moved(shape, 0)
    }
    fn try_inverse_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        moved(shape, 0)
    }
    fn same(&self, other: &dyn Transform) -> bool {
        other.is::<SoftmaxTransform>()
    }
}

/// `n` numbers onto a simplex of `n + 1` by breaking a stick: bijective, which suits Hamiltonian Monte Carlo.
///
/// ```
/// use torch::zeros;
/// use torch::distributions::transforms::{StickBreakingTransform, Transform};
/// let y = StickBreakingTransform.try_call(&zeros([2]))?;
/// assert!(torch::allclose(&y, &(torch::ones([3]) / 3.0)));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "torch.distributions.transforms.StickBreakingTransform")]
pub struct StickBreakingTransform;
impl StickBreakingTransform {
    /// The transform, which has no arguments.
    pub fn new() -> Self {
        StickBreakingTransform
    }
}
/// `n + 1 - [1, 2, .., m]` in the dtype of `like`.
fn offset(like: &Tensor, n: i64, m: i64) -> Expr {
    let ones = ops::full(&[m], Scalar::Int(1), Some(like.dtype()), None, Some(like.device()), None);
    n as f64 - Expr(ones).cumsum()
}
impl Transform for StickBreakingTransform {
    fn name(&self) -> &'static str {
        "StickBreakingTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        Ok(constraints::real_vector())
    }
    fn try_codomain(&self) -> Result<Constraint> {
        Ok(constraints::simplex())
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        let n = last(x)?;
        let z = clipped_sigmoid(&(e(x) - offset(x, n + 1, n).log()));
        let rest = (1.0 - &z).cumprod();
        (z.pad(0, 1, 1.0) * rest.pad(1, 0, 1.0)).0
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        let n = last(y)?;
        let cut = e(y).slice(None, Some(-1));
        let rest = (1.0 - cut.cumsum()).at_least(finfo(y.dtype())?.tiny);
        (cut.log() - rest.log() + offset(y, n, n - 1).log()).0
    }
    fn bijective(&self) -> bool {
        true
    }
    fn try_log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let n = last(x)?;
        let x = e(x) - offset(x, n + 1, n).log();
        (-&x + x.logsigmoid() + e(y).slice(None, Some(-1)).log()).sum(-1).0
    }
    fn try_forward_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        moved(shape, 1)
    }
    fn try_inverse_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        moved(shape, -1)
    }
    fn same(&self, other: &dyn Transform) -> bool {
        other.is::<StickBreakingTransform>()
    }
}
