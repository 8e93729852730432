//! The tests of flambeau-serialization, in one binary. What changes settings of the whole process begins with `alone!()`.

mod budgets;
mod files;
mod forged;
mod interop;
mod mapped;
mod mutated;
mod plain;
mod quantized;
mod tensors;
mod verify;
