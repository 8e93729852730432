//! Reductions over slices of run-time type. `None` means that the dtypes are not supported.
//!
//! `out` has the dtype that the typed function gives, or the dtype of `x` where that is narrower (sums of integers are
//! i64 and wrap into it). Everyday dtypes have kernels of their own, others go through the type of their sums.

use super::fold::Geo;
use super::{arg, moments, norm as norms, select, simple};
use crate::engine::erase::{self, Wide, erased, through, truths, wide};
use crate::engine::room::filled;
use crate::num::Float;
use crate::{Any, AnyMut, B8, DType};

/// [`simple::sum`] of bool, integers, floats and complex numbers.
pub fn sum(x: Any, g: Geo, out: AnyMut) -> Option<()> {
    let own = matches!(x.dtype(), DType::Bool | DType::I32) && out.dtype() == DType::I64
        || x.dtype().is_floating() && out.dtype() == x.dtype();
    if own {
        return erased!(x, T in [BOOL, WORD, HALF, FLOAT] => simple::sum::<T>(x.get(), g, out.get()));
    }
    through(
        x,
        out,
        |x, out| erased!(x, T in [LONG, FLOAT, COMPLEX], same(out) => simple::sum::<T>(x.get(), g, out.get())),
    )
}
/// [`simple::nansum`] of bool, integers, floats and complex numbers.
pub fn nansum(x: Any, g: Geo, out: AnyMut) -> Option<()> {
    through(x, out, |x, out| {
        if x.dtype() == DType::I64 {
            // Nothing is NaN.
            simple::sum::<i64>(x.get(), g, out.get());
            return Some(());
        }
        erased!(x, T in [FLOAT, COMPLEX], same(out) => simple::nansum::<T>(x.get(), g, out.get()))
    })
}
/// [`simple::prod`] of bool, integers, floats and complex numbers.
pub fn prod(x: Any, g: Geo, out: AnyMut) -> Option<()> {
    through(
        x,
        out,
        |x, out| erased!(x, T in [LONG, FLOAT, COMPLEX], same(out) => simple::prod::<T>(x.get(), g, out.get())),
    )
}
/// [`simple::mean`] of floats and complex numbers.
pub fn mean(x: Any, g: Geo, out: AnyMut) -> Option<()> {
    if x.dtype() == out.dtype() && x.dtype() != DType::C32 {
        return erased!(x, T in [HALF, FLOAT, COMPLEX] => simple::mean::<T>(x.get(), g, out.get()));
    }
    if !x.dtype().is_floating() && !x.dtype().is_complex() {
        return None;
    }
    through(
        x,
        out,
        |x, out| erased!(x, T in [FLOAT, COMPLEX], same(out) => simple::mean::<T>(x.get(), g, out.get())),
    )
}
/// Kernels for the wide types, and a detour for the rest (not for u64, whose order the detour would break).
macro_rules! extreme {
    ($($(#[$doc:meta])* $name:ident = $f:path;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: Any, g: Geo, out: AnyMut) -> Option<()> {
            if out.dtype() != x.dtype() || x.dtype() == DType::U64 {
                return None;
            }
            through(x, out, |x, out| erased!(x, T in [LONG, FLOAT] => $f(x.get::<T>(), g, out.get())))
        }
    )*};
}
extreme! {
    /// [`simple::amax`] of bool, integers and floats.
    amax = simple::amax;
    /// [`simple::amin`] of bool, integers and floats.
    amin = simple::amin;
}
/// [`amin`] and [`amax`] of bool, integers and floats.
pub fn aminmax(x: Any, g: Geo, min: AnyMut, max: AnyMut) -> Option<()> {
    if min.dtype() != x.dtype() || max.dtype() != x.dtype() || x.dtype() == DType::U64 {
        return None;
    }
    through(x, min, |x, min| {
        erase::out(max, x.dtype(), |max| {
            amin(x, g, min)?;
            amax(x, g, max)
        })
    })
}

