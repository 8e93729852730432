//! What `grad_fn` is called: PyTorch's names, for rows that are composites here too.

use flambeau_autograd as _;
use flambeau_core::{Tensor, Value, functions as torch};
use flambeau_library as library;

fn name(t: &Tensor) -> String {
    let text = t.to_string();
    text.split("grad_fn=<").nth(1).and_then(|s| s.split('>').next()).unwrap_or("none").to_string()
}
fn leaf(sizes: &[i64]) -> Tensor {
    torch::ones(sizes).requires_grad_(true)
}

#[test]
fn composites_have_names_of_their_own() {
    let (m, v) = (leaf(&[3, 3]), leaf(&[3]));
    assert_eq!(name(&m.t()), "TBackward0");
    assert_eq!(name(&m.transpose(0, 1)), "TransposeBackward0");
    assert_eq!(name(&m.mv(&v)), "MvBackward0");
    assert_eq!(name(&v.roll(1, 0)), "RollBackward0");
    assert_eq!(name(&m.trace()), "TraceBackward0");
    // what hands on another operator's result keeps that name
    assert_eq!(name(&m.matmul(&m)), "MmBackward0");
    assert_eq!(name(&m.narrow(0, 0, 2)), "SliceBackward0");
    // an operator of one operator: the outer name counts
    assert_eq!(name(&torch::stack(&[v.clone(), v.clone()], 0)), "StackBackward0");
    // the result of a body that makes no node is not renamed
    let w = v.exp();
    assert_eq!(name(&w), "ExpBackward0");
    assert_eq!(name(&w.t()), "TBackward0");
    assert_eq!(name(&w), "ExpBackward0");
}

#[test]
fn overloads_are_numbered() {
    let v = leaf(&[3]);
    let two = Value::Int(2);
    let by_name = |f: &str, args: &[Value]| match &library::call_value(f, args, &[]) {
        Ok(Value::Tensor(t)) => name(t),
        other => panic!("{other:?}"),
    };
    let x = Value::Tensor(v.clone());
    assert_eq!(by_name("torch.sum", &[x.clone()]), "SumBackward0");
    assert_eq!(by_name("torch.sum", &[x.clone(), Value::Int(0)]), "SumBackward1");
    assert_eq!(by_name("torch.mean", &[x.clone()]), "MeanBackward0");
    assert_eq!(by_name("torch.mean", &[x.clone(), Value::Int(0)]), "MeanBackward1");
    assert_eq!(by_name("torch.pow", &[x.clone(), two.clone()]), "PowBackward0");
    assert_eq!(by_name("torch.pow", &[x.clone(), x.clone()]), "PowBackward1");
    assert_eq!(by_name("torch.max", &[x.clone()]), "MaxBackward1");
    assert_eq!(by_name("torch.log1p", &[x.clone()]), "Log1PBackward0");
    assert_eq!(by_name("torch.square", &[x]), "PowBackward0");
}
