//! Whole networks: each in a process of its own, so that its memory is the network's. `networks.py` has the same.

use crate::input::{fill, ints};
use crate::measure::{self, Timing};
use crate::memory;
use crate::models::{
    Bert, Dlrm, Gpt, GptShape, MobileNetV3Small, SpeechEncoder, UNet, ViT, mlp, resnet18, resnet50,
};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
use torch::nn::functional as F;
use torch::prelude::*;
use torch::{nn, optim};

/// A network, with its inputs.
pub trait Case {
    /// What is timed.
    fn call(&mut self) -> Tensor;
    /// What errors are measured on.
    fn result(&mut self) -> Tensor;
    /// Makes everything float64.
    fn widen(&mut self);
}

fn widen(m: &mut impl Module, inputs: &mut [Tensor]) {
    m.double();
    for x in inputs.iter_mut().filter(|x| x.is_floating_point()) {
        *x = x.to(f64);
    }
}

type Run<M> = fn(&M, &[Tensor]) -> Tensor;

/// The result is the output.
struct Inference<M> {
    module: M,
    inputs: Vec<Tensor>,
    run: Run<M>,
}
fn inference<M: Module>(module: M, inputs: impl Into<Vec<Tensor>>, run: Run<M>) -> Box<dyn Case> {
    module.eval();
    Box::new(Inference { module, inputs: inputs.into(), run })
}
impl<M: Module> Case for Inference<M> {
    fn call(&mut self) -> Tensor {
        torch::no_grad(|| (self.run)(&self.module, &self.inputs))
    }
    fn result(&mut self) -> Tensor {
        self.call()
    }
    fn widen(&mut self) {
        widen(&mut self.module, &mut self.inputs);
    }
}

/// Gradients are dropped; forward, loss, backward, step of the optimiser. The result is all gradients in one.
struct Training<M, O> {
    module: M,
    inputs: Vec<Tensor>,
    loss: Run<M>,
    optimizer: O,
}
fn training<M: Module, O: Optimizer + 'static>(
    module: M,
    inputs: impl Into<Vec<Tensor>>,
    loss: Run<M>,
    optimizer: fn(Vec<nn::Parameter>) -> O,
) -> Box<dyn Case> {
    let optimizer = optimizer(module.parameters());
    Box::new(Training { module, inputs: inputs.into(), loss, optimizer })
}
impl<M: Module, O> Training<M, O> {
    fn backward(&self) -> Tensor {
        self.module.zero_grad();
        let loss = (self.loss)(&self.module, &self.inputs);
        loss.backward();
        loss
    }
}
impl<M: Module, O: Optimizer> Case for Training<M, O> {
    fn call(&mut self) -> Tensor {
        let loss = self.backward();
        self.optimizer.step();
        loss
    }
    fn result(&mut self) -> Tensor {
        self.backward();
        let dense = |g: Tensor| if g.is_sparse() { g.to_dense() } else { g };
        let gradients = self.module.parameters().into_iter().filter_map(|p| p.grad());
        torch::cat(gradients.map(|g| dense(g).reshape(-1)).collect::<Vec<_>>(), 0)
    }
    fn widen(&mut self) {
        widen(&mut self.module, &mut self.inputs);
    }
}

/// Threads of a service, and what each calls for one request of the benchmark.
const WORKERS: usize = 12;
const CALLS: usize = 100;

/// Threads that each run a model of their own.
struct Service {
    /// Not timed.
    probe: Box<dyn Case>,
    workers: Vec<(Sender<()>, Receiver<Tensor>)>,
}
fn service<M: nn::Layer>(make: fn() -> M, input: &Tensor) -> Box<dyn Case> {
    torch::set_num_threads(1);
    let run: Run<M> = |m, x| m.call(&x[0]);
    let probe = inference(make(), [input.clone()], run);
    let worker = |_| {
        let (m, x) = (make(), input.clone());
        m.eval();
        let (ask, asked) = channel::<()>();
        let (give, given) = channel();
        std::thread::spawn(move || {
            let _mode = torch::no_grad_guard();
            for () in asked {
                for _ in 1..CALLS {
                    std::hint::black_box(m.call(&x));
                }
                if give.send(m.call(&x)).is_err() {
                    return;
                }
            }
        });
        (ask, given)
    };
    Box::new(Service { probe, workers: (0..WORKERS).map(worker).collect() })
}
impl Case for Service {
    fn call(&mut self) -> Tensor {
        for (ask, _) in &self.workers {
            ask.send(()).expect("a thread of the service ended");
        }
        let all = self.workers.iter().map(|(_, given)| given.recv().expect("a thread of the service ended"));
        // every thread has answered, not the last alone
        all.reduce(|_, last| last).expect("a service has threads")
    }
    fn result(&mut self) -> Tensor {
        self.probe.result()
    }
    fn widen(&mut self) {
        self.probe.widen();
    }
}

