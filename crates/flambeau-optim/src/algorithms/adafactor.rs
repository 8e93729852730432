//! Adafactor.

use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build};
use crate::optimizer::group::{Entry, State};
use crate::options::number_or_tensor::{Number, text};
use crate::options::{Moments, Switches};
use flambeau_autograd::shorthand::{div, mul_scalar, neg, number};
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::text::PyText;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, Value, ensure, ops};
use flambeau_macros::class;

/// The two regularisers of [`Adafactor`]; without the first, it is the resolution of the parameter's dtype.
///
/// ```
/// use torch::optim::{AdafactorEps, AdafactorOptions};
///
/// let options = AdafactorOptions::new().eps((1e-30, 1e-4));
/// assert_eq!(options.eps.1.value(), 1e-4);
/// let AdafactorEps(first, _) = AdafactorOptions::new().eps;
/// assert!(first.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct AdafactorEps(pub Option<Number>, pub Number);
impl IntoValue for AdafactorEps {
    fn into_value(self) -> Value {
        Value::Tuple(vec![self.0.into_value(), self.1.into_value()])
    }
}
impl FromValue for AdafactorEps {
    fn from_value(v: &Value) -> Result<Self> {
        match v.items() {
            Some([a, b]) => Ok(AdafactorEps(Option::from_value(a)?, Number::from_value(b)?)),
            _ => Err(Error::type_(format!("eps must be a pair, not {}", v.type_name()))),
        }
    }
}
impl PyText for AdafactorEps {
    fn py_text(&self) -> String {
        text(&self.clone().into_value())
    }
}
impl IntoArg<AdafactorEps> for AdafactorEps {
    fn into_arg(self) -> AdafactorEps {
        self
    }
}
impl IntoArg<AdafactorEps> for (Option<f64>, f64) {
    fn into_arg(self) -> AdafactorEps {
        AdafactorEps(self.0.map(Number::from), self.1.into())
    }
}
impl IntoArg<AdafactorEps> for (f64, f64) {
    fn into_arg(self) -> AdafactorEps {
        AdafactorEps(Some(self.0.into()), self.1.into())
    }
}

#[class("torch.optim.Adafactor", make = crate::by_name::optimizer::<AdafactorOptions>, values,
    include(Moments(weight_decay = 0.0), Switches),
    order(lr, beta2_decay, eps, d, weight_decay, foreach, maximize))]
pub struct AdafactorOptions {
    /// Largest step size, relative to the size of the parameter.
    #[default(1e-2)]
    pub lr: Number,
    /// Power by which the decay rate of the second moments rises.
    #[default(-0.8)]
    pub beta2_decay: Number,
    /// Regularisers of the squared gradient and of the parameter's size.
    #[default((None, 1e-3))]
    pub eps: AdafactorEps,
    /// Largest root mean square of an update.
    #[default(1.0)]
    pub d: Number,
}

/// Adafactor (Shazeer and Stern 2018): second moments of matrices as a product of a row and a column, steps relative to
/// the size of the parameter.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::{Adafactor, Optimizer};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], [2, 2]));
/// let mut optimizer = Adafactor::new([&w], 0.01);
/// w.set_grad(Some(Tensor::from_slice(&[1f32; 4], [2, 2])));
/// optimizer.step();
/// // two numbers per row and column, not one per element
/// assert_eq!(optimizer.param_groups[0].state(0).get("row_var").unwrap().sizes(), [2, 1]);
/// ```
#[doc(alias = "torch.optim.Adafactor.step")]
pub type Adafactor = Optim<AdafactorOptions>;
build!(AdafactorOptions => Adafactor);

/// The mean of squares along a dimension.
fn mean_square(g: &Tensor, dim: i64) -> Result<Tensor> {
    let norm = ops::linalg_vector_norm(g, Scalar::Int(2), Some(&[dim]), true, None)?;
    ops::square_(&norm)?;
    mul_scalar(&norm, 1.0 / g.sizes()[(g.dim() as i64 + dim) as usize] as f64)
}
/// The norm over all elements.
fn size(t: &Tensor) -> Result<f64> {
    ops::norm(t, Some(Scalar::Int(2)), None, false, None)?.try_item()
}
fn moment<'a>(state: &'a State, name: &str) -> Result<&'a Tensor> {
    state
        .get(name)
        .ok_or_else(|| Error::runtime(format!("Adafactor: the state of a parameter has no {name}")))
}

