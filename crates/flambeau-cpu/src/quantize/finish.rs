//! What becomes of the exact sums of a product of bytes: zero points are taken out, and a rule makes numbers or integers of
//! them, a run of columns of some rows at a time.

use super::product::{COLS, Packed, product};
use crate::engine::SharedMut;
use crate::engine::isa::{self, Isa, Job, Level};
use crate::engine::room::collected;

/// How sums become results.
pub trait Results: Sync {
    /// The results.
    type Out: Copy + Default + Send;
    /// Two parameters of each of a run of columns, by vectors; what they are where the run ends early does not matter. Mark it
    /// `#[inline(always)]`.
    fn columns(&self, run: &std::ops::Range<usize>) -> (Each<f32>, Each<f32>);
    /// The result of a sum without zero points, of a column's two parameters. Mark it `#[inline(always)]`.
    fn result(&self, sum: i32, parameters: (f32, f32)) -> Self::Out;
}

/// What stands for zero in `A`, and in `B`: one integer, or one for each column.
#[derive(Clone, Copy, Debug)]
pub struct Zeros<'a> {
    /// Of `A`.
    pub a: i32,
    /// Of `B`.
    pub b: &'a [i32],
}
/// Where results lie: by rows that are `step` apart, from column `first` on.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The first column.
    pub first: usize,
    /// From a row to the next.
    pub step: usize,
}

/// A value for each column of a run.
type Each<T> = [T; COLS];
/// Values of a run of columns, zeros where it ends early: one for all, one for each column, or none, which is zero.
#[inline(always)]
fn each<T: Copy + Default>(values: &[T], run: &std::ops::Range<usize>) -> Each<T> {
    match values {
        [] => [T::default(); COLS],
        [one] => [*one; COLS],
        _ => {
            let values = &values[run.clone()];
            match values.try_into() {
                Ok(whole) => whole,
                Err(_) => {
                    let mut all = [T::default(); COLS];
                    all.iter_mut().zip(values).for_each(|(to, v)| *to = *v);
                    all
                }
            }
        }
    }
}

/// A run of columns in some rows.
struct Finish<'a, R: Results> {
    rule: &'a R,
    rows: &'a [[i32; COLS]],
    run: std::ops::Range<usize>,
    b: &'a Packed,
    zeros: Zeros<'a>,
    /// Of each row: its sum less the zero points. None: zeros.
    sums_a: &'a [i32],
    /// The first result, and the step to the next row's.
    at: usize,
    step: usize,
    out: &'a SharedMut<'a, R::Out>,
}
impl<R: Results> Job for Finish<'_, R> {
    type Out = ();
    const BEST: Level = Level::V4;
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Finish { rule, rows, run, b, zeros, sums_a, at, step, out } = self;
        // zero point of A times the column's sum of B
        let taken = each(b.sums(), &run).map(|s| zeros.a.wrapping_mul(s));
        let zeros_b = each(zeros.b, &run);
        let (plus, times) = rule.columns(&run);
        let n = run.len();
        for (i, sums) in rows.iter().enumerate() {
            let row = sums_a.get(i).copied().unwrap_or(0);
            let mut all = [R::Out::default(); COLS];
            for q in 0..COLS {
                let sum = sums[q].wrapping_sub(taken[q]).wrapping_sub(zeros_b[q].wrapping_mul(row));
                all[q] = rule.result(sum, (plus[q], times[q]));
            }
            // SAFETY: each run of columns of a row is given once.
            let to = unsafe { out.slice(at + i * step, n) };
            match <&mut [R::Out; COLS]>::try_from(&mut *to) {
                Ok(to) => *to = all,
                Err(_) => to.copy_from_slice(&all[..n]),
            }
        }
    }
}

/// The results of `A B`, where `A` is `m` x `k` bytes by rows.
///
/// # Panics
/// Lengths that do not fit each other.
pub fn finished<R: Results>(
    a: &[u8],
    m: usize,
    b: &Packed,
    zeros: Zeros,
    rule: &R,
    out: &mut [R::Out],
    to: Place,
) {
    let (k, n) = (b.terms(), b.columns());
    assert!(
        (zeros.b.len() == 1 || zeros.b.len() == n)
            && to.first.checked_add(n).is_some_and(|end| end <= to.step)
            && m.checked_mul(to.step) == Some(out.len()),
        "a quantized product of other sizes"
    );
    // rows' sums count only where B has zero points
    let sums_a: Vec<i32> = if zeros.b.iter().any(|z| *z != 0) && k > 0 {
        let sum = |r: &[u8]| r.iter().map(|v| i32::from(*v)).sum::<i32>();
        collected(a.chunks_exact(k).map(|r| sum(r).wrapping_sub(zeros.a.wrapping_mul(k as i32))))
    } else {
        Vec::new()
    };
    let out = SharedMut::new(out);
    product(a, m, b, &|i0, run, rows| {
        isa::run(Finish {
            rule,
            rows,
            sums_a: sums_a.get(i0..).unwrap_or(&[]),
            at: i0 * to.step + to.first + run.start,
            run,
            b,
            zeros,
            step: to.step,
            out: &out,
        });
    });
}

