//! Singular values of larger matrices: two-sided reflectors, and QR steps on what these leave that all places of a vector take
//! together.

use super::super::field::Real;
use super::spectrum::{ascending, mark_extreme, narrow, wide};
use super::turns::{
    Apart, Row, Rows, Turns, WIDES, Wides, kept, magnitude, read, split, unmarked, wides, write,
};
use super::{
    Group, Marks, PANEL, PLACES, SIDE, Wide, bring, clear, get, groups, head, job, mark_wild, product, set,
    subtract, suits,
};
use crate::engine::SharedMut;
use crate::engine::simd::Vector;
use crate::num::Arith;

/// What two reflectors take off a matrix, `v y^T + z u^T`, by rows and columns of the whole.
#[derive(Clone, Copy)]
struct Taken<T> {
    v: *const T,
    y: *const T,
    z: *const T,
    u: *const T,
}
/// Takes `taken` off `N` columns from `c` on, rows `from` to `m`; these times `x`.
#[inline(always)]
unsafe fn take_and_multiply<V: Vector<T: Real>, const N: usize>(
    a: *mut V::T,
    (m, from): (usize, usize),
    c: usize,
    taken: Taken<V::T>,
    x: *const V::T,
) -> [V; N] {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(V::T::ZERO);
        let (mut ys, mut us, mut sums) = ([zero; N], [zero; N], [zero; N]);
        for q in 0..N {
            (ys[q], us[q]) = (get::<V>(taken.y, c + q), get::<V>(taken.u, c + q));
        }
        for i in from..m {
            let (v, z, x) = (get::<V>(taken.v, i), get::<V>(taken.z, i), get::<V>(x, i));
            for q in 0..N {
                let at = (c + q) * m + i;
                let e = z.fnma(us[q], v.fnma(ys[q], get(a, at)));
                set(a, at, e);
                sums[q] = e.fma(x, sums[q]);
            }
        }
        sums
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
    /// A column, and a row.
    z: *mut T,
    y: *mut T,
}
/// Reduces `m x n` matrices by columns, `m` at least `n`, to bidiagonal ones. What two reflectors take off the rest is taken when
/// the next one is multiplied with that, so that a matrix is read twice and written once for both.
#[inline(always)]
unsafe fn reduce<V: Vector<T: Wide>>(a: *mut V::T, m: usize, n: usize, to: &Parts<V::T>, care: &mut Marks) {
    // SAFETY: the caller's promise: `a` has `m * n` elements, `to.rows` has `n * n`, `to.z` has `m`, the others `n`.
    unsafe {
        clear::<V>(to.z, m);
        clear::<V>(to.y, n);
        let (y, z) = (to.y.cast_const(), to.z.cast_const());
        let mut taken = Taken { v: z, y, z, u: y };
        for j in 0..n {
            let column = a.add(j * m * V::N);
            let head_at = column.add(j * V::N);
            take_and_multiply::<V, 1>(a, (m, j), j, taken, column);
            let (t, beta) = head::<V>(head_at, m - j, care);
            set(to.d, j, beta);
            set(to.left, j, t);
            set(to.right, j, V::splat(V::T::ZERO));
            set(to.e, j, V::splat(V::T::ZERO));
            let rest = n - j - 1;
            if rest == 0 {
                break;
            }
            let u = to.rows.add(j * n * V::N);
            let mut c = j + 1;
            while c < n {
                let mut sums = [V::splat(V::T::ZERO); PANEL];
                let wide = if c + PANEL <= n {
                    sums = take_and_multiply::<V, PANEL>(a, (m, j), c, taken, column);
                    PANEL
                } else {
                    [sums[0]] = take_and_multiply::<V, 1>(a, (m, j), c, taken, column);
                    1
                };
                for q in 0..wide {
                    let y = sums[q].mul(t);
                    set(to.y, c + q, y);
                    // the row that is left of the first reflector
                    set(u, c + q, get::<V>(a, (c + q) * m + j).sub(y));
                }
                c += wide;
            }
            let (s, beta) = head::<V>(u.add((j + 1) * V::N), rest, care);
            set(to.e, j, beta);
            set(to.right, j, s);
            let (below, height) = (a.add(((j + 1) * m + j + 1) * V::N), m - j - 1);
            let mut along = V::splat(V::T::ZERO);
            for c in j + 1..n {
                along = get::<V>(to.y, c).fma(get(u, c), along);
            }
            let by = V::splat(V::T::ZERO).sub(s);
            clear::<V>(to.z, m);
            subtract::<V>(to.z.add((j + 1) * V::N), height, (below, m), (u.add((j + 1) * V::N), 1), rest);
            for i in j + 1..m {
                let x = get::<V>(column, i).fma(along, get(to.z, i));
                set(to.z, i, x.mul(by));
            }
            taken = Taken { v: column, y, z, u };
        }
    }
}

