//! Blocks and sizes of images.

pub mod blocks;
pub mod resample;
