//! What a back end from outside the library can count on, on the device `vault`: memory that nobody has a pointer into, and
//! kernels that run later than they are called.
#![forbid(unsafe_code)]

mod memory;
mod training;

use flambeau_private_backend::READS;
use std::sync::atomic::Ordering;
use torch::prelude::*;

pub fn vault() -> torch::Device {
    torch::Device::parse("vault").unwrap()
}
/// Numbers without a pattern.
pub fn numbers(sizes: &[i64]) -> Tensor {
    let n = sizes.iter().product::<i64>();
    let v: Vec<f32> = (0..n).map(|i| ((i as f32 + 1.3) * 0.7).sin() + 0.05).collect();
    torch::tensor(v.as_slice()).reshape(sizes)
}
pub fn floats(t: &Tensor) -> Vec<f32> {
    t.detach().reshape([-1]).to_vec::<f32>()
}
/// Equal within `tol`, and on the vault.
pub fn agree(what: &str, there: &Tensor, here: &Tensor, tol: f32) {
    assert_eq!(there.device().to_string(), "vault:0", "{what}");
    assert_eq!(there.sizes(), here.sizes(), "{what}");
    for (a, b) in floats(there).iter().zip(floats(here)) {
        assert!((a - b).abs() <= tol * b.abs().max(1.0), "{what}: {a} {b}");
    }
}
/// How often the host has read the vault's memory.
pub fn reads() -> usize {
    READS.load(Ordering::Relaxed)
}
