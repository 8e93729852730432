//! Groups of lines whose buffer is larger than the first-level cache, as matrices: columns of a few elements come from memory, are
//! transformed and turned there, and rows go back the same way. So each element goes to the second-level cache and back once.

use super::batch::Move;
use super::butterfly::{self, Parts, Pass, load, store};
use super::num_traits_like::Float;
use super::root;
use crate::engine::room::collected;
use crate::engine::simd::{C, Vector};
use num_complex::Complex;

/// Rows and columns are whole multiples of the most elements that a transposed square has side by side.
const WHOLE: usize = 8;

/// A length as a product.
pub(super) struct Folded<T> {
    rows: usize,
    columns: usize,
    down: Vec<Pass<T>>,
    across: Vec<Pass<T>>,
    /// `exp(-2 pi i j k / n)` for each column `j`, row `k`.
    turns: Vec<Complex<T>>,
}
impl<T: Float> Folded<T> {
    pub(super) fn new(n: usize) -> Option<Self> {
        let fits = |m: usize| m.is_multiple_of(WHOLE) && butterfly::has_passes(m);
        let rows = (WHOLE..=n.isqrt()).rev().find(|r| n.is_multiple_of(*r) && fits(*r) && fits(n / r))?;
        let columns = n / rows;
        let turn = |(j, k): (usize, usize)| {
            let w = root(j * k % n, n);
            Complex::new(T::of(w.re), T::of(w.im))
        };
        let turns = collected((0..columns).flat_map(|j| (0..rows).map(move |k| (j, k))).map(turn));
        Some(Folded {
            rows,
            columns,
            down: butterfly::passes(rows)?,
            across: butterfly::passes(columns)?,
            turns,
        })
    }
    /// Elements of near memory that [`run`] needs.
    pub(super) fn near(&self) -> usize {
        (WHOLE + 2) * self.rows.max(self.columns)
    }
}

/// Through all passes from `src` by way of `between` into `to`; no two of them may be the same.
#[inline(always)]
unsafe fn through<V: Vector<T: Float>>(
    passes: &[Pass<V::T>],
    src: *const V::T,
    between: *mut V::T,
    to: *mut V::T,
    parts: Parts,
) {
    let mut x = src;
    for (i, p) in passes.iter().enumerate() {
        let y = if (passes.len() - i) % 2 == 1 { to } else { between };
        // SAFETY: the caller's promise: all hold as many elements as the passes transform.
        unsafe { butterfly::run::<V, false>(p, x, y, parts) };
        x = y.cast_const();
    }
}

/// Where a group's elements come from and go to.
pub(super) struct Ends<'a, T> {
    /// Lines in memory, or else the buffer `a`.
    pub read: Option<(&'a Move<'a, T>, *const T)>,
    pub write: Option<(&'a Move<'a, T>, *mut T, T)>,
    /// The buffers, and memory for a few columns or rows.
    pub a: *mut T,
    pub b: *mut T,
    pub near: *mut T,
}

/// Transforms a group.
///
/// # Safety
/// The ends' lines lie in memory and suit ([`Move::suits`]), the buffers hold a line of each lane, `near` holds
/// [`Folded::near`] elements, and the machine has the instructions.
#[inline(always)]
pub(super) unsafe fn run<V: Vector<T: Float>>(f: &Folded<V::T>, ends: &Ends<V::T>, parts: Parts) {
    let (n, step, natural) = (V::N, 2 * V::N, (0, V::N));
    let (rows, columns, wide) = (f.rows, f.columns, V::N / 2);
    let longest = rows.max(columns);
    // SAFETY: the caller's promise; all places are below rows * columns, or within `near`.
    unsafe {
        let (u, v) = (ends.near, ends.near.add(longest * step));
        let block = ends.near.add(2 * longest * step);
        for j in (0..columns).step_by(wide) {
            match ends.read {
                Some((m, src)) if m.beside => {
                    for k in 0..rows {
                        for c in 0..wide {
                            m.load_beside::<V>(src, k * columns + j + c, block.add((c * rows + k) * step));
                        }
                    }
                }
                Some((m, src)) => {
                    for k in 0..rows {
                        let at = 2 * (k * columns + j);
                        let to = |i: usize| block.add(((i / 2) * rows + k) * step + i % 2 * n);
                        V::square(|l| src.add(m.starts[l] + at), to, None);
                    }
                }
                None => {
                    for k in 0..rows {
                        for c in 0..wide {
                            let x = load::<V>(ends.a.add((k * columns + j + c) * step), natural);
                            store(x, block.add((c * rows + k) * step), natural);
                        }
                    }
                }
            }
            for c in 0..wide {
                through::<V>(&f.down, block.add(c * rows * step), u, v, parts);
                let turns = f.turns.as_ptr().add((j + c) * rows);
                for k in 0..rows {
                    let w = *turns.add(k);
                    let w = C { re: V::splat(w.re), im: V::splat(w.im) };
                    let x = load::<V>(v.add(k * step), parts);
                    store(x.times(w), ends.b.add((k * columns + j + c) * step), parts);
                }
            }
        }
        for k in (0..rows).step_by(wide) {
            for c in 0..wide {
                let row = ends.b.add((k + c) * columns * step);
                through::<V>(&f.across, row, u, block.add(c * columns * step), parts);
            }
            match ends.write {
                Some((m, dst, scale)) if m.beside => {
                    let by = V::splat(scale);
                    for j in 0..columns {
                        for c in 0..wide {
                            let x = load::<V>(block.add((c * columns + j) * step), natural);
                            m.store_beside(C { re: x.re.mul(by), im: x.im.mul(by) }, dst, k + c + j * rows);
                        }
                    }
                }
                Some((m, dst, scale)) => {
                    let by = V::splat(scale);
                    for j in 0..columns {
                        let at = 2 * (k + j * rows);
                        let from =
                            |i: usize| block.add(((i / 2) * columns + j) * step + i % 2 * n).cast_const();
                        V::square(from, |l| dst.add(m.starts[l] + at), Some(by));
                    }
                }
                None => {
                    for j in 0..columns {
                        for c in 0..wide {
                            let x = load::<V>(block.add((c * columns + j) * step), natural);
                            store(x, ends.a.add((k + c + j * rows) * step), natural);
                        }
                    }
                }
            }
        }
    }
}
