//! Batches of small real matrices, one per place of a vector.
//!
//! A group of matrices is brought into a buffer in which an element is a vector with one place for each of them, goes through
//! the decomposition there, and is written back. Matrices that ask for more care, since a pivot vanishes, a number is not
//! finite or its square vanishes, are left as they were and go one by one through the kernels of single matrices. So a
//! matrix has the same result wherever it stands in its batch.

mod factor;
mod sides;
mod spectrum;
mod together;
mod turns;

pub(super) use factor::{cholesky, geqrf, inverse, lu_factor, lu_solve, orgqr};
pub(super) use sides::svd_of_large;
pub(super) use spectrum::{eigh, svd};
pub(super) use together::{SOLVED, Solved, cholesky_of, qr, solve};

use super::field::Real;
use crate::engine::isa::{Level, level};
use crate::engine::parallel::parallel_for;
use crate::engine::room::collected;
use crate::engine::scratch::with_scratch;
use crate::engine::simd::{self, Vector, Vectored};
use crate::num::Arith;

/// Places of the longest vector.
const PLACES: usize = 16;
/// The largest side: rows of pivots are bytes.
const SIDE: usize = 64;

/// Columns that are brought up to date together.
const PANEL: usize = 4;

/// Rows that were exchanged, by step and place.
type Pivots = [[u8; PLACES]; SIDE];
/// Which places need more care.
type Marks = [bool; PLACES];

/// A real number with vectors.
pub(super) trait Wide: Real + Vectored {
    /// Below this the square of a number has lost digits.
    const SMALL: Self;
}
impl Wide for f32 {
    const SMALL: f32 = 1e-28;
}
impl Wide for f64 {
    const SMALL: f64 = 1e-270;
}

/// Whether matrices of these sides go side by side.
pub(super) fn suits(batch: usize, rows: usize, columns: usize) -> bool {
    simd::are_there(level()) && batch >= 4 && rows.max(columns) <= SIDE && rows.min(columns) > 0
}

/// Matrices of a batch that are decomposed together.
#[derive(Clone, Copy)]
struct Group {
    first: usize,
    count: usize,
    /// Whose vectors have places for them: of a few that are left over the shorter ones, with the same results.
    level: Level,
}
impl Group {
    /// The matrix in a place; those that are missing repeat the last one.
    #[inline(always)]
    fn at(&self, place: usize) -> usize {
        self.first + place.min(self.count - 1)
    }
}
/// Calls `body` for groups, with memory for `room` vectors; `work` is about how many operations a matrix takes.
fn groups<T: Wide>(batch: usize, work: usize, room: usize, body: impl Fn(Group, &mut [T]) + Sync) {
    let lanes = T::lanes(level());
    let grain = (50_000 / (work * lanes).max(1)).max(1);
    parallel_for(batch.div_ceil(lanes), grain, |range| {
        with_scratch::<T, _>(room * lanes, |buffer| {
            for g in range {
                let count = lanes.min(batch - g * lanes);
                let short = level() == Level::V4 && count <= T::lanes(Level::V3);
                let level = if short { Level::V3 } else { level() };
                body(Group { first: g * lanes, count, level }, buffer);
            }
        });
    });
}

// In what follows pointers are to elements of a buffer, each a vector: element `e` stands `e * V::N` numbers further on.

/// # Safety
/// Element `e` lies in the buffer, and the machine has the instructions; so for all that follow.
#[inline(always)]
unsafe fn get<V: Vector>(p: *const V::T, e: usize) -> V {
    // SAFETY: the caller's promise.
    unsafe { V::load(p.add(e * V::N)) }
}
#[inline(always)]
unsafe fn set<V: Vector>(p: *mut V::T, e: usize, v: V) {
    // SAFETY: the caller's promise.
    unsafe { v.store(p.add(e * V::N)) }
}
/// The places of element `e`.
#[inline(always)]
unsafe fn places<V: Vector>(p: *const V::T, e: usize) -> [V::T; PLACES] {
    // SAFETY: the caller's promise; a vector has at most `PLACES`.
    unsafe {
        let mut all = [*p.add(e * V::N); PLACES];
        get::<V>(p, e).store(all.as_mut_ptr());
        all
    }
}

