//! Values, refusals and dtypes of the operators, a family a file. Expected numbers and texts are PyTorch's.

use flambeau_core::Tensor;

mod composed;
mod copy;
mod indexing;
mod linalg;
mod numeric;
mod pointwise;
mod quantize;
mod random;
mod scan;
mod sorting;
mod updates;
mod windows;

pub fn t(v: &[f64], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(v, sizes.to_vec())
}

pub fn near(got: &Tensor, want: &[f64]) {
    let got = got.to_vec::<f64>();
    assert_eq!(got.len(), want.len(), "{got:?}");
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() < 1e-6 || g == w || (g.is_nan() && w.is_nan()), "{got:?}, expected {want:?}");
    }
}

pub fn ints(v: &[i64]) -> Tensor {
    Tensor::from_slice(v, v.len() as i64)
}

pub fn floats(v: &[f32]) -> Tensor {
    Tensor::from_slice(v, [v.len()])
}
