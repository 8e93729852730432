//! The older spectral norm, whose tensors are named `weight_orig`, `weight_u` and `weight_v`.

use super::parametrizations::{direction, matrix, output_dim};
use super::slot::{self, Slot};
use crate::module::Module;
use crate::module::base::{Cell, get, put};
use crate::module::hooks::HookHandle;
use crate::parameter::{Buffer, Parameter};
use flambeau_autograd::no_grad;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::stand_in::Source;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::order::RwLock;
use flambeau_core::{Error, MemoryFormat, Result, Tensor, ensure, ops};
use flambeau_nn_functional::ops as f;
use std::any::Any;
use std::sync::{Arc, OnceLock};

/// Options of both spectral norms.
#[derive(Clone, Copy, Debug)]
pub struct SpectralNormOptions {
    pub(super) n_power_iterations: i64,
    pub(super) eps: f64,
    pub(super) dim: Option<i64>,
}
impl Default for SpectralNormOptions {
    fn default() -> Self {
        Self::new()
    }
}
impl SpectralNormOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        SpectralNormOptions { n_power_iterations: 1, eps: 1e-12, dim: None }
    }
    /// Steps of the power method per use.
    pub fn n_power_iterations(mut self, n: i64) -> Self {
        self.n_power_iterations = n;
        self
    }
    /// The smallest length that is divided by.
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }
    /// The dimension of the outputs: by default 0, and 1 for transposed convolutions.
    pub fn dim(mut self, dim: i64) -> Self {
        self.dim = Some(dim);
        self
    }
}

