//! Dropout.

use super::{layer, plain};
use crate::module::Module;
use flambeau_core::text::PyText;
use flambeau_core::{Result, Scalar, ensure};
use flambeau_macros::class;
use flambeau_nn_functional::ops as f;

fn check(p: Scalar) -> Result<()> {
    let text = p.py_text();
    ensure!(
        (0.0..=1.0).contains(&p.to_f64()),
        Value,
        "dropout probability has to be between 0 and 1, but got {text}"
    );
    Ok(())
}
macro_rules! dropout {
    ($($(#[$doc:meta])* $t:ident, $options:ident, $path:literal, $op:ident;)*) => {$(
        #[doc = concat!("Options of [`", stringify!($t), "`].")]
        #[class($path, build = $t, repr(p=, inplace=))]
        pub struct $options {
            /// Probability that an element is dropped.
            #[default(0.5)]
            #[positional]
            pub p: Scalar,
            /// Writes the result to the input.
            #[default(false)]
            pub inplace: bool,
        }
        plain!($(#[$doc])* $t, $options, |o| check(o.p).map(|()| o));
        layer!($t, |m, x| f::$op(x, m.options.p.to_f64(), m.is_training(), m.options.inplace));
    )*};
}
dropout! {
    /// In training, zeroes elements at random and scales the others by `1 / (1 - p)` (Srivastava et al. 2014).
    Dropout, DropoutOptions, "torch.nn.Dropout", dropout;
    /// In training, zeroes whole channels of `(N, C, L)` at random.
    Dropout1d, Dropout1dOptions, "torch.nn.Dropout1d", dropout1d;
    /// In training, zeroes whole channels of `(N, C, H, W)` at random.
    Dropout2d, Dropout2dOptions, "torch.nn.Dropout2d", dropout2d;
    /// In training, zeroes whole channels of `(N, C, D, H, W)` at random.
    Dropout3d, Dropout3dOptions, "torch.nn.Dropout3d", dropout3d;
    /// Dropout that keeps mean and variance of inputs to SELU (Klambauer et al. 2017).
    AlphaDropout, AlphaDropoutOptions, "torch.nn.AlphaDropout", alpha_dropout;
    /// The same for whole channels.
    FeatureAlphaDropout, FeatureAlphaDropoutOptions, "torch.nn.FeatureAlphaDropout", feature_alpha_dropout;
}
