//! The header of safetensors files.
#![no_main]

use flambeau_serialization::safetensors::read_header;
use std::io::Cursor;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = read_header(&mut Cursor::new(data));
});
