//! Connectionist temporal classification (Graves et al. 2006): the forward-backward algorithm over the targets with
//! blanks between them, in logarithms.

use crate::generated::args;
use crate::ops::loss::{MEAN, SUM, reduction_of};
use crate::ops::operands::{cast, number, on, plain};
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Element, Error, Result, Tensor, bail, ensure, ops as core};
use flambeau_cpu::engine::room::filled;
use flambeau_cpu::with_dtype;

const WHERE: &str = "(while checking arguments for ctc_loss_allocate_outputs)";

/// A float that the recursions run in: PyTorch computes in the input's type.
trait Log: Element + PartialOrd + Copy + std::ops::Add<Output = Self> + std::ops::Sub<Output = Self> {
    const NEVER: Self;
    const ZERO: Self;
    fn ln(self) -> Self;
    fn exp(self) -> Self;
    fn neg(self) -> Self;
    fn times(self, other: Self) -> Self;
}
macro_rules! log {
    ($($t:ident),*) => {$(
        impl Log for $t {
            const NEVER: $t = $t::NEG_INFINITY;
            const ZERO: $t = 0.0;
            fn ln(self) -> $t {
                self.ln()
            }
            fn exp(self) -> $t {
                self.exp()
            }
            fn neg(self) -> $t {
                -self
            }
            fn times(self, other: $t) -> $t {
                self * other
            }
        }
    )*};
}
log!(f32, f64);

/// The logarithm of a sum of exponentials.
fn lse<T: Log, const N: usize>(l: [T; N]) -> T {
    let mut m = l.iter().fold(T::NEVER, |m, v| if *v > m { *v } else { m });
    if m == T::NEVER {
        m = T::ZERO;
    }
    l.into_iter().map(|v| (v - m).exp()).fold(T::ZERO, |a, b| a + b).ln() + m
}

/// One row: its targets with blanks between, and how long it is.
struct Row {
    time: usize,
    labels: Vec<usize>,
}
impl Row {
    /// The label of state `s` of `2 * labels + 1`.
    fn at(&self, s: usize, blank: usize) -> usize {
        if s.is_multiple_of(2) { blank } else { self.labels[s / 2] }
    }
    fn states(&self) -> usize {
        2 * self.labels.len() + 1
    }
}
struct Batch {
    rows: Vec<Row>,
    /// Time steps, rows, classes, states of the longest target.
    sizes: [usize; 4],
    blank: usize,
}

/// What sizes and lengths must be; gives time steps, rows, classes and the states of the longest target.
fn sizes(p: &Tensor, targets: &Tensor, input: &[i64], target: &[i64], blank: i64) -> Result<[usize; 4]> {
    ensure!(p.numel() > 0, Runtime, "log_probs tensor must not be empty");
    ensure!(
        p.dim() == 3,
        Runtime,
        "Expected 3-dimensional tensor, but got {}-dimensional tensor for argument #1 'log_probs' {WHERE}",
        p.dim()
    );
    ensure!(
        matches!(targets.dim(), 1 | 2),
        Runtime,
        "Expected 1 to 2 dimensions, but got {}-dimensional tensor for argument #2 'targets' {WHERE}",
        targets.dim()
    );
    let [t, n, c] = [p.sizes()[0], p.sizes()[1], p.sizes()[2]];
    ensure!((0..c).contains(&blank), Runtime, "blank must be in label range");
    ensure!(input.len() as i64 == n, Runtime, "input_lengths must be of size batch_size");
    ensure!(target.len() as i64 == n, Runtime, "target_lengths must be of size batch_size");
    let least = |l: &[i64], what: &str| -> Result<()> {
        if let Some(v) = l.iter().find(|v| **v < 0) {
            bail!(Runtime, "Expected {what} to have value at least 0, but got value {v} {WHERE}");
        }
        Ok(())
    };
    least(target, "target_lengths")?;
    let longest = target.iter().copied().max().unwrap_or(0);
    let size = |want: i64| -> Result<()> {
        let got = targets.sizes()[0];
        ensure!(
            got == want,
            Runtime,
            "Expected tensor to have size {want} at dimension 0, but got size {got} for argument #2 'targets' {WHERE}"
        );
        Ok(())
    };
    if targets.dim() == 1 {
        size(target.iter().fold(0i64, |a, b| a.saturating_add(*b)))?;
    } else {
        size(n)?;
        ensure!(
            targets.sizes()[1] >= longest,
            Runtime,
            "Expected tensor to have size at least {longest} at dimension 1, but got size {} for argument #2 'targets' {WHERE}",
            targets.sizes()[1]
        );
    }
    least(input, "input_lengths")?;
    if let Some(v) = input.iter().find(|v| **v > t) {
        bail!(Runtime, "Expected input_lengths to have value at most {t}, but got value {v} {WHERE}");
    }
    Ok([t as usize, n as usize, c as usize, 2 * longest as usize + 1])
}
fn batch(p: &Tensor, targets: &Tensor, input: &[i64], target: &[i64], blank: i64) -> Result<Batch> {
    let sizes = sizes(p, targets, input, target, blank)?;
    let [_, n, c, _] = sizes;
    // PyTorch counts where a row of concatenated targets begins in elements of memory, and its elements by the stride: of a
    // strided view it reads others than the view's. Its losses are the measure.
    let strided = targets.dim() == 1 && targets.strides()[0] > 1 && targets.numel() > 0;
    let stride = if strided { targets.strides()[0] as usize } else { 1 };
    let all = if strided {
        let memory = (targets.numel() - 1) * stride as i64 + 1;
        core::as_strided(&targets.detach(), &[memory], &[1], Some(targets.storage_offset()))?
    } else {
        targets.clone()
    };
    let all = cast(&all, DType::I64)?.try_to_vec::<i64>()?;
    let mut next = 0;
    let mut rows = Vec::with_capacity(n);
    for (i, (time, len)) in input.iter().zip(target).enumerate() {
        let first = if targets.dim() == 1 { next } else { i * targets.sizes()[1] as usize };
        next += *len as usize;
        let labels = (0..*len as usize).map(|k| all[first + k * stride]);
        if let Some(bad) = labels.clone().find(|l| !(0..c as i64).contains(l)) {
            return Err(Error::index(format!("ctc_loss: target {bad} is out of bounds for {c} classes")));
        }
        rows.push(Row { time: *time as usize, labels: labels.map(|l| l as usize).collect() });
    }
    Ok(Batch { rows, sizes, blank: blank as usize })
}

