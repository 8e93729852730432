//! Losses.

use super::super::build::{Builder, Call, Item, op};
use super::activation::log_sigmoid;
use super::creation::scalar_like;
use super::pointwise::converted;
use flambeau_core::{DType, Result};

/// The loss of all elements by the number of a reduction.
fn reduced(b: &mut Builder, x: &Item, how: i64) -> Result<Item> {
    Ok(match how {
        0 => x.clone(),
        2 => op!(b, "sum.dim_IntList", x, Vec::<i64>::new()),
        _ => op!(b, "mean.default", x),
    })
}
/// `nll_loss` without weights, of classes in dimension 1.
fn nll(b: &mut Builder, log: &Item, target: &Item, how: i64, ignored: i64) -> Result<Item> {
    let d = i64::from(log.rank()? > 1);
    let counts = op!(b, "ne.Scalar", target, ignored);
    let zero = op!(b, "scalar_tensor.default", 0; dtype = DType::I64);
    let safe = op!(b, "where.self", &counts, target, &zero);
    let wide = op!(b, "unsqueeze.default", &safe, d);
    let picked = op!(b, "gather.default", log, d, &wide);
    let picked = op!(b, "squeeze.dims", &picked, vec![d]);
    let minus = op!(b, "neg.default", &picked);
    let counts = op!(b, "ne.Scalar", target, ignored);
    let zero = scalar_like(b, &Item::from(0), log)?;
    let all = op!(b, "where.self", &counts, &minus, &zero);
    match how {
        0 => Ok(all),
        2 => reduced(b, &all, 2),
        _ => {
            let counts = op!(b, "ne.Scalar", target, ignored);
            let n = op!(b, "sum.dim_IntList", &counts, Vec::<i64>::new());
            let n = converted(b, &n, log.dtype()?)?;
            let sum = reduced(b, &all, 2)?;
            Ok(op!(b, "div.Tensor", &sum, &n))
        }
    }
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    let how = |at| c.int(at, "reduction", 1);
    Ok(Some(match c.name.as_str() {
        "cross_entropy_loss.default" => {
            let target = c.need(1, "target")?;
            if c.get(2, "weight").is_some()
                || c.float(5, "label_smoothing", 0.0) != 0.0
                || target.dtype()?.is_floating()
            {
                return Ok(None);
            }
            let d = i64::from(x.rank()? > 1);
            let log = op!(b, "_log_softmax.default", &x, d, false);
            nll(b, &log, &target, how(3), c.int(4, "ignore_index", -100))?
        }
        "nll_loss_nd.default" | "nll_loss.default" => {
            if c.get(2, "weight").is_some() || x.rank()? > 2 {
                return Ok(None);
            }
            nll(b, &x, &c.need(1, "target")?, how(3), c.int(4, "ignore_index", -100))?
        }
        "mse_loss.default" => {
            let less = op!(b, "sub.Tensor", &x, c.need(1, "target")?);
            let square = op!(b, "pow.Tensor_Scalar", &less, 2);
            reduced(b, &square, how(2))?
        }
        "l1_loss.default" => {
            let less = op!(b, "sub.Tensor", &x, c.need(1, "target")?);
            let size = op!(b, "abs.default", &less);
            reduced(b, &size, how(2))?
        }
        "smooth_l1_loss.default" => {
            let beta = c.float(3, "beta", 1.0);
            let less = op!(b, "sub.Tensor", &x, c.need(1, "target")?);
            let size = op!(b, "abs.default", &less);
            if beta == 0.0 {
                return reduced(b, &size, how(2)).map(Some);
            }
            let near = op!(b, "lt.Scalar", &size, beta);
            let square = op!(b, "pow.Tensor_Scalar", &size, 2);
            let half = op!(b, "mul.Tensor", &square, 0.5);
            let curve = op!(b, "div.Tensor", &half, beta);
            let line = op!(b, "sub.Tensor", &size, 0.5 * beta);
            let all = op!(b, "where.self", &near, &curve, &line);
            reduced(b, &all, how(2))?
        }
        "huber_loss.default" => {
            let delta = c.float(3, "delta", 1.0);
            let less = op!(b, "sub.Tensor", &x, c.need(1, "target")?);
            let size = op!(b, "abs.default", &less);
            let near = op!(b, "lt.Scalar", &size, delta);
            let half = op!(b, "mul.Tensor", &size, 0.5);
            let curve = op!(b, "mul.Tensor", &half, &size);
            let shifted = op!(b, "sub.Tensor", &size, 0.5 * delta);
            let line = op!(b, "mul.Tensor", &shifted, delta);
            let all = op!(b, "where.self", &near, &curve, &line);
            reduced(b, &all, how(2))?
        }
        "binary_cross_entropy_with_logits.default" => {
            let target = c.need(1, "target")?;
            if c.get(3, "pos_weight").is_some() {
                return Ok(None);
            }
            let rest = op!(b, "sub.Tensor", 1, &target);
            let part = op!(b, "mul.Tensor", &rest, &x);
            let log = log_sigmoid(b, &x)?;
            let mut all = op!(b, "sub.Tensor", &part, &log);
            if let Some(w) = c.get(2, "weight") {
                all = op!(b, "mul.Tensor", &all, w);
            }
            reduced(b, &all, how(4))?
        }
        _ => return Ok(None),
    }))
}
