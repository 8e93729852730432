//! Singular values of larger matrices: two-sided reflectors, and QR steps on what these leave that all places of a vector take
//! together.

use super::super::field::Real;
use super::spectrum::{ascending, mark_extreme, narrow, wide};
use super::turns::{Apart, Row, Turns, unmarked};
use super::{
    Group, Marks, PLACES, SIDE, Vectors, Wide, bring, clear, get, groups, head, job, mark_wild, product,
    reflect, set, subtract, suits,
};
use crate::engine::SharedMut;
use crate::engine::isa::level;
use crate::engine::simd::Vector;
use crate::num::Arith;

/// `C += w u^T` for `count` columns of `m` elements.
#[inline(always)]
unsafe fn add_product<V: Vector, const R: usize>(
    c: *mut V::T,
    ld: usize,
    (w, m): (*const V::T, usize),
    (u, count): (*const V::T, usize),
    by: V,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut r = 0;
        while r + R <= m {
            let mut rows = [get::<V>(w, r); R];
            for k in 1..R {
                rows[k] = get::<V>(w, r + k);
            }
            for q in 0..count {
                let (at, f) = (c.add((q * ld + r) * V::N), get::<V>(u, q).mul(by));
                for k in 0..R {
                    set(at, k, rows[k].fma(f, get(at, k)));
                }
            }
            r += R;
        }
        if R > 1 && r < m {
            add_product::<V, 1>(c.add(r * V::N), ld, (w.add(r * V::N), m - r), (u, count), by);
        }
    }
}

/// What [`reduce`] writes beside the reflectors of columns.
struct Parts<T> {
    /// The diagonal, and what stands above it.
    d: *mut T,
    e: *mut T,
    /// Factors of the reflectors.
    left: *mut T,
    right: *mut T,
    /// Reflectors of rows, by columns, each from the place after the diagonal on.
    rows: *mut T,
    /// A column.
    w: *mut T,
}
/// Reduces `m x n` matrices by columns, `m` at least `n`, to bidiagonal ones.
#[inline(always)]
unsafe fn reduce<V: Vector<T: Wide>>(a: *mut V::T, m: usize, n: usize, to: &Parts<V::T>, care: &mut Marks) {
    // SAFETY: the caller's promise: `a` has `m * n` elements, `to.rows` has `n * n`, `to.w` has `m`, the others `n`.
    unsafe {
        for j in 0..n {
            let (column, next) = (a.add((j * m + j) * V::N), a.add(((j + 1) * m + j) * V::N));
            let (t, beta) = head::<V>(column, m - j, care);
            set(to.d, j, beta);
            set(to.left, j, t);
            set(to.right, j, V::splat(V::T::ZERO));
            set(to.e, j, V::splat(V::T::ZERO));
            let rest = n - j - 1;
            if rest == 0 {
                break;
            }
            reflect::<V>(column, t, next, m, rest, m - j);
            let u = to.rows.add((j * n + j + 1) * V::N);
            for q in 0..rest {
                set(u, q, get::<V>(next, q * m));
            }
            let (t, beta) = head::<V>(u, rest, care);
            set(to.e, j, beta);
            set(to.right, j, t);
            let (below, height) = (next.add(V::N), m - j - 1);
            clear::<V>(to.w, height);
            subtract::<V>(to.w, height, (below, m), (u, 1), rest);
            add_product::<V, 8>(below, m, (to.w, height), (u, rest), t);
        }
    }
}

/// Steps for one value after which a place is left to the kernel of single matrices.
const STEPS: usize = 40;

