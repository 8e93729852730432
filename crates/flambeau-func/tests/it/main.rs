//! Tests of the transforms.

mod functionalize;
mod second;
mod transforms;
