//! Values against the definition, layouts, and errors.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, ErrorKind, Scalar, Tensor, ops as core};
use flambeau_fft::ops;
use num_complex::Complex;

fn complex(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    let v =
        (0..n).map(|i| Complex::new((i * 37 % 101) as f64 / 50.0 - 1.0, (i * 53 % 97) as f64 / 48.0 - 1.0));
    Tensor::from_vec_raw(v.collect(), sizes).unwrap()
}
fn real(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    Tensor::from_vec_raw((0..n).map(|i| (i * 37 % 101) as f64 / 50.0 - 1.0).collect(), sizes).unwrap()
}
fn vec(t: &Tensor) -> Vec<Complex<f64>> {
    t.try_to_vec().unwrap()
}
fn near(a: &Tensor, b: &Tensor) {
    assert_eq!(a.sizes(), b.sizes());
    for (x, y) in vec(a).iter().zip(vec(b)) {
        assert!((x - y).norm() < 1e-9, "{x} {y}");
    }
}
/// The transform of the last dimension as a product with the matrix of roots.
fn by_definition(t: &Tensor) -> Tensor {
    let n = *t.sizes().last().unwrap();
    let w = (0..n * n).map(|i| {
        let (s, c) = (-2.0 * std::f64::consts::PI * ((i / n) * (i % n) % n) as f64 / n as f64).sin_cos();
        Complex::new(c, s)
    });
    let w = Tensor::from_vec_raw(w.collect(), &[n, n]).unwrap();
    core::matmul(&core::to_copy(t, Some(DType::C128), None, None, None, false, None).unwrap(), &w).unwrap()
}

