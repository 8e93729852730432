//! One index per slice of a dimension: `index_select`, `index_add` and their like.

use super::along::{functional, reduction};
use super::{Checked, as_i64, done, element, fresh, geo, indices, is_index, out_of_bounds, written};
use crate::backend::cpu::access::Access;
use crate::backend::out::OutMeta;
use crate::backend::transfer::{contiguous_raw, resolve_lazy};
use crate::generated::args;
use crate::tensor::geometry::{SizeVec, fmt_sizes, wrap_dim};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::{DType, ensure};
use flambeau_cpu::indexing::{Reduce, erased};
use flambeau_cpu::reduction::Geo;
use flambeau_cpu::{Any, AnyMut};

fn size(t: &Tensor, d: usize) -> i64 {
    if t.dim() == 0 { 1 } else { t.sizes()[d] }
}

/// `index_select`
pub fn index_select_shape(&args::IndexSelect { self_, dim, index }: &args::IndexSelect) -> Result<OutMeta> {
    let d = wrap_dim(dim, self_.dim())?;
    ensure!(index.dim() <= 1, Index, "index_select(): Index is supposed to be a vector");
    ensure!(is_index(index), Runtime, "index_select(): Expected dtype int32 or int64 for index");
    let mut sizes = SizeVec::from_slice(self_.sizes());
    if self_.dim() > 0 {
        sizes[d] = index.numel();
    } else {
        ensure!(
            index.numel() == 1,
            Runtime,
            "index_select(): Index to scalar can have only 1 value, got {} value(s)",
            index.numel()
        );
    }
    Ok(OutMeta::new(sizes, self_.dtype(), self_.device()))
}
/// `index_select`
pub fn index_select_cpu(
    &args::IndexSelect { self_, dim, index }: &args::IndexSelect,
    out: &Tensor,
) -> Result<()> {
    let d = wrap_dim(dim, self_.dim())?;
    let idx = as_i64(index)?;
    if out.numel() == 0 && self_.numel() != 0 {
        return Ok(());
    }
    let x = resolve_lazy(self_)?;
    let (x, g) = match geo(&x, d) {
        Some(g) => (x, g),
        None => {
            let x = contiguous_raw(&x)?;
            let g = geo(&x, d).unwrap_or(Geo::contiguous(1, x.numel() as usize, 1));
            (x, g)
        }
    };
    let a = Access::new(&[&x, &idx], &[out])?;
    let r = erased::index_select(a.any(0)?, g, indices(&a, 1)?, a.any_mut(0)?);
    done(r, "index_select", x.dtype(), |_| Error::index("index out of range in self"))
}

functional! {
    index_add index_add_meta_fn = index_add_(dim: i64, index: &Tensor, source: &Tensor, alpha: Scalar);
    index_copy index_copy_meta_fn = index_copy_(dim: i64, index: &Tensor, source: &Tensor);
    index_fill index_fill_meta_fn = index_fill_(dim: i64, index: &Tensor, value: Scalar);
    index_fill_tensor index_fill_tensor_meta_fn = index_fill_tensor_(dim: i64, index: &Tensor, value: &Tensor);
    index_reduce index_reduce_meta_fn
        = index_reduce_(dim: i64, index: &Tensor, source: &Tensor, reduce: &str, include_self: bool);
}

/// Runs a kernel over `self_` as `[outer, n, inner]`.
fn over(
    self_: &Tensor,
    d: usize,
    index: &Tensor,
    source: &Tensor,
    label: &str,
    bound: impl Fn(flambeau_cpu::indexing::IndexError) -> Error,
    kernel: impl FnOnce(AnyMut, Geo, &[i64], Any) -> Checked,
) -> Result<()> {
    if self_.device() == Device::Meta || index.numel() == 0 {
        return Ok(());
    }
    let (idx, src) = (as_i64(index)?, contiguous_raw(&resolve_lazy(source)?)?);
    written(
        self_,
        &[&idx, &src],
        |t| geo(t, d).is_some(),
        |t| {
            let g = geo(t, d).ok_or_else(|| Error::runtime("a contiguous tensor has no geometry"))?;
            let a = Access::new(&[&idx, &src], &[t])?;
            done(kernel(a.any_mut(0)?, g, indices(&a, 0)?, a.any(1)?), label, t.dtype(), &bound)
        },
    )
}

