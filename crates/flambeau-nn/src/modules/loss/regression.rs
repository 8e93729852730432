//! Losses of predicted numbers and distributions.

use crate::args::Checked;
use crate::modules::layers;
use crate::modules::options::Reduction;
use flambeau_nn_functional::ops as f;

const DELTA: &str = "delta must be a float or int, got:";
layers! {
    /// Mean squared difference.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let loss = nn::MSELoss::new();
    /// let value = loss.call(&torch::tensor([1.0, 4.0]), &torch::tensor([1.0, 2.0]));
    /// assert_eq!(value.item::<f32>(), 2.0);
    /// ```
    MSELoss MSELossOptions "torch.nn.MSELoss" [include(Reduction)] {}
        |m, o, x, target| f::mse_loss(x, target, o.size_average, o.reduce, &o.reduction, None);
    /// Mean absolute difference.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let loss = nn::L1LossOptions::new().reduction("sum").build();
    /// let value = loss.call(&torch::tensor([1.0, 4.0]), &torch::tensor([1.0, 2.0]));
    /// assert_eq!(value.item::<f32>(), 2.0);
    /// ```
    L1Loss L1LossOptions "torch.nn.L1Loss" [include(Reduction)] {}
        |m, o, x, target| f::l1_loss(x, target, o.size_average, o.reduce, &o.reduction, None);
    /// Squared differences below `beta`, absolute ones above.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let loss = nn::SmoothL1Loss::new();
    /// let value = loss.call(&torch::tensor([1.0, 4.0]), &torch::tensor([1.0, 2.0]));
    /// assert_eq!(value.item::<f32>(), 0.75);
    /// ```
    SmoothL1Loss SmoothL1LossOptions "torch.nn.SmoothL1Loss" [include(Reduction), order(Reduction, beta)]
        { /** Where it becomes linear. */ #[default(1.0)] beta: f64 }
        |m, o, x, target| f::smooth_l1_loss(x, target, o.size_average, o.reduce, &o.reduction, o.beta);
    /// Squared differences up to `delta`, absolute ones above.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let loss = nn::HuberLoss::new();
    /// let value = loss.call(&torch::tensor([1.0, 4.0]), &torch::tensor([1.0, 2.0]));
    /// assert_eq!(value.item::<f32>(), 0.75);
    /// ```
    HuberLoss HuberLossOptions "torch.nn.HuberLoss" [include(Reduction), order(reduction, delta)]
        { /** Where it becomes linear. */ #[default(1.0)] delta: Checked<f64> }
        check |o| o.delta.get(DELTA),
        |m, o, x, target| f::huber_loss(x, target, &o.reduction, o.delta.get(DELTA)?, None);
    /// Divergence of Kullback and Leibler of log-probabilities from a target.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let loss = nn::KLDivLossOptions::new().reduction("batchmean").build();
    /// let p = torch::tensor([[0.25, 0.75]]);
    /// assert_eq!(loss.call(&p.log(), &p).item::<f32>(), 0.0);      // the input holds logarithms
    /// ```
    KLDivLoss KLDivLossOptions "torch.nn.KLDivLoss" [include(Reduction), order(Reduction, log_target)]
        { /** Whether the target holds log-probabilities. */ #[default(false)] log_target: bool }
        |m, o, x, target| f::kl_div(x, target, o.size_average, o.reduce, &o.reduction, o.log_target);
    /// Negative log likelihood of counts.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let loss = nn::PoissonNLLLoss::new();
    /// let value = loss.call(&torch::tensor([0.0]), &torch::tensor([1.0]));
    /// assert_eq!(value.item::<f32>(), 1.0);
    /// ```
    PoissonNLLLoss PoissonNLLLossOptions "torch.nn.PoissonNLLLoss"
        [include(Reduction), order(log_input, full, size_average, eps, Reduction)]
        { /** Whether the input is the logarithm of the rate. */ #[default(true)] log_input: bool,
          /** Whether Stirling's approximation is added. */ #[default(false)] full: bool,
          /** Added to a rate before its logarithm is taken. */ #[default(1e-8)] eps: f64 }
        |m, o, x, target| {
            f::poisson_nll_loss(x, target, o.log_input, o.full, o.size_average, o.eps, o.reduce, &o.reduction)
        };
    /// Negative log likelihood of normal distributions of given means and variances.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let (mean, target, var) = (torch::tensor([1.0]), torch::tensor([3.0]), torch::tensor([1.0]));
    /// assert_eq!(nn::GaussianNLLLoss::new().call(&mean, &target, &var).item::<f32>(), 2.0);
    /// ```
    GaussianNLLLoss GaussianNLLLossOptions "torch.nn.GaussianNLLLoss" [include(Reduction), order(full, eps, reduction)]
        { /** Whether the constant is added. */ #[default(false)] full: bool, /** Least variance. */ #[default(1e-6)] eps: f64 }
        |m, o, x, target, var| f::gaussian_nll_loss(x, target, var, o.full, o.eps, &o.reduction);
}
