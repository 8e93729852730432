//! `torch.masked` for Flambeau: reductions and normalisations of those elements of a tensor that a mask leaves.
//!
//! | module | what |
//! |---|---|
//! | [`generated::masked`] | the functions of `torch.masked` |
//! | [`generated::ops`] | every operator as a fallible function, nothing defaulted |
//!
//! All of them are bodies over core's operators, which bring the gradients: an element that the mask hides is replaced by what
//! does not change the result.

#![forbid(unsafe_code)]

#[rustfmt::skip]
pub mod generated;
pub mod ops;
