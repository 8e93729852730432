//! Losses between tensors of one shape, distances, and what goes with them: made of the core's operators.

use super::loss::{MEAN, NONE, SUM, reduced, reduction_of};
use super::operands::{cast, number, on};
use flambeau_autograd::no_grad;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::iter::promotion::{can_cast, default_dtype, promote_types};
use flambeau_core::tensor::geometry::{self, fmt_sizes, wrap_dim, wrap_dim_strict, wrap_dims};
use flambeau_core::tensor::wrapper::{Asked, all_slices, check_readable, zeros_among};
use flambeau_core::{
    DType, Device, Error, Result, Scalar, Tensor, bail, ensure, iter::broadcast_all, ops as core,
};

const ONE: Scalar = Scalar::Int(1);

fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    core::add(a, b, ONE)
}
fn sub(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    core::sub(a, b, ONE)
}
fn plus(a: &Tensor, s: f64) -> Result<Tensor> {
    core::add(a, &number(s)?, ONE)
}
fn scaled(a: &Tensor, s: f64) -> Result<Tensor> {
    core::mul(a, &number(s)?)
}
fn at_least(a: &Tensor, s: f64) -> Result<Tensor> {
    core::clamp_min(a, Scalar::Float(s))
}
fn floating(t: &Tensor, label: &str) -> Result<()> {
    if !t.dtype().is_floating() {
        return Err(Error::not_implemented_for(label, t.dtype()));
    }
    Ok(())
}
/// Of float32 or float64.
fn single(t: &Tensor, label: &str) -> Result<()> {
    if !matches!(t.dtype(), DType::F32 | DType::F64) {
        return Err(Error::not_implemented_for(label, t.dtype()));
    }
    Ok(())
}
/// What PyTorch multiplies in place takes factors that do not make it larger, nor of another type.
fn fits_in_place(loss: &Tensor, factor: &Tensor) -> Result<()> {
    let dtype = flambeau_core::iter::promotion::promote_types(loss.dtype(), factor.dtype())?;
    let dtype = if factor.dim() == 0 && can_cast(dtype, loss.dtype()) { loss.dtype() } else { dtype };
    flambeau_core::iter::overlap::check_written(loss, &broadcast_all(&[loss, factor])?, dtype, loss.device())
}
fn expect_same(want: DType, found: DType) -> Result<()> {
    ensure!(
        want == found,
        Runtime,
        "expected scalar type {} but found {}",
        want.scalar_type_name(),
        found.scalar_type_name()
    );
    Ok(())
}
/// Both of the broadcast shape, and of the promoted dtype's kernel.
fn difference(input: &Tensor, target: &Tensor, label: Option<&str>) -> Result<Tensor> {
    broadcast_all(&[input, target])?;
    if let Some(l) = label {
        floating(input, l)?;
        if target.is_complex() {
            floating(target, l)?;
        }
    }
    sub(input, target)
}
/// A weighted mean divides by the sum of the weights.
fn weighted(loss: Tensor, weight: Option<&Tensor>, input: &Tensor, reduction: i64) -> Result<Tensor> {
    let Some(w) = weight else { return reduced(&loss, reduction) };
    ensure!(w.sizes() == input.sizes(), Value, "Weights and input must have the same size.");
    let loss = core::mul(&loss, w)?;
    match reduction {
        MEAN => core::div(&core::sum(&loss, None, false, None)?, &core::sum(w, None, false, None)?),
        r => reduced(&loss, r),
    }
}

