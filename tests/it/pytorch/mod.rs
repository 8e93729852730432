//! Beside a live PyTorch, where there is one (`FLAMBEAU_PYTHON`, or python3); without it the tests say that they were
//! skipped, or end where it is needed.

mod checkpoints;
mod computed_weights;
mod digits;
mod indexing;
mod language_model;
mod optimizers;
mod random_state;
pub(crate) mod resnet;
mod transformers;
