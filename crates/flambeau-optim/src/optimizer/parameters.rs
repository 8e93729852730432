//! What optimizers are built of.

use flambeau_nn::Parameter;

/// The parameters that an optimizer is built of: `model.parameters()`, or any list or iterator of parameters or of tensors that
/// are leaves.
///
/// ```
/// use torch::optim::{IntoParameters, SGD};
/// use torch::{nn, prelude::*};
///
/// fn plain(parameters: impl IntoParameters) -> SGD {
///     SGD::new(parameters, 0.1)
/// }
/// let layer = nn::Linear::new(2, 1);
/// assert_eq!(plain(layer.parameters()).group_params(0).len(), 2);
/// assert_eq!(plain([&layer.weight]).group_params(0).len(), 1);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of parameters",
    label = "parameters are wanted here",
    note = "`optim::Adam::new(model.parameters(), 1e-3)` takes those of a model, `[&w, &b]` a few tensors"
)]
pub trait IntoParameters {
    /// The parameters in order.
    fn into_parameters(self) -> Vec<Parameter>;
}
#[diagnostic::do_not_recommend]
impl<I: IntoIterator<Item = P>, P: Into<Parameter>> IntoParameters for I {
    fn into_parameters(self) -> Vec<Parameter> {
        self.into_iter().map(Into::into).collect()
    }
}
