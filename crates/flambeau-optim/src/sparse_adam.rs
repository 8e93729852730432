//! Adam for sparse gradients.

use crate::algorithm::{Algorithm, algorithm, betas, build};
use crate::group::{Entry, ParamGroup};
use crate::number::{Number, Pair};
use crate::optimizer::Optim;
use flambeau_core::class::PyText;
use flambeau_core::{Error, Layout, Result, ensure};
use flambeau_macros::class;

/// Options of [`SparseAdam`].
#[class("torch.optim.SparseAdam", make = crate::by_name::optimizer::<SparseAdamOptions>, values)]
pub struct SparseAdamOptions {
    /// Learning rate.
    #[default(1e-3)]
    pub lr: Number,
    /// Decay rates of the two moments.
    #[default((0.9, 0.999))]
    pub betas: Pair,
    /// Added to the denominator.
    #[default(1e-8)]
    pub eps: Number,
    /// Ascends instead of descending.
    #[default(false)]
    pub maximize: bool,
}

/// Adam that updates the elements that a sparse gradient names, and leaves the others and their moments alone.
///
/// Gradients of a sparse layout do not exist in this library yet: dense ones are refused as PyTorch refuses them, and
/// the step of a sparse one is an error of kind `Missing`.
///
/// ```
/// use flambeau_core::Tensor;
/// use flambeau_nn::Parameter;
/// use flambeau_optim::{Optimizer, SparseAdam};
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
    // an int in PyTorch's files, unlike the other optimizers' counts
    const NUMBERS: &'static [&'static str] = &[];
    fn check(&self) -> Result<()> {
        self.lr.check("lr")?;
        ensure!(self.lr.value() > 0.0, Value, "Invalid learning rate: {}", self.lr.py_text());
        ensure!(self.eps.value() > 0.0, Value, "Invalid epsilon value: {}", self.eps.py_text());
        betas(&self.betas)
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
        for e in entries {
            ensure!(
                e.grad.layout() != Layout::Strided,
                Runtime,
                "SparseAdam does not support dense gradients, please consider Adam instead"
            );
            return Err(Error::missing("SparseAdam: a step by a gradient of a sparse layout"));
        }
        Ok(())
    }
    algorithm!();
}
