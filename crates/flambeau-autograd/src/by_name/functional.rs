//! `torch.autograd.functional` by name: functions and inputs as Python gives them, one tensor or a tuple.

use super::{function, tensors};
use crate::functional::{self, FunctionalOptions};
use flambeau_core::dispatch::object::{Kwargs, ObjectRef};
use flambeau_core::{Error, Result, Tensor, Value, ensure};
use flambeau_library::register_function;
use flambeau_library::slots::Slots;
use std::cell::Cell;

fn recorded(on: bool) -> FunctionalOptions {
    FunctionalOptions::new().create_graph(on)
}
/// A function of tensors from an object, and whether it gave a tuple.
struct Called<'a> {
    f: &'a ObjectRef,
    tuple: Cell<bool>,
}
impl Called<'_> {
    fn call(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let args: Vec<Value> = inputs.iter().cloned().map(Value::Tensor).collect();
        let out = self.f.call(&args, &[])?;
        let (all, tuple) = match &out[..] {
            [v @ (Value::Tensor(_) | Value::Tuple(_) | Value::List(_) | Value::Named(_))] => tensors(v)?,
            [v] => {
                return Err(Error::type_(format!(
                    "The outputs of the user-provided function must be either a Tensor or a tuple of Tensors, but the given \
                     outputs of the user-provided function has type {}.",
                    v.type_name()
                )));
            }
            many => (tensors(&Value::Tuple(many.to_vec()))?.0, true),
        };
        self.tuple.set(tuple);
        Ok(all)
    }
}
fn packed(mut all: Vec<Tensor>, tuple: bool) -> Value {
    match (tuple, all.len()) {
        (false, 1) => Value::Tensor(all.remove(0)),
        _ => Value::Tuple(all.into_iter().map(Value::Tensor).collect()),
    }
}
/// Rows per output, columns per input; those that are no tuples are left out.
fn table(rows: Vec<Vec<Tensor>>, outputs: bool, inputs: bool) -> Value {
    let mut rows: Vec<Value> = rows.into_iter().map(|r| packed(r, inputs)).collect();
    if !outputs && rows.len() == 1 { rows.remove(0) } else { Value::Tuple(rows) }
}
/// Options that change only how a result is computed are taken; those that change the result are not there yet.
fn strict(s: &Slots<'_>, at: usize, name: &str) -> Result<()> {
    ensure!(!s.get(at)?.unwrap_or(false), Missing, "torch.autograd.functional.{name} with strict=True");
    Ok(())
}

fn jacobian(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["func", "inputs", "create_graph", "strict", "vectorize", "strategy"];
    let s = Slots::new("jacobian", names, args, kwargs)?;
    strict(&s, 3, "jacobian")?;
    let f = Called { f: function(s.must(0)?)?, tuple: Cell::new(false) };
    let (inputs, tuple) = tensors(s.must(1)?)?;
    let rows = functional::try_jacobian(|x| f.call(x), &inputs, recorded(s.get(2)?.unwrap_or(false)))?;
    Ok(vec![table(rows, f.tuple.get(), tuple)])
}
fn hessian(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] =
        &["func", "inputs", "create_graph", "strict", "vectorize", "outer_jacobian_strategy"];
    let s = Slots::new("hessian", names, args, kwargs)?;
    strict(&s, 3, "hessian")?;
    let f = Called { f: function(s.must(0)?)?, tuple: Cell::new(false) };
    let (inputs, tuple) = tensors(s.must(1)?)?;
    let rows = functional::try_hessian(|x| f.call(x), &inputs, recorded(s.get(2)?.unwrap_or(false)))?;
    Ok(vec![table(rows, tuple, tuple)])
}
/// The products: the results of the function, and the vectors.
fn product(
    name: &'static str,
    args: &[Value],
    kwargs: &Kwargs,
    run: impl FnOnce(&Called<'_>, &[Tensor], Option<&[Tensor]>, bool) -> Result<(Vec<Tensor>, Vec<Tensor>)>,
    like_outputs: bool,
) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["func", "inputs", "v", "create_graph", "strict"], args, kwargs)?;
    strict(&s, 4, name)?;
    let f = Called { f: function(s.must(0)?)?, tuple: Cell::new(false) };
    let (inputs, tuple) = tensors(s.must(1)?)?;
    let v = match s.values[2] {
        None | Some(Value::None) => None,
        Some(v) => Some(tensors(v)?.0),
    };
    let (outputs, products) = run(&f, &inputs, v.as_deref(), s.get(3)?.unwrap_or(false))?;
    let outputs = packed(outputs, f.tuple.get());
    let products = packed(products, if like_outputs { f.tuple.get() } else { tuple });
    Ok(vec![outputs, products])
}
fn vjp(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    product("vjp", args, kwargs, |f, x, v, g| functional::try_vjp(|x| f.call(x), x, v, recorded(g)), false)
}
fn jvp(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    product("jvp", args, kwargs, |f, x, v, g| functional::try_jvp(|x| f.call(x), x, v, recorded(g)), true)
}
/// The vector of a product with the Hessian: 1 may be left out where the input is one number.
fn vector(x: &[Tensor], v: Option<&[Tensor]>) -> Result<Vec<Tensor>> {
    match v {
        Some(v) => Ok(v.to_vec()),
        None if x.len() == 1 && x[0].numel() == 1 => Ok(vec![crate::shorthand::ones_like(&x[0])?]),
        None => Err(Error::runtime(
            "The vector v can only be None if the input to the user-provided function is a single Tensor with a single \
             element.",
        )),
    }
}
fn vhp(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let run = |f: &Called<'_>, x: &[Tensor], v: Option<&[Tensor]>, g| {
        let (out, p) = functional::try_vhp(|x| f.call(x), x, &vector(x, v)?, recorded(g))?;
        Ok((vec![out], p))
    };
    product("vhp", args, kwargs, run, false)
}
fn hvp(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let run = |f: &Called<'_>, x: &[Tensor], v: Option<&[Tensor]>, g| {
        let (out, p) = functional::try_hvp(|x| f.call(x), x, &vector(x, v)?, recorded(g))?;
        Ok((vec![out], p))
    };
    product("hvp", args, kwargs, run, false)
}

pub(super) fn install() {
    register_function("torch.autograd.functional.jacobian", jacobian);
    register_function("torch.autograd.functional.hessian", hessian);
    register_function("torch.autograd.functional.vjp", vjp);
    register_function("torch.autograd.functional.jvp", jvp);
    register_function("torch.autograd.functional.vhp", vhp);
    register_function("torch.autograd.functional.hvp", hvp);
}
