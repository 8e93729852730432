//! Products on the calling thread whose right operand serves several of them, brought once into the order that they read.
//! Rows of a matrix that lie a power of two apart share a few places of the first cache level; side by side they do not.

use super::unpacked::{self, COLS, ROWS, Tile, available, near, tile, turn};
use super::{RawMat, RawOut, WideScalar};
use crate::copy::transpose::transpose_copy;
use std::any::TypeId;

/// Terms of a sum that are taken at a time. Their part of a panel may come from the second cache level again and again: that
/// costs less than taking up the results more often.
const DEPTH: usize = 256;
/// Columns at a multiple of which a product may start.
pub(crate) const COLUMNS: usize = COLS;

/// Whether operands of this type lie in panels.
fn panels<T: 'static>() -> bool {
    TypeId::of::<T>() == TypeId::of::<f32>() && available()
}

/// `C (+)= A B`: A with both strides, the others with contiguous rows, the steps of the sums at most 2^23.
///
/// # Safety
/// The matrices are valid and overlap not, and nobody uses C meanwhile.
pub(crate) unsafe fn product<T: WideScalar>(
    [m, n, k]: [usize; 3],
    a: RawMat<T>,
    b: RawMat<T>,
    add: bool,
    c: RawOut<T>,
) {
    if m == 0 || n == 0 {
        return;
    }
    if panels::<T>() {
        // SAFETY: T is f32; the rest is the caller's promise.
        return unsafe { unpacked::product(m, n, k, a.cast(), b.cast(), add, c.cast()) };
    }
    let beta = if add { T::ONE } else { T::ZERO };
    // SAFETY: the caller's promise.
    unsafe { T::tile(m, n, k, T::ONE, a, b, beta, c) }
}

/// A prepared right operand `[k, n]`; the memory is the caller's.
#[derive(Clone, Copy)]
pub(crate) struct Right<T> {
    data: *const T,
    k: usize,
    n: usize,
}
// SAFETY: only read; the memory's owner outlives the kernel that shares it.
unsafe impl<T: Sync> Sync for Right<T> {}

