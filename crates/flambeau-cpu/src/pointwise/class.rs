//! Classes of dtypes: how a formula becomes kernels over memory.

use std::marker::PhantomData;
use std::num::Wrapping;

use half::f16;
use num_complex::Complex;

use super::drive::{Conv, Desc, Kernel, Slot, drive};
use super::{Loop, LoopFn, Param};
use crate::DType;
use crate::dtype::{B8, Element};
use crate::isa::{Isa, Level, Portable, V3, V4};
use crate::real::{Cx, Fl, Int, Real};

/// The inputs of one element.
pub trait Args: Copy {
    /// How many.
    const N: usize;
    /// Their sizes in bytes.
    const SIZES: [usize; 3];
    /// Reads input `k` at index `i[k]`.
    ///
    /// # Safety
    /// The pointers must be valid at these indices.
    unsafe fn read(p: [*const u8; 3], i: [usize; 3]) -> Self;
}
impl<T: Copy, const N: usize> Args for [T; N] {
    const N: usize = N;
    const SIZES: [usize; 3] = [size_of::<T>(); 3];
    #[inline(always)]
    unsafe fn read(p: [*const u8; 3], i: [usize; 3]) -> Self {
        // SAFETY: the caller vouches for the pointers; N is at most 3.
        std::array::from_fn(|k| unsafe { *p[k].cast::<T>().add(i[k]) })
    }
}
impl<T: Copy> Args for (B8, T) {
    const N: usize = 2;
    const SIZES: [usize; 3] = [1, size_of::<T>(), 0];
    #[inline(always)]
    unsafe fn read(p: [*const u8; 3], i: [usize; 3]) -> Self {
        // SAFETY: the caller vouches for the pointers.
        unsafe { (*p[0].cast::<B8>().add(i[0]), *p[1].cast::<T>().add(i[1])) }
    }
}
impl<T: Copy> Args for (B8, T, T) {
    const N: usize = 3;
    const SIZES: [usize; 3] = [1, size_of::<T>(), size_of::<T>()];
    #[inline(always)]
    unsafe fn read(p: [*const u8; 3], i: [usize; 3]) -> Self {
        // SAFETY: the caller vouches for the pointers.
        unsafe { (*p[0].cast::<B8>().add(i[0]), *p[1].cast::<T>().add(i[1]), *p[2].cast::<T>().add(i[2])) }
    }
}

/// A formula over memory elements with its scalar arguments loaded.
pub trait Formula: Copy {
    /// What it reads.
    type In: Args;
    /// What it writes.
    type Out: Copy;
    /// Loads the scalar arguments.
    ///
    /// # Safety
    /// `params` must point to as many values as the formula names.
    unsafe fn new(params: *const Param) -> Self;
    /// One element.
    fn f<I: Isa>(self, x: Self::In) -> Self::Out;
}

