//! Transforms as objects.

use super::{constraint, distribution_of, param, size};
use crate::argument::Param;
use crate::transforms::{
    AbsTransform, AffineTransform, AnyTransform, CatTransform, ComposeTransform, CorrCholeskyTransform,
    CumulativeDistributionTransform, ExpTransform, IndependentTransform, LowerCholeskyTransform,
    PositiveDefiniteTransform, PowerTransform, ReshapeTransform, SigmoidTransform, SoftmaxTransform,
    SoftplusTransform, StackTransform, StickBreakingTransform, TanhTransform, check_levels, inverse, same,
    try_with_cache,
};
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_library::object::{Constructor, register_class};
use flambeau_library::register_constant;
use flambeau_library::slots::{Slots, one};
use std::any::Any;

/// A transform as an object.
struct TransformObject(AnyTransform);
/// The object of a transform.
pub(super) fn object(t: AnyTransform) -> ObjectRef {
    ObjectRef::new(TransformObject(t))
}
pub(super) fn of(v: &Value) -> Option<AnyTransform> {
    match v {
        Value::Object(o) => o.downcast::<TransformObject>().map(|t| t.0.clone()),
        _ => None,
    }
}
fn must(v: &Value) -> Result<AnyTransform> {
    let t = of(v).ok_or_else(|| Error::type_(format!("'{}' object is no Transform", v.type_name())))?;
    check_levels([&t])?;
    Ok(t)
}
fn list(v: &Value) -> Result<Vec<AnyTransform>> {
    let all = v.items().unwrap_or(&[]).iter().map(of).collect::<Option<Vec<_>>>();
    let all = all.ok_or_else(|| Error::assertion("All elements of tseq must be Transform instances"))?;
    check_levels(&all)?;
    Ok(all)
}
impl Object for TransformObject {
    fn type_name(&self) -> &'static str {
        self.0.name()
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let s = Slots::new("__call__", &["x"], args, kwargs)?;
        one(self.0.try_call(&s.tensor()?)?)
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        let t = &self.0;
        Ok(match name {
            "bijective" => Value::Bool(t.bijective()),
            "sign" => param(t.try_sign()?),
            "domain" => Value::Object(constraint::object(t.try_domain()?)),
            "codomain" => Value::Object(constraint::object(t.try_codomain()?)),
            "event_dim" => Value::Int(t.try_event_dim()? as i64),
            "inv" => Value::Object(object(inverse(t))),
            "parts" => match t.downcast_ref::<ComposeTransform>() {
                Some(c) => Value::List(c.parts().iter().map(|p| Value::Object(object(p.clone()))).collect()),
                None => return Err(no_attribute(t.name(), name)),
            },
            "exponent" => match t.downcast_ref::<PowerTransform>() {
                Some(p) => Value::Tensor(p.exponent().clone()),
                None => return Err(no_attribute(t.name(), name)),
            },
            _ => return Err(no_attribute(t.name(), name)),
        })
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let t = &self.0;
        let shape = |name| -> Result<Vec<i64>> {
            Vec::from_value(Slots::new(name, &["shape"], args, kwargs)?.must(0)?)
        };
        match name {
            // an attribute that is called: `t.inv(y)`
            "inv" => object(inverse(t)).call(args, kwargs),
            "__call__" => self.call(args, kwargs),
            "log_abs_det_jacobian" => {
                let s = Slots::new("log_abs_det_jacobian", &["x", "y"], args, kwargs)?;
                one(t.try_log_abs_det_jacobian(&s.tensor()?, &Tensor::from_value(s.must(1)?)?)?)
            }
            "forward_shape" => Ok(vec![size(&t.try_forward_shape(&shape("forward_shape")?)?)]),
            "inverse_shape" => Ok(vec![size(&t.try_inverse_shape(&shape("inverse_shape")?)?)]),
            "with_cache" => {
                let s = Slots::new("with_cache", &["cache_size"], args, kwargs)?;
                Ok(vec![Value::Object(object(try_with_cache(t, s.get(0)?.unwrap_or(1))?))])
            }
            "__eq__" | "__ne__" => {
                let s = Slots::new("__eq__", &["other"], args, kwargs)?;
                let equal = of(s.must(0)?).is_some_and(|o| same(&**t, &*o));
                one(equal == (name == "__eq__"))
            }
            _ => Err(no_attribute(t.name(), name)),
        }
    }
    fn repr(&self) -> String {
        self.0.to_text()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A transform of what is none: Python makes it, and fails where it is used.
struct Unfit {
    class: &'static str,
    text: String,
    why: fn(String) -> Error,
    message: String,
}
impl Unfit {
    fn object(class: &'static str, text: String, why: fn(String) -> Error, message: String) -> ObjectRef {
        ObjectRef::new(Unfit { class, text, why, message })
    }
    fn error(&self) -> Error {
        (self.why)(self.message.clone())
    }
}
impl Object for Unfit {
    fn type_name(&self) -> &'static str {
        self.class
    }
    fn call(&self, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        Err(self.error())
    }
    fn attribute(&self, _: &str) -> Result<Value> {
        Err(self.error())
    }
    fn method(&self, _: &str, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        Err(self.error())
    }
    fn repr(&self) -> String {
        self.text.clone()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn made(t: AnyTransform, s: &Slots<'_>, cache: usize) -> Result<ObjectRef> {
    Ok(object(match s.get::<i64>(cache)? {
        None | Some(0) => t,
        Some(n) => try_with_cache(&t, n)?,
    }))
}
macro_rules! plain {
    ($($name:ident),* $(,)?) => {
        [$((stringify!($name), |args, kwargs| {
            let s = Slots::new(concat!(stringify!($name), ".__init__"), &["cache_size"], args, kwargs)?;
            made($name.into(), &s, 0)
        })),*]
    };
}
const PLAIN: [(&str, Constructor); 10] = plain![
    AbsTransform,
    CorrCholeskyTransform,
    ExpTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StickBreakingTransform,
    TanhTransform,
];
fn number(s: &Slots<'_>, i: usize) -> Result<Param> {
    Param::from_value(s.must(i)?)
}
fn natural(n: Option<i64>) -> Result<usize> {
    usize::try_from(n.unwrap_or(0)).map_err(|_| Error::value("a count of dimensions is negative"))
}
fn affine(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let names: &[&str] = &["loc", "scale", "event_dim", "cache_size"];
    let s = Slots::new("AffineTransform.__init__", names, args, kwargs)?;
    let t = AffineTransform::new(number(&s, 0)?, number(&s, 1)?).with_event_dim(natural(s.get(2)?)?);
    made(t.into(), &s, 3)
}
fn power(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let s = Slots::new("PowerTransform.__init__", &["exponent", "cache_size"], args, kwargs)?;
    made(PowerTransform::try_new(&number(&s, 0)?)?.into(), &s, 1)
}
fn compose(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let s = Slots::new("ComposeTransform.__init__", &["parts", "cache_size"], args, kwargs)?;
    let given = s.must(0)?.items().unwrap_or(&[]);
    if let Some(other) = given.iter().find(|v| of(v).is_none()) {
        let texts = given.iter().map(flambeau_library::repr).collect::<Result<Vec<_>>>()?;
        let text = format!("ComposeTransform(\n    {}\n)", texts.join(",\n    "));
        let message = format!("'{}' object is not callable", other.type_name());
        return Ok(Unfit::object("ComposeTransform", text, Error::type_, message));
    }
    let parts = given.iter().map(must).collect::<Result<Vec<_>>>()?;
    made(ComposeTransform::new(parts).into(), &s, 1)
}
fn independent(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let names: &[&str] = &["base_transform", "reinterpreted_batch_ndims", "cache_size"];
    let s = Slots::new("IndependentTransform.__init__", names, args, kwargs)?;
    let (base, n) = (must(s.must(0)?)?, i64::from_value(s.must(1)?)?);
    let Ok(n) = usize::try_from(n) else {
        let text = format!("IndependentTransform({}, {n})", base.to_text());
        let message = format!("reinterpreted_batch_ndims must be >= 0, got {n}");
        return Ok(Unfit::object("IndependentTransform", text, Error::assertion, message));
    };
    made(IndependentTransform::new(base, n).into(), &s, 2)
}
fn reshape(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let s = Slots::new("ReshapeTransform.__init__", &["in_shape", "out_shape", "cache_size"], args, kwargs)?;
    let (a, b) = (Vec::<i64>::from_value(s.must(0)?)?, Vec::<i64>::from_value(s.must(1)?)?);
    made(ReshapeTransform::try_new(&a, &b)?.into(), &s, 2)
}
fn cat(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let s = Slots::new("CatTransform.__init__", &["tseq", "dim", "lengths", "cache_size"], args, kwargs)?;
    let t = CatTransform::try_new(list(s.must(0)?)?, s.get(1)?.unwrap_or(0), s.get(2)?)?;
    made(t.into(), &s, 3)
}
fn stack(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let s = Slots::new("StackTransform.__init__", &["tseq", "dim", "cache_size"], args, kwargs)?;
    made(StackTransform::new(list(s.must(0)?)?, s.get(1)?.unwrap_or(0)).into(), &s, 2)
}
fn cumulative(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let names: &[&str] = &["distribution", "cache_size"];
    let s = Slots::new("CumulativeDistributionTransform.__init__", names, args, kwargs)?;
    let given = s.must(0)?;
    let Some(d) = distribution_of(given) else {
        let message = format!("'{}' object has no attribute 'cdf'", given.type_name());
        let (class, text) =
            ("CumulativeDistributionTransform", "CumulativeDistributionTransform()".to_string());
        return Ok(Unfit::object(class, text, Error::attribute, message));
    };
    made(CumulativeDistributionTransform::new(d).into(), &s, 1)
}
const WITH_ARGUMENTS: [(&str, Constructor); 8] = [
    ("AffineTransform", affine),
    ("PowerTransform", power),
    ("ComposeTransform", compose),
    ("IndependentTransform", independent),
    ("ReshapeTransform", reshape),
    ("CatTransform", cat),
    ("StackTransform", stack),
    ("CumulativeDistributionTransform", cumulative),
];
pub(super) fn register() {
    for (name, make) in PLAIN.iter().chain(&WITH_ARGUMENTS) {
        for module in ["torch.distributions", "torch.distributions.transforms"] {
            register_class(&format!("{module}.{name}"), *make);
        }
    }
    let identity = || Value::Object(object(ComposeTransform::new([]).into()));
    register_constant("torch.distributions.identity_transform", identity);
    register_constant("torch.distributions.transforms.identity_transform", identity);
}
