//! Steps and files against literal values of PyTorch.

use flambeau_core::Tensor;
use flambeau_nn::prelude::*;
use flambeau_optim::{AdamOptions, AdamWOptions, Optimizer, SGD, SGDOptions};
use flambeau_serialization::Tree;

pub fn parameters() -> [Parameter; 2] {
    [
        Parameter::new(Tensor::from_slice(&[1f32, -2.0, 3.0], 3)),
        Parameter::new(Tensor::from_slice(&[0.5f32, 0.25], [1, 2])),
    ]
}
fn set(p: &[Parameter; 2], step: usize) {
    let s = step as f32 + 1.0;
    p[0].set_grad(Some(Tensor::from_slice(&[0.5 * s, -s, 0.25 * s], 3)));
    p[1].set_grad(Some(Tensor::from_slice(&[1.0 / s, -1.0 / s], [1, 2])));
}
fn values(p: &[Parameter; 2]) -> Vec<f32> {
    p.iter().flat_map(|p| p.to_vec::<f32>()).collect()
}
fn run(build: impl FnOnce(&[Parameter; 2]) -> Box<dyn Optimizer>, want: [f32; 5]) {
    let p = parameters();
    let mut o = build(&p);
    for step in 0..3 {
        set(&p, step);
        o.step();
    }
    for (a, b) in values(&p).iter().zip(want) {
        assert!((a - b).abs() < 2e-6, "{o:?} {a} {b}");
    }
}

#[test]
fn steps_are_pytorchs() {
    let sgd = || SGDOptions::new().lr(0.1);
    run(|p| Box::new(sgd().build(p)), [0.699999988, -1.39999998, 2.8499999, 0.316666663, 0.433333337]);
    run(
        |p| Box::new(sgd().momentum(0.9).dampening(0.5).weight_decay(0.01).build(p)),
        [0.690462112, -1.38092422, 2.83483624, 0.162956893, 0.583924711],
    );
    run(
        |p| Box::new(sgd().momentum(0.9).nesterov(true).build(p)),
        [0.272049993, -0.544099987, 2.63602495, -0.0427333377, 0.792733312],
    );
    run(
        |p| Box::new(sgd().maximize(true).build(p)),
        [1.29999995, -2.5999999, 3.1500001, 0.683333397, 0.0666666776],
    );
    let adam = || AdamOptions::new().lr(0.1);
    run(|p| Box::new(adam().build(p)), [0.707681715, -1.70768166, 2.70768166, 0.21946618, 0.530533791]);
    run(
        |p| Box::new(adam().weight_decay(0.1).amsgrad(true).build(p)),
        [0.705695331, -1.70578671, 2.70154071, 0.218381107, 0.528131723],
    );
    run(
        |p| Box::new(AdamWOptions::new().lr(0.1).build(p)),
        [0.704981148, -1.70198417, 2.69898701, 0.218260795, 0.529491425],
    );
}

#[test]
fn state_goes_to_files_and_back() {
    let (p, q) = (parameters(), parameters());
    let mut a = AdamOptions::new().lr(0.1).build(&p);
    (0..2).for_each(|s| {
        set(&p, s);
        a.step();
    });
    let saved = a.state_dict();
    let group = match saved.get("param_groups") {
        Some(Tree::List(l)) => l[0].clone(),
        other => panic!("{other:?}"),
    };
    let keys: Vec<_> = group
        .entries()
        .unwrap()
        .iter()
        .map(|(k, _)| match k {
            Tree::Str(s) => s.as_str(),
            _ => "",
        })
        .collect();
    assert_eq!(
        keys,
        [
            "lr",
            "betas",
            "eps",
            "weight_decay",
            "amsgrad",
            "maximize",
            "foreach",
            "capturable",
            "differentiable",
            "fused",
            "decoupled_weight_decay",
            "params"
        ]
    );
    let mut b = AdamOptions::new().lr(9.0).build(&q);
    b.load_state_dict(&saved).unwrap();
    flambeau_autograd::no_grad(|| {
        q.iter().zip(&p).for_each(|(q, p)| {
            flambeau_core::ops::copy_(q, p, false).unwrap();
        })
    });
    set(&p, 2);
    set(&q, 2);
    a.step();
    b.step();
    assert_eq!(values(&p), values(&q));
    let mut sgd = SGD::new(&p, 0.1);
    set(&p, 0);
    sgd.step();
    assert_eq!(sgd.state_dict().get("state").unwrap().entries().unwrap().len(), 0);
    let one = SGD::new(&p[..1], 0.1).state_dict();
    let e = sgd.load_state_dict(&one).unwrap_err();
    assert!(e.message().contains("doesn't match the size"), "{e}");
}

#[test]
fn printed_as_pytorch_prints() {
    let text = SGD::new(parameters(), 0.1).to_string();
    let want = "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: \
                None\n    lr: 0.1\n    maximize: False\n    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)";
    assert_eq!(text, want);
}

#[test]
fn refusals() {
    let p = parameters();
    let text = |r: flambeau_core::Result<SGD>| r.unwrap_err().message().to_owned();
    assert_eq!(text(SGDOptions::new().try_build(&p[..0])), "optimizer got an empty parameter list");
    assert_eq!(text(SGDOptions::new().lr(-0.1).try_build(&p)), "Invalid learning rate: -0.1");
    let e = AdamOptions::new().betas((1.0, 0.9)).try_build(&p).unwrap_err();
    assert_eq!(e.message(), "Invalid beta parameter at index 0: 1.0");
    let computed = p[0].tensor() * 2.0;
    assert_eq!(text(SGDOptions::new().try_build([&computed])), "can't optimize a non-leaf Tensor");
    let mut o = SGD::new(&p[..1], 0.1);
    let e = o.add_param_group(&p[..1], SGDOptions::new()).unwrap_err();
    assert_eq!(e.message(), "some parameters appear in more than one parameter group");
    // parameters that a conversion replaced
    let mut m = flambeau_nn::Linear::new(1, 1);
    let mut o = SGD::new(m.parameters(), 0.1);
    m.double();
    let e = o.try_step().unwrap_err();
    assert!(e.message().contains("build the optimizer after the conversion"), "{e}");
}

#[test]
fn strided_parameters_and_gradients() {
    let base = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
    let p = Parameter::new(base.t());
    let mut o = SGDOptions::new().lr(1.0).momentum(0.5).build([&p]);
    p.set_grad(Some(Tensor::from_slice(&[1f32, 0.0, 2.0, 0.0, 0.0, 3.0], [3, 2])));
    o.step();
    assert_eq!(p.to_vec::<f32>(), [0.0, 4.0, 0.0, 5.0, 3.0, 3.0]);
    o.try_zero_grad(flambeau_nn::ZeroGradOptions::new().set_to_none(false)).unwrap();
    assert_eq!(p.grad().unwrap().to_vec::<f32>(), [0.0; 6]);
    o.zero_grad();
    assert!(p.grad().is_none());
}
