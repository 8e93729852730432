//! What the options of optimizers consist of.

pub(crate) mod number_or_tensor;
