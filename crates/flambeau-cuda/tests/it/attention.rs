//! Attention beside the CPU's, with its gradients: sizes that fill no tile, heads of all widths, keys that lie ahead.

use crate::emulated::{cast, numbers};
use crate::layers::{FLOATS, both};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Tensor, ops};
use flambeau_nn_functional::ops as nn;

/// Compares all of it with the CPU.
pub fn all() {
    for (d, tolerance) in FLOATS {
        let of = |sizes: &[i64]| cast(&numbers(sizes), d);
        attention(d, tolerance, &of);
        masks(d, tolerance, &of);
    }
    assert!(!flambeau_cuda::fallbacks().contains_key("_fused_attention"));
}
fn attention(d: DType, tolerance: f64, of: &dyn Fn(&[i64]) -> Tensor) {
    for (l, s, e, v, causal) in [
        (5, 7, 4, 3, false),
        (70, 66, 40, 70, true),
        (130, 150, 64, 64, true),
        (3, 100, 128, 96, false),
        (3, 100, 130, 150, false),
    ] {
        let turned = |t: Tensor| ops::transpose(&t, 1, 2).unwrap();
        // heads between the rows, as layers have them
        let all = [of(&[2, l, 2, e]), of(&[2, s, 2, e]), of(&[2, s, 2, v]), of(&[2, 2, l, v])];
        both(&format!("attention {d} {l} {s} {causal}"), tolerance * 8.0, &all, |t| {
            let [q, k, v] = [0, 1, 2].map(|i| turned(t[i].clone()));
            let (y, lse) = nn::fused_attention(&q, &k, &v, None, causal, 0.3).unwrap();
            let back = nn::fused_attention_backward(&t[3], &q, &k, &v, &y, &lse, None, causal, 0.3).unwrap();
            vec![y, lse, back.0, back.1, back.2]
        });
    }
}
/// Masks of all kinds, one with a query that sees nothing, and the gradients: the CPU composes them.
fn masks(d: DType, tolerance: f64, of: &dyn Fn(&[i64]) -> Tensor) {
    let (l, s) = (67, 70);
    for sizes in [&[l, s][..], &[2, 1, 1, s], &[1, 2, l, 1], &[2, 2, l, s]] {
        let n: i64 = sizes.iter().product();
        let some = |i: i64| i % 3 != 0 && (n == l || i / s != 5);
        let truths: Vec<i64> = (0..n).map(|i| some(i).into()).collect();
        let truths = cast(&Tensor::from_slice(&truths, sizes), DType::Bool);
        let added: Vec<f32> =
            (0..n).map(|i| if some(i) { (i as f32 * 0.3).sin() } else { f32::NEG_INFINITY }).collect();
        let added = Tensor::from_slice(&added, sizes);
        for mask in [truths, cast(&added, d), added] {
            let all = [of(&[2, 2, l, 24]), of(&[2, 2, s, 24]), of(&[2, 2, s, 40]), mask];
            let what = format!("attention {d} with a mask {sizes:?} of {}", all[3].dtype());
            both(&what, tolerance * 8.0, &all, |t| {
                let inputs = [0, 1, 2].map(|i| t[i].alias_detached().requires_grad_(true));
                let [q, k, v] = &inputs;
                let y = nn::scaled_dot_product_attention(q, k, v, Some(&t[3]), 0.0, false, Some(0.3), false)
                    .unwrap();
                let total = ops::sum(&ops::mul(&y, &y).unwrap(), None, false, None).unwrap();
                let grads = flambeau_autograd::grad_fn::grad([&total], &inputs);
                [vec![y.alias_detached()], grads].concat()
            });
        }
    }
}