/// What `index_add` and `index_reduce` check of their arguments.
fn check_source(name: &str, self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<usize> {
    let d = wrap_dim(dim, self_.dim())?;
    ensure!(
        is_index(index),
        Runtime,
        "{name}(): Expected dtype int32/int64 for index but got: {}",
        index.dtype().scalar_type_name()
    );
    ensure!(
        self_.dtype() == source.dtype(),
        Runtime,
        "{name}(): self ({}) and source ({}) must have the same scalar type",
        self_.dtype().scalar_type_name(),
        source.dtype().scalar_type_name()
    );
    ensure!(
        index.dim() <= 1,
        Index,
        "{name}(): Index is supposed to be a vector, but got dim: {} with type: {} and size: {}",
        index.dim(),
        index.dtype().scalar_type_name(),
        fmt_sizes(index.sizes())
    );
    ensure!(
        d == 0 || d < source.dim(),
        Runtime,
        "{name}(): Indexing dim {d} is out of bounds of the source tensor with dim {}",
        source.dim()
    );
    if index.numel() != size(source, d) {
        let given = index.numel();
        let d = crate::tensor::geometry::wrap_dim_strict(d as i64, source.dim())?;
        let n = size(source, d);
        return Err(Error::runtime(format!(
            "{name}(): Number of indices ({given}) should be equal to source.size(dim): ({n}), for dim: {d}"
        )));
    }
    let slices = |t: &Tensor| {
        let mut s = SizeVec::from_slice(t.sizes());
        if d < s.len() {
            s.remove(d);
        }
        s
    };
    ensure!(
        source.dim() == self_.dim() && slices(self_) == slices(source),
        Runtime,
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {} \
         source.shape = {}",
        fmt_sizes(self_.sizes()),
        fmt_sizes(source.sizes())
    );
    Ok(d)
}

/// `index_add_`
pub fn index_add_(self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor, alpha: Scalar) -> Result<()> {
    let d = check_source("index_add_", self_, dim, index, source)?;
    over(
        self_,
        d,
        index,
        source,
        "index_add_",
        |e| Error::runtime(out_of_bounds(e, d)),
        |data, g, idx, src| erased::index_add(data, g, idx, src, alpha.param()),
    )
}

/// `index_copy_`
pub fn index_copy_(self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<()> {
    let d = wrap_dim(dim, self_.dim())?;
    ensure!(
        index.dim() <= 1,
        Index,
        "index_copy_(): Index should have dimension 1 or 0 (got {})",
        index.dim()
    );
    ensure!(
        source.dim() == self_.dim() || source.dim() == 0 || self_.dim() == 0,
        Index,
        "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source \
         dimensionality ({}), destination dimensionality ({})",
        source.dim(),
        self_.dim()
    );
    ensure!(
        index.dtype() == DType::I64,
        Runtime,
        "index_copy_(): Expected a long tensor for index, but got {}",
        index.dtype().scalar_type_name()
    );
    ensure!(
        self_.dtype() == source.dtype(),
        Runtime,
        "index_copy_(): self and source expected to have the same dtype, but got (self) {} and (source) {}",
        self_.dtype().scalar_type_name(),
        source.dtype().scalar_type_name()
    );
    ensure!(
        source.dim() > 0 || index.numel() == 1,
        Index,
        "index_copy_(): When source is scalar, index should have one element (got {})",
        index.numel()
    );
    let slices = |t: &Tensor| {
        let mut s = SizeVec::from_slice(t.sizes());
        if d < s.len() {
            s.remove(d);
        }
        s
    };
    let (own, other) = (slices(self_), slices(source));
    ensure!(
        own == other,
        Runtime,
        "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: {} at dimension \
         {d} and source slice shape: {} at dimension 0.",
        own.iter().map(i64::to_string).collect::<Vec<_>>().join(" "),
        other.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
    );
    let n = size(source, d.min(source.dim().saturating_sub(1)));
    ensure!(
        index.numel() == n,
        Index,
        "index_copy_(): Number of indices ({}) should be equal to source.size(dim) ({n})",
        index.numel()
    );
    slices_exist(self_, d, index)?;
    let bound = |e| Error::index(format!("index_copy_(): {}", out_of_bounds(e, d)));
    over(self_, d, index, source, "index_copy_", bound, erased::index_copy)
}

/// An empty tensor has no slice to write: PyTorch finds out when it looks at memory that is not there.
fn slices_exist(self_: &Tensor, d: usize, index: &Tensor) -> Result<()> {
    if self_.numel() != 0 || self_.dim() == 0 || index.numel() == 0 {
        return Ok(());
    }
    let (mut sizes, mut strides) = (SizeVec::from_slice(self_.sizes()), SizeVec::from_slice(self_.strides()));
    (sizes[d], strides[d]) = (index.numel(), 0);
    self_.view_raw(sizes, strides, self_.storage_offset()).map(drop)
}

/// `index_fill_.int_Scalar`
pub fn index_fill_(self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<()> {
    let d = wrap_dim(dim, self_.dim())?;
    ensure!(index.dtype() == DType::I64, Index, "index_fill_(): Expected dtype int64 for index.");
    ensure!(index.dim() <= 1, Runtime, "Index has to be a vector/scalar");
    ensure!(
        self_.is_complex() || !value.is_complex(),
        Runtime,
        "index_fill_(): Converting complex Scalar to non-complex type is not supported"
    );
    let v = element(value, self_.dtype())?;
    slices_exist(self_, d, index)?;
    let bound = |e| Error::index(out_of_bounds(e, d));
    over(self_, d, index, &v, "index_fill_", bound, erased::index_fill)
}
/// `index_fill_.int_Tensor`
pub fn index_fill_tensor_(self_: &Tensor, dim: i64, index: &Tensor, value: &Tensor) -> Result<()> {
    ensure!(
        value.dim() == 0,
        Runtime,
        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    if value.device() == Device::Meta {
        return index_fill_(self_, dim, index, Scalar::Int(0));
    }
    index_fill_(self_, dim, index, crate::backend::transfer::item_scalar(value)?)
}

/// `index_reduce_`
pub fn index_reduce_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<()> {
    if reduction(reduce).is_none_or(|r| r == Reduce::Sum) {
        return Err(Error::runtime(format!(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )));
    }
    let d = check_source("index_reduce_", self_, dim, index, source)?;
    if self_.device() == Device::Meta || index.numel() == 0 {
        return Ok(());
    }
    let whole = matches!(reduce, "amax" | "amin" | "prod") && include_self && self_.dim() > 1;
    if self_.is_complex() || (self_.dtype() == DType::Bool && !whole) {
        // the loops that PyTorch would come to
        let label = match reduce {
            _ if !include_self => "index_reduce_func_exclude_input_init",
            "amax" if self_.dim() > 1 => "maximum_cpu",
            "amin" if self_.dim() > 1 => "minimum_cpu",
            _ => "index_func_",
        };
        return Err(Error::not_implemented_for(label, self_.dtype()));
    }
    let idx = as_i64(index)?;
    let n = size(self_, d);
    for i in crate::backend::transfer::to_vec::<i64>(&idx)? {
        ensure!((0..n).contains(&i), Index, "index out of range in self");
    }
    super::scatter_reduce_(self_, dim, &spread_index(&idx, source, d)?, source, reduce, include_self)
}
/// A vector of indices of dimension `d`, repeated over the others.
pub fn spread_index(index: &Tensor, source: &Tensor, d: usize) -> Result<Tensor> {
    let mut strides = SizeVec::from_elem(0, source.dim());
    if source.dim() > 0 {
        strides[d] = if index.dim() == 0 { 0 } else { index.strides()[0] };
    }
    index.view_raw(SizeVec::from_slice(source.sizes()), strides, index.storage_offset())
}
