//! The element types that products take, and which kernel serves each.

use super::{RawMat, RawOut, gemv, halves, integer, tiles};
use crate::engine::room;
use crate::engine::scratch::with_scratch;
use crate::num::{Arith, Stored};
use gemm_common::{Parallelism, cache::CACHE_INFO, gemm::L2_SLAB};
use half::{bf16, f16};
use num_complex::Complex;
use std::cell::Cell;

thread_local! {
    /// Whether the thread has the slab of the gemm crates.
    static HAS_SLAB: Cell<bool> = const { Cell::new(false) };
}
/// The longest panel of the gemm crates, in elements.
const DEPTH: usize = 1024;
/// Smaller blocks any program needs at every step.
const SMALL: usize = 16 << 10;

/// Leaves as [`room::room`] does where there is no memory for what the gemm crates are about to ask for: they would end the
/// process. They pack both operands into blocks as large as their caches at most, and a thread's first product makes its slab.
#[inline]
fn ask_for_panels<T>(m: usize, n: usize, k: usize) {
    let rows = m.min(1024).saturating_add(n).saturating_add(64);
    let bytes = rows.saturating_mul(k.min(DEPTH)).saturating_mul(size_of::<T>());
    if bytes >= SMALL || !HAS_SLAB.get() {
        ask_for(bytes);
    }
}
#[inline(never)]
fn ask_for(bytes: usize) {
    if !HAS_SLAB.get() {
        room::ask(CACHE_INFO[1].cache_bytes);
        HAS_SLAB.set(true);
    }
    if bytes >= SMALL {
        let most = CACHE_INFO[2].cache_bytes.max(DEPTH * DEPTH * size_of::<f64>());
        room::ask(bytes.min(most));
    }
}

/// A type in which products are accumulated.
pub trait WideScalar: Arith + Stored<Compute = Self> {
    /// One tile on the calling thread: `C = alpha A B + beta C`; `beta` 0 does not read C.
    ///
    /// # Safety
    /// The matrices are valid for these sizes and C overlaps neither A nor B.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    unsafe fn tile(
        m: usize,
        n: usize,
        k: usize,
        alpha: Self,
        a: RawMat<Self>,
        b: RawMat<Self>,
        beta: Self,
        c: RawOut<Self>,
    );
}

/// A type that [`super::gemm`] multiplies.
pub trait MatmulScalar: Stored<Compute: WideScalar> {
    /// The whole product, in parallel.
    ///
    /// # Safety
    /// As [`WideScalar::tile`].
    #[doc(hidden)]
    #[allow(private_interfaces)]
    unsafe fn product(
        m: usize,
        n: usize,
        k: usize,
        alpha: Self::Compute,
        a: RawMat<Self>,
        b: RawMat<Self>,
        beta: Self::Compute,
        c: RawOut<Self>,
    );
    /// Multiplies without widening where the machine can: `out = alpha A B`, dense. False, with nothing done, elsewhere.
    ///
    /// # Safety
    /// The matrices are valid for these sizes, and `out` has `m * n` elements.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    unsafe fn narrow_product(
        _size: (usize, usize, usize),
        _alpha: Self::Compute,
        _a: RawMat<Self>,
        _b: RawMat<Self>,
        _out: &mut [Self::Compute],
    ) -> bool {
        false
    }
}

/// `C = beta * C`.
///
/// # Safety
/// C is valid for `m` x `n`.
pub(super) unsafe fn scale<T: WideScalar>(m: usize, n: usize, beta: T, c: RawOut<T>) {
    for i in 0..m {
        for j in 0..n {
            // SAFETY: inside C.
            unsafe {
                let p = c.at(i, j).p;
                *p = if beta == T::ZERO { T::ZERO } else { beta.times(*p) };
            }
        }
    }
}

