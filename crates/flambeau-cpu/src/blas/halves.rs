//! Conversion between the storage-only halves and the types that arithmetic uses.

use super::scalar::WideScalar;
use super::{MatmulScalar, RawMat, RawOut};
use crate::Element;
use crate::engine::isa::{Isa, Job, run};
use crate::engine::parallel::parallel_for;
use crate::engine::scratch::SharedMut;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use num_complex::Complex;

/// A type that is widened for arithmetic.
pub trait Narrow: Element {
    /// The type of the arithmetic.
    type Wide: WideScalar + MatmulScalar<Wide = Self::Wide>;
    /// Exact widening of one value.
    fn up(self) -> Self::Wide;
    /// Rounding (to nearest, ties to even) of one value.
    fn down(w: Self::Wide) -> Self;
    /// Rounding of a slice of the same length.
    fn down_slice(src: &[Self::Wide], dst: &mut [Self]);
    /// Multiplies without widening where the machine can: `out = alpha A B`, dense. False, with nothing done, elsewhere.
    ///
    /// # Safety
    /// The matrices are valid for these sizes, and `out` has `m * n` elements.
    #[allow(private_interfaces)]
    unsafe fn narrow_product(
        _size: (usize, usize, usize),
        _alpha: Self::Wide,
        _a: RawMat<Self>,
        _b: RawMat<Self>,
        _out: &mut [Self::Wide],
    ) -> bool {
        false
    }
}

/// Exact f16 to f32 with integer operations only, so that loops over it become vector code.
#[inline(always)]
pub(super) fn f16_up(h: f16) -> f32 {
    let h = h.to_bits() as u32;
    let body = (h & 0x7fff) << 13;
    let exponent = body & 0x0f80_0000;
    let normal = body + (112 << 23);
    let special = normal + (112 << 23);
    let tiny = f32::from_bits(normal + (1 << 23)) - f32::from_bits(113 << 23);
    let bits = if exponent == 0x0f80_0000 {
        special
    } else if exponent == 0 {
        tiny.to_bits()
    } else {
        normal
    };
    f32::from_bits(bits | (h & 0x8000) << 16)
}

#[inline(always)]
fn bf16_down(f: f32) -> bf16 {
    let b = f.to_bits();
    let rounded = (b.wrapping_add(0x7fff + ((b >> 16) & 1)) >> 16) as u16;
    bf16::from_bits(if f.is_nan() { (b >> 16) as u16 | 0x40 } else { rounded })
}

struct Bf16Down<'a>(&'a [f32], &'a mut [bf16]);
impl Job for Bf16Down<'_> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (d, &s) in self.1.iter_mut().zip(self.0) {
            *d = bf16_down(s);
        }
    }
}

impl Narrow for bf16 {
    type Wide = f32;
    #[inline(always)]
    fn up(self) -> f32 {
        f32::from_bits((self.to_bits() as u32) << 16)
    }
    #[inline(always)]
    fn down(w: f32) -> Self {
        bf16_down(w)
    }
    fn down_slice(src: &[f32], dst: &mut [Self]) {
        run(Bf16Down(src, dst));
    }
    #[allow(private_interfaces)]
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
}
impl Narrow for f16 {
    type Wide = f32;
    #[inline(always)]
    fn up(self) -> f32 {
        f16_up(self)
    }
    #[inline(always)]
    fn down(w: f32) -> Self {
        f16::from_f32(w)
    }
    fn down_slice(src: &[f32], dst: &mut [Self]) {
        dst.convert_from_f32_slice(src);
    }
}
impl Narrow for Complex<f16> {
    type Wide = Complex<f32>;
    #[inline(always)]
    fn up(self) -> Complex<f32> {
        Complex::new(f16_up(self.re), f16_up(self.im))
    }
    #[inline(always)]
    fn down(w: Complex<f32>) -> Self {
        Complex::new(f16::from_f32(w.re), f16::from_f32(w.im))
    }
    fn down_slice(src: &[Complex<f32>], dst: &mut [Self]) {
        for (d, &s) in dst.iter_mut().zip(src) {
            *d = Self::down(s);
        }
    }
}

