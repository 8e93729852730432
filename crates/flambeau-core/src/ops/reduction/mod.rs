//! Reductions over dimensions: sums and products, extremes, moments, truth, norms, correlations, segments, hashes.

mod correlation;
mod extreme;
mod hash;
mod moments;
mod norms;
mod quantile;
mod segment;

pub use correlation::*;
pub use extreme::*;
pub use hash::*;
pub use moments::*;
pub use norms::*;
pub use quantile::*;
pub use segment::*;

use crate::backend::cpu::access::Access;
use crate::backend::out::OutMeta;
use crate::backend::transfer::{cast_to, contiguous_raw, copy_into, resolve_lazy};
use crate::generated::args;
use crate::tensor::geometry::{SizeVec, wrap_dim, wrap_dims};
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::{DType, Error, ensure, ops};
use flambeau_cpu::reduction::{Geo, erased};
use flambeau_cpu::{Any, AnyMut};
use smallvec::SmallVec;

/// Dims of a reduction.
pub(crate) type Dims = SmallVec<[usize; 5]>;

/// The dims to reduce, wrapped: all of them for `None` and for an empty list.
pub(crate) fn reduced_dims(rank: usize, dim: Option<&[i64]>) -> Result<Dims> {
    match dim {
        None | Some([]) => Ok((0..rank).collect()),
        Some(d) => {
            few_dims(rank)?;
            Ok(wrap_dims(d, rank)?.into_iter().filter(|d| *d < rank).collect())
        }
    }
}
/// PyTorch keeps reduced dims as 64 bits.
pub(crate) fn few_dims(rank: usize) -> Result<()> {
    ensure!(rank <= 64, Runtime, "only tensors with up to 64 dims are supported");
    Ok(())
}
/// Sizes of the result.
pub(crate) fn reduced_sizes(sizes: &[i64], dims: &[usize], keepdim: bool) -> SizeVec {
    let mut out = SizeVec::new();
    for (i, &s) in sizes.iter().enumerate() {
        match (dims.contains(&i), keepdim) {
            (false, _) => out.push(s),
            (true, true) => out.push(1),
            (true, false) => {}
        }
    }
    out
}

/// The input as `[outer, n, inner]`, with the reduced dims joined in the middle: the tensor itself where its strides
/// allow, else a contiguous copy.
pub(crate) fn as_geo(x: &Tensor, dims: &[usize]) -> Result<(Tensor, Geo)> {
    let x = resolve_lazy(x)?;
    let merge = |order: &[usize]| -> Option<(usize, isize)> {
        // joins dims in this order into one of uniform stride
        let mut acc: Option<(usize, isize)> = None;
        for &d in order.iter().rev() {
            let (n, s) = (x.sizes()[d] as usize, x.strides()[d] as isize);
            if n == 1 {
                continue;
            }
            acc = Some(match acc {
                None => (n, s),
                Some((m, st)) if s == st * m as isize => (m * n, st),
                Some(_) => return None,
            });
        }
        Some(acc.unwrap_or((1, 1)))
    };
    let reduced: Dims = (0..x.dim()).filter(|d| dims.contains(d)).collect();
    let kept: Dims = (0..x.dim()).filter(|d| !dims.contains(d)).collect();
    if x.numel() > 0
        && let Some((n, ns)) = merge(&reduced)
    {
        // the kept dims before the last reduced one go outside, as the memory order suggests; other cuts also serve
        let natural = reduced.last().map_or(kept.len(), |r| kept.iter().filter(|k| *k < r).count());
        for cut in std::iter::once(natural).chain(0..=kept.len()) {
            if let (Some((outer, os)), Some((inner, is))) = (merge(&kept[..cut]), merge(&kept[cut..])) {
                return Ok((x.clone(), Geo { outer, n, inner, os, ns, is }));
            }
        }
    }
    // kept dims first, reduced ones last, in a fresh contiguous tensor
    let order: SmallVec<[i64; 5]> = kept.iter().chain(&reduced).map(|d| *d as i64).collect();
    let y = contiguous_raw(&crate::ops::views::permute(&x, &order)?)?;
    let n: usize = reduced.iter().map(|d| x.sizes()[*d] as usize).product();
    let outer: usize = kept.iter().map(|d| x.sizes()[*d] as usize).product();
    Ok((y, Geo::contiguous(outer, n, 1)))
}

