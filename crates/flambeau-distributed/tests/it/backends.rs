//! Engines of a program's own; parts of groups; calls that run as one.

use flambeau_core::api::literal::tensor;
use flambeau_core::{ErrorKind, Result, Tensor};
use flambeau_distributed as dist;
use flambeau_distributed::{
    Backend, BackendArguments, CollectiveBackend, CollectiveOptions, HashStore, InitProcessGroupOptions,
    MessageOptions, NewGroupOptions, ReduceOp, ReduceOptions, ShrinkGroupOptions, SplitGroupOptions, Store,
    Work, World, run_in_threads,
};
use flambeau_futures::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Sends everything through the store: slow, and short.
struct ThroughStore {
    a: BackendArguments,
    next: AtomicUsize,
}
impl ThroughStore {
    fn make(a: &BackendArguments) -> Result<Arc<dyn CollectiveBackend>> {
        Ok(Arc::new(ThroughStore { a: a.clone(), next: AtomicUsize::new(0) }))
    }
    /// What all ranks have, in their order.
    fn exchange(&self, t: &Tensor) -> Result<Vec<Vec<f64>>> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let words: Vec<u8> = t.to_vec::<f64>().iter().flat_map(|x| x.to_le_bytes()).collect();
        self.a.store.set(&format!("{n}/{}", self.a.rank), &words)?;
        let read = |r| -> Result<Vec<f64>> {
            let b = self.a.store.get(&format!("{n}/{r}"))?;
            Ok(b.as_chunks::<8>().0.iter().map(|c| f64::from_le_bytes(*c)).collect())
        };
        (0..self.a.size).map(read).collect()
    }
}
fn put(t: &Tensor, v: Vec<f64>) {
    flambeau_autograd::no_grad(|| {
        t.copy_(&Tensor::from_vec(v, t.sizes()));
    });
}
impl CollectiveBackend for ThroughStore {
    fn name(&self) -> &str {
        "through_store"
    }
    fn all_reduce(&self, t: &Tensor, op: ReduceOp) -> Result<Work> {
        assert_eq!(op, ReduceOp::Sum);
        let all = self.exchange(t)?;
        put(t, (0..all[0].len()).map(|i| all.iter().map(|v| v[i]).sum()).collect());
        let done = Future::new();
        let work = Work::from_future(&done);
        let written = vec![t.clone()];
        std::thread::spawn(move || done.set_result(written).unwrap());
        Ok(work)
    }
    fn broadcast(&self, t: &Tensor, root: usize) -> Result<Work> {
        put(t, self.exchange(t)?.swap_remove(root));
        Ok(Work::completed(vec![t.clone()]))
    }
    fn send(&self, t: &Tensor, to: usize, tag: i64) -> Result<Work> {
        self.a.store.set(&format!("to {to} {tag}"), &t.item::<f64>().to_le_bytes())?;
        Ok(Work::completed(Vec::new()))
    }
    fn recv(&self, t: &Tensor, _: usize, tag: i64) -> Result<Work> {
        let b = self.a.store.get(&format!("to {} {tag}", self.a.rank))?;
        put(t, vec![f64::from_le_bytes(b.try_into().unwrap())]);
        Ok(Work::completed(vec![t.clone()]))
    }
    fn shrink(&self, without: &[usize], _: bool) -> Result<Arc<dyn CollectiveBackend>> {
        let mut a = self.a.clone();
        a.size -= without.len();
        a.rank -= without.iter().filter(|r| **r < self.a.rank).count();
        a.store = Arc::new(dist::PrefixStore::new("shrunk", a.store));
        Self::make(&a)
    }
}