/// Truth reductions: single precision and bytes have kernels, the rest goes through truth values.
macro_rules! truth {
    ($($(#[$doc:meta])* $name:ident($out:ty) = $f:path;)*) => {$(
        $(#[$doc])*
        fn $name(x: Any, g: Geo, out: &mut [$out]) -> Option<()> {
            if x.dtype() == DType::F32 {
                return Some($f(x.get::<f32>(), g, out));
            }
            let own;
            let bytes = match x.dtype() {
                DType::U8 | DType::I8 | DType::Bool => x,
                _ => {
                    own = truths(x)?;
                    Any::new(&own)
                }
            };
            Some($f(bytes.as_bits().get::<u8>(), g, out))
        }
    )*};
}
truth! {
    all_of(B8) = simple::all::<_>;
    any_of(B8) = simple::any::<_>;
    count_of(i64) = simple::count_nonzero::<_>;
}
/// [`simple::all`] of any dtype into bool, or as 0 and 1 into u8.
pub fn all(x: Any, g: Geo, out: AnyMut) -> Option<()> {
    let out = out.byte_as(DType::Bool);
    if out.dtype() == DType::Bool { all_of(x, g, out.get()) } else { None }
}
/// [`simple::any`] of any dtype into bool, or as 0 and 1 into u8.
pub fn any(x: Any, g: Geo, out: AnyMut) -> Option<()> {
    let out = out.byte_as(DType::Bool);
    if out.dtype() == DType::Bool { any_of(x, g, out.get()) } else { None }
}
/// [`simple::count_nonzero`] of any dtype.
pub fn count_nonzero(x: Any, g: Geo, out: &mut [i64]) -> Option<()> {
    count_of(x, g, out)
}

/// Index results over everyday dtypes, with a detour for the rest.
macro_rules! place {
    ($($(#[$doc:meta])* $name:ident = $f:path, $(#[$doc2:meta])* $with:ident = $f2:path;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: Any, g: Geo, indices: &mut [i64]) -> Option<()> {
            match x.dtype() {
                DType::U64 => None,
                _ => {
                    let x = Wide::of(x);
                    let x = x.any();
                    erased!(x, T in [LONG, FLOAT] => $f(x.get::<T>(), g, indices))
                }
            }
        }
        $(#[$doc2])*
        pub fn $with(x: Any, g: Geo, values: AnyMut, indices: &mut [i64]) -> Option<()> {
            if values.dtype() != x.dtype() {
                return None;
            }
            match x.dtype() {
                DType::U64 => None,
                _ => through(x, values, |x, values| {
                    erased!(x, T in [LONG, FLOAT] => $f2(x.get::<T>(), g, values.get(), indices))
                }),
            }
        }
    )*};
}
place! {
    /// [`arg::argmax`] of bool, integers and floats.
    argmax = arg::argmax,
    /// [`arg::max_with_index`] of bool, integers and floats.
    max_with_index = arg::max_with_index;
    /// [`arg::argmin`] of bool, integers and floats.
    argmin = arg::argmin,
    /// [`arg::min_with_index`] of bool, integers and floats.
    min_with_index = arg::min_with_index;
}

/// Order statistics, in the wide type.
macro_rules! statistic {
    ($($(#[$doc:meta])* $name:ident($($a:ident: $at:ty),*) = $f:path;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: Any, g: Geo, $($a: $at,)* values: AnyMut, indices: &mut [i64]) -> Option<()> {
            if values.dtype() != x.dtype() || x.dtype() == DType::U64 {
                return None;
            }
            through(x, values, |x, values| {
                erased!(x, T in [LONG, FLOAT] => $f(x.get::<T>(), g, $($a,)* values.get(), indices))
            })
        }
    )*};
}
statistic! {
    /// [`select::kthvalue`] of bool, integers and floats.
    kthvalue(k: usize) = select::kthvalue;
    /// [`select::median`] of bool, integers and floats.
    median() = select::median;
    /// [`select::nanmedian`] of bool, integers and floats.
    nanmedian() = select::nanmedian;
    /// [`select::mode`] of bool, integers and floats.
    mode() = select::mode;
}

/// [`moments::mean_var`] of floats and complex numbers: mean (real and imaginary part) and variance of each row.
pub fn mean_var(x: Any, g: Geo, correction: f64, out: &mut [(f64, f64, f64)]) -> Option<()> {
    if !x.dtype().is_floating() && !x.dtype().is_complex() {
        return None;
    }
    let x = Wide::of(x);
    let x = x.any();
    erased!(x, T in [FLOAT, COMPLEX] => moments::mean_var::<T>(x.get(), g, correction, out))
}
fn rows(x: Any, g: Geo, correction: f64) -> Option<Vec<(f64, f64, f64)>> {
    let mut m = filled((0.0, 0.0, 0.0), g.rows());
    mean_var(x, g, correction, &mut m)?;
    Some(m)
}
/// Rounds doubles into a floating slice.
fn put_real(v: impl ExactSizeIterator<Item = f64>, out: AnyMut) -> Option<()> {
    assert_eq!(v.len(), out.len(), "a reduction has a wrong number of results");
    erased!(out, T in [HALF, FLOAT] => {
        out.get::<T>().iter_mut().zip(v).for_each(|(o, v)| *o = T::from_f64(v));
    })
}
/// [`moments::var`] of floats and complex numbers; `out` is of the real dtype.
pub fn var(x: Any, g: Geo, correction: f64, out: AnyMut) -> Option<()> {
    if out.dtype() != x.dtype().to_real() {
        return None;
    }
    put_real(rows(x, g, correction)?.into_iter().map(|m| m.2), out)
}
/// [`moments::std`] of floats and complex numbers; `out` is of the real dtype.
pub fn std(x: Any, g: Geo, correction: f64, out: AnyMut) -> Option<()> {
    if out.dtype() != x.dtype().to_real() {
        return None;
    }
    put_real(rows(x, g, correction)?.into_iter().map(|m| m.2.sqrt()), out)
}
/// Variance (or its root, with `root`) in the real dtype and mean in the dtype of `x`, for floats and complex numbers.
pub fn var_mean(x: Any, g: Geo, correction: f64, root: bool, var: AnyMut, mean: AnyMut) -> Option<()> {
    if var.dtype() != x.dtype().to_real() || mean.dtype() != x.dtype() {
        return None;
    }
    let m = rows(x, g, correction)?;
    put_real(m.iter().map(|m| if root { m.2.sqrt() } else { m.2 }), var)?;
    let mean_of = |m: &(f64, f64, f64)| (m.0, if m.0.is_nan() && g.n == 0 { f64::NAN } else { m.1 });
    if !x.dtype().is_complex() {
        return put_real(m.iter().map(|m| m.0), mean);
    }
    assert_eq!(m.len(), mean.len(), "a reduction has a wrong number of results");
    erase::out(mean, wide(x.dtype()), |mean| {
        match mean.dtype() {
            DType::C64 => mean.get::<num_complex::Complex<f32>>().iter_mut().zip(&m).for_each(|(o, m)| {
                let (re, im) = mean_of(m);
                *o = num_complex::Complex::new(re as f32, im as f32);
            }),
            DType::C128 => mean.get::<num_complex::Complex<f64>>().iter_mut().zip(&m).for_each(|(o, m)| {
                let (re, im) = mean_of(m);
                *o = num_complex::Complex::new(re, im);
            }),
            _ => return None,
        }
        Some(())
    })
}

/// [`norms::norm`] of floats and complex numbers; `out` is of the real dtype.
pub fn norm(x: Any, g: Geo, p: f64, out: AnyMut) -> Option<()> {
    if out.dtype() != x.dtype().to_real() {
        return None;
    }
    let x = Wide::of(x);
    let x = x.any();
    let (single, double);
    let x = match x.dtype() {
        DType::C64 => {
            single = norms::abs(x.get::<num_complex::Complex<f32>>());
            Any::new(&single)
        }
        DType::C128 => {
            double = norms::abs(x.get::<num_complex::Complex<f64>>());
            Any::new(&double)
        }
        _ => x,
    };
    erase::out(out, x.dtype(), |out| erased!(x, T in [FLOAT] => norms::norm::<T>(x.get(), g, p, out.get())))
}
/// [`norms::logsumexp`] of floats.
pub fn logsumexp(x: Any, g: Geo, out: AnyMut) -> Option<()> {
    if out.dtype() != x.dtype() {
        return None;
    }
    through(x, out, |x, out| erased!(x, T in [FLOAT] => norms::logsumexp::<T>(x.get(), g, out.get())))
}
