//! Sums, products, extremes, truth.

use super::fold::{Fold, Geo, Lanes, Ptr, Step, fold};
use super::num::{Arith, Num, Order, Truth};
use crate::dtype::{B8, Element};
use crate::isa::Level;

/// Runs a fold and writes `finish` of each result to `out`.
pub(crate) fn fold_to<T: Copy + Sync, F: Fold<T>, O: Send>(
    x: &[T],
    g: Geo,
    f: &F,
    out: &mut [O],
    finish: impl Fn(F::Acc) -> O + Sync,
) {
    g.check(x.len(), out.len());
    let out = Ptr::new(out);
    // SAFETY: `fold` emits each row once.
    fold(x, g, f, |row, a| unsafe { out.set(row, finish(a)) });
}

/// Declares a [`Step`]: `step!(Name<T: Bound> -> Acc { init, |a, x| step, |a, b| join })`.
macro_rules! step {
    ($name:ident<$t:ident: $bound:path> -> $acc:ty [$best:expr] { $init:expr, |$a:ident, $x:ident| $step:expr, |$p:ident, $q:ident| $join:expr }) => {
        struct $name;
        impl<$t: $bound> Step<$t> for $name {
            type Acc = $acc;
            const BEST: Level = $best;
            #[inline(always)]
            fn init(&self) -> $acc {
                $init
            }
            #[inline(always)]
            fn step(&self, $a: $acc, $x: $t) -> $acc {
                $step
            }
            #[inline(always)]
            fn join(&self, $p: $acc, $q: $acc) -> $acc {
                $join
            }
        }
    };
}

/// Complex sums are left to the portable set.
const fn best_sum<T: Element>() -> Level {
    if T::DTYPE.is_complex() { Level::Portable } else { Level::V3 }
}

step!(Sum<T: Num> -> T::Acc [best_sum::<T>()] { T::Acc::ZERO, |a, x| a.add(x.wide()), |a, b| a.add(b) });
step!(NanSum<T: Num> -> T::Acc [best_sum::<T>()] {
    T::Acc::ZERO, |a, x| { let v = x.wide(); a.add(if v.is_undefined() { T::Acc::ZERO } else { v }) }, |a, b| a.add(b)
});
step!(Prod<T: Num> -> T::Acc [best_sum::<T>()] { T::Acc::ONE, |a, x| a.mul(x.wide()), |a, b| a.mul(b) });
step!(SumSquares<T: Num> -> f64 [best_sum::<T>()] { 0.0, |a, x| { let (r, i) = x.parts(); a + (r * r + i * i) }, |a, b| a + b });
step!(Max<T: Order> -> T [Level::V3] { T::LOW, |a, x| if x.beats_max(a) { x } else { a }, |a, b| if b.beats_max(a) { b } else { a } });
step!(Min<T: Order> -> T [Level::V3] { T::HIGH, |a, x| if x.beats_min(a) { x } else { a }, |a, b| if b.beats_min(a) { b } else { a } });
step!(MinMax<T: Order> -> (T, T) [Level::V3] {
    (T::HIGH, T::LOW),
    |a, x| (if x.beats_min(a.0) { x } else { a.0 }, if x.beats_max(a.1) { x } else { a.1 }),
    |a, b| (if b.0.beats_min(a.0) { b.0 } else { a.0 }, if b.1.beats_max(a.1) { b.1 } else { a.1 })
});
step!(All<T: Truth> -> u8 [Level::V3] { 1, |a, x| a & x.truth() as u8, |a, b| a & b });
step!(Any<T: Truth> -> u8 [Level::V3] { 0, |a, x| a | x.truth() as u8, |a, b| a | b });
step!(Count<T: Truth> -> i64 [Level::V3] { 0, |a, x| a + x.truth() as i64, |a, b| a + b });

/// Sum of each row: halves accumulate in f32, integers and bool in wrapping i64. An empty row gives 0.
pub fn sum<T: Num>(x: &[T], g: Geo, out: &mut [T::Sum]) {
    fold_to(x, g, &Lanes(Sum), out, T::to_sum);
}
/// Sum of each row before it is rounded to the element type.
pub fn sum_acc<T: Num>(x: &[T], g: Geo, out: &mut [T::Acc]) {
    fold_to(x, g, &Lanes(Sum), out, |a| a);
}
/// Sum of what is not NaN (a complex number with a NaN part counts as NaN).
pub fn nansum<T: Num>(x: &[T], g: Geo, out: &mut [T::Sum]) {
    fold_to(x, g, &Lanes(NanSum), out, T::to_sum);
}
/// Product of each row. An empty row gives 1.
pub fn prod<T: Num>(x: &[T], g: Geo, out: &mut [T::Sum]) {
    fold_to(x, g, &Lanes(Prod), out, T::to_sum);
}
/// Mean of each row of floats or complex numbers, divided before rounding. An empty row gives NaN.
pub fn mean<T: Num<Sum = T>>(x: &[T], g: Geo, out: &mut [T]) {
    fold_to(x, g, &Lanes(Sum), out, |a| T::narrow(a.div_count(g.n)));
}
/// Sum of squared absolute values, in f64.
pub fn sum_squares<T: Num>(x: &[T], g: Geo, out: &mut [f64]) {
    fold_to(x, g, &Lanes(SumSquares), out, |a| a);
}
/// Maximum of each row; a NaN wins. The rows must not be empty (an empty one gives the lowest value).
pub fn amax<T: Order>(x: &[T], g: Geo, out: &mut [T]) {
    fold_to(x, g, &Lanes(Max), out, |a| a);
}
/// Minimum of each row; a NaN wins. The rows must not be empty (an empty one gives the highest value).
pub fn amin<T: Order>(x: &[T], g: Geo, out: &mut [T]) {
    fold_to(x, g, &Lanes(Min), out, |a| a);
}
/// Minimum and maximum of each row.
pub fn aminmax<T: Order>(x: &[T], g: Geo, min: &mut [T], max: &mut [T]) {
    g.check(x.len(), min.len());
    g.check(x.len(), max.len());
    let (min, max) = (Ptr::new(min), Ptr::new(max));
    fold(x, g, &Lanes(MinMax), |row, (lo, hi)| {
        // SAFETY: `fold` emits each row once.
        unsafe { min.set(row, lo) };
        // SAFETY: as above.
        unsafe { max.set(row, hi) };
    });
}
/// Whether all elements of each row are true. An empty row gives true.
pub fn all<T: Truth + Element>(x: &[T], g: Geo, out: &mut [B8]) {
    fold_to(x, g, &Lanes(All), out, B8);
}
/// Whether any element of each row is true. An empty row gives false.
pub fn any<T: Truth + Element>(x: &[T], g: Geo, out: &mut [B8]) {
    fold_to(x, g, &Lanes(Any), out, B8);
}
/// The number of true elements of each row.
pub fn count_nonzero<T: Truth + Element>(x: &[T], g: Geo, out: &mut [i64]) {
    fold_to(x, g, &Lanes(Count), out, |a| a);
}
