//! The networks of the benchmark, from `torch::nn` alone. `models.py` has the same: modules are made in the same order, so that
//! one seed gives the same weights.

mod gpt;
mod images;
mod mobile;
mod sequences;
mod transformers;

pub use gpt::{Gpt, GptShape};
pub use images::{UNet, resnet18, resnet50};
pub use mobile::MobileNetV3Small;
pub use sequences::{CharLSTM, Dlrm, SpeechEncoder};
pub use transformers::{Bert, ViT};

use torch::nn;
use torch::prelude::*;

/// A convolution without bias that keeps the side, or divides it by the stride.
fn conv(inputs: i64, outputs: i64, kernel: i64, stride: i64, groups: i64) -> nn::Conv2d {
    let options = nn::Conv2dOptions::new(inputs, outputs, kernel).stride(stride).padding(kernel / 2);
    options.groups(groups).bias(false).build()
}

fn relu() -> nn::ReLU {
    nn::ReLUOptions::new().inplace(true).build()
}

/// Weights of convolutions by He et al., so that signals keep their size however deep the network is.
fn he<M: Module>(model: M) -> M {
    for m in model.modules() {
        if let Some(conv) = m.as_any().downcast_ref::<nn::Conv2d>() {
            let options = nn::init::KaimingOptions::new().mode("fan_out").nonlinearity("relu");
            nn::init::kaiming_normal_with(&conv.weight, options);
        }
    }
    model
}

/// Linear layers with ReLU between them.
pub fn mlp(widths: &[i64]) -> nn::Sequential {
    let mut m = nn::Sequential::new(());
    for (i, w) in widths.windows(2).enumerate() {
        if i > 0 {
            m.append(nn::ReLU::new());
        }
        m.append(nn::Linear::new(w[0], w[1]));
    }
    m
}
