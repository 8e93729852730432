//! Sorting, top-k, unique, binary search, histograms.

pub(crate) mod unique;

use super::scan::around;
use crate::backend::cpu::access::Access;
use crate::backend::out::OutMeta;
use crate::backend::transfer::{cast_to, contiguous_raw, copy_into};
use crate::generated::args;
use crate::iter::promotion;
pub use crate::ops::sorting::unique::{unique_consecutive_cpu, unique_cpu, unique_dim_cpu};
use crate::tensor::geometry::{SizeVec, wrap_dim};
use crate::tensor::handle::Tensor;
use crate::tensor::wrapped_number::wrapped_number;
use crate::types::device::Device;
use crate::types::error::Result;
use crate::types::scalar::Scalar;
use crate::types::type_info::c_number;
use crate::{DType, Error, ensure, ops};
use flambeau_cpu::sorting::erased;

fn values_indices(self_: &Tensor, sizes: &[i64]) -> [OutMeta; 2] {
    [OutMeta::of(sizes, self_.dtype(), self_.device()), OutMeta::of(sizes, DType::I64, self_.device())]
}

/// `sort.stable`: every sort is stable here.
pub fn sort_stable_shape(&args::SortStable { self_, dim, .. }: &args::SortStable) -> Result<[OutMeta; 2]> {
    wrap_dim(dim, self_.dim())?;
    ensure!(!self_.is_complex(), Type, " Sort does not support complex dtypes on CPU");
    Ok(values_indices(self_, self_.sizes()))
}
/// Refuses rows whose positions the kernels' 32 bits do not hold.
pub(crate) fn few(n: i64) -> Result<()> {
    ensure!(n <= i64::from(u32::MAX), Missing, "ordering rows of {n} elements (at most {})", u32::MAX);
    Ok(())
}
/// [`few`] for the rows along a dimension.
pub(crate) fn orderable(self_: &Tensor, dim: i64) -> Result<()> {
    let d = wrap_dim(dim, self_.dim())?;
    few(self_.sizes().get(d).copied().unwrap_or(1))
}

/// `sort.stable`
pub fn sort_stable_cpu(
    &args::SortStable { self_, dim, descending, .. }: &args::SortStable,
    [values, indices]: [&Tensor; 2],
) -> Result<()> {
    if self_.numel() == 0 {
        return Ok(());
    }
    orderable(self_, dim)?;
    let x = contiguous_raw(self_)?;
    let g = around(&x, wrap_dim(dim, x.dim())?);
    let a = Access::new(&[&x], &[values, indices])?;
    erased::sort(a.any(0)?, g, descending, a.any_mut(0)?, a.slice_mut::<i64>(1)?)
        .ok_or_else(|| Error::not_implemented_for("sorting_kernel_method_name", x.dtype()))
}
/// `sort`
pub fn sort(self_: &Tensor, dim: i64, descending: bool) -> Result<(Tensor, Tensor)> {
    ops::sort_stable(self_, Some(false), dim, descending)
}
/// `argsort`
pub fn argsort(self_: &Tensor, dim: i64, descending: bool) -> Result<Tensor> {
    Ok(ops::sort_stable(self_, Some(false), dim, descending)?.1)
}
/// `argsort.stable`
pub fn argsort_stable(self_: &Tensor, stable: bool, dim: i64, descending: bool) -> Result<Tensor> {
    Ok(ops::sort_stable(self_, Some(stable), dim, descending)?.1)
}
/// `msort`
pub fn msort(self_: &Tensor) -> Result<Tensor> {
    Ok(ops::sort(self_, 0, false)?.0)
}

/// `topk`
pub fn topk_shape(&args::Topk { self_, k, dim, .. }: &args::Topk) -> Result<[OutMeta; 2]> {
    let d = wrap_dim(dim, self_.dim())?;
    let n = if self_.dim() == 0 { 1 } else { self_.sizes()[d] };
    ensure!(k >= 0 && k <= n, Runtime, "selected index k out of range");
    ensure!(!self_.is_complex(), Type, " topk does not support complex dtypes on CPU");
    ensure!(self_.dtype() != DType::Bool, Unsupported, "topk does not support bool dtypes on CPU");
    if self_.dtype().is_wide_unsigned() {
        return Err(Error::not_implemented_for("topk_cpu", self_.dtype()));
    }
    let mut sizes = SizeVec::from_slice(self_.sizes());
    if self_.dim() > 0 {
        sizes[d] = k;
    }
    Ok(values_indices(self_, &sizes))
}
/// `topk`
pub fn topk_cpu(
    &args::Topk { self_, k, dim, largest, sorted }: &args::Topk,
    [values, indices]: [&Tensor; 2],
) -> Result<()> {
    if values.numel() == 0 {
        return Ok(());
    }
    orderable(self_, dim)?;
    let x = contiguous_raw(self_)?;
    let g = around(&x, wrap_dim(dim, x.dim())?);
    // of a tensor without dimensions there is one element, however few are wanted
    let k = if self_.dim() == 0 { 1 } else { k as usize };
    let a = Access::new(&[&x], &[values, indices])?;
    erased::topk(a.any(0)?, g, k, largest, sorted, a.any_mut(0)?, a.slice_mut::<i64>(1)?)
        .ok_or_else(|| Error::not_implemented_for("topk_cpu", x.dtype()))
}

