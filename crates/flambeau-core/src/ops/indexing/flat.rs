//! Masks, and indices into the flattened tensor.

use super::{as_i64, done, indices, written};
use crate::backend::cpu::access::Access;
use crate::backend::out::{OutMeta, Update};
use crate::backend::planned::Planned;
use crate::backend::transfer::{cast_to, contiguous_raw, item_scalar, resolve_lazy};
use crate::dispatch::op::Kernels;
use crate::generated::args;
use crate::iter::spec::Label;
use crate::iter::{PointwiseSpec, Promote, Rare};
use crate::tensor::geometry::{SizeVec, broadcast_shapes, expand_strides, fmt_sizes};
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::scalar::Scalar;
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

fn check_mask(mask: &Tensor) -> Result<()> {
    ensure!(
        mask.dtype() == DType::Bool,
        Runtime,
        "masked_fill_ only supports boolean masks, but got mask with dtype {}",
        mask.dtype().c_name()
    );
    Ok(())
}
fn check_fill(mask: &Tensor, value: &Tensor) -> Result<()> {
    ensure!(
        value.dim() == 0,
        Runtime,
        "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    check_mask(mask)
}
/// `masked_fill_` looks at its arguments before their sizes, `masked_fill` after them.
pub fn masked_fill_inplace_check(_: &Tensor, mask: &Tensor, _: Scalar) -> Result<()> {
    check_mask(mask)
}
/// `masked_fill_`
pub fn masked_fill_tensor_inplace_check(_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<()> {
    check_fill(mask, value)
}
fn fill_value(self_: &Tensor, mask: &Tensor, value: &Tensor) -> Result<Tensor> {
    broadcast_shapes(mask.sizes(), self_.sizes())?;
    check_fill(mask, value)?;
    if value.is_wrapped_number() {
        item_scalar(value)?.check_fits(self_.dtype())?;
    }
    ensure!(
        self_.is_complex() || !value.is_complex() || value.is_wrapped_number(),
        Runtime,
        "value cannot be converted to type {} without overflow",
        super::c_name(self_.dtype())
    );
    cast_to(value, self_.dtype())
}
/// `masked_fill.Tensor`
pub fn masked_fill_tensor_plan<'a>(
    self_: &'a Tensor,
    mask: &'a Tensor,
    value: &Tensor,
) -> Result<Planned<'a>> {
    let value = fill_value(self_, mask, value)?;
    Ok(Planned::new(&FILL, &[mask]).owned(value).input(self_).overlapping(fill_overlapping))
}
/// `masked_fill.Scalar`
pub fn masked_fill_plan<'a>(self_: &'a Tensor, mask: &'a Tensor, value: Scalar) -> Result<Planned<'a>> {
    broadcast_shapes(mask.sizes(), self_.sizes())?;
    check_mask(mask)?;
    let v = super::element(value, self_.dtype())?;
    let meta = self_.device() == Device::Meta;
    let v = if meta { Tensor::empty_raw(&[], v.dtype(), Device::Meta)? } else { v };
    masked_fill_tensor_plan(self_, mask, &v)
}
/// A place is filled if the mask holds for any of the elements that share it.
fn fill_overlapping(inputs: &[&Tensor], self_: &Tensor) -> Result<()> {
    let [mask, value, _] = *inputs else {
        return Err(Error::runtime("masked_fill has three inputs"));
    };
    let shape = broadcast_shapes(self_.sizes(), mask.sizes())?;
    if self_.sizes() != shape.as_slice() {
        return crate::iter::check_written(self_, &shape, self_.dtype(), self_.device());
    }
    let shared: Vec<i64> = (0..self_.dim()).filter(|d| self_.strides()[*d] == 0).map(|d| d as i64).collect();
    let m = crate::ops::expand(mask, &shape, false)?;
    let m = crate::ops::any_dims(&m, Some(&shared), true)?;
    crate::ops::masked_fill_tensor_(&crate::ops::creation::distinct(self_)?, &m, value)
}

