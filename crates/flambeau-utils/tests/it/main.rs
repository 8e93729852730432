//! The tools around a program.
mod benchmark;
mod bottleneck;
mod flop_counter;
mod fuzz;
#[cfg(feature = "hub")]
mod hub;
mod logging;
mod monitor;
mod profiler;
mod testing;
mod traces;
