//! Products of matrices: of all dtypes, of small and large tiles, of transposed factors, with factors and what is added.

use crate::emulated::{agree, cast, numbers, there};
use flambeau_core::{DType, Tensor, ops};

/// Compares all of them with the CPU.
pub fn all() {
    use DType::*;
    for d in [F32, F64, F16, BF16, I64, I32, U8, C64] {
        let tolerance = match d {
            F16 => 4e-3,
            BF16 => 3e-2,
            _ => 1e-4,
        };
        let to = |t: Tensor| cast(&t, d);
        for (m, k, n) in [(3, 5, 4), (70, 33, 65), (136, 40, 144), (1, 100, 1)] {
            let (a, b) = (to(numbers(&[m, k])), to(numbers(&[k, n])));
            let (x, y) = (there(&a), there(&b));
            let what = format!("{d} {m} {k} {n}");
            agree(&what, &ops::mm(&x, &y).unwrap(), &ops::mm(&a, &b).unwrap(), tolerance);
            let turned = |x: &Tensor, y: &Tensor| ops::mm(&ops::t(y).unwrap(), &ops::t(x).unwrap()).unwrap();
            agree(&format!("{what} turned"), &turned(&x, &y), &turned(&a, &b), tolerance);
            for (c, alpha, beta) in
                [(to(numbers(&[n])), 1, 1), (to(numbers(&[m, n])), 2, 3), (to(numbers(&[m, 1])), 1, 0)]
            {
                let (got, want) = (
                    ops::addmm(&there(&c), &x, &y, beta.into(), alpha.into()).unwrap(),
                    ops::addmm(&c, &a, &b, beta.into(), alpha.into()).unwrap(),
                );
                agree(&format!("{what} and {:?} times {beta}", c.sizes()), &got, &want, tolerance);
            }
        }
        let (a, b) = (to(numbers(&[3, 9, 5])), to(numbers(&[3, 5, 7])));
        let c = to(numbers(&[3, 9, 7]));
        let (x, y) = (there(&a), there(&b));
        agree("bmm", &ops::bmm(&x, &y).unwrap(), &ops::bmm(&a, &b).unwrap(), tolerance);
        let (got, want) = (
            ops::baddbmm(&there(&c), &x, &y, 2.into(), 3.into()).unwrap(),
            ops::baddbmm(&c, &a, &b, 2.into(), 3.into()).unwrap(),
        );
        agree("baddbmm", &got, &want, tolerance);
    }
    let (a, b) = (numbers(&[1000]), numbers(&[1000]));
    agree("dot", &ops::dot(&there(&a), &there(&b)).unwrap(), &ops::dot(&a, &b).unwrap(), 1e-4);
    // neither rows nor columns side by side
    let (a, b) = (numbers(&[6, 5, 2]), numbers(&[5, 4]));
    let part = |t: &Tensor| ops::select(t, 2, 1).unwrap();
    agree(
        "strides",
        &ops::mm(&part(&there(&a)), &there(&b)).unwrap(),
        &ops::mm(&part(&a), &b).unwrap(),
        1e-4,
    );
    let none = there(&Tensor::from_slice::<f32>(&[], &[3, 0]));
    let zero = ops::mm(&none, &ops::t(&none).unwrap()).unwrap();
    assert_eq!(zero.try_to_vec::<f32>().unwrap(), [0.0; 9]);
}
