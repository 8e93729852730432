//! Tests of mixed precision.

mod regions;
mod scaler;
mod training;
