//! Windows of signals.

use super::near;
use flambeau_core::{DType, ops};

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