/// Cuts the output and calls [`WideScalar::tile`] on each piece.
///
/// # Safety
/// As [`WideScalar::tile`].
pub(super) unsafe fn tiled<T: WideScalar>(
    m: usize,
    n: usize,
    k: usize,
    alpha: T,
    a: RawMat<T>,
    b: RawMat<T>,
    beta: T,
    c: RawOut<T>,
) {
    tiles(m, n, k, &|i, mi, j, nj| {
        let (a, b, c) = (a.at(i, 0), b.at(0, j), c.at(i, j));
        // SAFETY: a tile of valid matrices; tiles of C are disjoint.
        unsafe { T::tile(mi, nj, k, alpha, a, b, beta, c) }
    });
}

macro_rules! native {
    ($($t:ty, $tile:expr, $($whole:path)?);* $(;)?) => {$(
        impl WideScalar for $t {
            #[allow(private_interfaces)]
            #[inline]
            unsafe fn tile(
                m: usize, n: usize, k: usize, alpha: Self,
                a: RawMat<Self>, b: RawMat<Self>, beta: Self, c: RawOut<Self>,
            ) {
                if m == 0 || n == 0 {
                    return;
                }
                if k == 0 || alpha == Self::ZERO {
                    // SAFETY: the caller's promise.
                    return unsafe { scale(m, n, beta, c) };
                }
                // SAFETY: the caller's promise.
                unsafe { $tile(m, n, k, alpha, a, b, beta, c) }
            }
        }
        impl MatmulScalar for $t {
            #[allow(private_interfaces)]
            #[inline]
            unsafe fn product(
                m: usize, n: usize, k: usize, alpha: Self, a: RawMat<Self>, b: RawMat<Self>, beta: Self, c: RawOut<Self>,
            ) {
                $(
                    // SAFETY: the caller's promise.
                    if unsafe { $whole(m, n, k, alpha, a, b, beta, c) } {
                        return;
                    }
                )?
                // SAFETY: the caller's promise.
                unsafe { tiled(m, n, k, alpha, a, b, beta, c) }
            }
        }
    )*};
}
native! {
    f32, tile_f32, product_f32;
    f64, tile_f64, gemv::try_matvec;
    Complex<f32>, gemm_complex, ;
    Complex<f64>, gemm_complex, ;
}

/// Runs a product for a thread that ends, in the drop of one of its own values: the gemm crates pack into a value of the
/// thread, which may be gone, and would panic, so another thread does it.
#[cold]
fn at_the_end(product: impl FnOnce() + Send) {
    std::thread::scope(|s| {
        s.spawn(product);
    });
}

/// A tile by the gemm crates, which prefer outputs whose columns are contiguous: others are computed transposed.
macro_rules! real_tile {
    ($($name:ident $t:ty, $kernel:path);*) => {$(
        unsafe fn $name(
            m: usize, n: usize, k: usize, alpha: $t,
            a: RawMat<$t>, b: RawMat<$t>, beta: $t, c: RawOut<$t>,
        ) {
            // an output with contiguous columns is the transposed product
            let (m, n, a, b, c) = if c.cs < c.rs { (n, m, b.t(), a.t(), c.t()) } else { (m, n, a, b, c) };
            ask_for_panels::<$t>(m, n, k);
            if L2_SLAB.try_with(|_| ()).is_err() {
                // SAFETY: the caller's promise.
                return at_the_end(move || unsafe { $name(m, n, k, alpha, a, b, beta, c) });
            }
            let [c1, c2] = [c.cs, c.rs].map(|s| s as isize);
            let [a1, a2, b1, b2] = [a.cs, a.rs, b.cs, b.rs].map(|s| s as isize);
            // SAFETY: the caller's promise.
            unsafe {
                $kernel()(
                    m, n, k, c.p, c1, c2, beta != 0.0, a.p, a1, a2, b.p, b1, b2, beta, alpha, false, false, false, Parallelism::None,
                )
            }
        }
    )*};
}
real_tile! {
    gemm_f32 f32, ::gemm_f32::gemm::f32::get_gemm_fn;
    gemm_f64 f64, ::gemm_f64::gemm::f64::get_gemm_fn
}