impl AdafactorOptions {
    fn one(&self, e: &mut Entry<'_>) -> Result<()> {
        let p = &e.param.alias_detached();
        ensure!(!p.is_complex(), Runtime, "Adafactor does not support complex parameters");
        let g = if self.maximize { neg(&e.grad)? } else { e.grad.clone() };
        let zeros = |sizes: &[i64]| Tensor::zeros_raw(sizes, g.dtype(), g.device());
        let step = e.state.count();
        let last = g.dim().wrapping_sub(1);
        if g.dim() > 1 && e.state.get("row_var").is_none() {
            let (mut row, mut col) = (g.sizes().to_vec(), g.sizes().to_vec());
            (row[last], col[last - 1]) = (1, 1);
            e.state.set("row_var", zeros(&row)?);
            e.state.set("col_var", zeros(&col)?);
        } else if g.dim() <= 1 {
            e.state.zeros("variance", &g)?;
        }
        let lr = self.lr.value();
        let eps1 = match (&self.eps.0, p.dtype()) {
            (Some(n), _) => n.value(),
            (None, DType::F64) => f64::EPSILON,
            (None, DType::F32) => f32::EPSILON as f64,
            (None, DType::BF16) => 1.0 / 128.0,
            (None, _) => 1.0 / 1024.0,
        };
        let part = Scalar::Float(step.powf(self.beta2_decay.value()));
        let rho = lr.min(1.0 / step.sqrt());
        let alpha = self.eps.1.value().max(size(p)? / (p.numel() as f64).sqrt()) * rho;
        if self.weight_decay.value() != 0.0 {
            ops::mul_(p, &number(1.0 - lr * self.weight_decay.value())?)?;
        }
        let estimate = if g.dim() > 1 {
            let (row, col) = (moment(e.state, "row_var")?, moment(e.state, "col_var")?);
            ops::lerp_(row, &mean_square(&g, -1)?, part)?;
            ops::lerp_(col, &mean_square(&g, -2)?, part)?;
            let scale = ops::mean(row, Some(&[-2]), true, None)?;
            div(&ops::matmul(row, col)?, &ops::clamp(&scale, Some(Scalar::Float(eps1)), None)?)?
        } else {
            let variance = moment(e.state, "variance")?;
            ops::lerp_(variance, &ops::square(&g)?, part)?;
            ops::clone(variance, None)?
        };
        ops::clamp_(&estimate, Some(Scalar::Float(eps1 * eps1)), None)?;
        ops::rsqrt_(&estimate)?;
        ops::mul_(&estimate, &g)?;
        let clip = (size(&estimate)? / ((estimate.numel() as f64).sqrt() * self.d.value())).max(1.0);
        ops::add_(p, &estimate, Scalar::Float(-alpha / clip))
    }
}
impl Algorithm for AdafactorOptions {
    const NAME: &'static str = "Adafactor";
    const POSITIONAL: usize = 5;
    fn check(&self) -> Result<()> {
        self.lr.check("lr")?;
        let at_least = |v: &Number, least: f64, what: &str, bound: &str| {
            ensure!(v.value() >= least, Value, "{what} should be >= {bound} but is: {}", v.py_text());
            Ok(())
        };
        at_least(&self.lr, 0.0, "Learning rate", "0")?;
        ensure!(
            self.beta2_decay.value() <= 0.0,
            Value,
            "beta2_decay should be <= 0 but is: {}",
            self.beta2_decay.py_text()
        );
        if let Some(eps) = &self.eps.0 {
            at_least(eps, 0.0, "epsilon1", "0")?;
        }
        at_least(&self.eps.1, 0.0, "epsilon2", "0")?;
        at_least(&self.d, 1.0, "Clipping threshold d", "1")?;
        at_least(&self.weight_decay, 0.0, "weight_decay", "0")
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        let _no_grad = flambeau_autograd::no_grad_guard();
        entries.iter_mut().try_for_each(|e| self.one(e))
    }
    algorithm!();
}
