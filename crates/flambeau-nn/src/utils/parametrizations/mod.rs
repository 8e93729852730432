//! `torch.nn.utils.parametrizations`: orthogonal weights, and weights of bounded or separate length.

mod dense;
mod orthogonal;
mod spectral_norm;
mod weight_norm;

pub use orthogonal::{OrthogonalMap, OrthogonalOptions, orthogonal, orthogonal_with, try_orthogonal};
pub(super) use spectral_norm::{direction, matrix};
pub use spectral_norm::{spectral_norm, spectral_norm_with, try_spectral_norm};
pub(super) use weight_norm::scaled;
pub use weight_norm::{try_weight_norm, weight_norm, weight_norm_with};

pub use super::spectral_norm::SpectralNormOptions;
pub use super::weight_norm::WeightNormOptions;

use super::slot::{self, Slot};
use crate::module::Module;
use flambeau_core::{Error, Result, Tensor};

/// The weight of that name as a tensor, or the error that there is none.
fn weight(m: &mut dyn Module, name: &str) -> Result<Tensor> {
    match slot::get(m, name)? {
        Some(Slot::Parameter(p)) => p.try_value(),
        Some(Slot::Buffer(b)) => flambeau_core::dispatch::stand_in::resolved(&b),
        None => {
            Err(Error::value(format!("Module '{}' has no parameter or buffer with name '{name}'", m.repr())))
        }
    }
}
/// The dimension of a layer's weight that numbers its outputs.
pub(super) fn output_dim(m: &dyn Module) -> i64 {
    i64::from(m.type_name().starts_with("ConvTranspose"))
}
