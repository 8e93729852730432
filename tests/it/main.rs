//! What spans crates, in one binary: properties of whole tables, hostile arguments, operators of a program, modes, sparse
//! training, and the library beside a live PyTorch. What changes or counts on the whole process begins with `alone!()`.
#![forbid(unsafe_code)]

mod attack;
mod bad_input;
mod depth;
mod examples;
mod library;
mod names;
mod overrides;
mod panics;
mod properties;
mod pytorch;
mod soundness;
mod sparse;