/// `mse_loss`
pub fn mse_loss(
    input: &Tensor,
    target: &Tensor,
    size_average: Option<bool>,
    reduce: Option<bool>,
    reduction: &str,
    weight: Option<&Tensor>,
) -> Result<Tensor> {
    broadcast_all(&[input, target])?;
    let reduction = reduction_of(reduction, size_average, reduce)?;
    let d = difference(input, target, Some("mse_cpu"))?;
    weighted(core::mul(&d, &d)?, weight, input, reduction)
}
/// `l1_loss`
pub fn l1_loss(
    input: &Tensor,
    target: &Tensor,
    size_average: Option<bool>,
    reduce: Option<bool>,
    reduction: &str,
    weight: Option<&Tensor>,
) -> Result<Tensor> {
    broadcast_all(&[input, target])?;
    let reduction = reduction_of(reduction, size_average, reduce)?;
    let d = difference(input, target, None)?;
    weighted(core::abs(&d)?, weight, input, reduction)
}
/// `scale * (d^2 / 2 / width)` below `width`, `scale * (|d| - width / 2)` from it on.
fn huberish(d: &Tensor, width: f64, scale: f64) -> Result<Tensor> {
    let a = core::abs(d)?;
    let inner = scaled(&core::mul(d, d)?, 0.5 * scale / width)?;
    let outer = scaled(&plus(&a, -0.5 * width)?, scale)?;
    core::where_(&core::lt(&a, &number(width)?)?, &inner, &outer)
}
/// `smooth_l1_loss`
pub fn smooth_l1_loss(
    input: &Tensor,
    target: &Tensor,
    size_average: Option<bool>,
    reduce: Option<bool>,
    reduction: &str,
    beta: f64,
) -> Result<Tensor> {
    broadcast_all(&[input, target])?;
    let reduction = reduction_of(reduction, size_average, reduce)?;
    ensure!(beta >= 0.0, Runtime, "smooth_l1_loss does not support negative values for beta.");
    let label = if beta == 0.0 { None } else { Some("smooth_l1_cpu") };
    let d = difference(input, target, label)?;
    let loss = if beta == 0.0 { core::abs(&d)? } else { huberish(&d, beta, 1.0)? };
    reduced(&loss, reduction)
}
/// `huber_loss`
pub fn huber_loss(
    input: &Tensor,
    target: &Tensor,
    reduction: &str,
    delta: f64,
    weight: Option<&Tensor>,
) -> Result<Tensor> {
    broadcast_all(&[input, target])?;
    let reduction = reduction_of(reduction, None, None)?;
    ensure!(delta > 0.0, Runtime, "huber_loss does not support non-positive values for delta.");
    ensure!(
        !input.dtype().is_integral(true) || !target.dtype().is_floating(),
        Runtime,
        "result type Float can't be cast to the desired output type {}",
        input.dtype().scalar_type_name()
    );
    if target.is_complex() && !input.is_complex() {
        // the result has the input's dtype
        let d = promote_types(input.dtype(), target.dtype())?;
        let (d, x) = (d.scalar_type_name(), input.dtype().scalar_type_name());
        bail!(Runtime, "result type {d} can't be cast to the desired output type {x}");
    }
    let d = difference(input, target, Some("huber_cpu"))?;
    let loss = huberish(&d, delta, delta)?;
    let Some(w) = weight else { return reduced(&loss, reduction) };
    // unlike the other losses, its mean is over the elements
    ensure!(w.sizes() == input.sizes(), Value, "Weights and input must have the same size.");
    reduced(&core::mul(&loss, w)?, reduction)
}
/// `binary_cross_entropy`
pub fn binary_cross_entropy(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    size_average: Option<bool>,
    reduce: Option<bool>,
    reduction: &str,
) -> Result<Tensor> {
    let reduction = reduction_of(reduction, size_average, reduce)?;
    // the weight's size is worked out here, and looked at again where it is used
    let check_weight = |w: &Tensor| geometry::broadcast_all(&[target.sizes(), w.sizes()]).map(drop);
    ensure!(
        input.sizes() == target.sizes(),
        Value,
        "Using a target size ({}) that is different to the input size ({}) is deprecated. Please ensure they have the same size.",
        super::operands::torch_size(target.sizes()),
        super::operands::torch_size(input.sizes())
    );
    weight.map_or(Ok(()), check_weight)?;
    ensure!(
        target.dtype() == input.dtype(),
        Runtime,
        "Found dtype {} but expected {}",
        target.dtype().scalar_type_name(),
        input.dtype().scalar_type_name()
    );
    floating(input, "binary_cross_entropy")?;
    if input.device() != Device::Meta {
        probabilities(input, target)?;
    }
    // logarithms are bounded below, so that 0 * log(0) is 0
    let log_p = at_least(&core::log(input)?, -100.0)?;
    let log_q = at_least(&core::log1p(&core::neg(input)?)?, -100.0)?;
    let rest = sub(&number(1)?, target)?;
    let mut loss = core::neg(&add(&core::mul(target, &log_p)?, &core::mul(&rest, &log_q)?)?)?;
    if let Some(w) = weight {
        fits_in_place(&loss, w)?;
        loss = core::mul(&loss, w)?;
    }
    reduced(&loss, reduction)
}
/// Both lie between 0 and 1. The first element that does not says whose it is.
fn probabilities(input: &Tensor, target: &Tensor) -> Result<()> {
    let outside = |t: &Tensor| -> Result<Tensor> {
        let inside = core::logical_and(&core::ge(t, &number(0)?)?, &core::le(t, &number(1)?)?)?;
        core::logical_not(&all_slices(&inside))
    };
    let [x, y] = [outside(input)?, outside(target)?];
    let any = |t: &Tensor| core::any(t)?.try_item::<bool>();
    if !any(&x)? && !any(&y)? {
        return Ok(());
    }
    let first = |t: &Tensor| -> Result<usize> {
        Ok(cast(t, DType::U8)?.try_to_vec::<u8>()?.iter().position(|b| *b != 0).unwrap_or(usize::MAX))
    };
    let (x, y) = (first(&x)?, first(&y)?);
    let whose = if x <= y { "input" } else { "target" };
    bail!(Runtime, "all elements of {whose} should be between 0 and 1")
}
/// `-log(sigmoid(x))`, stable for both signs.
fn minus_log_sigmoid(x: &Tensor) -> Result<Tensor> {
    core::neg(&super::logsigmoid(x)?)
}
/// `binary_cross_entropy_with_logits`
pub fn binary_cross_entropy_with_logits(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    size_average: Option<bool>,
    reduce: Option<bool>,
    reduction: &str,
    pos_weight: Option<&Tensor>,
) -> Result<Tensor> {
    let reduction = reduction_of(reduction, size_average, reduce)?;
    ensure!(
        input.sizes() == target.sizes(),
        Value,
        "Target size ({}) must be the same as input size ({})",
        super::operands::torch_size(target.sizes()),
        super::operands::torch_size(input.sizes())
    );
    let l = minus_log_sigmoid(input)?;
    let l = match pos_weight {
        // 1 + (pos_weight - 1) * target
        Some(p) => {
            let factor = plus(&core::mul(&sub(p, &number(1)?)?, target)?, 1.0)?;
            fits_in_place(&l, &factor)?;
            core::mul(&factor, &l)?
        }
        None => l,
    };
    // PyTorch's one has the target's dtype: of truth values there are two then
    let one = if target.dtype() == DType::Bool { target.clone() } else { number(1)? };
    let rest = sub(&one, target)?;
    fits_in_place(&rest, input)?;
    // what PyTorch computes in place of `1 - target` keeps its dtype
    let mut loss = cast(&add(&core::mul(&rest, input)?, &l)?, rest.dtype())?;
    if let Some(w) = weight {
        fits_in_place(&loss, w)?;
        loss = core::mul(&loss, w)?;
    }
    reduced(&loss, reduction)
}
/// `kl_div`
pub fn kl_div(
    input: &Tensor,
    target: &Tensor,
    size_average: Option<bool>,
    reduce: Option<bool>,
    reduction: &str,
    log_target: bool,
) -> Result<Tensor> {
    let batch_mean = reduction == "batchmean" && size_average.is_none() && reduce.is_none();
    let reduction = if batch_mean { SUM } else { reduction_of(reduction, size_average, reduce)? };
    for t in [input, target] {
        ensure!(!t.dtype().is_complex(), Runtime, "kl_div: Complex inputs not supported.");
        ensure!(!t.dtype().is_integral(true), Runtime, "kl_div: Integral inputs not supported.");
    }
    let loss = if log_target {
        core::mul(&core::exp(target)?, &sub(target, input)?)?
    } else {
        sub(&core::xlogy(target, target)?, &core::mul(target, input)?)?
    };
    let loss = reduced(&loss, reduction)?;
    if batch_mean && input.dim() > 0 {
        return core::div(&loss, &number(input.sizes()[0])?);
    }
    Ok(loss)
}
/// `hinge_embedding_loss`
pub fn hinge_embedding_loss(
    input: &Tensor,
    target: &Tensor,
    margin: f64,
    size_average: Option<bool>,
    reduce: Option<bool>,
    reduction: &str,
) -> Result<Tensor> {
    let reduction = reduction_of(reduction, size_average, reduce)?;
    let zero = number(0)?;
    // the margin is a number of the input's dtype
    let margin =
        core::full_like(&input.alias_detached(), Scalar::Float(margin), None, None, None, None, None)?;
    let far = at_least_zero(&sub(&margin, input)?)?;
    let far = core::where_(&core::ne(target, &number(1)?)?, &far, &zero)?;
    let near = core::where_(&core::ne(target, &number(-1)?)?, input, &zero)?;
    reduced(&add(&far, &near)?, reduction)
}
fn at_least_zero(t: &Tensor) -> Result<Tensor> {
    core::clamp_min(t, Scalar::Int(0))
}
/// `margin_ranking_loss`
pub fn margin_ranking_loss(
    input1: &Tensor,
    input2: &Tensor,
    target: &Tensor,
    margin: f64,
    size_average: Option<bool>,
    reduce: Option<bool>,
    reduction: &str,
) -> Result<Tensor> {
    let reduction = reduction_of(reduction, size_average, reduce)?;
    let size = |t: &Tensor| super::operands::torch_size(t.sizes());
    ensure!(
        input1.dim() == input2.dim() && input1.dim() == target.dim(),
        Runtime,
        "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: {}, input2: {}, target: {} ",
        size(input1),
        size(input2),
        size(target)
    );
    let d = sub(input1, input2)?;
    let x = core::mul(&core::neg(target)?, &d)?;
    reduced(&at_least_zero(&plus(&x, margin)?)?, reduction)
}
/// `soft_margin_loss`
pub fn soft_margin_loss(
    input: &Tensor,
    target: &Tensor,
    size_average: Option<bool>,
    reduce: Option<bool>,
    reduction: &str,
) -> Result<Tensor> {
    let reduction = reduction_of(reduction, size_average, reduce)?;
    // PyTorch computes in the memory of the negated input
    let negative = core::neg(input)?;
    let product = core::mul(&negative, target)?;
    ensure!(
        product.sizes() == input.sizes(),
        Runtime,
        "output with shape {} doesn't match the broadcast shape {}",
        fmt_sizes(input.sizes()),
        fmt_sizes(product.sizes())
    );
    let integral = product.dtype().is_integral(true);
    for common in [product.dtype(), if integral { default_dtype() } else { product.dtype() }] {
        ensure!(
            can_cast(common, input.dtype()),
            Runtime,
            "result type {} can't be cast to the desired output type {}",
            common.scalar_type_name(),
            input.dtype().scalar_type_name()
        );
    }
    let e = core::exp(&cast(&product, input.dtype())?)?;
    reduced(&core::log1p(&e)?, reduction)
}
/// `multilabel_soft_margin_loss`
pub fn multilabel_soft_margin_loss(
    input: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    size_average: Option<bool>,
    reduce: Option<bool>,
    reduction: &str,
) -> Result<Tensor> {
    let legacy = size_average.is_some() || reduce.is_some();
    ensure!(legacy || matches!(reduction, "none" | "mean" | "sum"), Value, "{reduction} is not valid");
    let reduction = reduction_of(reduction, size_average, reduce)?;
    wrap_dim_strict(-1, input.dim())?;
    let (pos, neg) = (super::logsigmoid(input)?, super::logsigmoid(&core::neg(input)?)?);
    let rest = sub(&number(1)?, target)?;
    let mut loss = core::neg(&add(&core::mul(target, &pos)?, &core::mul(&rest, &neg)?)?)?;
    if let Some(w) = weight {
        loss = core::mul(&loss, w)?;
    }
    let c = input.sizes()[input.dim() - 1];
    let loss = core::div(&core::sum(&loss, Some(&[-1]), false, None)?, &number(c)?)?;
    reduced(&loss, reduction)
}

