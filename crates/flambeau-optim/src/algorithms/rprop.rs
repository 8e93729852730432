//! Resilient backpropagation.

use crate::ops::fused_rprop_;
use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build};
use crate::optimizer::group::{Entry, State};
use crate::options::number_or_tensor::{Number, Pair};
use crate::options::{Switches, checks};
use crate::step::differentiable::{Num, Target, gradient, keep, kept};
use crate::step::fused;
use flambeau_autograd::shorthand::{mul, neg, number, where_};
use flambeau_core::text::PyText;
use flambeau_core::{Result, Scalar, Tensor, ensure, ops};
use flambeau_macros::class;

#[class("torch.optim.Rprop", make = crate::by_name::optimizer::<RpropOptions>, values,
    include(Switches),
    order(lr, etas, step_sizes, capturable, foreach, maximize, differentiable))]
pub struct RpropOptions {
    /// Step size at the start.
    #[default(1e-2)]
    pub lr: Number,
    /// Factors of the step size where the gradient changed its sign, and where it did not.
    #[default((0.5, 1.2))]
    pub etas: Pair,
    /// Least and largest step size.
    #[default((1e-6, 50))]
    pub step_sizes: Pair,
}

/// Resilient backpropagation (Riedmiller and Braun 1993): step sizes of each element's own, which grow while the sign of
/// the gradient stays. For gradients over the whole data set.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::{Optimizer, Rprop};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
/// let mut optimizer = Rprop::new([&w], 0.1);
/// for _ in 0..2 {
///     w.set_grad(Some(Tensor::from_slice(&[7f32], 1)));
///     optimizer.step();
/// }
/// assert!((w.to_vec::<f32>()[0] - (1.0 - 0.1 - 0.12)).abs() < 1e-6);
/// ```
#[doc(alias = "torch.optim.Rprop.step")]
#[doc(alias = "torch.optim.Rprop.add_param_group")]
#[doc(alias = "torch.optim.Rprop.load_state_dict")]
#[doc(alias = "torch.optim.Rprop.register_step_post_hook")]
#[doc(alias = "torch.optim.Rprop.register_step_pre_hook")]
#[doc(alias = "torch.optim.Rprop.state_dict")]
#[doc(alias = "torch.optim.Rprop.zero_grad")]
pub type Rprop = Optim<RpropOptions>;
build!(RpropOptions => Rprop);

const PREVIOUS: &str = "prev";
const SIZE: &str = "step_size";

impl RpropOptions {
    fn start(&self, p: &Tensor, state: &mut State) -> Result<()> {
        state.count();
        if state.get(PREVIOUS).is_none() {
            state.zeros(PREVIOUS, p)?;
            state.zeros(SIZE, p)?;
            if let Some(size) = state.get(SIZE) {
                ops::fill_(&fused::real(size)?, Scalar::Float(self.lr.value()))?;
            }
        }
        Ok(())
    }
    fn recorded(&self, e: &mut Entry<'_>) -> Result<()> {
        self.start(e.param, e.state)?;
        let g = gradient(e, self.maximize, &Num::Plain(0.0))?;
        let sign = ops::sign(&mul(&g, &kept(e.state, PREVIOUS)?)?)?;
        let zero = number(0.0)?;
        let (minus, plus) = (self.etas.0.value(), self.etas.1.value());
        let fell = ops::lt(&sign, &zero)?;
        let mut factor = where_(&ops::gt(&sign, &zero)?, &number(plus)?, &sign)?;
        factor = where_(&fell, &number(minus)?, &factor)?;
        factor = where_(&ops::eq(&factor, &zero)?, &number(1.0)?, &factor)?;
        let (least, most) = self.step_sizes.values();
        let size = mul(&kept(e.state, SIZE)?, &factor)?;
        let size = ops::clamp(&size, Some(Scalar::Float(least)), Some(Scalar::Float(most)))?;
        let g = where_(&fell, &zero, &g)?;
        keep(e.state, SIZE, &size)?;
        keep(e.state, PREVIOUS, &g)?;
        Target::of(e).add(&neg(&mul(&ops::sign(&g)?, &size)?)?)
    }
}
impl Algorithm for RpropOptions {
    const NAME: &'static str = "Rprop";
    const POSITIONAL: usize = 3;
    const ORDER: &'static [&'static str] =
        &["lr", "etas", "step_sizes", "foreach", "maximize", "differentiable", "capturable"];
    fn check(&self) -> Result<()> {
        checks::lr(&self.lr)?;
        let (minus, plus) = self.etas.values();
        ensure!(
            0.0 < minus && minus < 1.0 && 1.0 < plus,
            Value,
            "Invalid eta values: {}, {}",
            self.etas.0.py_text(),
            self.etas.1.py_text()
        );
        Ok(())
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        checks::not_both(self.foreach, self.differentiable)?;
        checks::not_capturable(self.capturable, "params and state_steps", true)?;
        if self.differentiable {
            return entries.iter_mut().try_for_each(|e| self.recorded(e));
        }
        let ((minus, plus), (least, most)) = (self.etas.values(), self.step_sizes.values());
        fused::step(
            entries,
            &[PREVIOUS, SIZE],
            |p, state| self.start(p, state),
            |(), l| {
                let [previous, sizes, _] = &l.kept;
                fused_rprop_(&l.params, &l.grads, previous, sizes, minus, plus, least, most, self.maximize)
            },
        )
    }
    algorithm!(differentiable);
}
