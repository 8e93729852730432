//! Products and triangular solves of blocks.

use super::field::Field;
use super::vector::axpy;
use crate::blas::{Mat, gemm};
use crate::engine::scratch::with_scratch;

/// Where an operand's element `(i, j)` lies: `i * row + j * col`.
#[derive(Clone, Copy)]
pub struct Steps {
    /// From one row to the next.
    pub row: usize,
    /// From one column to the next.
    pub col: usize,
}
impl Steps {
    /// Columns `ld` apart.
    pub fn columns(ld: usize) -> Self {
        Steps { row: 1, col: ld }
    }
    /// Rows `ld` apart.
    pub fn rows(ld: usize) -> Self {
        Steps { row: ld, col: 1 }
    }
    /// Of the transpose.
    pub fn t(self) -> Self {
        Steps { row: self.col, col: self.row }
    }
    /// The place of an element.
    pub fn at(self, i: usize, j: usize) -> usize {
        i * self.row + j * self.col
    }
}

/// `C = alpha A B + beta C`, sizes `[m, n, k]`.
pub fn product<T: Field>(
    [m, n, k]: [usize; 3],
    alpha: T,
    (a, sa): (&[T], Steps),
    (b, sb): (&[T], Steps),
    beta: T,
    (c, sc): (&mut [T], Steps),
) {
    if m == 0 || n == 0 {
        return;
    }
    let mat = |s: Steps| (s.row, s.col);
    let ((ar, ac), (br, bc), (cr, cc)) = (mat(sa), mat(sb), mat(sc));
    gemm::<T>(
        m,
        n,
        k,
        alpha,
        Mat { data: a, row: ar, col: ac },
        Mat { data: b, row: br, col: bc },
        beta,
        Mat { data: c, row: cr, col: cc },
    );
}
/// [`product`] with `conj(A)` in the place of A.
pub fn product_conj<T: Field>(
    sizes: [usize; 3],
    alpha: T,
    (a, sa): (&[T], Steps),
    b: (&[T], Steps),
    beta: T,
    c: (&mut [T], Steps),
) {
    if !T::COMPLEX {
        return product(sizes, alpha, (a, sa), b, beta, c);
    }
    let [m, _, k] = sizes;
    with_scratch::<T, _>(m * k, |w| {
        // in the order of memory
        let (inner, outer, s) = if sa.row <= sa.col { (m, k, sa) } else { (k, m, sa.t()) };
        for j in 0..outer {
            for i in 0..inner {
                w[j * inner + i] = a[s.at(i, j)].conj();
            }
        }
        let s = if sa.row <= sa.col { Steps::columns(m) } else { Steps::rows(k) };
        product(sizes, alpha, (w, s), b, beta, c);
    })
}

/// A triangular matrix.
#[derive(Clone, Copy)]
pub struct Triangle<'a, T> {
    /// Elements.
    pub a: &'a [T],
    /// Their order.
    pub steps: Steps,
    /// The upper half counts.
    pub upper: bool,
    /// Elements are conjugated.
    pub conj: bool,
    /// The diagonal counts as ones.
    pub unit: bool,
}
impl<'a, T: Field> Triangle<'a, T> {
    fn at(&self, i: usize, j: usize) -> T {
        let v = self.a[self.steps.at(i, j)];
        if self.conj { v.conj() } else { v }
    }
    /// The part from the diagonal's element `i` on.
    fn from(&self, i: usize) -> Self {
        Triangle { a: &self.a[self.steps.at(i, i)..], ..*self }
    }
}
/// Rows that are solved one by one.
const ROWS: usize = 16;

