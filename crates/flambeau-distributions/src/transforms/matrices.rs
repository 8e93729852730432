//! Transforms onto matrices.

use super::Transform;
use crate::constraints::{self, Constraint};
use crate::formula::{Expr, e};
use crate::lapack;
use flambeau_autograd::shorthand as s;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ensure, finfo, ops};

fn mask(n: i64, diagonal: i64, like: &Tensor) -> Result<Tensor> {
    let ones = ops::full(&[n, n], Scalar::Bool(true), Some(DType::Bool), None, Some(like.device()), None)?;
    ops::tril(&ones, diagonal)
}
/// Places of the lower triangle in a flattened matrix.
fn places(n: i64, diagonal: i64, like: &Tensor) -> Result<Tensor> {
    let flat = s::reshape(&mask(n, diagonal, like)?, &[-1])?;
    s::reshape(&ops::nonzero(&flat)?, &[-1])
}
/// The lower triangle of matrices as vectors.
fn tril_to_vector(matrix: &Expr, diagonal: i64) -> Expr {
    matrix.map(|m| {
        let n = m.sizes().last().copied().unwrap_or(0);
        ensure!(m.dim() >= 2, Index, "Dimension out of range: a matrix is expected");
        ensure!(
            -n <= diagonal && diagonal < n,
            Value,
            "diag ({diagonal}) provided is outside [{}, {}].",
            -n,
            n - 1
        );
        let mut flat = m.sizes()[..m.dim() - 2].to_vec();
        flat.push(-1);
        ops::index_select(&s::reshape(m, &flat)?, -1, &places(n, diagonal, m)?)
    })
}
/// Vectors as the lower triangles of matrices that are zero elsewhere.
pub(crate) fn vector_to_tril(vector: &Expr, diagonal: i64) -> Expr {
    vector.map(|v| {
        let count = v.sizes().last().copied().unwrap_or(0) as f64;
        let d = diagonal as f64;
        let n = (-(1.0 + 2.0 * d)
            + ((1.0 + 2.0 * d).powi(2) + 8.0 * count + 4.0 * d.abs() * (d + 1.0)).sqrt())
            / 2.0;
        ensure!(
            n.round() - n <= finfo(v.dtype())?.eps,
            Value,
            "The size of last dimension is {count} which cannot be expressed as the lower triangular part of a square D \
             x D matrix."
        );
        let n = n.round() as i64;
        let batch = &v.sizes()[..v.dim() - 1];
        let zeros = s::zeros(&[batch, &[n * n]].concat(), v)?;
        let places = places(n, diagonal, v)?;
        let text = |sizes: &[i64]| sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        ensure!(
            places.numel() as f64 == count,
            Shape,
            "shape mismatch: value tensor of shape [{}] cannot be broadcast to indexing result of shape [{}]",
            text(v.sizes()),
            text(&[batch, &[places.numel() as i64]].concat())
        );
        let filled = ops::index_copy(&zeros, -1, &places, v)?;
        s::reshape(&filled, &[batch, &[n, n]].concat())
    })
}

