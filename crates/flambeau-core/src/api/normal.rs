//! `torch.normal`, whose mean and deviation are tensors or numbers.

use crate::api::convert::IntoDims;
use crate::generated::ops;
use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result, expect};

/// A mean or a deviation of [`normal`]: a borrowed tensor, or a number.
///
/// ```
/// use torch::NormalArgument;
/// let means = torch::tensor([1.0, 2.0]);
/// let around = |std: NormalArgument| torch::normal(&means, std);
/// assert_eq!(around(0.0.into()).to_vec::<f32>(), [1.0, 2.0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum NormalArgument<'a> {
    /// One for each number that is drawn.
    Tensor(&'a Tensor),
    /// The same for all.
    Number(f64),
}
impl<'a> From<&'a Tensor> for NormalArgument<'a> {
    fn from(t: &'a Tensor) -> Self {
        NormalArgument::Tensor(t)
    }
}
macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl From<$t> for NormalArgument<'_> {
            fn from(x: $t) -> Self {
                NormalArgument::Number(f64::from(x))
            }
        }
    )*};
}
numbers!(f32, f64, i32);

/// Normally distributed numbers with given means and deviations, of which at least one is a tensor.
///
/// - Shapes: those of the tensor; two tensors broadcast.
/// - Dtypes: floating point and, of means, complex numbers; the result has the tensors' promoted dtype.
/// - Errors: sizes that do not broadcast, a negative deviation, integers, two numbers ([`normal_sized`] takes them).
///
/// Other forms: [`normal_sized`], [`try_normal`]. With a generator of its own: `torch::ops::normal_tensor_tensor` and its like.
///
/// ```
/// let mean = torch::tensor([1.0, 2.0]);
/// assert_eq!(torch::normal(&mean, &torch::zeros(2)).to_vec::<f32>(), [1.0, 2.0]);
/// assert_eq!(torch::normal(&mean, 0).to_vec::<f32>(), [1.0, 2.0]);
/// assert_eq!(torch::normal(0.5, &mean).sizes(), [2]);
/// ```
#[doc(alias = "torch.normal")]
#[track_caller]
pub fn normal<'a>(mean: impl Into<NormalArgument<'a>>, std: impl Into<NormalArgument<'a>>) -> Tensor {
    expect(try_normal(mean, std))
}
/// [`normal`] with an error instead of a panic.
///
/// # Errors
/// Those of [`normal`].
pub fn try_normal<'a>(
    mean: impl Into<NormalArgument<'a>>,
    std: impl Into<NormalArgument<'a>>,
) -> Result<Tensor> {
    use NormalArgument as A;
    match (mean.into(), std.into()) {
        (A::Tensor(mean), A::Tensor(std)) => ops::normal_tensor_tensor(mean, std, None),
        (A::Tensor(mean), A::Number(std)) => ops::normal_tensor_float(mean, std, None),
        (A::Number(mean), A::Tensor(std)) => ops::normal_float_tensor(mean, std, None),
        (A::Number(_), A::Number(_)) => {
            Err(Error::type_("normal() of two numbers needs a size: torch::normal_sized(mean, std, size)"))
        }
    }
}
/// Normally distributed numbers with one mean and one deviation, in the default dtype.
///
/// - Shapes: `size`.
/// - Errors: a negative deviation, negative sizes.
///
/// ```
/// assert_eq!(torch::normal_sized(5.0, 0.0, [2, 1]).to_vec::<f32>(), [5.0, 5.0]);
/// ```
#[doc(alias = "torch.normal")]
#[track_caller]
pub fn normal_sized(mean: f64, std: f64, size: impl IntoDims) -> Tensor {
    expect(ops::normal_float_float(mean, std, &size.into_dims(), None, None, None, None, None))
}