impl<T: WideScalar> Right<T> {
    /// Whether products with prepared operands are faster here than those of [`super::gemm()`].
    pub fn turns() -> bool {
        panels::<T>()
    }
    /// Elements that preparing takes.
    pub fn room(k: usize, n: usize) -> usize {
        k * if panels::<T>() { n.next_multiple_of(COLS) } else { n }
    }
    /// Prepares a matrix with contiguous rows.
    ///
    /// # Safety
    /// The matrix is valid.
    pub unsafe fn of_rows(b: RawMat<T>, k: usize, n: usize, room: &mut [T]) -> Self {
        assert!(room.len() >= Self::room(k, n), "product: room");
        for j in (0..n).step_by(if panels::<T>() { COLS } else { n }) {
            let (width, ld) = if panels::<T>() { (COLS.min(n - j), COLS) } else { (n, n) };
            for (p, to) in room[k * j..].chunks_mut(ld).take(k).enumerate() {
                // SAFETY: a stretch of row `p`.
                let from = unsafe { std::slice::from_raw_parts(b.at(p, j).p, width) };
                to[..width].copy_from_slice(from);
            }
        }
        Right { data: room.as_ptr(), k, n }
    }
    /// Prepares a matrix with contiguous columns.
    ///
    /// # Safety
    /// The matrix is valid.
    pub unsafe fn of_columns(b: RawMat<T>, k: usize, n: usize, room: &mut [T]) -> Self {
        assert!(room.len() >= Self::room(k, n), "product: room");
        let right = Right { data: room.as_ptr(), k, n };
        if panels::<T>() {
            for j in (0..n).step_by(COLS) {
                let (from, to) = (b.at(0, j).p.cast(), room[k * j..].as_mut_ptr().cast());
                // SAFETY: columns of the matrix, and a panel of `k` rows.
                unsafe { turn(from, b.cs, COLS.min(n - j), k, to) };
            }
            return right;
        }
        let size = size_of::<T>();
        // SAFETY: the matrix is valid, and the room has `k` rows of `n`.
        unsafe {
            let (to, from) = (room.as_mut_ptr().cast(), b.p.cast());
            transpose_copy(to, (n * size) as isize, from, (b.cs * size) as isize, k, n, size);
        }
        right
    }
    /// `C (+)= A B` with the columns `first..first + n` of B. `first` is a multiple of [`COLUMNS`]; A's columns are at most
    /// 2^23 apart.
    ///
    /// # Safety
    /// The matrices are valid, this one's memory unchanged since; they overlap not, and nobody uses C meanwhile.
    pub unsafe fn product(
        &self,
        m: usize,
        (first, n): (usize, usize),
        a: RawMat<T>,
        add: bool,
        c: RawOut<T>,
    ) {
        assert!(first.is_multiple_of(COLUMNS) && first + n <= self.n, "product: columns");
        if m == 0 || n == 0 {
            return;
        }
        if !panels::<T>() {
            let beta = if add { T::ONE } else { T::ZERO };
            let b = RawMat::rows(self.data.wrapping_add(first), self.n);
            // SAFETY: the caller's promise.
            return unsafe { T::tile(m, n, self.k, T::ONE, a, b, beta, c) };
        }
        let (a, c) = (a.cast::<f32>(), c.cast::<f32>());
        let mut terms = [(0u32, 0u32); DEPTH];
        for (p, t) in terms.iter_mut().enumerate().take(self.k) {
            *t = ((p * a.cs) as u32, (p * COLS) as u32);
        }
        let parts = self.k.div_ceil(near(DEPTH)).max(1);
        for j in (0..n).step_by(COLS) {
            let panel = self.data.cast::<f32>().wrapping_add((first + j) * self.k);
            for part in 0..parts {
                let (p, end) = (part * self.k / parts, (part + 1) * self.k / parts);
                for i in (0..m).step_by(ROWS) {
                    let row = |r: usize| a.at((i + r).min(m - 1), p).p;
                    let t = Tile {
                        rows: std::array::from_fn(row),
                        m: ROWS.min(m - i),
                        b: panel.wrapping_add(p * COLS),
                        outer: 1,
                        a_step: 0,
                        b_step: 0,
                        inner: &terms[..end - p],
                        n: COLS.min(n - j),
                        c: c.at(i, j).p,
                        ldc: c.rs,
                        add: add || p > 0,
                    };
                    // SAFETY: a tile of the caller's matrices and of a panel.
                    unsafe { tile(&t) };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: WideScalar>(of: impl Fn(f64) -> T) {
        let value = |i: usize| of(((i * 7919 % 23) as f64) - 11.0);
        for (m, n, k) in [(1, 1, 1), (7, 50, 3), (9, 96, 200), (16, 130, 401), (3, 48, 64)] {
            let (a, b): (Vec<T>, Vec<T>) = ((0..m * k).map(value).collect(), (0..n * k).map(value).collect());
            let turned: Vec<T> = (0..n * k).map(|i| b[i % k * n + i / k]).collect();
            let expected = |i: usize, j: usize| {
                (0..k).fold(T::ZERO, |s, p| s.plus(a[i * k + p].times(b[p * n + j]))).to_string_of()
            };
            let mut room = vec![T::ZERO; Right::<T>::room(k, n)];
            for columns in [false, true] {
                // SAFETY: the vectors have these sizes.
                let right = unsafe {
                    if columns {
                        Right::of_columns(RawMat::new(turned.as_ptr(), 1, k), k, n, &mut room)
                    } else {
                        Right::of_rows(RawMat::rows(b.as_ptr(), n), k, n, &mut room)
                    }
                };
                let first = n / 2 / COLUMNS * COLUMNS;
                let mut c = vec![T::ZERO; m * n];
                // SAFETY: as above; the second product adds 0 times the same.
                unsafe {
                    let a = RawMat::rows(a.as_ptr(), k);
                    right.product(m, (first, n - first), a, false, RawOut::rows(c[first..].as_mut_ptr(), n));
                    right.product(m, (0, first), a, false, RawOut::rows(c.as_mut_ptr(), n));
                }
                for i in 0..m {
                    for j in 0..n {
                        assert_eq!(
                            c[i * n + j].to_string_of(),
                            expected(i, j),
                            "{m} {n} {k} {columns} {i} {j}"
                        );
                    }
                }
            }
        }
    }
    trait Shown {
        fn to_string_of(&self) -> String;
    }
    impl<T: WideScalar> Shown for T {
        fn to_string_of(&self) -> String {
            format!("{self:?}")
        }
    }

    #[test]
    fn prepared_operands() {
        check(|v| v as f32);
        check(|v| v);
    }
}
