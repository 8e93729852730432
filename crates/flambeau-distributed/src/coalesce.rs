//! Calls that are put together and run as one.

use crate::group::ProcessGroup;
use crate::reduce_op::ReduceOp;
use crate::work::Work;
use crate::world::World;
use crate::{
    CollectiveOptions, ReduceOptions, try_all_gather_coalesced, try_all_reduce_coalesced,
    try_reduce_scatter_tensor,
};
use flambeau_core::{Result, Tensor, bail, ensure, ops};

/// A call that waits for the others.
#[derive(Clone)]
pub(crate) enum Call {
    AllReduce(Tensor, ReduceOp),
    /// output and input
    AllGather(Tensor, Tensor),
    /// output and input
    ReduceScatter(Tensor, Tensor, ReduceOp),
}
impl Call {
    fn name(&self) -> &'static str {
        match self {
            Call::AllReduce(..) => "all_reduce",
            Call::AllGather(..) => "all_gather_single",
            Call::ReduceScatter(..) => "reduce_scatter_single",
        }
    }
}
/// Whether a group's calls are put together: then this one is kept for later.
pub(crate) fn takes(g: &ProcessGroup, call: impl FnOnce() -> Call) -> Result<bool> {
    let w = World::current();
    let mut s = w.0.lock();
    let Some(open) = s.coalescing.iter_mut().find(|c| c.0.same(g)) else { return Ok(false) };
    open.1.push(call());
    Ok(true)
}

/// Runs a function, and then what it has called of a group's [`all_reduce`](crate::all_reduce),
/// [`all_gather_into_tensor`](crate::all_gather_into_tensor) or [`reduce_scatter_tensor`](crate::reduce_scatter_tensor) as one operation:
/// several small tensors take the time of one. The calls themselves do nothing but be noted, and what they return cannot be waited for; other
/// operations run as they are called.
///
/// ```
/// use torch::distributed::{self, CollectiveOptions, coalescing_manager, run_in_threads};
///
/// let sums = run_in_threads(2, |rank| {
///     let all: Vec<_> = (0..3).map(|i| torch::tensor([(rank + i) as f64])).collect();
///     coalescing_manager(|| all.iter().for_each(|t| drop(distributed::all_reduce(t))));
///     all.iter().map(|t| t.item::<f64>()).collect::<Vec<_>>()
/// });
/// assert_eq!(sums, [[1.0, 3.0, 5.0], [1.0, 3.0, 5.0]]);
/// ```
///
/// # Errors
/// Calls of different operations or reductions; a group whose calls are put together already; those of the operation.
#[doc(alias = "torch.distributed._coalescing_manager")]
#[flambeau_macros::short(with)]
pub fn try_coalescing_manager(f: impl FnOnce(), options: CollectiveOptions) -> Result<Work> {
    /// Takes what was noted, however the function ends.
    struct Open<'a>(&'a World, ProcessGroup);
    impl Open<'_> {
        fn take(&self) -> Vec<Call> {
            let mut s = self.0.0.lock();
            let at = s.coalescing.iter().position(|c| c.0.same(&self.1));
            at.map_or(Vec::new(), |i| s.coalescing.remove(i).1)
        }
    }
    impl Drop for Open<'_> {
        fn drop(&mut self) {
            drop(self.take());
        }
    }
    let w = World::current();
    let g = match &options.group {
        Some(g) => g.clone(),
        None => w.default_group()?,
    };
    {
        let mut s = w.0.lock();
        ensure!(
            !s.coalescing.iter().any(|c| c.0.same(&g)),
            Value,
            "ProcessGroup has non-empty op list at the start of coalescing"
        );
        s.coalescing.push((g.clone(), Vec::new()));
    }
    let open = Open(&w, g.clone());
    f();
    let calls = open.take();
    let Some(first) = calls.first() else { return Ok(Work::ended(Vec::new())) };
    if let Some(other) = calls.iter().find(|c| c.name() != first.name()) {
        bail!(
            Runtime,
            "Coalescing manager requires all collectives to be the same type, but got mixed types: {{'{}', '{}'}}",
            first.name(),
            other.name()
        );
    }
    let (mut ops_, mut outs, mut ins) = (Vec::new(), Vec::new(), Vec::new());
    for c in calls {
        match c {
            Call::AllReduce(t, op) => {
                ops_.push(op);
                ins.push(t);
            }
            Call::AllGather(out, t) => {
                outs.push(out);
                ins.push(t);
            }
            Call::ReduceScatter(out, t, op) => {
                ops_.push(op);
                outs.push(out);
                ins.push(t);
            }
        }
    }
    // PyTorch takes the first one's reduction for all
    ensure!(ops_.windows(2).all(|p| p[0] == p[1]), Runtime, "collectives that run as one have one reduction");
    let reduce = |op| ReduceOptions::new().group(&g).op(op).async_op(options.async_op);
    let op = ops_.first().copied().unwrap_or_default();
    if outs.is_empty() {
        return try_all_reduce_coalesced(&ins, reduce(op));
    }
    if ops_.is_empty() {
        let n = g.size();
        let mut lists = vec![Vec::new(); n.max(0) as usize];
        for out in &outs {
            let rows = out.sizes().first().copied().unwrap_or(1);
            ensure!(
                rows % n.max(1) == 0,
                Runtime,
                "output tensor size must be equal to world_size times input tensor size"
            );
            for (r, l) in lists.iter_mut().enumerate() {
                l.push(ops::narrow(out, 0, r as i64 * (rows / n), rows / n)?);
            }
        }
        let o = CollectiveOptions::new().group(&g).async_op(options.async_op);
        return try_all_gather_coalesced(&lists, &ins, o);
    }
    // one sum after the other, as gloo has it, all on their way before the first is waited for
    let mut works = Vec::new();
    for (out, t) in outs.iter().zip(&ins) {
        works.push(try_reduce_scatter_tensor(out, t, reduce(op).async_op(true))?);
    }
    let all: Vec<_> = works.iter().map(Work::get_future).collect();
    let done = flambeau_futures::collect_all(&all).then(move |f| {
        let mut written = Vec::new();
        for one in f.wait()? {
            written.extend(one.wait()?);
        }
        Ok(written)
    });
    let work = Work::from_future(&done);
    if !options.async_op {
        works.iter().try_for_each(Work::try_wait)?;
        work.try_wait()?;
    }
    Ok(work)
}
