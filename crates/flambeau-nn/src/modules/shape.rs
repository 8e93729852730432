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
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let flat = nn::Flatten::new().call(&torch::zeros([2, 3, 4]));
    /// assert_eq!(flat.sizes(), [2, 12]);
    /// ```
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
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let x = nn::Unflatten::new(1, [3, -1]).call(&torch::zeros([2, 12]));
    /// assert_eq!(x.sizes(), [2, 3, 4]);
    /// ```
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
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let image = nn::Fold::new([4, 4], 2).call(&torch::ones([1, 4, 9]));
    /// assert_eq!((image.sizes(), image.max().item::<f32>()), (&[1, 1, 4, 4][..], 4.0));
    /// ```
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
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let blocks = nn::Unfold::new(2).call(&torch::zeros([1, 1, 4, 4]));
    /// assert_eq!(blocks.sizes(), [1, 4, 9]);
    /// ```
    Unfold, UnfoldOptions
);
layer!(Unfold, |m, x| {
    let o = &m.options;
    f::unfold(x, &o.kernel_size.each(), &o.dilation.each(), &o.padding.each(), &o.stride.each())
});

layers! {
    /// Moves channels into space: `(*, C * r^2, H, W)` becomes `(*, C, H * r, W * r)` (Shi et al. 2016).
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::PixelShuffle::new(2).call(&torch::zeros([1, 8, 3, 3]));
    /// assert_eq!(y.sizes(), [1, 2, 6, 6]);
    /// ```
    PixelShuffle PixelShuffleOptions "torch.nn.PixelShuffle" [repr(upscale_factor=)]
        { /** The factor r. */ upscale_factor: i64 }
        |m, o, x| f::pixel_shuffle(x, o.upscale_factor);
    /// Moves space into channels: `(*, C, H * r, W * r)` becomes `(*, C * r^2, H, W)`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::PixelUnshuffle::new(2).call(&torch::zeros([1, 2, 6, 6]));
    /// assert_eq!(y.sizes(), [1, 8, 3, 3]);
    /// ```
    PixelUnshuffle PixelUnshuffleOptions "torch.nn.PixelUnshuffle" [repr(downscale_factor=)]
        { /** The factor r. */ downscale_factor: i64 }
        |m, o, x| f::pixel_unshuffle(x, o.downscale_factor);
    /// Deals the channels of `(N, C, *)` out to groups (Zhang et al. 2017).
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::ChannelShuffle::new(2).call(&torch::arange(4).view([1, 4, 1, 1]));
    /// assert_eq!(y.to_vec::<i64>(), [0, 2, 1, 3]);
    /// ```
    ChannelShuffle ChannelShuffleOptions "torch.nn.ChannelShuffle" [repr(groups=)]
        { /** Number of groups. */ groups: i64 }
        |m, o, x| f::channel_shuffle(x, o.groups);
    /// Cosine of the angle between vectors of two inputs.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let (a, b) = (torch::tensor([[1.0, 0.0]]), torch::tensor([[0.0, 2.0]]));
    /// assert_eq!(nn::CosineSimilarity::new().call(&a, &b).to_vec::<f32>(), [0.0]);
    /// ```
    CosineSimilarity CosineSimilarityOptions "torch.nn.CosineSimilarity" []
        { /** Dimension of the vectors. */ #[default(1)] dim: i64, /** Least product of the norms. */ #[default(1e-8)] eps: f64 }
        |m, o, x1, x2| f::cosine_similarity(x1, x2, o.dim, o.eps);
    /// Norm of the differences of two inputs' vectors `(N, D)` or `(D)`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let (a, b) = (torch::tensor([[0.0, 0.0]]), torch::tensor([[3.0, 4.0]]));
    /// let d = nn::PairwiseDistanceOptions::new().eps(0.0).build();
    /// assert_eq!(d.call(&a, &b).to_vec::<f32>(), [5.0]);
    /// ```
    PairwiseDistance PairwiseDistanceOptions "torch.nn.PairwiseDistance" []
        { /** Power of the norm. */ #[default(2.0)] p: f64, /** Added to differences. */ #[default(1e-6)] eps: f64,
          /** Whether the last dimension stays, with size 1. */ #[default(false)] keepdim: bool }
        |m, o, x1, x2| f::pairwise_distance(x1, x2, o.p, o.eps, o.keepdim);
}
