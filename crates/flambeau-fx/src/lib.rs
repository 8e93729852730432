//! `torch.fx` for Flambeau: programs as graphs whose nodes call operators, methods and modules by their names.
//!
//! | module | what |
//! |---|---|
//! | [`Graph`], [`Node`], [`Argument`] | the program: a list of nodes with arguments that may name other nodes |
//! | [`GraphModule`] | a graph with the modules and tensors that it names: it can be called |
//! | [`Interpreter`] | runs a graph node by node; [`Calls`] says what a node does, so that others may do something else |
//! | [`Transformer`] | runs a graph and records what it did as another one |
//! | [`passes`] | changes of graphs: dead code, common parts, constants, parts as modules, patterns, fusion |
//! | [`pytree`] | nested values as lists of leaves and a description |
//! | [`python`] | Python's operators and built-in functions on values |
//! | [`symbolic`] | sizes that are expressions of unknown numbers |
//!
//! A node's target is a name, as PyTorch prints it: `torch.relu`, `operator.add`, `getattr`, `torch.ops.aten.add.Tensor`. What it
//! does is looked up when it is run, in flambeau-library.

#![forbid(unsafe_code)]

mod argument;
mod code;
mod graph;
mod interpreter;
mod meta;
mod module;
mod namespace;
mod node;
pub mod passes;
mod print;
pub mod python;
pub mod pytree;
mod shape_prop;
pub mod symbolic;
mod transformer;

pub use argument::Argument;
pub use code::{CodeGen, CodeOptions};
pub use graph::Graph;
pub use interpreter::{Calls, Interpreter};
pub use meta::{Meta, TensorMeta, Val};
pub use module::{GraphModule, Trees};
pub use node::{Node, NodeData, Op};
pub use shape_prop::shape_prop;
pub use transformer::Transformer;
