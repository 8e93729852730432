//! Conversions between element types.

mod pairs;

pub use pairs::cast_loop;
