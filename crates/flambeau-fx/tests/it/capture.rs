//! Programs captured while they run.

use crate::building::{numbers, tensor};
use flambeau_core::{BackwardOptions, Tensor, Value};
use flambeau_fx::{
    Interpreter, MakeFxOptions, Op, SymbolicTraceOptions, make_fx, make_fx_with, symbolic_trace, try_make_fx,
    try_make_fx_with, try_symbolic_trace_with,
};
use flambeau_nn::prelude::*;
use flambeau_nn::{Linear, ReLU, Sequential};

fn targets(m: &flambeau_fx::GraphModule) -> Vec<String> {
    m.graph.find_nodes(Op::CallFunction, None).into_iter().map(|n| m.graph.node(n).target.clone()).collect()
}
fn run(m: &flambeau_fx::GraphModule, inputs: &[&Tensor]) -> Vec<Value> {
    let inputs: Vec<Value> = inputs.iter().map(|t| Value::Tensor((*t).clone())).collect();
    let out = Interpreter::new(m).run(&inputs).unwrap();
    out.items().map_or_else(|| vec![out.clone()], <[Value]>::to_vec)
}

#[test]
fn operators_become_nodes() {
    let x = tensor(&[1.0, -2.0]);
    let m = make_fx(|x: &[Tensor]| (x[0].relu() + 1.0).sum())(&[&x]);
    assert_eq!(
        targets(&m),
        ["torch.ops.aten.relu.default", "torch.ops.aten.add.Tensor", "torch.ops.aten.sum.dim_IntList"]
    );
    assert_eq!(numbers(&run(&m, &[&tensor(&[5.0, 7.0])])[0]), [14.0]);
    m.lint().unwrap();
}

#[test]
fn a_training_step_includes_its_backward() {
    let w = tensor(&[3.0, -1.0]);
    w.try_requires_grad_(true).unwrap();
    let x = tensor(&[2.0, 5.0]);
    let step = |x: &[Tensor]| {
        let y = (&x[0] * &x[1]).exp();
        let loss = (&y * &y + &y).sum();
        loss.try_backward(BackwardOptions::new()).unwrap();
        let grad = x[1].grad().unwrap();
        Value::Tuple(vec![loss.detach().into(), grad.into()])
    };
    let small = &tensor(&[0.1, 0.2]);
    let m = make_fx(step)(&[small, &w]);
    m.lint().unwrap();
    // y = exp(x w), loss = sum(y y + y): its gradient is x y (2 y + 1)
    let other = tensor(&[0.5, -0.5]);
    let out = run(&m, &[&other, &w]);
    let got = numbers(&out[1]);
    for ((x, w), g) in [0.5f32, -0.5].iter().zip([3.0f32, -1.0]).zip(got) {
        let y = (x * w).exp();
        let want = x * y * (2.0 * y + 1.0);
        assert!((g - want).abs() < 1e-4 * want.abs(), "{g} instead of {want}\n{}", m.graph);
    }
    assert!(x.grad().is_none());
}

#[test]
fn reading_what_is_captured_is_an_error() {
    let x = tensor(&[1.0, 2.0]);
    let e = try_make_fx(|x: &[Tensor]| x[0].sum().try_item::<f64>(), &[&x]).unwrap_err();
    assert!(e.message().contains("being captured"), "{e}");
    let e = try_make_fx(|x: &[Tensor]| Ok(x[0].try_to_vec::<f32>()?.len() as i64), &[&x]).unwrap_err();
    assert!(e.message().contains("being captured"), "{e}");
    // a constant may be read
    let c = tensor(&[4.0]);
    let m = make_fx(|x: &[Tensor]| &x[0] * c.item::<f64>())(&[&x]);
    assert_eq!(numbers(&run(&m, &[&x])[0]), [4.0, 8.0]);
    // and what is captured is no value afterwards
    let kept = std::cell::RefCell::new(None);
    make_fx(|x: &[Tensor]| {
        *kept.borrow_mut() = Some(x[0].clone());
        x[0].relu()
    })(&[&x]);
    let gone = kept.take().unwrap();
    let e = flambeau_core::ops::relu(&gone).unwrap_err();
    assert!(e.message().contains("after the capture had ended"), "{e}");
}

#[test]
fn calls_above_the_gradients_are_whole() {
    let (x, w) = (tensor(&[1.0, 2.0]), tensor(&[2.0, 3.0]));
    let f = |x: &[Tensor]| x[0].matmul(&w) * flambeau_core::functions::ones([2]);
    let m = make_fx_with(f, MakeFxOptions::new().pre_dispatch(true))(&[&x]);
    assert_eq!(
        targets(&m),
        ["torch.ops.aten.matmul.default", "torch.ops.aten.ones.default", "torch.ops.aten.mul.Tensor"]
    );
    assert_eq!(numbers(&run(&m, &[&x])[0]), [8.0, 8.0]);
    assert!(m.get("_tensor_constant0").is_ok());
}

#[test]
fn writes_are_followed() {
    let x = tensor(&[1.0, 2.0]);
    let f = |x: &[Tensor]| {
        let y = flambeau_core::ops::clone(&x[0], None).unwrap();
        y.add_(1.0);
        y.relu_();
        &y * 2.0
    };
    let m = make_fx(f)(&[&x]);
    assert_eq!(numbers(&run(&m, &[&tensor(&[-4.0, 1.0])])[0]), [0.0, 4.0]);
}

