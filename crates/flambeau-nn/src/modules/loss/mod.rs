//! Losses: modules of a prediction and a target. `criterion.forward(&output, &target)`, or with hooks
//! `criterion.call(&output, &target)`.

mod classification;
mod linear_cross_entropy;
mod margin;
mod regression;
mod triplet;

pub use classification::*;
pub use linear_cross_entropy::{
    LinearCrossEntropyLoss, LinearCrossEntropyLossOptions, LinearCrossEntropyOptions,
};
pub use margin::*;
pub use regression::*;
pub use triplet::{Distance, TripletMarginWithDistanceLoss, TripletMarginWithDistanceLossOptions};
