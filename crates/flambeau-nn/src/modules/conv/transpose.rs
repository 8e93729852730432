//! Transposed convolutions.

use super::{check, convolution};
use crate::modules::by_values;
use crate::modules::options::Factory;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::{Result, Tensor, bail, ensure};
use flambeau_macros::{class, fields};
use flambeau_nn_functional::ops as f;

/// The output padding that gives an output of the wanted size; sizes of batch and channels may stand before it.
fn output_padding<const N: usize>(
    input: &[i64],
    wanted: &[i64],
    [stride, padding, kernel, dilation]: [&[i64; N]; 4],
) -> Result<[i64; N]> {
    let outer = if input.len() == N + 2 { 2 } else { 1 };
    let size = if wanted.len() == outer + N { &wanted[outer..] } else { wanted };
    ensure!(
        size.len() == N,
        Value,
        "ConvTranspose{N}D: for {}D input, output_size must have {N} or {} elements (got {})",
        input.len(),
        outer + N,
        size.len()
    );
    ensure!(
        input.len() == outer + N,
        Index,
        "Dimension out of range (expected to be in range of [-{}, {}], but got {})",
        input.len().max(1),
        input.len().max(1) - 1,
        input.len()
    );
    let mut least = [0; N];
    for d in 0..N {
        // options are anybody's numbers; what leaves 64 bits fits no request
        let wide = |v: i64| i128::from(v);
        let n = (wide(input[outer + d]) - 1) * wide(stride[d]) - 2 * wide(padding[d])
            + wide(dilation[d]) * (wide(kernel[d]) - 1)
            + 1;
        let end = i64::try_from(n).ok().filter(|n| n.checked_add(stride[d]).is_some());
        let Some(n) = end else { bail!(Value, "ConvTranspose{N}D: sizes leave the range of 64 bits") };
        least[d] = n;
    }
    let mut most = least;
    most.iter_mut().zip(stride).for_each(|(m, s)| *m += s - 1);
    let fits = (0..N).all(|d| (least[d]..=most[d]).contains(&size[d]));
    ensure!(
        fits,
        Value,
        "requested an output size of {}, but valid sizes range from {} to {} (for an input of torch.Size({}))",
        fmt_sizes(size),
        fmt_sizes(&least),
        fmt_sizes(&most),
        fmt_sizes(&input[2.min(input.len())..])
    );
    let mut extra = least;
    extra.iter_mut().zip(size).for_each(|(e, s)| *e = s - *e);
    Ok(extra)
}

/// The options that every transposed convolution over `N` dimensions has.
#[fields]
pub(crate) struct TransposedGeometry<const N: usize> {
    /// Channels of the output.
    pub out_channels: i64,
    /// Size of the kernel.
    pub kernel_size: crate::args::Dims<N>,
    /// Distance of the input's elements in the output.
    #[default(1)]
    pub stride: crate::args::Dims<N>,
    /// What the output lacks on both sides.
    #[default(0)]
    pub padding: crate::args::Dims<N>,
    /// Added to the output's sizes on one side.
    #[default(0)]
    pub output_padding: crate::args::Dims<N>,
    /// Groups of channels that are convolved apart.
    #[default(1)]
    pub groups: i64,
    /// Whether a bias is added.
    #[default(true)]
    pub bias: bool,
    /// Distance of the kernel's elements.
    #[default(1)]
    pub dilation: crate::args::Dims<N>,
    /// Only `"zeros"`.
    #[default("zeros")]
    pub padding_mode: String,
}

macro_rules! conv_transpose {
    ($n:literal, $conv:ident, $options:ident, $path:literal, $op:ident, $shape:literal) => {
        #[class($path, build = $conv, include(TransposedGeometry<$n>, Factory),
            repr(in_channels, out_channels, kernel_size=, stride=, padding=?, dilation=?, output_padding=?, groups=?, bias=?, padding_mode=?))]
        pub struct $options {
            /// Channels of the input.
            pub in_channels: i64,
        }
        convolution!(
            #[doc = concat!("The gradient of a convolution for its input, of ", $shape, ", with learned kernels. Weight and bias")]
            /// start uniform within `1 / sqrt(fan_in)`.
            ///
            /// ```
            /// use torch::{nn, prelude::*};
            ///
            /// let up = nn::ConvTranspose2dOptions::new(4, 6, 2).stride(2).build();       // twice as large
            /// assert_eq!(up.call(&torch::zeros([1, 4, 3, 3])).sizes(), [1, 6, 6, 6]);
            /// assert_eq!(up.weight.sizes()[..2], [4, 6]);
            /// ```
            $conv, $options, "`(in_channels, out_channels / groups, *kernel_size)`"
        );
        #[flambeau_macros::forward]
        impl $conv {
            pub(in crate::modules) fn checked(o: &$options, channels: (i64, i64), name: &str) -> Result<()> {
                ensure!(
                    o.padding_mode == "zeros",
                    Value,
                    "Only \"zeros\" padding mode is supported for {name}"
                );
                check(channels, o.groups, None, &o.stride.0, &o.padding_mode)
            }
            pub(in crate::modules) fn weight_sizes(o: &$options, in_channels: i64) -> Vec<i64> {
                let mut sizes = vec![in_channels, o.out_channels / o.groups];
                sizes.extend(o.kernel_size.0);
                sizes
            }
            /// `forward` with an error instead of a panic.
            ///
            /// # Errors
            /// Inputs that do not fit.
            pub fn try_forward(&self, input: &Tensor) -> Result<Tensor> {
                self.try_forward_to(input, None)
            }
            /// `forward` with an output of a wanted size, where several belong to the input's: sizes of the spatial
            /// dimensions, or of all.
            ///
            /// # Errors
            /// Inputs that do not fit; sizes that no output has.
            pub fn try_forward_to(&self, input: &Tensor, output_size: Option<&[i64]>) -> Result<Tensor> {
                let o = &self.options;
                let extra = match output_size {
                    None => o.output_padding.0,
                    Some(s) => {
                        let all = [&o.stride.0, &o.padding.0, &o.kernel_size.0, &o.dilation.0];
                        output_padding(input.sizes(), s, all)?
                    }
                };
                let bias = self.bias.as_deref();
                f::$op(input, &self.weight, bias, &o.stride.0, &o.padding.0, &extra, o.groups, &o.dilation.0)
            }
        }
        by_values!($conv, ["input", "output_size"], 1, |m, a| {
            let size: Option<Vec<i64>> = a.get(1)?;
            m.try_forward_to(&a.must(0)?, size.as_deref()).map(|t| vec![t])
        });
    };
}
conv_transpose!(
    1,
    ConvTranspose1d,
    ConvTranspose1dOptions,
    "torch.nn.ConvTranspose1d",
    conv_transpose1d,
    "`(N, C, L)` or `(C, L)`"
);
conv_transpose!(
    2,
    ConvTranspose2d,
    ConvTranspose2dOptions,
    "torch.nn.ConvTranspose2d",
    conv_transpose2d,
    "`(N, C, H, W)` or `(C, H, W)`"
);
conv_transpose!(
    3,
    ConvTranspose3d,
    ConvTranspose3dOptions,
    "torch.nn.ConvTranspose3d",
    conv_transpose3d,
    "`(N, C, D, H, W)` or `(C, D, H, W)`"
);
