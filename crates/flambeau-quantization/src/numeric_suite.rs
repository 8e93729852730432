//! What a quantized model makes of its inputs beside the float model that it comes from (`torch.ao.ns._numeric_suite`): results
//! of layers that belong together, and their weights.
//!
//! ```
//! use torch::ao::ns::numeric_suite::{Activations, get_logger_dict, get_matching_activations, prepare_model_outputs};
//! use torch::ao::quantization as q;
//! use torch::{nn, prelude::*};
//!
//! let mut float = nn::Sequential::new((q::Stub::quant(), nn::Linear::new(4, 3), q::Stub::dequant()));
//! float.eval();
//! let x = torch::rand([10, 4]);
//! q::set_qconfig(&float, Some(q::get_default_qconfig("x86")));
//! let prepared = q::prepare(&float);
//! prepared.call(&x);
//! let mut quantized = q::convert(&prepared);
//! prepare_model_outputs(&mut float, &mut quantized);
//! float.call(&x);
//! quantized.call(&x);
//! let pairs: Activations = get_matching_activations(&float, &quantized);
//! let (name, (of_float, of_quantized)) = &pairs[1];
//! assert_eq!((name.as_str(), of_float.len(), of_quantized.len()), ("1.stats", 1, 1));
//! assert!(get_logger_dict(&quantized).iter().any(|(n, _)| n == "1.stats"));
//! ```
//!
//! Each layer beside the float one:
//!
//! ```
//! use torch::ao::ns::numeric_suite::{LoggerKind, get_logger_dict, prepare_model_with_stubs};
//! use torch::ao::quantization as q;
//! use torch::{nn, prelude::*};
//!
//! let float = nn::Sequential::new((q::Stub::quant(), nn::Linear::new(4, 3), q::Stub::dequant()));
//! float.eval();
//! q::set_qconfig(&float, Some(q::get_default_qconfig("x86")));
//! let (x, prepared) = (torch::rand([10, 4]), q::prepare(&float));
//! prepared.call(&x);
//! let mut quantized = q::convert(&prepared);
//! prepare_model_with_stubs(&float, &mut quantized, &["Linear".into()], LoggerKind::Pairs);
//! quantized.call(&x);
//! let (_, stats) = &get_logger_dict(&quantized)[0];
//! assert_eq!(stats.iter().map(|(n, _)| *n).collect::<Vec<_>>(), ["float", "quantized"]);
//! ```

use crate::flow;
use crate::nn::conv::Conv;
use crate::nn::embedding::Embedding;
use crate::nn::float_functional::Functional;
use crate::nn::layer::{Layer, LayerKind};
use crate::nn::linear::{Linear, forward_of, itself};
use crate::nn::recurrent::Recurrent;
use crate::stubs::{Fused, call};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::FromValue as _;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_nn::internal::{Copied, Memo, Run, visit_all_mut};
use flambeau_nn::{Base, Buffer, Field as _, Forward, Module, Parameter, Visitor, VisitorMut};
use std::any::Any;
use std::borrow::Cow;

