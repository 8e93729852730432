//! Whatever sizes and steps a kernel is told, it reads and writes what it was given, or panics.

use flambeau_cpu::attention::{self, AttentionShape, Heads};
use flambeau_cpu::blas::{Mat, MatMut, dot, gemm, gemm_batched};
use flambeau_cpu::conv::{self, ConvShape};
use flambeau_cpu::indexing::{Along, gather, index_select, scatter, scatter_value};
use flambeau_cpu::pool::{AdaptiveShape, AvgDivisor, PoolShape};
use flambeau_cpu::pool::{adaptive_avg_pool, avg_pool, avg_pool_backward, max_pool};
use flambeau_cpu::reduction::fold::Geo;
use flambeau_cpu::{scan, softmax, sorting};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn refused<R>(f: impl FnOnce() -> R) {
    assert!(catch_unwind(AssertUnwindSafe(f)).is_err(), "it ran");
}
fn survived<R>(f: impl FnOnce() -> R) {
    let _ = catch_unwind(AssertUnwindSafe(f));
}

struct Draw(u64);
impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 20
    }
    /// Sizes and steps of which some products wrap to something small.
    fn size(&mut self) -> usize {
        const WILD: [usize; 12] = [
            1 << 31,
            1 << 32,
            (1 << 32) + 1,
            1 << 33,
            (1 << 33) + 1,
            1 << 61,
            1 << 62,
            (1 << 62) + 1,
            1 << 63,
            usize::MAX / 3,
            usize::MAX - 1,
            usize::MAX,
        ];
        match self.next() % 4 {
            0 => WILD[self.next() as usize % WILD.len()],
            _ => self.next() as usize % 5,
        }
    }
}

#[test]
fn spans_that_wrap_are_refused() {
    let a = Along { shape: &[1], strides: &[1 << 31], dim: 0, size: (1 << 33) + 1 };
    refused(|| gather(&[1f32; 16], a, &[(1 << 32) + 3], &mut [0f32; 1]));
    refused(|| scatter(&mut [1f32; 16], a, &[(1 << 32) + 3], &[0f32; 1]));
    refused(|| scatter_value(&mut [1f32; 16], a, &[(1 << 32) + 3], 0f32));
    let far = |data| Mat { data, row: 1 << 63, col: 1 };
    let (x, mut y) = ([1f32; 4], [0f32; 6]);
    let near = Mat { data: &x[..], row: 1, col: 1 };
    refused(|| gemm(3, 1, 1, 1.0, far(&x[..]), near, 0.0, MatMut { data: &mut y[..], row: 1, col: 1 }));
    refused(|| dot((1 << 32) + 1, &[1i32; 4], 1 << 32, &[1i32; 4], 0));
    refused(|| {
        let c = MatMut { data: &mut y[..], row: 2, col: 1 };
        gemm_batched(3, 2, 2, 1, 1.0, (near, 0), (near, 0), 0.0, (c, 1));
    });
    refused(|| {
        gather(
            &[1f32; 16],
            Along { shape: &[2, 2], strides: &[2, 1], dim: 2, size: 2 },
            &[0; 4],
            &mut [0f32; 4],
        )
    });
}

#[test]
fn wild_indexing() {
    let mut d = Draw(1);
    for _ in 0..20_000 {
        let shape: Vec<usize> = (0..d.next() % 4).map(|_| d.size()).collect();
        let strides: Vec<usize> = (0..shape.len()).map(|_| d.size()).collect();
        let n = shape.iter().try_fold(1usize, |n, s| n.checked_mul(*s)).unwrap_or(5).min(64);
        let a = Along { shape: &shape, strides: &strides, dim: d.next() as usize % 4, size: d.size() };
        let idx: Vec<i64> =
            (0..n).map(|_| if d.next().is_multiple_of(2) { d.size() as i64 } else { 0 }).collect();
        let (mut data, mut out) = ([1f32; 16], vec![0f32; n]);
        survived(|| gather(&data, a, &idx, &mut out));
        survived(|| scatter(&mut data, a, &idx, &out));
        survived(|| scatter_value(&mut data, a, &idx, 2f32));
        let signed = |d: &mut Draw| d.size() as isize;
        let g = Geo {
            outer: d.size(),
            n: d.size(),
            inner: d.size(),
            os: signed(&mut d),
            ns: signed(&mut d),
            is: signed(&mut d),
        };
        survived(|| index_select(&data, g, &idx, &mut out));
        survived(|| scan::cumsum(&data, g, &mut out));
        let mut at = vec![0i64; n];
        survived(|| sorting::topk(&data, g, d.size(), true, true, &mut out, &mut at));
        let sizes = (d.size(), d.size(), d.size());
        let n = sizes.0.wrapping_mul(sizes.1).wrapping_mul(sizes.2).min(64);
        let (x, mut y) = (vec![1f32; n], vec![0f32; n]);
        survived(|| softmax::softmax(&x, sizes.0, sizes.1, sizes.2, &mut y));
    }
}