fn forward<T: Log>(b: &Batch, p: &[T], nll: &mut [T], alphas: &mut [T]) {
    let [steps, n, c, wide] = b.sizes;
    for (i, row) in b.rows.iter().enumerate() {
        let alpha = &mut alphas[i * steps * wide..][..steps * wide];
        alpha.fill(T::NEVER);
        let prob = |t: usize, class: usize| p[(t * n + i) * c + class];
        let states = row.states();
        if row.time == 0 {
            // only the empty target comes out of no input
            nll[i] = if row.labels.is_empty() { T::ZERO.neg() } else { T::NEVER.neg() };
            continue;
        }
        alpha[0] = prob(0, b.blank);
        if states > 1 {
            alpha[1] = prob(0, row.labels[0]);
        }
        for t in 1..row.time {
            let (before, now) = alpha.split_at_mut(t * wide);
            let before = &before[(t - 1) * wide..];
            for s in 0..states {
                let label = row.at(s, b.blank);
                let second = if s > 0 { before[s - 1] } else { T::NEVER };
                let third = if s > 1 && row.at(s - 2, b.blank) != label { before[s - 2] } else { T::NEVER };
                now[s] = lse([before[s], second, third]) + prob(t, label);
            }
        }
        let last = &alpha[(row.time - 1) * wide..];
        let ends = if states > 1 { lse([last[states - 1], last[states - 2]]) } else { last[0] };
        nll[i] = ends.neg();
    }
}

fn backward<T: Log>(b: &Batch, zero: bool, g: &[T], p: &[T], nll: &[T], alphas: &[T], out: &mut [T]) {
    let [steps, n, c, wide] = b.sizes;
    out.fill(T::NEVER);
    let (mut after, mut now) = (filled(T::NEVER, wide), filled(T::NEVER, wide));
    for (i, row) in b.rows.iter().enumerate() {
        let at = |t: usize, class: usize| (t * n + i) * c + class;
        let (states, loss) = (row.states(), nll[i]);
        let lost = zero && loss == T::NEVER.neg();
        let alpha = &alphas[i * steps * wide..][..steps * wide];
        for t in (0..row.time).rev().filter(|_| !lost) {
            for s in (0..states).rev() {
                let label = row.at(s, b.blank);
                let prob = p[at(t, label)];
                now[s] = if t + 1 == row.time {
                    if s + 2 >= states { prob } else { T::NEVER }
                } else {
                    let second = if s + 1 < states { after[s + 1] } else { T::NEVER };
                    let third = if s + 2 < states && row.at(s + 2, b.blank) != label {
                        after[s + 2]
                    } else {
                        T::NEVER
                    };
                    lse([after[s], second, third]) + prob
                };
                let both = alpha[t * wide + s] + now[s];
                let sum = &mut out[at(t, label)];
                *sum = if *sum == T::NEVER { both } else { lse([*sum, both]) };
            }
            std::mem::swap(&mut now, &mut after);
        }
        for t in 0..steps {
            for v in at(t, 0)..at(t, 0) + c {
                out[v] = if lost || t >= row.time {
                    T::ZERO
                } else {
                    (p[v].exp() - (out[v] + loss - p[v]).exp()).times(g[i])
                };
            }
        }
    }
}

