//! Tensors of other libraries without a copy (`torch.utils.dlpack`), by the C structures of DLPack, version 1 and the one before.
//!
//! A Rust program that lives in Python, or beside a library in C, gets a pointer to a [`DLManagedTensorVersioned`] from there and makes
//! a tensor of it with [`from_dlpack`], or gives one away with [`to_dlpack`]. Whoever takes such a structure frees it.
//!
//! ```
//! use torch::utils::dlpack::{from_dlpack, to_dlpack};
//! let x = torch::arange(6).reshape([2, 3]);
//! let y = {
//!     let exported = to_dlpack(&x)?.into_raw();
//!     // SAFETY: the structure was just made, nobody else has it, and `x` is not used by another thread meanwhile
//!     unsafe { from_dlpack(exported)? }
//! };
//! y.fill_(7);
//! assert_eq!(x.to_vec::<i64>(), [7; 6]);
//! # Ok::<(), torch::Error>(())
//! ```

mod export;
mod import;
mod structures;

pub use export::{Exported, to_dlpack};
pub use import::{from_dlpack, from_dlpack_legacy};
pub use structures::{
    DLDataType, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
    FLAG_IS_COPIED, FLAG_READ_ONLY, VERSION,
};
