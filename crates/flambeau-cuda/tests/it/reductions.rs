//! Reductions and softmax: over all dimensions, rows and columns, of sizes that one block, several blocks and packs serve.

use crate::emulated::{agree, cast, numbers, there};
use flambeau_core::{DType, Result, Tensor, ops};

type Call = fn(&Tensor, &[i64]) -> Result<Tensor>;
const CALLS: [(&str, Call, f64); 14] = [
    ("sum", |t, d| ops::sum(t, Some(d), false, None), 1e-5),
    ("nansum", |t, d| ops::nansum(t, Some(d), true, None), 1e-5),
    ("mean", |t, d| ops::mean(t, Some(d), false, None), 1e-5),
    ("var", |t, d| ops::var(t, Some(d), None, false), 1e-4),
    ("std", |t, d| ops::std(t, Some(d), Some(0.into()), true), 1e-4),
    ("amax", |t, d| ops::amax(t, d, false), 0.0),
    ("amin", |t, d| ops::amin(t, d, true), 0.0),
    ("norm", |t, d| ops::linalg_vector_norm(t, 2.into(), Some(d), false, None), 1e-5),
    ("norm 3", |t, d| ops::linalg_vector_norm(t, 3.into(), Some(d), false, None), 1e-5),
    ("norm inf", |t, d| ops::linalg_vector_norm(t, f64::INFINITY.into(), Some(d), false, None), 0.0),
    ("logsumexp", |t, d| ops::logsumexp(t, d, false), 1e-5),
    ("count_nonzero", |t, d| ops::count_nonzero(t, Some(d)), 0.0),
    ("argmax", |t, d| ops::argmax(t, if d.len() == 1 { Some(d[0]) } else { None }, false), 0.0),
    ("argmin", |t, d| ops::argmin(t, if d.len() == 1 { Some(d[0]) } else { None }, false), 0.0),
];

/// Compares all of them with the CPU.
pub fn all() {
    let shapes: [&[i64]; 5] = [&[5, 7], &[3, 4, 6], &[1, 20000], &[3000, 3], &[2, 513]];
    for sizes in shapes {
        let t = numbers(sizes);
        let x = there(&t);
        let every: Vec<i64> = (0..sizes.len() as i64).collect();
        for (name, call, tolerance) in CALLS {
            for dims in [&every[..], &every[..1], &every[1..2]] {
                let what = format!("{name} of {sizes:?} over {dims:?}");
                agree(&what, &call(&x, dims).unwrap(), &call(&t, dims).unwrap(), tolerance);
            }
        }
        let turned = (ops::transpose(&x, 0, 1).unwrap(), ops::transpose(&t, 0, 1).unwrap());
        let sum = |t: &Tensor| ops::sum(t, Some(&[0]), false, None).unwrap();
        agree("a transposed tensor", &sum(&turned.0), &sum(&turned.1), 1e-5);
        for dim in [0, 1] {
            for soft in [ops::softmax_data, ops::log_softmax_data] {
                let what = format!("softmax of {sizes:?} along {dim}");
                agree(&what, &soft(&x, dim, false).unwrap(), &soft(&t, dim, false).unwrap(), 1e-5);
            }
        }
    }
    dtypes();
    places();
}
fn dtypes() {
    use DType::*;
    for d in [F16, BF16, F64, I32, I64, U8, Bool, C64, C128] {
        let t = ops::mul(&numbers(&[6, 300]), &Tensor::from_slice(&[3f32], [0i64; 0])).unwrap();
        let t = cast(&t, d);
        let x = there(&t);
        let tolerance = if d == BF16 { 2e-2 } else { 2e-3 };
        let sum = |t: &Tensor| ops::sum(t, Some(&[1]), false, None).unwrap();
        agree(&format!("sum of {d}"), &sum(&x), &sum(&t), tolerance);
        let any = |t: &Tensor| ops::any(t).unwrap();
        agree(&format!("any of {d}"), &any(&x), &any(&t), 0.0);
        let all = |t: &Tensor| ops::all_dim(t, 1, true).unwrap();
        agree(&format!("all of {d}"), &all(&x), &all(&t), 0.0);
        if !d.is_complex() {
            let (a, b) = (ops::max_dim(&x, 1, false).unwrap(), ops::max_dim(&t, 1, false).unwrap());
            agree(&format!("max of {d}"), &a.0, &b.0, 0.0);
            agree(&format!("place of the maximum of {d}"), &a.1, &b.1, 0.0);
        }
    }
}
/// A NaN comes before everything, and of equals the first.
fn places() {
    let mut v = vec![1f32; 5000];
    (v[10], v[40], v[4000]) = (7.0, 7.0, 6.0);
    let of = |v: &[f32]| there(&Tensor::from_slice(v, v.len() as i64));
    let place = |x: &Tensor| ops::argmax(x, None, false).unwrap().try_to_vec::<i64>().unwrap()[0];
    assert_eq!(place(&of(&v)), 10);
    (v[3000], v[4500]) = (f32::NAN, f32::NAN);
    let x = of(&v);
    assert_eq!(place(&x), 3000);
    assert!(ops::amax(&x, &[0], false).unwrap().try_to_vec::<f32>().unwrap()[0].is_nan());
    assert!(ops::min(&x).unwrap().try_to_vec::<f32>().unwrap()[0].is_nan());
    // nothing to reduce
    let none = there(&Tensor::from_slice::<f32>(&[], &[0, 3]));
    let sums = ops::sum(&none, Some(&[0]), false, None).unwrap();
    assert_eq!(sums.try_to_vec::<f32>().unwrap(), [0.0; 3]);
    assert!(ops::mean(&none, None, false, None).unwrap().try_to_vec::<f32>().unwrap()[0].is_nan());
}
