//! What the writer's methods take.

use flambeau_core::{Error, Result, Tensor};

/// A step, or none: an integer, an `Option<i64>` or `()`.
///
/// ```
/// use torch::utils::tensorboard::IntoStep;
/// fn step(at: impl IntoStep) -> Option<i64> {
///     at.into_step()
/// }
/// assert_eq!((step(3), step(()), step(Some(4i64))), (Some(3), None, Some(4)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no step",
    label = "a step is wanted here",
    note = "an integer, an `Option<i64>`, or `()`"
)]
pub trait IntoStep {
    /// The step.
    fn into_step(self) -> Option<i64>;
}
macro_rules! steps {
    ($($t:ty),*) => {$(impl IntoStep for $t {
        fn into_step(self) -> Option<i64> {
            i64::try_from(self).ok()
        }
    })*};
}
steps!(i32, i64, u32, u64, usize);
impl IntoStep for Option<i64> {
    fn into_step(self) -> Option<i64> {
        self
    }
}
impl IntoStep for () {
    fn into_step(self) -> Option<i64> {
        None
    }
}

/// A number, or a tensor with one element.
///
/// ```
/// use torch::utils::tensorboard::SummaryWriter;
/// # let dir = tempfile::tempdir()?;
/// # let log_dir = dir.path();
/// let writer = SummaryWriter::new(log_dir)?;
/// writer.add_scalar("loss", 0.5, 0)?;
/// writer.add_scalar("loss", &torch::tensor(0.25), 1)?;
/// assert!(writer.add_scalar("loss", &torch::ones([2]), 2).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no single number",
    label = "a number is wanted here",
    note = "a number, or a reference to a tensor with one element"
)]
pub trait ScalarValue {
    /// The number.
    ///
    /// # Errors
    /// A tensor with another number of elements.
    fn scalar(&self) -> Result<f64>;
}
macro_rules! numbers {
    ($($t:ty),*) => {$(impl ScalarValue for $t {
        fn scalar(&self) -> Result<f64> {
            Ok(*self as f64)
        }
    })*};
}
numbers!(f32, f64, i32, i64, u32, u64, usize);
impl ScalarValue for Tensor {
    fn scalar(&self) -> Result<f64> {
        if self.numel() != 1 {
            let dims = self.sizes().iter().filter(|n| **n != 1).count();
            return Err(Error::assertion(format!(
                "Tensor should contain one element (0 dimensions).             Was given size: {} and {dims} dimensions.",
                self.numel()
            )));
        }
        self.try_item::<f64>()
    }
}
impl<T: ScalarValue + ?Sized> ScalarValue for &T {
    fn scalar(&self) -> Result<f64> {
        (**self).scalar()
    }
}
