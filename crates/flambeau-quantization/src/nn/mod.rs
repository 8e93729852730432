//! `torch.ao.nn`: functions and layers of quantized tensors.

pub mod conv;
pub mod conv_add;
pub mod embedding;
pub mod float_functional;
pub mod functional;
pub mod layer;
pub mod linear;
pub(crate) mod product;
pub mod qat;
pub mod quantizable;
pub mod recurrent;
#[cfg(feature = "graphs")]
pub mod reference;
