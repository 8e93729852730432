//! Attention and transformers: agreement of the ways to compute them, inference paths, copies, errors.

use crate::text;
use flambeau_autograd::no_grad;
use flambeau_core::{DType, Error, Tensor, functions as torch, ops};
use flambeau_nn::attention::{SDPBackend, bias, flex_attention as flex, sdpa_kernel, switches};
use flambeau_nn::prelude::*;
use flambeau_nn::{
    self as nn, LinearCrossEntropyLossOptions, LinearCrossEntropyOptions, MultiheadAttention,
    MultiheadAttentionArgs, MultiheadAttentionOptions, TransformerEncoderArgs,
    TransformerEncoderLayerOptions, TransformerEncoderOptions,
};
use flambeau_nn_functional::ops as f;
use flambeau_test_support::alone;

fn close(a: &Tensor, b: &Tensor, by: f64) {
    assert_eq!(a.sizes(), b.sizes());
    for (x, y) in a.to_vec::<f64>().iter().zip(b.to_vec::<f64>()) {
        assert!((x - y).abs() <= by || (x.is_nan() && y.is_nan()), "{x} {y}");
    }
}
fn qkv(heads: i64, keys: i64) -> [Tensor; 3] {
    torch_seed(3);
    [torch::randn([2, heads, 6, 4]), torch::randn([2, heads, keys, 4]), torch::randn([2, heads, keys, 4])]
}
fn torch_seed(n: u64) {
    flambeau_core::tensor::generator::manual_seed(n);
}
fn sdpa(q: &Tensor, k: &Tensor, v: &Tensor, causal: bool) -> Result<Tensor, Error> {
    f::scaled_dot_product_attention(q, k, v, None, 0.0, causal, None, false)
}

#[test]
fn implementations_agree_and_can_be_chosen() {
    alone!();
    let [q, k, v] = qkv(2, 6);
    let fused = sdpa(&q, &k, &v, true).unwrap();
    let math = sdpa_kernel(&[SDPBackend::Math], || sdpa(&q, &k, &v, true).unwrap());
    close(&fused, &math, 1e-6);
    let text = |backends: &[SDPBackend]| {
        sdpa_kernel(backends, || sdpa(&q, &k, &v, true).unwrap_err().message().to_owned())
    };
    assert!(text(&[SDPBackend::EfficientAttention]).starts_with("No viable backend for scaled_dot_product"));
    let five = torch::randn([1, 1, 1, 2, 3]);
    let refused = sdpa_kernel(&[SDPBackend::FlashAttention], || sdpa(&five, &five, &five, false));
    assert_eq!(refused.unwrap_err().message(), "No available kernel.  Aborting execution.");
    sdpa_kernel(&[SDPBackend::Math], || {
        assert!(!switches::flash_sdp_enabled() && switches::math_sdp_enabled());
        switches::enable_flash_sdp(true);
        assert!(switches::flash_sdp_enabled());
    });
    assert!(switches::flash_sdp_enabled() && switches::mem_efficient_sdp_enabled());
}

#[test]
fn a_query_that_sees_no_key_gives_zeros() {
    flambeau_test_support::alone!();
    let [q, k, v] = qkv(2, 6);
    let mask = torch::ones([6, 6]).tril(-1).eq(1);
    let y = f::scaled_dot_product_attention(&q, &k, &v, Some(&mask), 0.0, false, None, false).unwrap();
    assert!(y.narrow(2, 0, 1).eq(0).all().item::<bool>());
    let added = ops::log(&mask.to(DType::F32)).unwrap();
    let z = f::scaled_dot_product_attention(&q, &k, &v, Some(&added), 0.0, false, None, false).unwrap();
    close(&y, &z, 1e-6);
}

#[test]
fn causal_biases() {
    flambeau_test_support::alone!();
    let [q, k, v] = qkv(2, 9);
    let upper = bias::causal_upper_left(6, 9);
    close(&upper.scaled_dot_product_attention(&q, &k, &v), &sdpa(&q, &k, &v, true).unwrap(), 1e-6);
    let lower = bias::causal_lower_right(6, 9);
    let last = lower.scaled_dot_product_attention(&q, &k, &v).narrow(2, 5, 1);
    close(&last, &sdpa(&q, &k, &v, false).unwrap().narrow(2, 5, 1), 1e-6);
    let e = lower.try_scaled_dot_product_attention(&q, &k, &v, 0.0, true, None, false).unwrap_err();
    assert_eq!(e.message(), "CausalBias should not be used with causal=True");
}

