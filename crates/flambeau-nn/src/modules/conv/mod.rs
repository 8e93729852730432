//! Convolutions.

mod transpose;

pub(crate) use transpose::TransposedGeometry;
pub use transpose::*;

use crate::args::Padding;
use crate::modules::layer;
use crate::modules::options::Factory;
use flambeau_core::{Result, ensure};
use flambeau_macros::{class, dims, fields};
use flambeau_nn_functional::ops as f;

/// What every convolution's constructor checks.
fn check(channels: (i64, i64), groups: i64, padding: Option<&str>, stride: &[i64], mode: &str) -> Result<()> {
    ensure!(groups > 0, Value, "groups must be a positive integer");
    ensure!(channels.0 % groups == 0, Value, "in_channels must be divisible by groups");
    ensure!(channels.1 % groups == 0, Value, "out_channels must be divisible by groups");
    if let Some(p) = padding {
        ensure!(
            matches!(p, "same" | "valid"),
            Value,
            "Invalid padding string '{p}', should be one of {{'valid', 'same'}}"
        );
        ensure!(
            p != "same" || stride.iter().all(|s| *s == 1),
            Value,
            "padding='same' is not supported for strided convolutions"
        );
    }
    ensure!(
        matches!(mode, "zeros" | "reflect" | "replicate" | "circular"),
        Value,
        "padding_mode must be one of {{'zeros', 'reflect', 'replicate', 'circular'}}, but got padding_mode='{mode}'"
    );
    Ok(())
}

/// The options that every convolution over `N` dimensions has.
#[fields]
pub(crate) struct Geometry<const N: usize> {
    /// Channels of the output.
    pub out_channels: i64,
    /// Size of the kernel.
    pub kernel_size: crate::args::Dims<N>,
    /// Steps of the kernel.
    #[default(1)]
    pub stride: crate::args::Dims<N>,
    /// Padding on both sides, or `"same"`, or `"valid"`.
    #[default(0)]
    pub padding: crate::args::Padding<N>,
    /// Distance of the kernel's elements.
    #[default(1)]
    pub dilation: crate::args::Dims<N>,
    /// Groups of channels that are convolved apart.
    #[default(1)]
    pub groups: i64,
    /// Whether a bias is added.
    #[default(true)]
    pub bias: bool,
    /// `"zeros"`, `"reflect"`, `"replicate"` or `"circular"`.
    #[default("zeros")]
    pub padding_mode: String,
}

/// A convolution's struct and its constructor; `checked` and `weight_sizes` are its own.
macro_rules! convolution {
    ($(#[$doc:meta])* $conv:ident, $options:ident, $weight:literal) => {
        $(#[$doc])*
        #[derive(Debug, flambeau_macros::Module)]
        pub struct $conv {
            pub(in crate::modules) base: crate::module::base::Base,
            /// The arguments.
            pub options: $options,
            #[doc = $weight]
            pub weight: crate::parameter::Parameter,
            /// `(out_channels)`
            pub bias: Option<crate::parameter::Parameter>,
        }
        impl $conv {
            fn from_options(o: $options) -> flambeau_core::Result<Self> {
                Self::checked(&o, (o.in_channels, o.out_channels), stringify!($conv))?;
                let make = crate::modules::options::Factory::from(&o);
                let weight = make.parameter(&Self::weight_sizes(&o, o.in_channels))?;
                let bias = make.parameter_if(o.bias, &[o.out_channels])?;
                let out = $conv { base: crate::module::base::Base::new(), weight, bias, options: o };
                out.try_reset_parameters()?;
                Ok(out)
            }
            /// Draws weight and bias anew.
            ///
            /// # Errors
            /// A parameter that is borrowed.
            pub fn try_reset_parameters(&self) -> flambeau_core::Result<()> {
                crate::init::linear_like(&self.weight, self.bias.as_ref())
            }
        }
    };
}
use convolution;

dims! { 1 [SIZES = "`(N, C, L)` or `(C, L)`"],
    2 [SIZES = "`(N, C, H, W)` or `(C, H, W)`"],
    3 [SIZES = "`(N, C, D, H, W)` or `(C, D, H, W)`"] =>
    #[class("torch.nn.ConvNd", build = ConvNd, include(Geometry<N>, Factory),
        repr(in_channels, out_channels, kernel_size=, stride=, padding=?, dilation=?, groups=?, bias=?, padding_mode=?))]
    pub struct ConvNdOptions {
        /// Channels of the input.
        pub in_channels: i64,
    }
    convolution!(
        #[doc = concat!("Cross-correlation of ", SIZES, " with learned kernels. Weight and bias start uniform within")]
        /// `1 / sqrt(fan_in)`. The sizes of the output are `(size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1`,
        /// rounded down.
        ///
        /// ```
        /// use torch::{nn, prelude::*};
        ///
        /// let x = torch::randn([5, 4, 8, 8]);
        /// let conv = nn::Conv2dOptions::new(4, 6, 3).stride(2).padding(1).build();
        /// assert_eq!(conv.call(&x).sizes(), [5, 6, 4, 4]);
        /// let same = nn::Conv2dOptions::new(4, 4, 3).padding("same").build();
        /// assert_eq!(same.call(&x).sizes(), x.sizes());
        /// ```
        ConvNd, ConvNdOptions, "`(out_channels, in_channels / groups, *kernel_size)`"
    );
    impl ConvNd {
        pub(in crate::modules) fn checked(o: &ConvNdOptions, channels: (i64, i64), _name: &str) -> Result<()> {
            let name = match &o.padding {
                Padding::Name(n) => Some(n.as_str()),
                Padding::Each(_) => None,
            };
            check(channels, o.groups, name, &o.stride.0, &o.padding_mode)
        }
        pub(in crate::modules) fn weight_sizes(o: &ConvNdOptions, in_channels: i64) -> Vec<i64> {
            let mut sizes = vec![o.out_channels, in_channels / o.groups];
            sizes.extend(o.kernel_size.0);
            sizes
        }
    }
    layer!(ConvNd, |m, x| {
        let (o, bias) = (&m.options, m.bias.as_deref());
        match &o.padding {
            Padding::Each(p) => {
                f::convNd(x, &m.weight, bias, &o.stride.0, p, &o.dilation.0, o.groups, &o.padding_mode)
            }
            Padding::Name(p) => {
                f::convNd_padding(x, &m.weight, bias, &o.stride.0, p, &o.dilation.0, o.groups, &o.padding_mode)
            }
        }
    });
}
