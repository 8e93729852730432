//! Texts and tolerances of `torch.testing`: those that PyTorch 2.15 gives for the same calls.

use flambeau_core::{DType, ErrorKind, Tensor, Value};
use flambeau_library::call;
use flambeau_utils::testing::*;

fn text(a: impl Into<Value>, e: impl Into<Value>) -> String {
    let e = call("torch.testing.assert_close", &[a.into(), e.into()], &[]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Assertion, "{e:?}");
    e.message().to_string()
}
fn t(v: &[f32]) -> Value {
    Value::Tensor(Tensor::from_slice(v, v.len() as i64))
}
fn list(v: Vec<Value>) -> Value {
    Value::List(v)
}

#[test]
fn tensors() {
    assert_eq!(
        text(t(&[1.0, 2.0, 3.0]), t(&[1.0, 2.5, 3.0])),
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 3 (33.3%)\nGreatest absolute difference: 0.5 at index (1,) (up to 1e-05 \
         allowed)\nGreatest relative difference: 0.20000000298023224 at index (1,) (up to 1.3e-06 allowed)"
    );
    let whole = |v: &[i64]| Value::Tensor(Tensor::from_slice(v, v.len() as i64));
    assert_eq!(
        text(whole(&[1, 2, 3]), whole(&[1, 2, 4])),
        "Tensor-likes are not equal!\n\nMismatched elements: 1 / 3 (33.3%)\nGreatest absolute difference: 1 at index (2,)\nGreatest \
         relative difference: 0.25 at index (2,)"
    );
    assert_eq!(
        text(t(&[f32::NAN]), t(&[f32::NAN])),
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 1 (100.0%)\nGreatest absolute difference: nan at index (0,) (up to 1e-05 \
         allowed)\nGreatest relative difference: nan at index (0,) (up to 1.3e-06 allowed)"
    );
    assert_eq!(
        text(t(&[1.0, f32::INFINITY]), t(&[2.0, 3.0])),
        "Tensor-likes are not close!\n\nMismatched elements: 2 / 2 (100.0%)\nGreatest absolute difference: inf at index (1,) (up to 1e-05 \
         allowed)\nGreatest relative difference: inf at index (1,) (up to 1.3e-06 allowed)"
    );
    let yes = |v: &[bool]| {
        let bytes: Vec<u8> = v.iter().map(|b| u8::from(*b)).collect();
        let t = Tensor::from_slice(&bytes, v.len() as i64);
        Value::Tensor(
            flambeau_core::ops::to(&t, Some(DType::Bool), None, None, None, false, false, None).unwrap(),
        )
    };
    assert_eq!(
        text(yes(&[true, false]), yes(&[true, true])),
        "Tensor-likes are not equal!\n\nMismatched elements: 1 / 2 (50.0%)\nGreatest absolute difference: 1 at index (1,)\nGreatest \
         relative difference: 1.0 at index (1,)"
    );
    assert_eq!(
        text(t(&[1.0, 2.0]), t(&[1.0])),
        "The values for attribute 'shape' do not match: torch.Size([2]) != torch.Size([1])."
    );
    assert_eq!(
        text(t(&[1.0]), Value::Tensor(Tensor::from_slice(&[1f64], 1))),
        "The values for attribute 'dtype' do not match: torch.float32 != torch.float64."
    );
    call("torch.testing.assert_close", &[t(&[]), t(&[])], &[]).unwrap();
}

#[test]
fn numbers_and_others() {
    assert_eq!(
        text(1.0, 1.5),
        "Scalars are not close!\n\nExpected 1.5 but got 1.0.\nAbsolute difference: 0.5 (up to 1e-07 allowed)\nRelative difference: \
         0.3333333333333333 (up to 1e-07 allowed)"
    );
    assert_eq!(
        text(1i64, 2i64),
        "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\nRelative difference: 0.5"
    );
    assert_eq!(text(1.0, 1i64), "The (d)types do not match: <class 'float'> != <class 'int'>.");
    assert_eq!(text(true, false), "Booleans mismatch: True is not False");
    assert_eq!(text(Value::None, 1i64), "None mismatch: None is not 1");
    assert_eq!(text(t(&[1.0]), Value::None), "None mismatch: tensor([1.]) is not None");
    let e = call("torch.testing.assert_close", &[t(&[1.0]), 1.0.into()], &[]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Type);
    assert_eq!(
        e.message(),
        "No comparison pair was able to handle inputs of type <class 'torch.Tensor'> and <class 'float'>."
    );
}

