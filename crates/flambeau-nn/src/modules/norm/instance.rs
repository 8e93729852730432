//! Instance normalisation.

use super::{Parts, Running};
use crate::module::Module;
use crate::module::base::Base;
use crate::modules::layer;
use crate::parameter::{Buffer, Parameter};
use flambeau_core::{Error, Result, ensure, ops};
use flambeau_macros::{Module, class, dims};
use flambeau_nn_functional::ops as f;

dims! { 1 [INPUT = "2D or 3D"], 2 [INPUT = "3D or 4D"], 3 [INPUT = "4D or 5D"] =>
    #[class("torch.nn.InstanceNormNd", build = InstanceNormNd, include(Running(affine = false, track_running_stats = false)),
        repr(num_features, eps=, momentum=, affine=, bias=, track_running_stats=))]
    pub struct InstanceNormNdOptions {
        /// Number of channels.
        pub num_features: i64,
    }
    #[doc = concat!("Instance normalisation (Ulyanov et al. 2016) of ", INPUT, " inputs, per channel and row.")]
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let x = torch::randn([4, 3, 5, 5]);
    /// assert!(nn::InstanceNorm2d::new(3).parameters().is_empty());          // unless it is asked to learn
    /// let norm = nn::InstanceNorm2dOptions::new(3).affine(true).build();
    /// assert_eq!((norm.parameters().len(), norm.call(&x).sizes()), (2, x.sizes()));
    /// ```
    #[derive(Debug, Module)]
    #[module(version = 2, may_lack = "num_batches_tracked")]
    pub struct InstanceNormNd {
        pub(in crate::modules) base: Base,
        /// The arguments.
        pub options: InstanceNormNdOptions,
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
    impl InstanceNormNd {
        fn from_options(mut o: InstanceNormNdOptions) -> Result<Self> {
            o.bias &= o.affine;
            let parts = Running::from(&o).parts(o.num_features)?;
            Ok(Self::of_parts(o, parts))
        }
        /// Of its parameters and its statistics, in order.
        pub(in crate::modules) fn of_parts(options: InstanceNormNdOptions, (weight, bias, statistics): Parts) -> Self {
            let [running_mean, running_var, num_batches_tracked] = statistics;
            InstanceNormNd { base: Base::new(), options, weight, bias, running_mean, running_var, num_batches_tracked }
        }
    }
    layer!(InstanceNormNd, |m, x| {
        if x.dim() != N + 1 && x.dim() != N + 2 {
            return Err(Error::value(format!(concat!("expected ", INPUT, " input (got {}D input)"), x.dim())));
        }
        let o = &m.options;
        if let Some(w) = &m.weight {
            let d = x.dim() - (N + 1);
            let (want, got) = (w.sizes()[0], x.sizes()[d]);
            ensure!(
                want == got,
                Value,
                "expected input's size at dim={d} to match num_features ({want}), but got: {got}."
            );
        }
        let single = x.dim() == N + 1;
        let batch = if single { ops::unsqueeze(x, 0)? } else { x.clone() };
        let (mean, var) = (m.running_mean.as_deref(), m.running_var.as_deref());
        let (weight, bias) = (m.weight.as_deref(), m.bias.as_deref());
        let by_batch = m.is_training() || !o.track_running_stats;
        let momentum = o.momentum.unwrap_or(0.0);
        let y = f::instance_norm(&batch, mean, var, weight, bias, by_batch, momentum, o.eps)?;
        if single { ops::squeeze_dim(&y, 0) } else { Ok(y) }
    });
}
