//! A convolution or linear map and the batch normalisation after it as one layer.

use crate::module::Module;
use crate::modules::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d,
    ConvTranspose3d, Linear,
};
use crate::parameter::Parameter;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Device, Error, Result, Scalar, Tensor, ensure, ops};

/// What a batch normalisation in evaluation mode multiplies by and adds.
#[derive(Clone, Copy, Debug)]
pub struct Statistics<'a> {
    /// Running mean.
    pub mean: &'a Tensor,
    /// Running variance.
    pub var: &'a Tensor,
    /// Added to the variance.
    pub eps: f64,
    /// Scale.
    pub weight: Option<&'a Tensor>,
    /// Shift.
    pub bias: Option<&'a Tensor>,
}
/// A batch normalisation.
pub trait BatchNorm: Module {
    /// Its statistics.
    ///
    /// # Errors
    /// It keeps none.
    fn statistics(&self) -> Result<Statistics<'_>>;
    /// Number of channels.
    fn features(&self) -> i64;
}
/// A convolution.
///
/// ```
/// use torch::nn::{self, utils::fusion::Convolution};
/// fn doubled<C: Convolution>(conv: &C) -> torch::Result<C> {
///     let (weight, bias) = conv.weights();
///     let bias = bias.expect("it was built with one");
///     conv.with_weights(nn::Parameter::new(&**weight * 2.0), nn::Parameter::new(&**bias * 2.0))
/// }
/// let conv = nn::Conv1d::new(1, 1, 1);
/// assert_eq!(doubled(&conv)?.weight.item::<f32>(), 2.0 * conv.weight.item::<f32>());
/// # Ok::<(), torch::Error>(())
/// ```
pub trait Convolution: Module + Sized {
    /// Whether it is a transposed one, whose weight begins with the channels of the input.
    const TRANSPOSED: bool;
    /// Weight and bias.
    fn weights(&self) -> (&Parameter, Option<&Parameter>);
    /// The same layer with others.
    ///
    /// # Errors
    /// Options that it was not built with.
    fn with_weights(&self, weight: Parameter, bias: Parameter) -> Result<Self>;
}
macro_rules! norms {
    ($($t:ty),*) => {$(
        impl BatchNorm for $t {
            fn statistics(&self) -> Result<Statistics<'_>> {
                let (Some(mean), Some(var)) = (&self.running_mean, &self.running_var) else {
                    return Err(Error::new(
                        flambeau_core::ErrorKind::Assertion,
                        "bn.running_mean and bn.running_var must not be None",
                    ));
                };
                let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
                Ok(Statistics { mean, var, eps: self.options.eps, weight, bias })
            }
            fn features(&self) -> i64 {
                self.options.num_features
            }
        }
    )*};
}
norms!(BatchNorm1d, BatchNorm2d, BatchNorm3d);
macro_rules! layers {
    ($($t:ty, $transposed:literal;)*) => {$(
        impl Convolution for $t {
            const TRANSPOSED: bool = $transposed;
            fn weights(&self) -> (&Parameter, Option<&Parameter>) {
                (&self.weight, self.bias.as_ref())
            }
            fn with_weights(&self, weight: Parameter, bias: Parameter) -> Result<Self> {
                // built without memory: its parameters are replaced, and no random number is drawn
                let mut new = self.options.clone().device(Device::Meta).try_build()?;
                new.options = self.options.clone().bias(true);
                new.weight = weight;
                new.bias = Some(bias);
                new.set_training(self.is_training());
                Ok(new)
            }
        }
    )*};
}
layers! {
    Conv1d, false;
    Conv2d, false;
    Conv3d, false;
    ConvTranspose1d, true;
    ConvTranspose2d, true;
    ConvTranspose3d, true;
    Linear, false;
}

fn zeros_like(t: &Tensor) -> Result<Tensor> {
    ops::zeros_like(t, None, None, None, None, None)
}
/// `1 / sqrt(var + eps)`, times the scale.
fn factor(bn: &Statistics<'_>) -> Result<(Tensor, Tensor)> {
    let root = ops::rsqrt(&ops::add(bn.var, &Tensor::wrapped_raw(bn.eps)?, Scalar::Int(1))?)?;
    let ones = ops::ones_like(bn.mean, None, None, None, None, None)?;
    Ok((root, bn.weight.cloned().unwrap_or(ones)))
}
fn shifted(b: &Tensor, bn: &Statistics<'_>) -> Result<Tensor> {
    let (root, weight) = factor(bn)?;
    let centred = ops::sub(b, bn.mean, Scalar::Int(1))?;
    let zeros = zeros_like(bn.mean)?;
    ops::add(&ops::mul(&ops::mul(&centred, &root)?, &weight)?, bn.bias.unwrap_or(&zeros), Scalar::Int(1))
}
fn parameter(t: Tensor, like: &Tensor) -> Result<Parameter> {
    Parameter::try_new(&t.alias_detached(), like.requires_grad())
}

