//! Sums, products, extremes, truth.

use super::fold::{Fold, Geo, Lanes, Step, fold};
use super::vectors;
use crate::engine::SharedMut;
use crate::engine::isa::{Isa, Level};
use crate::engine::room::collected;
use crate::num::{Arith, Num, Order, Truth};
use flambeau_dtype::{B8, Element};

/// Runs a fold and writes `finish` of each result to `out`.
pub(crate) fn fold_to<T: Copy + Sync, F: Fold<T>, O: Send>(
    x: &[T],
    g: Geo,
    f: &F,
    out: &mut [O],
    finish: impl Fn(F::Acc) -> O + Sync,
) {
    g.check(x.len(), out.len());
    let out = SharedMut::new(out);
    // SAFETY: `fold` emits each row once.
    fold(x, g, f, |row, a| unsafe { out.set(row, finish(a)) });
}

/// Declares a [`Step`]: `step!(Name<T: Bound> -> Acc { init, |a, x| step, |a, b| join })`.
macro_rules! step {
    ($name:ident<$t:ident: $bound:path> -> $acc:ty [$best:expr, $any_order:expr] { $init:expr, |$a:ident, $x:ident| $step:expr, |$p:ident, $q:ident| $join:expr }) => {
        struct $name;
        impl<$t: $bound> Step<$t> for $name {
            type Acc = $acc;
            const BEST: Level = $best;
            const ANY_ORDER: bool = $any_order;
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

struct Sum;
impl<T: Num> Step<T> for Sum {
    type Acc = T::Acc;
    const BEST: Level = best_sum::<T>();
    const ANY_ORDER: bool = T::DTYPE.is_integral(true);
    #[inline(always)]
    fn init(&self) -> T::Acc {
        T::Acc::ZERO
    }
    #[inline(always)]
    fn step(&self, a: T::Acc, x: T) -> T::Acc {
        a.plus(x.wide())
    }
    #[inline(always)]
    fn join(&self, a: T::Acc, b: T::Acc) -> T::Acc {
        a.plus(b)
    }
    #[inline(always)]
    fn run<I: Isa>(&self, x: &[T]) -> Option<T::Acc> {
        vectors::sum_of::<T, I>(x)
    }
}
step!(Prod<T: Num> -> T::Acc [best_sum::<T>(), T::DTYPE.is_integral(true)] { T::Acc::ONE, |a, x| a.times(x.wide()), |a, b| a.times(b) });
step!(Max<T: Order> -> T [Level::V3, T::DTYPE.is_integral(true)] { T::LOW, |a, x| if x.beats_max(a) { x } else { a }, |a, b| if b.beats_max(a) { b } else { a } });
step!(Min<T: Order> -> T [Level::V3, T::DTYPE.is_integral(true)] { T::HIGH, |a, x| if x.beats_min(a) { x } else { a }, |a, b| if b.beats_min(a) { b } else { a } });
step!(All<T: Truth> -> u8 [Level::V3, true] { 1, |a, x| a & x.truth() as u8, |a, b| a & b });
step!(Any<T: Truth> -> u8 [Level::V3, true] { 0, |a, x| a | x.truth() as u8, |a, b| a | b });
step!(Count<T: Truth> -> i64 [Level::V3, true] { 0, |a, x| a + x.truth() as i64, |a, b| a + b });

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
    let clean = |v: &T| if v.wide().is_undefined() { T::narrow(T::Acc::ZERO) } else { *v };
    sum(&collected(x.iter().map(clean)), g, out);
}
/// Product of each row. An empty row gives 1.
pub fn prod<T: Num>(x: &[T], g: Geo, out: &mut [T::Sum]) {
    fold_to(x, g, &Lanes(Prod), out, T::to_sum);
}
/// Mean of each row of floats or complex numbers, divided before rounding. An empty row gives NaN.
pub fn mean<T: Num<Sum = T>>(x: &[T], g: Geo, out: &mut [T]) {
    fold_to(x, g, &Lanes(Sum), out, |a| T::narrow(a.div_count(g.n)));
}
/// Maximum of each row; a NaN wins. The rows must not be empty (an empty one gives the lowest value).
pub fn amax<T: Order>(x: &[T], g: Geo, out: &mut [T]) {
    fold_to(x, g, &Lanes(Max), out, |a| a);
}
/// Minimum of each row; a NaN wins. The rows must not be empty (an empty one gives the highest value).
pub fn amin<T: Order>(x: &[T], g: Geo, out: &mut [T]) {
    fold_to(x, g, &Lanes(Min), out, |a| a);
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
