//! Steps over slices of run-time type: f16, bf16 (computed in f32), f32, f64; `None` means that a dtype is another.
//! Each rule is compiled here, once.

use super::{ASGD, Adadelta, Adagrad, Adam, Adamax, Item, NAdam, RAdam, RMSprop, Rprop, Rule, SGD, step};

/// A rule that has its loops in this crate.
pub trait Step: Rule {
    /// One step of all items.
    ///
    /// # Errors
    /// A text if lengths or the numbers of kept tensors do not fit.
    fn step(items: Vec<Item<'_, Self>>) -> Option<Result<(), String>>
    where
        Self: Sized;
}
macro_rules! compiled {
    ($($rule:ty),* $(,)?) => {$(
        impl Step for $rule {
            #[inline(never)]
            fn step(items: Vec<Item<'_, Self>>) -> Option<Result<(), String>> {
                step(items)
            }
        }
    )*};
}
compiled!(SGD, Adam, Adamax, NAdam, RAdam, Adagrad, Adadelta, ASGD, RMSprop, Rprop);
