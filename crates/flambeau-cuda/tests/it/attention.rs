//! Attention beside the CPU's, with its gradients: sizes that fill no tile, heads of all widths, keys that lie ahead, weights that are
//! dropped. Halves whose rows are whole numbers of 16 bytes go by groups of warps, all others by warps.

use crate::emulated::{cast, floats, numbers, there};
use crate::layers::{FLOATS, both};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::generator::manual_seed;
use flambeau_core::{DType, Device, Tensor, ops};
use flambeau_nn_functional::ops as nn;

/// Compares float32 and float64 with the CPU.
pub fn all() {
    compared(&FLOATS[..2]);
    drawn();
}
/// Attention of halves.
pub mod halves {
    /// Compares them with the CPU.
    pub fn all() {
        super::compared(&super::FLOATS[2..]);
    }
}
fn compared(dtypes: &[(DType, f64)]) {
    for (d, tolerance) in dtypes.iter().copied() {
        let of = |sizes: &[i64]| cast(&numbers(sizes), d);
        attention(d, tolerance, &of);
        masks(d, tolerance, &of);
        dropped(d, tolerance, &of);
    }
    assert!(!flambeau_cuda::fallbacks().contains_key("_fused_attention"));
}
fn attention(d: DType, tolerance: f64, of: &dyn Fn(&[i64]) -> Tensor) {
    for (l, s, e, v, causal) in [
        (5, 7, 4, 3, false),
        (70, 66, 40, 70, true),
        (130, 150, 64, 64, true),
        (20, 300, 64, 48, false),
        (3, 100, 128, 96, false),
        (3, 100, 130, 150, false),
    ] {
        let turned = |t: Tensor| ops::transpose(&t, 1, 2).unwrap();
        // heads between the rows, as layers have them
        let all = [of(&[2, l, 2, e]), of(&[2, s, 2, e]), of(&[2, s, 2, v]), of(&[2, 2, l, v])];
        both(&format!("attention {d} {l} {s} {causal}"), tolerance * 8.0, &all, |t| {
            let [q, k, v] = [0, 1, 2].map(|i| turned(t[i].clone()));
            let (y, lse) = nn::fused_attention(&q, &k, &v, None, causal, 0.3, 0.0, None).unwrap();
            let back =
                nn::fused_attention_backward(&t[3], &q, &k, &v, &y, &lse, None, causal, 0.3, 0.0, None)
                    .unwrap();
            vec![y, lse, back.0, back.1, back.2]
        });
    }
}
/// Masks of all kinds, one with a query that sees nothing, and the gradients.
fn masks(d: DType, tolerance: f64, of: &dyn Fn(&[i64]) -> Tensor) {
    // a whole tile of keys and a part of one
    let (l, s) = (67, 134);
    for (width, sizes) in [(40, &[l, s][..]), (36, &[2, 1, 1, s]), (36, &[1, 2, l, 1]), (40, &[2, 2, l, s])] {
        let n: i64 = sizes.iter().product();
        let some = |i: i64| i % 3 != 0 && (n == l || i / s != 5);
        let truths: Vec<i64> = (0..n).map(|i| some(i).into()).collect();
        let truths = cast(&Tensor::from_slice(&truths, sizes), DType::Bool);
        let added: Vec<f32> =
            (0..n).map(|i| if some(i) { (i as f32 * 0.3).sin() } else { f32::NEG_INFINITY }).collect();
        let added = Tensor::from_slice(&added, sizes);
        for mask in [truths, cast(&added, d), added] {
            let all = [of(&[2, 2, l, 24]), of(&[2, 2, s, 24]), of(&[2, 2, s, width]), mask];
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
/// Dropout by the same states as a mask of its own: the results and their gradients. The CPU composes halves in float32, since they
/// would round at each step on the way.
fn dropped(d: DType, tolerance: f64, of: &dyn Fn(&[i64]) -> Tensor) {
    let states = Tensor::from_slice(&[7i64, 8, 1 << 40, 12], [2, 2]);
    for (l, s, e, v) in [(40, 70, 24, 40), (70, 140, 64, 64), (20, 70, 128, 128), (20, 40, 30, 18)] {
        let all = [of(&[2, 2, l, e]), of(&[2, 2, s, e]), of(&[2, 2, s, v]), states.clone()];
        both(&format!("attention {d} {l} {s} {e} with dropout"), tolerance * 8.0, &all, |t| {
            let inputs = [0, 1, 2].map(|i| t[i].alias_detached().requires_grad_(true));
            let [q, k, v] = &inputs;
            let mask = |like: &Tensor| nn::attention_dropout_mask(&t[3], like, 0.25).unwrap();
            let y = if t[0].device() == Device::Cpu {
                let wide = if d == DType::F64 { d } else { DType::F32 };
                let [q, k, v] = inputs.each_ref().map(|x| cast(x, wide));
                let scores = ops::matmul(&q, &ops::transpose(&k, -2, -1).unwrap()).unwrap();
                let p = ops::softmax(
                    &ops::mul(&scores, &Tensor::from_slice(&[0.3f64], [0i64; 0])).unwrap(),
                    -1,
                    None,
                )
                .unwrap();
                cast(&ops::matmul(&ops::mul(&p, &mask(&p)).unwrap(), &v).unwrap(), d)
            } else {
                nn::fused_attention(q, k, v, None, false, 0.3, 0.25, Some(&t[3])).unwrap().0
            };
            let total = ops::sum(&ops::mul(&y, &y).unwrap(), None, false, None).unwrap();
            let grads = flambeau_autograd::grad_fn::grad([&total], &inputs);
            let scores = Tensor::empty_raw(&[2, 2, l, s], d, t[0].device()).unwrap();
            [vec![y.alias_detached(), mask(&scores)], grads].concat()
        });
    }
}
/// Calls draw anew, weights of one in all, and `manual_seed` brings them back.
fn drawn() {
    let ones = there(&Tensor::from_slice(&[1f32; 2 * 64 * 64], [1, 2, 64, 64]));
    let run = |p: f64| {
        let y = nn::scaled_dot_product_attention(&ones, &ones, &ones, None, p, false, None, false).unwrap();
        floats(&y)
    };
    manual_seed(5);
    let (first, second) = (run(0.5), run(0.5));
    manual_seed(5);
    assert_eq!(first, run(0.5));
    assert_ne!(first, second);
    // 64 weights of a 64th each, of which half count twice
    let mean = first.iter().sum::<f64>() / first.len() as f64;
    assert!((mean - 1.0).abs() < 0.05 && first.iter().any(|v| (v - mean).abs() > 0.05), "{mean}");
    assert!(run(1.0).iter().all(|v| *v == 0.0));
}
