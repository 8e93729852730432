//! Sorting, selecting, joining.

use crate::input::{fill, ints, leaf, mask};
use crate::row::{Rows, forward_backward};
use torch::nn::functional as F;
use torch::prelude::*;

pub fn rows(r: &mut Rows) {
    r.add("index/sort_1e6", || {
        let x = fill([1_000_000], 1);
        move || <(Tensor, Tensor)>::from(x.sort(-1, false))
    });
    r.add("index/sort_rows", || {
        let x = fill([1000, 1000], 1);
        move || <(Tensor, Tensor)>::from(x.sort(-1, false))
    });
    r.add("index/argsort_i64", || {
        let x = ints([1_000_000], 1 << 24, 1);
        move || x.argsort(-1, false)
    });
    r.add("index/topk_1e6", || {
        let x = fill([1_000_000], 1);
        move || <(Tensor, Tensor)>::from(x.topk(100, -1))
    });
    r.add("index/topk_rows", || {
        let x = fill([64, 32_000], 1);
        move || <(Tensor, Tensor)>::from(x.topk(50, -1))
    });
    r.add("index/index_select", || {
        let (x, i) = (fill([100_000, 64], 1), ints([65_536], 100_000, 2));
        move || x.index_select(0, &i)
    });
    r.add("index/gather", || {
        let (x, i) = (fill([4096, 1024], 1), ints([4096, 256], 1024, 2));
        move || x.gather(1, &i)
    });
    r.add("index/scatter_add", || {
        let (i, s) = (ints([4096, 1024], 1024, 2), fill([4096, 1024], 1));
        move || torch::zeros([4096, 1024]).scatter_add_(1, &i, &s).clone()
    });
    r.add("index/embedding", || {
        let (w, i) = (fill([50_000, 256], 1), ints([32, 128], 50_000, 2));
        move || F::embedding(&i, &w)
    });
    r.add("index/embedding_fb", || {
        let (w, i) = (leaf([50_000, 256], 1), ints([32, 128], 50_000, 2));
        forward_backward(vec![w.clone()], move || F::embedding(&i, &w))
    });
    r.add("index/cat_dim0", || {
        let all: Vec<Tensor> = (1..=8).map(|s| fill([512, 1024], s)).collect();
        move || torch::cat(&all, 0)
    });
    r.add("index/cat_dim1", || {
        let all: Vec<Tensor> = (1..=8).map(|s| fill([1024, 512], s)).collect();
        move || torch::cat(&all, 1)
    });
    r.add("index/nonzero", || {
        let m = mask([4_194_304], 1);
        move || m.nonzero()
    });
    r.add("index/masked_select", || {
        let (x, m) = (fill([4_194_304], 1), mask([4_194_304], 2));
        move || x.masked_select(&m)
    });
    r.by_name("index/unique", "torch.unique", || vec![ints([1_000_000], 10_000, 1).into()]);
}
