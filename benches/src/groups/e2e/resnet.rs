//! ResNet-18.

use crate::input::fill;
use crate::row::Rows;
use torch::nn;
use torch::prelude::*;

fn conv(inputs: i64, outputs: i64, kernel: i64, stride: i64) -> nn::Conv2d {
    nn::Conv2dOptions::new(inputs, outputs, kernel).stride(stride).padding(kernel / 2).bias(false).build()
}

#[derive(Debug, Module)]
struct Block {
    base: nn::Base,
    conv1: nn::Conv2d,
    bn1: nn::BatchNorm2d,
    conv2: nn::Conv2d,
    bn2: nn::BatchNorm2d,
    downsample: Option<nn::Sequential>,
}
impl Block {
    fn new(inputs: i64, outputs: i64, stride: i64) -> Self {
        let change = stride != 1 || inputs != outputs;
        let shortcut =
            || nn::Sequential::new((conv(inputs, outputs, 1, stride), nn::BatchNorm2d::new(outputs)));
        Block {
            base: nn::Base::new(),
            conv1: conv(inputs, outputs, 3, stride),
            bn1: nn::BatchNorm2d::new(outputs),
            conv2: conv(outputs, outputs, 3, 1),
            bn2: nn::BatchNorm2d::new(outputs),
            downsample: change.then(shortcut),
        }
    }
}
#[nn::forward]
impl Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.bn1.call(&self.conv1.call(x)).relu();
        let y = self.bn2.call(&self.conv2.call(&y));
        match &self.downsample {
            Some(d) => (y + d.call(x)).relu(),
            None => (y + x).relu(),
        }
    }
}

#[derive(Debug, Module)]
pub struct ResNet18 {
    base: nn::Base,
    conv1: nn::Conv2d,
    bn1: nn::BatchNorm2d,
    pool: nn::MaxPool2d,
    blocks: Vec<Block>,
    fc: nn::Linear,
}
impl ResNet18 {
    pub fn new() -> Self {
        let mut blocks = Vec::new();
        let mut inputs = 64;
        for (outputs, stride) in [(64, 1), (128, 2), (256, 2), (512, 2)] {
            blocks.push(Block::new(inputs, outputs, stride));
            blocks.push(Block::new(outputs, outputs, 1));
            inputs = outputs;
        }
        ResNet18 {
            base: nn::Base::new(),
            conv1: conv(3, 64, 7, 2),
            bn1: nn::BatchNorm2d::new(64),
            pool: nn::MaxPool2dOptions::new(3).stride(2).padding(1).build(),
            blocks,
            fc: nn::Linear::new(512, 1000),
        }
    }
}
#[nn::forward]
impl ResNet18 {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.pool.call(&self.bn1.call(&self.conv1.call(x)).relu());
        let x = self.blocks.iter().fold(x, |x, b| b.call(&x));
        self.fc.call(&x.mean_dim([2, 3], false))
    }
}

pub fn rows(r: &mut Rows) {
    for batch in [1, 8] {
        r.add(format!("e2e/resnet18_b{batch}"), move || {
            let (m, x) = (ResNet18::new(), fill([batch, 3, 224, 224], 1));
            m.eval();
            move || m.call(&x)
        })
        .no_grad()
        .no_check();
    }
}
