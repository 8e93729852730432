//! Stochastic gradient descent.

use crate::group::State;
use crate::kernel;
use crate::optimizer::{Algorithm, Optim, algorithm};
use flambeau_core::class::PyText;
use flambeau_core::{Result, Scalar, Tensor, ensure};
use flambeau_macros::class;

/// Options of [`SGD`].
#[class("torch.optim.SGD", make = crate::by_name::optimizer::<SGDOptions>, values)]
pub struct SGDOptions {
    /// Learning rate.
    #[default(1e-3)]
    pub lr: f64,
    /// Momentum factor.
    #[default(0)]
    pub momentum: Scalar,
    /// Damping of the gradient's part in the momentum.
    #[default(0)]
    pub dampening: Scalar,
    /// L2 penalty.
    #[default(0)]
    pub weight_decay: Scalar,
    /// Nesterov momentum.
    #[default(false)]
    pub nesterov: bool,
    /// Ascends instead of descending.
    #[default(false)]
    pub maximize: bool,
    /// Accepted for the sake of files; every step here works on all parameters.
    pub foreach: Option<bool>,
    /// Not available.
    #[default(false)]
    pub differentiable: bool,
    /// Accepted for the sake of files; every step here is one pass.
    pub fused: Option<bool>,
}

/// Stochastic gradient descent, with momentum, L2 penalty and Nesterov's variant (Sutskever et al. 2013, in PyTorch's
/// form): `g += weight_decay * p; buf = momentum * buf + (1 - dampening) * g; p -= lr * buf`.
pub type SGD = Optim<SGDOptions>;

const BUFFER: &str = "momentum_buffer";

impl Algorithm for SGDOptions {
    const NAME: &'static str = "SGD";
    const TENSORS: &'static [&'static str] = &[BUFFER];
    fn check(&self) -> Result<()> {
        ensure!(self.lr >= 0.0, Value, "Invalid learning rate: {}", self.lr.py_text());
        let momentum = self.momentum.to_f64();
        ensure!(momentum >= 0.0, Value, "Invalid momentum value: {}", self.momentum.py_text());
        ensure!(
            self.weight_decay.to_f64() >= 0.0,
            Value,
            "Invalid weight_decay value: {}",
            self.weight_decay.py_text()
        );
        ensure!(
            !self.nesterov || (momentum > 0.0 && self.dampening.to_f64() == 0.0),
            Value,
            "Nesterov momentum requires a momentum and zero dampening"
        );
        ensure!(!self.differentiable, Missing, "SGD: differentiable=True");
        Ok(())
    }
    fn update(&self, p: &Tensor, grad: &Tensor, state: &mut State) -> Result<()> {
        let momentum = self.momentum.to_f64();
        let first = state.get(BUFFER).is_none();
        if momentum != 0.0 && first {
            state.set(BUFFER, kernel::zeros(p)?);
        }
        let o = flambeau_cpu::optim::Sgd {
            lr: self.lr,
            momentum,
            dampening: self.dampening.to_f64(),
            weight_decay: self.weight_decay.to_f64(),
            nesterov: self.nesterov,
            maximize: self.maximize,
            first,
        };
        let buffers: Vec<&Tensor> = state.get(BUFFER).filter(|_| momentum != 0.0).into_iter().collect();
        kernel::fused("SGD", p, grad, &buffers, |g, p, kept| {
            flambeau_cpu::optim::erased::sgd(o, p, g, kept.into_iter().next())
        })
    }
    algorithm!(momentum: |o| Some(o.momentum.to_f64()), |o, v| o.momentum = Scalar::Float(v));
}
impl SGDOptions {
    crate::optimizer::build!(SGD);
}
