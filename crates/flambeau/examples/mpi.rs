//! Collectives and messages over MPI, whose launcher says which rank a process has:
//!
//! ```sh
//! cargo build -p flambeau --example mpi --features mpi && mpirun -n 4 target/debug/examples/mpi
//! ```
//!
//! It needs the system's MPI and libclang while it is built (Debian: `libopenmpi-dev`, `openmpi-bin`, `libclang-dev`).

use torch::distributed::{
    self as dist, AllToAllOptions, CollectiveOptions, MessageOptions, P2POp, ReduceOp, ReduceOptions,
};
use torch::prelude::*;

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec()
}

fn main() {
    dist::init_process_group("mpi");
    let (rank, n) = (dist::get_rank(), dist::get_world_size());
    let own = || torch::full([3], rank as f64);
    let lists = || (0..n).map(|_| torch::zeros([3])).collect::<Vec<_>>();
    let sum = (n * (n - 1) / 2) as f32;

    let t = own();
    dist::all_reduce(&t);
    assert_eq!(floats(&t), [sum; 3]);
    let t = own().to(torch::int64);
    dist::all_reduce_with(&t, ReduceOptions::new().op(ReduceOp::Max));
    assert_eq!(t.to_vec::<i64>(), [n - 1; 3]);
    let t = own();
    dist::broadcast(&t, n - 1);
    assert_eq!(floats(&t), [(n - 1) as f32; 3]);
    let t = own();
    dist::reduce(&t, 0);
    assert_eq!(floats(&t), [if rank == 0 { sum } else { rank as f32 }; 3]);

    let list = lists();
    dist::all_gather(&list, &own());
    for (r, t) in list.iter().enumerate() {
        assert_eq!(floats(t), [r as f32; 3]);
    }
    let whole = torch::zeros([3 * n]);
    dist::all_gather_into_tensor(&whole, &own());
    assert_eq!(whole.sum().item::<f32>(), 3.0 * sum);
    let part = torch::zeros([2]);
    dist::reduce_scatter_tensor(&part, &torch::full([2 * n], 1.0));
    assert_eq!(floats(&part), [n as f32; 2]);
    // one row for rank 0, two for rank 1, and so on
    let rows: Vec<i64> = (1..=n).collect();
    let (given, got) = (torch::full([rows.iter().sum::<i64>()], rank as f64), torch::zeros([(rank + 1) * n]));
    let splits =
        AllToAllOptions::new().input_split_sizes(rows).output_split_sizes(vec![rank + 1; n as usize]);
    dist::all_to_all_single_with(&got, &given, splits);
    assert_eq!(got.sum().item::<f32>(), (rank + 1) as f32 * sum);

    // both directions at once, each longer than MPI keeps for itself
    let (out, into) = (torch::full([1 << 20], rank as f64), torch::zeros([1 << 20]));
    let ring = [P2POp::isend(&out, (rank + 1) % n), P2POp::irecv(&into, (rank + n - 1) % n)];
    dist::batch_isend_irecv(&ring).iter().for_each(|w| w.wait());
    assert_eq!(into.sum().item::<f32>(), ((rank + n - 1) % n) as f32 * (1 << 20) as f32);
    // a message that is taken after a sum which follows it
    let tagged = MessageOptions::new().tag(7);
    let sent = (rank == 0).then(|| dist::isend_with(&out, n - 1, tagged.clone()));
    dist::all_reduce(&own());
    if rank == n - 1 {
        dist::recv_with(&into, Some(0.into()), tagged);
        assert_eq!(into.sum().item::<f32>(), 0.0);
    }
    sent.into_iter().for_each(|w| w.wait());

    // a part of the ranks, and a sum that goes on meanwhile
    let even: Vec<i64> = (0..n).step_by(2).collect();
    let group = dist::new_group(&even);
    let t = own();
    let w = dist::all_reduce_with(&t, ReduceOptions::new().group(&group).async_op(true));
    w.wait();
    let all = even.iter().sum::<i64>() as f32;
    assert_eq!(floats(&t), [if rank % 2 == 0 { all } else { rank as f32 }; 3]);

    let refused = dist::try_all_reduce(&own().to(torch::float16), ReduceOptions::new()).unwrap_err();
    assert_eq!(refused.message(), "Invalid scalar type");
    dist::barrier_with(CollectiveOptions::new());
    println!("rank {rank} of {n}: all as it should be");
    drop(group);
    dist::destroy_process_group();
}
