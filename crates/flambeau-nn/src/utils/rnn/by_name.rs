//! The functions of `torch.nn.utils.rnn` by their documented names.

use super::*;
use flambeau_core::dispatch::CrateReg;
use flambeau_core::library::object::Kwargs;
use flambeau_core::library::register_function;

/// Arguments by the parameters' names; `None` for those left out.
struct Bound(Vec<Option<Value>>);
fn bind(name: &str, names: &[&str], required: usize, args: &[Value], kwargs: &Kwargs) -> Result<Bound> {
    let n = names.len();
    let range = if required < n { format!("from {required} to {n}") } else { n.to_string() };
    ensure!(
        args.len() <= n,
        Type,
        "{name}() takes {range} positional arguments but {} were given",
        args.len()
    );
    let mut slots: Vec<Option<Value>> = args.iter().cloned().map(Some).collect();
    slots.resize(n, None);
    for (key, v) in kwargs {
        let Some(i) = names.iter().position(|p| p == key) else {
            return Err(Error::type_(format!("{name}() got an unexpected keyword argument '{key}'")));
        };
        ensure!(slots[i].is_none(), Type, "{name}() got multiple values for argument '{key}'");
        slots[i] = Some(v.clone());
    }
    if let Some(i) = (0..required).find(|i| slots[*i].is_none()) {
        return Err(Error::type_(format!("{name}() missing 1 required positional argument: '{}'", names[i])));
    }
    Ok(Bound(slots))
}
impl Bound {
    fn value(&self, i: usize) -> &Value {
        self.0[i].as_ref().unwrap_or(&Value::None)
    }
    fn must<T: FromValue>(&self, i: usize) -> Result<T> {
        T::from_value(self.value(i))
    }
    fn or<T: FromValue>(&self, i: usize, default: T) -> Result<T> {
        self.0[i].as_ref().map_or(Ok(default), T::from_value)
    }
    fn lengths(&self, i: usize) -> Result<Tensor> {
        match self.value(i) {
            Value::Tensor(t) => t.lengths(),
            other => {
                let all: Vec<f64> = FromValue::from_value(other)?;
                all.iter().map(|n| *n as i64).collect::<Vec<_>>().lengths()
            }
        }
    }
    /// Tensors of a list, or the parts of one tensor.
    fn sequences(&self, i: usize, name: &str) -> Result<Vec<Tensor>> {
        match self.value(i) {
            Value::Tensor(t) => ops::unbind(t, 0),
            v if v.items().is_some() => FromValue::from_value(v),
            other => Err(Error::runtime(format!(
                "{name}: Expected iterable for input sequences, but got arg of type: <class '{}'>",
                other.type_name()
            ))),
        }
    }
}

fn one(v: impl IntoValue) -> Result<Vec<Value>> {
    Ok(vec![v.into_value()])
}
fn packed(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let a = bind(CLASS, &FIELDS, 1, args, kwargs)?;
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
    let a = bind("invert_permutation", &["permutation"], 1, args, kwargs)?;
    let given: Option<Tensor> = a.must(0)?;
    one(given.map(|p| try_invert_permutation(&p)).transpose()?)
}
fn pack_padded(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names = ["input", "lengths", "batch_first", "enforce_sorted"];
    let a = bind("pack_padded_sequence", &names, 2, args, kwargs)?;
    one(try_pack_padded_sequence(&a.must(0)?, &a.lengths(1)?, a.or(2, false)?, a.or(3, true)?)?)
}
fn pad_packed(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names = ["sequence", "batch_first", "padding_value", "total_length"];
    let a = bind("pad_packed_sequence", &names, 1, args, kwargs)?;
    let value = a.or(2, Scalar::Float(0.0))?;
    let (padded, lengths) = try_pad_packed_sequence(&a.must(0)?, a.or(1, false)?, value, a.or(3, None)?)?;
    Ok(vec![Value::Tensor(padded), Value::Tensor(lengths)])
}
fn pad(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names = ["sequences", "batch_first", "padding_value", "padding_side"];
    let a = bind("pad_sequence", &names, 1, args, kwargs)?;
    let side = a.or(3, "right".to_owned())?;
    let all = a.sequences(0, "pad_sequence")?;
    one(try_pad_sequence(&all, a.or(1, false)?, a.or(2, 0.0)?, &side)?)
}
fn unpad(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let a = bind("unpad_sequence", &["padded_sequences", "lengths", "batch_first"], 2, args, kwargs)?;
    one(try_unpad_sequence(&a.must(0)?, &a.lengths(1)?, a.or(2, false)?)?)
}
fn pack(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let a = bind("pack_sequence", &["sequences", "enforce_sorted"], 1, args, kwargs)?;
    one(try_pack_sequence(&a.sequences(0, "pack_sequence")?, a.or(1, true)?)?)
}
fn unpack(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let a = bind("unpack_sequence", &["packed_sequences"], 1, args, kwargs)?;
    one(try_unpack_sequence(&a.must(0)?)?)
}

fn register() {
    let all: [(&str, flambeau_core::library::NativeFn); 8] = [
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
