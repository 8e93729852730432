//! Whole training steps and inferences, with default initialisation.

use crate::input::{fill, ints};
use crate::models::{self, CharLSTM, Gpt, GptShape};
use crate::row::Rows;
use torch::nn::functional as F;
use torch::prelude::*;
use torch::{nn, optim};

/// Zero gradients, forward, mean cross-entropy, backward, optimiser step.
fn train(
    model: impl nn::Layer,
    mut optimizer: impl Optimizer,
    x: Tensor,
    target: Tensor,
) -> impl FnMut() -> Tensor {
    move || {
        optimizer.zero_grad();
        let out = model.call(&x);
        let loss = F::cross_entropy(&out.reshape([-1, out.size(-1)]), &target.reshape(-1));
        loss.backward();
        optimizer.step();
        loss
    }
}

fn mlp() -> nn::Sequential {
    models::mlp(&[784, 512, 512, 10])
}
fn digits(batch: i64) -> Tensor {
    ints([batch], 10, 2)
}

/// A step of `e2e/mlp_adam`.
pub fn mlp_adam() -> impl FnMut() -> Tensor {
    let m = mlp();
    let optimizer = optim::Adam::new(m.parameters(), 1e-3);
    train(m, optimizer, fill([128, 784], 1), digits(128))
}

/// Tokens of a batch of eight, and what follows them.
fn text() -> (Tensor, Tensor) {
    let GptShape { length, vocabulary, .. } = GptShape::SMALL;
    let tokens = |seed| ints([8, length], vocabulary as u32, seed);
    (tokens(1), tokens(2))
}
fn gpt() -> (Gpt, optim::AdamW) {
    let m = Gpt::new(GptShape::SMALL);
    let optimizer = optim::AdamWOptions::new().lr(3e-4).weight_decay(0.01).build(m.parameters());
    (m, optimizer)
}

fn gpt_rows(r: &mut Rows) {
    let shape = GptShape::SMALL;
    let classes = shape.vocabulary as u32;
    r.add("e2e/gpt_train", move || {
        let ((m, optimizer), (x, target)) = (gpt(), text());
        train(m, optimizer, x, target)
    })
    .no_check();
    r.add("e2e/gpt_train_bf16", move || {
        let ((m, mut optimizer), (x, target)) = (gpt(), text());
        move || {
            optimizer.zero_grad();
            let lower = torch::amp::AutocastOptions::new("cpu").dtype(torch::bfloat16);
            let loss = torch::autocast(lower, || {
                let out = m.call(&x);
                F::cross_entropy(&out.reshape([-1, shape.vocabulary]), &target.reshape(-1))
            });
            loss.backward();
            optimizer.step();
            loss
        }
    })
    .no_check();
    r.add("e2e/gpt_prefill", move || {
        let (m, tokens) = (Gpt::new(shape), ints([1, shape.length], classes, 1));
        m.eval();
        move || m.call(&tokens)
    })
    .no_grad()
    .no_check();
    r.add("e2e/gpt_decode", move || {
        let (m, token) = (Gpt::new(shape), ints([1, 1], classes, 3));
        m.eval();
        let caches: Vec<Tensor> =
            (0..2 * shape.blocks as u32).map(|i| fill(shape.cache(), i % 2 + 1)).collect();
        move || m.all(&token, &caches, shape.length - 1)
    })
    .no_grad()
    .no_check();
}

pub fn rows(r: &mut Rows) {
    r.add("e2e/mlp_sgd", || {
        let m = mlp();
        let optimizer = optim::SGD::new(m.parameters(), 0.01);
        train(m, optimizer, fill([128, 784], 1), digits(128))
    })
    .no_check();
    r.add("e2e/mlp_adam", mlp_adam).no_check();
    r.add("e2e/cnn_mnist", || {
        let m = nn::Sequential::new((
            nn::Conv2d::new(1, 32, 3),
            nn::ReLU::new(),
            nn::Conv2d::new(32, 64, 3),
            nn::ReLU::new(),
            nn::MaxPool2d::new(2),
            nn::Flatten::new(),
            nn::Linear::new(9216, 128),
            nn::ReLU::new(),
            nn::Linear::new(128, 10),
        ));
        let optimizer = optim::SGD::new(m.parameters(), 0.01);
        train(m, optimizer, fill([64, 1, 28, 28], 1), digits(64))
    })
    .no_check();
    for batch in [1, 8] {
        r.add(format!("e2e/resnet18_b{batch}"), move || {
            let (m, x) = (models::resnet18(), fill([batch, 3, 224, 224], 1));
            m.eval();
            move || m.call(&x)
        })
        .no_grad()
        .no_check();
    }
    gpt_rows(r);
    r.add("e2e/charlstm", || {
        let m = CharLSTM::new();
        let optimizer = optim::Adam::new(m.parameters(), 1e-3);
        train(m, optimizer, ints([32, 64], 96, 1), ints([32, 64], 96, 2))
    })
    .no_check();
}
