//! Programs captured while they run: operators become nodes of a graph.
//!
//! The inputs of a capture are wrapped, so that operators that are given one come to this module, are worked out on the tensors
//! inside, and are recorded. A wrapper has no elements: who reads them (`item`, `to_vec`, a branch on data) gets an error, and
//! the panicking forms name the line. Calls that make tensors of numbers alone (`zeros`, `arange`) are seen through
//! the dispatch key `Tracer`. Sizes are plain integers: a captured graph holds for the sizes of its inputs, and flambeau-export captures
//! at several to find out how numbers follow from sizes.
//!
//! Above the gradients ([`symbolic_trace`], flambeau-export) values are worked out only where something asks for them (`deferred`).
//!
//! A capture may let a program read integers ([`Capture::answer`]): they are symbols of the graph (`numbers`).
//!
//! Branches and loops that are functions (`torch.cond`, `while_loop`, `map`, `scan`) become calls of graphs (`control`).
//!
//! What this does not see: elements written by hand (`elements_mut`), tensors made of vectors (they become constants), and
//! what a composite's body makes of numbers alone where the body is recorded in the composite's place.

mod branches;
mod control;
mod deferred;
mod leaves;
mod make_fx;
mod modules;
mod numbers;
mod recorder;
mod wrapped;

pub use leaves::{Leaf, Leaves, object};
pub use make_fx::{MakeFxOptions, make_fx, make_fx_of, make_fx_with, try_make_fx, try_make_fx_with};
pub use modules::{SymbolicTraceOptions, symbolic_trace, symbolic_trace_with, try_symbolic_trace_with};
pub use recorder::{Capture, Form, Level, Names, split};
