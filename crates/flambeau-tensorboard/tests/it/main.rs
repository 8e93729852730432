//! The tests of flambeau-tensorboard, in one binary.

mod events;
