//! The engine over NCCL, with a library of the tests' own in its place (`nccl.c`) and emulated devices.

use flambeau_core::{DType, Device, Tensor};
use flambeau_distributed as dist;
use flambeau_distributed::{
    AllToAllOptions, CollectiveOptions, HashStore, InitProcessGroupOptions, P2POp, ReduceOp, ReduceOptions,
    Store, World,
};
use std::process::Command;
use std::sync::Arc;

/// Runs a test of this program in a process that finds that library.
fn apart(name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nccl/nccl.c");
    let cc = std::env::var("CC").unwrap_or("cc".into());
    let built = Command::new(cc)
        .args(["-shared", "-fPIC", "-O1", "-pthread", "-o"])
        .arg(dir.path().join("libnccl.so"))
        .arg(source)
        .status();
    if !built.is_ok_and(|s| s.success()) {
        println!("left out: there is no C compiler");
        return;
    }
    std::fs::copy(dir.path().join("libnccl.so"), dir.path().join("libnccl.so.2")).unwrap();
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", dir.path())
        .env("FLAMBEAU_CUDA", "emulated:2")
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
}
fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec()
}

#[test]
fn collectives_of_devices() {
    apart("all_collectives");
}

#[test]
#[ignore = "wants the library that collectives_of_devices makes"]
fn all_collectives() {
    assert!(dist::is_nccl_available() && dist::is_backend_available("cpu:gloo,cuda:nccl"));
    let store: Arc<dyn Store> = Arc::new(HashStore::new());
    std::thread::scope(|s| {
        for rank in 0..2 {
            let store = store.clone();
            s.spawn(move || World::new().enter(|| one_rank(rank, store)));
        }
    });
}
fn one_rank(rank: i64, store: Arc<dyn Store>) {
    let o = InitProcessGroupOptions::new().store(store).rank(rank).world_size(2);
    dist::init_process_group_with("nccl", o);
    let on = |v: &[f32]| Tensor::from_vec(v.to_vec(), [v.len() as i64]).to(Device::Cuda(rank as u16));
    let own = || on(&[rank as f32 + 1.0, 5.0]);
    let zeros = |n: usize| on(&vec![0.0; n]);

    let t = own();
    dist::all_reduce(&t);
    assert_eq!(floats(&t), [3.0, 10.0]);
    let t = own();
    dist::all_reduce_with(&t, ReduceOptions::new().op(ReduceOp::Avg));
    assert_eq!(floats(&t), [1.5, 5.0]);
    // what was queued before and what comes after keep their order
    let t = &own() * 2.0;
    dist::all_reduce_with(&t, ReduceOptions::new().op(ReduceOp::Max));
    assert_eq!(floats(&(&t + 1.0)), [5.0, 11.0]);
    let t = own();
    dist::broadcast(&t, 1);
    assert_eq!(floats(&t), [2.0, 5.0]);
    let t = own();
    dist::reduce(&t, 1);
    assert_eq!(floats(&t), if rank == 1 { [3.0, 10.0] } else { [1.0, 5.0] });

    let list = [zeros(2), zeros(2)];
    dist::all_gather(&list, &own());
    assert_eq!([floats(&list[0]), floats(&list[1])], [[1.0, 5.0], [2.0, 5.0]]);
    let all = zeros(4);
    dist::all_gather_into_tensor(&all, &own());
    assert_eq!(floats(&all), [1.0, 5.0, 2.0, 5.0]);
    let part = zeros(1);
    dist::reduce_scatter_tensor(&part, &own());
    assert_eq!(floats(&part), [if rank == 0 { 3.0 } else { 10.0 }]);
    // one element of the two goes to rank 0 and the other to rank 1
    let got = zeros(2);
    dist::all_to_all_single(&got, &own());
    assert_eq!(floats(&got), if rank == 0 { [1.0, 2.0] } else { [5.0, 5.0] });
    let got = zeros(if rank == 0 { 4 } else { 0 });
    let splits = AllToAllOptions::new().input_split_sizes(vec![2, 0]).output_split_sizes(if rank == 0 {
        vec![2, 2]
    } else {
        vec![0, 0]
    });
    dist::all_to_all_single_with(&got, &own(), splits);
    assert_eq!(floats(&got), if rank == 0 { vec![1.0, 5.0, 2.0, 5.0] } else { vec![] });
    let other = zeros(2);
    let swap = [P2POp::isend(&own(), 1 - rank), P2POp::irecv(&other, 1 - rank)];
    dist::batch_isend_irecv(&swap).iter().for_each(|w| w.wait());
    assert_eq!(floats(&other), [2.0 - rank as f32, 5.0]);
    let third = zeros(2);
    if rank == 0 {
        dist::send(&own(), 1);
    } else {
        dist::recv(&third, Some(0.into()));
        assert_eq!(floats(&third), [1.0, 5.0]);
    }

    let refused = |t: &Tensor, op| dist::try_all_reduce(t, ReduceOptions::new().op(op)).unwrap_err();
    assert_eq!(refused(&own(), ReduceOp::BitAnd).message(), "Cannot use ReduceOp.BAND with NCCL");
    assert_eq!(refused(&all.view([2, 2]).t(), ReduceOp::Sum).message(), "Tensors must be contiguous");
    let cpu = Tensor::from_vec(vec![1f32], [1]);
    assert_eq!(refused(&cpu, ReduceOp::Sum).message(), "No backend type associated with device type cpu");
    assert!(dist::try_all_reduce(&own().to(DType::F8E4M3), ReduceOptions::new()).is_err());
    dist::barrier_with(CollectiveOptions::new());
    dist::destroy_process_group();
}
