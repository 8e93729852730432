//! Arguments that follow from what a distribution holds, as methods.

use super::{
    Beta, Chi2, LowRankMultivariateNormal, MultivariateNormal, RelaxedBernoulli, RelaxedOneHotCategorical,
};
use crate::distribution::Distribution;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::object::no_attribute;
use flambeau_core::{Result, Tensor};

macro_rules! properties {
    ($($class:ident { $($(#[$doc:meta])* $name:ident, $fallible:ident;)* })*) => {$(
        impl $class {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                expect(self.$fallible())
            }
            #[doc = concat!("[`", stringify!($class), "::", stringify!($name), "`] with an error instead of a panic.")]
            ///
            /// # Errors
            /// When it has to be computed and cannot be.
            pub fn $fallible(&self) -> Result<Tensor> {
                let found = Distribution::parameter(self, stringify!($name))?;
                found.ok_or_else(|| no_attribute(stringify!($class), stringify!($name)))
            }
        )*}
    )*};
}
properties! {
    Beta {
        /// The concentration at 0, of the batch's shape.
        #[doc(alias = "torch.distributions.Beta.concentration0")]
        concentration0, try_concentration0;
        /// The concentration at 1, of the batch's shape.
        #[doc(alias = "torch.distributions.Beta.concentration1")]
        concentration1, try_concentration1;
    }
    LowRankMultivariateNormal {
        /// The covariances: `cov_factor cov_factor^T + diag(cov_diag)`.
        #[doc(alias = "torch.distributions.LowRankMultivariateNormal.covariance_matrix")]
        covariance_matrix, try_covariance_matrix;
        /// The inverse of the covariances.
        #[doc(alias = "torch.distributions.LowRankMultivariateNormal.precision_matrix")]
        precision_matrix, try_precision_matrix;
        /// The Cholesky factor of the covariances.
        #[doc(alias = "torch.distributions.LowRankMultivariateNormal.scale_tril")]
        scale_tril, try_scale_tril;
    }
    MultivariateNormal {
        /// The covariances.
        #[doc(alias = "torch.distributions.MultivariateNormal.covariance_matrix")]
        covariance_matrix, try_covariance_matrix;
        /// The inverse of the covariances.
        #[doc(alias = "torch.distributions.MultivariateNormal.precision_matrix")]
        precision_matrix, try_precision_matrix;
        /// The Cholesky factor of the covariances.
        #[doc(alias = "torch.distributions.MultivariateNormal.scale_tril")]
        scale_tril, try_scale_tril;
    }
    RelaxedBernoulli {
        /// How far samples are from 0 and 1.
        #[doc(alias = "torch.distributions.RelaxedBernoulli.temperature")]
        temperature, try_temperature;
    }
    RelaxedOneHotCategorical {
        /// How far samples are from one-hot vectors.
        #[doc(alias = "torch.distributions.RelaxedOneHotCategorical.temperature")]
        temperature, try_temperature;
    }
}
impl Chi2 {
    /// Degrees of freedom.
    #[doc(alias = "torch.distributions.Chi2.df")]
    #[track_caller]
    pub fn df(&self) -> Tensor {
        expect(self.try_df())
    }
}
