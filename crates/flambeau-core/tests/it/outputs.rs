//! `out=`: outputs of another dtype, and outputs that lie in inputs.

use crate::ops::{near, t};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{ErrorKind, Tensor, ops};

#[test]
fn outputs_of_another_dtype() {
    let x = Tensor::from_slice(&[1.0f32, 2.0], 2);
    let mut wrong = Tensor::from_slice(&[0.0f64], 1);
    let e = ops::amax_out(&x, &[0], false, &mut wrong).unwrap_err();
    assert_eq!(
        e.message(),
        "Expected the dtype for input and out to match, but got Float for input's dtype and Double for out's dtype."
    );
    assert!(ops::abs_out(&x, &mut wrong).unwrap_err().message().starts_with("Found dtype Double"));
    ops::add_out(&x, &x, 1.into(), &mut wrong).unwrap();
    assert_eq!(wrong.to_vec::<f64>(), [2.0, 4.0]);
}

#[test]
fn outputs_that_lie_in_inputs() {
    let x = t(&[3.0, 1.0, 2.0, 0.0], &[4]);
    let i = Tensor::from_slice(&[0i64, 1, 2, 3], 4);
    let shared = "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single";
    let mut out = x.alias_detached();
    assert!(ops::take_out(&x, &i, &mut out).unwrap_err().message().starts_with(shared));
    assert!(ops::gather_out(&x, 0, &i, false, &mut out).unwrap_err().message().starts_with(shared));
    assert!(ops::cat_out(&[x.clone()], 0, &mut out).unwrap_err().message().starts_with(shared));
    // parts of one memory that do not meet are fine
    let (low, mut high) = (ops::narrow(&x, 0, 0, 2).unwrap(), ops::narrow(&x, 0, 2, 2).unwrap());
    ops::cat_out(&[low], 0, &mut high).unwrap();
    near(&x, &[3.0, 1.0, 3.0, 1.0]);
    let (mut least, mut most) = (t(&[0.0], &[]), t(&[0.0], &[]));
    ops::aminmax_out(&x, None, false, &mut least, &mut most).unwrap();
    let mut same = least.alias_detached();
    let e = ops::aminmax_out(&x, None, false, &mut least, &mut same).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Value);
}
