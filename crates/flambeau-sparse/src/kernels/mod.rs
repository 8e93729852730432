//! What core's operators do with sparse tensors: kernels at the key `SparseCpu`. An operator without one refuses sparse
//! tensors by name.

pub(crate) mod arith;
pub(crate) mod lines;
pub(crate) mod product;
pub(crate) mod reduce;
pub(crate) mod shape;
pub(crate) mod unary;

/// Fills the slots.
pub(crate) fn fill() {
    arith::fill();
    lines::fill();
    product::fill();
    reduce::fill();
    shape::fill();
    unary::fill();
}
