//! Runs recorded calls of PyTorch against Flambeau by name, and compares.
//!
//! | module | what |
//! |---|---|
//! | [`store`] | a file's tensors, read without Flambeau's own readers |
//! | [`decode`] | JSON values to arguments |
//! | [`device`] | where the calls run |
//! | [`elements`], [`compare`] | results against records |
//! | [`expr`] | the small expressions of invariants and printed objects |
//! | [`families`] | one runner per folder of a set |
//! | [`distributed`] | jobs of several ranks, one runner per section |
//! | [`script`] | cases that are small programs |
//! | [`worker`] | processes that run files, and what becomes of their crashes |
//! | [`report`] | totals, the work list, the committed record |
//! | [`sample`] | the small copy of a set that the repository holds |
//!
//! Nothing here knows an operator or a case by name.

// not `forbid`: sharing memory between processes takes a promise (distributed/local/processes.rs)
#![deny(unsafe_code)]

pub mod compare;
pub mod decode;
pub mod device;
pub mod distributed;
pub mod elements;
pub mod expr;
pub mod families;
pub mod report;
pub mod sample;
pub mod script;
pub mod store;
pub mod worker;

// the whole library, linked for its registrations
use torch as _;
// the device `vault`
use flambeau_private_backend as _;
