//! Adagrad.

use crate::ops::fused_adagrad_;
use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build};
use crate::optimizer::group::{Entry, ParamGroup, State, apart};
use crate::options::number_or_tensor::Number;
use crate::options::{Moments, Switches, checks};
use crate::step::differentiable::{Num, Target, gradient, keep, kept, root};
use crate::step::fused;
use flambeau_autograd::shorthand::{add, div, mul};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Result, Scalar, Tensor, ensure, ops};
use flambeau_macros::class;
use flambeau_sparse::ops as sparse;

#[class("torch.optim.Adagrad", make = crate::by_name::optimizer::<AdagradOptions>, values,
    include(Moments(lr = 1e-2, eps = 1e-10), Switches),
    order(lr, lr_decay, weight_decay, initial_accumulator_value, eps, foreach, maximize, differentiable, fused))]
pub struct AdagradOptions {
    /// How fast the learning rate falls with the steps.
    #[default(0)]
    pub lr_decay: Number,
    /// What the sums of squares start from.
    #[default(0)]
    pub initial_accumulator_value: Number,
}

/// Adagrad (Duchi et al. 2011): `sum += g^2; p -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(sum) + eps)`.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::{Adagrad, Optimizer};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
/// let mut optimizer = Adagrad::new([&w], 0.1);
/// w.set_grad(Some(Tensor::from_slice(&[5f32], 1)));
/// optimizer.step();
/// assert!((w.to_vec::<f32>()[0] - 0.9).abs() < 1e-6);
/// ```
#[doc(alias = "torch.optim.Adagrad.step")]
pub type Adagrad = Optim<AdagradOptions>;
build!(AdagradOptions => Adagrad);

const SUM: &str = "sum";

impl AdagradOptions {
    /// The sums as they start; both parts of complex numbers alike.
    fn start(&self, p: &Tensor, state: &mut State) -> Result<()> {
        if state.is_empty() {
            state.set_number("step", 0.0);
            state.zeros(SUM, p)?;
            if let Some(sum) = state.get(SUM) {
                ops::fill_(&fused::real(sum)?, Scalar::Float(self.initial_accumulator_value.value()))?;
            }
        }
        Ok(())
    }
    fn recorded(&self, e: &mut Entry<'_>) -> Result<()> {
        self.start(e.param, e.state)?;
        let step = e.state.count();
        let g = gradient(e, self.maximize, &Num::of(&self.weight_decay)?)?;
        let sum = add(&kept(e.state, SUM)?, &mul(&g, &g)?)?;
        keep(e.state, SUM, &sum)?;
        let slower = Num::Plain(1.0 + (step - 1.0) * self.lr_decay.value());
        let size = Num::of(&self.lr)?.div(&slower)?;
        Target::of(e).add_scaled(&div(&g, &root(&sum, self.eps.value())?)?, &size.neg()?)
    }
}
impl AdagradOptions {
    /// A sparse gradient moves the rows that it names and their sums.
    fn sparse(&self, e: &mut Entry<'_>) -> Result<()> {
        ensure!(self.fused != Some(true), Runtime, "`fused` does not support sparse grad or complex param");
        ensure!(
            self.weight_decay.value() == 0.0,
            Runtime,
            "weight_decay option is not compatible with sparse gradients"
        );
        self.start(e.param, e.state)?;
        let size = self.lr.value() / (1.0 + (e.state.count() - 1.0) * self.lr_decay.value());
        let g = sparse::coalesce(&e.grad)?;
        let g = if self.maximize { ops::neg(&g)? } else { g };
        let sum = kept(e.state, SUM)?;
        ops::add_(&sum, &ops::square(&g)?, Scalar::Int(1))?;
        let (at, values) = (sparse::indices(&g)?, sparse::values(&g)?);
        let spread = root(&sparse::values(&sparse::sparse_mask(&sum, &g)?)?, self.eps.value())?;
        let by = sparse::sparse_coo_tensor_unsafe(&at, &div(&values, &spread)?, g.sizes(), Some(true))?;
        ops::add_(&e.param.alias_detached(), &by, Scalar::Float(-size))
    }
}
impl Algorithm for AdagradOptions {
    const NAME: &'static str = "Adagrad";
    const SPARSE: bool = true;
    const POSITIONAL: usize = 6;
    const ORDER: &'static [&'static str] = &[
        "lr",
        "lr_decay",
        "eps",
        "weight_decay",
        "initial_accumulator_value",
        "foreach",
        "maximize",
        "differentiable",
        "fused",
    ];
    fn check(&self) -> Result<()> {
        checks::lr(&self.lr)?;
        checks::value("lr_decay", &self.lr_decay)?;
        checks::value("weight_decay", &self.weight_decay)?;
        checks::value("initial_accumulator_value", &self.initial_accumulator_value)?;
        checks::value("epsilon", &self.eps)
    }
    fn check_groups(&self, _: &[ParamGroup<Self>]) -> Result<()> {
        checks::fused_flags(self.fused, self.foreach, self.differentiable)
    }
    fn prepare(&self, p: &Tensor, state: &mut State) -> Result<()> {
        self.start(p, state)
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        checks::fused_params(self.fused, entries)?;
        checks::not_both(self.foreach, self.differentiable)?;
        if self.differentiable {
            return entries.iter_mut().try_for_each(|e| self.recorded(e));
        }
        let (rows, mut dense): (Vec<_>, Vec<_>) = apart(entries);
        rows.into_iter().try_for_each(|mut e| self.sparse(&mut e))?;
        let entries = &mut dense[..];
        if entries.is_empty() {
            return Ok(());
        }
        let (eps, decay, lr_decay) = (self.eps.value(), self.weight_decay.value(), self.lr_decay.value());
        let count = |p: &Tensor, state: &mut State| self.start(p, state).map(|()| state.count());
        fused::step(entries, &[SUM], count, |&step, l| {
            let (sums, steps) = (&l.kept[0], l.all(step));
            let slower = 1.0 + (step - 1.0) * lr_decay;
            // a tensor of float32 is divided in float32, which the operator does not know
            let lr = if self.lr.tensor().is_some() { self.lr.over(slower) * slower } else { self.lr.value() };
            let maximize = self.maximize;
            fused_adagrad_(
                &l.params,
                &l.grads,
                sums,
                &steps,
                lr,
                lr_decay,
                decay,
                eps,
                maximize,
                l.scale.as_ref(),
                None,
            )
        })
    }
    algorithm!(differentiable);
}
