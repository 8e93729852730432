//! Copies, and sparse tensors of other sizes: what strided tensors do by strides, these do by their indices.

use crate::coo::{Coo, cast, index, layout_name, take};
use flambeau_core::generated::{
    copy as c, creation as m, indexing as i, joining as j, random as r, views as v,
};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::iter::promotion::result_type;
use flambeau_core::tensor::geometry::{self, fmt_sizes, wrap_dim};
use flambeau_core::tensor::sparse::Parts;
use flambeau_core::types::keys::Key::SparseCpu;
use flambeau_core::{DType, Device, Error, Layout, MemoryFormat, Result, Tensor, bail, ensure, ops};

pub(super) fn fill() {
    c::CLONE.register(SparseCpu, |t, _| clone(t));
    c::TO_COPY.register(SparseCpu, to_copy);
    c::COPY_.register(SparseCpu, copy_);
    m::ZERO_.register(SparseCpu, zero_);
    m::EMPTY_LIKE.register(SparseCpu, zeros_like);
    m::ZEROS_LIKE.register(SparseCpu, zeros_like);
    r::RANDN_LIKE.register(SparseCpu, randn_like);
    v::ALIAS.register(SparseCpu, |t| Ok(t.alias_detached()));
    v::DETACH.register(SparseCpu, |t| Ok(t.alias_detached()));
    v::TRANSPOSE.register(SparseCpu, transpose);
    v::PERMUTE.register(SparseCpu, permute);
    v::UNSQUEEZE.register(SparseCpu, unsqueeze);
    v::SELECT.register(SparseCpu, select);
    v::SLICE.register(SparseCpu, slice);
    i::INDEX_SELECT.register(SparseCpu, index_select);
    j::CAT.register(SparseCpu, cat);
}

/// The `out=` form: the tensor that is given takes over the result.
pub(crate) fn write_out(r: &Tensor, _self: &Tensor, out: &mut Tensor) -> Result<()> {
    ensure!(
        flambeau_core::iter::promotion::can_cast(r.dtype(), out.dtype()),
        Runtime,
        "result type {} can't be cast to the desired output type {}",
        r.dtype().scalar_type_name(),
        out.dtype().scalar_type_name()
    );
    ensure!(
        r.layout() == out.layout(),
        Runtime,
        "Expected out tensor to have layout {}, but got {} instead",
        layout_name(r.layout()),
        layout_name(out.layout())
    );
    let Some(p) = r.sparse_parts() else { return ops::copy_(out, r, false) };
    let p = p.with_values(cast(p.values(), out.dtype())?);
    if out.sizes() != r.sizes() {
        *out = Tensor::from_sparse_parts(r.sizes(), r.layout(), p)?;
        return Ok(());
    }
    out.set_sparse_parts(p)
}

