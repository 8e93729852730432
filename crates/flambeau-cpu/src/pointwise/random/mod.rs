//! Derivatives of random variates for the parameters of their distributions.

mod sampling;

use super::macros::one_by_one;

one_by_one! {
    /// Derivative of a gamma variate `x` for its shape.
    STANDARD_GAMMA_GRAD = "_standard_gamma_grad" (a, x) false cost 300000 => |a, x| sampling::gamma(a, x);
    /// Derivative of a component `x` of a Dirichlet variate for its concentration.
    DIRICHLET_GRAD = "_dirichlet_grad" (x, a, total) false cost 300000 => |x, a, total| sampling::dirichlet(x, a, total);
}
