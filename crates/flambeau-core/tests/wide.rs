//! What a wider set of recorded calls found: expanded and negated tensors, rare dtypes, order of checks. Expected values
//! are PyTorch 2.15's.

use flambeau_core::functions as f;
use flambeau_core::tensor::generator;
use flambeau_core::{DType, ErrorKind, Result, Tensor, Value, ops};
use flambeau_library as library;

/// Tests that seed the default generator run one after the other.
fn seeding() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(|e| e.into_inner())
}
fn call(name: &str, args: &[Value], kwargs: &[(&str, Value)]) -> Result<Tensor> {
    let kwargs: Vec<_> = kwargs.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
    let r = library::call(name, args, &kwargs)?;
    match r.into_iter().next() {
        Some(Value::Tensor(t)) => Ok(t),
        other => panic!("{name} gave {other:?}"),
    }
}
fn of(t: &Tensor) -> Value {
    Value::Tensor(t.clone())
}
fn floats(v: &[f32]) -> Tensor {
    Tensor::from_slice(v, [v.len()])
}
/// A column seen as a 3 x 4 matrix.
fn expanded() -> (Tensor, Tensor) {
    let column = Tensor::from_slice(&[1f32, 2., 3.], [3, 1]);
    let wide = column.expand([3, 4]);
    (column, wide)
}
/// The imaginary part of a conjugate: its memory holds the negated values.
fn negated(v: &[f32]) -> Tensor {
    let parts = floats(&v.iter().map(|x| -x).collect::<Vec<_>>());
    let z = ops::complex(&f::zeros([v.len()]), &parts).unwrap();
    let t = ops::imag(&ops::conj(&z).unwrap()).unwrap();
    assert!(t.is_neg());
    t
}

#[test]
fn expanded_tensors_take_what_writes_one_value() {
    let (column, wide) = expanded();
    wide.fill_(7);
    assert_eq!(column.to_vec::<f32>(), [7., 7., 7.]);
    wide.zero_();
    assert_eq!(column.to_vec::<f32>(), [0., 0., 0.]);
    let index = Value::Tuple(vec![Value::Int(1)]);
    library::call("torch.Tensor.__setitem__", &[of(&wide), index, Value::Int(5)], &[]).unwrap();
    assert_eq!(column.to_vec::<f32>(), [0., 5., 0.]);
    let mask = f::zeros([3, 4]).to(DType::Bool);
    mask.select(0, 2).select(0, 3).fill_(1);
    call("torch.Tensor.masked_fill_", &[of(&wide), of(&mask), Value::Int(9)], &[]).unwrap();
    assert_eq!(column.to_vec::<f32>(), [0., 5., 9.]);
    let at = Value::Tuple(vec![of(&Tensor::from_slice(&[0i64], [1])), of(&Tensor::from_slice(&[2i64], [1]))]);
    call("torch.Tensor.index_put_", &[of(&wide), at, of(&floats(&[4.]))], &[]).unwrap();
    assert_eq!(column.to_vec::<f32>(), [4., 5., 9.]);
    // what computes per element still refuses
    let e = call("torch.Tensor.add_", &[of(&wide), Value::Int(1)], &[]).unwrap_err();
    assert!(e.message().contains("more than one element of the written-to tensor"), "{e}");
}

#[test]
fn negated_tensors_take_truth_values_and_draws() {
    let _seeded = seeding();
    let x = negated(&[1., -2., 3.]);
    call("torch.Tensor.eq_", &[of(&x), of(&floats(&[1., 2., 3.]))], &[]).unwrap();
    assert_eq!(x.to_vec::<f32>(), [1., 0., 1.]);
    // few enough for one order of draws: the view is not contiguous
    for name in ["torch.Tensor.exponential_", "torch.Tensor.normal_", "torch.Tensor.uniform_"] {
        let (plain, lazy) = (f::zeros([12]), negated(&[0.; 12]));
        for t in [&plain, &lazy] {
            generator::manual_seed(5);
            call(name, &[of(t)], &[]).unwrap();
        }
        assert_eq!(plain.to_vec::<f32>(), lazy.to_vec::<f32>(), "{name}");
    }
}

#[test]
fn sizes_are_judged_before_dtypes() {
    let (a, b) = (f::ones([2]), f::ones([3]));
    let e = ops::bitwise_and(&a, &b).unwrap_err();
    assert_eq!(
        e.message(),
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"
    );
    let e = ops::bitwise_and(&a, &a).unwrap_err();
    assert_eq!(e.message(), "\"bitwise_and_cpu\" not implemented for 'Float'");
}

#[test]
fn ranges_of_random_floats_end_at_numbers_of_the_dtype() {
    let _seeded = seeding();
    generator::manual_seed(3);
    let args = [Value::Int(0), Value::Int(1 << 33), Value::Tuple(vec![Value::Int(3)])];
    let t = call("torch.randint", &args, &[("dtype", Value::DType(DType::F32))]).unwrap();
    assert_eq!(t.to_vec::<f32>(), [4617075712.0, 4835283968.0, 2546689536.0]);
    generator::manual_seed(3);
    let t = f::zeros([2]).to(DType::BF16);
    call("torch.Tensor.random_", &[of(&t), Value::Int(0), Value::Int(1 << 40)], &[]).unwrap();
    assert_eq!(t.to(DType::F32).to_vec::<f32>(), [69256347648.0, 162135015424.0]);
}

