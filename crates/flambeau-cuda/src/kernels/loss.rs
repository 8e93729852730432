//! Losses over classes: negative log likelihood and cross-entropy, with their gradients.

use super::dense::{address_of, dense, dense_opt, floats, named, row_shape, row_threads, text, up};
use super::{Args, Which, address, launch, shape};
use crate::device::{ordinal, processors};
use crate::driver::Shape;
use crate::fault;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Tensor, ops};
use flambeau_nn_functional::generated::{args, loss as rows};

const FILE: &str = "loss/classes.cuh";
const OUT_OF_BOUNDS: &str = "Target {index} is out of bounds.";

/// What all of these kernels get.
#[derive(Default)]
struct Loss<'a> {
    x: Option<&'a Tensor>,
    target: Option<&'a Tensor>,
    weight: Option<&'a Tensor>,
    out: Option<&'a Tensor>,
    lse: Option<&'a Tensor>,
    total: Option<&'a Tensor>,
    grad: Option<&'a Tensor>,
    grad_x: Option<&'a Tensor>,
    losses: Option<&'a Tensor>,
    sums: Option<&'a Tensor>,
    /// Samples, classes, places.
    sizes: [i64; 3],
    ignore: i64,
    reduction: i64,
    threads: i64,
    parts: i64,
    smoothing: f64,
}
impl Loss<'_> {
    fn args(&self, device: usize) -> Result<Args> {
        let mut list = Args::new();
        for t in [self.x, self.target, self.weight, self.out, self.lse, self.total, self.grad, self.grad_x] {
            list = list.word(address_of(t)?);
        }
        list = list.word(address_of(self.losses)?).word(address_of(self.sums)?);
        let [n, c, l] = self.sizes;
        list =
            list.int(n).int(c).int(l).int(self.ignore).int(self.reduction).int(self.threads).int(self.parts);
        Ok(list.number(self.smoothing).word(fault::place(device)?).word(fault::number(OUT_OF_BOUNDS)))
    }
}
/// Samples, classes, places.
fn sizes(x: &[i64]) -> [i64; 3] {
    match x {
        [] => [1, 0, 1],
        [c] => [1, *c, 1],
        [n, c, rest @ ..] => [*n, *c, rest.iter().product()],
    }
}
/// Targets as kernels read them: whole numbers of 8 bytes or one.
fn targets(t: &Tensor) -> Result<(Tensor, &'static str)> {
    match t.dtype() {
        DType::U8 => Ok((dense(t)?, "u8")),
        _ => Ok((super::dense::cast(t, DType::I64)?, "i64")),
    }
}
/// Losses of the targets, or their sum and that of their weights; `log`: the losses are there already.
fn sum_up(a: Loss, own: &str, x: &Tensor, target: &str, log: bool) -> Result<()> {
    let d = ordinal(x.device())?;
    let count = a.sizes[0] * a.sizes[2];
    let summed = log || a.reduction != 0;
    let most = if summed { processors(d)? * 2 } else { 4096 };
    let parts = up(count, 1024).clamp(1, most);
    let sums = (parts > 1 && summed).then(|| super::dense::room(2 * parts, DType::F64, x)).transpose()?;
    let a = Loss { parts, sums: sums.as_ref(), ..a };
    let text = |name: &str| named(FILE, &format!("NLL(k, {own}, {target}, {log})"), name);
    let which = |second: u8| Which("nll", 0, [x.dtype() as u8, u8::from(target == "u8"), log.into(), second]);
    launch(d, which(0), || text("k"), Shape { blocks: parts as u32, threads: 256 }, a.args(d)?)?;
    if parts > 1 && summed {
        launch(d, which(1), || text("k_parts"), Shape { blocks: 1, threads: 256 }, a.args(d)?)?;
    }
    Ok(())
}
fn nll_loss(a: &args::FusedNllLoss, [out, total]: [&Tensor; 2]) -> Result<()> {
    let own = floats("nll_loss_out_frame", a.self_.dtype())?;
    let (x, w, (t, target)) = (dense(a.self_)?, dense_opt(a.weight)?, targets(a.target)?);
    let loss = Loss {
        x: Some(&x),
        target: Some(&t),
        weight: w.as_ref(),
        out: Some(out),
        total: Some(total),
        sizes: sizes(x.sizes()),
        ignore: a.ignore_index,
        reduction: a.reduction,
        ..Loss::default()
    };
    sum_up(loss, own, &x, target, false)
}
fn nll_loss_backward(a: &args::FusedNllLossBackward, out: &Tensor) -> Result<()> {
    let own = floats("nll_loss_backward_out_frame", out.dtype())?;
    ops::zero_(out)?;
    let (g, w, (t, target)) = (dense(a.grad_output)?, dense_opt(a.weight)?, targets(a.target)?);
    if t.numel() == 0 {
        return Ok(());
    }
    let d = ordinal(out.device())?;
    let total = dense(a.total_weight)?;
    let loss = Loss {
        target: Some(&t),
        weight: w.as_ref(),
        total: Some(&total),
        grad: Some(&g),
        grad_x: Some(out),
        sizes: sizes(a.sizes),
        ignore: a.ignore_index,
        reduction: a.reduction,
        ..Loss::default()
    };
    let text = || text(FILE, &format!("NLL_BACKWARD(k, {own}, {target})"));
    let which = Which("nll_backward", 0, [out.dtype() as u8, u8::from(target == "u8"), 0, 0]);
    launch(d, which, text, shape(t.numel()), loss.args(d)?)
}
/// Threads of a row of classes and the launch for all rows, or for all places where classes do not lie side by side.
fn rows_of(x: &Tensor) -> Result<(i64, Shape)> {
    let [n, c, l] = sizes(x.sizes());
    if l != 1 {
        return Ok((1, shape(n * l)));
    }
    let (threads, _) = row_threads(c, x.dtype().size(), 4, &[address(x)?]);
    Ok((threads, row_shape(n, threads)))
}
fn cross_entropy(a: &args::FusedCrossEntropy, [out, lse, total]: [&Tensor; 3]) -> Result<()> {
    let own = floats("log_softmax_lastdim_kernel_impl", a.self_.dtype())?;
    smoothing(a.label_smoothing)?;
    let (x, w, (t, target)) = (dense(a.self_)?, dense_opt(a.weight)?, targets(a.target)?);
    let d = ordinal(x.device())?;
    let losses = super::dense::room(t.numel(), DType::F64, &x)?;
    let (threads, shape) = rows_of(&x)?;
    let loss = || Loss {
        x: Some(&x),
        target: Some(&t),
        weight: w.as_ref(),
        out: Some(out),
        lse: Some(lse),
        total: Some(total),
        losses: Some(&losses),
        sizes: sizes(x.sizes()),
        ignore: a.ignore_index,
        reduction: a.reduction,
        threads,
        smoothing: a.label_smoothing,
        ..Loss::default()
    };
    if t.numel() > 0 {
        let text = || text(FILE, &format!("CROSS_ENTROPY(k, {own}, {target})"));
        let which = Which("cross_entropy", 0, [x.dtype() as u8, u8::from(target == "u8"), 0, 0]);
        launch(d, which, text, shape, loss().args(d)?)?;
    }
    sum_up(loss(), own, &x, target, true)
}
fn smoothing(v: f64) -> Result<()> {
    if (0.0..=1.0).contains(&v) {
        return Ok(());
    }
    Err(Error::runtime(format!("label_smoothing must be between 0.0 and 1.0. Got: {v}")))
}
fn cross_entropy_backward(a: &args::FusedCrossEntropyBackward, out: &Tensor) -> Result<()> {
    let own = floats("cross_entropy_backward", out.dtype())?;
    smoothing(a.label_smoothing)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (g, x, w) = (dense(a.grad_output)?, dense(a.self_)?, dense_opt(a.weight)?);
    let ((t, target), lse, total) = (targets(a.target)?, dense(a.lse)?, dense(a.total_weight)?);
    let d = ordinal(out.device())?;
    let (threads, shape) = rows_of(&x)?;
    let loss = Loss {
        x: Some(&x),
        target: Some(&t),
        weight: w.as_ref(),
        lse: Some(&lse),
        total: Some(&total),
        grad: Some(&g),
        grad_x: Some(out),
        sizes: sizes(x.sizes()),
        ignore: a.ignore_index,
        reduction: a.reduction,
        threads,
        smoothing: a.label_smoothing,
        ..Loss::default()
    };
    let text = || text(FILE, &format!("CROSS_ENTROPY_BACKWARD(k, {own}, {target})"));
    let which = Which("cross_entropy_backward", 0, [out.dtype() as u8, u8::from(target == "u8"), 0, 0]);
    launch(d, which, text, shape, loss.args(d)?)
}

/// Fills the rows' tables.
pub(crate) fn register() {
    rows::FUSED_NLL_LOSS_KERNEL.register(Key::Cuda, nll_loss);
    rows::FUSED_NLL_LOSS_BACKWARD_KERNEL.register(Key::Cuda, nll_loss_backward);
    rows::FUSED_CROSS_ENTROPY_KERNEL.register(Key::Cuda, cross_entropy);
    rows::FUSED_CROSS_ENTROPY_BACKWARD_KERNEL.register(Key::Cuda, cross_entropy_backward);
}
