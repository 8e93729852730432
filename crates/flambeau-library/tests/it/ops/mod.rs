//! Values, refusals and dtypes of operators that are called by name, a family a file.

use flambeau_core::{Result, Tensor, Value};
use flambeau_library as library;

mod blas;
mod composed;
mod creation;
mod foreach;
mod linalg;
mod random;
mod sorting;
mod special;
mod views;
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

pub fn call(name: &str, args: &[Value], kwargs: &[(&str, Value)]) -> Result<Tensor> {
    let kwargs: Vec<_> = kwargs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
    let r = library::call(name, args, &kwargs)?;
    match r.first() {
        Some(Value::Tensor(t)) => Ok(t.clone()),
        other => panic!("{name} gave {other:?}"),
    }
}

pub fn of(t: &Tensor) -> Value {
    Value::Tensor(t.clone())
}

pub fn floats(v: &[f32]) -> Tensor {
    Tensor::from_slice(v, [v.len()])
}
