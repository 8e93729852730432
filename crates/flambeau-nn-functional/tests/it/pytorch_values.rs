//! Values recorded from PyTorch 2.15 where the formula alone does not give them: how halves are rounded on the way, which
//! elements decide, what is read.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Scalar, Tensor};
use flambeau_nn_functional::ops;

fn floats(v: &[f64], sizes: &[i64]) -> Tensor {
    Tensor::from_vec_raw(v.to_vec(), sizes).unwrap()
}
fn ints(v: &[i64]) -> Tensor {
    Tensor::from_vec_raw(v.to_vec(), &[v.len() as i64]).unwrap()
}
fn list(t: &Tensor) -> Vec<f64> {
    t.to(DType::F64).try_to_vec().unwrap()
}
/// Equal to the last bit, where NaN equals NaN.
fn same(got: &Tensor, want: &[f64]) {
    let got = list(got);
    let equal =
        got.len() == want.len() && got.iter().zip(want).all(|(a, b)| a == b || a.is_nan() && b.is_nan());
    assert!(equal, "{got:?}, not {want:?}");
}

#[test]
fn halves_of_log_softmax() {
    let x = floats(&[0.3, -1.2, 2.5, 0.7, 1.1], &[1, 5]).to(DType::F16);
    let y = flambeau_core::ops::log_softmax(&x, -1, None).unwrap();
    same(&y, &[-2.63671875, -4.13671875, -0.436279296875, -2.236328125, -1.8369140625]);
}

#[test]
fn halves_of_resampling_weights() {
    let x = floats(&[1.5, -2.25, 3.125, 0.375, 2.0], &[1, 1, 5]).to(DType::F16);
    let y = ops::interpolate(&x, Some(&[7]), None, "linear", None, None, false).unwrap();
    same(&y, &[1.5, -0.642578125, -0.71484375, 3.125, 1.16015625, 1.0712890625, 2.0]);
}

#[test]
fn halves_of_batch_statistics() {
    let v = [0.11, 0.52, -0.33, 1.7, 1.2, 1.9, 0.41, -0.72, 0.93, 1.1, 1.3, 1.5];
    let x = floats(&v, &[2, 2, 3]).to(DType::BF16);
    let mean = floats(&[0.0; 2], &[2]).to(DType::BF16);
    let var = floats(&[1.0; 2], &[2]).to(DType::BF16);
    let y = ops::batch_norm(&x, Some(&mean), Some(&var), None, None, true, 0.1, 1e-5).unwrap();
    same(
        &y,
        &[
            -0.07958984375,
            0.66796875,
            -0.8828125,
            0.890625,
            -0.890625,
            1.5859375,
            0.46875,
            -1.59375,
            1.421875,
            -1.25,
            -0.5546875,
            0.1669921875,
        ],
    );
    same(&mean, &[0.01531982421875, 0.1455078125]);
    same(&var, &[0.93359375, 0.90625]);
}

#[test]
fn halves_of_renormalised_embeddings() {
    let w = floats(&[1.140625, -0.08990478515625, 0.72998046875, 0.2, 0.1, 0.3], &[2, 3]).to(DType::F16);
    ops::embedding_renorm_(&w, &ints(&[0, 1]), 1.0, 2.0).unwrap();
    same(
        &w,
        &[0.84033203125, -0.06622314453125, 0.5380859375, 0.199951171875, 0.0999755859375, 0.300048828125],
    );
}

