//! Operators of layers beside the CPU's: norms, losses over classes, embeddings, linear layers, pooling, with their gradients, in
//! all floating dtypes, strides, sizes of nothing, and rows that need more than one block.

use crate::emulated::{agree, cast, numbers, there};
use flambeau_core::{DType, Device, Tensor, ops};
use flambeau_nn_functional::ops as nn;

/// What a function gives on the CPU and on the device.
pub fn both(what: &str, tolerance: f64, inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Vec<Tensor>) {
    let moved: Vec<Tensor> = inputs.iter().map(there).collect();
    let (want, got) = (f(inputs), f(&moved));
    assert_eq!(want.len(), got.len(), "{what}");
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        agree(&format!("{what}, result {i}"), got, want, tolerance);
    }
}
/// Dtypes and what their results may differ by.
pub const FLOATS: [(DType, f64); 4] =
    [(DType::F32, 2e-5), (DType::F64, 1e-12), (DType::F16, 4e-3), (DType::BF16, 3e-2)];
/// Whole numbers below `most`.
pub fn below(most: i64, sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    Tensor::from_slice(&(0..n).map(|i| (i * 7 + i / 3) % most).collect::<Vec<_>>(), sizes)
}
fn three(r: (Tensor, Tensor, Tensor)) -> Vec<Tensor> {
    vec![r.0, r.1, r.2]
}
fn two(r: (Tensor, Tensor)) -> Vec<Tensor> {
    vec![r.0, r.1]
}

