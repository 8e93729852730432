//! Normalisation.

mod batch;
mod instance;
mod layer;
mod local_response;

pub use batch::*;
use flambeau_core::internal::RawTensor as _;
pub use instance::*;
pub use layer::*;
pub use local_response::{CrossMapLRN2d, CrossMapLRN2dOptions, LocalResponseNorm, LocalResponseNormOptions};

use crate::modules::options::Factory;
use crate::parameter::{Buffer, Parameter};
use flambeau_core::settings::get_default_device;
use flambeau_core::{DType, Result, Scalar, Tensor, ops};
use flambeau_macros::fields;

/// The options that every normalisation with running statistics has.
#[fields]
pub(crate) struct Running {
    /// Added to the variance.
    #[default(1e-5)]
    pub eps: f64,
    /// Part that a batch has in the running statistics; with batch normalisation `None` for their plain mean over all
    /// batches.
    #[default(0.1)]
    pub momentum: Option<f64>,
    /// Whether the output is scaled and shifted.
    #[default(true)]
    pub affine: bool,
    /// Whether running statistics are kept, and used in evaluation.
    #[default(true)]
    pub track_running_stats: bool,
    /// Device of parameters and buffers.
    pub device: Option<flambeau_core::Device>,
    /// Dtype of parameters and buffers.
    pub dtype: Option<flambeau_core::DType>,
    /// Whether the output is shifted.
    #[default(true)]
    pub bias: bool,
}
/// What such a layer has: weight, bias, and running mean, running variance and number of batches.
pub(in crate::modules) type Parts = (Option<Parameter>, Option<Parameter>, [Option<Buffer>; 3]);
impl Running {
    fn factory(&self) -> Factory {
        Factory { device: self.device, dtype: self.dtype }
    }
    fn count(&self) -> Result<Buffer> {
        Tensor::zeros_raw(&[], DType::I64, self.device.unwrap_or_else(get_default_device)).map(Buffer::new)
    }
    /// For `n` channels.
    fn parts(&self, n: i64) -> Result<Parts> {
        let factory = self.factory();
        let (weight, bias) = affine(&[n], self.affine, self.bias, &factory)?;
        let zeros = || ops::zeros(&[n], self.dtype, None, self.device, None).map(Buffer::new);
        let ones = || ops::ones(&[n], self.dtype, None, self.device, None).map(Buffer::new);
        Ok((weight, bias, self.tracked([&zeros, &ones, &|| self.count()])?))
    }
    /// For a number of channels that is not known yet.
    pub(in crate::modules) fn open_parts(&self) -> Result<Parts> {
        let factory = self.factory();
        let open = || Buffer::uninitialized(self.dtype, self.device);
        let statistics = self.tracked([&open, &open, &|| self.count()])?;
        Ok((factory.open_if(self.affine)?, factory.open_if(self.bias)?, statistics))
    }
    fn tracked(&self, make: [&dyn Fn() -> Result<Buffer>; 3]) -> Result<[Option<Buffer>; 3]> {
        let mut out = [None, None, None];
        if self.track_running_stats {
            for (o, make) in out.iter_mut().zip(make) {
                *o = Some(make()?);
            }
        }
        Ok(out)
    }
}

/// Weight and bias of a layer that scales its output: ones and zeros.
fn affine(
    sizes: &[i64],
    weight: bool,
    bias: bool,
    factory: &Factory,
) -> Result<(Option<Parameter>, Option<Parameter>)> {
    let constant = |value: i64| {
        let t = factory.empty(sizes)?;
        ops::fill_(&t, Scalar::Int(value))?;
        Parameter::try_new(&t, true)
    };
    Ok((weight.then(|| constant(1)).transpose()?, bias.then(|| constant(0)).transpose()?))
}
