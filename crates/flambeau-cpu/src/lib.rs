//! CPU kernels of Flambeau over raw slices, pointers and strides. This crate knows no `Tensor`; nearly all of the
//! project's `unsafe` lives here.
//!
//! Families, named as the tables of operators are:
//!
//! | module | what |
//! |---|---|
//! | [`attention`] | scaled dot product attention |
//! | [`blas`] | matrix products, batched, strided; dot |
//! | [`conv`] | convolutions and their gradients |
//! | [mod@copy] | copies between layouts and between dtypes |
//! | [`indexing`] | gather, scatter, advanced indexing |
//! | [`joining`] | concatenation |
//! | [`loss`] | negative log likelihood, cross-entropy |
//! | [`norm`] | batch, group, layer and RMS normalisation |
//! | [`optim`] | steps of optimizers over many parameters |
//! | [`pool`] | max, average and adaptive pooling |
//! | [`quantize`] | integers that stand for numbers, and products of matrices of them |
//! | [`random`] | the random generator and everything that draws from it |
//! | [`reduction`] | reductions over the middle dimension of a view |
//! | [`rnn`] | recurrent layers |
//! | [`scan`] | running sums, products, extremes |
//! | [`softmax`] | softmax and its logarithm |
//! | [`sorting`] | sorting, top-k, unique, nonzero, histograms |
//! | [`sparse`] | products with matrices by compressed rows |
//!
//! Two families are crates of their own, `flambeau-cpu-fft` and `flambeau-cpu-linalg`: they are large, and nothing here needs them.
//!
//! What they stand on, beside the element types of [`flambeau_dtype`]:
//!
//! | module | what |
//! |---|---|
//! | [`engine`] | instruction sets, threads, caches, work memory, slices of run-time type |
//! | [`num`] | the numbers that kernels compute with |
//! | [mod@pointwise] | formulas over elements, by family, and the loops that run them |
//! | [`vmath`] | vector math |

pub mod attention;
pub mod blas;
pub mod conv;
pub mod copy;
pub mod engine;
pub mod indexing;
pub mod joining;
pub mod loss;
pub mod norm;
pub mod num;
pub mod optim;
pub mod padding;
pub mod pointwise;
pub mod pool;
pub mod quantize;
pub mod random;
pub mod reduction;
pub mod rnn;
pub mod scan;
pub mod softmax;
pub mod sorting;
pub mod sparse;
pub mod vision;
pub mod vmath;

pub use engine::erase::{Any, AnyMut};
pub use flambeau_dtype::{B8, DType, Element, with_dtype};
