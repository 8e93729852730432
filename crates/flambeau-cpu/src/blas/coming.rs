//! The part of an operand that is packed next.

use super::RawMat;
use crate::engine::cache::prefetch_later;

/// What is packed next. Its lines are on their way while the tiles before it are computed: the rows or columns of a weight that comes
/// from memory are too many streams for the machine to follow by itself.
pub(super) struct Coming<T> {
    /// What is asked for next, in a row or column whose elements are neighbours.
    at: *const T,
    /// Lines that are left of it, and those of each.
    line: usize,
    each: usize,
    /// From the start of one to that of the next.
    step: usize,
    /// Lines that are left in all, and what is asked for at a time.
    left: usize,
    at_once: usize,
}
impl<T> Coming<T> {
    /// Elements of a cache line.
    const LINE: usize = 64 / size_of::<T>();
    /// The first `depth` rows and `n` columns of `b`, one of whose steps is 1, shared out over as many calls of [`Coming::ask`] as there
    /// are.
    pub(super) fn new(b: RawMat<T>, [depth, n]: [usize; 2], calls: usize) -> Self {
        let (step, long, many) = if b.rs == 1 { (b.cs, depth, n) } else { (b.rs, n, depth) };
        let each = long.div_ceil(Self::LINE);
        let left = many * each;
        Coming { at: b.p, line: each, each, step, left, at_once: left.div_ceil(calls.max(1)) }
    }
    /// Asks for the next lines.
    #[inline(always)]
    pub(super) fn ask(&mut self) {
        let now = self.at_once.min(self.left);
        self.left -= now;
        for _ in 0..now {
            prefetch_later(self.at.cast());
            self.at = self.at.wrapping_add(Self::LINE);
            self.line -= 1;
            if self.line == 0 {
                self.line = self.each;
                self.at = self.at.wrapping_add(self.step).wrapping_sub(self.each * Self::LINE);
            }
        }
    }
}
