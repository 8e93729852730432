//! Normalisation.

mod instance;
mod local_response;

pub use instance::*;
pub use local_response::{CrossMapLRN2d, CrossMapLRN2dOptions, LocalResponseNorm, LocalResponseNormOptions};

use crate::args::Shape;
use crate::module::Module;
use crate::module::base::Base;
use crate::modules::{empty, layer};
use crate::parameter::{Buffer, Parameter};
use flambeau_core::api::ergonomic::wrapped_number;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{DType, Device, Error, Result, Scalar, Tensor, Value, ensure, ops};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;
use std::sync::atomic::{AtomicBool, Ordering};

/// A parameter of ones or zeros.
fn constant(sizes: &[i64], value: i64, dtype: Option<DType>, device: Option<Device>) -> Result<Parameter> {
    let t = empty(sizes, dtype, device)?;
    ops::fill_(&t, Scalar::Int(value))?;
    Parameter::try_new(&t, true)
}

/// Weight and bias of a layer that scales its output.
pub(super) fn affine(
    sizes: &[i64],
    weight: bool,
    bias: bool,
    dtype: Option<DType>,
    device: Option<Device>,
) -> Result<(Option<Parameter>, Option<Parameter>)> {
    let weight = weight.then(|| constant(sizes, 1, dtype, device)).transpose()?;
    let bias = bias.then(|| constant(sizes, 0, dtype, device)).transpose()?;
    Ok((weight, bias))
}

/// Running mean, running variance and number of batches.
#[allow(clippy::type_complexity)]
pub(super) fn running(
    n: &[i64],
    track: bool,
    dtype: Option<DType>,
    device: Option<Device>,
) -> Result<(Option<Buffer>, Option<Buffer>, Option<Buffer>)> {
    if !track {
        return Ok((None, None, None));
    }
    let (mean, var) = (empty(n, dtype, device)?, empty(n, dtype, device)?);
    ops::fill_(&mean, Scalar::Int(0))?;
    ops::fill_(&var, Scalar::Int(1))?;
    let count = Tensor::zeros_raw(&[], DType::I64, device.unwrap_or(Device::Cpu))?;
    Ok((Some(Buffer::new(mean)), Some(Buffer::new(var)), Some(Buffer::new(count))))
}

/// A group of processes: there is only this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessGroup {}
impl FromValue for ProcessGroup {
    fn from_value(_: &Value) -> Result<Self> {
        Err(Error::missing("SyncBatchNorm with a process group"))
    }
}

/// What all batch normalisations have: statistics that can be computed anew (`torch.optim.swa_utils.update_bn` does).
#[doc(alias = "torch.nn.modules.batchnorm._BatchNorm")]
pub trait RunningStatistics {
    /// Forgets them.
    ///
    /// # Errors
    /// Statistics that are borrowed.
    fn restart(&self) -> Result<()>;
    /// Whether they are plain means over all batches, whatever the momentum says.
    fn set_cumulative(&self, on: bool);
}
/// The statistics of a module, if it is a batch normalisation; a lazy one has none before its first input.
pub fn running_statistics(m: &dyn Module) -> Option<&dyn RunningStatistics> {
    fn of<M: RunningStatistics + 'static>(m: &dyn Module) -> Option<&dyn RunningStatistics> {
        m.as_any().downcast_ref::<M>().map(|m| m as &dyn RunningStatistics)
    }
    macro_rules! lazy {
        ($t:ty) => {
            m.as_any().downcast_ref::<$t>()?.materialized().map(|m| m as &dyn RunningStatistics)
        };
    }
    of::<BatchNorm1d>(m)
        .or_else(|| of::<BatchNorm2d>(m))
        .or_else(|| of::<BatchNorm3d>(m))
        .or_else(|| of::<SyncBatchNorm>(m))
        .or_else(|| lazy!(crate::modules::LazyBatchNorm1d))
        .or_else(|| lazy!(crate::modules::LazyBatchNorm2d))
        .or_else(|| lazy!(crate::modules::LazyBatchNorm3d))
}
/// A switch that is no part of the state.
#[derive(Debug, Default)]
struct Flag(AtomicBool);
impl Clone for Flag {
    fn clone(&self) -> Self {
        Flag(AtomicBool::new(self.0.load(Ordering::Relaxed)))
    }
}

