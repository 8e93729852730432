//! Functions by their documented names that are no operators.

use crate::tensor::{is_masked_tensor, try_as_masked_tensor, try_masked_tensor};
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_library::slots::{Slots, one};
use flambeau_library::{NativeFn, register_function};

static REG: CrateReg = CrateReg { name: "flambeau-masked names", ops: &[], fills: &[register] };
#[linkme::distributed_slice(CRATES)]
static LINKED: &CrateReg = &REG;

fn register() {
    for (path, f) in FUNCTIONS {
        register_function(path, *f);
    }
}

fn tensor<'a>(v: &'a Value, what: &str) -> Result<&'a Tensor> {
    match v {
        Value::Tensor(t) => Ok(t),
        _ => Err(Error::type_(format!("{what} must be a Tensor"))),
    }
}
fn made(name: &'static str, a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["data", "mask", "requires_grad"], a, k)?;
    let (data, mask) = (s.must(0)?, s.must(1)?);
    let grad = s.get::<bool>(2)?.unwrap_or(false);
    one(Tensor::from(try_masked_tensor(tensor(data, "data")?, tensor(mask, "mask")?, grad)?))
}
fn as_masked_tensor(a: &[Value], k: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("as_masked_tensor", &["data", "mask"], a, k)?;
    let (data, mask) = (s.must(0)?, s.must(1)?);
    one(Tensor::from(try_as_masked_tensor(tensor(data, "data")?, tensor(mask, "mask")?)?))
}

const FUNCTIONS: &[(&str, NativeFn)] = &[
    ("torch.masked.masked_tensor", |a, k| made("masked_tensor", a, k)),
    ("torch.masked.MaskedTensor", |a, k| made("MaskedTensor", a, k)),
    ("torch.masked.as_masked_tensor", as_masked_tensor),
    ("torch.masked.is_masked_tensor", |a, _| {
        one(matches!(a.first(), Some(Value::Tensor(t)) if is_masked_tensor(t)))
    }),
];
