//! Classes of dtypes: how a formula becomes kernels over memory. What is compiled how often is a matter of build time
//! and program size, so only the hot classes have kernels of their own per dtype; the rest is staged ([`super::convert`]).

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::num::Wrapping;

use num_complex::Complex;

use super::convert::Conv;
use super::strided::{Kernel, LoopFn, Prepare, Slot};
use super::{FromParam, Loop, Param};
use crate::DType;
use crate::engine::isa::{Isa, Level, Portable, V3, V4};
use crate::num::Compute;
use crate::num::real::{Cx, Int, Real};
use crate::vmath::wide;
use flambeau_dtype::{B8, Element};

/// A formula over memory elements with its scalar arguments loaded.
pub trait Formula: Copy {
    /// How many inputs it reads.
    const N: usize;
    /// How many scalar arguments it takes.
    const P: usize;
    /// Loops of their own for a scalar on one side of a binary formula; else scalars are repeated in a block.
    const FORMS: bool;
    /// Sizes of the inputs' elements in bytes.
    const SIZES: [usize; 3];
    /// What it writes.
    type Out: Copy;
    /// Loads the scalar arguments.
    ///
    /// # Safety
    /// `params` must point to as many values as the formula names.
    unsafe fn new(params: *const Param) -> Self;
    /// One element, of the inputs `p` at the indices `i`.
    ///
    /// # Safety
    /// The first N pointers must be valid at these indices.
    unsafe fn at<I: Isa>(self, p: [*const u8; 3], i: [usize; 3]) -> Self::Out;
}

