use crate::everywhere;
use flambeau_core::Tensor;
use flambeau_core::api::ergonomic::expect;
use flambeau_distributed::ddp::{DistributedDataParallel, DistributedDataParallelOptions, GradBucket};
use flambeau_futures::Future;
use flambeau_nn::prelude::*;
use flambeau_nn::{Buffer, Linear};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn net(seed: f64) -> Linear {
    let m = Linear::new(6, 3);
    for (i, p) in m.parameters().iter().enumerate() {
        let n = p.tensor().numel();
        let v = (0..n).map(|k| (((k * 7 + i as i64 * 3) % 11) as f64 / 11.0 - 0.5 + seed) as f32);
        let v = Tensor::from_vec(v.collect::<Vec<f32>>(), p.tensor().sizes());
        flambeau_autograd::no_grad(|| {
            p.tensor().copy_(&v);
        });
    }
    m
}
fn batch(rank: usize, rows: i64) -> Tensor {
    let v: Vec<f32> = (0..rows * 6).map(|k| ((k * 5 + rank as i64 * 13) % 17) as f32 / 17.0).collect();
    Tensor::from_vec(v, [rows, 6])
}
fn gradients(m: &dyn Module) -> Vec<Vec<f32>> {
    m.parameters().iter().map(|p| p.tensor().grad().map_or(Vec::new(), |g| g.to_vec::<f32>())).collect()
}

#[test]
fn gradients_are_those_of_all_batches() {
    let whole = net(0.0);
    let both: Vec<Tensor> = (0..2).map(|r| whole.call(&batch(r, 4)).sum()).collect();
    ((&both[0] + &both[1]) * 0.5).backward();
    let want = gradients(&whole);
    for o in [
        DistributedDataParallelOptions::new(),
        DistributedDataParallelOptions::new().bucket_cap_mb(0.00005),
        DistributedDataParallelOptions::new().find_unused_parameters(true),
        DistributedDataParallelOptions::new().static_graph(true).gradient_as_bucket_view(true),
    ] {
        let all = everywhere(2, |rank| {
            // rank 1 begins elsewhere: the constructor brings rank 0's parameters
            let d = expect(DistributedDataParallel::try_new(net(rank as f64), o.clone()));
            let mut last = Vec::new();
            for _ in 0..4 {
                d.zero_grad();
                d.call(&batch(rank, 4)).sum().backward();
                last = gradients(&d);
            }
            last
        });
        for got in &all {
            for (a, b) in got.iter().flatten().zip(want.iter().flatten()) {
                assert!((a - b).abs() < 1e-5, "{a} {b} {o:?}");
            }
        }
        assert_eq!(all[0], all[1]);
    }
}

#[test]
fn without_sync_gradients_stay() {
    let all = everywhere(2, |rank| {
        let d = DistributedDataParallel::new(net(0.0));
        d.no_sync(|| d.call(&batch(rank, 2)).sum().backward());
        let apart = gradients(&d);
        d.call(&batch(rank, 2)).sum().backward();
        (apart, gradients(&d))
    });
    assert_ne!(all[0].0, all[1].0);
    assert_eq!(all[0].1, all[1].1);
}

#[test]
fn models_that_differ_are_refused() {
    everywhere(2, |rank| {
        let o = DistributedDataParallelOptions::new();
        let e = DistributedDataParallel::try_new(Linear::new(4, 3 + rank as i64), o).err();
        if rank == 1 {
            assert!(
                e.unwrap().message().contains("appears not to match sizes of the same param in process 0")
            );
        }
    });
}

