//! The rest of `nn.utils`: older norms, calls with other parameters, clipping, fused layers, calls by name, data parallel.

use crate::parametrize::Double;
use crate::t;
use crate::values;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Tensor, Value};
use flambeau_core::{ErrorKind, functions as torch};
use flambeau_library::object::construct;
use flambeau_nn as nn;
use flambeau_nn::prelude::*;
use flambeau_nn::utils::stateless::{functional_call, functional_call_around};
use flambeau_nn::utils::{self, parametrizations, parametrize};
use flambeau_nn::{LoadStateDictOptions, StateDict};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

#[test]
fn older_norms_say_what_is_wrong() {
    let mut m = nn::Linear::new(2, 2);
    utils::try_weight_norm(&mut m, "weight", Default::default()).unwrap();
    let text = |r: Result<()>| r.unwrap_err().message().to_owned();
    assert_eq!(
        text(utils::try_weight_norm(&mut m, "weight", Default::default())),
        "Cannot register two weight_norm hooks on the same parameter weight"
    );
    let names: Vec<String> = m.named_parameters().into_iter().map(|(n, _)| n).collect();
    assert_eq!(names, ["bias", "weight_g", "weight_v"]);
    utils::try_remove_weight_norm(&mut m, "weight").unwrap();
    assert_eq!(
        text(utils::try_remove_weight_norm(&mut m, "weight")),
        "weight_norm of 'weight' not found in Linear(in_features=2, out_features=2, bias=True)"
    );
    utils::try_spectral_norm(&mut m, "weight", Default::default()).unwrap();
    let x = t(&[1., 1.], &[1, 2]);
    // two calls before one backward: each graph keeps what it was computed with
    (m.call(&x) + m.call(&x)).sum().backward();
    assert!(m.get_parameter("weight_orig").unwrap().grad().is_some());
    utils::try_remove_spectral_norm(&mut m, "weight").unwrap();
    assert_eq!(m.named_parameters().len(), 2);
    // checkpoints of the older weight norm load into the newer
    let mut old = nn::Linear::new(2, 2);
    utils::try_weight_norm(&mut old, "weight", Default::default()).unwrap();
    let mut new = nn::Linear::new(2, 2);
    parametrizations::try_weight_norm(&mut new, "weight", Default::default()).unwrap();
    new.load_state_dict(&old.state_dict()).unwrap();
    assert_eq!(new.weight.to_vec::<f32>(), old.weight.to_vec::<f32>());
    // and are taken over instead of copied
    let taken = old.state_dict();
    new.assign_state_dict(&taken, LoadStateDictOptions::new()).unwrap();
    let g = new.get_parameter("parametrizations.weight.original0").unwrap();
    assert!(g.storage().same(taken.get("weight_g").unwrap().storage()));
}