#[test]
fn flex_attention_is_attention() {
    flambeau_test_support::alone!();
    let [q, k, v] = qkv(4, 6);
    close(&flex::flex_attention(&q, &k, &v), &sdpa(&q, &k, &v, false).unwrap(), 1e-6);
    let blocks = flex::BlockMaskOptions::new().block_size((2, 4));
    let causal = |_: &Tensor, _: &Tensor, q: &Tensor, kv: &Tensor| q.ge(kv);
    let mask = flex::create_block_mask_with(causal, None, None, 6, 6, blocks);
    assert_eq!(mask.kv_num_blocks.to_vec::<i64>(), [1, 1, 1]);
    assert_eq!(mask.full_kv_num_blocks.as_ref().unwrap().to_vec::<i64>(), [0, 0, 1]);
    assert_eq!(mask.to_dense().unwrap().to_vec::<i64>(), [1, 0, 1, 0, 1, 1]);
    assert_eq!(mask.q_num_blocks.to_vec::<i64>(), [2, 1]);
    let o = flex::FlexAttentionOptions::new().block_mask(&mask);
    close(&flex::flex_attention_with(&q, &k, &v, o.clone()), &sdpa(&q, &k, &v, true).unwrap(), 1e-6);

    // distances, a head's slope, fewer heads of keys, and sums
    let few = |t: &Tensor| t.narrow(1, 0, 2);
    let near = flex::and_masks(causal, |_, _, q, kv| (q - kv).lt(3));
    let mask = flex::create_block_mask_with(near, Some(2), Some(4), 6, 6, blocks);
    let o = flex::FlexAttentionOptions::new()
        .block_mask(&mask)
        .enable_gqa(true)
        .score_mod(|s, _, h, q, kv| s - &((q - kv) * 0.5) * h);
    let aux = flex::AuxRequest { lse: true, max_scores: false };
    let (y, extra) = flex::flex_attention_aux(&q, &few(&k), &few(&v), o.clone(), aux);
    let i = torch::arange(6);
    let distance = i.unsqueeze(1) - i.unsqueeze(0);
    let seen = distance.ge(0).to(DType::F32) * distance.lt(3).to(DType::F32);
    let slope = torch::arange(4).view([4, 1, 1]) * (distance.to(DType::F32) * -0.5);
    let scores = ops::log(&seen).unwrap() + slope;
    let all = f::scaled_dot_product_attention(
        &q,
        &few(&k),
        &few(&v),
        Some(&scores.unsqueeze(0)),
        0.0,
        false,
        None,
        true,
    );
    close(&y, &all.unwrap(), 1e-5);
    assert_eq!(extra.lse.unwrap().sizes(), [2, 4, 6]);
    let short = flex::create_block_mask(causal, None, None, 4, 4);
    let o = flex::FlexAttentionOptions::new().block_mask(&short);
    let e = flex::try_flex_attention(&q, &k, &v, o.clone(), aux).unwrap_err();
    assert!(e.message().starts_with("block_mask was created for a smaller length"));
    assert_eq!(mask.adjust(4, 4).unwrap().shape(), [2, 4, 4, 4]);
}

#[test]
fn inference_paths() {
    flambeau_test_support::alone!();
    torch_seed(0);
    let layer = TransformerEncoderLayerOptions::new(8, 2).dim_feedforward(16).batch_first(true).build();
    layer.eval();
    let x = torch::randn([2, 5, 8]);
    let hidden = flambeau_core::api::literal::tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]).eq(1);
    let args = TransformerEncoderArgs::new().src_key_padding_mask(&hidden);
    let slow = layer.call_with(&x, args.clone());
    close(&slow, &no_grad(|| layer.call_with(&x, args.clone())), 1e-5);
    // PyTorch's inference path takes every number but zero for "hidden", and has no zeros for rows without keys
    let own = TransformerEncoderArgs::new().mask(torch::ones([5, 5]));
    assert!(no_grad(|| layer.call_with(&x, own.clone())).isnan().all().item::<bool>());
    assert!(!layer.call_with(&x, own.clone()).isnan().any().item::<bool>());

    let encoder = TransformerEncoderOptions::new(layer, 2).norm(nn::LayerNorm::new(8)).build();
    encoder.eval();
    let (slow, fast) = (encoder.call_with(&x, args.clone()), no_grad(|| encoder.call_with(&x, args.clone())));
    close(&slow.narrow(0, 0, 1), &fast.narrow(0, 0, 1), 1e-5);
    assert!(fast.select(0, 1).narrow(0, 3, 2).eq(0).all().item::<bool>());
    assert!(!slow.select(0, 1).narrow(0, 3, 2).eq(0).any().item::<bool>());
}

