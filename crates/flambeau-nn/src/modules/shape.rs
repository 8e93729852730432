//! Layers that only rearrange.

use super::{layer, plain};
use flambeau_core::{Result, Tensor, ops};
use flambeau_macros::class;

/// Options of [`Flatten`].
#[class("torch.nn.Flatten", build = Flatten, repr(start_dim=, end_dim=))]
pub struct FlattenOptions {
    /// First dimension to flatten.
    #[default(1)]
    pub start_dim: i64,
    /// Last dimension to flatten.
    #[default(-1)]
    pub end_dim: i64,
}
plain!(
    /// Makes one dimension of a range of them: `(N, *)` becomes `(N, product)`.
    Flatten, FlattenOptions
);
layer!(Flatten, |m, x| ops::flatten(x, m.options.start_dim, m.options.end_dim));

/// Options of [`Unflatten`].
#[class("torch.nn.Unflatten", build = Unflatten, repr(dim=, unflattened_size=))]
pub struct UnflattenOptions {
    /// Dimension to split.
    pub dim: i64,
    /// Sizes to split it into; one may be -1.
    pub unflattened_size: Vec<i64>,
}
plain!(
    /// Splits one dimension into several.
    Unflatten, UnflattenOptions
);
layer!(Unflatten, |m, x| unflatten(x, m.options.dim, &m.options.unflattened_size));

fn unflatten(x: &Tensor, dim: i64, sizes: &[i64]) -> Result<Tensor> {
    let d = flambeau_core::geometry::wrap_dim_strict(dim, x.dim())?;
    let known: i64 = sizes.iter().filter(|s| **s >= 0).product();
    let whole = x.sizes()[d];
    let fits = match sizes.iter().filter(|s| **s == -1).count() {
        0 => known == whole,
        1 => known != 0 && whole % known == 0,
        _ => false,
    };
    flambeau_core::ensure!(
        fits,
        Runtime,
        "unflatten: Provided sizes {} don't multiply up to the size of dim {d} ({whole}) in the input tensor",
        flambeau_core::geometry::fmt_sizes(sizes)
    );
    let inner = sizes.iter().map(|s| if *s == -1 { whole / known } else { *s });
    let shape: Vec<i64> =
        x.sizes()[..d].iter().copied().chain(inner).chain(x.sizes()[d + 1..].iter().copied()).collect();
    ops::view(x, &shape)
}
