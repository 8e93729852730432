//! Fourier transforms of lines of elements that lie anyhow in memory.
//!
//! [`transform`] runs many lines of a length with small factors side by side, one per place of a vector: nothing is shuffled
//! within a transform, and any layout is read and written as it is. Lines whose elements follow each other go one by one, with
//! vectors along them, where their length allows it; single lines of other lengths as matrices, whose rows and columns go side by
//! side; lengths with a large prime factor as convolutions of a length without.

mod along;
mod batch;
mod butterfly;
mod folded;
mod lines;
mod lone;
mod long;
mod single;

pub use batch::Batch;
pub use lines::Lines;

use flambeau_cpu::engine::isa::level;
use flambeau_cpu::engine::room::collected;
use flambeau_cpu::engine::simd::{self, Vectored};
use flambeau_cpu::{Element, engine};
use lines::Raw;
use num_complex::Complex;
use std::sync::OnceLock;

/// What a transform reads and writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// Complex to complex.
    Complex,
    /// Real to the first half of the spectrum.
    Half,
    /// Real to the whole spectrum.
    Whole,
    /// The first half of a spectrum to real.
    Real,
}
impl Shape {
    /// Length of the complex transform behind one of `n` points: real lines of even length are half as many complex numbers.
    pub fn length(self, n: usize) -> usize {
        if self != Shape::Complex && n.is_multiple_of(2) { n / 2 } else { n }
    }
    /// Elements of a line that are read.
    pub fn reads(self, n: usize) -> usize {
        if self == Shape::Real { n / 2 + 1 } else { n }
    }
    /// Elements of a line that are written.
    pub fn writes(self, n: usize) -> usize {
        if self == Shape::Half { n / 2 + 1 } else { n }
    }
    /// Whether real numbers are read.
    pub fn is_from_real(self) -> bool {
        matches!(self, Shape::Half | Shape::Whole)
    }
}

/// A float that lines are made of.
pub trait Point: Element + Vectored + num_traits_like::Float {}
impl Point for f32 {}
impl Point for f64 {}

/// The little that is asked of floats.
#[doc(hidden)]
pub mod num_traits_like {
    use std::ops::{Add, Mul, Neg, Sub};
    /// f32 and f64.
    pub trait Float:
        Copy
        + Send
        + Sync
        + Default
        + Add<Output = Self>
        + Sub<Output = Self>
        + Mul<Output = Self>
        + Neg<Output = Self>
        + 'static
    {
        /// Rounded.
        fn of(x: f64) -> Self;
    }
    impl Float for f32 {
        fn of(x: f64) -> f32 {
            x as f32
        }
    }
    impl Float for f64 {
        fn of(x: f64) -> f64 {
            x
        }
    }
}

/// `exp(-2 pi i k / n)`, exact to the last bit or two for any `k` below `n`.
pub fn root(k: usize, n: usize) -> Complex<f64> {
    // by the octant, so that the argument is small
    let (k, n) = (k as u64 * 8, n as u64);
    let octant = k / n;
    let rest = (k - octant * n) as f64 / n as f64;
    let quarter = std::f64::consts::FRAC_PI_4;
    let (s, c) =
        if octant % 2 == 0 { (rest * quarter).sin_cos() } else { ((1.0 - rest) * quarter).sin_cos() };
    // the angle from the last multiple of a half turn's quarter, and what that multiple does
    let (c, s) = if octant % 2 == 0 { (c, s) } else { (s, c) };
    match octant / 2 {
        0 => Complex::new(c, -s),
        1 => Complex::new(-s, -c),
        2 => Complex::new(-c, s),
        _ => Complex::new(s, c),
    }
}