#[test]
fn stacks_have_copies() {
    alone!();
    torch_seed(0);
    let layer = TransformerEncoderLayerOptions::new(8, 2).dim_feedforward(16).activation("gelu").build();
    let weight = layer.linear1.weight.tensor().copy();
    let next = flambeau_core::tensor::generator::fork_rng(|| torch::rand([1]).item::<f64>());
    let mut encoder = TransformerEncoderOptions::new(layer, 2).enable_nested_tensor(false).build();
    assert_eq!(torch::rand([1]).item::<f64>(), next, "the random stream goes on");
    for l in encoder.layers.iter() {
        close(&l.linear1.weight, &weight, 0.0);
    }
    assert_ne!(encoder.layers[0].linear1.weight.id(), encoder.layers[1].linear1.weight.id());
    encoder.to(DType::F64);
    assert_eq!(encoder.call(&torch::randn([3, 1, 8]).to(DType::F64)).dtype(), DType::F64);
    // an activation with parameters is copied with its layer
    let linear = TransformerEncoderLayerOptions::new(8, 2)
        .activation(nn::Activation::module(nn::Linear::new(2048, 2048)));
    let stack = TransformerEncoderOptions::new(linear.build(), 2).enable_nested_tensor(false).build();
    let weight = |i: usize| stack.get_parameter(&format!("layers.{i}.activation.weight")).unwrap();
    assert!(!weight(0).is_same(&weight(1)));
    close(&weight(0), &weight(1), 0.0);
}

#[test]
fn hooks_see_attention() {
    let m = MultiheadAttention::new(8, 2);
    m.register_forward_hook(|_, inputs, outputs| {
        assert_eq!((inputs.len(), outputs.len()), (3, 1));
        Some(vec![torch::zeros_like(&outputs[0])])
    });
    let x = torch::randn([5, 2, 8]);
    let (y, none) = m.call_with(&x, &x, &x, MultiheadAttentionArgs::new().need_weights(false));
    assert!(none.is_none() && y.eq(0).all().item::<bool>());
}

#[test]
fn errors_in_pytorchs_words() {
    let m = MultiheadAttentionOptions::new(8, 2).batch_first(true).build();
    let x = torch::randn([2, 5, 8]);
    let text =
        |a: MultiheadAttentionArgs| m.try_forward_with(&x, &x, &x, a).unwrap_err().message().to_owned();
    let args = MultiheadAttentionArgs::new;
    assert_eq!(
        text(args().attn_mask(torch::zeros([4, 5]))),
        "The shape of the 2D attn_mask is torch.Size([4, 5]), but should be (5, 5)."
    );
    assert_eq!(
        text(args().attn_mask(torch::zeros([5, 5]).to(DType::I64))),
        "only bool and floating types of attn_mask are supported"
    );
    assert_eq!(
        text(args().key_padding_mask(torch::zeros([2, 4]))),
        "Expected key_padded_mask.shape[1] to be 5, but got 4"
    );
    assert!(text(args().is_causal(true)).starts_with("Need attn_mask if specifying the is_causal hint."));
    let m = flambeau_nn::TransformerOptions::new()
        .d_model(8)
        .nhead(2)
        .dim_feedforward(8)
        .batch_first(true)
        .build();
    let e = m.try_forward(&torch::zeros(()), &x).unwrap_err();
    assert_eq!(e.message(), "Dimension specified as 0 but tensor has no dimensions");
    let layer = TransformerEncoderLayerOptions::new(8, 2).batch_first(true).build();
    let e = TransformerEncoderOptions::new(layer, 1).build().try_forward(&torch::zeros(())).unwrap_err();
    assert_eq!(e.message(), "tuple index out of range");
    let e = TransformerEncoderLayerOptions::new(8, 2).activation("silu").try_build().unwrap_err();
    assert_eq!(e.message(), "activation should be relu/gelu, not silu");
}

