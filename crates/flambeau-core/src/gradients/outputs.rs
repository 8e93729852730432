//! What functions of tensors give to those who differentiate them.

use crate::{Result, Tensor};

/// What a function that is differentiated may give: a tensor, several, or a `Result` of these.
///
/// ```
/// use torch::autograd::functional::{Outputs, jacobian};
/// fn first(f: impl Outputs) -> f32 {
///     f.outputs().unwrap()[0].item()
/// }
/// let x = torch::tensor(2.0);
/// assert_eq!((first(x.square()), first((x.clone(), x.exp())), first(Ok(x.clone()) as torch::Result<_>)), (4.0, 2.0, 2.0));
/// let slopes = jacobian(|x| (x[0].square(), &x[0] * 3.0), &[x]);
/// assert_eq!((slopes[0][0].item::<f32>(), slopes[1][0].item::<f32>()), (4.0, 3.0));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what a function to differentiate may give",
    label = "a tensor is wanted here",
    note = "it gives a tensor, a tuple, array or vector of tensors, or a `Result` of one of these: `|x| x[0].sin()`"
)]
pub trait Outputs {
    /// As a list.
    ///
    /// # Errors
    /// The function's own.
    fn outputs(self) -> Result<Vec<Tensor>>;
}
impl Outputs for Tensor {
    fn outputs(self) -> Result<Vec<Tensor>> {
        Ok(vec![self])
    }
}
impl Outputs for Vec<Tensor> {
    fn outputs(self) -> Result<Vec<Tensor>> {
        Ok(self)
    }
}
impl<const N: usize> Outputs for [Tensor; N] {
    fn outputs(self) -> Result<Vec<Tensor>> {
        Ok(self.into())
    }
}
impl Outputs for (Tensor, Tensor) {
    fn outputs(self) -> Result<Vec<Tensor>> {
        Ok(vec![self.0, self.1])
    }
}
impl Outputs for (Tensor, Tensor, Tensor) {
    fn outputs(self) -> Result<Vec<Tensor>> {
        Ok(vec![self.0, self.1, self.2])
    }
}
impl<O: Outputs> Outputs for Result<O> {
    fn outputs(self) -> Result<Vec<Tensor>> {
        self.and_then(O::outputs)
    }
}
