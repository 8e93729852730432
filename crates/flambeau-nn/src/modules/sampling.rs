//! Resampling.

use super::layer;
use crate::args::{Factors, Sizes};
use crate::module::base::Base;
use flambeau_core::text::PyText;
use flambeau_core::{Result, Tensor};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;

/// `interpolate` of the documented arguments.
fn resample(
    x: &Tensor,
    size: Option<&Sizes>,
    scale: Option<&Factors>,
    mode: &str,
    align_corners: Option<bool>,
    recompute: Option<bool>,
) -> Result<Tensor> {
    let size = size.map(|s| &s[..]);
    match scale {
        Some(Factors::One(s)) => {
            f::interpolate_by(x, size, Some(s.to_f64()), mode, align_corners, recompute, false)
        }
        _ => {
            let scale = scale.map(Factors::list);
            f::interpolate(x, size, scale.as_deref(), mode, align_corners, recompute, false)
        }
    }
}
/// Factors as they are kept: floats, and none instead of 0.
fn kept(scale: &Option<Factors>) -> Option<Factors> {
    match scale {
        Some(Factors::One(s)) if s.to_f64() == 0.0 => None,
        other => other.as_ref().map(Factors::floats),
    }
}
fn text(size: &Option<Sizes>, scale: &Option<Factors>, mode: &str) -> String {
    match scale {
        Some(s) => format!("scale_factor={}, mode='{mode}'", s.py_text()),
        None => format!("size={}, mode='{mode}'", size.py_text()),
    }
}

macro_rules! upsample {
    ($(
        $(#[$doc:meta])*
        $t:ident $options:ident $path:literal ($($(#[$fm:meta])* $field:ident: $ty:ty),*)
        |$o:ident| $mode:expr, $corners:expr, $recompute:expr;
    )*) => {$(
        #[class($path, build = $t)]
        pub struct $options {
            /// Sizes of the output's spatial dimensions.
            pub size: Option<Sizes>,
            /// Factors from the input's sizes to the output's.
            pub scale_factor: Option<Factors>,
            $($(#[$fm])* pub $field: $ty),*
        }
        $(#[$doc])*
        #[derive(Debug, Module)]
        #[module(extra_repr)]
        pub struct $t {
            base: Base,
            /// The arguments.
            pub options: $options,
        }
        impl $t {
            fn from_options(mut o: $options) -> Result<Self> {
                o.scale_factor = kept(&o.scale_factor);
                Ok($t { base: Base::new(), options: o })
            }
            fn extra_repr(&self) -> String {
                let $o = &self.options;
                text(&$o.size, &$o.scale_factor, $mode)
            }
        }
        layer!($t, |m, x| {
            let $o = &m.options;
            resample(x, $o.size.as_ref(), $o.scale_factor.as_ref(), $mode, $corners, $recompute)
        });
    )*};
}
upsample! {
    /// Resamples the spatial dimensions of `(N, C, *)`, one to three of them.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let up = nn::UpsampleOptions::new().scale_factor(2).mode("bilinear").align_corners(false).build();
    /// assert_eq!(up.call(&torch::zeros([1, 3, 4, 4])).sizes(), [1, 3, 8, 8]);
    /// ```
    Upsample UpsampleOptions "torch.nn.Upsample"
        (/** `"nearest"`, `"nearest-exact"`, `"linear"`, `"bilinear"`, `"bicubic"`, `"trilinear"` or `"area"`. */ #[default("nearest")] mode: String,
         /** Whether the corners of input and output are one. */ align_corners: Option<bool>,
         /** Whether the factor is computed again from the output's sizes. */ recompute_scale_factor: Option<bool>)
        |o| &o.mode, o.align_corners, o.recompute_scale_factor;
    /// Resamples the two spatial dimensions of `(N, C, H, W)` by their nearest elements.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let up = nn::UpsamplingNearest2dOptions::new().scale_factor(2).build();
    /// assert_eq!(up.call(&torch::zeros([1, 3, 4, 4])).sizes(), [1, 3, 8, 8]);
    /// ```
    UpsamplingNearest2d UpsamplingNearest2dOptions "torch.nn.UpsamplingNearest2d" () |o| "nearest", None, None;
    /// Resamples the two spatial dimensions of `(N, C, H, W)` linearly, with the corners kept.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let up = nn::UpsamplingBilinear2dOptions::new().size([5, 7]).build();
    /// assert_eq!(up.call(&torch::zeros([1, 3, 4, 4])).sizes(), [1, 3, 5, 7]);
    /// ```
    UpsamplingBilinear2d UpsamplingBilinear2dOptions "torch.nn.UpsamplingBilinear2d" () |o| "bilinear", Some(true), None;
}