#[test]
fn layers_are_leaves_and_containers_are_not() {
    let net = Sequential::new((Linear::new(2, 3), ReLU::new(), Linear::new(3, 1)));
    let x = tensor(&[1.0, 2.0]);
    let m = symbolic_trace(&net, |x: &[Tensor]| net.call(&x[0]) + 1.0, &[&x]);
    let called: Vec<String> =
        m.graph.find_nodes(Op::CallModule, None).iter().map(|n| m.graph.node(*n).target.clone()).collect();
    assert_eq!(called, ["0", "1", "2"]);
    assert_eq!(targets(&m), ["torch.add"]);
    let want = net.call(&x) + 1.0;
    assert_eq!(numbers(&run(&m, &[&x])[0]), want.to_vec::<f32>());
    // its weights are those of the module
    net.parameters()[0].data().fill_(0.0);
    let want = net.call(&x) + 1.0;
    assert_eq!(numbers(&run(&m, &[&x])[0]), want.to_vec::<f32>());

    let o = SymbolicTraceOptions::new().is_leaf_module(|_, _| false).names(&["input"]);
    let m = try_symbolic_trace_with(&net, |x: &[Tensor]| net.try_call(&x[0]), &[&x], o).unwrap();
    let read: Vec<String> =
        m.graph.find_nodes(Op::GetAttr, None).iter().map(|n| m.graph.node(*n).target.clone()).collect();
    assert_eq!(read, ["0.weight", "0.bias", "2.weight", "2.bias"]);
    assert_eq!(targets(&m)[0], "torch.nn.functional.linear");
    let want = net.call(&x);
    assert_eq!(numbers(&run(&m, &[&x])[0]), want.to_vec::<f32>());
}

#[test]
fn memory_is_known_before_step_one() {
    let (x, w) = (flambeau_core::functions::ones([100, 10]), flambeau_core::functions::ones([10, 10]));
    w.try_requires_grad_(true).unwrap();
    let step = |x: &[Tensor]| {
        let loss = x[0].matmul(&x[1]).tanh().sum();
        loss.try_backward(BackwardOptions::new()).unwrap();
        x[1].grad().unwrap()
    };
    let m = make_fx(step)(&[&x, &w]);
    let report = flambeau_fx::memory(&m);
    let found = m.attributes().iter().map(|(_, v)| match v {
        Value::Tensor(t) => t.numel() as usize * 4,
        _ => 0,
    });
    assert_eq!(report.resident, 4000 + 400 + found.sum::<usize>());
    // the result of tanh is kept for its gradient, which is made beside it; what the formula makes on the way stays until its end
    assert_eq!(report.peak, report.resident + 4 * 4000, "{report:?}");
    let sum: usize = report.alive.iter().map(|(_, b)| b).sum();
    assert_eq!(report.resident + sum, report.peak);
    assert_eq!(report.steps.iter().map(|(_, b)| *b).max(), Some(report.peak));
    assert!(report.svg().contains(&format!("peak {} bytes", report.peak)));
}

#[test]
fn gradients_are_not_left_out_silently() {
    let x = tensor(&[1.0, 2.0]);
    let w = tensor(&[3.0, 4.0]);
    w.try_requires_grad_(true).unwrap();
    let step = |x: &[Tensor]| {
        (&x[0] * &x[1]).sum().try_backward(BackwardOptions::new())?;
        Ok(x[1].grad().unwrap())
    };
    let above = MakeFxOptions::new().pre_dispatch(true);
    let e = try_make_fx_with(step, &[&x, &w], above).unwrap_err();
    assert!(e.message().contains("captured above the gradients"), "{e}");
    // below them the gradients are part of the graph
    let m = try_make_fx_with(step, &[&x, &w], MakeFxOptions::new()).unwrap();
    assert_eq!(numbers(&run(&m, &[&x, &w])[0]), [1.0, 2.0]);
}

/// What PyTorch's tracer refuses of Python's programs (`branch_on_value`, `iterate_proxy`, `length_of_proxy`, `range_over_size`,
/// `contains_on_proxy`): elements cannot be read here either; sizes can, and the graph holds for them.
#[test]
fn programs_that_look_at_what_is_captured() {
    let x = tensor(&[1.0, -2.0, 3.0]);
    let refused = |f: &dyn Fn(&Tensor) -> flambeau_core::Result<Tensor>| {
        let e = try_symbolic_trace_with(&ReLU::new(), |x| f(&x[0]), &[&x], SymbolicTraceOptions::new());
        let e = e.unwrap_err().message().to_string();
        assert!(e.contains("being captured"), "{e}");
    };
    refused(&|x| Ok(if x.sum().gt(0.0).try_item::<bool>()? { x.clone() } else { -x }));
    refused(&|x| Ok(x * x.try_to_vec::<f32>()?.iter().map(|v| f64::from(*v) + 1.0).sum::<f64>()));
    refused(&|x| Ok(if x.try_to_vec::<f32>()?.contains(&1.0) { x.clone() } else { x + 1.0 }));
    let rows = symbolic_trace(&ReLU::new(), |x: &[Tensor]| x[0].unbind(0)[1].clone(), &[&x]);
    assert_eq!(numbers(&run(&rows, &[&x])[0]), [-2.0]);
    let length = symbolic_trace(&ReLU::new(), |x: &[Tensor]| &x[0] * x[0].size(0), &[&x]);
    assert_eq!(numbers(&run(&length, &[&x])[0]), [3.0, -6.0, 9.0]);
    let range = |x: &[Tensor]| (0..x[0].size(0)).fold(x[0].clone(), |x, i| x + i);
    assert_eq!(numbers(&run(&symbolic_trace(&ReLU::new(), range, &[&x]), &[&x])[0]), [4.0, 1.0, 6.0]);
}
