//! Copies: between layouts whose contiguous dimensions differ, and between dtypes.

pub mod cast;
pub mod transpose;