/// An f32 tile: by the kernels of [`super::transposed`] and [`super::panels`] where they are faster.
unsafe fn tile_f32(
    m: usize,
    n: usize,
    k: usize,
    alpha: f32,
    a: RawMat<f32>,
    b: RawMat<f32>,
    beta: f32,
    c: RawOut<f32>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let plain = alpha == 1.0 && (beta == 0.0 || beta == 1.0);
        let add = beta == 1.0;
        #[cfg(target_arch = "x86_64")]
        if plain && super::panels::try_product(m, n, k, a, b, add, c) {
            return;
        }
        if !(plain && super::transposed::try_product(m, n, k, a, b, add, c)) {
            gemm_f32(m, n, k, alpha, a, b, beta, c);
        }
    }
}

/// An f64 tile: by the kernels of [`super::panels`] where they are faster.
unsafe fn tile_f64(
    m: usize,
    n: usize,
    k: usize,
    alpha: f64,
    a: RawMat<f64>,
    b: RawMat<f64>,
    beta: f64,
    c: RawOut<f64>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if alpha == 1.0
            && (beta == 0.0 || beta == 1.0)
            && super::panels::try_product(m, n, k, a, b, beta == 1.0, c)
        {
            return;
        }
        gemm_f64(m, n, k, alpha, a, b, beta, c);
    }
}

/// Products of f32 that are not cut into tiles: with vectors, and of factors that may be rounded.
unsafe fn product_f32(
    m: usize,
    n: usize,
    k: usize,
    alpha: f32,
    a: RawMat<f32>,
    b: RawMat<f32>,
    beta: f32,
    c: RawOut<f32>,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        gemv::try_matvec(m, n, k, alpha, a, b, beta, c)
            || super::rounded::try_product(m, n, k, alpha, a, b, beta, c)
    }
}

/// A complex tile as four real products of the parts. Kernels of their own for complex numbers would be a fifth of the
/// machine code of a program that never multiplies one.
unsafe fn gemm_complex<R: WideScalar + std::ops::Neg<Output = R> + Copy>(
    m: usize,
    n: usize,
    k: usize,
    alpha: Complex<R>,
    a: RawMat<Complex<R>>,
    b: RawMat<Complex<R>>,
    beta: Complex<R>,
    c: RawOut<Complex<R>>,
) where
    Complex<R>: WideScalar,
{
    // The parts of a matrix of complex numbers are two interleaved real matrices.
    let part =
        |x: RawMat<Complex<R>>, i: usize| RawMat::new(x.p.cast::<R>().wrapping_add(i), 2 * x.rs, 2 * x.cs);
    with_scratch::<R, _>(2 * m * n, |w| {
        let (re, im) = w.split_at_mut(m * n);
        let (re, im) = (RawOut::rows(re.as_mut_ptr(), n), RawOut::rows(im.as_mut_ptr(), n));
        // SAFETY: the parts lie within A and B, and the scratch halves have the size of C.
        unsafe {
            R::tile(m, n, k, R::ONE, part(a, 0), part(b, 0), R::ZERO, re);
            R::tile(m, n, k, -R::ONE, part(a, 1), part(b, 1), R::ONE, re);
            R::tile(m, n, k, R::ONE, part(a, 0), part(b, 1), R::ZERO, im);
            R::tile(m, n, k, R::ONE, part(a, 1), part(b, 0), R::ONE, im);
        }
        for i in 0..m {
            for j in 0..n {
                let v = alpha.times(Complex::new(w[i * n + j], w[m * n + i * n + j]));
                // SAFETY: inside C.
                unsafe {
                    let p = c.at(i, j).p;
                    *p = if beta == Complex::<R>::ZERO { v } else { beta.times(*p).plus(v) };
                }
            }
        }
    })
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl WideScalar for $t {
            #[allow(private_interfaces)]
            unsafe fn tile(
                m: usize, n: usize, k: usize, alpha: Self,
                a: RawMat<Self>, b: RawMat<Self>, beta: Self, c: RawOut<Self>,
            ) {
                // SAFETY: the caller's promise.
                unsafe { integer::tile(m, n, k, alpha, a, b, beta, c) }
            }
        }
        impl MatmulScalar for $t {
            #[allow(private_interfaces)]
            unsafe fn product(
                m: usize, n: usize, k: usize, alpha: Self, a: RawMat<Self>, b: RawMat<Self>, beta: Self, c: RawOut<Self>,
            ) {
                // SAFETY: the caller's promise.
                unsafe { tiled(m, n, k, alpha, a, b, beta, c) }
            }
        }
    )*};
}
integers!(u8, i8, i16, i32, i64, u16, u32, u64);

