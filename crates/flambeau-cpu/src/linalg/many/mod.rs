//! Batches of small real matrices, one per place of a vector.
//!
//! A group of matrices is brought into a buffer in which an element is a vector with one place for each of them, goes through
//! the decomposition there, and is written back. Matrices that ask for more care, since a pivot vanishes, a number is not
//! finite or its square vanishes, are left as they were and go one by one through the kernels of single matrices. So a
//! matrix has the same result wherever it stands in its batch.

mod factor;
mod spectrum;
#[cfg(test)]
mod tests;

pub(super) use factor::{cholesky, geqrf, inverse, lu_factor, lu_solve, orgqr};
pub(super) use spectrum::{eigh, svd};

use super::field::Real;
use crate::engine::isa::{Level, level};
use crate::engine::parallel::parallel_for;
use crate::engine::scratch::with_scratch;
use crate::engine::simd::{Plain, Vector};
use crate::num::Arith;

/// Places of the longest vector.
const PLACES: usize = 16;
/// The largest side: rows of pivots are bytes.
const SIDE: usize = 64;

/// Rows that were exchanged, by step and place.
type Pivots = [[u8; PLACES]; SIDE];
/// Which places need more care.
type Marks = [bool; PLACES];

/// What is done with vectors of one kind.
pub(super) trait Vectors<T> {
    /// # Safety
    /// The machine has the instructions of `V`.
    unsafe fn run<V: Vector<T = T>>(self);
}
/// A real number with vectors.
pub(super) trait Wide: Real {
    /// Below this the square of a number has lost digits.
    const SMALL: Self;
    fn lanes(level: Level) -> usize;
    fn run<J: Vectors<Self>>(level: Level, job: J);
}
macro_rules! wide {
    ($($t:ty: $v4:ident $v3:ident $small:literal;)*) => {$(
        impl Wide for $t {
            const SMALL: $t = $small;
            fn lanes(level: Level) -> usize {
                #[cfg(target_arch = "x86_64")]
                match level {
                    Level::V4 => return crate::engine::simd::x86::$v4::N,
                    Level::V3 => return crate::engine::simd::x86::$v3::N,
                    Level::Portable => {}
                }
                let _ = level;
                Plain::<$t>::N
            }
            fn run<J: Vectors<$t>>(level: Level, job: J) {
                #[cfg(target_arch = "x86_64")]
                {
                    use crate::engine::simd::x86::{$v3, $v4};
                    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma")]
                    fn v4<J: Vectors<$t>>(job: J) {
                        // SAFETY: this function has the instructions.
                        unsafe { job.run::<$v4>() }
                    }
                    #[target_feature(enable = "avx2,fma")]
                    fn v3<J: Vectors<$t>>(job: J) {
                        // SAFETY: as above.
                        unsafe { job.run::<$v3>() }
                    }
                    match level {
                        // SAFETY: a level above the portable one was found on this machine.
                        Level::V4 => return unsafe { v4(job) },
                        // SAFETY: as above.
                        Level::V3 => return unsafe { v3(job) },
                        Level::Portable => {}
                    }
                }
                let _ = level;
                // SAFETY: plain vectors need no instructions.
                unsafe { job.run::<Plain<$t>>() }
            }
        }
    )*};
}
wide! {
    f32: F16 F8 1e-28;
    f64: D8 D4 1e-270;
}

/// Whether matrices of these sides go side by side.
pub(super) fn suits(batch: usize, rows: usize, columns: usize) -> bool {
    batch >= 4 && rows.max(columns) <= SIDE && rows.min(columns) > 0
}

