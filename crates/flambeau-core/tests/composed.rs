//! Values of composed operators, unique values, windows, rare dtypes and dtypes of `out=`. The expected numbers are
//! PyTorch's.

use flambeau_core::{DType, ErrorKind, Scalar, Tensor, Value, ops};
use flambeau_library::call;

fn t(v: &[f64], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(v, sizes.to_vec())
}
fn near(got: &Tensor, want: &[f64]) {
    let got = got.to_vec::<f64>();
    assert_eq!(got.len(), want.len(), "{got:?}");
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() < 1e-6 || (g.is_nan() && w.is_nan()), "{got:?}, expected {want:?}");
    }
}

#[test]
fn differences_and_combinations() {
    let x = t(&[1.0, 3.0, 2.0, 7.0], &[4]);
    near(&ops::diff(&x, 1, -1, None, None).unwrap(), &[2.0, -1.0, 5.0]);
    near(&ops::diff(&x, 2, 0, None, Some(&x)).unwrap(), &[-3.0, 6.0, -11.0, 8.0, -3.0, 6.0]);
    assert_eq!(ops::diff(&x, 9, 0, None, None).unwrap().numel(), 0);
    let c = ops::combinations(&x, 2, false).unwrap();
    assert_eq!(c.sizes(), [6, 2]);
    near(&c, &[1.0, 3.0, 1.0, 2.0, 1.0, 7.0, 3.0, 2.0, 3.0, 7.0, 2.0, 7.0]);
    assert_eq!(ops::combinations(&x, 3, true).unwrap().sizes(), [20, 3]);
    assert_eq!(ops::combinations(&x, 5, false).unwrap().sizes(), [0, 5]);
}

#[test]
fn covariance() {
    let x = t(&[0.0, 1.0, 2.0, 2.0, 1.0, 0.0], &[2, 3]);
    near(&ops::cov(&x, 1, None, None).unwrap(), &[1.0, -1.0, -1.0, 1.0]);
    near(&ops::corrcoef(&x).unwrap(), &[1.0, -1.0, -1.0, 1.0]);
    let f = Tensor::from_slice(&[1i64, 2, 1], 3);
    near(&ops::cov(&t(&[0.0, 1.0, 5.0], &[3]), 0, Some(&f), None).unwrap(), &[3.6875]);
    let e = ops::cov(&x, 1, Some(&t(&[1.0; 3], &[3])), None).unwrap_err();
    assert_eq!(
        e.message(),
        "cov(): expected fweights to have integral dtype but got fweights with Double dtype"
    );
}

#[test]
fn products_and_distances() {
    let (a, b) = (t(&[1.0, 0.0, 0.0], &[3]), t(&[0.0, 1.0, 0.0], &[3]));
    near(&ops::cross(&a, &b, None).unwrap(), &[0.0, 0.0, 1.0]);
    near(&ops::linalg_vecdot(&t(&[1.0, 2.0], &[2]), &t(&[3.0, 4.0], &[2]), -1).unwrap(), &[11.0]);
    let (x, y) = (t(&[0.0, 0.0, 3.0, 4.0], &[2, 2]), t(&[0.0, 0.0], &[1, 2]));
    near(&ops::cdist(&x, &y, 2.0, None).unwrap(), &[0.0, 5.0]);
    near(&ops::cdist(&x, &y, f64::INFINITY, None).unwrap(), &[0.0, 4.0]);
    near(&ops::pdist(&x, 1.0).unwrap(), &[7.0]);
    near(&ops::vander(&t(&[2.0, 3.0], &[2]), Some(3), false).unwrap(), &[4.0, 2.0, 1.0, 9.0, 3.0, 1.0]);
    near(
        &ops::renorm(&t(&[3.0, 4.0, 0.3, 0.4], &[2, 2]), 2.into(), 0, 1.into()).unwrap(),
        &[0.6, 0.8, 0.3, 0.4],
    );
    let r = ops::linalg_multi_dot(&[t(&[1.0, 2.0], &[2]), x.clone(), t(&[1.0, 1.0], &[2])]).unwrap();
    assert_eq!((r.dim(), r.to_vec::<f64>()), (0, vec![14.0]));
}