/// Ranks as threads whose default group has this engine.
fn with_backend<R: Send>(backend: &str, size: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let store = HashStore::new();
    std::thread::scope(|scope| {
        let one = |rank: usize| {
            let (store, f) = (store.clone(), &f);
            scope.spawn(move || {
                World::with_env([("GLOO_SOCKET_IFNAME".to_owned(), "lo".to_owned())]).enter(|| {
                    let o = InitProcessGroupOptions::new().store(Arc::new(store) as Arc<dyn Store>);
                    dist::init_process_group_with(backend, o.rank(rank as i64).world_size(size as i64));
                    let r = f(rank);
                    dist::destroy_process_group();
                    r
                })
            })
        };
        let all: Vec<_> = (0..size).map(one).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

#[test]
fn a_program_brings_its_own_engine() {
    Backend::register_backend("Through_Store", ThroughStore::make, &["cpu"]).unwrap();
    assert!(dist::is_backend_available("through_store"));
    let all = with_backend("through_store", 3, |rank| {
        let t = tensor([rank as f64, 1.0]);
        dist::all_reduce(&t);
        let w = dist::all_reduce_with(&t, ReduceOptions::new().async_op(true));
        w.wait();
        assert_eq!(w.result()[0].sizes(), [2]);
        dist::broadcast(&t, 1);
        let e = dist::try_barrier(CollectiveOptions::new()).unwrap_err();
        assert_eq!(e.message(), "Backend through_store does not support barrier");
        let e = dist::try_monitored_barrier(dist::MonitoredBarrierOptions::new()).unwrap_err();
        assert_eq!(e.message(), "monitored_barrier is only implemented for GLOO backend.");
        let one = tensor([rank as f64 + 5.0]);
        match rank {
            0 => dist::send_with(&one, 2, MessageOptions::new().tag(4)),
            2 => assert_eq!(dist::recv_with(&one, Some(0.into()), MessageOptions::new().tag(4)), 0),
            _ => {}
        }
        // a group of its own has an engine of its own
        let pair = dist::new_group(&[0, 2]);
        let u = tensor([rank as f64]);
        dist::all_reduce_with(&u, ReduceOptions::new().group(&pair));
        assert_eq!(dist::get_backend(), "through_store");
        (t.to_vec::<f64>(), one.item::<f64>(), u.item::<f64>())
    });
    assert_eq!(all[0].0, [9.0, 9.0]);
    assert_eq!((all[2].1, all[0].2, all[1].2, all[2].2), (5.0, 2.0, 1.0, 2.0));
    for bad in ["gloo", "a:b", ""] {
        assert!(Backend::register_backend(bad, ThroughStore::make, &["cpu"]).is_err());
    }
    assert!(Backend::register_backend("x", ThroughStore::make, &[]).is_err());
}

#[test]
fn gloo_and_an_engine_of_the_program_stand_side_by_side() {
    Backend::register_backend("beside", ThroughStore::make, &["meta"]).unwrap();
    with_backend("cpu:gloo,meta:beside", 2, |rank| {
        let t = tensor([rank as f64]);
        dist::all_reduce(&t);
        assert_eq!(t.item::<f64>(), 1.0);
        let e = dist::try_gather(
            &Tensor::from_vec(vec![0.0], [1]).to(flambeau_core::Device::Meta),
            dist::GatherOptions::new(),
        );
        assert_eq!(e.unwrap_err().message(), "Backend through_store does not support gather");
    });
}

#[test]
fn a_group_without_some_of_its_ranks() {
    Backend::register_backend("shrinks", ThroughStore::make, &["cpu"]).unwrap();
    with_backend("shrinks", 3, |rank| {
        let o = ShrinkGroupOptions::new;
        for (bad, text) in [
            (&[][..], "ranks_to_exclude cannot be empty"),
            (&[3], "Rank 3 at index 0 is out of bounds for group size 3."),
            (&[0, 0], "Duplicate rank 0 found in ranks_to_exclude at index 1."),
            (&[0, 1, 2], "Cannot exclude all 3 ranks from process group."),
            (&[rank as i64], "is in the exclusion list and should not call shrink_group()."),
        ] {
            let e = dist::try_shrink_group(bad, o()).unwrap_err();
            assert!(e.message().contains(text), "{e}");
        }
        if rank != 1 {
            let g = dist::shrink_group(&[1]);
            assert_eq!((g.size(), g.rank(), g.ranks()), (2, rank as i64 / 2, &[0, 2][..]));
            assert_eq!(g.group_desc(), "default:shrunken");
            let t = tensor([rank as f64]);
            dist::all_reduce(&t);
            assert_eq!((t.item::<f64>(), dist::get_world_size()), (2.0, 2));
        }
    });
    run_in_threads(2, |_| {
        let e = dist::try_shrink_group(&[1], ShrinkGroupOptions::new()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Type);
        assert_eq!(e.message(), "Process group backend for '0' does not support shrinking operations.");
    });
}

#[test]
fn parts_of_a_group_are_groups() {
    run_in_threads(4, |rank| {
        let o = SplitGroupOptions::new;
        let part = dist::split_group(&[vec![2, 0], vec![1]]);
        assert_eq!(part.is_member(), rank != 3);
        if rank == 2 {
            assert_eq!(
                (part.rank(), part.ranks(), part.group_desc()),
                (0, &[2, 0][..], "default_pg:split:0")
            );
        }
        let odd = dist::try_new_group(&[1, 3], NewGroupOptions::new()).unwrap();
        if rank % 2 == 1 {
            // ranks of the list are those in the group
            let one = dist::split_group_with(&[vec![1]], o().group(&odd).backend("gloo"));
            assert_eq!((one.is_member(), one.ranks()), (rank == 3, &[3][..]));
        }
        for (lists, o, text) in [
            (vec![], o(), "split_ranks cannot be None or empty"),
            (vec![vec![]], o(), "the split group cannot be empty"),
            (vec![vec![0, 0]], o(), "the split group cannot have duplicate ranks"),
            (vec![vec![0, 4]], o(), "are not all in a group of 4"),
            (
                vec![vec![0]],
                o().backend("nccl"),
                "Requested backend 'nccl' is not present in the parent process group (parent backends: {'cpu': 'gloo', 'cuda': 'gloo'})",
            ),
            (vec![vec![0]], o().backend("cpu:mine"), "Backend mismatch for device 'cpu': parent has 'gloo'"),
            (vec![vec![0]], o().backend("xpu:gloo"), "Requested backend for device 'xpu' is not present"),
        ] {
            let e = dist::try_split_group(&lists, o).unwrap_err();
            assert!(e.kind() == ErrorKind::Value && e.message().contains(text), "{e}");
        }
    });
}

#[test]
fn several_calls_run_as_one() {
    let all = run_in_threads(2, |rank| {
        let (a, b) = (tensor([rank as f64]), tensor([1.0, 2.0]));
        let o = || CollectiveOptions::new().async_op(true);
        let w = dist::coalescing_manager_with(
            || {
                dist::all_reduce(&a);
                let inner = dist::all_reduce_with(&b, ReduceOptions::new().async_op(true));
                let e = inner.try_wait().unwrap_err();
                assert_eq!(e.message(), "Illegal to call wait on IllegalWork object");
            },
            o(),
        );
        w.wait();
        let last = World::current().recorded().pop().unwrap();
        assert_eq!((&*last.operation, last.sizes), ("all_reduce_coalesced", vec![vec![1], vec![2]]));
        let (out, outs) = (tensor([0.0, 0.0]), tensor([0.0, 0.0, 0.0, 0.0]));
        dist::coalescing_manager(|| {
            dist::all_gather_into_tensor(&out, &a);
            dist::all_gather_into_tensor(&outs, &b);
        });
        let (part, parts) = (tensor([0.0]), tensor([0.0, 0.0]));
        dist::coalescing_manager(|| {
            dist::reduce_scatter_tensor(&part, &out);
            dist::reduce_scatter_tensor(&parts, &outs);
        });
        // different operations, different reductions
        let e = dist::try_coalescing_manager(
            || {
                dist::all_reduce(&a);
                dist::all_gather_into_tensor(&out, &a);
            },
            CollectiveOptions::new(),
        );
        assert!(
            e.unwrap_err()
                .message()
                .starts_with("Coalescing manager requires all collectives to be the same type")
        );
        let mixed = || {
            dist::all_reduce(&a);
            dist::all_reduce_with(&b, ReduceOptions::new().op(ReduceOp::Max));
        };
        assert!(dist::try_coalescing_manager(mixed, CollectiveOptions::new()).is_err());
        // what was noted is forgotten, and calls run again as they come
        dist::all_reduce(&a);
        [a, b, out, outs, part, parts].map(|t| t.to_vec::<f64>())
    });
    let want =
        [vec![2.0], vec![2.0, 4.0], vec![1.0, 1.0], vec![2.0, 4.0, 2.0, 4.0], vec![2.0], vec![4.0, 8.0]];
    assert_eq!(all, [want.clone(), want]);
}
