//! Arguments bound, names found, classes made.

use flambeau_core::internal::RawTensor as _;
use flambeau_core::{ErrorKind, Result, Tensor, Value};
use flambeau_library::object::Kwargs;
use flambeau_library::*;

fn t(v: &[f32]) -> Value {
    Value::Tensor(Tensor::from_slice(v, v.len()))
}
fn numbers(v: &[Value]) -> Vec<f64> {
    match v {
        [Value::Tensor(t)] => t.to_vec::<f64>(),
        other => panic!("one tensor expected, got {other:?}"),
    }
}
fn kw(k: &str, v: Value) -> Vec<(String, Value)> {
    vec![(k.to_string(), v)]
}
fn text(r: Result<Vec<Value>>) -> String {
    match r {
        Ok(v) => panic!("an error expected, got {v:?}"),
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Type, "{e}");
            e.message().to_string()
        }
    }
}

#[test]
fn binds_positions_keywords_and_defaults() {
    let (a, b) = (t(&[1.0, 2.0]), t(&[10.0, 20.0]));
    assert_eq!(numbers(&call("torch.add", &[a.clone(), b.clone()], &[]).unwrap()), [11.0, 22.0]);
    assert_eq!(numbers(&call("aten::add.Tensor", &[a.clone(), b.clone()], &[]).unwrap()), [11.0, 22.0]);
    let alpha = kw("alpha", Value::Int(2));
    assert_eq!(numbers(&call("torch.Tensor.add", &[a.clone(), b.clone()], &alpha).unwrap()), [21.0, 42.0]);
    let mut named = kw("other", b.clone());
    named.push(("input".into(), a.clone()));
    assert_eq!(numbers(&call("torch.add", &[], &named).unwrap()), [11.0, 22.0]);
    let numpy = kw("x2", b.clone());
    assert_eq!(numbers(&call("torch.add", std::slice::from_ref(&a), &numpy).unwrap()), [11.0, 22.0]);
    assert_eq!(numbers(&call("torch.add", &[a.clone(), Value::Int(1)], &[]).unwrap()), [2.0, 3.0]);
}

#[test]
fn in_place_and_out_write_what_they_are_given() {
    let a = t(&[1.0, 2.0]);
    call("torch.Tensor.add_", &[a.clone(), Value::Int(1)], &[]).unwrap();
    assert_eq!(numbers(std::slice::from_ref(&a)), [2.0, 3.0]);
    let o = t(&[0.0, 0.0]);
    let r = call("torch.add", &[a.clone(), a.clone()], &kw("out", o.clone())).unwrap();
    assert_eq!(numbers(&r), [4.0, 6.0]);
    assert_eq!(numbers(&[o]), [4.0, 6.0]);
}

