//! Reductions over the middle dimension of a `[outer, n, inner]` view.
//!
//! Every result is made of fixed blocks that are joined in a fixed tree, so it does not depend on the number of threads
//! and rounding errors grow with the logarithm of `n`.

pub mod arg;
pub mod erased;
pub mod fold;
pub mod moments;
pub mod norm;
mod partition;
pub mod select;
pub mod simple;
mod vectors;

pub use crate::num::{Num, Order, Truth};
pub use arg::{argmax, argmin, max_with_index, min_with_index};
pub use fold::Geo;
pub use moments::{mean_var, std, var, var_mean};
pub use norm::{logsumexp, norm};
pub use select::{kthvalue, median, mode, nanmedian};
pub use simple::{all, amax, amin, any, count_nonzero, mean, nansum, prod, sum};
