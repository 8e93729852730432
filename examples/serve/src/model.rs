//! The network of the digits example, so that its `digits.pt` can be served.

use std::path::Path;
use torch::prelude::*;
use torch::{Result, nn};

/// Pixels of a picture, row by row, and classes.
pub const PIXELS: usize = 64;
pub const CLASSES: usize = 10;

#[derive(Debug, Module)]
pub struct Net {
    base: nn::Base,
    conv1: nn::Conv2d,
    bn1: nn::BatchNorm2d,
    conv2: nn::Conv2d,
    bn2: nn::BatchNorm2d,
    pool: nn::MaxPool2d,
    dropout: nn::Dropout,
    fc1: nn::Linear,
    fc2: nn::Linear,
}

impl Net {
    /// With the weights of a file, or with random ones, to try the service out.
    pub fn load(path: Option<&Path>) -> Result<Net> {
        let net = Net {
            base: nn::Base::new(),
            conv1: nn::Conv2dOptions::new(1, 32, 3).padding(1).build(),
            bn1: nn::BatchNorm2d::new(32),
            conv2: nn::Conv2dOptions::new(32, 64, 3).padding(1).build(),
            bn2: nn::BatchNorm2d::new(64),
            pool: nn::MaxPool2d::new(2),
            dropout: nn::Dropout::new(0.25),
            fc1: nn::Linear::new(64 * 4 * 4, 128),
            fc2: nn::Linear::new(128, CLASSES as i64),
        };
        if let Some(path) = path {
            net.load_state_dict(&torch::load(path)?)?;
        }
        net.eval();
        Ok(net)
    }
}

#[nn::forward]
impl Net {
    /// Probabilities `(N, 10)` of pictures `(N, 1, 8, 8)`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.bn1.try_call(&self.conv1.try_call(x)?)?.relu();
        let x = self.pool.try_call(&self.bn2.try_call(&self.conv2.try_call(&x)?)?.relu())?;
        let x = self.dropout.try_call(&x.flatten(1, -1))?;
        Ok(self.fc2.try_call(&self.fc1.try_call(&x)?.relu())?.softmax(-1))
    }
}