/// On which side of equal elements a value goes.
fn from_the_right(right: bool, side: Option<&str>) -> Result<bool> {
    Ok(match side {
        None => right,
        Some("left") => {
            ensure!(
                !right,
                Runtime,
                "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
            );
            false
        }
        Some("right") => true,
        Some(s) => {
            return Err(Error::runtime(format!(
                "torch.searchsorted(): side can only be 'left' or 'right' but got {s}"
            )));
        }
    })
}
/// What all binary searches check; gives the sizes and dtype of the result.
fn search_shape(
    sorted_sequence: &Tensor,
    self_: &Tensor,
    out_int32: bool,
    sorter: Option<&Tensor>,
) -> Result<OutMeta> {
    let s = sorted_sequence;
    if let Some(t) = sorter {
        ensure!(
            t.sizes() == s.sizes(),
            Runtime,
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {}and got sorter tensor {}",
            crate::tensor::geometry::fmt_sizes(s.sizes()),
            crate::tensor::geometry::fmt_sizes(t.sizes())
        );
        ensure!(
            t.dtype() == DType::I64,
            Runtime,
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
            t.dtype().scalar_type_name()
        );
    }
    ensure!(
        s.dim() == 1 || self_.dim() > 0,
        Runtime,
        "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries \
         tensor dim({}) and input value's dim(0) numel({})",
        s.dim(),
        self_.numel()
    );
    ensure!(
        s.dim() > 0,
        Runtime,
        "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
    );
    ensure!(
        s.dim() <= 1 || (s.dim() == self_.dim() && s.sizes()[..s.dim() - 1] == self_.sizes()[..s.dim() - 1]),
        Runtime,
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input \
         value tensor must match, but we got boundaries tensor {} and input value tensor {}",
        crate::tensor::geometry::fmt_sizes(s.sizes()),
        crate::tensor::geometry::fmt_sizes(self_.sizes())
    );
    let common = promotion::result_type(&[sorted_sequence, self_])?;
    let narrow = matches!(common, DType::F8E4M3 | DType::F8E5M2);
    if common == DType::Bool || common.is_wide_unsigned() || common.is_complex() || narrow {
        return Err(Error::not_implemented_for("searchsorted_out_cpu", common));
    }
    ensure!(
        s.dim() > 0,
        Runtime,
        "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor dim({}) and input value's dim({}) numel({})",
        s.dim(),
        self_.dim(),
        self_.numel()
    );
    Ok(OutMeta::of(self_.sizes(), if out_int32 { DType::I32 } else { DType::I64 }, s.device()))
}
/// The binary search in the common dtype of both.
fn search(s: &Tensor, self_: &Tensor, right: bool, sorter: Option<&Tensor>, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    if out.dtype() != DType::I64 {
        let wide = Tensor::empty_raw(out.sizes(), DType::I64, out.device())?;
        search(s, self_, right, sorter, &wide)?;
        return copy_into(out, &wide);
    }
    let common = promotion::result_type(&[s, self_])?;
    let plain =
        |t: &Tensor| contiguous_raw(&if t.dtype() == common { t.clone() } else { cast_to(t, common)? });
    let (b, v) = (plain(s)?, plain(self_)?);
    let order = sorter.map(contiguous_raw).transpose()?;
    let mut ins: Vec<&Tensor> = vec![&b, &v];
    ins.extend(order.as_ref());
    let n = *s.sizes().last().unwrap_or(&1) as usize;
    let per_row = if s.dim() <= 1 { self_.numel() } else { *self_.sizes().last().unwrap_or(&1) } as usize;
    let a = Access::new(&ins, &[out])?;
    let order = if order.is_some() { Some(a.slice::<i64>(2)?) } else { None };
    erased::searchsorted(a.any(0)?, n, order, a.any(1)?, per_row, right, a.slice_mut::<i64>(0)?)
        .ok_or_else(|| Error::not_implemented_for("searchsorted_out_cpu", common))?
        .map_err(|_| Error::runtime("torch.searchsorted(): sorter index out of range"))
}
/// `searchsorted.Tensor`
pub fn searchsorted_shape(a: &args::Searchsorted) -> Result<OutMeta> {
    from_the_right(a.right, a.side)?;
    search_shape(a.sorted_sequence, a.self_, a.out_int32, a.sorter)
}
/// `searchsorted.Tensor`
pub fn searchsorted_cpu(a: &args::Searchsorted, out: &Tensor) -> Result<()> {
    search(a.sorted_sequence, a.self_, from_the_right(a.right, a.side)?, a.sorter, out)
}
/// `searchsorted.Scalar`
pub fn searchsorted_scalar_shape(a: &args::SearchsortedScalar) -> Result<OutMeta> {
    from_the_right(a.right, a.side)?;
    search_shape(a.sorted_sequence, &wrapped_number(a.self_)?, a.out_int32, a.sorter)
}
/// `searchsorted.Scalar`
pub fn searchsorted_scalar_cpu(a: &args::SearchsortedScalar, out: &Tensor) -> Result<()> {
    let v = wrapped_number(a.self_)?;
    search(a.sorted_sequence, &v, from_the_right(a.right, a.side)?, a.sorter, out)
}
fn buckets(self_: &Tensor, boundaries: &Tensor, out_int32: bool) -> Result<OutMeta> {
    ensure!(
        boundaries.dim() == 1,
        Runtime,
        "boundaries tensor must be 1 dimension, but got dim({})",
        boundaries.dim()
    );
    search_shape(boundaries, self_, out_int32, None)
}
/// `bucketize.Tensor`
pub fn bucketize_shape(
    &args::Bucketize { self_, boundaries, out_int32, .. }: &args::Bucketize,
) -> Result<OutMeta> {
    buckets(self_, boundaries, out_int32)
}
/// `bucketize.Tensor`
pub fn bucketize_cpu(
    &args::Bucketize { self_, boundaries, right, .. }: &args::Bucketize,
    out: &Tensor,
) -> Result<()> {
    search(boundaries, self_, right, None, out)
}
/// `bucketize.Scalar`
pub fn bucketize_scalar_shape(
    &args::BucketizeScalar { self_, boundaries, out_int32, .. }: &args::BucketizeScalar,
) -> Result<OutMeta> {
    buckets(&wrapped_number(self_)?, boundaries, out_int32)
}
/// `bucketize.Scalar`
pub fn bucketize_scalar_cpu(
    &args::BucketizeScalar { self_, boundaries, right, .. }: &args::BucketizeScalar,
    out: &Tensor,
) -> Result<()> {
    search(boundaries, &wrapped_number(self_)?, right, None, out)
}

