//! What spans crates, in one binary: properties of whole tables, hostile arguments, operators of a program, modes, sparse
//! training, and the library beside a live PyTorch. What changes or counts on the whole process begins with `alone!()`.
#![forbid(unsafe_code)]

/// Refuses memory in `no_memory_is_an_error`.
#[global_allocator]
static SCARCE: flambeau_memory::scarce::Scarce = flambeau_memory::scarce::Scarce;

mod attack;
mod bad_input;
mod depth;
mod gallery;
mod graphs;
mod interop;
mod library;
mod names;
mod overrides;
mod panics;
mod properties;
mod pytorch;
mod reentry;
mod soundness;
mod sparse;
