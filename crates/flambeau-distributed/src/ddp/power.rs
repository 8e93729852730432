//! PowerSGD (Vogels et al. 2019): matrices travel as products of two thin ones.
//!
//! Everything happens within the hook, bucket by bucket, so that all ranks ask for their sums in the same order.

use super::bucket::{CommHook, GradBucket};
use super::hooks::{begin_average, divide, group_or_world, sum_now};
use crate::group::ProcessGroup;
use crate::sync::Monitor;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Generator, Result, Scalar, Tensor, ensure, ops};
use flambeau_futures::Future;
use std::collections::HashMap;

/// Keywords of [`PowerSgdHook`].
#[flambeau_macros::options]
#[doc(alias = "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.PowerSGDState")]
pub struct PowerSgdOptions {
    /// The group; the default one if left out.
    pub(crate) process_group: Option<ProcessGroup>,
    /// How many columns the thin matrices have. Default: 1.
    #[default(1)]
    pub(crate) matrix_approximation_rank: i64,
    /// From which step on; gradients are averaged as they are before. Default: 1000.
    #[default(1000)]
    pub(crate) start_power_sgd_iter: i64,
    /// Matrices travel whole unless they become smaller by more than this factor. Default: 2.
    #[default(2.0)]
    pub(crate) min_compression_rate: f64,
    /// Whether what was lost is added to the next gradients. Default: true.
    #[default(true)]
    pub(crate) use_error_feedback: bool,
    /// Whether each step begins with the thin matrices of the last one. Default: true.
    #[default(true)]
    pub(crate) warm_start: bool,
    /// What is added to lengths of columns before they are divided by them. Default: 0.
    #[default(0.0)]
    pub(crate) orthogonalization_epsilon: f64,
    /// Where random numbers begin. Default: 0.
    #[default(0)]
    pub(crate) random_seed: i64,
    /// Whether matrices of the same size are worked on together. Default: false.
    #[default(false)]
    pub(crate) batch_tensors_with_same_shape: bool,
}

struct State {
    random: Generator,
    errors: HashMap<usize, Tensor>,
    thin: HashMap<usize, (Tensor, Tensor)>,
    step: i64,
    before: i64,
    after: i64,
}

/// A hook with which the gradients of matrices travel as products of two thin matrices.
///
/// ```
/// use torch::distributed::run_in_threads;
/// use torch::nn::{Linear, parallel::{DistributedDataParallel, PowerSgdHook, PowerSgdOptions}};
/// use torch::prelude::*;
///
/// run_in_threads(2, |rank| {
///     let model = DistributedDataParallel::new(Linear::new(8, 8));
///     let o = PowerSgdOptions::new().matrix_approximation_rank(2).start_power_sgd_iter(2);
///     model.register_comm_hook(PowerSgdHook::new(o));
///     model.call(&torch::full([1, 8], rank as f64)).sum().backward();
/// });
/// ```
#[doc(alias = "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.powerSGD_hook")]
pub struct PowerSgdHook {
    options: PowerSgdOptions,
    state: Monitor<State>,
}
impl std::fmt::Debug for PowerSgdHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PowerSgdHook({:?})", self.options)
    }
}
impl PowerSgdHook {
    /// With these options. Panics where they do not fit.
    #[track_caller]
    pub fn new(options: PowerSgdOptions) -> PowerSgdHook {
        flambeau_core::api::ergonomic::expect(PowerSgdHook::try_new(options))
    }
    /// [`PowerSgdHook::new`] with an error instead of a panic.
    ///
    /// # Errors
    /// A start before the second step, when buckets are made anew, of a hook that remembers buckets.
    pub fn try_new(options: PowerSgdOptions) -> Result<PowerSgdHook> {
        ensure!(
            !(options.use_error_feedback || options.warm_start) || options.start_power_sgd_iter > 1,
            Value,
            "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD can only be applied after the first two iterations in DDP."
        );
        let random = Generator::new();
        random.manual_seed(options.random_seed as u64);
        let (errors, thin) = (HashMap::new(), HashMap::new());
        let state = Monitor::new(State { random, errors, thin, step: 0, before: 0, after: 0 });
        Ok(PowerSgdHook { options, state })
    }
    /// How much smaller gradients have become, and their elements before and after.
    #[doc(
        alias = "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.PowerSGDState.compression_stats"
    )]
    pub fn compression_stats(&self) -> (f64, i64, i64) {
        let s = self.state.lock();
        let rate = if s.after > 0 { s.before as f64 / s.after as f64 } else { 0.0 };
        (rate, s.before, s.after)
    }
    fn columns(&self, n: i64, m: i64) -> i64 {
        n.min(m).min(self.options.matrix_approximation_rank)
    }
}

