//! Unique values, and sorting and searching in rare dtypes.

use super::t;
use flambeau_core::{ErrorKind, Tensor, ops};

#[test]
fn unique_values_and_slices() {
    let x = Tensor::from_slice(&[3i64, 1, 3, 2, 1, 1], [2, 3]);
    let (v, inverse, counts) = ops::unique(&x, true, true, true).unwrap();
    assert_eq!(v.to_vec::<i64>(), [1, 2, 3]);
    assert_eq!((inverse.sizes(), inverse.to_vec::<i64>()), (&[2, 3][..], vec![2, 0, 2, 1, 0, 0]));
    assert_eq!(counts.to_vec::<i64>(), [3, 1, 2]);
    let rows = Tensor::from_slice(&[2i64, 1, 0, 5, 2, 1, 0, 4], [4, 2]);
    let (v, inverse, counts) = ops::unique_dim(&rows, 0, true, true, true).unwrap();
    assert_eq!((v.sizes(), v.to_vec::<i64>()), (&[3, 2][..], vec![0, 4, 0, 5, 2, 1]));
    assert_eq!(inverse.to_vec::<i64>(), [2, 1, 2, 0]);
    assert_eq!(counts.to_vec::<i64>(), [1, 1, 2]);
    let (v, _, counts) = ops::unique_consecutive(&x, false, true, None).unwrap();
    assert_eq!((v.to_vec::<i64>(), counts.to_vec::<i64>()), (vec![3, 1, 3, 2, 1], vec![1, 1, 1, 1, 2]));
    let nan = t(&[f64::NAN, 1.0, f64::NAN], &[3]);
    assert_eq!(ops::unique(&nan, true, false, false).unwrap().0.numel(), 3);
}

#[test]
fn rows_beyond_the_kernels_positions_are_errors() {
    // one element, seen as more than 32 bits count
    let x = Tensor::from_slice(&[1u8], 1);
    let wide = |n| ops::expand(&x, &[n], false).unwrap();
    assert_eq!(ops::unique(&wide(1 << 32), true, false, false).unwrap_err().kind(), ErrorKind::Missing);
}