struct SpectralNorm {
    orig: Cell<Parameter>,
    u: Cell<Buffer>,
    v: Cell<Buffer>,
    dim: i64,
    steps: usize,
    eps: f64,
    /// What the last call computed.
    now: RwLock<Tensor>,
    hooks: OnceLock<Vec<HookHandle>>,
}
impl Source for SpectralNorm {
    fn value(&self) -> Result<Tensor> {
        Ok(get(&self.now))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
impl SpectralNorm {
    fn compute(&self, iterate: bool) -> Result<Tensor> {
        let (weight, mut u, mut v) =
            (get(&self.orig).tensor().clone(), get(&self.u).tensor().clone(), get(&self.v).tensor().clone());
        let mat = matrix(&weight, self.dim)?;
        if iterate {
            no_grad(|| -> Result<()> {
                for _ in 0..self.steps {
                    let t = ops::transpose(&mat, 0, 1)?;
                    ops::copy_(&v, &f::normalize(&ops::mv(&t, &u)?, 2.0, &[0], self.eps)?, false)?;
                    ops::copy_(&u, &f::normalize(&ops::mv(&mat, &v)?, 2.0, &[0], self.eps)?, false)?;
                }
                // later steps overwrite the buffers; this graph keeps what it was computed with
                u = ops::clone(&u, Some(MemoryFormat::Contiguous))?;
                v = ops::clone(&v, Some(MemoryFormat::Contiguous))?;
                Ok(())
            })?;
        }
        let sigma = ops::dot(&u, &ops::mv(&mat, &v)?)?;
        ops::div(&weight, &sigma)
    }
}

/// Divides a weight by its largest singular value, which the power method follows at each call in training.
/// [`parametrizations::spectral_norm`](super::parametrizations::spectral_norm) is its successor.
///
/// ```
/// use torch::{nn, prelude::*};
/// use torch::nn::utils::{remove_spectral_norm, spectral_norm};
/// let mut layer = nn::Linear::new(2, 1);
/// spectral_norm(&mut layer, "weight");
/// assert!(layer.state_dict().get("weight_orig").is_some());
/// remove_spectral_norm(&mut layer, "weight");
/// assert!(layer.state_dict().get("weight").is_some());
/// ```
///
/// Panics with the text of [`try_spectral_norm`]'s error.
#[doc(alias = "torch.nn.utils.spectral_norm")]
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
/// No such weight, or one that is computed already; a struct without a `base`.
pub fn try_spectral_norm(m: &mut (impl Module + ?Sized), name: &str, o: SpectralNormOptions) -> Result<()> {
    let m = m.as_module_mut();
    let dim = o.dim.unwrap_or_else(|| output_dim(m));
    let found = slot::get(m, name)?;
    if found.as_ref().is_some_and(|s| slot::source::<SpectralNorm, _>(s, |_| ()).is_some()) {
        return Err(Error::runtime(format!(
            "Cannot register two spectral_norm hooks on the same parameter {name}"
        )));
    }
    ensure!(
        o.n_power_iterations > 0,
        Value,
        "Expected n_power_iterations to be positive, but got n_power_iterations={}",
        o.n_power_iterations
    );
    let Some(Slot::Parameter(weight)) = found.filter(|s| !s.is_computed()) else {
        return Err(Error::new(flambeau_core::ErrorKind::Index, format!("'{name}'")));
    };
    let (u, v) = no_grad(|| -> Result<_> {
        let mat = matrix(&weight, dim)?;
        let u = direction(&weight, mat.sizes()[0], o.eps)?;
        Ok((u, direction(&weight, mat.sizes()[1], o.eps)?))
    })?;
    let base = slot::base(m)?;
    base.register_parameter(&format!("{name}_orig"), weight.clone())?;
    base.register_buffer(&format!("{name}_u"), Buffer::new(u))?;
    base.register_buffer(&format!("{name}_v"), Buffer::new(v))?;
    let (Some(orig), Some(u), Some(v)) = (
        base.parameter_cell(&format!("{name}_orig")),
        base.buffer_cell(&format!("{name}_u")),
        base.buffer_cell(&format!("{name}_v")),
    ) else {
        return Ok(());
    };
    let now = RwLock::new(weight.tensor().alias_detached());
    let steps = o.n_power_iterations as usize;
    let source = Arc::new(SpectralNorm { orig, u, v, dim, steps, eps: o.eps, now, hooks: OnceLock::new() });
    let weak = Arc::downgrade(&source);
    let call = base.register_forward_pre_hook_with_kwargs(move |m, _, _| {
        if let Some(s) = weak.upgrade() {
            put(&s.now, s.compute(m.is_training())?);
        }
        Ok(None)
    });
    let (mark, load) = (name.to_owned(), name.to_owned());
    let mark = base.register_state_dict_post_hook(move |_, state, prefix| {
        state.set_mark(prefix.trim_end_matches('.'), "spectral_norm", &format!("{mark}.version"), 1);
    });
    let load = base.register_load_state_dict_pre_hook(move |_, state, prefix, report| {
        let path = prefix.trim_end_matches('.');
        let version = state.mark(path, "spectral_norm", &format!("{load}.version"));
        let key = |suffix: &str| format!("{prefix}{load}{suffix}");
        let whole = ["_orig", "_u", "_v"].iter().all(|s| state.get(&key(s)).is_some()) && state.get(&key("")).is_none();
        if version.is_some_and(|v| v >= 1) || whole || state.get(&key("")).is_none() {
            return;
        }
        report.error_msgs.push(format!(
            "{} is of a checkpoint before version 1 of spectral_norm, which has no {}: load and save it with PyTorch once.",
            key(""),
            key("_v")
        ));
    });
    let _ = source.hooks.set(vec![call, mark, load]);
    let like = weight.tensor().clone();
    slot::set(m, name, Slot::Parameter(weight).computed(&like, source)?)
}
/// Makes the weight a plain parameter again, with its present value.
///
/// # Errors
/// It has no spectral norm.
#[doc(alias = "torch.nn.utils.remove_spectral_norm")]
#[flambeau_macros::short]
pub fn try_remove_spectral_norm(m: &mut (impl Module + ?Sized), name: &str) -> Result<()> {
    let m = m.as_module_mut();
    let found = slot::get(m, name)?;
    let value = found.as_ref().and_then(|s| {
        slot::source::<SpectralNorm, _>(s, |s| {
            s.hooks.get().into_iter().flatten().for_each(HookHandle::remove);
            get(&s.orig).mark_replaced();
            no_grad(|| s.compute(false))
        })
    });
    ensure!(value.is_some(), Value, "spectral_norm of '{name}' not found in {}", m.repr());
    let Some(value) = value.transpose()? else { return Ok(()) };
    let base = slot::base(m)?;
    base.remove_parameter(&format!("{name}_orig"));
    base.remove_buffer(&format!("{name}_u"));
    base.remove_buffer(&format!("{name}_v"));
    slot::set(m, name, Slot::Parameter(Parameter::try_new(&value, true)?))
}
