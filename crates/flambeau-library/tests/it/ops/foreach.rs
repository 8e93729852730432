//! The list forms `_foreach_*`: what the single operator gives for every tensor, for all dtypes; PyTorch's error texts.

use flambeau_core::dispatch::registry;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::schema::{Arg, Default_, Ty};
use flambeau_core::{DType, ErrorKind, Result, Tensor, Value, ops};
use flambeau_library as library;

const DTYPES: [DType; 15] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::Bool,
    DType::C64,
    DType::C128,
];

fn tensor(values: &[f32], sizes: &[i64], d: DType) -> Result<Tensor> {
    ops::to_copy(&Tensor::from_vec_raw(values.to_vec(), sizes)?, Some(d), None, None, None, false, None)
}

/// Two tensors of different sizes (square where that is asked for).
fn list(d: DType, square: bool, shift: f32) -> Result<Value> {
    let a = [0.25, 1.0, -2.5, 3.0].map(|v| v + shift);
    let b = [0.5, 0.75, 2.0, 0.0].map(|v| v + shift);
    let sizes: [&[i64]; 2] = if square { [&[2, 2], &[2, 2]] } else { [&[4], &[2, 2]] };
    Ok(Value::List(vec![Value::Tensor(tensor(&a, sizes[0], d)?), Value::Tensor(tensor(&b, sizes[1], d)?)]))
}

fn argument(a: &Arg, d: DType, name: &str, place: usize) -> Result<Value> {
    Ok(match (a.ty, a.default) {
        (Ty::TensorList, _) => list(d, name == "mm", place as f32 * 0.5)?,
        (Ty::ScalarList, _) => Value::List(vec![Value::Int(2), Value::Float(0.5)]),
        (Ty::Scalar, Default_::Required) => Value::Float(1.5),
        (Ty::Scalar, Default_::Int(i)) => Value::Int(i + 1),
        (Ty::Tensor, _) if a.name == "scalars" => Value::Tensor(tensor(&[2.0, 3.0], &[2], DType::F32)?),
        (Ty::Tensor, _) => Value::Tensor(tensor(&[2.0], &[], d)?),
        (Ty::Bool, _) => Value::Bool(false),
        _ => Value::None,
    })
}

/// The part of an argument that belongs to tensor `i`.
fn part(a: &Arg, v: &Value, i: usize) -> Result<Value> {
    Ok(match v {
        Value::List(l) => l[i].clone(),
        Value::Tensor(t) if a.name == "scalars" => {
            Value::Float(ops::select(t, 0, i as i64)?.try_item::<f64>()?)
        }
        v => v.clone(),
    })
}

fn copied(v: &Value) -> Result<Value> {
    match v {
        Value::List(l) => Ok(Value::List(l.iter().map(copied).collect::<Result<_>>()?)),
        Value::Tensor(t) => Ok(Value::Tensor(ops::clone(t, None)?)),
        v => Ok(v.clone()),
    }
}

/// The single operator behind a list form.
fn single(name: &str) -> String {
    match name {
        "norm" => "torch.linalg.vector_norm".into(),
        "powsum" => "aten::linalg__powsum".into(),
        "maximum" => "torch.clamp_min".into(),
        "minimum" => "torch.clamp_max".into(),
        "maximum_" => "torch.Tensor.clamp_min_".into(),
        "minimum_" => "torch.Tensor.clamp_max_".into(),
        n if n.ends_with('_') || n == "clone" => format!("torch.Tensor.{n}"),
        n => format!("torch.{n}"),
    }
}

fn same(a: &Tensor, b: &Tensor) -> bool {
    a.dtype() == b.dtype()
        && a.sizes() == b.sizes()
        && ops::allclose(a, b, 0.0, 0.0, true).is_ok_and(|same| same)
}

