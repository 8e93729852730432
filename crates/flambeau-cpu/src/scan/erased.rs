//! Scans over slices of run-time type, in the wide type of `x`. `None` means that the dtypes are not supported.

use crate::erase::{erased, through};
use crate::reduce::fold::Geo;
use crate::{Any, AnyMut, DType};

macro_rules! running {
    ($($(#[$doc:meta])* $name:ident [$($set:ident),+];)*) => {$(
        $(#[$doc])*
        pub fn $name(x: Any, g: Geo, out: AnyMut) -> Option<()> {
            through(x, out, |x, out| {
                erased!(x, T in [$($set),+] => super::$name::<T>(x.get(), g, out.get()))
            })
        }
    )*};
}
running! {
    /// [`super::cumsum`] of any number; the result of integers is i64 or, wrapped, of their own dtype.
    cumsum [LONG, FLOAT, COMPLEX];
    /// [`super::cumprod`], likewise.
    cumprod [LONG, FLOAT, COMPLEX];
    /// [`super::logcumsumexp`] of floats.
    logcumsumexp [FLOAT];
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
