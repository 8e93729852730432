//! The tests of flambeau-core, in one binary. What changes or counts on the whole process begins with `alone!()`.

mod back_end;
mod bad_input;
mod basics;
mod deep;
mod geometry;
mod literal;
mod memory;
mod ops;
mod order;
mod outputs;
mod outside_key;
mod print;
mod quasirandom;
mod small_operands;
mod soundness;
mod storages;
mod threads;
