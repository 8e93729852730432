//! Muon.

use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build};
use crate::optimizer::group::{Entry, ParamGroup};
use crate::options::number_or_tensor::{Number, text};
use crate::options::{Moments, Momentum};
use flambeau_autograd::shorthand::number;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry;
use flambeau_core::text::PyText;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, Value, ensure, ops};
use flambeau_macros::class;

/// The three coefficients of the Newton-Schulz iteration of [`Muon`].
///
/// ```
/// use torch::optim::{Coefficients, MuonOptions};
///
/// let Coefficients(all) = MuonOptions::new().ns_coefficients((2.0, -1.5, 0.5)).ns_coefficients;
/// assert_eq!(all.iter().map(|c| c.value()).collect::<Vec<_>>(), [2.0, -1.5, 0.5]);
/// ```
#[derive(Clone, Debug)]
pub struct Coefficients(pub Vec<Number>);
impl IntoValue for Coefficients {
    fn into_value(self) -> Value {
        Value::Tuple(self.0.into_iter().map(Number::into_value).collect())
    }
}
impl FromValue for Coefficients {
    fn from_value(v: &Value) -> Result<Self> {
        Vec::from_value(v).map(Coefficients)
    }
}
impl PyText for Coefficients {
    fn py_text(&self) -> String {
        text(&self.clone().into_value())
    }
}
impl IntoArg<Coefficients> for (f64, f64, f64) {
    fn into_arg(self) -> Coefficients {
        Coefficients([self.0, self.1, self.2].map(Number::from).to_vec())
    }
}
impl IntoArg<Coefficients> for Coefficients {
    fn into_arg(self) -> Coefficients {
        self
    }
}

#[class("torch.optim.Muon", make = crate::by_name::optimizer::<MuonOptions>, values,
    include(Moments(weight_decay = 0.1, eps = 1e-7), Momentum(momentum = 0.95, nesterov = true)),
    order(lr, weight_decay, momentum, nesterov, ns_coefficients, eps, ns_steps, adjust_lr_fn))]
pub struct MuonOptions {
    /// Coefficients of the Newton-Schulz iteration.
    #[default((3.4445, -4.775, 2.0315))]
    pub ns_coefficients: Coefficients,
    /// Steps of the Newton-Schulz iteration.
    #[default(5)]
    pub ns_steps: i64,
    /// How the learning rate follows the shape: `"original"` (also without), `"match_rms_adamw"`,
    /// `"spectral_unclamped"`.
    pub adjust_lr_fn: Option<String>,
}

/// Muon (Jordan et al. 2024, <https://kellerjordan.github.io/posts/muon/>): momentum whose update is brought near to an
/// orthogonal matrix by a Newton-Schulz iteration in bfloat16. For matrices; other parameters want another optimizer.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::{Muon, MuonOptions, Optimizer};
///
/// let w = Parameter::new(Tensor::from_slice(&[0f32; 4], [2, 2]));
/// let mut optimizer = Muon::new([&w], 0.1);
/// w.set_grad(Some(Tensor::from_slice(&[5f32, 0.0, 0.0, 5.0], [2, 2])));
/// optimizer.step();
/// // both directions take a step of about the learning rate
/// assert!(w.to_vec::<f32>()[0] < -0.05 && w.to_vec::<f32>()[3] < -0.05);
/// let vector = Parameter::new(Tensor::from_slice(&[0f32; 2], 2));
/// assert!(MuonOptions::new().try_build([&vector]).is_err());
/// ```
#[doc(alias = "torch.optim.Muon.step")]
pub type Muon = Optim<MuonOptions>;
build!(MuonOptions => Muon);

const BUFFER: &str = "momentum_buffer";

impl MuonOptions {
    /// `U V^T` of the update's singular value decomposition, roughly.
    fn orthogonal(&self, update: &Tensor) -> Result<Tensor> {
        ensure!(
            self.ns_steps < 100,
            Value,
            "Number of steps must be less than 100 for computational efficiency"
        );
        let [a, b, c] = self.ns_coefficients.0.as_slice() else {
            return Err(Error::value("Coefficients must be a tuple of exactly 3 values"));
        };
        let [a, b, c] = [a, b, c].map(|n| Scalar::Float(n.value()));
        let tall = update.sizes()[0] > update.sizes()[1];
        let mut x = ops::to(update, Some(DType::BF16), None, None, None, false, true, None)?;
        if tall {
            x = ops::t(&x)?;
        }
        let norm = ops::norm(&x, Some(Scalar::Int(2)), None, false, None)?;
        ops::div_(&x, &ops::clamp(&norm, Some(Scalar::Float(self.eps.value())), None)?)?;
        for _ in 0..self.ns_steps {
            let gram = ops::matmul(&x, &ops::t(&x)?)?;
            let change = ops::addmm(&gram, &gram, &gram, b, c)?;
            x = ops::addmm(&x, &change, &x, a, Scalar::Int(1))?;
        }
        if tall { ops::t(&x) } else { Ok(x) }
    }
    fn one(&self, e: &mut Entry<'_>) -> Result<()> {
        let p = &e.param.alias_detached();
        ensure!(!p.is_complex(), Runtime, "Muon does not support complex parameters");
        e.state.zeros(BUFFER, &e.grad)?;
        let g = &e.grad;
        ensure!(g.dim() == 2, Value, "Param gradient must be a 2D matrix");
        let Some(buffer) = e.state.get(BUFFER) else { return Ok(()) };
        let momentum = self.momentum.value();
        ops::lerp_(buffer, g, Scalar::Float(1.0 - momentum))?;
        let update =
            if self.nesterov { ops::lerp(g, buffer, Scalar::Float(momentum))? } else { buffer.clone() };
        let update = self.orthogonal(&update)?;
        let (rows, cols) = (p.sizes()[0] as f64, p.sizes()[1] as f64);
        let ratio = match self.adjust_lr_fn.as_deref() {
            None | Some("original") => (rows / cols).max(1.0).sqrt(),
            Some("match_rms_adamw") => 0.2 * rows.max(cols).sqrt(),
            Some("spectral_unclamped") => (rows / cols).sqrt(),
            Some(_) => 1.0,
        };
        ops::mul_(p, &number(self.lr.shrink(self.weight_decay.value()))?)?;
        ops::add_(p, &update, Scalar::Float(-self.lr.times(ratio)))
    }
}
impl Algorithm for MuonOptions {
    const NAME: &'static str = "Muon";
    fn check(&self) -> Result<()> {
        self.lr.check("lr")?;
        for (v, what) in
            [(&self.lr, "Learning rate"), (&self.momentum, "momentum"), (&self.weight_decay, "weight decay")]
        {
            ensure!(v.value() >= 0.0, Value, "{what} should be >= 0 but is: {}", v.py_text());
        }
        let known = ["original", "match_rms_adamw", "spectral_unclamped"];
        if let Some(f) = self.adjust_lr_fn.as_deref().filter(|f| !known.contains(f)) {
            return Err(Error::value(format!("Adjust learning rate function {f} is not supported")));
        }
        Ok(())
    }
    fn check_groups(&self, groups: &[ParamGroup<Self>]) -> Result<()> {
        match groups.iter().flat_map(|g| &g.params).find(|p| p.dim() != 2) {
            Some(p) => Err(Error::value(format!(
                "Muon only supports 2D parameters whereas we found a parameter with size: torch.Size({})",
                geometry::fmt_sizes(p.sizes())
            ))),
            None => Ok(()),
        }
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        let _no_grad = flambeau_autograd::no_grad_guard();
        entries.iter_mut().try_for_each(|e| self.one(e))
    }
    algorithm!();
}
