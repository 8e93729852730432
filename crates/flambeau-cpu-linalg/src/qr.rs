//! Householder QR, by blocks of columns. Reflectors and their factors are LAPACK's: `H = I - tau v v^H`, and the first element
//! that is left has the sign opposite to the one that it had.

use super::field::{Field, Real};
use super::product::{Steps, product, product_conj};
use super::vector::{axpy, dot, gemv_h, ger, norm};
use crate::engine::SharedMut;
use crate::engine::parallel::{num_threads, parallel_chunks, parallel_for};
use crate::engine::room::{collected, filled};
use crate::engine::scratch::with_scratch;
use crate::num::Arith;

/// Columns of a block.
const BLOCK: usize = 32;

/// Makes of `x` the reflector that turns it into a multiple of the first unit vector: its first element becomes that
/// multiple, the others the vector. The factor.
pub fn reflector<T: Field>(x: &mut [T]) -> T {
    let Some((head, tail)) = x.split_first_mut() else { return T::ZERO };
    let mut rest = norm(tail);
    if rest == T::Real::ZERO && head.im() == T::Real::ZERO {
        return T::ZERO;
    }
    let size = |head: T, rest: T::Real| head.size().hypot(rest);
    let mut beta = -size(*head, rest).with_sign(head.re());
    let least = T::Real::SAFE / T::Real::EPS;
    let mut scaled = 0;
    if beta.magnitude() < least {
        // all of it is tiny: scaled up until it is not
        let up = T::Real::ONE / least;
        while beta.magnitude() < least && scaled < 20 {
            tail.iter_mut().for_each(|v| *v = v.scale(up));
            *head = head.scale(up);
            beta = beta * up;
            scaled += 1;
        }
        rest = norm(tail);
        beta = -size(*head, rest).with_sign(head.re());
    }
    let tau = T::new((beta - head.re()) / beta, -head.im() / beta);
    let by = T::ONE.over(*head - T::real(beta));
    tail.iter_mut().for_each(|v| *v = *v * by);
    for _ in 0..scaled {
        beta = beta * least;
    }
    *head = T::real(beta);
    tau
}

/// Decomposes the `m x n` matrix in place: R above, reflectors below; `tau` has one factor for each.
pub fn factor<T: Field>(a: &mut [T], ld: usize, m: usize, n: usize, tau: &mut [T]) {
    let k = m.min(n);
    let mut j = 0;
    while j < k {
        let nb = if k - j <= BLOCK * 3 / 2 { k - j } else { BLOCK };
        unblocked(&mut a[j * ld + j..], ld, m - j, nb, &mut tau[j..j + nb]);
        if j + nb < n {
            let (left, right) = a.split_at_mut((j + nb) * ld);
            let block = Block::of(&left[j * ld + j..], ld, m - j, &tau[j..j + nb]);
            block.apply(&mut right[j..], ld, n - j - nb, true);
        }
        j += nb;
    }
}
fn unblocked<T: Field>(a: &mut [T], ld: usize, m: usize, n: usize, tau: &mut [T]) {
    for j in 0..n.min(m) {
        let t = reflector(&mut a[j * ld + j..j * ld + m]);
        tau[j] = t;
        if t == T::ZERO || j + 1 == n {
            continue;
        }
        let (left, right) = a.split_at_mut((j + 1) * ld);
        let v = &mut left[j * ld + j..j * ld + m];
        let head = v[0];
        v[0] = T::ONE;
        reflect(v, t.conj(), &mut right[j..], ld, n - j - 1);
        v[0] = head;
    }
}
/// `C -= tau v (v^H C)`: `n` columns as long as `v`.
pub fn reflect<T: Field>(v: &[T], tau: T, c: &mut [T], ld: usize, n: usize) {
    with_scratch::<T, _>(n, |w| {
        gemv_h(c, ld, v, w);
        // gemv_h gives C^H v
        w.iter_mut().for_each(|x| *x = -(x.conj() * tau));
        ger(c, ld, v, w);
    })
}