/// A hypotenuse, and both legs' parts of it.
#[inline(always)]
fn split(x: f64, y: f64) -> (f64, f64, f64) {
    let r = (x * x + y * y).sqrt();
    let by = if r > 0.0 { 1.0 / r } else { 0.0 };
    (r, if r > 0.0 { x * by } else { 1.0 }, y * by)
}
/// Makes bidiagonal matrices diagonal by implicit QR steps with shifts, in f64; the columns of vectors from the left and the right
/// are turned along, each matrix's after a step of all, if there are any.
#[inline(always)]
unsafe fn diagonalise<V: Vector<T: Real>>(
    n: usize,
    (d_at, e_at): (*mut V::T, *mut V::T),
    vectors: Option<(Apart<V::T>, Apart<V::T>)>,
    care: &mut Marks,
) {
    let turns = || Turns { cos: [[V::T::ONE; PLACES]; SIDE], sin: [[V::T::ZERO; PLACES]; SIDE] };
    let (mut from_left, mut from_right) = (turns(), turns());
    let eps = V::T::EPS.wide();
    // SAFETY: the caller's promise: `d` and `e` have `n` elements, the vectors `n` columns.
    unsafe {
        let (mut d, mut e) = (wide::<V>(d_at, n), wide::<V>(e_at, n));
        // what is nothing beside the largest number
        let mut nothing: Row<f64> = [0.0; PLACES];
        for (x, y) in d[..n].iter().zip(&e[..n]) {
            for k in 0..V::N {
                nothing[k] = nothing[k].max(x[k].abs()).max(y[k].abs());
            }
        }
        nothing.iter_mut().for_each(|x| *x *= eps * 0.125);
        for high in (1..n).rev() {
            for step in 0..=STEPS {
                // where each place's block begins; at `high` where it is done with this value
                let mut low = [0; PLACES];
                for i in 0..high {
                    for k in 0..V::N {
                        let small = (eps * (d[i][k].abs() + d[i + 1][k].abs())).max(nothing[k]);
                        low[k] = if e[i][k].abs() <= small { i + 1 } else { low[k] };
                    }
                }
                for k in 0..V::N {
                    if care[k] {
                        low[k] = high;
                    } else if step == STEPS && low[k] != high {
                        care[k] = true;
                        low[k] = high;
                    }
                }
                let from = low[..V::N].iter().copied().min().unwrap_or(high);
                if from == high {
                    break;
                }
                // the shift is the end's eigenvalue of the square
                let mut shift: Row<f64> = [0.0; PLACES];
                let (dm, dn, em) = (&d[high - 1], &d[high], &e[high - 1]);
                for k in 0..V::N {
                    let el = if low[k] + 1 < high { e[high.max(2) - 2][k] } else { 0.0 };
                    let last = dn[k] * dn[k] + em[k] * em[k];
                    let a = (dm[k] * dm[k] + el * el - last) * 0.5;
                    let b = dm[k] * em[k];
                    let by = a + (a * a + b * b).sqrt().copysign(a);
                    shift[k] = last - if by == 0.0 { 0.0 } else { b * b / by };
                }
                let (mut bulge, mut before): (Row<f64>, Row<f64>) = ([0.0; PLACES], [0.0; PLACES]);
                for i in from..high {
                    let (mut d0, mut d1, mut e0, mut e1) = (d[i], d[i + 1], e[i], e[i + 1]);
                    // the element before, which the turn from the right makes whole
                    let mut made = if i > 0 { e[i - 1] } else { [0.0; PLACES] };
                    let (c, s) = (&mut from_right.cos[i], &mut from_right.sin[i]);
                    let (c_left, s_left) = (&mut from_left.cos[i], &mut from_left.sin[i]);
                    for k in 0..V::N {
                        let (begins, runs) = (i == low[k], i >= low[k] && low[k] != high);
                        let y = if begins { d0[k] * d0[k] - shift[k] } else { before[k] };
                        let z = if begins { d0[k] * e0[k] } else { bulge[k] };
                        let (r, cos, sin) = split(y, z);
                        let f = cos * d0[k] + sin * e0[k];
                        let g = cos * e0[k] - sin * d0[k];
                        let (h, next) = (sin * d1[k], cos * d1[k]);
                        let (size, cos_left, sin_left) = split(f, h);
                        let above = cos_left * g + sin_left * next;
                        before[k] = if runs { above } else { before[k] };
                        bulge[k] = if runs { sin_left * e1[k] } else { bulge[k] };
                        made[k] = if runs && !begins { r } else { made[k] };
                        d0[k] = if runs { size } else { d0[k] };
                        d1[k] = if runs { cos_left * next - sin_left * g } else { d1[k] };
                        e0[k] = if runs { above } else { e0[k] };
                        e1[k] = if runs && i + 1 < high { cos_left * e1[k] } else { e1[k] };
                        (c[k], s[k]) = (V::T::of(cos), V::T::of(sin));
                        (c_left[k], s_left[k]) = (V::T::of(cos_left), V::T::of(sin_left));
                    }
                    if i > 0 {
                        e[i - 1] = made;
                    }
                    (d[i], d[i + 1], e[i], e[i + 1]) = (d0, d1, e0, e1);
                }
                if let Some((u, v)) = vectors {
                    for k in (0..V::N).filter(|k| low[*k] != high) {
                        v.turn::<V, false>(k, (low[k], high), &from_right);
                        u.turn::<V, false>(k, (low[k], high), &from_left);
                    }
                }
            }
        }
        narrow::<V>(&d, d_at, n);
    }
}

