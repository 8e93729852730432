//! Folds over slices with independent running values, so that loops become vectors and no step waits for the one before.

use crate::engine::isa::{Isa, Job, Level, best_for};
use crate::num::{Arith, Stored};

/// The sum of a run.
pub(crate) struct Sum<'a, T>(pub &'a [T]);
impl<T: Stored<Compute: Arith>> Job for Sum<'_, T> {
    type Out = T::Compute;
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) -> T::Compute {
        fold::<I, _, _, _>([self.0], T::Compute::ZERO, |[v]| v.up(), |a, b| a.plus(b))
    }
}

/// Folds `f` over the elements of `K` slices of one length. It is one of two results, of which the other is dropped: the
/// compiler unrolls the short loops of a single one before it makes vectors of them.
#[inline(always)]
pub(crate) fn fold<I: Isa, const K: usize, T: Copy, A: Copy>(
    xs: [&[T]; K],
    zero: A,
    f: impl Fn([T; K]) -> A,
    join: impl Fn(A, A) -> A,
) -> A {
    fold_two::<I, K, T, A>(xs, zero, |v| [f(v), zero], join)[0]
}
/// [`fold`] of two results in one pass: four registers of running values each, which hides most of the latency of a step and
/// leaves registers for the operands.
#[inline(always)]
pub(crate) fn fold_two<I: Isa, const K: usize, T: Copy, A: Copy>(
    xs: [&[T]; K],
    zero: A,
    f: impl Fn([T; K]) -> [A; 2],
    join: impl Fn(A, A) -> A,
) -> [A; 2] {
    // constants, so that the compiler makes one of the three
    if const { 2 * I::WIDTH / size_of::<A>() >= 32 } {
        fold_by::<32, K, T, A>(xs, zero, f, join)
    } else if const { 2 * I::WIDTH / size_of::<A>() >= 16 } {
        fold_by::<16, K, T, A>(xs, zero, f, join)
    } else {
        fold_by::<8, K, T, A>(xs, zero, f, join)
    }
}
/// `f` of each of the slices. `from.map(f)` would be the same, but the compiler makes some ten functions for each such call in
/// each instance of what calls it, which was half of all the work of building this crate.
#[inline(always)]
fn each<const K: usize, S, R: Copy>(from: &[S; K], f: impl Fn(&S) -> R) -> [R; K] {
    let mut out = [f(&from[0]); K];
    for k in 1..K {
        out[k] = f(&from[k]);
    }
    out
}
/// The length of the shortest.
#[inline(always)]
fn shortest<const K: usize, T>(xs: &[&[T]; K]) -> usize {
    let mut n = xs[0].len();
    for k in 1..K {
        n = n.min(xs[k].len());
    }
    n
}
/// Lanes for what is left of a run: as many as the fewest that [`fold_by`] has.
const REST: usize = 8;
/// [`fold_two`] by twice `H` lanes, in arrays that are small enough for the compiler to keep in registers. The slices are cut
/// into arrays, so that no index is checked inside.
#[inline(always)]
fn fold_by<const H: usize, const K: usize, T: Copy, A: Copy>(
    xs: [&[T]; K],
    zero: A,
    f: impl Fn([T; K]) -> [A; 2],
    join: impl Fn(A, A) -> A,
) -> [A; 2] {
    let mut blocks = each(&xs, |x| x.as_chunks::<H>().0.as_chunks::<2>().0);
    let n = shortest(&blocks);
    for k in 0..K {
        blocks[k] = &blocks[k][..n];
    }
    let (mut a_low, mut a_high, mut b_low, mut b_high) = ([zero; H], [zero; H], [zero; H], [zero; H]);
    for i in 0..n {
        let c = each(&blocks, |b| &b[i]);
        for j in 0..H {
            let [a, b] = f(each(&c, |c| c[0][j]));
            (a_low[j], b_low[j]) = (join(a_low[j], a), join(b_low[j], b));
        }
        for j in 0..H {
            let [a, b] = f(each(&c, |c| c[1][j]));
            (a_high[j], b_high[j]) = (join(a_high[j], a), join(b_high[j], b));
        }
    }
    // what is left, by the least vectors first: rows may be no longer than this
    let rest = each(&xs, |x| &x[n * 2 * H..]);
    let eights = each(&rest, |r| r.as_chunks::<REST>().0);
    let n = shortest(&eights);
    for i in 0..n {
        let c = each(&eights, |e| &e[i]);
        for j in 0..REST {
            let [a, b] = f(each(&c, |c| c[j]));
            (a_low[j], b_low[j]) = (join(a_low[j], a), join(b_low[j], b));
        }
    }
    // Apart from the lanes: an index that is not constant would force them out of the registers.
    let mut tail = [zero; 2];
    let rest = each(&rest, |r| &r[n * REST..]);
    for j in 0..shortest(&rest) {
        let [a, b] = f(each(&rest, |r| r[j]));
        tail = [join(tail[0], a), join(tail[1], b)];
    }
    let halves = |low: [A; H], high: [A; H]| {
        let mut l = [zero; H];
        for j in 0..H {
            l[j] = join(low[j], high[j]);
        }
        let mut w = H / 2;
        while w > 0 {
            for j in 0..w {
                l[j] = join(l[j], l[j + w]);
            }
            w /= 2;
        }
        l[0]
    };
    [join(halves(a_low, a_high), tail[0]), join(halves(b_low, b_high), tail[1])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::isa::{Job, run};

    struct Both<'a>(&'a [f32], &'a [f32]);
    impl Job for Both<'_> {
        type Out = ([f32; 2], f32);
        #[inline(always)]
        fn run<I: Isa>(self) -> Self::Out {
            let two = fold_two::<I, _, _, _>([self.0, self.1], 0.0, |[x, y]| [x, x * y], |a, b| a + b);
            (two, fold::<I, _, _, _>([self.0], f32::MIN, |[x]| x, f32::max))
        }
    }

    #[test]
    fn sums_and_extremes_of_every_length() {
        let x: Vec<f32> = (0..300).map(|i| ((i * 37) % 101) as f32 - 50.0).collect();
        for n in 0..x.len() {
            let (a, b) = (&x[..n], &x[300 - n..]);
            let ([sum, dot], most) = run(Both(a, b));
            assert_eq!(sum, a.iter().sum::<f32>());
            assert_eq!(dot, a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>());
            assert_eq!(most, a.iter().copied().fold(f32::MIN, f32::max));
        }
    }
}