#[test]
fn unique_values_and_slices() {
    let x = Tensor::from_slice(&[3i64, 1, 3, 2, 1, 1], [2, 3]);
    let (v, inverse, counts) = ops::unique(&x, true, true, true).unwrap();
    assert_eq!(v.to_vec::<i64>(), [1, 2, 3]);
    assert_eq!((inverse.sizes(), inverse.to_vec::<i64>()), (&[2, 3][..], vec![2, 0, 2, 1, 0, 0]));
    assert_eq!(counts.to_vec::<i64>(), [3, 1, 2]);
    let rows = Tensor::from_slice(&[2i64, 1, 0, 5, 2, 1, 0, 4], [4, 2]);
    let (v, inverse, counts) = ops::unique_dim(&rows, 0, true, true, true).unwrap();
    assert_eq!((v.sizes(), v.to_vec::<i64>()), (&[3, 2][..], vec![0, 4, 0, 5, 2, 1]));
    assert_eq!(inverse.to_vec::<i64>(), [2, 1, 2, 0]);
    assert_eq!(counts.to_vec::<i64>(), [1, 1, 2]);
    let (v, _, counts) = ops::unique_consecutive(&x, false, true, None).unwrap();
    assert_eq!((v.to_vec::<i64>(), counts.to_vec::<i64>()), (vec![3, 1, 3, 2, 1], vec![1, 1, 1, 1, 2]));
    let nan = t(&[f64::NAN, 1.0, f64::NAN], &[3]);
    assert_eq!(ops::unique(&nan, true, false, false).unwrap().0.numel(), 3);
}

#[test]
fn windows() {
    near(&ops::hann_window(4, true, Some(DType::F64), None, None, None).unwrap(), &[0.0, 0.5, 1.0, 0.5]);
    near(&ops::hann_window(1, false, None, None, None, None).unwrap(), &[1.0]);
    near(
        &ops::kaiser_window(3, false, 12.0, Some(DType::F64), None, None, None).unwrap(),
        &[5.277_344_413_4e-5, 1.0, 5.277_344_413_4e-5],
    );
    near(
        &ops::signal_gaussian(3, 1.0, true, Some(DType::F64), None, None, None).unwrap(),
        &[0.606_530_659_7, 1.0, 0.606_530_659_7],
    );
}

#[test]
fn sequences_with_tensors_as_ends() {
    let ends = [Value::Tensor(t(&[4.3], &[])), Value::Float(0.0), Value::Int(1)];
    let r = call("torch.linspace", &ends, &[]).unwrap();
    assert!(matches!(&r[..], [Value::Tensor(t)] if t.to_vec::<f32>() == [4.3]));
    let ints = ops::linspace(0.into(), 7.into(), 50, Some(DType::I64), None, None, None).unwrap();
    assert_eq!(ints.to_vec::<i64>()[28], 4);
    let e = call("torch.linspace", &[Value::Tensor(t(&[1.0, 2.0], &[2])), Value::Int(1), Value::Int(3)], &[]);
    assert_eq!(
        e.unwrap_err().message(),
        "linspace only supports 0-dimensional start and end tensors, but got start with 1 dimension(s)."
    );
}

