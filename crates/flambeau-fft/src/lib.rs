//! Fourier transforms for Flambeau: `torch.fft`, `torch.stft`, `torch.istft`, and the functions that came before them.
//!
//! | module | what |
//! |---|---|
//! | [`generated::fft`] | `torch.fft` |
//! | [`generated::functions`] | `torch.stft`, `torch.istft`, and the old `torch.fft`, `torch.ifft`, `torch.rfft`, `torch.irfft` |
//! | [`generated::ops`] | every operator as a fallible function, nothing defaulted |
//! | [`TensorFftExt`] | methods of `Tensor` |
//!
//! Lengths with small factors run many lines side by side in `flambeau_cpu`; lengths with large prime
//! factors are convolutions of such a length. What a length needs is kept for the next call.

#![forbid(unsafe_code)]

pub mod derivatives;
#[rustfmt::skip]
pub mod generated;
mod layout;
pub mod ops;
mod plans;

pub use generated::methods::TensorFftExt;
