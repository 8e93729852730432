//! Calls that are compared, and what is written down of a job that fails.

use flambeau_core::api::literal::tensor;
use flambeau_distributed as dist;
use flambeau_distributed::mesh::{DeviceMesh, MeshOptions, try_init_device_mesh};
use flambeau_distributed::{
    CollectiveOptions, Progress, ReduceOptions, World, functional, run_in_threads, run_in_threads_with,
};
use std::collections::HashMap;
use std::time::Duration;

#[test]
fn calls_that_differ_are_named() {
    let env = HashMap::from([("TORCH_DISTRIBUTED_DEBUG".to_owned(), "DETAIL".to_owned())]);
    let all = run_in_threads_with(2, env, Duration::from_secs(10), |rank| {
        dist::all_reduce(&tensor([1.0]));
        let e = if rank == 0 {
            dist::try_all_reduce(&tensor([1.0]), ReduceOptions::new()).err()
        } else {
            dist::try_broadcast(&tensor([1.0]), 0, CollectiveOptions::new()).err()
        };
        e.unwrap().message().to_owned()
    });
    assert!(
        all[0].contains(
            "Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=1, OpType=BROADCAST"
        )
    );
    assert!(all[1].contains("Op type: BROADCASTvs ALLREDUCE"));
}

#[test]
fn what_was_called_is_written_down_when_a_rank_does_not_come() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("trace_").display().to_string();
    let env = HashMap::from([("TORCH_FR_DUMP_TEMP_FILE".to_owned(), place.clone())]);
    run_in_threads_with(2, env, Duration::from_millis(400), |rank| {
        dist::all_reduce(&tensor([1.0]));
        if rank == 0 {
            dist::try_barrier(CollectiveOptions::new()).unwrap_err();
        } else {
            std::thread::sleep(Duration::from_millis(100));
            dist::try_all_reduce(&tensor([1.0, 2.0]), ReduceOptions::new()).unwrap_err();
        }
        let last = World::current().recorded().pop().unwrap();
        assert_eq!((last.number, last.progress), (1, Progress::Failed));
    });
    let files = [0, 1].map(|r| format!("{place}{r}").into());
    let text = dist::merge_traces(&files).unwrap();
    assert!(text.contains("call 1:") && text.contains("rank 0: barrier([])"), "{text}");
    assert!(text.contains("rank 1: all_reduce([[2]])"), "{text}");
    let rubbish = dir.path().join("rubbish");
    std::fs::write(&rubbish, b"[1").unwrap();
    assert!(dist::merge_traces(&[rubbish]).is_err());
}

#[test]
fn a_grid_has_a_group_for_each_line() {
    run_in_threads(4, |rank| {
        let o = MeshOptions::new().mesh_dim_names(["dp", "tp"]);
        let m = try_init_device_mesh("cpu", &[2, 2], o).unwrap();
        assert_eq!(m.get_coordinate().unwrap(), [rank as i64 / 2, rank as i64 % 2]);
        for (dim, want) in [("dp", [rank % 2, rank % 2 + 2]), ("tp", [rank / 2 * 2, rank / 2 * 2 + 1])] {
            let t = tensor([rank as f64]);
            dist::all_reduce_with(&t, ReduceOptions::new().group(m.get_group(dim)));
            assert_eq!(t.item::<f64>(), (want[0] + want[1]) as f64);
        }
        assert_eq!(m.flatten(None).unwrap().mesh(), [0, 1, 2, 3]);
        assert!(DeviceMesh::try_new("cpu", &[0, 1, 2, 3, 4], &[5], None).is_err());
    });
}

#[test]
fn gradients_go_back_the_way_the_values_came() {
    run_in_threads(2, |rank| {
        let own = rank as f64 + 1.0;
        let x = tensor([1.0, 2.0]).requires_grad_(true);
        let y = functional::all_gather_tensor(&x, 0);
        assert_eq!(y.sizes(), [4]);
        (y * own).sum().backward();
        assert_eq!(x.grad().unwrap().to_vec::<f64>(), [3.0, 3.0]);
        let x = tensor([1.0, 2.0]).requires_grad_(true);
        let y = functional::reduce_scatter_tensor(&x, 0);
        assert_eq!(y.to_vec::<f64>(), [2.0 * own]);
        (y * own).sum().backward();
        assert_eq!(x.grad().unwrap().to_vec::<f64>(), [1.0, 2.0]);
        let x = tensor([own]).requires_grad_(true);
        (functional::broadcast(&x, 1) * own).sum().backward();
        assert_eq!(x.grad().unwrap().to_vec::<f64>(), if rank == 1 { [3.0] } else { [0.0] });
    });
}

/// A text of a megabyte that a list names a hundred thousand times: each use would be a copy.
#[test]
fn objects_that_name_their_parts_without_end_are_refused() {
    for (text, count) in [(1 << 20, 100_000), (1 << 20, 4), (10, 100_000)] {
        let mut p = b"\x80\x04](\x8d".to_vec();
        p.extend((text as u64).to_le_bytes());
        p.resize(p.len() + text, b'x');
        p.push(0x94);
        (0..count).for_each(|_| p.extend(b"h\x00"));
        p.extend(b"e.");
        let fine = text * count < 16 << 20;
        assert_eq!(flambeau_distributed::internal::load(&p, false).is_ok(), fine, "{count} of {text} bytes");
    }
}
