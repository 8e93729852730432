//! A weight divided by its largest singular value.

use super::SpectralNormOptions;
use crate::module::Module;
use crate::parameter::Buffer;
use crate::utils::parametrize::{Inverse, Parametrization, register};
use flambeau_autograd::no_grad;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, MemoryFormat, Result, Tensor, ensure, ops};
use flambeau_macros::Module;
use flambeau_nn_functional::ops as f;
use std::sync::Arc;

#[derive(Debug, Module)]
#[module(name = "_SpectralNorm")]
struct SpectralNorm {
    base: crate::Base,
    dim: i64,
    eps: f64,
    n_power_iterations: usize,
    #[module(rename = "_u")]
    u: Option<Buffer>,
    #[module(rename = "_v")]
    v: Option<Buffer>,
}
/// The weight as a matrix whose rows belong to `dim`.
pub(in crate::utils) fn matrix(weight: &Tensor, dim: i64) -> Result<Tensor> {
    let mut t = weight.clone();
    if dim != 0 {
        let mut dims = vec![dim];
        dims.extend((0..weight.dim() as i64).filter(|d| *d != dim));
        t = ops::permute(weight, &dims)?;
    }
    ops::flatten(&t, 1, -1)
}
/// A random direction.
pub(in crate::utils) fn direction(like: &Tensor, n: i64, eps: f64) -> Result<Tensor> {
    let t = Tensor::empty_raw(&[n], like.dtype(), like.device())?;
    ops::normal_(&t, 0.0, 1.0, None)?;
    f::normalize(&t, 2.0, &[0], eps)
}
impl SpectralNorm {
    fn new(weight: &Tensor, o: &SpectralNormOptions, dim: i64) -> Result<SpectralNorm> {
        let n = weight.dim() as i64;
        ensure!(
            (-n..n).contains(&dim),
            Index,
            "Dimension out of range (expected to be in range of [-{n}, {}] but got {dim})",
            n - 1
        );
        ensure!(
            o.n_power_iterations > 0,
            Value,
            "Expected n_power_iterations to be positive, but got n_power_iterations={}",
            o.n_power_iterations
        );
        let dim = if dim < 0 { dim + n } else { dim };
        let mut out = SpectralNorm {
            base: crate::Base::new(),
            dim,
            eps: o.eps,
            n_power_iterations: o.n_power_iterations as usize,
            u: None,
            v: None,
        };
        if n > 1 {
            no_grad(|| -> Result<()> {
                let mat = matrix(weight, dim)?;
                let draw = |n: i64| -> Result<Tensor> {
                    let t = Tensor::empty_raw(&[n], mat.dtype(), mat.device())?;
                    ops::normal_(&t, 0.0, 1.0, None)?;
                    Ok(t)
                };
                let (u, v) = (draw(mat.sizes()[0])?, draw(mat.sizes()[1])?);
                out.u = Some(Buffer::new(f::normalize(&u, 2.0, &[0], o.eps)?));
                out.v = Some(Buffer::new(f::normalize(&v, 2.0, &[0], o.eps)?));
                out.iterate(&mat, 15)
            })?;
        }
        Ok(out)
    }
    /// Steps of the power method, into the buffers.
    fn iterate(&self, mat: &Tensor, steps: usize) -> Result<()> {
        let (Some(u), Some(v)) = (&self.u, &self.v) else { return Ok(()) };
        no_grad(|| {
            for _ in 0..steps {
                ops::copy_(u, &f::normalize(&ops::mv(mat, v)?, 2.0, &[0], self.eps)?, false)?;
                ops::copy_(v, &f::normalize(&ops::mv(&ops::adjoint(mat)?, u)?, 2.0, &[0], self.eps)?, false)?;
            }
            Ok(())
        })
    }
}
impl Parametrization for SpectralNorm {
    fn compute(&self, originals: &[Tensor]) -> Result<Tensor> {
        let [weight] = originals else { return Err(Error::type_("_SpectralNorm takes one tensor")) };
        let (Some(u), Some(v)) = (&self.u, &self.v) else { return f::normalize(weight, 2.0, &[0], self.eps) };
        let mat = matrix(weight, self.dim)?;
        if self.is_training() {
            self.iterate(&mat, self.n_power_iterations)?;
        }
        // later steps overwrite the buffers; this graph keeps what it was computed with
        let (u, v) =
            (ops::clone(u, Some(MemoryFormat::Contiguous))?, ops::clone(v, Some(MemoryFormat::Contiguous))?);
        ops::div(weight, &ops::vdot(&u, &ops::mv(&mat, &v)?)?)
    }
    fn right_inverse(&self, value: &Tensor) -> Result<Inverse> {
        Ok(Inverse::One(value.clone()))
    }
}

/// Divides a weight by its largest singular value, which a step of the power method follows at each use in training.
///
/// ```
/// use torch::{nn, prelude::*};
/// use torch::nn::utils::parametrizations::spectral_norm;
/// let mut layer = nn::Linear::new(2, 2);
/// layer.weight = nn::Parameter::new(torch::tensor([[4.0, 0.0], [0.0, 2.0]]));
/// spectral_norm(&mut layer, "weight");
/// layer.eval();
/// assert!((layer.weight.value() - torch::tensor([[1.0, 0.0], [0.0, 0.5]])).abs().max().item::<f32>() < 1e-3);
/// ```
///
/// Panics with the text of [`try_spectral_norm`]'s error.
#[doc(alias = "torch.nn.utils.parametrizations.spectral_norm")]
#[track_caller]
pub fn spectral_norm(m: &mut (impl Module + ?Sized), name: &str) {
    expect(try_spectral_norm(m, name, SpectralNormOptions::new()))
}
/// [`spectral_norm`] with its options.
#[track_caller]
pub fn spectral_norm_with(m: &mut (impl Module + ?Sized), name: &str, o: SpectralNormOptions) {
    expect(try_spectral_norm(m, name, o))
}
/// [`spectral_norm_with`] with an error instead of a panic.
///
/// # Errors
/// No such weight; a struct without a `base`; a dimension out of range.
pub fn try_spectral_norm(m: &mut (impl Module + ?Sized), name: &str, o: SpectralNormOptions) -> Result<()> {
    let m = m.as_module_mut();
    let weight = super::weight(m, name)?;
    let map = SpectralNorm::new(&weight, &o, o.dim.unwrap_or_else(|| super::output_dim(m)))?;
    register(m, name, Arc::new(map), false)
}
