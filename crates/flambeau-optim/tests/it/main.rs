//! The tests of flambeau-optim, in one binary.

mod averages;
mod fused;
mod hooks;
mod optimizers;
mod recorded;
mod schedules;
mod speed;
mod steps;

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Result, Tensor, Value};
use flambeau_library::object::{ObjectRef, construct};

pub type Kwargs = Vec<(&'static str, Value)>;
pub fn pair(a: f64, b: f64) -> Value {
    Value::Tuple(vec![Value::Float(a), Value::Float(b)])
}
/// Every optimizer that can record, with options that take all branches.
pub fn recording() -> Vec<(&'static str, Kwargs)> {
    let decay = || ("weight_decay", Value::Float(0.1));
    let yes = |n: &'static str| (n, Value::Bool(true));
    let lr = || ("lr", Value::Float(0.1));
    vec![
        ("SGD", vec![lr(), ("momentum", Value::Float(0.9)), ("dampening", Value::Float(0.3)), decay()]),
        ("SGD", vec![lr(), ("momentum", Value::Float(0.9)), yes("nesterov"), yes("maximize")]),
        ("Adam", vec![lr(), decay(), yes("amsgrad")]),
        ("AdamW", vec![lr(), decay(), yes("maximize"), ("betas", pair(0.4, 0.6))]),
        ("Adamax", vec![lr(), decay()]),
        ("NAdam", vec![lr(), decay()]),
        ("NAdam", vec![lr(), decay(), yes("decoupled_weight_decay"), yes("maximize")]),
        ("RAdam", vec![lr(), decay(), ("betas", pair(0.5, 0.9))]),
        ("RAdam", vec![lr(), decay(), ("betas", pair(0.5, 0.6)), yes("decoupled_weight_decay")]),
        (
            "Adagrad",
            vec![
                lr(),
                decay(),
                ("lr_decay", Value::Float(0.2)),
                ("initial_accumulator_value", Value::Float(0.1)),
            ],
        ),
        ("Adadelta", vec![lr(), decay(), ("eps", Value::Float(1e-2))]),
        ("ASGD", vec![lr(), decay(), ("t0", Value::Float(1.0)), ("lambd", Value::Float(0.1))]),
        ("RMSprop", vec![lr(), decay(), ("alpha", Value::Float(0.7))]),
        (
            "RMSprop",
            vec![
                lr(),
                ("alpha", Value::Float(0.7)),
                yes("centered"),
                ("momentum", Value::Float(0.5)),
                ("eps", Value::Float(0.1)),
            ],
        ),
        ("Rprop", vec![lr(), ("etas", pair(0.4, 1.3))]),
    ]
}
pub fn make(
    class: &str,
    params: &[Tensor],
    kwargs: &Kwargs,
    more: &[(&'static str, Value)],
) -> Result<ObjectRef> {
    let params = Value::List(params.iter().cloned().map(Value::Tensor).collect());
    let kwargs: Vec<_> = kwargs.iter().chain(more).map(|(k, v)| (k.to_string(), v.clone())).collect();
    construct(&format!("torch.optim.{class}"), &[params], &kwargs)
}
pub fn numbers(n: usize, seed: f64) -> Vec<f64> {
    (0..n).map(|i| ((i as f64 + 1.3) * seed).sin() + 0.05).collect()
}
pub fn floats(t: &Tensor) -> Vec<f64> {
    let t = t.alias_detached();
    let t = if t.is_complex() { flambeau_core::ops::view_as_real(&t).unwrap() } else { t };
    t.reshape([-1]).to_vec::<f64>()
}
pub fn complex(v: &[f64], sizes: &[i64]) -> Tensor {
    let mut two = sizes.to_vec();
    two.push(2);
    flambeau_core::ops::view_as_complex(&Tensor::from_slice(v, two)).unwrap()
}
pub fn near(name: &str, a: &[f64], b: &[f64], tol: f64) {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).for_each(|(a, b)| assert!((a - b).abs() <= tol * b.abs().max(1.0), "{name}: {a} {b}"));
}