#[test]
fn every_list_form_is_its_operator_for_each_tensor() {
    let mut forms = 0;
    let mut calls = 0;
    for info in registry::crates().iter().flat_map(|c| c.ops).map(|o| o.info()) {
        let Some(name) = info.name.strip_prefix("_foreach_") else { continue };
        let name = name.split('.').next().unwrap();
        forms += 1;
        for d in DTYPES {
            let args: Vec<Value> =
                info.schema.args.iter().enumerate().map(|(i, a)| argument(a, d, name, i).unwrap()).collect();
            let mut singles = Vec::new();
            for i in 0..2 {
                let (mut pos, mut named) = (Vec::new(), Vec::new());
                for (a, v) in info.schema.args.iter().zip(&args) {
                    let v = part(a, &copied(v).unwrap(), i).unwrap();
                    match a {
                        _ if matches!(v, Value::None) => {}
                        a if a.kw_only || a.name == "value" => named.push((a.name.to_string(), v)),
                        a if a.name == "scalars" && name.starts_with("addc") => {
                            named.push(("value".into(), v))
                        }
                        _ => pos.push(v),
                    }
                }
                singles.push(library::call(&single(name), &pos, &named));
            }
            let what = format!("{} with {}", info.name, d.name());
            let mut given: Vec<Value> = args.iter().map(|v| copied(v).unwrap()).collect();
            let mut named = Vec::new();
            while info.schema.args[given.len() - 1].kw_only {
                let v = given.pop().unwrap();
                named.push((info.schema.args[given.len()].name.to_string(), v));
            }
            named.retain(|(_, v)| !matches!(v, Value::None));
            let all = library::call(&format!("torch.ops.aten.{}", info.name), &given, &named);
            match all {
                Ok(v) => {
                    let got = v[0].items().unwrap_or_else(|| panic!("{what}: no list"));
                    for (g, s) in got.iter().zip(singles) {
                        let (Value::Tensor(g), [Value::Tensor(s)]) = (g, &s.unwrap()[..]) else {
                            panic!("{what}: no tensors")
                        };
                        assert!(same(g, s), "{what}: {g:?} for {s:?}");
                    }
                    calls += 1;
                }
                Err(e) => {
                    let first =
                        singles.into_iter().find_map(Result::err).unwrap_or_else(|| panic!("{what}: {e}"));
                    assert_eq!((e.kind(), e.message()), (first.kind(), first.message()), "{what}");
                }
            }
        }
    }
    assert!(forms >= 140 && calls >= 1300, "{forms} forms, {calls} calls");
}

fn ones(n: i64) -> Value {
    Value::Tensor(tensor(&vec![1.0; n as usize], &[n], DType::F32).unwrap())
}

