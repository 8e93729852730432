//! Averages gradients while backward runs.

use super::buckets::{Item, assign};
use super::{DistributedDataParallelOptions, broadcast_coalesced, limits};
use crate::bytes;
use crate::group::ProcessGroup;
use crate::sync::Monitor;
use crate::work::Work;
use crate::{CollectiveOptions, Peer, ReduceOptions, try_all_reduce, try_broadcast};
use flambeau_autograd::{GradFn, RemovableHandle, TensorAutogradExt as _, is_grad_enabled};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Device, Result, Tensor, ensure, ops};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Weak};

pub(super) struct Reducer {
    group: ProcessGroup,
    params: Vec<Tensor>,
    buffers: Vec<Tensor>,
    broadcast_buffers: bool,
    find_unused: bool,
    as_views: bool,
    static_graph: bool,
    limits: Vec<usize>,
    state: Monitor<State>,
}
#[derive(Default)]
struct State {
    buckets: Vec<Bucket>,
    /// in which order gradients came in the first backward
    order: Vec<usize>,
    rebuilt: bool,
    sync: bool,
    /// the last forward prepared a backward that brings gradients together
    expecting: bool,
    /// backward passes that have been prepared
    iterations: usize,
    ready: Vec<bool>,
    used: Vec<bool>,
    /// the next bucket to go
    next: usize,
    flying: Vec<Flight>,
    /// keeps the hooks
    hooks: Vec<RemovableHandle>,
}
struct Bucket {
    members: Vec<usize>,
    missing: usize,
}
struct Flight {
    members: Vec<usize>,
    flat: Tensor,
    work: Work,
}
impl fmt::Debug for Reducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reducer({} parameters)", self.params.len())
    }
}

impl Reducer {
    pub(super) fn new(
        group: ProcessGroup,
        params: Vec<Tensor>,
        buffers: Vec<Tensor>,
        o: &DistributedDataParallelOptions,
    ) -> Result<Arc<Reducer>> {
        let limits = limits(o);
        // at first all in one, as long as nobody can say in which order gradients come
        let first = if o.static_graph || !o.find_unused_parameters && o.bucket_cap_mb_list.is_none() {
            vec![usize::MAX]
        } else {
            limits.clone()
        };
        let mut buckets = assign(&items(&params, None), &first, None);
        buckets.reverse();
        let state = State { sync: true, buckets: opened(buckets), ..State::default() };
        let r = Arc::new(Reducer {
            group,
            params,
            buffers,
            broadcast_buffers: o.broadcast_buffers,
            find_unused: o.find_unused_parameters,
            as_views: o.gradient_as_bucket_view,
            static_graph: o.static_graph,
            limits,
            state: Monitor::new(state),
        });
        let mut hooks = Vec::new();
        for (i, p) in r.params.iter().enumerate() {
            let weak: Weak<Reducer> = Arc::downgrade(&r);
            hooks.push(p.register_post_accumulate_grad_hook(move |_| {
                if let Some(r) = weak.upgrade() {
                    // a hook has no way to give an error: backward ends with its text
                    flambeau_core::api::ergonomic::expect(r.came(i));
                }
            })?);
        }
        r.state.lock().hooks = hooks;
        Ok(r)
    }
    pub(super) fn group(&self) -> &ProcessGroup {
        &self.group
    }
    /// Says whether backward passes bring gradients together, and whether they did.
    pub(super) fn set_sync(&self, on: bool) -> bool {
        std::mem::replace(&mut self.state.lock().sync, on)
    }
    fn alone<T>(&self, o: impl FnOnce(CollectiveOptions) -> Result<T>) -> Result<T> {
        o(CollectiveOptions::new().group(&self.group))
    }

