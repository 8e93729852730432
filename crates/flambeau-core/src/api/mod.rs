//! What users type that no table row describes: arguments' conversions, literals, index expressions, changes of a tensor's
//! own geometry, gradients' entry points.

mod attributes;
mod casts;
pub mod convert;
pub mod ergonomic;
pub mod grad;
#[doc(alias = "tensor-indexing")]
pub mod indexing;
pub mod into_arg;
pub mod literal;
mod names;
pub mod normal;
pub mod quasirandom;
pub mod regeometry;
pub mod repeat;
#[cfg(feature = "serde")]
mod serde;
pub mod short;
pub mod split;
pub mod typed_storage;
