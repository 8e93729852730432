//! First steps: arithmetic, views, in-place through aliases, errors.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Device, Error, ErrorKind, Tensor, functions as torch, ops};

#[test]
fn arithmetic_and_views() {
    let a = Tensor::from_vec(vec![1f32, 2., 3., 4., 5., 6.], [2, 3]);
    let b = &a + 1.0;
    assert_eq!(b.to_vec::<f32>(), [2., 3., 4., 5., 6., 7.]);
    let t = a.transpose(0, 1);
    assert_eq!(t.to_vec::<f32>(), [1., 4., 2., 5., 3., 6.]);
    assert_eq!((&t + &t).to_vec::<f32>(), [2., 8., 4., 10., 6., 12.]);
    assert_eq!(a.sum().item::<f32>(), 21.0);
    assert_eq!(a.sum_dim(0, true).to_vec::<f32>(), [5., 7., 9.]);
    assert_eq!(a.sum_dim([1], false).to_vec::<f32>(), [6., 15.]);
    let m = a.max_dim(1, false);
    assert_eq!(m.indices.to_vec::<i64>(), [2, 2]);
    a.select(0, 1).fill_(0);
    assert_eq!(a.to_vec::<f32>(), [1., 2., 3., 0., 0., 0.]);
    let z = torch::zeros([2, 2]);
    assert_eq!(z.dtype(), DType::F32);
    let i = Tensor::from_vec(vec![1i64, 2], 2);
    assert_eq!((&i + 1.5).dtype(), DType::F32);
    assert_eq!((&i + 1).dtype(), DType::I64);
    assert_eq!((&i / 2).to_vec::<f32>(), [0.5, 1.0]);
    let w = torch::where_(&a.eq(0.0), &a, -1.0);
    assert_eq!(w.to_vec::<f32>(), [-1., -1., -1., 0., 0., 0.]);
}

#[test]
fn operators_that_python_has() {
    let x = Tensor::from_vec(vec![-3i64, 0, 5, 8], 4);
    assert_eq!((&x % 3).to_vec::<i64>(), [0, 0, 2, 2]);
    assert_eq!((&x % -3).to_vec::<i64>(), [0, 0, -1, -1]);
    let of_seven: Tensor = 7 % (&x + 4);
    assert_eq!(of_seven.to_vec::<i64>(), [0, 3, 7, 7]);
    let inside = x.gt(-1) & x.lt(8);
    assert_eq!(inside.long().to_vec::<i64>(), [0, 1, 1, 0]);
    assert_eq!((!&inside).long().to_vec::<i64>(), [1, 0, 0, 1]);
    assert_eq!((&inside | x.eq(8)).long().to_vec::<i64>(), [0, 1, 1, 1]);
    assert_eq!((&x ^ 1).to_vec::<i64>(), [-4, 1, 4, 9]);
    assert_eq!((&x << 2).to_vec::<i64>(), [-12, 0, 20, 32]);
    let mut y = &x >> 1;
    y %= 3;
    assert_eq!(y.to_vec::<i64>(), [1, 0, 2, 1]);
    y |= &x;
    assert_eq!(y.to_vec::<i64>(), [-3, 0, 7, 9]);
    let m = Tensor::from_vec(vec![1f32, 2., 3., 4., 5., 6.], [2, 3]);
    assert!(m.T().equal(&m.mT()) && m.T().equal(&m.t()) && m.H().equal(&m.mH()));
    assert_eq!(torch::zeros([2, 3, 4]).T().sizes(), [4, 3, 2]);
    let rows: Vec<f32> = m.T().into_iter().map(|row| row.sum().item()).collect();
    assert_eq!(rows, [5., 7., 9.]);
}

#[test]
fn errors_are_errors() {
    let a = torch::zeros([2, 3]);
    let b = torch::zeros([4]);
    let e: Error = ops::add(&a, &b, 1.into()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Shape);
    assert_eq!(
        e.message(),
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"
    );
    assert!(Tensor::empty_raw(&[1 << 62, 4], DType::F32, Device::Cpu).is_err());
    assert!(Tensor::empty_raw(&[1 << 40], DType::F32, Device::Cpu).is_err());
    assert!(ops::view(&a, &[7]).is_err());
}

