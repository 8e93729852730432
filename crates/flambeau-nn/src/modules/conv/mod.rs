//! Convolutions.

mod transpose;

pub use transpose::*;

use crate::args::{Dims, Padding};
use crate::init;
use crate::module::base::Base;
use crate::modules::{empty, layer};
use crate::parameter::Parameter;
use flambeau_core::{DType, Device, Result, ensure};
use flambeau_macros::{Module, class};
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

macro_rules! conv {
    ($n:literal, $conv:ident, $options:ident, $path:literal, $op:ident, $op_named:ident, $shape:literal) => {
        #[doc = concat!("Options of [`", stringify!($conv), "`].")]
        #[class($path, build = $conv, repr(in_channels, out_channels, kernel_size=, stride=, padding=?, dilation=?, groups=?, bias=?, padding_mode=?))]
        pub struct $options {
            /// Channels of the input.
            pub in_channels: i64,
            /// Channels of the output.
            pub out_channels: i64,
            /// Size of the kernel.
            pub kernel_size: Dims<$n>,
            /// Steps of the kernel.
            #[default(1)]
            pub stride: Dims<$n>,
            /// Padding on both sides, or `"same"`, or `"valid"`.
            #[default(0)]
            pub padding: Padding<$n>,
            /// Distance of the kernel's elements.
            #[default(1)]
            pub dilation: Dims<$n>,
            /// Groups of channels that are convolved apart.
            #[default(1)]
            pub groups: i64,
            /// Whether a bias is added.
            #[default(true)]
            pub bias: bool,
            /// `"zeros"`, `"reflect"`, `"replicate"` or `"circular"`.
            #[default("zeros")]
            pub padding_mode: String,
            /// Device of the parameters.
            pub device: Option<Device>,
            /// Dtype of the parameters.
            pub dtype: Option<DType>,
        }
        #[doc = concat!("Cross-correlation of ", $shape, " with learned kernels. Weight and bias start uniform within")]
        /// `1 / sqrt(fan_in)`.
        #[derive(Debug, Module)]
        pub struct $conv {
            pub(in crate::modules) base: Base,
            /// The arguments.
            pub options: $options,
            /// `(out_channels, in_channels / groups, *kernel_size)`
            pub weight: Parameter,
            /// `(out_channels)`
            pub bias: Option<Parameter>,
        }
        impl $conv {
            pub(in crate::modules) fn checked(o: &$options, channels: (i64, i64), _name: &str) -> Result<()> {
                let name = match &o.padding {
                    Padding::Name(n) => Some(n.as_str()),
                    Padding::Each(_) => None,
                };
                check(channels, o.groups, name, &o.stride.0, &o.padding_mode)
            }
            pub(in crate::modules) fn weight_sizes(o: &$options, in_channels: i64) -> Vec<i64> {
                let mut sizes = vec![o.out_channels, in_channels / o.groups];
                sizes.extend(o.kernel_size.0);
                sizes
            }
            fn from_options(o: $options) -> Result<Self> {
                Self::checked(&o, (o.in_channels, o.out_channels), stringify!($conv))?;
                let sizes = Self::weight_sizes(&o, o.in_channels);
                let weight = Parameter::try_new(&empty(&sizes, o.dtype, o.device)?, true)?;
                let bias =
                    o.bias.then(|| Parameter::try_new(&empty(&[o.out_channels], o.dtype, o.device)?, true));
                let out = $conv { base: Base::new(), weight, bias: bias.transpose()?, options: o };
                out.try_reset_parameters()?;
                Ok(out)
            }
            /// Draws weight and bias anew.
            ///
            /// # Errors
            /// A parameter that is borrowed.
            pub fn try_reset_parameters(&self) -> Result<()> {
                init::linear_like(&self.weight, self.bias.as_ref())
            }
        }
        layer!($conv, |m, x| {
            let (o, bias) = (&m.options, m.bias.as_deref());
            match &o.padding {
                Padding::Each(p) => {
                    f::$op(x, &m.weight, bias, &o.stride.0, p, &o.dilation.0, o.groups, &o.padding_mode)
                }
                Padding::Name(p) => {
                    f::$op_named(x, &m.weight, bias, &o.stride.0, p, &o.dilation.0, o.groups, &o.padding_mode)
                }
            }
        });
    };
}
conv!(1, Conv1d, Conv1dOptions, "torch.nn.Conv1d", conv1d, conv1d_padding, "`(N, C, L)` or `(C, L)`");
conv!(2, Conv2d, Conv2dOptions, "torch.nn.Conv2d", conv2d, conv2d_padding, "`(N, C, H, W)` or `(C, H, W)`");
conv!(
    3,
    Conv3d,
    Conv3dOptions,
    "torch.nn.Conv3d",
    conv3d,
    conv3d_padding,
    "`(N, C, D, H, W)` or `(C, D, H, W)`"
);
