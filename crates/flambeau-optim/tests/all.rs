//! Properties that hold for every optimizer, and what goes beyond one step: recorded steps, groups, hooks, averages.

use flambeau_core::{DType, Error, Result, Tensor, Value};
use flambeau_library::object::{ObjectRef, construct};
use flambeau_nn::prelude::*;
use flambeau_optim::lr_scheduler::{ExponentialLR, LRScheduler, OneCycleLROptions, SequentialLR, StepLR};
use flambeau_optim::swa_utils::{AveragedModelOptions, get_ema_avg_fn, get_swa_avg_fn};
use flambeau_optim::{
    AdamOptions, Optimizer, SGD, SGDOptions, register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
};
use flambeau_serialization::Tree;
use std::sync::{Arc, Mutex};

type Kwargs = Vec<(&'static str, Value)>;
fn pair(a: f64, b: f64) -> Value {
    Value::Tuple(vec![Value::Float(a), Value::Float(b)])
}
/// Every optimizer that can record, with options that take all branches.
fn recording() -> Vec<(&'static str, Kwargs)> {
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
fn make(
    class: &str,
    params: &[Tensor],
    kwargs: &Kwargs,
    more: &[(&'static str, Value)],
) -> Result<ObjectRef> {
    let params = Value::List(params.iter().cloned().map(Value::Tensor).collect());
    let kwargs: Vec<_> = kwargs.iter().chain(more).map(|(k, v)| (k.to_string(), v.clone())).collect();
    construct(&format!("torch.optim.{class}"), &[params], &kwargs)
}
fn numbers(n: usize, seed: f64) -> Vec<f64> {
    (0..n).map(|i| ((i as f64 + 1.3) * seed).sin() + 0.05).collect()
}
fn floats(t: &Tensor) -> Vec<f64> {
    let t = t.alias_detached();
    let t = if t.is_complex() { flambeau_core::ops::view_as_real(&t).unwrap() } else { t };
    t.reshape([-1]).to_vec::<f64>()
}
fn complex(v: &[f64], sizes: &[i64]) -> Tensor {
    let mut two = sizes.to_vec();
    two.push(2);
    flambeau_core::ops::view_as_complex(&Tensor::from_slice(v, two)).unwrap()
}
fn near(name: &str, a: &[f64], b: &[f64], tol: f64) {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).for_each(|(a, b)| assert!((a - b).abs() <= tol * b.abs().max(1.0), "{name}: {a} {b}"));
}

#[test]
fn recorded_steps_are_the_fused_ones() {
    for (class, kwargs) in recording() {
        for is_complex in [false, true] {
            let tensor = |seed: f64| {
                let v = numbers(if is_complex { 12 } else { 6 }, seed);
                if is_complex { complex(&v, &[2, 3]) } else { Tensor::from_slice(&v, [2, 3]) }
            };
            let (fused, start) = (tensor(0.7), tensor(0.7));
            start.requires_grad_(true);
            let recorded = &start * 1.0;
            let a = make(class, std::slice::from_ref(&fused), &kwargs, &[]).unwrap();
            let more = [("differentiable", Value::Bool(true))];
            let b = make(class, std::slice::from_ref(&recorded), &kwargs, &more).unwrap();
            for step in 0..4 {
                let g = tensor(1.1 + step as f64 * 0.3);
                fused.set_grad(Some(g.copy()));
                recorded.set_grad(Some(g));
                a.method("step", &[], &[]).unwrap();
                b.method("step", &[], &[]).unwrap();
            }
            near(&format!("{class} {kwargs:?}"), &floats(&recorded), &floats(&fused), 1e-12);
            assert!(recorded.requires_grad() && !recorded.is_leaf(), "{class}");
        }
    }
}

/// The sum of the parameters after three steps, as a function of start, gradients and learning rate.
fn through(class: &str, kwargs: &Kwargs, x: &[Tensor]) -> Tensor {
    let p = &x[0] * 1.0;
    let more = [("differentiable", Value::Bool(true)), ("lr", Value::Tensor(x[2].clone()))];
    let kwargs = kwargs.iter().filter(|(k, _)| *k != "lr").cloned().collect();
    let o = make(class, std::slice::from_ref(&p), &kwargs, &more).unwrap();
    for step in 0..3 {
        p.set_grad(Some(&x[1] * (1.0 + step as f64 * 0.5)));
        o.method("step", &[], &[]).unwrap();
    }
    (&p * Tensor::from_slice(&numbers(6, 2.3), [2, 3])).sum()
}
#[test]
fn gradients_go_through_steps() {
    for (class, kwargs) in recording() {
        let inputs = || {
            [
                Tensor::from_slice(&numbers(6, 0.7), [2, 3]),
                Tensor::from_slice(&numbers(6, 1.1), [2, 3]),
                Tensor::from_slice(&[0.05f64], ()),
            ]
        };
        let x = inputs();
        x.iter().for_each(|t| {
            t.requires_grad_(true);
        });
        through(class, &kwargs, &x).backward();
        // the first momentum buffer is a copy of the gradient that nothing goes through, in PyTorch too
        let detached = kwargs.iter().any(|(k, _)| *k == "momentum") && class == "SGD";
        for (which, t) in x.iter().enumerate().skip(if detached { 2 } else { 0 }) {
            // the steps of Rprop and ASGD take the learning rate as a number, and so PyTorch records none
            let Some(got) = t.grad() else {
                assert!(matches!(class, "Rprop" | "ASGD"), "{class}: no gradient of input {which}");
                continue;
            };
            for (i, got) in floats(&got).iter().enumerate() {
                let at = |by: f64| {
                    let y = inputs();
                    let mut v = floats(&y[which]);
                    v[i] += by;
                    let sizes = y[which].sizes().to_vec();
                    let mut y = y;
                    y[which] = Tensor::from_slice(&v, sizes);
                    through(class, &kwargs, &y).item::<f64>()
                };
                let want = (at(1e-6) - at(-1e-6)) / 2e-6;
                assert!(
                    (got - want).abs() < 1e-5 * want.abs().max(1.0),
                    "{class} {kwargs:?} {which} {i}: {got} {want}"
                );
            }
        }
    }
}

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
    // the loaded tensor is a copy
    other.set_lr(0, 9.0);
    assert_eq!(lr.item::<f32>(), 0.25);
}

type Seen = Arc<Mutex<Vec<&'static str>>>;
/// A hook that notes steps of the test's own optimizer: other tests run beside it, and global hooks see them too.
fn note(seen: &Seen, text: &'static str) -> impl Fn(&mut dyn Optimizer) + Send + Sync + 'static {
    let seen = seen.clone();
    move |o: &mut dyn Optimizer| {
        if o.group_params(0)[0].numel() == 13 {
            seen.lock().unwrap().push(text);
        }
    }
}
#[test]
fn hooks_run_in_order() {
    let w = Parameter::new(Tensor::from_slice(&[1f32; 13], 13));
    let mut o = SGD::new([&w], 0.5);
    let seen = Seen::default();
    let global = [
        register_optimizer_step_pre_hook(note(&seen, "all before")),
        register_optimizer_step_post_hook(note(&seen, "all after")),
    ];
    let before = o.register_step_pre_hook(note(&seen, "before"));
    o.register_step_post_hook(note(&seen, "after"));
    o.register_step_pre_hook(|o| o.set_lr(0, 1.0));
    w.set_grad(Some(Tensor::from_slice(&[1f32; 13], 13)));
    o.step();
    assert_eq!(w.to_vec::<f32>(), [0.0; 13]);
    before.remove();
    global.iter().for_each(|h| h.remove());
    o.step();
    assert_eq!(*seen.lock().unwrap(), ["all before", "before", "after", "all after", "after"]);
    // a state dict with a note, which loading takes out again
    o.register_state_dict_post_hook(
        |_, state| {
            let mut l = state.entries().unwrap().to_vec();
            l.push((Tree::Str("epoch".into()), Tree::Int(3)));
            Some(Tree::Dict(l))
        },
        false,
    );
    let state = o.state_dict();
    assert!(matches!(state.get("epoch"), Some(Tree::Int(3))));
    o.register_load_state_dict_pre_hook(
        |o, _| Some(Tree::Dict(vec![(Tree::Str(o.name().into()), Tree::None)])),
        true,
    );
    assert!(o.load_state_dict(&state).is_err());
}

#[test]
fn schedules_by_hand() {
    let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
    let mut o = SGDOptions::new().lr(1.0).momentum(0.9).build([&w]);
    let mut s = StepLR::new(&mut o, 2, 0.1);
    s.try_step_to(&mut o, 5.0).unwrap();
    assert!((o.lr(0) - 0.01).abs() < 1e-15 && s.last_epoch() == 5);
    assert_eq!(s.get_lr(&o).unwrap(), [o.lr(0)]);
    let mut o = AdamOptions::new().lr(1.0).build([&w]);
    let options = OneCycleLROptions::new(0.5).total_steps(4);
    let mut s = options.clone().build(&mut o);
    assert_eq!(o.momentum(0), Some(0.95));
    (0..4).for_each(|_| s.step(&mut o));
    assert_eq!(
        s.try_step(&mut o).unwrap_err().message(),
        "Tried to step 5 times. The specified number of total steps is 4"
    );
    let e = options.pct_start(1).try_build(&mut o).unwrap_err();
    assert_eq!(e.message(), "Expected float between 0 and 1 pct_start, but got 1");
    let parts: Vec<Box<dyn LRScheduler>> = vec![Box::new(ExponentialLR::new(&mut o, 0.5))];
    let e = SequentialLR::try_new(&mut o, parts, vec![1], -1).unwrap_err();
    assert!(e.message().starts_with("Sequential Schedulers expects number of schedulers"), "{e}");
    // combined ones cannot be jumped to, as in PyTorch
    let resumed = flambeau_optim::lr_scheduler::StepLROptions::new(2).last_epoch(3);
    let fresh = Parameter::new(Tensor::from_slice(&[1f32], 1));
    let e = resumed.try_build(&mut SGD::new([&fresh], 1.0)).unwrap_err();
    assert!(e.message().contains("'initial_lr' is not specified in param_groups[0]"), "{e}");
}

#[test]
fn averages_of_models() {
    let model =
        flambeau_nn::Sequential::new((flambeau_nn::Linear::new(2, 2), flambeau_nn::BatchNorm1d::new(2)));
    let second =
        flambeau_nn::Sequential::new((flambeau_nn::Linear::new(2, 2), flambeau_nn::BatchNorm1d::new(2)));
    let weight = |m: &flambeau_nn::Sequential| m.parameters()[0].to_vec::<f32>();
    let equal = AveragedModelOptions::new().build(&model);
    let one = AveragedModelOptions::new().avg_fn(get_swa_avg_fn()).try_build_in(second, &model).unwrap();
    let ema =
        AveragedModelOptions::new().avg_fn(get_ema_avg_fn(0.5).unwrap()).use_buffers(true).build(&model);
    let start = weight(&model);
    for i in 0..3 {
        flambeau_autograd::no_grad(|| {
            model.parameters()[0].add_(if i == 0 { 0.0 } else { 1.0 });
        });
        model.call(&Tensor::from_slice(&numbers(8, 0.4), [4, 2]).to(DType::F32));
        for a in [&equal, &one, &ema] {
            a.update_parameters(&model);
        }
    }
    for (i, s) in start.iter().enumerate() {
        assert!((weight(&equal.module)[i] - (s + 1.0)).abs() < 1e-6);
        assert!((weight(&one.module)[i] - (s + 1.0)).abs() < 1e-6);
        assert!((weight(&ema.module)[i] - (s + 1.25)).abs() < 1e-6);
    }
    assert_eq!(equal.n_averaged.to_vec::<i64>(), [3]);
    // buffers are the model's, or averaged with truncation: 1, (1 + 2) / 2, (1 + 3) / 2
    let count = |m: &flambeau_nn::Sequential| m.buffers()[2].to_vec::<i64>()[0];
    assert_eq!((count(&equal.module), count(&ema.module)), (3, 2));
    let keys: Vec<String> = equal.state_dict().keys().map(str::to_owned).collect();
    assert_eq!(keys[..2], ["n_averaged", "module.0.weight"]);
    let both = AveragedModelOptions::new()
        .avg_fn(get_swa_avg_fn())
        .multi_avg_fn(flambeau_optim::swa_utils::get_swa_multi_avg_fn())
        .try_build(&model);
    assert_eq!(both.unwrap_err().message(), "Only one of avg_fn and multi_avg_fn should be provided");
    let other = flambeau_nn::Sequential::new((flambeau_nn::Linear::new(2, 2),));
    let e = equal.try_update_parameters(&other).unwrap_err();
    assert!(e.message().contains("not of the averages' shape"), "{e}");
    assert_eq!(
        get_ema_avg_fn(2.0).err().unwrap().message(),
        "Invalid decay value 2.0 provided. Please provide a value in [0,1] range."
    );
}

#[test]
fn statistics_of_every_batch_normalisation_are_computed_anew() {
    use flambeau_nn::{Call, Module};
    // behind handles, and of several classes
    let norm = flambeau_nn::Sequential::new((
        flambeau_nn::BatchNorm1dOptions::new(1).momentum(0.25).build(),
        flambeau_nn::SyncBatchNorm::new(1),
        flambeau_nn::LazyBatchNorm1d::new(),
    ));
    let batch = |v: &[f32]| Tensor::from_slice(v, [v.len() as i64, 1]);
    norm.call(&batch(&[9.0, 4.0]));
    let mean = |m: &flambeau_nn::Sequential, i: usize| m.buffers()[3 * i].to_vec::<f32>()[0];
    flambeau_optim::swa_utils::update_bn([batch(&[1.0, 3.0]), batch(&[5.0, 7.0])], &norm);
    assert_eq!((mean(&norm, 0), mean(&norm, 1).abs() < 1e-6, mean(&norm, 2).abs() < 1e-6), (4.0, true, true));
    let counts = (0..3).map(|i| norm.buffers()[3 * i + 2].to_vec::<i64>()[0]).collect::<Vec<_>>();
    assert_eq!(counts, [2, 2, 2]);
    // an error leaves the momenta and the mode as they were
    norm.eval();
    let wide = Tensor::from_slice(&[1f32, 2.0], [1, 2]);
    let e = flambeau_optim::swa_utils::try_update_bn([wide], &norm, None);
    assert!(e.is_err() && !norm.is_training());
    norm.train();
    norm.call(&batch(&[0.0, 0.0]));
    assert_eq!(mean(&norm, 0), 0.0);
    flambeau_optim::swa_utils::update_bn([batch(&[4.0, 4.0])], &norm);
    norm.call(&batch(&[0.0, 0.0]));
    assert_eq!(mean(&norm, 0), 3.0, "the momentum is the one before");
}

#[test]
fn step_hooks_get_the_closure() {
    let p = Parameter::new(Tensor::from_slice(&[1f32], 1));
    let mut o = SGD::new([&p], 0.5);
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = calls.clone();
    let wrap = o.register_step_pre_hook_with_args(move |_, args| {
        if let Some(mut inner) = args.closure.take() {
            let count = count.clone();
            args.closure = Some(Box::new(move || {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                inner().map(|loss| &loss * 10.0)
            }));
        }
        Ok(())
    });
    let mut closure = || {
        o_grad(&p);
        p.tensor() * 2.0
    };
    assert_eq!(o.step_closure(&mut closure).to_vec::<f32>(), [20.0]);
    assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 1);
    wrap.remove();
    o.register_step_pre_hook_with_args(|_, args| match args.closure {
        Some(_) => Ok(()),
        None => Err(flambeau_core::Error::value("this training needs a closure")),
    });
    assert_eq!(o.try_step().unwrap_err().message(), "this training needs a closure");
    assert!(o.try_set_lr(1, 0.1).is_err() && o.set_option(7, "lr", flambeau_core::Value::Int(1)).is_err());
    assert!(o.option(1, "lr").is_none() && o.lr(1).is_nan());
}
fn o_grad(p: &Parameter) {
    p.tensor().set_grad(Some(Tensor::from_slice(&[1f32], 1)));
}

/// Seconds per step: `cargo test --release -p flambeau-optim --test all -- --ignored --nocapture speed`.
#[test]
#[ignore = "timing"]
fn speed() {
    for (count, n) in [(1, 4_000_000), (50, 100_000), (200, 1_000), (200, 16)] {
        for class in [
            "SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "ASGD", "RMSprop",
            "Rprop",
        ] {
            let p: Vec<Tensor> = (0..count)
                .map(|_| Tensor::zeros_raw(&[n], DType::F32, flambeau_core::Device::Cpu).unwrap() + 1.0)
                .collect();
            p.iter().for_each(|p| p.set_grad(Some(p.copy())));
            let o = make(class, &p, &vec![], &[]).unwrap();
            let step = || o.method("step", &[], &[]).unwrap();
            step();
            let best = (0..15).map(|_| {
                let start = std::time::Instant::now();
                step();
                start.elapsed().as_secs_f64()
            });
            println!("{count} x {n} {class} {:.1} us", best.fold(f64::MAX, f64::min) * 1e6);
        }
    }
}