/// Matrices of a batch that are decomposed together.
#[derive(Clone, Copy)]
struct Group {
    first: usize,
    count: usize,
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
                body(Group { first: g * lanes, count: lanes.min(batch - g * lanes) }, buffer);
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

/// Brings `each` elements of every matrix of a group into the buffer.
#[inline(always)]
unsafe fn bring<V: Vector>(src: *const V::T, each: usize, g: Group, buffer: *mut V::T) {
    let n = V::N;
    let mut done = 0;
    // SAFETY: the caller's promise: `src` has all matrices of the group, the buffer `each` elements.
    unsafe {
        while done + n <= each {
            V::square(|l| src.add(g.at(l) * each + done), |k| buffer.add((done + k) * n), None);
            done += n;
        }
        for l in 0..n {
            let src = src.add(g.at(l) * each);
            for e in done..each {
                *buffer.add(e * n + l) = *src.add(e);
            }
        }
    }
}
/// Writes what [`bring`] brought, but for the marked places.
#[inline(always)]
unsafe fn put_back<V: Vector>(buffer: *const V::T, dst: *mut V::T, each: usize, g: Group, care: &Marks) {
    let n = V::N;
    let mut done = 0;
    // SAFETY: as for `bring`; nobody else writes to these matrices.
    unsafe {
        if g.count == n && !care.contains(&true) {
            while done + n <= each {
                V::square(|k| buffer.add((done + k) * n), |l| dst.add(g.at(l) * each + done), None);
                done += n;
            }
        }
        for l in (0..g.count).filter(|l| !care[*l]) {
            let dst = dst.add(g.at(l) * each);
            for e in done..each {
                *dst.add(e) = *buffer.add(e * n + l);
            }
        }
    }
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

/// `y[r] -= sum over q of a[r, q] x[q]` for `R` rows: those of `y` and `a` follow each other.
#[inline(always)]
unsafe fn tile<V: Vector, const R: usize>(
    y: *mut V::T,
    (a, column): (*const V::T, usize),
    (x, step): (*const V::T, usize),
    count: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sum = [get::<V>(y, 0); R];
        for r in 1..R {
            sum[r] = get::<V>(y, r);
        }
        for q in 0..count {
            let f = get::<V>(x, q * step);
            for r in 0..R {
                sum[r] = get::<V>(a, q * column + r).fnma(f, sum[r]);
            }
        }
        for r in 0..R {
            set(y, r, sum[r]);
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
    // SAFETY: the caller's promise.
    unsafe {
        for (l, row) in rows.iter().enumerate().take(V::N) {
            let row = *row as usize;
            if row != i {
                let (x, y) = (p.add(i * each * V::N + l), p.add(row * each * V::N + l));
                for c in 0..count {
                    std::ptr::swap(x.add(c * step * V::N), y.add(c * step * V::N));
                }
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
        let mut sum = V::splat(zero);
        for i in 1..count {
            let x = get::<V>(x, i);
            sum = x.fma(x, sum);
        }
        let (mut t, mut by, mut beta) = ([zero; PLACES], [one; PLACES], places::<V>(x, 0));
        let mut squares = [zero; PLACES];
        sum.store(squares.as_mut_ptr());
        for l in 0..V::N {
            let (first, s) = (beta[l], squares[l]);
            if s < V::T::SMALL {
                let empty = (1..count).all(|i| *x.add(i * V::N + l) == zero);
                care[l] |= !empty;
                continue;
            }
            let b = -(first * first + s).root().with_sign(first);
            (t[l], by[l], beta[l]) = ((b - first) / b, one / (first - b), b);
        }
        let by = V::load(by.as_ptr());
        for i in 1..count {
            set(x, i, get::<V>(x, i).mul(by));
        }
        set(x, 0, V::splat(one));
        (V::load(t.as_ptr()), V::load(beta.as_ptr()))
    }
}
/// The first `n` columns of products of `k` reflectors of `m` elements, into `out`, whose columns are `ld` apart and hold
/// zeros. The heads of the reflectors, which stand `ld_a` and one more apart, become 1.
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
        for j in (0..k).rev() {
            let v = a.add((j * ld_a + j) * V::N);
            set(v, 0, V::splat(V::T::ONE));
            reflect::<V>(v, get(tau, j), out.add((j * ld + j) * V::N), ld, n - j, m - j);
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
        impl<'a, $T: Wide> Vectors<$T> for J<'a, $T> {
            #[inline(always)]
            unsafe fn run<$V: Vector<T = $T>>(self) {
                let J { $($name,)* on: _ } = self;
                // SAFETY: the caller has the instructions; buffers and matrices are as long as their callers below made them.
                unsafe { $body }
            }
        }
        <$T as Wide>::run($level, J::<$T> { $($name,)* on: std::marker::PhantomData });
    }};
}

use job;