macro_rules! halves {
    ($($t:ty, $wide:ty, $($vec:ident)?, {$($narrow:item)?});* $(;)?) => {$(
        impl MatmulScalar for $t {
            #[allow(private_interfaces)]
            unsafe fn product(
                m: usize, n: usize, k: usize, alpha: $wide, a: RawMat<Self>, b: RawMat<Self>, beta: $wide, c: RawOut<Self>,
            ) {
                if m == 0 || n == 0 {
                    return;
                }
                $(
                    // SAFETY: the caller's promise.
                    if unsafe { gemv::$vec(m, n, k, alpha, a, b, beta, c) } {
                        return;
                    }
                )?
                // SAFETY: the caller's promise.
                unsafe { widened(m, n, k, alpha, a, b, beta, c) }
            }
            $(
                #[allow(private_interfaces)]
                $narrow
            )?
        }
    )*};
}
halves! {
    f16, f32, try_matvec, {};
    bf16, f32, try_matvec, {
        unsafe fn narrow_product(
            (m, n, k): (usize, usize, usize),
            alpha: f32,
            a: RawMat<Self>,
            b: RawMat<Self>,
            out: &mut [f32],
        ) -> bool {
            // with an `alpha` of 0 the operands do not count, their NaN included
            if alpha == 0.0 || !super::bf16::suits(m, n, k) {
                return false;
            }
            // SAFETY: the caller's promise.
            unsafe { super::bf16::product(m, n, k, a, b, out) };
            if alpha != 1.0 {
                out.iter_mut().for_each(|v| *v *= alpha);
            }
            true
        }
    };
    Complex<f16>, Complex<f32>, , {};
}

/// Elements of an operand that are widened at once.
const WIDENED: usize = 1 << 26;

/// Widens the operands, multiplies, and rounds each result once.
///
/// # Safety
/// As [`WideScalar::tile`].
unsafe fn widened<T: MatmulScalar>(
    m: usize,
    n: usize,
    k: usize,
    alpha: T::Compute,
    a: RawMat<T>,
    b: RawMat<T>,
    beta: T::Compute,
    c: RawOut<T>,
) where
    T::Compute: MatmulScalar,
{
    with_scratch::<T::Compute, _>(m * n, |wc| {
        // SAFETY: A and B are valid, and the buffer has its size.
        if !unsafe { T::narrow_product((m, n, k), alpha, a, b, wc) } {
            // all at once, but for operands that are long because they repeat
            let depth = (WIDENED / m.max(n)).max(1);
            if k == 0 {
                wc.fill(T::Compute::ZERO);
            }
            for p0 in (0..k).step_by(depth) {
                let k = depth.min(k - p0);
                let (a, b) = (a.at(0, p0), b.at(p0, 0));
                with_scratch::<T::Compute, _>(m * k, |wa| {
                    with_scratch::<T::Compute, _>(k * n, |wb| {
                        // SAFETY: A and B are valid; the buffers have their sizes.
                        let (ra, rb) = unsafe { (halves::matrix(m, k, a, wa), halves::matrix(k, n, b, wb)) };
                        let rc = RawOut::rows(wc.as_mut_ptr(), n);
                        let beta = if p0 == 0 { T::Compute::ZERO } else { T::Compute::ONE };
                        // SAFETY: three distinct buffers of the right sizes.
                        unsafe { <T::Compute as MatmulScalar>::product(m, n, k, alpha, ra, rb, beta, rc) };
                    })
                });
            }
        }
        // SAFETY: C is valid and disjoint from the buffers.
        unsafe { halves::store(m, n, wc, beta, c) };
    })
}
