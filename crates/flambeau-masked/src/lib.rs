//! `torch.masked` for Flambeau: tensors with masks, reductions and normalisations of those elements of a tensor that a mask leaves.
//!
//! | module | what |
//! |---|---|
//! | [`generated::masked`] | the functions of `torch.masked` |
//! | [`MaskedTensor`] | tensors with a mask; what operators do with them stands in `ops::wrapped` |
//! | [`generated::ops`] | every operator as a fallible function, nothing defaulted |
//!
//! All of them are bodies over core's operators, which bring the gradients: an element that the mask hides is replaced by what
//! does not change the result.

#![forbid(unsafe_code)]

#[cfg(feature = "by-name")]
mod by_name;
#[rustfmt::skip]
pub mod generated;
pub mod ops;
mod tensor;

pub use tensor::{
    MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor, try_as_masked_tensor, try_masked_tensor,
};
