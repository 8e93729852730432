//! What holds for every optimizer: dtypes, layouts, shared memory, errors, groups.

use crate::{complex, floats, make, near, numbers, recording};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Error, Result, Tensor, Value};
use flambeau_library::object::ObjectRef;
use flambeau_nn::prelude::*;
use flambeau_optim::lr_scheduler::{ExponentialLR, LRScheduler};
use flambeau_optim::{Optimizer, SGD, SGDOptions};
use flambeau_serialization::Tree;

#[test]
fn all_dtypes_layouts_and_many_parameters() {
    for (class, kwargs) in recording() {
        let build = |dtype: DType, strided: bool| -> Vec<Tensor> {
            (0..40)
                .map(|i| {
                    let t = Tensor::from_slice(&numbers(6, 0.3 + i as f64 * 0.01), [2, 3]).to(dtype);
                    // a transposed matrix, and a column of a wider one
                    match (strided, i % 2) {
                        (false, _) => t,
                        (_, 0) => t.t().contiguous().t(),
                        _ => {
                            let wide = Tensor::zeros_raw(&[2, 6], dtype, t.device()).unwrap();
                            let view =
                                flambeau_core::ops::as_strided(&wide, &[2, 3], &[6, 2], Some(0)).unwrap();
                            view.copy_(&t);
                            view
                        }
                    }
                })
                .collect()
        };
        let run = |dtype: DType, strided: bool| -> Vec<Vec<f64>> {
            let p = build(dtype, strided);
            let o = make(class, &p, &kwargs, &[]).unwrap();
            for step in 0..3 {
                for (i, p) in p.iter().enumerate() {
                    let g = Tensor::from_slice(&numbers(6, 1.7 + step as f64), [2, 3]).to(dtype);
                    p.set_grad(((i + step) % 5 != 0).then_some(g));
                }
                o.method("step", &[], &[]).unwrap();
            }
            p.iter().map(|p| floats(&p.alias_detached().to(DType::F64))).collect()
        };
        let want = run(DType::F64, false);
        let check = |dtype, strided, tol| {
            for (a, b) in run(dtype, strided).iter().zip(&want) {
                near(&format!("{class} {kwargs:?} {dtype}"), a, b, tol);
            }
        };
        check(DType::F64, true, 1e-13);
        check(DType::F32, true, 1e-4);
        // Rprop and the root of Adadelta's small numbers follow signs and tiny differences
        if !matches!(class, "Rprop" | "Adadelta") {
            check(DType::BF16, false, 0.1);
        }
    }
}

#[test]
fn parameters_that_share_memory() {
    let whole = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], 4);
    let parts = [whole.narrow(0, 0, 2), whole.narrow(0, 2, 2)];
    let mut o = SGDOptions::new().lr(1.0).momentum(0.5).build(parts.iter());
    for p in &parts {
        p.set_grad(Some(p.copy()));
    }
    o.step();
    assert_eq!(whole.to_vec::<f32>(), [0.0; 4]);
    // a gradient over the parameter's own memory
    let p = Tensor::from_slice(&[2f32, 3.0], 2);
    p.set_grad(Some(p.alias_detached()));
    SGD::new([&p], 1.0).step();
    assert_eq!(p.to_vec::<f32>(), [0.0, 0.0]);
}

