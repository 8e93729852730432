//! Pooling.

mod unpool;

pub use unpool::*;

use crate::args::{Dims, Ints, OwnInts};
use crate::modules::{layer, layers, plain};
use flambeau_core::{Error, Result, Tensor};
use flambeau_macros::{class, dims, fields};
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

dims! { 1, 2, 3 =>
    #[class("torch.nn.MaxPoolNd", build = MaxPoolNd, include(Window<Ints<N>>, Indices, Rounding),
        order(Window, dilation, Indices, Rounding),
        repr(kernel_size=, stride=, padding=, dilation=, ceil_mode=))]
    pub struct MaxPoolNdOptions {
        /// Distance of the window's elements.
        #[default(1)]
        pub dilation: Ints<N>,
    }
    plain!(
        /// The largest element of each window.
        ///
        /// ```
        /// use torch::{nn, prelude::*};
        ///
        /// let x = torch::randn([2, 3, 8, 8]);
        /// let pool = nn::MaxPool2dOptions::new(3).stride(2).padding(1).build();
        /// assert_eq!(pool.call(&x).sizes(), [2, 3, 4, 4]);
        /// ```
        MaxPoolNd, MaxPoolNdOptions, |o| {
            let mut o = o;
            // printing shows the stride that is used
            o.stride = Some(o.stride.unwrap_or(o.kernel_size));
            Ok::<_, Error>(o)
        }
    );
    layer!(MaxPoolNd, |m, x| {
        let o = &m.options;
        let stride = o.stride.unwrap_or(o.kernel_size).each();
        f::max_poolNd(x, &o.kernel_size.each(), Some(&stride), &o.padding.each(), &o.dilation.each(), o.ceil_mode, false)
    }, run |m, x| {
        if !m.options.return_indices {
            return m.try_forward(x).map(|t| vec![t]);
        }
        m.try_forward_with_indices(x).map(|(values, indices)| vec![values, indices])
    });
    impl MaxPoolNd {
        /// The largest elements, and their positions in their planes.
        ///
        /// # Errors
        /// Inputs that do not fit.
        pub fn try_forward_with_indices(&self, input: &Tensor) -> Result<(Tensor, Tensor)> {
            let o = &self.options;
            let stride = o.stride.unwrap_or(o.kernel_size).each();
            let (k, p, d) = (o.kernel_size.each(), o.padding.each(), o.dilation.each());
            f::max_poolNd_with_indices(input, &k, Some(&stride), &p, &d, o.ceil_mode, true)
        }
    }
}

#[class("torch.nn.AvgPool1d", build = AvgPool1d, include(Window<Dims<1>>, Rounding, Mean),
    repr(kernel_size=, stride=, padding=))]
pub struct AvgPool1dOptions {}
plain!(
    /// The mean of each window.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::AvgPool1d::new(2).call(&torch::tensor([[1.0, 3.0, 5.0, 7.0]]));
    /// assert_eq!(y.to_vec::<f32>(), [2.0, 6.0]);
    /// ```
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

dims! { 2, 3 =>
    #[class("torch.nn.AvgPoolNd", build = AvgPoolNd, include(Window<Ints<N>>, Rounding, Mean),
        order(Window, Rounding, Mean, divisor_override), repr(kernel_size=, stride=, padding=))]
    pub struct AvgPoolNdOptions {
        /// What the sum is divided by, instead of the window's size.
        pub divisor_override: Option<i64>,
    }
    plain!(
        /// The mean of each window.
        ///
        /// ```
        /// use torch::{nn, prelude::*};
        ///
        /// let x = torch::randn([2, 3, 8, 8]);
        /// let pool = nn::AvgPool2d::new(2);
        /// assert_eq!(pool.call(&x).sizes(), [2, 3, 4, 4]);
        /// ```
        AvgPoolNd, AvgPoolNdOptions, |o| {
            let mut o = o;
            o.stride = Some(o.stride.unwrap_or(o.kernel_size));
            Ok::<_, Error>(o)
        }
    );
    layer!(AvgPoolNd, |m, x| {
        let o = &m.options;
        let stride = o.stride.unwrap_or(o.kernel_size).each();
        f::avg_poolNd(
            x,
            &o.kernel_size.each(),
            Some(&stride),
            &o.padding.each(),
            o.ceil_mode,
            o.count_include_pad,
            o.divisor_override,
        )
    });
}

dims! { 1, 2, 3 =>
    layers! {
        /// Means of windows that give an output of the wanted size.
        ///
        /// ```
        /// use torch::{nn, prelude::*};
        ///
        /// let x = torch::randn([2, 3, 8, 8]);
        /// let pool = nn::AdaptiveAvgPool2d::new(5);
        /// assert_eq!(pool.call(&x).sizes(), [2, 3, 5, 5]);
        /// ```
        AdaptiveAvgPoolNd AdaptiveAvgPoolNdOptions "torch.nn.AdaptiveAvgPoolNd" [repr(output_size=)]
            { /** Sizes of the output. */ output_size: OwnInts<N> }
            |m, o, x| f::adaptive_avg_poolNd(x, &o.output_size.of("adaptive_avg_poolNd", x.sizes())?);
    }
}

dims! { 1, 2, 3 =>
    #[class("torch.nn.AdaptiveMaxPoolNd", build = AdaptiveMaxPoolNd, include(Indices), repr(output_size=))]
    pub struct AdaptiveMaxPoolNdOptions {
        /// Sizes of the output.
        pub output_size: OwnInts<N>,
    }
    plain!(
        /// The largest elements of windows that give an output of the wanted size.
        ///
        /// ```
        /// use torch::{nn, prelude::*};
        ///
        /// let x = torch::randn([2, 3, 8, 8]);
        /// let pool = nn::AdaptiveMaxPool2d::new(5);
        /// assert_eq!(pool.call(&x).sizes(), [2, 3, 5, 5]);
        /// ```
        AdaptiveMaxPoolNd, AdaptiveMaxPoolNdOptions
    );
    layer!(AdaptiveMaxPoolNd, |m, x| m.try_forward_with_indices(x).map(|r| r.0), run |m, x| {
        let (values, indices) = m.try_forward_with_indices(x)?;
        Ok(if m.options.return_indices { vec![values, indices] } else { vec![values] })
    });
    impl AdaptiveMaxPoolNd {
        /// The largest elements, and their positions in their planes.
        ///
        /// # Errors
        /// Inputs that do not fit.
        pub fn try_forward_with_indices(&self, input: &Tensor) -> Result<(Tensor, Tensor)> {
            let size = self.options.output_size.of("adaptive_max_poolNd", input.sizes())?;
            f::adaptive_max_poolNd_with_indices(input, &size, true)
        }
    }
}
