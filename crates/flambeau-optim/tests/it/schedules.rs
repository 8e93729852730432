//! Schedules: against literal values of PyTorch, and by hand.

use crate::steps::parameters;
use flambeau_core::Tensor;
use flambeau_nn::prelude::*;
use flambeau_optim::lr_scheduler::{
    CosineAnnealingLR, ExponentialLR, LRScheduler, LambdaLR, OneCycleLR, OneCycleLROptions,
    ReduceLROnPlateauOptions, SequentialLR, StepLR,
};
use flambeau_optim::{AdamOptions, Optimizer, SGD, SGDOptions};

fn trace(o: &mut SGD, s: &mut dyn LRScheduler, steps: usize) -> Vec<f64> {
    let mut out = vec![o.lr(0)];
    for _ in 0..steps {
        s.step(o);
        out.push(o.lr(0));
    }
    out
}

fn near(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).for_each(|(a, b)| assert!((a - b).abs() <= 1e-10 * b.abs().max(1e-6), "{a} {b}"));
}

#[test]
fn schedules() {
    let p = parameters();
    let sgd = || SGDOptions::new().lr(0.1).momentum(0.9).build(&p);
    let mut o = sgd();
    let mut s = StepLR::new(&mut o, 2, 0.5);
    near(&trace(&mut o, &mut s, 4), &[0.1, 0.1, 0.05, 0.05, 0.025]);
    let mut o = sgd();
    let mut s = LambdaLR::new(&mut o, |e| 0.95f64.powi(e as i32));
    near(&trace(&mut o, &mut s, 2), &[0.1, 0.095, 0.09025]);
    let mut o = sgd();
    let mut s = CosineAnnealingLR::new(&mut o, 4);
    let half = std::f64::consts::FRAC_1_SQRT_2;
    near(&trace(&mut o, &mut s, 4), &[0.1, 0.05 * (1.0 + half), 0.05, 0.05 * (1.0 - half), 0.0]);
    let mut o = sgd();
    let mut s = OneCycleLR::new(&mut o, 0.5, 10);
    assert!((o.lr(0) - 0.02).abs() < 1e-15 && o.momentum(0) == Some(0.95));
    s.step(&mut o);
    s.step(&mut o);
    assert!((o.lr(0) - 0.5).abs() < 1e-12 && (o.momentum(0).unwrap() - 0.85).abs() < 1e-12);
    (0..8).for_each(|_| s.step(&mut o));
    assert!(s.try_step(&mut o).unwrap_err().message().starts_with("Tried to step 11 times"));
    let mut o = sgd();
    let mut s = ReduceLROnPlateauOptions::new().patience(1).factor(0.5).build(&mut o);
    [1.0, 1.0, 1.0].into_iter().for_each(|m| s.step(m, &mut o));
    assert_eq!(o.lr(0), 0.05);
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
