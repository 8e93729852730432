//! Optimizers of models that several ranks train (`torch.distributed.optim`), and averages of their parameters
//! (`torch.distributed.algorithms.model_averaging`).

mod averagers;
mod local;
mod zero;

pub use averagers::{HierarchicalModelAverager, ModelAverager, PeriodicModelAverager};
pub use local::PostLocalSGDOptimizer;
pub use zero::{ZeroRedundancyOptimizer, ZeroRedundancyOptions};