#[test]
fn arguments_are_bound_as_python_binds_them() {
    use flambeau_core::Value;
    use flambeau_core::dispatch::object::{Parameter, bind};
    static P: [Parameter; 3] = [
        Parameter { name: "a", required: true },
        Parameter { name: "b", required: true },
        Parameter { name: "c", required: false },
    ];
    let all = |args: &[Value], kwargs: &[(&str, Value)]| {
        let kwargs: Vec<_> = kwargs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
        bind("X", &P, args, &kwargs)
    };
    let text = |args: &[Value], kwargs: &[(&str, Value)]| all(args, kwargs).unwrap_err().to_string();
    let one = Value::Int(1);
    assert_eq!(
        text(std::slice::from_ref(&one), &[]),
        "X.__init__() missing 1 required positional argument: 'b'"
    );
    assert_eq!(text(&[], &[]), "X.__init__() missing 2 required positional arguments: 'a' and 'b'");
    assert_eq!(
        text(&[one.clone(), one.clone()], &[("z", one.clone())]),
        "X.__init__() got an unexpected keyword argument 'z'"
    );
    assert_eq!(
        text(&[one.clone(), one.clone()], &[("b", one.clone())]),
        "X.__init__() got multiple values for argument 'b'"
    );
    assert_eq!(
        text(&vec![one.clone(); 4], &[]),
        "X.__init__() takes from 3 to 4 positional arguments but 5 were given"
    );
    let slots = all(&[one.clone()], &[("b", one)]).unwrap();
    assert!(slots[0].is_some() && slots[1].is_some() && slots[2].is_none());
}

/// Devices by name, wherever a dtype or a device is taken; a name that is none is an error, and a panic in short forms.
#[test]
fn devices_by_name() {
    let x = flambeau_core::api::literal::tensor([1.5f32, 2.0]);
    assert_eq!(x.to("meta").device(), Device::Meta);
    let both = x.to(("meta", DType::F64));
    assert_eq!((both.device(), both.dtype()), (Device::Meta, DType::F64));
    assert_eq!(x.to((DType::I64, "cpu")).to_vec::<i64>(), [1, 2]);
    assert_eq!(x.to((Device::Cpu, DType::I64)).to_vec::<i64>(), [1, 2]);
    assert_eq!(torch::zeros_with([2], "meta").device(), Device::Meta);
    assert_eq!(flambeau_core::TensorOptions::new().device("meta").device, Some(Device::Meta));
    let e = x.try_to("cpuu").unwrap_err();
    assert!(e.message().starts_with("Expected one of cpu, cuda,"), "{e}");
    let panic = std::panic::catch_unwind(|| torch::zeros_with([2], "cuda:x")).unwrap_err();
    let text = panic.downcast_ref::<String>().map(String::as_str).unwrap_or_default();
    assert!(text.contains("Invalid device string: 'cuda:x'"), "{text}");
}

/// Bounds of integers that are drawn: a number or a range, of any type of integers.
#[test]
fn integers_of_a_range() {
    assert_eq!(torch::randint(5..6, 3).to_vec::<i64>(), [5; 3]);
    assert_eq!(torch::randint(1usize, [2]).to_vec::<i64>(), [0; 2]);
    assert_eq!(torch::randint(-4..-3i64, ()).to_vec::<i64>(), [-4]);
    assert_eq!(torch::randint_with(7..8u32, 2, DType::F64).to_vec::<f64>(), [7.; 2]);
    assert_eq!(torch::randint_like(&torch::zeros(2), 2..3).to_vec::<f32>(), [2.; 2]);
    let mut out = torch::zeros_with([2], DType::I64);
    torch::randint_out(9..10, 2, &mut out);
    assert_eq!(out.to_vec::<i64>(), [9; 2]);
    let refused = std::panic::catch_unwind(|| torch::randint(3..3, 2)).unwrap_err();
    let text = refused.downcast_ref::<String>().map(String::as_str).unwrap_or_default();
    assert!(text.contains("random_ expects 'from' to be less than 'to', but got from=3 >= to=3"), "{text}");
}