/// Several reflectors as one product, `I - V T V^H`.
pub struct Block<T> {
    m: usize,
    k: usize,
    /// By columns, ones and zeros put in.
    v: Vec<T>,
    /// Upper triangle, by columns.
    t: Vec<T>,
}
impl<T: Field> Block<T> {
    /// Of the columns of `a`, whose first rows begin at their own reflector's.
    pub fn of(a: &[T], ld: usize, m: usize, tau: &[T]) -> Self {
        let k = tau.len();
        let mut v = filled(T::ZERO, m * k);
        for j in 0..k {
            v[j * m + j] = T::ONE;
            v[j * m + j + 1..(j + 1) * m].copy_from_slice(&a[j * ld + j + 1..j * ld + m]);
        }
        let mut t = filled(T::ZERO, k * k);
        for i in 0..k {
            // T[..i, i] = -tau T[..i, ..i] (V[:, ..i]^H v_i)
            let (before, at) = t.split_at_mut(i * k);
            let w: Vec<T> = collected(
                (0..i).map(|j| -(tau[i] * dot(&v[j * m + i..(j + 1) * m], &v[i * m + i..(i + 1) * m]))),
            );
            for (j, w) in w.iter().enumerate() {
                axpy(*w, &before[j * k..j * k + j + 1], &mut at[..j + 1]);
            }
            at[i] = tau[i];
        }
        Block { m, k, v, t }
    }
    /// `C = (I - V T V^H) C` for `n` columns of C, or its adjoint.
    pub fn apply(&self, c: &mut [T], ld: usize, n: usize, adjoint: bool) {
        let (m, k) = (self.m, self.k);
        if n == 0 || k == 0 {
            return;
        }
        with_scratch::<T, _>(2 * k * n, |w| {
            let (w, x) = w.split_at_mut(k * n);
            let v = (&self.v[..], Steps::columns(m));
            product_conj(
                [k, n, m],
                T::ONE,
                (v.0, v.1.t()),
                (c, Steps::columns(ld)),
                T::ZERO,
                (w, Steps::columns(k)),
            );
            let (t, steps) = (&self.t[..], Steps::columns(k));
            let out = (&mut *x, Steps::columns(k));
            if adjoint {
                product_conj([k, n, k], T::ONE, (t, steps.t()), (w, Steps::columns(k)), T::ZERO, out);
            } else {
                product([k, n, k], T::ONE, (t, steps), (w, Steps::columns(k)), T::ZERO, out);
            }
            product([m, n, k], -T::ONE, v, (x, Steps::columns(k)), T::ONE, (c, Steps::columns(ld)));
        })
    }
}

/// Applies the product of the first `tau.len()` reflectors of `a` (`m` rows) to the `n` columns of `c`, or its adjoint.
pub fn multiply<T: Field>(
    a: &[T],
    lda: usize,
    m: usize,
    tau: &[T],
    c: &mut [T],
    ldc: usize,
    n: usize,
    adjoint: bool,
) {
    let k = tau.len();
    let blocks = k.div_ceil(BLOCK);
    let first = |b: usize| if adjoint { b } else { blocks - 1 - b } * BLOCK;
    let block = |j: usize| {
        let nb = BLOCK.min(k - j);
        Block::of(&a[j * lda + j..], lda, m - j, &tau[j..j + nb])
    };
    let threads = num_threads();
    if threads == 1 || n < 2 * LEAST_SHARE || m * k > MOST_KEPT {
        for j in (0..blocks).map(first) {
            block(j).apply(&mut c[j..], ldc, n, adjoint);
        }
        return;
    }
    // Products of such sizes are not worth threads one by one, but each thread can take its columns through all of them.
    let mut all: Vec<Option<Block<T>>> = collected((0..blocks).map(|_| None));
    {
        let all = SharedMut::new(&mut all);
        // SAFETY: each place is one task's.
        parallel_chunks(blocks, &|b| unsafe { all.set(b, Some(block(first(b)))) });
    }
    let c = SharedMut::new(c);
    parallel_for(n, n.div_ceil(threads).max(LEAST_SHARE), |range| {
        for (b, block) in all.iter().enumerate() {
            let (Some(block), j) = (block, first(b)) else { continue };
            // SAFETY: each column is one task's.
            let c = unsafe { c.slice(range.start * ldc + j, (range.len() - 1) * ldc + m - j) };
            block.apply(c, ldc, range.len(), adjoint);
        }
    });
}
/// Columns that are worth a thread.
const LEAST_SHARE: usize = 32;
/// Numbers of all reflectors that are kept at once. Products of larger ones fill threads by themselves.
const MOST_KEPT: usize = 1 << 20;

/// The first `n` columns of the product of the reflectors that the first `tau.len()` columns of `a` hold; in the place of
/// `a` where `out` has none of its own.
pub fn generate<T: Field>(a: &[T], lda: usize, m: usize, tau: &[T], out: &mut [T], ldo: usize, n: usize) {
    for j in 0..n {
        let c = &mut out[j * ldo..j * ldo + m];
        c.fill(T::ZERO);
        if j < m {
            c[j] = T::ONE;
        }
    }
    let k = tau.len();
    let blocks = k.div_ceil(BLOCK);
    for b in (0..blocks).rev() {
        let j = b * BLOCK;
        let nb = BLOCK.min(k - j);
        // what lies left of the block is still a part of the identity
        if n > j {
            let block = Block::of(&a[j * lda + j..], lda, m - j, &tau[j..j + nb]);
            block.apply(&mut out[j * ldo + j..], ldo, n - j, false);
        }
    }
}
