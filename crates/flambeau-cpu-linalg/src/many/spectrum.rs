//! Eigenvalues by QL steps that all places of a vector take together, singular values by turns of pairs of columns.

use super::super::field::Real;
use super::super::tridiagonal;
use super::turns::{Apart, Row, Rows, Turns, WIDES, kept, magnitude, read, split, unmarked, wides, write};
use super::{
    Group, Marks, PANEL, PLACES, SIDE, Wide, bring, clear, get, groups, head, job, mark_wild, places,
    product, set, suits,
};
use crate::engine::SharedMut;
use crate::engine::simd::Vector;
use crate::num::Arith;

/// Marks places whose largest number is too large or too small for squares of it.
#[inline(always)]
pub(super) unsafe fn mark_extreme<V: Vector<T: Real>>(p: *const V::T, count: usize, care: &mut Marks) {
    let (tiny, huge) = (V::T::of(1e-9), V::T::of(1e9));
    // SAFETY: the caller's promise.
    unsafe {
        let mut most = [V::T::ZERO; PLACES];
        for e in 0..count {
            let row = places::<V>(p, e);
            for l in 0..V::N {
                most[l] = most[l].larger(row[l].magnitude());
            }
        }
        for l in 0..V::N {
            let fine = most[l] == V::T::ZERO || (most[l] > tiny && most[l] < huge);
            care[l] |= !fine;
        }
    }
}
/// Turns two columns of `count` elements: `(x, y) -> (c x - s y, c y + s x)`.
#[inline(always)]
unsafe fn turn<V: Vector>(x: *mut V::T, y: *mut V::T, count: usize, c: V, s: V) {
    // SAFETY: the caller's promise.
    unsafe {
        for r in 0..count {
            let (a, b) = (get::<V>(x, r), get::<V>(y, r));
            set(x, r, b.fnma(s, a.mul(c)));
            set(y, r, a.fma(s, b.mul(c)));
        }
    }
}

