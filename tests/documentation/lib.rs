//! Examples of the crates' documentation, tested in one program.
//!
//! They are written as programs write: against the facade, `torch`. The crates below the facade cannot depend on it without
//! building the whole library for their own tests, so build.rs collects their examples here. An example's test carries the
//! name of its file and its line.
#![cfg_attr(not(doctest), allow(unused))]

#[cfg(doctest)]
include!(concat!(env!("OUT_DIR"), "/examples.rs"));
