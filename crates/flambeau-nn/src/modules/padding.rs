//! Padding.

use super::layers;
use flambeau_core::{Scalar, ensure};
use flambeau_macros::fields;
use flambeau_nn_functional::ops as f;

/// The options of every padding, of `N` sides.
#[fields]
pub(crate) struct Padded<const N: usize> {
    /// Elements added to each side, those of the last dimension first.
    pub padding: crate::args::Sides<N>,
}
/// Pads circularly an input of `n` or `n + 1` dimensions.
fn circular(
    x: &flambeau_core::Tensor,
    padding: &[i64],
    n: usize,
) -> flambeau_core::Result<flambeau_core::Tensor> {
    ensure!(
        x.dim() == n || x.dim() == n + 1,
        Value,
        "expected {n}D or {}D input (got {}D input)",
        n + 1,
        x.dim()
    );
    f::pad(x, padding, "circular", None)
}
layers! {
    /// Pads the last dimension with a value.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::ConstantPad1d::new(1, 2.5);
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4])).sizes(), [1, 1, 6]);
    /// ```
    ConstantPad1d ConstantPad1dOptions "torch.nn.ConstantPad1d" [include(Padded<2>), order(Padded, value), repr(padding=, value=)]
        { /** The value. */ value: Scalar }
        |m, o, x| f::pad(x, &o.padding.0, "constant", Some(o.value.to_f64()));
    /// Pads the last two dimensions with a value.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::ConstantPad2d::new(1, 2.5);
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4, 4])).sizes(), [1, 1, 6, 6]);
    /// ```
    ConstantPad2d ConstantPad2dOptions "torch.nn.ConstantPad2d" [include(Padded<4>), order(Padded, value), repr(padding=, value=)]
        { /** The value. */ value: Scalar }
        |m, o, x| f::pad(x, &o.padding.0, "constant", Some(o.value.to_f64()));
    /// Pads the last three dimensions with a value.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::ConstantPad3d::new(1, 2.5);
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4, 4, 4])).sizes(), [1, 1, 6, 6, 6]);
    /// ```
    ConstantPad3d ConstantPad3dOptions "torch.nn.ConstantPad3d" [include(Padded<6>), order(Padded, value), repr(padding=, value=)]
        { /** The value. */ value: Scalar }
        |m, o, x| f::pad(x, &o.padding.0, "constant", Some(o.value.to_f64()));
    /// Pads the last dimension with zeros.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::ZeroPad1d::new(1);
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4])).sizes(), [1, 1, 6]);
    /// ```
    ZeroPad1d ZeroPad1dOptions "torch.nn.ZeroPad1d" [include(Padded<2>), repr(padding)] {}
        |m, o, x| f::pad(x, &o.padding.0, "constant", Some(0.0));
    /// Pads the last two dimensions with zeros.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::ZeroPad2d::new(1);
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4, 4])).sizes(), [1, 1, 6, 6]);
    /// ```
    ZeroPad2d ZeroPad2dOptions "torch.nn.ZeroPad2d" [include(Padded<4>), repr(padding)] {}
        |m, o, x| f::pad(x, &o.padding.0, "constant", Some(0.0));
    /// Pads the last three dimensions with zeros.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::ZeroPad3d::new(1);
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4, 4, 4])).sizes(), [1, 1, 6, 6, 6]);
    /// ```
    ZeroPad3d ZeroPad3dOptions "torch.nn.ZeroPad3d" [include(Padded<6>), repr(padding)] {}
        |m, o, x| f::pad(x, &o.padding.0, "constant", Some(0.0));
    /// Pads the last dimension of `(N, C, W)` or `(C, W)` with its reflection at the border.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::ReflectionPad1d::new(1);
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4])).sizes(), [1, 1, 6]);
    /// ```
    ReflectionPad1d ReflectionPad1dOptions "torch.nn.ReflectionPad1d" [include(Padded<2>), repr(padding)] {}
        |m, o, x| f::pad(x, &o.padding.0, "reflect", None);
    /// Pads the last two dimensions of `(N, C, H, W)` or `(C, H, W)` with their reflection at the border.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::ReflectionPad2d::new([1, 1, 2, 0]);        // left, right, top, bottom
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4, 4])).sizes(), [1, 1, 6, 6]);
    /// let pad = nn::ReflectionPad2d::new(1);                    // all four sides
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4, 4])).sizes(), [1, 1, 6, 6]);
    /// ```
    ReflectionPad2d ReflectionPad2dOptions "torch.nn.ReflectionPad2d" [include(Padded<4>), repr(padding)] {}
        |m, o, x| f::pad(x, &o.padding.0, "reflect", None);
    /// Pads the last three dimensions of `(N, C, D, H, W)` or `(C, D, H, W)` with their reflection at the border.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::ReflectionPad3d::new(1);
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4, 4, 4])).sizes(), [1, 1, 6, 6, 6]);
    /// ```
    ReflectionPad3d ReflectionPad3dOptions "torch.nn.ReflectionPad3d" [include(Padded<6>), repr(padding)] {}
        |m, o, x| f::pad(x, &o.padding.0, "reflect", None);
    /// Pads the last dimension of `(N, C, W)` or `(C, W)` with its border.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::ReplicationPad1d::new(1);
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4])).sizes(), [1, 1, 6]);
    /// ```
    ReplicationPad1d ReplicationPad1dOptions "torch.nn.ReplicationPad1d" [include(Padded<2>), repr(padding)] {}
        |m, o, x| f::pad(x, &o.padding.0, "replicate", None);
    /// Pads the last two dimensions of `(N, C, H, W)` or `(C, H, W)` with their border.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::ReplicationPad2d::new(1);
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4, 4])).sizes(), [1, 1, 6, 6]);
    /// ```
    ReplicationPad2d ReplicationPad2dOptions "torch.nn.ReplicationPad2d" [include(Padded<4>), repr(padding)] {}
        |m, o, x| f::pad(x, &o.padding.0, "replicate", None);
    /// Pads the last three dimensions of `(N, C, D, H, W)` or `(C, D, H, W)` with their border.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::ReplicationPad3d::new(1);
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4, 4, 4])).sizes(), [1, 1, 6, 6, 6]);
    /// ```
    ReplicationPad3d ReplicationPad3dOptions "torch.nn.ReplicationPad3d" [include(Padded<6>), repr(padding)] {}
        |m, o, x| f::pad(x, &o.padding.0, "replicate", None);
    /// Pads the last dimension of `(N, C, W)` or `(C, W)` with its other end.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::CircularPad1d::new(1);
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4])).sizes(), [1, 1, 6]);
    /// ```
    CircularPad1d CircularPad1dOptions "torch.nn.CircularPad1d" [include(Padded<2>), repr(padding)] {}
        |m, o, x| circular(x, &o.padding.0, 2);
    /// Pads the last two dimensions of `(N, C, H, W)` or `(C, H, W)` with their other ends.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::CircularPad2d::new(1);
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4, 4])).sizes(), [1, 1, 6, 6]);
    /// ```
    CircularPad2d CircularPad2dOptions "torch.nn.CircularPad2d" [include(Padded<4>), repr(padding)] {}
        |m, o, x| circular(x, &o.padding.0, 3);
    /// Pads the last three dimensions of `(N, C, D, H, W)` or `(C, D, H, W)` with their other ends.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let pad = nn::CircularPad3d::new(1);
    /// assert_eq!(pad.call(&torch::zeros([1, 1, 4, 4, 4])).sizes(), [1, 1, 6, 6, 6]);
    /// ```
    CircularPad3d CircularPad3dOptions "torch.nn.CircularPad3d" [include(Padded<6>), repr(padding)] {}
        |m, o, x| circular(x, &o.padding.0, 4);
}
