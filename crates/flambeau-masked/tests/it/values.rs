//! Values of masked reductions beside the same reductions of what the mask leaves, and errors.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, ErrorKind, Scalar, Tensor, ops as core};
use flambeau_masked::ops;

fn x() -> Tensor {
    Tensor::from_vec_raw(vec![3.0f64, -1.0, 2.0, 0.5, 4.0, -2.0], &[2, 3]).unwrap()
}
fn mask() -> Tensor {
    let m = Tensor::from_vec_raw(vec![1i64, 0, 1, 1, 1, 0], &[2, 3]).unwrap();
    core::to_copy(&m, Some(DType::Bool), None, None, None, false, None).unwrap()
}
fn values(t: flambeau_core::Result<Tensor>) -> Vec<f64> {
    t.unwrap().try_to_vec().unwrap()
}

#[test]
fn reductions_see_what_the_mask_leaves() {
    let (x, m) = (x(), mask());
    let (d, m) = (Some(&[1i64][..]), Some(&m));
    assert_eq!(values(ops::masked_sum(&x, d, false, None, m)), [5.0, 4.5]);
    assert_eq!(values(ops::masked_prod(&x, d, false, None, m)), [6.0, 2.0]);
    assert_eq!(values(ops::masked_amax(&x, d, false, None, m)), [3.0, 4.0]);
    assert_eq!(values(ops::masked_amin(&x, d, false, None, m)), [2.0, 0.5]);
    assert_eq!(values(ops::masked_mean(&x, d, false, None, m)), [2.5, 2.25]);
    assert_eq!(values(ops::masked_median(&x, 1, false, None, m)), [2.0, 0.5]);
    assert_eq!(values(ops::masked_argmin(&x, Some(1), false, None, m)), [2.0, 0.0]);
    assert_eq!(values(ops::masked_norm(&x, Scalar::Int(1), d, false, None, m)), [5.0, 4.5]);
    assert_eq!(values(ops::masked_norm(&x, Scalar::Float(f64::NEG_INFINITY), d, false, None, m)), [2.0, 0.5]);
    assert_eq!(values(ops::masked_var(&x, d, None, None, true, None, m)), [0.5, 6.125]);
    assert_eq!(values(ops::masked_sum(&x, None, false, None, m)), [9.5]);
    // a mask of one row counts for all
    let row = core::select(m.unwrap(), 0, 0).unwrap();
    assert_eq!(values(ops::masked_sum(&x, d, false, None, Some(&row))), [5.0, -1.5]);
}
#[test]
fn nothing_left() {
    let x = x();
    let none =
        core::logical_not(&core::logical_or(&mask(), &core::logical_not(&mask()).unwrap()).unwrap()).unwrap();
    let (d, m) = (Some(&[1i64][..]), Some(&none));
    assert_eq!(values(ops::masked_sum(&x, d, false, None, m)), [0.0, 0.0]);
    assert_eq!(values(ops::masked_prod(&x, d, false, None, m)), [1.0, 1.0]);
    assert_eq!(values(ops::masked_amax(&x, d, false, None, m)), [f64::NEG_INFINITY; 2]);
    assert!(values(ops::masked_mean(&x, d, false, None, m)).iter().all(|v| v.is_nan()));
    let whole = core::to_copy(&x, Some(DType::I32), None, None, None, false, None).unwrap();
    let least = ops::masked_amax(&whole, d, false, None, m).unwrap().try_to_vec::<i32>().unwrap();
    assert_eq!(least, [i32::MIN; 2]);
    let e = ops::masked_median(&whole, 1, false, None, m).unwrap_err();
    assert_eq!(e.message(), "masked median expects no fully masked out rows if dtype is not floating point");
}
#[test]
fn normalisations() {
    let (x, m) = (x(), mask());
    let y = values(ops::masked_softmax(&x, 1, None, Some(&m)));
    assert!(y[1] == 0.0 && y[5] == 0.0 && (y[0] + y[2] - 1.0).abs() < 1e-12);
    assert_eq!(values(ops::masked_cumsum(&x, 1, None, Some(&m))), [3.0, 3.0, 5.0, 0.5, 4.5, 4.5]);
    assert_eq!(
        values(ops::masked_normalize(&x, Scalar::Int(1), 1, 1e-12, None, Some(&m)))[..3],
        [0.6, 0.0, 0.4]
    );
}
#[test]
fn bad_arguments() {
    let (x, m) = (x(), mask());
    let sum = |dim: &[i64], m: &Tensor| ops::masked_sum(&x, Some(dim), false, None, Some(m)).unwrap_err();
    let e = sum(&[2], &m);
    assert_eq!(
        (e.kind(), e.message()),
        (ErrorKind::Index, "Dimension out of range (expected to be in range of [-2, 1], but got 2)")
    );
    assert_eq!(sum(&[1, 1], &m).message(), "dim=1 appears multiple times in the list of dims");
    let high = core::unsqueeze(&m, 0).unwrap();
    assert_eq!(sum(&[1], &high).kind(), ErrorKind::Index);
    let whole = core::to_copy(&x, Some(DType::I64), None, None, None, false, None).unwrap();
    let e = ops::masked_mean(&whole, None, false, None, Some(&m)).unwrap_err();
    assert_eq!(
        e.message(),
        "mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: torch.int64"
    );
    let e = ops::masked_amax(&m, None, false, None, Some(&m)).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::Unsupported, "identity of amax on torch.bool input"));
}