#[test]
fn trees() {
    let (a, b) = (list(vec![1i64.into(), 2i64.into()]), list(vec![1i64.into(), 3i64.into()]));
    assert!(
        text(a.clone(), b)
            .ends_with("Relative difference: 0.3333333333333333\n\nThe failure occurred for item [1]")
    );
    assert_eq!(text(a, list(vec![1i64.into()])), "The length of the sequences mismatch: 2 != 1");
    let dict = |k: &str, v: i64| Value::Dict(vec![(k.into(), v.into())]);
    assert!(text(dict("a", 1), dict("a", 2)).ends_with("The failure occurred for item ['a']"));
    assert_eq!(
        text(dict("a", 1), dict("b", 1)),
        "The keys of the mappings do not match:\nMissing keys in the actual mapping: ['b']\nAdditional keys in the actual mapping: ['a']"
    );
}

#[test]
fn options() {
    let (a, b) = (Tensor::from_slice(&[1f32], 1), Tensor::from_slice(&[1.1f32], 1));
    let e = try_assert_close(&a, &b, &AssertCloseOptions::new().rtol(0.1)).unwrap_err();
    assert_eq!(e.message(), "Both 'rtol' and 'atol' must be either specified or omitted, but got no atol.");
    let o = AssertCloseOptions::new().rtol(0.01).atol(0.02);
    let e = try_assert_close(&a, &b, &o.clone().msg("hello")).unwrap_err();
    assert_eq!(e.message(), "hello");
    let e = try_assert_close(&a, &b, &o.clone().msg_with(|m| format!("H {m}"))).unwrap_err();
    assert!(e.message().starts_with("H Tensor-likes are not close!"));
    assert!(
        e.message().contains("0.09090910851955414 at index (0,) (up to 0.01 allowed)"),
        "{}",
        e.message()
    );
    try_assert_close(&a, &b, &o.atol(0.2)).unwrap();
    let nan = Tensor::from_slice(&[f32::NAN], 1);
    try_assert_close(&nan, &nan, &AssertCloseOptions::new().equal_nan(true)).unwrap();
    let m = flambeau_core::ops::t(&Tensor::from_vec(vec![1f32, 2.0, 3.0, 4.0], [2, 2])).unwrap();
    let c = flambeau_core::ops::contiguous(&m, flambeau_core::MemoryFormat::Contiguous).unwrap();
    assert_close(&m, &c);
    let e = try_assert_close(&m, &c, &AssertCloseOptions::new().check_stride(true)).unwrap_err();
    assert_eq!(e.message(), "The values for attribute 'stride()' do not match: (1, 2) != (2, 1).");
    assert_allclose(&Tensor::from_slice(&[1f32], 1), &Tensor::from_slice(&[1.00005f64], 1));
}

#[test]
fn random_tensors() {
    let o = MakeTensorOptions { noncontiguous: true, exclude_zero: true, ..Default::default() };
    for d in [DType::F32, DType::F16, DType::I64, DType::U8, DType::Bool, DType::C64] {
        let x = make_tensor([3, 4], d, o).unwrap();
        assert_eq!((x.sizes(), x.dtype(), x.is_contiguous()), (&[3i64, 4][..], d, false));
    }
    let low = MakeTensorOptions { low: Some(2.0), high: Some(1.0), ..Default::default() };
    assert!(make_tensor([1], DType::F32, low).is_err());
    let r = call(
        "torch.testing.make_tensor",
        &[2i64.into(), 3i64.into()],
        &[("dtype".into(), DType::F64.into())],
    );
    assert!(matches!(&r.unwrap()[..], [Value::Tensor(t)] if t.sizes() == [2, 3]));
}