/// The contiguous loops of a formula. `form` 0: all inputs are runs; 1 or 2: that input of a binary one is a scalar.
#[inline(always)]
unsafe fn body<I: Isa, F: Formula>(
    out: *mut u8,
    ins: [*const u8; 3],
    n: usize,
    params: *const Param,
    form: u8,
) {
    let out = out.cast::<F::Out>();
    // SAFETY: the caller passes enough parameters, and `n` valid elements behind every pointer.
    unsafe {
        let f = F::new(params);
        match form {
            1 if F::In::N == 2 => (0..n).for_each(|i| *out.add(i) = f.f::<I>(F::In::read(ins, [0, i, i]))),
            2 if F::In::N == 2 => (0..n).for_each(|i| *out.add(i) = f.f::<I>(F::In::read(ins, [i, 0, i]))),
            _ => (0..n).for_each(|i| *out.add(i) = f.f::<I>(F::In::read(ins, [i, i, i]))),
        }
    }
}
unsafe fn kernel_portable<F: Formula>(
    out: *mut u8,
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
unsafe fn kernel_v3<F: Formula>(out: *mut u8, ins: [*const u8; 3], n: usize, p: *const Param, form: u8) {
    // SAFETY: same contract.
    unsafe { body::<V3, F>(out, ins, n, p, form) }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn kernel_v4<F: Formula>(out: *mut u8, ins: [*const u8; 3], n: usize, p: *const Param, form: u8) {
    // SAFETY: same contract.
    unsafe { body::<V4, F>(out, ins, n, p, form) }
}

/// Picks a kernel for an instruction set.
trait Pick {
    const KERNEL: Kernel;
}
struct On<I, F>(PhantomData<(I, F)>);
impl<F: Formula> Pick for On<Portable, F> {
    const KERNEL: Kernel = kernel_portable::<F>;
}
#[cfg(target_arch = "x86_64")]
impl<F: Formula> Pick for On<V3, F> {
    const KERNEL: Kernel = kernel_v3::<F>;
}
#[cfg(target_arch = "x86_64")]
impl<F: Formula> Pick for On<V4, F> {
    const KERNEL: Kernel = kernel_v4::<F>;
}

/// The conversions between memory and kernel: 0 none, 1 f16, 2 bf16 for inputs (`CI`) and output (`CO`).
struct Table<I, F, const CI: u8, const CO: u8>(PhantomData<(I, F)>);
impl<I, F: Formula, const CI: u8, const CO: u8> Table<I, F, CI, CO>
where
    On<I, F>: Pick,
{
    const DESC: Desc = Desc {
        kernel: <On<I, F> as Pick>::KERNEL,
        inputs: F::In::N,
        out: Slot { work: size_of::<F::Out>(), conv: Conv::of(CO) },
        ins: [
            Slot { work: F::In::SIZES[0], conv: Conv::of(CI) },
            Slot { work: F::In::SIZES[1], conv: Conv::of(CI) },
            Slot { work: F::In::SIZES[2], conv: Conv::of(CI) },
        ],
    };
    unsafe fn run(ptrs: *const *mut u8, strides: *const isize, n: usize, params: *const Param, flags: u32) {
        // SAFETY: same contract.
        unsafe { drive(&Self::DESC, ptrs, strides, n, params, flags) }
    }
}

/// The loop of a formula for an instruction set.
fn stamped<F: Formula, const CI: u8, const CO: u8>(l: Level) -> LoopFn {
    #[cfg(target_arch = "x86_64")]
    match l {
        Level::V4 => return Table::<V4, F, CI, CO>::run,
        Level::V3 => return Table::<V3, F, CI, CO>::run,
        Level::Portable => {}
    }
    let _ = l;
    Table::<Portable, F, CI, CO>::run
}
/// The loop of a formula that is compiled for the portable level only.
fn portable<F: Formula, const CI: u8, const CO: u8>() -> LoopFn {
    Table::<Portable, F, CI, CO>::run
}

macro_rules! class_trait {
    ($(#[$m:meta])* $Tr:ident ($($V:ident: $b:ident)?) $X:ty, $P:ty, $R:ty) => {
        $(#[$m])*
        pub trait $Tr<const N: usize, const P: usize>: 'static {
            /// The formula.
            fn f$(<$V: $b>)?(x: [$X; N], p: [$P; P]) -> $R;
        }
    };
}
class_trait!(/** A float formula. */ Float(V: Real) V, V, V);
class_trait!(/** An integer formula. */ Integer(V: Int) V, V, V);
class_trait!(/** A bool formula. */ Boolean() bool, bool, bool);
class_trait!(/** A complex formula. */ ComplexOp(V: Real) Cx<V>, Cx<V>, Cx<V>);
class_trait!(/** A float predicate. */ FloatBool(V: Real) V, V, bool);
class_trait!(/** An integer predicate. */ IntBool(V: Int) V, V, bool);
class_trait!(/** A complex predicate. */ ComplexBool(V: Real) Cx<V>, Cx<V>, bool);
class_trait!(/** Complex to real. */ ComplexReal(V: Real) Cx<V>, V, V);
class_trait!(/** Real to complex. */ RealComplex(V: Real) V, V, Cx<V>);

/// Defines the formula type of a class: how elements are wrapped, parameters read and results unwrapped.
macro_rules! formula {
    ($Name:ident: $Tr:ident [$($Iv:ident)?] for $T:ident: ($($bound:tt)*), where ($($w:tt)*), mem $M:ty => $O:ty, param $PT:ty,
     |$pp:ident| $load:expr, |$x:ident| $wrap:expr, |$p:ident| $wp:expr, call ($($call:ty)?), |$r:ident| $unwrap:expr) => {
        struct $Name<Op, $T, const N: usize, const P: usize> {
            p: [$PT; P],
            op: PhantomData<(Op, $T)>,
        }
        impl<Op, $T, const N: usize, const P: usize> Clone for $Name<Op, $T, N, P> where $PT: Copy {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<Op, $T, const N: usize, const P: usize> Copy for $Name<Op, $T, N, P> where $PT: Copy {}
        impl<Op: $Tr<N, P>, $T: $($bound)*, const N: usize, const P: usize> Formula for $Name<Op, $T, N, P>
        where $($w)*
        {
            type In = [$M; N];
            type Out = $O;
            #[inline(always)]
            unsafe fn new(params: *const Param) -> Self {
                // SAFETY: the caller passes P parameters.
                let p = std::array::from_fn(|k| { let $pp = unsafe { &*params.add(k) }; $load });
                $Name { p, op: PhantomData }
            }
            #[inline(always)]
            fn f<I: Isa>(self, x: Self::In) -> Self::Out {
                let $r = Op::f$(::<$call>)?(x.map(#[inline(always)] |$x| $wrap), self.p.map(#[inline(always)] |$p| $wp));
                $unwrap
            }
        }
    };
}

/// A plain float type: what ties memory elements to [`Fl`].
pub trait Plain: Copy + 'static {
    /// Rounds from f64.
    fn of(v: f64) -> Self;
    /// The computing type on an instruction set.
    type On<I: Isa>: Real<Raw = Self>;
}
impl Plain for f32 {
    #[inline(always)]
    fn of(v: f64) -> f32 {
        v as f32
    }
    type On<I: Isa> = Fl<f32, I>;
}
impl Plain for f64 {
    #[inline(always)]
    fn of(v: f64) -> f64 {
        v
    }
    type On<I: Isa> = Fl<f64, I>;
}
/// Wraps a memory complex number.
#[inline(always)]
fn cx<T: Plain, I: Isa>(z: Complex<T>) -> Cx<T::On<I>> {
    Cx { re: Real::wrap(z.re), im: Real::wrap(z.im) }
}

formula!(FloatF: Float [I] for T: (Plain), where (), mem T => T, param T,
    |p| T::of(p.re), |x| Real::wrap(x), |p| Real::wrap(p), call (T::On<I>), |r| r.raw());
formula!(FloatBoolF: FloatBool [I] for T: (Plain), where (), mem T => B8, param T,
    |p| T::of(p.re), |x| Real::wrap(x), |p| Real::wrap(p), call (T::On<I>), |r| B8::from(r));
formula!(IntF: Integer [] for T: (Copy), where (Wrapping<T>: Int), mem T => T, param Wrapping<T>,
    |p| Wrapping::<T>::of(p.int), |x| Wrapping(x), |p| p, call (Wrapping<T>), |r| r.0);
formula!(IntBoolF: IntBool [] for T: (Copy), where (Wrapping<T>: Int), mem T => B8, param Wrapping<T>,
    |p| Wrapping::<T>::of(p.int), |x| Wrapping(x), |p| p, call (Wrapping<T>), |r| B8::from(r));
formula!(BoolF: Boolean [] for T: (Copy), where (), mem B8 => B8, param bool,
    |p| p.re != 0.0 || p.im != 0.0 || p.int != 0, |x| x.get(), |p| p, call (), |r| B8::from(r));
formula!(ComplexF: ComplexOp [] for T: (Plain), where (), mem Complex<T> => Complex<T>, param Complex<T>,
    |p| Complex::new(T::of(p.re), T::of(p.im)), |x| cx::<T, I>(x), |p| cx::<T, I>(p), call (T::On<I>), |r| Complex::new(r.re.raw(), r.im.raw()));
formula!(ComplexBoolF: ComplexBool [] for T: (Plain), where (), mem Complex<T> => B8, param Complex<T>,
    |p| Complex::new(T::of(p.re), T::of(p.im)), |x| cx::<T, I>(x), |p| cx::<T, I>(p), call (T::On<I>), |r| B8::from(r));
formula!(ComplexRealF: ComplexReal [] for T: (Plain), where (), mem Complex<T> => T, param T,
    |p| T::of(p.re), |x| cx::<T, I>(x), |p| Real::wrap(p), call (T::On<I>), |r| r.raw());
formula!(RealComplexF: RealComplex [] for T: (Plain), where (), mem T => Complex<T>, param T,
    |p| T::of(p.re), |x| Real::wrap(x), |p| Real::wrap(p), call (T::On<I>), |r| Complex::new(r.re.raw(), r.im.raw()));

fn same(run: LoopFn, d: DType) -> Option<Loop> {
    Some(Loop { run, out: d, ins: [d; 3] })
}
fn to(run: LoopFn, d: DType, out: DType) -> Option<Loop> {
    Some(Loop { run, out, ins: [d; 3] })
}

/// Loops of a float formula.
pub fn float<Op: Float<N, P>, const N: usize, const P: usize>(d: DType, l: Level) -> Option<Loop> {
    match d {
        DType::F32 => same(stamped::<FloatF<Op, f32, N, P>, 0, 0>(l), d),
        DType::F64 => same(stamped::<FloatF<Op, f64, N, P>, 0, 0>(l), d),
        DType::F16 => same(stamped::<FloatF<Op, f32, N, P>, 1, 1>(l), d),
        DType::BF16 => same(stamped::<FloatF<Op, f32, N, P>, 2, 2>(l), d),
        _ => None,
    }
}
/// Loops of a float predicate.
pub fn float_bool<Op: FloatBool<N, P>, const N: usize, const P: usize>(d: DType, l: Level) -> Option<Loop> {
    match d {
        DType::F32 => to(stamped::<FloatBoolF<Op, f32, N, P>, 0, 0>(l), d, DType::Bool),
        DType::F64 => to(stamped::<FloatBoolF<Op, f64, N, P>, 0, 0>(l), d, DType::Bool),
        DType::F16 => to(stamped::<FloatBoolF<Op, f32, N, P>, 1, 0>(l), d, DType::Bool),
        DType::BF16 => to(stamped::<FloatBoolF<Op, f32, N, P>, 2, 0>(l), d, DType::Bool),
        _ => None,
    }
}
/// Loops of an integer formula.
pub fn int<Op: Integer<N, P>, const N: usize, const P: usize>(d: DType, _: Level) -> Option<Loop> {
    crate::with_dtype!(d, T in [INT, UINT] => same(portable::<IntF<Op, T, N, P>, 0, 0>(), d), else None)
}
/// Loops of an integer predicate.
pub fn int_bool<Op: IntBool<N, P>, const N: usize, const P: usize>(d: DType, _: Level) -> Option<Loop> {
    crate::with_dtype!(d, T in [INT, UINT] => to(portable::<IntBoolF<Op, T, N, P>, 0, 0>(), d, DType::Bool), else None)
}
/// The loop of a bool formula.
pub fn boolean<Op: Boolean<N, P>, const N: usize, const P: usize>(d: DType, _: Level) -> Option<Loop> {
    if d == DType::Bool { same(portable::<BoolF<Op, u8, N, P>, 0, 0>(), d) } else { None }
}
/// Loops of a complex formula.
pub fn complex<Op: ComplexOp<N, P>, const N: usize, const P: usize>(d: DType, _: Level) -> Option<Loop> {
    match d {
        DType::C64 => same(portable::<ComplexF<Op, f32, N, P>, 0, 0>(), d),
        DType::C128 => same(portable::<ComplexF<Op, f64, N, P>, 0, 0>(), d),
        DType::C32 => same(portable::<ComplexF<Op, f32, N, P>, 1, 1>(), d),
        _ => None,
    }
}
/// Loops of a complex predicate.
pub fn complex_bool<Op: ComplexBool<N, P>, const N: usize, const P: usize>(
    d: DType,
    _: Level,
) -> Option<Loop> {
    match d {
        DType::C64 => to(portable::<ComplexBoolF<Op, f32, N, P>, 0, 0>(), d, DType::Bool),
        DType::C128 => to(portable::<ComplexBoolF<Op, f64, N, P>, 0, 0>(), d, DType::Bool),
        DType::C32 => to(portable::<ComplexBoolF<Op, f32, N, P>, 1, 0>(), d, DType::Bool),
        _ => None,
    }
}
/// Loops from complex to real.
pub fn complex_real<Op: ComplexReal<N, P>, const N: usize, const P: usize>(
    d: DType,
    _: Level,
) -> Option<Loop> {
    match d {
        DType::C64 => to(portable::<ComplexRealF<Op, f32, N, P>, 0, 0>(), d, DType::F32),
        DType::C128 => to(portable::<ComplexRealF<Op, f64, N, P>, 0, 0>(), d, DType::F64),
        DType::C32 => to(portable::<ComplexRealF<Op, f32, N, P>, 1, 1>(), d, DType::F16),
        _ => None,
    }
}
/// Loops from real to complex.
pub fn real_complex<Op: RealComplex<N, P>, const N: usize, const P: usize>(
    d: DType,
    _: Level,
) -> Option<Loop> {
    match d {
        DType::F32 => to(portable::<RealComplexF<Op, f32, N, P>, 0, 0>(), d, DType::C64),
        DType::F64 => to(portable::<RealComplexF<Op, f64, N, P>, 0, 0>(), d, DType::C128),
        DType::F16 => to(portable::<RealComplexF<Op, f32, N, P>, 1, 1>(), d, DType::C32),
        _ => None,
    }
}

/// `cond ? a : b` on opaque values of a size.
#[derive(Clone, Copy)]
struct WhereF<T>(PhantomData<T>);
impl<T: Copy + 'static> Formula for WhereF<T> {
    type In = (B8, T, T);
    type Out = T;
    #[inline(always)]
    unsafe fn new(_: *const Param) -> Self {
        WhereF(PhantomData)
    }
    #[inline(always)]
    fn f<I: Isa>(self, (c, a, b): Self::In) -> T {
        if c.get() { a } else { b }
    }
}
/// Loops of `where`: bool, T, T to T, by the size of T.
pub(super) fn where_loop(d: DType, l: Level) -> Option<Loop> {
    let run = match d.size() {
        1 => stamped::<WhereF<u8>, 0, 0>(l),
        2 => stamped::<WhereF<u16>, 0, 0>(l),
        4 => stamped::<WhereF<u32>, 0, 0>(l),
        8 => stamped::<WhereF<u64>, 0, 0>(l),
        _ => stamped::<WhereF<[u64; 2]>, 0, 0>(l),
    };
    Some(Loop { run, out: d, ins: [DType::Bool, d, d] })
}

/// `mask ? value : x` with a scalar value; inputs are x and mask.
#[derive(Clone, Copy)]
struct MaskedFill<T>(T);
impl<T: Element + FromParam> Formula for MaskedFill<T> {
    type In = (B8, T);
    type Out = T;
    #[inline(always)]
    unsafe fn new(p: *const Param) -> Self {
        // SAFETY: one parameter is there.
        MaskedFill(T::from_param(unsafe { &*p }))
    }
    #[inline(always)]
    fn f<I: Isa>(self, (m, x): Self::In) -> T {
        if m.get() { self.0 } else { x }
    }
}
/// A fresh element from a scalar argument.
#[derive(Clone, Copy)]
struct Fill<T>(T);
impl<T: Element + FromParam> Formula for Fill<T> {
    type In = [T; 0];
    type Out = T;
    #[inline(always)]
    unsafe fn new(p: *const Param) -> Self {
        // SAFETY: one parameter is there.
        Fill(T::from_param(unsafe { &*p }))
    }
    #[inline(always)]
    fn f<I: Isa>(self, _: Self::In) -> T {
        self.0
    }
}
/// Reads a scalar argument as an element.
trait FromParam: Copy {
    fn from_param(p: &Param) -> Self;
}
macro_rules! from_param {
    ($($t:ty: |$p:ident| $e:expr),* $(,)?) => {$(impl FromParam for $t { #[inline(always)] fn from_param($p: &Param) -> Self { $e } })*};
}
from_param! {
    u8: |p| p.int as u8, i8: |p| p.int as i8, i16: |p| p.int as i16, i32: |p| p.int as i32, i64: |p| p.int,
    u16: |p| p.int as u16, u32: |p| p.int as u32, u64: |p| p.int as u64,
    f32: |p| p.re as f32, f64: |p| p.re, f16: |p| f16::from_f32(p.re as f32), half::bf16: |p| half::bf16::from_f32(p.re as f32),
    Complex<f16>: |p| Complex::new(f16::from_f32(p.re as f32), f16::from_f32(p.im as f32)),
    Complex<f32>: |p| Complex::new(p.re as f32, p.im as f32), Complex<f64>: |p| Complex::new(p.re, p.im),
    B8: |p| B8::from(p.re != 0.0 || p.im != 0.0 || p.int != 0),
    crate::dtype::F8E4M3: |p| crate::dtype::F8E4M3(crate::cast::f32_to_e4m3(p.re as f32)),
    crate::dtype::F8E5M2: |p| crate::dtype::F8E5M2(crate::cast::f32_to_e5m2(p.re as f32)),
}
/// Loops of `masked_fill`: inputs are mask, x.
pub(super) fn masked_fill_loop(d: DType, l: Level) -> Option<Loop> {
    let run = crate::with_dtype!(d, T in [BOOL, INT, UINT, HALF, FLOAT, COMPLEX, C32, FP8] => stamped::<MaskedFill<T>, 0, 0>(l), else return None);
    Some(Loop { run, out: d, ins: [DType::Bool, d, d] })
}
/// Loops of `fill`.
pub(super) fn fill_loop(d: DType, _: Level) -> Option<Loop> {
    let run = crate::with_dtype!(d, T in [BOOL, INT, UINT, HALF, FLOAT, COMPLEX, C32, FP8] => portable::<Fill<T>, 0, 0>(), else return None);
    same(run, d)
}
