//! Agents that find each other, lose one and go on, in a simulated world: with the rendezvous, the checkpoints and the training of a real job.

use flambeau_core::Tensor;
use flambeau_distributed as dist;
use flambeau_distributed::ddp::DistributedDataParallel;
use flambeau_distributed::elastic::rendezvous::{
    DynamicRendezvous, RendezvousHandler as _, RendezvousParameters,
};
use flambeau_distributed::simulation::{End, Kill, SimulateOptions, compute, simulate_with};
use flambeau_distributed::{HashStore, InitProcessGroupOptions, Store, World};
use flambeau_nn::Linear;
use flambeau_nn::prelude::*;
use flambeau_optim::{Optimizer as _, SGDOptions};
use std::sync::Arc;
use std::time::Duration;

const STEPS: usize = 12;

fn net() -> Linear {
    let m = Linear::new(4, 2);
    for p in m.parameters() {
        let n = p.tensor().numel();
        let v: Vec<f32> = (0..n).map(|k| (k * 7 % 11) as f32 / 11.0 - 0.5).collect();
        flambeau_autograd::no_grad(|| {
            p.tensor().copy_(&Tensor::from_vec(v, p.tensor().sizes()));
        });
    }
    m
}
/// Of a step's whole batch of 12 rows, those of one of so many ranks.
fn batch(step: usize, rank: usize, ranks: usize) -> Tensor {
    let v: Vec<f32> = (0..48).map(|k| ((k * 5 + step * 13) % 17) as f32 / 17.0).collect();
    let rows = 12 / ranks as i64;
    Tensor::from_vec(v, [12, 4]).narrow(0, rank as i64 * rows, rows)
}
fn values(m: &dyn Module) -> Vec<f32> {
    m.parameters().iter().flat_map(|p| p.tensor().detach().to_vec::<f32>()).collect()
}
fn bytes(all: &[f32]) -> Vec<u8> {
    all.iter().flat_map(|x| x.to_le_bytes()).collect()
}
fn floats(b: &[u8]) -> Vec<f32> {
    b.as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect()
}

/// Trains until all steps are done, from the last checkpoint on; gives the loss of each step that this call has done.
fn train(checkpoints: &dyn Store, losses: &dyn Store) -> flambeau_core::Result<()> {
    let (rank, ranks) = (dist::try_get_rank()? as usize, dist::try_get_world_size()? as usize);
    let m = net();
    let mut first = 0;
    if checkpoints.check(&["last"])? {
        let b = checkpoints.get("last")?;
        first = usize::from(b[0]);
        let mut rest = floats(&b[1..]);
        for p in m.parameters() {
            let more = rest.split_off(p.tensor().numel() as usize);
            flambeau_autograd::no_grad(|| {
                p.tensor().copy_(&Tensor::from_vec(rest, p.tensor().sizes()));
            });
            rest = more;
        }
    }
    let d = DistributedDataParallel::try_new(m, dist::ddp::DistributedDataParallelOptions::new())?;
    let mut o = SGDOptions::new().lr(0.1).build(d.parameters());
    for step in first..STEPS {
        compute(Duration::from_millis(50));
        o.zero_grad();
        let loss = d.try_call(&batch(step, rank, ranks))?.square().mean();
        // backward has no way to give an error but a panic, as in any program
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| loss.backward())).map_err(|p| {
            if p.is::<String>() {
                flambeau_core::Error::runtime("backward")
            } else {
                std::panic::resume_unwind(p)
            }
        })?;
        o.step();
        let sum = loss.detach();
        dist::try_all_reduce(&sum, dist::ReduceOptions::new().op(dist::ReduceOp::Avg))?;
        if rank == 0 {
            losses.set(&step.to_string(), &bytes(&[sum.item::<f32>()]))?;
            let mut page = vec![step as u8 + 1];
            page.extend(bytes(&values(&d.module)));
            checkpoints.set("last", &page)?;
        }
    }
    Ok(())
}

/// An agent with one worker: meets the others, trains, and meets them again where training fails.
fn agent(store: &HashStore, losses: &HashStore, min: usize) -> usize {
    let config = [("keep_alive_interval", "1"), ("keep_alive_max_attempt", "3"), ("last_call_timeout", "5")];
    let config = config.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let mut p = RendezvousParameters::new("c10d", "simulated", "job", min as i64, 3, config).unwrap();
    p.local_addr = Some("127.0.0.1".into());
    let mut r = DynamicRendezvous::over(Arc::new(store.clone()), &p).unwrap();
    for round in 0.. {
        let i = r.next_rendezvous().unwrap();
        let ended = World::new().enter(|| -> flambeau_core::Result<()> {
            let o = InitProcessGroupOptions::new()
                .store(i.store.clone())
                .rank(i.rank)
                .world_size(i.world_size)
                .timeout(Duration::from_secs(20));
            dist::try_init_process_group("gloo", o)?;
            let done = train(store, losses);
            dist::try_destroy_process_group()?;
            done
        });
        match ended {
            Ok(()) => return round,
            Err(_) if round < 5 => compute(Duration::from_secs(5)),
            Err(e) => panic!("{e}"),
        }
    }
    unreachable!()
}

fn job(min: usize, kills: Vec<Kill>, seed: u64) -> (Vec<End<usize>>, Vec<f32>) {
    let (store, losses) = (HashStore::new(), HashStore::new());
    let o = SimulateOptions::new().initialize(false).kills(kills).seed(seed).run_into_timeouts(true);
    let job = simulate_with(3, |_| agent(&store, &losses, min), o);
    let all = (0..STEPS).map(|s| floats(&losses.get(&s.to_string()).unwrap())[0]).collect();
    (job.ends().to_vec(), all)
}

#[test]
fn agents_go_on_without_one_that_was_killed() {
    let (ends, want) = job(3, Vec::new(), 0);
    assert!(ends.iter().all(|e| *e == End::Returned(0)), "{ends:?}");
    for seed in 0..6 {
        let victim = seed as usize % 3;
        let (ends, got) = job(2, vec![Kill::at_call(victim, 1 + 5 * seed)], seed);
        assert_eq!(ends[victim], End::Killed, "{ends:?}");
        assert!((0..3).filter(|r| *r != victim).all(|r| ends[r].returned().is_some()), "{ends:?}");
        for (a, b) in got.iter().zip(&want) {
            assert!((a - b).abs() < 1e-5, "{a} is not {b}");
        }
    }
}
