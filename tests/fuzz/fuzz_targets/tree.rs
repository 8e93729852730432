//! Tensors, states of modules and structs with tensors in formats of serde: JSON, and one without names and types.
#![no_main]

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use torch::Tensor;
use torch::nn::StateDict;

#[derive(Serialize, Deserialize)]
struct Checkpoint {
    epoch: i32,
    best: Option<f64>,
    weight: Tensor,
    more: HashMap<String, Vec<Tensor>>,
}

fn again<T: Serialize + for<'a> Deserialize<'a>>(value: &T) {
    let text = serde_json::to_vec(value).expect("what was read is written");
    assert!(serde_json::from_slice::<T>(&text).is_ok(), "what was written is read: {}", text.escape_ascii());
    let bytes = postcard::to_stdvec(value).expect("what was read is written");
    assert!(postcard::from_bytes::<T>(&bytes).is_ok(), "what was written is read");
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind % 6 {
        0 => drop(serde_json::from_slice::<Tensor>(bytes).map(|t| again(&t))),
        1 => drop(postcard::from_bytes::<Tensor>(bytes).map(|t| again(&t))),
        2 => drop(serde_json::from_slice::<StateDict>(bytes).map(|t| again(&t))),
        3 => drop(postcard::from_bytes::<StateDict>(bytes).map(|t| again(&t))),
        4 => drop(serde_json::from_slice::<Checkpoint>(bytes).map(|t| again(&t))),
        _ => drop(postcard::from_bytes::<Checkpoint>(bytes).map(|t| again(&t))),
    }
});
