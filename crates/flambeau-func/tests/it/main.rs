//! Tests of the transforms.

mod functionalize;
mod transforms;
