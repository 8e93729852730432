//! Vectors of floats by instruction set, and complex numbers made of two of them.

use super::isa::{self, Level};

/// A vector of floats. All methods are compiled into functions that have the instructions.
// What all arithmetic asks for is said once, above it.
#[allow(clippy::missing_safety_doc)]
pub trait Vector: Copy {
    /// The element.
    type T: Copy;
    /// Which elements a comparison holds for.
    type Mask: Copy;
    /// Vectors of f64 of the same instructions: one or two of them have as many elements.
    type Wide: Vector<T = f64>;
    /// Number of elements.
    const N: usize;
    /// `N` elements from memory, aligned or not.
    ///
    /// # Safety
    /// `p` is valid for `N` elements, and the machine has the instructions.
    unsafe fn load(p: *const Self::T) -> Self;
    /// Writes `N` elements.
    ///
    /// # Safety
    /// As [`Vector::load`].
    unsafe fn store(self, p: *mut Self::T);
    /// The lanes from `first` on and before `end`; both may lie outside.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn lanes(first: isize, end: isize) -> Self::Mask;
    /// As [`Vector::load`] where the mask holds, and 0 elsewhere: nothing else is read.
    ///
    /// # Safety
    /// As [`Vector::load`], of these elements alone.
    unsafe fn load_where(mask: Self::Mask, p: *const Self::T) -> Self;
    /// Writes the first `n` elements; all where there are fewer.
    ///
    /// # Safety
    /// As [`Vector::store`], of these elements alone.
    unsafe fn store_first(self, p: *mut Self::T, n: usize);
    /// Writes `N` elements past the caches, where the machine can. `cache::stream_fence` comes after the last.
    ///
    /// # Safety
    /// As [`Vector::store`], and `p` is a multiple of the vector's bytes.
    #[inline(always)]
    unsafe fn stream(self, p: *mut Self::T) {
        // SAFETY: the caller's promise.
        unsafe { self.store(p) }
    }
    /// One number in all places.
    ///
    /// # Safety
    /// The machine has the instructions; so for all that follow.
    unsafe fn splat(x: Self::T) -> Self;
    /// `a + b`
    unsafe fn add(self, o: Self) -> Self;
    /// `a - b`
    unsafe fn sub(self, o: Self) -> Self;
    /// `a * b`
    unsafe fn mul(self, o: Self) -> Self;
    /// `c + a * b`
    unsafe fn fma(self, o: Self, c: Self) -> Self;
    /// `c - a * b`
    unsafe fn fnma(self, o: Self, c: Self) -> Self;
    /// `a / b`
    unsafe fn div(self, o: Self) -> Self;
    /// Square roots.
    unsafe fn sqrt(self) -> Self;
    /// `a < b`; NaN is below nothing.
    unsafe fn less(self, o: Self) -> Self::Mask;
    /// Elements of `a` where the mask holds, else those of `b`.
    unsafe fn choose(mask: Self::Mask, a: Self, b: Self) -> Self;
    /// Whether an element is NaN.
    unsafe fn has_nan(self) -> bool;
    /// The sum of the elements.
    unsafe fn sum(self) -> Self::T;
    /// Even and odd elements of two vectors in a row.
    unsafe fn apart(a: Self, b: Self) -> (Self, Self);
    /// Undoes [`Vector::apart`].
    unsafe fn together(even: Self, odd: Self) -> (Self, Self);
    /// The elements in opposite order.
    unsafe fn reverse(self) -> Self;
    /// The first half of a transposition of sixteen vectors of sixteen elements, of four of the vectors: of each four elements that
    /// stand in a quarter, vector `c` of the result has those in place `c`. Other vectors stay as they are.
    #[inline(always)]
    unsafe fn columns_of_quarters(r: [Self; 4]) -> [Self; 4] {
        r
    }
    /// The second half, of vector `c` of each four: vector `q` of the result becomes vector `4 q + c` of the transpose.
    #[inline(always)]
    unsafe fn quarters_of_columns(r: [Self; 4]) -> [Self; 4] {
        r
    }
    /// Transposes `N` vectors, times `scale`.
    ///
    /// # Safety
    /// `read(k)` and `write(k)` are valid for `N` elements, for each `k` below `N`; all is read before anything is written.
    unsafe fn square(
        read: impl Fn(usize) -> *const Self::T,
        write: impl Fn(usize) -> *mut Self::T,
        scale: Option<Self>,
    );
}

