//! States of random generators as tensors.

use crate::tensor::handle::Tensor;
use crate::types::error::{Error, Result};
pub use crate::types::generator::{
    DEFAULT_SEED, Generator, ThreadGenerator, default_generator, fork_rng, initial_seed, manual_seed, seed,
    thread_generator,
};

impl Generator {
    /// The state as a uint8 tensor, in PyTorch's layout: the two read each other's.
    ///
    /// # Errors
    /// No memory.
    #[doc(alias = "torch.Generator.get_state")]
    pub fn get_state(&self) -> Result<Tensor> {
        let bytes = self.state_bytes();
        let n = bytes.len() as i64;
        Tensor::from_vec_raw(bytes, &[n])
    }
    /// Continues from a state that [`Generator::get_state`] or PyTorch gave.
    ///
    /// # Errors
    /// Not a uint8 tensor, or no such state.
    #[doc(alias = "torch.Generator.set_state")]
    pub fn set_state(&self, state: &Tensor) -> Result<()> {
        if state.dtype() != crate::DType::U8 || state.device() != crate::Device::Cpu {
            return Err(Error::type_("RNG state must be a torch.ByteTensor"));
        }
        self.set_state_bytes(&state.try_to_vec::<u8>()?)
    }
}

/// The default generator's state, as a uint8 tensor.
///
/// # Errors
/// No memory.
#[doc(alias = "torch.get_rng_state")]
pub fn get_rng_state() -> Result<Tensor> {
    default_generator().get_state()
}
/// Sets the default generator's state.
///
/// # Errors
/// See [`Generator::set_state`].
#[doc(alias = "torch.set_rng_state")]
pub fn set_rng_state(state: &Tensor) -> Result<()> {
    default_generator().set_state(state)
}
