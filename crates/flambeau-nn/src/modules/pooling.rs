//! Pooling.

use super::{layer, plain};
use crate::args::{Dims, Ints};
use flambeau_core::{Error, Result, ensure};
use flambeau_macros::class;
use flambeau_nn_functional::ops as f;

macro_rules! max_pool {
    ($n:literal, $pool:ident, $options:ident, $path:literal, $op:ident) => {
        #[doc = concat!("Options of [`", stringify!($pool), "`].")]
        #[class($path, build = $pool, repr(kernel_size=, stride=, padding=, dilation=, ceil_mode=))]
        pub struct $options {
            /// Size of the window.
            pub kernel_size: Ints<$n>,
            /// Steps of the window; its size if not given.
            pub stride: Option<Ints<$n>>,
            /// Padding on both sides, with minus infinity.
            #[default(0)]
            pub padding: Ints<$n>,
            /// Distance of the window's elements.
            #[default(1)]
            pub dilation: Ints<$n>,
            /// Whether the indices of the maxima are wanted: use the functional form with indices for them.
            #[default(false)]
            pub return_indices: bool,
            /// Rounds the output's size up.
            #[default(false)]
            pub ceil_mode: bool,
        }
        plain!(
            /// The largest element of each window.
            $pool, $options, |o| {
                let mut o = o;
                // printing shows the stride that is used
                o.stride = Some(o.stride.unwrap_or(o.kernel_size));
                if o.return_indices {
                    Err(Error::missing(concat!(stringify!($pool), "(return_indices=True)")))
                } else {
                    Ok(o)
                }
            }
        );
        layer!($pool, |m, x| {
            let o = &m.options;
            let stride = o.stride.unwrap_or(o.kernel_size).each();
            f::$op(x, &o.kernel_size.each(), Some(&stride), &o.padding.each(), &o.dilation.each(), o.ceil_mode, false)
        });
    };
}
max_pool!(1, MaxPool1d, MaxPool1dOptions, "torch.nn.MaxPool1d", max_pool1d);
max_pool!(2, MaxPool2d, MaxPool2dOptions, "torch.nn.MaxPool2d", max_pool2d);
max_pool!(3, MaxPool3d, MaxPool3dOptions, "torch.nn.MaxPool3d", max_pool3d);

/// Options of [`AvgPool1d`].
#[class("torch.nn.AvgPool1d", build = AvgPool1d, repr(kernel_size=, stride=, padding=))]
pub struct AvgPool1dOptions {
    /// Size of the window.
    pub kernel_size: Dims<1>,
    /// Steps of the window; its size if not given.
    pub stride: Option<Dims<1>>,
    /// Padding on both sides, with zeros.
    #[default(0)]
    pub padding: Dims<1>,
    /// Rounds the output's size up.
    #[default(false)]
    pub ceil_mode: bool,
    /// Whether padding counts in the mean.
    #[default(true)]
    pub count_include_pad: bool,
}
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
        #[doc = concat!("Options of [`", stringify!($pool), "`].")]
        #[class($path, build = $pool, repr(kernel_size=, stride=, padding=))]
        pub struct $options {
            /// Size of the window.
            pub kernel_size: Ints<$n>,
            /// Steps of the window; its size if not given.
            pub stride: Option<Ints<$n>>,
            /// Padding on both sides, with zeros.
            #[default(0)]
            pub padding: Ints<$n>,
            /// Rounds the output's size up.
            #[default(false)]
            pub ceil_mode: bool,
            /// Whether padding counts in the mean.
            #[default(true)]
            pub count_include_pad: bool,
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

macro_rules! adaptive {
    ($n:literal, $pool:ident, $options:ident, $path:literal, |$x:ident, $size:ident| $call:expr) => {
        #[doc = concat!("Options of [`", stringify!($pool), "`].")]
        #[class($path, build = $pool, repr(output_size=))]
        pub struct $options {
            /// Sizes of the output.
            pub output_size: Ints<$n>,
        }
        plain!(
            /// Pooling with windows that give an output of the wanted size.
            $pool, $options, |o| positive(&o.output_size.each()).map(|()| o)
        );
        layer!($pool, |m, $x| {
            let $size = &m.options.output_size.each();
            $call
        });
    };
}
fn positive(sizes: &[i64]) -> Result<()> {
    ensure!(
        sizes.iter().all(|s| *s >= 0),
        Runtime,
        "elements of output_size must be greater than or equal to 0"
    );
    Ok(())
}
adaptive!(1, AdaptiveAvgPool1d, AdaptiveAvgPool1dOptions, "torch.nn.AdaptiveAvgPool1d", |x, s| {
    f::adaptive_avg_pool1d(x, s)
});
adaptive!(2, AdaptiveAvgPool2d, AdaptiveAvgPool2dOptions, "torch.nn.AdaptiveAvgPool2d", |x, s| {
    f::adaptive_avg_pool2d(x, s)
});
adaptive!(3, AdaptiveAvgPool3d, AdaptiveAvgPool3dOptions, "torch.nn.AdaptiveAvgPool3d", |x, s| {
    f::adaptive_avg_pool3d(x, s)
});
