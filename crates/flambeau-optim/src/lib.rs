//! Optimizers and learning rate schedules.
//!
//! ```
//! use flambeau_core::Tensor;
//! use flambeau_nn::Parameter;
//! use flambeau_optim::{Optimizer, SGDOptions};
//!
//! let w = Parameter::new(Tensor::from_slice(&[1f32, -2.0], 2));
//! let mut optimizer = SGDOptions::new().lr(0.1).momentum(0.9).build([&w]);
//! w.set_grad(Some(Tensor::from_slice(&[1f32, 1.0], 2)));
//! optimizer.step();
//! optimizer.zero_grad();
//! assert_eq!(w.to_vec::<f32>(), [0.9, -2.1]);
//! assert!(w.grad().is_none());
//! ```
#![forbid(unsafe_code)]

mod adam;
pub mod by_name;
mod group;
mod kernel;
pub mod lr_scheduler;
mod optimizer;
mod saved;
mod sgd;

pub use adam::{Adam, AdamOptions, AdamW, AdamWOptions};
pub use group::{ParamGroup, State};
pub use optimizer::{Algorithm, Optim, Optimizer};
pub use sgd::{SGD, SGDOptions};