/// What a reflector takes off the columns that follow it, `v w^T + w v^T`, by rows of the whole matrix.
#[derive(Clone, Copy)]
struct Taken<T> {
    v: *const T,
    w: *const T,
}
/// Takes `taken` off the lower halves of columns from `first` on, and adds these times `x` to `y`, which holds zeros there.
#[inline(always)]
unsafe fn take_and_multiply<V: Vector<T: Real>>(
    a: *mut V::T,
    (n, first): (usize, usize),
    taken: Taken<V::T>,
    x: *const V::T,
    y: *mut V::T,
) {
    // SAFETY: the caller's promise: `a` has `n * n` elements, the others `n`.
    unsafe {
        for from in (first..n).step_by(PANEL) {
            let wide = PANEL.min(n - from);
            for c in from..from + wide {
                let (vc, wc, xc) = (get::<V>(taken.v, c), get::<V>(taken.w, c), get::<V>(x, c));
                for i in c..from + wide {
                    let e = get::<V>(taken.v, i).fnma(wc, get(a, c * n + i));
                    let e = get::<V>(taken.w, i).fnma(vc, e);
                    set(a, c * n + i, e);
                    set(y, i, e.fma(xc, get(y, i)));
                    if i > c {
                        set(y, c, e.fma(get(x, i), get(y, c)));
                    }
                }
            }
            if wide < PANEL {
                continue;
            }
            let zero = V::splat(V::T::ZERO);
            let (mut vs, mut ws, mut xs, mut sums) =
                ([zero; PANEL], [zero; PANEL], [zero; PANEL], [zero; PANEL]);
            for q in 0..PANEL {
                (vs[q], ws[q], xs[q]) =
                    (get::<V>(taken.v, from + q), get::<V>(taken.w, from + q), get::<V>(x, from + q));
            }
            for i in from + PANEL..n {
                let (v, w) = (get::<V>(taken.v, i), get::<V>(taken.w, i));
                let (xi, mut sum) = (get::<V>(x, i), get::<V>(y, i));
                for q in 0..PANEL {
                    let at = (from + q) * n + i;
                    let e = w.fnma(vs[q], v.fnma(ws[q], get(a, at)));
                    set(a, at, e);
                    sum = e.fma(xs[q], sum);
                    sums[q] = e.fma(xi, sums[q]);
                }
                set(y, i, sum);
            }
            for q in 0..PANEL {
                set(y, from + q, sums[q].add(get(y, from + q)));
            }
        }
    }
}
/// Reduces symmetric matrices, the lower halves of which are given, to tridiagonal ones: diagonals in `d`, their neighbours in
/// `e`, reflectors in the columns from the place below the diagonal on. What a reflector takes off the rest is taken when the next
/// one is multiplied with that, so that a matrix is read and written once for each.
#[inline(always)]
unsafe fn reduce<V: Vector<T: Wide>>(
    a: *mut V::T,
    n: usize,
    (d, e): (*mut V::T, *mut V::T),
    (tau, work): (*mut V::T, *mut V::T),
    care: &mut Marks,
) {
    // SAFETY: the caller's promise: `a` has `n * n` elements, `work` has `2 * n`, the others `n`.
    unsafe {
        clear::<V>(work, 2 * n);
        let (mut w, mut y) = (work, work.add(n * V::N));
        let mut taken = Taken { v: w.cast_const(), w: w.cast_const() };
        for j in 0..n - 1 {
            let column = a.add(j * n * V::N);
            let (vj, wj) = (get::<V>(taken.v, j), get::<V>(taken.w, j));
            for i in j..n {
                let x = get::<V>(taken.v, i).fnma(wj, get(column, i));
                set(column, i, get::<V>(taken.w, i).fnma(vj, x));
            }
            set(d, j, get::<V>(column, j));
            let (t, beta) = head::<V>(column.add((j + 1) * V::N), n - j - 1, care);
            set(e, j, beta);
            set(tau, j, t);
            clear::<V>(y, n);
            take_and_multiply::<V>(a, (n, j + 1), taken, column, y);
            // tau A v, less half of what it has along v
            let mut along = V::splat(V::T::ZERO);
            for i in j + 1..n {
                let x = get::<V>(y, i).mul(t);
                set(y, i, x);
                along = x.fma(get(column, i), along);
            }
            let half = along.mul(t).mul(V::splat(V::T::of(0.5)));
            for i in j + 1..n {
                set(y, i, get::<V>(column, i).fnma(half, get(y, i)));
            }
            (w, y) = (y, w);
            taken = Taken { v: column, w };
        }
        let i = n - 1;
        let twice = get::<V>(taken.v, i).mul(get(taken.w, i));
        set(d, i, get::<V>(a, n * n - 1).sub(twice.add(twice)));
        set(e, i, V::splat(V::T::ZERO));
    }
}

/// Steps for one eigenvalue after which a place is left to the kernel of single matrices.
const STEPS: u32 = 40;