/// `sum * scale + bias`.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<'a> {
    /// One, or one for each column.
    pub scales: &'a [f32],
    /// One for each column, or none.
    pub bias: &'a [f32],
}
impl Results for Numbers<'_> {
    type Out = f32;
    #[inline(always)]
    fn columns(&self, run: &std::ops::Range<usize>) -> (Each<f32>, Each<f32>) {
        (each(self.bias, run), each(self.scales, run))
    }
    #[inline(always)]
    fn result(&self, sum: i32, (plus, times): (f32, f32)) -> f32 {
        sum as f32 * times + plus
    }
}

/// How numbers become integers of a range.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The scale of the results.
    pub scale: f32,
    /// What stands for zero.
    pub zero: i32,
    /// The least and the greatest.
    pub bounds: (i32, i32),
}
/// The nearest integer, of two the even one; that nearest to the bounds of [`Range`]s, which are those of bytes, for numbers far
/// beyond them. NaN is 0.
#[inline(always)]
fn nearest(v: f32) -> i32 {
    // Added to numbers below 2^22, this leaves the nearest integer in the last bits. A conversion would be done number by number,
    // since Rust's takes care of all numbers.
    const ROUND: f32 = 12_582_912.0;
    const FAR: f32 = 4_194_303.0;
    let v = if v.is_nan() { 0.0 } else { v.clamp(-FAR, FAR) };
    (v + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i32
}
/// `(sum + bias / unit) * (unit / scale)`, rounded, then the zero point: as FBGEMM does it.
#[derive(Clone, Copy, Debug)]
pub struct RoundedThenMoved<'a> {
    /// What one of a column's sums is worth.
    pub units: &'a [f32],
    /// By column; none: zero.
    pub bias: &'a [f32],
    /// Of the results.
    pub range: Range,
}
impl Results for RoundedThenMoved<'_> {
    type Out = u8;
    #[inline(always)]
    fn columns(&self, run: &std::ops::Range<usize>) -> (Each<f32>, Each<f32>) {
        let (units, mut plus) = (each(self.units, run), each(self.bias, run));
        plus.iter_mut().zip(&units).for_each(|(b, u)| *b /= u);
        (plus, units.map(|u| u / self.range.scale))
    }
    #[inline(always)]
    fn result(&self, sum: i32, (plus, times): (f32, f32)) -> u8 {
        let v = nearest((sum as f32 + plus) * times) + self.range.zero;
        v.clamp(self.range.bounds.0, self.range.bounds.1) as u8
    }
}
/// `(sum * unit + bias) / scale + zero point`, then rounded: as oneDNN does it.
#[derive(Clone, Copy, Debug)]
pub struct MovedThenRounded<'a> {
    /// What one of a column's sums is worth: one, or one for each column.
    pub units: &'a [f32],
    /// By column; none: zero.
    pub bias: &'a [f32],
    /// Of the results.
    pub range: Range,
}
impl Results for MovedThenRounded<'_> {
    type Out = u8;
    #[inline(always)]
    fn columns(&self, run: &std::ops::Range<usize>) -> (Each<f32>, Each<f32>) {
        (each(self.bias, run), each(self.units, run))
    }
    #[inline(always)]
    fn result(&self, sum: i32, (plus, times): (f32, f32)) -> u8 {
        let inverse = 1.0 / self.range.scale;
        let v = nearest((sum as f32 * times + plus) * inverse + self.range.zero as f32);
        v.clamp(self.range.bounds.0, self.range.bounds.1) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums themselves.
    struct Sums;
    impl Results for Sums {
        type Out = i32;
        #[inline(always)]
        fn columns(&self, _: &std::ops::Range<usize>) -> (Each<f32>, Each<f32>) {
            ([0.0; COLS], [1.0; COLS])
        }
        #[inline(always)]
        fn result(&self, sum: i32, _: (f32, f32)) -> i32 {
            sum
        }
    }
    fn bytes(n: usize, step: usize) -> Vec<u8> {
        (0..n).map(|i| (i * step + i / 7) as u8).collect()
    }
    fn signed(n: usize, step: usize) -> Vec<i8> {
        bytes(n, step).into_iter().map(|v| v as i8 / 2).collect()
    }
    const NONE: Zeros = Zeros { a: 0, b: &[0] };

    #[test]
    fn the_largest_bytes_do_not_saturate() {
        let (k, n) = (200, 20);
        let b = Packed::new(&vec![-128i8; n * k], n, k).unwrap();
        let mut out = vec![0i32; n];
        finished(&vec![255u8; k], 1, &b, NONE, &Sums, &mut out, Place { first: 0, step: n });
        assert!(out.iter().all(|s| *s == -128 * 255 * k as i32));
    }
    #[test]
    fn columns_of_wider_rows() {
        let (m, n, k) = (9, 21, 6);
        let (a, w) = (bytes(m * k, 53), signed(n * k, 29));
        let b = Packed::new(&w, n, k).unwrap();
        let (mut alone, mut within) = (vec![0i32; m * n], vec![7i32; m * 30]);
        finished(&a, m, &b, NONE, &Sums, &mut alone, Place { first: 0, step: n });
        finished(&a, m, &b, NONE, &Sums, &mut within, Place { first: 5, step: 30 });
        for (row, alone) in within.chunks_exact(30).zip(alone.chunks_exact(n)) {
            assert_eq!(&row[5..26], alone);
            assert!(row[..5].iter().chain(&row[26..]).all(|v| *v == 7));
        }
    }
    #[test]
    #[should_panic = "a quantized product of other sizes"]
    fn columns_beyond_a_row() {
        let b = Packed::new(&[1i8; 8], 4, 2).unwrap();
        finished(&[1u8; 4], 2, &b, NONE, &Sums, &mut [0; 10], Place { first: 2, step: 5 });
    }
    #[test]
    fn zero_points_of_both_sides() {
        let (m, n, k) = (11, 5, 11);
        let (a, w) = (bytes(m * k, 53), signed(n * k, 29));
        let zeros = [3, -4, 0, 7, 1];
        let b = Packed::new(&w, n, k).unwrap();
        for zeros_b in [&zeros[..], &zeros[..1]] {
            let mut out = vec![0i32; m * n];
            let (given, to) = (Zeros { a: 9, b: zeros_b }, Place { first: 0, step: n });
            finished(&a, m, &b, given, &Sums, &mut out, to);
            for (at, got) in out.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let zero = zeros_b[if zeros_b.len() == 1 { 0 } else { j }];
                let one = |p| (i32::from(a[i * k + p]) - 9) * (i32::from(w[j * k + p]) - zero);
                assert_eq!(*got, (0..k).map(one).sum::<i32>());
            }
        }
    }
    #[test]
    fn numbers_of_whole_runs_and_of_rests() {
        let (m, n, k) = (3, 37, 9);
        let (a, w) = (bytes(m * k, 53), signed(n * k, 29));
        let b = Packed::new(&w, n, k).unwrap();
        let (zeros, to) = (Zeros { a: 7, b: &[0] }, Place { first: 0, step: n });
        let mut sums = vec![0i32; m * n];
        finished(&a, m, &b, zeros, &Sums, &mut sums, to);
        let many: Vec<f32> = (0..n).map(|j| 0.5 + j as f32).collect();
        for (scales, bias) in [(&[0.25][..], &[][..]), (&many, &many), (&[2.0], &many), (&many, &[])] {
            let mut out = vec![0f32; m * n];
            finished(&a, m, &b, zeros, &Numbers { scales, bias }, &mut out, to);
            for (at, got) in out.iter().enumerate() {
                let scale = scales[if scales.len() == 1 { 0 } else { at % n }];
                let want = sums[at] as f32 * scale + bias.get(at % n).copied().unwrap_or(0.0);
                assert_eq!(*got, want);
            }
        }
    }
    #[test]
    fn integers_are_rounded_as_one_by_one() {
        for (m, n, k) in [(1, 16, 64), (5, 70, 33), (16, 130, 200), (9, 7, 5)] {
            let (a, w) = (bytes(m * k, 7), signed(n * k, 11));
            let b = Packed::new(&w, n, k).unwrap();
            let to = Place { first: 0, step: n };
            let units: Vec<f32> = (0..n).map(|c| 0.001 + c as f32 * 1e-5).collect();
            let some: Vec<f32> = (0..n).map(|c| c as f32 * 0.3 - 4.0).collect();
            for (bias, zeros_b, bounds) in [
                (&[][..], vec![0], (0, 255)),
                (&some[..], vec![0], (60, 255)),
                (&some[..], (0..n as i32).map(|c| c % 3).collect(), (0, 255)),
            ] {
                let zeros = Zeros { a: 9, b: &zeros_b };
                let range = Range { scale: 0.37, zero: 60, bounds };
                let [mut before, mut after] = [vec![0u8; m * n], vec![0u8; m * n]];
                let rule = RoundedThenMoved { units: &units, bias, range };
                finished(&a, m, &b, zeros, &rule, &mut before, to);
                let rule = MovedThenRounded { units: &units, bias, range };
                finished(&a, m, &b, zeros, &rule, &mut after, to);
                for at in 0..m * n {
                    let (i, c) = (at / n, at % n);
                    let zero_b = zeros_b[if zeros_b.len() == 1 { 0 } else { c }];
                    let term = |p: usize| (i32::from(a[i * k + p]) - 9) * (i32::from(w[c * k + p]) - zero_b);
                    let (sum, bias) = ((0..k).map(term).sum::<i32>() as f32, bias.get(c).copied());
                    let bounded = |v: i32| v.clamp(bounds.0, bounds.1);
                    let v = (sum + bias.map_or(0.0, |b| b / units[c])) * (units[c] / 0.37);
                    assert_eq!(i32::from(before[at]), bounded(v.round_ties_even() as i32 + 60));
                    let v = (sum * units[c] + bias.unwrap_or(0.0)) * (1.0 / 0.37f32) + 60.0;
                    assert_eq!(i32::from(after[at]), bounded(v.round_ties_even() as i32));
                }
            }
        }
    }
}
