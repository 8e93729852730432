//! Memory told before step one, beside what steps take.

use super::models::{GptBlock, Llama, LlamaShape};
use crate::pytorch::resnet::ResNet18;
use flambeau_core::tensor::arena::Record;
use flambeau_test_support::alone;
use std::sync::Arc;
use torch::fx;
use torch::library::Value;
use torch::nn::functional as F;
use torch::prelude::*;
use torch::utils::checkpoint::checkpoint;
use torch::{Tensor, nn};

/// A step of training that ends with the loss and all gradients.
fn step(net: &dyn Fn(&Tensor) -> Tensor, parameters: &[Tensor], x: &Tensor) -> Value {
    let y = net(x);
    let loss = (&y * &y).mean();
    drop(y);
    loss.backward();
    let grads = parameters.iter().filter_map(Tensor::grad).map(Value::from);
    Value::Tuple(std::iter::once(loss.detach().into()).chain(grads).collect())
}
/// What is told of a step is what it takes, within one in fifty.
fn agrees(what: &str, m: &dyn nn::Module, net: &dyn Fn(&Tensor) -> Tensor, x: &Tensor) {
    let parameters: Vec<Tensor> = m.parameters().iter().map(|p| p.tensor().clone()).collect();
    let forget = || parameters.iter().for_each(|p| p.set_grad(None));
    forget();
    let captured = fx::make_fx(|x: &[Tensor]| step(net, &parameters, &x[0]))(&[x]);
    let report = fx::memory(&captured);
    forget();
    let record = Record::new();
    drop(record.during(|| step(net, &parameters, x)));
    forget();
    let (told, taken) = ((report.peak - report.resident) as f64, record.peak() as f64);
    assert!(
        (told - taken).abs() <= 0.02 * taken,
        "{what}: {told} bytes told, {taken} taken at {:?}",
        report.at
    );
    assert!(taken > 100_000.0, "{what}: {taken}");
}

#[test]
fn what_is_told_is_what_steps_take() {
    alone!();
    torch::manual_seed(1);
    let gpt = nn::Sequential::new((GptBlock::new(32, 4), GptBlock::new(32, 4), nn::Linear::new(32, 64)));
    agrees("GPT", &gpt, &|x| gpt.call(x), &torch::randn([4, 32, 32]));
    let resnet = ResNet18::new(10, 8);
    agrees("ResNet", &resnet, &|x| resnet.call(x), &torch::randn([2, 3, 64, 64]));
    let lstm = nn::LSTMOptions::new(32, 64).num_layers(2).build();
    agrees("LSTM", &lstm, &|x| lstm.call(x, None).0, &torch::randn([32, 8, 32]));
}

