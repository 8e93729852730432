//! What recording and backward cost: nanoseconds per call, the smallest of many rounds.

use flambeau_autograd::no_grad;
use flambeau_core::{Result, Tensor, ops};
use std::hint::black_box;
use std::time::Instant;

fn best(rounds: usize, calls: usize, mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let t = Instant::now();
        for _ in 0..calls {
            f()?;
        }
        best = best.min(t.elapsed().as_nanos() as f64 / calls as f64);
    }
    Ok(best)
}

fn main() -> Result<()> {
    let x = Tensor::from_slice(&[1.0f32], [1]).requires_grad_(true);
    let y = Tensor::from_slice(&[2.0f32], [1]);
    let z = ops::mul(&x, &y)?;
    let add = |a: &Tensor| ops::add(a, black_box(&y), 1.into()).map(|t| drop(black_box(t)));
    let mul = |a: &Tensor| ops::mul(a, black_box(&y)).map(|t| drop(black_box(t)));
    println!("add, plain inputs        {:6.0} ns", best(50, 10_000, || add(&y))?);
    println!("add, no_grad             {:6.0} ns", best(50, 10_000, || no_grad(|| add(&z)))?);
    println!("add, recorded            {:6.0} ns", best(50, 10_000, || add(&z))?);
    println!("add, recorded on a leaf  {:6.0} ns", best(50, 10_000, || add(&x))?);
    println!("mul, recorded            {:6.0} ns", best(50, 10_000, || mul(&z))?);
    println!("view, recorded           {:6.0} ns", best(50, 10_000, || ops::view(&z, &[1, 1]).map(drop))?);
    let chain = || -> Result<Tensor> {
        let mut t = ops::mul(&x, &y)?;
        for _ in 0..9 {
            t = ops::mul(&t, &y)?;
        }
        Ok(t)
    };
    println!("chain of 10, forward     {:6.0} ns", best(50, 1_000, || chain().map(drop))?);
    println!("chain of 10, and backward{:6.0} ns", best(50, 1_000, || chain().map(|t| t.backward()))?);
    Ok(())
}
