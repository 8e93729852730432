//! Tensors as text, to the letter as PyTorch's `repr`.

mod cpp;
mod format;
mod options;
mod python;
mod repr;

pub use cpp::cpp_text;
pub use options::{Limits, PrintOptions, Profile, get_printoptions, printoptions, set_printoptions};
pub use python::{Argument, PyText, arguments, repr};
pub use repr::{assemble, elements, size_tuple, to_text};

/// A number's digits as Python's `format` writes them.
pub mod digits {
    pub use super::format::{fixed, sci};
}
