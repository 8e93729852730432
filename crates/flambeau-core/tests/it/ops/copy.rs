//! Copies between layouts: every permutation, dtype size and offset gives the elements in logical order.

use flambeau_core::{DType, Tensor, functions as torch};

fn permutations(n: usize) -> Vec<Vec<i64>> {
    if n == 0 {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for p in permutations(n - 1) {
        for at in 0..=p.len() {
            let mut q = p.clone();
            q.insert(at, n as i64 - 1);
            all.push(q);
        }
    }
    all
}

/// The numbers of `arange` over `sizes`, read in the order of the permuted dimensions.
fn expected(sizes: &[i64], perm: &[i64]) -> Vec<i64> {
    let stride = |d: usize| sizes[d + 1..].iter().product::<i64>();
    let mut out = vec![0];
    for &d in perm {
        let d = d as usize;
        out = out.iter().flat_map(|base| (0..sizes[d]).map(move |i| base + i * stride(d))).collect();
    }
    out
}

#[test]
fn permuted_copies() {
    for sizes in [&[40i64, 33][..], &[3, 40, 50], &[9, 8, 70], &[2, 9, 3, 17], &[130, 1, 65]] {
        let n: i64 = sizes.iter().product();
        for dtype in [DType::U8, DType::I16, DType::F32, DType::F64, DType::C128] {
            let base = torch::arange(n).to(dtype).reshape(sizes.to_vec());
            let padded = torch::zeros(sizes.iter().map(|s| s + 2).collect::<Vec<_>>()).to(dtype);
            let mut inner = padded.clone();
            for (d, s) in sizes.iter().enumerate() {
                inner = inner.narrow(d as i64, 1, *s);
            }
            inner.copy_(&base);
            for perm in permutations(sizes.len()) {
                let want = Tensor::from_vec(expected(sizes, &perm), [n]).to(dtype);
                for from in [&base, &inner] {
                    let got = from.permute(perm.clone()).contiguous();
                    assert!(got.flatten(0, -1).equal(&want), "{sizes:?} {perm:?} {dtype}");
                    // the other way round: a dense source into a permuted destination
                    let to = torch::zeros(sizes.to_vec()).to(dtype);
                    to.permute(perm.clone()).copy_(&got);
                    assert!(to.equal(&base), "{sizes:?} {perm:?} {dtype}");
                }
            }
        }
    }
}

/// Operands that are dense along different dimensions: tile by tile, the same as element by element.
#[test]
fn pointwise_across_layouts() {
    for sizes in [&[40i64, 150][..], &[150, 40], &[8, 8], &[3, 40, 150], &[33, 2, 140], &[65, 9, 16, 3]] {
        let n: i64 = sizes.iter().product();
        for dtype in [DType::U8, DType::I16, DType::F16, DType::F32, DType::F64, DType::C128] {
            let a = torch::arange(n).remainder(113).to(dtype).reshape(sizes.to_vec());
            let mask = torch::arange(n).remainder(3).eq(0).reshape(sizes.to_vec());
            for perm in permutations(sizes.len()) {
                // the same elements, dense along another dimension
                let back: Vec<i64> = (0..perm.len() as i64)
                    .map(|d| perm.iter().position(|p| *p == d).unwrap() as i64)
                    .collect();
                let b = a.permute(perm.clone()).contiguous().permute(back.clone());
                let m = mask.permute(perm.clone()).contiguous().permute(back);
                let label = format!("{sizes:?} {perm:?} {dtype}");
                assert!((&a + &b).equal(&(&a + &a)), "{label}");
                assert!((&b + &a).equal(&(&a + &a)), "{label}");
                assert!(torch::where_(&m, &a, &b).equal(&a), "{label}");
                assert!(torch::where_(&m, &b, torch::zeros_like(&a)).equal(&(&a * &mask)), "{label}");
                let c = a.copy();
                c.add_(&b);
                assert!(c.equal(&(&a + &a)), "in place {label}");
                let c = b.copy();
                c.add_(&a);
                assert!(c.equal(&(&a + &a)), "in place, strided {label}");
            }
        }
    }
}
