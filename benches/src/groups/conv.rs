//! Convolutions, pooling, batch normalisation.

use crate::input::{fill, leaf};
use crate::row::{Rows, forward_backward};
use torch::nn::functional as F;
use torch::prelude::*;

/// A convolution's sizes.
#[derive(Clone, Copy)]
struct Conv {
    name: &'static str,
    inputs: i64,
    side: i64,
    outputs: i64,
    kernel: i64,
    stride: i64,
    padding: i64,
    groups: i64,
}
const fn conv(
    name: &'static str,
    [inputs, side, outputs]: [i64; 3],
    [kernel, stride, padding]: [i64; 3],
    groups: i64,
) -> Conv {
    Conv { name, inputs, side, outputs, kernel, stride, padding, groups }
}
const CONVS: [Conv; 5] = [
    conv("conv1_7x7s2", [3, 224, 64], [7, 2, 3], 1),
    conv("3x3_56x64", [64, 56, 64], [3, 1, 1], 1),
    conv("3x3_14x256", [256, 14, 256], [3, 1, 1], 1),
    conv("1x1_256_1024", [256, 14, 1024], [1, 1, 0], 1),
    conv("dw3x3_56x128", [128, 56, 128], [3, 1, 1], 128),
];

impl Conv {
    /// Input, weight, bias.
    fn operands(&self, batch: i64) -> [Tensor; 3] {
        let k = self.kernel;
        [
            fill([batch, self.inputs, self.side, self.side], 1),
            fill([self.outputs, self.inputs / self.groups, k, k], 2),
            fill([self.outputs], 3),
        ]
    }
    fn run(&self, [x, w, b]: &[Tensor; 3]) -> Tensor {
        let o = torch::options::Conv2dOptions::new().bias(b).stride(self.stride).padding(self.padding);
        F::conv2d_with(x, w, o.groups(self.groups))
    }
}

/// Weight, bias, running mean, running variance.
fn norm_operands(make: fn([i64; 1], u32) -> Tensor) -> [Tensor; 4] {
    [make([64], 2), make([64], 3), torch::zeros(64), torch::ones(64)]
}
fn norm(x: &Tensor, [w, b, mean, var]: &[Tensor; 4]) -> Tensor {
    F::batch_norm(x, Some(mean), Some(var), Some(w), Some(b), true)
}

pub fn rows(r: &mut Rows) {
    for c in CONVS {
        for batch in [1, 8] {
            r.add(format!("conv/{}_n{batch}", c.name), move || {
                let all = c.operands(batch);
                move || c.run(&all)
            });
            r.add(format!("conv/{}_n{batch}_fb", c.name), move || {
                let all = c.operands(batch).map(|t| t.requires_grad_(true));
                forward_backward(all.to_vec(), move || c.run(&all))
            });
        }
    }
    r.add("conv/conv1d", || {
        let (x, w, b) = (fill([8, 64, 1024], 1), fill([128, 64, 3], 2), fill([128], 3));
        move || F::conv1d_with(&x, &w, torch::options::Conv1dOptions::new().bias(&b).padding(1))
    });
    r.add("conv/conv_transpose2d", || {
        let (x, w, b) = (fill([8, 64, 28, 28], 1), fill([64, 32, 4, 4], 2), fill([32], 3));
        move || {
            let o = torch::options::ConvTranspose2dOptions::new().bias(&b).stride(2).padding(1);
            F::conv_transpose2d_with(&x, &w, o)
        }
    });
    let images = || fill([8, 64, 112, 112], 1);
    r.add("conv/max_pool2d", move || {
        let x = images();
        move || F::max_pool2d_with(&x, 3, torch::options::MaxPool2dOptions::new().stride(2).padding(1))
    });
    r.add("conv/avg_pool2d", move || {
        let x = images();
        move || F::avg_pool2d(&x, 2)
    });
    r.add("conv/batch_norm_train", || {
        let (x, rest) = (fill([8, 64, 56, 56], 1), norm_operands(fill));
        move || norm(&x, &rest)
    });
    r.add("conv/batch_norm_train_fb", || {
        let (x, rest) = (leaf([8, 64, 56, 56], 1), norm_operands(leaf));
        forward_backward(vec![x.clone(), rest[0].clone(), rest[1].clone()], move || norm(&x, &rest))
    });
}
