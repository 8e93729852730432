//! Gradients at NaN and other odd places, as PyTorch 2.15 has them.

use flambeau_autograd as _;
use flambeau_core::tensor::graph;
use flambeau_core::{Result, Tensor, Value};
use flambeau_library as library;

/// The gradient of the sum of a call's result.
fn gradient(x: &[f32], sizes: &[i64], f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Vec<f32> {
    let x = Tensor::from_slice(x, sizes);
    let engine = graph::engine().unwrap();
    (engine.set_requires_grad)(&x, true).unwrap();
    let y = flambeau_core::ops::sum(&f(&x).unwrap(), None, false, None).unwrap();
    (engine.backward)(&y, None, None, false, Some(&[x.clone()])).unwrap();
    (engine.grad)(&x).unwrap().to_vec::<f32>()
}
fn call(name: &str, args: &[Value]) -> Result<Tensor> {
    match library::call(name, args, &[])?.first() {
        Some(Value::Tensor(t)) => Ok(t.clone()),
        other => panic!("{name} gave {other:?}"),
    }
}
fn of(t: &Tensor) -> Value {
    Value::Tensor(t.clone())
}

#[test]
fn extremes_of_nan() {
    let x = [1.0, f32::NAN, 2.0];
    let g = gradient(&x, &[3], |x| call("torch.amax", &[of(x), Value::Int(0)]));
    assert!(g.iter().all(|v| v.is_nan()), "{g:?}");
    // over all elements the NaNs take the gradient
    assert_eq!(gradient(&x, &[3], |x| call("torch.max", &[of(x)])), [0.0, 1.0, 0.0]);
}

#[test]
fn slices_that_renorm_leaves_alone_keep_their_gradient() {
    let x = [3.0, 4.0, f32::NAN, 1.0, 0.1, 0.1];
    let g = gradient(&x, &[3, 2], |x| {
        call("torch.renorm", &[of(x), Value::Int(2), Value::Int(0), Value::Float(1.0)])
    });
    assert_eq!(g[2..], [1.0, 1.0, 1.0, 1.0]);
    for (got, want) in g.iter().zip([0.032, -0.024]) {
        assert!((got - want).abs() < 1e-6, "{g:?}");
    }
}

#[test]
fn as_strided_scatter_has_the_gradient_that_pytorch_defines() {
    let g = gradient(&[1.0, 2.0, 3.0, 4.0], &[4], |x| {
        let src = Tensor::from_slice(&[10f32, 20.0], [2]);
        let list = |v: i64| Value::Tuple(vec![Value::Int(v)]);
        call("torch.as_strided_scatter", &[of(x), of(&src), list(2), list(2), Value::Int(1)])
    });
    assert_eq!(g, [0.0, 1.0, 0.0, 1.0]);
}

#[test]
fn a_distance_shares_nothing_out_among_ties() {
    let x = [3.0, 3.0, 1.0];
    let zeros = Tensor::from_slice(&[0f32; 3], [1, 3]);
    let distance = |p: f64| gradient(&x, &[1, 3], |x| flambeau_core::ops::cdist(x, &zeros, p, None));
    assert_eq!(distance(f64::INFINITY), [1.0, 1.0, 0.0]);
    assert_eq!(distance(0.0), [0.0; 3]);
}
