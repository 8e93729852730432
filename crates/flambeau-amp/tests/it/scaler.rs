//! The scaler: growth, back-off, what is refused, and fused steps.

use flambeau_amp::{GradScaler, GradScalerOptions};
use flambeau_core::{DType, Tensor};
use flambeau_nn::Parameter;
use flambeau_optim::{AdamOptions, Optimizer, SGDOptions};

fn weight() -> Parameter {
    Parameter::new(Tensor::from_slice(&[1f32, 2.0], [2]))
}
fn scaler(scale: f64) -> GradScaler {
    GradScalerOptions::new().device("cpu").init_scale(scale).growth_interval(2).build()
}

#[test]
fn the_scale_grows_and_shrinks() {
    let w = weight();
    let (mut s, mut o) = (scaler(8.0), SGDOptions::new().lr(0.5).build([&w]));
    let mut scales = Vec::new();
    for i in 0..5 {
        o.zero_grad();
        s.scale(&w.tensor().sum()).backward();
        if i == 2 {
            w.grad().unwrap().fill_(f64::INFINITY);
        }
        s.step(&mut o);
        s.update();
        scales.push(s.get_scale());
    }
    assert_eq!(scales, [8.0, 16.0, 8.0, 8.0, 16.0]);
    // four steps of 0.5, and one that was left out
    assert_eq!(w.to_vec::<f32>(), [-1.0, 0.0]);
    let state = s.state_dict().unwrap();
    assert_eq!((state.scale, state.growth_tracker), (16.0, 0));
    let mut other = scaler(2.0);
    other.load_state_dict(Some(state)).unwrap();
    assert_eq!(other.get_scale(), 16.0);
    assert!(other.load_state_dict(None).is_err());
}

#[test]
fn unscaled_gradients_can_be_clipped() {
    let w = weight();
    let (mut s, mut o) = (scaler(1024.0), SGDOptions::new().lr(1.0).build([&w]));
    s.scale(&(w.tensor() * 3.0).sum()).backward();
    s.unscale_(&mut o);
    assert_eq!(w.grad().unwrap().to_vec::<f32>(), [3.0, 3.0]);
    assert!(s.try_unscale_(&mut o).unwrap_err().message().contains("already been called"));
    w.grad().unwrap().fill_(1.0);
    s.step(&mut o);
    assert!(s.try_step(&mut o).is_err());
    assert_eq!(w.to_vec::<f32>(), [0.0, 1.0]);
}

#[test]
fn what_is_refused() {
    let w = weight();
    let (mut s, mut o) = (scaler(4.0), SGDOptions::new().lr(1.0).build([&w]));
    assert!(s.try_unscale_(&mut o).unwrap_err().message().contains("_scale is None"));
    assert!(s.try_update().unwrap_err().message().contains("_scale is None"));
    s.scale(&w.tensor().sum());
    assert!(s.try_step(&mut o).unwrap_err().message().contains("No inf checks"), "no gradients");
    assert!(GradScalerOptions::new().device("cpu").growth_factor(0.5).try_build().is_err());
    assert!(GradScalerOptions::new().device("cpu").backoff_factor(1.5).try_build().is_err());
    let half = Parameter::new(Tensor::from_slice(&[1f32], [1]).to(DType::F16));
    let mut o = SGDOptions::new().lr(1.0).build([&half]);
    s.scale(&half.tensor().sum()).backward();
    assert!(s.try_unscale_(&mut o).unwrap_err().message().contains("FP16"));
}

#[test]
fn fused_steps_take_the_scale_out() {
    let run = |fused: bool| {
        let w = weight();
        let mut o = AdamOptions::new().lr(0.1).fused(fused).build([&w]);
        let mut s = scaler(64.0);
        for i in 0..4 {
            o.zero_grad();
            s.scale(&(w.tensor() * w.tensor()).sum()).backward();
            if i == 1 {
                w.grad().unwrap().fill_(f64::NAN);
            }
            s.step(&mut o);
            s.update();
        }
        (w.to_vec::<f32>(), s.get_scale())
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_disabled_scaler_hands_everything_through() {
    let w = weight();
    let mut o = SGDOptions::new().lr(1.0).build([&w]);
    let mut s = GradScalerOptions::new().device("cpu").enabled(false).build();
    s.scale(&w.tensor().sum()).backward();
    s.step(&mut o);
    s.update();
    assert_eq!(w.to_vec::<f32>(), [0.0, 1.0]);
    assert!(s.state_dict().is_none() && s.get_scale() == 1.0);
}

#[test]
fn several_losses_are_scaled_at_once() {
    let mut s = scaler(4.0);
    let w = weight();
    let all = s.scale_all([&w.tensor().sum(), &(w.tensor() * 2.0).sum()]);
    assert_eq!((all.len(), all[1].to_vec::<f32>()[0]), (2, 2.0 * all[0].to_vec::<f32>()[0]));
    flambeau_autograd::grad_fn::backward(&all);
    assert_eq!(w.grad().unwrap().to_vec::<f32>(), [12.0, 12.0]);
    assert!(s.scale_all(Vec::<Tensor>::new()).is_empty());
    let mut off = GradScalerOptions::new().device("cpu").enabled(false).build();
    assert!(off.scale_all([w.tensor()])[0].is_same(&w));
}