/// Another order of elements in memory than in the buffer.
#[derive(Clone, Copy)]
struct Order<'a> {
    /// Where each element of memory stands in the buffer.
    places: &'a [u16],
    /// How many follow each other in memory before the buffer's next place for the first of them.
    row: usize,
}
/// Of matrices of which element `(r, c)` stands at `r * columns + c` the places in a buffer by columns.
fn turned(rows: usize, columns: usize) -> Vec<u16> {
    assert!(rows * columns <= SIDE * SIDE);
    collected((0..rows).flat_map(|r| (0..columns).map(move |c| (c * rows + r) as u16)))
}
/// Where element `e` of memory stands in the buffer.
#[inline(always)]
fn place(order: Option<Order>, e: usize) -> usize {
    order.map_or(e, |o| o.places[e] as usize)
}
/// Where step `t` of those that take `n` elements each begins: rows of memory go by pieces of `n`, one piece of each row after
/// the other, so that few columns of the buffer are written at a time.
#[inline(always)]
fn begin(order: Option<Order>, each: usize, n: usize, t: usize) -> usize {
    match order {
        Some(o) if o.row.is_multiple_of(n) => {
            let rows = each / o.row;
            t % rows * o.row + t / rows * n
        }
        _ => t * n,
    }
}
/// Brings `each` elements of every matrix of a group into the buffer, in another order if one is given.
#[inline(always)]
unsafe fn bring_in<V: Vector>(
    src: *const V::T,
    each: usize,
    g: Group,
    order: Option<Order>,
    buffer: *mut V::T,
) {
    let n = V::N;
    let done = each / n * n;
    // SAFETY: the caller's promise: `src` has all matrices of the group, the buffer `each` elements, and the order, which is as
    // long, names those.
    unsafe {
        for t in 0..each / n {
            let at = begin(order, each, n, t);
            V::square(|l| src.add(g.at(l) * each + at), |k| buffer.add(place(order, at + k) * n), None);
        }
        for l in 0..n {
            let src = src.add(g.at(l) * each);
            for e in done..each {
                *buffer.add(place(order, e) * n + l) = *src.add(e);
            }
        }
    }
}
/// [`bring_in`] in the order of memory.
#[inline(always)]
unsafe fn bring<V: Vector>(src: *const V::T, each: usize, g: Group, buffer: *mut V::T) {
    // SAFETY: the caller's promise.
    unsafe { bring_in::<V>(src, each, g, None, buffer) }
}
/// Writes what [`bring_in`] brought, but for the marked places.
#[inline(always)]
unsafe fn put_in<V: Vector>(
    buffer: *const V::T,
    dst: *mut V::T,
    each: usize,
    g: Group,
    order: Option<Order>,
    care: &Marks,
) {
    let n = V::N;
    let mut done = 0;
    // SAFETY: as for `bring_in`; nobody else writes to these matrices.
    unsafe {
        if g.count == n && !care.contains(&true) {
            for t in 0..each / n {
                let at = begin(order, each, n, t);
                V::square(|k| buffer.add(place(order, at + k) * n), |l| dst.add(g.at(l) * each + at), None);
            }
            done = each / n * n;
        }
        for l in (0..g.count).filter(|l| !care[*l]) {
            let dst = dst.add(g.at(l) * each);
            for e in done..each {
                *dst.add(e) = *buffer.add(place(order, e) * n + l);
            }
        }
    }
}
/// [`put_in`] in the order of memory.
#[inline(always)]
unsafe fn put_back<V: Vector>(buffer: *const V::T, dst: *mut V::T, each: usize, g: Group, care: &Marks) {
    // SAFETY: the caller's promise.
    unsafe { put_in::<V>(buffer, dst, each, g, None, care) }
}
/// Marks the places that hold something infinite or NaN in `count` elements.
#[inline(always)]
unsafe fn mark_wild<V: Vector<T: Real>>(p: *const V::T, count: usize, care: &mut Marks) {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(V::T::ZERO);
        let mut sum = [zero; 4];
        for e in 0..count {
            sum[e % 4] = get::<V>(p, e).fma(zero, sum[e % 4]);
        }
        let mut all = [V::T::ZERO; PLACES];
        sum[0].add(sum[1]).add(sum[2].add(sum[3])).store(all.as_mut_ptr());
        for l in 0..V::N {
            // NaN alone differs from zero here
            care[l] |= all[l] != V::T::ZERO;
        }
    }
}