#[test]
fn calls_with_other_parameters() {
    let net = nn::Sequential::new((nn::Linear::new(1, 1), nn::BatchNorm1d::new(1)));
    let x = t(&[1., 2., 4.], &[3, 1]);
    let weight = t(&[5.], &[1, 1]);
    weight.requires_grad_(true);
    let mean = t(&[0.], &[1]);
    let given: StateDict =
        [("0.weight", weight.clone()), ("1.running_mean", mean.clone())].into_iter().collect();
    let before = net.state_dict().iter().map(|(_, t)| t.to_vec::<f64>()).collect::<Vec<_>>();
    let y = functional_call(&net, &given, &x);
    (&y * &t(&[1., 0., 0.], &[3, 1])).sum().backward();
    assert!(weight.grad().is_some() && net.parameters()[0].grad().is_none());
    assert!(mean.to_vec::<f32>()[0] != 0.0, "changes of buffers go to the given ones");
    let after = net.state_dict().iter().map(|(_, t)| t.to_vec::<f64>()).collect::<Vec<_>>();
    for (i, (a, b)) in before.iter().zip(&after).enumerate() {
        assert!(a == b || [3, 4, 5, 6].contains(&i), "{i}: {a:?} {b:?}");
    }
    let e = functional_call_around(&net, &given, true, |_| ()).unwrap_err();
    assert_eq!(
        e.message(),
        "Error(s) in reparametrizing for Sequential:\n\tMissing key(s): '0.bias', '1.weight', '1.bias', '1.running_var', \
         '1.num_batches_tracked'."
    );
    // computed weights can be given too, and a panic inside ends the substitution
    let mut p = nn::LinearOptions::new(1, 1).bias(false).build();
    parametrize::try_register_parametrization(&mut p, "weight", Box::new(Double {})).unwrap();
    let given: StateDict = [("weight", t(&[7.], &[1, 1]))].into_iter().collect();
    assert_eq!(functional_call(&p, &given, &t(&[1.], &[1, 1])).item::<f32>(), 7.0);
    let given: StateDict = [("parametrizations.weight.original", t(&[4.], &[1, 1]))].into_iter().collect();
    assert_eq!(functional_call(&p, &given, &t(&[1.], &[1, 1])).item::<f32>(), 8.0);
    let ended =
        catch_unwind(AssertUnwindSafe(|| functional_call_around(&p, &given, false, |_| panic!("out"))));
    assert!(ended.is_err());
    assert!(p.call(&t(&[1.], &[1, 1])).item::<f32>() != 8.0);
    let tied = Arc::new(nn::LinearOptions::new(1, 1).bias(false).build());
    let both = nn::ModuleList::new([tied.clone(), tied]);
    let given: StateDict =
        [("0.weight", t(&[1.], &[1, 1])), ("1.weight", t(&[2.], &[1, 1]))].into_iter().collect();
    let e = functional_call_around(&both, &given, false, |_| ()).unwrap_err();
    assert_eq!(
        e.message(),
        "functional_call got multiple values for keys ['0.weight', '1.weight'], which are tied. Consider using tie_weights=False"
    );
}

#[test]
fn gradients_are_clipped() {
    let m = nn::Linear::new(2, 2);
    let set = |v: &[f32]| m.weight.try_set_grad(Some(t(v, &[2, 2]))).unwrap();
    set(&[3., 0., 4., 0.]);
    let total = utils::clip_grad_norm_(m.parameters(), 1.0);
    assert_eq!(total.item::<f32>(), 5.0);
    let norm = |o| utils::get_total_norm_with([m.weight.grad().unwrap()], o).item::<f32>();
    assert!((norm(utils::ClipGradOptions::new()) - 1.0).abs() < 1e-5);
    set(&[3., -9., 4., 0.]);
    assert_eq!(norm(utils::ClipGradOptions::new().norm_type(f64::INFINITY)), 9.0);
    assert_eq!(norm(utils::ClipGradOptions::new().norm_type(1.0)), 16.0);
    utils::clip_grad_value_(m.parameters(), 3.5);
    assert_eq!(m.weight.grad().unwrap().to_vec::<f32>(), [3., -3.5, 3.5, 0.]);
    set(&[f32::NAN, 0., 0., 0.]);
    let strict = utils::ClipGradOptions::new().error_if_nonfinite(true);
    let e = utils::try_clip_grad_norm_(m.parameters(), 1.0, strict).unwrap_err();
    assert!(
        e.message().starts_with("The total norm of order 2.0 for gradients from `parameters` is non-finite"),
        "{e}"
    );
    assert_eq!(utils::get_total_norm(&[] as &[Tensor]).item::<f32>(), 0.0);
    let half = t(&[3.], &[1]).try_to(DType::F16).unwrap();
    assert_eq!(utils::get_total_norm([half, t(&[4.], &[1])]).dtype(), DType::F32);
    let v = utils::try_parameters_to_vector(m.parameters()).unwrap();
    utils::try_vector_to_parameters(&(&v * 0.0), m.parameters()).unwrap();
    assert_eq!(m.weight.to_vec::<f32>(), [0.; 4]);
}

