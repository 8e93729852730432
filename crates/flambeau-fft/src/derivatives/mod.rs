//! Backward formulas that are longer than a line, by family.

pub mod short_time;
pub mod transform;
