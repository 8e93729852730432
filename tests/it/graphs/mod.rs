//! Programs as graphs: plans that run without allocating, memory told before a program runs.

mod memory;
mod models;
mod plan;
mod tokens;
