//! Functions of `torch` that no table row can describe: the facade re-exports them with the generated ones.

pub use crate::literal::{as_tensor, scalar_tensor, tensor, tensor_with, try_tensor};
pub use crate::print::{PrintOptions, Profile, get_printoptions, printoptions, set_printoptions};
pub use crate::regeometry::{from_file, frombuffer, try_from_file, try_frombuffer};
