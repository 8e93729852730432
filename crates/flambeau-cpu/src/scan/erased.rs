//! Scans over slices of run-time type, in the wide type of `x`. `None` means that the dtypes are not supported.

use crate::engine::erase::{erased, through};
use crate::reduction::fold::Geo;
use crate::{Any, AnyMut, DType};

macro_rules! running {
    ($($(#[$doc:meta])* $v:vis $name:ident = $inner:ident [$($set:ident),+];)*) => {$(
        $(#[$doc])*
        $v fn $name(x: Any, g: Geo, out: AnyMut) -> Option<()> {
            through(x, out, |x, out| {
                erased!(x, T in [$($set),+] => super::$inner::<T>(x.get(), g, out.get()))
            })
        }
    )*};
}
running! {
    /// [`super::cumsum`] of any number; the result of integers is i64 or, wrapped, of their own dtype.
    pub cumsum = cumsum [LONG, FLOAT, COMPLEX];
    /// [`super::cumprod`], likewise.
    pub cumprod = cumprod [LONG, FLOAT, COMPLEX];
    /// [`super::logcumsumexp`] of floats.
    logcumsumexp_real = logcumsumexp [FLOAT];
}
/// [`super::logcumsumexp`] of floats and complex numbers.
pub fn logcumsumexp(x: Any, g: Geo, out: AnyMut) -> Option<()> {
    match x.dtype() {
        d if d != out.dtype() => None,
        DType::C64 => {
            super::logcumsumexp_complex::<f32>(x.get(), g, out.get(), |v| v as f32);
            Some(())
        }
        DType::C128 => {
            super::logcumsumexp_complex::<f64>(x.get(), g, out.get(), |v| v);
            Some(())
        }
        _ => logcumsumexp_real(x, g, out),
    }
}
macro_rules! extreme {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(x: Any, g: Geo, values: AnyMut, indices: &mut [i64]) -> Option<()> {
            if values.dtype() != x.dtype() || x.dtype() == DType::U64 {
                return None;
            }
            through(x, values, |x, values| {
                erased!(x, T in [LONG, FLOAT] => super::$name::<T>(x.get(), g, values.get(), indices))
            })
        }
    )*};
}
extreme! {
    /// [`super::cummax`] of bool, integers and floats.
    cummax;
    /// [`super::cummin`] of bool, integers and floats.
    cummin;
}