type Parameters = Vec<nn::Parameter>;
fn sgd(p: Parameters) -> optim::SGD {
    optim::SGD::new(p, 0.01)
}
fn momentum(p: Parameters) -> optim::SGD {
    optim::SGDOptions::new().lr(0.1).momentum(0.9).weight_decay(1e-4).build(p)
}
fn adam(p: Parameters) -> optim::Adam {
    optim::Adam::new(p, 1e-3)
}
fn adamw(p: Parameters) -> optim::AdamW {
    optim::AdamWOptions::new().lr(3e-4).weight_decay(0.01).build(p)
}

fn plain<M: nn::Layer>(m: &M, x: &[Tensor]) -> Tensor {
    m.call(&x[0])
}
fn classes<M: nn::Layer>(m: &M, x: &[Tensor]) -> Tensor {
    F::cross_entropy(&m.call(&x[0]), &x[1])
}
fn images(batch: i64, side: i64) -> Tensor {
    fill([batch, 3, side, side], 1)
}
fn image<M: nn::Layer>(make: fn() -> M, batch: i64) -> Box<dyn Case> {
    inference(make(), [images(batch, 224)], plain)
}
fn image_training<M: nn::Layer, O: Optimizer + 'static>(
    make: fn() -> M,
    batch: i64,
    optimizer: fn(Parameters) -> O,
) -> Box<dyn Case> {
    training(make(), [images(batch, 224), ints([batch], 1000, 2)], classes, optimizer)
}
fn gpt2(length: i64, run: Run<Gpt>) -> Box<dyn Case> {
    let shape = GptShape::GPT2;
    let mut inputs = vec![ints([1, length], shape.vocabulary as u32, 1)];
    inputs.extend((1..=2 * shape.blocks as u32).map(|seed| fill(shape.cache(), seed)));
    inference(Gpt::new(shape), inputs, run)
}
const CLICKS: i64 = 128;
const BAG: i64 = 16;
fn clicks() -> Vec<Tensor> {
    let starts = torch::arange(CLICKS) * BAG;
    vec![fill([CLICKS, 13], 1), ints([Dlrm::TABLES, CLICKS * BAG], 10_000, 2), starts]
}

/// Makes the network and its inputs.
type Make = fn() -> Box<dyn Case>;

