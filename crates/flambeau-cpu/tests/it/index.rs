//! Reading and writing by index against naive models.

use crate::{Rng, close};
use flambeau_cpu::indexing::{self, Along, IndexError, Inner, Reduce, Rounding};
use flambeau_cpu::reduction::Geo;

/// Threads share the places out by a dimension that is not indexed; those that overlap are left to one thread.
#[test]
fn scatters_of_many_elements() {
    let mut r = Rng(78);
    let shape = [30, 40, 50];
    // contiguous, permuted, and overlapping
    for strides in [[2000, 50, 1], [1, 30, 1200], [1, 1, 50]] {
        for dim in 0..3 {
            let len = 1 + (0..3).map(|d| (shape[d] - 1) * strides[d]).sum::<usize>();
            let idx: Vec<i64> = (0..60_000).map(|_| r.below(shape[dim]) as i64).collect();
            let src: Vec<f32> = (0..60_000).map(|_| r.f() as f32).collect();
            let (mut want, mut got) = (vec![0f32; len], vec![0f32; len]);
            for (p, s) in src.iter().enumerate() {
                let mut c = [p / 2000, p / 50 % 40, p % 50];
                c[dim] = idx[p] as usize;
                want[(0..3).map(|d| c[d] * strides[d]).sum::<usize>()] += s;
            }
            let a = Along { shape: &shape, strides: &strides, dim, size: shape[dim] };
            indexing::scatter_add(&mut got, a, &idx, &src).unwrap();
            assert_eq!(got, want, "{strides:?} {dim}");
            let mut wrong = idx.clone();
            wrong[59_999] = shape[dim] as i64;
            assert!(indexing::scatter_add(&mut got, a, &wrong, &src).is_err());
            assert_eq!(got, want);
        }
    }
}

#[test]
fn indexing() {
    let mut r = Rng(77);
    let (o, n, i, m) = (3, 11, 5, 20);
    let g = Geo::contiguous(o, n, i);
    let x: Vec<i32> = (0..(o * n * i) as i32).collect();
    let idx: Vec<i64> = (0..m).map(|_| r.below(n) as i64).collect();
    let mut out = vec![0i32; o * m * i];
    indexing::index_select(&x, g, &idx, &mut out).unwrap();
    let mut added = vec![0i64; x.len()];
    for (q, v) in out.iter().enumerate() {
        let at = q / (m * i) * n * i + idx[q / i % m] as usize * i + q % i;
        assert_eq!(*v, x[at]);
        added[at] += 2 * q as i64;
    }
    let src: Vec<i64> = (0..out.len() as i64).collect();
    let mut dst = vec![0i64; x.len()];
    indexing::index_add(&mut dst, g, &idx, &src, 2, Rounding::Once).unwrap();
    assert_eq!(dst, added);
    assert_eq!(indexing::index_select(&x, g, &[-1], &mut out[..15]), Err(IndexError { index: -1, size: n }));

    // Gather and scatter with an index tensor smaller than the data, along each dimension.
    let (shape, data, strides) = ([2, 3, 4], [4, 5, 6], [30, 6, 1]);
    let x: Vec<f32> = (0..120).map(|_| r.f() as f32).collect();
    for dim in 0..3 {
        let idx: Vec<i64> = (0..24).map(|_| r.below(data[dim]) as i64).collect();
        let a = Along { shape: &shape, strides: &strides, dim, size: data[dim] };
        let at = |p: usize| {
            let mut c = [p / 12, p / 4 % 3, p % 4];
            c[dim] = idx[p] as usize;
            c[0] * 30 + c[1] * 6 + c[2]
        };
        let mut out = vec![0f32; 24];
        indexing::gather(&x, a, &idx, &mut out).unwrap();
        (0..24).for_each(|p| assert_eq!(out[p], x[at(p)]));
        for op in [Reduce::Sum, Reduce::Prod, Reduce::Mean, Reduce::Amax, Reduce::Amin] {
            for own in [false, true] {
                let mut d = x.clone();
                indexing::scatter_reduce(&mut d, a, &idx, &out, op, own, Rounding::Once).unwrap();
                for q in 0..120 {
                    let mut v: Vec<f32> = (0..24).filter(|p| at(*p) == q).map(|p| out[p]).collect();
                    if own || v.is_empty() {
                        v.push(x[q]);
                    }
                    let want = match op {
                        Reduce::Sum => v.iter().sum(),
                        Reduce::Prod => v.iter().product(),
                        Reduce::Mean => v.iter().sum::<f32>() / v.len() as f32,
                        Reduce::Amax => v.iter().copied().fold(f32::MIN, f32::max),
                        Reduce::Amin => v.iter().copied().fold(f32::MAX, f32::min),
                    };
                    close(d[q] as f64, want as f64, 1e-6);
                }
            }
        }
        let bad = vec![data[dim] as i64; 24];
        let mut d = x.clone();
        let err = Err(IndexError { index: data[dim] as i64, size: data[dim] });
        assert_eq!(indexing::scatter_add(&mut d, a, &bad, &out), err);
        assert_eq!(d, x, "nothing is written on an error");
    }

    let at = indexing::offsets(&[(&[0, -1, 1], 4, 30), (&[-5], 5, 6)], 3).unwrap();
    assert_eq!(at, [0, 90, 30]);
    assert_eq!(indexing::offsets(&[(&[4], 4, 1)], 1), Err(IndexError { index: 4, size: 4 }));
    assert_eq!(indexing::offsets(&[(&[-5], 4, 1)], 1), Err(IndexError { index: -5, size: 4 }));
    let mut out = [0f32; 6];
    indexing::index(&x, &at, Inner::Offsets(&[0, 2]), &mut out);
    assert_eq!(out, [x[0], x[2], x[90], x[92], x[30], x[32]]);
    let mut d = [0i32; 4];
    indexing::put_add(&mut d, &[0, -1, 3], &[1, 2, 3]).unwrap();
    assert_eq!(d, [1, 0, 0, 5]);

    let mut dw = [0f32; 6];
    let dy = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    indexing::embedding_backward(&dy, &[1, 0, 1, 2], 2, Some(0), true, &mut dw).unwrap();
    assert_eq!(dw, [0.0, 0.0, 3.0, 4.0, 7.0, 8.0]);
}

/// A bad index is found at every place of lists of every length.
#[test]
fn bad_indices_at_every_place() {
    for n in 0..130usize {
        let mut idx: Vec<i64> = (0..n as i64).map(|i| i % 7).collect();
        assert!(flambeau_cpu::indexing::check(&idx, 7).is_ok());
        for at in 0..n {
            for bad in [7, -1, i64::MIN, i64::MAX] {
                let kept = std::mem::replace(&mut idx[at], bad);
                let error = flambeau_cpu::indexing::check(&idx, 7).unwrap_err();
                assert_eq!((error.index, error.size), (bad, 7));
                idx[at] = kept;
            }
        }
    }
}
