//! Pickles alone, read, understood and written again.
#![no_main]

use flambeau_serialization::pickle;
use flambeau_serialization::torch_format::{ReadOptions, decode};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok((graph, root)) = pickle::load(data) {
        let options = ReadOptions { lenient: data.len().is_multiple_of(2), ..ReadOptions::default() };
        let _ = decode(&graph, root, &options);
        for protocol in 2..=5 {
            let _ = pickle::dump_with(&graph, root, protocol);
        }
    }
});
