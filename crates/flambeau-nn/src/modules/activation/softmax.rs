//! Softmax and its relatives, and activations with a state of their own.

use crate::args::Checked;
use crate::init;
use crate::module::Module;
use crate::module::base::Base;
use crate::modules::options::{Factory, Inplace};
use crate::modules::{layer, layers};
use crate::parameter::Parameter;
use flambeau_core::{Result, Scalar, ensure};
use flambeau_macros::{Module, class, fields};
use flambeau_nn_functional::ops as f;

const DIM: &str = "dim must be an int or None, got";
/// The dimension, which must be an integer.
fn dim(d: Option<Checked<i64>>) -> Result<Option<i64>> {
    d.map(|d| d.get(DIM)).transpose()
}
/// Dimension whose elements count together. It must be an integer, but for [`Softmin`].
#[fields]
pub(crate) struct Along<T> {
    /// Dimension whose elements count together. Without one, PyTorch's old choice: 0 for 0, 1 and 3 dimensions, else 1.
    #[positional]
    pub dim: Option<T>,
}
layers! {
    /// `exp(x) / sum(exp(x))` along a dimension.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::Softmax::new(1).call(&torch::zeros([2, 4]));
    /// assert_eq!(y.to_vec::<f32>(), [0.25; 8]);
    /// ```
    Softmax SoftmaxOptions "torch.nn.Softmax" [include(Along<Checked<i64>>), repr(dim=)] {}
        check |o| dim(o.dim),
        |m, o, x| f::softmax(x, dim(o.dim)?, 5, None);
    /// `log(softmax(x))` along a dimension.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::LogSoftmax::new(1).call(&torch::zeros([2, 4]));
    /// assert!(torch::allclose(&y, &torch::full([2, 4], -1.3862944)));
    /// ```
    LogSoftmax LogSoftmaxOptions "torch.nn.LogSoftmax" [include(Along<Checked<i64>>), repr(dim=)] {}
        check |o| dim(o.dim),
        |m, o, x| f::log_softmax(x, dim(o.dim)?, 5, None);
    /// `softmax(-x)` along a dimension.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::Softmin::new(1).call(&torch::zeros([2, 4]));
    /// assert_eq!(y.to_vec::<f32>(), [0.25; 8]);
    /// ```
    Softmin SoftminOptions "torch.nn.Softmin" [include(Along<i64>), repr(dim=)] {}
        |m, o, x| f::softmin(x, o.dim, 5, None);
    /// Softmax over the channels of `(N, C, H, W)` or `(C, H, W)`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let y = nn::Softmax2d::new().call(&torch::zeros([1, 4, 2, 2]));
    /// assert_eq!(y.to_vec::<f32>(), [0.25; 16]);
    /// ```
    Softmax2d Softmax2dOptions "torch.nn.Softmax2d" [] {}
        |m, o, x| {
            let rank = x.dim();
            ensure!(matches!(rank, 3 | 4), Value, "Softmax2d: expected input to be 3D or 4D, got {rank}D instead");
            f::softmax(x, Some(-3), 5, None)
        };
    /// `x` above 0, `a * x` below, where `a` is drawn for each element in training and the mean of its range otherwise.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let layer = nn::RReLU::new();
    /// layer.eval();
    /// assert_eq!(layer.call(&torch::tensor([2.0])).to_vec::<f32>(), [2.0]);
    /// ```
    RReLU RReLUOptions "torch.nn.RReLU" [include(Inplace), repr(lower=, upper=, inplace=?)]
        { /** Least slope below 0. */ #[default(1.0 / 8.0)] lower: Scalar,
          /** Largest slope below 0. */ #[default(1.0 / 3.0)] upper: Scalar }
        |m, o, x| f::rrelu(x, o.lower.to_f64(), o.upper.to_f64(), m.is_training(), o.inplace);
}

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
///
/// ```
/// use torch::{nn, prelude::*};
///
/// let layer = nn::PReLU::new();
/// assert_eq!(layer.call(&torch::tensor([-4.0, 2.0])).to_vec::<f32>(), [-1.0, 2.0]);
/// assert_eq!(layer.weight.to_vec::<f32>(), [0.25]);
/// ```
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