struct Up<'a, T: Narrow>(&'a [T], &'a mut [T::Wide]);
impl<T: Narrow> Job for Up<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (d, &s) in self.1.iter_mut().zip(self.0) {
            *d = s.up();
        }
    }
}

/// Widens a slice, in parallel. Both slices have the same length.
pub fn up<T: Narrow>(src: &[T], dst: &mut [T::Wide]) {
    assert_eq!(src.len(), dst.len(), "up: lengths differ");
    let out = SharedMut::new(dst);
    parallel_for(src.len(), 32_768, |r| {
        // SAFETY: ranges of one parallel_for are disjoint.
        let d = unsafe { out.slice(r.start, r.len()) };
        run(Up(&src[r], d));
    });
}

/// Rounds a slice, in parallel. Both slices have the same length.
pub fn down<T: Narrow>(src: &[T::Wide], dst: &mut [T]) {
    assert_eq!(src.len(), dst.len(), "down: lengths differ");
    let out = SharedMut::new(dst);
    parallel_for(src.len(), 32_768, |r| {
        // SAFETY: ranges of one parallel_for are disjoint.
        let d = unsafe { out.slice(r.start, r.len()) };
        T::down_slice(&src[r], d);
    });
}

/// A widened copy of `a` in `buf`, dense, in the order of `a`'s memory.
///
/// # Safety
/// `a` is valid for `m` x `n`, and `buf` has `m * n` elements.
pub(super) unsafe fn matrix<T: Narrow>(
    m: usize,
    n: usize,
    a: RawMat<T>,
    buf: &mut [T::Wide],
) -> RawMat<T::Wide> {
    if a.cs > a.rs && n > 1 {
        // SAFETY: the transpose of a valid matrix.
        return unsafe { matrix(n, m, a.t(), buf) }.t();
    }
    let out = RawMat { p: buf.as_ptr(), rs: n, cs: 1 };
    let dst = SharedMut::new(buf);
    parallel_for(m, (32_768 / n.max(1)).max(1), |rows| {
        for i in rows {
            // SAFETY: row `i` belongs to this range alone.
            let d = unsafe { dst.slice(i * n, n) };
            let row = a.at(i, 0).p;
            if a.cs == 1 {
                // SAFETY: a row of A is `n` contiguous elements.
                run(Up(unsafe { std::slice::from_raw_parts(row, n) }, d));
            } else {
                for (j, d) in d.iter_mut().enumerate() {
                    // SAFETY: inside A.
                    *d = unsafe { *row.add(j * a.cs) }.up();
                }
            }
        }
    });
    out
}

/// `C = round(wide + beta * C)`.
///
/// # Safety
/// `c` is valid for `m` x `n`; `wide` is dense.
pub(super) unsafe fn store<T: Narrow>(m: usize, n: usize, wide: &[T::Wide], beta: T::Wide, c: RawOut<T>) {
    parallel_for(m, (32_768 / n.max(1)).max(1), |rows| {
        for i in rows {
            let w = &wide[i * n..(i + 1) * n];
            let row = c.at(i, 0).p;
            if c.cs == 1 && beta == T::Wide::ZERO {
                // SAFETY: a row of C is `n` contiguous elements that belong to this range alone.
                T::down_slice(w, unsafe { std::slice::from_raw_parts_mut(row, n) });
            } else {
                for (j, &w) in w.iter().enumerate() {
                    // SAFETY: inside C.
                    unsafe {
                        let p = row.add(j * c.cs);
                        *p = T::down(if beta == T::Wide::ZERO { w } else { w.plus(beta.times((*p).up())) });
                    }
                }
            }
        }
    });
}
