//! Arrays of the crate `ndarray`.

use crate::ToTensor;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry;
use flambeau_core::{Element, Error, Result, Tensor};
use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

/// Any array, view included, of elements that are a dtype's: the same sizes, elements in row-major order.
///
/// ```
/// use ndarray::array;
/// use torch::interop::ToTensor;
/// let a = array![[1.0f32, 2.0], [3.0, 4.0]];
/// assert_eq!(a.t().to_tensor().to_vec::<f32>(), [1.0, 3.0, 2.0, 4.0]);
/// ```
impl<T: Element, S: Data<Elem = T>, D: Dimension> ToTensor for ArrayBase<S, D> {
    fn try_to_tensor(&self) -> Result<Tensor> {
        let sizes: Vec<i64> = self.shape().iter().map(|n| *n as i64).collect();
        // a view that repeats few elements may stand for more than there is memory
        let elements = match self.as_slice() {
            Some(s) => geometry::listed(s.iter().copied())?,
            None => geometry::listed(self.iter().copied())?,
        };
        Tensor::from_vec_raw(elements, &sizes)
    }
}
/// Tensors as arrays.
pub trait ToNdarray {
    /// All elements, cast to `T`, as an array of the same sizes in row-major order.
    ///
    /// # Errors
    /// A tensor without elements of its own (meta), or of a layout without strides.
    fn try_to_ndarray<T: Element>(&self) -> Result<ArrayD<T>>;
    /// [`try_to_ndarray`](ToNdarray::try_to_ndarray); panics with the error's text. A fixed number of dimensions comes by ndarray's
    /// `into_dimensionality`.
    ///
    /// ```
    /// use ndarray::Ix2;
    /// use torch::interop::ToNdarray;
    /// let t = torch::arange(6).reshape([2, 3]);
    /// let a = t.to_ndarray::<f64>().into_dimensionality::<Ix2>()?;
    /// assert_eq!(a[[1, 0]], 3.0);
    /// assert_eq!(a.sum(), 15.0);
    /// # Ok::<(), ndarray::ShapeError>(())
    /// ```
    #[track_caller]
    fn to_ndarray<T: Element>(&self) -> ArrayD<T> {
        expect(self.try_to_ndarray())
    }
}
impl ToNdarray for Tensor {
    fn try_to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        let sizes: Vec<usize> = self.sizes().iter().map(|n| *n as usize).collect();
        ArrayD::from_shape_vec(IxDyn(&sizes), self.try_to_vec()?).map_err(Error::other)
    }
}
