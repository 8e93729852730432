//! `torch.fx` for Flambeau: programs as graphs whose nodes call operators, methods and modules by their names.
//!
//! | module | what |
//! |---|---|
//! | [`Graph`], [`Node`], [`Argument`] | the program: a list of nodes with arguments that may name other nodes |
//! | [`GraphModule`] | a graph with the modules and tensors that it names: it can be called |
//! | [`Interpreter`] | runs a graph node by node; [`Calls`] says what a node does, so that others may do something else |
//! | [`PlannedInterpreter`] | runs a graph again and again, with one arena for all its tensors |
//! | [`Transformer`] | runs a graph and records what it did as another one |
//! | [`make_fx`], [`symbolic_trace`] | programs captured while they run |
//! | [`memory`](fn@memory) | what a captured program's tensors take, told before it runs |
//! | [`checkpoints`](fn@checkpoints) | what computing which blocks again in the backward pass would save, and what it costs |
//! | [`passes`] | changes of graphs: dead code, common parts, constants, parts as modules, patterns, fusion |
//! | [`pytree`] | nested values as lists of leaves and a description |
//! | [`python`] | Python's operators and built-in functions on values |
//! | [`symbolic`] | sizes that are expressions of unknown numbers |
//!
//! A node's target is a name, as PyTorch prints it: `torch.relu`, `operator.add`, `getattr`, `torch.ops.aten.add.Tensor`. What it
//! does is looked up when it is run, in flambeau-library.

#![forbid(unsafe_code)]

mod argument;
pub mod capture;
mod checkpoints;
mod code;
mod graph;
mod interpreter;
mod memory;
mod meta;
mod module;
mod namespace;
mod nested;
mod node;
mod numbers;
pub mod passes;
mod plan;
mod print;
pub mod python;
pub mod pytree;
mod shape_prop;
pub mod symbolic;
mod symbolic_text;
mod transformer;

pub use argument::Argument;
pub use capture::{
    MakeFxOptions, SymbolicTraceOptions, make_fx, make_fx_of, make_fx_with, symbolic_trace,
    symbolic_trace_with, try_make_fx, try_make_fx_with, try_symbolic_trace_with,
};
pub use checkpoints::{CheckpointBlock, CheckpointChoice, Checkpoints, checkpoints};
pub use code::{CodeGen, CodeOptions};
pub use graph::Graph;
pub use interpreter::{Calls, Interpreter};
pub use memory::{MemoryReport, memory};
pub use meta::{Meta, TensorMeta, Val};
pub use module::{GraphModule, Trees};
pub use node::{Node, NodeData, Op};
pub use numbers::{SymBool, SymFloat, SymInt};
pub use plan::{PlanReport, PlannedInterpreter};
pub use shape_prop::shape_prop;
pub use transformer::Transformer;
