//! Reductions, softmax, normalisation, scans.

use crate::input::{fill, leaf};
use crate::row::{Output, Rows, forward_backward};
use torch::nn::functional as F;
use torch::prelude::*;

const SIZES: [i64; 2] = [4096, 1024];

fn one<T: Output + 'static>(r: &mut Rows, name: &str, f: impl Fn(&Tensor) -> T + Copy + 'static) {
    r.add(format!("reduce/{name}"), move || {
        let x = fill(SIZES, 1);
        move || f(&x)
    });
}

pub fn rows(r: &mut Rows) {
    one(r, "sum_all", |x| x.sum());
    one(r, "sum_dim0", |x| x.sum_dim(0, false));
    one(r, "sum_dim1", |x| x.sum_dim(1, false));
    one(r, "mean_all", |x| x.mean());
    one(r, "mean_dim0", |x| x.mean_dim(0, false));
    one(r, "mean_dim1", |x| x.mean_dim(1, false));
    one(r, "max_all", |x| x.max());
    one(r, "max_dim0", |x| <(Tensor, Tensor)>::from(x.max_dim(0, false)));
    one(r, "max_dim1", |x| <(Tensor, Tensor)>::from(x.max_dim(1, false)));
    one(r, "argmax_all", |x| x.argmax());
    one(r, "argmax_dim0", |x| x.argmax_dim(0, false));
    one(r, "argmax_dim1", |x| x.argmax_dim(1, false));
    one(r, "var_all", |x| x.var());
    one(r, "var_dim0", |x| x.var_dim(0, false));
    one(r, "var_dim1", |x| x.var_dim(1, false));
    one(r, "softmax", |x| x.softmax(-1));
    one(r, "log_softmax", |x| x.log_softmax(-1));
    one(r, "cumsum", |x| x.cumsum(1));
    one(r, "norm", torch::linalg::vector_norm);
    r.add("reduce/softmax_fb", || {
        let x = leaf(SIZES, 1);
        forward_backward(vec![x.clone()], move || x.softmax(-1))
    });
    r.add("reduce/layer_norm", || {
        let (x, w, b) = (fill(SIZES, 1), fill([1024], 2), fill([1024], 3));
        move || F::layer_norm(&x, 1024, Some(&w), Some(&b))
    });
    r.add("reduce/layer_norm_fb", || {
        let (x, w, b) = (leaf(SIZES, 1), leaf([1024], 2), leaf([1024], 3));
        forward_backward(vec![x.clone(), w.clone(), b.clone()], move || {
            F::layer_norm(&x, 1024, Some(&w), Some(&b))
        })
    });
}
