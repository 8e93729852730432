//! Dropout.

use super::layers;
use super::options::Inplace;
use crate::module::Module;
use flambeau_core::text::PyText;
use flambeau_core::{Result, Scalar, ensure};
use flambeau_macros::fields;
use flambeau_nn_functional::ops as f;

fn check(p: Scalar) -> Result<()> {
    let text = p.py_text();
    // NaN is neither, and refused where it is used
    ensure!(
        !(p.to_f64() < 0.0 || p.to_f64() > 1.0),
        Value,
        "dropout probability has to be between 0 and 1, but got {text}"
    );
    Ok(())
}
/// What is dropped.
#[fields]
pub(crate) struct Share {
    /// Probability that an element is dropped.
    #[default(0.5)]
    #[positional]
    pub p: flambeau_core::Scalar,
}
layers! {
    /// In training, zeroes elements at random and scales the others by `1 / (1 - p)` (Srivastava et al. 2014).
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let (drop, x) = (nn::Dropout::new(0.2), torch::ones([4]));
    /// assert_eq!(drop.call(&x).sizes(), x.sizes());
    /// drop.eval();             // nothing is dropped
    /// assert!(drop.call(&x).equal(&x));
    /// ```
    Dropout DropoutOptions "torch.nn.Dropout" [include(Share, Inplace), repr(p=, inplace=)] {}
        check |o| check(o.p), |m, o, x| f::dropout(x, o.p.to_f64(), m.is_training(), o.inplace);
    /// In training, zeroes whole channels of `(N, C, L)` at random.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let (drop, x) = (nn::Dropout1d::new(0.2), torch::ones([2, 3, 4]));
    /// assert_eq!(drop.call(&x).sizes(), x.sizes());
    /// drop.eval();             // nothing is dropped
    /// assert!(drop.call(&x).equal(&x));
    /// ```
    Dropout1d Dropout1dOptions "torch.nn.Dropout1d" [include(Share, Inplace), repr(p=, inplace=)] {}
        check |o| check(o.p), |m, o, x| f::dropout1d(x, o.p.to_f64(), m.is_training(), o.inplace);
    /// In training, zeroes whole channels of `(N, C, H, W)` at random.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let (drop, x) = (nn::Dropout2d::new(0.2), torch::ones([2, 3, 4, 4]));
    /// assert_eq!(drop.call(&x).sizes(), x.sizes());
    /// drop.eval();             // nothing is dropped
    /// assert!(drop.call(&x).equal(&x));
    /// ```
    Dropout2d Dropout2dOptions "torch.nn.Dropout2d" [include(Share, Inplace), repr(p=, inplace=)] {}
        check |o| check(o.p), |m, o, x| f::dropout2d(x, o.p.to_f64(), m.is_training(), o.inplace);
    /// In training, zeroes whole channels of `(N, C, D, H, W)` at random.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let (drop, x) = (nn::Dropout3d::new(0.2), torch::ones([2, 3, 4, 4, 4]));
    /// assert_eq!(drop.call(&x).sizes(), x.sizes());
    /// drop.eval();             // nothing is dropped
    /// assert!(drop.call(&x).equal(&x));
    /// ```
    Dropout3d Dropout3dOptions "torch.nn.Dropout3d" [include(Share, Inplace), repr(p=, inplace=)] {}
        check |o| check(o.p), |m, o, x| f::dropout3d(x, o.p.to_f64(), m.is_training(), o.inplace);
    /// Dropout that keeps mean and variance of inputs to SELU (Klambauer et al. 2017).
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let (drop, x) = (nn::AlphaDropout::new(0.2), torch::ones([4]));
    /// assert_eq!(drop.call(&x).sizes(), x.sizes());
    /// drop.eval();             // nothing is dropped
    /// assert!(drop.call(&x).equal(&x));
    /// ```
    AlphaDropout AlphaDropoutOptions "torch.nn.AlphaDropout" [include(Share, Inplace), repr(p=, inplace=)] {}
        check |o| check(o.p), |m, o, x| f::alpha_dropout(x, o.p.to_f64(), m.is_training(), o.inplace);
    /// The same for whole channels.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let (drop, x) = (nn::FeatureAlphaDropout::new(0.2), torch::ones([2, 3, 4, 4, 4]));
    /// assert_eq!(drop.call(&x).sizes(), x.sizes());
    /// drop.eval();             // nothing is dropped
    /// assert!(drop.call(&x).equal(&x));
    /// ```
    FeatureAlphaDropout FeatureAlphaDropoutOptions "torch.nn.FeatureAlphaDropout" [include(Share, Inplace), repr(p=, inplace=)] {}
        check |o| check(o.p), |m, o, x| f::feature_alpha_dropout(x, o.p.to_f64(), m.is_training(), o.inplace);
}
