//! Sorting, searching and counting over slices of run-time type. `None` means that the dtypes are not supported.
//! Orders are those of bool, integers (u64 for `sort` and `unique` only) and floats; narrow dtypes go through wider ones.

use crate::engine::erase::{Wide, erased, through, truths};
use crate::indexing::IndexError;
use crate::reduction::fold::Geo;
use crate::{Any, AnyMut, B8, DType};

/// [`super::sort`]; `values` has the dtype of `x`.
pub fn sort(x: Any, g: Geo, descending: bool, values: AnyMut, indices: &mut [i64]) -> Option<()> {
    if values.dtype() != x.dtype() {
        return None;
    }
    if x.dtype() == DType::U64 {
        super::sort::<u64>(x.get(), g, descending, values.get(), indices);
        return Some(());
    }
    if x.dtype() == DType::I32 {
        super::sort::<i32>(x.get(), g, descending, values.get(), indices);
        return Some(());
    }
    through(
        x,
        values,
        |x, values| erased!(x, T in [LONG, FLOAT] => super::sort::<T>(x.get(), g, descending, values.get(), indices)),
    )
}
/// [`super::topk`]; `values` has the dtype of `x`.
pub fn topk(
    x: Any,
    g: Geo,
    k: usize,
    largest: bool,
    sorted: bool,
    values: AnyMut,
    indices: &mut [i64],
) -> Option<()> {
    if values.dtype() != x.dtype() || x.dtype() == DType::U64 {
        return None;
    }
    through(x, values, |x, values| {
        erased!(x, T in [LONG, FLOAT] => {
            super::topk::<T>(x.get(), g, k, largest, sorted, values.get(), indices)
        })
    })
}
/// [`super::argsort`].
pub fn argsort(x: Any, descending: bool) -> Option<Vec<u32>> {
    if x.dtype() == DType::U64 {
        return None;
    }
    let x = Wide::of(x);
    let x = x.any();
    erased!(x, T in [LONG, FLOAT] => super::argsort::<T>(x.get(), descending))
}
/// [`super::searchsorted`]; boundaries and values are of one dtype.
pub fn searchsorted(
    boundaries: Any,
    n: usize,
    sorter: Option<&[i64]>,
    values: Any,
    m: usize,
    right: bool,
    out: &mut [i64],
) -> Option<Result<(), IndexError>> {
    if boundaries.dtype() != values.dtype() || values.dtype() == DType::U64 {
        return None;
    }
    let (b, v) = (Wide::of(boundaries), Wide::of(values));
    let (b, v) = (b.any(), v.any());
    erased!(b, T in [LONG, FLOAT] => super::searchsorted::<T>(b.get(), n, sorter, v.get(), m, right, out))
}

/// [`super::unique`], also of u64.
pub fn unique(x: Any, inverse: bool) -> Option<super::Unique> {
    if x.dtype() == DType::U64 {
        return Some(super::unique::<u64>(x.get(), inverse));
    }
    let x = Wide::of(x);
    let x = x.any();
    erased!(x, T in [LONG, FLOAT] => super::unique::<T>(x.get(), inverse))
}
/// [`super::unique_consecutive`], also of complex numbers.
pub fn unique_consecutive(x: Any) -> Option<super::Unique> {
    let x = Wide::of(x);
    let x = x.any();
    erased!(x, T in [LONG, FLOAT, COMPLEX] => super::unique_consecutive::<T>(x.get()))
}

/// [`super::nonzero`] of any dtype.
pub fn nonzero(x: Any, shape: &[usize]) -> Option<Vec<i64>> {
    if x.dtype() == DType::Bool {
        return Some(super::nonzero::<B8>(x.get(), shape));
    }
    Some(super::nonzero(&truths(x)?, shape))
}
/// [`super::mask_count`] of any dtype.
pub fn mask_count(mask: Any) -> Option<usize> {
    if mask.dtype() == DType::Bool {
        return Some(super::mask_count::<B8>(mask.get()));
    }
    Some(super::mask_count(&truths(mask)?))
}
/// [`super::masked_select`] of any dtype into `out`, which has [`mask_count`] elements.
pub fn masked_select(x: Any, mask: &[B8], out: AnyMut) -> Option<()> {
    if out.dtype() != x.dtype() {
        return None;
    }
    let (x, out) = (x.as_bits(), out.as_bits());
    erased!(x, T in [BYTE, UINT, COMPLEX, C32, BC32] => {
        out.get::<T>().copy_from_slice(&super::masked_select::<T, B8>(x.get(), mask))
    })
}
/// [`super::bincount`] of integers.
pub fn bincount(x: Any, minlength: usize) -> Option<Result<Vec<i64>, IndexError>> {
    if !x.dtype().is_integral(false) {
        return None;
    }
    Some(super::bincount(Wide::of(x).any().get(), minlength))
}
/// [`super::bincount_weighted`] of integers, with weights of any real dtype.
pub fn bincount_weighted(
    x: Any,
    weights: Option<Any>,
    minlength: usize,
) -> Option<Result<Vec<f64>, IndexError>> {
    if !x.dtype().is_integral(false) {
        return None;
    }
    let x = Wide::of(x);
    let x = x.any().get();
    let Some(w) = weights else { return Some(super::bincount_weighted::<f64>(x, None, minlength)) };
    let w = Wide::of(w);
    let w = w.any();
    erased!(w, T in [LONG, FLOAT] => super::bincount_weighted::<T>(x, Some(w.get()), minlength))
}
/// [`super::histc`] of floats into `out` of as many bins.
pub fn histc(x: Any, min: f64, max: f64, out: AnyMut) -> Option<()> {
    if out.dtype() != x.dtype() {
        return None;
    }
    through(x, out, |x, out| {
        let bins = out.len();
        erased!(x, T in [FLOAT] => out.get::<T>().copy_from_slice(&super::histc::<T>(x.get(), bins, min, max)))
    })
}
