//! Copies of the program that work together (`torch.multiprocessing`), on Linux.
//!
//! A copy is the program started again, which runs one function: Rust cannot send functions to other processes, so they are registered
//! by name with [`freeze_support`], the first thing in `main`. Tensors go to them as handles on memory, never as bytes on a line.
//!
//! ```no_run
//! use torch::multiprocessing::{self as mp, Message, SimpleQueue};
//!
//! fn work(index: usize, args: &[Message]) -> torch::Result<()> {
//!     args[0].queue()?.put(index as i64 * args[1].int()?)
//! }
//! fn main() -> torch::Result<()> {
//!     mp::freeze_support(&[("work", work)]);
//!     let queue = SimpleQueue::new()?;
//!     mp::spawn_with("work", &[queue.clone().into(), 10.into()], mp::SpawnOptions::new().nprocs(2))?;
//!     assert_eq!(queue.get()?.int()? + queue.get()?.int()?, 10);
//!     Ok(())
//! }
//! ```
//!
//! **What is shared.** A tensor whose memory was shared by [`share_memory_`] is the same memory in all processes. Any other one is
//! copied once, and each process that gets it writes to pages of its own: no process sees the writes of another.
//!
//! **Nothing is left behind.** Shared memory has no name in a file system: the system frees it with the last process that has it, however
//! that process ends. A copy ends when the process that started it does.
#![deny(unsafe_code)]
#![cfg(target_os = "linux")]

mod items;
#[allow(unsafe_code)]
mod memory;
mod process;
mod queue;
mod strategy;
mod wire;

pub use items::Message;
pub use memory::{is_shared, share_memory_};
pub use process::{
    Function, JoinOptions, ProcessContext, ProcessExitedException, ProcessRaisedException, SpawnOptions,
    freeze_support, spawn, spawn_with, start_processes,
};
pub use queue::SimpleQueue;
pub use strategy::{get_all_sharing_strategies, get_sharing_strategy, set_sharing_strategy};

/// The older name of [`ProcessContext`].
#[doc(alias = "torch.multiprocessing.SpawnContext")]
pub type SpawnContext = ProcessContext;
