//! Processes that compute together: stores, groups and collectives.

mod checks;
mod ddp;
mod groups;
mod launch;
mod store;
mod training;
