//! The tests of flambeau-cpu's kernels, in one binary: a family a file, against naive models.

mod attention;
mod blas;
mod cast;
mod index;
mod optim;
mod pointwise;
mod reduce;
mod rnn;
mod scan;
mod softmax;
mod sort;
mod soundness;
mod speed;

/// Numbers that look random and are the same in every run.
pub struct Rng(u64);
impl Rng {
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 20) as usize % n.max(1)
    }
    pub fn f(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}
pub fn close(a: f64, b: f64, tol: f64) {
    assert!((a - b).abs() <= tol * (1.0 + b.abs()) || a == b || (a.is_nan() && b.is_nan()), "{a} vs {b}");
}
pub const SHAPES: [(usize, usize, usize); 8] =
    [(1, 1, 1), (3, 0, 2), (5, 40, 1), (300, 129, 1), (2, 37, 70), (1, 1000, 3), (4, 1, 9), (1, 5000, 1)];
