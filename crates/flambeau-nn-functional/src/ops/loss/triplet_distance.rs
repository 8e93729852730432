//! The triplet loss with a distance of one's own: a function of a function, which the table of operators has no form for.

use crate::ops::loss::{reduced, reduction_of};
use flambeau_core::api::ergonomic::{expect, wrapped_number};
use flambeau_core::text::PyText;
use flambeau_core::{Result, Scalar, Tensor, ensure, ops};

/// [`triplet_margin_with_distance_loss`] with an error instead of a panic, of a distance that may fail.
///
/// # Errors
/// Tensors of different numbers of dimensions, a margin that is not positive, an unknown reduction; the distance's.
pub fn try_triplet_margin_with_distance_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    distance: &dyn Fn(&Tensor, &Tensor) -> Result<Tensor>,
    margin: Scalar,
    swap: bool,
    reduction: &str,
) -> Result<Tensor> {
    ensure!(
        matches!(reduction, "none" | "mean" | "sum"),
        Value,
        "{reduction} is not a valid value for reduction"
    );
    let reduction = reduction_of(reduction, None, None)?;
    ensure!(margin.to_f64() > 0.0, Value, "margin must be greater than 0, got {}", margin.py_text());
    ensure!(
        anchor.dim() == positive.dim() && anchor.dim() == negative.dim(),
        Runtime,
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor {}D, positive {}D, and negative {}D inputs",
        anchor.dim(),
        positive.dim(),
        negative.dim()
    );
    let near = distance(anchor, positive)?;
    let mut far = distance(anchor, negative)?;
    if swap {
        far = ops::minimum(&far, &distance(positive, negative)?)?;
    }
    let gap = ops::sub(&ops::add(&near, &wrapped_number(margin)?, Scalar::Int(1))?, &far, Scalar::Int(1))?;
    reduced(&ops::clamp_min(&gap, Scalar::Int(0))?, reduction)
}

/// `max(0, margin + d(anchor, positive) - d(anchor, negative))` by a distance `d` of two tensors, the mean over all. With
/// `swap`, the positive's distance to the negative counts where it is less. Panics with the error's text.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::functional as f;
/// let t = |v: f32| Tensor::from_slice(&[v], [1]);
/// let far = |a: &Tensor, b: &Tensor| (a - b).abs();
/// assert_eq!(f::triplet_margin_with_distance_loss(&t(0.0), &t(1.0), &t(3.0), far, 2.5, false).item::<f32>(), 0.5);
/// ```
#[track_caller]
#[doc(alias = "torch.nn.functional.triplet_margin_with_distance_loss")]
pub fn triplet_margin_with_distance_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    distance: impl Fn(&Tensor, &Tensor) -> Tensor,
    margin: f64,
    swap: bool,
) -> Tensor {
    let distance = |a: &Tensor, b: &Tensor| Ok(distance(a, b));
    let margin = Scalar::Float(margin);
    expect(try_triplet_margin_with_distance_loss(anchor, positive, negative, &distance, margin, swap, "mean"))
}