#[test]
fn errors_are_pytorchs() {
    let two = || Value::List(vec![ones(2), ones(3)]);
    let one = || Value::List(vec![ones(2)]);
    let none = || Value::List(Vec::new());
    let numbers = |n: usize| Value::List(vec![Value::Float(1.0); n]);
    let lengths = "Tensor lists must have the same number of tensors, got 2 and 1";
    let empty = "Tensor list must have at least one tensor.";
    let scalars = "Tensor list must have same number of elements as scalar list.";
    let shaped = |sizes: &[i64]| Value::Tensor(ops::ones(sizes, None, None, None, None).unwrap());
    let strided = Value::Tensor(
        ops::slice(&ops::ones(&[4], None, None, None, None).unwrap(), 0, None, None, 2).unwrap(),
    );
    let cases: Vec<(&str, Vec<Value>, &str)> = vec![
        ("_foreach_abs", vec![none()], empty),
        ("_foreach_abs_", vec![none()], empty),
        ("_foreach_add", vec![none(), Value::Int(1)], empty),
        ("_foreach_add", vec![none(), none()], empty),
        ("_foreach_add", vec![two(), one()], lengths),
        ("_foreach_add_", vec![two(), one()], lengths),
        ("_foreach_add", vec![two(), numbers(1)], scalars),
        ("_foreach_add", vec![two(), none()], scalars),
        (
            "_foreach_add",
            vec![two(), ones(1)],
            "scalar tensor expected to be 0 dim but it has 1 dimensions and 1 elements.",
        ),
        (
            "_foreach_div",
            vec![two(), shaped(&[2, 2])],
            "scalar tensor expected to be 0 dim but it has 2 dimensions and 4 elements.",
        ),
        ("_foreach_addcmul", vec![two(), two(), one()], lengths),
        ("_foreach_addcmul", vec![two(), one(), two()], lengths),
        ("_foreach_addcmul", vec![two(), two(), two(), numbers(1)], scalars),
        (
            "_foreach_addcdiv",
            vec![two(), two(), two(), ones(1)],
            "Expected length of scalars to match input of length 2 but got 1 instead.",
        ),
        (
            "_foreach_addcmul",
            vec![two(), two(), two(), shaped(&[2, 1])],
            "Expected packed scalar Tensor to be of dimension 1. Got 2 instead.",
        ),
        (
            "_foreach_addcmul",
            vec![two(), two(), two(), shaped(&[])],
            "Expected packed scalar Tensor to be of dimension 1. Got 0 instead.",
        ),
        ("_foreach_addcmul", vec![two(), two(), two(), strided], "Expected scalars to be contiguous."),
        ("_foreach_lerp", vec![two(), two(), one()], lengths),
        ("_foreach_lerp", vec![two(), one(), numbers(1)], lengths),
        ("_foreach_lerp", vec![two(), two(), numbers(1)], scalars),
        ("_foreach_pow", vec![Value::Int(2), none()], empty),
        ("_foreach_pow", vec![two(), one()], lengths),
        ("_foreach_norm", vec![none()], empty),
        ("_foreach_max", vec![none()], empty),
        (
            "_foreach_max",
            vec![Value::List(vec![ones(0)])],
            "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined.",
        ),
        ("_foreach_copy_", vec![two(), one()], lengths),
        ("_foreach_zero_", vec![none()], empty),
        ("_foreach_clone", vec![none()], empty),
        ("_foreach_mm", vec![none(), none()], "_foreach_mm requires non-empty tensor lists"),
        (
            "_foreach_mm",
            vec![Value::List(vec![shaped(&[2, 2])]), none()],
            "_foreach_mm: self and mat2 must have the same number of tensors",
        ),
    ];
    for (name, args, text) in cases {
        let e = library::call(&format!("torch.{name}"), &args, &[]).unwrap_err();
        assert_eq!((e.kind(), e.message()), (ErrorKind::Runtime, text), "{name}");
    }
}

#[test]
fn binding_errors_are_pytorchs() {
    let text = |name: &str, args: &[Value]| library::call(name, args, &[]).unwrap_err().message().to_string();
    let two = Value::List(vec![ones(2), ones(3)]);
    assert_eq!(
        text("torch._foreach_abs", &[Value::Int(1)]),
        "_foreach_abs(): argument 'self' (position 1) must be tuple of Tensors, not int"
    );
    assert_eq!(
        text("torch._foreach_abs", &[Value::List(vec![Value::Int(1)])]),
        "expected Tensor as element 0 in argument 0, but got int"
    );
    assert_eq!(
        text("torch._foreach_add", &[two, Value::Str("x".into())]),
        "_foreach_add() received an invalid combination of arguments - got (list, str), but expected one of:\n \
         * (tuple of Tensors self, Number scalar)\n      didn't match because some of the arguments have invalid types: (!list of [Tensor, Tensor]!, !str!)\n \
         * (tuple of Tensors self, tuple of Scalars scalars)\n      didn't match because some of the arguments have invalid types: (!list of [Tensor, Tensor]!, !str!)\n \
         * (tuple of Tensors self, Tensor other, *, Number alpha = 1)\n \
         * (tuple of Tensors self, tuple of Tensors other, *, Number alpha = 1)\n"
    );
    for (name, first) in
        [("div", "tuple of Scalars scalars"), ("pow", "Number self"), ("addcmul", "tuple of Scalars")]
    {
        let all = library::lookup(&format!("torch._foreach_{name}")).unwrap().signatures();
        assert!(all[0].contains(first), "{name}: {all:?}");
    }
}
