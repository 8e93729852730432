//! Python's pickle format: [`load`] reads protocols 0 to 5, [`dump`] writes protocol 2 as CPython does, [`dump_with`] 2 to 5.
//!
//! Nothing is executed: globals, calls and persistent ids stay data. Values live in a [`Graph`], an arena
//! addressed by [`Id`], so that shared and cyclic references need no reference counting and that dropping
//! or printing a hostile, deeply nested value cannot overflow the stack.

mod bigint;
mod read;
mod value;
mod write;

pub(crate) use bigint::trim;
pub use read::{load, load_prefix};
pub use value::{Graph, Id, ObjectValue, Value};
pub use write::{DEFAULT_PROTOCOL, dump, dump_with};