/// Steps for one value after which a place is left to the kernel of single matrices.
const STEPS: u32 = 40;

/// Which value each place is at, from the last on, and where the block begins that ends there.
struct Blocks {
    high: Row<f64>,
    low: Row<f64>,
}
/// Moves places on over values that are found: none is behind `last`. `nothing` is what is nothing beside the largest number.
#[inline(always)]
unsafe fn find<V: Vector<T: Real>>(
    last: usize,
    d: &Rows<f64>,
    e: &Rows<f64>,
    nothing: &Wides<V>,
    blocks: &mut Blocks,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let eps = V::Wide::splat(V::T::EPS.wide());
        let null = [V::Wide::splat(0.0); WIDES];
        // behind the last small element, behind the last that is not, and behind the last small one before that
        let (mut small, mut high, mut low) = (null, null, null);
        let at = read::<V>(&blocks.high);
        let mut above = read::<V>(&d.0[0]);
        for i in 0..last {
            let (row, beside) = (read::<V>(&d.0[i + 1]), read::<V>(&e.0[i]));
            let (place, next) = (V::Wide::splat(i as f64), V::Wide::splat((i + 1) as f64));
            for h in 0..wides::<V>() {
                let limit = magnitude(above[h]).add(magnitude(row[h])).mul(eps);
                let limit = V::Wide::choose(limit.less(nothing[h]), nothing[h], limit);
                let large = limit.less(magnitude(beside[h]));
                let counts = place.less(at[h]);
                let (end, begin) =
                    (V::Wide::choose(large, next, high[h]), V::Wide::choose(large, small[h], low[h]));
                high[h] = V::Wide::choose(counts, end, high[h]);
                low[h] = V::Wide::choose(counts, begin, low[h]);
                small[h] = V::Wide::choose(large, small[h], next);
            }
            above = row;
        }
        write::<V>(&high, &mut blocks.high);
        write::<V>(&low, &mut blocks.low);
    }
}
/// Makes bidiagonal matrices diagonal by implicit QR steps with shifts, in f64, of which each place takes those it needs; the columns
/// of vectors from the left and the right are turned along, each matrix's after a step of all, if there are any.
#[inline(always)]
unsafe fn diagonalise<V: Vector<T: Real>>(
    n: usize,
    (d_at, e_at): (*mut V::T, *mut V::T),
    vectors: Option<(Apart<V::T>, Apart<V::T>)>,
    care: &mut Marks,
) {
    let (mut from_left, mut from_right) = (Turns::<V::T>::none(), Turns::<V::T>::none());
    let mut blocks = Blocks { high: [(n - 1) as f64; PLACES], low: [0.0; PLACES] };
    let mut steps = [0; PLACES];
    // SAFETY: the caller's promise: `d` and `e` have `n` elements, the vectors `n` columns.
    unsafe {
        let (mut d, mut e) = (wide::<V>(d_at, n), wide::<V>(e_at, n));
        let mut nothing: Row<f64> = [0.0; PLACES];
        for (x, y) in d.0[..n].iter().zip(&e.0[..n]) {
            for k in 0..V::N {
                nothing[k] = nothing[k].max(x[k].abs()).max(y[k].abs());
            }
        }
        nothing.iter_mut().for_each(|x| *x *= V::T::EPS.wide() * 0.125);
        let nothing = read::<V>(&nothing);
        let mut last = n - 1;
        loop {
            let before = blocks.high;
            find::<V>(last, &d, &e, &nothing, &mut blocks);
            let mut first = n - 1;
            last = 0;
            let [mut dm, mut dn, mut em, mut el] = [[0.0; PLACES]; 4];
            for k in 0..V::N {
                steps[k] = if blocks.high[k] < before[k] { 0 } else { steps[k] + 1 };
                care[k] |= steps[k] > STEPS && blocks.high[k] > 0.0;
                if care[k] {
                    blocks.high[k] = 0.0;
                }
                let (high, low) = (blocks.high[k] as usize, blocks.low[k] as usize);
                if high > 0 {
                    (first, last) = (first.min(low), last.max(high));
                    (dm[k], dn[k], em[k]) = (d.0[high - 1][k], d.0[high][k], e.0[high - 1][k]);
                    el[k] = if low + 1 < high { e.0[high - 2][k] } else { 0.0 };
                }
            }
            if last == 0 {
                break;
            }
            // the shift is the end's eigenvalue of the square
            let mut shift: Row<f64> = [0.0; PLACES];
            for k in 0..V::N {
                let end = dn[k] * dn[k] + em[k] * em[k];
                let a = (dm[k] * dm[k] + el[k] * el[k] - end) * 0.5;
                let b = dm[k] * em[k];
                let by = a + (a * a + b * b).sqrt().copysign(a);
                shift[k] = end - if by == 0.0 { 0.0 } else { b * b / by };
            }
            let shift = read::<V>(&shift);
            let (low, high) = (read::<V>(&blocks.low), read::<V>(&blocks.high));
            let null = [V::Wide::splat(0.0); WIDES];
            let (mut bulge, mut before) = (null, null);
            let (mut d0, mut e0) = (read::<V>(&d.0[first]), read::<V>(&e.0[first]));
            // the element before, which the turn from the right makes whole
            let mut made = if first > 0 { read::<V>(&e.0[first - 1]) } else { null };
            let one = V::Wide::splat(1.0);
            let [mut c, mut s, mut c_left, mut s_left] = [null; 4];
            for i in first..last {
                let (mut d1, mut e1) = (read::<V>(&d.0[i + 1]), read::<V>(&e.0[i + 1]));
                let (at, next) = (V::Wide::splat(i as f64), V::Wide::splat((i + 1) as f64));
                let [mut c_before, mut left_before] = [[one; WIDES]; 2];
                for h in 0..wides::<V>() {
                    let (inside, ahead) = (low[h].less(at), at.less(low[h]));
                    let (within, further) = (at.less(high[h]), next.less(high[h]));
                    let place = (ahead, within);
                    let y = V::Wide::choose(inside, before[h], d0[h].fma(d0[h], null[h].sub(shift[h])));
                    let z = V::Wide::choose(inside, bulge[h], d0[h].mul(e0[h]));
                    let (r, cos, sin) = split(y, z);
                    let f = cos.fma(d0[h], sin.mul(e0[h]));
                    let g = sin.fnma(d0[h], cos.mul(e0[h]));
                    let (x, below) = (sin.mul(d1[h]), cos.mul(d1[h]));
                    let (size, cos_left, sin_left) = split(f, x);
                    let above = cos_left.fma(g, sin_left.mul(below));
                    bulge[h] = sin_left.mul(e1[h]);
                    before[h] = above;
                    made[h] = kept(place, V::Wide::choose(inside, r, made[h]), made[h]);
                    d0[h] = kept(place, size, d0[h]);
                    d1[h] = kept(place, sin_left.fnma(g, cos_left.mul(below)), d1[h]);
                    e0[h] = kept(place, above, e0[h]);
                    e1[h] = kept(place, V::Wide::choose(further, cos_left.mul(e1[h]), e1[h]), e1[h]);
                    c_before[h] = V::Wide::choose(inside, c[h], one);
                    left_before[h] = V::Wide::choose(inside, c_left[h], one);
                    (c[h], s[h], c_left[h], s_left[h]) = (cos, sin, cos_left, sin_left);
                }
                from_right.set::<V>(i, &c, &s, &c_before);
                from_left.set::<V>(i, &c_left, &s_left, &left_before);
                if i > 0 {
                    write::<V>(&made, &mut e.0[i - 1]);
                }
                write::<V>(&d0, &mut d.0[i]);
                write::<V>(&e0, &mut e.0[i]);
                write::<V>(&d1, &mut d.0[i + 1]);
                write::<V>(&e1, &mut e.0[i + 1]);
                (made, d0, e0) = (e0, d1, e1);
            }
            if let Some((u, v)) = vectors {
                for k in (0..V::N).filter(|k| blocks.high[*k] > 0.0) {
                    let columns = (blocks.low[k] as usize, blocks.high[k] as usize);
                    v.turn::<V, false>(k, columns, &from_right);
                    u.turn::<V, false>(k, columns, &from_left);
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
    groups::<T>(batch, 20 * m * n * n, 2 * m * n + n * n + 5 * n + m + PLACES + apart, |g, buffer| {
        let mut care = [false; PLACES];
        let (all, left, values, right) = (a.as_ptr(), u.ptr(), s.ptr(), vh.ptr());
        let (memory, care_of) = (buffer.as_mut_ptr(), &mut care);
        job!(g.level, T, V, (all: *const T, left: *mut T, values: *mut T, right: *mut T, memory: *mut T, g: Group, m: usize, n: usize, vectors: bool, care_of: &'a mut Marks) {
            let part = |e: usize| memory.add(e * V::N);
            let (us, small) = (part(m * n), 2 * m * n + n * n);
            let to = Parts {
                d: part(small),
                e: part(small + n),
                left: part(small + 2 * n),
                right: part(small + 3 * n),
                rows: part(2 * m * n),
                z: part(small + 4 * n),
                y: part(small + 4 * n + m),
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
            let at = small + 5 * n + m + PLACES;
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
