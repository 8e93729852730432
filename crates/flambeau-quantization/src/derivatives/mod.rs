//! Formulas of gradients that are longer than an expression.

pub mod learnable;
