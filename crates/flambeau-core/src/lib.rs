//! Flambeau's tensor: storage, views, type promotion, dispatch, and the `torch.*` operators on the CPU.
//!
//! | module | what |
//! |---|---|
//! | [`tensor`] | [`Tensor`], its geometry and storage |
//! | [`ops`] | every operator as a fallible function, nothing defaulted |
//! | [`functions`] | the same, ergonomic: defaults, conversions, panics with the error's text |
//! | [`api`] | what users type that no table row describes: literals, index expressions, conversions of arguments |
//! | [`iter`] | the iterator of pointwise operators, promotion, `out=` |
//! | [`dispatch`] | operators as objects, values of boxed calls |
//! | [`types`] | errors, devices, layouts, numbers, schemas, dispatch keys |
//! | [`gradients`] | the gradient engine |
//! | [`text`] | tensors as text |
//! | [`settings`] | the default device, threads, determinism |
//!
//! `unsafe` is allowed in `tensor::{storage, guards, graph}`, `backend::cpu` and `dispatch::op` alone.

#![deny(unsafe_code)]

pub mod api;
pub mod backend;
#[doc(hidden)]
pub mod derivatives;
pub mod dispatch;
#[doc(hidden)]
pub mod gradients;
#[doc(hidden)]
pub mod internal;
pub mod iter;
pub mod settings;
pub mod tensor;
pub mod text;
pub mod types;

/// A crate's operators for its entry in the registry, or none without the feature `by-name`: a list that the linker must keep
/// keeps all that it names, and typed calls find their operator without it. After `else` stand those that crates below call by name.
#[cfg(feature = "by-name")]
#[doc(hidden)]
#[macro_export]
macro_rules! by_name {
    (else $operators:expr) => {
        &[]
    };
    ($operators:expr) => {
        $operators
    };
}
#[cfg(not(feature = "by-name"))]
#[doc(hidden)]
#[macro_export]
macro_rules! by_name {
    (else $operators:expr) => {
        $operators
    };
    ($operators:expr) => {
        &[]
    };
}

#[rustfmt::skip]
#[allow(dead_code)] // a row may save the length of a list and not need it
pub mod generated;
pub mod ops;

pub use api::convert::{IntRange, IntoDims, IntoFloats, IntoTensorOptions, TensorOptions};
pub use api::ergonomic::{
    Bound, IntoFloat, Operand, OptionalTensorItem, OptionalTensorList, TensorItem, TensorList, TensorOrList,
};
pub use api::grad::BackwardOptions;
pub use api::indexing::{Ellipsis, Index, IntoIndex, NewAxis, Slice};
pub use api::typed_storage::TypedStorage;
pub use dispatch::value::Value;
pub use flambeau_dtype::{ALL_DTYPES, B8, DType, Element, with_dtype};
pub use generated::functions;
pub use tensor::generator::Generator;
pub use tensor::handle::Tensor;
pub use types::device::Device;
pub use types::error::{Error, ErrorKind, Result};
pub use types::layout::{Layout, MemoryFormat};
pub use types::scalar::Scalar;
pub use types::type_info::{FInfo, IInfo, finfo, iinfo};
