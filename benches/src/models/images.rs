//! Residual networks and a U-Net.

use super::{conv, he, relu};
use torch::nn;
use torch::prelude::*;

#[derive(Debug, Module)]
struct Residual {
    base: nn::Base,
    body: nn::Sequential,
    shortcut: Option<nn::Sequential>,
    relu: nn::ReLU,
}
impl Residual {
    fn new(inputs: i64, width: i64, outputs: i64, stride: i64, bottleneck: bool) -> Self {
        let norm = nn::BatchNorm2d::new;
        let body = if bottleneck {
            nn::Sequential::new((
                conv(inputs, width, 1, 1, 1),
                norm(width),
                relu(),
                conv(width, width, 3, stride, 1),
                norm(width),
                relu(),
                conv(width, outputs, 1, 1, 1),
                norm(outputs),
            ))
        } else {
            nn::Sequential::new((
                conv(inputs, width, 3, stride, 1),
                norm(width),
                relu(),
                conv(width, outputs, 3, 1, 1),
                norm(outputs),
            ))
        };
        let changes = stride != 1 || inputs != outputs;
        let shortcut = || nn::Sequential::new((conv(inputs, outputs, 1, stride, 1), norm(outputs)));
        Residual { base: nn::Base::new(), body, shortcut: changes.then(shortcut), relu: relu() }
    }
}
#[nn::forward]
impl Residual {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.body.call(x);
        match &self.shortcut {
            Some(s) => y.add_(s.call(x)),
            None => y.add_(x),
        };
        self.relu.call(&y)
    }
}

#[derive(Debug, Module)]
pub struct ResNet {
    base: nn::Base,
    stem: nn::Sequential,
    blocks: Vec<Residual>,
    fc: nn::Linear,
}
impl ResNet {
    fn new(counts: [usize; 4], bottleneck: bool) -> Self {
        let pool = nn::MaxPool2dOptions::new(3).stride(2).padding(1).build();
        let stem = nn::Sequential::new((conv(3, 64, 7, 2, 1), nn::BatchNorm2d::new(64), relu(), pool));
        let (mut blocks, mut inputs) = (Vec::new(), 64);
        for (stage, count) in counts.into_iter().enumerate() {
            let width = 64 << stage;
            let outputs = if bottleneck { width * 4 } else { width };
            for i in 0..count {
                let stride = if stage > 0 && i == 0 { 2 } else { 1 };
                blocks.push(Residual::new(inputs, width, outputs, stride, bottleneck));
                inputs = outputs;
            }
        }
        he(ResNet { base: nn::Base::new(), stem, blocks, fc: nn::Linear::new(inputs, 1000) })
    }
}
#[nn::forward]
impl ResNet {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.blocks.iter().fold(self.stem.call(x), |x, b| b.call(&x));
        self.fc.call(&x.mean_dim([2, 3], false))
    }
}

pub fn resnet18() -> ResNet {
    ResNet::new([2, 2, 2, 2], false)
}
pub fn resnet50() -> ResNet {
    ResNet::new([3, 4, 6, 3], true)
}

fn double_conv(inputs: i64, outputs: i64) -> nn::Sequential {
    let norm = nn::BatchNorm2d::new;
    nn::Sequential::new((
        conv(inputs, outputs, 3, 1, 1),
        norm(outputs),
        relu(),
        conv(outputs, outputs, 3, 1, 1),
        norm(outputs),
        relu(),
    ))
}

/// Four levels, 32 channels at the top, two classes for each pixel.
#[derive(Debug, Module)]
pub struct UNet {
    base: nn::Base,
    down: Vec<nn::Sequential>,
    pool: nn::MaxPool2d,
    up: Vec<nn::ConvTranspose2d>,
    join: Vec<nn::Sequential>,
    out: nn::Conv2d,
}
impl UNet {
    pub fn new() -> Self {
        let down = [(3, 32), (32, 64), (64, 128), (128, 256)].map(|(i, o)| double_conv(i, o)).into();
        let (mut up, mut join) = (Vec::new(), Vec::new());
        for w in [128, 64, 32] {
            up.push(nn::ConvTranspose2dOptions::new(2 * w, w, 2).stride(2).build());
            join.push(double_conv(2 * w, w));
        }
        let (pool, out) = (nn::MaxPool2d::new(2), nn::Conv2d::new(32, 2, 1));
        he(UNet { base: nn::Base::new(), down, pool, up, join, out })
    }
}
#[nn::forward]
impl UNet {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut levels: Vec<Tensor> = Vec::new();
        for d in &self.down {
            let next = match levels.last() {
                Some(above) => d.call(&self.pool.call(above)),
                None => d.call(x),
            };
            levels.push(next);
        }
        let mut x = levels.remove(levels.len() - 1);
        for (up, join) in self.up.iter().zip(&self.join) {
            let level = levels.remove(levels.len() - 1);
            x = join.call(&torch::cat(&[level, up.call(&x)], 1));
        }
        self.out.call(&x)
    }
}
