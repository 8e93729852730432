//! Cholesky decomposition by rows: `M = U^H U`, recursive. Rows that are contiguous make the same memory, read by columns, the
//! decomposition `L L^H` of the transpose.

use super::field::{Field, Real};
use super::product::{Steps, Triangle, product, product_conj, solve_rows};
use super::vector::axpy;
use crate::engine::room::filled;
use crate::num::Arith;

const LEAF: usize = 16;

/// Decomposes in place the Hermitian matrix whose upper half `m` holds by rows, `ld` apart; what is below the diagonal is of no use afterwards.
/// 0, or the order (from 1) of the leading minor that is not positive-definite.
pub fn factor<T: Field>(m: &mut [T], ld: usize, n: usize) -> i32 {
    if n <= LEAF {
        return leaf(m, ld, n);
    }
    let half = (n / 2).next_multiple_of(LEAF).min(n - 1);
    let rest = n - half;
    let info = factor(m, ld, half);
    if info != 0 {
        return info;
    }
    let (top, bottom) = m.split_at_mut(half * ld);
    // the triangle and the rows that it is solved for lie in the same rows
    let mut corner = filled(T::ZERO, half * half);
    for i in 0..half {
        corner[i * half + i..(i + 1) * half].copy_from_slice(&top[i * ld + i..i * ld + half]);
    }
    let t = Triangle { a: &corner, steps: Steps::columns(half), upper: false, conj: true, unit: false };
    solve_rows(t, half, &mut top[half..], ld, rest);
    // only the upper half is needed: by bands of rows
    let band = rest.div_ceil(rest.div_ceil(128)).max(32);
    for i in (0..rest).step_by(band) {
        let height = band.min(rest - i);
        let left = (&top[half + i..], Steps::columns(ld));
        let right = (&top[half + i..], Steps::rows(ld));
        let out = (&mut bottom[i * ld + half + i..], Steps::rows(ld));
        let sizes = [height, rest - i, half];
        if T::COMPLEX {
            product_conj(sizes, -T::ONE, left, right, T::ONE, out);
        } else {
            product(sizes, -T::ONE, left, right, T::ONE, out);
        }
    }
    let info = factor(&mut bottom[half..], ld, rest);
    if info == 0 { 0 } else { info + half as i32 }
}
/// [`factor`] of a dense matrix, with zeros below the diagonal, where products of blocks write too.
pub fn whole<T: Field>(m: &mut [T], n: usize) -> i32 {
    let info = factor(m, n.max(1), n);
    for r in 1..n {
        m[r * n..r * n + r].fill(T::ZERO);
    }
    info
}
fn leaf<T: Field>(m: &mut [T], ld: usize, n: usize) -> i32 {
    for j in 0..n {
        let d = m[j * ld + j].re();
        // NaN is not positive either
        if !(d > T::Real::ZERO) {
            m[j * ld + j] = T::real(d);
            return j as i32 + 1;
        }
        let d = d.root();
        m[j * ld + j] = T::real(d);
        // what is divided by infinity is undefined, as in LAPACK's kernels
        let r = if d.finite_real() { T::Real::ONE / d } else { T::Real::of(f64::NAN) };
        m[j * ld + j + 1..j * ld + n].iter_mut().for_each(|v| *v = v.scale(r));
        for i in j + 1..n {
            let (above, row) = m.split_at_mut(i * ld);
            let f = above[j * ld + i].conj();
            axpy(-f, &above[j * ld + i..j * ld + n], &mut row[i..n]);
        }
    }
    0
}
