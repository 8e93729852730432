//! Processes that compute together: stores, groups and collectives.

mod ddp;
mod groups;
mod launch;
mod store;
