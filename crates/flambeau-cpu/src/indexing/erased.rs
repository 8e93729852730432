//! Indexing over slices of run-time type. `None` means that the dtypes are not supported. What only moves elements takes
//! every dtype and is compiled once per element size; what adds takes bool, integers, floats and complex numbers.

use super::{Along, IndexError, Inner, Reduce, Rounding};
use crate::engine::erase::erased;
use crate::num::Num;
use crate::pointwise::{FromParam, Param};
use crate::reduction::fold::Geo;
use crate::{Any, AnyMut};

type Checked = Option<Result<(), IndexError>>;

/// Functions that move elements: slices of one dtype, taken by their bits.
macro_rules! moves {
    ($($(#[$doc:meta])* $name:ident($($p:ident: $pt:ty),*; $x:ident $(, $y:ident: $yt:ty)?) -> $r:ty
        = |$T:ident| $call:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name($($p: $pt),*) -> Option<$r> {
            $(if $y.dtype() != $x.dtype() { return None; } let $y: $yt = $y.as_bits();)?
            let $x = $x.as_bits();
            erased!($x, $T in [BYTE, UINT, COMPLEX, C32, BC32] => $call)
        }
    )*};
}
moves! {
    /// [`super::index_select`].
    index_select(x: Any, g: Geo, idx: &[i64], out: AnyMut; x, out: AnyMut) -> Result<(), IndexError>
        = |T| super::index_select::<T>(x.get(), g, idx, out.get());
    /// [`super::gather`].
    gather(x: Any, a: Along, idx: &[i64], out: AnyMut; x, out: AnyMut) -> Result<(), IndexError>
        = |T| super::gather::<T>(x.get(), a, idx, out.get());
    /// [`super::scatter`].
    scatter(data: AnyMut, a: Along, idx: &[i64], src: Any; data, src: Any) -> Result<(), IndexError>
        = |T| super::scatter::<T>(data.get(), a, idx, src.get());
    /// [`super::scatter_value`]; `value` is one element.
    scatter_value(data: AnyMut, a: Along, idx: &[i64], value: Any; data, value: Any) -> Result<(), IndexError>
        = |T| super::scatter_value::<T>(data.get(), a, idx, value.get()[0]);
    /// [`super::index_copy`].
    index_copy(data: AnyMut, g: Geo, idx: &[i64], src: Any; data, src: Any) -> Result<(), IndexError>
        = |T| super::index_copy::<T>(data.get(), g, idx, src.get());
    /// [`super::index_fill`]; `value` is one element.
    index_fill(data: AnyMut, g: Geo, idx: &[i64], value: Any; data, value: Any) -> Result<(), IndexError>
        = |T| super::index_fill::<T>(data.get(), g, idx, value.get()[0]);
    /// [`super::index`].
    index(x: Any, at: &[usize], inner: Inner, out: AnyMut; x, out: AnyMut) -> ()
        = |T| super::index::<T>(x.get(), at, inner, out.get());
    /// [`super::index_put`].
    index_put(data: AnyMut, at: &[usize], inner: Inner, src: Any; data, src: Any) -> ()
        = |T| super::index_put::<T>(data.get(), at, inner, src.get());
    /// [`super::take`].
    take(x: Any, idx: &[i64], out: AnyMut; x, out: AnyMut) -> Result<(), IndexError>
        = |T| super::take::<T>(x.get(), idx, out.get());
    /// [`super::put`].
    put(data: AnyMut, idx: &[i64], src: Any; data, src: Any) -> Result<(), IndexError>
        = |T| super::put::<T>(data.get(), idx, src.get());
}

/// [`super::scatter_add`].
pub fn scatter_add(data: AnyMut, a: Along, idx: &[i64], src: Any) -> Checked {
    erased!(data, T in [BOOL, INT, HALF, FLOAT, COMPLEX], same(src) => {
        super::scatter_add::<T>(data.get(), a, idx, src.get())
    })
}
/// [`super::scatter_reduce`] of bool, integers and floats.
pub fn scatter_reduce(
    data: AnyMut,
    a: Along,
    idx: &[i64],
    src: Any,
    op: Reduce,
    include_self: bool,
    rounding: Rounding,
) -> Checked {
    erased!(data, T in [BOOL, INT, HALF, FLOAT], same(src) => {
        super::scatter_reduce::<T>(data.get(), a, idx, src.get(), op, include_self, rounding)
    })
}
/// [`super::index_add`].
pub fn index_add(data: AnyMut, g: Geo, idx: &[i64], src: Any, alpha: Param, rounding: Rounding) -> Checked {
    erased!(data, T in [BOOL, INT, HALF, FLOAT, COMPLEX, C32], same(src) => {
        super::index_add::<T>(data.get(), g, idx, src.get(), <T as Num>::Acc::from_param(alpha), rounding)
    })
}
/// [`super::index_put_add`].
pub fn index_put_add(data: AnyMut, at: &[usize], inner: Inner, src: Any) -> Option<()> {
    erased!(data, T in [BOOL, INT, HALF, FLOAT, COMPLEX, C32], same(src) => {
        super::index_put_add::<T>(data.get(), at, inner, src.get())
    })
}
/// [`super::put_add`].
pub fn put_add(data: AnyMut, idx: &[i64], src: Any) -> Checked {
    erased!(data, T in [BOOL, INT, HALF, FLOAT, COMPLEX], same(src) => {
        super::put_add::<T>(data.get(), idx, src.get())
    })
}
/// [`super::embedding_backward`] of floats and complex numbers.
pub fn embedding_backward(
    dy: Any,
    idx: &[i64],
    dim: usize,
    padding_idx: Option<usize>,
    scale_grad_by_freq: bool,
    dw: AnyMut,
) -> Checked {
    erased!(dy, T in [HALF, FLOAT, COMPLEX], same(dw) => {
        super::embedding_backward::<T>(dy.get(), idx, dim, padding_idx, scale_grad_by_freq, dw.get())
    })
}
