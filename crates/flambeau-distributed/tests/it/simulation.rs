//! Jobs in a simulated world: they are repeated exactly, name what keeps them waiting, and take the time that the model says.

use flambeau_core::Tensor;
use flambeau_core::api::literal::tensor;
use flambeau_distributed as dist;
use flambeau_distributed::simulation::{
    Cluster, End, Kill, Link, SimulateOptions, Step, compute, elapsed, simulate, simulate_with,
};
use flambeau_distributed::{CollectiveOptions, MessageOptions, ReduceOptions};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Something of everything.
fn busy(rank: usize) -> Vec<f64> {
    let t = Tensor::from_vec((0..50).map(|i| (i * (rank + 1)) as f64 / 7.0).collect::<Vec<_>>(), [50]);
    let works: Vec<_> = (0..4)
        .map(|i| dist::all_reduce_with(&t.narrow(0, i * 10, 10), ReduceOptions::new().async_op(true)))
        .collect();
    works.iter().for_each(dist::Work::wait);
    let n = dist::get_world_size() as usize;
    let got = tensor([0.0]);
    let ring = [
        dist::P2POp::isend(&tensor([rank as f64]), (rank + 1) % n),
        dist::P2POp::irecv(&got, (rank + n - 1) % n),
    ];
    dist::batch_isend_irecv(&ring).iter().for_each(dist::Work::wait);
    dist::barrier();
    let half = dist::new_group(&(0..n as i64 / 2).collect::<Vec<_>>());
    dist::all_reduce_with(&got, ReduceOptions::new().group(&half));
    let mut all = t.to_vec::<f64>();
    all.push(got.item::<f64>());
    all
}

#[test]
fn a_seed_is_a_run() {
    let run = |seed| {
        let o = SimulateOptions::new().seed(seed).delay(MS).reorder(true);
        simulate_with(6, busy, o)
    };
    let (a, b, c) = (run(1), run(1), run(2));
    assert_eq!((a.fingerprint(), a.time(), a.turns()), (b.fingerprint(), b.time(), b.turns()));
    assert_ne!(a.fingerprint(), c.fingerprint());
    // whatever the order, the sums are gloo's
    let (a, c) = (a.results(), c.results());
    assert_eq!(a, c);
    assert_eq!(a, dist::run_in_threads(6, busy));
}

#[test]
fn a_thousand_ranks_fit_into_a_process() {
    let job = simulate(1024, |rank| {
        let t = tensor([rank as i64, 1]);
        dist::all_reduce(&t);
        dist::barrier();
        t.to_vec::<i64>()
    });
    assert!(job.time() > Duration::ZERO && job.messages() > 10_000);
    assert!(job.results().iter().all(|t| *t == [523_776, 1024]));
}

#[test]
fn a_deadlock_names_what_each_rank_called() {
    let job = simulate(3, |rank| match rank {
        0 => drop(dist::all_reduce(&tensor([1.0, 2.0]))),
        1 => drop(dist::barrier()),
        _ => {
            dist::recv(&tensor([1.0]), Some(0.into()));
        }
    });
    let d = job.deadlock().unwrap();
    assert_eq!(d.calls().len(), 3);
    let text = d.to_string();
    assert!(text.contains("rank 0 waits"), "{text}");
    assert!(
        text.contains("last called all_reduce([[2]]), number 0 of group \"0\", which is not over"),
        "{text}"
    );
    assert!(text.contains("rank 2 waits for rank 0, last called recv([[1]])"), "{text}");
    assert!(job.try_results().unwrap_err().message().starts_with("no rank can go on:"));
}

