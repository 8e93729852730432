//! Batch normalisation.

use super::{Parts, Running};
use crate::module::Module;
use crate::module::base::Base;
use crate::modules::layer;
use crate::parameter::{Buffer, Parameter};
use flambeau_core::api::ergonomic::wrapped_number;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{Error, Result, Scalar, Tensor, Value, ensure, ops};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;
use std::sync::atomic::{AtomicBool, Ordering};

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
impl crate::Plain for Flag {}
impl Clone for Flag {
    fn clone(&self) -> Self {
        Flag(AtomicBool::new(self.0.load(Ordering::Relaxed)))
    }
}

macro_rules! batch_norm {
    ($norm:ident, $options:ident, $path:literal, $expected:literal, [$($(#[$doc:meta])* $extra:ident: $ty:ty)?], |$input:ident| $check:expr) => {
        #[class($path, build = $norm, include(Running),
            order(num_features, eps, momentum, affine, track_running_stats, $($extra,)? Running),
            repr(num_features, eps=, momentum=, affine=, bias=, track_running_stats=))]
        pub struct $options {
            /// Number of channels.
            pub num_features: i64,
            $($(#[$doc])* pub $extra: $ty,)?
        }
        #[doc = concat!("Batch normalisation (Ioffe and Szegedy 2015) of ", $expected, " inputs, per channel.")]
        ///
        /// ```
        /// use torch::{nn, prelude::*};
        ///
        /// let norm = nn::BatchNorm2d::new(3);
        /// norm.eval();                // running statistics, and not the batch's
        /// assert_eq!(norm.running_mean.as_ref().unwrap().sizes(), [3]);
        /// assert_eq!((norm.parameters().len(), norm.state_dict().len()), (2, 5));
        /// ```
        #[derive(Debug, Module)]
        #[module(version = 2, may_lack = "num_batches_tracked")]
        pub struct $norm {
            pub(in crate::modules) base: Base,
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
                let parts = Running::from(&o).parts(o.num_features)?;
                Ok(Self::of_parts(o, parts))
            }
            /// Of its parameters and its statistics, in order.
            pub(in crate::modules) fn of_parts(options: $options, (weight, bias, statistics): Parts) -> Self {
                let [running_mean, running_var, num_batches_tracked] = statistics;
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
        process_group: Option<ProcessGroup>
    ],
    |x| {
        ensure!(x.dim() >= 2, Value, "expected at least 2D input (got {}D input)", x.dim());
        ensure!(x.sizes()[1] > 0, Value, "SyncBatchNorm number of input channels should be non-zero");
    }
);
