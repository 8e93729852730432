//! Seconds per step, printed on request: `cargo test --release -p flambeau-optim --test it -- --ignored --nocapture speed`.

use crate::make;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Tensor};

#[test]
#[ignore = "timing"]
fn speed() {
    for (count, n) in [(1, 4_000_000), (50, 100_000), (200, 1_000), (200, 16)] {
        for class in [
            "SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "ASGD", "RMSprop",
            "Rprop",
        ] {
            let p: Vec<Tensor> = (0..count)
                .map(|_| Tensor::zeros_raw(&[n], DType::F32, flambeau_core::Device::Cpu).unwrap() + 1.0)
                .collect();
            p.iter().for_each(|p| p.set_grad(Some(p.copy())));
            let o = make(class, &p, &vec![], &[]).unwrap();
            let step = || o.method("step", &[], &[]).unwrap();
            step();
            let best = (0..15).map(|_| {
                let start = std::time::Instant::now();
                step();
                start.elapsed().as_secs_f64()
            });
            println!("{count} x {n} {class} {:.1} us", best.fold(f64::MAX, f64::min) * 1e6);
        }
    }
}