fn bag(input: &[i64], w: &Tensor, offsets: &[i64], mode: &str, padding: Option<i64>) -> Tensor {
    let (i, o) = (ints(input), ints(offsets));
    ops::embedding_bag(&i, w, Some(&o), None, 2.0, false, mode, false, None, false, padding).unwrap()
}
#[test]
fn bags() {
    let w = floats(&[1.0, f64::NAN, 3.0, 2.0, f64::NAN, 5.0, -1.0, 7.0], &[4, 2]);
    let y = bag(&[0, 1, 2, 3, 2, 1, 3], &w, &[0, 4, 4, 6], "max", None);
    same(&y, &[3.0, f64::NAN, 0.0, 0.0, f64::NAN, 5.0, -1.0, 7.0]);
    let w = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2]);
    same(&bag(&[0, 1, 2, 2, 1], &w, &[0, 1, 1], "mean", Some(2)), &[1.0, 2.0, 0.0, 0.0, 3.0, 4.0]);
    // bags of one size, up to an offset that leaves indices out, and the same bags of different sizes
    same(&bag(&[0, 1, 2, 2], &w, &[0, 2], "sum", None), &[4.0, 6.0, 10.0, 12.0]);
    same(&bag(&[0, 1, 2, 2], &w, &[0, 2], "mean", None), &[2.0, 3.0, 5.0, 6.0]);
    same(&bag(&[0, 1, 2, 2, 0], &w, &[0, 2], "sum", None), &[4.0, 6.0, 11.0, 14.0]);
    let last = |o: &[i64]| {
        let (i, o) = (ints(&[0, 1, 2, 2, 1]), ints(o));
        ops::embedding_bag(&i, &w, Some(&o), None, 2.0, false, "sum", false, None, true, None).unwrap()
    };
    same(&last(&[0, 2, 4]), &[4.0, 6.0, 10.0, 12.0]);
    same(&last(&[0, 0, 0]), &[0.0, 0.0, 0.0, 0.0]);
    // factors, one of an index that does not count
    let weighted = |d: DType| {
        let factors = floats(&[0.5, 1.0, 2.0, 4.0, 1.5], &[5]).to(d);
        let (i, w, o) = (ints(&[0, 1, 2, 2, 1]), w.to(d), ints(&[0, 2]));
        let (f, p) = (Some(&factors), Some(2));
        ops::embedding_bag(&i, &w, Some(&o), None, 2.0, false, "sum", false, f, false, p).unwrap()
    };
    [DType::F64, DType::F32, DType::BF16].iter().for_each(|d| same(&weighted(*d), &[3.5, 5.0, 4.5, 6.0]));
    let beyond = ops::bag_sums(&w, &ints(&[3]), &ints(&[0, 1]), None, false, false);
    assert!(beyond.unwrap_err().to_string().contains("index out of range"));
    assert!(ops::bag_sums(&w, &ints(&[1]), &ints(&[0, 2]), None, false, false).is_err());
    // one long bag among many short ones: rows in all, not bags times the longest
    let n = 200_000;
    let offsets: Vec<i64> = (0..n).collect();
    let input = vec![1; 2 * n as usize];
    let y = list(&bag(&input, &w, &offsets, "sum", None));
    assert_eq!((y[0], y[2 * n as usize - 2]), (3.0, 3.0 * (n + 1) as f64));
}

#[test]
fn strided_ctc_targets() {
    let lp = floats(&(0..24).map(|i| -1.0 + 2.0 * f64::from(i) / 23.0).collect::<Vec<_>>(), &[4, 2, 3]);
    let lp = flambeau_core::ops::log_softmax(&lp, -1, None).unwrap();
    let memory = ints(&[1, 2, 2, 1, 1, 2, 1, 2]);
    let strided = flambeau_core::ops::slice(&memory, 0, None, None, 2).unwrap();
    let loss = |t: &Tensor| list(&ops::ctc_loss_of(&lp, t, &[4, 4], &[2, 2], 0, "none", false).unwrap());
    let near = |got: Vec<f64>, want: [f64; 2]| {
        assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-5), "{got:?}, not {want:?}");
    };
    near(loss(&strided), [1.673297643661499, 1.6732981204986572]);
    near(loss(&ints(&[1, 2, 1, 1])), [1.673297643661499, 2.933305025100708]);
}

#[test]
fn numbers_over_tensors() {
    let x = floats(&[1.0 / 7.0], &[1]).to(DType::F32);
    same(&(3.0 / &x), &[20.999998092651367]);
    let three = flambeau_core::api::ergonomic::wrapped_number(Scalar::Float(3.0)).unwrap();
    same(&flambeau_core::ops::div(&three, &x).unwrap(), &[21.0]);
}

#[test]
fn halves_of_transposed_convolutions_are_rounded_before_they_are_added() {
    let (a, b) = (1.0 + 2f64.powi(-10), 1.0 + 2f64.powi(-9));
    let x = floats(&[a, -b], &[1, 1, 2]).to(DType::F16);
    let w = floats(&[1.0, a], &[1, 1, 2]).to(DType::F16);
    let y = ops::conv_transpose1d(&x, &w, None, &[1], &[0], &[0], 1, &[1]).unwrap();
    // the sum of the products themselves is 2^-20 in the middle
    same(&y, &[a, 0.0, -(1.0 + 2f64.powi(-8) - 2f64.powi(-10))]);
    let sums = floats(&[0.0], &[1, 1]).to(DType::F16);
    let (l, r) = (floats(&[a, -b], &[2, 1, 1]).to(DType::F16), floats(&[a, 1.0], &[2, 1, 1]).to(DType::F16));
    let one = Scalar::Int(1);
    same(&flambeau_core::ops::addbmm(&sums, &l, &r, one, one).unwrap(), &[0.0]);
}