/// Which eigenvalue each place is at, and where the block ends that begins there.
struct Blocks {
    from: Row<f64>,
    end: Row<f64>,
}
/// Moves places on over eigenvalues that are found: rows `low` to `n - 1`, where all stand at `low` or behind.
#[inline(always)]
unsafe fn find<V: Vector<T: Real>>(n: usize, low: usize, d: &Rows<f64>, e: &Rows<f64>, blocks: &mut Blocks) {
    let (eps, safe) = (V::T::EPS.wide(), V::T::SAFE.wide());
    // SAFETY: the caller's promise.
    unsafe {
        let (eps, safe) = (V::Wide::splat(eps * eps), V::Wide::splat(safe));
        let last = [V::Wide::splat((n - 1) as f64); WIDES];
        // the next small element, the next that is not, and the next small one behind that
        let (mut small, mut begin, mut end) = (last, last, last);
        let at = read::<V>(&blocks.from);
        let mut below = read::<V>(&d.0[n - 1]);
        for m in (low..n - 1).rev() {
            let (row, beside, i) = (read::<V>(&d.0[m]), read::<V>(&e.0[m]), V::Wide::splat(m as f64));
            for h in 0..wides::<V>() {
                let limit = magnitude(row[h].mul(below[h])).fma(eps, safe);
                let large = limit.less(beside[h].mul(beside[h]));
                let ahead = i.less(at[h]);
                begin[h] = V::Wide::choose(ahead, begin[h], V::Wide::choose(large, i, begin[h]));
                end[h] = V::Wide::choose(ahead, end[h], V::Wide::choose(large, small[h], end[h]));
                small[h] = V::Wide::choose(large, small[h], i);
            }
            below = row;
        }
        write::<V>(&begin, &mut blocks.from);
        write::<V>(&end, &mut blocks.end);
    }
}
/// Diagonalises tridiagonal matrices by implicit QL steps, of which each place takes those it needs; the columns of `z` are turned
/// along, each matrix's after a step of all, if there are any. The steps are in f64: many of them follow each other, and none is
/// worth less than the last digit.
#[inline(always)]
unsafe fn diagonalise<V: Vector<T: Real>>(
    n: usize,
    (d_at, e_at): (*mut V::T, *mut V::T),
    z: Option<Apart<V::T>>,
    care: &mut Marks,
) {
    let mut turns = Turns::<V::T>::none();
    let done = (n - 1) as f64;
    let mut blocks = Blocks { from: [0.0; PLACES], end: [0.0; PLACES] };
    let mut steps = [0; PLACES];
    // SAFETY: the caller's promise: `d` and `e` have `n` elements, `z` has `n` columns.
    unsafe {
        let (mut d, mut e) = (wide::<V>(d_at, n), wide::<V>(e_at, n));
        let mut low = 0;
        loop {
            let before = blocks.from;
            find::<V>(n, low, &d, &e, &mut blocks);
            let (mut first, mut last) = (n - 1, 0);
            let mut shift: Row<f64> = [0.0; PLACES];
            let [mut d0, mut d1, mut e0] = [[1.0; PLACES]; 3];
            for k in 0..V::N {
                steps[k] = if blocks.from[k] > before[k] { 0 } else { steps[k] + 1 };
                care[k] |= steps[k] > STEPS && blocks.from[k] < done;
                if care[k] {
                    blocks.from[k] = done;
                }
                let l = blocks.from[k] as usize;
                if l < n - 1 {
                    (first, last) = (first.min(l), last.max(blocks.end[k] as usize));
                    (d0[k], d1[k], e0[k]) = (d.0[l][k], d.0[l + 1][k], e.0[l][k]);
                } else {
                    blocks.end[k] = done;
                }
            }
            if first == n - 1 {
                break;
            }
            low = first;
            // what is taken of the last number of a block
            for k in 0..V::N {
                let g = (d1[k] - d0[k]) / (2.0 * e0[k]);
                let r = (g * g + 1.0).sqrt();
                shift[k] = d0[k] - e0[k] / (g + r.copysign(g));
            }
            let one = V::Wide::splat(1.0);
            let null = [V::Wide::splat(0.0); WIDES];
            let (mut g, mut p, mut s, mut c) = (null, null, null, [one; WIDES]);
            let (from, end) = (read::<V>(&blocks.from), read::<V>(&blocks.end));
            let shift = read::<V>(&shift);
            let (mut d1, mut e1) = (read::<V>(&d.0[last]), read::<V>(&e.0[last]));
            for i in (first..last).rev() {
                let mut before = [one; WIDES];
                let (d0, e0) = (read::<V>(&d.0[i]), read::<V>(&e.0[i]));
                let (at, next) = (V::Wide::splat(i as f64), V::Wide::splat((i + 1) as f64));
                for h in 0..wides::<V>() {
                    // a block begins at its end
                    let inside = next.less(end[h]);
                    let x = V::Wide::choose(inside, g[h], d1[h].sub(shift[h]));
                    before[h] = V::Wide::choose(inside, c[h], one);
                    let f = V::Wide::choose(inside, s[h].mul(e0[h]), e0[h]);
                    let b = before[h].mul(e0[h]);
                    let taken = V::Wide::choose(inside, p[h], null[h]);
                    let (r, cos, sin) = split(x, f);
                    let rest = d1[h].sub(taken);
                    let t = d0[h].sub(rest).fma(sin, cos.add(cos).mul(b));
                    let (ahead, within) = (at.less(from[h]), at.less(end[h]));
                    let more = sin.mul(t);
                    // the place after a block keeps its zero
                    let beside = V::Wide::choose(inside, r, null[h]);
                    e1[h] = kept((ahead, within), beside, e1[h]);
                    d1[h] = kept((ahead, within), rest.add(more), d1[h]);
                    p[h] = V::Wide::choose(ahead, p[h], more);
                    g[h] = V::Wide::choose(ahead, g[h], cos.fma(t, null[h].sub(b)));
                    (c[h], s[h]) = (cos, sin);
                }
                write::<V>(&e1, &mut e.0[i + 1]);
                write::<V>(&d1, &mut d.0[i + 1]);
                turns.set::<V>(i, &c, &s, &before);
                (d1, e1) = (d0, e0);
            }
            let [mut values, mut beside] = [[0.0; PLACES]; 2];
            write::<V>(&p, &mut values);
            write::<V>(&g, &mut beside);
            for k in 0..V::N {
                let (l, end) = (blocks.from[k] as usize, blocks.end[k] as usize);
                if l == n - 1 {
                    continue;
                }
                d.0[l][k] -= values[k];
                e.0[l][k] = beside[k];
                if let Some(z) = z {
                    z.turn::<V, true>(k, (l, end), &turns);
                }
            }
        }
        narrow::<V>(&d, d_at, n);
    }
}
/// Elements of a buffer in f64.
#[inline(always)]
pub(super) unsafe fn wide<V: Vector<T: Real>>(p: *const V::T, count: usize) -> Rows<f64> {
    let mut all = Rows([[0.0; PLACES]; SIDE]);
    for (i, row) in all.0[..count].iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        let from = unsafe { places::<V>(p, i) };
        row.iter_mut().zip(from).for_each(|(to, x)| *to = x.wide());
    }
    all
}
/// And back.
#[inline(always)]
pub(super) unsafe fn narrow<V: Vector<T: Real>>(all: &Rows<f64>, p: *mut V::T, count: usize) {
    for (i, row) in all.0[..count].iter().enumerate() {
        let row = row.map(V::T::of);
        // SAFETY: the caller's promise.
        unsafe { set(p, i, V::load(row.as_ptr())) };
    }
}
/// Places of numbers in ascending order; NaN last.
pub(super) fn ascending<T: Real>(n: usize, at: impl Fn(usize) -> T, order: &mut [usize]) {
    for i in 0..n {
        let (v, mut j) = (at(i), i);
        while j > 0 && at(order[j - 1]) > v {
            order[j] = order[j - 1];
            j -= 1;
        }
        order[j] = i;
    }
}

