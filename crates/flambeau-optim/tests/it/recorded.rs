//! Recorded (differentiable) steps: the fused ones, with gradients through them.

use crate::{Kwargs, complex, floats, make, near, numbers, recording};
use flambeau_core::{Tensor, Value};

#[test]
fn recorded_steps_are_the_fused_ones() {
    for (class, kwargs) in recording() {
        for is_complex in [false, true] {
            let tensor = |seed: f64| {
                let v = numbers(if is_complex { 12 } else { 6 }, seed);
                if is_complex { complex(&v, &[2, 3]) } else { Tensor::from_slice(&v, [2, 3]) }
            };
            let (fused, start) = (tensor(0.7), tensor(0.7));
            start.requires_grad_(true);
            let recorded = &start * 1.0;
            let a = make(class, std::slice::from_ref(&fused), &kwargs, &[]).unwrap();
            let more = [("differentiable", Value::Bool(true))];
            let b = make(class, std::slice::from_ref(&recorded), &kwargs, &more).unwrap();
            for step in 0..4 {
                let g = tensor(1.1 + step as f64 * 0.3);
                fused.set_grad(Some(g.copy()));
                recorded.set_grad(Some(g));
                a.method("step", &[], &[]).unwrap();
                b.method("step", &[], &[]).unwrap();
            }
            near(&format!("{class} {kwargs:?}"), &floats(&recorded), &floats(&fused), 1e-12);
            assert!(recorded.requires_grad() && !recorded.is_leaf(), "{class}");
        }
    }
}

/// The sum of the parameters after three steps, as a function of start, gradients and learning rate.
fn through(class: &str, kwargs: &Kwargs, x: &[Tensor]) -> Tensor {
    let p = &x[0] * 1.0;
    let more = [("differentiable", Value::Bool(true)), ("lr", Value::Tensor(x[2].clone()))];
    let kwargs = kwargs.iter().filter(|(k, _)| *k != "lr").cloned().collect();
    let o = make(class, std::slice::from_ref(&p), &kwargs, &more).unwrap();
    for step in 0..3 {
        p.set_grad(Some(&x[1] * (1.0 + step as f64 * 0.5)));
        o.method("step", &[], &[]).unwrap();
    }
    (&p * Tensor::from_slice(&numbers(6, 2.3), [2, 3])).sum()
}

#[test]
fn gradients_go_through_steps() {
    for (class, kwargs) in recording() {
        let inputs = || {
            [
                Tensor::from_slice(&numbers(6, 0.7), [2, 3]),
                Tensor::from_slice(&numbers(6, 1.1), [2, 3]),
                Tensor::from_slice(&[0.05f64], ()),
            ]
        };
        let x = inputs();
        x.iter().for_each(|t| {
            t.requires_grad_(true);
        });
        through(class, &kwargs, &x).backward();
        // the first momentum buffer is a copy of the gradient that nothing goes through, in PyTorch too
        let detached = kwargs.iter().any(|(k, _)| *k == "momentum") && class == "SGD";
        for (which, t) in x.iter().enumerate().skip(if detached { 2 } else { 0 }) {
            // the steps of Rprop and ASGD take the learning rate as a number, and so PyTorch records none
            let Some(got) = t.grad() else {
                assert!(matches!(class, "Rprop" | "ASGD"), "{class}: no gradient of input {which}");
                continue;
            };
            for (i, got) in floats(&got).iter().enumerate() {
                let at = |by: f64| {
                    let y = inputs();
                    let mut v = floats(&y[which]);
                    v[i] += by;
                    let sizes = y[which].sizes().to_vec();
                    let mut y = y;
                    y[which] = Tensor::from_slice(&v, sizes);
                    through(class, &kwargs, &y).item::<f64>()
                };
                let want = (at(1e-6) - at(-1e-6)) / 2e-6;
                assert!(
                    (got - want).abs() < 1e-5 * want.abs().max(1.0),
                    "{class} {kwargs:?} {which} {i}: {got} {want}"
                );
            }
        }
    }
}
