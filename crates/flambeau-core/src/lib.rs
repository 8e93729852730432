//! Flambeau's tensor: storage, views, type promotion, dispatch, and the `torch.*` operators on the CPU.
//!
//! | module | what |
//! |---|---|
//! | [`tensor`] | [`Tensor`], the handle |
//! | [`ops`] | every operator as a fallible function, nothing defaulted |
//! | [`functions`] | the same, ergonomic: defaults, conversions, panics with the error's text |
//! | [`regeometry`] | a tensor's own geometry changed in place |
//! | [`sparse`] | what sparse tensors are made of |
//! | [`library`] | calls by name |
//! | [`dispatch`] | operators as objects, dispatch keys |
//!
//! `unsafe` is allowed in `storage`, `access`, `iter`, `graph` and `dispatch::op` alone.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod access;
pub mod class;
pub mod convert;
pub mod determinism;
pub mod device;
#[allow(unsafe_code)]
pub mod dispatch;
pub mod dispatch_util;
pub mod ergonomic;
pub mod error;
pub mod functions_ext;
pub mod generator;
pub mod geometry;
pub mod grad;
#[allow(unsafe_code)]
pub mod graph;
#[doc(alias = "tensor-indexing")]
pub mod indexing;
#[allow(unsafe_code)]
pub mod iter;
pub mod layout;
pub mod library;
pub mod literal;
pub mod out;
pub mod overrides;
pub mod planned;
pub mod print;
pub mod promotion;
pub mod quasirandom;
pub mod regeometry;
pub mod scalar;
pub mod schema;
pub mod settings;
pub mod sparse;
pub mod stand_in;
#[allow(unsafe_code)]
pub mod storage;
pub mod tensor;
pub mod threads;
pub mod type_info;
pub mod typed_storage;
pub mod value;

#[rustfmt::skip]
pub mod generated;
pub mod ops;

pub use convert::{IntoDims, TensorOptions};
pub use device::Device;
pub use ergonomic::Operand;
pub use error::{Error, ErrorKind, Result};
pub use flambeau_dtype::{B8, DType, Element, with_dtype};
pub use generated::functions;
pub use generator::Generator;
pub use grad::BackwardOptions;
pub use indexing::{Ellipsis, Index, IntoIndex, NewAxis, Slice};
pub use layout::{Layout, MemoryFormat};
pub use scalar::Scalar;
pub use tensor::Tensor;
pub use type_info::{FInfo, IInfo, finfo, iinfo};
pub use typed_storage::TypedStorage;
pub use value::Value;
