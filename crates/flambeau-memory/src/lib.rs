//! What every storage stands on: a caching allocator for CPU memory and the lock that makes shared element data sound.
//!
//! | module | what |
//! |---|---|
//! | [`pool`] | thread-local size classes, warm large mappings, statistics |
//! | [`shared`] | counted handles on values in the pool |
//! | [`lock`] | the one-word storage lock with its version counter, and [`Holds`] for several locks at once |
//! | [`turn`] | work that one thread does at a time while the others wait for its end |
//! | [`scarce`] | for tests: an allocator that refuses |
//!
//! The lock's word and the turn have loom models (`tests/loom.rs`), run by
//! `RUSTFLAGS="--cfg loom" cargo test --release -p flambeau-memory loom`.
//! `FLAMBEAU_POOL=off` gives each block its own system allocation of exactly its length, for AddressSanitizer and
//! valgrind.

pub mod lock;
pub mod pool;
pub mod scarce;
pub mod shared;
pub mod turn;

pub use lock::{Busy, Few, Holds, Open, StorageLock};
pub use pool::{Block, PoolStats};
pub use shared::{Begun, Headed, Shared, Slot, arc_with};