#[test]
fn cosine_similarity_of_integers_and_floats() {
    let x = Tensor::from_vec_raw(vec![1i64, 2, 2], &[1, 3]).unwrap();
    let y = floats(&[2.0, 0.0, 1.0], &[1, 3]).to(DType::F32);
    let got = list(&ops::cosine_similarity(&x, &y, 1, 1e-8).unwrap())[0];
    assert!((got - 4.0 / (3.0 * 5f64.sqrt())).abs() < 1e-6, "{got}");
    assert!(ops::cosine_similarity(&x, &x, 1, 1e-8).is_err());
}

/// Below the bound, too, the gradient is that of the norm.
#[test]
fn cosine_similarity_of_short_vectors() {
    let x = floats(&[0.0, 2.0], &[1, 2]);
    let y = floats(&[0.06, 0.08], &[1, 2]);
    y.requires_grad_(true);
    let c = ops::cosine_similarity(&x, &y, 1, 0.5).unwrap();
    assert!((list(&c)[0] - 0.16).abs() < 1e-12);
    let loss = flambeau_core::ops::sum(&c, None, false, None).unwrap();
    let o = flambeau_autograd::GradOptions::new();
    let g = flambeau_autograd::grad(&[loss], std::slice::from_ref(&y), o).unwrap()[0].clone().unwrap();
    // 1 / 0.5 for the second element, less what the norm's direction (0.6, 0.8) takes: 0.08 / 0.25
    for (got, want) in list(&g).into_iter().zip([-0.192, 1.744]) {
        assert!((got - want).abs() < 1e-9, "{got} {want}");
    }
}

/// A factor that the sizes do not show: images go by the sizes, lines and volumes by the factor, gradients by the sizes.
#[test]
fn nearest_neighbours_by_sizes_and_by_factors() {
    let of = |sizes: &[i64], factor: f64| {
        let x = floats(&[0.0, 1.0, 2.0], sizes);
        x.requires_grad_(true);
        let f: Vec<f64> = [vec![1.0; sizes.len() - 3], vec![factor]].concat();
        let y = ops::interpolate(&x, None, Some(&f), "nearest", None, None, false).unwrap();
        let loss = flambeau_core::ops::sum(&y, None, false, None).unwrap();
        let o = flambeau_autograd::GradOptions::new();
        let g = flambeau_autograd::grad(&[loss], std::slice::from_ref(&x), o).unwrap()[0].clone().unwrap();
        (list(&y), list(&g))
    };
    for sizes in [&[1, 1, 3][..], &[1, 1, 1, 1, 3]] {
        assert_eq!(of(sizes, 1.3), (vec![0.0, 0.0, 1.0], vec![1.0; 3]));
        assert_eq!(of(sizes, 2.2), (vec![0.0, 0.0, 0.0, 1.0, 1.0, 2.0], vec![2.0; 3]));
    }
    assert_eq!(of(&[1, 1, 1, 3], 1.3), (vec![0.0, 1.0, 2.0], vec![1.0; 3]));
    assert_eq!(of(&[1, 1, 1, 3], 2.2), (vec![0.0, 0.0, 1.0, 1.0, 2.0, 2.0], vec![2.0; 3]));
}

/// What oneDNN computes may be empty.
#[test]
fn transposed_convolutions_of_no_size() {
    let x = Tensor::from_vec_raw(vec![1f32; 12], &[2, 2, 3]).unwrap();
    let w = Tensor::from_vec_raw(vec![1f32; 8], &[2, 2, 2]).unwrap();
    x.requires_grad_(true);
    w.requires_grad_(true);
    let empty = |padding: i64| ops::conv_transpose1d(&x, &w, None, &[1], &[padding], &[0], 1, &[1]);
    assert!(empty(3).is_err());
    let y = empty(2).unwrap();
    assert_eq!(y.sizes(), [2, 2, 0]);
    let loss = flambeau_core::ops::sum(&y, None, false, None).unwrap();
    let o = flambeau_autograd::GradOptions::new();
    for g in flambeau_autograd::grad(&[loss], &[x.clone(), w.clone()], o).unwrap() {
        assert!(g.unwrap().to_vec::<f32>().iter().all(|v| *v == 0.0));
    }
}

