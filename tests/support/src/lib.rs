//! What the tests of several crates share: tests in processes of their own, calls that must not bring the process down,
//! lists of calls that must be refused, the examples' programs, and a live PyTorch.
#![forbid(unsafe_code)]

#[cfg(feature = "cases")]
pub mod cases;
pub mod hostile;
pub mod process;
pub mod programs;
pub mod python;