/// A body over vectors, which is compiled for each kind of them. Mark [`Body::run`] with `#[inline(always)]`, and everything that it
/// calls: only inlined code is compiled for the instructions.
pub trait Body<T> {
    /// The body.
    ///
    /// # Safety
    /// The machine has the instructions of `V`.
    unsafe fn run<V: Vector<T = T>>(self);
}
/// A float that there are vectors of.
pub trait Vectored: Copy {
    /// Elements of a vector at a level.
    fn lanes(level: Level) -> usize;
    /// Runs a body with the vectors of a level.
    ///
    /// # Panics
    /// Where there are none: see [`are_there`].
    fn run<B: Body<Self>>(level: Level, body: B);
}
/// Whether there are vectors at a level. What works by vectors is large, so there are none of plain arrays on x86-64, whose processors
/// have better ones since 2013; others go the way of single matrices and lines. Tests have them (feature `plain-vectors`), since on
/// other machines there is nothing else.
pub const fn are_there(level: Level) -> bool {
    cfg!(any(not(target_arch = "x86_64"), feature = "plain-vectors")) || !matches!(level, Level::Portable)
}
macro_rules! vectored {
    ($($t:ty: $v4:ident $v3:ident;)*) => {$(
        impl Vectored for $t {
            fn lanes(level: Level) -> usize {
                #[cfg(target_arch = "x86_64")]
                match level {
                    Level::V4 => return x86::$v4::N,
                    Level::V3 => return x86::$v3::N,
                    Level::Portable => {}
                }
                let _ = level;
                Plain::<$t>::N
            }
            fn run<B: Body<$t>>(level: Level, body: B) {
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma")]
                    fn v4<B: Body<$t>>(body: B) {
                        // SAFETY: this function has the instructions.
                        unsafe { body.run::<x86::$v4>() }
                    }
                    #[target_feature(enable = "avx2,fma")]
                    fn v3<B: Body<$t>>(body: B) {
                        // SAFETY: as above.
                        unsafe { body.run::<x86::$v3>() }
                    }
                    // a caller may name any level
                    match level.min(isa::level()) {
                        // SAFETY: a level above the portable one was found on this machine.
                        Level::V4 => return unsafe { v4(body) },
                        // SAFETY: as above.
                        Level::V3 => return unsafe { v3(body) },
                        Level::Portable => {}
                    }
                }
                let _ = level;
                #[cfg(any(not(target_arch = "x86_64"), feature = "plain-vectors"))]
                // SAFETY: plain vectors need no instructions.
                unsafe {
                    body.run::<Plain<$t>>();
                }
                #[cfg(not(any(not(target_arch = "x86_64"), feature = "plain-vectors")))]
                {
                    drop(body);
                    unreachable!("vectors at a level that has none");
                }
            }
        }
    )*};
}
vectored! {
    f32: F16 F8;
    f64: D8 D4;
}

/// Complex numbers side by side.
#[derive(Clone, Copy)]
pub struct C<V> {
    pub re: V,
    pub im: V,
}
impl<V: Vector> C<V> {
    /// # Safety
    /// As the vector's methods; so for all that follow.
    #[inline(always)]
    pub unsafe fn add(self, o: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { C { re: self.re.add(o.re), im: self.im.add(o.im) } }
    }
    /// # Safety
    /// As for vectors.
    #[inline(always)]
    pub unsafe fn sub(self, o: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { C { re: self.re.sub(o.re), im: self.im.sub(o.im) } }
    }
    /// Times `w`.
    ///
    /// # Safety
    /// As for vectors.
    #[inline(always)]
    pub unsafe fn times(self, w: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { C { re: self.im.fnma(w.im, self.re.mul(w.re)), im: self.im.fma(w.re, self.re.mul(w.im)) } }
    }
}