/// The networks of `networks.json`.
pub const NETWORKS: &[(&str, Make)] = &[
    ("net/resnet18_b1", || image(resnet18, 1)),
    ("net/resnet18_b16", || image(resnet18, 16)),
    ("net/resnet18_train_b16", || image_training(resnet18, 16, momentum)),
    ("net/resnet50_b1", || image(resnet50, 1)),
    ("net/resnet50_b16", || image(resnet50, 16)),
    ("net/resnet50_train_b4", || image_training(resnet50, 4, momentum)),
    ("net/mobilenet_v3_small_b1", || image(MobileNetV3Small::new, 1)),
    ("net/mobilenet_v3_small_b16", || image(MobileNetV3Small::new, 16)),
    ("net/mobilenet_v3_small_train_b16", || image_training(MobileNetV3Small::new, 16, momentum)),
    ("net/vit_s16_b1", || image(ViT::new, 1)),
    ("net/vit_s16_b8", || image(ViT::new, 8)),
    ("net/vit_s16_train_b4", || image_training(ViT::new, 4, adamw)),
    ("net/bert_base_b1", || inference(Bert::new(), [ints([1, 128], 30522, 1)], plain)),
    ("net/bert_base_train_b2", || {
        let inputs = [ints([2, 128], 30522, 1), ints([2], 2, 2)];
        training(Bert::new(), inputs, |m, x| F::cross_entropy(&m.classify(&x[0]), &x[1]), adamw)
    }),
    ("net/gpt2_prefill_512", || gpt2(512, |m, x| m.next(&x[0], &x[1..], 0))),
    ("net/gpt2_decode", || gpt2(1, |m, x| m.next(&x[0], &x[1..], 512))),
    ("net/lstm_encoder_b8", || inference(SpeechEncoder::new(), [fill([8, 160, 40], 1)], plain)),
    ("net/lstm_encoder_train_b8", || {
        let inputs = [fill([8, 160, 40], 1), ints([8 * 160], 32, 2)];
        training(
            SpeechEncoder::new(),
            inputs,
            |m, x| F::cross_entropy(&m.call(&x[0]).flatten(0, 1), &x[1]),
            adam,
        )
    }),
    ("net/unet_b1", || inference(UNet::new(), [images(1, 128)], plain)),
    ("net/unet_train_b4", || {
        training(UNet::new(), [images(4, 128), ints([4, 128, 128], 2, 2)], classes, adam)
    }),
    ("net/dlrm_b128", || inference(Dlrm::new(), clicks(), |m, x| m.call(&x[0], &x[1], &x[2]))),
    ("net/dlrm_train_b128", || {
        let mut inputs = clicks();
        inputs.push(ints([CLICKS], 2, 3).to(f32));
        let loss: Run<Dlrm> = |m, x| F::binary_cross_entropy_with_logits(&m.call(&x[0], &x[1], &x[2]), &x[3]);
        training(Dlrm::new(), inputs, loss, sgd)
    }),
    ("service/mlp", || service(|| mlp(&[784, 256, 128, 10]), &fill([1, 784], 1))),
    ("service/convnet", || {
        let make = || {
            nn::Sequential::new((
                nn::Conv2d::new(1, 16, 3),
                nn::ReLU::new(),
                nn::MaxPool2d::new(2),
                nn::Conv2d::new(16, 32, 3),
                nn::ReLU::new(),
                nn::MaxPool2d::new(2),
                nn::Flatten::new(),
                nn::Linear::new(800, 10),
            ))
        };
        service(make, &fill([1, 1, 28, 28], 1))
    }),
    ("service/transformer", || {
        let make =
            || nn::TransformerEncoderLayerOptions::new(64, 4).dim_feedforward(256).batch_first(true).build();
        service(make, &fill([1, 32, 64], 1))
    }),
];

/// What a run of a network says.
#[derive(Debug)]
pub struct Report {
    pub timing: Timing,
    /// Seconds of the first call.
    pub first: f64,
    /// Bytes of the largest resident set, less those of the start.
    pub memory: Option<u64>,
    pub exact: Option<Exact>,
}
/// The same in float64.
#[derive(Debug)]
pub struct Exact {
    /// Size of the error of float32 beside the result.
    pub deviation: f64,
    /// Mean of the absolute values.
    pub check: f64,
}

fn made(make: Make) -> Box<dyn Case> {
    torch::manual_seed(0);
    make()
}

/// Measures a network, and with `exact` its error.
pub fn measure(make: Make, min_time: f64, threads: usize, exact: bool) -> Report {
    let start = memory::forget_peak();
    let mut case = made(make);
    let t = Instant::now();
    drop(case.call());
    let first = t.elapsed().as_secs_f64();
    let timing = measure::measure(&mut || case.call(), min_time, threads);
    let memory = memory::peak().zip(start).map(|(peak, start)| peak.saturating_sub(start));
    drop(case);
    let exact = exact.then(|| {
        let mut case = made(make);
        let narrow = case.result().to(f64);
        case.widen();
        let exact = case.result();
        torch::no_grad(|| Exact {
            deviation: (narrow - &exact).norm().item::<f64>() / exact.norm().item::<f64>(),
            check: exact.abs().mean().item(),
        })
    });
    Report { timing, first, memory, exact }
}
