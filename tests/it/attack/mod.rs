//! Tensors made of tensors, whose parts somebody changes afterwards: offsets, indices, scales and masks that lie, and storages
//! that are exchanged. Every operator gets them: an error or a value, never a panic, an abort, a hang or memory beyond reason.

mod captures;
mod huge;
mod names;
mod newer;
mod parts;
mod sequences;
mod steps;
mod tools;
mod within;

use flambeau_test_support::here;
use flambeau_test_support::hostile::Calls;
use torch::__core::dispatch::op::AnyOp;
use torch::__core::dispatch::registry;
use torch::__core::internal::RawTensor as _;
use torch::__core::types::schema::{Arg, Default_, Ty};
use torch::__core::{DType, Device, Error, MemoryFormat, Tensor, Value};
use torch::library;
use torch::library::object::{class_names, construct};
use torch::options::BackwardOptions;
use torch::{Result, ops};

fn ramp(sizes: &[i64]) -> Tensor {
    let n: i64 = sizes.iter().product();
    let v = (0..n).map(|i| (i % 7) as f32 * 0.25 + 0.25).collect();
    Tensor::from_vec_raw(v, sizes).expect("a small tensor")
}
fn ints(v: &[i64], sizes: &[i64]) -> Tensor {
    Tensor::from_vec_raw(v.to_vec(), sizes).expect("a small tensor")
}
fn bools(v: &[i64], sizes: &[i64]) -> Result<Tensor> {
    ops::to_copy(&ints(v, sizes), Some(DType::Bool), None, None, None, false, None)
}
fn one(name: &str, args: &[Value], kwargs: &[(&str, Value)]) -> Result<Tensor> {
    let kwargs: Vec<_> = kwargs.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    match library::call(name, args, &kwargs)?.first() {
        Some(Value::Tensor(t)) => Ok(t.clone()),
        _ => Err(Error::runtime(format!("{name} gives no tensor"))),
    }
}
fn list(v: &[i64]) -> Value {
    Value::List(v.iter().map(|i| Value::Int(*i)).collect())
}
/// Exchanges the memory of a tensor behind everybody's back. It never becomes less: sizes belong to handles.
fn grow(t: &Tensor) -> Result<()> {
    t.storage().grow(1 << 16)
}
fn overwrite(t: &Tensor, at: i64, with: i64) -> Result<()> {
    let row = ops::select(&ops::reshape(t, &[-1])?, 0, at)?;
    ops::fill_(&row, with.into())
}

fn strided() -> Result<Tensor> {
    one("torch.nested.nested_tensor", &[Value::List(vec![ramp(&[2, 2]).into(), ramp(&[3, 2]).into()])], &[])
}
fn jagged(values: &Tensor, offsets: &Tensor) -> Result<Tensor> {
    one("torch.nested.nested_tensor_from_jagged", &[values.into(), offsets.into()], &[])
}
fn lying(at: i64, with: i64) -> Result<Tensor> {
    let offsets = ints(&[0, 2, 5], &[3]);
    let t = jagged(&ramp(&[5, 2]), &offsets)?;
    overwrite(&offsets, at, with)?;
    Ok(t)
}
fn masked(data: &Tensor, mask: &Tensor) -> Result<Tensor> {
    one("torch.masked.as_masked_tensor", &[data.into(), mask.into()], &[])
}
fn quantized(scale: f64, dtype: DType) -> Result<Tensor> {
    let args = [ramp(&[2, 2]).into(), Value::Float(scale), Value::Int(1), Value::DType(dtype)];
    one("torch.quantize_per_tensor", &args, &[])
}
fn by_channel() -> Result<(Tensor, Tensor, Tensor)> {
    let (scales, zeros) = (ramp(&[2]), ints(&[0, 1], &[2]));
    let args =
        [ramp(&[2, 2]).into(), (&scales).into(), (&zeros).into(), Value::Int(0), Value::DType(DType::QI8)];
    Ok((one("torch.quantize_per_channel", &args, &[])?, scales, zeros))
}
fn coo(indices: &[i64], sizes: &[i64]) -> Result<(Tensor, Tensor, Tensor)> {
    let (i, v) =
        (ints(&vec![0; indices.len()], &[2, indices.len() as i64 / 2]), ramp(&[indices.len() as i64 / 2]));
    let t = one(
        "torch.sparse_coo_tensor",
        &[(&i).into(), (&v).into(), list(sizes)],
        &[("check_invariants", Value::Bool(false))],
    )?;
    let own = one("torch.Tensor._indices", &[(&t).into()], &[])?;
    ops::copy_(&own, &ints(indices, own.sizes()), false)?;
    let values = one("torch.Tensor._values", &[(&t).into()], &[])?;
    Ok((t, own, values))
}
fn csr(name: &str, compressed: &[i64], plain: &[i64]) -> Result<Tensor> {
    let (c, p) = (ints(compressed, &[compressed.len() as i64]), ints(plain, &[plain.len() as i64]));
    let values =
        if name.contains("_bs") { ramp(&[plain.len() as i64, 1, 1]) } else { ramp(&[plain.len() as i64]) };
    let args = [(&c).into(), (&p).into(), (&values).into(), list(&[2, 2])];
    one(name, &args, &[("check_invariants", Value::Bool(false))])
}

