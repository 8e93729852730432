use flambeau_core::api::literal::tensor;
use flambeau_core::{ErrorKind, Tensor, functions};
use flambeau_distributed as dist;
use flambeau_distributed::{
    CollectiveOptions, HashStore, InitProcessGroupOptions, NewGroupOptions, P2POp, ReduceOp, ReduceOptions,
    Store, run_in_threads, run_in_threads_with,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn values(t: &Tensor) -> Vec<f64> {
    t.to_vec::<f64>()
}

#[test]
fn all_ranks_get_the_sum() {
    for n in [1, 2, 3, 5] {
        let all = run_in_threads(n, |rank| {
            let t = Tensor::from_vec((0..1000).map(|i| (i * (rank + 1)) as f64).collect::<Vec<_>>(), [1000]);
            dist::all_reduce(&t);
            values(&t)
        });
        let sum = (n * (n + 1) / 2) as f64;
        for a in all {
            assert!(a.iter().enumerate().all(|(i, x)| *x == i as f64 * sum));
        }
    }
}

#[test]
fn tensors_with_gaps_are_reduced_by_their_elements() {
    let all = run_in_threads(2, |rank| {
        let whole = Tensor::from_vec(vec![1.0 + rank as f64; 8], [4, 2]);
        let column = whole.select(1, 0);
        dist::all_reduce(&column);
        values(&whole)
    });
    assert_eq!(all[0], [3.0, 1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0]);
    assert_eq!(all[1], [3.0, 2.0, 3.0, 2.0, 3.0, 2.0, 3.0, 2.0]);
}

#[test]
fn what_begins_together_ends_together() {
    let all = run_in_threads(3, |rank| {
        let ts: Vec<Tensor> = (0..20).map(|i| tensor([(rank * i) as f64])).collect();
        let works: Vec<_> =
            ts.iter().map(|t| dist::all_reduce_with(t, ReduceOptions::new().async_op(true))).collect();
        works.iter().for_each(dist::Work::wait);
        ts.iter().map(|t| t.item::<f64>()).collect::<Vec<_>>()
    });
    assert_eq!(all[0], (0..20).map(|i| 3.0 * i as f64).collect::<Vec<_>>());
}

#[test]
fn groups_are_apart() {
    let all = run_in_threads(4, |rank| {
        let odd = dist::new_group(&[1, 3]);
        let t = tensor([rank as f64]);
        dist::all_reduce_with(&t, ReduceOptions::new().group(&odd));
        assert_eq!((odd.rank(), odd.is_member()), ([-1, 0, -1, 1][rank], rank % 2 == 1));
        let mine =
            dist::try_new_group(&[0, 2], NewGroupOptions::new().use_local_synchronization(true)).unwrap();
        dist::broadcast_with(&t, 2, CollectiveOptions::new().group(mine));
        t.item::<f64>()
    });
    assert_eq!(all, [2.0, 4.0, 2.0, 4.0]);
}

#[test]
fn messages_find_their_way() {
    let all = run_in_threads(3, |rank| {
        let (own, other) = (tensor([rank as f64]), tensor([-1.0]));
        let ring = [P2POp::isend(&own, (rank + 1) % 3), P2POp::irecv(&other, (rank + 2) % 3)];
        dist::batch_isend_irecv(&ring).iter().for_each(dist::Work::wait);
        if rank == 0 {
            let mut from = vec![dist::recv(&own, None), dist::recv(&own, None)];
            from.sort();
            assert_eq!(from, [1, 2]);
        } else {
            dist::send(&own, 0);
        }
        // who leaves closes the connections that others may still read
        dist::barrier();
        other.item::<f64>()
    });
    assert_eq!(all, [2.0, 0.0, 1.0]);
}

#[test]
fn a_rank_that_does_not_come_is_an_error_in_time() {
    run_in_threads_with(2, HashMap::new(), Duration::from_millis(300), |rank| {
        if rank == 0 {
            let start = Instant::now();
            let e = dist::try_all_reduce(&tensor([1.0]), ReduceOptions::new()).unwrap_err();
            assert!(e.message().contains("Timed out waiting 300ms for"), "{e}");
            let e = dist::try_all_reduce(&tensor([1.0]), ReduceOptions::new()).unwrap_err();
            assert_eq!(e.message(), "Application timeout caused pair closure");
            assert!(start.elapsed() < Duration::from_secs(3));
        } else {
            std::thread::sleep(Duration::from_millis(600));
        }
    });
}

#[test]
fn a_rank_that_goes_is_an_error_at_once() {
    run_in_threads(3, |rank| {
        dist::all_reduce(&tensor([1.0]));
        if rank == 2 {
            dist::destroy_process_group();
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
        let start = Instant::now();
        let e = dist::try_all_reduce(&tensor([1.0]), ReduceOptions::new()).unwrap_err();
        assert!(e.message().contains("Connection closed by peer"), "{e}");
        assert!(start.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn a_message_that_is_too_long_is_an_error() {
    run_in_threads(2, |rank| {
        if rank == 0 {
            let _ = dist::try_send(&tensor([1.0, 2.0, 3.0]), 1, dist::MessageOptions::new());
        } else {
            let e = dist::try_recv(&tensor([1.0]), None, dist::MessageOptions::new()).unwrap_err();
            assert!(e.message().contains("a message of 12 bytes for a buffer of 4"), "{e}");
        }
    });
}

#[test]
fn what_the_engine_refuses() {
    let o = InitProcessGroupOptions::new()
        .store(Arc::new(HashStore::new()) as Arc<dyn Store>)
        .rank(0)
        .world_size(1);
    dist::World::new().enter(|| {
        let e = dist::try_get_rank().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Value);
        dist::init_process_group_with("gloo", o.clone());
        let t = tensor([1.5]);
        for op in [ReduceOp::BitAnd, ReduceOp::PremulSum(2.0)] {
            assert!(dist::try_all_reduce(&t, ReduceOptions::new().op(op)).is_err());
        }
        let e = dist::try_init_process_group("gloo", o).unwrap_err();
        assert_eq!(e.message(), "trying to initialize the default process group twice!");
        dist::destroy_process_group();
    });
}

#[test]
fn lists_are_gathered_and_scattered() {
    let all = run_in_threads(3, |rank| {
        let (own, list) = (tensor([rank as f64]), [tensor([0.0]), tensor([0.0]), tensor([0.0])]);
        let o = dist::GatherOptions::new().dst(1);
        dist::gather_with(&own, if rank == 1 { o.gather_list(list.clone()) } else { o });
        let o = dist::ScatterOptions::new().src(1);
        dist::scatter_with(
            &own,
            if rank == 1 { o.scatter_list(list.iter().rev().cloned().collect::<Vec<_>>()) } else { o },
        );
        own.item::<f64>()
    });
    assert_eq!(all, [2.0, 1.0, 0.0]);
}

#[test]
fn long_tensors_travel_in_pieces() {
    const N: usize = 700_003;
    let all = run_in_threads(3, |rank| {
        let own = || {
            let v = (0..N).map(|i| ((i * (rank + 3)) % 1009) as f32).collect::<Vec<_>>();
            Tensor::from_vec(v, [N as i64])
        };
        let sum = own();
        dist::all_reduce(&sum);
        let later = own();
        dist::all_reduce_with(&later, ReduceOptions::new().async_op(true)).wait();
        assert_eq!(sum.to_vec::<f32>(), later.to_vec::<f32>());
        let one = own();
        dist::reduce(&one, 2);
        assert!(rank != 2 || one.to_vec::<f32>() == sum.to_vec::<f32>());
        let first = own();
        dist::broadcast(&first, 1);
        // an output may be the input
        let mine = own();
        let list: Vec<Tensor> = (0..3)
            .map(|r| if r == rank { mine.clone() } else { Tensor::from_vec(vec![0f32; N], [N as i64]) })
            .collect();
        dist::all_gather(&list, &mine);
        assert_eq!(list[1].to_vec::<f32>(), first.to_vec::<f32>());
        let added: Vec<f32> = (0..N).map(|i| (0..3).map(|r| ((i * (r + 3)) % 1009) as f32).sum()).collect();
        assert_eq!(sum.to_vec::<f32>(), added);
        let rows = Tensor::from_vec(vec![0f32; 3 * N], [3, N as i64]);
        let views: Vec<Tensor> = (0..3).map(|r| rows.select(0, r)).collect();
        dist::all_gather(&views, &own());
        rows.sum().item::<f32>()
    });
    assert_eq!(all[0], all[1]);
}

#[test]
fn a_message_longer_than_its_buffer_of_pieces_is_an_error() {
    run_in_threads(2, |rank| {
        let long = Tensor::from_vec(vec![1u8; 600_000], [600_000]);
        if rank == 0 {
            let _ = dist::try_send(&long, 1, dist::MessageOptions::new());
        } else {
            let short = long.narrow(0, 0, 599_999);
            let e = dist::try_recv(&short, Some(0.into()), dist::MessageOptions::new()).unwrap_err();
            assert!(e.message().contains("a message of 600000 bytes for a buffer of 599999"), "{e}");
        }
    });
}

#[test]
fn averages_of_complex_numbers_for_one_rank_are_products_with_a_factor() {
    let all = run_in_threads(3, |_| {
        // each with memory of its own
        let pairs = || functions::view_as_complex(&Tensor::from_vec(vec![5f32 / 3.0; 6], [3, 2]));
        let o = || ReduceOptions::new().op(ReduceOp::Avg);
        let (everywhere, one) = (pairs(), pairs());
        dist::all_reduce_with(&everywhere, o());
        dist::reduce_with(&one, 0, o());
        let part = functions::view_as_complex(&Tensor::from_vec(vec![0f32; 2], [1, 2]));
        dist::reduce_scatter_tensor_with(&part, &pairs(), o());
        let first = |t: &Tensor| functions::view_as_real(t).to_vec::<f32>()[0];
        [first(&everywhere), first(&one), first(&part)]
    });
    let sum = 5f32 / 3.0 + 5f32 / 3.0 + 5f32 / 3.0;
    assert_ne!(sum / 3.0, sum * (1.0 / 3.0));
    assert_eq!(all[0], [sum / 3.0, sum * (1.0 / 3.0), sum * (1.0 / 3.0)]);
}

#[test]
fn what_a_rank_gives_itself_has_one_length() {
    run_in_threads(2, |rank| {
        let (out, t) = (tensor([0.0, 0.0, 0.0]), tensor([1.0, 2.0, 3.0]));
        // rank 0 sends itself a row and wants two
        let o = dist::AllToAllOptions::new().output_split_sizes([2 - rank as i64, 1 + rank as i64]);
        let e =
            dist::try_all_to_all_single(&out, &t, o.input_split_sizes([1 + rank as i64, 2 - rank as i64]));
        assert!(e.unwrap_err().message().contains("in->size == out->size"));
        let o = dist::AllToAllOptions::new().input_split_sizes([-1, 4]);
        let e = dist::try_all_to_all_single(&out, &t, o).unwrap_err();
        assert_eq!(e.message(), "Tensor's dim 0 does not divide equally across group size");
        let o = dist::AllToAllOptions::new().input_split_sizes([-1, 4]).output_split_sizes([1, 2]);
        assert_eq!(
            dist::try_all_to_all_single(&out, &t, o).unwrap_err().message(),
            "Split sizes must be non-negative"
        );
    });
}
