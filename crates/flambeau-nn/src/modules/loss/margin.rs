//! Losses with a margin.

use crate::modules::layers;
use crate::modules::options::Reduction;
use flambeau_core::{Result, Tensor, ensure};
use flambeau_nn_functional::ops as f;

fn multi_margin(o: &MultiMarginLossOptions) -> Result<()> {
    ensure!(matches!(o.p, 1 | 2), Value, "only p == 1 and p == 2 supported");
    let rank = o.weight.as_ref().map_or(1, Tensor::dim);
    ensure!(
        rank == 1,
        Value,
        "MultiMarginLoss: expected weight to be None or 1D tensor, got {rank}D instead"
    );
    Ok(())
}
layers! {
    /// Margins between the target class and all others.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let loss = nn::MultiMarginLoss::new();
    /// let value = loss.call(&torch::tensor([[0.0, 2.0]]), &torch::tensor([1]));
    /// assert_eq!(value.item::<f32>(), 0.0);
    /// ```
    MultiMarginLoss MultiMarginLossOptions "torch.nn.MultiMarginLoss" [include(Reduction)]
        { /** Power of a margin, 1 or 2. */ #[default(1)] p: i64, /** The margin. */ #[default(1.0)] margin: f64,
          /** Weight of each class. */ weight: Option<Tensor> }
        buffers(/** Weight of each class. */ weight) check |o| multi_margin(o),
        |m, o, x, target| {
            let weight = m.weight.as_deref();
            f::multi_margin_loss(x, target, o.p, o.margin, weight, o.size_average, o.reduce, &o.reduction)
        };
    /// Margins between all target classes and all others.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let loss = nn::MultiLabelMarginLoss::new();
    /// let value = loss.call(&torch::tensor([[0.0, 2.0]]), &torch::tensor([[1, -1]]));
    /// assert_eq!(value.item::<f32>(), 0.0);
    /// ```
    MultiLabelMarginLoss MultiLabelMarginLossOptions "torch.nn.MultiLabelMarginLoss" [include(Reduction)] {}
        |m, o, x, target| f::multilabel_margin_loss(x, target, o.size_average, o.reduce, &o.reduction);
    /// The distance itself for targets of 1, what it lacks of the margin for those of -1.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let loss = nn::HingeEmbeddingLoss::new();
    /// let value = loss.call(&torch::tensor([0.25, 0.25]), &torch::tensor([1.0, -1.0]));
    /// assert_eq!(value.item::<f32>(), 0.5);
    /// ```
    HingeEmbeddingLoss HingeEmbeddingLossOptions "torch.nn.HingeEmbeddingLoss" [include(Reduction)]
        { /** Margin for targets of -1. */ #[default(1.0)] margin: f64 }
        |m, o, x, target| f::hinge_embedding_loss(x, target, o.margin, o.size_average, o.reduce, &o.reduction);
    /// What the difference of two inputs lacks of a margin, in the direction of the target.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let (a, b, order) = (torch::tensor([1.0]), torch::tensor([3.0]), torch::tensor([1.0]));
    /// assert_eq!(nn::MarginRankingLoss::new().call(&a, &b, &order).item::<f32>(), 2.0);     // `a` should be larger
    /// ```
    MarginRankingLoss MarginRankingLossOptions "torch.nn.MarginRankingLoss" [include(Reduction)]
        { /** The margin. */ #[default(0.0)] margin: f64 }
        |m, o, a, b, c| f::margin_ranking_loss(a, b, c, o.margin, o.size_average, o.reduce, &o.reduction);
    /// The cosine of two inputs, towards 1 or below a margin.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let (a, b) = (torch::tensor([[1.0, 0.0]]), torch::tensor([[0.0, 1.0]]));
    /// assert_eq!(nn::CosineEmbeddingLoss::new().call(&a, &b, &torch::tensor([1.0])).item::<f32>(), 1.0);
    /// ```
    CosineEmbeddingLoss CosineEmbeddingLossOptions "torch.nn.CosineEmbeddingLoss" [include(Reduction)]
        { /** The margin. */ #[default(0.0)] margin: f64 }
        |m, o, a, b, c| f::cosine_embedding_loss(a, b, c, o.margin, o.size_average, o.reduce, &o.reduction);
    /// By how much an anchor is nearer to the positive than to the negative, up to a margin.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let (anchor, near, far) = (torch::zeros([1, 2]), torch::zeros([1, 2]), torch::full([1, 2], 9.0));
    /// assert_eq!(nn::TripletMarginLoss::new().call(&anchor, &near, &far).item::<f32>(), 0.0);
    /// ```
    TripletMarginLoss TripletMarginLossOptions "torch.nn.TripletMarginLoss" [include(Reduction)]
        { /** The margin. */ #[default(1.0)] margin: f64, /** Power of the norm. */ #[default(2.0)] p: f64,
          /** Added to differences. */ #[default(1e-6)] eps: f64,
          /** Whether the positive's distance to the negative counts where it is less. */ #[default(false)] swap: bool }
        check |o| triplet_margin(o.margin),
        |m, o, a, b, c| {
            f::triplet_margin_loss(a, b, c, o.margin, o.p, o.eps, o.swap, o.size_average, o.reduce, &o.reduction)
        };
}
fn triplet_margin(margin: f64) -> Result<()> {
    ensure!(
        margin > 0.0,
        Value,
        "TripletMarginLoss: expected margin to be greater than 0, got {margin:?} instead"
    );
    Ok(())
}