/// Columns of a batch of matrices become orthonormal, in place.
fn orthogonalize(matrices: &Tensor, epsilon: f64) -> Result<()> {
    let columns = matrices.sizes()[2];
    let half = matches!(matrices.dtype(), DType::F16 | DType::BF16);
    if columns > 2 && !half {
        let (q, _) = flambeau_linalg::ops::linalg_qr(matrices, "reduced")?;
        return ops::copy_(matrices, &q, false);
    }
    for i in 0..columns {
        let column = ops::narrow(matrices, 2, i, 1)?;
        let mut length = ops::linalg_vector_norm(&column, Scalar::from(2.0), Some(&[1]), true, None)?;
        if epsilon != 0.0 {
            length = ops::add(&length, &Tensor::wrapped_raw(epsilon)?, Scalar::from(1i64))?;
        }
        ops::div_(&column, &length)?;
        if i + 1 < columns {
            let rest = ops::narrow(matrices, 2, i + 1, columns - i - 1)?;
            let along = ops::sum(&ops::mul(&column, &rest)?, Some(&[1]), true, None)?;
            ops::sub_(&rest, &ops::mul(&along, &column)?, Scalar::from(1i64))?;
        }
    }
    Ok(())
}
/// As numpy's `RandomState.randint(1_000_000_000)` draws from the same generator: 30 bits, again until they are below.
fn drawn(g: &Generator) -> Result<u64> {
    loop {
        let t = Tensor::empty_raw(&[1], DType::I32, Device::Cpu)?;
        // 31 bits of a word of the generator, of which the lower 30 count
        ops::random_(&t, Some(g))?;
        let bits = t.try_item::<i32>()? as u64 & 0x3fff_ffff;
        if bits < 1_000_000_000 {
            return Ok(bits);
        }
    }
}

/// A batch of matrices and its two thin ones.
struct Thin {
    matrices: Tensor,
    p: Tensor,
    q: Tensor,
    /// gradients that a batch was put together of
    parts: Vec<Tensor>,
}

