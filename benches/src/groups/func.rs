//! Function transforms: gradients of single samples, Jacobians, second derivatives.

use crate::input::{fill, ints};
use crate::row::Rows;
use torch::func;
use torch::nn::functional as F;
use torch::prelude::*;

/// Weights and biases, with values that are the same in every implementation.
fn parameters(sizes: &[&[i64]]) -> Vec<Tensor> {
    let one = |(i, s): (usize, &&[i64])| {
        let fan_in = *s.last().unwrap_or(&1) as f64;
        fill([s.iter().product()], 100 + i as u32).reshape(*s) / fan_in.sqrt()
    };
    sizes.iter().enumerate().map(one).collect()
}
fn mlp(p: &[Tensor], x: &Tensor) -> Tensor {
    let last = p.len() / 2 - 1;
    (0..=last).fold(x.clone(), |x, i| {
        let y = F::linear(&x, &p[2 * i], Some(&p[2 * i + 1]));
        if i == last { y } else { y.tanh() }
    })
}
fn cnn(p: &[Tensor], x: &Tensor) -> Tensor {
    let conv =
        |x: &Tensor, i: usize| F::conv2d_with(x, &p[i], F::Conv2dOptions::new().bias(&p[i + 1])).relu();
    let x = F::max_pool2d(&conv(&conv(x, 0), 2), 2);
    F::linear(&x.flatten(1, -1), &p[4], Some(&p[5]))
}
type Model = fn(&[Tensor], &Tensor) -> Tensor;
/// The gradients of each sample's loss, and that of the first weight as what is checked.
fn per_sample(model: Model, p: Vec<Tensor>, x: Tensor, target: Tensor) -> impl FnMut() -> Tensor {
    let data = (x, target);
    move || {
        let each = |(x, t): &(Tensor, Tensor)| {
            let loss = |p: &Vec<Tensor>| F::cross_entropy(&model(p, &x.unsqueeze(0)), &t.unsqueeze(0));
            func::grad(loss)(&p)
        };
        func::vmap(each)(&data)[0].clone()
    }
}

pub fn rows(r: &mut Rows) {
    r.add("func/per_sample_mlp", || {
        let p = parameters(&[&[256, 784], &[256], &[256, 256], &[256], &[10, 256], &[10]]);
        per_sample(mlp, p, fill([64, 784], 1), ints([64], 10, 2))
    });
    r.add("func/per_sample_cnn", || {
        let p = parameters(&[&[16, 1, 3, 3], &[16], &[32, 16, 3, 3], &[32], &[10, 32 * 144], &[10]]);
        per_sample(cnn, p, fill([32, 1, 28, 28], 1), ints([32], 10, 2))
    });
    r.add("func/jacrev_mlp", || {
        let (p, x) = (parameters(&[&[256, 128], &[256], &[64, 256], &[64]]), fill([128], 1));
        move || func::jacrev(|x: &Tensor| mlp(&p, x))(&x)
    });
    r.add("func/hessian_mlp", || {
        let (p, x) = (parameters(&[&[256, 64], &[256], &[1, 256], &[1]]), fill([64], 1));
        move || func::hessian(|x: &Tensor| mlp(&p, x).sum())(&x)
    });
}