/// What is known in advance of transforms of one length.
pub struct Plan<T> {
    /// Points.
    pub n: usize,
    /// What is read and written.
    pub shape: Shape,
    /// `exp(-2 pi i k / n)` up to a quarter of the circle, where a real line is packed into half as many complex numbers.
    turns: Vec<Complex<T>>,
    /// With vectors along a line, if there are enough of them.
    along: Option<along::Along<T>>,
    /// Side by side, if the length's factors are small.
    batch: Option<Batch<T>>,
    /// As a matrix, once it was asked for.
    long: OnceLock<Option<long::Long<T>>>,
    /// By itself, once it was asked for.
    lone: OnceLock<lone::Lone<T>>,
}
impl<T: Point> Plan<T> {
    /// Of `n` points.
    pub fn new(n: usize, shape: Shape) -> Self {
        let length = shape.length(n);
        let turn = |k| {
            let w = root(k, n);
            Complex::new(T::of(w.re), T::of(w.im))
        };
        let turns = if length == n { Vec::new() } else { collected((0..=length / 2).map(turn)) };
        // what does not fit the cache is never run side by side
        // without vectors lines go one by one
        let there = simd::are_there(level());
        let fits = n * T::lanes(level()) * 2 * size_of::<T>() <= MOST_BYTES;
        let batch = if there && fits { Batch::new(length) } else { None };
        let along = if there { along::Along::new(n, shape) } else { None };
        let long = if there { OnceLock::new() } else { OnceLock::from(None) };
        Plan { n, shape, turns, along, batch, long, lone: OnceLock::new() }
    }
    fn length(&self) -> usize {
        self.shape.length(self.n)
    }
    fn long(&self) -> Option<&long::Long<T>> {
        self.long.get_or_init(|| long::Long::new(self.length())).as_ref()
    }
    /// Bytes, for whoever keeps plans; at most these where a part is made on demand.
    pub fn bytes(&self) -> usize {
        // a long line has its turns and those of its sides, a lone one its passes or three times its length
        let made = if self.batch.is_some() || self.along.is_some() { 4 } else { 12 };
        let along = self.along.as_ref().map_or(0, |a| a.bytes());
        (self.turns.len() + made * self.n).saturating_mul(size_of::<Complex<T>>()) + along
    }
    /// Whether a line may have vectors along it.
    pub fn goes_along(&self) -> bool {
        self.along.is_some()
    }
    /// The plan without vectors along lines: the ways are compared by tests.
    pub fn without_along(self) -> Self {
        Plan { along: None, ..self }
    }
    /// The plan without lines side by side.
    pub fn without_batch(self) -> Self {
        Plan { batch: None, ..self }
    }
    /// The plan without lines as matrices.
    pub fn without_long(self) -> Self {
        Plan { long: OnceLock::from(None), ..self }
    }
}

/// A group of lines and its copy must stay in the second-level cache.
const MOST_BYTES: usize = 1 << 20;

/// Elements to read.
#[derive(Clone, Copy)]
pub enum Input<'a, T> {
    /// Complex numbers, conjugated first if so marked.
    Complex(&'a [Complex<T>], bool),
    /// Real numbers.
    Real(&'a [T]),
    /// The output's own.
    Itself,
}
/// Elements to write.
pub enum Output<'a, T> {
    /// Complex numbers.
    Complex(&'a mut [Complex<T>]),
    /// Real numbers.
    Real(&'a mut [T]),
}

/// Transforms lines, each from `from` of the input to `to` of the output, and multiplies by `scale`. `forward` has the sign of
/// `root`; it counts for complex lines alone.
///
/// # Panics
/// When lines reach beyond the slices, or input and output are not of the plan's shape.
pub fn transform<T: Point>(
    plan: &Plan<T>,
    forward: bool,
    scale: f64,
    (x, from): (Input<T>, &Lines),
    (out, to): (Output<T>, &Lines),
) {
    let count = to.count();
    if count == 0 || plan.n == 0 {
        return;
    }
    let raw = Raw::new(plan, forward, scale, (x, from), (out, to));
    if let Some(along) = plan.along.as_ref().filter(|_| along::suits(plan.shape, &raw)) {
        return along::run(plan, along, &raw);
    }
    // half a vector of lines is worth a whole one
    if plan.batch.is_some() && 2 * count >= T::lanes(level()) {
        return batch::run(plan, &raw, batch::Way::Lines);
    }
    if let Some(long) = plan.long() {
        return single::run(plan, &long::Directed { long, forward: raw.forward }, &raw);
    }
    // a short line leaves most of its vectors empty, and is still done sooner than point by point
    if plan.batch.is_some() {
        return batch::run(plan, &raw, batch::Way::Lines);
    }
    let lone = plan.lone.get_or_init(|| lone::Lone::new(plan.length()));
    single::run(plan, &lone::Directed { lone, forward: raw.forward }, &raw);
}
