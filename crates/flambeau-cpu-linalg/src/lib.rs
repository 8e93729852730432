//! Decompositions of matrices and solutions with them: of batches, each matrix dense. LU, Cholesky, QR and triangular solves go by
//! blocks on our own matrix product; eigenvalues and singular values by reduction to a narrow band and implicit QR steps.

mod bidiagonal;
mod cholesky;
mod divide;
mod divide_sides;
pub mod erased;
mod halves;
mod hessenberg;
mod ldl;
mod lu;
mod lu_ahead;
mod many;
mod once;
mod product;
mod qr;
mod secular;
mod tridiagonal;
mod vector;

pub use bidiagonal::Vectors;

use flambeau_cpu::num::field;
use flambeau_cpu::{Any, AnyMut, DType, Element, blas, engine, num};

#[cfg(test)]
mod tests;
