//! How operands of pointwise operators become one call: broadcasting, promotion, strides of the result, overlap. Nothing
//! here knows a device's memory.

pub mod layout;
pub mod overlap;
pub mod promotion;
pub mod spec;

pub use layout::{broadcast_all, common_device, output_strides};
pub use overlap::{check_no_internal_overlap, check_written, memory_meets, shared_memory};
pub use spec::{PointwiseSpec, Promote, Rare};
