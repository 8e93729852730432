//! The tools around a program.
mod benchmark;
mod monitor;
mod profiler;
mod testing;
