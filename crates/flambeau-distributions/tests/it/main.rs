//! Distributions, transforms and constraints beside what mathematics says of them.

mod densities;
mod errors;
mod own;
mod transforms;