/// Solves `A X = B` in place: B has `n` rows of `k` elements, `ld` apart.
pub fn solve_rows<T: Field>(t: Triangle<T>, n: usize, b: &mut [T], ld: usize, k: usize) {
    if n == 0 || k == 0 {
        return;
    }
    if n <= ROWS {
        for step in 0..n {
            let i = if t.upper { n - 1 - step } else { step };
            let others = if t.upper { i + 1..n } else { 0..i };
            for j in others {
                let m = t.at(i, j);
                if m != T::ZERO {
                    let (x, y) = two(b, ld, k, j, i);
                    axpy(-m, x, y);
                }
            }
            if !t.unit {
                let d = t.at(i, i);
                if T::COMPLEX {
                    b[i * ld..i * ld + k].iter_mut().for_each(|x| *x = x.over(d));
                } else if k > 8 && d.size() > <T::Real as super::field::Real>::SAFE {
                    let r = T::ONE / d;
                    b[i * ld..i * ld + k].iter_mut().for_each(|x| *x = *x * r);
                } else {
                    b[i * ld..i * ld + k].iter_mut().for_each(|x| *x = *x / d);
                }
            }
        }
        return;
    }
    let half = (n / 2).next_multiple_of(8).min(n - 1);
    let rest = n - half;
    let below = |low: &mut [T], high: &mut [T], sizes: [usize; 3], from: usize, flip: bool| {
        let (x, y) = if flip { (high, low) } else { (low, high) };
        let a = (&t.a[from..], t.steps);
        let (x, y) = ((&*x, Steps::rows(ld)), (y, Steps::rows(ld)));
        if t.conj {
            product_conj(sizes, -T::ONE, a, x, T::ONE, y);
        } else {
            product(sizes, -T::ONE, a, x, T::ONE, y);
        }
    };
    if t.upper {
        solve_rows(t.from(half), rest, &mut b[half * ld..], ld, k);
        let (low, high) = b.split_at_mut(half * ld);
        below(low, high, [half, k, rest], t.steps.at(0, half), true);
        solve_rows(t, half, low, ld, k);
    } else {
        let (low, high) = b.split_at_mut(half * ld);
        solve_rows(t, half, low, ld, k);
        below(low, high, [rest, k, half], t.steps.at(half, 0), false);
        solve_rows(t.from(half), rest, high, ld, k);
    }
}
/// Makes of the identity, which `b` holds in `n` rows, the inverse of a lower triangle: what is zero costs nothing.
pub fn invert_lower_rows<T: Field>(t: Triangle<T>, n: usize, b: &mut [T], ld: usize) {
    if n <= 2 * ROWS || t.conj {
        return solve_rows(t, n, b, ld, n);
    }
    let half = (n / 2).next_multiple_of(8).min(n - 1);
    let rest = n - half;
    let (low, high) = b.split_at_mut(half * ld);
    invert_lower_rows(t, half, low, ld);
    let a = (&t.a[t.steps.at(half, 0)..], t.steps);
    product([rest, half, half], -T::ONE, a, (low, Steps::rows(ld)), T::ZERO, (&mut *high, Steps::rows(ld)));
    solve_rows(t.from(half), rest, high, ld, half);
    invert_lower_rows(t.from(half), rest, &mut high[half..], ld);
}
/// Row `x` to read and row `y` to write.
fn two<T>(b: &mut [T], ld: usize, k: usize, x: usize, y: usize) -> (&[T], &mut [T]) {
    if x < y {
        let (low, high) = b.split_at_mut(y * ld);
        (&low[x * ld..x * ld + k], &mut high[..k])
    } else {
        let (low, high) = b.split_at_mut(x * ld);
        (&high[..k], &mut low[y * ld..y * ld + k])
    }
}
/// Writes the transpose: `to` has `cols` rows of `rows` elements, `from` columns of `rows` elements `ld` apart... by tiles.
pub fn transpose<T: Copy>(from: &[T], ld: usize, rows: usize, cols: usize, to: &mut [T], to_ld: usize) {
    const TILE: usize = 16;
    for j0 in (0..cols).step_by(TILE) {
        for i0 in (0..rows).step_by(TILE) {
            for j in j0..(j0 + TILE).min(cols) {
                for i in i0..(i0 + TILE).min(rows) {
                    to[i * to_ld + j] = from[j * ld + i];
                }
            }
        }
    }
}