#[test]
fn fused_layers_compute_the_same() {
    let net =
        nn::Sequential::new((nn::Conv2dOptions::new(2, 3, 2).bias(false).build(), nn::BatchNorm2d::new(3)));
    let x = Tensor::from_vec_raw((0..32).map(|i| (i as f32).sin()).collect(), &[1, 2, 4, 4]).unwrap();
    net.call(&x);
    let (conv, bn) = (
        net[0].as_any().downcast_ref::<nn::Conv2d>().unwrap(),
        net[1].as_any().downcast_ref::<nn::BatchNorm2d>().unwrap(),
    );
    let e = utils::try_fuse_conv_bn_eval(conv, bn, false).unwrap_err();
    assert_eq!(e.message(), "Fusion only for eval!");
    net.eval();
    let fused = utils::fuse_conv_bn_eval(conv, bn);
    assert!(!fused.is_training() && fused.weight.requires_grad());
    for (a, b) in fused.call(&x).to_vec::<f32>().iter().zip(net.call(&x).to_vec::<f32>()) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
    let (up, bn) = (nn::ConvTranspose2d::new(2, 3, 2), nn::BatchNorm2d::new(3));
    up.eval();
    bn.eval();
    let (fused, apart) = (utils::fuse_conv_bn_eval(&up, &bn).call(&x), bn.call(&up.call(&x)));
    for (a, b) in fused.to_vec::<f32>().iter().zip(apart.to_vec::<f32>()) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
    let (linear, bn) = (nn::Linear::new(2, 3), nn::BatchNorm1d::new(3));
    linear.eval();
    bn.eval();
    let fused = utils::try_fuse_linear_bn_eval(&linear, &bn).unwrap();
    let x = t(&[1., 2.], &[1, 2]);
    for (a, b) in fused.call(&x).to_vec::<f32>().iter().zip(bn.call(&linear.call(&x)).to_vec::<f32>()) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
    let wrong = nn::BatchNorm1d::new(2);
    wrong.eval();
    assert!(
        utils::try_fuse_linear_bn_eval(&linear, &wrong).unwrap_err().message().ends_with("bn.num_features=2")
    );
}

#[test]
fn modules_are_changed_by_name() {
    use flambeau_library::call;
    let linear = Value::Object(construct("torch.nn.Linear", &[4i64.into(), 3i64.into()], &[]).unwrap());
    let Value::Object(o) = &linear else { unreachable!() };
    let amount = [("amount".to_owned(), Value::Float(0.5))];
    call("torch.nn.utils.prune.l1_unstructured", &[linear.clone(), Value::Str("weight".into())], &amount)
        .unwrap();
    let pruned = || call("torch.nn.utils.prune.is_pruned", std::slice::from_ref(&linear), &[]).unwrap();
    assert!(matches!(pruned()[..], [Value::Bool(true)]));
    call("torch.nn.utils.prune.remove", &[linear.clone(), Value::Str("weight".into())], &[]).unwrap();
    assert!(matches!(pruned()[..], [Value::Bool(false)]));
    call("torch.nn.utils.parametrizations.orthogonal", std::slice::from_ref(&linear), &[]).unwrap();
    assert!(o.repr().starts_with("ParametrizedLinear("), "{}", o.repr());
    assert_eq!(o.call(&[t(&[1.; 4], &[1, 4]).into()], &[]).unwrap().len(), 1);
    let e = call("torch.nn.utils.prune.identity", &[Value::Int(1), Value::Str("weight".into())], &[])
        .unwrap_err();
    assert_eq!(e.message(), "expected a Module, got int");
}

#[test]
fn data_parallel_calls_its_module() {
    use flambeau_library::object::construct;
    let model = nn::DataParallel::new(nn::LSTM::new(2, 3));
    let x = torch::randn([4, 1, 2]);
    let (y, _) = model.call(&x);
    assert_eq!(values(&y), values(&model.module.call(&x, None).0));
    assert_eq!(model.state_dict().keys().next(), Some("module.weight_ih_l0"));
    assert_eq!(values(&nn::data_parallel(&nn::Identity::new(), &x)), values(&x));
    let e = nn::try_data_parallel(&nn::Identity::new(), &x, &[flambeau_core::Device::cuda(0)]);
    assert_eq!(e.unwrap_err().kind(), ErrorKind::Missing);
    let linear = construct("torch.nn.Linear", &[Value::Int(2), Value::Int(3)], &[]).unwrap();
    let named = construct("torch.nn.DataParallel", &[Value::Object(linear)], &[]).unwrap();
    let y = named.call(&[Value::Tensor(x)], &[]).unwrap();
    assert_eq!(Tensor::from_value(&y[0]).unwrap().sizes(), [4, 1, 3]);
}
