//! Adam for sparse gradients.

use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, algorithm, build};
use crate::optimizer::group::{Entry, Kept, ParamGroup, State};
use crate::options::{Moments, Switches, checks};
use crate::step::differentiable::root;
use flambeau_autograd::shorthand::{div, mul_scalar};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::text::PyText;
use flambeau_core::{Layout, Result, Scalar, Tensor, Value, ensure, ops};
use flambeau_macros::class;
use flambeau_sparse::ops as sparse;

#[class("torch.optim.SparseAdam", make = crate::by_name::optimizer::<SparseAdamOptions>, values,
    include(Moments, Switches),
    order(lr, betas, eps, maximize))]
pub struct SparseAdamOptions {}

/// Adam that updates the elements that a sparse gradient names, and leaves the others and their moments alone. Dense
/// gradients are refused, as PyTorch refuses them.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::{Optimizer, SparseAdam};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
/// let mut optimizer = SparseAdam::new([&w], 0.1);
/// w.set_grad(Some(Tensor::from_slice(&[1f32], 1)));
/// let e = optimizer.try_step().unwrap_err();
/// assert!(e.message().contains("consider Adam instead"));
/// ```
#[doc(alias = "torch.optim.SparseAdam.step")]
pub type SparseAdam = Optim<SparseAdamOptions>;
build!(SparseAdamOptions => SparseAdam);

impl Algorithm for SparseAdamOptions {
    const NAME: &'static str = "SparseAdam";
    const SPARSE: bool = true;
    // an int in PyTorch's files, unlike the other optimizers' counts
    const NUMBERS: &'static [&'static str] = &[];
    fn check(&self) -> Result<()> {
        self.lr.check("lr")?;
        ensure!(self.lr.value() > 0.0, Value, "Invalid learning rate: {}", self.lr.py_text());
        ensure!(self.eps.value() > 0.0, Value, "Invalid epsilon value: {}", self.eps.py_text());
        checks::betas(&self.betas)
    }
    fn check_groups(&self, groups: &[ParamGroup<Self>]) -> Result<()> {
        let places = |what: fn(&flambeau_core::Tensor) -> bool| {
            let of = |(g, group): (usize, &ParamGroup<Self>)| {
                let at = |(i, p): (usize, &flambeau_nn::Parameter)| what(p).then(|| format!("[{g}, {i}]"));
                group.params.iter().enumerate().filter_map(at).collect::<Vec<_>>()
            };
            groups.iter().enumerate().flat_map(of).collect::<Vec<_>>().join(", ")
        };
        let sparse = places(|p| p.layout() != Layout::Strided);
        ensure!(
            sparse.is_empty(),
            Value,
            "Sparse params at indices [{sparse}]: SparseAdam requires dense parameter tensors"
        );
        let complex = places(|p| p.is_complex());
        ensure!(
            complex.is_empty(),
            Value,
            "Complex params at indices [{complex}]: SparseAdam does not support complex parameters"
        );
        Ok(())
    }
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        let _no_grad = flambeau_autograd::no_grad_guard();
        ensure!(
            entries.iter().all(|e| e.grad.layout() != Layout::Strided),
            Runtime,
            "SparseAdam does not support dense gradients, please consider Adam instead"
        );
        for e in entries {
            let grad = sparse::coalesce(&e.grad)?;
            let (indices, values) = (sparse::indices(&grad)?, sparse::values(&grad)?);
            let indices = ops::unbind(&indices, 0)?.into_iter().map(Some).collect::<Vec<_>>();
            self.rows(e.param, e.state, &indices, &values)?;
        }
        Ok(())
    }
    algorithm!();
}

const MOMENTS: [&str; 2] = ["exp_avg", "exp_avg_sq"];

impl SparseAdamOptions {
    /// One step of the elements of `p` at indices, which are all different, by their gradients.
    fn rows(&self, p: &Tensor, state: &mut State, indices: &[Option<Tensor>], grad: &Tensor) -> Result<()> {
        let step = state.number("step").unwrap_or(0.0) + 1.0;
        state.put("step", Kept::Value(Value::Int(step as i64)));
        MOMENTS.iter().try_for_each(|n| state.zeros(n, p))?;
        if grad.numel() == 0 {
            return Ok(());
        }
        let (b1, b2) = self.betas.values();
        let grad = if self.maximize { ops::neg(grad)? } else { grad.clone() };
        let moved = |name: &str, to: &Tensor, part: f64| -> Result<Tensor> {
            let Some(all) = state.get(name) else { return Ok(to.clone()) };
            let new = ops::lerp(&ops::index(all, indices)?, to, Scalar::Float(part))?;
            ops::index_put_(all, indices, &new, false)?;
            Ok(new)
        };
        let m = moved(MOMENTS[0], &grad, 1.0 - b1)?;
        let v = moved(MOMENTS[1], &ops::square(&grad)?, 1.0 - b2)?;
        let size = self.lr.value() * (1.0 - b2.powf(step)).sqrt() / (1.0 - b1.powf(step));
        let by = mul_scalar(&div(&m, &root(&v, self.eps.value())?)?, -size)?;
        ops::index_put_(&p.alias_detached(), indices, &by, true)
    }
}
