//! Linear layers: products, to which the bias is added before they are rounded.

use super::blas::{added, product};
use super::by_the_cpu;
use super::dense::dense;
use flambeau_core::types::keys::Key;
use flambeau_core::{Result, Scalar, Tensor, ops};
use flambeau_nn_functional::generated::{args, linear as rows};

/// The input as rows, the weight's columns, and the output as rows.
fn matrices(a: &args::Linear, out: &Tensor) -> Result<[Tensor; 3]> {
    let k = a.input.sizes().last().copied().unwrap_or(1);
    let n = if a.weight.dim() == 2 { a.weight.sizes()[0] } else { 1 };
    let m = out.numel() / n;
    let x = if a.input.dim() == 2 { a.input.clone() } else { ops::view(&dense(a.input)?, &[m, k])? };
    let w = if a.weight.dim() == 2 { a.weight.clone() } else { ops::view(&dense(a.weight)?, &[1, k])? };
    Ok([x, ops::t(&w)?, ops::view(out, &[m, n])?])
}
fn linear(a: &args::Linear, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    if a.input.numel() == 0 {
        return match a.bias {
            Some(b) => ops::copy_(out, b, false),
            None => ops::zero_(out),
        };
    }
    let [x, w, y] = matrices(a, out)?;
    let done = match a.bias {
        None => product(&x, &w, &y)?,
        Some(b) => {
            let n = y.sizes()[1];
            let line = b.sizes() == [n] || b.numel() == 1 && b.dim() <= 1;
            let b = match line {
                true => b.clone(),
                // one that differs from row to row
                false => ops::reshape(&ops::expand(b, out.sizes(), false)?, y.sizes())?,
            };
            added(&x, &w, &b, [Scalar::Int(1), Scalar::Int(1)], &y)?
        }
    };
    if done {
        return Ok(());
    }
    let all: Vec<&Tensor> = [a.input, a.weight].into_iter().chain(a.bias).collect();
    by_the_cpu("linear", &all, out, |t| flambeau_nn_functional::ops::linear(&t[0], &t[1], t.get(2)))
}

/// Fills the row's table.
pub(crate) fn register() {
    rows::LINEAR_KERNEL.register(Key::Cuda, linear);
}
