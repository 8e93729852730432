//! Regions: what operators run in, where regions begin and end, and the casts of weights that are kept.

use flambeau_amp::{
    AutocastOptions, autocast, autocast_guard, get_autocast_dtype, is_autocast_enabled, set_autocast_dtype,
    set_autocast_enabled, try_autocast_guard,
};
use flambeau_core::{DType, Tensor, functions as torch, ops};
use flambeau_nn::prelude::*;
use flambeau_nn::{GRU, LSTM, RNN};

fn x() -> Tensor {
    Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], [2, 2])
}

#[test]
fn operators_run_by_their_rules() {
    let (a, half) = (x(), x().to(DType::BF16));
    let _region = autocast_guard("cpu");
    assert_eq!(ops::mm(&a, &a).unwrap().dtype(), DType::BF16, "lower");
    assert_eq!(ops::trace(&half).unwrap().dtype(), DType::F32, "fp32");
    assert_eq!(ops::cat(&[a.clone(), half.clone()], 0).unwrap().dtype(), DType::F32, "the widest");
    assert_eq!(ops::cat(&[half.clone(), half.clone()], 0).unwrap().dtype(), DType::BF16, "the widest");
    assert_eq!(ops::exp(&half).unwrap().dtype(), DType::BF16, "no rule on the CPU");
    assert_eq!(ops::mm(&a.to(DType::F64), &a.to(DType::F64)).unwrap().dtype(), DType::F64, "float64 stays");
    assert_eq!(ops::mm(&a.to(DType::I64), &a.to(DType::I64)).unwrap().dtype(), DType::I64, "integers stay");
    let e = ops::cat(&[half.to(DType::F16), half], 0).unwrap_err();
    assert!(e.message().contains("prioritize"), "{e}");
}

#[test]
fn what_a_body_calls_has_its_own_rules() {
    // no rule of its own on the CPU: its product has one
    let a = x();
    let product = autocast("cpu", || ops::einsum("ij,jk->ik", &[a.clone(), a.clone()], None).unwrap());
    assert_eq!(product.dtype(), DType::BF16);
    // a rule of its own: below it autocast is off, and the result is what it computed
    assert_eq!(autocast("cpu", || ops::matmul(&a, &a).unwrap()).dtype(), DType::BF16);
}

#[test]
fn regions_nest_and_end() {
    let a = x();
    let dtype = || ops::mm(&a, &a).unwrap().dtype();
    assert_eq!(dtype(), DType::F32);
    autocast("cpu", || {
        assert_eq!(dtype(), DType::BF16);
        autocast(AutocastOptions::new("cpu").enabled(false), || assert_eq!(dtype(), DType::F32));
        autocast(AutocastOptions::new("cpu").dtype(DType::F16), || {
            assert_eq!((dtype(), get_autocast_dtype("cpu")), (DType::F16, DType::F16));
        });
        assert_eq!(dtype(), DType::BF16);
    });
    assert_eq!(dtype(), DType::F32);
    // in whatever order guards end, after the last everything is as before the first
    let (outer, inner) =
        (autocast_guard("cpu"), autocast_guard(AutocastOptions::new("cpu").dtype(DType::F16)));
    drop(outer);
    assert_eq!(dtype(), DType::F16);
    drop(inner);
    assert_eq!((dtype(), get_autocast_dtype("cpu")), (DType::F32, DType::BF16));
    let panicked = std::panic::catch_unwind(|| autocast("cpu", || panic!("within")));
    assert!(panicked.is_err() && !is_autocast_enabled("cpu"));
}

#[test]
fn other_threads_have_their_own() {
    let _region = autocast_guard("cpu");
    let there = std::thread::spawn(|| (is_autocast_enabled("cpu"), ops::mm(&x(), &x()).unwrap().dtype()));
    assert_eq!(there.join().unwrap(), (false, DType::F32));
    assert!(is_autocast_enabled("cpu"));
}

