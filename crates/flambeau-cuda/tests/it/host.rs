//! Pinned memory: tensors in it, copies that happen later, blocks that come back only when nobody reads them.

use crate::emulated::{emulated, floats, numbers};
use flambeau_core::{DType, Device, Tensor, ops};
use flambeau_data::{DataLoaderOptions, TensorDataset};
use flambeau_devices::cuda::{self, CUDAGraph};

fn fresh(sizes: &[i64]) -> Tensor {
    ops::empty(sizes, Some(DType::F32), None, Some(Device::cuda(0)), None, None).unwrap()
}
pub fn all() {
    made();
    later();
    blocks();
    recorded();
    loader();
}
fn made() {
    let t = numbers(&[4, 5]);
    assert!(!t.is_pinned());
    let p = t.pin_memory();
    assert!(p.is_pinned() && p.device() == Device::Cpu && floats(&p) == floats(&t));
    assert_eq!(p.data_ptr().unwrap(), p.pin_memory().data_ptr().unwrap(), "it lies there already");
    // views are of the same memory; what is computed is not
    assert!(ops::t(&p).unwrap().is_pinned() && !ops::neg(&p).unwrap().is_pinned());
    let turned = ops::t(&t).unwrap().pin_memory();
    assert_eq!((turned.strides(), floats(&turned)), (&[1, 5][..], floats(&ops::t(&t).unwrap())));
    let ones = ops::ones(&[3], None, None, None, Some(true)).unwrap();
    assert!(ones.is_pinned() && floats(&ones) == [1.0; 3]);
    assert!(ops::empty(&[0], None, None, None, Some(true), None).unwrap().numel() == 0);
    assert!(ops::rand(&[8], None, None, None, None, Some(true)).unwrap().is_pinned());
    assert!(ops::zeros_like(&t, None, None, None, Some(true), None).unwrap().is_pinned());
    let x = fresh(&[2]);
    assert_eq!(
        x.try_pin_memory().unwrap_err().message(),
        "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"
    );
    // it is memory of the host like any other, for gradients too
    let w = t.detach().requires_grad_(true);
    let grad = flambeau_autograd::grad_fn::try_grad(
        [&ops::sum(&w.pin_memory(), None, false, None).unwrap()],
        [&w],
        flambeau_autograd::engine::GradOptions::new(),
    );
    assert_eq!(floats(grad.unwrap()[0].as_ref().unwrap()), [1.0; 20]);
}
/// A copy that is not waited for is there for what comes later in its stream. The emulated device reads at the call.
fn later() {
    let p = ops::ones(&[1000], None, None, None, Some(true)).unwrap();
    let x = fresh(&[1000]);
    ops::copy_(&x, &p, true).unwrap();
    if emulated() {
        // on a device either may arrive
        ops::fill_(&p, 2.0.into()).unwrap();
        assert_eq!(floats(&x), [1.0; 1000]);
    }
    ops::fill_(&p, 3.0.into()).unwrap();
    ops::copy_(&x, &p, true).unwrap();
    cuda::synchronize();
    ops::fill_(&p, 4.0.into()).unwrap();
    assert_eq!(floats(&x), [3.0; 1000]);
    // with a wait, or without pinned memory, it has arrived
    ops::copy_(&x, &p, false).unwrap();
    ops::fill_(&p, 5.0.into()).unwrap();
    assert_eq!(floats(&x), [4.0; 1000]);
    let t = ops::full(&[1000], 6.0.into(), None, None, None, None).unwrap();
    ops::copy_(&x, &t, true).unwrap();
    ops::fill_(&t, 7.0.into()).unwrap();
    assert_eq!(floats(&x), [6.0; 1000]);
    // other dtypes and geometries, and back
    let half = ops::to(&p, Some(DType::F16), None, Some(Device::cuda(0)), None, true, false, None).unwrap();
    assert_eq!(floats(&half), [5.0; 1000]);
    let row = ops::select(&ops::reshape(&p, &[10, 100]).unwrap(), 1, 3).unwrap();
    let there = ops::to(&row, None, None, Some(Device::cuda(0)), None, true, false, None).unwrap();
    assert_eq!(floats(&there), [5.0; 10]);
    let back = ops::to(&x, None, None, Some(Device::Cpu), None, true, false, None).unwrap();
    assert_eq!(floats(&back), [6.0; 1000]);
}
/// A block that a copy still reads is nobody else's.
fn blocks() {
    cuda::synchronize();
    let stat = |k: &str| cuda::host_memory_stats()[k];
    let n = 3000;
    let p = ops::full(&[n], 1.0.into(), None, None, None, Some(true)).unwrap();
    assert!(stat("active_bytes.current") >= 16384 && stat("allocations.current") >= 1);
    let requests = stat("active_requests.current");
    let x = fresh(&[n]);
    let side = cuda::Stream::new();
    side.wait_stream(&cuda::current_stream());
    cuda::stream(Some(&side), || ops::copy_(&x, &p, true).unwrap());
    let address = p.data_ptr().unwrap();
    drop(p);
    assert_eq!(stat("active_requests.current"), requests - 1);
    if emulated() {
        let q = ops::full(&[n], 2.0.into(), None, None, None, Some(true)).unwrap();
        assert_ne!(q.data_ptr().unwrap(), address, "its copy has not run");
    }
    side.synchronize();
    cuda::current_stream().wait_stream(&side);
    assert_eq!(floats(&x), vec![1.0; n as usize]);
    let made = stat("num_host_alloc");
    let all: Vec<Tensor> =
        (0..2).map(|_| ops::full(&[n], 3.0.into(), None, None, None, Some(true)).unwrap()).collect();
    assert!(all.iter().any(|t| t.data_ptr().unwrap() == address), "now it is handed out again");
    assert!(stat("num_host_alloc") <= made + 1);
    drop(all);
    let peak = stat("active_bytes.peak");
    cuda::reset_peak_host_memory_stats();
    assert!(stat("active_bytes.peak") < peak);
    cuda::reset_accumulated_host_memory_stats();
    assert_eq!(stat("num_host_alloc"), 0);
}
/// A recorded copy reads pinned memory at each run, and the graph keeps it.
fn recorded() {
    let (p, x) = (ops::ones(&[64], None, None, None, Some(true)).unwrap(), fresh(&[64]));
    let g = CUDAGraph::new();
    let y = cuda::graph(&g, || {
        ops::copy_(&x, &p, true).unwrap();
        ops::add(&x, &x, 1.into()).unwrap()
    });
    for v in [2.0, 3.0] {
        ops::fill_(&p, v.into()).unwrap();
        g.replay();
        assert_eq!(floats(&y), [2.0 * v; 64]);
    }
    drop(p);
    let others: Vec<Tensor> =
        (0..4).map(|_| ops::full(&[64], 9.0.into(), None, None, None, Some(true)).unwrap()).collect();
    g.replay();
    assert_eq!(floats(&y), [6.0; 64]);
    drop(others);
}
fn loader() {
    for workers in [0, 2] {
        let data = TensorDataset::new([numbers(&[10, 3]), numbers(&[10])]);
        let loader = DataLoaderOptions::new(data).batch_size(4).num_workers(workers).pin_memory(true).build();
        let mut n = 0;
        for batch in &loader {
            assert!(batch.iter().all(Tensor::is_pinned));
            n += batch[0].sizes()[0];
        }
        assert_eq!(n, 10);
    }
}