/// `histc`
pub fn histc_shape(&args::Histc { self_, bins, min, max }: &args::Histc) -> Result<OutMeta> {
    ensure!(bins > 0, Runtime, "torch.histogram(): bins must be > 0, but got {bins} for dimension 0");
    if self_.is_complex() && !min.equals(max.to_f64()) {
        return Err(Error::not_implemented_for("histogram_cpu", self_.dtype()));
    }
    ensure!(!self_.is_complex(), Type, "aminmax not implemented for {}", self_.dtype().scalar_type_name());
    if self_.dtype() == DType::Bool {
        return Err(Error::not_implemented_for("linspace_cpu", DType::Bool));
    }
    let (lo, hi) = (min.to_f64(), max.to_f64());
    ensure!(
        lo.is_finite() && hi.is_finite(),
        Runtime,
        "torch.histc: range of [{}, {}] is not finite",
        c_number(lo),
        c_number(hi)
    );
    ensure!(lo <= hi, Runtime, "torch.histc: max must be larger than min");
    if lo == hi && self_.dtype().is_wide_unsigned() {
        return Err(Error::not_implemented_for("aminmax_cpu", self_.dtype()));
    }
    ensure!(
        self_.dtype().is_floating(),
        Unsupported,
        "\"histogram_cpu\" not implemented for '{}'",
        self_.dtype().scalar_type_name()
    );
    Ok(OutMeta::of(&[bins], self_.dtype(), self_.device()))
}
/// `histc`
pub fn histc_cpu(&args::Histc { self_, min, max, .. }: &args::Histc, out: &Tensor) -> Result<()> {
    let (mut lo, mut hi) = (min.to_f64(), max.to_f64());
    let x = contiguous_raw(self_)?;
    if lo == hi && x.numel() > 0 {
        let (a, b) = ops::aminmax(&ops::flatten(&x, 0, -1)?, None, false)?;
        (lo, hi) = (a.try_item()?, b.try_item()?);
        ensure!(
            lo.is_finite() && hi.is_finite(),
            Runtime,
            "torch.histc: range of [{}, {}] is not finite",
            c_number(lo),
            c_number(hi)
        );
    }
    if lo == hi {
        (lo, hi) = (lo - 1.0, hi + 1.0);
    }
    if matches!(x.dtype(), DType::F16 | DType::BF16) {
        return histc_of_halves(&x, lo, hi, out);
    }
    crate::ops::creation::fill_scalar_(out, Scalar::Int(0))?;
    let a = Access::new(&[&x], &[out])?;
    erased::histc(a.any(0)?, lo, hi, a.any_mut(0)?)
        .ok_or_else(|| Error::not_implemented_for("histogram_cpu", x.dtype()))
}