#[test]
fn settings_without_a_region() {
    set_autocast_enabled("cpu", true);
    set_autocast_dtype("cpu", DType::F16);
    assert_eq!(ops::mm(&x(), &x()).unwrap().dtype(), DType::F16);
    set_autocast_enabled("cpu", false);
    set_autocast_dtype("cpu", DType::BF16);
    assert_eq!(ops::mm(&x(), &x()).unwrap().dtype(), DType::F32);
    assert!(try_autocast_guard("gpu").is_err());
    assert!(try_autocast_guard("meta").is_err());
}

#[test]
fn in_place_forms_and_out_have_no_rule() {
    let _region = autocast_guard("cpu");
    let y = x();
    ops::addmm_(&y, &x(), &x(), 1.into(), 1.into()).unwrap();
    assert_eq!(y.dtype(), DType::F32);
}

#[test]
fn weights_are_cast_once_and_gradients_meet() {
    let w = x().requires_grad_(true);
    let y = autocast("cpu", || {
        let y = ops::mm(&ops::mm(&x(), &w).unwrap(), &w).unwrap();
        // what was cast without recording does not stand for what is recorded, nor a weight for what it was
        let _no_grad = flambeau_autograd::no_grad_guard();
        ops::mm(&x(), &w).unwrap();
        y
    });
    y.to(DType::F32).sum().backward();
    let kept = w.grad().unwrap();
    w.set_grad(None);
    let y = autocast(AutocastOptions::new("cpu").cache_enabled(false), || {
        ops::mm(&ops::mm(&x(), &w).unwrap(), &w).unwrap()
    });
    y.to(DType::F32).sum().backward();
    assert_eq!(kept.dtype(), DType::F32);
    let difference = (kept - w.grad().unwrap()).abs().max().item::<f32>();
    assert!(difference <= 1.0, "{difference}");
}

#[test]
fn a_written_weight_is_cast_again() {
    let w = x().requires_grad_(true);
    let _region = autocast_guard("cpu");
    let before = ops::mm(&x(), &w).unwrap();
    flambeau_autograd::no_grad(|| ops::fill_(&w, 0.into()).unwrap());
    let after = ops::mm(&x(), &w).unwrap();
    assert!(before.to(DType::F32).sum().item::<f32>() != 0.0);
    assert_eq!(after.to(DType::F32).sum().item::<f32>(), 0.0);
}

/// Results are in the dtype of what a layer before has given, and near those in float32; outside of a region the dtypes must fit.
#[test]
fn recurrent_layers_take_what_comes_from_a_region() {
    let x = torch::rand([5, 2, 4]);
    let half = x.to(DType::BF16);
    let near = |a: &Tensor, b: &Tensor| (a.to(DType::F32) - b).abs().max().item::<f32>() < 0.02;
    let (gru, lstm, rnn) = (GRU::new(4, 3), LSTM::new(4, 3), RNN::new(4, 3));
    let (y, h) = autocast("cpu", || gru.call(&half, None));
    assert_eq!((y.dtype(), h.dtype()), (DType::BF16, DType::BF16));
    assert!(near(&y, &gru.call(&x, None).0));
    // with states of the weights' dtype
    let state = torch::zeros([1, 2, 3]);
    let (y, _) = autocast("cpu", || gru.call(&half, &state));
    assert!(y.dtype() == DType::BF16 && near(&y, &gru.call(&x, None).0));
    let (y, (h, c)) = autocast("cpu", || lstm.call(&half, None));
    assert_eq!((y.dtype(), h.dtype(), c.dtype()), (DType::BF16, DType::BF16, DType::BF16));
    assert!(near(&y, &lstm.call(&x, None).0));
    let (y, _) = autocast("cpu", || rnn.call(&half, None));
    assert!(y.dtype() == DType::BF16 && near(&y, &rnn.call(&x, None).0));
    // the weights themselves get the gradients
    y.to(DType::F32).sum().backward();
    assert!(rnn.parameters().iter().all(|p| p.grad().is_some_and(|g| g.dtype() == DType::F32)));
    let e = gru.try_forward(&half, None).unwrap_err();
    assert!(e.message().contains("does not match weight dtype"), "{e}");
}
