//! Vector math: elementary functions as plain arithmetic without branches, so that the loops around them vectorise.
//! [`single`] is f32, [`double`] f64; every function is generic over the instruction set for its fused multiply-adds. `wide` has the few
//! for which AVX-512 has something better than arithmetic.

pub mod double;
mod rare;
pub mod single;
pub(crate) mod wide;

#[cfg(test)]
mod tests;
