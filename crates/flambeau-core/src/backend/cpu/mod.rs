//! The CPU's own: holds on storages and slices behind them, the loops over strided operands, the short way of small calls.

#[allow(unsafe_code)]
pub mod access;
#[allow(unsafe_code)]
mod plan;
#[allow(unsafe_code)]
pub(super) mod small;
#[allow(unsafe_code)]
mod strided;

pub(crate) use strided::execute;
