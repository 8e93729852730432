//! Cross-entropy of a linear map.

use crate::derivatives::unfused::{gradients, gradients_with};
use crate::ops;
use crate::ops::linear_cross_entropy::Job;
use flambeau_autograd::is_differentiated;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ops as core};

/// `_linear_cross_entropy_chunked`
pub fn linear_cross_entropy_grad(
    grad: &Tensor,
    input: &Tensor,
    linear_weight: &Tensor,
    target: &Tensor,
    linear_bias: Option<&Tensor>,
    weight: Option<&Tensor>,
    reduction: &str,
    ignore_index: i64,
    batch_chunk_size: i64,
    acc_dtype: DType,
    need: &[bool],
) -> Result<[Option<Tensor>; 3]> {
    let missing = || Error::runtime("linear_cross_entropy: an operand is missing");
    let inputs = [Some(input), Some(linear_weight), linear_bias];
    if is_differentiated() {
        // what is differentiated again is written out as a whole
        return gradients(grad, inputs, need, |[x, w, b]| {
            let (x, w) = (x.ok_or_else(missing)?, w.ok_or_else(missing)?);
            let logits = ops::linear(x, w, b)?;
            ops::cross_entropy(&logits, target, weight, None, ignore_index, None, reduction, 0.0)
        });
    }
    let job = Job::new(
        input,
        linear_weight,
        target,
        linear_bias,
        weight,
        ignore_index,
        batch_chunk_size,
        acc_dtype,
    )?;
    let mut grad = core::to_copy(&grad.alias_detached(), Some(acc_dtype), None, None, None, false, None)?;
    if reduction == "mean" {
        grad = core::div(&grad, &job.total()?)?;
    }
    let each = if reduction == "none" { "none" } else { "sum" };
    let mut rows_of_input = Vec::new();
    let (mut for_weight, mut for_bias): (Option<Tensor>, Option<Tensor>) = (None, None);
    for rows in job.chunks() {
        let x = core::narrow(&job.input, 0, rows.0, rows.1)?;
        let g = if each == "none" { core::narrow(&grad, 0, rows.0, rows.1)? } else { grad.clone() };
        let all = [Some(&x), Some(&job.linear_weight), job.linear_bias.as_ref()];
        let [gx, gw, gb] = gradients_with(&g, all, need, false, |[x, w, b]| {
            job.loss(rows, x.ok_or_else(missing)?, w.ok_or_else(missing)?, b, each)
        })?;
        rows_of_input.extend(gx);
        for (sum, part) in [(&mut for_weight, gw), (&mut for_bias, gb)] {
            *sum = match (sum.take(), part) {
                (Some(a), Some(b)) => Some(core::add(&a, &b, Scalar::Int(1))?),
                (a, b) => a.or(b),
            };
        }
    }
    let for_input = if rows_of_input.is_empty() { None } else { Some(core::cat(&rows_of_input, 0)?) };
    let mut out = [const { None }; 3];
    for (i, (g, like)) in [for_input, for_weight, for_bias].into_iter().zip(inputs).enumerate() {
        let Some(like) = like.filter(|_| need[i]) else { continue };
        out[i] = Some(match g {
            Some(g) => core::to_copy(&g, Some(like.dtype()), None, None, None, false, None)?,
            // no rows
            None => core::zeros_like(like, None, None, None, None, None)?,
        });
    }
    Ok(out)
}