fn not_here(label: &str, p: &Tensor) -> Error {
    Error::not_implemented_for(label, p.dtype())
}
/// `_ctc_loss`
pub fn fused_ctc_loss_shape(a: &args::FusedCtcLoss) -> Result<[OutMeta; 2]> {
    let p = a.log_probs;
    if !matches!(p.dtype(), DType::F32 | DType::F64) {
        return Err(not_here("ctc_loss_cpu", p));
    }
    let s = sizes(p, a.targets, a.input_lengths, a.target_lengths, a.blank)?;
    let [t, n, _, wide] = s.map(|v| v as i64);
    let new = |sizes: &[i64]| OutMeta::of(sizes, p.dtype(), p.device());
    Ok([new(&[n]), new(&[n, t, wide])])
}
/// `_ctc_loss`
pub fn fused_ctc_loss_cpu(given: &args::FusedCtcLoss, [nll, alpha]: [&Tensor; 2]) -> Result<()> {
    let b = batch(given.log_probs, given.targets, given.input_lengths, given.target_lengths, given.blank)?;
    let p = plain(given.log_probs)?;
    let a = Access::new(&[&p], &[nll, alpha])?;
    with_dtype!(p.dtype(), T in [FLOAT] => {
        forward::<T>(&b, a.slice(0)?, a.slice_mut(0)?, a.slice_mut(1)?);
    }, else return Err(not_here("ctc_loss_cpu", &p)));
    Ok(())
}
/// `_ctc_loss_backward`
pub fn fused_ctc_loss_backward_shape(a: &args::FusedCtcLossBackward) -> Result<OutMeta> {
    let s = sizes(a.log_probs, a.targets, a.input_lengths, a.target_lengths, a.blank)?;
    let [t, n, _, wide] = s.map(|v| v as i64);
    ensure!(
        a.grad.sizes() == [n] && a.neg_log_likelihood.sizes() == [n] && a.log_alpha.sizes() == [n, t, wide],
        Shape,
        "ctc_loss_backward: the gradient, the loss or the forward variables have other sizes than the loss had"
    );
    Ok(OutMeta::of(a.log_probs.sizes(), a.log_probs.dtype(), a.log_probs.device()))
}
/// `_ctc_loss_backward`
pub fn fused_ctc_loss_backward_cpu(given: &args::FusedCtcLossBackward, out: &Tensor) -> Result<()> {
    let b = batch(given.log_probs, given.targets, given.input_lengths, given.target_lengths, given.blank)?;
    let (g, p) = (plain(given.grad)?, plain(given.log_probs)?);
    let (nll, alpha) = (plain(given.neg_log_likelihood)?, plain(given.log_alpha)?);
    let a = Access::new(&[&g, &p, &nll, &alpha], &[out])?;
    with_dtype!(p.dtype(), T in [FLOAT] => {
        let (g, p, nll, alpha) = (a.slice(0)?, a.slice(1)?, a.slice(2)?, a.slice(3)?);
        backward::<T>(&b, given.zero_infinity, g, p, nll, alpha, a.slice_mut(0)?);
    }, else return Err(not_here("ctc_loss_backward_cpu", &p)));
    Ok(())
}

/// `ctc_loss`
pub fn ctc_loss(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &Tensor,
    target_lengths: &Tensor,
    blank: i64,
    reduction: &str,
    zero_infinity: bool,
) -> Result<Tensor> {
    reduction_of(reduction, None, None)?;
    let whole = |t: &Tensor, what: &str| -> Result<Vec<i64>> {
        ensure!(
            !(t.dtype().is_floating() || t.dtype().is_complex() || t.dtype() == DType::Bool),
            Runtime,
            "{what} must be integral"
        );
        cast(t, DType::I64)?.try_to_vec()
    };
    let input = whole(input_lengths, "input_lengths")?;
    let target = whole(target_lengths, "target_lengths")?;
    ctc_loss_of(log_probs, targets, &input, &target, blank, reduction, zero_infinity)
}
/// `ctc_loss.lengths`
pub fn ctc_loss_of(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    blank: i64,
    reduction: &str,
    zero_infinity: bool,
) -> Result<Tensor> {
    let reduction = reduction_of(reduction, None, None)?;
    let single = log_probs.dim() != 3;
    // a batch of one: its targets may be a row
    let p = if single && log_probs.dim() > 0 { core::unsqueeze(log_probs, 1)? } else { log_probs.clone() };
    let targets = cast(targets, DType::I64)?;
    let (mut loss, _) =
        crate::ops::fused_ctc_loss(&p, &targets, input_lengths, target_lengths, blank, zero_infinity)?;
    if zero_infinity {
        let lost = core::eq(&loss, &number(f64::INFINITY)?)?;
        loss = core::where_(&lost, &number(0)?, &loss)?;
    }
    match reduction {
        MEAN => {
            let lengths: Vec<f64> = target_lengths.iter().map(|l| (*l).max(1) as f64).collect();
            let lengths = Tensor::from_vec_raw(lengths, &[target_lengths.len() as i64])?;
            let lengths = on(cast(&lengths, loss.dtype())?, loss.device())?;
            core::mean(&core::div(&loss, &lengths)?, None, false, None)
        }
        SUM => core::sum(&loss, None, false, None),
        _ if single => core::squeeze_dim(&loss, 0),
        _ => Ok(loss),
    }
}
