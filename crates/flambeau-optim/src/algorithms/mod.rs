//! The documented optimizers.

mod adadelta;
mod adafactor;
mod adagrad;
mod adam;
mod adamax;
mod asgd;
mod lbfgs;
mod muon;
mod nadam;
mod radam;
mod rmsprop;
mod rprop;
mod sgd;
mod sparse_adam;

pub use adadelta::{Adadelta, AdadeltaOptions};
pub use adafactor::{Adafactor, AdafactorEps, AdafactorOptions};
pub use adagrad::{Adagrad, AdagradOptions};
pub use adam::{Adam, AdamOptions, AdamW, AdamWOptions};
pub use adamax::{Adamax, AdamaxOptions};
pub use asgd::{ASGD, ASGDOptions};
pub use lbfgs::{LBFGS, LBFGSOptions};
pub use muon::{Coefficients, Muon, MuonOptions};
pub use nadam::{NAdam, NAdamOptions};
pub use radam::{RAdam, RAdamOptions};
pub use rmsprop::{RMSprop, RMSpropOptions};
pub use rprop::{Rprop, RpropOptions};
pub use sgd::{SGD, SGDOptions};
pub use sparse_adam::{SparseAdam, SparseAdamOptions};
