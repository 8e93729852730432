//! Averages gradients while backward runs.

use super::bucket::{CommHook, GradBucket};
use super::buckets::{Item, assign};
use super::{DistributedDataParallelOptions, broadcast_coalesced, first_limits, limits};
use crate::bytes;
use crate::collectives::all_reduce_where_it_lies;
use crate::group::ProcessGroup;
use crate::sync::Monitor;
use crate::work::Work;
use crate::{CollectiveOptions, Peer, ReduceOptions, try_all_reduce, try_broadcast};
use flambeau_autograd::{GradFn, RemovableHandle, TensorAutogradExt as _, is_grad_enabled};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Error, Result, Tensor, ensure, ops};
use flambeau_futures::Future;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

pub(super) struct Reducer {
    group: ProcessGroup,
    params: Vec<Tensor>,
    buffers: Vec<Tensor>,
    broadcast_buffers: bool,
    find_unused: bool,
    as_views: bool,
    static_graph: bool,
    /// buckets of which nothing was used stay here
    skips_unused: bool,
    limits: Vec<usize>,
    /// parameters whose gradients are sparse
    sparse: Vec<bool>,
    state: Monitor<State>,
    hook: OnceLock<Box<dyn CommHook>>,
}
#[derive(Default)]
struct State {
    buckets: Vec<Bucket>,
    /// in which order gradients came in the first backward
    order: Vec<usize>,
    rebuilt: bool,
    sync: bool,
    /// the next forward brings the buffers together: the last one prepared a backward that brought gradients together
    buffers_due: bool,
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
    /// how many ranks still have inputs, where gradients are divided by that
    present: Option<(Work, Tensor)>,
    divisor: Option<f64>,
    first_sizes: Vec<usize>,
    unused_bytes: usize,
    /// which parameters anybody uses, asked before the buckets of a static graph go
    asked: Option<(Work, Tensor)>,
    /// what the first backward of a static graph has found
    anybody: Option<Vec<bool>>,
}
struct Bucket {
    members: Vec<usize>,
    missing: usize,
    /// memory for the gradients, from one backward to the next where nobody else keeps it
    memory: Option<Tensor>,
}
struct Flight {
    bucket: GradBucket,
    members: Vec<usize>,
    done: Future<Tensor>,
}
impl State {
    fn used_any(&self, members: &[usize]) -> bool {
        members.iter().any(|i| self.used.get(*i).copied().unwrap_or(false))
    }
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
        sparse: Vec<bool>,
        buffers: Vec<Tensor>,
        o: &DistributedDataParallelOptions,
    ) -> Result<Arc<Reducer>> {
        let limits = limits(o);
        let mut buckets = assign(&items(&params, &sparse, None), &first_limits(o, &limits), None);
        buckets.reverse();
        let mut state = State { sync: true, buffers_due: true, buckets: opened(buckets), ..State::default() };
        state.first_sizes = sizes(&params, &state.buckets);
        let r = Arc::new(Reducer {
            group,
            params,
            buffers,
            broadcast_buffers: o.broadcast_buffers,
            find_unused: o.find_unused_parameters,
            as_views: o.gradient_as_bucket_view,
            static_graph: o.static_graph,
            skips_unused: o.skip_all_reduce_unused_params,
            limits,
            sparse,
            state: Monitor::new(state),
            hook: OnceLock::new(),
        });
        let mut hooks = Vec::new();
        for (i, p) in r.params.iter().enumerate() {
            let weak: Weak<Reducer> = Arc::downgrade(&r);
            hooks.push(p.register_fallible_post_accumulate_grad_hook(move |_| match weak.upgrade() {
                Some(r) => r.came(i),
                None => Ok(()),
            })?);
        }
        r.state.lock().hooks = hooks;
        Ok(r)
    }
    /// A further hook that lasts as long as this.
    pub(super) fn keep(&self, hook: RemovableHandle) {
        self.state.lock().hooks.push(hook);
    }
    pub(super) fn group(&self) -> &ProcessGroup {
        &self.group
    }
    pub(super) fn set_hook(&self, hook: Box<dyn CommHook>) -> Result<()> {
        ensure!(
            self.hook.set(hook).is_ok(),
            Runtime,
            "register_comm_hook or register_builtin_comm_hook can only be called once."
        );
        Ok(())
    }
    /// Bytes of parameters that were not used in the backward before the last forward.
    pub(super) fn unused_bytes(&self) -> usize {
        self.state.lock().unused_bytes
    }
    /// Bytes of the first buckets, of those that were made later, and whether they were.
    pub(super) fn bucket_sizes(&self) -> (Vec<usize>, Vec<usize>, bool) {
        let s = self.state.lock();
        let now = if s.rebuilt { sizes(&self.params, &s.buckets) } else { Vec::new() };
        (s.first_sizes.clone(), now, s.rebuilt)
    }
    /// Whether the next forward brings the buffers together, of a rank that is done.
    pub(super) fn set_buffers_due(&self, due: bool) {
        self.state.lock().buffers_due = due;
    }
    pub(super) fn syncs(&self) -> bool {
        self.state.lock().sync
    }
    /// Gradients of the next backward are divided by this sum, once it is there.
    pub(super) fn divide_by(&self, present: Option<(Work, Tensor)>) {
        let mut s = self.state.lock();
        (s.present, s.divisor) = (present, None);
    }
    fn divisor(&self) -> Result<f64> {
        let present = {
            let s = self.state.lock();
            match (s.divisor, &s.present) {
                (Some(d), _) => return Ok(d),
                (None, p) => p.clone(),
            }
        };
        let d = match present {
            None => self.group.size() as f64,
            Some((work, t)) => {
                work.try_wait()?;
                f64::from(t.try_item::<f32>()?).max(1.0)
            }
        };
        self.state.lock().divisor = Some(d);
        Ok(d)
    }
    /// What a rank without inputs does in the place of a backward: takes part in all sums with zeros.
    pub(super) fn shadow(&self) -> Result<()> {
        let all: Vec<Vec<usize>> = self.state.lock().buckets.iter().map(|b| b.members.clone()).collect();
        let n = all.len();
        let mut flights = Vec::new();
        for (i, members) in all.into_iter().enumerate() {
            let bucket = self.bucket(i, n, &members, true)?;
            flights.push(self.start(&bucket)?);
        }
        flights.into_iter().try_for_each(|f| f.wait().map(drop))?;
        if self.find_unused {
            let t = Tensor::zeros_raw(&[self.params.len() as i64], DType::I32, Device::Cpu)?;
            try_all_reduce(&t, ReduceOptions::new().group(&self.group))?;
        }
        let mut s = self.state.lock();
        if !s.rebuilt && s.order.is_empty() {
            s.order = (0..self.params.len()).collect();
        }
        s.iterations += 1;
        Ok(())
    }
    /// Says whether backward passes bring gradients together, and whether they did.
    pub(super) fn set_sync(&self, on: bool) -> bool {
        std::mem::replace(&mut self.state.lock().sync, on)
    }
    fn alone<T>(&self, o: impl FnOnce(CollectiveOptions) -> Result<T>) -> Result<T> {
        o(CollectiveOptions::new().group(&self.group))
    }

    pub(super) fn before_forward(&self, joins: bool) -> Result<()> {
        if is_grad_enabled() {
            {
                let mut s = self.state.lock();
                let unused = s.used.iter().zip(&self.params).filter(|(u, _)| !**u);
                s.unused_bytes = unused.map(|(_, p)| p.numel() as usize * p.dtype().size()).sum();
            }
            self.rebuild()?;
        }
        self.sync_buffers(joins.then_some(true))
    }
    /// Brings the buffers of rank 0 to all; where ranks may be done, those of the largest one that is not.
    pub(super) fn sync_buffers(&self, offers: Option<bool>) -> Result<()> {
        if self.state.lock().buffers_due && self.broadcast_buffers && !self.buffers.is_empty() {
            let all: Vec<Tensor> = self.buffers.iter().map(|t| t.alias_detached()).collect();
            let from = match offers {
                None => 0,
                Some(o) => super::uneven::common_rank(&self.group, o)?,
            };
            broadcast_coalesced(&all, &self.group, from)?;
        }
        Ok(())
    }
    pub(super) fn after_forward(&self, roots: &[Tensor]) -> Result<()> {
        let look = {
            let mut s = self.state.lock();
            s.buffers_due = is_grad_enabled() && s.sync;
            if !s.buffers_due {
                s.expecting = false;
                return Ok(());
            }
            let unfinished = s.expecting && s.ready.iter().any(|r| *r) && !s.ready.iter().all(|r| *r);
            if unfinished {
                let missing: Vec<usize> = (0..s.ready.len()).filter(|i| !s.ready[*i]).collect();
                return Err(self.unfinished(&missing));
            }
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
    fn unfinished(&self, missing: &[usize]) -> Error {
        let shown: Vec<String> = missing.iter().map(usize::to_string).collect();
        let ask = if self.find_unused {
            "Since `find_unused_parameters=True` is enabled, this likely  means that not all `forward` outputs participate in computing loss. You can fix this by "
        } else {
            "You can enable unused parameter detection by passing the keyword argument `find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by \n"
        };
        Error::runtime(format!(
            "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has parameters that were not used in producing loss. {ask}making sure all `forward` function outputs participate in calculating loss. \nIf you already have done the above, then the distributed data parallel module wasn't able to locate the output tensors in the return value of your module's `forward` function. Please include the loss function and the structure of the return value of `forward` of your module when reporting this issue (e.g. list, dict, iterable).\nParameter indices which did not receive grad for rank {}: {}\n In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to print out information about which particular parameters did not receive gradient on this rank as part of this error",
            self.group.rank(),
            shown.join(" ")
        ))
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
        let (launch, n) = {
            let mut s = self.state.lock();
            s.ready[i] = true;
            if let Some(b) = s.buckets.iter_mut().find(|b| b.members.contains(&i)) {
                b.missing -= 1;
            }
            let mut launch = Vec::new();
            // the first backward of a static graph learns what is used before anything goes
            let waits = self.static_graph && s.iterations == 1 && s.ready.iter().any(|r| !r);
            while let Some(b) = s.buckets.get(s.next)
                && b.missing == 0
                && !waits
            {
                launch.push((s.next, b.members.clone()));
                s.next += 1;
            }
            (launch, s.buckets.len())
        };
        if self.static_graph && !launch.is_empty() && self.state.lock().iterations == 1 {
            let asked = self.ask()?;
            self.state.lock().asked = Some(asked);
        }
        for (index, members) in launch {
            if self.skips_unused && !self.state.lock().used_any(&members) {
                continue;
            }
            let bucket = self.bucket(index, n, &members, false)?;
            let done = self.start(&bucket)?;
            self.state.lock().flying.push(Flight { bucket, members, done });
        }
        let done = {
            let s = self.state.lock();
            s.next == s.buckets.len() && s.expecting && s.ready.iter().all(|r| *r)
        };
        if done { self.finish() } else { Ok(()) }
    }
    /// Begins to count for each parameter which ranks have used it.
    fn ask(&self) -> Result<(Work, Tensor)> {
        let mine: Vec<i32> = self.state.lock().used.iter().map(|u| i32::from(*u)).collect();
        let t = Tensor::from_vec_raw(mine, &[self.params.len() as i64])?;
        let o = ReduceOptions::new().group(&self.group).async_op(true);
        Ok((try_all_reduce(&t, o)?, t))
    }
    /// A bucket with its gradients, or with zeros: undivided for a hook, else divided by the number of ranks.
    fn bucket(&self, index: usize, n: usize, members: &[usize], zeros: bool) -> Result<GradBucket> {
        let used = self.state.lock().used.clone();
        let scale = if self.hook.get().is_some() { None } else { Some(self.divisor()?) };
        let scaled = |t: Tensor| match scale {
            Some(d) => ops::mul(&t, &Tensor::wrapped_raw(1.0 / d)?),
            None => Ok(t),
        };
        let parameters: Vec<Tensor> = members.iter().map(|i| self.params[*i].clone()).collect();
        let sparse = members.len() == 1 && self.sparse[members[0]];
        let grad = |i: usize| {
            let g = self.params[i].grad().filter(|_| !zeros && used.get(i).copied().unwrap_or(false));
            g.map(|g| g.alias_detached())
        };
        let buffer = if sparse {
            let p = &parameters[0];
            match grad(members[0]) {
                Some(g) => scaled(ops::clone(&g, None)?)?,
                None => {
                    let at = Tensor::zeros_raw(&[1, 0], DType::I64, Device::Cpu)?;
                    let row = [&[0], &p.sizes()[1..]].concat();
                    let none = Tensor::zeros_raw(&row, p.dtype(), Device::Cpu)?;
                    flambeau_sparse::ops::sparse_coo_tensor_unsafe(&at, &none, p.sizes(), None)?
                }
            }
        } else {
            let whole: i64 = parameters.iter().map(|p| p.numel()).sum();
            let kept = {
                let mut s = self.state.lock();
                s.buckets.get_mut(index).and_then(|b| b.memory.take()).filter(|t| t.numel() == whole)
            };
            let all = match kept {
                Some(t) => t,
                None => Tensor::empty_raw(&[whole], parameters[0].dtype(), Device::Cpu)?,
            };
            let factor = scale.map(|d| Tensor::wrapped_raw(1.0 / d)).transpose()?;
            let mut at = 0;
            for (i, p) in members.iter().zip(&parameters) {
                let mut mine = ops::view(&ops::narrow(&all, 0, at, p.numel())?, p.sizes())?;
                at += p.numel();
                match (grad(*i), &factor) {
                    (Some(g), Some(f)) => ops::mul_out(&g, f, &mut mine)?,
                    (Some(g), None) => ops::copy_(&mine, &g, false)?,
                    (None, _) => ops::zero_(&mine)?,
                }
            }
            all
        };
        Ok(GradBucket { index, buffer, parameters, is_last: index + 1 == n, sparse })
    }
    /// Sends a bucket on its way.
    fn start(&self, bucket: &GradBucket) -> Result<Future<Tensor>> {
        if let Some(h) = self.hook.get() {
            return flambeau_autograd::no_grad(|| h.run(bucket));
        }
        let flat = bucket.buffer.clone();
        let work = all_reduce_where_it_lies(&flat, &self.group)?;
        Ok(work.get_future().then(move |f| f.wait().map(|_| flat)))
    }
    /// All gradients have come: waits for the sums and gives each parameter its own.
    fn finish(&self) -> Result<()> {
        let (flying, asked, known) = {
            let mut s = self.state.lock();
            s.expecting = false;
            (std::mem::take(&mut s.flying), s.asked.take(), s.anybody.clone())
        };
        let asked =
            if self.find_unused && asked.is_none() && !self.static_graph { Some(self.ask()?) } else { asked };
        // used by whom? a parameter that nobody has used keeps its gradient
        let mut anybody = known.unwrap_or_else(|| vec![true; self.params.len()]);
        let mut results = Vec::new();
        for f in &flying {
            results.push(plain(f.done.wait())?);
        }
        if let Some((work, t)) = asked {
            work.try_wait()?;
            let all = bytes::read(&t)?;
            for (a, n) in anybody.iter_mut().zip(all.as_chunks::<4>().0) {
                *a = i32::from_le_bytes(*n) > 0;
            }
            if self.static_graph {
                self.state.lock().anybody = Some(anybody.clone());
            }
        }
        for (f, got) in flying.into_iter().zip(results) {
            if f.bucket.sparse {
                let i = f.members[0];
                if anybody[i] {
                    self.params[i].try_set_grad(Some(got.alias_detached()))?;
                }
                continue;
            }
            // a hook may give another tensor than the buffer
            let mut at = 0;
            for i in f.members.iter().copied() {
                let p = &self.params[i];
                let n = p.numel();
                let strides = p.strides().to_vec();
                let mine = ops::narrow(&got, 0, at, n)?;
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
            if !self.as_views
                && self.hook.get().is_none()
                && let Some(b) = self.state.lock().buckets.get_mut(f.bucket.index)
            {
                b.memory = Some(f.bucket.buffer);
            }
        }
        Ok(())
    }
    /// Puts gradients into buckets in the order in which rank 0 has seen them come, once.
    pub(super) fn rebuild(&self) -> Result<()> {
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
        let made = assign(&items(&self.params, &self.sparse, Some(&order)), &self.limits, Some(&order));
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
fn items(params: &[Tensor], sparse: &[bool], order: Option<&[usize]>) -> Vec<Item> {
    let one = |i: usize| {
        let t = &params[i];
        Item { bytes: t.numel() as usize * t.dtype().size(), dtype: t.dtype(), sparse: sparse[i] }
    };
    match order {
        Some(o) => o.iter().map(|i| one(*i)).collect(),
        None => (0..params.len()).map(one).collect(),
    }
}
fn sizes(params: &[Tensor], buckets: &[Bucket]) -> Vec<usize> {
    let bytes = |i: &usize| params[*i].numel() as usize * params[*i].dtype().size();
    buckets.iter().map(|b| b.members.iter().map(bytes).sum()).collect()
}
/// The error itself, without what a chain of futures says before it.
fn plain(r: Result<Tensor>) -> Result<Tensor> {
    const SAID: &str = "Got the following error when running the callback: RuntimeError: ";
    r.map_err(|e| match e.message().strip_prefix(SAID) {
        Some(rest) => Error::runtime(rest.to_owned()),
        None => e,
    })
}
fn opened(buckets: Vec<(Vec<usize>, usize)>) -> Vec<Bucket> {
    buckets.into_iter().map(|(members, _)| Bucket { missing: members.len(), members, memory: None }).collect()
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