impl CommHook for PowerSgdHook {
    fn run(&self, bucket: &GradBucket) -> Result<Future<Tensor>> {
        let o = &self.options;
        let group = group_or_world(&o.process_group)?;
        let input = bucket.buffer().clone();
        let mut s = self.state.lock();
        if s.step < o.start_power_sgd_iter {
            s.step += i64::from(bucket.is_last());
            return begin_average(&group, &input);
        }
        let index = bucket.index();
        let mut kept = None;
        if o.use_error_feedback {
            match s.errors.get(&index) {
                Some(e) => ops::add_(&input, e, Scalar::from(1i64))?,
                None => {
                    let zeros = Tensor::zeros_raw(input.sizes(), input.dtype(), Device::Cpu)?;
                    s.errors.insert(index, zeros);
                }
            }
            kept = Some(ops::clone(&input, None)?);
        }
        let (mut small, mut shapes): (Vec<Tensor>, Vec<(Vec<i64>, Vec<Tensor>)>) = (Vec::new(), Vec::new());
        let (mut p_size, mut q_size) = (0, 0);
        for g in bucket.gradients()? {
            let rows = g.sizes().first().copied().unwrap_or(1);
            let m = ops::view(&g, &[rows, g.numel() / rows.max(1)])?;
            let (n, k) = (m.sizes()[0], m.sizes()[1]);
            let r = self.columns(n, k);
            let (whole, thin) = (n * k, (n + k) * r);
            s.before += whole;
            if thin as f64 * o.min_compression_rate < whole as f64 {
                s.after += thin;
                p_size += n * r;
                q_size += k * r;
                match shapes.iter_mut().find(|x| x.0 == m.sizes()) {
                    Some(x) => x.1.push(m),
                    None => shapes.push((m.sizes().to_vec(), vec![m])),
                }
            } else {
                s.after += whole;
                small.push(ops::view(&g, &[g.numel()])?);
            }
        }
        let flat = if small.is_empty() {
            Tensor::zeros_raw(&[0], input.dtype(), Device::Cpu)?
        } else {
            ops::cat(&small, 0)?
        };
        let fresh = !o.warm_start || !s.thin.contains_key(&index);
        if fresh {
            let space = |n| Tensor::zeros_raw(&[n], input.dtype(), Device::Cpu);
            let pair = (space(p_size)?, space(q_size)?);
            s.thin.insert(index, pair);
        }
        let Some((all_p, all_q)) = s.thin.get(&index).cloned() else { return Ok(Future::ready(input)) };
        let (mut work, mut p_at, mut q_at) = (Vec::new(), 0, 0);
        for (sizes, list) in shapes {
            let batches: Vec<(Tensor, Vec<Tensor>)> = if o.batch_tensors_with_same_shape && list.len() > 1 {
                vec![(ops::stack(&list, 0)?, list)]
            } else {
                list.iter().map(|m| Ok((ops::unsqueeze(m, 0)?, Vec::new()))).collect::<Result<_>>()?
            };
            for (matrices, parts) in batches {
                let (b, n, m) = (matrices.sizes()[0], sizes[0], sizes[1]);
                let r = self.columns(n, m);
                let p = ops::view(&ops::narrow(&all_p, 0, p_at, b * n * r)?, &[b, n, r])?;
                let q = ops::view(&ops::narrow(&all_q, 0, q_at, b * m * r)?, &[b, m, r])?;
                p_at += b * n * r;
                q_at += b * m * r;
                work.push(Thin { matrices, p, q, parts });
            }
        }
        if fresh {
            let g = Generator::new();
            g.manual_seed(drawn(&s.random)?);
            for w in &work {
                let r = ops::randn(w.q.sizes(), Some(&g), Some(w.q.dtype()), None, None, None)?;
                ops::copy_(&w.q, &r, false)?;
                orthogonalize(&w.q, o.orthogonalization_epsilon)?;
            }
        } else {
            work.iter().try_for_each(|w| orthogonalize(&w.q, o.orthogonalization_epsilon))?;
        }
        for w in &work {
            ops::copy_(&w.p, &ops::bmm(&w.matrices, &w.q)?, false)?;
        }
        sum_now(&group, &flat)?;
        divide(&flat, group.size())?;
        let mut at = 0;
        for t in &small {
            ops::copy_(t, &ops::narrow(&flat, 0, at, t.numel())?, false)?;
            at += t.numel();
        }
        sum_now(&group, &all_p)?;
        for w in &work {
            orthogonalize(&w.p, o.orthogonalization_epsilon)?;
            ops::copy_(&w.q, &ops::bmm(&ops::transpose(&w.matrices, 1, 2)?, &w.p)?, false)?;
        }
        sum_now(&group, &all_q)?;
        divide(&all_q, group.size())?;
        for w in &work {
            ops::copy_(&w.matrices, &ops::bmm(&w.p, &ops::transpose(&w.q, 1, 2)?)?, false)?;
            for (i, t) in w.parts.iter().enumerate() {
                ops::copy_(t, &ops::select(&w.matrices, 0, i as i64)?, false)?;
            }
        }
        if let Some(k) = kept {
            s.errors.insert(index, ops::sub(&k, &input, Scalar::from(1i64))?);
        }
        if !o.warm_start {
            s.thin.clear();
        }
        s.step += i64::from(bucket.is_last());
        Ok(Future::ready(input))
    }
}