#[test]
fn sizes_may_be_separate_arguments() {
    let a = t(&[1.0, 2.0, 3.0, 4.0]);
    for args in [vec![Value::Int(2), Value::Int(2)], vec![Value::Tuple(vec![Value::Int(2), Value::Int(2)])]] {
        let mut all = vec![a.clone()];
        all.extend(args);
        match &call("torch.Tensor.view", &all, &[]).unwrap()[..] {
            [Value::Tensor(t)] => assert_eq!(t.sizes(), [2, 2]),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn error_texts_are_those_of_python() {
    let a = t(&[1.0]);
    let s = Value::Str("x".into());
    assert_eq!(
        text(call("torch.add", &[a.clone(), s.clone()], &[])),
        "add(): argument 'other' (position 2) must be Tensor, not str"
    );
    assert_eq!(
        text(call("torch.add", std::slice::from_ref(&a), &[])),
        "add() received an invalid combination of arguments - got (Tensor), but expected (Tensor input, Tensor other, *, \
         Number alpha = 1, Tensor out = None)"
    );
    assert_eq!(text(call("torch.neg", &[], &[])), "neg() missing 1 required positional arguments: \"input\"");
    assert_eq!(
        text(call("torch.neg", std::slice::from_ref(&a), &kw("foo", s.clone()))),
        "neg() got an unexpected keyword argument 'foo'"
    );
    assert_eq!(
        text(call("torch.neg", std::slice::from_ref(&a), &kw("input", a.clone()))),
        "neg() got multiple values for argument 'input'"
    );
    assert_eq!(
        text(call("torch.neg", &[a.clone(), a.clone(), a.clone()], &[])),
        "neg() takes 1 positional argument but 3 were given"
    );
    let e = call("torch.no_such_function", &[], &[]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Missing);
}

#[test]
fn every_name_prints_its_schema() {
    assert_eq!(
        lookup("aten::add.Tensor").unwrap().schemas(),
        ["add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"]
    );
    assert!(names().iter().any(|n| n == "torch.add"));
}

#[test]
fn operators_of_the_right_hand_side_swap() {
    let a = t(&[1.0, 2.0]);
    assert_eq!(
        numbers(&call("torch.Tensor.__rsub__", &[a.clone(), Value::Int(5)], &[]).unwrap()),
        [4.0, 3.0]
    );
    assert_eq!(numbers(&call("torch.Tensor.__sub__", &[a, Value::Int(5)], &[]).unwrap()), [-4.0, -3.0]);
}

struct Doubler;
impl object::Object for Doubler {
    fn type_name(&self) -> &'static str {
        "Doubler"
    }
    fn call(&self, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        call("torch.mul", &[args[0].clone(), Value::Int(2)], &[])
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn classes_are_made_and_called_by_name() {
    assert!(object::register_class("torch.test.Doubler", |_, _| Ok(object::ObjectRef::new(Doubler))));
    assert!(!object::register_class("torch.test.Doubler", |_, _| Ok(object::ObjectRef::new(Doubler))));
    let o = object::construct("torch.test.Doubler", &[], &[]).unwrap();
    assert_eq!(numbers(&o.call(&[t(&[3.0])], &[]).unwrap()), [6.0]);
    assert_eq!(o.attribute("weight").unwrap_err().kind(), ErrorKind::Attribute);
    assert!(o.downcast::<Doubler>().is_some());
    assert!(object::construct("torch.test.None", &[], &[]).is_err());
}

#[test]
fn flags_choose_the_function() {
    let x = t(&[0.0, 5.0, 7.0]);
    assert_eq!(numbers(&call("torch.nonzero", std::slice::from_ref(&x), &[]).unwrap()), [1.0, 2.0]);
    let tuple = call("torch.nonzero", std::slice::from_ref(&x), &kw("as_tuple", Value::Bool(true))).unwrap();
    assert!(matches!(&tuple[..], [Value::List(l)] if l.len() == 1));
    let counts = call("torch.unique", &[x], &kw("return_counts", Value::Bool(true))).unwrap();
    assert_eq!(counts.len(), 2);
}

#[test]
fn indexing_and_casts_by_name() {
    let x = t(&[1.0, 2.0, 3.0]);
    let last = call("torch.Tensor.__getitem__", &[x.clone(), Value::Int(-1)], &[]).unwrap();
    assert_eq!(numbers(&last), [3.0]);
    let all = Value::Slice([None, Some(2), None]);
    call("torch.Tensor.__setitem__", &[x.clone(), all, Value::Int(9)], &[]).unwrap();
    assert_eq!(numbers(std::slice::from_ref(&x)), [9.0, 9.0, 3.0]);
    match &call("torch.Tensor.double", std::slice::from_ref(&x), &[]).unwrap()[..] {
        [Value::Tensor(t)] => assert_eq!(t.dtype(), flambeau_core::DType::F64),
        other => panic!("{other:?}"),
    }
    let name = call("torch.Tensor.type", &[x], &[]).unwrap();
    assert!(matches!(&name[..], [Value::Str(s)] if s == "torch.FloatTensor"));
}

#[test]
fn tensors_of_lists() {
    let l = |v: Vec<Value>| Value::List(v);
    let rows = l(vec![l(vec![Value::Int(1), Value::Int(2)]), l(vec![Value::Int(3), Value::Int(4)])]);
    match &call("torch.tensor", &[rows], &[]).unwrap()[..] {
        [Value::Tensor(t)] => assert_eq!((t.sizes(), t.dtype()), (&[2, 2][..], flambeau_core::DType::I64)),
        other => panic!("{other:?}"),
    }
    let e = call("torch.tensor", &[Value::Int(300)], &kw("dtype", Value::DType(flambeau_core::DType::U8)))
        .unwrap_err();
    assert_eq!(e.message(), "value cannot be converted to type uint8 without overflow");
    // rounded once, not through float32
    let d = call("torch.tensor", &[Value::Float(0.1)], &kw("dtype", Value::DType(flambeau_core::DType::F64)))
        .unwrap();
    assert_eq!(numbers(&d), [0.1]);
}

#[test]
fn texts_of_overloads_with_numbers() {
    assert_eq!(
        text(call("torch.remainder", &[Value::Int(2), Value::Int(3)], &[])),
        "remainder() received an invalid combination of arguments - got (int, int), but expected one of:\n * (Tensor \
         input, Tensor other, *, Tensor out = None)\n * (Number self, Tensor other)\n      didn't match because some of \
         the arguments have invalid types: (!int!, !int!)\n * (Tensor input, Number other, *, Tensor out = None)\n"
    );
    assert!(
        text(call("torch.clamp_max", &[Value::Int(2), Value::Int(3)], &[]))
            .contains(" * (Tensor input, Number max, *, Tensor out = None)\n")
    );
}

#[test]
fn old_argument_orders_put_the_scale_first() {
    let (a, b) = (t(&[1.0, 2.0]), t(&[10.0, 20.0]));
    let r = |name: &str, args: &[Value]| numbers(&call(name, args, &[]).unwrap());
    assert_eq!(r("torch.add", &[a.clone(), Value::Int(2), b.clone()]), [21.0, 42.0]);
    assert_eq!(r("torch.Tensor.sub", &[b.clone(), Value::Int(2), a.clone()]), [8.0, 16.0]);
    assert_eq!(r("torch.addcmul", &[a.clone(), Value::Int(2), a.clone(), b.clone()]), [21.0, 82.0]);
    let m = Value::Tensor(Tensor::from_slice(&[1.0f32, 0.0, 0.0, 1.0], 4).reshape([2, 2]));
    let two = Value::Int(2);
    let three = Value::Int(3);
    assert_eq!(
        r("torch.addmv", &[two.clone(), a.clone(), three.clone(), m.clone(), b.clone()]),
        [32.0, 64.0]
    );
    assert_eq!(r("torch.addmv", &[two.clone(), a.clone(), m.clone(), b.clone()]), [12.0, 24.0]);
    assert_eq!(r("torch.Tensor.addmv", &[a.clone(), two, three, m, b]), [32.0, 64.0]);
}

#[test]
fn atens_names_find_what_python_calls_otherwise() {
    let a = t(&[1.0, 4.0]);
    let r = |name: &str, args: &[Value]| numbers(&call(name, args, &[]).unwrap());
    assert_eq!(r("torch.ops.aten.add.Scalar", &[a.clone(), Value::Int(1)]), [2.0, 5.0]);
    assert_eq!(r("torch.ops.aten.absolute.default", std::slice::from_ref(&a)), [1.0, 4.0]);
    assert_eq!(r("aten::special_sinc", &[t(&[0.0])]), [1.0]);
    // the functional form of an operator that exists in place leaves its argument alone
    assert_eq!(r("torch.ops.aten.zero", std::slice::from_ref(&a)), [0.0, 0.0]);
    assert_eq!(r("torch.ops.aten.copy", &[a.clone(), t(&[7.0, 8.0])]), [7.0, 8.0]);
    assert_eq!(numbers(std::slice::from_ref(&a)), [1.0, 4.0]);
    assert!(matches!(
        call("torch.ops.aten.sym_size.int", &[a.clone(), Value::Int(0)], &[]).unwrap()[..],
        [Value::Int(2)]
    ));
    // in-place functions take their tensor by name
    assert_eq!(r("torch.neg_", std::slice::from_ref(&a)), [-1.0, -4.0]);
    assert_eq!(numbers(&call("torch.abs_", &[], &kw("input", a)).unwrap()), [1.0, 4.0]);
    assert!(lookup("torch.ops.aten.no_such_operator").is_none() && lookup("torch._no_such").is_none());
}

#[test]
fn factories_write_to_what_they_are_given() {
    let out = |d: flambeau_core::DType| {
        Value::Tensor(Tensor::zeros_raw(&[3], d, flambeau_core::Device::Cpu).unwrap())
    };
    for (name, args, want) in [
        ("torch.ones", vec![Value::Int(3)], [1.0, 1.0, 1.0]),
        ("torch.arange", vec![Value::Int(3)], [0.0, 1.0, 2.0]),
        ("torch.full", vec![Value::Tuple(vec![Value::Int(3)]), Value::Int(7)], [7.0, 7.0, 7.0]),
        ("torch.linspace", vec![Value::Int(0), Value::Int(4), Value::Int(3)], [0.0, 2.0, 4.0]),
    ] {
        for d in [flambeau_core::DType::F32, flambeau_core::DType::I64] {
            let o = out(d);
            let r = call(name, &args, &kw("out", o.clone())).unwrap();
            assert_eq!(numbers(&r), want, "{name}");
            assert_eq!(numbers(&[o]), want, "{name}");
        }
    }
    let mut k = kw("out", out(flambeau_core::DType::I64));
    k.push(("dtype".into(), Value::DType(flambeau_core::DType::F32)));
    let e = call("torch.zeros", &[Value::Int(3)], &k).unwrap_err();
    assert_eq!(e.message(), "dtype Float does not match dtype of out parameter (Long)");
    let mut k = kw("out", out(flambeau_core::DType::I64));
    k.push(("device".into(), Value::Device(flambeau_core::Device::Meta)));
    let e = call("torch.zeros", &[Value::Int(3)], &k).unwrap_err();
    assert_eq!(e.message(), "device type meta does not match device type of out parameter (cpu)");
}

#[test]
fn numbers_that_might_be_symbols() {
    let one = |name: &str, args: &[Value]| call(name, args, &[]).unwrap().remove(0);
    assert!(matches!(one("torch.sym_int", &[Value::Float(-2.7)]), Value::Int(-2)));
    assert!(matches!(one("torch.sym_max", &[Value::Int(3), Value::Float(2.0)]), Value::Float(3.0)));
    assert!(matches!(one("torch.sym_min", &[Value::Int(3), Value::Int(2)]), Value::Int(2)));
    assert!(matches!(
        one("torch.sym_sum", &[Value::List(vec![Value::Int(3), Value::Int(2)])]),
        Value::Int(5)
    ));
    assert!(matches!(one("torch.sym_not", &[Value::Bool(true)]), Value::Bool(false)));
    assert!(matches!(one("torch.sym_float", &[Value::Int(3)]), Value::Float(3.0)));
    assert!(matches!(one("torch.sym_fresh_size", &[Value::Int(3)]), Value::Int(3)));
    assert!(
        matches!(one("torch.sym_fresh_size", &[Value::Float(0.1)]), Value::Float(x) if x == f64::from(0.1f32))
    );
    assert!(call("torch.sym_int", &[Value::Float(f64::NAN)], &[]).is_err());
}

#[test]
fn keywords_of_functions_that_are_no_operators() {
    let a = t(&[1.0]);
    assert!(matches!(
        call("torch.is_complex", &[], &kw("input", a.clone())).unwrap()[..],
        [Value::Bool(false)]
    ));
    let mut k = kw("other", Value::Float(1.0));
    k.push(("tensor".into(), a.clone()));
    assert!(matches!(
        call("torch.result_type", &[], &k).unwrap()[..],
        [Value::DType(flambeau_core::DType::F32)]
    ));
    assert!(call("torch.numel", std::slice::from_ref(&a), &kw("nonsense", Value::Int(1))).is_err());
    assert_eq!(numbers(&call("torch.Tensor.copy_", &[a], &kw("other", t(&[5.0]))).unwrap()), [5.0]);
}

#[test]
fn copies_of_views_write_lists() {
    let (a, x, y) = (t(&[1.0, 2.0]), t(&[0.0]), t(&[0.0]));
    let args = [a, Value::Int(1)];
    let out = Value::List(vec![x.clone(), y.clone()]);
    assert!(matches!(call("torch.split_copy", &args, &kw("out", out)).unwrap()[..], [Value::None]));
    assert_eq!((numbers(&[x.clone()]), numbers(&[y])), (vec![1.0], vec![2.0]));
    let e = call("torch.split_copy", &args, &kw("out", Value::List(vec![x]))).unwrap_err();
    assert_eq!(e.message(), "split_copy_Tensor_out() expected an out= argument of size 2, got size 1");
}
