//! What several families share.

use flambeau_core::api::ergonomic::wrapped_number;
use flambeau_core::backend::matrices::{computed, sized};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::{self, SizeVec};
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ensure, ops as core};

/// A number as a tensor that type promotion treats as a Python number.
pub fn number(s: impl Into<Scalar>) -> Result<Tensor> {
    wrapped_number(s.into())
}
/// Refuses dtypes that the kernel does not take. PyTorch asks it for matrices with elements alone.
pub fn computes(kernel: &str, a: &Tensor) -> Result<()> {
    if a.numel() == 0 { Ok(()) } else { computed(kernel, a.dtype()) }
}
/// Transposed in the last two dimensions.
pub fn mt(a: &Tensor) -> Result<Tensor> {
    core::transpose(a, -2, -1)
}
/// Complex conjugate; real tensors as they are.
pub fn conj(a: &Tensor) -> Result<Tensor> {
    if a.is_complex() { core::conj(a) } else { Ok(a.clone()) }
}
/// Conjugated and transposed.
pub fn mh(a: &Tensor) -> Result<Tensor> {
    mt(&conj(a)?)
}
/// The same in another dtype.
pub fn cast(a: &Tensor, d: DType) -> Result<Tensor> {
    if a.dtype() == d { Ok(a.clone()) } else { core::to_copy(a, Some(d), None, None, None, false, None) }
}
/// With these batch dimensions.
pub fn expanded(a: &Tensor, batch: &[i64]) -> Result<Tensor> {
    let sizes = sized(batch, &a.sizes()[a.dim() - 2..]);
    if a.sizes() == &sizes[..] { Ok(a.clone()) } else { core::expand(a, &sizes, false) }
}
/// The batch dimensions that two matrices have together.
pub fn common_batch(a: &Tensor, b: &Tensor) -> Result<SizeVec> {
    geometry::broadcast_shapes(&a.sizes()[..a.dim() - 2], &b.sizes()[..b.dim() - 2])
}
/// Whether matrices lie densely by rows (true), by columns (false), or otherwise.
pub fn lies_by_rows(a: &Tensor) -> Result<Option<bool>> {
    if a.is_conj() || a.is_neg() {
        return Ok(None);
    }
    if a.is_contiguous() {
        return Ok(Some(true));
    }
    Ok(mt(a)?.is_contiguous().then_some(false))
}
/// Number of matrices.
pub fn count(sizes: &[i64]) -> usize {
    sizes[..sizes.len() - 2].iter().fold(1, |n: i64, s| n.saturating_mul(*s)) as usize
}
/// The kernel's answer, or "not implemented for".
pub fn done<T>(r: Option<T>, kernel: &str, d: DType) -> Result<T> {
    r.ok_or_else(|| Error::not_implemented_for(kernel, d))
}
/// The second operand of a solution is a vector, or a batch of them, as PyTorch decides.
pub fn is_vector(a: &Tensor, b: &Tensor) -> bool {
    b.dim() == 1 || (a.dim() == b.dim() + 1 && b.sizes() == &a.sizes()[..a.dim() - 1])
}
/// Of PyTorch's `checkInputsSolver`.
pub fn fits(name: &str, a: &Tensor, b: &Tensor, left: bool) -> Result<()> {
    use flambeau_core::backend::matrices::{at_least_a_matrix, sides, square};
    square(name, a, "A")?;
    at_least_a_matrix(name, b, "B")?;
    let ((m, n), (p, q)) = (sides(a), sides(b));
    let (fine, equation) = if left { (m == p, "AX = B") } else { (n == q, "XA = B") };
    ensure!(
        fine,
        Runtime,
        "{name}: Incompatible shapes of A and B for the equation {equation} ({m}x{n} and {p}x{q})"
    );
    Ok(())
}
/// Zeros like another tensor, of other sizes.
pub fn zeros(sizes: &[i64], d: DType, like: &Tensor) -> Result<Tensor> {
    Tensor::zeros_raw(sizes, d, like.device())
}
/// Identity matrices of the batch of `like`, `n x m`.
pub fn eye(n: i64, m: i64, like: &Tensor) -> Result<Tensor> {
    core::eye_m(n, m, Some(like.dtype()), None, Some(like.device()), None)
}
