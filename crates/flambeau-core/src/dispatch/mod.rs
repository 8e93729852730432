//! Operators as static objects with one slot per dispatch key, the values of boxed calls, and what stands between a call
//! and its kernel.

mod apart;
pub mod arguments;
pub mod autocast;
pub mod convention;
pub mod custom;
mod definition;
pub mod diverted;
mod inferred;
pub mod names;
pub mod object;
#[allow(unsafe_code)]
pub mod op;
pub mod overrides;
pub(crate) mod parts;
pub mod registry;
mod results;
pub mod stand_in;
pub mod value;
mod value_parts;
pub mod watch;
pub mod wrapper;

pub use crate::types::keys::{ALL_KEYS, KEYS, Key, KeySet};
pub use op::{AnyOp, BoxedFn, Op, OpInfo};
pub use registry::{CrateReg, register};
