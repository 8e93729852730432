//! `torch.cuda.nvtx`: ranges that NVIDIA's profilers show.

use crate::table::answers;
use flambeau_core::{Error, Result};

fn absent<T>() -> Result<T> {
    Err(Error::runtime("NVTX functions not installed. Are you sure you have a CUDA build?"))
}
answers! { "torch.cuda.nvtx", NAMES {
    /// Marks a moment.
    try try_mark(msg: String) -> () { absent() }
    /// Begins a range within the innermost one.
    try try_range_push(msg: String) -> i64 { absent() }
    /// Ends the innermost range.
    try try_range_pop() -> i64 { absent() }
    /// Begins a range that ends anywhere.
    try try_range_start(msg: String) -> i64 { absent() }
    /// Ends it.
    try try_range_end(range_id: i64) -> () { absent() }
    /// A range around what follows.
    try try_range(msg: String) -> () { absent() }
} }
