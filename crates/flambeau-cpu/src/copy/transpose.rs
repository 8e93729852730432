//! Copies between layouts whose contiguous dimensions differ, as `a.t().contiguous()`.

use crate::engine::isa::{Isa, Job, run};
use crate::engine::parallel::parallel_for;
use std::mem::MaybeUninit;

/// Output rows and columns of a tile, whose pages are in reach at the same time.
const ROWS: usize = 64;
const COLS: usize = 64;
/// Elements below which another thread is not worth waking.
const GRAIN: usize = 32_768;

/// A matrix and its transposed source.
#[derive(Clone, Copy)]
struct Pair<T> {
    out: *mut T,
    out_row: isize,
    src: *const T,
    src_col: isize,
}
// SAFETY: threads copy disjoint rows of the output and only read the source.
unsafe impl<T> Send for Pair<T> {}
// SAFETY: as for Send.
unsafe impl<T> Sync for Pair<T> {}

/// Elements by size alone.
trait Lane: Copy {
    /// Rows and columns that fit the registers.
    const SIDE: usize;
    /// Transposes a square.
    ///
    /// # Safety
    /// `column(k)` and `row(k)` are valid for `SIDE` elements, for each `k` below `SIDE`.
    unsafe fn square(column: impl Fn(usize) -> *const Self, row: impl Fn(usize) -> *mut Self);
}
/// As many elements as a register of 16 bytes holds, transposed by interleaving the halves of the list of registers once
/// for each doubling.
macro_rules! lane {
    ($t:ty, $side:literal, $low:ident, $high:ident) => {
        impl Lane for $t {
            const SIDE: usize = $side;
            #[inline(always)]
            unsafe fn square(column: impl Fn(usize) -> *const Self, row: impl Fn(usize) -> *mut Self) {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: SSE2 is part of x86-64; the caller vouches for the memory.
                unsafe {
                    use std::arch::x86_64::*;
                    let mut r: [__m128i; $side] = std::array::from_fn(|k| _mm_loadu_si128(column(k).cast()));
                    for _ in 0..usize::trailing_zeros($side) {
                        r = std::array::from_fn(|k| {
                            let (a, b) = (r[k / 2], r[k / 2 + $side / 2]);
                            if k % 2 == 0 { $low(a, b) } else { $high(a, b) }
                        });
                    }
                    for (k, r) in r.into_iter().enumerate() {
                        _mm_storeu_si128(row(k).cast(), r);
                    }
                }
                #[cfg(not(target_arch = "x86_64"))]
                for i in 0..$side {
                    for j in 0..$side {
                        // SAFETY: the caller vouches for the memory.
                        unsafe { *row(i).add(j) = *column(j).add(i) };
                    }
                }
            }
        }
    };
}
lane!(u8, 16, _mm_unpacklo_epi8, _mm_unpackhi_epi8);
lane!(u16, 8, _mm_unpacklo_epi16, _mm_unpackhi_epi16);
lane!(u32, 4, _mm_unpacklo_epi32, _mm_unpackhi_epi32);
lane!(u64, 2, _mm_unpacklo_epi64, _mm_unpackhi_epi64);
impl Lane for [u64; 2] {
    const SIDE: usize = 1;
    #[inline(always)]
    unsafe fn square(column: impl Fn(usize) -> *const Self, row: impl Fn(usize) -> *mut Self) {
        // SAFETY: the caller vouches for the memory.
        unsafe { *row(0) = *column(0) }
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;
#[repr(C, align(64))]
struct Block([MaybeUninit<u8>; LINE * LINE]);

impl<T: Lane> Pair<T> {
    #[inline(always)]
    fn src(self, i: usize, j: usize) -> *const T {
        self.src.wrapping_byte_offset(j as isize * self.src_col).wrapping_add(i)
    }
    #[inline(always)]
    fn out(self, i: usize, j: usize) -> *mut T {
        self.out.wrapping_byte_offset(i as isize * self.out_row).wrapping_add(j)
    }
    /// One square by way of the registers.
    ///
    /// # Safety
    /// Both matrices are valid for `T::SIDE` rows and columns.
    #[inline(always)]
    unsafe fn square(self, i: usize, j: usize) {
        // SAFETY: the caller vouches for both matrices.
        unsafe { T::square(|k| self.src(i, j + k), |k| self.out(i + k, j)) }
    }
    /// A part that is no multiple of anything.
    ///
    /// # Safety
    /// Both matrices are valid for these rows and columns.
    #[inline(always)]
    unsafe fn fringe(self, i0: usize, i1: usize, j0: usize, j1: usize) {
        let (i2, j2) = (i0 + (i1 - i0) / T::SIDE * T::SIDE, j0 + (j1 - j0) / T::SIDE * T::SIDE);
        // SAFETY: the caller vouches for both matrices.
        unsafe {
            for j in (j0..j2).step_by(T::SIDE) {
                for i in (i0..i2).step_by(T::SIDE) {
                    self.square(i, j);
                }
                for i in i2..i1 {
                    for c in j..j + T::SIDE {
                        *self.out(i, c) = *self.src(i, c);
                    }
                }
            }
            for j in j2..j1 {
                for i in i0..i1 {
                    *self.out(i, j) = *self.src(i, j);
                }
            }
        }
    }
    /// One tile, by blocks of whole cache lines: where rows are apart by powers of two their lines push each other out of
    /// the cache, so each is read in one go, by way of a buffer, and written in one go.
    ///
    /// # Safety
    /// Both matrices are valid for these rows and columns.
    #[inline(always)]
    unsafe fn tile(self, i0: usize, i1: usize, j0: usize, j1: usize) {
        let side = LINE / size_of::<T>();
        let (i2, j2) = (i0 + (i1 - i0) / side * side, j0 + (j1 - j0) / side * side);
        let mut block = Block([MaybeUninit::uninit(); LINE * LINE]);
        let buffer = block.0.as_mut_ptr().cast::<T>();
        for j in (j0..j2).step_by(side) {
            for i in (i0..i2).step_by(side) {
                for c in 0..side {
                    // SAFETY: the caller vouches for the source; `side` elements are a line.
                    unsafe { std::ptr::copy_nonoverlapping(self.src(i, j + c), buffer.add(c * side), side) };
                }
                let inner = Pair {
                    src: buffer,
                    src_col: (side * size_of::<T>()) as isize,
                    out: self.out(i, j),
                    ..self
                };
                for r in (0..side).step_by(T::SIDE) {
                    for c in (0..side).step_by(T::SIDE) {
                        // SAFETY: the buffer has been filled, and the caller vouches for the output.
                        unsafe { inner.square(r, c) };
                    }
                }
            }
        }
        // SAFETY: as above.
        unsafe {
            self.fringe(i2, i1, j0, j2);
            self.fringe(i0, i1, j2, j1);
        }
    }
}

/// Columns that one thread takes at a time: few rows are shared as well.
const STRIPE: usize = 1024;

/// One band of rows, one stripe of columns.
struct Part<T>(Pair<T>, std::ops::Range<usize>, std::ops::Range<usize>);
impl<T: Lane> Job for Part<T> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Part(pair, rows, cols) = self;
        for j in cols.clone().step_by(COLS) {
            // SAFETY: `transpose_copy`'s caller vouches for the whole matrices.
            unsafe { pair.tile(rows.start, rows.end, j, (j + COLS).min(cols.end)) };
        }
    }
}

