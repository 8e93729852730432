//! What the rows of elementwise operators add to their formulas: plans, promotion, rare dtypes, refusals.

use super::{floats, ints, t};
use flambeau_core::api::ergonomic::wrapped_number;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, ErrorKind, Result, Scalar, Tensor, functions as torch, ops};

fn number(s: impl Into<Scalar>) -> Tensor {
    wrapped_number(s.into()).unwrap()
}
fn fails<T>(r: Result<T>, kind: ErrorKind, text: &str) {
    let e = r.err().expect("an error");
    assert_eq!(e.kind(), kind, "{e}");
    assert!(e.message().contains(text), "{e}");
}

#[test]
fn integers_divide_as_python_does() {
    let (a, b) = (ints(&[7, -7, 7, -7]), ints(&[2, 2, -2, -2]));
    assert_eq!(ops::floor_divide(&a, &b).unwrap().to_vec::<i64>(), [3, -4, -4, 3]);
    assert_eq!(ops::remainder(&a, &b).unwrap().to_vec::<i64>(), [1, 1, -1, -1]);
    assert_eq!(ops::fmod(&a, &b).unwrap().to_vec::<i64>(), [1, -1, 1, -1]);
    assert_eq!(ops::div_mode(&a, &b, Some("trunc")).unwrap().to_vec::<i64>(), [3, -3, -3, 3]);
    assert_eq!(ops::div(&a, &b).unwrap().dtype(), DType::F32);
    for f in [ops::floor_divide, ops::remainder, ops::fmod] {
        fails(f(&a, &ints(&[1, 0, 1, 1])), ErrorKind::Runtime, "ZeroDivisionError");
        // an exact multiple of 256 is a zero byte
        let bytes = a.to(DType::U8);
        fails(f(&bytes, &number(256)), ErrorKind::Runtime, "ZeroDivisionError");
    }
}

#[test]
fn powers_by_numbers() {
    let x = floats(&[4.0, 9.0]);
    for (e, want) in [(0.5, [2.0, 3.0]), (-0.5, [0.5, 1.0 / 3.0]), (2.0, [16.0, 81.0]), (1.5, [8.0, 27.0])] {
        let got = ops::pow(&x, &number(e)).unwrap().to_vec::<f32>();
        assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-5), "{e}: {got:?}");
    }
    assert_eq!(ops::pow(&ints(&[3]), &number(2)).unwrap().to_vec::<i64>(), [9]);
    assert_eq!(ops::pow(&ints(&[3]), &number(0.5)).unwrap().dtype(), DType::F32);
    fails(ops::pow(&ints(&[3]), &number(-1)), ErrorKind::Runtime, "negative integer powers");
    let bools = x.gt(5.0);
    fails(ops::pow(&bools, &bools), ErrorKind::Unsupported, "\"pow\" not implemented for 'Bool'");
    assert_eq!(ops::square(&bools).unwrap().dtype(), DType::I64);
}

#[test]
fn numbers_take_part_in_the_promotion_of_clamp() {
    let a = ints(&[-3, 0, 3]);
    let clamp = |t: &Tensor, lo: Option<Scalar>, hi: Option<Scalar>| ops::clamp(t, lo, hi);
    assert_eq!(clamp(&a, Some(0.into()), Some(1.into())).unwrap().to_vec::<i64>(), [0, 0, 1]);
    let f = clamp(&a, Some(0.5.into()), None).unwrap();
    assert_eq!((f.dtype(), f.to_vec::<f32>()), (DType::F32, vec![0.5, 0.5, 3.0]));
    fails(clamp(&a, None, None), ErrorKind::Runtime, "At least one of");
    fails(ops::clamp_(&a, Some(0.5.into()), None), ErrorKind::DType, "can't be cast");
    // bounds that the dtype cannot hold are its own, or beyond all of its numbers
    let bytes = ints(&[0, 44, 255]).to(DType::U8);
    assert_eq!(clamp(&bytes, Some((-5).into()), Some(300.into())).unwrap().to_vec::<u8>(), [0, 44, 255]);
    let beyond = "is outside the representable range of Byte";
    fails(
        clamp(&bytes, Some(300.into()), None),
        ErrorKind::Runtime,
        &format!("Clamp min value 300 {beyond}"),
    );
    fails(
        clamp(&bytes, None, Some((-1).into())),
        ErrorKind::Runtime,
        &format!("Clamp max value -1 {beyond}"),
    );
    let nan = clamp(&floats(&[1.0]), Some(f64::NAN.into()), None).unwrap();
    assert!(nan.item::<f32>().is_nan());
}