/// The contiguous loops of a formula. `form` 0: all inputs are runs; 1 or 2: that input of a binary one is a scalar.
/// That the output is a mutable slice tells the compiler that no input overlaps it.
#[inline(always)]
unsafe fn body<I: Isa, F: Formula>(
    out: &mut [MaybeUninit<u8>],
    ins: [*const u8; 3],
    n: usize,
    params: *const Param,
    form: u8,
) {
    let out = out.as_mut_ptr().cast::<F::Out>();
    // SAFETY: the caller passes enough parameters, and `n` valid elements behind every pointer.
    unsafe {
        let f = F::new(params);
        if F::FORMS && form == 1 {
            for i in 0..n {
                *out.add(i) = f.at::<I>(ins, [0, i, i]);
            }
        } else if F::FORMS && form == 2 {
            for i in 0..n {
                *out.add(i) = f.at::<I>(ins, [i, 0, i]);
            }
        } else {
            for i in 0..n {
                *out.add(i) = f.at::<I>(ins, [i, i, i]);
            }
        }
    }
}
unsafe fn kernel_portable<F: Formula>(
    out: &mut [MaybeUninit<u8>],
    ins: [*const u8; 3],
    n: usize,
    p: *const Param,
    form: u8,
) {
    // SAFETY: same contract.
    unsafe { body::<Portable, F>(out, ins, n, p, form) }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn kernel_v3<F: Formula>(
    out: &mut [MaybeUninit<u8>],
    ins: [*const u8; 3],
    n: usize,
    p: *const Param,
    form: u8,
) {
    // SAFETY: same contract.
    unsafe { body::<V3, F>(out, ins, n, p, form) }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn kernel_v4<F: Formula>(
    out: &mut [MaybeUninit<u8>],
    ins: [*const u8; 3],
    n: usize,
    p: *const Param,
    form: u8,
) {
    // SAFETY: same contract.
    unsafe { body::<V4, F>(out, ins, n, p, form) }
}

/// A kernel of `F` behind a loop that converts inputs by `i` and the output by `o`.
fn staged<F: Formula>(kernel: Kernel, i: Conv, o: Conv, prepare: Option<Prepare>) -> LoopFn {
    let slot = |k: usize| Slot { work: F::SIZES[k] as u8, conv: i };
    LoopFn {
        kernel: Some(kernel),
        prepare,
        inputs: F::N as u8,
        params: F::P as u8,
        forms: F::FORMS,
        out: Slot { work: size_of::<F::Out>() as u8, conv: o },
        ins: [slot(0), slot(1), slot(2)],
    }
}
/// The kernel for all three levels.
fn wide<F: Formula>(l: Level) -> Kernel {
    #[cfg(target_arch = "x86_64")]
    match l {
        Level::V4 => return kernel_v4::<F>,
        Level::V3 => return kernel_v3::<F>,
        Level::Portable => {}
    }
    let _ = l;
    kernel_portable::<F>
}
/// The kernel for V3 and the portable level.
fn narrow<F: Formula>(l: Level) -> Kernel {
    #[cfg(target_arch = "x86_64")]
    if l >= Level::V3 {
        return kernel_v3::<F>;
    }
    let _ = l;
    kernel_portable::<F>
}

macro_rules! class_trait {
    ($(#[$m:meta])* $Tr:ident ($($V:ident: $b:ident)?) $X:ty, $R:ty) => {
        $(#[$m])*
        pub trait $Tr: 'static {
            /// Number of inputs.
            const N: usize;
            /// Number of scalar arguments.
            const P: usize;
            /// The formula. Inputs and arguments beyond N and P mean nothing.
            fn f$(<$V: $b>)?(x: [$X; 3], p: [$X; 3]) -> $R;
        }
    };
}
class_trait!(/** A float formula. */ Float(V: Real) V, V);
class_trait!(/** An integer formula. */ Integer(V: Int) V, V);
class_trait!(/** A bool formula. */ Boolean() bool, bool);
class_trait!(/** A complex formula. */ ComplexOp(V: Real) Cx<V>, Cx<V>);
class_trait!(/** A float predicate. */ FloatBool(V: Real) V, bool);
class_trait!(/** An integer predicate. */ IntBool(V: Int) V, bool);
class_trait!(/** A complex predicate. */ ComplexBool(V: Real) Cx<V>, bool);
class_trait!(/** Complex to real. */ ComplexReal(V: Real) Cx<V>, V);
class_trait!(/** Real to complex. */ RealComplex(V: Real) V, Cx<V>);

/// Parameter `k` of `count`, 0 beyond.
///
/// # Safety
/// `params` must point to `count` values.
#[inline(always)]
unsafe fn param(params: *const Param, k: usize, count: usize) -> Param {
    // SAFETY: the caller's promise.
    if k < count { unsafe { *params.add(k) } } else { Param { re: 0.0, im: 0.0, int: 0 } }
}

/// Defines the formula type of a class: how elements are wrapped, parameters read and results unwrapped.
macro_rules! formula {
    ($Name:ident: $Tr:ident for $T:ident: ($($bound:tt)*), where ($($w:tt)*), mem $M:ty => $O:ty, param $PT:ty,
     |$pp:ident| $load:expr, |$x:ident| $wrap:expr, |$p:ident| $wp:expr, call [$($I:ident)?] ($($call:ty)?), |$r:ident| $unwrap:expr) => {
        struct $Name<Op, $T, const FORMS: bool> where $PT: Copy {
            p: [$PT; 3],
            op: PhantomData<(Op, $T)>,
        }
        impl<Op, $T, const FORMS: bool> Clone for $Name<Op, $T, FORMS> where $PT: Copy {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<Op, $T, const FORMS: bool> Copy for $Name<Op, $T, FORMS> where $PT: Copy {}
        impl<Op: $Tr, $T: $($bound)*, const FORMS: bool> Formula for $Name<Op, $T, FORMS>
        where $($w)*
        {
            const N: usize = Op::N;
            const P: usize = Op::P;
            const FORMS: bool = FORMS && Op::N == 2;
            const SIZES: [usize; 3] = [size_of::<$M>(); 3];
            type Out = $O;
            #[inline(always)]
            unsafe fn new(params: *const Param) -> Self {
                let load = |$pp: Param| $load;
                // SAFETY: the caller passes P parameters.
                let p = unsafe { [load(param(params, 0, Op::P)), load(param(params, 1, Op::P)), load(param(params, 2, Op::P))] };
                $Name { p, op: PhantomData }
            }
            #[inline(always)]
            unsafe fn at<I: Isa>(self, ptr: [*const u8; 3], i: [usize; 3]) -> $O {
                // SAFETY: the caller vouches for N pointers.
                let (x0, x1, x2) = unsafe {
                    let x0 = *ptr[0].cast::<$M>().add(i[0]);
                    (x0, if Op::N > 1 { *ptr[1].cast::<$M>().add(i[1]) } else { x0 }, if Op::N > 2 { *ptr[2].cast::<$M>().add(i[2]) } else { x0 })
                };
                let x = [{ let $x = x0; $wrap }, { let $x = x1; $wrap }, { let $x = x2; $wrap }];
                let p = [{ let $p = self.p[0]; $wp }, { let $p = self.p[1]; $wp }, { let $p = self.p[2]; $wp }];
                let $r = Op::f$(::<$call>)?(x, p);
                $unwrap
            }
        }
    };
}

/// Wraps a memory complex number.
#[inline(always)]
fn cx<T: Compute, I: Isa>(z: Complex<T>) -> Cx<T::On<I>> {
    Cx { re: Real::wrap(z.re), im: Real::wrap(z.im) }
}

formula!(FloatF: Float for T: (Compute), where (), mem T => T, param T,
    |p| T::of(p.re), |x| Real::wrap(x), |p| Real::wrap(p), call [I] (T::On<I>), |r| r.raw());
formula!(FloatBoolF: FloatBool for T: (Compute), where (), mem T => B8, param T,
    |p| T::of(p.re), |x| Real::wrap(x), |p| Real::wrap(p), call [I] (T::On<I>), |r| B8::from(r));
formula!(IntF: Integer for T: (Copy), where (Wrapping<T>: Int), mem T => T, param Wrapping<T>,
    |p| Wrapping::<T>::of(p.int), |x| Wrapping(x), |p| p, call [] (Wrapping<T>), |r| r.0);
formula!(IntBoolF: IntBool for T: (Copy), where (Wrapping<T>: Int), mem T => B8, param Wrapping<T>,
    |p| Wrapping::<T>::of(p.int), |x| Wrapping(x), |p| p, call [] (Wrapping<T>), |r| B8::from(r));
formula!(BoolF: Boolean for T: (Copy), where (), mem B8 => B8, param bool,
    |p| p.re != 0.0 || p.im != 0.0 || p.int != 0, |x| x.get(), |p| p, call [] (), |r| B8::from(r));
formula!(ComplexF: ComplexOp for T: (Compute), where (), mem Complex<T> => Complex<T>, param Complex<T>,
    |p| Complex::new(T::of(p.re), T::of(p.im)), |x| cx::<T, I>(x), |p| cx::<T, I>(p), call [I] (T::On<I>), |r| Complex::new(r.re.raw(), r.im.raw()));
formula!(ComplexBoolF: ComplexBool for T: (Compute), where (), mem Complex<T> => B8, param Complex<T>,
    |p| Complex::new(T::of(p.re), T::of(p.im)), |x| cx::<T, I>(x), |p| cx::<T, I>(p), call [I] (T::On<I>), |r| B8::from(r));
formula!(ComplexRealF: ComplexReal for T: (Compute), where (), mem Complex<T> => T, param Complex<T>,
    |p| Complex::new(T::of(p.re), T::of(p.im)), |x| cx::<T, I>(x), |p| cx::<T, I>(p), call [I] (T::On<I>), |r| r.raw());
formula!(RealComplexF: RealComplex for T: (Compute), where (), mem T => Complex<T>, param T,
    |p| T::of(p.re), |x| Real::wrap(x), |p| Real::wrap(p), call [I] (T::On<I>), |r| Complex::new(r.re.raw(), r.im.raw()));

fn same(run: LoopFn, d: DType) -> Option<Loop> {
    Some(Loop { run, out: d, ins: [d; 3] })
}
fn to(run: LoopFn, d: DType, out: DType) -> Option<Loop> {
    Some(Loop { run, out, ins: [d; 3] })
}

/// The conversion by which f64 and the 8-bit floats are computed in f64.
fn double_conv(d: DType) -> Conv {
    match d {
        DType::F8E4M3 => Conv::E4M3D,
        DType::F8E5M2 => Conv::E5M2D,
        _ => Conv::None,
    }
}
fn float_forms<Op: Float, const FORMS: bool>(d: DType, l: Level) -> Option<Loop> {
    let conv = match d {
        DType::F32 => Conv::None,
        DType::F16 => Conv::F16,
        DType::BF16 => Conv::BF16,
        DType::F64 | DType::F8E4M3 | DType::F8E5M2 => {
            let (k, conv) = (narrow::<FloatF<Op, f64, false>>(l), double_conv(d));
            return same(staged::<FloatF<Op, f64, false>>(k, conv, conv, None), d);
        }
        _ => return None,
    };
    same(staged::<FloatF<Op, f32, FORMS>>(wide::<FloatF<Op, f32, FORMS>>(l), conv, conv, None), d)
}
/// Loops of a float formula.
pub fn float<Op: Float>(d: DType, l: Level) -> Option<Loop> {
    float_forms::<Op, false>(d, l)
}
/// As [`float`], with loops of their own for scalar operands.
pub fn float_hot<Op: Float>(d: DType, l: Level) -> Option<Loop> {
    float_forms::<Op, true>(d, l)
}
/// Classes of the float formulas of which f32 has vectors of their own on AVX-512, and the dtypes that take them.
macro_rules! by_vectors {
    ($($class:ident: $function:ident, $($dtype:ident)|+;)*) => {$(
        /// As [`float`], by vectors of its own where the machine has them.
        pub fn $class<Op: Float>(d: DType, l: Level) -> Option<Loop> {
            unsafe fn kernel(out: &mut [MaybeUninit<u8>], ins: [*const u8; 3], n: usize, _: *const Param, _: u8) {
                // SAFETY: the level was asked for; the caller passes `n` valid elements, and the output overlaps no input.
                unsafe { wide::$function(out.as_mut_ptr().cast(), ins[0].cast(), n) }
            }
            let own = l == Level::V4 && wide::available() && matches!(d, $(DType::$dtype)|+);
            if !own {
                return float::<Op>(d, l);
            }
            let conv = match d {
                DType::F16 => Conv::F16,
                DType::BF16 => Conv::BF16,
                _ => Conv::None,
            };
            same(staged::<FloatF<Op, f32, false>>(kernel, conv, conv, None), d)
        }
    )*};
}
by_vectors! {
    float_exp: exp, F32 | F16 | BF16;
    float_tanh: tanh, F32 | F16 | BF16;
    float_sigmoid: sigmoid, F32 | F16 | BF16;
    float_silu: silu, F32 | F16 | BF16;
    // in its tail halves show what the vectors leave out
    float_gelu: gelu, F32;
    float_gelu_tanh: gelu_tanh, F32 | F16 | BF16;
}
/// Loops of a float formula that is computed in f64 whatever the dtype.
pub fn float_wide<Op: Float>(d: DType, l: Level) -> Option<Loop> {
    let conv = match d {
        DType::F64 => Conv::None,
        DType::F32 => Conv::F32D,
        DType::F16 => Conv::F16D,
        DType::BF16 => Conv::BF16D,
        _ => return None,
    };
    same(staged::<FloatF<Op, f64, false>>(narrow::<FloatF<Op, f64, false>>(l), conv, conv, None), d)
}
/// As [`float_wide`], for formulas that call scalar functions: one kernel.
pub fn float_scalar<Op: Float>(d: DType, _: Level) -> Option<Loop> {
    float_wide::<Op>(d, Level::Portable)
}
/// Loops of a float predicate.
pub fn float_bool<Op: FloatBool>(d: DType, l: Level) -> Option<Loop> {
    type Single<Op> = FloatBoolF<Op, f32, true>;
    type Double<Op> = FloatBoolF<Op, f64, false>;
    let conv = match d {
        DType::F32 => Conv::None,
        DType::F16 => Conv::F16,
        DType::BF16 => Conv::BF16,
        DType::F64 | DType::F8E4M3 | DType::F8E5M2 => {
            return to(
                staged::<Double<Op>>(narrow::<Double<Op>>(l), double_conv(d), Conv::None, None),
                d,
                DType::Bool,
            );
        }
        _ => return None,
    };
    to(staged::<Single<Op>>(wide::<Single<Op>>(l), conv, Conv::None, None), d, DType::Bool)
}

/// The integers that a kernel for wider ones does: conversion, and scalar arguments cut to the dtype.
fn small_int(d: DType) -> Option<(Conv, Prepare)> {
    macro_rules! cut {
        ($t:ident) => {
            |p: Param| Param { int: p.int as $t as i64, ..p }
        };
    }
    Some(match d {
        DType::U8 => (Conv::U8I, cut!(u8)),
        DType::I8 => (Conv::I8I, cut!(i8)),
        DType::I16 => (Conv::I16I, cut!(i16)),
        DType::U16 => (Conv::U16I, cut!(u16)),
        DType::U32 => (Conv::U32L, cut!(u32)),
        _ => return None,
    })
}
/// Loops of an integer formula: of i32 (for 8 and 16 bits too), i64 (for u32 too) and u64.
pub fn int<Op: Integer>(d: DType, _: Level) -> Option<Loop> {
    type F<Op, T> = IntF<Op, T, false>;
    let (conv, prepare) = small_int(d).map_or((Conv::None, None), |(c, p)| (c, Some(p)));
    match d {
        DType::U64 => same(staged::<F<Op, u64>>(kernel_portable::<F<Op, u64>>, conv, conv, None), d),
        DType::I64 | DType::U32 => {
            same(staged::<F<Op, i64>>(kernel_portable::<F<Op, i64>>, conv, conv, prepare), d)
        }
        DType::I32 | DType::U8 | DType::I8 | DType::I16 | DType::U16 => {
            same(staged::<F<Op, i32>>(kernel_portable::<F<Op, i32>>, conv, conv, prepare), d)
        }
        _ => None,
    }
}
/// Loops of an integer predicate, of the types of [`int`].
pub fn int_bool<Op: IntBool>(d: DType, _: Level) -> Option<Loop> {
    type F<Op, T> = IntBoolF<Op, T, false>;
    let (conv, prepare) = small_int(d).map_or((Conv::None, None), |(c, p)| (c, Some(p)));
    let run = match d {
        DType::U64 => staged::<F<Op, u64>>(kernel_portable::<F<Op, u64>>, conv, Conv::None, None),
        DType::I64 | DType::U32 => {
            staged::<F<Op, i64>>(kernel_portable::<F<Op, i64>>, conv, Conv::None, prepare)
        }
        DType::I32 | DType::U8 | DType::I8 | DType::I16 | DType::U16 => {
            staged::<F<Op, i32>>(kernel_portable::<F<Op, i32>>, conv, Conv::None, prepare)
        }
        _ => return None,
    };
    to(run, d, DType::Bool)
}
/// The loop of a bool formula.
pub fn boolean<Op: Boolean>(d: DType, _: Level) -> Option<Loop> {
    type F<Op> = BoolF<Op, u8, false>;
    if d != DType::Bool {
        return None;
    }
    same(staged::<F<Op>>(kernel_portable::<F<Op>>, Conv::None, Conv::None, None), d)
}

/// The conversion by which a complex dtype is computed in complex128.
fn complex_conv(d: DType) -> Option<Conv> {
    match d {
        DType::C128 => Some(Conv::None),
        DType::C64 => Some(Conv::F32D),
        DType::C32 => Some(Conv::F16D),
        DType::BC32 => Some(Conv::BF16D),
        _ => None,
    }
}
/// The real dtype of the parts.
fn part(d: DType) -> DType {
    match d {
        DType::C128 => DType::F64,
        DType::C64 => DType::F32,
        DType::BC32 => DType::BF16,
        _ => DType::F16,
    }
}
/// Loops of a complex formula, in complex128 whatever the dtype.
pub fn complex<Op: ComplexOp>(d: DType, _: Level) -> Option<Loop> {
    type F<Op> = ComplexF<Op, f64, false>;
    let conv = complex_conv(d)?;
    same(staged::<F<Op>>(kernel_portable::<F<Op>>, conv, conv, None), d)
}
/// As [`complex`], with a kernel for complex64.
pub fn complex_hot<Op: ComplexOp>(d: DType, l: Level) -> Option<Loop> {
    type F<Op> = ComplexF<Op, f32, false>;
    if d == DType::C64 {
        return same(staged::<F<Op>>(narrow::<F<Op>>(l), Conv::None, Conv::None, None), d);
    }
    complex::<Op>(d, l)
}
/// Loops of a complex predicate.
pub fn complex_bool<Op: ComplexBool>(d: DType, _: Level) -> Option<Loop> {
    type F<Op> = ComplexBoolF<Op, f64, false>;
    to(staged::<F<Op>>(kernel_portable::<F<Op>>, complex_conv(d)?, Conv::None, None), d, DType::Bool)
}
/// Loops from complex to real.
pub fn complex_real<Op: ComplexReal>(d: DType, _: Level) -> Option<Loop> {
    type F<Op> = ComplexRealF<Op, f64, false>;
    let conv = complex_conv(d)?;
    to(staged::<F<Op>>(kernel_portable::<F<Op>>, conv, conv, None), d, part(d))
}
/// Loops from real to complex.
pub fn real_complex<Op: RealComplex>(d: DType, _: Level) -> Option<Loop> {
    type F<Op> = RealComplexF<Op, f64, false>;
    let (conv, out) = match d {
        DType::F64 => (Conv::None, DType::C128),
        DType::F32 => (Conv::F32D, DType::C64),
        DType::F16 => (Conv::F16D, DType::C32),
        _ => return None,
    };
    to(staged::<F<Op>>(kernel_portable::<F<Op>>, conv, conv, None), d, out)
}

/// `nextafter` on the bits of a 16-bit float whose infinity is `INF`.
#[derive(Clone, Copy)]
struct NextHalf<const INF: u16>;
impl<const INF: u16> Formula for NextHalf<INF> {
    const N: usize = 2;
    const P: usize = 0;
    const FORMS: bool = false;
    const SIZES: [usize; 3] = [2, 2, 0];
    type Out = u16;
    unsafe fn new(_: *const Param) -> Self {
        NextHalf
    }
    unsafe fn at<I: Isa>(self, p: [*const u8; 3], i: [usize; 3]) -> u16 {
        // SAFETY: the caller vouches for the pointers.
        let (a, b) = unsafe { (*p[0].cast::<u16>().add(i[0]), *p[1].cast::<u16>().add(i[1])) };
        let magnitude = |v: u16| v & 0x7fff;
        if magnitude(a) > INF {
            return a;
        }
        // numbers in the order of their bits
        let key = |v: u16| if v & 0x8000 == 0 { v as i32 } else { -(magnitude(v) as i32) };
        if magnitude(b) > INF || key(a) == key(b) {
            return b;
        }
        let next = key(a) + if key(b) > key(a) { 1 } else { -1 };
        let sign = if next == 0 { a & 0x8000 } else { ((next < 0) as u16) << 15 };
        sign | next.unsigned_abs() as u16
    }
}
/// Loops of `nextafter`.
pub(super) fn nextafter_loop(d: DType, l: Level) -> Option<Loop> {
    let half = |run| same(run, d);
    match d {
        DType::F16 => half(staged::<NextHalf<0x7c00>>(
            kernel_portable::<NextHalf<0x7c00>>,
            Conv::None,
            Conv::None,
            None,
        )),
        DType::BF16 => half(staged::<NextHalf<0x7f80>>(
            kernel_portable::<NextHalf<0x7f80>>,
            Conv::None,
            Conv::None,
            None,
        )),
        _ => (super::arithmetic::NEXTAFTER_WIDE.lookup)(d, l),
    }
}

/// Opaque elements: what `where` and `fill` move.
macro_rules! moving {
    ($Name:ident: $n:literal, $p:literal, |$T:ident| $sizes:expr, |$v:ident, $ptr:ident, $i:ident| $at:expr) => {
        #[derive(Clone, Copy)]
        struct $Name<T>(Option<T>);
        impl<$T: Copy> Formula for $Name<$T> {
            const N: usize = $n;
            const P: usize = $p;
            const FORMS: bool = false;
            const SIZES: [usize; 3] = $sizes;
            type Out = $T;
            #[inline(always)]
            unsafe fn new(params: *const Param) -> Self {
                // SAFETY: `prepare` has put the element at the start of the parameter, which is larger.
                $Name(if $p == 1 { Some(unsafe { params.cast::<$T>().read_unaligned() }) } else { None })
            }
            #[inline(always)]
            unsafe fn at<I: Isa>(self, $ptr: [*const u8; 3], $i: [usize; 3]) -> $T {
                let $v = self.0;
                // SAFETY: the caller vouches for the pointers; `new` has set the value where there is one.
                unsafe { $at }
            }
        }
    };
}
moving!(WhereF: 3, 0, |T| [1, size_of::<T>(), size_of::<T>()],
    |_v, p, i| if (*p[0].cast::<B8>().add(i[0])).get() { *p[1].cast::<T>().add(i[1]) } else { *p[2].cast::<T>().add(i[2]) });
moving!(Fill: 0, 1, |T| [0, 0, 0], |v, _p, _i| v.unwrap_unchecked());

/// A loop of opaque elements of the size of `d`.
macro_rules! by_size {
    ($d:expr, $l:expr, $F:ident, $prepare:expr) => {
        match $d.size() {
            1 => staged::<$F<u8>>(wide::<$F<u8>>($l), Conv::None, Conv::None, $prepare),
            2 => staged::<$F<u16>>(wide::<$F<u16>>($l), Conv::None, Conv::None, $prepare),
            4 => staged::<$F<u32>>(wide::<$F<u32>>($l), Conv::None, Conv::None, $prepare),
            8 => staged::<$F<u64>>(wide::<$F<u64>>($l), Conv::None, Conv::None, $prepare),
            _ => staged::<$F<[u64; 2]>>(wide::<$F<[u64; 2]>>($l), Conv::None, Conv::None, $prepare),
        }
    };
}

/// Loops of `where`: bool, T, T to T, by the size of T.
pub(super) fn where_loop(d: DType, l: Level) -> Option<Loop> {
    Some(Loop { run: by_size!(d, l, WhereF, None), out: d, ins: [DType::Bool, d, d] })
}

/// A parameter that starts with the bytes of the element which it stands for.
fn element_param<T: FromParam + Element>(p: Param) -> Param {
    let mut out = Param::default();
    // SAFETY: a parameter is larger than any element, and any bytes are valid for its fields.
    unsafe { (&raw mut out).cast::<T>().write_unaligned(T::from_param(p)) };
    out
}
/// How a scalar argument becomes an element of `d`.
fn raw_param(d: DType) -> Option<Prepare> {
    crate::with_dtype!(d, T in [BOOL, INT, UINT, HALF, FLOAT, COMPLEX, C32, BC32, FP8] => Some(element_param::<T> as Prepare), else None)
}
/// Loops of `fill`.
pub(super) fn fill_loop(d: DType, l: Level) -> Option<Loop> {
    let prepare = Some(raw_param(d)?);
    same(by_size!(d, l, Fill, prepare), d)
}
