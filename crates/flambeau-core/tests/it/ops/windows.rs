//! Windows of signals.

use super::{call, near};
use flambeau_core::{DType, Value, ops};

#[test]
fn windows() {
    near(&ops::hann_window(4, true, Some(DType::F64), None, None, None).unwrap(), &[0.0, 0.5, 1.0, 0.5]);
    near(&ops::hann_window(1, false, None, None, None, None).unwrap(), &[1.0]);
    near(
        &ops::kaiser_window(3, false, 12.0, Some(DType::F64), None, None, None).unwrap(),
        &[5.277_344_413_4e-5, 1.0, 5.277_344_413_4e-5],
    );
    near(
        &ops::signal_gaussian(3, 1.0, true, Some(DType::F64), None, None, None).unwrap(),
        &[0.606_530_659_7, 1.0, 0.606_530_659_7],
    );
}

#[test]
fn half_windows_round_after_every_step() {
    let kwargs = [("dtype", Value::DType(DType::BF16))];
    let w = call("torch.hann_window", &[Value::Int(8), Value::Bool(false)], &kwargs).unwrap();
    let want = [0.0, 0.189453125, 0.61328125, 0.94921875, 0.94921875, 0.60546875, 0.193359375, 0.0];
    assert_eq!(w.to(DType::F32).to_vec::<f32>(), want);
}
