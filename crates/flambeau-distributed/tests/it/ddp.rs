use crate::everywhere;
use flambeau_core::Tensor;
use flambeau_core::api::ergonomic::expect;
use flambeau_distributed::ddp::{DistributedDataParallel, DistributedDataParallelOptions};
use flambeau_nn::Linear;
use flambeau_nn::prelude::*;

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
