//! Convolutions, interpolation, padding, blocks of images and CTC beside the CPU's, with their gradients.

use crate::emulated::{cast, floats, numbers, there};
use crate::layers::{FLOATS, below, both};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Tensor, ops};
use flambeau_devices::backends::cudnn;
use flambeau_nn_functional::ops as nn;

/// Compares all of them with the CPU.
pub fn all() {
    // the CPU has all digits of float32
    cudnn::set_allow_tf32(false);
    for (d, tolerance) in FLOATS {
        let of = |sizes: &[i64]| cast(&numbers(sizes), d);
        convolutions(d, tolerance, &of);
        // our own kernels, too
        if cudnn::is_available() {
            cudnn::set_enabled(false);
            convolutions(d, tolerance, &of);
            cudnn::set_enabled(true);
        }
        pads(d, tolerance, &of);
    }
    rounded_factors();
    for d in [DType::C64, DType::I64] {
        let of = |sizes: &[i64]| cast(&numbers(sizes), d);
        convolutions(d, 1e-4, &of);
    }
    resampling();
    recurrent();
    dropout();
    ctc();
    let used = flambeau_cuda::fallbacks();
    for name in ["convolution", "_resample", "_ctc_loss", "im2col", "_recurrent_layer"] {
        assert!(!used.contains_key(name), "{name} went by the CPU");
    }
}
/// Input, weight, stride, padding, dilation, groups.
type Case<'a> = (&'a [i64], &'a [i64], &'a [i64], &'a [i64], &'a [i64], i64);
fn convolutions(d: DType, tolerance: f64, of: &dyn Fn(&[i64]) -> Tensor) {
    let cases: [Case; 10] = [
        (&[2, 3, 9], &[4, 3, 3], &[2], &[1], &[2], 1),
        (&[3, 4, 8, 7], &[6, 4, 3, 3], &[1, 1], &[1, 1], &[1, 1], 1),
        // one product for each sample
        (&[2, 2, 20, 17], &[3, 2, 2, 3], &[1, 1], &[0, 2], &[1, 1], 1),
        (&[2, 6, 5, 6], &[6, 1, 3, 3], &[2, 1], &[1, 1], &[1, 1], 6),
        (&[3, 5, 9, 11], &[5, 1, 3, 3], &[1, 1], &[1, 1], &[1, 1], 5),
        (&[2, 3, 13, 10], &[3, 1, 5, 5], &[2, 2], &[2, 2], &[1, 1], 3),
        // groups that are too large for direct sums
        (&[2, 130, 3, 3], &[4, 65, 3, 3], &[1, 1], &[1, 1], &[1, 1], 2),
        // several tiles of channels and of places, and rows of the weight that are no whole packs
        (&[3, 21, 18, 15], &[70, 21, 3, 3], &[2, 1], &[1, 2], &[1, 2], 1),
        (&[2, 5, 6, 6], &[3, 5, 1, 1], &[1, 1], &[0, 0], &[1, 1], 1),
        (&[1, 2, 4, 5, 6], &[3, 2, 2, 3, 2], &[1, 2, 1], &[1, 1, 0], &[1, 1, 2], 1),
    ];
    for (x, w, stride, pad, dilation, groups) in cases {
        let what = format!("{d} {x:?} {w:?} {groups}");
        let all = [of(x), of(w), of(&[w[0]]), of(&[x[1]])];
        let tolerance = tolerance * if w[1] > 9 { 30.0 } else { 10.0 };
        both(&format!("convolution {what}"), tolerance, &all, |t| {
            let (x, w) = (&t[0], &t[1]);
            let y = nn::convolution(x, w, Some(&t[2]), stride, pad, dilation, false, &[0], groups).unwrap();
            let plain = nn::convolution(x, w, None, stride, pad, dilation, false, &[0], groups).unwrap();
            let gx = nn::convolution_input_grad(&plain, w, x.sizes(), stride, pad, dilation, groups).unwrap();
            let gw =
                nn::convolution_weight_grad(&plain, x, w.sizes(), stride, pad, dilation, groups).unwrap();
            vec![y, plain, gx, gw]
        });
        if d == DType::F16 {
            // the CPU rounds columns as PyTorch's does
            continue;
        }
        both(&format!("transposed {what}"), tolerance, &all, |t| {
            let y = nn::convolution(&t[0], &t[1], None, stride, pad, dilation, false, &[0], groups).unwrap();
            let zero = vec![0; w.len() - 2];
            vec![nn::convolution(&y, &t[1], Some(&t[3]), stride, pad, dilation, true, &zero, groups).unwrap()]
        });
    }
}
/// Where it is allowed, float32 is multiplied as TensorFloat-32, which the emulated device rounds to as well.
fn rounded_factors() {
    let (x, w) = (numbers(&[2, 8, 9, 7]), numbers(&[5, 8, 3, 3]));
    let run = |x: &Tensor, w: &Tensor| {
        nn::convolution(x, w, None, &[1, 1], &[1, 1], &[1, 1], false, &[0, 0], 1).unwrap()
    };
    let want = floats(&run(&x, &w));
    let away = || {
        let got = floats(&run(&there(&x), &there(&w)));
        assert!(got.iter().all(|v| v.is_finite()));
        got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    };
    let exact = away();
    cudnn::set_allow_tf32(true);
    // of 72 products of numbers below 1.1, each factor off by a 2048th at most; cuDNN need not make use of it
    let (allowed, most) = (away(), 0.1);
    cudnn::set_enabled(false);
    let rounded = away();
    cudnn::set_enabled(true);
    cudnn::set_allow_tf32(false);
    assert!(exact < 2e-5 && allowed < most, "{exact} {allowed}");
    assert!(rounded > 2e-5 && rounded < most, "{rounded}");
}
fn pads(d: DType, tolerance: f64, of: &dyn Fn(&[i64]) -> Tensor) {
    for (sizes, pad) in [
        (&[2, 3, 6][..], &[2, 3][..]),
        (&[2, 3, 5, 4], &[1, 3, -1, 2]),
        (&[2, 4, 3, 5], &[4, -2, 2, 2, 0, 1]),
        (&[1, 3, 1], &[0, 0]),
    ] {
        for mode in 0..3 {
            let by_the_cpu = || flambeau_cuda::fallbacks().get("_pad_gather").cloned();
            let before = by_the_cpu();
            both(&format!("pad {d} {sizes:?} {mode}"), tolerance * 4.0, &[of(sizes)], |t| {
                let y = nn::pad_gather(&t[0], pad, mode).unwrap();
                let back = nn::pad_scatter(&y, sizes, pad, mode).unwrap();
                vec![y, back]
            });
            // what wraps round, padded on one side and cut on the other, is the CPU's alone
            let both_signs = |p: &[i64]| p.iter().any(|p| *p < 0) && p.iter().any(|p| *p > 0);
            let expected = mode == 2 && pad.chunks(2).any(both_signs);
            assert_eq!(by_the_cpu() != before, expected, "{sizes:?} {pad:?} {mode}");
        }
    }
    both(&format!("blocks {d}"), tolerance * 4.0, &[of(&[2, 3, 7, 6])], |t| {
        let y = nn::im2col(&t[0], &[3, 2], &[1, 2], &[1, 0], &[2, 1]).unwrap();
        let back = nn::col2im(&y, &[7, 6], &[3, 2], &[1, 2], &[1, 0], &[2, 1]).unwrap();
        vec![y, back]
    });
}
fn resampling() {
    for d in [DType::F32, DType::F64, DType::U8] {
        let x = cast(&below(250, &[2, 3, 7, 4]), d);
        for (mode, antialias) in
            [("nearest", false), ("linear", false), ("cubic", false), ("linear", true), ("lanczos", true)]
        {
            for (dim, size) in [(2, 12), (3, 3), (2, 4)] {
                both(&format!("resample {d} {mode} {dim} {size}"), 1e-5, std::slice::from_ref(&x), |t| {
                    let y = nn::resample(&t[0], dim, size, mode, false, antialias, None, None).unwrap();
                    if d == DType::U8 {
                        return vec![y];
                    }
                    let n = t[0].sizes()[dim as usize];
                    let back = nn::resample_backward(&y, dim, n, mode, false, antialias, None).unwrap();
                    vec![y, back]
                });
            }
        }
    }
}
/// Layers of all kinds, both directions, rows that end, with and without biases and a projection.
fn recurrent() {
    for (d, tolerance) in [(DType::F32, 1e-5), (DType::F64, 1e-12)] {
        for mode in 0..4 {
            for (reverse, project) in [(false, false), (true, false), (false, mode == 2)] {
                let (gates, h, lstm) = ([1, 1, 4, 3][mode as usize], 5, mode == 2);
                let p = if project { 3 } else { h };
                let of = |sizes: &[i64]| cast(&numbers(sizes), d);
                let all = [
                    of(&[9, 4]),
                    of(&[3, p]),
                    of(&[gates * h, 4]),
                    of(&[gates * h, p]),
                    of(&[gates * h]),
                    of(&[3, h]),
                    of(&[p, h]),
                    of(&[9, p]),
                    of(&[9, h]),
                ];
                both(&format!("recurrent {d} {mode} {reverse} {project}"), tolerance, &all, |t| {
                    let (c0, w_hr) = (lstm.then_some(&t[5]), project.then_some(&t[6]));
                    let steps = &[3, 3, 2, 1];
                    let (b, hx, w) = (Some(&t[4]), &t[1], &t[3]);
                    let (y, c, g) =
                        nn::recurrent_layer(&t[0], hx, c0, &t[2], w, b, b, w_hr, steps, mode, reverse)
                            .unwrap();
                    let cells = lstm.then_some(&t[8]);
                    let back = nn::recurrent_layer_backward(
                        Some(&t[7]),
                        cells,
                        hx,
                        c0,
                        w,
                        w_hr,
                        &y,
                        &c,
                        &g,
                        steps,
                        mode,
                        reverse,
                    );
                    let back = back.unwrap();
                    vec![y, c, g, back.0, back.1, back.2, back.3]
                });
            }
        }
    }
}
/// Masks are those of the uniform numbers that the same seed gives, where a thread takes one element at a time.
fn dropout() {
    let x = there(&numbers(&[1001]));
    let seeded = || flambeau_devices::cuda::manual_seed_all(5);
    seeded();
    let u = Tensor::empty_raw(&[1001], DType::F32, x.device()).unwrap();
    ops::uniform_(&u, 0.0, 1.0, None).unwrap();
    seeded();
    let mask = nn::dropout_mask(&x, 0.25).unwrap();
    let want: Vec<f64> = floats(&u).iter().map(|u| if *u < 0.75 { 4.0 / 3.0 } else { 0.0 }).collect();
    assert!(floats(&mask).iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-6));
    for d in [DType::F32, DType::F64, DType::F16, DType::BF16, DType::C64] {
        let x = there(&cast(&numbers(&[40_000]), d));
        seeded();
        let first = nn::dropout_mask(&x, 0.5).unwrap();
        let second = nn::dropout_mask(&x, 0.5).unwrap();
        seeded();
        assert_eq!(floats(&first), floats(&nn::dropout_mask(&x, 0.5).unwrap()), "{d}");
        assert_ne!(floats(&first), floats(&second), "{d}");
        let mean = floats(&first).iter().sum::<f64>() / 40_000.0;
        assert!(
            (mean - 1.0).abs() < 0.03 && floats(&first).iter().all(|v| *v == 0.0 || *v == 2.0),
            "{d} {mean}"
        );
    }
    for d in [DType::F32, DType::F64, DType::BF16] {
        let x = there(&cast(&numbers(&[4000]), d));
        let slopes = floats(&nn::rrelu_slopes(&x, 0.1, 0.3, None).unwrap());
        let fits = |(x, s): (f64, &f64)| if x > 0.0 { *s == 1.0 } else { (0.1..=0.3 + 1e-7).contains(s) };
        assert!(floats(&x).into_iter().zip(&slopes).all(fits), "{d}");
    }
}
fn ctc() {
    for (d, tolerance) in [(DType::F32, 2e-5), (DType::F64, 1e-10)] {
        let p = ops::log_softmax(&cast(&numbers(&[9, 3, 5]), d), 2, None).unwrap();
        let targets = Tensor::from_slice(&[1i64, 2, 2, 4, 4, 1, 3, 3, 3], [3, 3]);
        for zero in [false, true] {
            both(
                &format!("ctc {d} {zero}"),
                tolerance,
                &[p.clone(), targets.clone(), cast(&numbers(&[3]), d)],
                |t| {
                    let (input, lengths) = (&[9, 2, 7], &[3, 3, 1]);
                    let (loss, alpha) = nn::fused_ctc_loss(&t[0], &t[1], input, lengths, 0, zero).unwrap();
                    let back = nn::fused_ctc_loss_backward(
                        &t[2], &t[0], &t[1], input, lengths, &loss, &alpha, 0, zero,
                    );
                    let back = back.unwrap();
                    // a loss of infinity has gradients that are none, which compare as they are
                    vec![loss, alpha, back]
                },
            );
        }
    }
    let p = there(&numbers(&[4, 1, 3]));
    let far = there(&Tensor::from_slice(&[7i64], [1, 1]));
    let e = nn::fused_ctc_loss(&p, &far, &[4], &[1], 0, false).unwrap().0.try_to_vec::<f32>().unwrap_err();
    assert_eq!(e.message(), "ctc_loss: target 7 is out of bounds for 3 classes");
}
