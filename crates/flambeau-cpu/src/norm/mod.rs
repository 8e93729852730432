//! Normalisation: over channels ([`batch`]) and over rows ([`layer`]).

pub mod batch;
pub mod erased;
pub mod layer;