/// Tensors that are not what they say.
const CRAFTED: &[(&str, fn() -> Result<Tensor>)] = &[
    ("nested", strided),
    ("nested, components without dimensions", || {
        one("torch.nested.nested_tensor", &[Value::List(vec![ramp(&[]).into(), ramp(&[]).into()])], &[])
    }),
    ("nested, no components", || one("torch.nested.nested_tensor", &[Value::List(vec![])], &[])),
    ("nested, empty components", || {
        let parts = vec![ramp(&[0, 2]).into(), ramp(&[3, 2]).into(), ramp(&[0, 2]).into()];
        one("torch.nested.nested_tensor", &[Value::List(parts)], &[])
    }),
    ("nested, its buffer exchanged", || {
        let t = strided()?;
        let values = one("torch.Tensor.values", &[(&t).into()], &[])?;
        grow(&values)?;
        Ok(t)
    }),
    ("nested, gradients", || {
        let t = strided()?;
        t.try_requires_grad_(true)?;
        Ok(t)
    }),
    ("jagged", || jagged(&ramp(&[5, 2]), &ints(&[0, 2, 5], &[3]))),
    ("jagged, no rows", || jagged(&ramp(&[0, 2]), &ints(&[0, 0], &[2]))),
    ("jagged, offsets to the end of numbers", || lying(1, i64::MAX)),
    ("jagged, a huge last offset", || lying(2, 1 << 40)),
    ("jagged, offsets below zero", || lying(1, -3)),
    ("jagged, offsets that fall", || lying(1, 9)),
    ("jagged, the least offset", || lying(0, i64::MIN)),
    ("jagged, values exchanged", || {
        let v = ramp(&[5, 2]);
        let t = jagged(&v, &ints(&[0, 2, 5], &[3]))?;
        grow(&v)?;
        Ok(t)
    }),
    ("jagged, offsets exchanged", || {
        let o = ints(&[0, 2, 5], &[3]);
        let t = jagged(&ramp(&[5, 2]), &o)?;
        grow(&o)?;
        Ok(t)
    }),
    ("masked", || masked(&ramp(&[2, 2]), &bools(&[1, 0, 1, 0], &[2, 2])?)),
    ("masked, nothing", || masked(&ramp(&[0, 2]), &bools(&[], &[0, 2])?)),
    ("masked, no number", || masked(&ramp(&[]), &bools(&[0], &[])?)),
    ("masked, data exchanged", || {
        let x = ramp(&[2, 2]);
        let t = masked(&x, &bools(&[1, 0, 1, 0], &[2, 2])?)?;
        grow(&x)?;
        Ok(t)
    }),
    ("masked, mask exchanged", || {
        let m = bools(&[1, 0, 1, 0], &[2, 2])?;
        let t = masked(&ramp(&[2, 2]), &m)?;
        grow(&m)?;
        Ok(t)
    }),
    ("masked, huge", || {
        let x = ops::expand(&ramp(&[1]), &[1 << 40], false)?;
        masked(&x, &ops::expand(&bools(&[1], &[1])?, &[1 << 40], false)?)
    }),
    ("masked, overlapping", || {
        let x = ops::expand(&ramp(&[1]), &[2, 2], false)?;
        masked(&x, &bools(&[1, 0, 1, 0], &[2, 2])?)
    }),
    ("masked, in masked", || {
        let m = bools(&[1, 0, 1, 0], &[2, 2])?;
        masked(&masked(&ramp(&[2, 2]), &m)?, &m)
    }),
    ("quantized", || quantized(0.5, DType::QU8)),
    ("quantized, 32 bits", || quantized(0.5, DType::QI32)),
    ("quantized, scale 0", || quantized(0.0, DType::QI8)),
    ("quantized, scale NaN", || quantized(f64::NAN, DType::QI8)),
    ("quantized, scale infinite", || quantized(f64::INFINITY, DType::QU8)),
    ("quantized, a tiny scale below 0", || quantized(-1e-300, DType::QU8)),
    ("quantized, memory exchanged", || {
        let t = quantized(0.5, DType::QU8)?;
        grow(&t)?;
        Ok(t)
    }),
    ("quantized by channel", || by_channel().map(|t| t.0)),
    ("quantized by channel, scales exchanged", || {
        let (t, scales, zeros) = by_channel()?;
        let own = one("torch.Tensor.q_per_channel_scales", &[(&t).into()], &[])?;
        for s in [scales, zeros, own] {
            grow(&s)?;
        }
        Ok(t)
    }),
    ("quantized by channel, wild zero points", || {
        let (t, ..) = by_channel()?;
        let own = one("torch.Tensor.q_per_channel_zero_points", &[(&t).into()], &[])?;
        ops::fill_(&own, i64::MAX.into())?;
        Ok(t)
    }),
    ("quantized, of nothing", || {
        let args = [ramp(&[0, 3]).into(), Value::Float(1.0), Value::Int(0), Value::DType(DType::QI8)];
        one("torch.quantize_per_tensor", &args, &[])
    }),
    ("coo", || coo(&[0, 1, 1, 0], &[2, 2]).map(|t| t.0)),
    ("coo, a number", || one("torch.Tensor.to_sparse", &[ramp(&[]).into()], &[])),
    ("coo, a number, gradients", || {
        let t = ramp(&[]);
        t.try_requires_grad_(true)?;
        one("torch.Tensor.to_sparse", &[t.into()], &[])
    }),
    ("coo, nothing", || one("torch.Tensor.to_sparse", &[ramp(&[2, 0]).into()], &[])),
    ("coo, all dimensions dense", || {
        let none = ops::zeros(&[0, 2], Some(DType::I64), None, None, None)?;
        one("torch.sparse_coo_tensor", &[none.into(), ramp(&[2, 2, 2]).into(), list(&[2, 2])], &[])
    }),
    ("coo, a dense dimension", || one("torch.Tensor.to_sparse", &[ramp(&[2, 2]).into(), Value::Int(1)], &[])),
    ("csr, nothing", || one("torch.Tensor.to_sparse_csr", &[ramp(&[0, 2]).into()], &[])),
    ("csr, batches", || one("torch.Tensor.to_sparse_csr", &[ramp(&[2, 2, 2]).into()], &[])),
    ("bsc", || one("torch.Tensor.to_sparse_bsc", &[ramp(&[2, 2]).into(), list(&[1, 2])], &[])),
    ("coo, beyond", || coo(&[0, 1, i64::MAX, 7], &[2, 2]).map(|t| t.0)),
    ("coo, below", || coo(&[0, 1, i64::MIN, -1], &[2, 2]).map(|t| t.0)),
    ("coo, huge sizes", || coo(&[0, 1, 1, 0], &[1 << 31, 1 << 31]).map(|t| t.0)),
    ("coo, values exchanged", || {
        let (t, _, values) = coo(&[0, 1, 1, 0], &[2, 2])?;
        grow(&values)?;
        Ok(t)
    }),
    ("coo, indices exchanged", || {
        let (t, indices, _) = coo(&[0, 1, 1, 0], &[2, 2])?;
        grow(&indices)?;
        Ok(t)
    }),
    ("csr", || csr("torch.sparse_csr_tensor", &[0, 1, 2], &[0, 1])),
    ("csr, rows that fall", || csr("torch.sparse_csr_tensor", &[0, 9, 2], &[0, 1])),
    ("csr, rows without end", || csr("torch.sparse_csr_tensor", &[0, 1, i64::MAX], &[0, 1])),
    ("csr, rows below zero", || csr("torch.sparse_csr_tensor", &[i64::MIN, -1, 2], &[0, 1])),
    ("csc, columns beyond", || csr("torch.sparse_csc_tensor", &[0, 1, 2], &[1 << 40, -7])),
    ("bsr, blocks beyond", || csr("torch.sparse_bsr_tensor", &[0, 1, 2], &[99, i64::MIN])),
    ("csr, values exchanged", || {
        let t = csr("torch.sparse_csr_tensor", &[0, 1, 2], &[0, 1])?;
        grow(&one("torch.Tensor.values", &[(&t).into()], &[])?)?;
        Ok(t)
    }),
    ("csr, rows exchanged", || {
        let t = csr("torch.sparse_csr_tensor", &[0, 1, 2], &[0, 1])?;
        grow(&one("torch.Tensor.crow_indices", &[(&t).into()], &[])?)?;
        Ok(t)
    }),
    ("strided, memory exchanged", || {
        let t = ramp(&[2, 2]);
        grow(&t)?;
        Ok(t)
    }),
    ("strided, gradients, memory exchanged", || {
        let t = ramp(&[2, 2]);
        t.try_requires_grad_(true)?;
        grow(&t)?;
        Ok(t)
    }),
];

