//! Connectionist temporal classification (Graves et al. 2006): the forward-backward algorithm over the targets with
//! blanks between them, in logarithms.

use crate::ops::loss::{MEAN, SUM, reduction_of};
use crate::ops::operands::{cast, number, plain};
use flambeau_core::internal::Access;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Element, Error, Result, Tensor, bail, ensure, ops as core};
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

fn batch(p: &Tensor, targets: &Tensor, input: &[i64], target: &[i64], blank: i64) -> Result<Batch> {
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
    let mut rows = Vec::with_capacity(n as usize);
    for (i, (time, len)) in input.iter().zip(target).enumerate() {
        let first = if targets.dim() == 1 { next } else { i * targets.sizes()[1] as usize };
        next += *len as usize;
        let labels = (0..*len as usize).map(|k| all[first + k * stride]);
        if let Some(bad) = labels.clone().find(|l| !(0..c).contains(l)) {
            return Err(Error::index(format!("ctc_loss: target {bad} is out of bounds for {c} classes")));
        }
        rows.push(Row { time: *time as usize, labels: labels.map(|l| l as usize).collect() });
    }
    let sizes = [t as usize, n as usize, c as usize, 2 * longest as usize + 1];
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
    let mut after = vec![T::NEVER; wide];
    let mut now = vec![T::NEVER; wide];
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
pub fn fused_ctc_loss(
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    blank: i64,
    _zero_infinity: bool,
) -> Result<(Tensor, Tensor)> {
    ensure!(!matches!(log_probs.device(), Device::Meta), Unsupported, "ctc_loss needs the targets' values");
    if !matches!(log_probs.dtype(), DType::F32 | DType::F64) {
        return Err(not_here("ctc_loss_cpu", log_probs));
    }
    let b = batch(log_probs, targets, input_lengths, target_lengths, blank)?;
    let p = plain(log_probs)?;
    let [t, n, _, wide] = b.sizes.map(|v| v as i64);
    let nll = Tensor::empty_raw(&[n], p.dtype(), p.device())?;
    let alpha = Tensor::empty_raw(&[n, t, wide], p.dtype(), p.device())?;
    {
        let a = Access::new(&[&p], &[&nll, &alpha])?;
        with_dtype!(p.dtype(), T in [FLOAT] => {
            forward::<T>(&b, a.slice(0)?, a.slice_mut(0)?, a.slice_mut(1)?);
        }, else return Err(not_here("ctc_loss_cpu", &p)));
    }
    Ok((nll, alpha))
}
/// `_ctc_loss_backward`
pub fn fused_ctc_loss_backward(
    grad: &Tensor,
    log_probs: &Tensor,
    targets: &Tensor,
    input_lengths: &[i64],
    target_lengths: &[i64],
    neg_log_likelihood: &Tensor,
    log_alpha: &Tensor,
    blank: i64,
    zero_infinity: bool,
) -> Result<Tensor> {
    let b = batch(log_probs, targets, input_lengths, target_lengths, blank)?;
    let (g, p, nll, alpha) = (plain(grad)?, plain(log_probs)?, plain(neg_log_likelihood)?, plain(log_alpha)?);
    let [t, n, _, wide] = b.sizes.map(|v| v as i64);
    ensure!(
        g.sizes() == [n] && nll.sizes() == [n] && alpha.sizes() == [n, t, wide],
        Shape,
        "ctc_loss_backward: the gradient, the loss or the forward variables have other sizes than the loss had"
    );
    let out = Tensor::empty_raw(p.sizes(), p.dtype(), p.device())?;
    {
        let a = Access::new(&[&g, &p, &nll, &alpha], &[&out])?;
        with_dtype!(p.dtype(), T in [FLOAT] => {
            let (g, p, nll, alpha) = (a.slice(0)?, a.slice(1)?, a.slice(2)?, a.slice(3)?);
            backward::<T>(&b, zero_infinity, g, p, nll, alpha, a.slice_mut(0)?);
        }, else return Err(not_here("ctc_loss_backward_cpu", &p)));
    }
    Ok(out)
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
            let lengths =
                cast(&Tensor::from_vec_raw(lengths, &[target_lengths.len() as i64])?, loss.dtype())?;
            core::mean(&core::div(&loss, &lengths)?, None, false, None)
        }
        SUM => core::sum(&loss, None, false, None),
        _ if single => core::squeeze_dim(&loss, 0),
        _ => Ok(loss),
    }
}
