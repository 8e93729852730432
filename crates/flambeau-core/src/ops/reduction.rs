//! Reductions over dimensions.

use crate::access::Access;
use crate::error::Result;
use crate::geometry::{SizeVec, wrap_dim, wrap_dims};
use crate::ops::copy::{cast_to, contiguous_raw, resolve_lazy};
use crate::out::OutMeta;
use crate::tensor::Tensor;
use crate::{DType, Error, ensure, with_dtype};
use flambeau_cpu::reduce::{self, Geo};
use smallvec::SmallVec;

/// The dims to reduce, wrapped: all of them for `None` and for an empty list.
pub(crate) fn reduced_dims(rank: usize, dim: Option<&[i64]>) -> Result<SmallVec<[usize; 5]>> {
    match dim {
        None | Some([]) => Ok((0..rank).collect()),
        Some(d) => Ok(wrap_dims(d, rank)?.into_iter().filter(|d| *d < rank).collect()),
    }
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
    let reduced: SmallVec<[usize; 5]> = (0..x.dim()).filter(|d| dims.contains(d)).collect();
    let kept: SmallVec<[usize; 5]> = (0..x.dim()).filter(|d| !dims.contains(d)).collect();
    if let Some((n, ns)) = merge(&reduced) {
        for cut in [kept.len(), 0].into_iter().chain((1..kept.len()).rev()) {
            if let (Some((outer, os)), Some((inner, is))) = (merge(&kept[..cut]), merge(&kept[cut..])) {
                let n = if reduced.iter().any(|d| x.sizes()[*d] == 0) { 0 } else { n };
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

/// Dtype of `sum` and `prod`: integers go to int64 unless asked otherwise.
fn sum_dtype(self_: &Tensor, dtype: Option<DType>) -> DType {
    dtype.unwrap_or(if self_.dtype().is_integral(true) { DType::I64 } else { self_.dtype() })
}

/// `sum`
pub fn sum_meta(self_: &Tensor, dim: Option<&[i64]>, keepdim: bool, dtype: Option<DType>) -> Result<OutMeta> {
    let dims = reduced_dims(self_.dim(), dim)?;
    Ok(OutMeta::new(reduced_sizes(self_.sizes(), &dims, keepdim), sum_dtype(self_, dtype), self_.device()))
}
/// `sum`
pub fn sum_cpu(
    self_: &Tensor,
    dim: Option<&[i64]>,
    _keepdim: bool,
    _dtype: Option<DType>,
    out: &Tensor,
) -> Result<()> {
    let dims = reduced_dims(self_.dim(), dim)?;
    let od = out.dtype();
    // integers narrower than the result are summed in the result's type without a cast
    let direct = self_.dtype() == od || (od == DType::I64 && self_.dtype().is_integral(true));
    let x = if direct { self_.clone() } else { cast_to(self_, od)? };
    let (x, g) = as_geo(&x, &dims)?;
    let a = Access::new(&[&x], &[out])?;
    if od == DType::I64 {
        with_dtype!(x.dtype(), T in [BOOL, INT] => {
            reduce::sum(a.slice::<T>(0)?, g, a.slice_mut::<i64>(0)?);
            return Ok(());
        }, else {})
    }
    with_dtype!(od, T in [FLOAT, HALF, COMPLEX, C32] => {
        reduce::sum(a.slice::<T>(0)?, g, a.slice_mut::<T>(0)?);
        return Ok(());
    }, else {});
    drop(a);
    // sum into a narrow integer type: wrap the int64 sum
    ensure!(od.is_integral(true), Unsupported, "\"sum_cpu\" not implemented for '{}'", od.scalar_type_name());
    let wide = crate::ops::sum(&x, dim, false, Some(DType::I64))?;
    crate::ops::copy::copy_into(out, &crate::ops::reshape(&wide, out.sizes())?)
}

/// The one dim of `max.dim`, `argmax`, ...; an empty one cannot be reduced.
fn one_dim(self_: &Tensor, dim: i64, name: &str) -> Result<usize> {
    let d = wrap_dim(dim, self_.dim())?;
    if self_.dim() > 0 {
        ensure!(
            self_.sizes()[d] != 0,
            Index,
            "{name}(): Expected reduction dim {dim} to have non-zero size."
        );
    }
    Ok(d)
}
fn dims_of(self_: &Tensor, d: usize) -> SmallVec<[usize; 5]> {
    if self_.dim() == 0 { SmallVec::new() } else { SmallVec::from_slice(&[d]) }
}

/// `max.dim`
pub fn max_dim_meta(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(OutMeta, OutMeta)> {
    let d = one_dim(self_, dim, "max")?;
    let sizes = reduced_sizes(self_.sizes(), &dims_of(self_, d), keepdim);
    Ok((
        OutMeta::new(sizes.clone(), self_.dtype(), self_.device()),
        OutMeta::new(sizes, DType::I64, self_.device()),
    ))
}
/// `max.dim`
pub fn max_dim_cpu(
    self_: &Tensor,
    dim: i64,
    _keepdim: bool,
    values: &Tensor,
    indices: &Tensor,
) -> Result<()> {
    let d = wrap_dim(dim, self_.dim())?;
    let (x, g) = as_geo(self_, &dims_of(self_, d))?;
    let a = Access::new(&[&x], &[values, indices])?;
    with_dtype!(x.dtype(), T in [BOOL, INT, FLOAT, HALF] => {
        reduce::max_with_index(a.slice::<T>(0)?, g, a.slice_mut::<T>(0)?, a.slice_mut::<i64>(1)?);
        Ok(())
    }, else Err(Error::not_implemented_for("max_cpu", x.dtype())))
}

/// `argmax`
pub fn argmax_meta(self_: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<OutMeta> {
    let sizes = match dim {
        Some(dim) => {
            let d = one_dim(self_, dim, "argmax")?;
            reduced_sizes(self_.sizes(), &dims_of(self_, d), keepdim)
        }
        None => {
            ensure!(
                self_.numel() > 0,
                Index,
                "argmax(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
            );
            let all: SmallVec<[usize; 5]> = (0..self_.dim()).collect();
            reduced_sizes(self_.sizes(), &all, keepdim)
        }
    };
    Ok(OutMeta::new(sizes, DType::I64, self_.device()))
}
/// `argmax`
pub fn argmax_cpu(self_: &Tensor, dim: Option<i64>, _keepdim: bool, out: &Tensor) -> Result<()> {
    let (x, g) = match dim {
        Some(dim) => as_geo(self_, &dims_of(self_, wrap_dim(dim, self_.dim())?))?,
        None => {
            let x = contiguous_raw(self_)?;
            let g = Geo::contiguous(1, x.numel() as usize, 1);
            (x, g)
        }
    };
    let a = Access::new(&[&x], &[out])?;
    with_dtype!(x.dtype(), T in [INT, FLOAT, HALF] => {
        reduce::argmax(a.slice::<T>(0)?, g, a.slice_mut::<i64>(0)?);
        Ok(())
    }, else Err(Error::not_implemented_for("argmax_cpu", x.dtype())))
}
