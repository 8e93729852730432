//! Runs of the same graph again and again: what is found out once is forgotten where the program changes.

use crate::building::{numbers, tensor};
use flambeau_core::{BackwardOptions, Tensor, Value};
use flambeau_fx::{GraphModule, Interpreter, make_fx};

fn run(m: &GraphModule, x: &Tensor) -> Tensor {
    Interpreter::new(m).run(&[x.clone().into()]).unwrap().into_tensor().unwrap()
}

#[test]
fn runs_agree_however_often() {
    let m = make_fx(|x: &[Tensor]| (x[0].relu() + 1.0).view([-1]).exp())(&[&tensor(&[1.0, -2.0])]);
    for n in 1..6 {
        for l in [&[0.5, -1.0], &[2.0, 3.0]] {
            let want: Vec<f32> = l.iter().map(|x: &f64| (x.max(0.0) + 1.0).exp() as f32).collect();
            let got = numbers(&run(&m, &tensor(l)).into());
            assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-4), "run {n}: {got:?}, {want:?}");
        }
        // other dtypes, and numbers on the way
        assert_eq!(run(&m, &tensor(&[0.0, 0.0]).double()).dtype(), flambeau_core::DType::F64);
    }
}
#[test]
fn gradients_are_those_of_the_run() {
    let w = tensor(&[3.0, -1.0]);
    let m = make_fx(|x: &[Tensor]| (&x[0] * &w).t().exp())(&[&tensor(&[0.0, 0.0])]);
    let w = m.tensor("_tensor_constant0").unwrap();
    w.try_requires_grad_(true).unwrap();
    for n in 1..6 {
        let x = tensor(&[0.5, 0.5]);
        w.set_grad(None);
        run(&m, &x).sum().try_backward(BackwardOptions::new()).unwrap();
        let got = numbers(&w.grad().unwrap().into());
        let want = [0.5 * 1.5f32.exp(), 0.5 * (-0.5f32).exp()];
        assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-4), "run {n}: {got:?}");
    }
}
#[test]
fn changes_are_seen() {
    let x = tensor(&[1.0, -2.0]);
    let w = tensor(&[1.0, 1.0]);
    let mut m = make_fx(|x: &[Tensor]| x[0].relu() + &w)(&[&x]);
    for _ in 0..4 {
        assert_eq!(numbers(&run(&m, &x).into()), [2.0, 1.0]);
    }
    m.set("_tensor_constant0", tensor(&[5.0, 5.0]));
    for _ in 0..4 {
        assert_eq!(numbers(&run(&m, &x).into()), [6.0, 5.0]);
    }
    let n = m.graph.find_nodes(flambeau_fx::Op::CallFunction, Some("torch.ops.aten.relu.default"))[0];
    m.graph.set_target(n, "torch.ops.aten.neg.default");
    for _ in 0..4 {
        assert_eq!(numbers(&run(&m, &x).into()), [4.0, 7.0]);
    }
    // a copy is a graph of its own
    let mut other = m.clone();
    let n = other.graph.find_nodes(flambeau_fx::Op::CallFunction, Some("torch.ops.aten.neg.default"))[0];
    other.graph.set_target(n, "torch.ops.aten.relu.default");
    for _ in 0..4 {
        assert_eq!(numbers(&run(&other, &x).into()), [6.0, 5.0]);
        assert_eq!(numbers(&run(&m, &x).into()), [4.0, 7.0]);
    }
}
#[test]
fn sizes_that_depend_on_data_are_looked_at_again() {
    let m = make_fx(|x: &[Tensor]| {
        let kept = x[0].masked_select(&x[0].gt(0.0));
        Value::Tuple(vec![kept.sum().into(), (kept + 1.0).into()])
    })(&[&tensor(&[1.0, -2.0, 3.0])]);
    for _ in 0..4 {
        for (l, n) in [(&[1.0, -2.0, 3.0], 2), (&[-1.0, -2.0, 3.0], 1), (&[1.0, 2.0, 3.0], 3)] {
            let x: Value = tensor(l).into();
            let out = Interpreter::new(&m).run(std::slice::from_ref(&x)).unwrap();
            let items = out.items().unwrap();
            assert_eq!(numbers(&items[1]).len(), n);
            assert_eq!(numbers(&items[0])[0] as f64, l.iter().filter(|x| **x > 0.0).sum::<f64>());
        }
    }
}