#[test]
fn limits_of_time_cost_no_time() {
    let start = std::time::Instant::now();
    let o = SimulateOptions::new().run_into_timeouts(true);
    let job = simulate_with(
        2,
        |rank| {
            if rank == 0 {
                let e = dist::try_barrier(CollectiveOptions::new()).unwrap_err();
                assert!(e.message().contains("Timed out waiting 1800000ms"), "{e}");
            } else {
                compute(Duration::from_secs(4000));
            }
            elapsed().unwrap()
        },
        o,
    );
    let times = job.results();
    assert!(times[0] >= Duration::from_secs(1800) && times[0] < Duration::from_secs(1801), "{times:?}");
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn what_is_lost_is_missed_in_time() {
    let o = SimulateOptions::new().drops(0.05).timeout(Duration::from_secs(10)).seed(3);
    let job = simulate_with(
        4,
        |_| (0..40).find_map(|_| dist::try_all_reduce(&tensor([1.0]), ReduceOptions::new()).err()),
        o,
    );
    assert!(job.lost() > 0);
    for e in job.results() {
        let text = e.expect("every rank meets the loss").message().to_owned();
        assert!(
            text.contains("Timed out waiting 10000ms") || text.contains("Connection closed by peer"),
            "{text}"
        );
    }
}

#[test]
fn a_rank_that_is_killed_is_an_error_of_the_others() {
    for kill in [Kill::at(1, 5 * MS), Kill::at_call(1, 3)] {
        let job = simulate_with(
            3,
            |_| {
                (0..10).find_map(|_| {
                    compute(MS);
                    dist::try_all_reduce(&tensor([1.0]), ReduceOptions::new()).err()
                })
            },
            SimulateOptions::new().kills(kill),
        );
        assert!(matches!(job.ends()[1], End::Killed));
        for r in [0, 2] {
            let e = job.ends()[r].returned().unwrap().as_ref().unwrap();
            assert!(e.message().contains("Connection closed by peer"), "{e}");
        }
        assert!(job.time() < 20 * MS);
    }
}

#[test]
fn messages_take_the_time_of_their_link() {
    // 1 ms and 1 MB/s within machines of 2, 10 ms and 100 kB/s between them
    let far = Link::new(10 * MS, 1e5);
    let cluster = Cluster::new(Link::new(MS, 1e6)).units_of(2, far);
    let took = |from: usize, to: usize| {
        let job = simulate_with(
            4,
            move |rank| {
                let t = Tensor::from_vec(vec![0u8; 1000], [1000]);
                let before = elapsed().unwrap();
                if rank == from {
                    dist::send(&t, to);
                } else if rank == to {
                    dist::try_recv(&t, Some(from.into()), MessageOptions::new()).unwrap();
                }
                elapsed().unwrap() - before
            },
            SimulateOptions::new().cluster(cluster.clone()),
        );
        job.results()[to]
    };
    // the receiver's announcement, and the data behind it
    assert_eq!(took(0, 1), 3 * MS);
    assert_eq!(took(1, 2), 30 * MS);
}

#[test]
fn the_model_agrees_with_the_simulation() {
    let near = Link::new(Duration::from_micros(20), 1e9);
    let far = Link::new(Duration::from_micros(80), 4e8);
    for (name, cluster) in [("flat", Cluster::new(near)), ("machines", Cluster::new(near).units_of(4, far))] {
        for ranks in [2, 4, 8, 16] {
            for bytes in [64usize, 100_000, 4 << 20, 24 << 20] {
                if ranks * bytes > 100 << 20 {
                    continue;
                }
                let job = simulate_with(
                    ranks,
                    |_| {
                        let t = Tensor::from_vec(vec![0f32; bytes / 4], [bytes as i64 / 4]);
                        let before = elapsed().unwrap();
                        dist::all_reduce(&t);
                        (elapsed().unwrap() - before).as_secs_f64()
                    },
                    SimulateOptions::new().cluster(cluster.clone()),
                );
                let simulated = job.results().into_iter().fold(0.0, f64::max);
                let predicted = cluster.all_reduce(bytes, ranks).total().as_secs_f64();
                let ratio = predicted / simulated;
                println!(
                    "{name} {ranks} ranks {bytes} bytes: {simulated:.6} s, predicted {predicted:.6} s, {ratio:.2}"
                );
                assert!(
                    (0.8..1.1).contains(&ratio),
                    "{name} {ranks} {bytes}: {predicted} is not {simulated}"
                );
            }
        }
    }
}

#[test]
fn a_prediction_says_what_takes_the_time() {
    let cluster = Cluster::new(Link::network(2.0, 400.0)).units_of(8, Link::network(20.0, 25.0));
    let step = |bytes: usize| Step::new(30 * MS, 60 * MS).optimizer(5 * MS).buckets([bytes; 8]);
    let says = |bytes, ranks| cluster.predict(&step(bytes), ranks).unwrap().dominant().to_string();
    assert_eq!(says(25 << 20, 1), "computing");
    assert_eq!(says(25 << 20, 8), "computing");
    assert_eq!(says(400 << 20, 64), "bandwidth between units of 8");
    assert_eq!(says(1 << 20, 10_000), "latency between units of 8");
    let p = cluster.predict(&step(25 << 20), 64).unwrap();
    assert!(p.efficiency() < 1.0 && p.step() >= 95 * MS);
    assert!(
        Cluster::new(Link::network(1.0, 1.0))
            .units_of(4, Link::network(1.0, 1.0))
            .units_of(6, Link::network(1.0, 1.0))
            .predict(&step(1), 2)
            .is_err()
    );
}

#[test]
fn futures_and_futures_of_messages_are_waited_for() {
    let job = simulate(2, |rank| {
        let t = tensor([rank as f64]);
        let w = if rank == 0 { dist::isend(&t, 1) } else { dist::irecv(&t, Some(0.into())) };
        w.get_future().wait().unwrap();
        let w = dist::all_reduce_with(&t, ReduceOptions::new().async_op(true));
        w.get_future().then(|f| Ok(f.wait()?[0].item::<f64>())).wait().unwrap()
    });
    assert_eq!(job.results(), [0.0, 0.0]);
}

#[test]
fn a_reduction_to_one_rank_has_gloos_messages() {
    // eight segments from each to the other, and the part that the root lacks
    let job = simulate(2, |_| drop(dist::reduce(&Tensor::from_vec(vec![0f32; 2_600_006], [2_600_006]), 1)));
    assert_eq!((job.messages(), job.deadlock()), (17, None));
}

#[test]
fn a_predicted_step_is_a_simulated_one() {
    let cluster =
        Cluster::new(Link::new(Duration::from_micros(30), 1e9)).units_of(2, Link::new(100 * MS / 1000, 2e8));
    let (forward, backward, buckets) = (4 * MS, 20 * MS, [1usize << 20, 2 << 20, 1 << 20]);
    for ranks in [2, 4, 6] {
        let job = simulate_with(
            ranks,
            |_| {
                let begun = elapsed().unwrap();
                compute(forward);
                let mut works = Vec::new();
                for b in buckets {
                    compute(backward.mul_f64(b as f64 / (4 << 20) as f64));
                    let t = Tensor::from_vec(vec![0f32; b / 4], [b as i64 / 4]);
                    works.push(dist::all_reduce_with(&t, ReduceOptions::new().async_op(true)));
                }
                works.iter().for_each(dist::Work::wait);
                elapsed().unwrap() - begun
            },
            SimulateOptions::new().cluster(cluster.clone()),
        );
        let simulated = job.results().into_iter().max().unwrap().as_secs_f64();
        let step = Step::new(forward, backward).buckets(buckets);
        let predicted = cluster.predict(&step, ranks).unwrap().step().as_secs_f64();
        let ratio = predicted / simulated;
        println!("{ranks} ranks: {simulated:.6} s, predicted {predicted:.6} s, {ratio:.2}");
        assert!((0.85..1.15).contains(&ratio), "{ranks} ranks: {predicted} is not {simulated}");
    }
}
