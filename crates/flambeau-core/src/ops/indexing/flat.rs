//! Masks, and indices into the flattened tensor.

use super::along::functional;
use super::{as_i64, done, fresh, indices, plain_name, written};
use crate::backend::cpu::access::Access;
use crate::backend::out::OutMeta;
use crate::backend::pointwise;
use crate::backend::transfer::{cast_to, contiguous_raw, resolve_lazy};
use crate::dispatch::op::Kernels;
use crate::generated::args;
use crate::iter::spec::Label;
use crate::iter::{PointwiseSpec, Promote, Rare};
use crate::tensor::geometry::{SizeVec, broadcast_shapes, expand_strides};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
use crate::types::schema::OutDtype;
use crate::{DType, ensure};
use flambeau_cpu::indexing::{Inner, erased};
use flambeau_cpu::sorting;

static FILL: PointwiseSpec = PointwiseSpec {
    name: "masked_fill",
    label: Label::plain("masked_fill"),
    kernel: &flambeau_cpu::pointwise::WHERE,
    promote: Promote::SkipFirst,
    rare: Rare::ALL,
    kernels: Kernels::new(&[]),
};

/// A view of `t` as `sizes`, without dispatch.
pub(super) fn expanded(t: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if t.sizes() == sizes {
        return Ok(t.clone());
    }
    let st = expand_strides(t.sizes(), t.strides(), sizes)?;
    t.view_raw(SizeVec::from_slice(sizes), st, t.storage_offset())
}
/// Contiguous, without lazy bits.
fn plain(t: &Tensor) -> Result<Tensor> {
    contiguous_raw(&resolve_lazy(t)?)
}