/// As [`super::spectrum::svd`]; for larger matrices.
pub(in super::super) fn svd_of_large<T: Wide>(
    a: &[T],
    (m, n): (usize, usize),
    u: &mut [T],
    s: &mut [T],
    vh: &mut [T],
    vectors: bool,
    info: &mut [i32],
) {
    let batch = info.len();
    assert!(suits(batch, m, n) && m >= n && a.len() == batch * m * n && s.len() == batch * n);
    assert!(!vectors || (u.len() == batch * m * n && vh.len() == batch * n * n));
    let (u, s) = (SharedMut::new(u), SharedMut::new(s));
    let (vh, info) = (SharedMut::new(vh), SharedMut::new(info));
    let apart = if vectors { Apart::<T>::room(m, n) + Apart::<T>::room(n, n) } else { 0 };
    groups::<T>(batch, 20 * m * n * n, 2 * m * n + n * n + 4 * n + m + PLACES + apart, |g, buffer| {
        let mut care = [false; PLACES];
        let (all, left, values, right) = (a.as_ptr(), u.ptr(), s.ptr(), vh.ptr());
        let (memory, care_of) = (buffer.as_mut_ptr(), &mut care);
        job!(level(), T, V, (all: *const T, left: *mut T, values: *mut T, right: *mut T, memory: *mut T, g: Group, m: usize, n: usize, vectors: bool, care_of: &'a mut Marks) {
            let part = |e: usize| memory.add(e * V::N);
            let (us, small) = (part(m * n), 2 * m * n + n * n);
            let to = Parts {
                d: part(small),
                e: part(small + n),
                left: part(small + 2 * n),
                right: part(small + 3 * n),
                rows: part(2 * m * n),
                w: part(small + 4 * n),
            };
            bring::<V>(all, m * n, g, memory);
            mark_wild::<V>(memory, m * n, care_of);
            mark_extreme::<V>(memory, m * n, care_of);
            reduce::<V>(memory, m, n, &to, care_of);
            // what the reflectors of columns leave has room for the vectors of rows
            let vs = memory;
            if vectors {
                clear::<V>(us, m * n);
                product::<V>((memory, m), to.left, [m, n, n], (us, m));
                clear::<V>(vs, n * n);
                set(vs, 0, V::splat(T::ONE));
                let rest = n - 1;
                if rest > 0 {
                    let corner = vs.add((n + 1) * V::N);
                    product::<V>((to.rows.add(V::N), n), to.right, [rest; 3], (corner, n));
                }
            }
            let at = small + 4 * n + m + PLACES;
            let u = Apart::new::<V>(part(at), m, n);
            let v = Apart::new::<V>(part(at + Apart::<T>::room(m, n)), n, n);
            if vectors {
                u.take::<V>(us, m);
                v.take::<V>(vs, n);
            }
            diagonalise::<V>(n, (to.d, to.e), vectors.then_some((u, v)), care_of);
            mark_wild::<V>(to.d, n, care_of);
            let mut order = [0; SIDE];
            for l in unmarked(g.count, care_of) {
                ascending(n, |i| -(*to.d.add(i * V::N + l)).magnitude(), &mut order);
                let at = g.at(l);
                for (i, o) in order[..n].iter().enumerate() {
                    let value = *to.d.add(o * V::N + l);
                    *values.add(at * n + i) = value.magnitude();
                    if vectors {
                        let sign = T::ONE.with_sign(value);
                        let (by, sign) = (u.length::<V>(l, *o, m), sign * v.length::<V>(l, *o, n));
                        let (u, v) = (u.column(l, *o), v.column(l, *o));
                        (0..m).for_each(|r| *left.add((at * n + i) * m + r) = *u.add(r) * by);
                        for r in 0..n {
                            *right.add((at * n + r) * n + i) = *v.add(r) * sign;
                        }
                    }
                }
            }
        });
        for l in 0..g.count {
            // SAFETY: each matrix is in one group, so its parts are one task's.
            let info = unsafe { info.slice(g.at(l), 1) };
            info[0] = -i32::from(care[l]);
        }
    });
}
