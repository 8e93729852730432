//! Every documented name with random lists of arguments: tensors of all kinds and dtypes, objects, lists, numbers at the ends.

use super::{bools, by_channel, coo, csr, ints, jagged, list, masked, quantized, ramp, strided, used};
use crate::bad_input::Dice;
use flambeau_test_support::here;
use flambeau_test_support::hostile::Calls;
use torch::__core::MemoryFormat;
use torch::library::object::{ObjectRef, construct};
use torch::library::{self, Value};
use torch::{DType, Device, Generator, Result, Tensor, ops};

fn object(class: &str, args: &[Value]) -> Result<Value> {
    construct(class, args, &[]).map(|o: ObjectRef| Value::Object(o))
}
fn cast(t: &Tensor, d: DType) -> Result<Value> {
    ops::to_copy(t, Some(d), None, None, None, false, None).map(Value::from)
}
fn called(name: &str, args: &[Value]) -> Result<Value> {
    library::call(name, args, &[])?
        .into_iter()
        .next()
        .ok_or_else(|| torch::Error::runtime(format!("{name} gives nothing")))
}
fn qweight(sizes: &[i64]) -> Result<Value> {
    let args = [ramp(sizes).into(), Value::Float(0.1), Value::Int(0), Value::DType(DType::QI8)];
    called("torch.quantize_per_tensor", &args)
}
fn qinput(sizes: &[i64]) -> Result<Value> {
    let args = [ramp(sizes).into(), Value::Float(0.1), Value::Int(3), Value::DType(DType::QU8)];
    called("torch.quantize_per_tensor", &args)
}

type Make = fn() -> Result<Value>;
const TENSORS: &[Make] = &[
    || Ok(ramp(&[2, 2]).into()),
    || Ok(ramp(&[2, 2]).requires_grad_(true).into()),
    || Ok(ramp(&[2, 3, 4, 4]).into()),
    || Ok(ramp(&[3]).into()),
    || Ok(ramp(&[]).into()),
    || Ok(ramp(&[2, 3, 4]).into()),
    || Ok(ramp(&[1, 2, 3, 3, 3]).into()),
    || Ok(ints(&[1, 0, 3, 2], &[2, 2]).into()),
    || Ok(ints(&[1, 0], &[2]).into()),
    || Ok(ints(&[i64::MAX, i64::MIN], &[2]).into()),
    || Ok(ints(&[1 << 40], &[1]).into()),
    || Ok(bools(&[1, 0, 0, 1], &[2, 2])?.into()),
    || ops::zeros(&[0], None, None, None, None).map(Value::from),
    || ops::zeros(&[2, 0, 3], None, None, None, None).map(Value::from),
    || ops::expand(&ramp(&[1]), &[1 << 24], false).map(Value::from),
    || ops::expand(&ramp(&[1, 1]), &[1 << 20, 2], false).map(Value::from),
    || ops::full(&[2, 2], f64::NAN.into(), None, None, None, None).map(Value::from),
    || cast(&ramp(&[2, 2]), DType::F64),
    || cast(&ramp(&[2, 2]), DType::BF16),
    || cast(&ramp(&[2, 2]), DType::F16),
    || cast(&ramp(&[2, 2]), DType::C64),
    || cast(&ramp(&[2, 2]), DType::U8),
    || cast(&ramp(&[2, 2]), DType::I8),
    || cast(&ramp(&[2, 2]), DType::F8E4M3),
    || ops::empty(&[2, 2], None, None, Some(Device::Meta), None, None).map(Value::from),
    || quantized(0.5, DType::QU8).map(Value::from),
    || quantized(0.5, DType::QI8).map(Value::from),
    || quantized(f64::NAN, DType::QU8).map(Value::from),
    || by_channel().map(|t| t.0.into()),
    || qinput(&[2, 3, 4, 4]),
    || qweight(&[3, 3, 2, 2]),
    || qweight(&[4, 2]),
    || qinput(&[2, 3, 4]),
    || qweight(&[3, 3, 2]),
    || qinput(&[]),
    || qweight(&[0, 2]),
    || strided().map(Value::from),
    || jagged(&ramp(&[5, 2]), &ints(&[0, 2, 5], &[3])).map(Value::from),
    || masked(&ramp(&[2, 2]), &bools(&[1, 0, 1, 0], &[2, 2])?).map(Value::from),
    || coo(&[0, 1, 1, 0], &[2, 2]).map(|t| t.0.into()),
    || csr("torch.sparse_csr_tensor", &[0, 1, 2], &[0, 1]).map(Value::from),
];
const OTHERS: &[Make] = &[
    || Ok(Value::None),
    || Ok(Value::Bool(true)),
    || Ok(Value::Bool(false)),
    || Ok(Value::Int(0)),
    || Ok(Value::Int(1)),
    || Ok(Value::Int(2)),
    || Ok(Value::Int(3)),
    || Ok(Value::Int(-1)),
    || Ok(Value::Int(-2)),
    || Ok(Value::Int(1 << 20)),
    || Ok(Value::Int(1 << 32)),
    || Ok(Value::Int(1 << 40)),
    || Ok(Value::Int(1 << 62)),
    || Ok(Value::Int(i64::MAX)),
    || Ok(Value::Int(i64::MIN)),
    || Ok(Value::Float(0.5)),
    || Ok(Value::Float(0.0)),
    || Ok(Value::Float(-1e308)),
    || Ok(Value::Float(1e18)),
    || Ok(Value::Float(f64::NAN)),
    || Ok(Value::Float(f64::INFINITY)),
    || Ok(list(&[])),
    || Ok(list(&[0])),
    || Ok(list(&[1])),
    || Ok(list(&[2, 2])),
    || Ok(list(&[0, 1])),
    || Ok(list(&[-1, -1])),
    || Ok(list(&[1, 1, 1])),
    || Ok(list(&[1 << 40, 1 << 40])),
    || Ok(list(&[i64::MAX])),
    || Ok(list(&[i64::MIN, i64::MIN])),
    || Ok(list(&[1 << 20, 1 << 20, 1 << 20])),
    || Ok(list(&[1; 70])),
    || Ok(Value::List(vec![Value::Float(0.5), Value::Float(f64::NAN)])),
    || Ok(Value::List(vec![ramp(&[2, 2]).into(), ramp(&[2, 2]).into()])),
    || Ok(Value::List(vec![ramp(&[2]).into(), ints(&[1], &[1]).into(), Value::None])),
    || Ok(Value::List(vec![Value::Str("x".into())])),
    || Ok(Value::Tuple(vec![list(&[1, 2]), Value::None, ramp(&[2]).into()])),
    || Ok(Value::Dict(vec![("x".into(), ramp(&[2, 2]).into()), ("é".into(), Value::Int(1))])),
    || Ok(Value::Str(String::new())),
    || Ok(Value::Str("mean".into())),
    || Ok(Value::Str("cpu".into())),
    || Ok(Value::Str("bilinear".into())),
    || Ok(Value::Str("é🔥:9".into())),
    || Ok(Value::Str("a b -> (b a)".into())),
    || Ok(Value::Str("x".repeat(5000))),
    || Ok(Value::DType(DType::F64)),
    || Ok(Value::DType(DType::I64)),
    || Ok(Value::DType(DType::QU8)),
    || Ok(Value::DType(DType::QI8)),
    || Ok(Value::Device(Device::Cpu)),
    || Ok(Value::Device(Device::Meta)),
    || Ok(Value::MemoryFormat(MemoryFormat::ChannelsLast)),
    || Ok(Value::Ellipsis),
    || Ok(Value::Slice([Some(i64::MIN), None, Some(i64::MAX)])),
    || Ok(Value::Complex(torch::Scalar::from(2.0).to_complex())),
    || Ok(Value::Generator(Generator::new())),
    || object("torch.nn.Linear", &[Value::Int(2), Value::Int(2)]),
    || object("torch.nn.ReLU", &[]),
    || called("torch.ops.quantized.linear_prepack", &[qweight(&[4, 2])?, Value::None]),
    || called("torch.ops.quantized.linear_prepack", &[ramp(&[4, 2]).into(), Value::None]),
    || called("torch.ops.quantized.linear_prepack", &[qweight(&[1 << 20, 1])?, Value::None]),
    || {
        let pairs = |a, b| list(&[a, b]);
        let args =
            [qweight(&[3, 3, 2, 2])?, Value::None, pairs(1, 1), pairs(0, 0), pairs(1, 1), Value::Int(1)];
        called("torch.ops.quantized.conv2d_prepack", &args)
    },
];

