//! Wrapping integer products.

use super::scalar::{WideScalar, scale};
use super::{RawMat, RawOut};
use crate::engine::isa::{Isa, Job, Level, best_for, run};
use crate::engine::scratch::with_scratch;

/// Rows of B that are packed at once.
const DEPTH: usize = 1024;
/// Columns of C that stay in registers and the first cache level.
const BLOCK: usize = 256;

struct Axpy<'a, T> {
    acc: &'a mut [T],
    row: &'a [T],
    b: &'a [T],
    width: usize,
}
impl<T: WideScalar> Job for Axpy<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (&x, b) in self.row.iter().zip(self.b.chunks_exact(self.width)) {
            for (acc, &b) in self.acc.iter_mut().zip(b) {
                *acc = acc.plus(x.times(b));
            }
        }
    }
}

/// See [`WideScalar::tile`].
///
/// # Safety
/// As there.
pub(super) unsafe fn tile<T: WideScalar>(
    m: usize,
    n: usize,
    k: usize,
    alpha: T,
    a: RawMat<T>,
    b: RawMat<T>,
    beta: T,
    c: RawOut<T>,
) {
    if k == 0 || alpha == T::ZERO {
        // SAFETY: the caller's promise.
        return unsafe { scale(m, n, beta, c) };
    }
    for j0 in (0..n).step_by(BLOCK) {
        let width = BLOCK.min(n - j0);
        // Sums of parts: wrapping arithmetic gives the same bits, and the buffer has a fixed size, however long rows are.
        for p0 in (0..k).step_by(DEPTH) {
            let depth = DEPTH.min(k - p0);
            let beta = if p0 == 0 { beta } else { T::ONE };
            with_scratch::<T, _>(depth * width + depth + width, |buf| {
                let (pack, rest) = buf.split_at_mut(depth * width);
                let (row, acc) = rest.split_at_mut(depth);
                for p in 0..depth {
                    for j in 0..width {
                        // SAFETY: inside B.
                        pack[p * width + j] = unsafe { *b.at(p0 + p, j0 + j).p };
                    }
                }
                for i in 0..m {
                    for p in 0..depth {
                        // SAFETY: inside A.
                        row[p] = unsafe { *a.at(i, p0 + p).p };
                    }
                    acc.fill(T::ZERO);
                    run(Axpy { acc, row, b: pack, width });
                    for (j, &s) in acc.iter().enumerate() {
                        // SAFETY: inside C.
                        unsafe {
                            let p = c.at(i, j0 + j).p;
                            let s = alpha.times(s);
                            *p = if beta == T::ZERO { s } else { s.plus(beta.times(*p)) };
                        }
                    }
                }
            });
        }
    }
}
