//! Element types of Flambeau's tensors: the Rust types ([`Element`]), their run-time tag ([`DType`]), and the way from the tag
//! to the type ([`with_dtype!`]). What tensors, kernels and file formats share; no kernel is here.
#![forbid(unsafe_code)]

mod dispatch;
mod dtype;
mod element;

#[doc(hidden)]
pub use dispatch::{bc32_, bf16_, c32_, c64_, c128_, f16_};
pub use dtype::{ALL_DTYPES, DType};
pub use element::{B8, Element, F8E4M3, F8E5M2, QI8, QI32, QU2X4, QU4X2, QU8};