/// What a logger keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoggerKind {
    /// Nothing (`Logger`).
    Nothing,
    /// Each input (`OutputLogger`).
    Outputs,
    /// Pairs of a quantized and a float result (`ShadowLogger`).
    Pairs,
}
/// What was kept, under PyTorch's names: `tensor_val`, or `float` and `quantized`.
pub type Stats = Vec<(&'static str, Vec<Tensor>)>;
/// A module that keeps what it sees: `Logger`, `OutputLogger`, `ShadowLogger`.
#[derive(Debug)]
#[doc(alias = "torch.ao.ns._numeric_suite.Logger")]
#[doc(alias = "torch.ao.ns._numeric_suite.OutputLogger")]
#[doc(alias = "torch.ao.ns._numeric_suite.ShadowLogger")]
pub struct Logger {
    base: Base,
    kind: LoggerKind,
    stats: Mutex<Stats>,
}
impl Logger {
    /// Of a kind.
    pub fn new(kind: LoggerKind) -> Logger {
        let names: &[&str] = match kind {
            LoggerKind::Nothing => &[],
            LoggerKind::Outputs => &["tensor_val"],
            LoggerKind::Pairs => &["float", "quantized"],
        };
        let stats = names.iter().map(|n| (*n, Vec::new())).collect();
        Logger { base: Base::new(), kind, stats: Mutex::new(stats) }
    }
    /// What was kept so far.
    pub fn stats(&self) -> Stats {
        self.stats.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
    fn keep(&self, name: &str, t: Tensor) {
        let mut stats = self.stats.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((_, list)) = stats.iter_mut().find(|(n, _)| *n == name) {
            list.push(t);
        }
    }
    /// Keeps what its kind keeps: nothing (`Logger`) or the input, which it gives (`OutputLogger`), of one tensor; of two a
    /// quantized result and the float one that belongs to it (`ShadowLogger`).
    ///
    /// # Errors
    /// Another number of tensors than the kind takes.
    #[doc(alias = "torch.ao.ns._numeric_suite.Logger.forward")]
    #[doc(alias = "torch.ao.ns._numeric_suite.OutputLogger.forward")]
    #[doc(alias = "torch.ao.ns._numeric_suite.ShadowLogger.forward")]
    pub fn try_log(&self, inputs: &[Tensor]) -> Result<Option<Tensor>> {
        Ok(self.run(inputs)?.into_iter().next())
    }
    /// Keeps a quantized result and the float one that belongs to it; of several rows the first.
    ///
    /// # Errors
    /// Tensors without dimensions.
    pub(crate) fn pair(&self, quantized: &Tensor, float: &Tensor) -> Result<()> {
        let first = |t: &Tensor| -> Result<Tensor> {
            let rows = t.sizes().first().copied();
            let rows = rows.ok_or_else(|| Error::type_("len() of a 0-d tensor"))?;
            let t = if rows > 1 { flambeau_core::ops::select(t, 0, 0)? } else { t.clone() };
            Ok(t.alias_detached())
        };
        self.keep("quantized", first(quantized)?);
        self.keep("float", first(float)?);
        Ok(())
    }
    fn compute(&self, x: &Tensor) -> Result<Tensor> {
        self.keep("tensor_val", x.clone());
        Ok(x.clone())
    }
}
forward_of!(Logger);
impl Module for Logger {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.class())
    }
    fn visit<'a>(&'a self, _: &mut dyn Visitor<'a>) {}
    fn visit_mut(&mut self, _: &mut dyn VisitorMut) -> Result<()> {
        Ok(())
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let stats = Mutex::new(self.stats());
        Ok(Copied::new(Logger { base: self.base.copied(memo)?, kind: self.kind, stats }))
    }
    itself!();
}
impl Run for Logger {
    fn class(&self) -> &'static str {
        match self.kind {
            LoggerKind::Nothing => "Logger",
            LoggerKind::Outputs => "OutputLogger",
            LoggerKind::Pairs => "ShadowLogger",
        }
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        match (self.kind, inputs) {
            (LoggerKind::Nothing, [_]) => Ok(Vec::new()),
            (LoggerKind::Outputs, [x]) => Ok(vec![self.compute(x)?]),
            (LoggerKind::Pairs, [q, f]) => self.pair(q, f).map(|()| Vec::new()),
            _ => Err(Error::type_(format!("{}.forward(): wrong number of tensors", self.class()))),
        }
    }
    fn attribute_by_name(&self, name: &str) -> Option<Value> {
        (name == "stats").then(|| stats_value(self.stats()))
    }
}
/// As Python has it.
pub(crate) fn stats_value(stats: Stats) -> Value {
    let list = |l: Vec<Tensor>| Value::List(l.into_iter().map(Value::Tensor).collect());
    Value::Dict(stats.into_iter().map(|(n, l)| (n.to_string(), list(l))).collect())
}