    pub(super) fn before_forward(&self) -> Result<()> {
        let sync = self.state.lock().sync;
        if is_grad_enabled() && sync {
            self.rebuild()?;
        }
        if sync && self.broadcast_buffers && !self.buffers.is_empty() {
            let all: Vec<Tensor> = self.buffers.iter().map(|t| t.alias_detached()).collect();
            broadcast_coalesced(&all, &self.group)?;
        }
        Ok(())
    }
    pub(super) fn after_forward(&self, roots: &[Tensor]) -> Result<()> {
        let look = {
            let mut s = self.state.lock();
            if !(is_grad_enabled() && s.sync) {
                s.expecting = false;
                return Ok(());
            }
            let unfinished = s.expecting && s.ready.iter().any(|r| *r) && !s.ready.iter().all(|r| *r);
            ensure!(
                !unfinished,
                Runtime,
                "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has parameters that were not used in producing loss. You can enable unused parameter detection by passing the keyword argument `find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by \nmaking sure all `forward` function outputs participate in calculating loss."
            );
            let n = self.params.len();
            s.expecting = true;
            s.iterations += 1;
            (s.ready, s.used, s.next) = (vec![false; n], vec![false; n], 0);
            s.flying.clear();
            s.buckets.iter_mut().for_each(|b| b.missing = b.members.len());
            self.find_unused || self.static_graph && s.iterations == 1
        };
        if look {
            let reached = reached(roots);
            for (i, p) in self.params.iter().enumerate() {
                if !reached.contains(&identity(p)) {
                    self.ready(i)?;
                }
            }
        } else if self.static_graph {
            let unused: Vec<usize> = {
                let s = self.state.lock();
                (0..self.params.len()).filter(|i| !s.order.contains(i)).collect()
            };
            unused.into_iter().try_for_each(|i| self.ready(i))?;
        }
        Ok(())
    }
    /// A gradient has come.
    fn came(&self, i: usize) -> Result<()> {
        {
            let mut s = self.state.lock();
            if !s.expecting || !s.sync || s.ready.get(i).copied().unwrap_or(true) {
                return Ok(());
            }
            s.used[i] = true;
            if !s.rebuilt && !s.order.contains(&i) {
                s.order.push(i);
            }
        }
        self.ready(i)
    }
    fn ready(&self, i: usize) -> Result<()> {
        let launch = {
            let mut s = self.state.lock();
            s.ready[i] = true;
            if let Some(b) = s.buckets.iter_mut().find(|b| b.members.contains(&i)) {
                b.missing -= 1;
            }
            let mut launch = Vec::new();
            while let Some(b) = s.buckets.get(s.next)
                && b.missing == 0
            {
                launch.push(b.members.clone());
                s.next += 1;
            }
            launch
        };
        for members in launch {
            let flight = self.launch(members)?;
            self.state.lock().flying.push(flight);
        }
        let done = {
            let s = self.state.lock();
            s.next == s.buckets.len() && !s.flying.is_empty()
        };
        if done { self.finish() } else { Ok(()) }
    }
    /// Sends a bucket's gradients on their way, divided by the number of ranks.
    fn launch(&self, members: Vec<usize>) -> Result<Flight> {
        let used = self.state.lock().used.clone();
        let scale = 1.0 / self.group.size() as f64;
        let mut parts = Vec::new();
        for i in &members {
            let p = &self.params[*i];
            parts.push(match p.grad() {
                Some(g) if used[*i] => {
                    let flat = ops::reshape(&g.alias_detached(), &[g.numel()])?;
                    ops::mul(&flat, &Tensor::wrapped_raw(scale)?)?
                }
                _ => Tensor::zeros_raw(&[p.numel()], p.dtype(), Device::Cpu)?,
            });
        }
        let flat = ops::cat(&parts, 0)?;
        let o = ReduceOptions::new().group(&self.group).async_op(true);
        let work = try_all_reduce(&flat, o)?;
        Ok(Flight { members, flat, work })
    }
    /// All gradients have come: waits for the sums and gives each parameter its own.
    fn finish(&self) -> Result<()> {
        let (flying, used, first) = {
            let mut s = self.state.lock();
            s.expecting = false;
            (std::mem::take(&mut s.flying), s.used.clone(), s.iterations == 1)
        };
        // used by whom? a parameter that nobody has used keeps its gradient
        let mut anybody = vec![true; self.params.len()];
        let ask = self.find_unused || self.static_graph && first;
        let asked = if ask {
            let mine: Vec<i32> = used.iter().map(|u| i32::from(*u)).collect();
            let t = Tensor::from_vec_raw(mine, &[self.params.len() as i64])?;
            let o = ReduceOptions::new().group(&self.group).async_op(true);
            Some((try_all_reduce(&t, o)?, t))
        } else {
            None
        };
        for f in &flying {
            f.work.try_wait()?;
        }
        if let Some((work, t)) = asked {
            work.try_wait()?;
            let all = bytes::read(&t)?;
            for (a, n) in anybody.iter_mut().zip(all.as_chunks::<4>().0) {
                *a = i32::from_le_bytes(*n) > 0;
            }
        }
        for f in flying {
            let mut at = 0;
            for i in f.members {
                let p = &self.params[i];
                let n = p.numel();
                let strides = p.strides().to_vec();
                let mine = ops::narrow(&f.flat, 0, at, n)?;
                at += n;
                if !anybody[i] {
                    continue;
                }
                let view = ops::view(&mine, p.sizes())?.alias_detached();
                match p.grad() {
                    Some(g) if !self.as_views => ops::copy_(&g.alias_detached(), &view, false)?,
                    _ if self.as_views => p.try_set_grad(Some(view))?,
                    _ => {
                        let g = Tensor::empty_strided_raw(p.sizes(), &strides, p.dtype(), Device::Cpu)?;
                        ops::copy_(&g, &view, false)?;
                        p.try_set_grad(Some(g))?;
                    }
                }
            }
        }
        Ok(())
    }
    /// Puts gradients into buckets in the order in which rank 0 has seen them come, once.
    fn rebuild(&self) -> Result<()> {
        let order = {
            let s = self.state.lock();
            let after = if self.static_graph { 2 } else { 1 };
            let due = !s.rebuilt && !self.find_unused && s.iterations >= after && !s.order.is_empty();
            if !due {
                return Ok(());
            }
            s.order.clone()
        };
        let order: Vec<usize> = if self.static_graph {
            let mut all = order.clone();
            all.extend((0..self.params.len()).filter(|i| !order.contains(i)));
            all
        } else {
            order
        };
        if order.len() != self.params.len() {
            return Ok(());
        }
        let made = assign(&items(&self.params, Some(&order)), &self.limits, Some(&order));
        let mut indices: Vec<i32> = made.iter().flat_map(|b| b.0.iter().map(|i| *i as i32)).collect();
        indices.push(made.len() as i32);
        let first = Tensor::from_vec_raw(indices.clone(), &[indices.len() as i64])?;
        self.alone(|o| try_broadcast(&first, Peer::InGroup(0), o))?;
        let indices = words(&first)?;
        let n = indices.last().copied().unwrap_or(0);
        let mut sizes: Vec<i32> = made.iter().map(|b| b.0.len() as i32).collect();
        sizes.resize(n, 0);
        let sizes = Tensor::from_vec_raw(sizes, &[n as i64])?;
        self.alone(|o| try_broadcast(&sizes, Peer::InGroup(0), o))?;
        let mut rest = &indices[..indices.len() - 1];
        let mut buckets = Vec::new();
        for n in words(&sizes)? {
            let (mine, after) = rest.split_at(n.min(rest.len()));
            buckets.push((mine.to_vec(), 0));
            rest = after;
        }
        let mut s = self.state.lock();
        s.buckets = opened(buckets);
        s.rebuilt = true;
        Ok(())
    }
}
fn words(t: &Tensor) -> Result<Vec<usize>> {
    Ok(bytes::read(t)?.as_chunks::<4>().0.iter().map(|c| i32::from_le_bytes(*c).max(0) as usize).collect())
}
fn items(params: &[Tensor], order: Option<&[usize]>) -> Vec<Item> {
    let one =
        |t: &Tensor| Item { bytes: t.numel() as usize * t.dtype().size(), dtype: t.dtype(), sparse: false };
    match order {
        Some(o) => o.iter().map(|i| one(&params[*i])).collect(),
        None => params.iter().map(one).collect(),
    }
}
fn opened(buckets: Vec<(Vec<usize>, usize)>) -> Vec<Bucket> {
    buckets.into_iter().map(|(members, _)| Bucket { missing: members.len(), members }).collect()
}
/// What one parameter is known by: its memory and where it begins.
fn identity(t: &Tensor) -> (usize, i64) {
    (t.storage().id(), t.storage_offset())
}
/// The leaves that the results come from.
fn reached(roots: &[Tensor]) -> HashSet<(usize, i64)> {
    let mut found = HashSet::new();
    let mut open: Vec<GradFn> = roots.iter().filter_map(|t| t.grad_fn()).collect();
    let mut seen: HashSet<u64> = HashSet::new();
    while let Some(f) = open.pop() {
        if let Some(leaf) = f.variable() {
            found.insert(identity(&leaf));
            continue;
        }
        if seen.insert(f.sequence_nr()) {
            open.extend(f.next_functions().into_iter().flatten().map(|n| n.0));
        }
    }
    found
}