/// Compares all of them with the CPU.
pub fn all() {
    for (d, tolerance) in FLOATS {
        let of = |sizes: &[i64]| cast(&numbers(sizes), d);
        rows(d, tolerance, &of);
        channels(d, tolerance, &of);
        classes(d, tolerance, &of);
        tables(d, tolerance, &of);
        windows(d, tolerance, &of);
    }
    integers();
    let used = flambeau_cuda::fallbacks();
    for name in [
        "native_layer_norm",
        "_batch_norm_train",
        "_nll_loss",
        "_cross_entropy",
        "embedding",
        "linear",
        "_max_pool",
    ] {
        assert!(!used.contains_key(name), "{name} went by the CPU");
    }
}
fn rows(d: DType, tolerance: f64, of: &dyn Fn(&[i64]) -> Tensor) {
    // held by a warp, by a block, not in packs, and longer than a block holds
    for (r, n) in [(5, 64), (3, 1024), (4, 37), (1, 20_000), (2, 33_000), (70, 8), (0, 8)] {
        let (x, w, b, g) = (of(&[r, n]), of(&[n]), of(&[n]), of(&[r, n]));
        let all = [x, w, b, g];
        both(&format!("layer_norm {d} {r} {n}"), tolerance, &all, |t| {
            let y = nn::native_layer_norm(&t[0], &[n], Some(&t[1]), Some(&t[2]), 1e-5).unwrap();
            let back = |w, b| {
                nn::native_layer_norm_backward(&t[3], &t[0], &[n], &y.1, &y.2, w, b, &[true; 3]).unwrap()
            };
            let grads = back(Some(&t[1]), Some(&t[2]));
            let plain = nn::native_layer_norm(&t[0], &[n], None, None, 1e-5).unwrap();
            three(y.clone()).into_iter().chain(grads).chain([plain.0]).filter(|t| t.numel() > 0).collect()
        });
        both(&format!("rms_norm {d} {r} {n}"), tolerance, &all, |t| {
            let y = nn::fused_rms_norm(&t[0], &[n], Some(&t[1]), 1e-5).unwrap();
            let grads =
                nn::fused_rms_norm_backward(&t[3], &t[0], &[n], &y.1, Some(&t[1]), &[true; 2]).unwrap();
            two(y).into_iter().chain(grads).collect()
        });
    }
    // strides
    both(&format!("layer_norm {d} turned"), tolerance, &[of(&[16, 6])], |t| {
        three(nn::native_layer_norm(&ops::t(&t[0]).unwrap(), &[16], None, None, 1e-5).unwrap())
    });
}
fn channels(d: DType, tolerance: f64, of: &dyn Fn(&[i64]) -> Tensor) {
    for (n, c, l) in [(3, 5, 7), (40, 3, 1), (2, 4, 64), (64, 70, 1), (2, 1, 9000), (1, 3, 16)] {
        let moving = |d| cast(&numbers(&[c]), d);
        for p in [d, DType::F32].into_iter().take(if d == DType::F16 || d == DType::BF16 { 2 } else { 1 }) {
            let param = |sizes: &[i64]| cast(&numbers(sizes), p);
            let positive =
                ops::add(&ops::abs(&moving(DType::F64)).unwrap(), &moving(DType::F64), 2.into()).unwrap();
            let var = cast(&ops::abs(&positive).unwrap(), p);
            let all = [of(&[n, c, l]), param(&[c]), param(&[c]), moving(p), var, of(&[n, c, l])];
            let looser = if n * l > 1000 { tolerance * 8.0 } else { tolerance * 2.0 };
            both(&format!("batch_norm {d} {p} {n} {c} {l}"), looser, &all, |t| {
                let copy = |t: &Tensor| ops::clone(t, None).unwrap();
                let (rm, rv) = (copy(&t[3]), copy(&t[4]));
                let y =
                    nn::batch_norm_train(&t[0], Some(&t[1]), Some(&t[2]), Some(&rm), Some(&rv), 0.1, 1e-5)
                        .unwrap();
                let back = |train| {
                    let (m, v) = (Some(&t[3]), Some(&t[4]));
                    let saved = (Some(&y.1), Some(&y.2));
                    nn::native_batch_norm_backward(
                        &t[5],
                        &t[0],
                        Some(&t[1]),
                        m,
                        v,
                        saved.0,
                        saved.1,
                        train,
                        1e-5,
                        &[true; 3],
                    )
                    .unwrap()
                };
                let eval =
                    nn::batch_norm_eval(&t[0], Some(&t[1]), Some(&t[2]), Some(&t[3]), Some(&t[4]), 1e-5)
                        .unwrap();
                let grads = back(true).into_iter().chain(back(false));
                three(y.clone()).into_iter().chain([rm, rv, eval.0]).chain(grads).collect()
            });
            if c % 2 == 0 || c == 3 {
                let groups = if c == 3 { 3 } else { 2 };
                both(&format!("group_norm {d} {p} {n} {c} {l}"), looser, &all, |t| {
                    let y =
                        nn::fused_group_norm(&t[0], Some(&t[1]), Some(&t[2]), n, c, l, groups, 1e-5).unwrap();
                    let grads = nn::native_group_norm_backward(
                        &t[5],
                        &t[0],
                        &y.1,
                        &y.2,
                        Some(&t[1]),
                        n,
                        c,
                        l,
                        groups,
                        &[true; 3],
                    );
                    three(y).into_iter().chain(grads.unwrap()).collect()
                });
            }
        }
    }
}
fn classes(d: DType, tolerance: f64, of: &dyn Fn(&[i64]) -> Tensor) {
    for sizes in [&[5, 9][..], &[3000, 4], &[4, 3000], &[2, 6, 7, 3], &[7]] {
        let classes = sizes[usize::from(sizes.len() > 1)];
        let mut places = sizes.to_vec();
        places.remove(usize::from(sizes.len() > 1));
        let target = below(classes, &places);
        let weight = ops::add(&ops::abs(&of(&[classes])).unwrap(), &of(&[classes]), 2.into()).unwrap();
        let all = [of(sizes), target, ops::abs(&weight).unwrap(), ops::abs(&of(&places)).unwrap()];
        for (reduction, weighted, smoothing) in
            [(0, true, 0.0), (1, true, 0.1), (2, false, 0.0), (1, false, 0.0), (0, false, 0.3)]
        {
            let what = format!("{d} {sizes:?} {reduction} {smoothing}");
            let looser = tolerance * if places.iter().product::<i64>() > 100 { 40.0 } else { 4.0 };
            both(&format!("nll_loss {what}"), looser, &all, |t| {
                let w = weighted.then_some(&t[2]);
                let y = nn::fused_nll_loss(&t[0], &t[1], w, reduction, 1).unwrap();
                let g = if reduction == 0 { t[3].clone() } else { y.0.clone() };
                let back =
                    nn::fused_nll_loss_backward(&g, t[0].sizes(), &t[1], w, reduction, 1, &y.1).unwrap();
                vec![y.0, y.1, back]
            });
            both(&format!("cross_entropy {what}"), looser, &all, |t| {
                let w = weighted.then_some(&t[2]);
                let y = nn::fused_cross_entropy(&t[0], &t[1], w, reduction, 1, smoothing).unwrap();
                let g = if reduction == 0 {
                    t[3].clone()
                } else {
                    ops::ones_like(&y.0, None, None, None, None, None).unwrap()
                };
                let back = nn::fused_cross_entropy_backward(
                    &g, &t[0], &t[1], w, reduction, 1, smoothing, &y.1, &y.2,
                );
                vec![y.0, y.1, y.2, back.unwrap()]
            });
        }
    }
}
fn tables(d: DType, tolerance: f64, of: &dyn Fn(&[i64]) -> Tensor) {
    for (rows, width, sizes) in [(7, 5, &[3, 4][..]), (11, 16, &[200]), (2, 3, &[150]), (5, 8, &[])] {
        let index = below(rows, sizes);
        let mut all: Vec<i64> = sizes.to_vec();
        all.push(width);
        both(
            &format!("embedding {d} {rows} {width}"),
            tolerance * 8.0,
            &[of(&[rows, width]), index, of(&all)],
            |t| {
                let y = nn::embedding_lookup(&t[0], &t[1], -1, false, false).unwrap();
                let back = |p, f| nn::embedding_dense_backward(&t[2], &t[1], rows, p, f).unwrap();
                vec![y, back(-1, false), back(1, true)]
            },
        );
    }
    for sizes in [&[6, 9][..], &[2, 3, 9], &[9]] {
        both(&format!("linear {d}"), tolerance * 4.0, &[of(sizes), of(&[4, 9]), of(&[4])], |t| {
            vec![nn::linear(&t[0], &t[1], Some(&t[2])).unwrap(), nn::linear(&t[0], &t[1], None).unwrap()]
        });
    }
}
fn windows(d: DType, tolerance: f64, of: &dyn Fn(&[i64]) -> Tensor) {
    let cases: [(&[i64], &[i64], &[i64], &[i64], &[i64]); 4] = [
        (&[2, 3, 11], &[3], &[2], &[1], &[2]),
        (&[2, 3, 9, 8], &[3, 2], &[2, 2], &[1, 0], &[1, 1]),
        (&[3, 7, 7], &[2, 2], &[1, 1], &[0, 0], &[2, 1]),
        (&[1, 2, 5, 6, 7], &[2, 3, 2], &[1, 2, 2], &[1, 1, 0], &[1, 1, 1]),
    ];
    for (x, k, s, p, dilation) in cases {
        let what = format!("{d} {x:?}");
        both(&format!("max_pool {what}"), tolerance, &[of(x)], |t| {
            let y = nn::max_pool(&t[0], k, s, p, dilation, false).unwrap();
            let back = nn::plane_scatter(&y.0, &y.1, x, k.len() as i64).unwrap();
            let again = nn::plane_gather(&t[0], &y.1, k.len() as i64).unwrap();
            // of places that are named twice any value stands
            let ones = ops::ones_like(&y.0, None, None, None, None, None).unwrap();
            let put = nn::plane_unpool(&ones, &y.1, x, k.len() as i64).unwrap();
            vec![y.0, y.1, back, again, put]
        });
        for (ceil, include, divisor) in [(false, true, None), (true, false, None), (true, true, Some(3))] {
            both(&format!("avg_pool {what} {ceil}"), tolerance * 2.0, &[of(x)], |t| {
                // of volumes the CPU has no halves, as in PyTorch
                let wide =
                    k.len() == 3 && t[0].device() == Device::Cpu && matches!(d, DType::F16 | DType::BF16);
                let image = if wide { cast(&t[0], DType::F32) } else { t[0].clone() };
                let y = cast(&nn::avg_pool(&image, k, s, p, ceil, include, divisor).unwrap(), d);
                let back = nn::avg_pool_backward(&y, x, k, s, p, ceil, include, divisor).unwrap();
                vec![y, back]
            });
        }
        for size in [1, 3] {
            let out = vec![size; k.len()];
            both(&format!("adaptive {what} {size}"), tolerance * 2.0, &[of(x)], |t| {
                let y = nn::adaptive_avg_pool(&t[0], &out).unwrap();
                let back = nn::adaptive_avg_pool_backward(&y, x, k.len() as i64).unwrap();
                let (most, place) = nn::adaptive_max_pool(&t[0], &out).unwrap();
                vec![y, back, most, place]
            });
        }
    }
    let samples = ops::abs(&of(&[2, 3, 2])).unwrap();
    let samples = ops::mul(&samples, &Tensor::from_slice(&[0.9f32], [0i64; 0])).unwrap();
    both(&format!("fractional {d}"), tolerance, &[of(&[2, 3, 9, 8]), cast(&samples, d)], |t| {
        two(nn::fractional_max_pool(&t[0], &[2, 3], &[4, 3], &t[1]).unwrap())
    });
}
/// Maxima of integers, places out of bounds, and sums in the same order each time.
fn integers() {
    for d in [DType::I32, DType::U8, DType::I64] {
        let x = cast(&below(200, &[2, 3, 8, 8]), d);
        both(&format!("max_pool {d}"), 0.0, &[x], |t| {
            two(nn::max_pool(&t[0], &[2, 2], &[2, 2], &[0, 0], &[1, 1], false).unwrap())
        });
    }
    let x = there(&numbers(&[3, 4]));
    let e = nn::fused_nll_loss(&x, &there(&below(9, &[3])), None, 1, -100)
        .unwrap()
        .0
        .try_to_vec::<f32>()
        .unwrap_err();
    assert!(e.message().starts_with("Target ") && e.message().ends_with(" is out of bounds."), "{e}");
    let e = nn::embedding_lookup(&x, &there(&below(9, &[3])), -1, false, false)
        .unwrap()
        .try_to_vec::<f32>()
        .unwrap_err();
    assert_eq!(e.message(), "index out of range in self");
    let far = there(&Tensor::from_slice(&[0i64, 90], [1, 1, 2]));
    let e = nn::plane_unpool(&there(&numbers(&[1, 1, 2])), &far, &[1, 1, 5], 1)
        .unwrap()
        .try_to_vec::<f32>()
        .unwrap_err();
    assert_eq!(e.message(), "Found an invalid max index: 90 (output volumes are of size 5x1)");
    flambeau_core::settings::determinism::use_deterministic_algorithms(true, false);
    both("ordered", 1e-6, &[numbers(&[1, 2, 9])], |t| {
        let y = nn::max_pool(&t[0], &[3], &[1], &[1], &[1], false).unwrap();
        vec![nn::plane_scatter(&y.0, &y.1, &[1, 2, 9], 1).unwrap()]
    });
    flambeau_core::settings::determinism::use_deterministic_algorithms(false, false);
}
