//! Copies of the program, what they share, and what is left of them.
#![cfg(target_os = "linux")]

mod processes;
mod queues;