/// `masked_select`
pub fn masked_select_check(_: &Tensor, mask: &Tensor) -> Result<()> {
    ensure!(mask.dtype() == DType::Bool, Runtime, "masked_select: expected BoolTensor for mask");
    Ok(())
}
/// `masked_select`
pub fn masked_select_cpu(&args::MaskedSelect { self_, mask }: &args::MaskedSelect) -> Result<Tensor> {
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

/// `masked_scatter_`: the mask broadcasts to the tensor.
pub fn masked_scatter_fits(self_: &Tensor, mask: &Tensor, source: &Tensor) -> Result<()> {
    ensure!(
        mask.dim() <= self_.dim() || self_.dtype() != source.dtype(),
        Runtime,
        "expand(CPU{}Type{{{}}}, size={}): the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor ({})",
        mask.dtype().scalar_type_name(),
        fmt_sizes(mask.sizes()),
        fmt_sizes(self_.sizes()),
        self_.dim(),
        mask.dim()
    );
    if self_.dtype() != source.dtype() { Ok(()) } else { expanded(mask, self_.sizes()).map(drop) }
}
/// `masked_scatter`: the input and the mask broadcast.
pub fn masked_scatter_shape(
    &args::MaskedScatter { self_, mask, source }: &args::MaskedScatter,
) -> Result<Update> {
    let sizes = broadcast_shapes(self_.sizes(), mask.sizes())?;
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
    Ok(Update::broadcast(self_, sizes))
}
/// `masked_scatter`
pub fn masked_scatter_cpu(
    &args::MaskedScatter { mask, source, .. }: &args::MaskedScatter,
    out: &Tensor,
) -> Result<()> {
    let (m, src) = (plain(&expanded(mask, out.sizes())?)?, plain(source)?);
    written(out, Tensor::is_contiguous, |t| {
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
pub fn nonzero_cpu(&args::Nonzero { self_ }: &args::Nonzero) -> Result<Tensor> {
    nonzero_here(self_)
}
/// `nonzero` of a tensor on the CPU.
pub(super) fn nonzero_here(self_: &Tensor) -> Result<Tensor> {
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
    let flat = if self_.dim() == 0 { crate::ops::unsqueeze(self_, 0)? } else { self_.clone() };
    crate::ops::unbind(&crate::ops::nonzero(&flat)?, 1)
}
/// `nonzero_static`: exactly `size` rows.
pub fn nonzero_static_shape(
    &args::NonzeroStatic { self_, size, .. }: &args::NonzeroStatic,
) -> Result<OutMeta> {
    ensure!(size >= 0, Runtime, "nonzero_static: 'size' must be an non-negative integer");
    Ok(OutMeta::of(&[size, self_.dim() as i64], DType::I64, self_.device()))
}
/// `nonzero_static`
pub fn nonzero_static_cpu(
    &args::NonzeroStatic { self_, size, fill_value }: &args::NonzeroStatic,
    out: &Tensor,
) -> Result<()> {
    let all = nonzero_here(self_)?;
    crate::ops::creation::fill_scalar_(out, Scalar::Int(fill_value))?;
    let n = Some(all.sizes()[0].min(size));
    crate::backend::transfer::copy_into(
        &crate::ops::views::slice(out, 0, Some(0), n, 1)?,
        &crate::ops::views::slice(&all, 0, Some(0), n, 1)?,
    )
}
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
/// `put`
pub fn put_shape(&args::Put { self_, index, source, accumulate }: &args::Put) -> Result<Update> {
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
    Ok(Update::of(self_))
}
/// `put`
pub fn put_cpu(&args::Put { index, source, accumulate, .. }: &args::Put, out: &Tensor) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    let (idx, src) = (as_i64(index)?, plain(source)?);
    written(out, Tensor::is_contiguous, |t| {
        let a = Access::new(&[&idx, &src], &[t])?;
        let kernel = if accumulate { erased::put_add } else { erased::put };
        done(kernel(a.any_mut(0)?, indices(&a, 0)?, a.any(1)?), "put_", t.dtype(), flat_bound)
    })
}