/// Every part copied by `f`.
fn each(p: Parts, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Parts> {
    Ok(match p {
        Parts::Coo { indices, values, coalesced } => {
            Parts::Coo { indices: f(&indices)?, values: f(&values)?, coalesced }
        }
        Parts::Compressed { compressed, plain, values } => {
            Parts::Compressed { compressed: f(&compressed)?, plain: f(&plain)?, values: f(&values)? }
        }
    })
}
fn parts(t: &Tensor) -> Result<Parts> {
    t.sparse_parts().ok_or_else(|| Error::runtime("expected a sparse tensor"))
}
pub(crate) fn clone(t: &Tensor) -> Result<Tensor> {
    let p = each(parts(t)?, |p| ops::clone(p, Some(MemoryFormat::Contiguous)))?;
    Tensor::from_sparse_parts(t.sizes(), t.layout(), p)
}
fn check_device(device: Option<Device>) -> Result<()> {
    match device {
        None | Some(Device::Cpu) => Ok(()),
        Some(d) => Err(Error::missing(format!("sparse tensors on {d}"))),
    }
}
fn to_copy(
    t: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    _non_blocking: bool,
    _format: Option<MemoryFormat>,
) -> Result<Tensor> {
    check_device(device)?;
    ensure!(pin_memory != Some(true), Missing, "pinned memory");
    let copy = match dtype {
        Some(d) if d != t.dtype() => {
            let p = parts(t)?;
            let v = cast(p.values(), d)?;
            let p = each(p.with_values(v.clone()), |p| {
                if p.is_same(&v) { Ok(v.clone()) } else { ops::clone(p, None) }
            })?;
            Tensor::from_sparse_parts(t.sizes(), t.layout(), p)?
        }
        _ => clone(t)?,
    };
    match layout {
        Some(l) if l != t.layout() => crate::ops::to_layout(&copy, l),
        _ => Ok(copy),
    }
}
fn copy_(to: &Tensor, from: &Tensor, _: bool) -> Result<()> {
    if to.layout() != from.layout() {
        let name = |t: &Tensor| {
            format!(
                "torch.{}{}Tensor",
                if t.is_sparse() { "sparse." } else { "" },
                t.dtype().scalar_type_name()
            )
        };
        bail!(
            Runtime,
            "copy_() between dense and sparse Tensors is not implemented! Found self type = {} and src type = {}",
            name(to),
            name(from)
        );
    }
    if to.is_same(from) {
        return Ok(());
    }
    ensure!(
        to.sizes() == from.sizes(),
        Missing,
        "copy_ of a sparse tensor of size {} into one of size {}",
        fmt_sizes(from.sizes()),
        fmt_sizes(to.sizes())
    );
    let p = each(parts(from)?, |p| ops::clone(p, None))?;
    let v = cast(p.values(), to.dtype())?;
    to.set_sparse_parts(p.with_values(v))
}
fn zero_(t: &Tensor) -> Result<()> {
    t.set_sparse_parts(parts(&zeros_of(t, t.dtype())?)?)
}
/// Nothing specified, in the layout and with the numbers of sparse and dense dimensions of `t`.
pub(crate) fn zeros_of(t: &Tensor, dtype: DType) -> Result<Tensor> {
    match parts(t)? {
        Parts::Coo { indices, .. } => Coo::empty(t.sizes(), indices.sizes()[0] as usize, dtype)?.build(),
        Parts::Compressed { compressed, plain, values } => {
            let batch = plain.dim() - 1;
            let mut plain_sizes = plain.sizes().to_vec();
            plain_sizes[batch] = 0;
            let mut value_sizes = values.sizes().to_vec();
            value_sizes[batch] = 0;
            let p = Parts::Compressed {
                compressed: Tensor::zeros_raw(compressed.sizes(), compressed.dtype(), Device::Cpu)?,
                plain: Tensor::empty_raw(&plain_sizes, plain.dtype(), Device::Cpu)?,
                values: Tensor::empty_raw(&value_sizes, dtype, Device::Cpu)?,
            };
            Tensor::from_sparse_parts(t.sizes(), t.layout(), p)
        }
    }
}
fn zeros_like(
    t: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    _: Option<MemoryFormat>,
) -> Result<Tensor> {
    check_device(device)?;
    ensure!(pin_memory != Some(true), Missing, "pinned memory");
    let dtype = dtype.unwrap_or(t.dtype());
    match layout.unwrap_or(t.layout()) {
        Layout::Strided => Tensor::zeros_raw(t.sizes(), dtype, Device::Cpu),
        l if l == t.layout() => zeros_of(t, dtype),
        l => crate::compressed::zeros(t, dtype, l),
    }
}

/// Normal numbers where a compressed tensor has elements.
fn randn_like(
    t: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    _: Option<MemoryFormat>,
) -> Result<Tensor> {
    check_device(device)?;
    ensure!(pin_memory != Some(true), Missing, "pinned memory");
    ensure!(
        !t.is_sparse(),
        Unsupported,
        "Could not run 'aten::normal_' with arguments from the 'SparseCPU' backend."
    );
    ensure!(layout.is_none_or(|l| l == t.layout()), Missing, "randn_like of another layout");
    let p = parts(t)?;
    let values = ops::randn_like(p.values(), dtype, None, None, None, None)?;
    let p = each(p.with_values(values.clone()), |p| {
        if p.is_same(&values) { Ok(values.clone()) } else { ops::clone(p, None) }
    })?;
    Tensor::from_sparse_parts(t.sizes(), t.layout(), p)
}

/// Other sparse dimensions in another order, other dense dimensions in another order.
fn permuted(t: &Coo, dims: &[usize]) -> Result<Tensor> {
    let s = t.sparse_dim();
    let order: Vec<i64> = dims[..s].iter().map(|d| *d as i64).collect();
    let moved = order.iter().enumerate().any(|(i, d)| i as i64 != *d);
    let indices = if moved { take(&t.indices, 0, &order)? } else { t.indices.clone() };
    let mut of_values = vec![0];
    of_values.extend(dims[s..].iter().map(|d| (d - s + 1) as i64));
    let values = ops::permute(&t.values, &of_values)?;
    let values = ops::contiguous(&values, MemoryFormat::Contiguous)?;
    let sizes = dims.iter().map(|d| t.sizes[*d]).collect();
    Coo { sizes, indices, values, coalesced: t.coalesced && !moved }.build()
}
fn transpose(t: &Tensor, a: i64, b: i64) -> Result<Tensor> {
    let (a, b) = (wrap_dim(a, t.dim())?, wrap_dim(b, t.dim())?);
    if !t.is_sparse() {
        return crate::compressed::transpose(t, a, b);
    }
    let c = Coo::of(t, "transpose")?;
    let s = c.sparse_dim();
    ensure!(
        a == b || (a < s && b < s),
        Runtime,
        "sparse transpose: transposed dimensions must be sparse Got sparse_dim: {s}, d0: {a}, d1: {b}"
    );
    let mut dims: Vec<usize> = (0..t.dim()).collect();
    // a number has no dimension 0, and is its own transpose
    if a != b {
        dims.swap(a, b);
    }
    permuted(&c, &dims)
}
fn permute(t: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let n = t.dim();
    ensure!(
        dims.len() == n,
        Runtime,
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering \
         of dimensions i.e. input.dim() = {n} is not equal to len(dims) = {}",
        dims.len()
    );
    let dims = dims.iter().map(|d| wrap_dim(*d, n)).collect::<Result<Vec<_>>>()?;
    let mut seen = vec![false; n];
    for d in &dims {
        ensure!(!seen[*d], Runtime, "permute(sparse_coo): duplicate dims are not allowed.");
        seen[*d] = true;
    }
    let c = Coo::of(t, "permute")?;
    ensure!(
        dims[..c.sparse_dim()].iter().all(|d| *d < c.sparse_dim()),
        Runtime,
        "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed.Only transpositions \
         within sparse and dense dimensions are supported."
    );
    permuted(&c, &dims)
}
fn unsqueeze(t: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, t.dim() + 1)?;
    let c = Coo::of(t, "unsqueeze")?;
    let mut sizes = c.sizes.clone();
    sizes.insert(d, 1);
    let s = c.sparse_dim();
    if d > s {
        let values = ops::unsqueeze(&c.values, (d - s + 1) as i64)?;
        return Coo { sizes, values, ..c }.build();
    }
    let zeros = Tensor::zeros_raw(&[1, c.nnz()], DType::I64, Device::Cpu)?;
    let before = ops::narrow(&c.indices, 0, 0, d as i64)?;
    let after = ops::narrow(&c.indices, 0, d as i64, (s - d) as i64)?;
    let indices = ops::cat(&[before, zeros, after], 0)?;
    Coo { sizes, indices, values: c.values, coalesced: false }.build()
}
fn without_row(indices: &Tensor, d: usize) -> Result<Tensor> {
    let rest: Vec<i64> = (0..indices.sizes()[0]).filter(|r| *r != d as i64).collect();
    take(indices, 0, &rest)
}
fn row(indices: &Tensor, d: usize) -> Result<Vec<i64>> {
    ops::select(indices, 0, d as i64)?.try_to_vec::<i64>()
}
fn select(t: &Tensor, dim: i64, at: i64) -> Result<Tensor> {
    ensure!(t.dim() > 0, Index, "select() cannot be applied to a 0-dim tensor.");
    let d = wrap_dim(dim, t.dim())?;
    let size = t.sizes()[d];
    ensure!(
        (-size..size).contains(&at),
        Index,
        "select(): index {at} out of range for tensor of size {} at dimension {d}",
        fmt_sizes(t.sizes())
    );
    let at = if at < 0 { at + size } else { at };
    if !t.is_sparse() {
        return super::lines::select(t, d, at);
    }
    let c = Coo::of(t, "select")?;
    let mut sizes = c.sizes.clone();
    sizes.remove(d);
    let s = c.sparse_dim();
    if d >= s {
        let values =
            ops::contiguous(&ops::select(&c.values, (d - s + 1) as i64, at)?, MemoryFormat::Contiguous)?;
        return Coo { sizes, values, ..c }.build();
    }
    c.flat()?;
    let kept: Vec<i64> =
        row(&c.indices, d)?.iter().zip(0..).filter(|(i, _)| **i == at).map(|(_, k)| k).collect();
    let values = take(&c.values, 0, &kept)?;
    if s == 1 {
        // no sparse dimension is left
        return if kept.len() == 1 {
            ops::select(&values, 0, 0)
        } else {
            ops::sum(&values, Some(&[0]), false, Some(t.dtype()))
        };
    }
    let indices = take(&without_row(&c.indices, d)?, 1, &kept)?;
    Coo { sizes, indices, values, coalesced: false }.build()
}
fn slice(t: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor> {
    ensure!(t.dim() > 0, Index, "slice() cannot be applied to a 0-dim tensor.");
    let d = wrap_dim(dim, t.dim())?;
    ensure!(step > 0, Runtime, "slice step must be positive");
    let n = t.sizes()[d];
    let clamp = |v: i64| (if v < 0 { v.saturating_add(n) } else { v }).clamp(0, n);
    let from = clamp(start.unwrap_or(0));
    let to = clamp(end.unwrap_or(i64::MAX)).max(from);
    if !t.is_sparse() {
        return super::lines::by_coordinates(t, |coo| slice(coo, dim, start, end, step));
    }
    let c = Coo::of(t, "slice")?;
    let mut sizes = c.sizes.clone();
    sizes[d] = (to - from) / step + i64::from((to - from) % step != 0);
    let s = c.sparse_dim();
    if d >= s {
        let values = ops::slice(&c.values, (d - s + 1) as i64, Some(from), Some(to), step)?;
        return Coo { sizes, values: ops::contiguous(&values, MemoryFormat::Contiguous)?, ..c }.build();
    }
    c.flat()?;
    let own = row(&c.indices, d)?;
    let inside = |i: i64| (from..to).contains(&i) && (i - from) % step == 0;
    let kept: Vec<i64> = own.iter().zip(0..).filter(|(i, _)| inside(**i)).map(|(_, k)| k).collect();
    let new: Vec<i64> = kept.iter().map(|k| (own[*k as usize] - from) / step).collect();
    let indices = with_row(&take(&c.indices, 1, &kept)?, d, &new)?;
    Coo { sizes, indices, values: take(&c.values, 0, &kept)?, coalesced: c.coalesced }.build()
}
/// Other indices of dimension `d`.
fn with_row(indices: &Tensor, d: usize, new: &[i64]) -> Result<Tensor> {
    let new = ops::unsqueeze(&index(new)?, 0)?;
    let before = ops::narrow(indices, 0, 0, d as i64)?;
    let after = ops::narrow(indices, 0, d as i64 + 1, indices.sizes()[0] - d as i64 - 1)?;
    ops::cat(&[before, new, after], 0)
}
fn index_select(t: &Tensor, dim: i64, at: &Tensor) -> Result<Tensor> {
    ensure!(t.dim() > 0, Index, "index_select() cannot be applied to a 0-dim tensor.");
    let d = wrap_dim(dim, t.dim())?;
    ensure!(
        at.dim() == 1 && at.layout() == Layout::Strided,
        Index,
        "index_select() argument index must be 1-D and strided (non-sparse) tensor."
    );
    ensure!(
        matches!(at.dtype(), DType::I64 | DType::I32),
        Index,
        "index_select(): Expected dtype int32/int64 for index but got {}",
        at.dtype().scalar_type_name()
    );
    if !t.is_sparse() {
        return super::lines::by_coordinates(t, |coo| index_select(coo, dim, at));
    }
    let c = Coo::of(t, "index_select")?;
    let size = c.sizes[d];
    let wanted = at.try_to_vec::<i64>()?;
    for i in &wanted {
        ensure!(
            (-size..size).contains(i),
            Index,
            "index_select(): index contains {i} that is out of range for tensor of size {} at dimension {d}",
            fmt_sizes(&c.sizes)
        );
    }
    let wanted: Vec<i64> = wanted.into_iter().map(|i| if i < 0 { i + size } else { i }).collect();
    let mut sizes = c.sizes.clone();
    sizes[d] = wanted.len() as i64;
    let s = c.sparse_dim();
    if d >= s {
        let values = take(&c.values, (d - s + 1) as i64, &wanted)?;
        return Coo { sizes, values, ..c }.build();
    }
    c.flat()?;
    let own = row(&c.indices, d)?;
    let mut at: std::collections::HashMap<i64, Vec<i64>> = std::collections::HashMap::new();
    own.iter().zip(0..).for_each(|(i, k)| at.entry(*i).or_default().push(k));
    let (mut from, mut new) = (Vec::new(), Vec::new());
    for (i, w) in wanted.iter().enumerate() {
        for k in at.get(w).into_iter().flatten() {
            from.push(*k);
            new.push(i as i64);
        }
    }
    let moved = take(&c.indices, 1, &from)?;
    let indices = with_row(&moved, d, &new)?;
    let values = take(&c.values, 0, &from)?;
    Coo { sizes, indices, values, coalesced: false }.build()
}
fn cat(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    if let Some(i) = tensors.iter().position(|t| !t.is_sparse()) {
        if tensors[0].is_sparse() && tensors[i].layout() == Layout::Strided {
            bail!(Runtime, "Concatenating sparse tensors, but a dense tensor was found at position {i}.");
        }
        return super::lines::cat(tensors, dim);
    }
    let d = wrap_dim(dim, tensors[0].dim())?;
    let all = tensors.iter().map(|t| Coo::of(t, "cat")).collect::<Result<Vec<_>>>()?;
    let first = &all[0];
    // PyTorch's words for a number among them
    let numbers = first.sizes.is_empty();
    ensure!(!numbers, Index, "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
    let s = first.sparse_dim();
    let refs: Vec<&Tensor> = tensors.iter().collect();
    let dtype = result_type(&refs)?;
    let mut sizes = first.sizes.clone();
    sizes[d] = 0;
    for (i, t) in all.iter().enumerate() {
        let alike =
            t.sizes.len() == sizes.len() && (0..sizes.len()).all(|k| k == d || t.sizes[k] == sizes[k]);
        ensure!(
            alike,
            Runtime,
            "All tensors must have the same shape: {} (except in the concatenating dimension), but found shape: {} at \
             position {i}",
            fmt_sizes(&first.sizes),
            fmt_sizes(&t.sizes)
        );
        ensure!(
            t.sparse_dim() == s && t.dense_dim() == first.dense_dim(),
            Runtime,
            "All tensors must have the same sparse_dim and dense_dim: {s}, {}, but tensor at position {i} has {}, {}",
            first.dense_dim(),
            t.sparse_dim(),
            t.dense_dim()
        );
        sizes[d] = geometry::size_add(sizes[d], t.sizes[d])?;
    }
    let (mut indices, mut values, mut at) = (Vec::new(), Vec::new(), 0i64);
    for t in &all {
        let v = cast(&t.values, dtype)?;
        if d < s {
            let moved = ops::clone(&t.indices, Some(MemoryFormat::Contiguous))?;
            ops::add_(
                &ops::select(&moved, 0, d as i64)?,
                &flambeau_autograd::shorthand::number(at)?,
                1.into(),
            )?;
            indices.push(moved);
            values.push(v);
        } else {
            // zeros where the other tensors' elements are
            let pad = |n: i64| {
                let mut z = v.sizes().to_vec();
                z[d - s + 1] = n;
                Tensor::zeros_raw(&z, dtype, Device::Cpu)
            };
            let after = sizes[d] - at - t.sizes[d];
            indices.push(t.indices.clone());
            values.push(ops::cat(&[pad(at)?, v.clone(), pad(after)?], (d - s + 1) as i64)?);
        }
        at += t.sizes[d];
    }
    Coo { sizes, indices: ops::cat(&indices, 1)?, values: ops::cat(&values, 0)?, coalesced: false }.build()
}
