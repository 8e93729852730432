//! `torch.onnx` for Flambeau: exported programs as ONNX files.
//!
//! | module | what |
//! |---|---|
//! | [`export`], [`ExportOptions`] | writes an exported program as an [`ONNXProgram`] |
//! | [`ONNXProgram`] | the model: saved, optimised, with other weights |
//! | [`Registry`], [`Builder`], [`Call`] | translations of users' own operators |
//! | [`proto`] | ONNX's messages |
//! | [`diagnostics`] | what an export reports: rules POE0001 to POE0004, and SARIF |
//!
//! A program's calls are translated one by one (`ops`, by family) by a builder of graphs. Translations know element types and
//! the number of dimensions; sizes may be unknown, and are then computed in the graph. Writes to tensors become new values:
//! views that share the memory are made again when they are read (`export::walk`).

#![forbid(unsafe_code)]

mod build;
pub mod diagnostics;
mod export;
mod ops;
pub mod proto;
mod types;

pub use build::{Arg, Builder, Call, Dim, Var};
pub use export::{
    ExportOptions, ONNXProgram, Registry, SaveOptions, export, export_with, supported_operators, try_export,
};
pub use types::Attribute;
