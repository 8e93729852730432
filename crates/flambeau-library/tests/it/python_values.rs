//! Values as a Python program sees them: named results, attributes, methods, `repr`.

use crate::ops::{near, t};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, ErrorKind, Scalar, Tensor, Value, finfo, functions as torch, iinfo};
use flambeau_library as library;
use flambeau_library::{attribute, call_value, constant, constant_names, method, repr};

fn call(path: &str, args: &[Value]) -> Value {
    call_value(path, args, &[]).unwrap()
}

fn text(v: &Value) -> String {
    repr(v).unwrap()
}

fn ones(sizes: &[i64]) -> Value {
    Value::Tensor(torch::ones(sizes))
}

#[test]
fn named_results() {
    let r = call("torch.max", &[ones(&[2]), Value::Int(0)]);
    assert_eq!(text(&r), "torch.return_types.max(\nvalues=tensor(1.),\nindices=tensor(0))");
    assert_eq!(text(&attribute(&r, "indices").unwrap()), "tensor(0)");
    assert!(attribute(&r, "nothing").unwrap_err().to_string().contains("no attribute 'nothing'"));
    assert_eq!(text(&call("torch.std_mean", &[ones(&[2])])), "(tensor(0.), tensor(1.))");
    let sorted = method(&ones(&[2]), "sort", &[], &[]).unwrap();
    assert_eq!(text(&sorted), "torch.return_types.sort(\nvalues=tensor([1., 1.]),\nindices=tensor([0, 1]))");
}

#[test]
fn sizes_are_tuples_of_their_own() {
    let x = ones(&[2, 3]);
    let shape = attribute(&x, "shape").unwrap();
    assert_eq!(text(&shape), "torch.Size([2, 3])");
    assert_eq!(text(&method(&x, "size", &[], &[]).unwrap()), "torch.Size([2, 3])");
    assert_eq!(text(&method(&x, "stride", &[], &[]).unwrap()), "(3, 1)");
    assert_eq!(text(&method(&shape, "numel", &[], &[]).unwrap()), "6");
    // a size is an argument like any tuple
    assert_eq!(text(&attribute(&call("torch.zeros", &[shape]), "shape").unwrap()), "torch.Size([2, 3])");
    let e = call_value("torch.Size", &[Value::Str("ab".into())], &[]).unwrap_err();
    assert_eq!(e.to_string(), "torch.Size() takes an iterable of 'int' (item 0 is 'str')");
}

#[test]
fn attributes_of_devices_and_dtypes() {
    let d = call("torch.device", &[Value::Str("cuda:1".into())]);
    assert_eq!(text(&d), "device(type='cuda', index=1)");
    assert_eq!(text(&attribute(&d, "type").unwrap()), "'cuda'");
    assert_eq!(text(&attribute(&d, "index").unwrap()), "1");
    assert_eq!(text(&call("torch.device", &[Value::Int(1)])), "device(type='cuda', index=1)");
    assert_eq!(text(&call("torch.device", &[Value::Str("cpu".into())])), "device(type='cpu')");
    for bad in ["cpu:-1", "cuda:01", "cuda:x", "xyz"] {
        assert!(call_value("torch.device", &[Value::Str(bad.into())], &[]).is_err(), "{bad}");
    }
    let f = constant("torch.bfloat16").unwrap();
    assert_eq!(text(&attribute(&f, "itemsize").unwrap()), "2");
    assert_eq!(text(&method(&f, "to_complex", &[], &[]).unwrap()), "torch.bcomplex32");
    assert!(constant_names().iter().all(|n| constant(n).is_some()));
}

/// PyTorch's figures, dtype by dtype.
#[test]
fn limits_of_dtypes() {
    let cases = [
        (
            DType::F16,
            "finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, smallest_normal=6.10352e-05, tiny=6.10352e-05, dtype=float16)",
        ),
        (
            DType::BF16,
            "finfo(resolution=0.01, min=-3.38953e+38, max=3.38953e+38, eps=0.0078125, smallest_normal=1.17549e-38, tiny=1.17549e-38, dtype=bfloat16)",
        ),
        (
            DType::C64,
            "finfo(resolution=1e-06, min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07, smallest_normal=1.17549e-38, tiny=1.17549e-38, dtype=float32)",
        ),
        (
            DType::F64,
            "finfo(resolution=1e-15, min=-1.79769e+308, max=1.79769e+308, eps=2.22045e-16, smallest_normal=2.22507e-308, tiny=2.22507e-308, dtype=float64)",
        ),
        (
            DType::F8E4M3,
            "finfo(resolution=1, min=-448, max=448, eps=0.125, smallest_normal=0.015625, tiny=0.015625, dtype=float8_e4m3fn)",
        ),
        (
            DType::F8E5M2,
            "finfo(resolution=1, min=-57344, max=57344, eps=0.25, smallest_normal=6.10352e-05, tiny=6.10352e-05, dtype=float8_e5m2)",
        ),
    ];
    for (d, want) in cases {
        assert_eq!(finfo(d).unwrap().to_string(), want);
    }
    assert_eq!(finfo(DType::F32).unwrap().max, f64::from(f32::MAX));
    assert_eq!(finfo(DType::F32).unwrap().eps, f64::from(f32::EPSILON));
    assert_eq!(
        iinfo(DType::I32).unwrap().to_string(),
        "iinfo(min=-2.14748e+09, max=2.14748e+09, dtype=int32)"
    );
    assert_eq!(iinfo(DType::U64).unwrap().max, i128::from(u64::MAX));
    assert_eq!(iinfo(DType::I64).unwrap().min, i128::from(i64::MIN));
    assert!(finfo(DType::I8).unwrap_err().to_string().starts_with("torch.finfo() requires a floating"));
    assert!(iinfo(DType::F32).unwrap_err().to_string().starts_with("torch.iinfo() requires an integer"));
    assert_eq!(iinfo(DType::Bool).unwrap_err().to_string(), "torch.bool is not supported by torch.iinfo");
}

#[test]
fn python_texts() {
    let cases = [
        (Value::Str("it's".into()), "\"it's\""),
        (Value::Str("a\nb".into()), "'a\\nb'"),
        (Value::Float(1e20), "1e+20"),
        (Value::Float(2.0), "2.0"),
        (Value::Complex(num_complex::Complex::new(3.0, -4.0)), "(3-4j)"),
        (Value::Complex(num_complex::Complex::new(0.0, 4.5)), "4.5j"),
        (Value::Dict(vec![("a".into(), Value::Tuple(vec![Value::None]))]), "{'a': (None,)}"),
        (Value::Slice([Some(1), None, None]), "slice(1, None, None)"),
        (Value::Bool(true), "True"),
    ];
    for (v, want) in cases {
        assert_eq!(text(&v), want);
    }
}

#[test]
fn parameters_say_so() {
    let p = torch::ones([2]).alias_parameter();
    assert_eq!(p.to_string(), "Parameter containing:\ntensor([1., 1.])");
    // views and results are no parameters
    assert_eq!(torch::neg(&p).to_string(), "tensor([-1., -1.])");
    assert_eq!(p.select(0, 0).to_string(), "tensor(1.)");
    // the memory is the same
    p.fill_(Scalar::Int(3));
    assert_eq!(p.to_vec::<f32>(), [3.0, 3.0]);
}

#[test]
fn pythons_own_names_and_protocols() {
    let x = t(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let one = |path: &str, args: &[Value], kw: &[(&str, Value)]| {
        let kw: Vec<(String, Value)> = kw.iter().map(|(k, v)| ((*k).to_string(), v.clone())).collect();
        library::call(path, args, &kw)
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
