//! What the `erased` modules share: dispatch on the dtype, and detours over a wider type for dtypes that are not worth
//! kernels of their own.

use crate::engine::room::{collected, filled};
use crate::num::stored::{self, Stored};
use crate::num::{Num, Truth};
use crate::{Any, AnyMut, B8, DType, with_dtype};
use num_complex::Complex;

/// `erased!(x, T in [SETS], same(a, b) => body)`: `Some(body)` with `T` bound to the type of `x`, where `a`, `b` (slices,
/// or options of slices) must have that dtype too; `None` for any other dtype.
#[macro_export]
macro_rules! erased {
    ($x:expr, $T:ident in [$($set:ident),+] $(, same($($o:expr),+))? => $body:expr) => {{
        let d = $x.dtype();
        if true $($(&& $crate::engine::erase::Typed::is(&$o, d))+)? {
            $crate::with_dtype!(d, $T in [$($set),+] => Some($body), else None)
        } else {
            None
        }
    }};
}
pub use erased;

/// Something whose dtype can be compared.
pub trait Typed {
    /// Of that dtype, or absent.
    fn is(&self, d: DType) -> bool;
}
impl Typed for Any<'_> {
    fn is(&self, d: DType) -> bool {
        self.dtype() == d
    }
}
impl Typed for AnyMut<'_> {
    fn is(&self, d: DType) -> bool {
        self.dtype() == d
    }
}
impl<A: Typed> Typed for Option<A> {
    fn is(&self, d: DType) -> bool {
        self.as_ref().is_none_or(|a| a.is(d))
    }
}

/// The dtype that a dtype's sums are computed in: i64 for integers and bool, f32 for halves. It holds every value of the
/// narrower ones exactly and in the same order, except that large u64 wrap.
pub(crate) fn wide(d: DType) -> DType {
    use DType::*;
    match d {
        U8 | I8 | I16 | I32 | I64 | U16 | U32 | U64 | Bool => I64,
        F16 | BF16 | F32 => F32,
        C32 | C64 => C64,
        other => other,
    }
}

/// Rounding to a half, which calculations in the wide type leave out.
pub(crate) fn rounded(d: DType) -> Option<fn(f64) -> f64> {
    match d {
        DType::F16 => Some(|v| half::f16::down(v as f32).up() as f64),
        DType::BF16 => Some(|v| half::bf16::down(v as f32).up() as f64),
        _ => None,
    }
}

/// Elements in their wide type: the slice itself, or a copy.
pub(crate) enum Wide<'a> {
    Same(Any<'a>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    C64(Vec<Complex<f32>>),
}
impl<'a> Wide<'a> {
    #[inline(never)]
    pub(crate) fn of(x: Any<'a>) -> Self {
        use DType::*;
        match x.dtype() {
            C32 => Wide::C64(widened::<Complex<half::f16>>(x)),
            F16 => Wide::F32(halves::<half::f16>(x)),
            BF16 => Wide::F32(halves::<half::bf16>(x)),
            Bool => Wide::I64(widened::<B8>(x)),
            U8 => Wide::I64(widened::<u8>(x)),
            I8 => Wide::I64(widened::<i8>(x)),
            I16 => Wide::I64(widened::<i16>(x)),
            I32 => Wide::I64(widened::<i32>(x)),
            U16 => Wide::I64(widened::<u16>(x)),
            U32 => Wide::I64(widened::<u32>(x)),
            U64 => Wide::I64(widened::<u64>(x)),
            _ => Wide::Same(x),
        }
    }
    pub(crate) fn any(&self) -> Any<'_> {
        match self {
            Wide::Same(x) => *x,
            Wide::I64(v) => Any::new(v),
            Wide::F32(v) => Any::new(v),
            Wide::C64(v) => Any::new(v),
        }
    }
    fn any_mut(&mut self) -> AnyMut<'_> {
        match self {
            Wide::I64(v) => AnyMut::new(v),
            Wide::F32(v) => AnyMut::new(v),
            Wide::C64(v) => AnyMut::new(v),
            // Only `out` and `inout` ask for this, on copies that they made.
            Wide::Same(_) => AnyMut::new::<u8>(&mut []),
        }
    }
}
fn widened<T: Num>(x: Any) -> Vec<T::Acc> {
    collected(x.get::<T>().iter().map(|v| v.wide()))
}
fn halves<T: Stored<Compute = f32>>(x: Any) -> Vec<f32> {
    let mut out = filled(0.0, x.len());
    stored::up::<T>(x.get(), &mut out);
    out
}

