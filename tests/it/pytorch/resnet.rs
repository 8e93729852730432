//! ResNet-18 (He et al. 2016), in torchvision's layout, 64 channels wide or narrower.

use torch::nn;
use torch::prelude::*;

fn conv3(i: i64, o: i64, stride: i64) -> nn::Conv2d {
    nn::Conv2dOptions::new(i, o, 3).stride(stride).padding(1).bias(false).build()
}

#[derive(Debug, Module)]
pub struct BasicBlock {
    conv1: nn::Conv2d,
    bn1: nn::BatchNorm2d,
    relu: nn::ReLU,
    conv2: nn::Conv2d,
    bn2: nn::BatchNorm2d,
    downsample: Option<nn::Sequential>,
}
impl BasicBlock {
    fn new(i: i64, o: i64, stride: i64) -> Self {
        let downsample = (i != o).then(|| {
            let conv = nn::Conv2dOptions::new(i, o, 1).stride(stride).bias(false).build();
            nn::Sequential::new((conv, nn::BatchNorm2d::new(o)))
        });
        BasicBlock {
            conv1: conv3(i, o, stride),
            bn1: nn::BatchNorm2d::new(o),
            relu: nn::ReLU::new(),
            conv2: conv3(o, o, 1),
            bn2: nn::BatchNorm2d::new(o),
            downsample,
        }
    }
}
#[nn::forward]
impl BasicBlock {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.relu.call(&self.bn1.call(&self.conv1.call(x)));
        let y = self.bn2.call(&self.conv2.call(&y));
        let identity = self.downsample.as_ref().map_or_else(|| x.clone(), |d| d.call(x));
        self.relu.call(&(y + identity))
    }
}

#[derive(Debug, Module)]
pub struct ResNet18 {
    conv1: nn::Conv2d,
    bn1: nn::BatchNorm2d,
    relu: nn::ReLU,
    maxpool: nn::MaxPool2d,
    layer1: nn::Sequential,
    layer2: nn::Sequential,
    layer3: nn::Sequential,
    layer4: nn::Sequential,
    avgpool: nn::AdaptiveAvgPool2d,
    fc: nn::Linear,
}
impl ResNet18 {
    pub fn new(classes: i64, w: i64) -> Self {
        let layer =
            |i, o, stride| nn::Sequential::new((BasicBlock::new(i, o, stride), BasicBlock::new(o, o, 1)));
        ResNet18 {
            conv1: nn::Conv2dOptions::new(3, w, 7).stride(2).padding(3).bias(false).build(),
            bn1: nn::BatchNorm2d::new(w),
            relu: nn::ReLU::new(),
            maxpool: nn::MaxPool2dOptions::new(3).stride(2).padding(1).build(),
            layer1: layer(w, w, 1),
            layer2: layer(w, 2 * w, 2),
            layer3: layer(2 * w, 4 * w, 2),
            layer4: layer(4 * w, 8 * w, 2),
            avgpool: nn::AdaptiveAvgPool2d::new((1, 1)),
            fc: nn::Linear::new(8 * w, classes),
        }
    }
}
#[nn::forward]
impl ResNet18 {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = self.maxpool.call(&self.relu.call(&self.bn1.call(&self.conv1.call(x))));
        for layer in [&self.layer1, &self.layer2, &self.layer3, &self.layer4] {
            x = layer.call(&x);
        }
        self.fc.call(&self.avgpool.call(&x).flatten(1, -1))
    }
}
