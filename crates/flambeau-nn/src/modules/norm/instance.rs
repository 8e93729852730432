//! Instance normalisation.

use super::{affine, running};
use crate::module::Module;
use crate::module::base::Base;
use crate::modules::layer;
use crate::parameter::{Buffer, Parameter};
use flambeau_core::{DType, Device, Error, Result, ensure, ops};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;

macro_rules! instance_norm {
    ($norm:ident, $options:ident, $path:literal, $single:literal, $expected:literal) => {
        #[doc = concat!("Options of [`", stringify!($norm), "`].")]
        #[class($path, build = $norm, repr(num_features, eps=, momentum=, affine=, bias=, track_running_stats=))]
        pub struct $options {
            /// Number of channels.
            pub num_features: i64,
            /// Added to the variance.
            #[default(1e-5)]
            pub eps: f64,
            /// Part that a batch has in the running statistics.
            #[default(0.1)]
            pub momentum: Option<f64>,
            /// Whether the output is scaled and shifted.
            #[default(false)]
            pub affine: bool,
            /// Whether running statistics are kept, and used in evaluation.
            #[default(false)]
            pub track_running_stats: bool,
            /// Device of parameters and buffers.
            pub device: Option<Device>,
            /// Dtype of parameters and buffers.
            pub dtype: Option<DType>,
            /// Whether the output is shifted.
            #[default(true)]
            pub bias: bool,
        }
        #[doc = concat!("Instance normalisation (Ulyanov et al. 2016) of ", $expected, " inputs, per channel and row.")]
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
            /// Stays 0, as in PyTorch.
            pub num_batches_tracked: Option<Buffer>,
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
            pub(in crate::modules) fn of_parts(
                options: $options,
                weight: Option<Parameter>,
                bias: Option<Parameter>,
                [running_mean, running_var, num_batches_tracked]: [Option<Buffer>; 3],
            ) -> Self {
                $norm { base: Base::new(), options, weight, bias, running_mean, running_var, num_batches_tracked }
            }
        }
        layer!($norm, |m, x| {
            if x.dim() != $single && x.dim() != $single + 1 {
                return Err(Error::value(format!(concat!("expected ", $expected, " input (got {}D input)"), x.dim())));
            }
            let o = &m.options;
            if let Some(w) = &m.weight {
                let d = x.dim() - $single;
                let (want, got) = (w.sizes()[0], x.sizes()[d]);
                ensure!(
                    want == got,
                    Value,
                    "expected input's size at dim={d} to match num_features ({want}), but got: {got}."
                );
            }
            let single = x.dim() == $single;
            let batch = if single { ops::unsqueeze(x, 0)? } else { x.clone() };
            let (mean, var) = (m.running_mean.as_deref(), m.running_var.as_deref());
            let (weight, bias) = (m.weight.as_deref(), m.bias.as_deref());
            let by_batch = m.is_training() || !o.track_running_stats;
            let momentum = o.momentum.unwrap_or(0.0);
            let y = f::instance_norm(&batch, mean, var, weight, bias, by_batch, momentum, o.eps)?;
            if single { ops::squeeze_dim(&y, 0) } else { Ok(y) }
        });
    };
}
instance_norm!(InstanceNorm1d, InstanceNorm1dOptions, "torch.nn.InstanceNorm1d", 2, "2D or 3D");
instance_norm!(InstanceNorm2d, InstanceNorm2dOptions, "torch.nn.InstanceNorm2d", 3, "3D or 4D");
instance_norm!(InstanceNorm3d, InstanceNorm3dOptions, "torch.nn.InstanceNorm3d", 4, "4D or 5D");
