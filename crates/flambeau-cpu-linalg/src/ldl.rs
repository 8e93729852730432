//! Bunch-Kaufman decomposition of symmetric and Hermitian matrices, of the lower half, by columns (LAPACK's `sytf2` and `hetf2`),
//! and solutions with it.

use super::field::{Field, Real};
use super::vector::axpy;
use crate::num::Arith;

/// The larger choice of a pivot of one row makes.
fn alpha<R: Real>() -> R {
    R::of((1.0 + 17f64.sqrt()) / 8.0)
}

/// Decomposes in place. Pivots are LAPACK's: `k` (from 1) for a block of one row exchanged with `k`, `-k` twice for one of two
/// rows. 0, or the first zero of the diagonal (from 1).
pub fn factor<T: Field>(a: &mut [T], n: usize, pivots: &mut [i32], hermitian: bool) -> i32 {
    let hermitian = hermitian && T::COMPLEX;
    let cj = |v: T| if hermitian { v.conj() } else { v };
    let weight = |v: T| v.weight();
    let mut info = 0;
    let mut k = 0;
    while k < n {
        let mut step = 1;
        let absakk = if hermitian { a[k * n + k].re().magnitude() } else { weight(a[k * n + k]) };
        let mut imax = k;
        let mut colmax = T::Real::ZERO;
        for i in k + 1..n {
            let w = weight(a[k * n + i]);
            if w > colmax {
                (imax, colmax) = (i, w);
            }
        }
        let mut kp = k;
        // NaN alone differs from itself
        #[allow(clippy::eq_op)]
        let undefined = absakk != absakk;
        if absakk.larger(colmax) == T::Real::ZERO || undefined {
            if info == 0 {
                info = k as i32 + 1;
            }
            if hermitian {
                a[k * n + k] = T::real(a[k * n + k].re());
            }
        } else {
            if absakk < alpha::<T::Real>() * colmax {
                let mut rowmax = T::Real::ZERO;
                for j in k..imax {
                    rowmax = rowmax.larger(weight(a[j * n + imax]));
                }
                for i in imax + 1..n {
                    rowmax = rowmax.larger(weight(a[imax * n + i]));
                }
                let diagonal =
                    if hermitian { a[imax * n + imax].re().magnitude() } else { weight(a[imax * n + imax]) };
                if absakk >= alpha::<T::Real>() * colmax * (colmax / rowmax) {
                    kp = k;
                } else if diagonal >= alpha::<T::Real>() * rowmax {
                    kp = imax;
                } else {
                    kp = imax;
                    step = 2;
                }
            }
            let kk = k + step - 1;
            if kp != kk {
                for i in kp + 1..n {
                    a.swap(kk * n + i, kp * n + i);
                }
                for j in kk + 1..kp {
                    let t = cj(a[kk * n + j]);
                    a[kk * n + j] = cj(a[j * n + kp]);
                    a[j * n + kp] = t;
                }
                if hermitian {
                    a[kk * n + kp] = a[kk * n + kp].conj();
                }
                a.swap(kk * n + kk, kp * n + kp);
                if step == 2 {
                    a.swap(k * n + k + 1, k * n + kp);
                }
            }
            if hermitian {
                for d in k..k + step {
                    a[d * n + d] = T::real(a[d * n + d].re());
                }
            }
            if step == 1 {
                let r = T::ONE.over(a[k * n + k]);
                let (left, right) = a.split_at_mut((k + 1) * n);
                let column = &mut left[k * n..];
                for j in k + 1..n {
                    let f = cj(column[j]) * r;
                    axpy(-f, &column[j..n], &mut right[(j - k - 1) * n + j..(j - k - 1) * n + n]);
                    if hermitian {
                        let d = &mut right[(j - k - 1) * n + j];
                        *d = T::real(d.re());
                    }
                }
                column[k + 1..n].iter_mut().for_each(|v| *v = *v * r);
            } else {
                two_rows(a, n, k, hermitian);
            }
        }
        if step == 1 {
            pivots[k] = kp as i32 + 1;
        } else {
            pivots[k] = -(kp as i32 + 1);
            pivots[k + 1] = pivots[k];
        }
        k += step;
    }
    info
}
/// Eliminates below a diagonal block of two rows.
fn two_rows<T: Field>(a: &mut [T], n: usize, k: usize, hermitian: bool) {
    if k + 2 >= n {
        return;
    }
    if hermitian {
        let d21 = a[k * n + k + 1];
        let d = d21.size();
        let d11 = a[(k + 1) * n + k + 1].re() / d;
        let d22 = a[k * n + k].re() / d;
        let t = T::Real::ONE / (d11 * d22 - T::Real::ONE);
        let turn = d21.scale(T::Real::ONE / d);
        let d = t / d;
        for j in k + 2..n {
            let wk = (a[k * n + j].scale(d11) - turn * a[(k + 1) * n + j]).scale(d);
            let wk1 = (a[(k + 1) * n + j].scale(d22) - turn.conj() * a[k * n + j]).scale(d);
            for i in j..n {
                let v = a[j * n + i] - a[k * n + i] * wk.conj() - a[(k + 1) * n + i] * wk1.conj();
                a[j * n + i] = v;
            }
            a[k * n + j] = wk;
            a[(k + 1) * n + j] = wk1;
            let d = a[j * n + j].re();
            a[j * n + j] = T::real(d);
        }
        return;
    }
    let d21 = a[k * n + k + 1];
    let d11 = a[(k + 1) * n + k + 1].over(d21);
    let d22 = a[k * n + k].over(d21);
    let t = T::ONE.over(d11 * d22 - T::ONE);
    let d21 = t.over(d21);
    for j in k + 2..n {
        let wk = d21 * (d11 * a[k * n + j] - a[(k + 1) * n + j]);
        let wk1 = d21 * (d22 * a[(k + 1) * n + j] - a[k * n + j]);
        for i in j..n {
            let v = a[j * n + i] - a[k * n + i] * wk - a[(k + 1) * n + i] * wk1;
            a[j * n + i] = v;
        }
        a[k * n + j] = wk;
        a[(k + 1) * n + j] = wk1;
    }
}