/// Vectors without instructions of their own, four elements each.
#[derive(Clone, Copy)]
pub struct Plain<T>([T; 4]);
macro_rules! plain {
    ($($t:ty)*) => {$(
        impl Vector for Plain<$t> {
            type T = $t;
            type Mask = [bool; 4];
            type Wide = Plain<f64>;
            const N: usize = 4;
            #[inline(always)]
            unsafe fn load(p: *const $t) -> Self {
                // SAFETY: the caller's promise.
                Plain(unsafe { p.cast::<[$t; 4]>().read_unaligned() })
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $t) {
                // SAFETY: the caller's promise.
                unsafe { p.cast::<[$t; 4]>().write_unaligned(self.0) }
            }
            #[inline(always)]
            unsafe fn lanes(first: isize, end: isize) -> [bool; 4] {
                std::array::from_fn(|i| (first..end).contains(&(i as isize)))
            }
            #[inline(always)]
            unsafe fn load_where(mask: [bool; 4], p: *const $t) -> Self {
                // SAFETY: the caller's promise.
                Plain(std::array::from_fn(|i| if mask[i] { unsafe { *p.wrapping_add(i) } } else { 0.0 }))
            }
            #[inline(always)]
            unsafe fn store_first(self, p: *mut $t, n: usize) {
                for (i, v) in self.0.into_iter().enumerate().take(n) {
                    // SAFETY: the caller's promise.
                    unsafe { *p.add(i) = v }
                }
            }
            #[inline(always)]
            unsafe fn has_nan(self) -> bool {
                self.0.iter().any(|v| v.is_nan())
            }
            #[inline(always)]
            unsafe fn sum(self) -> $t {
                (self.0[0] + self.0[2]) + (self.0[1] + self.0[3])
            }
            #[inline(always)]
            unsafe fn splat(x: $t) -> Self {
                Plain([x; 4])
            }
            #[inline(always)]
            unsafe fn add(self, o: Self) -> Self {
                Plain(std::array::from_fn(|i| self.0[i] + o.0[i]))
            }
            #[inline(always)]
            unsafe fn sub(self, o: Self) -> Self {
                Plain(std::array::from_fn(|i| self.0[i] - o.0[i]))
            }
            #[inline(always)]
            unsafe fn mul(self, o: Self) -> Self {
                Plain(std::array::from_fn(|i| self.0[i] * o.0[i]))
            }
            #[inline(always)]
            unsafe fn fma(self, o: Self, c: Self) -> Self {
                Plain(std::array::from_fn(|i| c.0[i] + self.0[i] * o.0[i]))
            }
            #[inline(always)]
            unsafe fn fnma(self, o: Self, c: Self) -> Self {
                Plain(std::array::from_fn(|i| c.0[i] - self.0[i] * o.0[i]))
            }
            #[inline(always)]
            unsafe fn div(self, o: Self) -> Self {
                Plain(std::array::from_fn(|i| self.0[i] / o.0[i]))
            }
            #[inline(always)]
            unsafe fn sqrt(self) -> Self {
                Plain(self.0.map(<$t>::sqrt))
            }
            #[inline(always)]
            unsafe fn less(self, o: Self) -> [bool; 4] {
                std::array::from_fn(|i| self.0[i] < o.0[i])
            }
            #[inline(always)]
            unsafe fn choose(mask: [bool; 4], a: Self, b: Self) -> Self {
                Plain(std::array::from_fn(|i| if mask[i] { a.0[i] } else { b.0[i] }))
            }
            #[inline(always)]
            unsafe fn apart(a: Self, b: Self) -> (Self, Self) {
                let ([a, b, c, d], [e, f, g, h]) = (a.0, b.0);
                (Plain([a, c, e, g]), Plain([b, d, f, h]))
            }
            #[inline(always)]
            unsafe fn together(even: Self, odd: Self) -> (Self, Self) {
                let ([a, c, e, g], [b, d, f, h]) = (even.0, odd.0);
                (Plain([a, b, c, d]), Plain([e, f, g, h]))
            }
            #[inline(always)]
            unsafe fn reverse(self) -> Self {
                let [a, b, c, d] = self.0;
                Plain([d, c, b, a])
            }
            #[inline(always)]
            unsafe fn square(read: impl Fn(usize) -> *const $t, write: impl Fn(usize) -> *mut $t, scale: Option<Self>) {
                // SAFETY: the caller's promise.
                unsafe {
                    let r: [Self; 4] = std::array::from_fn(|k| Self::load(read(k)));
                    for k in 0..4 {
                        let v = Plain(std::array::from_fn(|l| r[l].0[k]));
                        match scale {
                            Some(s) => v.mul(s).store(write(k)),
                            None => v.store(write(k)),
                        }
                    }
                }
            }
        }
    )*};
}
plain!(f32 f64);

