//! Softmax and its relatives, and activations with a state of their own.

use crate::args::Checked;
use crate::init;
use crate::module::Module;
use crate::module::base::Base;
use crate::modules::options::Factory;
use crate::modules::{layer, plain};
use crate::parameter::Parameter;
use flambeau_core::{Result, Scalar, ensure};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;

const DIM: &str = "dim must be an int or None, got";
/// The dimension, which must be an integer.
fn dim(d: Option<Checked<i64>>) -> Result<Option<i64>> {
    d.map(|d| d.get(DIM)).transpose()
}
macro_rules! softmaxes {
    ($($(#[$doc:meta])* $t:ident $options:ident $path:literal $op:ident $arg:ty, |$o:ident| $dim:expr;)*) => {$(
        #[class($path, build = $t, repr(dim=))]
        pub struct $options {
            /// Dimension whose elements count together. Without one, PyTorch's old choice: 0 for 0, 1 and 3 dimensions, else 1.
            #[positional]
            pub dim: Option<$arg>,
        }
        plain!($(#[$doc])* $t, $options, |$o| $dim.map(|_| $o));
        layer!($t, |m, x| {
            let $o = &m.options;
            f::$op(x, $dim?, 5, None)
        });
    )*};
}
softmaxes! {
    /// `exp(x) / sum(exp(x))` along a dimension.
    Softmax SoftmaxOptions "torch.nn.Softmax" softmax Checked<i64>, |o| dim(o.dim);
    /// `log(softmax(x))` along a dimension.
    LogSoftmax LogSoftmaxOptions "torch.nn.LogSoftmax" log_softmax Checked<i64>, |o| dim(o.dim);
    /// `softmax(-x)` along a dimension.
    Softmin SoftminOptions "torch.nn.Softmin" softmin i64, |o| Ok::<_, flambeau_core::Error>(o.dim);
}

#[class("torch.nn.Softmax2d", build = Softmax2d)]
pub struct Softmax2dOptions {}
plain!(
    /// Softmax over the channels of `(N, C, H, W)` or `(C, H, W)`.
    Softmax2d, Softmax2dOptions
);
layer!(Softmax2d, |_m, x| {
    ensure!(
        matches!(x.dim(), 3 | 4),
        Value,
        "Softmax2d: expected input to be 3D or 4D, got {}D instead",
        x.dim()
    );
    f::softmax(x, Some(-3), 5, None)
});

#[class("torch.nn.RReLU", build = RReLU, repr(lower=, upper=, inplace=?))]
pub struct RReLUOptions {
    /// Least slope below 0.
    #[default(1.0 / 8.0)]
    pub lower: Scalar,
    /// Largest slope below 0.
    #[default(1.0 / 3.0)]
    pub upper: Scalar,
    /// Writes the result to the input.
    #[default(false)]
    pub inplace: bool,
}
plain!(
    /// `x` above 0, `a * x` below, where `a` is drawn for each element in training and the mean of its range otherwise.
    RReLU, RReLUOptions
);
layer!(RReLU, |m, x| {
    let o = &m.options;
    f::rrelu(x, o.lower.to_f64(), o.upper.to_f64(), m.is_training(), o.inplace)
});

#[class("torch.nn.PReLU", build = PReLU, include(Factory), repr(num_parameters=))]
pub struct PReLUOptions {
    /// Slopes to learn: 1, or one for each channel.
    #[default(1)]
    pub num_parameters: i64,
    /// Where they start.
    #[default(0.25)]
    pub init: f64,
}
/// `x` above 0, `a * x` below, with learned slopes (He et al. 2015). Channels are dimension 1.
#[derive(Debug, Module)]
pub struct PReLU {
    base: Base,
    /// The arguments.
    pub options: PReLUOptions,
    /// `(num_parameters)`
    pub weight: Parameter,
}
impl PReLU {
    fn from_options(o: PReLUOptions) -> Result<Self> {
        let weight = Factory::from(&o).parameter(&[o.num_parameters])?;
        let out = PReLU { base: Base::new(), options: o, weight };
        out.try_reset_parameters()?;
        Ok(out)
    }
    /// Sets the slopes to where they started.
    ///
    /// # Errors
    /// A parameter that is borrowed.
    pub fn try_reset_parameters(&self) -> Result<()> {
        init::try_constant_(&self.weight, self.options.init)
    }
}
layer!(PReLU, |m, x| f::prelu(x, &m.weight));
