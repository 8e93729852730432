//! Linear maps.

use super::options::Factory;
use super::{layer, layer_of, plain};
use crate::init;
use crate::module::base::Base;
use crate::parameter::Parameter;
use flambeau_core::Result;
#[cfg(feature = "by-name")]
use flambeau_core::dispatch::object::{Instance as _, Kwargs, ObjectRef};
#[cfg(feature = "by-name")]
use flambeau_core::dispatch::value::Value;
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;

#[class("torch.nn.Identity", build = Identity, make = identity)]
pub struct IdentityOptions {}
/// It stands in for modules of any arguments, and so takes them all.
#[cfg(feature = "by-name")]
fn identity(_: &[Value], _: &Kwargs) -> Result<ObjectRef> {
    Ok(IdentityOptions {}.try_build()?.into_object())
}
plain!(
    /// Gives its input.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let x = torch::ones([2]);
    /// assert!(nn::Identity::new().call(&x).equal(&x));
    /// ```
    Identity, IdentityOptions
);
layer!(Identity, |_m, x| Ok(x.clone()));

#[class("torch.nn.Linear", build = Linear, include(Factory), repr(in_features=, out_features=, bias=))]
pub struct LinearOptions {
    /// Size of each input.
    pub in_features: i64,
    /// Size of each output.
    pub out_features: i64,
    /// Whether a bias is added.
    #[default(true)]
    pub bias: bool,
}

/// `y = x A^T + b`: input `(*, in_features)`, output `(*, out_features)`. Weight and bias start uniform within
/// `1 / sqrt(in_features)`.
///
/// ```
/// use torch::{nn, prelude::*};
///
/// let layer = nn::Linear::new(3, 2);
/// assert_eq!(layer.call(&torch::zeros([5, 3])).sizes(), [5, 2]);
/// assert_eq!((layer.weight.sizes(), layer.bias().sizes()), (&[2, 3][..], &[2][..]));
/// let plain = nn::LinearOptions::new(3, 2).bias(false).build();
/// assert!(plain.bias.is_none());
/// ```
#[derive(Debug, Module)]
pub struct Linear {
    pub(super) base: Base,
    /// The arguments.
    pub options: LinearOptions,
    /// `(out_features, in_features)`
    pub weight: Parameter,
    /// `(out_features)`
    pub bias: Option<Parameter>,
}
impl Linear {
    fn from_options(options: LinearOptions) -> Result<Self> {
        let (o, i) = (options.out_features, options.in_features);
        let make = Factory::from(&options);
        let (weight, bias) = (make.parameter(&[o, i])?, make.parameter_if(options.bias, &[o])?);
        let out = Linear { base: Base::new(), weight, bias, options };
        out.try_reset_parameters()?;
        Ok(out)
    }
    /// Draws weight and bias anew.
    ///
    /// # Errors
    /// A parameter that is borrowed.
    pub fn try_reset_parameters(&self) -> Result<()> {
        init::linear_like(&self.weight, self.bias.as_ref())
    }
}
layer!(Linear, |m, x| f::linear(x, &m.weight, m.bias.as_deref()));

#[class("torch.nn.Bilinear", build = Bilinear, include(Factory), repr(in1_features=, in2_features=, out_features=, bias=))]
pub struct BilinearOptions {
    /// Size of each first input.
    pub in1_features: i64,
    /// Size of each second input.
    pub in2_features: i64,
    /// Size of each output.
    pub out_features: i64,
    /// Whether a bias is added.
    #[default(true)]
    pub bias: bool,
}
/// `y = x1^T A x2 + b`.
///
/// ```
/// use torch::{nn, prelude::*};
///
/// let layer = nn::Bilinear::new(2, 3, 4);
/// assert_eq!(layer.call(&torch::zeros([5, 2]), &torch::zeros([5, 3])).sizes(), [5, 4]);
/// ```
#[derive(Debug, Module)]
pub struct Bilinear {
    base: Base,
    /// The arguments.
    pub options: BilinearOptions,
    /// `(out_features, in1_features, in2_features)`
    pub weight: Parameter,
    /// `(out_features)`
    pub bias: Option<Parameter>,
}
impl Bilinear {
    fn from_options(o: BilinearOptions) -> Result<Self> {
        flambeau_core::ensure!(
            o.in1_features != 0,
            Value,
            "in1_features must be > 0, but got (in1_features=0)"
        );
        let make = Factory::from(&o);
        let weight = make.parameter(&[o.out_features, o.in1_features, o.in2_features])?;
        let bias = make.parameter_if(o.bias, &[o.out_features])?;
        let bound = 1.0 / (o.in1_features as f64).sqrt();
        init::try_uniform_(&weight, -bound, bound, None)?;
        if let Some(b) = &bias {
            init::try_uniform_(b, -bound, bound, None)?;
        }
        Ok(Bilinear { base: Base::new(), options: o, weight, bias })
    }
}
layer_of!(Bilinear, |m, input1, input2| f::bilinear(input1, input2, &m.weight, m.bias.as_deref()));
