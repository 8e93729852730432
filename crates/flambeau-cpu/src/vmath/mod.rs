//! Vector math: elementary functions as plain arithmetic without branches, so that the loops around them vectorise.
//! [`single`] is f32, [`double`] f64; every function is generic over the instruction set for its fused multiply-adds.

pub mod double;
mod rare;
pub mod single;

#[cfg(test)]
mod tests;