#[test]
fn chunks_change_nothing() {
    flambeau_test_support::alone!();
    torch_seed(0);
    let (x, t) = (torch::randn([7, 5]), torch::randint(9, [7]));
    for reduction in ["mean", "sum", "none"] {
        let make = |o: Option<LinearCrossEntropyOptions>| {
            let mut l =
                LinearCrossEntropyLossOptions::new(5, 9).bias(true).reduction(reduction).ignore_index(2);
            l.options = o;
            l.build()
        };
        let (whole, parts) = (make(None), make(Some(LinearCrossEntropyOptions::new().batch_chunk_size(3))));
        // other tests draw from the default generator meanwhile
        parts.load_state_dict(&whole.state_dict()).unwrap();
        let (a, b) = (whole.call(&x, &t), parts.call(&x, &t));
        close(&a, &b, 1e-5);
        a.sum().backward();
        b.sum().backward();
        for (p, q) in whole.parameters().iter().zip(parts.parameters()) {
            close(&p.grad().unwrap(), &q.grad().unwrap(), 1e-5);
        }
    }
    let bad = LinearCrossEntropyOptions::new().chunking_method(Some("x".to_string()));
    let e = LinearCrossEntropyLossOptions::new(5, 9).options(bad).try_build().unwrap_err();
    assert_eq!(e.message(), "invalid chunking_method: 'x'");
}

#[test]
fn masks_that_fail_are_errors() {
    let (q, k) = (torch::randn([1, 1, 4, 2]), torch::randn([1, 1, 4, 2]));
    let bad = |_: &Tensor, _: &Tensor, q: &Tensor, _: &Tensor| q.to(flambeau_core::DType::F32);
    let fine = |_: &Tensor, _: &Tensor, q: &Tensor, kv: &Tensor| q.ge(kv);
    let options = flex::BlockMaskOptions::new().block_size((2, 2));
    assert!(flex::try_create_block_mask(flex::and_masks(bad, fine), None, None, 4, 4, options).is_err());
    assert!(flex::try_create_block_mask(flex::or_masks(fine, bad), None, None, 4, 4, options).is_err());
    let e = flex::try_create_mask(fine, None, None, -1, 4, flambeau_core::Device::Cpu);
    assert!(e.is_err());
    let fails = |_: &Tensor, _: &Tensor, _: &Tensor, _: &Tensor, _: &Tensor| {
        Err::<Tensor, _>(Error::value("no score"))
    };
    let options = flex::FlexAttentionOptions::new().score_mod(fails);
    let e = flex::try_flex_attention(&q, &k, &k, options.clone(), flex::AuxRequest::default());
    assert_eq!(text(e.map(|(y, _)| y)), "no score");

    let (n, i) = (torch::zeros([1, 1, 2]), torch::zeros([1, 1, 2, 2]));
    let of = |block, lengths| {
        flex::BlockMask::from_kv_blocks(&n, &i, None, block, None, lengths).map(|m| m.numel())
    };
    assert_eq!(text(of((0, 2), None)), "BLOCK_SIZE must be positive, got (0, 2)");
    assert!(text(of((2, 2), Some((-2, 4)))).contains("must not be negative"));
    assert!(text(of((2, 2), Some((40, 4)))).contains("are not enough for 40"));
    assert!(text(of((i64::MAX, 2), None)).contains("too large"));
    assert_eq!(of((2, 2), None).unwrap(), 16);
    let full = (torch::zeros([1, 1, 3]), torch::zeros([1, 1, 3, 2]));
    let e = flex::BlockMask::from_kv_blocks(&n, &i, Some((&full.0, &full.1)), (2, 2), None, None);
    assert!(text(e).contains("whole blocks of sizes"));
    let mut mask = flex::BlockMask::from_kv_blocks(&n, &i, None, (2, 2), None, None).unwrap();
    assert!(mask.adjust(-1, 2).is_err());
    mask.block_size = (0, 0);
    assert!(mask.try_sparsity().is_err() && mask.to_string().contains("BLOCK_SIZE"));
    assert!(mask.strips_error(&q, &k));
}

trait StripsError {
    fn strips_error(&self, q: &Tensor, k: &Tensor) -> bool;
}

impl StripsError for flex::BlockMask {
    fn strips_error(&self, q: &Tensor, k: &Tensor) -> bool {
        let options = flex::FlexAttentionOptions::new().block_mask(self);
        flex::try_flex_attention(q, k, k, options.clone(), flex::AuxRequest::default()).is_err()
    }
}
