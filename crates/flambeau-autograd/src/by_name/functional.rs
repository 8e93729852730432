//! `torch.autograd.functional` by name: functions and inputs as Python gives them, one tensor or a tuple.

use super::{function, tensors};
use crate::functional::{self, JacobianOptions, ProductOptions};
use flambeau_core::dispatch::object::{Kwargs, ObjectRef};
use flambeau_core::{Error, Result, Tensor, Value, ensure};
use flambeau_library::register_function;
use flambeau_library::slots::Slots;
use std::cell::Cell;

/// A function of tensors from an object, and whether it gave a tuple.
struct Called<'a> {
    name: &'static str,
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
                    "The outputs of the user-provided function given to {} must be either a Tensor or a tuple of Tensors but the \
                     given outputs of the user-provided function has type <class '{}'>.",
                    self.name,
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
/// The inputs, and whether they are a tuple.
fn inputs(v: &Value, name: &str) -> Result<(Vec<Tensor>, bool)> {
    match v {
        Value::Tensor(_) | Value::Tuple(_) | Value::List(_) | Value::Named(_) => tensors(v),
        v => Err(Error::type_(format!(
            "The inputs given to {name} must be either a Tensor or a tuple of Tensors but the given inputs has type <class '{}'>.",
            v.type_name()
        ))),
    }
}
/// Keywords of Jacobians and Hessians.
fn keywords(s: &Slots<'_>, hint: &str) -> Result<JacobianOptions> {
    let strategy: String = s.get(5)?.unwrap_or_else(|| "reverse-mode".into());
    ensure!(
        matches!(strategy.as_str(), "forward-mode" | "reverse-mode"),
        Assertion,
        "Expected strategy to be either \"forward-mode\" or \"reverse-mode\".{hint}"
    );
    Ok(JacobianOptions {
        create_graph: s.get(2)?.unwrap_or(false),
        strict: s.get(3)?.unwrap_or(false),
        vectorize: s.get(4)?.unwrap_or(false),
        forward: strategy == "forward-mode",
    })
}
fn jacobian(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] = &["func", "inputs", "create_graph", "strict", "vectorize", "strategy"];
    let s = Slots::new("jacobian", names, args, kwargs)?;
    let hint = " Hint: If your function has more outputs than inputs, \"forward-mode\" tends to be more performant. Otherwise, prefer to \
                use \"reverse-mode\".";
    let o = keywords(&s, hint)?;
    let f = Called { name: "jacobian", f: function(s.must(0)?)?, tuple: Cell::new(false) };
    let (inputs, tuple) = inputs(s.must(1)?, "jacobian")?;
    let rows = functional::jacobian_of(&|x| f.call(x), &inputs, &o)?;
    Ok(vec![table(rows, f.tuple.get(), tuple)])
}
fn hessian(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let names: &[&str] =
        &["func", "inputs", "create_graph", "strict", "vectorize", "outer_jacobian_strategy"];
    let s = Slots::new("hessian", names, args, kwargs)?;
    let o = keywords(&s, "")?;
    let f = Called { name: "hessian", f: function(s.must(0)?)?, tuple: Cell::new(false) };
    let (inputs, tuple) = inputs(s.must(1)?, "hessian")?;
    let rows = functional::hessian_of(&|x| f.call(x), &inputs, &o)?;
    Ok(vec![table(rows, tuple, tuple)])
}
/// The products: the results of the function, and the vectors.
fn product(
    name: &'static str,
    args: &[Value],
    kwargs: &Kwargs,
    run: impl FnOnce(
        &Called<'_>,
        &[Tensor],
        Option<&[Tensor]>,
        &ProductOptions,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>)>,
    like_outputs: bool,
) -> Result<Vec<Value>> {
    let s = Slots::new(name, &["func", "inputs", "v", "create_graph", "strict"], args, kwargs)?;
    let f = Called { name, f: function(s.must(0)?)?, tuple: Cell::new(false) };
    let (inputs, tuple) = inputs(s.must(1)?, name)?;
    let (v, given) = match s.values[2] {
        None | Some(Value::None) => (None, false),
        Some(v) => {
            let (v, tuple) = tensors(v)?;
            (Some(v), tuple)
        }
    };
    let (create_graph, strict) = (s.get(3)?.unwrap_or(false), s.get(4)?.unwrap_or(false));
    let o = ProductOptions { create_graph, strict, tuples: (tuple, given) };
    let (outputs, products) = run(&f, &inputs, v.as_deref(), &o)?;
    let outputs = packed(outputs, f.tuple.get());
    let products = packed(products, if like_outputs { f.tuple.get() } else { tuple });
    Ok(vec![outputs, products])
}
fn vjp(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    product("vjp", args, kwargs, |f, x, v, o| functional::vjp_of(&|x| f.call(x), x, v, o), false)
}
fn jvp(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    product("jvp", args, kwargs, |f, x, v, o| functional::jvp_of(&|x| f.call(x), x, v, o), true)
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
    let run = |f: &Called<'_>, x: &[Tensor], v: Option<&[Tensor]>, o: &ProductOptions| {
        let (out, p) = functional::product(&|x| f.call(x), x, &vector(x, v)?, o, "vhp")?;
        Ok((vec![out], p))
    };
    product("vhp", args, kwargs, run, false)
}
fn hvp(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let run = |f: &Called<'_>, x: &[Tensor], v: Option<&[Tensor]>, o: &ProductOptions| {
        let (out, p) = functional::product(&|x| f.call(x), x, &vector(x, v)?, o, "hvp")?;
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
