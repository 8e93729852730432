//! The tensor: its handle, geometry, storage, the parts of a sparse one, the rule
//! of a quantized one, its place in a gradient graph, and the
//! generators, whose states are tensors.

pub mod arena;
pub mod generator;
pub mod geometry;
#[allow(unsafe_code)]
pub mod graph;
#[allow(unsafe_code)]
pub mod guards;
pub mod handle;
pub mod quantized;
pub mod sparse;
#[allow(unsafe_code)]
pub mod storage;
pub mod wrapped_number;
pub mod wrapper;