#[test]
fn wild_products() {
    let mut d = Draw(2);
    let mut half = 0;
    for _ in 0..20_000 {
        let x = [1f32; 24];
        let mut y = [7f32; 24];
        // a loop over more elements than anybody waits for is no harm: the depth stays small
        let (m, n, k) = (d.size(), d.size(), d.size() % 5);
        let mat = |d: &mut Draw| Mat { data: &x[..], row: d.size(), col: d.size() };
        let (a, b) = (mat(&mut d), mat(&mut d));
        let (row, col) = (d.size(), d.size());
        survived(|| gemm(m, n, k, 1.0, a, b, 0.0, MatMut { data: &mut y[..], row, col }));
        half += usize::from(y[0] != 7.0);
        let (batch, sa, sb, sc) = (d.size(), d.size(), d.size(), d.size());
        survived(|| {
            let c = MatMut { data: &mut y[..], row, col };
            gemm_batched(batch, m, n, k, 1.0, (a, sa), (b, sb), 0.0, (c, sc));
        });
    }
    assert!(half > 100, "hardly any product ran");
}

#[test]
fn wild_shapes() {
    let mut d = Draw(3);
    let mut ran = 0;
    for _ in 0..3_000 {
        let rank = 1 + d.next() as usize % 3;
        let list = |d: &mut Draw| (0..rank).map(|_| d.size()).collect::<Vec<_>>();
        let [input, output, kernel, stride, pad, dilation] = std::array::from_fn(|_| list(&mut d));
        // what is empty has no memory to stop a loop over the rest
        let few = |d: &mut Draw| d.next() as usize % 4;
        let channels = (few(&mut d), few(&mut d), few(&mut d), 1 + few(&mut d) % 2);
        let shapes = [
            ConvShape::new(channels, &input, &kernel, &stride, &pad, &dilation),
            ConvShape::between(channels, &input, &output, &kernel, &stride, &pad, &dilation),
            ConvShape::transposed(channels, &input, &kernel, &stride, &pad, &pad, &dilation),
        ];
        for s in shapes.into_iter().flatten() {
            let planes = s.in_plane().max(s.out_plane()).max(s.taps());
            if s.x_len().max(s.w_len()).max(s.y_len()).max(planes) > 1 << 9 {
                continue;
            }
            ran += 1;
            let (x, w, y) = (vec![1f32; s.x_len()], vec![1f32; s.w_len()], vec![1f32; s.y_len()]);
            conv::forward(&s, &x, &w, None, &mut y.clone());
            conv::backward_input(&s, &y, &w, &mut x.clone());
            conv::backward_weight(&s, &x, &y, &mut w.clone());
        }
        if let Ok(s) =
            PoolShape::new(few(&mut d), &input, &kernel, &stride, &pad, &dilation, d.next().is_multiple_of(2))
        {
            let lens = s.lens();
            if lens.0.max(lens.1) <= 1 << 8 {
                let (x, mut y, mut i) = (vec![1f32; lens.0], vec![0f32; lens.1], vec![0i64; lens.1]);
                max_pool(&s, &x, &mut y, &mut i);
                // averages have no dilation
                let div = AvgDivisor { count_include_pad: true, divisor_override: None };
                survived(|| avg_pool(&s, div, &x, &mut y));
                let mut gx = x.clone();
                survived(|| avg_pool_backward(&s, div, &y, &mut gx));
            }
        }
        if let Ok(s) = AdaptiveShape::new(few(&mut d), &input, &output) {
            let lens = s.lens();
            if lens.0.max(lens.1) <= 1 << 8 {
                adaptive_avg_pool(&s, &vec![1f32; lens.0], &mut vec![0f32; lens.1]);
            }
        }
    }
    assert!(ran > 10, "hardly any convolution ran: {ran}");
}

#[test]
fn wild_attention() {
    let mut d = Draw(4);
    for _ in 0..20_000 {
        let s = AttentionShape {
            batch: d.size(),
            heads: d.size(),
            l: d.size(),
            // keys that repeat have no memory to stop the loop over them
            s: d.size() % 5,
            e: d.size(),
            v: d.size(),
            causal: false,
            scale: 1.0,
        };
        let x = [1f32; 64];
        let mut heads = || Heads { data: &x[..], steps: [d.size(), d.size(), d.size()] };
        let (q, k, v) = (heads(), heads(), heads());
        let n = |sizes: &[usize]| sizes.iter().fold(1usize, |a, b| a.wrapping_mul(*b)).min(256);
        let mut out = vec![0f32; n(&[s.batch, s.heads, s.l, s.v])];
        let mut sums = vec![0f32; n(&[s.batch, s.heads, s.l])];
        survived(|| attention::forward(&s, [q, k, v], None, &mut out, &mut sums));
    }
}
