//! The element types that products take, and which kernel serves each.

use super::{RawMat, RawOut, gemv, halves, integer, tiles};
use crate::Element;
use crate::engine::scratch::with_scratch;
use gemm_common::Parallelism;
use half::{bf16, f16};
use num_complex::Complex;

/// A type in which products are accumulated.
pub trait WideScalar: Element {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// `self + o`; integers wrap.
    fn plus(self, o: Self) -> Self;
    /// `self * o`; integers wrap.
    fn times(self, o: Self) -> Self;
    /// `self * b + c`, fused where the machine can.
    #[doc(hidden)]
    #[inline(always)]
    fn fma<I: crate::engine::isa::Isa>(self, b: Self, c: Self) -> Self {
        self.times(b).plus(c)
    }
    /// One tile on the calling thread: `C = alpha A B + beta C`; `beta` 0 does not read C.
    ///
    /// # Safety
    /// The matrices are valid for these sizes and C overlaps neither A nor B.
    #[doc(hidden)]
    unsafe fn tile(
        m: usize,
        n: usize,
        k: usize,
        alpha: Self,
        a: (*const Self, usize, usize),
        b: (*const Self, usize, usize),
        beta: Self,
        c: (*mut Self, usize, usize),
    );
}

/// A type that [`super::gemm`] multiplies.
pub trait MatmulScalar: Element {
    /// The type of `alpha`, `beta` and of the running sums.
    type Wide: WideScalar;
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
        alpha: Self::Wide,
        a: RawMat<Self>,
        b: RawMat<Self>,
        beta: Self::Wide,
        c: RawOut<Self>,
    );
}