#[test]
fn draws_for_a_transposed_tensor_go_in_memory_order() {
    let _seeded = seeding();
    generator::manual_seed(7);
    let w = Tensor::from_slice(&[1f32, 2., 3., 4., 5., 6., 7., 8.], [4, 2]).t();
    let picked = call("torch.multinomial", &[of(&w), Value::Int(2)], &[]).unwrap();
    assert_eq!(picked.to_vec::<i64>(), [3, 0, 3, 0]);
}

#[test]
fn half_windows_round_after_every_step() {
    let kwargs = [("dtype", Value::DType(DType::BF16))];
    let w = call("torch.hann_window", &[Value::Int(8), Value::Bool(false)], &kwargs).unwrap();
    let want = [0.0, 0.189453125, 0.61328125, 0.94921875, 0.94921875, 0.60546875, 0.193359375, 0.0];
    assert_eq!(w.to(DType::F32).to_vec::<f32>(), want);
}

#[test]
fn mixed_dtypes() {
    let (ints, truths) = (f::ones([1]).to(DType::I64), f::ones([1]).to(DType::Bool));
    let equal = |a: &Tensor, b: &Tensor| ops::equal(a, b);
    assert!(equal(&ints, &f::ones([1])).unwrap());
    assert!(equal(&truths, &ints).unwrap());
    assert!(equal(&f::ones([1]).to(DType::U16), &ints).is_err());
    // unsigned numbers above the signed range
    let big = Tensor::from_slice(&[u64::MAX, 1, 1 << 63], [3]);
    let (sorted, at) = ops::sort(&big, 0, false).unwrap();
    assert_eq!(sorted.to_vec::<u64>(), [1, 1 << 63, u64::MAX]);
    assert_eq!(at.to_vec::<i64>(), [1, 2, 0]);
    let kind = |r: Result<Tensor>| r.unwrap_err().kind();
    assert_eq!(kind(ops::topk(&truths, 1, 0, true, true).map(|r| r.0)), ErrorKind::Unsupported);
    assert_eq!(kind(ops::topk(&f::ones([1]).to(DType::C64), 1, 0, true, true).map(|r| r.0)), ErrorKind::Type);
    assert_eq!(kind(ops::isin(&truths, &truths, false, false)), ErrorKind::Unsupported);
    let found = call("torch.searchsorted", &[of(&truths), Value::Int(3)], &[]).unwrap();
    assert_eq!(found.dtype(), DType::I64);
    let r = library::call("torch.unravel_index", &[of(&ints.to(DType::I8)), Value::Int(4)], &[]).unwrap();
    let Some(Value::Tuple(parts)) = r.first() else { panic!("{r:?}") };
    assert!(matches!(&parts[0], Value::Tensor(t) if t.dtype() == DType::I64));
}

#[test]
fn view_copy_of_what_has_no_such_view() {
    let x = Tensor::from_slice(&[0f32, 1., 2., 3., 4., 5.], [2, 3]).t();
    let flat = call("torch.view_copy", &[of(&x), Value::Tuple(vec![Value::Int(6)])], &[]).unwrap();
    assert_eq!(flat.to_vec::<f32>(), [0., 3., 1., 4., 2., 5.]);
}

#[test]
fn special_functions_at_their_ends() {
    let huge = Tensor::from_slice(&[1e308f64, 200.0], [2]);
    let a = call("torch.special.airy_ai", &[of(&huge)], &[]).unwrap().to_vec::<f64>();
    assert_eq!(a[1], 0.0);
    // the poles of trigamma as single precision has them
    let x = Tensor::from_slice(&[-1i64, -2], [2]).to(DType::I8);
    let p = call("torch.polygamma", &[Value::Int(1), of(&x)], &[]).unwrap().to_vec::<f32>();
    for (got, want) in p.iter().zip([1291369695936512.0f32, 322842423984128.0]) {
        assert!((got - want).abs() <= 1e-5 * want, "{got} is not {want}");
    }
}

#[test]
fn as_strided_scatter_counts_from_the_start_of_the_memory() {
    let base = Tensor::from_slice(&[0f32, 1., 2., 3., 4., 5., 6., 7.], [8]);
    let x = ops::slice(&base, 0, Some(1), None, 2).unwrap();
    let scatter = |stride: i64, offset: Value| {
        let list = |v: i64| Value::Tuple(vec![Value::Int(v)]);
        let args = [of(&x), of(&floats(&[10., 20.])), list(2), list(stride), offset];
        call("torch.as_strided_scatter", &args, &[]).unwrap().to_vec::<f32>()
    };
    assert_eq!(scatter(2, Value::None), [10., 20., 5., 7.]);
    assert_eq!(scatter(3, Value::Int(0)), [1., 20., 5., 7.]);
    assert_eq!(base.to_vec::<f32>(), [0., 1., 2., 3., 4., 5., 6., 7.]);
}
