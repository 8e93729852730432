//! Probability distributions: `torch.distributions`.
//!
//! | module | what |
//! |---|---|
//! | this one | the distributions, [`Distribution`], [`kl_divergence`], [`biject_to`] and [`transform_to`] |
//! | [`constraints`] | regions over which parameters and values are valid |
//! | [`transforms`] | invertible maps with the log determinants of their Jacobians |
//! | [`kl`] | divergences |
//!
//! ```
//! use torch::distributions::{DistributionExt, Normal, kl_divergence};
//! let (p, q) = (Normal::new(0.0, 1.0), Normal::new(1.0, 1.0));
//! assert_eq!(kl_divergence(&p, &q).item::<f64>(), 0.5);
//! assert_eq!(p.rsample_shape([2, 3]).sizes(), &[2, 3]);
//! ```
#![forbid(unsafe_code)]

mod argument;
#[cfg(feature = "by-name")]
mod by_name;
pub mod constraints;
mod distribution;
mod families;
mod formula;
pub mod kl;
mod lapack;
mod registry;
pub mod transforms;

pub use argument::Param;
pub use constraints::{Constraint, CustomConstraint};
pub use distribution::{
    Argument, Distribution, DistributionExt, ExponentialFamily, Held, Shapes, set_default_validate_args,
};
pub use families::*;
pub use kl::{kl_divergence, register_kl, try_kl_divergence};
pub use registry::{
    ConstraintRegistry, Factory, biject_to, bijections, optimizations, transform_to, try_biject_to,
    try_transform_to,
};
