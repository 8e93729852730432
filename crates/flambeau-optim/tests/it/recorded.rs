//! Recorded (differentiable) steps: the fused ones, with gradients through them.

use crate::{Kwargs, complex, floats, make, near, numbers, recording};
use flambeau_core::{DType, Tensor, Value};

/// Over dtypes, options, one parameter and lists of several sizes, with and without `foreach`.
#[test]
fn recorded_steps_are_the_fused_ones() {
    let kinds = [
        (DType::F64, false, 1e-12),
        (DType::F64, true, 1e-12),
        (DType::F32, false, 1e-5),
        (DType::F32, true, 1e-5),
        // each operator of the record rounds to the half type, the fused step once; float16 has no eps of 1e-8
        (DType::BF16, false, 1e-1),
    ];
    for (class, kwargs) in recording() {
        for (dtype, is_complex, tol) in kinds {
            let half = dtype == DType::BF16;
            // the others follow signs, or differences of numbers that are nearly equal
            if half && !matches!(class, "SGD" | "Adam" | "AdamW" | "Adamax" | "NAdam" | "Adagrad") {
                continue;
            }
            let tensor = |seed: f64, [a, b]: [i64; 2]| {
                let v = numbers((a * b) as usize * (1 + is_complex as usize), seed);
                match (is_complex, dtype) {
                    (false, d) => Tensor::from_slice(&v, [a, b]).to(d),
                    (true, DType::F32) => complex(&v, &[a, b]).to(DType::C64),
                    (true, _) => complex(&v, &[a, b]),
                }
            };
            for sizes in [&[[2, 3]][..], &[[2, 3], [1, 1], [5, 20]]] {
                let all = |seed: f64| sizes.iter().map(|s| tensor(seed, *s)).collect::<Vec<_>>();
                let (fused, start) = (all(0.7), all(0.7));
                let recorded: Vec<Tensor> = start.iter().map(|t| t.requires_grad_(true) * 1.0).collect();
                let a = make(class, &fused, &kwargs, &[("foreach", Value::Bool(sizes.len() > 1))]).unwrap();
                let b = make(class, &recorded, &kwargs, &[("differentiable", Value::Bool(true))]).unwrap();
                for step in 0..4 {
                    for ((f, r), g) in fused.iter().zip(&recorded).zip(all(1.1 + step as f64 * 0.3)) {
                        f.set_grad(Some(g.copy()));
                        r.set_grad(Some(g));
                    }
                    a.method("step", &[], &[]).unwrap();
                    b.method("step", &[], &[]).unwrap();
                }
                for (f, r) in fused.iter().zip(&recorded) {
                    let wide = |t: &Tensor| floats(&if half { t.to(DType::F64) } else { t.clone() });
                    near(&format!("{class} {kwargs:?} {dtype} {sizes:?}"), &wide(r), &wide(f), tol);
                    assert!(r.requires_grad() && !r.is_leaf(), "{class}");
                }
            }
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
