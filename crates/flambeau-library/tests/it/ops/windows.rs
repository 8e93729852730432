//! Windows of signals.

use super::call;
use flambeau_core::{DType, Value};

#[test]
fn half_windows_round_after_every_step() {
    let kwargs = [("dtype", Value::DType(DType::BF16))];
    let w = call("torch.hann_window", &[Value::Int(8), Value::Bool(false)], &kwargs).unwrap();
    let want = [0.0, 0.189453125, 0.61328125, 0.94921875, 0.94921875, 0.60546875, 0.193359375, 0.0];
    assert_eq!(w.to(DType::F32).to_vec::<f32>(), want);
}