fn fill_value(self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<Tensor> {
    ensure!(
        mask.dtype() == DType::Bool,
        Runtime,
        "masked_fill_ only supports boolean masks, but got mask with dtype {}",
        plain_name(mask.dtype())
    );
    ensure!(
        value.dim() == 0,
        Runtime,
        "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    ensure!(
        self_.is_complex() || !value.is_complex(),
        Runtime,
        "value cannot be converted to type {} without overflow",
        super::c_name(self_.dtype())
    );
    cast_to(value, self_.dtype())
}
/// `masked_fill.Tensor`
pub fn masked_fill_tensor(self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<Tensor> {
    pointwise::pointwise(&FILL, &[mask, &fill_value(self_, mask, value)?, self_], &[])
}
/// `masked_fill.Tensor` on the meta device.
pub fn masked_fill_tensor_meta_fn(self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<Tensor> {
    masked_fill_tensor(self_, mask, value)
}
/// `masked_fill_.Tensor`
pub fn masked_fill_tensor_(self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<()> {
    let v = fill_value(self_, mask, value)?;
    let shape = broadcast_shapes(self_.sizes(), mask.sizes())?;
    if self_.sizes() == shape.as_slice()
        && crate::tensor::geometry::has_internal_overlap(self_.sizes(), self_.strides())
    {
        // a place is filled if the mask holds for any of the elements that share it
        let shared: Vec<i64> =
            (0..self_.dim()).filter(|d| self_.strides()[*d] == 0).map(|d| d as i64).collect();
        let m = crate::ops::expand(mask, &shape, false)?;
        let m = crate::ops::any_dims(&m, Some(&shared), true)?;
        return masked_fill_tensor_(&crate::ops::creation::distinct(self_)?, &m, &v);
    }
    crate::iter::check_written(self_, &shape, self_.dtype(), self_.device())?;
    pointwise::pointwise_out(&FILL, &OutDtype::Cast, &[mask, &v, self_], &[], &mut self_.clone())
}
fn number(self_: &Tensor, value: Scalar) -> Result<Tensor> {
    let v = super::element(value, self_.dtype())?;
    if self_.device() == Device::Meta { Tensor::empty_raw(&[], v.dtype(), Device::Meta) } else { Ok(v) }
}
/// `masked_fill.Scalar`
pub fn masked_fill(self_: &Tensor, mask: &Tensor, value: Scalar) -> Result<Tensor> {
    masked_fill_tensor(self_, mask, &number(self_, value)?)
}
/// `masked_fill.Scalar` on the meta device.
pub fn masked_fill_meta_fn(self_: &Tensor, mask: &Tensor, value: Scalar) -> Result<Tensor> {
    masked_fill(self_, mask, value)
}
/// `masked_fill_.Scalar`
pub fn masked_fill_(self_: &Tensor, mask: &Tensor, value: Scalar) -> Result<()> {
    masked_fill_tensor_(self_, mask, &number(self_, value)?)
}

/// `masked_select`
pub fn masked_select(self_: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ensure!(mask.dtype() == DType::Bool, Runtime, "masked_select: expected BoolTensor for mask");
    let shape = broadcast_shapes(self_.sizes(), mask.sizes())?;
    let (x, m) = (plain(&expanded(self_, &shape)?)?, plain(&expanded(mask, &shape)?)?);
    let n = {
        let a = Access::new(&[&m], &[])?;
        sorting::mask_count(a.slice::<crate::B8>(0)?)
    };
    let out = Tensor::empty_raw(&[n as i64], x.dtype(), x.device())?;
    let a = Access::new(&[&x, &m], &[&out])?;
    sorting::erased::masked_select(a.any(0)?, a.slice(1)?, a.any_mut(0)?)
        .ok_or_else(|| Error::not_implemented_for("masked_select", x.dtype()))?;
    drop(a);
    Ok(out)
}

functional! {
    put put_meta_fn = put_(index: &Tensor, source: &Tensor, accumulate: bool);
}
/// `masked_scatter`: the input and the mask broadcast.
pub fn masked_scatter(self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    let shape = broadcast_shapes(self_.sizes(), mask.sizes())?;
    let out = contiguous_raw(&expanded(self_, &shape)?)?;
    let out = if out.storage().same(self_.storage()) { fresh(&out)? } else { out };
    masked_scatter_(&out, mask, source)?;
    Ok(out)
}
/// `masked_scatter` on the meta device.
pub fn masked_scatter_meta_fn(self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<Tensor> {
    masked_scatter(self_, mask, source)
}
/// `masked_scatter_`
pub fn masked_scatter_(self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<()> {
    ensure!(
        self_.dtype() == source.dtype(),
        Runtime,
        "masked_scatter: expected self and source to have same dtypes but got{} and {}",
        self_.dtype().scalar_type_name(),
        source.dtype().scalar_type_name()
    );
    ensure!(
        mask.dtype() == DType::Bool,
        Runtime,
        "masked_scatter_ only supports boolean masks, but got mask with dtype {}",
        mask.dtype().scalar_type_name()
    );
    let m = expanded(mask, self_.sizes())?;
    if self_.device() == Device::Meta {
        return Ok(());
    }
    let (m, src) = (plain(&m)?, plain(source)?);
    written(self_, &[&m, &src], Tensor::is_contiguous, |t| {
        let a = Access::new(&[&m, &src], &[t])?;
        let at = sorting::nonzero(a.slice::<crate::B8>(0)?, &[m.numel() as usize]);
        ensure!(
            at.len() <= src.numel() as usize,
            Runtime,
            "Number of elements of source < number of ones in mask"
        );
        let at: Vec<usize> = at.into_iter().map(|i| i as usize).collect();
        drop(a);
        let part = src.view_raw(
            SizeVec::from_slice(&[at.len() as i64]),
            SizeVec::from_slice(&[1]),
            src.storage_offset(),
        )?;
        let a = Access::new(&[&part], &[t])?;
        erased::index_put(a.any_mut(0)?, &at, Inner::Contiguous(1), a.any(0)?)
            .ok_or_else(|| Error::not_implemented_for("masked_scatter", t.dtype()))
    })
}

/// `where` of a condition alone.
pub fn where_nonzero(condition: &Tensor) -> Result<Vec<Tensor>> {
    crate::ops::nonzero_tuple(condition)
}
/// `nonzero`
pub fn nonzero(self_: &Tensor) -> Result<Tensor> {
    if self_.dtype().is_wide_unsigned() {
        return Err(Error::not_implemented_for("nonzero_count_cpu", self_.dtype()));
    }
    let x = plain(self_)?;
    let shape: Vec<usize> = x.sizes().iter().map(|s| *s as usize).collect();
    let (v, n) = {
        let a = Access::new(&[&x], &[])?;
        let unsupported = || Error::not_implemented_for("nonzero_count_cpu", x.dtype());
        match shape.len() {
            0 => (Vec::new(), sorting::erased::mask_count(a.any(0)?).ok_or_else(unsupported)?),
            d => {
                let v = sorting::erased::nonzero(a.any(0)?, &shape).ok_or_else(unsupported)?;
                let n = v.len() / d;
                (v, n)
            }
        }
    };
    Tensor::from_vec_raw(v, &[n as i64, shape.len() as i64])
}
/// `nonzero(as_tuple=True)`: one vector of coordinates per dimension. A zero-dim tensor counts as a vector.
pub fn nonzero_tuple(self_: &Tensor) -> Result<Vec<Tensor>> {
    let flat = if self_.dim() == 0 {
        self_.view_raw(SizeVec::from_slice(&[1]), SizeVec::from_slice(&[1]), self_.storage_offset())?
    } else {
        self_.clone()
    };
    crate::ops::views::unbind(&nonzero(&flat)?, 1)
}
/// `nonzero_static`: exactly `size` rows.
pub fn nonzero_static(self_: &Tensor, size: i64, fill_value: i64) -> Result<Tensor> {
    ensure!(size >= 0, Runtime, "nonzero_static: 'size' must be an non-negative integer");
    if self_.device() == Device::Meta {
        return Tensor::empty_raw(&[size, self_.dim() as i64], DType::I64, Device::Meta);
    }
    let all = nonzero(self_)?;
    let (have, rank) = (all.sizes()[0], all.sizes()[1]);
    let out = Tensor::empty_raw(&[size, rank], DType::I64, self_.device())?;
    crate::ops::creation::fill_scalar_(&out, Scalar::Int(fill_value))?;
    let n = Some(have.min(size));
    crate::backend::transfer::copy_into(
        &crate::ops::views::slice(&out, 0, Some(0), n, 1)?,
        &crate::ops::views::slice(&all, 0, Some(0), n, 1)?,
    )?;
    Ok(out)
}
pub use self::nonzero_static as nonzero_static_meta_fn;
/// `argwhere`
pub fn argwhere(self_: &Tensor) -> Result<Tensor> {
    crate::ops::nonzero(self_)
}

fn flat_bound(e: flambeau_cpu::indexing::IndexError) -> Error {
    Error::index(format!(
        "out of range: tried to access index {} on a tensor of {} elements.",
        e.index, e.size
    ))
}
/// `take`
pub fn take_shape(&args::Take { self_, index }: &args::Take) -> Result<OutMeta> {
    ensure!(
        index.dtype() == DType::I64,
        Runtime,
        "take(): Expected a long tensor for index, but got {}",
        index.dtype().scalar_type_name()
    );
    ensure!(self_.numel() != 0 || index.numel() == 0, Index, "take(): tried to take from an empty tensor");
    Ok(OutMeta::of(index.sizes(), self_.dtype(), self_.device()))
}
/// `take`
pub fn take_cpu(&args::Take { self_, index }: &args::Take, out: &Tensor) -> Result<()> {
    let (x, idx) = (plain(self_)?, as_i64(index)?);
    let a = Access::new(&[&x, &idx], &[out])?;
    done(erased::take(a.any(0)?, indices(&a, 1)?, a.any_mut(0)?), "take", x.dtype(), flat_bound)
}
/// `put_`
pub fn put_(self_: &Tensor, index: &Tensor, source: &Tensor, accumulate: bool) -> Result<()> {
    if !accumulate {
        crate::settings::determinism::alert_not_deterministic("put_")?;
    }
    ensure!(
        index.dtype() == DType::I64,
        Runtime,
        "put_(): Expected a long tensor for index, but got {}",
        index.dtype().scalar_type_name()
    );
    ensure!(
        self_.dtype() == source.dtype(),
        Runtime,
        "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
        self_.dtype().scalar_type_name(),
        source.dtype().scalar_type_name()
    );
    ensure!(
        source.numel() == index.numel(),
        Index,
        "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, \
         index.numel() = {}",
        source.numel(),
        index.numel()
    );
    ensure!(
        self_.numel() != 0 || index.numel() == 0,
        Index,
        "put_(): Tried to put elements into an empty tensor"
    );
    if self_.device() == Device::Meta || index.numel() == 0 {
        return Ok(());
    }
    let (idx, src) = (as_i64(index)?, plain(source)?);
    written(self_, &[&idx, &src], Tensor::is_contiguous, |t| {
        let a = Access::new(&[&idx, &src], &[t])?;
        let kernel = if accumulate { erased::put_add } else { erased::put };
        done(kernel(a.any_mut(0)?, indices(&a, 0)?, a.any(1)?), "put_", t.dtype(), flat_bound)
    })
}