/// Weight and bias of a convolution followed by a batch normalisation. `transpose`: of a transposed convolution, whose
/// outputs are the weight's second dimension.
///
/// ```
/// use torch::nn;
/// use torch::nn::utils::fusion::{BatchNorm, fuse_conv_bn_weights};
/// let (conv, bn) = (nn::Conv1d::new(1, 2, 1), nn::BatchNorm1d::new(2));
/// nn::init::constant_(bn.bias.as_ref().unwrap(), 3.0);
/// let (_, bias) = fuse_conv_bn_weights(&conv.weight, None, &bn.statistics()?, false);
/// // nothing was seen yet, so the mean is 0
/// assert_eq!(bias.to_vec::<f32>(), [3.0, 3.0]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// Sizes that do not fit.
#[doc(alias = "torch.nn.utils.fuse_conv_bn_weights")]
#[flambeau_macros::short]
pub fn try_fuse_conv_bn_weights(
    weight: &Tensor,
    bias: Option<&Tensor>,
    bn: &Statistics<'_>,
    transpose: bool,
) -> Result<(Parameter, Parameter)> {
    let b = bias.cloned().map_or_else(|| zeros_like(bn.mean), Ok)?;
    let bias_dtype = bias.map_or(weight.dtype(), Tensor::dtype);
    let (root, scale) = factor(bn)?;
    let mut shape = vec![1; weight.dim()];
    shape[usize::from(transpose)] = -1;
    let w = ops::mul(weight, &ops::reshape(&ops::mul(&scale, &root)?, &shape)?)?.try_to(weight.dtype())?;
    Ok((parameter(w, weight)?, parameter(shifted(&b, bn)?.try_to(bias_dtype)?, &b)?))
}
/// Weight and bias of a linear map followed by a batch normalisation.
///
/// ```
/// use torch::nn::utils::fusion::{Statistics, fuse_linear_bn_weights};
/// use torch::{ones, tensor, zeros};
/// let (mean, var) = (zeros([1]), tensor([4.0]));
/// let seen = Statistics { mean: &mean, var: &var, eps: 0.0, weight: None, bias: None };
/// let (w, b) = fuse_linear_bn_weights(&ones([1, 3]), None, &seen);
/// assert_eq!((w.to_vec::<f32>(), b.to_vec::<f32>()), (vec![0.5; 3], vec![0.0]));
/// ```
///
/// # Errors
/// Sizes that do not fit.
#[doc(alias = "torch.nn.utils.fuse_linear_bn_weights")]
#[flambeau_macros::short]
pub fn try_fuse_linear_bn_weights(
    weight: &Tensor,
    bias: Option<&Tensor>,
    bn: &Statistics<'_>,
) -> Result<(Parameter, Parameter)> {
    let b = bias.cloned().map_or_else(|| zeros_like(bn.mean), Ok)?;
    let bias_dtype = bias.map_or(weight.dtype(), Tensor::dtype);
    let (root, scale) = factor(bn)?;
    let scale = ops::unsqueeze(&ops::mul(&scale, &root)?, -1)?.try_to(weight.dtype())?;
    let w = ops::mul(weight, &scale)?;
    Ok((parameter(w, weight)?, parameter(shifted(&b, bn)?.try_to(bias_dtype)?, &b)?))
}
fn both_in_eval(a: &dyn Module, b: &dyn Module) -> Result<()> {
    ensure!(!a.is_training() && !b.is_training(), Assertion, "Fusion only for eval!");
    Ok(())
}
/// One convolution, transposed or not, that computes what a convolution and the batch normalisation after it do in evaluation mode.
///
/// ```
/// use torch::{nn, prelude::*};
///
/// let (conv, bn) = (nn::Conv2d::new(1, 4, 3), nn::BatchNorm2d::new(4));
/// conv.eval();
/// bn.eval();
/// let fused = nn::utils::fuse_conv_bn_eval(&conv, &bn);
/// let x = torch::randn([2, 1, 5, 5]);
/// assert!((fused.call(&x) - bn.call(&conv.call(&x))).abs().max().item::<f32>() < 1e-5);
/// ```
///
/// Panics with the text of [`try_fuse_conv_bn_eval`]'s error.
#[doc(alias = "torch.nn.utils.fuse_conv_bn_eval")]
#[track_caller]
pub fn fuse_conv_bn_eval<C: Convolution>(conv: &C, bn: &impl BatchNorm) -> C {
    expect(try_fuse_conv_bn_eval(conv, bn, C::TRANSPOSED))
}
/// [`fuse_conv_bn_eval`] with all arguments, and an error instead of a panic.
///
/// # Errors
/// A layer in training mode; a normalisation without statistics.
pub fn try_fuse_conv_bn_eval<C: Convolution>(conv: &C, bn: &impl BatchNorm, transpose: bool) -> Result<C> {
    both_in_eval(conv.as_module(), bn.as_module())?;
    let (weight, bias) = conv.weights();
    let bias = bias.map(Parameter::try_value).transpose()?;
    let (w, b) = try_fuse_conv_bn_weights(&weight.try_value()?, bias.as_ref(), &bn.statistics()?, transpose)?;
    conv.with_weights(w, b)
}
/// One linear map that computes what a linear map and the batch normalisation after it do in evaluation mode.
///
/// ```
/// use torch::{nn, prelude::*};
/// let (linear, bn) = (nn::Linear::new(3, 2), nn::BatchNorm1d::new(2));
/// linear.eval();
/// bn.eval();
/// let fused = nn::utils::fuse_linear_bn_eval(&linear, &bn);
/// let x = torch::randn([4, 3]);
/// assert!((fused.call(&x) - bn.call(&linear.call(&x))).abs().max().item::<f32>() < 1e-5);
/// ```
///
/// # Errors
/// A layer in training mode; a normalisation without statistics, or over another number of features.
#[doc(alias = "torch.nn.utils.fuse_linear_bn_eval")]
#[flambeau_macros::short]
pub fn try_fuse_linear_bn_eval(linear: &Linear, bn: &impl BatchNorm) -> Result<Linear> {
    both_in_eval(linear, bn.as_module())?;
    let (out, features) = (linear.options.out_features, bn.features());
    ensure!(
        out == features || features == 1,
        Assertion,
        "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got linear.out_features={out} and \
         bn.num_features={features}"
    );
    let bias = linear.bias.as_ref().map(Parameter::try_value).transpose()?;
    let (w, b) = try_fuse_linear_bn_weights(&linear.weight.try_value()?, bias.as_ref(), &bn.statistics()?)?;
    linear.with_weights(w, b)
}
