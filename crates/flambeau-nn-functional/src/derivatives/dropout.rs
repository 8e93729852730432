//! Dropout is made of differentiable operators.