fn call(name: &str, dice: &mut Dice) -> (Vec<Value>, Vec<(String, Value)>) {
    const KEYS: &[&str] =
        &["dim", "out", "dtype", "size", "scale", "input", "weight", "bias", "groups", "n", "keepdim"];
    let one = |dice: &mut Dice, tensors: usize| {
        let from = if dice.below(10) < tensors { TENSORS } else { OTHERS };
        from[dice.below(from.len())]().unwrap_or(Value::None)
    };
    let n = dice.below(8);
    let mut args = Vec::new();
    for i in 0..n {
        let tensors = if i == 0 { 7 } else { 3 };
        args.push(if name.contains("uantize") && i < 2 && dice.below(2) == 0 {
            TENSORS[25 + dice.below(11)]().unwrap_or(Value::None)
        } else {
            one(dice, tensors)
        });
    }
    let kwargs = if dice.below(4) == 0 {
        vec![(KEYS[dice.below(KEYS.len())].to_string(), one(dice, 4))]
    } else {
        Vec::new()
    };
    (args, kwargs)
}
fn seed(name: &str, round: usize) -> Dice {
    let mixed = name
        .bytes()
        .fold(0x9e37_79b9_7f4a_7c15, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let mut d = Dice((mixed ^ (round as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95)) | 1);
    for _ in 0..4 {
        d.below(2);
    }
    d
}

#[test]
fn every_name_with_random_arguments() {
    let rounds = std::env::var("FLAMBEAU_ATTACK_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let first: usize = std::env::var("FLAMBEAU_ATTACK_AT").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let only = std::env::var("FLAMBEAU_ATTACK_ONLY").unwrap_or_default();
    let names: Vec<String> = library::names().into_iter().filter(|n| n.contains(&only)).collect();
    Calls {
        test: here!(),
        count: names.len() * rounds,
        name: &|i| format!("{} round {}", names[i / rounds], first + i % rounds),
        run: &|i| {
            let name = &names[i / rounds];
            let (args, kwargs) = call(name, &mut seed(name, first + i % rounds));
            if std::env::var_os("FLAMBEAU_ATTACK_SHOW").is_some() {
                eprintln!("{name}: {args:?} {kwargs:?}");
            }
            match library::call(name, &args, &kwargs) {
                Ok(r) => {
                    used(r);
                    None
                }
                Err(_) => None,
            }
        },
    }
    .judge();
}