/// Of its two layers a call uses one.
#[derive(Debug, Module)]
struct Half {
    used: Linear,
    unused: Linear,
    mark: Buffer,
}
#[flambeau_nn::forward]
impl Half {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.used.call(x)
    }
}
fn half(rank: usize) -> Half {
    let mark = Tensor::from_vec(vec![rank as f32], [1]);
    Half { used: net(0.0), unused: net(0.1), mark: Buffer::new(mark) }
}
#[test]
fn buckets_that_nobody_uses_stay() {
    let all = everywhere(2, |rank| {
        // a bucket for each parameter
        let o = DistributedDataParallelOptions::new().bucket_cap_mb(1e-6).find_unused_parameters(true);
        let d = expect(DistributedDataParallel::try_new(half(rank), o.skip_all_reduce_unused_params(true)));
        let travelled = Arc::new(AtomicUsize::new(0));
        let count = travelled.clone();
        d.register_comm_hook(move |b: &GradBucket| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(Future::ready(b.buffer() * 1.0))
        });
        for _ in 0..3 {
            d.zero_grad();
            d.call(&batch(rank, 4)).sum().backward();
        }
        let has: Vec<bool> = d.parameters().iter().map(|p| p.tensor().grad().is_some()).collect();
        (travelled.load(Ordering::Relaxed), has)
    });
    assert_eq!(all[1], (6, vec![true, true, false, false]));
}
#[test]
fn buffers_are_brought_at_the_beginning_or_at_each_call() {
    let marks = |o: DistributedDataParallelOptions| {
        everywhere(2, |rank| {
            let d = expect(DistributedDataParallel::try_new(half(rank), o.clone()));
            let first = d.module.mark.tensor().item::<f32>();
            d.module.mark.tensor().fill_(5.0 + rank as f64);
            d.call(&batch(rank, 2));
            (first, d.module.mark.tensor().item::<f32>())
        })[1]
    };
    let o = DistributedDataParallelOptions::new;
    assert_eq!(marks(o()), (0.0, 5.0));
    assert_eq!(marks(o().broadcast_buffers(false)), (1.0, 6.0));
    assert_eq!(marks(o().forward_sync_buffers(false)), (0.0, 6.0));
    assert_eq!(marks(o().broadcast_buffers(false).forward_sync_buffers(true)), (0.0, 5.0));
}
/// A call brings the buffers where the call before it prepared a backward that brings gradients: the first one without does it
/// still, and the first one that follows does not yet.
#[test]
fn buffers_are_brought_as_the_call_before_asked() {
    let all = everywhere(2, |rank| {
        let d = expect(DistributedDataParallel::try_new(half(rank), DistributedDataParallelOptions::new()));
        let mark = |d: &DistributedDataParallel<Half>| {
            let m = d.module.mark.tensor();
            m.fill_(5.0 + rank as f64);
            d.call(&batch(rank, 2));
            m.item::<f32>()
        };
        let apart = d.no_sync(|| [mark(&d), mark(&d)]);
        let after = [mark(&d), mark(&d)];
        let unrecorded = flambeau_core::gradients::grad_mode::no_grad(|| [mark(&d), mark(&d)]);
        (apart, after, unrecorded)
    });
    assert_eq!(all[1], ([5.0, 6.0], [6.0, 5.0], [5.0, 6.0]));
}

/// Averages of gradients that wait are those that travel in buckets, for some parameters and for all.
#[test]
fn gradients_that_wait_are_averaged_too() {
    let names = |m: &Linear, all: bool| {
        let named = m.named_parameters().into_iter();
        named.filter(|(n, _)| all || n == "bias").collect::<Vec<_>>()
    };
    let run = |delayed: Option<bool>| {
        everywhere(2, move |rank| {
            let m = net(rank as f64);
            let mut o = DistributedDataParallelOptions::new();
            if let Some(all) = delayed {
                o = o.delay_all_reduce_named_params(names(&m, all)).param_to_hook_all_reduce(&m.weight);
            }
            let d = expect(DistributedDataParallel::try_new(m, o));
            for _ in 0..3 {
                d.zero_grad();
                d.call(&batch(rank, 4)).sum().backward();
            }
            gradients(&d)
        })
    };
    let want = run(None);
    assert_eq!(run(Some(true)), want);
    assert_eq!(run(Some(false)), want);
}

#[test]
fn a_grid_of_one_dimension_is_a_group() {
    use flambeau_distributed::mesh::try_init_device_mesh;
    let all = everywhere(4, |rank| {
        let line = expect(try_init_device_mesh("cpu", &[4], Default::default()));
        let grid = expect(try_init_device_mesh("cpu", &[2, 2], Default::default()));
        let o = || DistributedDataParallelOptions::new();
        let d = expect(DistributedDataParallel::try_new(net(rank as f64), o().device_mesh(&line)));
        let e = DistributedDataParallel::try_new(net(0.0), o().device_mesh(&grid)).unwrap_err();
        let group = flambeau_distributed::try_default_group().unwrap();
        let both = o().device_mesh(line).process_group(group);
        let both = DistributedDataParallel::try_new(net(0.0), both).unwrap_err();
        (d.process_group().size(), e.message().to_owned(), both.message().to_owned())
    });
    let (size, grid, both) = &all[0];
    assert_eq!(*size, 4);
    assert!(grid.starts_with("Only 1D device mesh is supported, but got DeviceMesh((2, 2), 'cpu'"), "{grid}");
    assert_eq!(both, "Cannot specify both process_group and device_mesh arguments.");
    let m = net(0.0);
    let o = DistributedDataParallelOptions::new().param_to_hook_all_reduce(&m.weight);
    let e = DistributedDataParallel::try_new(m, o).unwrap_err();
    assert!(e.message().ends_with("need to be set at the same time."), "{e}");
}
