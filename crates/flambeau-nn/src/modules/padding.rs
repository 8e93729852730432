//! Padding.

use super::{layer, plain};
use crate::args::Sides;
use flambeau_core::{Scalar, ensure};
use flambeau_macros::class;
use flambeau_nn_functional::ops as f;

/// One row per kind and number of dimensions: a class of nothing but its sides.
macro_rules! pads {
    ($(
        $(#[$doc:meta])*
        $t:ident $options:ident $path:literal $n:literal ($($(#[$fm:meta])* $field:ident: $ty:ty),*) repr($($repr:tt)*)
        |$o:ident, $x:ident| $e:expr;
    )*) => {$(
        #[class($path, build = $t, repr($($repr)*))]
        pub struct $options {
            /// Elements added to each side, those of the last dimension first.
            pub padding: Sides<$n>,
            $($(#[$fm])* pub $field: $ty),*
        }
        plain!($(#[$doc])* $t, $options);
        layer!($t, |m, $x| {
            let $o = &m.options;
            $e
        });
    )*};
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
pads! {
    /// Pads the last dimension with a value.
    ConstantPad1d ConstantPad1dOptions "torch.nn.ConstantPad1d" 2 (/** The value. */ value: Scalar) repr(padding=, value=)
        |o, x| f::pad(x, &o.padding.0, "constant", Some(o.value.to_f64()));
    /// Pads the last two dimensions with a value.
    ConstantPad2d ConstantPad2dOptions "torch.nn.ConstantPad2d" 4 (/** The value. */ value: Scalar) repr(padding=, value=)
        |o, x| f::pad(x, &o.padding.0, "constant", Some(o.value.to_f64()));
    /// Pads the last three dimensions with a value.
    ConstantPad3d ConstantPad3dOptions "torch.nn.ConstantPad3d" 6 (/** The value. */ value: Scalar) repr(padding=, value=)
        |o, x| f::pad(x, &o.padding.0, "constant", Some(o.value.to_f64()));
    /// Pads the last dimension with zeros.
    ZeroPad1d ZeroPad1dOptions "torch.nn.ZeroPad1d" 2 () repr(padding) |o, x| f::pad(x, &o.padding.0, "constant", Some(0.0));
    /// Pads the last two dimensions with zeros.
    ZeroPad2d ZeroPad2dOptions "torch.nn.ZeroPad2d" 4 () repr(padding) |o, x| f::pad(x, &o.padding.0, "constant", Some(0.0));
    /// Pads the last three dimensions with zeros.
    ZeroPad3d ZeroPad3dOptions "torch.nn.ZeroPad3d" 6 () repr(padding) |o, x| f::pad(x, &o.padding.0, "constant", Some(0.0));
    /// Pads the last dimension of `(N, C, W)` or `(C, W)` with its reflection at the border.
    ReflectionPad1d ReflectionPad1dOptions "torch.nn.ReflectionPad1d" 2 () repr(padding) |o, x| f::pad(x, &o.padding.0, "reflect", None);
    /// Pads the last two dimensions of `(N, C, H, W)` or `(C, H, W)` with their reflection at the border.
    ReflectionPad2d ReflectionPad2dOptions "torch.nn.ReflectionPad2d" 4 () repr(padding) |o, x| f::pad(x, &o.padding.0, "reflect", None);
    /// Pads the last three dimensions of `(N, C, D, H, W)` or `(C, D, H, W)` with their reflection at the border.
    ReflectionPad3d ReflectionPad3dOptions "torch.nn.ReflectionPad3d" 6 () repr(padding) |o, x| f::pad(x, &o.padding.0, "reflect", None);
    /// Pads the last dimension of `(N, C, W)` or `(C, W)` with its border.
    ReplicationPad1d ReplicationPad1dOptions "torch.nn.ReplicationPad1d" 2 () repr(padding) |o, x| f::pad(x, &o.padding.0, "replicate", None);
    /// Pads the last two dimensions of `(N, C, H, W)` or `(C, H, W)` with their border.
    ReplicationPad2d ReplicationPad2dOptions "torch.nn.ReplicationPad2d" 4 () repr(padding) |o, x| f::pad(x, &o.padding.0, "replicate", None);
    /// Pads the last three dimensions of `(N, C, D, H, W)` or `(C, D, H, W)` with their border.
    ReplicationPad3d ReplicationPad3dOptions "torch.nn.ReplicationPad3d" 6 () repr(padding) |o, x| f::pad(x, &o.padding.0, "replicate", None);
    /// Pads the last dimension of `(N, C, W)` or `(C, W)` with its other end.
    CircularPad1d CircularPad1dOptions "torch.nn.CircularPad1d" 2 () repr(padding) |o, x| circular(x, &o.padding.0, 2);
    /// Pads the last two dimensions of `(N, C, H, W)` or `(C, H, W)` with their other ends.
    CircularPad2d CircularPad2dOptions "torch.nn.CircularPad2d" 4 () repr(padding) |o, x| circular(x, &o.padding.0, 3);
    /// Pads the last three dimensions of `(N, C, D, H, W)` or `(C, D, H, W)` with their other ends.
    CircularPad3d CircularPad3dOptions "torch.nn.CircularPad3d" 6 () repr(padding) |o, x| circular(x, &o.padding.0, 4);
}
