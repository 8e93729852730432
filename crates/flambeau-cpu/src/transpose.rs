//! Copies between layouts whose contiguous dimensions differ, as `a.t().contiguous()`.

use crate::isa::{Isa, Job, run};
use crate::parallel::parallel_for;

/// Output rows and columns of a tile: source lines are used whole and both sides stay in the first-level cache.
const ROWS: usize = 64;
const COLS: usize = 32;
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

impl<T: Copy> Pair<T> {
    /// One tile, by squares that fit the registers.
    ///
    /// # Safety
    /// Both matrices are valid for these rows and columns.
    #[inline(always)]
    unsafe fn tile(self, i0: usize, i1: usize, j0: usize, j1: usize) {
        const S: usize = 8;
        // SAFETY: the caller vouches for both matrices.
        let src = |j: usize, i: usize| unsafe { self.src.byte_offset(j as isize * self.src_col).add(i) };
        // SAFETY: as above.
        let out = |i: usize, j: usize| unsafe { self.out.byte_offset(i as isize * self.out_row).add(j) };
        let mut j = j0;
        while j + S <= j1 {
            let mut i = i0;
            while i + S <= i1 {
                // SAFETY: as above.
                unsafe {
                    let cols: [[T; S]; S] = std::array::from_fn(|c| src(j + c, i).cast::<[T; S]>().read());
                    for r in 0..S {
                        let row: [T; S] = std::array::from_fn(|c| cols[c][r]);
                        out(i + r, j).cast::<[T; S]>().write(row);
                    }
                }
                i += S;
            }
            for i in i..i1 {
                for c in j..j + S {
                    // SAFETY: as above.
                    unsafe { *out(i, c) = *src(c, i) };
                }
            }
            j += S;
        }
        for j in j..j1 {
            for i in i0..i1 {
                // SAFETY: as above.
                unsafe { *out(i, j) = *src(j, i) };
            }
        }
    }
}

struct Rows<T>(Pair<T>, usize, usize, usize);
impl<T: Copy> Job for Rows<T> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Rows(pair, first, last, cols) = self;
        for i in (first..last).step_by(ROWS) {
            for j in (0..cols).step_by(COLS) {
                // SAFETY: `transpose_copy`'s caller vouches for the whole matrices.
                unsafe { pair.tile(i, (i + ROWS).min(last), j, (j + COLS).min(cols)) };
            }
        }
    }
}

unsafe fn typed<T: Copy>(
    out: *mut u8,
    out_row: isize,
    src: *const u8,
    src_col: isize,
    rows: usize,
    cols: usize,
) {
    let pair = Pair { out: out.cast::<T>(), out_row, src: src.cast::<T>(), src_col };
    let grain = (GRAIN / cols.max(1)).div_ceil(ROWS).max(1);
    parallel_for(rows.div_ceil(ROWS), grain, |r| {
        run(Rows(pair, r.start * ROWS, (r.end * ROWS).min(rows), cols));
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
        for (rows, cols) in [(0, 5), (5, 0), (1, 1), (7, 9), (8, 8), (65, 33), (130, 70), (300, 257)] {
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
