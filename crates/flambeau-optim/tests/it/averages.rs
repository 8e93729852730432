//! Averages of models, and the statistics of their batch normalisations.

use crate::numbers;
use flambeau_core::{DType, Tensor};
use flambeau_nn::prelude::*;
use flambeau_optim::swa_utils::{AveragedModelOptions, get_ema_avg_fn, get_swa_avg_fn, try_get_ema_avg_fn};

#[test]
fn averages_of_models() {
    let model =
        flambeau_nn::Sequential::new((flambeau_nn::Linear::new(2, 2), flambeau_nn::BatchNorm1d::new(2)));
    let second =
        flambeau_nn::Sequential::new((flambeau_nn::Linear::new(2, 2), flambeau_nn::BatchNorm1d::new(2)));
    let weight = |m: &flambeau_nn::Sequential| m.parameters()[0].to_vec::<f32>();
    let equal = AveragedModelOptions::new().build(&model);
    let one = AveragedModelOptions::new().avg_fn(get_swa_avg_fn()).try_build_in(second, &model).unwrap();
    let ema = AveragedModelOptions::new().avg_fn(get_ema_avg_fn(0.5)).use_buffers(true).build(&model);
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
        try_get_ema_avg_fn(2.0).err().unwrap().message(),
        "Invalid decay value 2.0 provided. Please provide a value in [0,1] range."
    );
}

#[test]
fn statistics_of_every_batch_normalisation_are_computed_anew() {
    use flambeau_nn::Module;
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
fn averages_by_name_are_those_of_the_types() {
    use flambeau_core::Value;
    use flambeau_library::object::construct;
    use flambeau_library::{attribute, call_value, method};

    let path = |name: &str| format!("torch.optim.swa_utils.{name}");
    let one = |v: i64| Tensor::from_slice(&[v as f32], [1, 1]);
    let model = Value::Object(construct("torch.nn.Linear", &[1i64.into(), 1i64.into()], &[]).unwrap());
    let tensor = |of: &Value, name: &str| attribute(of, name).unwrap().into_tensor().unwrap();
    let weight = tensor(&model, "weight");
    let ema = call_value(&path("get_ema_multi_avg_fn"), &[0.5.into()], &[]).unwrap();
    let averaged = |kwargs: &[(String, Value)]| {
        Value::Object(construct(&path("AveragedModel"), std::slice::from_ref(&model), kwargs).unwrap())
    };
    let (equal, ema) = (averaged(&[]), averaged(&[("multi_avg_fn".into(), ema)]));
    for v in [2, 4, 9] {
        flambeau_autograd::no_grad(|| weight.copy_(&one(v)));
        for a in [&equal, &ema] {
            method(a, "update_parameters", std::slice::from_ref(&model), &[]).unwrap();
        }
    }
    let of = |v: &Value| tensor(&attribute(v, "module").unwrap(), "weight").item::<f32>();
    assert_eq!((of(&equal), of(&ema)), (5.0, 6.0));
    let e = construct(&path("AveragedModel"), &[1i64.into()], &[]).err().unwrap();
    assert_eq!(e.message(), "int is not a Module subclass");
    let norm = Value::Object(construct("torch.nn.BatchNorm1d", &[1i64.into()], &[]).unwrap());
    let batch = |a, b| Value::Tuple(vec![Tensor::from_slice(&[a, b], [2, 1]).into(), Value::None]);
    let loader = Value::List(vec![batch(1f32, 3.0), batch(5.0, 7.0)]);
    call_value(&path("update_bn"), &[loader, norm.clone()], &[]).unwrap();
    assert_eq!(tensor(&norm, "running_mean").to_vec::<f32>(), [4.0]);
    let e = call_value(&path("update_bn"), &[3i64.into(), 4i64.into()], &[]).err().unwrap();
    assert_eq!(e.message(), "'int' object has no attribute 'modules'");
}
