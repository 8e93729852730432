//! Gradients flow through nested tensors to components, values, leaves and weights.

use crate::layouts::{LAYOUTS, nested, parts, t};
use flambeau_autograd::gradcheck::{GradcheckOptions, try_gradcheck, try_gradgradcheck};
use flambeau_core::{Layout, Result, Tensor, ops};
use flambeau_nested::functions::*;
use flambeau_nested::is_nested;
use flambeau_nn_functional::ops as nn;

/// Numbers of a result: a nested one is padded with zeros.
fn numbers(r: Result<Tensor>) -> Result<Vec<Tensor>> {
    let r = r?;
    Ok(vec![if is_nested(&r) { r.try_to_padded_tensor(0.0, None)? } else { r }])
}
fn leaves() -> Vec<Tensor> {
    let all = parts();
    all.iter().for_each(|p| {
        p.requires_grad_(true);
    });
    all
}
#[track_caller]
fn check(layout: Layout, f: impl Fn(&Tensor) -> Result<Tensor>) {
    let of = |all: &[Tensor]| numbers(f(&try_as_nested_tensor(all, NestedOptions::new().layout(layout))?));
    try_gradcheck(of, &leaves(), GradcheckOptions::default()).unwrap();
    try_gradgradcheck(of, &leaves(), None, GradcheckOptions::default()).unwrap();
}

#[test]
fn components_get_their_gradients() {
    let w = t(&[1.0, 0.5, -1.0, 2.0, 0.0, 0.25], &[2, 3]);
    let row = t(&[1.0, 2.0, 3.0], &[3]);
    for layout in LAYOUTS {
        check(layout, |x| ops::mul(x, &ops::sin(x)?));
        check(layout, |x| nn::linear(x, &w, None));
        check(layout, |x| ops::softmax(x, -1, None));
        check(layout, |x| ops::softmax(x, 1, None));
        check(layout, |x| nn::layer_norm(x, &[3], Some(&row), Some(&row), 1e-5, true));
        check(layout, |x| ops::select(x, 0, 2));
        check(layout, |x| ops::cat(&[x.clone(), ops::exp(x)?], -1));
        check(layout, |x| ops::reshape(x, &[3, -1, 3, 1]));
    }
    check(Layout::Strided, |x| ops::bmm(x, &ops::transpose(x, 1, 2)?));
    check(Layout::Jagged, |x| ops::mul(x, &row));
    check(Layout::Jagged, |x| ops::sum(x, Some(&[1]), false, None));
    check(Layout::Jagged, |x| ops::mean(x, Some(&[1]), true, None));
    check(Layout::Jagged, |x| ops::sum(&ops::square(x)?, Some(&[-1]), false, None));
    check(Layout::Jagged, |x| ops::amax(x, &[1], false));
    check(Layout::Jagged, |x| ops::matmul(&ops::transpose(x, 1, 2)?, x));
}
#[test]
fn leaves_and_weights_get_theirs() {
    for layout in LAYOUTS {
        let x = nested(layout);
        x.requires_grad_(true);
        let w = t(&[1.0, 0.5, -1.0], &[1, 3]);
        w.requires_grad_(true);
        let y = nn::linear(&x, &w, None).unwrap();
        assert!(y.requires_grad() && !y.is_leaf() && x.is_leaf());
        ops::sum(&y.to_padded_tensor(0.0), None, false, None).unwrap().backward();
        let g = x.grad().unwrap();
        assert!(is_nested(&g) && g.sizes() == x.sizes());
        assert_eq!(ops::select(&g, 0, 1).unwrap().to_vec::<f64>(), [1.0, 0.5, -1.0]);
        let sums: Vec<f64> = (0..3)
            .map(|d| parts().iter().flat_map(|p| p.to_vec::<f64>().into_iter().skip(d).step_by(3)).sum())
            .collect();
        assert_eq!(w.grad().unwrap().to_vec::<f64>(), sums);
        // a nested gradient of a nested result
        let y = ops::mul(&ops::detach(&x).unwrap(), &x).unwrap();
        let o = flambeau_autograd::GradOptions::new()
            .grad_outputs([Some(ops::ones_like(&y, None, None, None, None, None).unwrap())]);
        let g =
            flambeau_autograd::engine::grad(&[y], std::slice::from_ref(&x), o).unwrap()[0].clone().unwrap();
        assert_eq!(ops::select(&g, 0, 0).unwrap().to_vec::<f64>(), parts()[0].to_vec::<f64>());
        // cut off
        assert!(!ops::detach(&y_of(&x)).unwrap().requires_grad());
    }
}
fn y_of(x: &Tensor) -> Tensor {
    ops::exp(x).unwrap()
}
#[test]
fn values_get_theirs() {
    let values = t(&[1.0, 2.0, 3.0, 4.0], &[4]);
    values.requires_grad_(true);
    let x = nested_tensor_from_jagged(&values, &Tensor::from_vec(vec![0i64, 1, 4], [3]));
    ops::sum(&ops::square(&x).unwrap(), None, false, None).unwrap().backward();
    assert_eq!(values.grad().unwrap().to_vec::<f64>(), [2.0, 4.0, 6.0, 8.0]);
}
