//! Hooks, uneven inputs, optimizers that share their state, averages.

use crate::everywhere;
use flambeau_core::api::literal::tensor;
use flambeau_core::{ErrorKind, Tensor};
use flambeau_distributed::ReduceOptions;
use flambeau_distributed::ddp::*;
use flambeau_distributed::join::{Join, JoinOptions};
use flambeau_distributed::optim::{ModelAverager as _, PeriodicModelAverager, ZeroRedundancyOptimizer};
use flambeau_futures::Future;
use flambeau_nn::prelude::*;
use flambeau_nn::{Linear, Parameter};
use flambeau_optim::{AdamOptions, Optimizer as _, SGDOptions};

fn net() -> Linear {
    let m = Linear::new(16, 12);
    for (i, p) in m.parameters().iter().enumerate() {
        let v: Vec<f32> =
            (0..p.tensor().numel()).map(|k| ((k * 7 + i as i64) % 13) as f32 / 13.0 - 0.5).collect();
        let v = Tensor::from_vec(v, p.tensor().sizes());
        flambeau_autograd::no_grad(|| {
            p.tensor().copy_(&v);
        });
    }
    m
}
fn batch(seed: usize) -> Tensor {
    let v: Vec<f32> = (0..64).map(|k| ((k * 5 + seed * 13) % 17) as f32 / 17.0 - 0.4).collect();
    Tensor::from_vec(v, [4, 16])
}
fn gradients(m: &dyn Module) -> Vec<f32> {
    m.parameters().iter().flat_map(|p| p.tensor().grad().map_or(Vec::new(), |g| g.to_vec::<f32>())).collect()
}
fn values(m: &dyn Module) -> Vec<f32> {
    m.parameters().iter().flat_map(|p| p.tensor().detach().to_vec::<f32>()).collect()
}
/// Gradients of both ranks with a hook, and without.
fn with_hook(hook: impl Fn() -> Box<dyn CommHook> + Sync, steps: usize) -> (Vec<Vec<f32>>, Vec<f32>) {
    let run = |hooked: bool| {
        everywhere(2, |rank| {
            let d = DistributedDataParallel::new(net());
            if hooked {
                d.register_comm_hook(hook());
            }
            for k in 0..steps {
                d.zero_grad();
                d.call(&batch(rank + 2 * k)).square().sum().backward();
            }
            gradients(&d)
        })
    };
    (run(true), run(false).swap_remove(0))
}
fn near(a: &[f32], b: &[f32], by: f32) {
    assert_eq!(a.len(), b.len());
    let worst = a.iter().zip(b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
    assert!(worst <= by, "{worst}");
}

#[test]
fn hooks_average_as_well_as_they_say() {
    type Make = fn() -> Box<dyn CommHook>;
    let all: [(Make, f32); 6] = [
        (|| Box::new(AllreduceHook::new()), 0.0),
        (|| Box::new(CompressHook::fp16()), 2e-2),
        (|| Box::new(CompressHook::bf16()), 2e-1),
        (|| Box::new(CompressWrapper::fp16(AllreduceHook::new())), 2e-2),
        (|| Box::new(QuantizationHook::per_tensor()), 5e-1),
        (|| Box::new(QuantizationHook::per_channel(16)), 5e-1),
    ];
    for (hook, by) in all {
        let (got, want) = with_hook(hook, 2);
        assert_eq!(got[0], got[1]);
        near(&got[0], &want, by);
    }
}

#[test]
fn thin_matrices_carry_matrices_of_their_rank() {
    // a batch of one row has a gradient of rank one, which one column says all of
    let run = |hooked: bool| {
        everywhere(2, |_| {
            let d = DistributedDataParallel::new(net());
            if hooked {
                let o = PowerSgdOptions::new().start_power_sgd_iter(2).min_compression_rate(1.5);
                d.register_comm_hook(PowerSgdHook::new(o));
            }
            for k in 0..4 {
                d.zero_grad();
                d.call(&batch(k).narrow(0, 0, 1)).square().sum().backward();
            }
            gradients(&d)
        })
    };
    let (thin, whole) = (run(true), run(false));
    assert_eq!(thin[0], thin[1]);
    near(&thin[0], &whole[0], 1e-3);
}

#[test]
fn a_hook_sees_all_gradients_and_may_replace_them() {
    let all = everywhere(2, |rank| {
        let d = DistributedDataParallel::new(net());
        d.register_comm_hook(|b: &GradBucket| {
            assert!(b.is_last() && b.index() == 0 && b.parameters().len() == 2);
            assert_eq!(b.gradients()?[0].sizes(), [12, 16]);
            Ok(Future::ready(b.buffer() * 0.0))
        });
        let e = d.try_register_comm_hook(AllreduceHook::new()).unwrap_err();
        assert!(e.message().contains("can only be called once"));
        d.call(&batch(rank)).sum().backward();
        gradients(&d)
    });
    assert!(all.iter().flatten().all(|g| *g == 0.0));
}

#[test]
fn ranks_with_fewer_inputs_wait_for_the_others() {
    for divide in [true, false] {
        let all = everywhere(3, |rank| {
            let d = DistributedDataParallel::new(net());
            let mut o = SGDOptions::new().lr(0.01).build(d.parameters());
            let j = Join::try_new(&[&d], JoinOptions::new().divide_by_initial_world_size(divide)).unwrap();
            j.run(|| {
                for k in 0..2 + rank {
                    d.call(&batch(rank + 3 * k)).square().sum().backward();
                    o.step();
                    o.zero_grad();
                }
            });
            values(&d)
        });
        assert_eq!(all[0], all[1]);
        assert_eq!(all[1], all[2]);
    }
}

#[test]
fn all_end_when_the_first_is_done_if_they_shall() {
    let all = everywhere(2, |rank| {
        let d = DistributedDataParallel::new(net());
        let j = Join::try_new(&[&d], JoinOptions::new().throw_on_early_termination(true)).unwrap();
        let r = j.try_run(|| {
            for k in 0..1 + rank {
                d.try_call(&batch(k))?.sum().backward();
            }
            Ok(())
        });
        r.unwrap_err().message().to_owned()
    });
    assert_eq!(all[0], "Rank 0 exhausted all inputs.");
    assert!(all[1].starts_with("Detected at least one rank that exhausted inputs."));
}

#[test]
fn state_spread_over_ranks_trains_as_one_state() {
    let train = |zero: bool| {
        everywhere(2, |rank| {
            let d = DistributedDataParallel::new(net());
            let mut whole = AdamOptions::new().lr(0.01).build(d.parameters());
            let mut part = ZeroRedundancyOptimizer::new(d.parameters(), AdamOptions::new().lr(0.01));
            let e = part.state_dict().unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Runtime);
            for k in 0..3 {
                d.zero_grad();
                d.call(&batch(rank + 2 * k)).square().sum().backward();
                if zero { part.step() } else { whole.step() }
            }
            if zero {
                part.consolidate_state_dict(0).unwrap();
                if rank == 0 {
                    let s = part.state_dict().unwrap();
                    assert_eq!(s.get("state").unwrap().entries().unwrap().len(), 2);
                    part.load_state_dict(&s).unwrap();
                }
            }
            values(&d)
        })
    };
    let (zero, whole) = (train(true), train(false));
    assert_eq!(zero[0], zero[1]);
    near(&zero[0], &whole[0], 1e-6);
}

