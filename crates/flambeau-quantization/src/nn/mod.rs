//! `torch.ao.nn`: functions and layers of quantized tensors.

pub mod functional;
pub(crate) mod product;
