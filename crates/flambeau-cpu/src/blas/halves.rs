//! Matrices of halves, widened for arithmetic and rounded back.

use super::{RawMat, RawOut};
use crate::engine::SharedMut;
use crate::engine::isa::run;
use crate::engine::parallel::parallel_for;
use crate::num::Arith;
use crate::num::stored::{Stored, Up};

/// A widened copy of `a` in `buf`, dense, in the order of `a`'s memory.
///
/// # Safety
/// `a` is valid for `m` x `n`, and `buf` has `m * n` elements.
pub(super) unsafe fn matrix<T: Stored>(
    m: usize,
    n: usize,
    a: RawMat<T>,
    buf: &mut [T::Compute],
) -> RawMat<T::Compute> {
    if a.cs > a.rs && n > 1 {
        // SAFETY: the transpose of a valid matrix.
        return unsafe { matrix(n, m, a.t(), buf) }.t();
    }
    let out = RawMat::rows(buf.as_ptr(), n);
    let dst = SharedMut::new(buf);
    parallel_for(m, (32_768 / n.max(1)).max(1), |rows| {
        for i in rows {
            // SAFETY: row `i` belongs to this range alone.
            let d = unsafe { dst.slice(i * n, n) };
            let row = a.at(i, 0).p;
            if a.cs == 1 {
                // SAFETY: a row of A is `n` contiguous elements.
                run(Up(unsafe { std::slice::from_raw_parts(row, n) }, d));
            } else {
                for (j, d) in d.iter_mut().enumerate() {
                    // SAFETY: inside A.
                    *d = unsafe { *row.add(j * a.cs) }.up();
                }
            }
        }
    });
    out
}

/// `C = round(wide + beta * C)`.
///
/// # Safety
/// `c` is valid for `m` x `n`; `wide` is dense.
pub(super) unsafe fn store<T: Stored>(
    m: usize,
    n: usize,
    wide: &[T::Compute],
    beta: T::Compute,
    c: RawOut<T>,
) {
    parallel_for(m, (32_768 / n.max(1)).max(1), |rows| {
        for i in rows {
            let w = &wide[i * n..(i + 1) * n];
            let row = c.at(i, 0).p;
            if c.cs == 1 && beta == T::Compute::ZERO {
                // SAFETY: a row of C is `n` contiguous elements that belong to this range alone.
                T::down_slice(w, unsafe { std::slice::from_raw_parts_mut(row, n) });
            } else {
                for (j, &w) in w.iter().enumerate() {
                    // SAFETY: inside C.
                    unsafe {
                        let p = row.add(j * c.cs);
                        *p =
                            T::down(if beta == T::Compute::ZERO { w } else { w.plus(beta.times((*p).up())) });
                    }
                }
            }
        }
    });
}
