//! What vmap can only do slice by slice (docs/vmap_loops.md) is nothing that layers and losses call.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use torch::nn::{self, Layer};
use torch::overrides::{self, OperatorCall};
use torch::prelude::*;
use torch::{Tensor, nn::functional as F};

/// Operators that are called, with those that composites and backward passes are made of.
fn called(f: impl FnOnce()) -> BTreeSet<&'static str> {
    let names: Rc<RefCell<BTreeSet<&'static str>>> = Rc::default();
    let note = |to: &Rc<RefCell<BTreeSet<&'static str>>>| {
        let to = to.clone();
        move |call: &OperatorCall<'_>| {
            to.borrow_mut().insert(call.name());
            call.call_on()
        }
    };
    let _whole = overrides::push_function_mode(note(&names));
    let _parts = overrides::push_dispatch_mode(note(&names));
    f();
    names.take()
}
fn layer(m: impl Layer + 'static, sizes: &[i64]) -> (String, Box<dyn Fn()>) {
    let name = m.type_name().into_owned();
    let x = torch::ones(sizes).requires_grad_(true);
    (name, Box::new(move || m.call(&x).sum().backward()))
}
fn function(name: &str, f: impl Fn(&Tensor) -> Tensor + 'static, sizes: &[i64]) -> (String, Box<dyn Fn()>) {
    let x = torch::ones(sizes).requires_grad_(true);
    (name.to_string(), Box::new(move || f(&x).sum().backward()))
}

#[test]
fn layers_call_no_loop() {
    let loops: BTreeSet<&str> = include_str!("../../../docs/vmap_loops.md")
        .lines()
        .filter_map(|l| l.strip_prefix("| flambeau-")?.split('`').nth(1))
        .collect();
    assert!(loops.len() > 20 && loops.contains("bincount"), "{loops:?}");
    let attention = nn::MultiheadAttention::new(8, 2);
    let (lstm, gru, rnn) = (nn::LSTM::new(4, 3), nn::GRU::new(4, 3), nn::RNN::new(4, 3));
    let embedding = nn::Embedding::new(10, 4);
    let bag = nn::EmbeddingBag::new(10, 4);
    let places = torch::tensor([[1i64, 2], [3, 4]]);
    let places_too = places.clone();
    let classes = || torch::tensor([1i64, 0, 2]);
    let all = vec![
        layer(nn::Linear::new(4, 3), &[2, 4]),
        layer(nn::Conv1d::new(2, 3, 3), &[1, 2, 8]),
        layer(nn::Conv2d::new(2, 3, 3), &[1, 2, 8, 8]),
        layer(nn::Conv3d::new(2, 3, 3), &[1, 2, 5, 5, 5]),
        layer(nn::ConvTranspose2d::new(2, 3, 3), &[1, 2, 5, 5]),
        layer(nn::BatchNorm1d::new(3), &[4, 3]),
        layer(nn::BatchNorm2d::new(3), &[2, 3, 4, 4]),
        layer(nn::GroupNorm::new(2, 4), &[2, 4, 3]),
        layer(nn::InstanceNorm2d::new(3), &[2, 3, 4, 4]),
        layer(nn::LayerNorm::new(4), &[2, 4]),
        layer(nn::RMSNorm::new(4), &[2, 4]),
        layer(nn::LocalResponseNorm::new(2), &[1, 4, 3]),
        layer(nn::ReLU::new(), &[3]),
        layer(nn::GELU::new(), &[3]),
        layer(nn::SiLU::new(), &[3]),
        layer(nn::ELU::new(), &[3]),
        layer(nn::Hardswish::new(), &[3]),
        layer(nn::Mish::new(), &[3]),
        layer(nn::PReLU::new(), &[2, 3]),
        layer(nn::Softplus::new(), &[3]),
        layer(nn::Softmax::new(1), &[2, 3]),
        layer(nn::LogSoftmax::new(1), &[2, 3]),
        layer(nn::GLU::new(), &[2, 4]),
        layer(nn::Dropout::new(0.5), &[2, 4]),
        layer(nn::Dropout2d::new(0.5), &[1, 2, 3, 3]),
        layer(nn::AlphaDropout::new(0.5), &[2, 4]),
        layer(nn::MaxPool2d::new(2), &[1, 2, 4, 4]),
        layer(nn::AvgPool2d::new(2), &[1, 2, 4, 4]),
        layer(nn::AdaptiveAvgPool2d::new((2, 2)), &[1, 2, 4, 4]),
        layer(nn::Flatten::new(), &[2, 2, 2]),
        layer(nn::ZeroPad2d::new(1), &[1, 2, 3, 3]),
        layer(nn::ReflectionPad2d::new(1), &[1, 2, 3, 3]),
        layer(nn::PixelShuffle::new(2), &[1, 4, 2, 2]),
        function("MultiheadAttention", move |x| attention.call(x, x, x).0, &[3, 1, 8]),
        function("LSTM", move |x| lstm.call(x, None).0, &[5, 2, 4]),
        function("GRU", move |x| gru.call(x, None).0, &[5, 2, 4]),
        function("RNN", move |x| rnn.call(x, None).0, &[5, 2, 4]),
        function("Embedding", move |x| embedding.call(&places) * x, &[4]),
        function("EmbeddingBag", move |x| bag.call(&places_too, None, None) * x, &[4]),
        function("cross_entropy", move |x| F::cross_entropy(x, &classes()), &[3, 4]),
        function("mse_loss", |x| F::mse_loss(x, &torch::zeros([3, 4])), &[3, 4]),
        function("l1_loss", |x| F::l1_loss(x, &torch::zeros([3, 4])), &[3, 4]),
        function("smooth_l1_loss", |x| F::smooth_l1_loss(x, &torch::zeros([3, 4])), &[3, 4]),
        function(
            "binary_cross_entropy_with_logits",
            |x| F::binary_cross_entropy_with_logits(x, &torch::zeros([3, 4])),
            &[3, 4],
        ),
        function("scaled_dot_product_attention", |x| F::scaled_dot_product_attention(x, x, x), &[1, 2, 3, 4]),
    ];
    for (name, run) in all {
        let found: Vec<&str> = called(run).into_iter().filter(|n| loops.contains(n)).collect();
        assert!(found.is_empty(), "{name} calls {found:?}, which vmap does slice by slice");
    }
}
