//! Stochastic gradient descent.

use crate::ops::fused_sgd_;
use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build};
use crate::optimizer::group::{Entry, ParamGroup, State, apart};
use crate::options::number_or_tensor::Number;
use crate::options::{Moments, Momentum, Switches, checks};
use crate::step::differentiable::{Num, Target, gradient, keep, kept};
use crate::step::fused;
use flambeau_autograd::shorthand::mul_scalar;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Result, Scalar, Tensor, ensure, ops};
use flambeau_macros::class;

#[class("torch.optim.SGD", make = crate::by_name::optimizer::<SGDOptions>, values,
    include(Moments, Momentum, Switches),
    order(lr, momentum, dampening, weight_decay, nesterov, maximize, foreach, differentiable, fused))]
pub struct SGDOptions {
    /// Damping of the gradient's part in the momentum.
    #[default(0)]
    pub dampening: Number,
}

/// Stochastic gradient descent, with momentum, L2 penalty and Nesterov's variant (Sutskever et al. 2013, in PyTorch's
/// form): `g += weight_decay * p; buf = momentum * buf + (1 - dampening) * g; p -= lr * buf`. The first buffer is the
/// gradient itself.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::{Optimizer, SGDOptions};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
/// let mut optimizer = SGDOptions::new().lr(0.5).momentum(0.9).build([&w]);
/// let loss = optimizer.step_closure(&mut || {
///     let loss = (w.tensor() * w.tensor()).sum();
///     loss.backward();
///     loss
/// });
/// assert_eq!(loss.item::<f32>(), 1.0);
/// assert_eq!(w.to_vec::<f32>(), [0.0]);
/// ```
#[doc(alias = "torch.optim.SGD.step")]
pub type SGD = Optim<SGDOptions>;
build!(SGDOptions => SGD);

const BUFFER: &str = "momentum_buffer";

impl SGDOptions {
    fn recorded(&self, e: &mut Entry<'_>) -> Result<()> {
        let mut g = gradient(e, self.maximize, &Num::of(&self.weight_decay)?)?;
        let momentum = self.momentum.value();
        if momentum != 0.0 {
            let buffer = if e.state.get(BUFFER).is_none() {
                e.state.zeros(BUFFER, e.param)?;
                ops::detach(&g)?
            } else {
                let old = mul_scalar(&kept(e.state, BUFFER)?, momentum)?;
                ops::add(&old, &g, Scalar::Float(1.0 - self.dampening.value()))?
            };
            keep(e.state, BUFFER, &buffer)?;
            g = if self.nesterov { ops::add(&g, &buffer, Scalar::Float(momentum))? } else { buffer };
        }
        Target::of(e).add_scaled(&g, &Num::of(&self.lr)?.neg()?)
    }
}
impl SGDOptions {
    /// A sparse gradient moves the rows that it names; its momentum stays sparse.
    fn sparse(&self, e: &mut Entry<'_>) -> Result<()> {
        ensure!(self.fused != Some(true), Runtime, "`_fused_sgd` does not support sparse gradients");
        let mut g = if self.maximize { ops::neg(&e.grad)? } else { e.grad.clone() };
        let decay = self.weight_decay.value();
        if decay != 0.0 {
            g = ops::add(&g, &e.param.alias_detached(), Scalar::Float(decay))?;
        }
        let momentum = self.momentum.value();
        if momentum != 0.0 {
            let buffer = match e.state.get(BUFFER) {
                None => ops::clone(&g.alias_detached(), None)?,
                Some(old) => {
                    let old = mul_scalar(old, momentum)?;
                    ops::add(&old, &g, Scalar::Float(1.0 - self.dampening.value()))?
                }
            };
            e.state.set(BUFFER, buffer.clone());
            g = if self.nesterov { ops::add(&g, &buffer, Scalar::Float(momentum))? } else { buffer };
        }
        ops::add_(&e.param.alias_detached(), &g, Scalar::Float(-self.lr.value()))
    }
}
impl Algorithm for SGDOptions {
    const NAME: &'static str = "SGD";
    const SPARSE: bool = true;
    const POSITIONAL: usize = 5;
    fn check(&self) -> Result<()> {
        checks::lr(&self.lr)?;
        checks::value("momentum", &self.momentum)?;
        checks::value("weight_decay", &self.weight_decay)?;
        ensure!(
            !self.nesterov || (self.momentum.value() > 0.0 && self.dampening.value() == 0.0),
            Value,
            "Nesterov momentum requires a momentum and zero dampening"
        );
        Ok(())
    }
    fn check_groups(&self, _: &[ParamGroup<Self>]) -> Result<()> {
        checks::fused_flags(self.fused, self.foreach, self.differentiable)
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        checks::fused_params(self.fused, entries)?;
        if self.differentiable {
            return entries.iter_mut().try_for_each(|e| self.recorded(e));
        }
        let (sparse, mut dense): (Vec<_>, Vec<_>) = apart(entries);
        sparse.into_iter().try_for_each(|mut e| self.sparse(&mut e))?;
        let entries = &mut dense[..];
        if entries.is_empty() {
            return Ok(());
        }
        let (momentum, lr) = (self.momentum.value(), self.lr.value());
        let (dampening, decay) = (self.dampening.value(), self.weight_decay.value());
        let kept = if momentum == 0.0 { &[][..] } else { &[BUFFER][..] };
        // the first step of a parameter has nothing to go on from
        let first = |_: &Tensor, state: &mut State| Ok(momentum != 0.0 && state.get(BUFFER).is_none());
        fused::step(entries, kept, first, |&first, l| {
            let (nesterov, maximize) = (self.nesterov, self.maximize);
            fused_sgd_(
                &l.params,
                &l.grads,
                &l.kept[0],
                decay,
                momentum,
                lr,
                dampening,
                nesterov,
                maximize,
                first,
                l.scale.as_ref(),
                None,
            )
        })
    }
    algorithm!(differentiable);
}
