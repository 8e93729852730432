//! Whole training steps and inferences, with default initialisation.

pub mod gpt;
pub mod resnet;

use crate::input::{fill, ints};
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
    nn::Sequential::new((
        nn::Linear::new(784, 512),
        nn::ReLU::new(),
        nn::Linear::new(512, 512),
        nn::ReLU::new(),
        nn::Linear::new(512, 10),
    ))
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

/// Characters to the logits of the next ones.
#[derive(Debug, Module)]
struct CharLSTM {
    embedding: nn::Embedding,
    fc: nn::Linear,
    lstm: nn::LSTM,
}
#[nn::forward]
impl CharLSTM {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.fc.call(&self.lstm.call(&self.embedding.call(x), None).0)
    }
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
    resnet::rows(r);
    gpt::rows(r);
    r.add("e2e/charlstm", || {
        let m = CharLSTM {
            embedding: nn::Embedding::new(96, 64),
            fc: nn::Linear::new(256, 96),
            lstm: nn::LSTMOptions::new(64, 256).batch_first(true).build(),
        };
        let optimizer = optim::Adam::new(m.parameters(), 1e-3);
        train(m, optimizer, ints([32, 64], 96, 1), ints([32, 64], 96, 2))
    })
    .no_check();
}
