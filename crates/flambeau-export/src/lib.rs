//! `torch.export` for Flambeau: modules captured as programs, saved as `.pt2` that PyTorch opens; programs that PyTorch saved, loaded,
//! printed as PyTorch prints them, and run at all sizes that they were exported for.
//!
//! | module | what |
//! |---|---|
//! | [`export`](fn@export), [`Dim`] | modules captured, at several sizes where sizes are dynamic |
//! | [`load`], [`save`], [`ExportedProgram`] | the program: graph, signature, ranges of sizes, weights |
//! | [`ExportedProgram::module`] | the program as a module with its weights, which checks its inputs |
//! | [`graph_signature`] | what inputs and outputs of the graph are |
//! | `conditions` | what a captured program asks of sizes that follow from others |
//! | `failures` | errors of operators in a program with dynamic sizes |
//! | `guards` | conditions on inputs, as Python expressions |
//! | `aten` | operators by their names in ATen |
//! | [`unflatten`](fn@unflatten) | the program as the modules that it was made of |
//! | [`register_dataclass`] | classes with fields as arguments and results |
//! | `control` | branches and loops over graphs |
//!
//! Files are untrusted: nothing in them is executed but the operators that a graph names, and what does not fit is an error that
//! names the file and the node.

#![forbid(unsafe_code)]

mod api;
mod aten;
mod capture;
mod conditions;
mod control;
mod dataclass;
mod decompose;
mod dims;
mod failures;
pub mod graph_signature;
mod guards;
mod merge;
mod module;
pub mod passes;
mod preserved;
mod program;
mod read;
mod refine;
mod refusals;
mod regions;
mod schemas;
mod solve;
mod specs;
mod spelling;
mod tokens;
mod unbacked;
mod unflatten;
mod write;
mod written;

pub use api::{export, export_with, try_export, try_export_values, try_export_with};
pub use capture::ExportOptions;
pub use dataclass::{DataClass, register_dataclass};
pub use decompose::{CustomDecompTable, default_decompositions};
pub use dims::{AdditionalInputs, Dim, DynamicShapes, Named, ShapesCollection};
pub use module::ExportedModule;
pub use program::{ExportedProgram, ModuleCallEntry, ModuleCallSignature, Range};
pub use read::{load, load_mapped};
pub use refine::{DraftReport, draft_export, refine_dynamic_shapes_from_suggested_fixes};
pub use unflatten::{FlatArgsAdapter, InterpreterModuleDispatcher, UnflattenedModule, unflatten};
pub use write::save;
