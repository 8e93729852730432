//! The tests of flambeau-nn, in one binary. What changes or counts on the whole process begins with `alone!()`.

mod attention;
mod calls;
mod containers;
mod copies;
mod hooks;
mod layers;
mod lazy;
mod lists;
mod members;
mod module;
mod parametrize;
mod prune;
mod recurrent;
mod soundness;
mod utils;
mod values;

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Result, Tensor, ops};
use std::sync::{Arc, Mutex};

pub fn t(v: &[f32], sizes: &[i64]) -> Tensor {
    Tensor::from_vec_raw(v.to_vec(), sizes).unwrap()
}
pub fn log() -> (Arc<Mutex<Vec<String>>>, impl Fn(&str) + Clone + Send + Sync) {
    let all = Arc::new(Mutex::new(Vec::new()));
    let to = all.clone();
    (all, move |s: &str| to.lock().unwrap().push(s.to_owned()))
}
pub fn taken(l: &Arc<Mutex<Vec<String>>>) -> Vec<String> {
    std::mem::take(&mut l.lock().unwrap())
}
pub fn text<T>(r: Result<T>) -> String {
    match r {
        Ok(_) => panic!("an error was expected"),
        Err(e) => e.message().to_owned(),
    }
}
pub fn values(t: &Tensor) -> Vec<f32> {
    t.to_vec::<f32>()
}
pub fn randn(sizes: &[i64]) -> Tensor {
    ops::randn(sizes, None, None, None, None, None).unwrap()
}
pub fn full(sizes: &[i64], v: f32) -> Tensor {
    Tensor::from_slice(&vec![v; sizes.iter().product::<i64>() as usize], sizes)
}
pub fn ints(v: &[i64], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(v, sizes)
}
pub fn close(a: &Tensor, b: &Tensor) {
    let (a, b): (Vec<f64>, Vec<f64>) = (a.to_vec(), b.to_vec());
    assert_eq!(a.len(), b.len());
    for (x, y) in a.iter().zip(&b) {
        assert!((x - y).abs() <= 1e-5 * (1.0 + y.abs()), "{x} and {y}");
    }
}