fn plain(a: &Arg, tensor: &Tensor) -> Value {
    match (a.default, a.ty) {
        (Default_::Required, Ty::Tensor) => tensor.into(),
        (Default_::Required, Ty::TensorList | Ty::OptTensorList) => {
            Value::List(vec![tensor.into(), tensor.into()])
        }
        (Default_::Required, Ty::Int | Ty::Scalar) => Value::Int(1),
        (Default_::Required, Ty::IntList(_)) => list(&[1, 1]),
        (Default_::Required, Ty::ScalarList | Ty::FloatList) => Value::List(vec![Value::Float(0.5)]),
        (Default_::Required, Ty::Float) => Value::Float(0.5),
        (Default_::Required, Ty::Bool) => Value::Bool(true),
        (Default_::Required, Ty::BoolList) => Value::List(vec![Value::Bool(true); 3]),
        (Default_::Required, Ty::Str) => Value::Str("mean".into()),
        (Default_::Required, Ty::DType) => Value::DType(DType::F32),
        (Default_::Required, Ty::Device) => Value::Device(Device::Cpu),
        (Default_::Required, Ty::MemoryFormat) => Value::MemoryFormat(MemoryFormat::Contiguous),
        (Default_::Required | Default_::None, _) => Value::None,
        (Default_::Int(i), _) => Value::Int(i),
        (Default_::Float(f), _) => Value::Float(f),
        (Default_::Bool(b), _) => Value::Bool(b),
        (Default_::Str(s), _) => Value::Str(s.to_string()),
        (Default_::IntList(l), _) => list(l),
        (Default_::MemoryFormat(m), _) => Value::MemoryFormat(m),
        (Default_::Layout(l), _) => Value::Layout(l),
    }
}
/// What becomes of a result: it is shown, read and differentiated.
fn used(results: Vec<Value>) {
    for v in &results {
        let Value::Tensor(t) = v else { continue };
        if t.sizes().iter().any(|n| *n > 1 << 12) || t.dim() > 8 {
            continue;
        }
        let _ = library::repr(v);
        let _ = ops::clone(t, None);
        if t.requires_grad()
            && let Ok(s) = ops::sum(t, None, false, None)
        {
            let _ = s.try_backward(BackwardOptions::new());
        }
    }
}