unsafe fn typed<T: Lane>(
    out: *mut u8,
    out_row: isize,
    src: *const u8,
    src_col: isize,
    rows: usize,
    cols: usize,
) {
    let pair = Pair { out: out.cast::<T>(), out_row, src: src.cast::<T>(), src_col };
    let stripes = cols.div_ceil(STRIPE);
    let grain = GRAIN.div_ceil(ROWS.min(rows.max(1)) * STRIPE.min(cols.max(1)));
    parallel_for(rows.div_ceil(ROWS) * stripes, grain, |r| {
        for part in r {
            let (i, j) = (part / stripes * ROWS, part % stripes * STRIPE);
            run(Part(pair, i..(i + ROWS).min(rows), j..(j + STRIPE).min(cols)));
        }
    });
}

/// Copies a `rows` x `cols` matrix whose output rows are contiguous from a source whose columns are: element `(i, j)`
/// goes from `src + j * src_col + i * size` to `out + i * out_row + j * size`. Strides are in bytes and may be
/// negative; elements have 1, 2, 4, 8 or 16 bytes (other sizes do nothing and return false). Runs on several threads
/// when the matrix is large.
///
/// # Safety
/// All elements of both matrices must be valid and aligned to the smaller of their size and 8, no two output elements
/// may share memory, the output must not overlap the source, and nobody may use the output meanwhile.
pub unsafe fn transpose_copy(
    out: *mut u8,
    out_row: isize,
    src: *const u8,
    src_col: isize,
    rows: usize,
    cols: usize,
    size: usize,
) -> bool {
    // SAFETY: same contract.
    unsafe {
        match size {
            1 => typed::<u8>(out, out_row, src, src_col, rows, cols),
            2 => typed::<u16>(out, out_row, src, src_col, rows, cols),
            4 => typed::<u32>(out, out_row, src, src_col, rows, cols),
            8 => typed::<u64>(out, out_row, src, src_col, rows, cols),
            16 => typed::<[u64; 2]>(out, out_row, src, src_col, rows, cols),
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Copy + PartialEq + std::fmt::Debug>(
        rows: usize,
        cols: usize,
        pad: usize,
        make: impl Fn(usize) -> T,
    ) {
        let (out_row, src_col) = (cols + pad, rows + 2 * pad);
        let src: Vec<T> = (0..cols * src_col).map(&make).collect();
        let blank = make(usize::MAX);
        let mut out = vec![blank; rows * out_row];
        let w = size_of::<T>() as isize;
        // SAFETY: both vectors hold the matrices with their padding.
        let done = unsafe {
            transpose_copy(
                out.as_mut_ptr().cast(),
                out_row as isize * w,
                src.as_ptr().cast(),
                src_col as isize * w,
                rows,
                cols,
                size_of::<T>(),
            )
        };
        assert!(done);
        for i in 0..rows {
            for j in 0..out_row {
                let want = if j < cols { src[j * src_col + i] } else { blank };
                assert_eq!(out[i * out_row + j], want, "{rows} x {cols} at {i}, {j}");
            }
        }
    }

    #[test]
    fn all_sizes_and_edges() {
        for (rows, cols) in
            [(0, 5), (5, 0), (1, 1), (7, 9), (8, 8), (65, 33), (130, 70), (300, 257), (9, 2500)]
        {
            for pad in [0, 3] {
                check(rows, cols, pad, |i| i as u8);
                check(rows, cols, pad, |i| i as u16);
                check(rows, cols, pad, |i| i as u32);
                check(rows, cols, pad, |i| i as u64);
                check(rows, cols, pad, |i| [i as u64, !(i as u64)]);
            }
        }
        // SAFETY: nothing is touched for an odd size.
        assert!(!unsafe { transpose_copy(std::ptr::null_mut(), 0, std::ptr::null(), 0, 4, 4, 3) });
    }

    /// Prints milliseconds: `cargo test --release -p flambeau-cpu -- --ignored --nocapture transpose_speed`.
    #[test]
    #[ignore = "measures, asserts nothing"]
    fn transpose_speed() {
        let n = 2048usize;
        let src: Vec<f32> = (0..n * n).map(|i| i as f32).collect();
        let mut out = vec![0f32; n * n];
        let mut best = f64::INFINITY;
        for _ in 0..20 {
            let t = std::time::Instant::now();
            let s = n as isize * 4;
            // SAFETY: two square matrices.
            unsafe { transpose_copy(out.as_mut_ptr().cast(), s, src.as_ptr().cast(), s, n, n, 4) };
            best = best.min(t.elapsed().as_secs_f64() * 1e3);
        }
        println!("transpose of {n} x {n} f32: {best:.3} ms");
    }
}
