//! The tools around a program.
mod benchmark;
mod bottleneck;
mod flop_counter;
mod fuzz;
mod logging;
mod monitor;
mod profiler;
mod testing;
mod traces;
