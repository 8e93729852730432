//! Matrix times vector in f32 by vectors, written out: the loops wait for memory, and only explicit registers and prefetches reach
//! its full speed.

use crate::engine::cache::prefetch;
use crate::engine::isa::level;
use crate::engine::simd::{Body, Vector, Vectored, are_there};
use std::any::TypeId;

/// Elements of a cache line.
const LINE: usize = 16;

/// `y[r] = row r . x` for `R` rows that lie `step` elements apart.
///
/// # Safety
/// Rows and `x` must be valid for `k` elements, `y` for R; the machine has the vectors.
#[inline(always)]
unsafe fn dots<V: Vector<T = f32>, const R: usize>(
    m: *const f32,
    step: usize,
    k: usize,
    x: *const f32,
    y: *mut f32,
) {
    // SAFETY: the caller's promise; below, each load ends at k, and a prefetch may go anywhere.
    unsafe {
        let mut acc = [[V::splat(0.0); 2]; R];
        let mut p = 0;
        while p + 2 * V::N <= k {
            let v = [V::load(x.add(p)), V::load(x.add(p + V::N))];
            for (r, acc) in acc.iter_mut().enumerate() {
                for h in 0..2 {
                    let q = m.wrapping_add(r * step + p + V::N * h);
                    if (V::N * h).is_multiple_of(LINE) {
                        prefetch(q.wrapping_add(512).cast());
                    }
                    acc[h] = V::load(q).fma(v[h], acc[h]);
                }
            }
            p += 2 * V::N;
        }
        while p < k {
            let mask = V::lanes(0, (k - p) as isize);
            let v = V::load_where(mask, x.add(p));
            for (r, acc) in acc.iter_mut().enumerate() {
                acc[0] = V::load_where(mask, m.wrapping_add(r * step + p)).fma(v, acc[0]);
            }
            p += V::N;
        }
        for (r, acc) in acc.iter().enumerate() {
            *y.add(r) = acc[0].add(acc[1]).sum();
        }
    }
}

/// `y = M x` where rows are contiguous and lie `step` elements apart: the matrix is valid for them.
struct ByRows<'a> {
    m: *const f32,
    step: usize,
    x: &'a [f32],
    y: &'a mut [f32],
}
impl Body<f32> for ByRows<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector<T = f32>>(self) {
        let ByRows { m, step, x, y } = self;
        let mut i = 0;
        while i < y.len() {
            let (row, to) = (m.wrapping_add(i * step), y[i..].as_mut_ptr());
            // SAFETY: the matrix is valid; `y` has as many elements left as rows are taken.
            unsafe {
                if i + 4 <= y.len() {
                    dots::<V, 4>(row, step, x.len(), x.as_ptr(), to);
                    i += 4;
                } else {
                    dots::<V, 1>(row, step, x.len(), x.as_ptr(), to);
                    i += 1;
                }
            }
        }
    }
}

/// `y += sum of x[c] column c` for `C` columns that lie `step` elements apart.
///
/// # Safety
/// Columns must be valid for `y.len()` elements, `x` for C; the machine has the vectors.
#[inline(always)]
unsafe fn add<V: Vector<T = f32>, const C: usize>(m: *const f32, step: usize, x: &[f32], y: &mut [f32]) {
    // SAFETY: the caller's promise; below, what is read and written ends at `n`, and a prefetch may go anywhere.
    unsafe {
        let mut scale = [V::splat(0.0); C];
        for (s, x) in scale.iter_mut().zip(x) {
            *s = V::splat(*x);
        }
        let n = y.len();
        for i in (0..n / V::N * V::N).step_by(V::N) {
            let to = y.as_mut_ptr().add(i);
            let mut s = V::load(to);
            for (c, scale) in scale.iter().enumerate() {
                let q = m.wrapping_add(c * step + i);
                if V::N >= LINE || i.is_multiple_of(LINE) {
                    prefetch(q.wrapping_add(256).cast());
                }
                s = V::load(q).fma(*scale, s);
            }
            s.store(to);
        }
        let (i, left) = (n / V::N * V::N, n % V::N);
        if left > 0 {
            let mask = V::lanes(0, left as isize);
            let to = y.as_mut_ptr().add(i);
            let mut s = V::load_where(mask, to);
            for (c, scale) in scale.iter().enumerate() {
                s = V::load_where(mask, m.wrapping_add(c * step + i)).fma(*scale, s);
            }
            s.store_first(to, left);
        }
    }
}
/// `y = M x` where columns are contiguous and lie `step` elements apart: the matrix is valid for them.
struct ByColumns<'a> {
    m: *const f32,
    step: usize,
    x: &'a [f32],
    y: &'a mut [f32],
}
impl Body<f32> for ByColumns<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector<T = f32>>(self) {
        const BLOCK: usize = 4096;
        let ByColumns { m, step, x, y } = self;
        for (b, y) in y.chunks_mut(BLOCK).enumerate() {
            y.fill(0.0);
            for (j, x) in x.chunks(8).enumerate() {
                let col = m.wrapping_add(j * 8 * step + b * BLOCK);
                // SAFETY: the matrix is valid.
                unsafe {
                    if x.len() == 8 {
                        add::<V, 8>(col, step, x, y);
                    } else {
                        for (c, x) in x.chunks(1).enumerate() {
                            add::<V, 1>(col.wrapping_add(c * step), step, x, y);
                        }
                    }
                }
            }
        }
    }
}

/// `y = M x` for f32 on a machine with vectors; returns whether it did. The contiguous dimension of `m` is that of the rows
/// (`rows`) or of the columns; `step` leads to the next one.
///
/// # Safety
/// `m` must be valid for a matrix of `y.len()` rows and `x.len()` columns of `T`.
pub(super) unsafe fn matvec<T: 'static, A: 'static + bytemuck::Pod>(
    m: *const T,
    step: usize,
    rows: bool,
    x: &[A],
    y: &mut [A],
) -> bool {
    let f32_id = TypeId::of::<f32>();
    let level = level();
    if TypeId::of::<T>() != f32_id || TypeId::of::<A>() != f32_id || !are_there(level) {
        return false;
    }
    let (m, x, y) = (m.cast::<f32>(), bytemuck::cast_slice(x), bytemuck::cast_slice_mut(y));
    if rows {
        f32::run(level, ByRows { m, step, x, y });
    } else {
        f32::run(level, ByColumns { m, step, x, y });
    }
    true
}