/// Which arguments are crafted.
#[derive(Clone, Copy)]
enum Where {
    First,
    Last,
    All,
}
struct Plan(&'static dyn AnyOp, usize, Where);
impl Plan {
    fn name(&self) -> String {
        let at = ["first", "last", "all"][self.2 as usize];
        format!("aten::{} of {} ({at})", self.0.info().name, CRAFTED[self.1].0)
    }
    fn run(&self) -> Option<String> {
        let crafted = match CRAFTED[self.1].1() {
            Ok(t) => t,
            // refused where it is made, which is as good
            Err(e) => return e.message().is_empty().then(|| "an error without a text".into()),
        };
        let usual = ramp(&[2, 2]);
        let args = self.0.info().schema.args;
        let tensors = |a: &Arg| matches!(a.ty, Ty::Tensor | Ty::TensorList);
        let places: Vec<usize> = (0..args.len()).filter(|i| tensors(&args[*i])).collect();
        let values: Vec<Value> = args
            .iter()
            .enumerate()
            .map(|(i, a)| {
                let here = match self.2 {
                    Where::First => places.first() == Some(&i),
                    Where::Last => places.last() == Some(&i),
                    Where::All => true,
                };
                plain(a, if here { &crafted } else { &usual })
            })
            .collect();
        match self.0.call_boxed(&values) {
            Err(e) if e.message().is_empty() => Some("an error without a text".into()),
            Err(_) => None,
            Ok(r) => {
                used(r);
                None
            }
        }
    }
}

/// Every operator with each of them in its places.
fn plans() -> Vec<Plan> {
    let mut all = Vec::new();
    let crates = registry::crates();
    let ops = crates.iter().flat_map(|c| c.ops);
    let taking = |op: &&&'static dyn AnyOp| {
        op.info().schema.args.iter().any(|a| matches!(a.ty, Ty::Tensor | Ty::TensorList))
    };
    for op in ops.filter(taking) {
        for c in 0..CRAFTED.len() {
            all.extend([Where::First, Where::Last, Where::All].map(|w| Plan(*op, c, w)));
        }
    }
    all
}
#[test]
fn tensors_whose_parts_lie() {
    for (name, make) in CRAFTED {
        if let Err(e) = make() {
            eprintln!("{name}: refused: {e}");
        }
    }
    let all = plans();
    Calls { test: here!(), count: all.len(), name: &|i| all[i].name(), run: &|i| all[i].run() }.judge();
}
/// Every class, made of hostile arguments and asked for whatever it has.
#[test]
fn every_class_survives_hostile_arguments() {
    const METHODS: &[&str] = &[
        "sample",
        "rsample",
        "log_prob",
        "entropy",
        "cdf",
        "icdf",
        "expand",
        "enumerate_support",
        "mean",
        "variance",
        "forward",
        "state_dict",
        "load_state_dict",
        "step",
        "inv",
        "log_abs_det_jacobian",
        "check",
        "support",
        "draw",
        "calculate_qparams",
        "fast_forward",
        "repr",
        "set_weight_bias",
    ];
    let names = class_names();
    let x = || Value::Tensor(ramp(&[2, 2]));
    let deep = || (0..1_000).fold(Value::None, |v, _| Value::List(vec![v]));
    let huge = || Value::Int(1 << 62);
    let given: &[&dyn Fn() -> Vec<Value>] = &[
        &|| vec![],
        &|| vec![Value::Int(2)],
        &|| vec![Value::Int(2), Value::Int(2)],
        &|| vec![Value::Int(2), Value::Int(2), Value::Int(2)],
        &|| vec![Value::Int(-1), Value::Int(-1)],
        &|| vec![Value::Int(0), Value::Int(0), Value::Int(0)],
        &|| vec![huge()],
        &|| vec![huge(), huge()],
        &|| vec![Value::Int(1), huge(), huge()],
        &|| vec![huge(), huge(), huge(), huge()],
        &|| vec![Value::Int(i64::MIN), Value::Int(i64::MIN)],
        &|| vec![Value::Float(0.5)],
        &|| vec![Value::Float(0.5), Value::Float(0.5)],
        &|| vec![Value::Float(f64::NAN), Value::Float(f64::NAN)],
        &|| vec![Value::Float(f64::INFINITY), Value::Float(-1e308)],
        &|| vec![x()],
        &|| vec![x(), x()],
        &|| vec![x(), x(), x()],
        &|| vec![Value::Tensor(ramp(&[])), Value::Tensor(ramp(&[]))],
        &|| vec![Value::Tensor(ints(&[], &[0])), Value::Tensor(ints(&[], &[0]))],
        &|| vec![Value::Tensor(ints(&[i64::MAX, i64::MIN], &[2])), Value::Tensor(ints(&[-1, 3], &[2]))],
        &|| vec![strided().map_or(Value::None, Value::Tensor)],
        &|| vec![quantized(0.5, DType::QU8).map_or(Value::None, Value::Tensor); 2],
        &|| vec![coo(&[0, 1, 9, 9], &[2, 2]).map_or(Value::None, |t| Value::Tensor(t.0)); 2],
        &|| vec![Value::List(vec![x(), x()])],
        &|| vec![list(&[1 << 62, 1 << 62]), list(&[-1])],
        &|| vec![Value::Str("x".into()), Value::None],
        &|| vec![deep()],
        &|| vec![Value::Int(2), deep()],
    ];
    Calls {
        test: here!(),
        count: names.len() * given.len(),
        name: &|i| format!("{}, arguments {}", names[i / given.len()], i % given.len()),
        run: &|i| {
            let class = &names[i / given.len()];
            let made = match construct(class, &given[i % given.len()](), &[]) {
                Ok(o) => o,
                Err(e) => return e.message().is_empty().then(|| "an error without a text".into()),
            };
            let _ = made.repr();
            for args in
                [&given[0], &given[4], &given[6], &given[15], &given[16], &given[20], &given[25], &given[27]]
            {
                let args = args();
                if let Ok(r) = made.call(&args, &[]) {
                    used(r);
                }
                for m in METHODS {
                    let _ = made.attribute(m);
                    if let Ok(r) = made.method(m, &args, &[]) {
                        used(r);
                    }
                }
            }
            None
        },
    }
    .judge();
}