/// The input as `[N, C]`, with the checks of the margin losses over classes.
fn classes(input: &Tensor) -> Result<(Tensor, i64, i64)> {
    let s = input.sizes();
    let ok = match s {
        [] => true,
        [c] => *c != 0,
        [_, c] => *c != 0,
        _ => false,
    };
    ensure!(
        ok,
        Runtime,
        "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {}",
        fmt_sizes(s)
    );
    let (n, c) = match s {
        [] => (1, 1),
        [c] => (1, *c),
        _ => (s[0], s[1]),
    };
    Ok((core::reshape(input, &[n, c])?, n, c))
}
/// A mask `[N, C]` that is one where a row's class is.
/// The target's classes; on meta, where nobody knows them, the first for all.
fn known(target: &Tensor) -> Result<Vec<i64>> {
    if target.device() == Device::Meta {
        return geometry::filled(0, target.numel());
    }
    target.try_to_vec::<i64>()
}
fn class_mask(target: &[i64], c: i64) -> Result<Tensor> {
    let n = geometry::size_mul(target.len() as i64, c)?;
    let mut v = geometry::filled(flambeau_core::B8::from(false), n)?;
    for (i, t) in target.iter().enumerate() {
        if *t >= 0 && *t < c {
            v[i * c as usize + *t as usize] = flambeau_core::B8::from(true);
        }
    }
    Tensor::from_vec_raw(v, &[target.len() as i64, c])
}
/// `multi_margin_loss`
pub fn multi_margin_loss(
    input: &Tensor,
    target: &Tensor,
    p: i64,
    margin: f64,
    weight: Option<&Tensor>,
    size_average: Option<bool>,
    reduce: Option<bool>,
    reduction: &str,
) -> Result<Tensor> {
    let reduction = reduction_of(reduction, size_average, reduce)?;
    ensure!(p == 1 || p == 2, Value, "only p == 1 and p == 2 supported");
    ensure!(weight.is_none_or(|w| w.dim() == 1), Value, "weight must be one-dimensional");
    let (x, n, c) = classes(input)?;
    ensure!(
        target.dim() <= 1 && target.numel() == n,
        Runtime,
        "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected target size [{n}], but got {}. Input has shape {}.",
        fmt_sizes(target.sizes()),
        fmt_sizes(input.sizes())
    );
    if let Some(w) = weight {
        ensure!(
            w.numel() == c,
            Runtime,
            "inconsistent weight size, expected {c} but got {}",
            fmt_sizes(w.sizes())
        );
    }
    ensure!(
        target.dtype() == DType::I64,
        Runtime,
        "expected scalar type Long but found {}",
        target.dtype().scalar_type_name()
    );
    if n > 0 {
        single(input, "multi_margin_loss_cpu_kernel")?;
    }
    if let Some(w) = weight {
        expect_same(input.dtype(), w.dtype())?;
    }
    let t = known(target)?;
    ensure!(t.iter().all(|t| (0..c).contains(t)), Runtime, "target out of range");
    let mask = on(class_mask(&t, c)?, input.device())?;
    let zero = number(0)?;
    let own = core::sum(&core::where_(&mask, &x, &zero)?, Some(&[1]), true, None)?;
    let mut z = at_least_zero(&plus(&sub(&x, &own)?, margin)?)?;
    if p == 2 {
        z = core::mul(&z, &z)?;
    }
    if let Some(w) = weight {
        let w = core::sum(&core::where_(&mask, w, &zero)?, Some(&[1]), true, None)?;
        z = core::mul(&z, &w)?;
    }
    let z = core::where_(&mask, &zero, &z)?;
    let loss = core::div(&core::sum(&z, Some(&[1]), false, None)?, &number(c)?)?;
    if reduction == NONE {
        return core::reshape(&loss, target.sizes());
    }
    reduced(&loss, reduction)
}
/// `multilabel_margin_loss`
pub fn multilabel_margin_loss(
    input: &Tensor,
    target: &Tensor,
    size_average: Option<bool>,
    reduce: Option<bool>,
    reduction: &str,
) -> Result<Tensor> {
    let reduction = reduction_of(reduction, size_average, reduce)?;
    let (x, n, c) = classes(input)?;
    ensure!(
        target.sizes() == input.sizes() || (input.dim() == 0 && target.dim() <= 1 && target.numel() == 1),
        Runtime,
        "inconsistent target size: {} for input of size: {}",
        fmt_sizes(target.sizes()),
        fmt_sizes(input.sizes())
    );
    if target.is_complex() {
        return Err(Error::not_implemented_for("min_all", target.dtype()));
    }
    // the bounds are looked at before the dtype is
    let bound = known(&cast(target, DType::I64)?)?;
    ensure!(bound.iter().all(|t| (-1..c).contains(t)), Runtime, "argument #2 'target' is out of range");
    if n > 0 {
        single(input, "multilabel_margin_loss_forward_out_frame")?;
    }
    expect_same(DType::I64, target.dtype())?;
    let t = bound;
    // each target class against all classes that are none
    // how often each pair counts: a class may be wanted twice
    let mut pairs_of = geometry::filled(0f32, geometry::size_mul(geometry::size_mul(n, c)?, c)?)?;
    for (i, row) in t.chunks_exact(c as usize).enumerate() {
        let wanted: Vec<i64> = row.iter().copied().take_while(|t| *t >= 0).collect();
        for y in &wanted {
            for k in 0..c {
                let at = (i as i64 * c + *y) * c + k;
                if !wanted.contains(&k) {
                    pairs_of[at as usize] += 1.0;
                }
            }
        }
    }
    let pairs = on(cast(&Tensor::from_vec_raw(pairs_of, &[n, c, c])?, x.dtype())?, x.device())?;
    let d = sub(&core::unsqueeze(&x, 1)?, &core::unsqueeze(&x, 2)?)?;
    let z = at_least_zero(&plus(&d, 1.0)?)?;
    let z = core::mul(&z, &pairs)?;
    let loss = core::div(&core::sum(&z, Some(&[1, 2]), false, None)?, &number(c)?)?;
    if input.dim() < 2 {
        return core::reshape(&loss, &[]);
    }
    reduced(&loss, reduction)
}

