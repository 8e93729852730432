//! The functions of `torch.nn.utils.rnn` by their documented names.

use super::Arguments;
use crate::utils::rnn::*;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::registry::CrateReg;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::{Error, Result, Scalar, Tensor, Value, ops};
use flambeau_library::register_function;

/// Lengths of sequences: a tensor, or numbers.
fn lengths(v: &Value) -> Result<Tensor> {
    match v {
        Value::Tensor(t) => t.lengths(),
        other => {
            let all: Vec<f64> = FromValue::from_value(other)?;
            all.iter().map(|n| *n as i64).collect::<Vec<_>>().lengths()
        }
    }
}
/// Tensors of a list, or the parts of one tensor.
fn sequences(v: &Value, name: &str) -> Result<Vec<Tensor>> {
    match v {
        Value::Tensor(t) => ops::unbind(t, 0),
        v if v.items().is_some() => FromValue::from_value(v),
        other => Err(Error::runtime(format!(
            "{name}: Expected iterable for input sequences, but got arg of type: <class '{}'>",
            other.type_name()
        ))),
    }
}

fn one(v: impl IntoValue) -> Result<Vec<Value>> {
    Ok(vec![v.into_value()])
}
fn packed(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let a = Arguments::new(CLASS, &FIELDS, args, kwargs)?;
    let index = |i: usize| a.or::<Option<Tensor>>(i, None);
    let (sorted, unsorted) = (index(2)?, index(3)?);
    let (data, sizes) = match (a.value(0), index(1)?) {
        (v, Some(sizes)) => (Tensor::from_value(v)?, sizes),
        (v, None) => match v.items() {
            Some([data, sizes]) => (Tensor::from_value(data)?, Tensor::from_value(sizes)?),
            _ => return Err(Error::assertion("Expected data to be a list or tuple of length 2")),
        },
    };
    one(PackedSequence::try_new(&data, &sizes, sorted.as_ref(), unsorted.as_ref())?)
}
fn inverted(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let a = Arguments::new("invert_permutation", &["permutation"], args, kwargs)?;
    let given: Option<Tensor> = a.must(0)?;
    one(given.map(|p| try_invert_permutation(&p)).transpose()?)
}
fn pack_padded(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let a = Arguments::new(
        "pack_padded_sequence",
        &["input", "lengths", "batch_first", "enforce_sorted"],
        args,
        kwargs,
    )?;
    let o = PackPaddedSequenceOptions::new().batch_first(a.or(2, false)?).enforce_sorted(a.or(3, true)?);
    one(try_pack_padded_sequence(&a.must(0)?, &lengths(a.value(1))?, o)?)
}
fn pad_packed(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let a = Arguments::new(
        "pad_packed_sequence",
        &["sequence", "batch_first", "padding_value", "total_length"],
        args,
        kwargs,
    )?;
    let value = a.or(2, Scalar::Float(0.0))?;
    let o = PadPackedSequenceOptions {
        batch_first: a.or(1, false)?,
        padding_value: value,
        total_length: a.or(3, None)?,
    };
    let (padded, lengths) = try_pad_packed_sequence(&a.must(0)?, o)?;
    Ok(vec![Value::Tensor(padded), Value::Tensor(lengths)])
}
fn pad(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let a = Arguments::new(
        "pad_sequence",
        &["sequences", "batch_first", "padding_value", "padding_side"],
        args,
        kwargs,
    )?;
    let side = a.or(3, "right".to_owned())?;
    let all = sequences(a.value(0), "pad_sequence")?;
    let o =
        PadSequenceOptions { batch_first: a.or(1, false)?, padding_value: a.or(2, 0.0)?, padding_side: side };
    one(try_pad_sequence(&all, o)?)
}
fn unpad(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let a = Arguments::new("unpad_sequence", &["padded_sequences", "lengths", "batch_first"], args, kwargs)?;
    one(try_unpad_sequence(
        &a.must(0)?,
        &lengths(a.value(1))?,
        UnpadSequenceOptions { batch_first: a.or(2, false)? },
    )?)
}
fn pack(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let a = Arguments::new("pack_sequence", &["sequences", "enforce_sorted"], args, kwargs)?;
    let all = sequences(a.value(0), "pack_sequence")?;
    one(try_pack_sequence(&all, PackSequenceOptions { enforce_sorted: a.or(1, true)? })?)
}
fn unpack(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let a = Arguments::new("unpack_sequence", &["packed_sequences"], args, kwargs)?;
    one(try_unpack_sequence(&a.must(0)?)?)
}

fn register() {
    let all: [(&str, flambeau_library::NativeFn); 8] = [
        ("PackedSequence", packed),
        ("invert_permutation", inverted),
        ("pack_padded_sequence", pack_padded),
        ("pad_packed_sequence", pad_packed),
        ("pad_sequence", pad),
        ("unpad_sequence", unpad),
        ("pack_sequence", pack),
        ("unpack_sequence", unpack),
    ];
    for (name, f) in all {
        register_function(&format!("torch.nn.utils.rnn.{name}"), f);
    }
}
static REG: CrateReg = CrateReg { name: "flambeau-nn/utils/rnn", ops: &[], fills: &[register] };
#[linkme::distributed_slice(flambeau_core::dispatch::registry::CRATES)]
static ENTRY: &CrateReg = &REG;
