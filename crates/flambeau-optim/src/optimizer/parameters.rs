//! What optimizers are built of.

use flambeau_nn::Parameter;

/// The parameters that an optimizer is built of: `model.parameters()`, or any list or iterator of parameters or of tensors that
/// are leaves.
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