/// `y[r] -= sum over q of a[r, q] x[q]` for `R` rows, those of `y` and `a` follow each other; `count` is not 0.
#[inline(always)]
unsafe fn tile<V: Vector, const R: usize>(
    y: *mut V::T,
    (a, column): (*const V::T, usize),
    (x, step): (*const V::T, usize),
    count: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        // the sum by itself: taken off one by one, each product would be rounded to the last digit of `y`
        let mut sum = [get::<V>(a, 0).mul(get(x, 0)); R];
        for r in 1..R {
            sum[r] = get::<V>(a, r).mul(get(x, 0));
        }
        for q in 1..count {
            let f = get::<V>(x, q * step);
            for r in 0..R {
                sum[r] = get::<V>(a, q * column + r).fma(f, sum[r]);
            }
        }
        for r in 0..R {
            set(y, r, get::<V>(y, r).sub(sum[r]));
        }
    }
}
/// [`tile`] of any number of rows.
#[inline(always)]
unsafe fn subtract<V: Vector>(
    y: *mut V::T,
    rows: usize,
    (a, column): (*const V::T, usize),
    x: (*const V::T, usize),
    count: usize,
) {
    let mut r = 0;
    // SAFETY: the caller's promise.
    unsafe {
        if count == 0 {
            return;
        }
        while r + 8 <= rows {
            tile::<V, 8>(y.add(r * V::N), (a.add(r * V::N), column), x, count);
            r += 8;
        }
        if r + 4 <= rows {
            tile::<V, 4>(y.add(r * V::N), (a.add(r * V::N), column), x, count);
            r += 4;
        }
        if r + 2 <= rows {
            tile::<V, 2>(y.add(r * V::N), (a.add(r * V::N), column), x, count);
            r += 2;
        }
        if r < rows {
            tile::<V, 1>(y.add(r * V::N), (a.add(r * V::N), column), x, count);
        }
    }
}
/// [`tile`] of four columns of `y`, `ld` apart; element `(q, c)` of their factors stands at `q * x_row + c * x_column`.
#[inline(always)]
unsafe fn tile_of_four<V: Vector, const R: usize>(
    (y, ld): (*mut V::T, usize),
    (a, column): (*const V::T, usize),
    (x, x_row, x_column): (*const V::T, usize, usize),
    count: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sum = [[get::<V>(a, 0); R]; 4];
        for c in 0..4 {
            for r in 0..R {
                sum[c][r] = get::<V>(a, r).mul(get(x, c * x_column));
            }
        }
        for q in 1..count {
            let mut rows = [get::<V>(a, q * column); R];
            for r in 1..R {
                rows[r] = get::<V>(a, q * column + r);
            }
            for c in 0..4 {
                let f = get::<V>(x, c * x_column + q * x_row);
                for r in 0..R {
                    sum[c][r] = rows[r].fma(f, sum[c][r]);
                }
            }
        }
        for c in 0..4 {
            for r in 0..R {
                set(y, c * ld + r, get::<V>(y, c * ld + r).sub(sum[c][r]));
            }
        }
    }
}
/// [`subtract`] from `columns` columns, `ld` apart; element `(q, c)` of their factors stands at `q * x_row + c * x_column`.
#[inline(always)]
unsafe fn subtract_with<V: Vector>(
    y: *mut V::T,
    (rows, columns, ld): (usize, usize, usize),
    (a, column): (*const V::T, usize),
    (x, x_row, x_column): (*const V::T, usize, usize),
    count: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if count == 0 {
            return;
        }
        let mut c = 0;
        while c + 4 <= columns {
            let (y, x, mut r) = (y.add(c * ld * V::N), (x.add(c * x_column * V::N), x_row, x_column), 0);
            while r + 4 <= rows {
                tile_of_four::<V, 4>((y.add(r * V::N), ld), (a.add(r * V::N), column), x, count);
                r += 4;
            }
            while r < rows {
                tile_of_four::<V, 1>((y.add(r * V::N), ld), (a.add(r * V::N), column), x, count);
                r += 1;
            }
            c += 4;
        }
        while c < columns {
            let x = (x.add(c * x_column * V::N), x_row);
            subtract::<V>(y.add(c * ld * V::N), rows, (a, column), x, count);
            c += 1;
        }
    }
}
/// [`subtract_with`] factors that are columns, as far apart as those of `y`.
#[inline(always)]
unsafe fn subtract_all<V: Vector>(
    y: *mut V::T,
    size: (usize, usize, usize),
    a: (*const V::T, usize),
    x: *const V::T,
    count: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { subtract_with::<V>(y, size, a, (x, 1, size.2), count) }
}
/// [`subtract_with`] factors that are rows of a matrix by columns, as far apart as those of `y`.
#[inline(always)]
unsafe fn subtract_rows<V: Vector>(
    y: *mut V::T,
    size: (usize, usize, usize),
    a: (*const V::T, usize),
    x: *const V::T,
    count: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { subtract_with::<V>(y, size, a, (x, size.2, 1), count) }
}
/// Exchanges elements `i` and `rows[l]` of each place `l`, `count` times with a step between.
#[inline(always)]
unsafe fn exchange<V: Vector>(
    p: *mut V::T,
    step: usize,
    count: usize,
    i: usize,
    rows: &[u8; PLACES],
    each: usize,
) {
    let (mut moved, mut some) = ([(0, 0); PLACES], 0);
    for (l, row) in rows.iter().enumerate().take(V::N) {
        let row = *row as usize;
        moved[some] = (i * each * V::N + l, row * each * V::N + l);
        some += usize::from(row != i);
    }
    if some == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        // all places of a column at once: its rows are far from those of the next
        for c in 0..count {
            let p = p.add(c * step * V::N);
            for (x, y) in &moved[..some] {
                let (x, y) = (p.add(*x), p.add(*y));
                (*x, *y) = (*y, *x);
            }
        }
    }
}

