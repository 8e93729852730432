//! Dropout is made of differentiable operators.

pub(crate) use crate::ops::dropout::dropout_scale;
