//! npy arrays.
#![no_main]

use flambeau_serialization::tensors::read_npy;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = read_npy(data, data.len() as u64);
});
