//! [`LayerNorm`], [`GroupNorm`] and [`RMSNorm`].

use super::affine;
use crate::args::Shape;
use crate::module::base::Base;
use crate::modules::layer;
use crate::modules::options::Factory;
use crate::parameter::Parameter;
use flambeau_core::{Result, ensure};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;

#[class("torch.nn.LayerNorm", build = LayerNorm, include(Factory), repr(normalized_shape, eps=, elementwise_affine=, bias=))]
pub struct LayerNormOptions {
    /// Sizes of the last dimensions, which are normalised together.
    pub normalized_shape: Shape,
    /// Added to the variance.
    #[default(1e-5)]
    pub eps: f64,
    /// Whether each element is scaled and shifted.
    #[default(true)]
    pub elementwise_affine: bool,
    /// Whether each element is shifted.
    #[default(true)]
    pub bias: bool,
}
/// Layer normalisation (Ba et al. 2016) over the last dimensions.
///
/// ```
/// use torch::{nn, prelude::*};
///
/// let norm = nn::LayerNorm::new(4);                 // of the last dimension; of two: `[3, 4]`
/// let y = norm.call(&torch::randn([2, 3, 4]));
/// assert!(y.mean_dim(-1, false).abs().max().item::<f32>() < 1e-5);
/// ```
#[derive(Debug, Module)]
pub struct LayerNorm {
    base: Base,
    /// The arguments.
    pub options: LayerNormOptions,
    /// Scale of each element.
    pub weight: Option<Parameter>,
    /// Shift of each element.
    pub bias: Option<Parameter>,
}
impl LayerNorm {
    fn from_options(mut o: LayerNormOptions) -> Result<Self> {
        o.bias &= o.elementwise_affine;
        let (weight, bias) = affine(&o.normalized_shape, o.elementwise_affine, o.bias, &Factory::from(&o))?;
        Ok(LayerNorm { base: Base::new(), options: o, weight, bias })
    }
}
layer!(LayerNorm, |m, x| {
    let o = &m.options;
    f::layer_norm(x, &o.normalized_shape, m.weight.as_deref(), m.bias.as_deref(), o.eps, true)
});

#[class("torch.nn.GroupNorm", build = GroupNorm, include(Factory),
    order(num_groups, num_channels, eps, affine, Factory, bias), repr(num_groups, num_channels, eps=, affine=, bias=))]
pub struct GroupNormOptions {
    /// Number of groups of channels.
    pub num_groups: i64,
    /// Number of channels.
    pub num_channels: i64,
    /// Added to the variance.
    #[default(1e-5)]
    pub eps: f64,
    /// Whether each channel is scaled and shifted.
    #[default(true)]
    pub affine: bool,
    /// Whether each channel is shifted.
    #[default(true)]
    pub bias: bool,
}
/// Group normalisation (Wu and He 2018): `(N, C, *)`, over groups of channels.
///
/// ```
/// use torch::{nn, prelude::*};
///
/// let norm = nn::GroupNorm::new(2, 6);              // six channels in two groups
/// assert_eq!(norm.call(&torch::randn([4, 6, 5])).sizes(), [4, 6, 5]);
/// ```
#[derive(Debug, Module)]
pub struct GroupNorm {
    base: Base,
    /// The arguments.
    pub options: GroupNormOptions,
    /// Scale of each channel.
    pub weight: Option<Parameter>,
    /// Shift of each channel.
    pub bias: Option<Parameter>,
}
impl GroupNorm {
    fn from_options(mut o: GroupNormOptions) -> Result<Self> {
        ensure!(o.num_groups != 0, Value, "integer modulo by zero");
        ensure!(
            o.num_channels % o.num_groups == 0,
            Value,
            "num_channels ({}) must be divisible by num_groups ({})",
            o.num_channels,
            o.num_groups
        );
        o.bias &= o.affine;
        let (weight, bias) = affine(&[o.num_channels], o.affine, o.bias, &Factory::from(&o))?;
        Ok(GroupNorm { base: Base::new(), options: o, weight, bias })
    }
}
layer!(GroupNorm, |m, x| {
    f::group_norm(x, m.options.num_groups, m.weight.as_deref(), m.bias.as_deref(), m.options.eps, true)
});

#[class("torch.nn.RMSNorm", build = RMSNorm, include(Factory), repr(normalized_shape, eps=, elementwise_affine=))]
pub struct RMSNormOptions {
    /// Sizes of the last dimensions, which are normalised together.
    pub normalized_shape: Shape,
    /// Added to the mean square; the dtype's epsilon if not given.
    pub eps: Option<f64>,
    /// Whether each element is scaled.
    #[default(true)]
    pub elementwise_affine: bool,
}
/// Root mean square normalisation (Zhang and Sennrich 2019) over the last dimensions.
///
/// ```
/// use torch::{nn, prelude::*};
///
/// let y = nn::RMSNorm::new(4).call(&torch::full([2, 4], 3.0));
/// assert!(torch::allclose(&y, &torch::ones([2, 4])));
/// ```
#[derive(Debug, Module)]
pub struct RMSNorm {
    base: Base,
    /// The arguments.
    pub options: RMSNormOptions,
    /// Scale of each element.
    pub weight: Option<Parameter>,
}
impl RMSNorm {
    fn from_options(o: RMSNormOptions) -> Result<Self> {
        let (weight, _) = affine(&o.normalized_shape, o.elementwise_affine, false, &Factory::from(&o))?;
        Ok(RMSNorm { base: Base::new(), options: o, weight })
    }
}
layer!(RMSNorm, |m, x| f::rms_norm(x, &m.options.normalized_shape, m.weight.as_deref(), m.options.eps));
