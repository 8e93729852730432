//! Branches and loops as functions, with gradients; writes to saved tensors.

use flambeau_autograd::control_flow::{
    ScanOptions, associative_scan, cond, map, scan, try_associative_scan, try_scan, try_while_loop,
    while_loop,
};
use flambeau_autograd::graph::{allow_mutation_on_saved_tensors, increment_version};
use flambeau_core::{DType, Tensor, ops};

fn doubles(v: &[f64]) -> Tensor {
    Tensor::from_slice(v, [v.len() as i64])
}

#[test]
fn gradients_follow_the_branch() {
    let f = |x: &Tensor| cond(&x.sum().gt(0.0), |x: &Tensor| x * 3.0, |x: &Tensor| x * x, x);
    for (v, want) in [(2.0, 3.0), (-2.0, -4.0)] {
        let x = doubles(&[v]).requires_grad_(true);
        f(&x).sum().backward();
        assert_eq!(x.grad().unwrap().to_vec::<f64>(), [want]);
    }
    let several = doubles(&[1.0, 2.0]);
    let e = flambeau_autograd::control_flow::try_cond(&several, |_: &()| Ok(1), |_| Ok(2), &()).unwrap_err();
    assert!(e.message().contains("single-element"), "{e}");
}

#[test]
fn loops_are_differentiated_step_by_step() {
    let x = doubles(&[1.5]).requires_grad_(true);
    let start = [Tensor::from_slice(&[0i64], ()), x.clone()];
    let done = while_loop(|c| c[0].lt(3), |c| vec![&c[0] + 1, &c[1] * &x], &start);
    done[1].sum().backward();
    // x^4
    assert!((x.grad().unwrap().item::<f64>() - 4.0 * 1.5f64.powi(3)).abs() < 1e-12);
    let grown = |c: &[Tensor]| Ok(vec![ops::cat(&[c[0].clone(), c[0].clone()], 0)?]);
    let less = |c: &[Tensor]| ops::lt(&ops::sum(&c[0], None, false, None)?, &Tensor::from_slice(&[9f64], ()));
    assert!(try_while_loop(less, grown, [&doubles(&[1.0])]).unwrap_err().message().contains("carry on"));
}

#[test]
fn scans_go_either_way() {
    let x = Tensor::from_slice(&[1f64, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]).requires_grad_(true);
    let y = map(|row| row.cumsum(0), &x);
    assert_eq!(y.to_vec::<f64>(), [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
    let (last, sums) = scan(|c, r| (c + r, c + r), &doubles(&[0.0; 3]), &x);
    assert_eq!((last.to_vec::<f64>(), sums.sizes().to_vec()), (vec![5.0, 7.0, 9.0], vec![2, 3]));
    let o = ScanOptions::new().dim(1).reverse(true);
    let step = |c: &[Tensor], r: &[Tensor]| {
        let next = ops::add(&c[0], &r[0], 1.into())?;
        Ok((vec![next.clone()], vec![next]))
    };
    let (_, sums) = try_scan(step, [&doubles(&[0.0; 2])], [&x], o).unwrap();
    assert_eq!(sums[0].to_vec::<f64>(), [6.0, 5.0, 3.0, 15.0, 11.0, 6.0]);
    let f = |a: &[Tensor], b: &[Tensor]| Ok(vec![ops::add(&a[0], &b[0], 1.into())?]);
    assert_eq!(try_associative_scan(f, [&x], o).unwrap()[0].to_vec::<f64>(), sums[0].to_vec::<f64>());
    for n in 1..9 {
        let x = doubles(&(1..=n).map(f64::from).collect::<Vec<_>>()).requires_grad_(true);
        let y = associative_scan(|a, b| a * b, &x);
        assert_eq!(y.to_vec::<f64>(), x.cumprod(0).to_vec::<f64>());
        y.sum().backward();
        let got = x.grad().unwrap();
        x.set_grad(None);
        x.cumprod(0).sum().backward();
        let difference = (got - x.grad().unwrap()).abs().max().item::<f64>();
        assert!(difference < 1e-6, "{n}: {difference}");
    }
}

#[test]
fn saved_tensors_may_be_written_inside() {
    let x = doubles(&[3.0]).requires_grad_(true);
    let y = {
        let _allowed = allow_mutation_on_saved_tensors();
        let b = x.clone() * 1.0;
        let y = (&b * &b).sum();
        b.detach().fill_(100.0);
        y.backward();
        assert_eq!(x.grad().unwrap().to_vec::<f64>(), [6.0]);
        (&x * &x).sum()
    };
    let e =
        flambeau_autograd::grad_fn::try_backward([&y], flambeau_autograd::grad_fn::BackwardOptions::new());
    assert!(e.unwrap_err().message().contains("allow_mutation_on_saved_tensors"));
    let z = doubles(&[1.0]).requires_grad_(true);
    let w = &z * 1.0;
    let y = (&w * &w).sum();
    increment_version([&w]);
    let e =
        flambeau_autograd::grad_fn::try_backward([&y], flambeau_autograd::grad_fn::BackwardOptions::new());
    assert!(e.unwrap_err().message().contains("modified by an inplace operation"));
    assert_eq!(w.dtype(), DType::F64);
}
