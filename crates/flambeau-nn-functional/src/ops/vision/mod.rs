//! Resampling, sliding blocks, sampling grids, shuffles.

mod blocks;
mod grid;
mod interpolate;

pub use blocks::*;
pub use grid::*;
pub use interpolate::*;

use flambeau_core::tensor::geometry::{self, fmt_sizes, size_mul};
use flambeau_core::{Result, Tensor, bail, ensure, ops as core};

/// `pixel_shuffle`
pub fn pixel_shuffle(self_: &Tensor, upscale_factor: i64) -> Result<Tensor> {
    let (x, r) = (self_.sizes(), upscale_factor);
    ensure!(
        x.len() >= 3,
        Runtime,
        "pixel_shuffle expects input to have at least 3 dimensions, but got input with {} dimension(s)",
        x.len()
    );
    ensure!(r > 0, Runtime, "pixel_shuffle expects a positive upscale_factor, but got {r}");
    let n = x.len() - 3;
    let (c, h, w) = (x[n], x[n + 1], x[n + 2]);
    let Some(square) = r.checked_mul(r) else {
        bail!(Value, "upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor={r}");
    };
    ensure!(
        c % square == 0,
        Runtime,
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)={c} is not divisible by {square}"
    );
    let lead = &x[..n];
    let split = core::reshape(self_, &[lead, &[c / square, r, r, h, w]].concat())?;
    let mut order: Vec<i64> = (0..n as i64).collect();
    let at = n as i64;
    order.extend([at, at + 3, at + 1, at + 4, at + 2]);
    core::reshape(
        &core::permute(&split, &order)?,
        &[lead, &[c / square, size_mul(h, r)?, size_mul(w, r)?]].concat(),
    )
}
/// `pixel_unshuffle`
pub fn pixel_unshuffle(self_: &Tensor, downscale_factor: i64) -> Result<Tensor> {
    let (x, r) = (self_.sizes(), downscale_factor);
    ensure!(
        x.len() >= 3,
        Runtime,
        "pixel_unshuffle expects input to have at least 3 dimensions, but got input with {} dimension(s)",
        x.len()
    );
    ensure!(r > 0, Runtime, "pixel_unshuffle expects a positive downscale_factor, but got {r}");
    let n = x.len() - 3;
    let (c, h, w) = (x[n], x[n + 1], x[n + 2]);
    ensure!(
        h % r == 0,
        Runtime,
        "pixel_unshuffle expects height to be divisible by downscale_factor, but input.size(-2)={h} is not divisible by {r}"
    );
    ensure!(
        w % r == 0,
        Runtime,
        "pixel_unshuffle expects width to be divisible by downscale_factor, but input.size(-1)={w} is not divisible by {r}"
    );
    if self_.numel() == 0 {
        // as PyTorch has it, unlike for pixel_shuffle
        return core::clone(self_, None);
    }
    let lead = &x[..n];
    let split = core::reshape(self_, &[lead, &[c, h / r, r, w / r, r]].concat())?;
    let mut order: Vec<i64> = (0..n as i64).collect();
    let at = n as i64;
    order.extend([at, at + 2, at + 4, at + 1, at + 3]);
    core::reshape(
        &core::permute(&split, &order)?,
        &[lead, &[size_mul(size_mul(c, r)?, r)?, h / r, w / r]].concat(),
    )
}
/// `channel_shuffle`
pub fn channel_shuffle(input: &Tensor, groups: i64) -> Result<Tensor> {
    let x = input.sizes();
    ensure!(
        x.len() > 2,
        Runtime,
        "channel_shuffle expects input with > 2 dims, but got input with sizes {}",
        fmt_sizes(x)
    );
    ensure!(
        groups > 0,
        Runtime,
        "Number of groups to divide channels in must be positive. Value of groups:{groups}"
    );
    ensure!(
        x[1] % groups == 0,
        Runtime,
        "Number of channels must be divisible by groups. Got {} channels and {groups} groups.",
        x[1]
    );
    let rest = geometry::view_numel(&x[2..])?;
    let y = core::reshape(input, &[x[0], groups, x[1] / groups, rest])?;
    core::reshape(&core::transpose(&y, 1, 2)?, x)
}
/// `native_channel_shuffle`
pub fn native_channel_shuffle(self_: &Tensor, groups: i64) -> Result<Tensor> {
    crate::ops::channel_shuffle(self_, groups)
}
