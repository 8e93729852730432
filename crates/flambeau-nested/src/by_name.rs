//! Functions by their documented names that are no operators.

use crate::functions::{
    JaggedOptions, NestedOptions, try_as_nested_tensor, try_masked_select, try_narrow, try_nested_rows,
    try_nested_tensor, try_nested_tensor_from_jagged,
};
use crate::ops::convert;
use flambeau_core::api::literal::from_value;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Layout, Result, Tensor, Value, ensure, ops as core};
use flambeau_library::slots::{Slots, one};
use flambeau_library::{NativeFn, register_function};

static REG: CrateReg = CrateReg { name: "flambeau-nested names", ops: &[], fills: &[register] };
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &REG;

fn register() {
    for (path, f) in FUNCTIONS {
        register_function(path, *f);
    }
}

fn options(s: &Slots<'_>, dtype: usize, layout: usize, device: usize) -> Result<NestedOptions> {
    let mut o = NestedOptions::new();
    o.dtype = s.get(dtype)?;
    o.layout = s.get(layout)?;
    o.device = s.device(device)?;
    Ok(o)
}
fn nested_tensor(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    const NAMES: &[&str] = &["tensor_list", "dtype", "layout", "device", "requires_grad", "pin_memory"];
    let s = Slots::new("nested_tensor", NAMES, a, k)?;
    let o = options(&s, 1, 2, 3)?.requires_grad(s.get(4)?.unwrap_or(false));
    ensure!(s.get::<bool>(5)? != Some(true), Missing, "pinned memory");
    let jagged = o.layout == Some(Layout::Jagged);
    let items = match s.must(0)? {
        // rows of a tensor
        Value::Tensor(t) if jagged => core::unbind(t, 0)?,
        v @ (Value::List(_) | Value::Tuple(_)) => {
            let item = |v: &Value| match v {
                Value::Tensor(t) => Ok(t.clone()),
                v => from_value(v),
            };
            v.items().unwrap_or(&[]).iter().map(item).collect::<Result<Vec<_>>>()?
        }
        _ => {
            return Err(Error::type_(
                "Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor",
            ));
        }
    };
    one(try_nested_tensor(&items, o)?)
}
fn as_nested_tensor(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("as_nested_tensor", &["ts", "dtype", "device", "layout"], a, k)?;
    let o = options(&s, 1, 3, 2)?;
    let wrong = || {
        Error::type_(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors ",
        )
    };
    match s.must(0)? {
        Value::Tensor(t) => one(try_nested_rows(t, o)?),
        v => {
            let items = v.items().ok_or_else(wrong)?;
            let tensor = |v: &Value| if let Value::Tensor(t) = v { Ok(t.clone()) } else { Err(wrong()) };
            one(try_as_nested_tensor(&items.iter().map(tensor).collect::<Result<Vec<_>>>()?, o)?)
        }
    }
}
fn narrow(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("narrow", &["tensor", "dim", "start", "length", "layout"], a, k)?;
    let t = s.tensor()?;
    let dim = i64::from_value(s.must(1)?)?;
    let (start, length) = (s.must(2)?, s.must(3)?);
    for (v, what) in [(start, "start"), (length, "length")] {
        ensure!(
            matches!(v, Value::Int(_) | Value::Tensor(_)),
            Runtime,
            "{what} must be an integer or a tensor"
        );
    }
    match s.get::<Layout>(4)?.unwrap_or(Layout::Strided) {
        Layout::Strided => match (start, length) {
            (Value::Int(start), Value::Int(length)) => {
                let all = try_as_nested_tensor(&core::unbind(&t, 0)?, NestedOptions::new())?;
                one(core::narrow(&all, dim, *start, *length)?)
            }
            _ => Err(Error::runtime("start and length must be integers for the strided layout NT impl")),
        },
        Layout::Jagged => {
            let tensor = |v: &Value| match v {
                Value::Int(n) => Tensor::from_vec_raw(vec![*n], &[1]),
                v => Tensor::from_value(v),
            };
            one(try_narrow(&t, dim, &tensor(start)?, &tensor(length)?)?)
        }
        l => Err(Error::runtime(format!(
            "Specified layout is unsupported for nested narrow: torch.{}",
            l.name()
        ))),
    }
}
fn nested_tensor_from_jagged(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    const NAMES: &[&str] = &["values", "offsets", "lengths", "jagged_dim", "min_seqlen", "max_seqlen"];
    let s = Slots::new("nested_tensor_from_jagged", NAMES, a, k)?;
    let mut o = JaggedOptions::new();
    if let Some(t) = s.get::<Tensor>(2)? {
        o = o.lengths(&t);
    }
    if let Some(d) = s.get(3)? {
        o = o.jagged_dim(d);
    }
    if let Some(n) = s.get(4)? {
        o = o.min_seqlen(n);
    }
    if let Some(n) = s.get(5)? {
        o = o.max_seqlen(n);
    }
    one(try_nested_tensor_from_jagged(&s.tensor()?, s.get::<Tensor>(1)?.as_ref(), o)?)
}
fn masked_select(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("masked_select", &["tensor", "mask"], a, k)?;
    one(try_masked_select(&s.tensor()?, &Tensor::from_value(s.must(1)?)?)?)
}
fn to_padded_tensor(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("to_padded_tensor", &["input", "padding", "output_size", "out"], a, k)?;
    let Some(padding) = s.values[1] else {
        return Err(Error::type_("to_padded_tensor() missing 1 required positional arguments: \"padding\""));
    };
    ensure!(s.get::<Tensor>(3)?.is_none(), Missing, "to_padded_tensor with out");
    let size = s.get::<Vec<i64>>(2)?;
    one(convert::to_padded_tensor(&s.tensor()?, f64::from_value(padding)?, size.as_deref())?)
}

const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("torch.nested.nested_tensor", nested_tensor),
    ("torch.nested.as_nested_tensor", as_nested_tensor),
    ("torch.nested.narrow", narrow),
    ("torch.nested.nested_tensor_from_jagged", nested_tensor_from_jagged),
    ("torch.nested.masked_select", masked_select),
    ("torch.nested.to_padded_tensor", to_padded_tensor),
    ("torch.Tensor.to_padded_tensor", to_padded_tensor),
    // nested tensors answer themselves
    ("torch.Tensor.is_nested", |a, _| {
        Ok(vec![Value::Bool(matches!(a.first(), Some(Value::Tensor(t)) if crate::is_nested(t)))])
    }),
];
