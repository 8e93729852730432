//! Whole checkpoints, zip and legacy. Seeds: crates/flambeau-serialization/tests/data.
#![no_main]

use flambeau_serialization::tensors::{LoadOptions, load_from};
use std::io::Cursor;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let options = LoadOptions::new().map_location("cpu").weights_only(data.len().is_multiple_of(2));
    let _ = load_from(Cursor::new(data), options);
});