#[test]
fn factors_of_sums_must_fit() {
    let (i, f) = (ints(&[1]), floats(&[1.0]));
    fails(ops::add(&i, &i, 0.5.into()), ErrorKind::Runtime, "must not be a floating point number");
    fails(ops::add(&f, &f, true.into()), ErrorKind::Runtime, "Boolean alpha");
    assert_eq!(ops::add(&i, &f, 0.5.into()).unwrap().to_vec::<f32>(), [1.5]);
    let b = f.gt(0.0);
    fails(ops::sub(&b, &b, 1.into()), ErrorKind::Unsupported, "two bool tensors");
}

#[test]
fn a_float_stays_as_wide_when_a_scalar_makes_it_complex() {
    let half = torch::zeros([2]).to(DType::F16);
    let wide = Tensor::empty_raw(&[], DType::C128, Device::Cpu).unwrap();
    assert_eq!(flambeau_core::iter::promotion::result_type(&[&half, &wide]).unwrap(), DType::C32);
}

#[test]
fn special_functions_at_known_points() {
    let x = Tensor::from_slice(&[0.5f64, 2.0, 400.0], [3]);
    let near = |r: Result<Tensor>, want: [f64; 3]| {
        let got = r.unwrap().to_vec::<f64>();
        let ok = got.iter().zip(want).all(|(g, w)| (g - w).abs() <= 1e-12 * w.abs().max(1e-300));
        assert!(ok, "{got:?} is not {want:?}");
    };
    near(
        ops::special_scaled_modified_bessel_k0(&x),
        [1.524_109_385_773_909_9, 0.841_568_215_070_771_2, 0.062_646_151_299_578_12],
    );
    near(
        ops::special_i0e(&x),
        [0.645_035_270_449_150_1, 0.308_508_322_553_671_04, 0.019_953_356_281_939_987],
    );
    let p = Tensor::from_slice(&[1e-10f64, 0.3, 0.999], [3]);
    near(ops::special_ndtri(&p), [-6.361_340_902_404_056, -0.524_400_512_708_041, 3.090_232_306_167_813]);
    let (z, q) = (Tensor::from_slice(&[2.0f64; 3], [3]), Tensor::from_slice(&[1.0f64, 2.5, 10.0], [3]));
    near(
        ops::special_zeta(&z, &q),
        [1.644_934_066_848_226_4, 0.490_357_756_100_234_9, 0.105_166_335_681_685_7],
    );
}

#[test]
fn plans_agree_between_their_forms_and_on_the_meta_device() {
    let x = floats(&[-1.5, 0.25, 2.75]);
    let want = ops::round_decimals(&x, 1).unwrap();
    let mut out = torch::zeros([7]);
    ops::round_decimals_out(&x, 1, &mut out).unwrap();
    let y = x.copy();
    ops::round_decimals_(&y, 1).unwrap();
    assert_eq!(want.to_vec::<f32>(), [-1.5, 0.2, 2.8]);
    assert_eq!(out.to_vec::<f32>(), want.to_vec::<f32>());
    assert_eq!(y.to_vec::<f32>(), want.to_vec::<f32>());
    let meta = ops::clamp(&x.to(Device::Meta), Some(0.into()), None).unwrap();
    assert_eq!((meta.sizes(), meta.dtype(), meta.device()), (&[3][..], DType::F32, Device::Meta));
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
fn sizes_are_judged_before_dtypes() {
    let (a, b) = (torch::ones([2]), torch::ones([3]));
    let e = ops::bitwise_and(&a, &b).unwrap_err();
    assert_eq!(
        e.message(),
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"
    );
    let e = ops::bitwise_and(&a, &a).unwrap_err();
    assert_eq!(e.message(), "\"bitwise_and_cpu\" not implemented for 'Float'");
}