/// `C -= tau v (v^T C)` for `N` columns of `m` elements, `ld` apart.
#[inline(always)]
unsafe fn reflect_columns<V: Vector<T: Real>, const N: usize>(
    v: *const V::T,
    tau: V,
    c: *mut V::T,
    ld: usize,
    m: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut w = [V::splat(V::T::ZERO); N];
        for i in 0..m {
            let x = get::<V>(v, i);
            for q in 0..N {
                w[q] = get::<V>(c, q * ld + i).fma(x, w[q]);
            }
        }
        for w in &mut w {
            *w = w.mul(tau);
        }
        for i in 0..m {
            let x = get::<V>(v, i);
            for q in 0..N {
                set(c, q * ld + i, x.fnma(w[q], get(c, q * ld + i)));
            }
        }
    }
}
/// [`reflect_columns`] with two reflectors one after the other, so that columns are read and written once for both. `uv` is the
/// product of the two, times the factor of the first.
#[inline(always)]
unsafe fn reflect_columns_twice<V: Vector<T: Real>, const N: usize>(
    [first, second]: [(*const V::T, V); 2],
    uv: V,
    c: *mut V::T,
    ld: usize,
    m: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let null = V::splat(V::T::ZERO);
        let (mut x, mut y) = ([null; N], [null; N]);
        for i in 0..m {
            let (v, u) = (get::<V>(first.0, i), get::<V>(second.0, i));
            for q in 0..N {
                let e = get::<V>(c, q * ld + i);
                x[q] = e.fma(v, x[q]);
                y[q] = e.fma(u, y[q]);
            }
        }
        for q in 0..N {
            y[q] = x[q].fnma(uv, y[q]).mul(second.1);
            x[q] = x[q].mul(first.1);
        }
        for i in 0..m {
            let (v, u) = (get::<V>(first.0, i), get::<V>(second.0, i));
            for q in 0..N {
                let e = v.fnma(x[q], get(c, q * ld + i));
                set(c, q * ld + i, u.fnma(y[q], e));
            }
        }
    }
}
/// The product of two reflectors of `m` elements, times the factor of the first.
#[inline(always)]
unsafe fn both<V: Vector<T: Real>>([first, second]: [(*const V::T, V); 2], m: usize) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sum = V::splat(V::T::ZERO);
        for i in 0..m {
            sum = get::<V>(first.0, i).fma(get(second.0, i), sum);
        }
        sum.mul(first.1)
    }
}
/// [`reflect_columns_twice`] of any number.
#[inline(always)]
unsafe fn reflect_twice<V: Vector<T: Real>>(
    pair: [(*const V::T, V); 2],
    uv: V,
    c: *mut V::T,
    ld: usize,
    count: usize,
    m: usize,
) {
    let mut q = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while q + 4 <= count {
            reflect_columns_twice::<V, 4>(pair, uv, c.add(q * ld * V::N), ld, m);
            q += 4;
        }
        while q < count {
            reflect_columns_twice::<V, 1>(pair, uv, c.add(q * ld * V::N), ld, m);
            q += 1;
        }
    }
}
/// [`reflect_columns`] of any number.
#[inline(always)]
unsafe fn reflect<V: Vector<T: Real>>(
    v: *const V::T,
    tau: V,
    c: *mut V::T,
    ld: usize,
    count: usize,
    m: usize,
) {
    let mut q = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while q + 4 <= count {
            reflect_columns::<V, 4>(v, tau, c.add(q * ld * V::N), ld, m);
            q += 4;
        }
        while q < count {
            reflect_columns::<V, 1>(v, tau, c.add(q * ld * V::N), ld, m);
            q += 1;
        }
    }
}
/// Makes of `count` elements the reflector that turns them into a multiple of the first unit vector; the first element
/// becomes 1. The factor, and the multiple.
#[inline(always)]
unsafe fn head<V: Vector<T: Wide>>(x: *mut V::T, count: usize, care: &mut Marks) -> (V, V) {
    let (zero, one) = (V::T::ZERO, V::T::ONE);
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [V::splat(zero); 4];
        for i in 1..count {
            let x = get::<V>(x, i);
            sums[i % 4] = x.fma(x, sums[i % 4]);
        }
        let sum = sums[0].add(sums[1]).add(sums[2].add(sums[3]));
        let first = get::<V>(x, 0);
        let size = first.fma(first, sum).sqrt();
        let (firsts, mut sizes, mut squares) = (places::<V>(x, 0), [zero; PLACES], [zero; PLACES]);
        size.store(sizes.as_mut_ptr());
        sum.store(squares.as_mut_ptr());
        // numbers that leave alone what has nothing to reflect
        let (mut up, mut down) = ([zero; PLACES], [one; PLACES]);
        let (mut beta, mut by) = (firsts, [one; PLACES]);
        for l in 0..V::N {
            let b = -sizes[l].with_sign(firsts[l]);
            let fine = squares[l] >= V::T::SMALL;
            up[l] = if fine { b - firsts[l] } else { zero };
            down[l] = if fine { b } else { one };
            beta[l] = if fine { b } else { firsts[l] };
            by[l] = if fine { firsts[l] - b } else { one };
        }
        for l in 0..V::N {
            if squares[l] < V::T::SMALL {
                let empty = (1..count).all(|i| *x.add(i * V::N + l) == zero);
                care[l] |= !empty;
            }
        }
        let t = V::load(up.as_ptr()).div(V::load(down.as_ptr()));
        let by = V::splat(one).div(V::load(by.as_ptr()));
        for i in 1..count {
            set(x, i, get::<V>(x, i).mul(by));
        }
        set(x, 0, V::splat(one));
        (t, V::load(beta.as_ptr()))
    }
}
/// The first `n` columns of products of `k` reflectors of `m` elements, into `out`, whose columns are `ld` apart and hold
/// zeros. The heads of the reflectors, which stand `ld_a` and one more apart, become 1, and some places above them 0.
#[inline(always)]
unsafe fn product<V: Vector<T: Real>>(
    (a, ld_a): (*mut V::T, usize),
    tau: *const V::T,
    [m, k, n]: [usize; 3],
    (out, ld): (*mut V::T, usize),
) {
    // SAFETY: the caller's promise.
    unsafe {
        for j in 0..n.min(m) {
            set(out, j * ld + j, V::splat(V::T::ONE));
        }
        let (zero, one) = (V::splat(V::T::ZERO), V::splat(V::T::ONE));
        // the last one is applied first
        let pair = |j: usize| (a.add((j * ld_a + j) * V::N), a.add(((j + 1) * ld_a + j) * V::N));
        let mut products = [zero; SIDE / 2];
        let mut left = k;
        while left > 1 {
            let j = left - 2;
            let (v, u) = pair(j);
            set(v, 0, one);
            set(u, 0, zero);
            set(u, 1, one);
            let pair = [(u.cast_const(), get(tau, j + 1)), (v.cast_const(), zero)];
            products[j / 2] = both::<V>(pair, m - j);
            left = j;
        }
        if left == 1 {
            set(a, 0, one);
        }
        // all of them on a few columns at a time, which stay in the nearest cache
        for q in (0..n).step_by(PANEL) {
            let count = PANEL.min(n - q);
            let columns = out.add(q * ld * V::N);
            let mut left = k;
            while left > 1 {
                let j = left - 2;
                // columns before are still those of the unit matrix, which it leaves alone
                if j < q + count {
                    let (v, u) = pair(j);
                    let pair = [(u.cast_const(), get(tau, j + 1)), (v.cast_const(), get(tau, j))];
                    reflect_twice::<V>(pair, products[j / 2], columns.add(j * V::N), ld, count, m - j);
                }
                left = j;
            }
            if left == 1 {
                reflect::<V>(a, get(tau, 0), columns, ld, count, m);
            }
        }
    }
}
/// Writes zeros.
#[inline(always)]
unsafe fn clear<V: Vector<T: Real>>(p: *mut V::T, count: usize) {
    for e in 0..count {
        // SAFETY: the caller's promise.
        unsafe { set(p, e, V::splat(V::T::ZERO)) };
    }
}

/// A job of vectors from a block that names the vector's kind.
macro_rules! job {
    ($level:expr, $T:ident, $V:ident, ($($name:ident: $kind:ty),* $(,)?) $body:block) => {{
        struct J<'a, $T: Wide> { $($name: $kind,)* on: std::marker::PhantomData<&'a $T> }
        impl<'a, $T: Wide> crate::engine::simd::Body<$T> for J<'a, $T> {
            #[inline(always)]
            unsafe fn run<$V: Vector<T = $T>>(self) {
                let J { $($name,)* on: _ } = self;
                // SAFETY: the caller has the instructions; buffers and matrices are as long as their callers below made them.
                unsafe { $body }
            }
        }
        <$T as crate::engine::simd::Vectored>::run($level, J::<$T> { $($name,)* on: std::marker::PhantomData });
    }};
}

use job;
