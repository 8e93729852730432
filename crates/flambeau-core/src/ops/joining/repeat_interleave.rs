//! Elements that stand as often as counts say.

use crate::generated::args;
use crate::tensor::geometry::{self, wrap_dim};
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::{DType, ensure, ops};

/// `repeat_interleave.self_int`
pub fn repeat_interleave_int(
    self_: &Tensor,
    repeats: i64,
    dim: Option<i64>,
    output_size: Option<i64>,
) -> Result<Tensor> {
    let d = wrap_dim(dim.unwrap_or(0), self_.dim())?;
    ensure!(repeats >= 0, Runtime, "Repeats must be non-negative");
    ensure!(
        dim.is_none() || self_.dim() > 0,
        Index,
        "Dimension out of range (expected to be in range of [-1, 0], but got 1)"
    );
    if let Some(o) = output_size {
        let n = if dim.is_some() { self_.sizes()[d] } else { self_.numel() };
        let total = geometry::size_mul(repeats, n)?;
        ensure!(o == total, Runtime, "repeat_interleave: Invalid output_size, expected {total} but got {o}");
    }
    let x = if dim.is_none() { ops::flatten(self_, 0, -1)? } else { self_.clone() };
    let at = d as i64;
    let wide = ops::unsqueeze(&x, at + 1)?;
    let mut sizes = wide.sizes().to_vec();
    sizes[d + 1] = repeats;
    let all = ops::clone(&ops::expand(&wide, &sizes, false)?, Some(crate::MemoryFormat::Contiguous))?;
    ops::flatten(&all, at, at + 1)
}
/// `repeat_interleave.self_Tensor`
pub fn repeat_interleave_tensor(
    self_: &Tensor,
    repeats: &Tensor,
    dim: Option<i64>,
    output_size: Option<i64>,
) -> Result<Tensor> {
    let x = match dim {
        None => ops::flatten(self_, 0, -1)?,
        Some(d) => {
            wrap_dim(d, self_.dim())?;
            ensure!(self_.dim() > 0, Index, "Dimension specified as {d} but tensor has no dimensions");
            self_.clone()
        }
    };
    let d = wrap_dim(dim.unwrap_or(0), x.dim())? as i64;
    let n = x.sizes()[d as usize];
    ensure!(repeats.dim() <= 1, Runtime, "repeats must be 0-dim or 1-dim tensor");
    ensure!(
        repeats.dim() == 0 || (repeats.dim() == 1 && (repeats.numel() == n || repeats.numel() == 1)),
        Runtime,
        "repeats must have the same size as input along dim, but got repeats.size(0) = {} and input.size({d}) = {n}",
        repeats.numel()
    );
    let r = if repeats.numel() == 1 {
        ops::expand(&ops::reshape(repeats, &[1])?, &[n], false)?
    } else {
        repeats.clone()
    };
    ops::index_select(&x, d, &ops::repeat_interleave(&r, output_size)?)
}
/// What `repeat_interleave` asks of its counts on every device.
pub fn repeat_interleave_check(repeats: &Tensor, _: Option<i64>) -> Result<()> {
    ensure!(repeats.dim() == 1, Runtime, "repeat_interleave only accept 1D vector as repeat");
    ensure!(
        matches!(repeats.dtype(), DType::I64 | DType::I32),
        Unsupported,
        "\"repeat_interleave_cpu\" not implemented for '{}'",
        repeats.dtype().scalar_type_name()
    );
    Ok(())
}
/// `repeat_interleave.Tensor`: index i as often as `repeats[i]` says.
pub fn repeat_interleave_cpu(
    &args::RepeatInterleave { repeats, output_size }: &args::RepeatInterleave,
) -> Result<Tensor> {
    let r = repeats.try_to_vec::<i64>()?;
    let mut total: i64 = 0;
    for v in &r {
        ensure!(*v >= 0, Runtime, "repeats can not be negative");
        total = geometry::size_add(total, *v)?;
    }
    if let Some(o) = output_size.filter(|o| *o < 0) {
        geometry::checked_numel(&[o])?;
    }
    ensure!(output_size.is_none_or(|o| o == total), Runtime, "allocated size does not match required size");
    Tensor::made_raw::<i64>(&[total], |o| {
        let mut at = 0;
        for (i, v) in r.iter().enumerate() {
            o[at..at + *v as usize].fill(i as i64);
            at += *v as usize;
        }
    })
}
