//! CPU kernels of Flambeau over raw slices, pointers and strides. This crate knows no `Tensor`; nearly all of the
//! project's `unsafe` lives here.
//!
//! | module | what |
//! |---|---|
//! | [`dtype`] | element types, [`DType`], dispatch macro |
//! | [`isa`] | instruction sets, chosen at run time |
//! | [`reduce`] | reductions over the middle dimension of a view |
//! | [`scan`] | running sums, products, extremes |
//! | [`softmax`] | softmax, layer norm, RMS norm |
//! | [`sort`] | sorting, top-k, unique, nonzero, histograms |
//! | [`mod@frexp`] | mantissas and exponents |
//! | [`index`] | gather, scatter, advanced indexing |
//! | [`parallel`] | the only parallel-for that kernels use |
//! | [mod@pointwise] | formulas over elements and the loops that run them |
//! | [`real`] | the numbers that formulas compute with |
//! | [`vmath`] | vector math |
//! | [`cast`] | conversions between dtypes |
//! | [`transpose`] | copies between row- and column-major |
//! | [`rng`] | the random generator and everything that draws from it |
//! | [`linalg`] | inverses, determinants and singular values of small matrices |
//! | [`matmul`] | matrix products, batched, strided; dot |
//! | [`conv`] | convolutions and their gradients |
//! | [`pool`] | max, average and adaptive pooling |
//! | [`batch_norm`] | batch and group normalisation |
//! | [`attention`] | scaled dot product attention |
//! | [`loss`] | negative log likelihood, cross-entropy |
//! | [`optim`] | steps of optimizers over many parameters |

pub mod any;
pub mod attention;
pub mod batch_norm;
pub mod cache;
pub mod cast;
pub mod conv;
pub mod dtype;
mod erase;
pub mod frexp;
pub mod index;
pub mod isa;
mod lanes;
pub mod linalg;
pub mod loss;
pub mod matmul;
pub mod optim;
pub mod parallel;
pub mod pointwise;
pub mod pool;
pub mod real;
pub mod recurrent;
pub mod reduce;
pub mod rng;
pub mod scan;
mod scratch;
pub mod softmax;
pub mod sort;
pub mod transpose;
pub mod vmath;

pub use any::{Any, AnyMut};
pub use dtype::{B8, DType, Element};
