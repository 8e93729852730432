//! One index per slice of a dimension: `index_select`, `index_add` and their like.

use super::along::{reduced, reduction};
use super::{Checked, as_i64, done, element, geo, indices, is_index, out_of_bounds, written};
use crate::backend::cpu::access::Access;
use crate::backend::out::{OutMeta, Update};
use crate::backend::transfer::{contiguous_raw, resolve_lazy};
use crate::generated::args;
use crate::tensor::geometry::{SizeVec, fmt_sizes, wrap_dim};
use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::{DType, ensure};
use flambeau_cpu::indexing::{IndexError, Reduce, Rounding, erased};
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
    ensure!(
        self_.dim() <= 1 || size(self_, d) > 0 || index.numel() == 0,
        Runtime,
        "index_select(): self indexing axis dim should be positive"
    );
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
    // PyTorch has a loop of its own for the second dimension
    done(r, "index_select", x.dtype(), |e| match d == 1 {
        true => Error::runtime(format!(
            "INDICES element is out of DATA bounds, id={} axis_dim={}",
            e.index, e.size
        )),
        false => Error::index("index out of range in self"),
    })
}

/// Runs a kernel over `out` as `[outer, n, inner]`.
fn over(
    out: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    label: &str,
    bound: impl Fn(flambeau_cpu::indexing::IndexError, usize) -> Error,
    kernel: impl FnOnce(AnyMut, Geo, &[i64], Any) -> Checked,
) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    let d = wrap_dim(dim, out.dim())?;
    let (idx, src) = (as_i64(index)?, contiguous_raw(&resolve_lazy(source)?)?);
    written(
        out,
        |t| geo(t, d).is_some(),
        |t| {
            let g = geo(t, d).ok_or_else(|| Error::runtime("a contiguous tensor has no geometry"))?;
            let a = Access::new(&[&idx, &src], &[t])?;
            let r = kernel(a.any_mut(0)?, g, indices(&a, 0)?, a.any(1)?);
            done(r, label, t.dtype(), |e| bound(e, d))
        },
    )
}

