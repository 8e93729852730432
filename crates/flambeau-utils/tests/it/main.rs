//! The tools around a program.
mod benchmark;
#[cfg(feature = "hub")]
mod hub;
mod monitor;
mod profiler;
mod testing;
