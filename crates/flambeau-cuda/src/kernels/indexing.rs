//! Elements picked by indices.

use super::{Args, Geometry, Which, address, by_the_cpu, launch, opaque, shape};
use crate::{device, fault};
use flambeau_core::backend::matrices;
use flambeau_core::generated::{args, indexing};
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Result, Tensor, ops};

/// `out[i] = x[i, with index in the place of dim]`, where `index` lies over the sizes of `out` with these strides.
fn pick(
    name: &'static str,
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    index_strides: impl Fn(usize) -> i64,
    out: &Tensor,
) -> Result<bool> {
    if !matches!(index.dtype(), DType::I64 | DType::I32)
        || x.dtype() != out.dtype()
        || out.is_conj()
        || out.is_neg()
    {
        return Ok(false);
    }
    if out.numel() == 0 {
        return Ok(true);
    }
    if x.dim() == 0 || out.dim() != x.dim() {
        return Ok(false);
    }
    let x = if x.is_conj() || x.is_neg() { matrices::rows(x)? } else { x.clone() };
    let at = if dim < 0 { dim + x.dim() as i64 } else { dim } as usize;
    let (size, n) = (x.dtype().size() as i64, index.dtype().size() as i64);
    let strides = [
        out.strides().iter().map(|s| s * size).collect::<Vec<_>>(),
        (0..x.dim()).map(|d| if d == at { 0 } else { x.strides()[d] * size }).collect(),
        (0..x.dim()).map(|d| index_strides(d) * n).collect(),
    ];
    let start = vec![address(out)?, address(&x)?, address(index)?];
    let Some(g) = Geometry::joined(out.sizes(), &strides, start) else { return Ok(false) };
    let d = device::ordinal(out.device())?;
    let list = Args::new().geometry(&g).int(x.sizes()[at]).int(x.strides()[at] * size).int(at as i64);
    let list = list.word(fault::place(d)?).word(fault::number(name));
    let own = opaque(x.dtype().size());
    let index = if index.dtype() == DType::I64 { "i64" } else { "i32" };
    let text = || {
        (format!("#include \"indexing/indexing.cuh\"\nPICK(pick_k, {own}, {index})\n"), "pick_k".to_string())
    };
    let which = Which("pick", 0, [x.dtype().size() as u8, n as u8, 0, 0]);
    launch(d, which, text, shape(g.n), list)?;
    Ok(true)
}
fn gather(a: &args::Gather, out: &Tensor) -> Result<()> {
    if pick("gather", a.self_, a.dim, a.index, |d| a.index.strides()[d], out)? {
        return Ok(());
    }
    by_the_cpu("gather", &[a.self_, a.index], out, |t| ops::gather(&t[0], a.dim, &t[1], false))
}
fn index_select(a: &args::IndexSelect, out: &Tensor) -> Result<()> {
    let at = if a.dim < 0 { a.dim + a.self_.dim() as i64 } else { a.dim } as usize;
    let step = a.index.strides().first().copied().unwrap_or(0);
    if pick("index_select", a.self_, a.dim, a.index, |d| if d == at { step } else { 0 }, out)? {
        return Ok(());
    }
    by_the_cpu("index_select", &[a.self_, a.index], out, |t| ops::index_select(&t[0], a.dim, &t[1]))
}

/// Fills the rows' tables.
pub(crate) fn register() {
    indexing::GATHER_KERNEL.register(Key::Cuda, gather);
    indexing::INDEX_SELECT_KERNEL.register(Key::Cuda, index_select);
}