/// What PyTorch makes of nothing: masks, means, normalised values, gradients of parameters.
#[test]
fn nothing_at_all() {
    let nothing = |sizes: &[i64]| {
        let x = floats(&[], sizes);
        x.requires_grad_(true);
        x
    };
    let zeros_of = |y: &Tensor, x: &Tensor| {
        let loss = flambeau_core::ops::sum(y, None, false, None).unwrap();
        let o = flambeau_autograd::GradOptions::new();
        flambeau_autograd::grad(&[loss], std::slice::from_ref(x), o).unwrap()[0].clone().unwrap()
    };
    for train in [Some(true), Some(false), None] {
        assert_eq!(ops::native_dropout(&floats(&[], &[0, 2]), 0.3, train).unwrap().1.dtype(), DType::F64);
    }
    let ones = |n: i64| {
        let t = floats(&vec![1.0; n as usize], &[n]);
        t.requires_grad_(true);
        t
    };
    let (weight, mean, var) = (ones(3), floats(&[0.0; 3], &[3]), floats(&[1.0; 3], &[3]));
    let x = nothing(&[2, 3, 0]);
    let y = ops::instance_norm(&x, Some(&mean), Some(&var), Some(&weight), None, true, 0.1, 1e-5).unwrap();
    assert_eq!(y.sizes(), [2, 3, 0]);
    same(&zeros_of(&y, &weight), &[0.0; 3]);
    let y = ops::batch_norm_torch(&x, Some(&weight), None, Some(&mean), Some(&var), true, 0.1, 1e-5, true);
    same(&zeros_of(&y.unwrap(), &weight), &[0.0; 3]);
    same(&mean, &[0.0; 3]);
    same(&var, &[1.0; 3]);
    ops::instance_norm(&nothing(&[0, 3, 4]), Some(&mean), Some(&var), None, None, true, 0.1, 1e-5).unwrap();
    same(&mean, &[f64::NAN; 3]);
    for (y, sizes) in [
        (ops::adaptive_avg_pool1d(&nothing(&[1, 3, 0]), &[1]), vec![1, 3, 1]),
        (ops::adaptive_avg_pool2d(&nothing(&[3, 0, 4]), &[1]), vec![3, 1, 1]),
        (ops::adaptive_avg_pool3d(&nothing(&[1, 3, 0, 4, 2]), &[1]), vec![1, 3, 1, 1, 1]),
    ] {
        let y = y.unwrap();
        assert_eq!(y.sizes(), sizes);
        same(&y, &[f64::NAN; 3]);
    }
}

#[test]
fn one_adaptive_window_is_a_mean() {
    let x = floats(&[1.0, 2.0, 3.0, 6.0], &[2, 2]);
    same(&ops::adaptive_avg_pool2d(&x, &[1]).unwrap(), &[3.0]);
    let c = ops::adaptive_avg_pool1d(&x.to(DType::C64), &[1]).unwrap();
    assert_eq!((c.dtype(), c.sizes()), (DType::C64, &[2, 1][..]));
}

#[test]
fn wrapping_round_what_was_cut() {
    let x = floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], &[1, 6]);
    let wrapped = |x: &Tensor, pad: &[i64]| ops::pad(x, pad, "circular", None).unwrap();
    same(&wrapped(&x, &[-1, 3]), &[1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 2.0, 3.0]);
    same(&wrapped(&x, &[2, -3]), &[1.0, 2.0, 0.0, 1.0, 2.0]);
    // nothing is left, and nothing is left of what is to be repeated
    let x = floats(&[1.0; 12], &[1, 3, 4]);
    assert_eq!(wrapped(&x, &[-2, -2, 1, 1]).sizes(), [1, 5, 0]);
    assert_eq!(wrapped(&x, &[0, 0, 0, -3]).sizes(), [1, 0, 4]);
    assert_eq!(wrapped(&x, &[3, 3, -3, 1]).sizes(), [1, 1, 10]);
}
