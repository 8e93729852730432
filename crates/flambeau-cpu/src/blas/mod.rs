//! Matrix products over strided slices: [`gemm()`], [`gemm_batched`], [`dot`].
//!
//! The arithmetic of f32, f64 and the complex types is the `gemm` crate's, called for one output tile at a time and
//! without its threads; the tiles are spread by [`crate::engine::parallel`]. Halves are widened, multiplied in f32 and rounded
//! once; bfloat16 is multiplied as it is where the machine can. Integers wrap.

mod bf16;
mod coming;
pub mod erased;
mod gemv;
mod halves;
mod integer;
pub mod linear;
mod mat;
#[cfg(target_arch = "x86_64")]
mod panels;
pub(crate) mod prepared;
mod rounded;
mod scalar;
mod transposed;
pub(crate) mod unpacked;

pub use gemv::dot;
use mat::upright;
pub use mat::{Mat, MatMut};
pub(crate) use mat::{RawMat, RawOut};
pub use rounded::allow_bf16_factors;
pub use scalar::{MatmulScalar, WideScalar};

use crate::engine::parallel::{num_threads, parallel_chunks, worth};
use crate::engine::span;

/// Whether a matrix lies in its slice.
fn lies(len: usize, (m, row): (usize, usize), (n, col): (usize, usize)) -> bool {
    span::fits(&[(m, row), (n, col)], len)
}
fn check_out(m: usize, n: usize, row: usize, col: usize) {
    assert!(
        m == 0 || n == 0 || span::apart([(m, row), (n, col)]),
        "gemm: elements of the output share memory"
    );
}

/// `C = alpha * A B + beta * C` with A `[m, k]`, B `[k, n]`, C `[m, n]`, on up to [`num_threads`] threads.
/// With `beta` 0 the old C is not read, so its NaN do not count. `alpha` 0 gives `beta * C`.
///
/// # Panics
/// If a slice is too short for its strides, or elements of C share memory: a bug of the caller.
pub fn gemm<T: MatmulScalar>(
    m: usize,
    n: usize,
    k: usize,
    alpha: T::Compute,
    a: Mat<&[T]>,
    b: Mat<&[T]>,
    beta: T::Compute,
    c: MatMut<T>,
) {
    assert!(lies(a.data.len(), (m, a.row), (k, a.col)), "gemm: A is too short");
    assert!(lies(b.data.len(), (k, b.row), (n, b.col)), "gemm: B is too short");
    assert!(lies(c.data.len(), (m, c.row), (n, c.col)), "gemm: C is too short");
    check_out(m, n, c.row, c.col);
    let (a, b, c) = (a.raw(), b.raw(), c.raw());
    // SAFETY: all three spans were checked and C is borrowed mutably, without overlap inside.
    unsafe { T::product(m, n, k, alpha, a, b, beta, c) }
}

/// `batch` products at once; operand `i` starts `i * stride` elements after the first. A stride of 0 shares A or B.
///
/// # Panics
/// As [`gemm()`].
pub fn gemm_batched<T: MatmulScalar>(
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    alpha: T::Compute,
    (a, a_stride): (Mat<&[T]>, usize),
    (b, b_stride): (Mat<&[T]>, usize),
    beta: T::Compute,
    (c, c_stride): (MatMut<T>, usize),
) {
    if batch == 0 || m == 0 || n == 0 {
        return;
    }
    let all = |s: usize, x: (usize, usize), y: (usize, usize), len| span::fits(&[(batch, s), x, y], len);
    assert!(all(a_stride, (m, a.row), (k, a.col), a.data.len()), "gemm_batched: A is too short");
    assert!(all(b_stride, (k, b.row), (n, b.col), b.data.len()), "gemm_batched: B is too short");
    assert!(all(c_stride, (m, c.row), (n, c.col), c.data.len()), "gemm_batched: C is too short");
    let apart = span::apart([(batch, c_stride), (m, c.row), (n, c.col)]);
    assert!(apart, "gemm_batched: elements of the output share memory");
    // Interleaved batches ([m, batch, n] memory) are fine as long as the batch step itself is outermost or innermost.
    let (a, b, c) = (a.raw(), b.raw(), c.raw());
    let one = |i: usize| {
        let a = a.skip(i * a_stride);
        let b = b.skip(i * b_stride);
        let c = c.skip(i * c_stride);
        // SAFETY: spans of the whole batch were checked above; batches of C are distinct matrices.
        unsafe { T::product(m, n, k, alpha, a, b, beta, c) }
    };
    let threads = num_threads();
    let work = m.saturating_mul(n).saturating_mul(k.max(1));
    if batch < threads || !worth(work.saturating_mul(batch), PARALLEL_MACS) {
        (0..batch).for_each(one);
        return;
    }
    // Whole matrices per chunk; enough chunks to even out noise, few enough that each is worth a hand-over.
    let chunks = (work.saturating_mul(batch) / PARALLEL_MACS).clamp(2, threads * 4).min(batch);
    parallel_chunks(chunks, &|i| (i * batch / chunks..(i + 1) * batch / chunks).for_each(one));
}

/// Multiply-adds below which a hand-over to another thread costs more than it saves.
pub(crate) const PARALLEL_MACS: usize = 1_000_000;

/// How an output of `m` x `n` is cut for the threads: number of row and column blocks.
fn grid(m: usize, n: usize, k: usize) -> (usize, usize) {
    let threads = num_threads();
    let macs = m.saturating_mul(n).saturating_mul(k.max(1));
    if !worth(macs, PARALLEL_MACS) {
        return (1, 1);
    }
    // Twice the threads when the product is long, so that a disturbed thread does not hold up the others.
    let want = if macs > 100_000_000 { threads * 2 } else { threads }.min(macs / (PARALLEL_MACS / 2));
    let (mut gm, mut gn) = (1, 1);
    while gm * gn < want {
        let (tm, tn) = (m / gm, n / gn);
        if tm.max(tn) < 32 {
            break;
        }
        // Finding the exact count for odd thread numbers: grow the longer side by one.
        if tn >= tm { gn += 1 } else { gm += 1 }
    }
    (gm, gn)
}

/// Runs `tile(i0, rows, j0, cols)` over a grid that covers the output, in parallel.
pub(crate) fn tiles(m: usize, n: usize, k: usize, tile: &(dyn Fn(usize, usize, usize, usize) + Sync)) {
    let (gm, gn) = grid(m, n, k);
    if gm * gn == 1 {
        return tile(0, m, 0, n);
    }
    // Multiples of 16 keep the vector kernels on full registers.
    let step = |len: usize, parts: usize| len.div_ceil(parts).next_multiple_of(16).min(len);
    let (sm, sn) = (if gm == 1 { m } else { step(m, gm) }, if gn == 1 { n } else { step(n, gn) });
    let (gm, gn) = (m.div_ceil(sm), n.div_ceil(sn));
    parallel_chunks(gm * gn, &|t| {
        let (i, j) = (t / gn * sm, t % gn * sn);
        tile(i, sm.min(m - i), j, sn.min(n - j));
    });
}