/// One reduced dim, of a tensor that may be zero-dim.
pub(crate) fn one(self_: &Tensor, dim: i64) -> Result<Dims> {
    let d = wrap_dim(dim, self_.dim())?;
    Ok(if self_.dim() == 0 { Dims::new() } else { Dims::from_slice(&[d]) })
}
/// One reduced dim that must have elements.
pub(crate) fn one_nonempty(self_: &Tensor, dim: i64, name: &str) -> Result<Dims> {
    let d = one(self_, dim)?;
    if let [d] = d[..] {
        ensure!(self_.sizes()[d] != 0, Index, "{name}: Expected reduction dim {dim} to have non-zero size.");
    }
    Ok(d)
}
/// All dims.
pub(crate) fn all_dims(self_: &Tensor) -> Dims {
    (0..self_.dim()).collect()
}

/// Runs a reducing kernel over `dims` into `out`.
pub(crate) fn reduce_into(
    label: &str,
    self_: &Tensor,
    dims: &[usize],
    out: &Tensor,
    kernel: impl FnOnce(Any<'_>, Geo, AnyMut<'_>) -> Option<()>,
) -> Result<()> {
    let (x, g) = as_geo(self_, dims)?;
    let a = Access::new(&[&x], &[out])?;
    kernel(a.any(0)?, g, a.any_mut(0)?).ok_or_else(|| Error::not_implemented_for(label, x.dtype()))
}
/// The same for values and indices.
pub(crate) fn select_into(
    label: &str,
    self_: &Tensor,
    dims: &[usize],
    outs: (&Tensor, &Tensor),
    kernel: impl FnOnce(Any<'_>, Geo, AnyMut<'_>, &mut [i64]) -> Option<()>,
) -> Result<()> {
    let (x, g) = as_geo(self_, dims)?;
    let a = Access::new(&[&x], &[outs.0, outs.1])?;
    kernel(a.any(0)?, g, a.any_mut(0)?, a.slice_mut::<i64>(1)?)
        .ok_or_else(|| Error::not_implemented_for(label, x.dtype()))
}
/// The same for indices alone.
pub(crate) fn index_into(
    label: &str,
    self_: &Tensor,
    dims: &[usize],
    out: &Tensor,
    kernel: impl FnOnce(Any<'_>, Geo, &mut [i64]) -> Option<()>,
) -> Result<()> {
    let (x, g) = as_geo(self_, dims)?;
    let a = Access::new(&[&x], &[out])?;
    kernel(a.any(0)?, g, a.slice_mut::<i64>(0)?).ok_or_else(|| Error::not_implemented_for(label, x.dtype()))
}

/// Dtype of `sum` and `prod`: integers go to int64 unless asked otherwise.
fn sum_dtype(self_: &Tensor, dtype: Option<DType>) -> DType {
    dtype.unwrap_or(if self_.dtype().is_integral(true) { DType::I64 } else { self_.dtype() })
}
fn sum_like(
    label: &str,
    self_: &Tensor,
    dims: &[usize],
    out: &Tensor,
    kernel: fn(Any<'_>, Geo, AnyMut<'_>) -> Option<()>,
) -> Result<()> {
    let od = out.dtype();
    if od == DType::C32 {
        return Err(Error::not_implemented_for(label, od));
    }
    if od == DType::I64 && self_.dtype().is_integral(true) {
        return reduce_into(label, self_, dims, out, kernel);
    }
    let x = if self_.dtype() == od { self_.clone() } else { cast_to(self_, od)? };
    if !od.is_integral(true) {
        return reduce_into(label, &x, dims, out, kernel);
    }
    // narrow integer results wrap, so they may be taken from the int64 one
    let wide = OutMeta::of(out.sizes(), DType::I64, out.device()).alloc()?;
    reduce_into(label, &x, dims, &wide, kernel)?;
    copy_into(out, &wide)
}

/// `sum`
pub fn sum_shape(&args::Sum { self_, dim, keepdim, dtype }: &args::Sum) -> Result<OutMeta> {
    let dims = reduced_dims(self_.dim(), dim)?;
    Ok(OutMeta::new(reduced_sizes(self_.sizes(), &dims, keepdim), sum_dtype(self_, dtype), self_.device()))
}
/// `sum`
pub fn sum_cpu(&args::Sum { self_, dim, .. }: &args::Sum, out: &Tensor) -> Result<()> {
    sum_like("sum_cpu", self_, &reduced_dims(self_.dim(), dim)?, out, erased::sum)
}
/// `nansum`
pub fn nansum_shape(&args::Nansum { self_, dim, keepdim, dtype }: &args::Nansum) -> Result<OutMeta> {
    let meta = sum_shape(&args::Sum { self_, dim, keepdim, dtype })?;
    ensure!(!self_.is_complex(), Unsupported, "nansum on CPU does not support complex inputs");
    Ok(meta)
}
/// `nansum`
pub fn nansum_cpu(&args::Nansum { self_, dim, keepdim, dtype }: &args::Nansum, out: &Tensor) -> Result<()> {
    if self_.dtype().is_integral(true) {
        return sum_cpu(&args::Sum { self_, dim, keepdim, dtype }, out);
    }
    if out.dtype().is_complex() && self_.numel() > 0 {
        return Err(Error::not_implemented_for("nansum_cpu", out.dtype()));
    }
    if dtype.is_none() && !out.dtype().is_floating() {
        // an output decides the dtype as in `sum`, but this has loops of floats alone
        return Err(Error::not_implemented_for("nansum_cpu", out.dtype()));
    }
    if out.dtype().is_integral(true) {
        // a NaN is left out before the cast, which would make a number of it
        let numbers = ops::masked_fill(self_, &ops::isnan(self_)?, crate::Scalar::Int(0))?;
        return sum_cpu(&args::Sum { self_: &numbers, dim, keepdim, dtype }, out);
    }
    sum_like("nansum_cpu", self_, &reduced_dims(self_.dim(), dim)?, out, erased::nansum)
}
/// `prod`
pub fn prod_shape(&args::Prod { self_, dtype }: &args::Prod) -> Result<OutMeta> {
    Ok(OutMeta::of(&[], sum_dtype(self_, dtype), self_.device()))
}
/// `prod`
pub fn prod_cpu(&args::Prod { self_, .. }: &args::Prod, out: &Tensor) -> Result<()> {
    sum_like("prod_out_cpu", self_, &all_dims(self_), out, erased::prod)
}
/// `prod.dim_int`
pub fn prod_dim_shape(&args::ProdDim { self_, dim, keepdim, dtype }: &args::ProdDim) -> Result<OutMeta> {
    let dims = one(self_, dim)?;
    Ok(OutMeta::new(reduced_sizes(self_.sizes(), &dims, keepdim), sum_dtype(self_, dtype), self_.device()))
}
/// `prod.dim_int`
pub fn prod_dim_cpu(&args::ProdDim { self_, dim, .. }: &args::ProdDim, out: &Tensor) -> Result<()> {
    sum_like("prod_out_cpu", self_, &one(self_, dim)?, out, erased::prod)
}

/// `mean.dim`
pub fn mean_shape(&args::Mean { self_, dim, keepdim, dtype }: &args::Mean) -> Result<OutMeta> {
    let d = dtype.unwrap_or(self_.dtype());
    ensure!(
        d.is_floating() || d.is_complex(),
        Unsupported,
        "mean(): could not infer output dtype. {} dtype must be either a floating point or complex dtype. Got: {}",
        if dtype.is_some() { "Optional" } else { "Input" },
        d.scalar_type_name()
    );
    let dims = reduced_dims(self_.dim(), dim)?;
    Ok(OutMeta::new(reduced_sizes(self_.sizes(), &dims, keepdim), d, self_.device()))
}
/// `mean.dim`
pub fn mean_cpu(&args::Mean { self_, dim, .. }: &args::Mean, out: &Tensor) -> Result<()> {
    if out.dtype() == DType::C32 {
        return Err(Error::not_implemented_for("sum_cpu", DType::C32));
    }
    let x = if self_.dtype() == out.dtype() { self_.clone() } else { cast_to(self_, out.dtype())? };
    reduce_into("sum_cpu", &x, &reduced_dims(self_.dim(), dim)?, out, erased::mean)
}
/// `nanmean`: the sum of the numbers over how many there are.
pub fn nanmean(self_: &Tensor, dim: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    ensure!(
        self_.dtype().is_floating() || self_.is_complex(),
        Unsupported,
        "nanmean(): expected input to have floating point or complex dtype but got {}",
        self_.dtype().scalar_type_name()
    );
    if let Some(d) = dtype.filter(|d| !d.is_floating() && !d.is_complex()) {
        return Err(Error::runtime(format!(
            "nanmean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype. Got: {}",
            d.scalar_type_name()
        )));
    }
    let number = ops::eq(&ops::detach(self_)?, &ops::detach(self_)?)?;
    let count = ops::sum(&number, dim, keepdim, None)?;
    ops::div(&ops::nansum(self_, dim, keepdim, dtype)?, &count)
}

/// Truth has bool results, but for uint8, which stays uint8.
fn truth_dtype(self_: &Tensor) -> DType {
    if self_.dtype() == DType::U8 { DType::U8 } else { DType::Bool }
}
fn truth_into(
    self_: &Tensor,
    dims: &[usize],
    out: &Tensor,
    label: &str,
    kernel: fn(Any<'_>, Geo, AnyMut<'_>) -> Option<()>,
) -> Result<()> {
    if matches!(self_.dtype(), DType::F8E4M3 | DType::F8E5M2) {
        // no reducing kernel reads these
        let nonzero = ops::ne(self_, &crate::tensor::wrapped_number::wrapped_number(0i64.into())?)?;
        return truth_into(&nonzero, dims, out, label, kernel);
    }
    if out.dtype() == DType::Bool {
        return reduce_into(label, self_, dims, out, kernel);
    }
    let tmp = OutMeta::of(out.sizes(), DType::Bool, out.device()).alloc()?;
    reduce_into(label, self_, dims, &tmp, kernel)?;
    copy_into(out, &tmp)
}
macro_rules! truth {
    ($($A:ident $meta:ident $cpu:ident $D:ident $dim_meta:ident $dim_cpu:ident $Ds:ident $dims_meta:ident $dims_cpu:ident $name:literal;)*) => {$(
        #[doc = concat!("`", $name, "`")]
        pub fn $meta(&args::$A { self_ }: &args::$A) -> Result<OutMeta> {
            Ok(OutMeta::of(&[], truth_dtype(self_), self_.device()))
        }
        #[doc = concat!("`", $name, "`")]
        pub fn $cpu(&args::$A { self_ }: &args::$A, out: &Tensor) -> Result<()> {
            truth_into(self_, &all_dims(self_), out, concat!($name, "_cpu"), truth_kernel($name))
        }
        #[doc = concat!("`", $name, ".dim`")]
        pub fn $dim_meta(&args::$D { self_, dim, keepdim }: &args::$D) -> Result<OutMeta> {
            let dims = one(self_, dim)?;
            Ok(OutMeta::new(reduced_sizes(self_.sizes(), &dims, keepdim), truth_dtype(self_), self_.device()))
        }
        #[doc = concat!("`", $name, ".dim`")]
        pub fn $dim_cpu(&args::$D { self_, dim, .. }: &args::$D, out: &Tensor) -> Result<()> {
            truth_into(self_, &one(self_, dim)?, out, concat!($name, "_cpu"), truth_kernel($name))
        }
        #[doc = concat!("`", $name, ".dims`")]
        pub fn $dims_meta(&args::$Ds { self_, dim, keepdim }: &args::$Ds) -> Result<OutMeta> {
            let dims = truth_dims(self_, dim)?;
            Ok(OutMeta::new(reduced_sizes(self_.sizes(), &dims, keepdim), truth_dtype(self_), self_.device()))
        }
        #[doc = concat!("`", $name, ".dims`")]
        pub fn $dims_cpu(&args::$Ds { self_, dim, .. }: &args::$Ds, out: &Tensor) -> Result<()> {
            truth_into(self_, &truth_dims(self_, dim)?, out, concat!($name, "_cpu"), truth_kernel($name))
        }
    )*};
}
/// An empty list of dims reduces none, unlike in `sum`.
fn truth_dims(self_: &Tensor, dim: Option<&[i64]>) -> Result<Dims> {
    match dim {
        Some([]) => Ok(Dims::new()),
        d => reduced_dims(self_.dim(), d),
    }
}
fn truth_kernel(name: &str) -> fn(Any<'_>, Geo, AnyMut<'_>) -> Option<()> {
    if name == "all" { erased::all } else { erased::any }
}
truth! {
    All all_shape all_cpu AllDim all_dim_shape all_dim_cpu AllDims all_dims_shape all_dims_cpu "all";
    Any any_shape any_cpu AnyDim any_dim_shape any_dim_cpu AnyDims any_dims_shape any_dims_cpu "any";
}

/// `count_nonzero`
pub fn count_nonzero_shape(&args::CountNonzero { self_, dim }: &args::CountNonzero) -> Result<OutMeta> {
    let dims = reduced_dims(self_.dim(), dim)?;
    Ok(OutMeta::new(reduced_sizes(self_.sizes(), &dims, false), DType::I64, self_.device()))
}
/// `count_nonzero`
pub fn count_nonzero_cpu(
    &args::CountNonzero { self_, dim }: &args::CountNonzero,
    out: &Tensor,
) -> Result<()> {
    if self_.dtype().is_wide_unsigned() {
        return Err(Error::not_implemented_for("nonzero_count_cpu", self_.dtype()));
    }
    index_into("nonzero_count_cpu", self_, &reduced_dims(self_.dim(), dim)?, out, erased::count_nonzero)
}

/// `sum_to_size`: sums over the dims that broadcasting added or expanded.
pub fn sum_to_size(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    if size.is_empty() {
        return ops::sum(self_, None, false, None);
    }
    if self_.sizes() == size {
        return Ok(self_.clone());
    }
    let extra = self_
        .dim()
        .checked_sub(size.len())
        .filter(|e| size.iter().zip(&self_.sizes()[*e..]).all(|(w, h)| w == h || *w == 1));
    let Some(extra) = extra else {
        return Err(Error::shape(format!(
            "size {{{}}} is not expandable to size {{{}}}.",
            crate::tensor::geometry::fmt_sizes(size),
            crate::tensor::geometry::fmt_sizes(self_.sizes())
        )));
    };
    let dims: SmallVec<[i64; 5]> = (0..self_.dim())
        .filter(|&d| d < extra || (size[d - extra] == 1 && self_.sizes()[d] != 1))
        .map(|d| d as i64)
        .collect();
    let r = if dims.is_empty() { self_.clone() } else { ops::sum(self_, Some(&dims), true, None)? };
    if extra > 0 { ops::reshape(&r, size) } else { Ok(r) }
}
