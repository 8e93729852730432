//! Where lines of elements lie.

use super::{Input, Output, Plan, Point, Shape};
use crate::engine::cache::stream_threshold;

/// Many lines: line `(o, i)` begins at `o * outer_step + i * inner_step`, and its elements are `stride` apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lines {
    /// Number of rows of lines.
    pub outer: usize,
    /// From row to row.
    pub outer_step: usize,
    /// Lines in a row.
    pub inner: usize,
    /// From line to line.
    pub inner_step: usize,
    /// From element to element.
    pub stride: usize,
}
impl Lines {
    /// Number of lines.
    pub fn count(&self) -> usize {
        self.outer * self.inner
    }
    /// Where line `i` begins.
    #[inline]
    pub fn start(&self, i: usize) -> usize {
        i / self.inner * self.outer_step + i % self.inner * self.inner_step
    }
    /// The place after the last element of lines of `n`.
    fn end(&self, n: usize) -> usize {
        if self.count() == 0 || n == 0 {
            return 0;
        }
        let last = |n: usize, step: usize| (n - 1).checked_mul(step);
        let parts =
            [last(self.outer, self.outer_step), last(self.inner, self.inner_step), last(n, self.stride)];
        parts.iter().try_fold(1usize, |a, p| a.checked_add((*p)?)).expect("lines beyond the address space")
    }
    /// Whether vectors of lines whose elements follow each other, or of elements whose lines do, are whole cache lines from `at`, in
    /// numbers of which an element has `width`.
    pub(super) fn of_whole_cache_lines<T>(&self, at: *mut T, width: usize) -> bool {
        const LINE: usize = 64;
        let whole = |count: usize, step: usize| count < 2 || (step * size_of::<T>()).is_multiple_of(LINE);
        let inner = if self.stride == width {
            whole(self.inner, self.inner_step)
        } else {
            self.inner_step == width && whole(2, self.stride)
        };
        at.addr().is_multiple_of(LINE) && inner && whole(self.outer, self.outer_step)
    }
    /// In units of half an element.
    fn doubled(&self) -> Lines {
        Lines {
            outer_step: self.outer_step * 2,
            inner_step: self.inner_step * 2,
            stride: self.stride * 2,
            ..*self
        }
    }
}

/// A checked call: addresses and steps in floats.
#[derive(Clone, Copy)]
pub struct Raw<T> {
    pub(super) src: *const T,
    pub(super) from: Lines,
    pub(super) dst: *mut T,
    pub(super) to: Lines,
    pub(super) conj: bool,
    pub(super) forward: bool,
    pub(super) scale: T,
    /// The scale is 1.
    pub(super) unscaled: bool,
    /// Results may go past the caches.
    pub(super) stream: bool,
}
// SAFETY: tasks read and write lines of their own; lines of an output do not meet (`Raw::new`'s callers write fresh or whole
// tensors), and an input that is the output has the same lines.
unsafe impl<T: Send> Send for Raw<T> {}
// SAFETY: as for Send.
unsafe impl<T: Send> Sync for Raw<T> {}

impl<T: Point> Raw<T> {
    pub(super) fn new(
        plan: &Plan<T>,
        forward: bool,
        scale: f64,
        (x, from): (Input<T>, &Lines),
        (out, to): (Output<T>, &Lines),
    ) -> Self {
        let (n, shape) = (plan.n, plan.shape);
        assert_eq!(from.count(), to.count(), "lines of the input and of the output");
        let (dst, len) = match out {
            Output::Complex(s) => {
                assert!(shape != Shape::Real, "a real output");
                (s.as_mut_ptr().cast::<T>(), s.len())
            }
            Output::Real(s) => {
                assert!(shape == Shape::Real, "a complex output");
                (s.as_mut_ptr(), s.len())
            }
        };
        assert!(to.end(shape.writes(n)) <= len, "lines beyond the output");
        let itself = matches!(x, Input::Itself);
        let (src, conj) = match x {
            Input::Complex(s, conj) => {
                assert!(
                    !shape.is_from_real() && from.end(shape.reads(n)) <= s.len(),
                    "lines beyond the input"
                );
                (s.as_ptr().cast::<T>(), conj)
            }
            Input::Real(s) => {
                assert!(shape.is_from_real() && from.end(n) <= s.len(), "lines beyond the input");
                (s.as_ptr(), false)
            }
            Input::Itself => {
                assert!(shape == Shape::Complex && from == to, "an output that is read has its own lines");
                (dst.cast_const(), false)
            }
        };
        let from = if shape.is_from_real() { *from } else { from.doubled() };
        let (width, to) = if shape == Shape::Real { (1, *to) } else { (2, to.doubled()) };
        // spectra of real lines have an odd number of places, and go through a buffer
        let stream = !itself && !shape.is_from_real() && {
            let read = shape.reads(n) * 2;
            let bytes =
                to.count().saturating_mul(read + shape.writes(n) * width).saturating_mul(size_of::<T>());
            bytes > stream_threshold() && to.of_whole_cache_lines(dst, width)
        };
        Raw {
            src,
            from,
            dst,
            to,
            conj,
            forward: shape.is_from_real() || (shape == Shape::Complex && forward),
            scale: T::of(scale),
            unscaled: scale == 1.0,
            stream,
        }
    }
}
