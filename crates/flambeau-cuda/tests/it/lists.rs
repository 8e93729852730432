//! List forms beside the CPU's: few launches for many tensors, and calls that depend on each other in their order.

use crate::emulated::{agree, cast, numbers, there};
use flambeau_core::{DType, Scalar, Tensor, ops};

/// Sizes that fit packs and do not, fill several blocks, and hold nothing; more than one launch takes.
fn tensors(d: DType, k: f32) -> Vec<Tensor> {
    let sizes: Vec<Vec<i64>> = (0..60).map(|i| vec![i % 7, 1 + i]).chain([vec![9001]]).collect();
    let of = |s: &Vec<i64>| {
        let t = ops::add(&numbers(s), &Tensor::from_slice(&[k], ()), 1.into());
        cast(&t.unwrap(), d)
    };
    sizes.iter().map(of).collect()
}
/// What lists give on the CPU and on the device, and the launches that it took there.
fn both(what: &str, tolerance: f64, lists: &[Vec<Tensor>], f: impl Fn(&[Vec<Tensor>]) -> Vec<Tensor>) -> u64 {
    let moved: Vec<Vec<Tensor>> = lists.iter().map(|l| l.iter().map(there).collect()).collect();
    let before = flambeau_cuda::launches();
    let got = f(&moved);
    let launches = flambeau_cuda::launches() - before;
    let want = f(lists);
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        agree(&format!("{what} {i}"), g, w, tolerance);
    }
    launches
}

/// Compares all of them with the CPU.
pub fn all() {
    for (d, tolerance) in [(DType::F32, 1e-6), (DType::F64, 1e-14), (DType::BF16, 1e-2), (DType::I64, 0.0)] {
        let lists = [tensors(d, 3.0), tensors(d, 1.0)];
        // 52 tensors have elements, of which one launch takes 48
        let n = both(&format!("add {d}"), tolerance, &lists, |l| {
            ops::_foreach_add_list(&l[0], &l[1], 2.into()).unwrap()
        });
        assert_eq!(n, 2, "{d}");
        let n = both(&format!("mul {d}"), tolerance, &lists, |l| {
            ops::_foreach_mul_scalar_(&l[0], 3.into()).unwrap();
            l[0].clone()
        });
        assert_eq!(n, 2, "{d}");
        let scalars: Vec<Scalar> = (0..61).map(Scalar::Int).collect();
        both(&format!("scalars {d}"), tolerance, &lists, |l| {
            ops::_foreach_mul_scalar_list(&l[0], &scalars).unwrap()
        });
        both(&format!("neg {d}"), tolerance, &lists, |l| ops::_foreach_neg(&l[1]).unwrap());
    }
    // what does not lie side by side, and dtypes that take turns
    let lists = [vec![numbers(&[4, 6]), cast(&numbers(&[8]), DType::F64), numbers(&[5, 5])]];
    both("strides", 1e-6, &lists, |l| {
        let turned: Vec<Tensor> = l[0].iter().map(|t| ops::transpose(t, 0, -1).unwrap()).collect();
        ops::_foreach_sqrt(&ops::_foreach_abs(&turned).unwrap()).unwrap()
    });
    // the same tensor again, and each the sum of those before
    both("in order", 1e-5, &[vec![numbers(&[64]); 1]], |l| {
        let all = vec![l[0][0].clone(); 3];
        ops::_foreach_mul_scalar_(&all, 2.into()).unwrap();
        let rows: Vec<Tensor> =
            (0..4).map(|i| ops::select(&ops::view(&l[0][0], &[4, 16]).unwrap(), 0, i).unwrap()).collect();
        ops::_foreach_add_list_(&rows[1..], &rows[..3], 1.into()).unwrap();
        vec![l[0][0].clone()]
    });
}