#[test]
fn any_length_in_any_layout() {
    for n in [1, 2, 3, 7, 16, 30, 34, 97, 101, 128] {
        for rows in [1, 3, 40] {
            let x = complex(&[rows, n]);
            let want = by_definition(&x);
            near(&ops::fft_fft(&x, None, -1, None).unwrap(), &want);
            // the same lines as columns, and as a part of a larger tensor
            let t = core::contiguous(
                &core::transpose(&x, 0, 1).unwrap(),
                flambeau_core::MemoryFormat::Contiguous,
            )
            .unwrap();
            let y = ops::fft_fft(&t, None, 0, None).unwrap();
            near(&core::transpose(&y, 0, 1).unwrap(), &want);
            let wide = core::cat(&[x.clone(), x.clone()], 1).unwrap();
            let part = core::slice(&wide, 1, Some(n), None, 1).unwrap();
            near(&ops::fft_fft(&part, None, 1, None).unwrap(), &want);
            near(&ops::fft_ifft(&want, None, 1, None).unwrap(), &x);
            // lazy bits
            let c = core::conj(&x).unwrap();
            near(
                &ops::fft_fft(&c, None, 1, None).unwrap(),
                &by_definition(&core::conj_physical(&x).unwrap()),
            );
            let r = real(&[rows, n]);
            let whole = by_definition(&r);
            near(&ops::fft_fft(&r, None, 1, None).unwrap(), &whole);
            let half = core::slice(&whole, 1, Some(0), Some(n / 2 + 1), 1).unwrap();
            near(&ops::fft_rfft(&r, None, 1, None).unwrap(), &half);
            let back = ops::fft_irfft(&half, Some(n), 1, None).unwrap();
            near(&back, &r);
            assert_eq!(back.dtype(), DType::F64);
        }
    }
}
#[test]
fn long_lines_side_by_side_and_alone() {
    let x = complex(&[64, 1024]);
    let y = ops::fft_fft(&x, None, 1, None).unwrap();
    near(&ops::fft_ifft(&y, None, 1, None).unwrap(), &x);
    for i in [0, 63] {
        let one = ops::fft_fft(&core::select(&x, 0, i).unwrap(), None, 0, None).unwrap();
        near(&one, &core::select(&y, 0, i).unwrap());
    }
    let long = complex(&[1 << 17]);
    near(&ops::fft_ifft(&ops::fft_fft(&long, None, 0, None).unwrap(), None, 0, None).unwrap(), &long);
}
#[test]
fn many_dimensions() {
    let x = complex(&[3, 4, 5, 6]);
    let mut one = x.clone();
    for d in [0, 2, 3] {
        one = ops::fft_fft(&one, None, d, Some("ortho")).unwrap();
    }
    near(&ops::fft_fftn(&x, None, Some(&[0, 2, 3]), Some("ortho")).unwrap(), &one);
    let r = real(&[3, 4, 5]);
    let half = ops::fft_rfftn(&r, None, None, None).unwrap();
    near(&ops::fft_irfftn(&half, Some(&[3, 4, 5]), None, None).unwrap(), &r);
    // strides as PyTorch's
    assert_eq!(ops::fft_fft(&real(&[5, 7, 3, 4]), None, 1, None).unwrap().strides(), [84, 1, 28, 7]);
    assert_eq!(ops::fft_fft2(&real(&[5, 7, 3, 4]), None, &[1, 2], None).unwrap().strides(), [84, 3, 1, 21]);
    assert_eq!(ops::fft_rfft2(&real(&[5, 7, 3, 4]), None, &[1, 2], None).unwrap().strides(), [56, 2, 1, 14]);
}
#[test]
fn results_given() {
    let x = real(&[4, 6]);
    let mut out = Tensor::empty_raw(&[2], DType::C64, Device::Cpu).unwrap();
    ops::fft_rfft_out(&x, None, -1, None, &mut out).unwrap();
    assert_eq!(out.sizes(), [4, 4]);
    let mut wrong = Tensor::empty_raw(&[2], DType::F32, Device::Cpu).unwrap();
    let e = ops::fft_rfft_out(&x, None, -1, None, &mut wrong).unwrap_err();
    assert_eq!(e.message(), "rfft expects a complex output tensor, but got Float");
    let e = ops::fft_irfft_out(&x, None, -1, None, &mut out).unwrap_err();
    assert_eq!(e.message(), "irfft expects a floating point output tensor, but got ComplexFloat");
    // the input itself
    let x = complex(&[8, 32]);
    let want = ops::fft_fft(&x, None, -1, None).unwrap();
    let mut same = x.clone();
    ops::fft_fft_out(&x, None, -1, None, &mut same).unwrap();
    near(&same, &want);
}
#[test]
fn bad_arguments() {
    let x = real(&[4, 6]);
    let half = core::to_copy(&x, Some(DType::F16), None, None, None, false, None).unwrap();
    let c = complex(&[4, 6]);
    type Call<'a> = Box<dyn Fn() -> flambeau_core::Result<Tensor> + 'a>;
    let calls: Vec<(Call, ErrorKind, &str)> = vec![
        (
            Box::new(|| ops::fft_fft(&x, Some(0), -1, None)),
            ErrorKind::Runtime,
            "Invalid number of data points (0) specified",
        ),
        (
            Box::new(|| ops::fft_fft(&x, Some(-7), -1, None)),
            ErrorKind::Runtime,
            "Invalid number of data points (-7) specified",
        ),
        (
            Box::new(|| ops::fft_fft(&x, None, 2, None)),
            ErrorKind::Index,
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
        ),
        (
            Box::new(|| ops::fft_fft(&x, None, 1, Some("bad"))),
            ErrorKind::Runtime,
            "Invalid normalization mode: \"bad\"",
        ),
        (
            Box::new(|| ops::fft_rfft(&c, None, 1, None)),
            ErrorKind::Type,
            "rfft expects a real input tensor, but got ComplexDouble",
        ),
        (Box::new(|| ops::fft_fft(&half, None, 1, None)), ErrorKind::Unsupported, "Unsupported dtype Half"),
        (
            Box::new(|| ops::fft_fftn(&x, Some(&[2, 2]), Some(&[0]), None)),
            ErrorKind::Runtime,
            "When given, dim and shape arguments must have the same length",
        ),
        (
            Box::new(|| ops::fft_fftn(&x, None, Some(&[0, -2]), None)),
            ErrorKind::Runtime,
            "FFT dims must be unique",
        ),
        (
            Box::new(|| ops::fft_irfftn(&x, None, Some(&[]), None)),
            ErrorKind::Runtime,
            "irfftn must transform at least one axis",
        ),
        (
            Box::new(|| ops::fft_c2r(&c, &[1], 0, 40)),
            ErrorKind::Runtime,
            "6 values of a spectrum do not give 40 points",
        ),
        (
            Box::new(|| ops::fft_c2c(&c, &[1], 7, true)),
            ErrorKind::Runtime,
            "Unsupported normalization type 7",
        ),
        (Box::new(|| ops::fft_c2c(&c, &[1, 1], 0, true)), ErrorKind::Runtime, "FFT dims must be unique"),
        (
            Box::new(|| ops::legacy_fft(&x, 1, false)),
            ErrorKind::Runtime,
            "fft: Expected an input tensor with a last dimension of size 2 representing real + imaginary components, but got 6",
        ),
    ];
    for (call, kind, text) in calls {
        let e = call().unwrap_err();
        assert_eq!((e.kind(), e.message()), (kind, text));
    }
}
#[test]
fn old_functions_are_the_new_ones() {
    let x = complex(&[3, 4, 5]);
    let pairs = core::view_as_real(&x).unwrap();
    let new = ops::fft_fftn(&x, None, Some(&[1, 2]), None).unwrap();
    near(&core::view_as_complex(&ops::legacy_fft(&pairs, 2, false).unwrap()).unwrap(), &new);
    let back = ops::legacy_ifft(&core::view_as_real(&new).unwrap(), 2, false).unwrap();
    near(&core::view_as_complex(&back).unwrap(), &x);
    let r = real(&[3, 5, 5]);
    for onesided in [true, false] {
        let y = ops::legacy_rfft(&r, 2, true, onesided).unwrap();
        assert_eq!(y.sizes(), [3, 5, if onesided { 3 } else { 5 }, 2]);
        near(&ops::legacy_irfft(&y, 2, true, onesided, Some(&[5, 5])).unwrap(), &r);
    }
    // odd strides are no obstacle
    let moved = core::transpose(
        &core::contiguous(&core::transpose(&pairs, 0, 3).unwrap(), flambeau_core::MemoryFormat::Contiguous)
            .unwrap(),
        0,
        3,
    );
    near(&core::view_as_complex(&ops::legacy_fft(&moved.unwrap(), 2, false).unwrap()).unwrap(), &new);
}
#[test]
fn signals_survive_their_spectra() {
    let x = real(&[2, 50]);
    let window = core::add(
        &core::hann_window(8, true, Some(DType::F64), None, None, None).unwrap(),
        &core::full(&[1], Scalar::Float(0.1), Some(DType::F64), None, None, None).unwrap(),
        Scalar::Int(1),
    )
    .unwrap();
    for (hop, center, onesided) in [(2, true, None), (3, true, Some(false)), (4, false, None)] {
        let s = ops::stft(
            &x,
            10,
            Some(hop),
            Some(8),
            Some(&window),
            center,
            "reflect",
            true,
            onesided,
            Some(true),
            None,
        )
        .unwrap();
        let back = ops::istft(&s, 10, Some(hop), Some(8), Some(&window), center, true, onesided, None, false);
        if !center {
            // nothing is known of the points outside the first window
            assert!(back.unwrap_err().message().contains("window overlap add min: 1"));
            continue;
        }
        let back = back.unwrap();
        let n = back.sizes()[1];
        near(&back, &core::slice(&x, 1, Some(0), Some(n), 1).unwrap());
    }
}

/// `angle` of a real number below zero is pi where its zero is positive, as PyTorch's is, and -pi where it is negative.
#[test]
fn zeros_at_the_ends_of_real_transforms_are_positive() {
    for n in [1, 2, 3, 12, 16, 31, 63, 64, 96, 128, 1000] {
        let t = core::neg(&real(&[7, n])).unwrap();
        for f in [ops::fft_rfft(&t, None, -1, None).unwrap(), ops::fft_fft(&t, None, -1, None).unwrap()] {
            let f = vec(&f);
            let width = f.len() / 7;
            for row in f.chunks(width) {
                let ends = if n % 2 == 0 { vec![row[0], row[n as usize / 2]] } else { vec![row[0]] };
                assert!(ends.iter().all(|z| z.im == 0.0 && z.im.is_sign_positive()), "{n} {ends:?}");
            }
        }
    }
}
