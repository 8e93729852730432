//! Pooling.

mod unpool;

pub use unpool::*;

use crate::args::{Dims, Ints, OwnInts};
use crate::modules::{layer, layers, plain};
use flambeau_core::{Error, Result, Tensor, ensure};
use flambeau_macros::{class, fields};
use flambeau_nn_functional::ops as f;

/// The window of a pooling, whose sizes are of type `T`.
#[fields]
pub(crate) struct Window<T> {
    /// Size of the window.
    pub kernel_size: T,
    /// Steps of the window; its size if not given.
    pub stride: Option<T>,
    /// Padding on both sides; it counts as minus infinity where maxima are taken, and as zeros in means.
    #[default(0)]
    pub padding: T,
}
/// What poolings with or without indices say of them.
#[fields]
pub(crate) struct Indices {
    /// Whether calls by name also give the positions of the maxima; here `try_forward_with_indices` does.
    #[default(false)]
    pub return_indices: bool,
}
/// How sizes are rounded.
#[fields]
pub(crate) struct Rounding {
    /// Rounds the output's size up.
    #[default(false)]
    pub ceil_mode: bool,
}
/// Of means.
#[fields]
pub(crate) struct Mean {
    /// Whether padding counts in the mean.
    #[default(true)]
    pub count_include_pad: bool,
}

macro_rules! max_pool {
    ($n:literal, $pool:ident, $options:ident, $path:literal, $op:ident, $with:ident) => {
        #[class($path, build = $pool, include(Window<Ints<$n>>, Indices, Rounding),
            order(Window, dilation, Indices, Rounding),
            repr(kernel_size=, stride=, padding=, dilation=, ceil_mode=))]
        pub struct $options {
            /// Distance of the window's elements.
            #[default(1)]
            pub dilation: Ints<$n>,
        }
        plain!(
            /// The largest element of each window.
            $pool, $options, |o| {
                let mut o = o;
                // printing shows the stride that is used
                o.stride = Some(o.stride.unwrap_or(o.kernel_size));
                Ok::<_, Error>(o)
            }
        );
        layer!($pool, |m, x| {
            let o = &m.options;
            let stride = o.stride.unwrap_or(o.kernel_size).each();
            f::$op(x, &o.kernel_size.each(), Some(&stride), &o.padding.each(), &o.dilation.each(), o.ceil_mode, false)
        }, run |m, x| {
            if !m.options.return_indices {
                return m.try_forward(x).map(|t| vec![t]);
            }
            m.try_forward_with_indices(x).map(|(values, indices)| vec![values, indices])
        });
        impl $pool {
            /// The largest elements, and their positions in their planes.
            ///
            /// # Errors
            /// Inputs that do not fit.
            pub fn try_forward_with_indices(&self, input: &Tensor) -> Result<(Tensor, Tensor)> {
                let o = &self.options;
                let stride = o.stride.unwrap_or(o.kernel_size).each();
                let (k, p, d) = (o.kernel_size.each(), o.padding.each(), o.dilation.each());
                f::$with(input, &k, Some(&stride), &p, &d, o.ceil_mode, true)
            }
        }
    };
}
max_pool!(1, MaxPool1d, MaxPool1dOptions, "torch.nn.MaxPool1d", max_pool1d, max_pool1d_with_indices);
max_pool!(2, MaxPool2d, MaxPool2dOptions, "torch.nn.MaxPool2d", max_pool2d, max_pool2d_with_indices);
max_pool!(3, MaxPool3d, MaxPool3dOptions, "torch.nn.MaxPool3d", max_pool3d, max_pool3d_with_indices);

#[class("torch.nn.AvgPool1d", build = AvgPool1d, include(Window<Dims<1>>, Rounding, Mean),
    repr(kernel_size=, stride=, padding=))]
pub struct AvgPool1dOptions {}
plain!(
    /// The mean of each window.
    AvgPool1d, AvgPool1dOptions, |o| {
        let mut o = o;
        o.stride = Some(o.stride.unwrap_or(o.kernel_size));
        Ok::<_, Error>(o)
    }
);
layer!(AvgPool1d, |m, x| {
    let o = &m.options;
    let stride = o.stride.unwrap_or(o.kernel_size).0;
    f::avg_pool1d(x, &o.kernel_size.0, Some(&stride), &o.padding.0, o.ceil_mode, o.count_include_pad)
});