/// The vectors of x86-64's wide instruction sets.
#[cfg(target_arch = "x86_64")]
pub mod x86 {
    use super::Vector;
    use std::arch::x86_64::*;

    /// An array made in a loop that stands in the function itself: a closure would not have its instructions.
    macro_rules! each {
        ($n:literal, $k:ident => $e:expr) => {{
            let first = {
                let $k = 0usize;
                $e
            };
            let mut all = [first; $n];
            for $k in 1..$n {
                all[$k] = $e;
            }
            all
        }};
    }
    macro_rules! vector {
        ($name:ident, $raw:ty, $t:ty, $n:literal, $load:ident $store:ident $stream:ident $splat:ident $add:ident $sub:ident $mul:ident $fma:ident $fnma:ident
         $div:ident $sqrt:ident, $wide:ident $mask:ty, less($m:ident, $w:ident) $less:expr, choose($c:ident, $t1:ident, $t2:ident) $choose:expr,
         lanes($l0:ident, $l1:ident) $lanes:expr, some($lm:ident, $lp:ident) $some:expr, first($fv:ident, $fp:ident, $fn:ident) $first:expr,
         nan($nv:ident) $nan:expr, sum($sv:ident) $sum:expr, apart($a:ident, $b:ident) $apart:expr, together($e:ident, $o:ident) $together:expr, reverse($x:ident) $reverse:expr, transpose($r:ident) $transpose:block
         $(, halves { $($halves:item)* })?) => {
            #[derive(Clone, Copy)]
            pub struct $name($raw);
            impl $name {
                /// A vector of the instructions' own type.
                #[inline(always)]
                pub fn of(v: $raw) -> Self {
                    $name(v)
                }
            }
            impl Vector for $name {
                type T = $t;
                type Mask = $mask;
                type Wide = $wide;
                const N: usize = $n;
                #[inline(always)]
                unsafe fn load(p: *const $t) -> Self {
                    // SAFETY: the caller's promise; so for all that follow.
                    unsafe { $name($load(p)) }
                }
                #[inline(always)]
                unsafe fn store(self, p: *mut $t) {
                    // SAFETY: as above.
                    unsafe { $store(p, self.0) }
                }
                #[inline(always)]
                unsafe fn stream(self, p: *mut $t) {
                    // SAFETY: as above.
                    unsafe { $stream(p, self.0) }
                }
                #[inline(always)]
                unsafe fn lanes($l0: isize, $l1: isize) -> $mask {
                    // SAFETY: as above.
                    unsafe { $lanes }
                }
                #[inline(always)]
                unsafe fn load_where($lm: $mask, $lp: *const $t) -> Self {
                    // SAFETY: as above.
                    unsafe { $name($some) }
                }
                #[inline(always)]
                unsafe fn store_first(self, $fp: *mut $t, $fn: usize) {
                    let $fv = self.0;
                    // SAFETY: as above.
                    unsafe { $first }
                }
                #[inline(always)]
                unsafe fn has_nan(self) -> bool {
                    let $nv = self.0;
                    // SAFETY: as above.
                    unsafe { $nan }
                }
                #[inline(always)]
                unsafe fn sum(self) -> $t {
                    let $sv = self.0;
                    // SAFETY: as above.
                    unsafe { $sum }
                }
                #[inline(always)]
                unsafe fn splat(x: $t) -> Self {
                    // SAFETY: as above.
                    unsafe { $name($splat(x)) }
                }
                #[inline(always)]
                unsafe fn add(self, o: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $name($add(self.0, o.0)) }
                }
                #[inline(always)]
                unsafe fn sub(self, o: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $name($sub(self.0, o.0)) }
                }
                #[inline(always)]
                unsafe fn mul(self, o: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $name($mul(self.0, o.0)) }
                }
                #[inline(always)]
                unsafe fn fma(self, o: Self, c: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $name($fma(self.0, o.0, c.0)) }
                }
                #[inline(always)]
                unsafe fn fnma(self, o: Self, c: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $name($fnma(self.0, o.0, c.0)) }
                }
                #[inline(always)]
                unsafe fn div(self, o: Self) -> Self {
                    // SAFETY: as above.
                    unsafe { $name($div(self.0, o.0)) }
                }
                #[inline(always)]
                unsafe fn sqrt(self) -> Self {
                    // SAFETY: as above.
                    unsafe { $name($sqrt(self.0)) }
                }
                #[inline(always)]
                unsafe fn less(self, o: Self) -> $mask {
                    let ($m, $w) = (self.0, o.0);
                    // SAFETY: as above.
                    unsafe { $less }
                }
                #[inline(always)]
                unsafe fn choose($c: $mask, a: Self, b: Self) -> Self {
                    let ($t1, $t2) = (a.0, b.0);
                    // SAFETY: as above.
                    unsafe { $name($choose) }
                }
                #[inline(always)]
                unsafe fn apart(a: Self, b: Self) -> (Self, Self) {
                    let ($a, $b) = (a.0, b.0);
                    // SAFETY: as above.
                    let (a, b) = unsafe { $apart };
                    ($name(a), $name(b))
                }
                #[inline(always)]
                unsafe fn together(even: Self, odd: Self) -> (Self, Self) {
                    let ($e, $o) = (even.0, odd.0);
                    // SAFETY: as above.
                    let (a, b) = unsafe { $together };
                    ($name(a), $name(b))
                }
                #[inline(always)]
                unsafe fn reverse(self) -> Self {
                    let $x = self.0;
                    // SAFETY: as above.
                    unsafe { $name($reverse) }
                }
                $($($halves)*)?
                #[inline(always)]
                unsafe fn square(
                    read: impl Fn(usize) -> *const $t,
                    write: impl Fn(usize) -> *mut $t,
                    scale: Option<Self>,
                ) {
                    // SAFETY: as above.
                    unsafe {
                        let $r: [$raw; $n] = each!($n, k => $load(read(k)));
                        let r: [$raw; $n] = $transpose;
                        for (k, v) in r.into_iter().enumerate() {
                            match scale {
                                Some(s) => $store(write(k), $mul(v, s.0)),
                                None => $store(write(k), v),
                            }
                        }
                    }
                }
            }
        };
    }
    vector!(
        F8, __m256, f32, 8, _mm256_loadu_ps _mm256_storeu_ps _mm256_stream_ps _mm256_set1_ps _mm256_add_ps _mm256_sub_ps _mm256_mul_ps
        _mm256_fmadd_ps _mm256_fnmadd_ps _mm256_div_ps _mm256_sqrt_ps, D4 __m256,
        less(a, b) _mm256_cmp_ps::<_CMP_LT_OQ>(a, b), choose(m, a, b) _mm256_blendv_ps(b, a, m),
        lanes(first, end) {
            let n = |v: isize| _mm256_set1_epi32(v.clamp(-1, 8) as i32);
            let l = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_cmpgt_epi32(n(first), l), _mm256_cmpgt_epi32(n(end), l)))
        },
        some(m, p) _mm256_maskload_ps(p, _mm256_castps_si256(m)),
        // by halves: a store by a mask takes some processors dozens of cycles
        first(v, p, n) {
            if n >= 8 {
                return _mm256_storeu_ps(p, v);
            }
            let (mut v, mut at, high) = (_mm256_castps256_ps128(v), p, _mm256_extractf128_ps::<1>(v));
            if n & 4 != 0 {
                _mm_storeu_ps(at, v);
                (v, at) = (high, at.wrapping_add(4));
            }
            if n & 2 != 0 {
                _mm_storel_epi64(at.cast(), _mm_castps_si128(v));
                (v, at) = (_mm_movehl_ps(v, v), at.wrapping_add(2));
            }
            if n & 1 != 0 {
                _mm_store_ss(at, v);
            }
        },
        nan(v) _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v)) != 0,
        sum(v) {
            let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
            let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
            _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
        },
        apart(a, b) {
            let (low, high) = (_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b));
            (_mm256_shuffle_ps::<0x88>(low, high), _mm256_shuffle_ps::<0xdd>(low, high))
        },
        together(e, o) {
            let (low, high) = (_mm256_unpacklo_ps(e, o), _mm256_unpackhi_ps(e, o));
            (_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high))
        },
        reverse(x) _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0)),
        transpose(r) {
            let a: [__m256; 8] = each!(8, k => {
                let (x, y) = (r[k & !1], r[k | 1]);
                if k.is_multiple_of(2) { _mm256_unpacklo_ps(x, y) } else { _mm256_unpackhi_ps(x, y) }
            });
            // columns k % 4 of four rows in each half
            let b: [__m256; 8] = each!(8, k => {
                let (x, y) = (a[(k & 4) + (k % 4) / 2], a[(k & 4) + (k % 4) / 2 + 2]);
                if k.is_multiple_of(2) { _mm256_shuffle_ps::<0x44>(x, y) } else { _mm256_shuffle_ps::<0xee>(x, y) }
            });
            each!(8, k => {
                let (x, y) = (b[k % 4], b[k % 4 + 4]);
                if k < 4 { _mm256_permute2f128_ps::<0x20>(x, y) } else { _mm256_permute2f128_ps::<0x31>(x, y) }
            })
        }
    );
    vector!(
        D4, __m256d, f64, 4, _mm256_loadu_pd _mm256_storeu_pd _mm256_stream_pd _mm256_set1_pd _mm256_add_pd _mm256_sub_pd _mm256_mul_pd
        _mm256_fmadd_pd _mm256_fnmadd_pd _mm256_div_pd _mm256_sqrt_pd, D4 __m256d,
        less(a, b) _mm256_cmp_pd::<_CMP_LT_OQ>(a, b), choose(m, a, b) _mm256_blendv_pd(b, a, m),
        lanes(first, end) {
            let n = |v: isize| _mm256_set1_epi64x(v.clamp(-1, 4) as i64);
            let l = _mm256_setr_epi64x(0, 1, 2, 3);
            _mm256_castsi256_pd(_mm256_andnot_si256(_mm256_cmpgt_epi64(n(first), l), _mm256_cmpgt_epi64(n(end), l)))
        },
        some(m, p) _mm256_maskload_pd(p, _mm256_castpd_si256(m)),
        first(v, p, n) {
            if n >= 4 {
                return _mm256_storeu_pd(p, v);
            }
            let (mut v, mut at, high) = (_mm256_castpd256_pd128(v), p, _mm256_extractf128_pd::<1>(v));
            if n & 2 != 0 {
                _mm_storeu_pd(at, v);
                (v, at) = (high, at.wrapping_add(2));
            }
            if n & 1 != 0 {
                _mm_store_sd(at, v);
            }
        },
        nan(v) _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_UNORD_Q>(v, v)) != 0,
        sum(v) {
            let v = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd::<1>(v));
            _mm_cvtsd_f64(_mm_add_sd(v, _mm_unpackhi_pd(v, v)))
        },
        apart(a, b) {
            let (low, high) = (_mm256_permute2f128_pd::<0x20>(a, b), _mm256_permute2f128_pd::<0x31>(a, b));
            (_mm256_unpacklo_pd(low, high), _mm256_unpackhi_pd(low, high))
        },
        together(e, o) {
            let (low, high) = (_mm256_unpacklo_pd(e, o), _mm256_unpackhi_pd(e, o));
            (_mm256_permute2f128_pd::<0x20>(low, high), _mm256_permute2f128_pd::<0x31>(low, high))
        },
        reverse(x) _mm256_permute4x64_pd::<0x1b>(x),
        transpose(r) {
            let a: [__m256d; 4] = each!(4, k => {
                let (x, y) = (r[k & !1], r[k | 1]);
                if k.is_multiple_of(2) { _mm256_unpacklo_pd(x, y) } else { _mm256_unpackhi_pd(x, y) }
            });
            each!(4, k => {
                let (x, y) = (a[k % 2], a[k % 2 + 2]);
                if k < 2 { _mm256_permute2f128_pd::<0x20>(x, y) } else { _mm256_permute2f128_pd::<0x31>(x, y) }
            })
        }
    );
    vector!(
        F16, __m512, f32, 16, _mm512_loadu_ps _mm512_storeu_ps _mm512_stream_ps _mm512_set1_ps _mm512_add_ps _mm512_sub_ps _mm512_mul_ps
        _mm512_fmadd_ps _mm512_fnmadd_ps _mm512_div_ps _mm512_sqrt_ps, D8 __mmask16,
        less(a, b) _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), choose(m, a, b) _mm512_mask_blend_ps(m, b, a),
        lanes(first, end) {
            let below = |n: isize| ((1u32 << n.clamp(0, 16)) - 1) as __mmask16;
            _kandn_mask16(below(first), below(end))
        },
        some(m, p) _mm512_maskz_loadu_ps(m, p),
        first(v, p, n) _mm512_mask_storeu_ps(p, ((1u32 << n.min(16)) - 1) as __mmask16, v),
        nan(v) _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v) != 0,
        sum(v) _mm512_reduce_add_ps(v),
        apart(a, b) {
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
            (_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b))
        },
        together(e, o) {
            let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            (_mm512_permutex2var_ps(e, low, o), _mm512_permutex2var_ps(e, high, o))
        },
        reverse(x) _mm512_permutexvar_ps(_mm512_setr_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), x),
        transpose(r) {
            let a: [__m512; 16] = each!(16, k => {
                let (x, y) = (r[k & !1], r[k | 1]);
                if k.is_multiple_of(2) { _mm512_unpacklo_ps(x, y) } else { _mm512_unpackhi_ps(x, y) }
            });
            // columns k % 4 of four rows in each quarter
            let b: [__m512; 16] = each!(16, k => {
                let (x, y) = (a[(k & 12) + (k % 4) / 2], a[(k & 12) + (k % 4) / 2 + 2]);
                if k.is_multiple_of(2) { _mm512_shuffle_ps::<0x44>(x, y) } else { _mm512_shuffle_ps::<0xee>(x, y) }
            });
            // b[4 g + c]: quarter q has column 4 q + c of rows 4 g .. 4 g + 4
            let c: [__m512; 16] = each!(16, k => {
                let (x, y) = (b[(k & 8) + k % 4], b[(k & 8) + k % 4 + 4]);
                if k & 4 == 0 { _mm512_shuffle_f32x4::<0x88>(x, y) } else { _mm512_shuffle_f32x4::<0xdd>(x, y) }
            });
            // c[8 h + 4 odd + c]: quarters (q of group 2h: even/odd pair), then of group 2h + 1
            each!(16, k => {
                let (q, col) = (k / 4, k % 4);
                let (x, y) = (c[4 * (q % 2) + col], c[8 + 4 * (q % 2) + col]);
                if q < 2 { _mm512_shuffle_f32x4::<0x88>(x, y) } else { _mm512_shuffle_f32x4::<0xdd>(x, y) }
            })
        },
        halves {
            #[inline(always)]
            unsafe fn columns_of_quarters([a, b, c, d]: [Self; 4]) -> [Self; 4] {
                // SAFETY: the caller has the instructions.
                unsafe {
                    let (x, y) = (_mm512_unpacklo_ps(a.0, b.0), _mm512_unpacklo_ps(c.0, d.0));
                    let (z, w) = (_mm512_unpackhi_ps(a.0, b.0), _mm512_unpackhi_ps(c.0, d.0));
                    [
                        F16(_mm512_shuffle_ps::<0x44>(x, y)),
                        F16(_mm512_shuffle_ps::<0xee>(x, y)),
                        F16(_mm512_shuffle_ps::<0x44>(z, w)),
                        F16(_mm512_shuffle_ps::<0xee>(z, w)),
                    ]
                }
            }
            #[inline(always)]
            unsafe fn quarters_of_columns([a, b, c, d]: [Self; 4]) -> [Self; 4] {
                // SAFETY: the caller has the instructions.
                unsafe {
                    let even = (_mm512_shuffle_f32x4::<0x88>(a.0, b.0), _mm512_shuffle_f32x4::<0x88>(c.0, d.0));
                    let odd = (_mm512_shuffle_f32x4::<0xdd>(a.0, b.0), _mm512_shuffle_f32x4::<0xdd>(c.0, d.0));
                    [
                        F16(_mm512_shuffle_f32x4::<0x88>(even.0, even.1)),
                        F16(_mm512_shuffle_f32x4::<0x88>(odd.0, odd.1)),
                        F16(_mm512_shuffle_f32x4::<0xdd>(even.0, even.1)),
                        F16(_mm512_shuffle_f32x4::<0xdd>(odd.0, odd.1)),
                    ]
                }
            }
        }
    );
    vector!(
        D8, __m512d, f64, 8, _mm512_loadu_pd _mm512_storeu_pd _mm512_stream_pd _mm512_set1_pd _mm512_add_pd _mm512_sub_pd _mm512_mul_pd
        _mm512_fmadd_pd _mm512_fnmadd_pd _mm512_div_pd _mm512_sqrt_pd, D8 __mmask8,
        less(a, b) _mm512_cmp_pd_mask::<_CMP_LT_OQ>(a, b), choose(m, a, b) _mm512_mask_blend_pd(m, b, a),
        lanes(first, end) {
            let below = |n: isize| ((1u32 << n.clamp(0, 8)) - 1) as __mmask8;
            _kandn_mask8(below(first), below(end))
        },
        some(m, p) _mm512_maskz_loadu_pd(m, p),
        first(v, p, n) _mm512_mask_storeu_pd(p, ((1u32 << n.min(8)) - 1) as __mmask8, v),
        nan(v) _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(v, v) != 0,
        sum(v) _mm512_reduce_add_pd(v),
        apart(a, b) {
            let (even, odd) = (_mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15));
            (_mm512_permutex2var_pd(a, even, b), _mm512_permutex2var_pd(a, odd, b))
        },
        together(e, o) {
            let (low, high) = (_mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15));
            (_mm512_permutex2var_pd(e, low, o), _mm512_permutex2var_pd(e, high, o))
        },
        reverse(x) _mm512_permutexvar_pd(_mm512_setr_epi64(7, 6, 5, 4, 3, 2, 1, 0), x),
        transpose(r) {
            // a[2 g + c]: quarter q has column 2 q + c of rows 2 g, 2 g + 1
            let a: [__m512d; 8] = each!(8, k => {
                let (x, y) = (r[k & !1], r[k | 1]);
                if k.is_multiple_of(2) { _mm512_unpacklo_pd(x, y) } else { _mm512_unpackhi_pd(x, y) }
            });
            let b: [__m512d; 8] = each!(8, k => {
                let (x, y) = (a[(k & 4) + k % 2], a[(k & 4) + k % 2 + 2]);
                if k & 2 == 0 { _mm512_shuffle_f64x2::<0x88>(x, y) } else { _mm512_shuffle_f64x2::<0xdd>(x, y) }
            });
            each!(8, k => {
                let (q, col) = (k / 2, k % 2);
                let (x, y) = (b[2 * (q % 2) + col], b[4 + 2 * (q % 2) + col]);
                if q < 2 { _mm512_shuffle_f64x2::<0x88>(x, y) } else { _mm512_shuffle_f64x2::<0xdd>(x, y) }
            })
        }
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of vectors: `x` has 32 numbers.
    struct Parts<'a, T>(&'a [T]);
    macro_rules! parts {
        ($($t:ty)*) => {$(
            impl Body<$t> for Parts<'_, $t> {
                #[inline(always)]
                unsafe fn run<V: Vector<T = $t>>(self) {
                    // SAFETY: the machine has the vectors; `x` and `to` are longer than they are.
                    unsafe {
                        for (first, end) in (-2..=V::N as isize + 2).flat_map(|a| [0, 3, 5, 7, 40].map(|b| (a, a + b))) {
                            let mut to = [0.0; 32];
                            V::load_where(V::lanes(first, end), self.0.as_ptr()).store(to.as_mut_ptr());
                            let want = |i: usize| if (first..end).contains(&(i as isize)) { self.0[i] } else { 0.0 };
                            assert!((0..V::N).all(|i| to[i] == want(i)), "{first} {end} {to:?}");
                        }
                        let v = V::load(self.0.as_ptr());
                        for n in 0..V::N + 2 {
                            let mut to = [-1.0; 32];
                            v.store_first(to.as_mut_ptr(), n);
                            let want = |i: usize| if i < n.min(V::N) { self.0[i] } else { -1.0 };
                            assert!((0..32).all(|i| to[i] == want(i)), "{n} {to:?}");
                        }
                        assert_eq!(v.sum(), self.0[..V::N].iter().sum::<$t>());
                        assert!(!v.has_nan());
                        for i in 0..V::N {
                            let mut x = self.0.to_vec();
                            x[i] = <$t>::NAN;
                            assert!(V::load(x.as_ptr()).has_nan());
                        }
                    }
                }
            }
        )*};
    }
    parts!(f32 f64);

    #[test]
    fn parts_of_vectors() {
        for level in [Level::Portable, Level::V3, Level::V4] {
            if level <= isa::level() && are_there(level) {
                f32::run(level, Parts(&std::array::from_fn::<f32, 32, _>(|i| i as f32 + 1.0)));
                f64::run(level, Parts(&std::array::from_fn::<f64, 32, _>(|i| i as f64 + 1.0)));
            }
        }
    }
}
