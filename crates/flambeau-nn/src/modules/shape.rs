//! Layers that only rearrange.

use super::{layer, layers, plain};
use crate::args::Ints;
use flambeau_core::ops;
use flambeau_macros::{class, fields};
use flambeau_nn_functional::ops as f;

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
layer!(Unflatten, |m, x| ops::unflatten(x, m.options.dim, &m.options.unflattened_size));

/// The blocks of an image.
#[fields]
pub(crate) struct Blocks {
    /// Size of the blocks.
    pub kernel_size: Ints<2>,
    /// Distance of a block's elements.
    #[default(1)]
    pub dilation: Ints<2>,
    /// Padding of the image: with zeros where it is taken apart, cut off where it is put together.
    #[default(0)]
    pub padding: Ints<2>,
    /// Steps from block to block.
    #[default(1)]
    pub stride: Ints<2>,
}

#[class("torch.nn.Fold", build = Fold, include(Blocks), repr(output_size=, kernel_size=, dilation=, padding=, stride=))]
pub struct FoldOptions {
    /// Height and width of the output.
    pub output_size: Ints<2>,
}
plain!(
    /// Sums blocks into an image: `(N, C * product of kernel_size, L)` becomes `(N, C, *output_size)`.
    Fold, FoldOptions
);
layer!(Fold, |m, x| {
    let o = &m.options;
    let (size, kernel) = (o.output_size.each(), o.kernel_size.each());
    f::fold(x, &size, &kernel, &o.dilation.each(), &o.padding.each(), &o.stride.each())
});

#[class("torch.nn.Unfold", build = Unfold, include(Blocks), repr(kernel_size=, dilation=, padding=, stride=))]
pub struct UnfoldOptions {}
plain!(
    /// Blocks of an image as columns: `(N, C, H, W)` becomes `(N, C * product of kernel_size, L)`.
    Unfold, UnfoldOptions
);
layer!(Unfold, |m, x| {
    let o = &m.options;
    f::unfold(x, &o.kernel_size.each(), &o.dilation.each(), &o.padding.each(), &o.stride.each())
});

layers! {
    /// Moves channels into space: `(*, C * r^2, H, W)` becomes `(*, C, H * r, W * r)` (Shi et al. 2016).
    PixelShuffle PixelShuffleOptions "torch.nn.PixelShuffle" [repr(upscale_factor=)]
        { /** The factor r. */ upscale_factor: i64 }
        |m, o, x| f::pixel_shuffle(x, o.upscale_factor);
    /// Moves space into channels: `(*, C, H * r, W * r)` becomes `(*, C * r^2, H, W)`.
    PixelUnshuffle PixelUnshuffleOptions "torch.nn.PixelUnshuffle" [repr(downscale_factor=)]
        { /** The factor r. */ downscale_factor: i64 }
        |m, o, x| f::pixel_unshuffle(x, o.downscale_factor);
    /// Deals the channels of `(N, C, *)` out to groups (Zhang et al. 2017).
    ChannelShuffle ChannelShuffleOptions "torch.nn.ChannelShuffle" [repr(groups=)]
        { /** Number of groups. */ groups: i64 }
        |m, o, x| f::channel_shuffle(x, o.groups);
    /// Cosine of the angle between vectors of two inputs.
    CosineSimilarity CosineSimilarityOptions "torch.nn.CosineSimilarity" []
        { /** Dimension of the vectors. */ #[default(1)] dim: i64, /** Least product of the norms. */ #[default(1e-8)] eps: f64 }
        |m, o, x1, x2| f::cosine_similarity(x1, x2, o.dim, o.eps);
    /// Norm of the differences of two inputs' vectors `(N, D)` or `(D)`.
    PairwiseDistance PairwiseDistanceOptions "torch.nn.PairwiseDistance" []
        { /** Power of the norm. */ #[default(2.0)] p: f64, /** Added to differences. */ #[default(1e-6)] eps: f64,
          /** Whether the last dimension stays, with size 1. */ #[default(false)] keepdim: bool }
        |m, o, x1, x2| f::pairwise_distance(x1, x2, o.p, o.eps, o.keepdim);
}
