//! `torch.export` for Flambeau: programs that PyTorch saved as `.pt2`, loaded, printed as PyTorch prints them, and run at all
//! sizes that they were exported for.
//!
//! | module | what |
//! |---|---|
//! | [`load`], [`ExportedProgram`] | the program: graph, signature, ranges of sizes, weights |
//! | [`ExportedProgram::module`] | the program as a module with its weights, which checks its inputs |
//! | [`graph_signature`] | what inputs and outputs of the graph are |
//! | `guards` | conditions on inputs, as Python expressions |
//! | `aten` | operators by their names in ATen |
//! | `control` | branches and loops over graphs |
//!
//! Files are untrusted: nothing in them is executed but the operators that a graph names, and what does not fit is an error that
//! names the file and the node.

#![forbid(unsafe_code)]

mod aten;
mod control;
pub mod graph_signature;
mod guards;
mod module;
mod program;
mod read;
mod specs;

pub use module::ExportedModule;
pub use program::{ExportedProgram, ModuleCallEntry, ModuleCallSignature, Range};
pub use read::load;