#[test]
fn parameters_are_averaged_when_it_is_time() {
    let all = everywhere(2, |rank| {
        let p = Parameter::new(tensor([rank as f64]));
        p.set_grad(Some(tensor([0.0])));
        let mut a = PeriodicModelAverager::new(2, 1, None);
        let mut seen = Vec::new();
        for _ in 0..3 {
            a.average_parameters(std::slice::from_ref(&p));
            seen.push(p.tensor().detach().item::<f64>());
        }
        seen
    });
    assert_eq!(all, [[0.0, 0.5, 0.5], [1.0, 0.5, 0.5]]);
}

#[test]
fn sparse_sums_have_the_elements_of_all() {
    let all = everywhere(2, |rank| {
        let i = Tensor::from_vec(vec![rank as i64, 2], [1, 2]);
        let v = Tensor::from_vec(vec![1.0 + rank as f64, 10.0], [2]);
        let t = flambeau_sparse::ops::sparse_coo_tensor_unsafe(&i, &v, &[4], None).unwrap();
        flambeau_distributed::try_all_reduce(&t, ReduceOptions::new()).unwrap();
        flambeau_sparse::ops::to_dense(&t, None, None).unwrap().to_vec::<f64>()
    });
    assert_eq!(all, [[1.0, 2.0, 20.0, 0.0], [1.0, 2.0, 20.0, 0.0]]);
}
