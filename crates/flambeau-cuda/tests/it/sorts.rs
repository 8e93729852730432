//! Scans, sorts and what rests on them: the device's results are the CPU's.

use crate::emulated::{cast, numbers};
use crate::places::{ALL, both, few, same};
use flambeau_core::{DType, Tensor, ops};

pub fn all() {
    scans();
    orders();
    statistics();
    searches();
    different();
    matrices();
}
fn matrices() {
    for d in [DType::F32, DType::F64, DType::C64, DType::C128] {
        let near = if d.to_real() == DType::F32 { 2e-3 } else { 1e-9 };
        for n in [1, 2, 7, 40] {
            let noise = cast(&numbers(&[3, n, n]), d);
            let eye = ops::eye(n, Some(d), None, None, None).unwrap();
            let t = ops::add(&noise, &eye, 3.into()).unwrap();
            same(&format!("inverse {n} {d}"), near, std::slice::from_ref(&t), |t| {
                ops::linalg_inv(&t[0]).unwrap()
            });
            same(&format!("sign {n} {d}"), near, std::slice::from_ref(&t), |t| {
                ops::linalg_slogdet(&t[0]).unwrap().0
            });
            same(&format!("log {n} {d}"), near, &[t], |t| ops::linalg_slogdet(&t[0]).unwrap().1);
        }
    }
    let singular = Tensor::from_slice(&[1f32, 2.0, 2.0, 4.0], [2, 2]);
    same("singular", 0.0, std::slice::from_ref(&singular), |t| ops::linalg_inv_ex(&t[0], false).unwrap().1);
    same("no determinant", 0.0, &[singular], |t| ops::linalg_slogdet(&t[0]).unwrap().1);
    for d in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let t = cast(&ops::mul(&odd(&[5, 9]), &few(&[9])).unwrap(), d);
        same("mantissas", 0.0, std::slice::from_ref(&t), |t| ops::frexp(&t[0]).unwrap().0);
        same("exponents", 0.0, &[t], |t| ops::frexp(&t[0]).unwrap().1);
    }
    same("hash", 0.0, &[numbers(&[5, 9])], |t| ops::hash_tensor(&t[0], &[1], false, 0).unwrap());
}
/// With NaNs, infinities and zeros of both signs.
fn odd(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0];
    let v: Vec<f32> = (0..n)
        .map(|i| if i % 7 == 3 { special[(i / 7 % 5) as usize] } else { ((i * 31) % 17) as f32 - 8.0 })
        .collect();
    Tensor::from_slice(&v, sizes)
}
fn scans() {
    for d in ALL {
        let t = cast(&few(&[3, 37, 5]), d);
        // sums of halves are rounded each
        let near = if d.size() == 2 && d.is_floating() { 2e-2 } else { 1e-5 };
        for dim in [0, 1, 2] {
            both(&format!("cumsum {dim} {d}"), near, std::slice::from_ref(&t), |t| {
                ops::cumsum(&t[0], dim, None)
            });
            both(&format!("cummax {dim} {d}"), 0.0, std::slice::from_ref(&t), |t| {
                Ok(ops::cummax(&t[0], dim)?.1)
            });
            both(&format!("cummin {dim} {d}"), 0.0, std::slice::from_ref(&t), |t| {
                Ok(ops::cummin(&t[0], dim)?.0)
            });
            both(&format!("logcumsumexp {dim} {d}"), near, std::slice::from_ref(&t), |t| {
                ops::logcumsumexp(&t[0], dim)
            });
        }
        both(&format!("cumprod {d}"), near, &[cast(&few(&[4, 9]), d)], |t| ops::cumprod(&t[0], 1, None));
    }
    for (sizes, dim) in
        [(&[60000][..], 0), (&[2, 20000], 1), (&[20000, 3], 0), (&[1000, 9], 1), (&[0, 3], 0), (&[], 0)]
    {
        let t = numbers(sizes);
        same(&format!("long {sizes:?}"), 1e-4, std::slice::from_ref(&t), |t| {
            ops::cumsum(&t[0], dim, None).unwrap()
        });
        same(&format!("last {sizes:?}"), 0.0, &[t], |t| ops::cummax(&t[0], dim).unwrap().1);
    }
    for f in [ops::cummax, ops::cummin] {
        same("odd", 0.0, &[odd(&[70, 3])], |t| f(&t[0], 0).unwrap().0);
        same("odd places", 0.0, &[odd(&[70, 3])], |t| f(&t[0], 0).unwrap().1);
    }
    let turned = ops::t(&numbers(&[50, 40])).unwrap();
    same("turned", 1e-5, &[turned], |t| ops::cumsum(&t[0], 1, None).unwrap());
    same("wider", 0.0, &[cast(&few(&[9]), DType::I32)], |t| ops::cumsum(&t[0], 0, Some(DType::F64)).unwrap());
}
fn orders() {
    for d in ALL {
        for sizes in [&[5, 40, 3][..], &[2, 2500, 1]] {
            let t = cast(&odd(sizes), d);
            for down in [false, true] {
                both(&format!("sort {down} {sizes:?} {d}"), 0.0, std::slice::from_ref(&t), |t| {
                    Ok(ops::sort_stable(&t[0], Some(true), 1, down)?.0)
                });
                both(&format!("places {down} {sizes:?} {d}"), 0.0, std::slice::from_ref(&t), |t| {
                    Ok(ops::sort_stable(&t[0], Some(true), 1, down)?.1)
                });
                both(&format!("topk {down} {sizes:?} {d}"), 0.0, std::slice::from_ref(&t), |t| {
                    Ok(ops::topk(&t[0], 7, 1, down, true)?.1)
                });
            }
        }
    }
    for sizes in [&[9000][..], &[3, 5000], &[400, 3], &[1], &[], &[0, 4]] {
        let t = numbers(sizes);
        same(&format!("{sizes:?}"), 0.0, std::slice::from_ref(&t), |t| ops::sort(&t[0], 0, false).unwrap().0);
        same(&format!("{sizes:?} places"), 0.0, &[t], |t| ops::argsort(&t[0], -1, true).unwrap());
    }
    let long = numbers(&[2, 6000]);
    same("many", 0.0, std::slice::from_ref(&long), |t| ops::topk(&t[0], 1500, 1, true, true).unwrap().1);
    same("some", 0.0, &[long], |t| ops::topk(&t[0], 600, 1, false, true).unwrap().0);
}
fn statistics() {
    for d in ALL {
        for sizes in [&[4, 33][..], &[2, 5000]] {
            let t = cast(&odd(sizes), d);
            let one = std::slice::from_ref(&t);
            both(&format!("kthvalue {d}"), 0.0, one, |t| Ok(ops::kthvalue(&t[0], 20, 1, false)?.1));
            both(&format!("median {d}"), 0.0, one, |t| Ok(ops::median_dim(&t[0], 1, true)?.1));
            both(&format!("nanmedian {d}"), 0.0, one, |t| Ok(ops::nanmedian_dim(&t[0], 1, false)?.0));
            both(&format!("mode {d}"), 0.0, one, |t| Ok(ops::mode(&t[0], 1, false)?.1));
            both(&format!("modes {d}"), 0.0, one, |t| Ok(ops::mode(&t[0], 0, false)?.0));
        }
    }
    same("whole", 0.0, &[numbers(&[300])], |t| ops::median(&t[0]).unwrap());
}
fn searches() {
    for d in ALL {
        let bounds = cast(&Tensor::from_slice(&[0f32, 1.0, 1.0, 3.0, 5.0], 5), d);
        let t = cast(&odd(&[6, 8]), d);
        for right in [false, true] {
            both(&format!("bucketize {right} {d}"), 0.0, &[t.clone(), bounds.clone()], |t| {
                ops::bucketize(&t[0], &t[1], right, right)
            });
        }
        both(&format!("histc {d}"), 0.0, &[cast(&few(&[900]), d)], |t| {
            ops::histc(&t[0], 7, 0.into(), 0.into())
        });
        let counted = ops::add(&few(&[600]), &Tensor::from_slice(&[6f32], [0i64; 0]), 1.into()).unwrap();
        both(&format!("bincount {d}"), 0.0, &[cast(&counted, d)], |t| ops::bincount(&t[0], None, 20));
    }
    let rows = ops::sort(&numbers(&[4, 30]), 1, false).unwrap();
    same("rows", 0.0, &[rows.0, numbers(&[4, 9])], |t| {
        ops::searchsorted(&t[0], &t[1], false, true, None, None).unwrap()
    });
    let (unsorted, order) = (numbers(&[30]), ops::argsort(&numbers(&[30]), 0, false).unwrap());
    same("sorter", 0.0, &[unsorted, numbers(&[11]), order], |t| {
        ops::searchsorted(&t[0], &t[1], false, false, None, Some(&t[2])).unwrap()
    });
    let weighted = [cast(&few(&[500]), DType::U8), numbers(&[500])];
    same("weights", 1e-4, &weighted, |t| {
        let low = ops::clamp(&t[0], Some(0.into()), Some(9.into())).unwrap();
        ops::bincount(&low, Some(&t[1]), 0).unwrap()
    });
}
fn different() {
    for d in ALL {
        for sizes in [&[50][..], &[40, 80]] {
            let t = cast(&odd(sizes), d);
            let one = std::slice::from_ref(&t);
            both(&format!("unique {d}"), 0.0, one, |t| Ok(ops::unique(&t[0], true, true, true)?.0));
            both(&format!("inverse {d}"), 0.0, one, |t| Ok(ops::unique(&t[0], true, true, true)?.1));
            both(&format!("counts {d}"), 0.0, one, |t| Ok(ops::unique(&t[0], true, true, true)?.2));
            both(&format!("runs {d}"), 0.0, one, |t| Ok(ops::unique_consecutive(&t[0], true, true, None)?.2));
        }
        let rows = cast(&ops::clamp(&few(&[60, 2]), Some((-1).into()), Some(1.into())).unwrap(), d);
        both(&format!("rows {d}"), 0.0, std::slice::from_ref(&rows), |t| {
            Ok(ops::unique_dim(&t[0], 0, true, true, true)?.0)
        });
        both(&format!("row counts {d}"), 0.0, std::slice::from_ref(&rows), |t| {
            Ok(ops::unique_dim(&t[0], 0, true, true, true)?.2)
        });
        both(&format!("runs of rows {d}"), 0.0, &[rows], |t| {
            Ok(ops::unique_consecutive(&t[0], true, true, Some(0))?.1)
        });
    }
    same("none", 0.0, &[numbers(&[0])], |t| ops::unique(&t[0], true, true, true).unwrap().0);
}
