//! The tests of flambeau-fft, in one binary.

mod table;
mod values;