/// `C = beta * C`.
///
/// # Safety
/// C is valid for `m` x `n`.
pub(super) unsafe fn scale<T: WideScalar>(m: usize, n: usize, beta: T, c: (*mut T, usize, usize)) {
    for i in 0..m {
        for j in 0..n {
            // SAFETY: inside C.
            unsafe {
                let p = c.0.add(i * c.1 + j * c.2);
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
        unsafe { T::tile(mi, nj, k, alpha, (a.p, a.rs, a.cs), (b.p, b.rs, b.cs), beta, (c.p, c.rs, c.cs)) }
    });
}

macro_rules! native {
    ($($t:ty, $zero:expr, $one:expr, $tile:expr, $($vec:ident, $fma:ident)?);* $(;)?) => {$(
        impl WideScalar for $t {
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            #[inline(always)]
            fn plus(self, o: Self) -> Self { self + o }
            #[inline(always)]
            fn times(self, o: Self) -> Self { self * o }
            $(
                #[inline(always)]
                fn fma<I: crate::engine::isa::Isa>(self, b: Self, c: Self) -> Self { I::$fma(self, b, c) }
            )?
            #[inline]
            unsafe fn tile(
                m: usize, n: usize, k: usize, alpha: Self,
                a: (*const Self, usize, usize), b: (*const Self, usize, usize), beta: Self, c: (*mut Self, usize, usize),
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
            type Wide = Self;
            #[allow(private_interfaces)]
            #[inline]
            unsafe fn product(
                m: usize, n: usize, k: usize, alpha: Self, a: RawMat<Self>, b: RawMat<Self>, beta: Self, c: RawOut<Self>,
            ) {
                $(
                    // SAFETY: the caller's promise.
                    if unsafe { gemv::$vec(m, n, k, alpha, a, b, beta, c) } {
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
    f32, 0.0, 1.0, tile_f32, try_matvec, fma32;
    f64, 0.0, 1.0, gemm_f64, try_matvec, fma64;
    Complex<f32>, Complex::new(0.0, 0.0), Complex::new(1.0, 0.0), gemm_complex, ;
    Complex<f64>, Complex::new(0.0, 0.0), Complex::new(1.0, 0.0), gemm_complex, ;
}

/// A tile by the gemm crates, which prefer outputs whose columns are contiguous: others are computed transposed.
macro_rules! real_tile {
    ($($name:ident $t:ty, $kernel:path);*) => {$(
        unsafe fn $name(
            m: usize, n: usize, k: usize, alpha: $t,
            a: (*const $t, usize, usize), b: (*const $t, usize, usize), beta: $t, c: (*mut $t, usize, usize),
        ) {
            let flip = c.2 < c.1;
            let (m, n, c1, c2) = if flip { (n, m, c.1, c.2) } else { (m, n, c.2, c.1) };
            let (l, r) = if flip { ((b.0, b.1, b.2), (a.0, a.1, a.2)) } else { ((a.0, a.2, a.1), (b.0, b.2, b.1)) };
            // SAFETY: the caller's promise.
            unsafe {
                $kernel()(
                    m, n, k, c.0, c1 as isize, c2 as isize, beta != 0.0, l.0, l.1 as isize, l.2 as isize,
                    r.0, r.1 as isize, r.2 as isize, beta, alpha, false, false, false, Parallelism::None,
                )
            }
        }
    )*};
}
real_tile! {
    gemm_f32 f32, ::gemm_f32::gemm::f32::get_gemm_fn;
    gemm_f64 f64, ::gemm_f64::gemm::f64::get_gemm_fn
}

/// An f32 tile: by the kernels of [`super::transposed`] where they are faster.
unsafe fn tile_f32(
    m: usize,
    n: usize,
    k: usize,
    alpha: f32,
    a: (*const f32, usize, usize),
    b: (*const f32, usize, usize),
    beta: f32,
    c: (*mut f32, usize, usize),
) {
    // SAFETY: the caller's promise.
    unsafe {
        let plain = alpha == 1.0 && (beta == 0.0 || beta == 1.0);
        if !(plain && super::transposed::try_product(m, n, k, a, b, beta == 1.0, c)) {
            gemm_f32(m, n, k, alpha, a, b, beta, c);
        }
    }
}

/// A complex tile as four real products of the parts. Kernels of their own for complex numbers would be a fifth of the
/// machine code of a program that never multiplies one.
unsafe fn gemm_complex<R: WideScalar + std::ops::Neg<Output = R> + Copy>(
    m: usize,
    n: usize,
    k: usize,
    alpha: Complex<R>,
    a: (*const Complex<R>, usize, usize),
    b: (*const Complex<R>, usize, usize),
    beta: Complex<R>,
    c: (*mut Complex<R>, usize, usize),
) where
    Complex<R>: WideScalar,
{
    // The parts of a matrix of complex numbers are two interleaved real matrices.
    let part =
        |x: (*const Complex<R>, usize, usize), i: usize| (x.0.cast::<R>().wrapping_add(i), 2 * x.1, 2 * x.2);
    with_scratch::<R, _>(2 * m * n, |w| {
        let (re, im) = w.split_at_mut(m * n);
        let (re, im) = ((re.as_mut_ptr(), n, 1), (im.as_mut_ptr(), n, 1));
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
                    let p = c.0.add(i * c.1 + j * c.2);
                    *p = if beta == Complex::<R>::ZERO { v } else { beta.times(*p).plus(v) };
                }
            }
        }
    })
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl WideScalar for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            #[inline(always)]
            fn plus(self, o: Self) -> Self { self.wrapping_add(o) }
            #[inline(always)]
            fn times(self, o: Self) -> Self { self.wrapping_mul(o) }
            unsafe fn tile(
                m: usize, n: usize, k: usize, alpha: Self,
                a: (*const Self, usize, usize), b: (*const Self, usize, usize), beta: Self, c: (*mut Self, usize, usize),
            ) {
                // SAFETY: the caller's promise.
                unsafe { integer::tile(m, n, k, alpha, a, b, beta, c) }
            }
        }
        impl MatmulScalar for $t {
            type Wide = Self;
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
    ($($t:ty, $wide:ty, $($vec:ident)?);* $(;)?) => {$(
        impl MatmulScalar for $t {
            type Wide = $wide;
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
        }
    )*};
}
halves! {
    f16, f32, try_matvec;
    bf16, f32, try_matvec;
    Complex<f16>, Complex<f32>, ;
}

/// Widens the operands, multiplies, and rounds each result once.
///
/// # Safety
/// As [`WideScalar::tile`].
unsafe fn widened<T: halves::Narrow>(
    m: usize,
    n: usize,
    k: usize,
    alpha: T::Wide,
    a: RawMat<T>,
    b: RawMat<T>,
    beta: T::Wide,
    c: RawOut<T>,
) where
    T::Wide: MatmulScalar<Wide = T::Wide>,
{
    with_scratch::<T::Wide, _>(m * n, |wc| {
        // SAFETY: A and B are valid, and the buffer has its size.
        if !unsafe { T::narrow_product((m, n, k), alpha, a, b, wc) } {
            with_scratch::<T::Wide, _>(m * k, |wa| {
                with_scratch::<T::Wide, _>(k * n, |wb| {
                    // SAFETY: A and B are valid; the buffers have their sizes.
                    let (ra, rb) = unsafe { (halves::matrix(m, k, a, wa), halves::matrix(k, n, b, wb)) };
                    let rc = RawOut { p: wc.as_mut_ptr(), rs: n, cs: 1 };
                    // SAFETY: three distinct buffers of the right sizes.
                    unsafe { T::Wide::product(m, n, k, alpha, ra, rb, T::Wide::ZERO, rc) };
                })
            });
        }
        // SAFETY: C is valid and disjoint from the buffers.
        unsafe { halves::store(m, n, wc, beta, c) };
    })
}