/// A quantized layer, and beside it the float layer that it comes from: gives the results of the first, and a logger both.
#[derive(Debug)]
#[doc(alias = "torch.ao.ns._numeric_suite.Shadow")]
pub struct Shadow {
    base: Base,
    orig_module: Box<dyn Run>,
    shadow_module: Box<dyn Run>,
    logger: Box<dyn Run>,
}
fn plain(t: &Tensor) -> Result<Tensor> {
    if t.dtype().is_quantized() { crate::ops::dequantize(t) } else { Ok(t.clone()) }
}
impl Shadow {
    /// Of both layers.
    pub fn new(quantized: Box<dyn Run>, float: Box<dyn Run>, logger: LoggerKind) -> Shadow {
        Shadow {
            base: Base::new(),
            orig_module: quantized,
            shadow_module: float,
            logger: Box::new(Logger::new(logger)),
        }
    }
    fn logged(&self, quantized: &Tensor, float: &Tensor) -> Result<()> {
        self.logger.run(&[quantized.clone(), float.clone()]).map(drop)
    }
    fn compute(&self, x: &Tensor) -> Result<Tensor> {
        let y = call(&*self.orig_module, x)?;
        let shadow = call(&*self.shadow_module, &plain(x)?)?;
        self.logged(&y, &shadow)?;
        Ok(y)
    }
    /// The quantized layer's results; the logger keeps them and those of the float layer.
    ///
    /// # Errors
    /// Those of the layers.
    #[doc(alias = "torch.ao.ns._numeric_suite.Shadow.forward")]
    pub fn try_shadow(&self, x: &Tensor) -> Result<Tensor> {
        self.compute(x)
    }
    fn tensor(&self, name: &str, args: &[Value]) -> Result<Tensor> {
        Tensor::from_value(self.operator(name, args, &[])?.first().unwrap_or(&Value::None))
    }
    /// An operator of `FloatFunctional` on both sides: `add`, `mul`, `add_relu`, `cat` or one with a number.
    fn operator(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let both =
            [&self.orig_module, &self.shadow_module].map(|m| m.as_module().downcast_ref::<Functional>());
        let [Some(q), Some(f)] = both else {
            let class = self.orig_module.class();
            return Err(Error::attribute(format!("'{class}' object has no attribute '{name}'")));
        };
        let floats = |v: &Value| -> Result<Value> {
            Ok(match v {
                Value::Tensor(t) => Value::Tensor(plain(t)?),
                Value::List(l) => Value::List(
                    l.iter()
                        .map(|v| plain(&Tensor::from_value(v)?).map(Value::Tensor))
                        .collect::<Result<_>>()?,
                ),
                other => other.clone(),
            })
        };
        let of = |m: &Functional, args: &[Value]| {
            let none = || Err(Error::attribute(format!("'{}' object has no attribute '{name}'", m.class())));
            m.method_by_name(name, args, kwargs).unwrap_or_else(none)
        };
        let y = of(q, args)?;
        let shadow = of(f, &args.iter().map(floats).collect::<Result<Vec<_>>>()?)?;
        let tensor = |v: &[Value]| Tensor::from_value(v.first().unwrap_or(&Value::None));
        self.logged(&tensor(&y)?, &tensor(&shadow)?)?;
        Ok(y)
    }
}
macro_rules! of_both {
    ($($(#[$doc:meta])* $name:ident, $python:literal, $($x:ident: $t:ty),+ => [$($v:expr),+];)*) => {
        impl Shadow {$(
            $(#[$doc])*
            /// Of a shadow of two `FloatFunctional`s.
            ///
            /// # Errors
            /// Layers of other classes; tensors that do not fit.
            pub fn $name(&self, $($x: $t),+) -> Result<Tensor> {
                self.tensor($python, &[$($v),+])
            }
        )*}
    };
}
fn of(t: &Tensor) -> Value {
    Value::Tensor(t.clone())
}
of_both! {
    /// The sum, on both sides.
    #[doc(alias = "torch.ao.ns._numeric_suite.Shadow.add")]
    try_add, "add", x: &Tensor, y: &Tensor => [of(x), of(y)];
    /// The sum with a number, on both sides.
    #[doc(alias = "torch.ao.ns._numeric_suite.Shadow.add_scalar")]
    try_add_scalar, "add_scalar", x: &Tensor, y: f64 => [of(x), Value::Float(y)];
    /// The product, on both sides.
    #[doc(alias = "torch.ao.ns._numeric_suite.Shadow.mul")]
    try_mul, "mul", x: &Tensor, y: &Tensor => [of(x), of(y)];
    /// The product with a number, on both sides.
    #[doc(alias = "torch.ao.ns._numeric_suite.Shadow.mul_scalar")]
    try_mul_scalar, "mul_scalar", x: &Tensor, y: f64 => [of(x), Value::Float(y)];
    /// The tensors joined along a dimension, on both sides.
    #[doc(alias = "torch.ao.ns._numeric_suite.Shadow.cat")]
    try_cat, "cat", x: &[Tensor], dim: i64 => [Value::List(x.iter().map(of).collect()), Value::Int(dim)];
    /// The sum without what is negative, on both sides.
    #[doc(alias = "torch.ao.ns._numeric_suite.Shadow.add_relu")]
    try_add_relu, "add_relu", x: &Tensor, y: &Tensor => [of(x), of(y)];
}
forward_of!(Shadow);
impl Module for Shadow {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed("Shadow")
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        self.orig_module.visit_field("orig_module", v);
        self.shadow_module.visit_field("shadow_module", v);
        self.logger.visit_field("logger", v);
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        self.orig_module.visit_field_mut("orig_module", v)?;
        self.shadow_module.visit_field_mut("shadow_module", v)?;
        self.logger.visit_field_mut("logger", v)
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        Ok(Copied::new(Shadow {
            base: self.base.copied(memo)?,
            orig_module: self.orig_module.copied_field(memo)?,
            shadow_module: self.shadow_module.copied_field(memo)?,
            logger: self.logger.copied_field(memo)?,
        }))
    }
    itself!();
}
impl Run for Shadow {
    fn class(&self) -> &'static str {
        "Shadow"
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        match inputs {
            [x] => Ok(vec![self.try_forward(x)?]),
            _ => Err(Error::type_("Shadow.forward() takes one tensor")),
        }
    }
    fn method_by_name(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Option<Result<Vec<Value>>> {
        let mut operators = "add add_scalar mul mul_scalar cat add_relu".split(' ');
        operators.any(|o| o == name).then(|| self.operator(name, args, kwargs))
    }
}

/// Whether a module's results are compared: what has a quantized form, and that form.
fn compared(m: &dyn Module) -> bool {
    let layer = m.downcast_ref::<Layer>().is_some_and(|l| !matches!(l.kind, LayerKind::DeQuantize));
    let quantized = m.is::<Linear>() || m.is::<Conv>() || m.is::<Embedding>() || m.is::<Recurrent>();
    quantized || layer || m.is::<Fused>() || (m.named_children().is_empty() && flow::has_quantized_form(m))
}
struct Attach;
impl VisitorMut for Attach {
    fn parameter(&mut self, _: &str, _: &mut Parameter) -> Result<()> {
        Ok(())
    }
    fn buffer(&mut self, _: &str, _: &mut Buffer) -> Result<()> {
        Ok(())
    }
    fn module(&mut self, _: &str, m: &mut dyn Module) -> Result<()> {
        if compared(m) {
            return flow::observe_by(m, Box::new(Logger::new(LoggerKind::Outputs)));
        }
        visit_all_mut(m, &mut Attach)
    }
}
/// Puts loggers behind the layers of both models that can be compared, in place.
///
/// # Errors
/// Modules that take no further ones.
#[doc(alias = "torch.ao.ns._numeric_suite.prepare_model_outputs")]
#[flambeau_macros::short]
pub fn try_prepare_model_outputs(float: &mut dyn Module, quantized: &mut dyn Module) -> Result<()> {
    visit_all_mut(float, &mut Attach)?;
    visit_all_mut(quantized, &mut Attach)
}
/// What the loggers of a model kept, by the path of the module that they stand in and `stats`.
#[doc(alias = "torch.ao.ns._numeric_suite.get_logger_dict")]
pub fn get_logger_dict(m: &dyn Module) -> Vec<(String, Stats)> {
    fn go(m: &dyn Module, prefix: &str, out: &mut Vec<(String, Stats)>) {
        let at = |n: &str| if prefix.is_empty() { n.to_string() } else { format!("{prefix}.{n}") };
        let children = m.named_children();
        if let Some(l) = children.iter().find_map(|(_, c)| c.downcast_ref::<Logger>()) {
            out.push((at("stats"), l.stats()));
        }
        for (n, c) in children {
            go(c, &at(&n), out);
        }
    }
    let mut out = Vec::new();
    go(m, "", &mut out);
    out
}
/// The name among `names` that belongs to a name with such an end.
pub(crate) fn find_match<'a>(names: &[&'a str], key: &str, end: &str) -> Option<&'a str> {
    let parts: Vec<&str> = key.split('.').collect();
    if parts.last() != Some(&end) {
        return None;
    }
    // without the last parts, and without points
    let without = |name: &str, n: usize| {
        let parts: Vec<&str> = name.split('.').collect();
        parts[..parts.len().saturating_sub(n)].concat()
    };
    let find = |want: String| names.iter().find(|n| without(n, 1) == want || without(n, 2) == want).copied();
    find(without(key, 1)).or_else(|| {
        let shorter = without(key, 2);
        if end == "_packed_params" && !shorter.is_empty() { find(shorter) } else { None }
    })
}
/// Results of layers that belong together.
pub type Activations = Vec<(String, (Vec<Tensor>, Vec<Tensor>))>;
/// The results that loggers kept, by the path in the quantized model: those of the float model and its own.
#[doc(alias = "torch.ao.ns._numeric_suite.get_matching_activations")]
pub fn get_matching_activations(float: &dyn Module, quantized: &dyn Module) -> Activations {
    let (f, q) = (get_logger_dict(float), get_logger_dict(quantized));
    let mut names: Vec<&str> = f.iter().map(|(n, _)| n.as_str()).collect();
    names.sort_unstable();
    names.reverse();
    let values = |s: &Stats| s.iter().find(|(n, _)| *n == "tensor_val").map(|(_, l)| l.clone());
    let mut out = Vec::new();
    for (name, stats) in &q {
        let Some(own) = values(stats).filter(|l| !l.is_empty()) else { continue };
        let Some(of) = find_match(&names, name, "stats") else { continue };
        let theirs = f.iter().find(|(n, _)| n == of).and_then(|(_, s)| values(s)).unwrap_or_default();
        out.push((name.clone(), (theirs, own)));
    }
    out
}
fn classes(m: &dyn Module) -> Vec<String> {
    m.named_modules().iter().map(|(_, m)| m.type_name().into_owned()).collect()
}
/// Puts a shadow in the place of each quantized layer that comes from a float layer of one of these classes, in place.
///
/// # Errors
/// Layers that cannot be copied, or stand in fields of one type.
#[doc(alias = "torch.ao.ns._numeric_suite.prepare_model_with_stubs")]
#[flambeau_macros::short]
pub fn try_prepare_model_with_stubs(
    float: &dyn Module,
    quantized: &mut dyn Module,
    module_swap_list: &[String],
    logger: LoggerKind,
) -> Result<()> {
    let mut paths: Vec<String> = Vec::new();
    fn go(f: &dyn Module, q: &dyn Module, list: &[String], prefix: &str, out: &mut Vec<String>) {
        let floats = f.named_children();
        for (n, m) in q.named_children() {
            let Some((_, float)) = floats.iter().find(|(name, _)| *name == n) else { continue };
            let path = if prefix.is_empty() { n } else { format!("{prefix}.{n}") };
            let listed = float.as_run().is_some_and(|r| list.iter().any(|c| c == r.class()));
            if !listed {
                go(*float, m, list, &path, out);
            } else if classes(*float) != classes(m) {
                out.push(path);
            }
        }
    }
    go(float, quantized, module_swap_list, "", &mut paths);
    for path in paths {
        let find = |m: &dyn Module| {
            let named = m.named_modules();
            let found = named.iter().find(|(n, _)| *n == path).map(|(_, m)| flow::copy(*m));
            found.unwrap_or_else(|| Err(Error::runtime("no such module")))
        };
        let shadow = Shadow::new(find(quantized)?, find(float)?, logger);
        flow::put(quantized, &path, Box::new(shadow))?;
    }
    Ok(())
}