macro_rules! batch_norm {
    ($norm:ident, $options:ident, $path:literal, $expected:literal, [$($extra:tt)*], |$input:ident| $check:expr) => {
        #[doc = concat!("Options of [`", stringify!($norm), "`].")]
        #[class($path, build = $norm, repr(num_features, eps=, momentum=, affine=, bias=, track_running_stats=))]
        pub struct $options {
            /// Number of channels.
            pub num_features: i64,
            /// Added to the variance.
            #[default(1e-5)]
            pub eps: f64,
            /// Part that a batch has in the running statistics; `None` for their plain mean over all batches.
            #[default(0.1)]
            pub momentum: Option<f64>,
            /// Whether the output is scaled and shifted.
            #[default(true)]
            pub affine: bool,
            /// Whether running statistics are kept.
            #[default(true)]
            pub track_running_stats: bool,
            $($extra)*
            /// Device of parameters and buffers.
            pub device: Option<Device>,
            /// Dtype of parameters and buffers.
            pub dtype: Option<DType>,
            /// Whether the output is shifted.
            #[default(true)]
            pub bias: bool,
        }
        #[doc = concat!("Batch normalisation (Ioffe and Szegedy 2015) of ", $expected, " inputs, per channel.")]
        #[derive(Debug, Module)]
        #[module(version = 2, may_lack = "num_batches_tracked")]
        pub struct $norm {
            pub(super) base: Base,
            /// The arguments.
            pub options: $options,
            /// Scale of each channel.
            pub weight: Option<Parameter>,
            /// Shift of each channel.
            pub bias: Option<Parameter>,
            /// Mean of each channel over the batches so far.
            pub running_mean: Option<Buffer>,
            /// Variance of each channel over the batches so far.
            pub running_var: Option<Buffer>,
            /// Number of batches so far.
            pub num_batches_tracked: Option<Buffer>,
            cumulative: Flag,
        }
        impl $norm {
            fn from_options(mut o: $options) -> Result<Self> {
                o.bias &= o.affine;
                let n = [o.num_features];
                let (weight, bias) = affine(&n, o.affine, o.bias, o.dtype, o.device)?;
                let (running_mean, running_var, num_batches_tracked) =
                    running(&n, o.track_running_stats, o.dtype, o.device)?;
                Ok(Self::of_parts(o, weight, bias, [running_mean, running_var, num_batches_tracked]))
            }
            /// Of its parameters and its statistics, in order.
            pub(super) fn of_parts(
                options: $options,
                weight: Option<Parameter>,
                bias: Option<Parameter>,
                [running_mean, running_var, num_batches_tracked]: [Option<Buffer>; 3],
            ) -> Self {
                let (base, cumulative) = (Base::new(), Flag::default());
                $norm { base, options, weight, bias, running_mean, running_var, num_batches_tracked, cumulative }
            }
        }
        impl RunningStatistics for $norm {
            fn restart(&self) -> Result<()> {
                for (b, start) in [(&self.running_mean, 0), (&self.running_var, 1), (&self.num_batches_tracked, 0)] {
                    if let Some(b) = b {
                        ops::fill_(b, Scalar::Int(start))?;
                    }
                }
                Ok(())
            }
            fn set_cumulative(&self, on: bool) {
                self.cumulative.0.store(on, Ordering::Relaxed);
            }
        }
        layer!($norm, |m, x| {
            let $input = x;
            $check;
            let (o, training) = (&m.options, m.is_training());
            let momentum = o.momentum.filter(|_| !m.cumulative.0.load(Ordering::Relaxed));
            let mut factor = momentum.unwrap_or(0.0);
            if let Some(count) = m.num_batches_tracked.as_ref().filter(|_| training && o.track_running_stats) {
                ops::add_(count, &wrapped_number(Scalar::Int(1))?, Scalar::Int(1))?;
                if momentum.is_none() {
                    factor = 1.0 / count.try_item::<f64>()?;
                }
            }
            let keep = !training || o.track_running_stats;
            let (mean, var) = (m.running_mean.as_deref().filter(|_| keep), m.running_var.as_deref().filter(|_| keep));
            let by_batch = training || (m.running_mean.is_none() && m.running_var.is_none());
            f::batch_norm(x, mean, var, m.weight.as_deref(), m.bias.as_deref(), by_batch, factor, o.eps)
        });
    };
}
/// Checks the number of dimensions.
fn dims(x: &Tensor, any_of: &[usize], expected: &str) -> Result<()> {
    ensure!(any_of.contains(&x.dim()), Value, "expected {expected} input (got {}D input)", x.dim());
    Ok(())
}
batch_norm!(BatchNorm1d, BatchNorm1dOptions, "torch.nn.BatchNorm1d", "2D or 3D", [], |x| dims(
    x,
    &[2, 3],
    "2D or 3D"
)?);
batch_norm!(BatchNorm2d, BatchNorm2dOptions, "torch.nn.BatchNorm2d", "4D", [], |x| dims(x, &[4], "4D")?);
batch_norm!(BatchNorm3d, BatchNorm3dOptions, "torch.nn.BatchNorm3d", "5D", [], |x| dims(x, &[5], "5D")?);
batch_norm!(
    SyncBatchNorm,
    SyncBatchNormOptions,
    "torch.nn.SyncBatchNorm",
    "at least 2D",
    [
        /// The processes that share statistics: this one alone, so the layer is batch normalisation.
        pub process_group: Option<ProcessGroup>,
    ],
    |x| {
        ensure!(x.dim() >= 2, Value, "expected at least 2D input (got {}D input)", x.dim());
        ensure!(x.sizes()[1] > 0, Value, "SyncBatchNorm number of input channels should be non-zero");
    }
);

