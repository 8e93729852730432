//! Slices, sums and joins of compressed layouts: by their parts where the parts allow it, by coordinates else.

use crate::compressed::{Compressed, block_of, from_coo, in_blocks, to_coo};
use crate::coo::Coo;
use crate::ops::to_layout;
use flambeau_core::generated::creation as m;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key::SparseCpu;
use flambeau_core::{DType, Device, Layout, MemoryFormat, Result, Scalar, Tensor, bail, ensure, ops};

pub(super) fn fill() {
    m::FILL_.register(SparseCpu, |t, v| filled(t, "fill_.Scalar", |p| ops::fill_(p, v)));
    m::ONES_LIKE.register(SparseCpu, ones_like);
}

/// Fills what is specified: only compressed layouts, as PyTorch.
fn filled(t: &Tensor, name: &str, f: impl FnOnce(&Tensor) -> Result<()>) -> Result<()> {
    match t.sparse_parts() {
        Some(p) if !t.is_sparse() => {
            f(p.values())?;
            t.set_sparse_parts(p)
        }
        _ => bail!(Unsupported, "Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend."),
    }
}
fn ones_like(
    t: &Tensor,
    dtype: Option<DType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    format: Option<MemoryFormat>,
) -> Result<Tensor> {
    ensure!(pin_memory != Some(true), Missing, "pinned memory");
    let layout = layout.unwrap_or(t.layout());
    if layout == Layout::Strided {
        let dtype = Some(dtype.unwrap_or(t.dtype()));
        let dense = Tensor::zeros_raw(t.sizes(), t.dtype(), Device::Cpu)?;
        return ops::ones_like(&dense, dtype, None, device, None, format);
    }
    ensure!(
        layout == t.layout() && !t.is_sparse(),
        Unsupported,
        "Could not run 'aten::fill_.Scalar' with arguments from the 'SparseCPU' backend."
    );
    let copy = ops::to_copy(t, dtype, None, device, None, false, None)?;
    filled(&copy, "fill_.Scalar", |p| ops::fill_(p, Scalar::Int(1)))?;
    Ok(copy)
}

/// One matrix of a batch, one slice of the values, or one line as a vector by coordinates.
pub(super) fn select(t: &Tensor, d: usize, at: i64) -> Result<Tensor> {
    let c = Compressed::of(t)?;
    let b = c.batch();
    let of = |p: &Tensor, d: usize| ops::contiguous(&ops::select(p, d as i64, at)?, MemoryFormat::Contiguous);
    let mut sizes = c.sizes.clone();
    sizes.remove(d);
    if d < b {
        let (compressed, plain, values) = (of(&c.compressed, d)?, of(&c.plain, d)?, of(&c.values, d)?);
        return Compressed { sizes, layout: c.layout, compressed, plain, values }.build();
    }
    if d >= b + 2 {
        let first = b + 1 + if in_blocks(c.layout) { 2 } else { 0 };
        return Compressed { sizes, values: of(&c.values, first + d - b - 2)?, ..c }.build();
    }
    ensure!(
        b == 0,
        Runtime,
        "select(): selecting sparse dimensions is not supported for batched sparse compressed tensors."
    );
    ops::select(&to_coo(t)?, d as i64, at)
}

/// What `f` makes of the tensor by coordinates, in its layout again.
pub(super) fn by_coordinates(t: &Tensor, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    back(&f(&to_coo(t)?)?, t)
}
/// A tensor by coordinates in the layout of another; batches must have the same number of elements.
fn back(coo: &Tensor, like: &Tensor) -> Result<Tensor> {
    let block = block_of(like);
    let block = in_blocks(like.layout()).then_some([block.0, block.1]);
    let block = block.as_ref().map(|b| &b[..]);
    if Compressed::of(like)?.batch() == 0 {
        return from_coo(coo, like.layout(), block);
    }
    let dense = crate::ops::dense_copy(coo, None)?;
    let dims = crate::ops::dense_dim(like)?;
    crate::compressed::from_dense(&dense, like.layout(), block, dims)
}

/// `cat` of tensors of one compressed layout.
pub(super) fn cat(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    let first = &tensors[0];
    if let Some(i) = tensors.iter().position(|t| t.layout() != first.layout()) {
        bail!(
            Runtime,
            "Concatenating sparse tensors of one layout, torch.{}, but a tensor of layout torch.{} was found at position {i}.",
            first.layout().name(),
            tensors[i].layout().name()
        );
    }
    ensure!(
        tensors.iter().all(|t| block_of(t) == block_of(first)),
        Runtime,
        "cat: expected blocks of the same size"
    );
    let coo = tensors.iter().map(to_coo).collect::<Result<Vec<_>>>()?;
    back(&ops::cat(&coo, dim)?, first)
}

/// The sum of two tensors: of one layout it has that, with a strided one it is strided.
pub(super) fn add(a: &Tensor, b: &Tensor, alpha: Scalar) -> Result<Tensor> {
    if a.layout() == Layout::Strided || b.layout() == Layout::Strided {
        return ops::add(&to_layout(a, Layout::Strided)?, &to_layout(b, Layout::Strided)?, alpha);
    }
    ensure!(
        a.layout() == b.layout(),
        Runtime,
        "add: expected tensors of one layout, but got {} and {}",
        crate::coo::layout_name(a.layout()),
        crate::coo::layout_name(b.layout())
    );
    ensure!(block_of(a) == block_of(b), Runtime, "add: expected blocks of the same size");
    let (x, y) = (Compressed::of(a)?, Compressed::of(b)?);
    if a.sizes() == b.sizes() && same(&x.compressed, &y.compressed)? && same(&x.plain, &y.plain)? {
        x.places()?;
        return Compressed { values: ops::add(&x.values, &y.values, alpha)?, ..x }.build();
    }
    back(&ops::add(&to_coo(a)?, &to_coo(b)?, alpha)?, a)
}
fn same(a: &Tensor, b: &Tensor) -> Result<bool> {
    Ok(a.is_same(b) || (a.sizes() == b.sizes() && a.try_to_vec::<i64>()? == b.try_to_vec::<i64>()?))
}

/// `sum` over some dimensions, which stay with one element.
pub(crate) fn sum_dims(t: &Tensor, dims: &[usize], dtype: DType) -> Result<Tensor> {
    let coo = Coo::of(&to_coo(t)?, "sum")?;
    let mut r = super::reduce::sum_dims(&coo, dims, dtype)?;
    let mut sorted = dims.to_vec();
    sorted.sort_unstable();
    for d in sorted {
        r = ops::unsqueeze(&r, d as i64)?;
    }
    if r.layout() == Layout::Strided {
        let dense = crate::ops::dense_dim(t)?;
        return crate::ops::sparse_copy(&r, t.layout(), None, Some(dense));
    }
    back(&r, t)
}
