//! The tests of flambeau-memory, in one binary; under `--cfg loom` the models of the lock alone.

#[cfg(not(loom))]
mod deadlock;
#[cfg(not(loom))]
mod figures;
#[cfg(not(loom))]
mod lock;
#[cfg(loom)]
mod loom;
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
mod shared;
#[cfg(not(loom))]
mod speed;
mod take;
#[cfg(not(loom))]
mod turn;