/// What `index_add` and `index_reduce` check of their arguments.
fn check_source(name: &str, self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<usize> {
    let d = wrap_dim(dim, self_.dim())?;
    ensure!(
        index.dim() <= 1,
        Index,
        "{name}(): Index is supposed to be a vector, but got dim: {} with type: {} and size: {}",
        index.dim(),
        index.dtype().scalar_type_name(),
        fmt_sizes(index.sizes())
    );
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

/// `index_add`
pub fn index_add_shape(&args::IndexAdd { self_, dim, index, source, .. }: &args::IndexAdd) -> Result<Update> {
    check_source("index_add_", self_, dim, index, source)?;
    Ok(Update::contiguous(self_))
}
/// `index_add`
pub fn index_add_cpu(
    &args::IndexAdd { dim, index, source, alpha, .. }: &args::IndexAdd,
    out: &Tensor,
) -> Result<()> {
    // along the first and the last dimension of several PyTorch scatters, which says it so
    let bound = |e: IndexError, d: usize| match out.dim() > 1 && (d == 0 || d + 1 == out.dim()) {
        true => Error::runtime(out_of_bounds(e, d)),
        false => Error::index("index out of range in self"),
    };
    // PyTorch scatters along the first and the last dimension, adds slices along others, and numbers one by one
    let d = wrap_dim(dim, out.dim())?;
    let outer = d == 0 || d + 1 == out.dim();
    let rounding = match out.dim() <= 1 {
        true => Rounding::Steps,
        false if outer && alpha.to_f64() == 1.0 && index.dtype() == DType::I64 => Rounding::Once,
        false => Rounding::Sums,
    };
    over(out, dim, index, source, "index_add_", bound, |data, g, idx, src| {
        erased::index_add(data, g, idx, src, alpha.param(), rounding)
    })
}

/// `index_copy`
pub fn index_copy_shape(&args::IndexCopy { self_, dim, index, source }: &args::IndexCopy) -> Result<Update> {
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
    Ok(Update::contiguous(self_))
}
/// `index_copy`
pub fn index_copy_cpu(
    &args::IndexCopy { dim, index, source, .. }: &args::IndexCopy,
    out: &Tensor,
) -> Result<()> {
    let bound = |e, d| Error::index(format!("index_copy_(): {}", out_of_bounds(e, d)));
    over(out, dim, index, source, "index_copy_", bound, erased::index_copy)
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

fn check_fill(self_: &Tensor, dim: i64, index: &Tensor, complex: bool) -> Result<Update> {
    ensure!(index.dtype() == DType::I64, Index, "index_fill_(): Expected dtype int64 for index.");
    ensure!(
        self_.is_complex() || !complex,
        Runtime,
        "index_fill_(): Converting complex Scalar to non-complex type is not supported"
    );
    let d = wrap_dim(dim, self_.dim())?;
    ensure!(index.dim() <= 1, Runtime, "Index has to be a vector/scalar");
    slices_exist(self_, d, index)?;
    Ok(Update::of(self_))
}
fn fill(out: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<()> {
    let v = element(value, out.dtype())?;
    let bound = |e, d| Error::index(out_of_bounds(e, d));
    over(out, dim, index, &v, "index_fill_", bound, erased::index_fill)
}
/// `index_fill.int_Scalar`
pub fn index_fill_shape(&args::IndexFill { self_, dim, index, value }: &args::IndexFill) -> Result<Update> {
    check_fill(self_, dim, index, value.is_complex())
}
/// `index_fill.int_Scalar`
pub fn index_fill_cpu(
    &args::IndexFill { dim, index, value, .. }: &args::IndexFill,
    out: &Tensor,
) -> Result<()> {
    fill(out, dim, index, value)
}
/// `index_fill.int_Tensor`
pub fn index_fill_tensor_shape(
    &args::IndexFillTensor { self_, dim, index, value }: &args::IndexFillTensor,
) -> Result<Update> {
    ensure!(
        value.dim() == 0,
        Runtime,
        "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    check_fill(self_, dim, index, value.is_complex())
}
/// `index_fill.int_Tensor`
pub fn index_fill_tensor_cpu(
    &args::IndexFillTensor { dim, index, value, .. }: &args::IndexFillTensor,
    out: &Tensor,
) -> Result<()> {
    fill(out, dim, index, crate::backend::transfer::item_scalar(value)?)
}

/// `index_reduce`
pub fn index_reduce_shape(
    &args::IndexReduce { self_, dim, index, source, reduce, .. }: &args::IndexReduce,
) -> Result<Update> {
    kept_reduction(reduce)?;
    check_source("index_reduce_", self_, dim, index, source)?;
    Ok(Update::contiguous(self_))
}
fn kept_reduction(reduce: &str) -> Result<Reduce> {
    reduction(reduce).filter(|r| *r != Reduce::Sum).ok_or_else(|| {
        Error::runtime(format!(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        ))
    })
}
/// `index_reduce`
pub fn index_reduce_cpu(
    &args::IndexReduce { dim, index, source, reduce, include_self, .. }: &args::IndexReduce,
    out: &Tensor,
) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    let (op, d) = (kept_reduction(reduce)?, wrap_dim(dim, out.dim())?);
    let whole = op != Reduce::Mean && include_self && out.dim() > 1;
    if out.is_complex() || (out.dtype() == DType::Bool && !whole) {
        // the loops that PyTorch would come to
        let label = match op {
            _ if !include_self => "index_reduce_func_exclude_input_init",
            Reduce::Amax if out.dim() > 1 => "maximum_cpu",
            Reduce::Amin if out.dim() > 1 => "minimum_cpu",
            _ => "index_func_",
        };
        return Err(Error::not_implemented_for(label, out.dtype()));
    }
    let idx = as_i64(index)?;
    let n = size(out, d);
    let all = crate::backend::transfer::to_vec::<i64>(&idx)?;
    // without the input's own elements PyTorch fills their places first
    if !include_self && let Some(i) = all.iter().find(|i| !(-n..n).contains(*i)) {
        return Err(Error::index(out_of_bounds(IndexError { index: *i, size: n as usize }, d)));
    }
    for i in all {
        ensure!((0..n).contains(&i), Index, "index out of range in self");
    }
    reduced(out, dim, &spread_index(&idx, source, d)?, source, op, include_self, Rounding::Steps)
}
/// A vector of indices of dimension `d`, repeated over the others.
pub fn spread_index(index: &Tensor, source: &Tensor, d: usize) -> Result<Tensor> {
    let mut strides = SizeVec::from_elem(0, source.dim());
    if source.dim() > 0 {
        strides[d] = if index.dim() == 0 { 0 } else { index.strides()[0] };
    }
    index.view_raw(SizeVec::from_slice(source.sizes()), strides, index.storage_offset())
}
