//! Histograms, which have no gradients.

use crate::{Result, Tensor};

/// [`crate::derivatives::shorthand::no_derivative`] of a list of tensors.
pub fn no_derivative_list(op: &str) -> Result<Vec<Option<Tensor>>> {
    crate::derivatives::shorthand::no_derivative(op).map(|t| vec![Some(t)])
}
