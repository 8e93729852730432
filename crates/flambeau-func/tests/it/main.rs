//! Tests of the transforms.

mod transforms;
