//! The tests of flambeau-linalg, in one binary.

mod errors;
mod gradients;
mod legacy;
mod table;
mod values;

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Tensor, functions as torch, ops as core};

/// Numbers of both signs, the same each time.
pub fn sample(sizes: &[i64], seed: u64, d: DType) -> Tensor {
    let n: i64 = sizes.iter().product();
    let mut s = seed * 977 + 13;
    let mut next = || {
        s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (s >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    };
    let mut real = || Tensor::from_vec_raw((0..n).map(|_| next()).collect::<Vec<f64>>(), sizes).unwrap();
    let t = if d.is_complex() { core::complex(&real(), &real()).unwrap() } else { real() };
    t.to(d)
}
pub fn mh(a: &Tensor) -> Tensor {
    let a = if a.is_complex() { core::conj(a).unwrap() } else { a.clone() };
    core::transpose(&a, -2, -1).unwrap()
}
/// Hermitian, positive definite.
pub fn definite(sizes: &[i64], seed: u64, d: DType) -> Tensor {
    let a = sample(sizes, seed, d);
    let n = sizes[sizes.len() - 1];
    core::add(&core::matmul(&a, &mh(&a)).unwrap(), &torch::eye(n).to(d), 1.into()).unwrap()
}
pub fn tolerance(d: DType) -> f64 {
    if matches!(d, DType::F32 | DType::C64) { 2e-4 } else { 1e-10 }
}
#[track_caller]
pub fn close(a: &Tensor, b: &Tensor) {
    assert_eq!(a.sizes(), b.sizes());
    assert_eq!(a.dtype(), b.dtype());
    let t = tolerance(a.dtype());
    assert!(core::allclose(a, b, t, t, false).unwrap(), "{a} is not {b}");
}
#[track_caller]
pub fn error<T>(r: Result<T>) -> String {
    match r {
        Ok(_) => panic!("no error"),
        Err(e) => e.message().to_string(),
    }
}
pub const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::C64, DType::C128];
