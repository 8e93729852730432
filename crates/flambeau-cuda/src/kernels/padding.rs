//! Padding by what the input shows, and its gradient.

use super::dense::{dense, text};
use super::reduction::sum_type;
use super::{Args, Which, address, by_the_cpu, element, launch, opaque, shape};
use crate::device::ordinal;
use flambeau_core::types::keys::Key;
use flambeau_core::{Error, Result, Tensor, ops};
use flambeau_nn_functional::generated::{args, padding as rows};
use flambeau_nn_functional::ops as nn;

const FILE: &str = "padding/padding.cuh";

/// The mode of `pad_gather` that wraps round.
const CIRCULAR: i64 = 2;

/// Sizes, padded sizes and padding of the last three dimensions; `None` where more are padded, and where a dimension that is padded on
/// one side and cut on the other wraps round: the kernels know no order of copies, which says there what is shown.
fn lists(sizes: &[i64], pad: &[i64], mode: i64) -> Option<[[i64; 3]; 4]> {
    let both = |p: &[i64]| p.iter().any(|p| *p < 0) && p.iter().any(|p| *p > 0);
    if mode == CIRCULAR && pad.chunks(2).any(both) {
        return None;
    }
    let mut out = [[1; 3], [1; 3], [0; 3], [0; 3]];
    let rank = sizes.len();
    for d in 0..rank.min(3) {
        let (before, after) =
            (pad.get(2 * d).copied().unwrap_or(0), pad.get(2 * d + 1).copied().unwrap_or(0));
        let n = sizes[rank - 1 - d];
        for (list, v) in out.iter_mut().zip([n, n + before + after, before, after]) {
            list[2 - d] = v;
        }
    }
    pad.iter().skip(6).all(|p| *p == 0).then_some(out)
}
fn launched(
    f: &'static str,
    instance: &str,
    key: u8,
    [out, x]: [&Tensor; 2],
    lists: [[i64; 3]; 4],
    mode: i64,
) -> Result<()> {
    let list = Args::new().word(address(out)?).word(address(x)?).int(out.numel()).int(mode);
    let list = lists.iter().flatten().fold(list, |l, v| l.int(*v));
    launch(
        ordinal(out.device())?,
        Which(f, 0, [key, 0, 0, 0]),
        || text(FILE, instance),
        shape(out.numel()),
        list,
    )
}
fn gather(a: &args::PadGather, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let d = a.self_.dtype();
    if element(d).is_none() || d.is_floating() && d.size() == 1 {
        return Err(Error::not_implemented_for("pad", d));
    }
    let Some(lists) = lists(a.self_.sizes(), a.pad, a.mode) else {
        return by_the_cpu("_pad_gather", &[a.self_], out, |t| nn::pad_gather(&t[0], a.pad, a.mode));
    };
    let x = dense(a.self_)?;
    launched("pad", &format!("PAD(k, {})", opaque(d.size())), d.size() as u8, [out, &x], lists, a.mode)
}
fn scatter(a: &args::PadScatter, out: &Tensor) -> Result<()> {
    let d = a.grad_output.dtype();
    if a.grad_output.numel() == 0 || out.numel() == 0 {
        return ops::zero_(out);
    }
    let floats = d.is_floating() || d.is_complex();
    let (Some(own), Some((sum, _))) = (element(d).filter(|_| floats), sum_type(d)) else {
        return Err(Error::not_implemented_for("pad_backward", d));
    };
    let Some(lists) = lists(a.sizes, a.pad, a.mode) else {
        return by_the_cpu("_pad_scatter", &[a.grad_output], out, |t| {
            nn::pad_scatter(&t[0], a.sizes, a.pad, a.mode)
        });
    };
    let g = dense(a.grad_output)?;
    launched("pad_backward", &format!("PAD_BACKWARD(k, {own}, {sum})"), d as u8, [out, &g], lists, a.mode)
}

/// Fills the rows' tables.
pub(crate) fn register() {
    rows::PAD_GATHER_KERNEL.register(Key::Cuda, gather);
    rows::PAD_SCATTER_KERNEL.register(Key::Cuda, scatter);
}
