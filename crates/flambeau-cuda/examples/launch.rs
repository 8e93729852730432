//! What a launch costs the host, and its parts, in microseconds a call: the best of many runs of as many calls as a device queues
//! without a wait. `cargo run --release -p flambeau-cuda --example launch [NAME]`, on a device or an emulated one.

use flambeau_autograd::no_grad;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Tensor, ops};
use flambeau_cuda as _;
use flambeau_devices::cuda;
use std::hint::black_box;
use std::time::Instant;

const CALLS: u32 = 400;

fn time(name: &str, f: &dyn Fn()) {
    if std::env::args().nth(1).is_some_and(|only| only != name) {
        return;
    }
    let run = || {
        cuda::synchronize();
        let start = Instant::now();
        (0..CALLS).for_each(|_| f());
        let issued = start.elapsed();
        cuda::synchronize();
        (issued.as_secs_f64(), start.elapsed().as_secs_f64())
    };
    let (mut issued, mut all) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..60 {
        let (a, b) = run();
        (issued, all) = (issued.min(a), all.min(b));
    }
    let us = |s: f64| s * 1e6 / f64::from(CALLS);
    println!("{name:<28}{:>9.3} us to queue {:>9.3} us with the wait", us(issued), us(all));
}
fn main() {
    if !cuda::is_available() {
        println!("there is no device");
        return;
    }
    let host = Tensor::from_slice(&[1f32; 16], 16);
    let there = || flambeau_core::backend::transfer::to_device(host.clone(), Device::cuda(0)).unwrap();
    let (x, y) = (there(), there());
    let number = Tensor::from_slice(&[1.5f32], [0i64; 0]);
    let add = || {
        black_box(ops::add(&x, &y, 1.into()).unwrap());
    };
    no_grad(|| {
        time("add", &add);
        time("add, made before", &|| ops::add_(&y, &x, 1.into()).unwrap());
        time("memory alone", &|| {
            black_box(Tensor::empty_raw(&[16], DType::F32, Device::cuda(0)).unwrap());
        });
        time("times a number", &|| {
            black_box(ops::mul(&x, &number).unwrap());
        });
        time("sum", &|| {
            black_box(ops::sum(&x, None, false, None).unwrap());
        });
        time("view", &|| {
            black_box(ops::view(&x, &[4, 4]).unwrap());
        });
    });
    time("add, gradients on", &add);
    let side = cuda::Stream::new();
    side.wait_stream(&cuda::current_stream());
    cuda::stream(Some(&side), || {
        let (x, y) = (there(), there());
        time("add on another stream", &|| {
            black_box(ops::add(&x, &y, 1.into()).unwrap());
        });
    });
}