/// `(sum |x|^p)^(1/p)` over a dimension.
fn norm(x: &Tensor, p: f64, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    let a = core::abs(x)?;
    let sum = |t: &Tensor| core::sum(t, Some(dim), keepdim, None);
    match p {
        1.0 => sum(&a),
        2.0 => root(&sum(&core::mul(&a, &a)?)?),
        0.0 => core::linalg_vector_norm(x, Scalar::Float(0.0), Some(dim), keepdim, None),
        p if p == f64::INFINITY => core::amax(&a, dim, keepdim),
        p if p == f64::NEG_INFINITY => core::amin(&a, dim, keepdim),
        p => core::pow(&sum(&core::pow(&a, &number(p)?)?)?, &number(1.0 / p)?),
    }
}
/// A square root whose gradient at 0 is 0, as that of a norm is.
fn root(x: &Tensor) -> Result<Tensor> {
    let zero = core::eq(x, &number(0)?)?;
    let safe = core::where_(&zero, &number(1)?, x)?;
    core::where_(&zero, &number(0)?, &core::sqrt(&safe)?)
}
/// `pairwise_distance`
pub fn pairwise_distance(x1: &Tensor, x2: &Tensor, p: f64, eps: f64, keepdim: bool) -> Result<Tensor> {
    let d = plus(&sub(x1, x2)?, eps)?;
    ensure!(d.dim() > 0, Runtime, "pairwise_distance: expected at least one dimension");
    norm(&d, p, &[-1], keepdim)
}
/// `triplet_margin_loss`
pub fn triplet_margin_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    margin: f64,
    p: f64,
    eps: f64,
    swap: bool,
    size_average: Option<bool>,
    reduce: Option<bool>,
    reduction: &str,
) -> Result<Tensor> {
    let reduction = reduction_of(reduction, size_average, reduce)?;
    ensure!(margin > 0.0, Value, "margin must be greater than 0, got {margin:?}");
    ensure!(
        anchor.dim() == positive.dim() && anchor.dim() == negative.dim(),
        Runtime,
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor {}D, positive {}D, and negative {}D inputs",
        anchor.dim(),
        positive.dim(),
        negative.dim()
    );
    let near = pairwise_distance(anchor, positive, p, eps, false)?;
    let mut far = pairwise_distance(anchor, negative, p, eps, false)?;
    if swap {
        far = core::minimum(&far, &pairwise_distance(positive, negative, p, eps, false)?)?;
    }
    reduced(&at_least_zero(&plus(&sub(&near, &far)?, margin)?)?, reduction)
}
/// `cosine_embedding_loss`
pub fn cosine_embedding_loss(
    input1: &Tensor,
    input2: &Tensor,
    target: &Tensor,
    margin: f64,
    size_average: Option<bool>,
    reduce: Option<bool>,
    reduction: &str,
) -> Result<Tensor> {
    let reduction = reduction_of(reduction, size_average, reduce)?;
    ensure!(target.dim() <= 1, Runtime, "0D or 1D target tensor expected, multi-target not supported");
    let want = target.dim() + 1;
    ensure!(
        input1.dim() == want && input2.dim() == want,
        Runtime,
        "{want}D target tensor expects {want}D input tensors, but found inputs with sizes {} and {}.",
        fmt_sizes(input1.sizes()),
        fmt_sizes(input2.sizes())
    );
    // the squares are shifted by this, so that a zero vector has a direction
    const EPS: f64 = 1e-12;
    let last = target.dim() as i64;
    let dot = |a: &Tensor, b: &Tensor| core::sum(&core::mul(a, b)?, Some(&[last]), false, None);
    let (xx, yy) = (plus(&dot(input1, input1)?, EPS)?, plus(&dot(input2, input2)?, EPS)?);
    let cos = core::div(&dot(input1, input2)?, &core::sqrt(&core::mul(&xx, &yy)?)?)?;
    let zero = number(0)?;
    let near = core::where_(&core::eq(target, &number(1)?)?, &sub(&number(1)?, &cos)?, &zero)?;
    let far = at_least_zero(&plus(&cos, -margin)?)?;
    let far = core::where_(&core::eq(target, &number(-1)?)?, &far, &zero)?;
    reduced(&add(&near, &far)?, reduction)
}
/// `gaussian_nll_loss` with one variance
pub fn gaussian_nll_loss_of(
    input: &Tensor,
    target: &Tensor,
    var: f64,
    full: bool,
    eps: f64,
    reduction: &str,
) -> Result<Tensor> {
    ensure!(var >= 0.0, Value, "var has negative entry/entries");
    let var = core::full_like(&input.alias_detached(), Scalar::Float(var), None, None, None, None, None)?;
    gaussian_nll_loss(input, target, &var, full, eps, reduction)
}
/// `gaussian_nll_loss`
pub fn gaussian_nll_loss(
    input: &Tensor,
    target: &Tensor,
    var: &Tensor,
    full: bool,
    eps: f64,
    reduction: &str,
) -> Result<Tensor> {
    let mut var = var.clone();
    if var.is_complex() {
        return Err(Error::not_implemented_for("lt_cpu", var.dtype()));
    }
    if var.device() != Device::Meta {
        let low: i64 = core::sum(&core::lt(&var, &number(0)?)?, None, false, None)?.try_item()?;
        ensure!(low == 0, Value, "var has negative entry/entries");
    }
    if var.sizes() != input.sizes() {
        let (x, v) = (input.sizes(), var.sizes());
        if x.len() == v.len() + 1 && x[..x.len() - 1] == *v {
            var = core::unsqueeze(&var, -1)?;
        } else {
            // one dimension may be broadcast
            let wide = x.iter().zip(v).filter(|(x, v)| x != v).map(|(_, v)| *v).sum::<i64>() == 1;
            ensure!(x.len() == v.len() && wide, Value, "var is of incorrect size");
        }
    }
    ensure!(matches!(reduction, "none" | "mean" | "sum"), Value, "{reduction} is not valid");
    ensure!(
        !var.dtype().is_integral(true),
        Runtime,
        "result type Float can't be cast to the desired output type {}",
        var.dtype().c_name()
    );
    // the bound is not differentiated
    let bounded = core::clamp_min(&var.alias_detached(), Scalar::Float(eps))?;
    let var = add(&var, &sub(&bounded, &var.alias_detached())?)?;
    let d = sub(input, target)?;
    let mut loss = scaled(&add(&core::log(&var)?, &core::div(&core::mul(&d, &d)?, &var)?)?, 0.5)?;
    if full {
        loss = plus(&loss, 0.5 * (2.0 * std::f64::consts::PI).ln())?;
    }
    reduced(&loss, reduction_of(reduction, None, None)?)
}
/// `poisson_nll_loss`
pub fn poisson_nll_loss(
    input: &Tensor,
    target: &Tensor,
    log_input: bool,
    full: bool,
    size_average: Option<bool>,
    eps: f64,
    reduce: Option<bool>,
    reduction: &str,
) -> Result<Tensor> {
    let reduction = reduction_of(reduction, size_average, reduce)?;
    let mut loss = if log_input {
        sub(&core::exp(input)?, &core::mul(target, input)?)?
    } else {
        sub(input, &core::mul(target, &core::log(&plus(input, eps)?)?)?)?
    };
    if full {
        // Stirling's approximation of log(target!), where the target is above 1
        let log_t = core::log(target)?;
        let twopi = scaled(&core::log(&scaled(target, 2.0 * std::f64::consts::PI)?)?, 0.5)?;
        let stirling = add(&sub(&core::mul(target, &log_t)?, target)?, &twopi)?;
        let small = core::le(target, &number(1)?)?;
        loss = add(&loss, &core::where_(&small, &number(0)?, &stirling)?)?;
    }
    reduced(&loss, reduction)
}
/// `cosine_similarity`
pub fn cosine_similarity(x1: &Tensor, x2: &Tensor, dim: i64, eps: f64) -> Result<Tensor> {
    let sizes = broadcast_all(&[x1, x2])?;
    let common = flambeau_core::iter::promotion::promote_types(x1.dtype(), x2.dtype())?;
    ensure!(
        common.is_floating(),
        Runtime,
        "expected common dtype to be floating point, yet common dtype is {}",
        common.scalar_type_name()
    );
    let d = wrap_dim(dim, sizes.len())? as i64;
    // each is divided by its norm in its own dtype; norms of integers there are none
    let own = |t: &Tensor| if t.dtype().is_floating() { Ok(t.clone()) } else { cast(t, common) };
    let (x, y) = (own(x1)?, own(x2)?);
    let (x, y) = (core::expand(&x, &sizes, false)?, core::expand(&y, &sizes, false)?);
    // the bound is set where no gradient is recorded: below it, too, the gradient is that of the norm
    let unit = |t: &Tensor| -> Result<Tensor> {
        let n = core::clone(&norm(t, 2.0, &[d], true)?, None)?;
        no_grad(|| core::clamp_min_(&n, Scalar::Float(eps)))?;
        core::div(t, &n)
    };
    core::sum(&core::mul(&unit(&x)?, &unit(&y)?)?, Some(&[d]), false, None)
}
/// `normalize`
pub fn normalize(input: &Tensor, p: f64, dim: &[i64], eps: f64) -> Result<Tensor> {
    ensure!(
        !input.dtype().is_integral(true),
        Unsupported,
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
        input.dtype().scalar_type_name()
    );
    wrap_dims(dim, input.dim())?;
    let n = at_least(&norm(input, p, dim, true)?, eps)?;
    core::div(input, &n)
}
/// `one_hot`
pub fn one_hot(tensor: &Tensor, num_classes: i64) -> Result<Tensor> {
    ensure!(
        tensor.dtype() == DType::I64,
        Runtime,
        "one_hot is only applicable to index tensor of type LongTensor."
    );
    if num_classes == -1 {
        check_readable(tensor, Asked::Number)?;
    }
    let v = all_slices(tensor).try_to_vec::<i64>()?;
    ensure!(
        !v.is_empty() || num_classes > 0,
        Runtime,
        "Can not infer total number of classes from empty tensor."
    );
    let n = if num_classes == -1 {
        let largest = v.iter().max().copied().unwrap_or(0);
        ensure!(largest < i64::MAX, Runtime, "zeros: Dimension size must be non-negative.");
        largest + 1
    } else {
        num_classes
    };
    ensure!(v.iter().all(|i| *i >= 0), Runtime, "Class values must be non-negative.");
    ensure!(v.iter().all(|i| *i < n), Runtime, "Class values must be smaller than num_classes.");
    let mut sizes = tensor.sizes().to_vec();
    sizes.push(n);
    let out = zeros_among(&sizes, DType::I64, tensor.device(), [tensor])?;
    core::scatter_value(&out, -1, &core::unsqueeze(tensor, -1)?, Scalar::Int(1))
}
