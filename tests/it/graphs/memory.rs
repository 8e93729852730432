//! Memory told before step one, beside what steps take.

use super::models::{GptBlock, Llama, LlamaShape};
use crate::pytorch::resnet::ResNet18;
use flambeau_core::tensor::arena::Record;
use flambeau_test_support::alone;
use torch::fx;
use torch::library::Value;
use torch::nn::functional as F;
use torch::prelude::*;
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
