//! Losses.

use super::super::build::{Builder, Call, Item, op};
use super::activation::log_sigmoid;
use super::creation::scalar_like;
use super::pointwise::converted;
use super::view::contiguous;
use flambeau_core::{DType, Result};

/// The loss of all elements by the number of a reduction.
fn reduced(b: &mut Builder, x: &Item, how: i64) -> Result<Item> {
    Ok(match how {
        0 => x.clone(),
        2 => op!(b, "sum.dim_IntList", x, Vec::<i64>::new()),
        _ => op!(b, "mean.default", x),
    })
}
/// The dimension of classes.
fn classes(x: &Item) -> Result<i64> {
    Ok(i64::from(x.rank()? > 1))
}
/// A number for each class, with dimensions that broadcast over `like`.
fn by_class(b: &mut Builder, weight: &Item, like: &Item) -> Result<Item> {
    let rank = like.rank()?;
    if rank < 2 {
        return Ok(weight.clone());
    }
    let mut sizes = vec![1; rank];
    sizes[1] = weight.size(0)?;
    Ok(op!(b, "view.default", weight, sizes))
}
/// `nll_loss` of classes in dimension 1.
fn nll(
    b: &mut Builder,
    log: &Item,
    target: &Item,
    weight: Option<&Item>,
    how: i64,
    ignored: i64,
) -> Result<Item> {
    let (rank, d) = (log.rank()?, classes(log)?);
    if rank == 3 || rank > 4 {
        // as pictures of one row
        let (sizes, of) = (log.sizes()?, target.sizes()?);
        let (log, target) = (contiguous(b, log)?, contiguous(b, target)?);
        let log = op!(b, "view.default", &log, vec![sizes[0], sizes[1], 1, -1]);
        let target = op!(b, "view.default", &target, vec![sizes[0], 1, -1]);
        let out = nll(b, &log, &target, weight, how, ignored)?;
        return if how == 0 { Ok(op!(b, "view.default", &out, of)) } else { Ok(out) };
    }
    let weight = match weight {
        Some(w) => Some(by_class(b, w, log)?),
        None => None,
    };
    let log = match &weight {
        Some(w) => op!(b, "mul.Tensor", log, w),
        None => log.clone(),
    };
    let counts = op!(b, "ne.Scalar", target, ignored);
    let zero = op!(b, "scalar_tensor.default", 0; dtype = DType::I64);
    let safe = op!(b, "where.self", &counts, target, &zero);
    let wide = op!(b, "unsqueeze.default", &safe, d);
    let picked = op!(b, "gather.default", &log, d, &wide);
    let picked = op!(b, "squeeze.dims", &picked, vec![d]);
    let minus = op!(b, "neg.default", &picked);
    let counts = op!(b, "ne.Scalar", target, ignored);
    let zero = scalar_like(b, &Item::from(0), &log)?;
    let all = op!(b, "where.self", &counts, &minus, &zero);
    if how == 0 || how == 2 {
        return reduced(b, &all, how);
    }
    let n = match &weight {
        Some(w) => {
            let w = op!(b, "expand.default", w, log.sizes()?);
            let picked = op!(b, "gather.default", &w, d, &wide);
            let picked = op!(b, "squeeze.dims", &picked, vec![d]);
            let counts = op!(b, "ne.Scalar", target, ignored);
            let zero = scalar_like(b, &Item::from(0), &log)?;
            let each = op!(b, "where.self", &counts, &picked, &zero);
            reduced(b, &each, 2)?
        }
        None => {
            let counts = op!(b, "ne.Scalar", target, ignored);
            let n = reduced(b, &counts, 2)?;
            converted(b, &n, log.dtype()?)?
        }
    };
    let sum = reduced(b, &all, 2)?;
    Ok(op!(b, "div.Tensor", &sum, &n))
}
/// What each class alike would lose: the part of `cross_entropy` that label smoothing adds, without its factor.
fn smooth(
    b: &mut Builder,
    log: &Item,
    target: &Item,
    weight: Option<&Item>,
    how: i64,
    ignored: i64,
) -> Result<Item> {
    let all = match weight {
        Some(w) => {
            let w = by_class(b, w, log)?;
            op!(b, "mul.Tensor", log, &w)
        }
        None => log.clone(),
    };
    let sum = op!(b, "sum.dim_IntList", &all, vec![classes(log)?]);
    let minus = op!(b, "neg.default", &sum);
    let not = op!(b, "eq.Scalar", target, ignored);
    let zero = scalar_like(b, &Item::from(0.0), &minus)?;
    let each = op!(b, "where.self", &not, &zero, &minus);
    if how == 0 || how == 2 {
        return reduced(b, &each, how);
    }
    let n = match weight {
        Some(w) => {
            let zero = op!(b, "scalar_tensor.default", 0; dtype = DType::I64);
            let safe = op!(b, "where.self", &not, &zero, target);
            let (mut flat, mut out) = (safe, not.clone());
            if target.rank()? > 1 {
                flat = op!(b, "view.default", &flat, vec![-1]);
                out = op!(b, "view.default", &out, vec![-1]);
            }
            let picked = op!(b, "gather.default", w, 0, &flat);
            let zero = scalar_like(b, &Item::from(0.0), w)?;
            let picked = op!(b, "where.self", &out, &zero, &picked);
            reduced(b, &picked, 2)?
        }
        None => {
            let counts = op!(b, "bitwise_not.default", &not);
            reduced(b, &counts, 2)?
        }
    };
    let sum = reduced(b, &each, 2)?;
    Ok(op!(b, "div.Tensor", &sum, &n))
}
fn cross_entropy(b: &mut Builder, c: &Call, x: &Item) -> Result<Option<Item>> {
    let (target, weight) = (c.need(1, "target")?, c.get(2, "weight"));
    let (how, ignored) = (c.int(3, "reduction", 1), c.int(4, "ignore_index", -100));
    let smoothing = c.float(5, "label_smoothing", 0.0);
    let d = classes(x)?;
    let n = x.size(d)?;
    // factors that follow from sizes that are no numbers are no numbers either
    let open = b.symbolic.get(d as usize).copied().unwrap_or(false);
    if n == 0 || smoothing != 0.0 && open {
        return Ok(None);
    }
    let log = op!(b, "_log_softmax.default", x, d, false);
    if target.dtype()?.is_floating() {
        // probabilities of the classes
        let mut target = target;
        if smoothing > 0.0 {
            target = op!(b, "mul.Scalar", &target, 1.0 - smoothing);
            target = op!(b, "add.Scalar", &target, smoothing / n as f64);
        }
        let weight = match &weight {
            Some(w) => Some(by_class(b, w, x)?),
            None => None,
        };
        let mut all = op!(b, "mul.Tensor", &log, &target);
        if let Some(w) = &weight {
            all = op!(b, "mul.Tensor", &all, w);
        }
        let over = if how == 0 { vec![d] } else { Vec::new() };
        let sum = op!(b, "sum.dim_IntList", &all, over);
        let minus = op!(b, "neg.default", &sum);
        return Ok(Some(match how {
            1 => op!(b, "div.Scalar", &minus, x.tensor()?.numel() / n),
            _ => minus,
        }));
    }
    let loss = nll(b, &log, &target, weight.as_ref(), how, ignored)?;
    if smoothing == 0.0 {
        return Ok(Some(loss));
    }
    let alike = smooth(b, &log, &target, weight.as_ref(), how, ignored)?;
    let alike = op!(b, "mul.Scalar", &alike, smoothing / n as f64);
    let loss = op!(b, "mul.Scalar", &loss, 1.0 - smoothing);
    Ok(Some(op!(b, "add.Tensor", &loss, &alike)))
}
/// `pairwise_distance`: the norm of a difference along the last dimension.
fn distance(b: &mut Builder, x: &Item, y: &Item, p: f64, eps: f64, keep: bool) -> Result<Item> {
    let way = op!(b, "sub.Tensor", x, y);
    let way = op!(b, "add.Scalar", &way, eps);
    let way = if p % 2.0 == 0.0 { way } else { op!(b, "abs.default", &way) };
    let power = op!(b, "pow.Tensor_Scalar", &way, p);
    let last = way.rank()?.max(1) as i64 - 1;
    let sum = match keep {
        true => op!(b, "sum.dim_IntList", &power, vec![last], true),
        false => op!(b, "sum.dim_IntList", &power, vec![last]),
    };
    Ok(op!(b, "pow.Tensor_Scalar", &sum, 1.0 / p))
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    let how = |at| c.int(at, "reduction", 1);
    Ok(Some(match c.name.as_str() {
        "cross_entropy_loss.default" => return cross_entropy(b, c, &x),
        "nll_loss_nd.default" | "nll_loss.default" => {
            let (target, weight) = (c.need(1, "target")?, c.get(2, "weight"));
            nll(b, &x, &target, weight.as_ref(), how(3), c.int(4, "ignore_index", -100))?
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
            let positive = match c.get(3, "pos_weight") {
                Some(w) => {
                    let more = op!(b, "sub.Tensor", &w, 1);
                    let more = op!(b, "mul.Tensor", &more, &target);
                    Some(op!(b, "add.Tensor", &more, 1))
                }
                None => None,
            };
            let rest = op!(b, "sub.Tensor", 1, &target);
            let part = op!(b, "mul.Tensor", &rest, &x);
            let mut log = log_sigmoid(b, &x)?;
            if let Some(w) = &positive {
                log = op!(b, "mul.Tensor", w, &log);
            }
            let mut all = op!(b, "sub.Tensor", &part, &log);
            if let Some(w) = c.get(2, "weight") {
                all = op!(b, "mul.Tensor", &all, w);
            }
            reduced(b, &all, how(4))?
        }
        "pairwise_distance.default" => {
            let (y, p) = (c.need(1, "x2")?, c.float(2, "p", 2.0));
            if !p.is_finite() || p == 0.0 {
                return Ok(None);
            }
            distance(b, &x, &y, p, c.float(3, "eps", 1e-6), c.flag(4, "keepdim", false))?
        }
        "cosine_embedding_loss.default" => {
            let (y, target) = (c.need(1, "input2")?, c.need(2, "target")?);
            let margin = c.float(3, "margin", 0.0);
            let rank = x.rank()?;
            if rank != y.rank()? || rank != target.rank()? + 1 {
                return Ok(None);
            }
            let last = vec![target.rank()? as i64];
            // the number is of float32 in PyTorch's code
            let least = f64::from(1e-12f32);
            let sum = |b: &mut Builder, p: &Item, q: &Item| -> Result<Item> {
                let product = op!(b, "mul.Tensor", p, q);
                Ok(op!(b, "sum.dim_IntList", &product, last.clone()))
            };
            let inner = sum(b, &x, &y)?;
            let mut sizes = Vec::new();
            for t in [&x, &y] {
                let square = sum(b, t, t)?;
                sizes.push(op!(b, "add.Scalar", &square, least));
            }
            let both = op!(b, "mul.Tensor", &sizes[0], &sizes[1]);
            let both = op!(b, "sqrt.default", &both);
            let cos = op!(b, "div.Tensor", &inner, &both);
            let zeros = op!(b, "full_like.default", &cos, 0; pin_memory = false);
            let shape = cos.sizes()?;
            let order: Vec<i64> = (0..shape.len() as i64).collect();
            let dtype = cos.dtype()?;
            let empty = op!(b, "empty_permuted.default", shape, order; dtype = dtype);
            let ones = op!(b, "full_like.default", &empty, 1; pin_memory = false);
            let apart = op!(b, "sub.Tensor", &ones, &cos);
            let near = op!(b, "sub.Scalar", &cos, margin);
            let near = op!(b, "clamp.default", &near, 0);
            let alike = op!(b, "eq.Scalar", &target, 1);
            let alike = op!(b, "where.self", &alike, &apart, &zeros);
            let unlike = op!(b, "eq.Scalar", &target, -1);
            let unlike = op!(b, "where.self", &unlike, &near, &zeros);
            let all = op!(b, "add.Tensor", &alike, &unlike);
            reduced(b, &all, how(4))?
        }
        "margin_ranking_loss.default" => {
            let less = op!(b, "sub.Tensor", &x, c.need(1, "input2")?);
            let sign = op!(b, "neg.default", c.need(2, "target")?);
            let all = op!(b, "mul.Tensor", &sign, &less);
            let all = op!(b, "add.Scalar", &all, c.float(3, "margin", 0.0));
            let all = op!(b, "clamp.default", &all, 0);
            reduced(b, &all, how(4))?
        }
        "triplet_margin_loss.default" => {
            let (positive, negative) = (c.need(1, "positive")?, c.need(2, "negative")?);
            let (p, eps) = (c.float(4, "p", 2.0), c.float(5, "eps", 1e-6));
            if !p.is_finite() || p == 0.0 {
                return Ok(None);
            }
            let near = distance(b, &x, &positive, p, eps, false)?;
            let mut far = distance(b, &x, &negative, p, eps, false)?;
            if c.flag(6, "swap", false) {
                let other = distance(b, &positive, &negative, p, eps, false)?;
                far = op!(b, "minimum.default", &far, &other);
            }
            let above = op!(b, "add.Scalar", &near, c.float(3, "margin", 1.0));
            let above = op!(b, "sub.Tensor", &above, &far);
            let above = op!(b, "clamp.default", &above, 0);
            reduced(b, &above, how(7))?
        }
        _ => return Ok(None),
    }))
}
