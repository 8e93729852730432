//! Operators as static objects with one slot per dispatch key.

pub mod diverted;
pub mod keys;
pub mod op;
pub mod registry;
pub mod tls;

pub use keys::{ALL_KEYS, KEYS, Key, KeySet};
pub use op::{AnyOp, BoxedFn, Op, OpInfo};
pub use registry::{CrateReg, register};
pub use tls::{ExcludeGuard, IncludeGuard};
