//! Messages that go on while nobody waits for them, threads that wait side by side, memory that a program holds.

use flambeau_core::Tensor;
use flambeau_core::internal::RawTensor as _;
use flambeau_distributed::{self as dist, MessageOptions, ReduceOptions, World, run_in_threads};
use std::time::{Duration, Instant};

fn full(n: usize, v: f32) -> Tensor {
    Tensor::from_vec(vec![v; n], [n as i64])
}
fn sum(t: &Tensor) -> f64 {
    t.to_vec::<f32>().iter().map(|x| f64::from(*x)).sum()
}

/// More than connections keep on the way.
const LONG: usize = 4 << 20;

#[test]
fn messages_go_on_while_nobody_waits() {
    run_in_threads(2, |rank| {
        let tagged = |tag| MessageOptions::new().tag(tag);
        if rank == 0 {
            let sent = dist::isend_with(&full(LONG, 1.0), 1, tagged(3));
            let end = Instant::now() + Duration::from_secs(30);
            // only asked, never waited for
            while !sent.is_completed() {
                assert!(Instant::now() < end, "the message does not go on");
                std::thread::sleep(Duration::from_millis(1));
            }
            // sums meet messages that nobody waits for yet
            let got = full(1, 0.0);
            let come = dist::irecv_with(&got, Some(1.into()), tagged(4));
            let t = full(10, 1.0);
            dist::all_reduce(&t);
            come.wait();
            assert_eq!((sum(&t), sum(&got)), (20.0, 5.0));
        } else {
            let got = full(LONG, 0.0);
            dist::recv_with(&got, Some(0.into()), tagged(3));
            assert_eq!(sum(&got), LONG as f64);
            let t = full(10, 1.0);
            dist::all_reduce(&t);
            dist::send_with(&full(1, 5.0), 0, tagged(4));
            assert_eq!(sum(&t), 20.0);
        }
    });
}

#[test]
fn threads_wait_side_by_side() {
    run_in_threads(3, |rank| {
        let world = World::current();
        let all: Vec<Tensor> = (0..24).map(|i| full(1 << (i % 15), rank as f32 + i as f32)).collect();
        let begun: Vec<_> =
            all.iter().map(|t| dist::all_reduce_with(t, ReduceOptions::new().async_op(true))).collect();
        std::thread::scope(|s| {
            for (i, w) in begun.iter().enumerate() {
                s.spawn(move || w.try_wait().unwrap_or_else(|e| panic!("{i}: {e}")));
            }
            s.spawn(|| {
                world.enter(|| {
                    let (next, before) = ((rank + 1) % 3, (rank + 2) % 3);
                    let (out, into) = (full(LONG / 8, rank as f32), full(LONG / 8, -1.0));
                    let sent = dist::isend_with(&out, next, MessageOptions::new().tag(9));
                    dist::recv_with(&into, Some(before.into()), MessageOptions::new().tag(9));
                    sent.wait();
                    assert_eq!(sum(&into), (LONG / 8 * before) as f64);
                });
            });
        });
        for (i, t) in all.iter().enumerate() {
            assert_eq!(sum(t), f64::from(3 + 3 * i as i32) * t.numel() as f64, "{i}");
        }
    });
}

#[test]
fn memory_that_is_held_is_refused_before_anything_is_sent() {
    run_in_threads(2, |rank| {
        let t = full(4, 1.0);
        if rank == 0 {
            let begun = Instant::now();
            let refused =
                t.storage().with_bytes(|_| dist::try_all_reduce(&t, ReduceOptions::new()).map(drop));
            assert!(refused.unwrap().is_err());
            assert!(begun.elapsed() < Duration::from_millis(500));
        }
        // the group works on
        dist::all_reduce(&t);
        assert_eq!(t.to_vec::<f32>(), [2.0; 4]);
    });
}
