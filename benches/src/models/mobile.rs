//! MobileNetV3-Small.

use super::{conv, he, relu};
use torch::nn;
use torch::prelude::*;

#[derive(Debug, Module)]
struct SqueezeExcitation {
    base: nn::Base,
    pool: nn::AdaptiveAvgPool2d,
    fc1: nn::Conv2d,
    fc2: nn::Conv2d,
    relu: nn::ReLU,
    scale: nn::Hardsigmoid,
}
impl SqueezeExcitation {
    fn new(width: i64, squeezed: i64) -> Self {
        SqueezeExcitation {
            base: nn::Base::new(),
            pool: nn::AdaptiveAvgPool2d::new(1),
            fc1: nn::Conv2d::new(width, squeezed, 1),
            fc2: nn::Conv2d::new(squeezed, width, 1),
            relu: nn::ReLU::new(),
            scale: nn::Hardsigmoid::new(),
        }
    }
}
#[nn::forward]
impl SqueezeExcitation {
    fn forward(&self, x: &Tensor) -> Tensor {
        let hidden = self.relu.call(&self.fc1.call(&self.pool.call(x)));
        self.scale.call(&self.fc2.call(&hidden)) * x
    }
}

fn norm(width: i64) -> nn::BatchNorm2d {
    nn::BatchNorm2dOptions::new(width).eps(0.001).momentum(0.01).build()
}
fn hardswish() -> nn::Hardswish {
    nn::HardswishOptions::new().inplace(true).build()
}

/// A row of the network's table.
#[derive(Clone, Copy)]
struct Row {
    inputs: i64,
    kernel: i64,
    width: i64,
    outputs: i64,
    /// Width within the squeeze and excitation; 0 for none.
    squeezed: i64,
    hard: bool,
    stride: i64,
}
const fn row(
    inputs: i64,
    kernel: i64,
    width: i64,
    outputs: i64,
    squeezed: i64,
    hard: bool,
    stride: i64,
) -> Row {
    Row { inputs, kernel, width, outputs, squeezed, hard, stride }
}
const ROWS: [Row; 11] = [
    row(16, 3, 16, 16, 8, false, 2),
    row(16, 3, 72, 24, 0, false, 2),
    row(24, 3, 88, 24, 0, false, 1),
    row(24, 5, 96, 40, 24, true, 2),
    row(40, 5, 240, 40, 64, true, 1),
    row(40, 5, 240, 40, 64, true, 1),
    row(40, 5, 120, 48, 32, true, 1),
    row(48, 5, 144, 48, 40, true, 1),
    row(48, 5, 288, 96, 72, true, 2),
    row(96, 5, 576, 96, 144, true, 1),
    row(96, 5, 576, 96, 144, true, 1),
];

#[derive(Debug, Module)]
struct InvertedResidual {
    base: nn::Base,
    body: nn::Sequential,
    residual: bool,
}
impl InvertedResidual {
    fn new(r: Row) -> Self {
        let mut body = nn::Sequential::new(());
        let act = |body: &mut nn::Sequential| {
            if r.hard {
                body.append(hardswish());
            } else {
                body.append(relu());
            }
        };
        if r.width != r.inputs {
            body.append(conv(r.inputs, r.width, 1, 1, 1)).append(norm(r.width));
            act(&mut body);
        }
        body.append(conv(r.width, r.width, r.kernel, r.stride, r.width)).append(norm(r.width));
        act(&mut body);
        if r.squeezed > 0 {
            body.append(SqueezeExcitation::new(r.width, r.squeezed));
        }
        body.append(conv(r.width, r.outputs, 1, 1, 1)).append(norm(r.outputs));
        InvertedResidual { base: nn::Base::new(), body, residual: r.stride == 1 && r.inputs == r.outputs }
    }
}
#[nn::forward]
impl InvertedResidual {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.body.call(x);
        if self.residual {
            y.add_(x);
        }
        y
    }
}

/// Without the dropout before the last layer.
#[derive(Debug, Module)]
pub struct MobileNetV3Small {
    base: nn::Base,
    stem: nn::Sequential,
    blocks: Vec<InvertedResidual>,
    last: nn::Sequential,
    pool: nn::AdaptiveAvgPool2d,
    classifier: nn::Sequential,
}
impl MobileNetV3Small {
    pub fn new() -> Self {
        he(MobileNetV3Small {
            base: nn::Base::new(),
            stem: nn::Sequential::new((conv(3, 16, 3, 2, 1), norm(16), hardswish())),
            blocks: ROWS.into_iter().map(InvertedResidual::new).collect(),
            last: nn::Sequential::new((conv(96, 576, 1, 1, 1), norm(576), hardswish())),
            pool: nn::AdaptiveAvgPool2d::new(1),
            classifier: nn::Sequential::new((
                nn::Linear::new(576, 1024),
                hardswish(),
                nn::Linear::new(1024, 1000),
            )),
        })
    }
}
#[nn::forward]
impl MobileNetV3Small {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.blocks.iter().fold(self.stem.call(x), |x, b| b.call(&x));
        let pooled = self.pool.call(&self.last.call(&x));
        self.classifier.call(&pooled.flatten(1, -1))
    }
}