/// Eigenvalues, ascending, of symmetric matrices by their lower halves, and with `vectors` eigenvectors in their place. 0 for
/// each, or how many did not converge.
pub(in super::super) fn eigh<T: Wide>(
    a: &mut [T],
    n: usize,
    values: &mut [T],
    info: &mut [i32],
    vectors: bool,
) {
    let (batch, each) = (info.len(), n * n);
    assert!(suits(batch, n, n) && a.len() == batch * each && values.len() == batch * n);
    let (a, values, info) = (SharedMut::new(a), SharedMut::new(values), SharedMut::new(info));
    let apart = if vectors { Apart::<T>::room(n, n) } else { 0 };
    groups::<T>(batch, 6 * n * n * n, 2 * each + 5 * n + PLACES + apart, |g, buffer| {
        let mut care = [false; PLACES];
        let (all, results) = (a.ptr(), values.ptr());
        let (memory, care_of) = (buffer.as_mut_ptr(), &mut care);
        job!(g.level, T, V, (all: *mut T, results: *mut T, memory: *mut T, g: Group, n: usize, vectors: bool, care_of: &'a mut Marks) {
            let part = |e: usize| memory.add(e * V::N);
            let (q, d) = (part(n * n), part(2 * n * n));
            let (e, tau, w) = (part(2 * n * n + n), part(2 * n * n + 2 * n), part(2 * n * n + 3 * n));
            bring::<V>(all, n * n, g, memory);
            for c in 1..n {
                clear::<V>(part(c * n), c);
            }
            mark_wild::<V>(memory, n * n, care_of);
            mark_extreme::<V>(memory, n * n, care_of);
            reduce::<V>(memory, n, (d, e), (tau, w), care_of);
            if vectors {
                clear::<V>(q, n * n);
                set(q, 0, V::splat(T::ONE));
                let rest = n - 1;
                product::<V>((part(1), n), tau, [rest; 3], (q.add((n + 1) * V::N), n));
            }
            let z = Apart::new::<V>(part(2 * n * n + 5 * n + PLACES), n, n);
            if vectors {
                z.take::<V>(q, n);
            }
            diagonalise::<V>(n, (d, e), vectors.then_some(z), care_of);
            mark_wild::<V>(d, n, care_of);
            let mut order = [0; SIDE];
            for l in unmarked(g.count, care_of) {
                ascending(n, |i| *d.add(i * V::N + l), &mut order);
                let (to, from) = (results.add(g.at(l) * n), all.add(g.at(l) * n * n));
                for (i, o) in order[..n].iter().enumerate() {
                    *to.add(i) = *d.add(o * V::N + l);
                    if vectors {
                        let by = z.length::<V>(l, *o, n);
                        let z = z.column(l, *o);
                        (0..n).for_each(|r| *from.add(i * n + r) = *z.add(r) * by);
                    }
                }
            }
        });
        for l in 0..g.count {
            let i = g.at(l);
            // SAFETY: each matrix is in one group, so its parts are one task's.
            let (a, v, info) = unsafe { (a.slice(i * each, each), values.slice(i * n, n), info.slice(i, 1)) };
            info[0] = if care[l] { tridiagonal::eigh(a, n, v, vectors) } else { 0 };
        }
    });
}

