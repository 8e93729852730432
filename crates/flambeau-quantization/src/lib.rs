//! Quantized tensors, and networks of them: `torch.ao.quantization`, `torch.ao.nn.quantized`, and what `torch` and
//! `torch.Tensor` have for quantized tensors.
//!
//! | module | what |
//! |---|---|
//! | [`generated::functions`] | `torch.quantize_per_tensor` and its like |
//! | [`ops`] | every operator as a fallible function, nothing defaulted |
//! | [`TensorQuantizationExt`] | methods of `Tensor` |
//!
//! How a quantized tensor is represented stands in `flambeau_core::tensor::quantized`. Linking this crate also gives core's
//! operators their kernels for quantized tensors.

#![forbid(unsafe_code)]

mod arguments;
#[cfg(feature = "by-name")]
mod by_name;
mod derivatives;
pub mod fake_quantize;
pub mod flow;
mod forms;
pub mod fusers;
#[cfg(feature = "graphs")]
pub mod fx;
#[rustfmt::skip]
pub mod generated;
pub mod granularity;
mod install;
mod kernels;
pub mod nn;
pub mod numeric_suite;
mod object_types;
mod objects;
pub mod observers;
pub mod ops;
pub mod prepared;
pub mod qconfig;
pub mod qconfig_mapping;
pub mod stubs;
mod tensor;

pub use generated::methods::TensorQuantizationExt;
