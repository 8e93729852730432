//! Sorting, unique values and masks against naive models.

use crate::{Rng, SHAPES};
use flambeau_cpu::indexing::IndexError;
use flambeau_cpu::reduction::Geo;
use flambeau_cpu::{B8, sorting};

fn sorts_of<T: flambeau_cpu::reduction::Order + PartialOrd>(make: impl Fn(&mut Rng) -> T) {
    let mut r = Rng(12);
    for (o, n, i) in SHAPES.into_iter().chain([(1, 40_000, 1), (1, 70_001, 1)]) {
        let g = Geo::contiguous(o, n, i);
        let x: Vec<T> = (0..o * n * i).map(|_| make(&mut r)).collect();
        for descending in [false, true] {
            let (mut v, mut at) = (x.clone(), vec![0i64; x.len()]);
            sorting::sort(&x, g, descending, &mut v, &mut at);
            let k = n.min(5);
            let (mut tv, mut ti) = (vec![T::LOW; g.rows() * k], vec![0i64; g.rows() * k]);
            sorting::topk(&x, g, k, descending, true, &mut tv, &mut ti);
            for row in 0..g.rows() {
                let el = |k: i64| x[g.base(row) + k as usize * i];
                let mut want: Vec<i64> = (0..n as i64).collect();
                want.sort_by(|a, b| {
                    let (a, b) = (el(*a), el(*b));
                    let c =
                        a.nan().cmp(&b.nan()).then(a.partial_cmp(&b).unwrap_or(std::cmp::Ordering::Equal));
                    if descending { c.reverse() } else { c }
                });
                for (k2, w) in want.iter().enumerate() {
                    let q = row / i * n * i + k2 * i + row % i;
                    assert_eq!(at[q], *w, "{o} {n} {i}");
                    assert!(v[q] == el(*w) || v[q].nan());
                    if k2 < k {
                        assert_eq!(ti[row / i * k * i + k2 * i + row % i], *w);
                    }
                }
            }
        }
    }
}

#[test]
fn sorts() {
    sorts_of(|r| if r.below(50) == 0 { f32::NAN } else { (r.below(2000) as f32 - 1000.0) * 1e-2 });
    sorts_of(|r| [0.0f64, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -1e-310][r.below(6)]);
    sorts_of(|r| half::f16::from_f32([r.f() as f32, -0.0, 0.0, f32::NAN, -1e-7][r.below(5)]));
    sorts_of(|r| half::bf16::from_f32([r.f() as f32, -0.0, 0.0, f32::NAN][r.below(4)]));
    sorts_of(|r| r.bits() as i64);
    sorts_of(|r| r.bits() as i32);
    sorts_of(|r| r.bits() as i8);
    sorts_of(|r| r.below(200) as u8);
    sorts_of(|r| (r.bits() >> 9) as i16);
    sorts_of(|r| r.bits() << 3);
}

#[test]
fn uniques_and_masks() {
    let nan = f32::NAN;
    let u = sorting::unique(&[nan, 1.0, nan, -0.0, 0.0], true);
    assert_eq!((u.first, u.inverse, u.counts), (vec![3, 1, 0, 2], vec![2, 1, 3, 0, 0], vec![2, 1, 1, 1]));
    assert_eq!(sorting::unique::<i32>(&[], true), sorting::Unique::default());
    let u = sorting::unique_consecutive(&[1, 1, 2, 1]);
    assert_eq!((u.first, u.inverse, u.counts), (vec![0, 2, 3], vec![0, 0, 1, 2], vec![2, 1, 1]));
    // by a table and by sorting
    let close: Vec<i64> = (0..5000).map(|i| i64::MIN + i * 7919 % 1013).collect();
    let far: Vec<i64> = close.iter().map(|v| (v - i64::MIN) << 40).collect();
    let (close, far) = (sorting::unique(&close, true), sorting::unique(&far, true));
    assert_eq!(close, far);
    assert_eq!((close.counts.iter().sum::<i64>(), close.counts.len()), (5000, 1013));
    assert!(sorting::unique(&[3, 1, 3], false).inverse.is_empty());
    let mut r = Rng(2);
    let shape = [7, 100, 71];
    let mask: Vec<B8> = (0..7 * 7100).map(|_| B8((r.below(3) == 0) as u8 * 2)).collect();
    let want: Vec<usize> = (0..mask.len()).filter(|i| mask[*i].get()).collect();
    let coords: Vec<i64> =
        want.iter().flat_map(|i| [(i / 7100) as i64, (i / 71 % 100) as i64, (i % 71) as i64]).collect();
    assert_eq!(sorting::nonzero(&mask, &shape), coords);
    let x: Vec<i32> = (0..mask.len() as i32).collect();
    assert_eq!(sorting::masked_select(&x, &mask), want.iter().map(|i| *i as i32).collect::<Vec<_>>());
    assert!(sorting::nonzero(&[1u8, 0], &[2]) == [0] && sorting::nonzero(&[1f32], &[]).is_empty());
    assert_eq!(sorting::bincount(&[1, 3, 1], 6), Ok(vec![0, 2, 0, 1, 0, 0]));
    assert_eq!(sorting::bincount(&[1, -3], 0), Err(IndexError { index: -3, size: 2 }));
    assert_eq!(sorting::histc(&[1f32, 2.0, 2.5, 4.0], 3, 0.0, 0.0), [1.0, 2.0, 1.0]);
    let mut out = [0i64; 4];
    let b = [1f32, 2.0, 2.0, 3.0];
    for (right, want) in [(false, [0, 1, 4, 4]), (true, [0, 3, 4, 4])] {
        sorting::searchsorted(&b, 4, None, &[0.5, 2.0, nan, 9.0], 4, right, &mut out).unwrap();
        assert_eq!(out, want);
    }
}