/// Blocks one after the other, those of which `checkpointed` has the number under a checkpoint.
#[derive(Debug, Module)]
struct Tower {
    blocks: Vec<Arc<GptBlock>>,
    head: nn::Linear,
}
impl Tower {
    fn run(&self, x: &Tensor, checkpointed: &[usize]) -> Tensor {
        let mut x = x.clone();
        for (i, b) in self.blocks.iter().enumerate() {
            x = match checkpointed.contains(&i) {
                false => b.call(&x),
                true => {
                    let b = b.clone();
                    let body = move |x: &[Tensor]| Ok(vec![b.call(&x[0])]);
                    checkpoint(body, [&x]).unwrap().remove(0)
                }
            };
        }
        self.head.call(&x)
    }
}
/// What checkpoints would save is told of a step without any, and is what a step with them takes.
#[test]
fn what_checkpoints_would_save_is_told() {
    alone!();
    torch::manual_seed(1);
    let blocks = (0..4).map(|_| Arc::new(GptBlock::new(32, 4))).collect();
    let net = Tower { blocks, head: nn::Linear::new(32, 64) };
    let x = torch::randn([4, 32, 32]);
    let parameters: Vec<Tensor> = net.parameters().iter().map(|p| p.tensor().clone()).collect();
    let forget = || parameters.iter().for_each(|p| p.set_grad(None));
    let captured = fx::make_fx_of(&net, |x: &[Tensor]| step(&|x| net.run(x, &[]), &parameters, &x[0]))(&[&x]);
    let told = fx::checkpoints(&captured);
    assert_eq!(told.peak(), fx::memory(&captured).peak);
    let measured = |chosen: &[usize]| {
        forget();
        let record = Record::new();
        drop(record.during(|| step(&|x| net.run(x, chosen), &parameters, &x)));
        forget();
        record.peak()
    };
    let without = measured(&[]);
    for chosen in [&[0][..], &[1], &[2], &[3], &[0, 1], &[1, 3], &[0, 1, 2], &[0, 1, 2, 3]] {
        let paths: Vec<String> = chosen.iter().map(|i| format!("blocks.{i}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let report = told.memory(&paths).unwrap();
        let (said, taken) = ((report.peak - report.resident) as f64, measured(chosen) as f64);
        assert!((said - taken).abs() <= 0.02 * taken, "{paths:?}: {said} told, {taken} taken\n{told}");
    }
    assert!(measured(&[0, 1, 2]) < without * 6 / 10);
    // what runs again is the block: six products, two of which are attention's
    let first = told.blocks().iter().find(|b| b.path == "blocks.0").unwrap();
    let rows = 4 * 32;
    let flops = 2 * rows * 32 * (3 * 32 + 32 + 4 * 32 + 4 * 32) + 2 * 2 * rows * 32 * 32;
    assert_eq!((first.flops, first.writes), (flops, false));

    // a budget: found, kept, and no block without need
    for budget in [told.peak() - 50_000, told.peak() - 400_000, told.peak() * 2 / 3] {
        let choice = told.within(budget).unwrap();
        assert!(choice.peak <= budget, "{choice:?}");
        let paths: Vec<&str> = choice.paths.iter().map(String::as_str).collect();
        assert_eq!(told.choice(&paths).unwrap(), choice);
        for left_out in 0..paths.len() {
            let fewer: Vec<&str> =
                paths.iter().enumerate().filter(|(i, _)| *i != left_out).map(|(_, p)| *p).collect();
            assert!(told.choice(&fewer).unwrap().peak > budget, "{choice:?}");
        }
    }
    assert_eq!(told.within(told.peak()).unwrap().paths, [""; 0]);
    assert!(told.within(1000).is_none());
    assert!(told.memory(&["blocks.7"]).unwrap_err().to_string().contains("'blocks.7' is no block"));
    let twice = told.memory(&["blocks.0", "blocks.0.up"]).map(drop).unwrap_err().to_string();
    assert!(twice.contains("blocks.0.up") && twice.contains("in common"), "{twice}");
}
/// Batch normalisation writes to its running statistics, twice if it runs again: blocks with it are told apart and not chosen.
#[test]
fn blocks_that_write_are_told_apart() {
    alone!();
    let net = ResNet18::new(10, 8);
    let x = torch::randn([2, 3, 64, 64]);
    let captured = fx::make_fx_of(&net, |x: &[Tensor]| {
        let y = net.call(&x[0]);
        let loss = (&y * &y).mean();
        loss.backward();
        loss.detach()
    })(&[&x]);
    let told = fx::checkpoints(&captured);
    let named = |path: &str| told.blocks().iter().find(|b| b.path == path).unwrap().clone();
    let layer = named("layer1");
    assert!(layer.writes && layer.saved > 100_000 && layer.flops > 0, "{told}");
    assert!(!named("fc").writes && !named("layer1.0.conv1").writes, "{told}");
    // what is left saves less
    assert!(told.within(told.peak() - layer.saved).is_none());
}

/// 70 billion parameters and a step of training on them, for which no memory is there.
#[test]
fn a_model_larger_than_the_machine() {
    let shape =
        LlamaShape { layers: 80, width: 8192, heads: 64, groups: 8, hidden: 28672, vocabulary: 128256 };
    let net = Llama::new(&shape, torch::Device::Meta, torch::bfloat16);
    let parameters: Vec<Tensor> = net.parameters().iter().map(|p| p.tensor().clone()).collect();
    let count: i64 = parameters.iter().map(Tensor::numel).sum();
    assert_eq!(count, 70_553_706_496);
    let tokens = torch::empty_with([1, 4096], (torch::int64, torch::Device::Meta));
    let captured = fx::make_fx(|x: &[Tensor]| {
        let logits = net.call(&x[0]);
        let loss = F::cross_entropy(&logits.view([-1, shape.vocabulary]), &x[0].view([-1]));
        drop(logits);
        loss.backward();
        let grads = parameters.iter().filter_map(Tensor::grad).map(Value::from);
        Value::Tuple(std::iter::once(loss.detach().into()).chain(grads).collect())
    })(&[&tokens]);
    let report = fx::memory(&captured);
    // weights in two bytes each, and what backward passes make without an operator
    let weights = 2 * count as usize;
    assert!(report.resident >= weights && report.resident < weights + weights / 16, "{}", report.resident);
    assert!(report.peak > 2 * weights, "{}", report.peak);
    let last = report.steps.last().unwrap().1;
    assert!(last >= 2 * weights && last <= report.peak);
}
/// What the documentation says of three blocks.
#[test]
fn small_blocks_are_counted() {
    alone!();
    let block = || nn::Sequential::new((nn::Linear::new(8, 64), nn::Tanh::new(), nn::Linear::new(64, 8)));
    let net = nn::Sequential::new((block(), block(), block()));
    let step = fx::make_fx_of(&net, |x: &[Tensor]| {
        let loss = net.call(&x[0]).sum();
        loss.backward();
        loss.detach()
    })(&[&torch::ones([100, 8])]);
    let told = fx::checkpoints(&step);
    let first = told.blocks().iter().find(|b| b.path == "0").unwrap();
    assert_eq!((first.saved, first.flops), (25_600, 2 * 100 * 8 * 64 * 2), "{told}");
    let choice = told.within(told.peak() - 20_000).unwrap();
    assert!(choice.peak <= told.peak() - 20_000, "{choice:?}");
}