#[test]
fn rare_dtypes_compute_what_pytorch_computes() {
    let of = |d: DType| ops::ones(&[2], Some(d), None, None, None).unwrap();
    let u = of(DType::U16);
    assert!(ops::mul(&u, &u).is_ok() && ops::eq(&u, &u).is_ok() && ops::maximum(&u, &u).is_ok());
    for r in [
        ops::add(&u, &u, 1.into()),
        ops::lt(&u, &u),
        ops::abs(&u),
        ops::neg(&u),
        ops::argmax(&u, None, false),
    ] {
        assert_eq!(r.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    let e = of(DType::F8E4M3);
    assert_eq!(ops::mul(&e, &e).unwrap().to_vec::<f32>(), [1.0, 1.0]);
    let other = Tensor::from_slice(&[2.0f32], [0usize; 0]).try_to(DType::F8E4M3).unwrap();
    let text = ops::mul(&e, &other).unwrap_err();
    assert_eq!(text.message(), "\"mul_cpu_reduced_float\" not implemented for 'Float8_e4m3fn'");
    // a complex number beside bfloat16 makes complex numbers of bfloat16, which move and compare
    let b = of(DType::BF16);
    let i =
        flambeau_core::api::ergonomic::wrapped_number(Scalar::Complex(num_complex::Complex::new(0.0, 1.0)))
            .unwrap();
    let mask = ops::gt(&b, &ops::zeros(&[2], None, None, None, None).unwrap()).unwrap();
    let w = ops::where_(&mask, &b, &i).unwrap();
    assert_eq!(w.dtype(), DType::BC32);
    assert!(ops::eq(&w, &w).is_ok() && ops::add(&w, &w, 1.into()).is_err());
    assert_eq!(ops::real(&w).unwrap().dtype(), DType::BF16);
}

#[test]
fn next_half_floats() {
    for d in [DType::F16, DType::BF16] {
        let of = |v: &[f64]| t(v, &[v.len() as i64]).try_to(d).unwrap();
        let inf = f64::INFINITY;
        let r =
            ops::nextafter(&of(&[1.0, 0.0, 1.0, inf]), &of(&[2.0, -1.0, 1.0, 0.0])).unwrap().to_vec::<f64>();
        let (step, least, max) = match d {
            DType::F16 => (2f64.powi(-10), 2f64.powi(-24), 65504.0),
            _ => (2f64.powi(-7), 2f64.powi(-133), f64::from(half::bf16::MAX)),
        };
        assert_eq!(r, [1.0 + step, -least, 1.0, max]);
    }
}

#[test]
fn outputs_of_another_dtype() {
    let x = Tensor::from_slice(&[1.0f32, 2.0], 2);
    let mut wrong = Tensor::from_slice(&[0.0f64], 1);
    let e = ops::amax_out(&x, &[0], false, &mut wrong).unwrap_err();
    assert_eq!(
        e.message(),
        "Expected the dtype for input and out to match, but got Float for input's dtype and Double for out's dtype."
    );
    assert!(ops::abs_out(&x, &mut wrong).unwrap_err().message().starts_with("Found dtype Double"));
    ops::add_out(&x, &x, 1.into(), &mut wrong).unwrap();
    assert_eq!(wrong.to_vec::<f64>(), [2.0, 4.0]);
}

#[test]
fn running_complex_logsumexp() {
    let z: Vec<num_complex::Complex<f64>> = [(0.0, 0.5), (1.0, -2.0), (f64::NEG_INFINITY, 0.0)]
        .map(|(a, b)| num_complex::Complex::new(a, b))
        .to_vec();
    let got = ops::logcumsumexp(&Tensor::from_slice(&z, 3), 0).unwrap().to_vec::<num_complex::Complex<f64>>();
    let mut sum = num_complex::Complex::new(0.0, 0.0);
    for (g, v) in got.iter().zip(&z) {
        sum += v.exp();
        assert!((g - sum.ln()).norm() < 1e-12, "{got:?}");
    }
}

#[test]
fn inverses_determinants_and_exponentials() {
    let a = t(&[2.0, 1.0, 1.0, 3.0], &[2, 2]);
    near(&ops::matrix_power(&a, -2).unwrap(), &[0.4, -0.2, -0.2, 0.2]);
    let none = t(&[1.0, 2.0, 2.0, 4.0], &[1, 2, 2]);
    let e = ops::linalg_inv(&none).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Linalg);
    assert_eq!(
        e.message(),
        "linalg.inv: (Batch element 0): The diagonal element 2 is zero, the inversion could not be completed because the \
         input matrix is singular."
    );
    assert_eq!(ops::linalg_inv_ex(&none, false).unwrap().1.to_vec::<i32>(), [2]);
    let (sign, log) = ops::slogdet(&t(&[0.0, 2.0, 3.0, 4.0], &[2, 2])).unwrap();
    near(&sign, &[-1.0]);
    near(&log, &[6f64.ln()]);
    near(&ops::logdet(&t(&[0.0, 2.0, 3.0, 4.0], &[2, 2])).unwrap(), &[f64::NAN]);
    // a turn by one radian, and a matrix that is halved five times; each by its own norm
    let m = t(&[0.0, 1.0, -1.0, 0.0, 3.0, 1.0, 0.0, -30.0], &[2, 2, 2]);
    let (c, s, big) = (1f64.cos(), 1f64.sin(), 3f64.exp());
    let got = ops::matrix_exp(&m).unwrap();
    near(&got, &[c, s, -s, c, big, (big - (-30f64).exp()) / 33.0, 0.0, (-30f64).exp()]);
    assert_eq!(ops::matrix_exp(&t(&[], &[3, 0, 0])).unwrap().sizes(), [3, 0, 0]);
}

#[test]
fn nuclear_norms() {
    let x = t(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let by_name = |kw: &[(String, Value)]| call("torch.norm", &[(&x).into()], kw);
    let p = |s: &str| ("p".to_string(), Value::Str(s.into()));
    let want = 10.280_901_636_369_205;
    match &by_name(&[p("nuc")]).unwrap()[..] {
        [Value::Tensor(n)] => near(n, &[want]),
        other => panic!("{other:?}"),
    }
    assert_eq!(by_name(&[p("bad")]).unwrap_err().message(), "linalg.matrix_norm: Order bad not supported.");
    let y = ops::nuclear_norm_dim(&ops::unsqueeze(&x, 1).unwrap(), &[2, 0], true).unwrap();
    assert_eq!(y.sizes(), [1, 1, 1]);
    near(&y, &[want]);
    let nan = ops::nuclear_norm(&t(&[f64::NAN; 4], &[2, 2]), false).unwrap_err();
    assert!(nan.message().ends_with("contained non-finite values."));
}

#[test]
fn outputs_that_lie_in_inputs() {
    let x = t(&[3.0, 1.0, 2.0, 0.0], &[4]);
    let i = Tensor::from_slice(&[0i64, 1, 2, 3], 4);
    let shared = "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single";
    let mut out = x.alias_detached();
    assert!(ops::take_out(&x, &i, &mut out).unwrap_err().message().starts_with(shared));
    assert!(ops::gather_out(&x, 0, &i, false, &mut out).unwrap_err().message().starts_with(shared));
    assert!(ops::cat_out(&[x.clone()], 0, &mut out).unwrap_err().message().starts_with(shared));
    // parts of one memory that do not meet are fine
    let (low, mut high) = (ops::narrow(&x, 0, 0, 2).unwrap(), ops::narrow(&x, 0, 2, 2).unwrap());
    ops::cat_out(&[low], 0, &mut high).unwrap();
    near(&x, &[3.0, 1.0, 3.0, 1.0]);
    let (mut least, mut most) = (t(&[0.0], &[]), t(&[0.0], &[]));
    ops::aminmax_out(&x, None, false, &mut least, &mut most).unwrap();
    let mut same = least.alias_detached();
    let e = ops::aminmax_out(&x, None, false, &mut least, &mut same).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Value);
}

#[test]
fn addbmm_grows_what_it_writes() {
    let ones = |s: &[i64]| t(&vec![1.0; s.iter().product::<i64>() as usize], s);
    let x = ones(&[4]);
    let r =
        call("torch.Tensor.addbmm_", &[(&x).into(), ones(&[2, 2, 3]).into(), ones(&[2, 3, 4]).into()], &[])
            .unwrap();
    match &r[..] {
        [Value::Tensor(r)] => {
            assert_eq!(r.sizes(), [2, 4]);
            near(r, &[7.0; 8]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn pythons_own_names_and_protocols() {
    let x = t(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let one = |path: &str, args: &[Value], kw: &[(&str, Value)]| {
        let kw: Vec<(String, Value)> = kw.iter().map(|(k, v)| ((*k).to_string(), v.clone())).collect();
        call(path, args, &kw)
    };
    let tensor = |v: Vec<Value>| match &v[..] {
        [Value::Tensor(t)] => t.clone(),
        other => panic!("{other:?}"),
    };
    let r = one("torch.Tensor.__rsub__", &[(&x).into()], &[("other", Value::Int(1))]).unwrap();
    near(&tensor(r), &[0.0, -1.0, -2.0, -3.0]);
    let r = one("torch.tensordot", &[], &[("a", (&x).into()), ("b", (&x).into()), ("dims", Value::Int(2))]);
    near(&tensor(r.unwrap()), &[30.0]);
    let parts =
        one("torch.split", &[], &[("tensor", (&x).into()), ("split_size_or_sections", Value::Int(1))]);
    let parts = parts.unwrap();
    let n = match &parts[..] {
        [Value::List(l) | Value::Tuple(l)] => l.len(),
        l => l.len(),
    };
    assert_eq!(n, 2);
    let rows = one("torch.Tensor.__iter__", &[(&x).into()], &[]).unwrap();
    assert!(matches!(&rows[..], [Value::List(l)] if l.len() == 2));
    let e = one("torch.Tensor.__iter__", &[t(&[1.0], &[]).into()], &[]).unwrap_err();
    assert_eq!((e.kind(), e.message()), (ErrorKind::Type, "iteration over a 0-d tensor"));
    let list = Value::List(vec![Value::Int(1), Value::Float(2.5)]);
    near(&tensor(one("torch.asarray", std::slice::from_ref(&list), &[]).unwrap()), &[1.0, 2.5]);
    let e = one("torch.asarray", &[list], &[("copy", Value::Bool(false))]).unwrap_err();
    assert_eq!(e.message(), "can't alias arbitrary sequence into a tensor.");
    let same = tensor(one("torch.asarray", &[(&x).into()], &[]).unwrap());
    assert_eq!(same.data_ptr().unwrap(), x.data_ptr().unwrap());
    let e = one("torch.Tensor.numpy", &[Tensor::from_slice(&[half::bf16::ONE], 1).into()], &[]).unwrap_err();
    assert_eq!(e.message(), "Got unsupported ScalarType BFloat16");
}