/// `n (n - 1) / 2` numbers onto the Cholesky factor of an `n x n` correlation matrix (Lewandowski, Kurowicka and Joe, 2009).
///
/// ```
/// use torch::{ones, tensor};
/// use torch::distributions::transforms::{CorrCholeskyTransform, Transform};
/// let l = CorrCholeskyTransform.try_call(&tensor([1.0, 2.0, 3.0]))?;
/// assert_eq!(l.sizes(), &[3, 3]);
/// assert!(torch::allclose(&l.matmul(&l.t()).diagonal(), &ones([3])));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "torch.distributions.transforms.CorrCholeskyTransform")]
pub struct CorrCholeskyTransform;
impl CorrCholeskyTransform {
    /// The transform, which has no arguments.
    pub fn new() -> Self {
        CorrCholeskyTransform
    }
}
impl Transform for CorrCholeskyTransform {
    fn name(&self) -> &'static str {
        "CorrCholeskyTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        Ok(constraints::real_vector())
    }
    fn try_codomain(&self) -> Result<Constraint> {
        Ok(constraints::corr_cholesky())
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        let eps = finfo(x.dtype())?.eps;
        let x = e(x).tanh().clamp(Some(-1.0 + eps), Some(1.0 - eps));
        let r = vector_to_tril(&x, -1);
        let rest = (1.0 - r.pow(2.0)).sqrt().cumprod();
        let n = r.sizes()?.last().copied().unwrap_or(0);
        let eye = r.map(|r| ops::eye(n, Some(r.dtype()), None, Some(r.device()), None));
        ((r + eye) * rest.slice(None, Some(-1)).pad(1, 0, 1.0)).0
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        let y = e(y);
        let rest = (1.0 - (&y * &y).cumsum()).slice(None, Some(-1)).pad(1, 0, 1.0);
        let t = tril_to_vector(&y, -1) / tril_to_vector(&rest, -1).sqrt();
        ((t.log1p() - (-&t).log1p()) / 2.0).0
    }
    fn bijective(&self) -> bool {
        true
    }
    fn try_log_abs_det_jacobian(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let (x, y) = (e(x), e(y));
        let rest = 1.0 - (&y * &y).cumsum();
        let sticks = 0.5 * tril_to_vector(&rest, -2).log().sum(-1);
        let tanh = -2.0 * (&x + (-2.0 * &x).softplus() - std::f64::consts::LN_2).sum(-1);
        (sticks + tanh).0
    }
    fn try_forward_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        let Some((&count, batch)) = shape.split_last() else {
            return Err(Error::value("Too few dimensions on input"));
        };
        let n = ((0.25 + 2.0 * count as f64).sqrt() + 0.5).round() as i64;
        ensure!(n * (n - 1) / 2 == count, Value, "Input is not a flattened lower-diagonal number");
        Ok([batch, &[n, n]].concat())
    }
    fn try_inverse_shape(&self, shape: &[i64]) -> Result<Vec<i64>> {
        let [batch @ .., rows, n] = shape else { return Err(Error::value("Too few dimensions on input")) };
        ensure!(rows == n, Value, "Input is not square");
        Ok([batch, &[n * (n - 1) / 2]].concat())
    }
}

/// Any square matrix onto a lower-triangular one with a positive diagonal.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::transforms::{LowerCholeskyTransform, Transform};
/// let l = LowerCholeskyTransform.try_call(&tensor([[0.0, 9.0], [3.0, 0.0]]))?;
/// assert_eq!(l.to_vec2::<f32>(), [[1.0, 0.0], [3.0, 1.0]]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "torch.distributions.transforms.LowerCholeskyTransform")]
pub struct LowerCholeskyTransform;
impl LowerCholeskyTransform {
    /// The transform, which has no arguments.
    pub fn new() -> Self {
        LowerCholeskyTransform
    }
}
impl Transform for LowerCholeskyTransform {
    fn name(&self) -> &'static str {
        "LowerCholeskyTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        Ok(constraints::independent(constraints::real(), 2))
    }
    fn try_codomain(&self) -> Result<Constraint> {
        Ok(constraints::lower_cholesky())
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        (e(x).tril(-1) + e(x).diagonal().exp().diag_embed()).0
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        (e(y).tril(-1) + e(y).diagonal().log().diag_embed()).0
    }
    fn same(&self, other: &dyn Transform) -> bool {
        other.is::<LowerCholeskyTransform>()
    }
}

/// Any square matrix onto a positive definite one.
///
/// ```
/// use torch::tensor;
/// use torch::distributions::transforms::{PositiveDefiniteTransform, Transform};
/// let m = PositiveDefiniteTransform.try_call(&tensor([[0.0, 9.0], [3.0, 0.0]]))?;
/// assert_eq!(m.to_vec2::<f32>(), [[1.0, 3.0], [3.0, 10.0]]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "torch.distributions.transforms.PositiveDefiniteTransform")]
pub struct PositiveDefiniteTransform;
impl PositiveDefiniteTransform {
    /// The transform, which has no arguments.
    pub fn new() -> Self {
        PositiveDefiniteTransform
    }
}
impl Transform for PositiveDefiniteTransform {
    fn name(&self) -> &'static str {
        "PositiveDefiniteTransform"
    }
    fn try_domain(&self) -> Result<Constraint> {
        Ok(constraints::independent(constraints::real(), 2))
    }
    fn try_codomain(&self) -> Result<Constraint> {
        Ok(constraints::positive_definite())
    }
    fn try_call(&self, x: &Tensor) -> Result<Tensor> {
        let l = e(&LowerCholeskyTransform.try_call(x)?);
        l.matmul(&l.mt()).0
    }
    fn try_inverse(&self, y: &Tensor) -> Result<Tensor> {
        LowerCholeskyTransform.try_inverse(&lapack::cholesky(y)?)
    }
    fn same(&self, other: &dyn Transform) -> bool {
        other.is::<PositiveDefiniteTransform>()
    }
}