/// Solves in place for `B` of `n` rows with `m` elements each. Pivots are checked: false if one lies outside.
pub fn solve<T: Field>(a: &[T], n: usize, pivots: &[i32], b: &mut [T], m: usize, hermitian: bool) -> bool {
    let hermitian = hermitian && T::COMPLEX;
    let cj = |v: T| if hermitian { v.conj() } else { v };
    let at = |k: usize| -> Option<usize> {
        let p = pivots[k].unsigned_abs() as usize;
        (1..=n).contains(&p).then(|| p - 1)
    };
    let swap = |b: &mut [T], i: usize, j: usize| {
        if i != j {
            let (low, high) = b.split_at_mut(i.max(j) * m);
            low[i.min(j) * m..][..m].swap_with_slice(&mut high[..m]);
        }
    };
    // below row `k`, each row less that row times a factor
    let minus = |b: &mut [T], k: usize, from: usize| {
        let (low, high) = b.split_at_mut(from * m);
        for i in from..n {
            let f = a[k * n + i];
            if f != T::ZERO {
                axpy(-f, &low[k * m..(k + 1) * m], &mut high[(i - from) * m..(i - from + 1) * m]);
            }
        }
    };
    let mut k = 0;
    while k < n {
        let Some(p) = at(k) else { return false };
        if pivots[k] > 0 {
            swap(b, k, p);
            minus(b, k, k + 1);
            let d = a[k * n + k];
            b[k * m..(k + 1) * m].iter_mut().for_each(|x| *x = x.over(d));
            k += 1;
            continue;
        }
        if k + 1 == n {
            return false;
        }
        swap(b, k + 1, p);
        if k + 2 < n {
            minus(b, k, k + 2);
            minus(b, k + 1, k + 2);
        }
        let akm1k = a[k * n + k + 1];
        let akm1 = a[k * n + k].over(cj(akm1k));
        let ak = a[(k + 1) * n + k + 1].over(akm1k);
        let denom = akm1 * ak - T::ONE;
        for j in 0..m {
            let x = b[k * m + j].over(cj(akm1k));
            let y = b[(k + 1) * m + j].over(akm1k);
            b[k * m + j] = (ak * x - y).over(denom);
            b[(k + 1) * m + j] = (akm1 * y - x).over(denom);
        }
        k += 2;
    }
    // row `k` less the rows below it times factors
    let gather = |b: &mut [T], k: usize, from: usize| {
        let (low, high) = b.split_at_mut(from * m);
        for i in from..n {
            let f = cj(a[k * n + i]);
            if f != T::ZERO {
                axpy(-f, &high[(i - from) * m..(i - from + 1) * m], &mut low[k * m..(k + 1) * m]);
            }
        }
    };
    let mut k = n;
    while k > 0 {
        let i = k - 1;
        let Some(p) = at(i) else { return false };
        if pivots[i] > 0 {
            gather(b, i, i + 1);
            swap(b, i, p);
            k -= 1;
            continue;
        }
        if i == 0 {
            return false;
        }
        if i + 1 < n {
            gather(b, i, i + 1);
            gather(b, i - 1, i + 1);
        }
        swap(b, i, p);
        k -= 2;
    }
    true
}
