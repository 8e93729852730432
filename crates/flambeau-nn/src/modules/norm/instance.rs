//! Instance normalisation.

use super::{Parts, Running};
use crate::module::Module;
use crate::module::base::Base;
use crate::modules::layer;
use crate::parameter::{Buffer, Parameter};
use flambeau_core::{Error, Result, ensure, ops};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;

macro_rules! instance_norm {
    ($norm:ident, $options:ident, $path:literal, $single:literal, $expected:literal) => {
        #[class($path, build = $norm, include(Running(affine = false, track_running_stats = false)),
            repr(num_features, eps=, momentum=, affine=, bias=, track_running_stats=))]
        pub struct $options {
            /// Number of channels.
            pub num_features: i64,
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
                let parts = Running::from(&o).parts(o.num_features)?;
                Ok(Self::of_parts(o, parts))
            }
            /// Of its parameters and its statistics, in order.
            pub(in crate::modules) fn of_parts(options: $options, (weight, bias, statistics): Parts) -> Self {
                let [running_mean, running_var, num_batches_tracked] = statistics;
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
