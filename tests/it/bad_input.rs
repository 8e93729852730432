//! Every operator of the registry with hostile arguments, by name: no panic, no abort, no hang, no absurd allocation. No
//! operator is named here: the arguments follow from the schemas.

use flambeau_memory::scarce;
use flambeau_test_support::here;
use flambeau_test_support::hostile::Calls;
use std::panic::{AssertUnwindSafe, catch_unwind};
use torch::__core::dispatch::op::AnyOp;
use torch::__core::dispatch::registry;
use torch::__core::internal::RawTensor as _;
use torch::__core::types::schema::{Arg, Default_, Ty};
use torch::__core::{DType, Device, MemoryFormat, Scalar, Tensor, Value};
use torch::library;
use torch::options::BackwardOptions;
use torch::{Result, ops};

const HUGE: i64 = 1 << 62;

/// Numbers that look random and are the same in every run.
pub struct Dice(pub u64);
impl Dice {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

fn cast(t: &Tensor, d: DType) -> Result<Tensor> {
    ops::to_copy(t, Some(d), None, None, None, false, None)
}
fn ramp(sizes: &[i64], d: DType) -> Result<Tensor> {
    let n = if sizes.contains(&0) { 0 } else { sizes.iter().product::<i64>() };
    let v: Vec<f32> = (0..n).map(|i| (i % 7) as f32 * 0.25 + 0.25).collect();
    cast(&Tensor::from_vec_raw(v, sizes)?, d)
}
fn ints(v: &[i64]) -> Result<Tensor> {
    Tensor::from_vec_raw(v.to_vec(), &[v.len() as i64])
}
fn recorded(t: Tensor) -> Result<Tensor> {
    t.try_requires_grad_(true)?;
    Ok(t)
}

/// Tensors with which many operators do something.
const PLAIN: &[fn() -> Result<Tensor>] = &[
    || ramp(&[2, 2], DType::F32),
    || recorded(ramp(&[2, 2], DType::F32)?),
    || ops::zeros(&[2, 2], Some(DType::I64), None, None, None),
    || ramp(&[1, 2, 4, 4], DType::F32),
    || recorded(ramp(&[2, 2, 2], DType::F32)?),
    || ramp(&[1, 1, 2, 2, 2], DType::F32),
    || ramp(&[3], DType::F32),
    || ops::ones(&[2, 2], Some(DType::Bool), None, None, None),
];

/// Tensors that something is wrong with for most operators.
const NASTY: &[fn() -> Result<Tensor>] = &[
    || ramp(&[], DType::F32),
    || ramp(&[], DType::I64),
    || ramp(&[0], DType::F32),
    || ramp(&[0], DType::I64),
    || ramp(&[0, 3], DType::F32),
    || ramp(&[2, 0, 2], DType::F64),
    || ramp(&[1, 0, 2, 2], DType::F32),
    || ramp(&[0, 1, 2, 2], DType::F32),
    || ramp(&[2, 3], DType::F32),
    || ramp(&[1, 1, 1, 1, 1, 1, 1], DType::F32),
    || ramp(&[4, 1, 2], DType::I32),
    || ramp(&[2, 2], DType::U8),
    || ramp(&[2, 2], DType::I8),
    || ramp(&[2, 2], DType::I16),
    || ramp(&[2, 2], DType::U16),
    || ramp(&[2, 2], DType::U32),
    || ramp(&[2, 2], DType::U64),
    || ramp(&[2, 2], DType::F16),
    || ramp(&[2, 2], DType::BF16),
    || ramp(&[2, 2], DType::F8E4M3),
    || ramp(&[2, 2], DType::F8E5M2),
    || ramp(&[2, 2], DType::C32),
    || ramp(&[2, 2], DType::C64),
    || ramp(&[2, 2], DType::C128),
    || ops::empty(&[2, 2], Some(DType::QI8), None, None, None, None),
    || ops::full(&[2, 2], Scalar::Float(f64::NAN), Some(DType::F32), None, None, None),
    || ops::full(&[2, 2], Scalar::Float(f64::NEG_INFINITY), Some(DType::F64), None, None, None),
    || ints(&[i64::MAX, i64::MIN]),
    || ints(&[i64::MAX]),
    || ints(&[1 << 40]),
    || ints(&[-1, -5, 99]),
    || ints(&[HUGE, HUGE, HUGE]),
    || ops::full(&[2, 2], Scalar::Int(-100), Some(DType::I64), None, None, None),
    || ops::full(&[2, 2], Scalar::Int(i64::MAX), Some(DType::I64), None, None, None),
    || ops::full(&[2, 2], Scalar::Int(i64::from(i32::MIN)), Some(DType::I32), None, None, None),
    || ops::expand(&ramp(&[1], DType::F32)?, &[2, 2], false),
    || ops::transpose(&ramp(&[2, 3], DType::F32)?, 0, 1),
    || ops::conj(&ramp(&[2, 2], DType::C64)?),
    || Tensor::empty_raw(&[2, 2], DType::F32, Device::Meta),
    || Tensor::empty_raw(&[], DType::I64, Device::Meta),
    || Tensor::empty_raw(&[1 << 40, 2], DType::F32, Device::Meta),
    || Tensor::empty_raw(&[1 << 31, 1 << 30], DType::U8, Device::Meta),
    || recorded(ramp(&[2, 2], DType::F64)?),
    || recorded(ramp(&[2, 0], DType::F32)?),
    || recorded(ramp(&[2, 2], DType::C64)?),
];

const INTS: &[i64] =
    &[0, 1, -1, 2, 3, 99, -99, 1 << 31, -(1 << 31), 1 << 33, 1 << 40, HUGE, -HUGE, i64::MAX, i64::MIN];
const INT_LISTS: &[&[i64]] = &[
    &[],
    &[0],
    &[1],
    &[-1],
    &[99],
    &[HUGE],
    &[i64::MAX],
    &[i64::MIN],
    &[1 << 40],
    &[0, 0],
    &[-1, -1],
    &[2, 2],
    &[0, 1],
    &[HUGE, 4],
    &[1 << 33, 1 << 33],
    &[i64::MAX, i64::MAX],
    &[i64::MIN, i64::MIN],
    &[1 << 31, 1 << 31, 4],
    &[1, 1, 1],
    &[i64::MAX, i64::MAX, i64::MAX],
    &[1, 1, 1, 1],
    &[-1, 2, -3, 4],
    &[1, HUGE, 1, HUGE, 0],
    &[1, 1, 1, 1, 1, 1],
    &[1; 70],
];
const FLOATS: &[f64] = &[0.0, -1.0, 2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, 1e-308, -0.0];
const STRINGS: &[&str] =
    &["", "nonsense", "mean", "sum", "none", "trunc", "ij,jk->ik", "bilinear", "reflect", "\u{1f525}"];
const DTYPES: &[DType] =
    &[DType::F64, DType::I64, DType::Bool, DType::U16, DType::F16, DType::C64, DType::QI8, DType::F8E4M3];

fn list(v: &[i64]) -> Value {
    Value::List(v.iter().map(|i| Value::Int(*i)).collect())
}

/// A sensible value for an argument, if its type is known to have one.
pub fn plain(a: &Arg, tensor: fn() -> Result<Tensor>) -> Result<Value> {
    Ok(match (a.default, a.ty) {
        (Default_::Required, Ty::Tensor) => tensor()?.into(),
        (Default_::Required, Ty::TensorList | Ty::OptTensorList) => {
            Value::List(vec![tensor()?.into(), tensor()?.into()])
        }
        (Default_::Required, Ty::Int | Ty::Scalar) => Value::Int(1),
        (Default_::Required, Ty::IntList(_)) => list(&[1, 1]),
        (Default_::Required, Ty::ScalarList | Ty::FloatList) => Value::List(vec![Value::Float(0.5)]),
        (Default_::Required, Ty::Float) => Value::Float(0.5),
        (Default_::Required, Ty::Bool) => Value::Bool(true),
        (Default_::Required, Ty::BoolList) => Value::List(vec![Value::Bool(true); 3]),
        (Default_::Required, Ty::Str) => Value::Str("mean".into()),
        (Default_::Required, Ty::DType) => Value::DType(DType::F64),
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
    })
}

fn nasty_tensor(i: usize) -> Result<Value> {
    Ok(match NASTY.get(i) {
        Some(f) => f()?.into(),
        None => PLAIN[i - NASTY.len()]()?.into(),
    })
}

/// How many nasty values a type has.
fn variety(ty: Ty) -> usize {
    match ty {
        Ty::Tensor | Ty::OptTensor => NASTY.len() + PLAIN.len(),
        Ty::TensorList | Ty::OptTensorList => NASTY.len() + PLAIN.len() + 3,
        Ty::Scalar | Ty::OptScalar => INTS.len() + FLOATS.len() + 3,
        Ty::Int | Ty::OptInt => INTS.len(),
        Ty::IntList(_) | Ty::OptIntList(_) => INT_LISTS.len(),
        Ty::Float | Ty::OptFloat => FLOATS.len(),
        Ty::ScalarList | Ty::FloatList | Ty::OptFloatList => FLOATS.len() + 1,
        Ty::Bool | Ty::OptBool => 2,
        Ty::BoolList => 3,
        Ty::Str | Ty::OptStr => STRINGS.len(),
        Ty::DType | Ty::OptDType => DTYPES.len(),
        Ty::Device | Ty::OptDevice => 3,
        Ty::MemoryFormat | Ty::OptMemoryFormat => 4,
        Ty::OptLayout | Ty::OptGenerator => 1,
    }
}

fn nasty(ty: Ty, i: usize) -> Result<Value> {
    let floats = |i: usize| if i < FLOATS.len() { vec![Value::Float(FLOATS[i]); 2] } else { Vec::new() };
    Ok(match ty {
        Ty::Tensor | Ty::OptTensor => nasty_tensor(i)?,
        Ty::TensorList | Ty::OptTensorList => Value::List(match i {
            0 => Vec::new(),
            1 => vec![nasty_tensor(NASTY.len())?, nasty_tensor(0)?, nasty_tensor(4)?],
            2 => vec![nasty_tensor(38)?, nasty_tensor(NASTY.len())?],
            i => vec![nasty_tensor(i - 3)?; 2],
        }),
        Ty::Scalar | Ty::OptScalar => match i {
            i if i < INTS.len() => Value::Int(INTS[i]),
            i if i < INTS.len() + FLOATS.len() => Value::Float(FLOATS[i - INTS.len()]),
            i if i == INTS.len() + FLOATS.len() => Scalar::from(true).into(),
            i if i == INTS.len() + FLOATS.len() + 1 => complex(f64::NAN, f64::INFINITY),
            _ => complex(1.0, 2.0),
        },
        Ty::Int | Ty::OptInt => Value::Int(INTS[i]),
        Ty::IntList(_) | Ty::OptIntList(_) => list(INT_LISTS[i]),
        Ty::Float | Ty::OptFloat => Value::Float(FLOATS[i]),
        Ty::ScalarList | Ty::FloatList | Ty::OptFloatList => Value::List(floats(i)),
        Ty::Bool | Ty::OptBool => Value::Bool(i == 1),
        Ty::BoolList => Value::List(vec![Value::Bool(false); i * 2]),
        Ty::Str | Ty::OptStr => Value::Str(STRINGS[i].into()),
        Ty::DType | Ty::OptDType => Value::DType(DTYPES[i]),
        Ty::Device | Ty::OptDevice => Value::Device([Device::Meta, Device::Cuda(0), Device::Private(3)][i]),
        Ty::MemoryFormat | Ty::OptMemoryFormat => Value::MemoryFormat(
            [
                MemoryFormat::Contiguous,
                MemoryFormat::Preserve,
                MemoryFormat::ChannelsLast,
                MemoryFormat::ChannelsLast3d,
            ][i],
        ),
        Ty::OptLayout | Ty::OptGenerator => Value::None,
    })
}

fn complex(re: f64, im: f64) -> Value {
    let mut c = Scalar::Int(0).to_complex();
    (c.re, c.im) = (re, im);
    Value::Complex(c)
}

/// One call: the operator, which plain tensor stands where nothing is nasty, and the nasty arguments (position, number).
pub struct Plan {
    pub op: &'static dyn AnyOp,
    tensor: usize,
    wrong: Vec<(usize, usize)>,
}

impl Plan {
    pub fn name(&self) -> String {
        let args = &self.op.info().schema.args;
        let wrong: Vec<String> = self
            .wrong
            .iter()
            .map(|(at, i)| {
                let text = match &nasty(args[*at].ty, *i) {
                    Ok(Value::Tensor(t)) => format!("{:?} {:?} on {:?}", t.sizes(), t.dtype(), t.device()),
                    Ok(v) => format!("{v:?}"),
                    Err(e) => e.to_string(),
                };
                format!(
                    "{}={}",
                    args[*at].name,
                    text.chars().take(120).collect::<String>().replace('\n', " ")
                )
            })
            .collect();
        format!("aten::{} plain {} {}", self.op.info().name, self.tensor, wrong.join(" "))
    }
    pub fn values(&self) -> Result<Vec<Value>> {
        let args = self.op.info().schema.args;
        let mut v: Vec<Value> = args.iter().map(|a| plain(a, PLAIN[self.tensor])).collect::<Result<_>>()?;
        for (at, i) in &self.wrong {
            v[*at] = nasty(args[*at].ty, *i)?;
        }
        Ok(v)
    }
    /// Calls by name; where the result has a history, the gradient is asked for as well.
    fn run(&self) -> Option<String> {
        let values = match self.values() {
            Ok(v) => v,
            Err(e) => return Some(format!("an argument cannot be made: {e}")),
        };
        let (mut args, mut kwargs) = (Vec::new(), Vec::new());
        for (a, v) in self.op.info().schema.args.iter().zip(values) {
            if a.kw_only { kwargs.push((a.name.to_string(), v)) } else { args.push(v) }
        }
        let result = match library::call(&format!("aten::{}", self.op.info().name), &args, &kwargs) {
            Ok(r) => r,
            Err(e) if e.message().is_empty() => return Some("an error without a text".into()),
            Err(_) => return None,
        };
        for v in result {
            let Ok(t) = v.into_tensor() else { continue };
            if t.requires_grad() && t.numel() < 1 << 20 {
                let whole = ops::sum(&t, None, false, None)
                    .and_then(|s| if s.is_complex() { ops::real(&s) } else { Ok(s) });
                if let Ok(s) = whole {
                    // an error is an answer; what counts is that there is one
                    let _ = s.try_backward(BackwardOptions::new());
                }
            }
        }
        None
    }
}

/// Every argument of every operator nasty in every way once, beside plain ones; then random mixtures.
pub fn plans() -> Vec<Plan> {
    let mut all = Vec::new();
    for &op in registry::crates().iter().flat_map(|c| c.ops) {
        let args = op.info().schema.args;
        let works = |tensor: &usize| {
            let plan = Plan { op, tensor: *tensor, wrong: Vec::new() };
            let call = AssertUnwindSafe(|| plan.values().and_then(|v| op.call_boxed(&v)));
            catch_unwind(call).is_ok_and(|r| r.is_ok())
        };
        let mut tensors: Vec<usize> = (0..PLAIN.len()).filter(works).collect();
        tensors.truncate(2);
        if tensors.is_empty() {
            tensors = vec![0, 3];
        }
        for &tensor in &tensors {
            for (at, a) in args.iter().enumerate() {
                all.extend((0..variety(a.ty)).map(|i| Plan { op, tensor, wrong: vec![(at, i)] }));
            }
        }
        let mut dice =
            Dice(op.info().name.bytes().fold(0x9e37_79b9, |h: u64, b| h.wrapping_mul(31) + u64::from(b)));
        for round in 0..60 * args.len().min(5) {
            let tensor = tensors[round % tensors.len()];
            let mut wrong = Vec::new();
            for (at, arg) in args.iter().enumerate() {
                if dice.below(10) < 4 {
                    wrong.push((at, dice.below(variety(arg.ty))));
                }
            }
            all.push(Plan { op, tensor, wrong });
        }
    }
    all
}

#[test]
fn every_operator_survives_hostile_arguments() {
    let all = plans();
    assert!(all.len() > 50_000, "{}", all.len());
    Calls { test: here!(), count: all.len(), name: &|i| all[i].name(), run: &|i| all[i].run() }.judge();
}

/// Tensors of a size at which memory may be refused; what small inputs become is large too where dimensions broadcast.
const LARGE: &[fn() -> Result<Tensor>] = &[
    || ramp(&[1 << 13], DType::F32),
    || ramp(&[64, 96], DType::F32),
    || ramp(&[4, 32, 32], DType::F64),
    || ramp(&[2, 4, 32, 32], DType::F32),
    || ramp(&[1 << 12], DType::I64),
    || ramp(&[64, 64], DType::I64),
    || ramp(&[1 << 15], DType::Bool),
    || ops::expand(&ramp(&[64, 1], DType::F32)?, &[64, 128], false),
];
/// From here on memory is refused; less is what any program needs at every step.
const REFUSED: usize = 16 << 10;

/// Every operator where no large block of memory is left, then where one is, and so on until it has all that it asks for: an
/// error each time, and the process goes on.
#[test]
fn no_memory_is_an_error() {
    struct Call(&'static dyn AnyOp, usize, Option<usize>);
    let mut all = Vec::new();
    for &op in registry::crates().iter().flat_map(|c| c.ops) {
        let args = op.info().schema.args;
        let tensors =
            |a: &Arg| matches!(a.ty, Ty::Tensor | Ty::OptTensor | Ty::TensorList | Ty::OptTensorList);
        for i in 0..LARGE.len() {
            all.push(Call(op, i, None));
        }
        if args.iter().filter(|a| tensors(a)).count() > 1 {
            let at = |at: usize| Call(op, at % LARGE.len(), Some(at));
            all.extend((0..args.len()).filter(|at| tensors(&args[*at])).map(at));
        }
    }
    let values = |c: &Call| -> Result<Vec<Value>> {
        let large = |a: &Arg| match a.ty {
            Ty::OptTensor => LARGE[c.1]().map(Value::from),
            _ => plain(a, LARGE[c.1]),
        };
        let one = |(at, a): (usize, &Arg)| match c.2 {
            None => plain(a, LARGE[c.1]),
            Some(here) if here == at => large(a),
            Some(_) => plain(a, PLAIN[[0, 2, 3][c.1 % 3]]),
        };
        c.0.info().schema.args.iter().enumerate().map(one).collect()
    };
    Calls {
        test: here!(),
        count: all.len(),
        name: &|i| format!("aten::{} large {} at {:?}, call {i}", all[i].0.info().name, all[i].1, all[i].2),
        run: &|i| {
            for served in 0..4 {
                let Ok(args) = values(&all[i]) else { return None };
                scarce::refuse(REFUSED, served);
                let r = catch_unwind(AssertUnwindSafe(|| all[i].0.call_boxed(&args)));
                let refused = scarce::serve();
                match r {
                    Err(panic) => std::panic::resume_unwind(panic),
                    Ok(Err(e)) if e.message().is_empty() => return Some("an error without a text".into()),
                    _ if refused == 0 => break,
                    _ => {}
                }
            }
            None
        },
    }
    .judge_with(&[("FLAMBEAU_POOL", "off")]);
}

/// Every documented name, with arguments that fit none or hardly any.
#[test]
fn every_name_survives_hostile_arguments() {
    let names: Vec<String> = library::names().into_iter().filter(|n| !n.starts_with("aten::")).collect();
    let x = || PLAIN[0]().map_or(Value::None, Value::Tensor);
    let kw = |k: &str, v: Value| vec![(k.to_string(), v)];
    type Call = (Vec<Value>, Vec<(String, Value)>);
    let calls: &[&dyn Fn() -> Call] = &[
        &|| (vec![], vec![]),
        &|| (vec![Value::None], vec![]),
        &|| (vec![Value::Int(i64::MIN)], vec![]),
        &|| (vec![x()], vec![]),
        &|| (vec![x(), Value::Int(99)], vec![]),
        &|| (vec![x(), Value::Int(i64::MIN)], vec![]),
        &|| (vec![x(), Value::Int(i64::MAX), Value::Int(i64::MAX), Value::Int(i64::MIN)], vec![]),
        &|| (vec![x(), Value::Float(f64::NAN)], vec![]),
        &|| (vec![x(), x(), x(), x(), x()], vec![]),
        &|| (vec![x(), Value::Str("x".into())], vec![]),
        &|| (vec![x(), list(&[HUGE, HUGE])], vec![]),
        &|| (vec![x(), Value::List(vec![Value::Str("x".into()), Value::None])], vec![]),
        &|| (vec![Value::List(vec![])], vec![]),
        &|| (vec![Value::List(vec![Value::List(vec![x()]), Value::Int(1)])], vec![]),
        &|| (vec![Value::Dict(vec![]), Value::Ellipsis], vec![]),
        &|| (vec![Value::Slice([Some(i64::MIN), Some(i64::MAX), Some(i64::MIN)])], vec![]),
        &|| (vec![x(), Value::Slice([Some(i64::MIN), Some(i64::MAX), Some(i64::MAX)])], vec![]),
        &|| {
            (
                vec![
                    x(),
                    Value::Tuple(vec![Value::Ellipsis, Value::Ellipsis, Value::None, Value::Int(i64::MIN)]),
                ],
                vec![],
            )
        },
        &|| (vec![x()], kw("dim", Value::Int(99))),
        &|| (vec![x()], kw("dtype", Value::Int(7))),
        &|| (vec![x()], kw("no_such_argument", Value::None)),
        &|| (vec![x(), x()], kw("out", x())),
        &|| (vec![x()], kw("out", Value::Tuple(vec![x(), Value::None]))),
        &|| (vec![Value::Int(HUGE), Value::Int(HUGE), Value::Int(HUGE)], vec![]),
        &|| (vec![Value::Bool(true), complex(0.0, f64::NAN)], vec![]),
        &|| (vec![Value::DType(DType::QI8), Value::Device(Device::Meta)], vec![]),
    ];
    Calls {
        test: here!(),
        count: names.len() * calls.len(),
        name: &|i| format!("{}, call {}", names[i / calls.len()], i % calls.len()),
        run: &|i| {
            let (args, kwargs) = calls[i % calls.len()]();
            // Python's `raise ValueError` without words
            const WORDLESS: &str = "torch.distributions.Distribution.set_default_validate_args";
            match library::call(&names[i / calls.len()], &args, &kwargs) {
                Err(e) if e.message().is_empty() && names[i / calls.len()] != WORDLESS => {
                    Some("an error without a text".into())
                }
                _ => None,
            }
        },
    }
    .judge();
}