/// Numbers of 16 bits: PyTorch finds their bins in their own precision, each step rounded, and counts in it too.
fn histc_of_halves(x: &Tensor, lo: f64, hi: f64, out: &Tensor) -> Result<()> {
    let (d, bins) = (x.dtype(), out.numel());
    let number = |v: f64| cast_to(&wrapped_number(Scalar::Float(v))?, d);
    let (x, lo, hi) = (ops::flatten(x, 0, -1)?, number(lo)?, number(hi)?);
    let inside = ops::logical_and(&ops::ge(&x, &lo)?, &ops::le(&x, &hi)?)?;
    let from = ops::sub(&x, &lo, Scalar::Int(1))?;
    let place = ops::div(&ops::mul(&from, &number(bins as f64)?)?, &ops::sub(&hi, &lo, Scalar::Int(1))?)?;
    let place = cast_to(&ops::masked_select(&place, &inside)?, DType::I64)?;
    // the last bin has both its edges
    let place = ops::clamp(&place, Some(Scalar::Int(0)), Some(Scalar::Int(bins - 1)))?;
    let counts = ops::bincount(&place, None, bins)?;
    let most = if d == DType::F16 { 1 << 11 } else { 1 << 8 };
    copy_into(out, &cast_to(&ops::clamp(&counts, None, Some(Scalar::Int(most)))?, d)?)
}

/// What `bincount` asks of its arguments on every device.
pub fn bincount_check(self_: &Tensor, weights: Option<&Tensor>, minlength: i64) -> Result<()> {
    ensure!(minlength >= 0, Runtime, "minlength should be >= 0");
    if !self_.dtype().is_integral(false) || self_.dtype().is_wide_unsigned() {
        return Err(Error::not_implemented_for("bincount_cpu", self_.dtype()));
    }
    ensure!(self_.dim() == 1, Runtime, "bincount only supports 1-d non-negative integral inputs.");
    if let Some(w) = weights {
        ensure!(
            w.dim() == 1 && w.numel() == self_.numel(),
            Runtime,
            "weights should be 1-d and have the same length as input"
        );
    }
    Ok(())
}
/// `bincount`
pub fn bincount_cpu(&args::Bincount { self_, weights, minlength }: &args::Bincount) -> Result<Tensor> {
    let x = contiguous_raw(&cast_to(self_, DType::I64)?)?;
    let largest = {
        let a = Access::new(&[&x], &[])?;
        let v = a.slice::<i64>(0)?;
        ensure!(
            v.iter().all(|i| *i >= 0),
            Runtime,
            "bincount only supports 1-d non-negative integral inputs."
        );
        v.iter().max().copied()
    };
    ensure!(
        largest != Some(i64::MAX),
        Runtime,
        "maximum value of input overflowed, it should be < {} but got {}",
        i64::MAX,
        i64::MAX
    );
    let n = largest.map_or(0, |m| m + 1).max(minlength);
    // counted here and not in a list of the kernel's: a value decides the size, and no memory must be an error
    // nothing is counted, whatever the weights
    let Some(w) = weights.filter(|_| x.numel() > 0) else {
        let out = Tensor::zeros_raw(&[n], DType::I64, Device::Cpu)?;
        let a = Access::new(&[&x], &[&out])?;
        let o = a.slice_mut::<i64>(0)?;
        a.slice::<i64>(0)?.iter().for_each(|i| o[*i as usize] += 1);
        drop(a);
        return Ok(out);
    };
    if w.dtype() == DType::F32 { weighted_counts::<f32>(&x, w, n) } else { weighted_counts::<f64>(&x, w, n) }
}
fn weighted_counts<T: crate::Element + std::ops::AddAssign>(
    x: &Tensor,
    w: &Tensor,
    n: i64,
) -> Result<Tensor> {
    let w = contiguous_raw(&cast_to(w, T::DTYPE)?)?;
    let out = Tensor::zeros_raw(&[n], T::DTYPE, Device::Cpu)?;
    let a = Access::new(&[x, &w], &[&out])?;
    let o = a.slice_mut::<T>(0)?;
    a.slice::<i64>(0)?.iter().zip(a.slice::<T>(1)?).for_each(|(i, w)| o[*i as usize] += *w);
    drop(a);
    Ok(out)
}