#[test]
fn errors_are_pytorchs() {
    let p = || vec![Tensor::from_slice(&[1f32, 2.0], 2)];
    let c = || vec![complex(&[1.0, 2.0], &[1])];
    let yes = Value::Bool(true);
    let text = |r: Result<ObjectRef>| r.err().map(|e: Error| e.message().to_owned()).unwrap_or_default();
    let construct = [
        (
            "Adam",
            vec![("fused", yes.clone()), ("foreach", yes.clone())],
            "`fused` and `foreach` cannot be `True` together.",
        ),
        (
            "SGD",
            vec![("fused", yes.clone()), ("differentiable", yes.clone())],
            "`fused` does not support `differentiable`",
        ),
        (
            "Adam",
            vec![("lr", Value::Tensor(Tensor::from_slice(&[0.1f32], ()))), ("foreach", yes.clone())],
            "lr as a Tensor is not supported for capturable=False and foreach=True",
        ),
        (
            "NAdam",
            vec![("lr", Value::Tensor(Tensor::from_slice(&[0.1f32, 0.2], 2)))],
            "Tensor lr must be 1-element",
        ),
        (
            "SGD",
            vec![("lr", Value::Tensor(Tensor::from_slice(&[-0.5f32], ())))],
            "Invalid learning rate: -0.5",
        ),
        ("SGD", vec![("lr", Value::Int(-1))], "Invalid learning rate: -1"),
        (
            "Adam",
            vec![("betas", Value::Tuple(vec![Value::Int(0), Value::Float(0.9)]))],
            "betas must be either both floats or both Tensors",
        ),
        (
            "RMSprop",
            vec![("nope", yes.clone())],
            "RMSprop.__init__() got an unexpected keyword argument 'nope'",
        ),
        ("Adafactor", vec![("d", Value::Float(0.5))], "Clipping threshold d should be >= 1 but is: 0.5"),
        (
            "Adagrad",
            vec![("initial_accumulator_value", Value::Int(-2))],
            "Invalid initial_accumulator_value value: -2",
        ),
    ];
    for (class, kwargs, want) in construct {
        assert_eq!(text(make(class, &p(), &kwargs, &[])), want, "{class}");
    }
    let complex_sparse = text(make("SparseAdam", &c(), &vec![], &[]));
    assert_eq!(
        complex_sparse,
        "Complex params at indices [[0, 0]]: SparseAdam does not support complex parameters"
    );
    let step = [
        (
            "Adam",
            p(),
            vec![("capturable", yes.clone())],
            "If capturable=True, params and state_steps must be on supported devices: ['cuda', 'xpu', 'hpu', 'privateuseone', 'xla'].",
        ),
        (
            "Adadelta",
            p(),
            vec![("capturable", yes.clone())],
            "If capturable=True, params and state_steps must be on supported devices: ['cuda', 'xpu', 'hpu', 'privateuseone'].",
        ),
        (
            "RAdam",
            p(),
            vec![("foreach", yes.clone()), ("differentiable", yes.clone())],
            "_foreach ops don't support autograd",
        ),
        (
            "SGD",
            c(),
            vec![("fused", yes.clone())],
            "`fused=True` requires all the params to be floating point Tensors of supported devices: ['mps', 'cuda', 'xpu', 'hpu', 'cpu', 'mtia', 'privateuseone'] but torch.complex128 and cpu",
        ),
        ("Adafactor", c(), vec![], "Adafactor does not support complex parameters"),
        ("LBFGS", p(), vec![], "LBFGS.step() missing 1 required positional argument: 'closure'"),
    ];
    for (class, p, kwargs, want) in step {
        let o = make(class, &p, &kwargs, &[]).unwrap();
        p[0].set_grad(Some(p[0].copy()));
        assert_eq!(o.method("step", &[], &[]).unwrap_err().message(), want, "{class}");
    }
}

/// A learning rate of float32 computes in float32, whatever the parameter's dtype.
#[test]
fn muon_with_a_tensor_as_learning_rate() {
    let p = Tensor::from_slice(&[1f64, 0.0, 0.0, 1.0], [2, 2]);
    p.set_grad(Some(Tensor::from_slice(&[0f64; 4], [2, 2])));
    let lr = Tensor::from_slice(&[0.02f32], ());
    flambeau_optim::MuonOptions::new().lr(&lr).weight_decay(0.1).build([&p]).step();
    assert_eq!(p.to_vec::<f64>()[0], f64::from(1.0 - 0.02f32 * 0.1));
}

#[test]
fn groups_names_and_tensor_learning_rates() {
    let p = |v: f32| Parameter::new(Tensor::from_slice(&[v], 1));
    let (a, b) = (p(1.0), p(2.0));
    let lr = Tensor::from_slice(&[0.5f32], ());
    let mut o = SGDOptions::new().lr(&lr).try_build_named([("a", &a)]).unwrap();
    let e = o.add_param_group([&b], SGDOptions::new()).unwrap_err();
    assert!(e.message().ends_with("cannot add param group without names to the optimizer"), "{e}");
    let given = [("lr".to_string(), Value::Float(0.25)), ("note".into(), Value::Str("mine".into()))];
    o.add_group_of_values(vec![b.clone()], Some(vec!["b".into()]), &given).unwrap();
    assert_eq!(o.option(1, "note").unwrap().type_name(), "str");
    let mut s = ExponentialLR::new(&mut o, 0.5);
    o.step();
    s.step(&mut o);
    // schedules write to the tensor itself
    assert_eq!(lr.item::<f32>(), 0.25);
    assert_eq!(o.lr(1), 0.125);
    let state = o.state_dict();
    let Some(Tree::List(groups)) = state.get("param_groups") else { panic!() };
    assert!(matches!(groups[0].get("param_names"), Some(Tree::List(l)) if l.len() == 1));
    assert!(matches!(groups[0].get("lr"), Some(Tree::Tensor(_))));
    // given keys first, as PyTorch's dictionaries have them
    assert!(matches!(&groups[1].entries().unwrap()[0].0, Tree::Str(s) if s == "lr"));
    assert!(o.to_string().contains("    lr: 0.25\n    maximize: False\n    momentum: 0\n    nesterov: False\n    param_names: ['a']\n"), "{o}");
    let mut other = SGDOptions::new().try_build_named([("x", &p(0.0))]).unwrap();
    other.add_group_of_values(vec![p(0.0)], Some(vec!["y".into()]), &[]).unwrap();
    other.load_state_dict(&state).unwrap();
    assert_eq!(other.param_groups[0].param_names().unwrap(), ["a"]);
    assert_eq!(other.initial_lr(1), 0.25);
    assert_eq!(other.param_groups[1].options.lr.to_string(), "0.125");
    // the loaded tensor is a copy
    other.set_lr(0, 9.0);
    assert_eq!(lr.item::<f32>(), 0.25);
}