/// A result in the type that its kernel computes in: the slice itself, or for halves an f32 buffer that [`Out::done`]
/// rounds into it. With [`Wide`] for the operands, a kernel needs no copies of its code for halves.
pub(crate) struct Out<'a> {
    single: Option<Vec<f32>>,
    to: AnyMut<'a>,
}
impl<'a> Out<'a> {
    pub(crate) fn of(to: AnyMut<'a>) -> Self {
        let half = matches!(to.dtype(), DType::F16 | DType::BF16);
        Out { single: half.then(|| filled(0.0, to.len())), to }
    }
    pub(crate) fn any(&mut self) -> AnyMut<'_> {
        match &mut self.single {
            Some(v) => AnyMut::new(v),
            None => self.to.reborrow(),
        }
    }
    /// Hands the result over; without this call nothing is written for halves.
    #[inline(never)]
    pub(crate) fn done(self) {
        match (self.single, self.to.dtype()) {
            (Some(v), DType::F16) => stored::down::<half::f16>(&v, self.to.get()),
            (Some(v), _) => stored::down::<half::bf16>(&v, self.to.get()),
            (None, _) => {}
        }
    }
}
/// All of these are of dtype `d`, or absent.
pub(crate) fn all_are(d: DType, slices: &[&dyn Typed]) -> bool {
    slices.iter().all(|s| s.is(d))
}

/// Runs `f` on `out` as a slice of dtype `d`: itself, or a buffer that is rounded into it afterwards if `d` is its wide
/// type. `None` for any other dtype of `out`.
pub(crate) fn out<R>(out: AnyMut, d: DType, f: impl FnOnce(AnyMut) -> Option<R>) -> Option<R> {
    if out.dtype() == d {
        return f(out);
    }
    if wide(out.dtype()) != d {
        return None;
    }
    let mut w = match d {
        DType::I64 => Wide::I64(filled(0, out.len())),
        DType::F32 => Wide::F32(filled(0.0, out.len())),
        _ => Wide::C64(filled(Complex::default(), out.len())),
    };
    let r = f(w.any_mut())?;
    narrow(&w, out);
    Some(r)
}
/// As [`out`] for a slice that `f` reads too.
pub(crate) fn inout<R>(data: AnyMut, d: DType, f: impl FnOnce(AnyMut) -> Option<R>) -> Option<R> {
    if data.dtype() == d {
        return f(data);
    }
    if wide(data.dtype()) != d {
        return None;
    }
    // `data` is not of dtype `d`, so this is a copy.
    let mut w = match Wide::of(data.shared()) {
        Wide::I64(v) => Wide::I64(v),
        Wide::F32(v) => Wide::F32(v),
        Wide::C64(v) => Wide::C64(v),
        Wide::Same(_) => return None,
    };
    let r = f(w.any_mut())?;
    narrow(&w, data);
    Some(r)
}
/// Runs `f` on an optional output, which is absent or as for [`out`].
pub(crate) fn opt_out<R>(
    o: Option<AnyMut>,
    d: DType,
    f: impl FnOnce(Option<AnyMut>) -> Option<R>,
) -> Option<R> {
    match o {
        None => f(None),
        Some(o) => out(o, d, |o| f(Some(o))),
    }
}
/// Runs `f` on an optional slice that is read and written, as for [`inout`].
pub(crate) fn opt_inout<R>(
    o: Option<AnyMut>,
    d: DType,
    f: impl FnOnce(Option<AnyMut>) -> Option<R>,
) -> Option<R> {
    match o {
        None => f(None),
        Some(o) => inout(o, d, |o| f(Some(o))),
    }
}
#[inline(never)]
fn narrow(w: &Wide, out: AnyMut) {
    if let Wide::F32(v) = w {
        return match out.dtype() {
            DType::F16 => stored::down::<half::f16>(v, out.get()),
            _ => stored::down::<half::bf16>(v, out.get()),
        };
    }
    with_dtype!(out.dtype(), T in [BOOL, INT, UINT, C32] => {
        let from = w.any().get::<<T as Num>::Acc>();
        out.get::<T>().iter_mut().zip(from).for_each(|(o, v)| *o = T::narrow(*v));
    }, else ());
}

/// Runs `f` on `x` and `out` in the wide type of `x`.
pub(crate) fn through<R>(x: Any, o: AnyMut, f: impl FnOnce(Any, AnyMut) -> Option<R>) -> Option<R> {
    let w = Wide::of(x);
    out(o, wide(x.dtype()), |o| f(w.any(), o))
}

/// The truth of each element; `None` for a dtype without.
#[inline(never)]
pub(crate) fn truths(x: Any) -> Option<Vec<B8>> {
    erased!(x, T in [BOOL, INT, UINT, HALF, FLOAT, COMPLEX, C32] => {
        collected(x.get::<T>().iter().map(|v| B8::from(v.truth())))
    })
}
