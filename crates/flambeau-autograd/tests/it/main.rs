//! The tests of flambeau-autograd, in one binary.

mod control_flow;
mod data;
mod ends;
mod engine;
mod extremes;
mod frames;
mod functions;
mod gradcheck;
mod hooks;
mod indexing;
mod inference;
mod inplace;
mod node_names;
mod semantics;
mod table;