macro_rules! avg_pool {
    ($n:literal, $pool:ident, $options:ident, $path:literal, $op:ident) => {
        #[class($path, build = $pool, include(Window<Ints<$n>>, Rounding, Mean),
            order(Window, Rounding, Mean, divisor_override), repr(kernel_size=, stride=, padding=))]
        pub struct $options {
            /// What the sum is divided by, instead of the window's size.
            pub divisor_override: Option<i64>,
        }
        plain!(
            /// The mean of each window.
            $pool, $options, |o| {
                let mut o = o;
                o.stride = Some(o.stride.unwrap_or(o.kernel_size));
                Ok::<_, Error>(o)
            }
        );
        layer!($pool, |m, x| {
            let o = &m.options;
            let stride = o.stride.unwrap_or(o.kernel_size).each();
            f::$op(
                x,
                &o.kernel_size.each(),
                Some(&stride),
                &o.padding.each(),
                o.ceil_mode,
                o.count_include_pad,
                o.divisor_override,
            )
        });
    };
}
avg_pool!(2, AvgPool2d, AvgPool2dOptions, "torch.nn.AvgPool2d", avg_pool2d);
avg_pool!(3, AvgPool3d, AvgPool3dOptions, "torch.nn.AvgPool3d", avg_pool3d);

fn positive(mut sizes: impl Iterator<Item = i64>) -> Result<()> {
    ensure!(sizes.all(|s| s >= 0), Runtime, "elements of output_size must be greater than or equal to 0");
    Ok(())
}
layers! {
    /// Means of windows that give an output of the wanted size.
    AdaptiveAvgPool1d AdaptiveAvgPool1dOptions "torch.nn.AdaptiveAvgPool1d" [repr(output_size=)]
        { /** Sizes of the output. */ output_size: OwnInts<1> } check |o| positive(o.output_size.given()),
        |m, o, x| f::adaptive_avg_pool1d(x, &o.output_size.of(x.sizes())?);
    /// Means of windows that give an output of the wanted size.
    AdaptiveAvgPool2d AdaptiveAvgPool2dOptions "torch.nn.AdaptiveAvgPool2d" [repr(output_size=)]
        { /** Sizes of the output. */ output_size: OwnInts<2> } check |o| positive(o.output_size.given()),
        |m, o, x| f::adaptive_avg_pool2d(x, &o.output_size.of(x.sizes())?);
    /// Means of windows that give an output of the wanted size.
    AdaptiveAvgPool3d AdaptiveAvgPool3dOptions "torch.nn.AdaptiveAvgPool3d" [repr(output_size=)]
        { /** Sizes of the output. */ output_size: OwnInts<3> } check |o| positive(o.output_size.given()),
        |m, o, x| f::adaptive_avg_pool3d(x, &o.output_size.of(x.sizes())?);
}

macro_rules! adaptive_max {
    ($n:literal, $pool:ident, $options:ident, $path:literal, $op:ident) => {
        #[class($path, build = $pool, include(Indices), repr(output_size=))]
        pub struct $options {
            /// Sizes of the output.
            pub output_size: OwnInts<$n>,
        }
        plain!(
            /// The largest elements of windows that give an output of the wanted size.
            $pool, $options, |o| positive(o.output_size.given()).map(|()| o)
        );
        layer!($pool, |m, x| m.try_forward_with_indices(x).map(|r| r.0), run |m, x| {
            let (values, indices) = m.try_forward_with_indices(x)?;
            Ok(if m.options.return_indices { vec![values, indices] } else { vec![values] })
        });
        impl $pool {
            /// The largest elements, and their positions in their planes.
            ///
            /// # Errors
            /// Inputs that do not fit.
            pub fn try_forward_with_indices(&self, input: &Tensor) -> Result<(Tensor, Tensor)> {
                f::$op(input, &self.options.output_size.of(input.sizes())?, true)
            }
        }
    };
}
adaptive_max!(
    1,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool1dOptions,
    "torch.nn.AdaptiveMaxPool1d",
    adaptive_max_pool1d_with_indices
);
adaptive_max!(
    2,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool2dOptions,
    "torch.nn.AdaptiveMaxPool2d",
    adaptive_max_pool2d_with_indices
);
adaptive_max!(
    3,
    AdaptiveMaxPool3d,
    AdaptiveMaxPool3dOptions,
    "torch.nn.AdaptiveMaxPool3d",
    adaptive_max_pool3d_with_indices
);