/// Rounds of turns after which a place is left to the kernel of single matrices.
const ROUNDS: usize = 24;

/// Turns pairs of the `n` columns of `a` until all are at right angles, and those of `v` along.
#[inline(always)]
unsafe fn straighten<V: Vector<T: Real>>(
    a: *mut V::T,
    m: usize,
    n: usize,
    v: Option<*mut V::T>,
    care: &mut Marks,
) {
    let (zero, one) = (V::T::ZERO, V::T::ONE);
    let limit = V::T::EPS * V::T::of(2.0);
    // SAFETY: the caller's promise: `a` has `m * n` elements, `v` has `n * n`.
    unsafe {
        for round in 0..=ROUNDS {
            let mut moved = [false; PLACES];
            for p in 0..n {
                for q in p + 1..n {
                    let (x, y) = (a.add(p * m * V::N), a.add(q * m * V::N));
                    let null = V::splat(zero);
                    let (mut xx, mut yy, mut xy) = (null, null, null);
                    for r in 0..m {
                        let (a, b) = (get::<V>(x, r), get::<V>(y, r));
                        xx = a.fma(a, xx);
                        yy = b.fma(b, yy);
                        xy = a.fma(b, xy);
                    }
                    let mut sums = [[zero; PLACES]; 3];
                    xx.store(sums[0].as_mut_ptr());
                    yy.store(sums[1].as_mut_ptr());
                    xy.store(sums[2].as_mut_ptr());
                    let (mut c, mut s) = ([one; PLACES], [zero; PLACES]);
                    let mut any = false;
                    for k in 0..V::N {
                        let (xx, yy, xy) = (sums[0][k], sums[1][k], sums[2][k]);
                        let turns = xy.magnitude() > limit * (xx * yy).root() && !care[k];
                        let zeta = (yy - xx) / (xy + xy);
                        let t = one.with_sign(zeta) / (zeta.magnitude() + (one + zeta * zeta).root());
                        let cos = one / (one + t * t).root();
                        c[k] = if turns { cos } else { one };
                        s[k] = if turns { cos * t } else { zero };
                        moved[k] |= turns;
                        any |= turns;
                    }
                    if any {
                        let (c, s) = (V::load(c.as_ptr()), V::load(s.as_ptr()));
                        turn::<V>(x, y, m, c, s);
                        if let Some(v) = v {
                            turn::<V>(v.add(p * n * V::N), v.add(q * n * V::N), n, c, s);
                        }
                    }
                }
            }
            if !moved.contains(&true) {
                break;
            }
            if round == ROUNDS {
                for k in 0..V::N {
                    care[k] |= moved[k];
                }
            }
        }
    }
}
/// Singular values, descending, of `m x n` matrices by columns, `m` at least `n`, and with `vectors` the first `n` columns of U
/// and the transpose of V, both by columns. Marks in `info` what is left to the kernel of single matrices by -1.
pub(in super::super) fn svd<T: Wide>(
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
    groups::<T>(batch, 20 * m * n * n, m * n + n * n, |g, buffer| {
        let mut care = [false; PLACES];
        let (all, left, values, right) = (a.as_ptr(), u.ptr(), s.ptr(), vh.ptr());
        let (memory, care_of) = (buffer.as_mut_ptr(), &mut care);
        job!(g.level, T, V, (all: *const T, left: *mut T, values: *mut T, right: *mut T, memory: *mut T, g: Group, m: usize, n: usize, vectors: bool, care_of: &'a mut Marks) {
            let v = memory.add(m * n * V::N);
            bring::<V>(all, m * n, g, memory);
            mark_wild::<V>(memory, m * n, care_of);
            mark_extreme::<V>(memory, m * n, care_of);
            if vectors {
                clear::<V>(v, n * n);
                for i in 0..n {
                    set(v, i * n + i, V::splat(T::ONE));
                }
            }
            straighten::<V>(memory, m, n, vectors.then_some(v), care_of);
            let mut lengths = [[T::ZERO; PLACES]; SIDE];
            for (c, length) in lengths[..n].iter_mut().enumerate() {
                let mut sum = V::splat(T::ZERO);
                for r in 0..m {
                    let x = get::<V>(memory, c * m + r);
                    sum = x.fma(x, sum);
                }
                sum.sqrt().store(length.as_mut_ptr());
            }
            let mut order = [0; SIDE];
            for l in 0..g.count {
                ascending(n, |i| -lengths[i][l], &mut order);
                let (most, least) = (lengths[order[0]][l], lengths[order[n - 1]][l]);
                // vectors of values near zero are not those of the columns
                let fine = least > most * T::EPS * T::of(100.0) * T::of(n as f64);
                care_of[l] |= !fine;
                if care_of[l] {
                    continue;
                }
                let at = g.at(l);
                for (i, o) in order[..n].iter().enumerate() {
                    let length = lengths[*o][l];
                    *values.add(at * n + i) = length;
                    if vectors {
                        let by = T::ONE / length;
                        for r in 0..m {
                            *left.add((at * n + i) * m + r) = *memory.add((o * m + r) * V::N + l) * by;
                        }
                        for r in 0..n {
                            *right.add((at * n + r) * n + i) = *v.add((o * n + r) * V::N + l);
                        }
                    }
                }
            }
        });
        for l in 0..g.count {
            // SAFETY: as in `eigh`.
            let info = unsafe { info.slice(g.at(l), 1) };
            info[0] = -i32::from(care[l]);
        }
    });
}
