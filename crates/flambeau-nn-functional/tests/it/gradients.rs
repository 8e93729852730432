//! Gradients, and gradients of gradients, of every differentiable primitive against finite differences in float64.

use flambeau_autograd::gradcheck::{GradcheckOptions, try_gradcheck, try_gradgradcheck};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Scalar, Tensor};
use flambeau_nn_functional::ops;

/// Values that are not special: no ties, nothing near a kink of an activation.
fn values(sizes: &[i64], seed: u64) -> Tensor {
    let n: i64 = sizes.iter().product();
    let mut s = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let v: Vec<f64> = (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            (s >> 11) as f64 / (1u64 << 53) as f64 * 3.0 - 1.5
        })
        .collect();
    let t = Tensor::from_vec_raw(v, sizes).unwrap();
    t.requires_grad_(true);
    t
}
fn index(v: &[i64], sizes: &[i64]) -> Tensor {
    Tensor::from_vec_raw(v.to_vec(), sizes).unwrap()
}
fn both(name: &str, inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let f = |t: &[Tensor]| f(t).map(|t| vec![t]);
    let o = GradcheckOptions::new().check_forward_ad(false);
    try_gradcheck(f, inputs, o.clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
    try_gradgradcheck(f, inputs, None, o.clone()).unwrap_or_else(|e| panic!("{name}, second order: {e}"));
}

#[test]
fn softplus_on_both_sides_of_its_threshold() {
    let x = Tensor::from_vec_raw(vec![-30.0f64, -1.0, 0.1, 1.5, 9.0, 30.0], &[6]).unwrap();
    x.requires_grad_(true);
    let softplus = |t: &[Tensor]| ops::softplus(&t[0], 2.into(), 20.into()).map(|t| vec![t]);
    let o = GradcheckOptions::new();
    try_gradcheck(softplus, std::slice::from_ref(&x), o.clone()).unwrap();
    try_gradgradcheck(softplus, &[x], None, o.clone()).unwrap();
}
#[test]
fn convolutions() {
    for (groups, stride, pad, dil) in [(1, 1, 0, 1), (2, 2, 1, 1), (1, 2, 2, 2), (2, 1, 1, 2)] {
        let (x, w, b) = (values(&[2, 4, 7, 6], 1), values(&[4, 4 / groups, 3, 2], 2), values(&[4], 3));
        both("conv2d", &[x, w, b], |t| {
            ops::conv2d(&t[0], &t[1], Some(&t[2]), &[stride], &[pad], &[dil], groups, "zeros")
        });
        let (x, w, b) = (values(&[2, 4, 3, 4], 1), values(&[4, 3, 3, 2], 2), values(&[3 * groups], 3));
        both("conv_transpose2d", &[x, w, b], |t| {
            ops::conv_transpose2d(
                &t[0],
                &t[1],
                Some(&t[2]),
                &[stride],
                &[pad.min(1)],
                &[stride - 1],
                groups,
                &[dil],
            )
        });
    }
    // an output padding that reaches into the padding
    let (x, w) = (values(&[1, 2, 2, 3], 1), values(&[2, 2, 2, 2], 2));
    both("conv_transpose2d, output padding", &[x, w], |t| {
        ops::conv_transpose2d(&t[0], &t[1], None, &[3, 2], &[1, 2], &[2, 3], 1, &[4, 4])
    });
    let (x, w) = (values(&[3, 9], 1), values(&[2, 3, 4], 2));
    both("conv1d same", &[x, w], |t| ops::conv1d_padding(&t[0], &t[1], None, &[1], "same", &[1], 1, "zeros"));
    let (x, w) = (values(&[1, 2, 4, 4, 3], 1), values(&[2, 2, 2, 2, 2], 2));
    both("conv3d", &[x, w], |t| ops::conv3d(&t[0], &t[1], None, &[1], &[1], &[1], 1, "circular"));
}

#[test]
fn linear_layers() {
    both("linear", &[values(&[2, 3, 4], 1), values(&[5, 4], 2), values(&[5], 3)], |t| {
        ops::linear(&t[0], &t[1], Some(&t[2]))
    });
    both("linear 1d", &[values(&[4], 1), values(&[4], 2)], |t| ops::linear(&t[0], &t[1], None));
    both(
        "bilinear",
        &[values(&[2, 3], 1), values(&[2, 4], 2), values(&[5, 3, 4], 3), values(&[5], 4)],
        |t| ops::bilinear(&t[0], &t[1], &t[2], Some(&t[3])),
    );
}

#[test]
fn pools() {
    both("max_pool2d", &[values(&[2, 3, 7, 6], 1)], |t| {
        ops::max_pool2d(&t[0], &[3, 2], Some(&[2]), &[1], &[1, 2], true, false)
    });
    both("max_pool1d", &[values(&[3, 9], 1)], |t| {
        ops::max_pool1d(&t[0], &[3], None, &[0], &[1], false, false)
    });
    for (include, div) in [(true, None), (false, None), (true, Some(3))] {
        both("avg_pool2d", &[values(&[2, 3, 7, 6], 1)], |t| {
            ops::avg_pool2d(&t[0], &[3, 2], Some(&[2, 1]), &[1], true, include, div)
        });
    }
    both("adaptive_avg_pool2d", &[values(&[2, 3, 7, 6], 1)], |t| ops::adaptive_avg_pool2d(&t[0], &[3, 4]));
    both("adaptive_max_pool3d", &[values(&[2, 4, 5, 3], 1)], |t| {
        ops::adaptive_max_pool3d(&t[0], &[2, 3, 2], false)
    });
    let at = ops::max_pool2d_with_indices(&values(&[1, 2, 6, 6], 2), &[2], None, &[0], &[1], false, true)
        .unwrap()
        .1;
    both("max_unpool2d", &[values(&[1, 2, 3, 3], 1)], |t| {
        ops::max_unpool2d(&t[0], &at, &[2], None, &[0], None)
    });
}

#[test]
fn norms() {
    let (w, b) = (values(&[4], 2), values(&[4], 3));
    let x = values(&[3, 4, 5], 1);
    let (m, v) =
        (values(&[4], 4).alias_detached(), Tensor::from_vec_raw(vec![1.5f64, 0.5, 2.0, 1.0], &[4]).unwrap());
    both("batch_norm", &[x.clone(), w.clone(), b.clone()], |t| {
        ops::batch_norm(&t[0], None, None, Some(&t[1]), Some(&t[2]), true, 0.1, 1e-5)
    });
    both("batch_norm eval", &[x.clone(), w.clone(), b.clone()], |t| {
        ops::batch_norm(&t[0], Some(&m), Some(&v), Some(&t[1]), Some(&t[2]), false, 0.1, 1e-5)
    });
    both("instance_norm", &[x.clone(), w.clone(), b.clone()], |t| {
        ops::instance_norm(&t[0], None, None, Some(&t[1]), Some(&t[2]), true, 0.1, 1e-5)
    });
    both("group_norm", &[x.clone(), w, b], |t| {
        ops::group_norm(&t[0], 2, Some(&t[1]), Some(&t[2]), 1e-5, true)
    });
    let (w, b) = (values(&[4, 5], 2), values(&[4, 5], 3));
    both("layer_norm", &[x.clone(), w.clone(), b], |t| {
        ops::layer_norm(&t[0], &[4, 5], Some(&t[1]), Some(&t[2]), 1e-5, true)
    });
    both("rms_norm", &[x, w], |t| ops::rms_norm(&t[0], &[4, 5], Some(&t[1]), Some(1e-3)));
}

#[test]
fn class_losses() {
    let t = index(&[0, 2, 4, 1], &[4]);
    let w = Tensor::from_vec_raw(vec![0.5f64, 1.0, 2.0, 0.25, 1.5], &[5]).unwrap();
    for reduction in ["mean", "sum", "none"] {
        for weight in [None, Some(&w)] {
            both("nll_loss", &[values(&[4, 5], 1)], |x| {
                ops::nll_loss(&x[0], &t, weight, None, 2, None, reduction)
            });
            for smoothing in [0.0, 0.2] {
                both("cross_entropy", &[values(&[4, 5], 1)], |x| {
                    ops::cross_entropy(&x[0], &t, weight, None, 4, None, reduction, smoothing)
                });
            }
        }
    }
    let t = index(&[0, 2, 4, 1, 1, 3], &[1, 2, 3]);
    both("cross_entropy 2d", &[values(&[1, 5, 2, 3], 1)], |x| {
        ops::cross_entropy(&x[0], &t, None, None, -100, None, "mean", 0.1)
    });
    both("cross_entropy, probabilities", &[values(&[3, 5], 1), values(&[3, 5], 2)], |x| {
        ops::cross_entropy(&x[0], &x[1], None, None, -100, None, "mean", 0.1)
    });
}

#[test]
fn activations() {
    let f = |name: &str, f: &dyn Fn(&Tensor) -> Result<Tensor>| {
        both(name, &[values(&[40], 5)], |t| f(&t[0]));
    };
    f("leaky_relu", &|x| ops::leaky_relu(x, 0.2, false));
    f("elu", &|x| ops::elu(x, 1.3, false));
    f("celu", &|x| ops::celu(x, 1.7, false));
    f("selu", &|x| ops::selu(x, false));
    f("gelu", &|x| ops::gelu(x, "none"));
    f("gelu tanh", &|x| ops::gelu(x, "tanh"));
    f("silu", &|x| ops::silu(x, false));
    f("mish", &|x| ops::mish(x, false));
    f("hardtanh", &|x| ops::hardtanh(x, Scalar::Float(-0.7), Scalar::Float(0.9), false));
    f("relu6", &|x| ops::relu6(x, false));
    f("hardsigmoid", &|x| ops::hardsigmoid(x, false));
    f("hardswish", &|x| ops::hardswish(x, false));
    f("hardshrink", &|x| ops::hardshrink(x, Scalar::Float(0.5)));
    f("softshrink", &|x| ops::softshrink(x, Scalar::Float(0.5)));
    f("threshold", &|x| ops::threshold(x, Scalar::Float(0.3), Scalar::Float(7.0), false));
    f("logsigmoid", &|x| ops::logsigmoid(x));
}

#[test]
fn embeddings_and_padding() {
    let i = index(&[1, 3, 3, 0, 2, 1], &[2, 3]);
    both("embedding", &[values(&[4, 3], 1)], |t| ops::embedding(&i, &t[0], None, None, 2.0, false, false));
    // the padding row gets nothing, the others the mean over their uses
    let w = values(&[4, 2], 1);
    let y = ops::embedding(&i, &w, Some(-1), None, 2.0, true, false).unwrap();
    flambeau_core::ops::sum(&y, None, false, None).unwrap().backward();
    assert_eq!(w.grad().unwrap().to_vec::<f64>(), [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    for (mode, pad) in [
        ("constant", [1, 2, -1, 0]),
        ("reflect", [1, 2, 0, 1]),
        ("replicate", [3, -1, 1, 0]),
        ("circular", [1, 2, 3, 0]),
    ] {
        both(mode, &[values(&[2, 3, 4], 1)], |t| ops::pad(&t[0], &pad, mode, None));
    }
}

#[test]
fn dropout_scales_what_it_keeps() {
    let x = Tensor::from_vec_raw(vec![1f32; 1000], &[1000]).unwrap();
    let y = ops::dropout(&x, 0.25, true, false).unwrap().to_vec::<f32>();
    let kept = y.iter().filter(|v| **v != 0.0).count();
    assert!(y.iter().all(|v| *v == 0.0 || (*v - 4.0 / 3.0).abs() < 1e-6));
    assert!((650..850).contains(&kept), "{kept} kept");
    assert!(ops::dropout(&x, 0.25, false, false).unwrap().is_same(&x));
    assert_eq!(x.dtype(), DType::F32);
}

#[test]
fn anomaly_mode_names_the_line_of_the_call() {
    let x = values(&[1, 2, 4], 1);
    let zero = Tensor::from_vec_raw(vec![0f64; 12], &[3, 2, 2]).unwrap();
    zero.requires_grad_(true);
    let (mut line, mut text) = (0, String::new());
    flambeau_autograd::detect_anomaly(|| {
        line = line!() + 1;
        let y = ops::conv1d(&x, &zero, None, &[1], &[0], &[1], 1, "zeros").unwrap();
        let grad = Tensor::from_vec_raw(vec![f64::NAN; 9], &[1, 3, 3]).unwrap();
        let o = flambeau_core::BackwardOptions::new().gradient(&grad);
        text = y.try_backward(o).unwrap_err().message().to_string();
    });
    let first = text.lines().nth(2).unwrap_or_default();
    assert!(text.contains("ConvolutionBackward0' returned nan values"), "{text}");
    assert!(first.contains(&format!("gradients.rs:{line}:")), "the innermost frame is the call: {text}");
}

#[test]
fn attention() {
    let run = |t: &[Tensor], causal, scale| {
        ops::scaled_dot_product_attention(&t[0], &t[1], &t[2], None, 0.0, causal, scale, false)
    };
    for (causal, scale) in [(false, None), (true, Some(0.7)), (true, Some(-0.7))] {
        let x = [values(&[2, 2, 3, 4], 1), values(&[2, 2, 5, 4], 2), values(&[2, 2, 5, 2], 3)];
        both("attention", &x, |t| run(t, causal, scale));
        // rows of a wider matrix, as a projection gives them, and columns that are not contiguous
        let x = [values(&[3, 2, 4], 1), values(&[5, 2, 4], 2), values(&[2, 2, 5], 3)];
        both("attention of views", &x, |t| {
            let turn = |t: &Tensor, a, b| flambeau_core::ops::transpose(t, a, b);
            run(&[turn(&t[0], 0, 1)?, turn(&t[1], 0, 1)?, turn(&t[2], 1, 2)?], causal, scale)
        });
    }
}

/// The fused kernel against the composition, which a mask that hides nothing asks for.
#[test]
fn attention_paths_agree() {
    use flambeau_core::ops as core;
    for (dtype, tol) in [(DType::F64, 1e-12), (DType::F32, 1e-5), (DType::F16, 4e-3), (DType::BF16, 4e-2)] {
        let x = [values(&[2, 3, 70, 16], 1), values(&[2, 3, 70, 16], 2), values(&[2, 3, 70, 24], 3)];
        let leaf = |t: &Tensor| {
            let t =
                core::to_copy(&core::detach(t).unwrap(), Some(dtype), None, None, None, false, None).unwrap();
            t.requires_grad_(true);
            t
        };
        let hidden: Vec<flambeau_core::B8> =
            (0..70 * 70).map(|i| flambeau_core::B8::from(i % 70 <= i / 70)).collect();
        let mask = Tensor::from_vec_raw(hidden, &[70, 70]).unwrap();
        let mut results: Vec<Vec<Tensor>> = vec![];
        for mask in [None, Some(&mask)] {
            let [q, k, v] = [&x[0], &x[1], &x[2]].map(leaf);
            let causal = mask.is_none();
            let y = ops::scaled_dot_product_attention(&q, &k, &v, mask, 0.0, causal, None, false).unwrap();
            let total = core::sum(&core::mul(&y, &y).unwrap(), None, false, None).unwrap();
            total.backward();
            let mut all = vec![core::detach(&y).unwrap()];
            all.extend([q, k, v].iter().map(|t| t.grad().unwrap()));
            results.push(all);
        }
        for (a, b) in results[0].iter().zip(&results[1]) {
            assert!(core::allclose(a, b, tol, tol * 4.0, false).unwrap(), "{dtype:?}");
        }
    }
}

#[test]
fn circular_padding_wraps_what_negative_padding_leaves() {
    let x = values(&[1, 3, 4], 1);
    both("pad", &[x.clone()], |t| ops::pad(&t[0], &[-1, 2], "circular", None));
    let y = ops::pad(&index(&[1, 2, 3, 4], &[1, 1, 4]), &[-1, 2], "circular", None).unwrap();
    assert_eq!(y.to_vec::<i64>(), [2, 3, 4, 2, 3]);
    // what is copied to the right end stands at the left one, which may be a copy itself
    let y = ops::pad(&index(&[1, 2, 3, 4], &[1, 1, 4]), &[-3, 1], "circular", None).unwrap();
    assert_eq!(y.to_vec::<i64>(), [4, 4]);
    // nothing may be left
    let y = ops::pad(&index(&[1, 2, 3], &[1, 1, 3]), &[-1, -2], "circular", None).unwrap();
    assert_eq!(y.sizes(), [1, 1, 0]);
}

#[test]
fn statistics_of_group_norm_are_differentiable() {
    let x = values(&[2, 4, 3], 1);
    both("native_group_norm", &[x], |t| {
        let (_, mean, rstd) = ops::native_group_norm(&t[0], None, None, 2, 4, 3, 2, 1e-5)?;
        flambeau_core::ops::mul(&mean, &rstd)
    });
}

#[test]
fn a_class_wanted_twice_counts_twice() {
    let x = values(&[1, 3], 1);
    let loss = |target: &[i64]| {
        let t = index(target, &[1, 3]);
        ops::multilabel_margin_loss(&x, &t, None, None, "sum").unwrap().item::<f64>()
    };
    assert!((loss(&[1, 1, -1]) - 2.0 * loss(&[1, -1, -1])).abs() < 1e-12);
}

#[test]
fn batch_norm_twice_before_its_gradient() {
    let x = values(&[3, 2], 1);
    x.requires_grad_(true);
    let (mean, var) = (values(&[2], 2).alias_detached(), values(&[2], 3).alias_detached());
    let run = || ops::batch_norm(&x, Some(&mean), Some(&var), None, None, true, 0.1, 1e-5).unwrap();
    let first = run();
    let _second = run();
    let weighted = flambeau_core::ops::mul(&first, &values(&[3, 2], 5)).unwrap();
    flambeau_core::ops::sum(&weighted, None, false, None).unwrap().backward();
    assert!(x.grad().unwrap().to_vec::<f64>().iter().all(|g| g.is_finite()));
}