/// Options of [`LayerNorm`].
#[class("torch.nn.LayerNorm", build = LayerNorm, repr(normalized_shape, eps=, elementwise_affine=, bias=))]
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
    /// Device of the parameters.
    pub device: Option<Device>,
    /// Dtype of the parameters.
    pub dtype: Option<DType>,
}
/// Layer normalisation (Ba et al. 2016) over the last dimensions.
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
        let (weight, bias) = affine(&o.normalized_shape, o.elementwise_affine, o.bias, o.dtype, o.device)?;
        Ok(LayerNorm { base: Base::new(), options: o, weight, bias })
    }
}
layer!(LayerNorm, |m, x| {
    let o = &m.options;
    f::layer_norm(x, &o.normalized_shape, m.weight.as_deref(), m.bias.as_deref(), o.eps, true)
});

/// Options of [`GroupNorm`].
#[class("torch.nn.GroupNorm", build = GroupNorm, repr(num_groups, num_channels, eps=, affine=, bias=))]
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
    /// Device of the parameters.
    pub device: Option<Device>,
    /// Dtype of the parameters.
    pub dtype: Option<DType>,
    /// Whether each channel is shifted.
    #[default(true)]
    pub bias: bool,
}
/// Group normalisation (Wu and He 2018): `(N, C, *)`, over groups of channels.
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
        ensure!(
            o.num_groups > 0 && o.num_channels % o.num_groups == 0,
            Value,
            "num_channels ({}) must be divisible by num_groups ({})",
            o.num_channels,
            o.num_groups
        );
        o.bias &= o.affine;
        let (weight, bias) = affine(&[o.num_channels], o.affine, o.bias, o.dtype, o.device)?;
        Ok(GroupNorm { base: Base::new(), options: o, weight, bias })
    }
}
layer!(GroupNorm, |m, x| {
    f::group_norm(x, m.options.num_groups, m.weight.as_deref(), m.bias.as_deref(), m.options.eps, true)
});

/// Options of [`RMSNorm`].
#[class("torch.nn.RMSNorm", build = RMSNorm, repr(normalized_shape, eps=, elementwise_affine=))]
pub struct RMSNormOptions {
    /// Sizes of the last dimensions, which are normalised together.
    pub normalized_shape: Shape,
    /// Added to the mean square; the dtype's epsilon if not given.
    pub eps: Option<f64>,
    /// Whether each element is scaled.
    #[default(true)]
    pub elementwise_affine: bool,
    /// Device of the parameter.
    pub device: Option<Device>,
    /// Dtype of the parameter.
    pub dtype: Option<DType>,
}
/// Root mean square normalisation (Zhang and Sennrich 2019) over the last dimensions.
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
        let (weight, _) = affine(&o.normalized_shape, o.elementwise_affine, false, o.dtype, o.device)?;
        Ok(RMSNorm { base: Base::new(), options: o, weight })
    }
}
layer!(RMSNorm, |m, x| f::rms_norm(x, &m.options.normalized_shape, m.weight.as_deref(), m.options.eps));
