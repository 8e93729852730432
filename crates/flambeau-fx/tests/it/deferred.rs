//! Captures above the gradients work values out only where something asks for them.

use crate::building::{numbers, tensor};
use flambeau_autograd::no_grad;
use flambeau_core::dispatch::overrides::{self, OperatorCall};
use flambeau_core::{Tensor, Value};
use flambeau_fx::{GraphModule, Interpreter, SymbolicTraceOptions, symbolic_trace, symbolic_trace_with};
use flambeau_nn::prelude::*;
use flambeau_nn::{BatchNorm1d, Linear, ReLU, Sequential};
use std::cell::RefCell;
use std::rc::Rc;

fn run(m: &GraphModule, x: &Tensor) -> Vec<Value> {
    let out = Interpreter::new(m).run(&[x.clone().into()]).unwrap();
    out.items().map_or_else(|| vec![out.clone()], <[Value]>::to_vec)
}
fn inlined() -> SymbolicTraceOptions {
    SymbolicTraceOptions::new().is_leaf_module(|_, _| false)
}

#[test]
fn sizes_that_depend_on_data_see_the_data() {
    let net = Sequential::new((Linear::new(2, 2), ReLU::new()));
    let x = tensor(&[1.0, -2.0, 0.5, 4.0]).view([2, 2]);
    for recorded in [true, false] {
        let _grad = (!recorded).then(flambeau_core::gradients::grad_mode::no_grad_guard);
        let sizes = RefCell::new(Vec::new());
        let forward = |x: &[Tensor]| {
            let y = net.call(&x[0]);
            let kept = (&y + 1.0).masked_select(&y.le(0.0));
            sizes.borrow_mut().push(kept.sizes().to_vec());
            kept * 2.0
        };
        forward(&[x.clone()]);
        for options in [SymbolicTraceOptions::new(), inlined()] {
            let m = symbolic_trace_with(&net, forward, &[&x], options);
            assert_eq!(numbers(&run(&m, &x)[0]), numbers(&forward(&[x.clone()]).into()));
        }
        let sizes = sizes.borrow();
        assert!(sizes.iter().all(|s| *s == sizes[0]), "{sizes:?}");
    }
}
#[test]
fn what_is_written_is_worked_out() {
    // statistics of a layer in training move as in a run, by what they are given
    let (a, b) = (BatchNorm1d::new(2), BatchNorm1d::new(2));
    let x = tensor(&[1.0, -2.0, 0.5, 4.0]).view([2, 2]);
    let scaled = |n: &BatchNorm1d, x: &Tensor| n.call(&(x * 3.0));
    scaled(&a, &x);
    symbolic_trace(&b, |x: &[Tensor]| scaled(&b, &x[0]), &[&x]);
    let running = |n: &BatchNorm1d| -> Vec<Vec<f32>> {
        n.named_buffers().iter().map(|(_, t)| numbers(&t.tensor().float().view([-1]).into())).collect()
    };
    assert_eq!(running(&a), running(&b));
    // and in-place operators
    let net = Sequential::new((Linear::new(2, 2),));
    let forward = |x: &[Tensor]| {
        let y = net.call(&x[0]);
        y.relu_();
        y.masked_select(&y.gt(0.0))
    };
    let want = forward(&[x.clone()]);
    let m = symbolic_trace_with(&net, forward, &[&x], inlined());
    assert_eq!(numbers(&run(&m, &x)[0]), numbers(&want.into()));
}
#[test]
fn what_is_recorded_is_what_a_run_makes() {
    let net = Sequential::new((Linear::new(2, 3), ReLU::new(), Linear::new(3, 2)));
    let x = tensor(&[1.0, -2.0, 0.5, 4.0]).view([2, 2]);
    let m = symbolic_trace_with(&net, |x: &[Tensor]| net.call(&x[0]).softmax(-1).t(), &[&x], inlined());
    let vals = |m: &GraphModule| -> Vec<String> {
        m.graph.nodes().map(|n| format!("{:?}", m.graph.node(n).meta.val)).collect()
    };
    // a mode that watches wants every call, so nothing is put off
    let names = Rc::new(RefCell::new(0));
    let count = names.clone();
    let watching = overrides::push_function_mode(move |call: &OperatorCall<'_>| {
        *count.borrow_mut() += 1;
        call.call_on()
    });
    let seen = symbolic_trace_with(&net, |x: &[Tensor]| net.call(&x[0]).softmax(-1).t(), &[&x], inlined());
    drop(watching);
    assert!(*names.borrow() >= 5);
    assert_eq!(m.graph.to_string(), seen.graph.to_string());
    assert_eq!(vals(&m), vals(&seen));
    assert_eq!(numbers(&run(&m, &x)[0]), numbers(&no_grad(|| net.call(&x).softmax(-1).t()).into()));
}
