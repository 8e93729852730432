//! Reading and writing of tensors in files: PyTorch checkpoints (zip and the older stream format),
//! safetensors, npy and npz.
//!
//! The formats know no tensor type. A writer is handed a [`Tree`] whose tensors are [`TensorSource`]s, a
//! reader gives a [`Tree`] made by a [`TensorSink`]; both move storage bytes without an extra copy. Files
//! are untrusted: nothing in them is executed, and lengths are checked before memory is taken.
//! [`tensors`] is the seam filled in for Flambeau's tensor: `tensors::save`, `tensors::load`.
#![forbid(unsafe_code)]

pub mod config;
pub mod container;
mod error;
pub mod map_location;
pub mod npy;
pub mod pickle;
pub mod safe_globals;
pub mod safetensors;
pub mod serde_tree;
mod source;
pub mod tensors;
pub mod torch_format;

pub use error::{Error, Result};
pub use source::{TensorSink, TensorSource, copy_contiguous, required_bytes};
pub use tensors::ToTree;
pub use torch_format::{
    Object, ReadOptions, StorageInfo, TensorRef, Tree, WriteOptions, load, load_from, save, save_to,
};
