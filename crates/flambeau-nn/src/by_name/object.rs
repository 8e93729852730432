//! [`ModuleObject`]: a module as a value of calls by name.

use super::{Run, call_module, containers, registration};
use crate::module::state_dict::StateDict;
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::types::order::RwLock;
use flambeau_core::{DType, Error, Result, Tensor, TensorOptions, Value, ensure};
use std::any::Any;
use std::sync::Arc;

/// Attributes that a program may give any module.
const NOTES: &[&str] = &["qconfig"];

/// The object. It is empty after the module was put into another one.
pub struct ModuleObject {
    class: &'static str,
    /// The module, shared with the objects of its children.
    inner: Arc<RwLock<Option<Arc<Box<dyn Run>>>>>,
    /// Where the object's own module is in it: names of children, from the top.
    path: Vec<String>,
}
impl ModuleObject {
    /// Wraps a module.
    pub fn make(m: impl Run) -> ObjectRef {
        Self::of(Box::new(m))
    }
    /// Takes the module out, to put it into another one. Of one that is part of another, which keeps it, a module with the same
    /// parameters and buffers.
    ///
    /// # Errors
    /// It was taken before.
    pub fn take(&self) -> Result<Box<dyn Run>> {
        if !self.path.is_empty() {
            return self.with(crate::module::deepcopy::sharing);
        }
        let taken = self.inner.write().unwrap_or_else(|e| e.into_inner()).take();
        let taken = taken.ok_or_else(|| Error::runtime("the module is part of another one already"))?;
        Arc::try_unwrap(taken).map_err(|shared| {
            *self.inner.write().unwrap_or_else(|e| e.into_inner()) = Some(shared);
            in_use()
        })
    }
    /// Looks at the module.
    ///
    /// # Errors
    /// The module is part of another one.
    pub fn with<R>(&self, f: impl FnOnce(&dyn Run) -> Result<R>) -> Result<R> {
        // a handle: the module's call runs under no lock, so modes that see it may use the module as well
        let root = self.inner.read().unwrap_or_else(|e| e.into_inner()).clone();
        let Some(root) = root else {
            return Err(Error::runtime("the module is part of another one"));
        };
        let mut m: &dyn Run = &**root;
        for name in &self.path {
            m = child_of(m, name).ok_or_else(|| no_attribute(m.class(), name))?;
        }
        f(m)
    }
    /// The object of a child, if there is one of that name.
    fn child(&self, name: &str) -> Option<Value> {
        let class = self.with(|m| Ok(child_of(m, name).map(|c| c.class()))).ok()??;
        let mut path = self.path.clone();
        path.push(name.to_string());
        Some(Value::Object(ObjectRef::new(ModuleObject { class, inner: self.inner.clone(), path })))
    }
    /// `model[0]`, `model[-1]`, `model["name"]`.
    fn item(&self, key: &Value) -> Result<Vec<Value>> {
        let name = match key {
            Value::Str(_) if matches!(self.class, "ModuleList" | "ParameterList" | "Sequential") => {
                return Err(Error::type_("'str' object cannot be interpreted as an integer"));
            }
            Value::Str(s) => s.clone(),
            Value::Int(i) => {
                let n = self.with(|m| Ok(m.named_children().len()))? as i64;
                let at = if *i < 0 { i + n } else { *i };
                ensure!((0..n).contains(&at), Index, "index {i} is out of range");
                at.to_string()
            }
            other => {
                return Err(Error::type_(format!("{} indices are no {}", self.class, other.type_name())));
            }
        };
        let found = self.child(&name).or_else(|| self.attribute(&name).ok());
        found.map(|v| vec![v]).ok_or_else(|| match self.class {
            "ParameterDict" => no_attribute(self.class, &name),
            _ => Error::index(format!("'{name}'")),
        })
    }
    fn named_items(&self) -> Result<Vec<(String, Value)>> {
        let names = self.with(|m| Ok(m.named_children().into_iter().map(|(n, _)| n).collect::<Vec<_>>()))?;
        Ok(names.into_iter().filter_map(|n| Some((n.clone(), self.child(&n)?))).collect())
    }
}
/// The child of that name, if it can be called.
fn child_of<'a>(m: &'a dyn Run, name: &str) -> Option<&'a dyn Run> {
    let walked = || m.named_children().into_iter().find(|(n, _)| n == name)?.1.as_run();
    m.child(name).or_else(walked)
}
/// An argument as an attribute. A tensor that the arguments left out is an attribute too, and `None`.
fn argument_of(m: &dyn Run, name: &str) -> Option<Value> {
    let switch = match name {
        "bias" if m.option_by_name("hidden_size").is_none() => ["bias", "affine", "elementwise_affine"],
        "weight" => ["affine", "elementwise_affine", "_weight"],
        "running_mean" | "running_var" | "num_batches_tracked" => ["track_running_stats"; 3],
        _ => return m.option_by_name(name),
    };
    switch.iter().any(|s| m.option_by_name(s).is_some()).then_some(Value::None)
}
/// A state as Python has it. What stands there beside tensors goes by the last part of a name: `NAME@0`, `NAME@1` are the items of
/// a tuple `NAME`, and `NAME@dtype` is the dtype of a tensor without elements.
fn dict(entries: impl Iterator<Item = (String, Tensor)>) -> Vec<Value> {
    let mut all: Vec<(String, Value)> = Vec::new();
    for (n, t) in entries {
        match n.rsplit_once('@') {
            None => all.push((n, Value::Tensor(t))),
            Some((name, "dtype")) => all.push((name.to_string(), Value::DType(t.dtype()))),
            Some((name, _)) => match all.iter_mut().find(|(n, _)| n == name) {
                Some((_, Value::Tuple(items))) => items.push(Value::Tensor(t)),
                _ => all.push((name.to_string(), Value::Tuple(vec![Value::Tensor(t)]))),
            },
        }
    }
    vec![Value::Dict(all)]
}
/// The state that such a dictionary is.
fn state_of(d: &[(String, Value)]) -> Result<StateDict> {
    let mut all = Vec::new();
    for (n, v) in d {
        match v {
            Value::DType(t) => {
                let none = flambeau_core::ops::empty(&[0], Some(*t), None, None, None, None)?;
                all.push((format!("{n}@dtype"), none));
            }
            Value::Tuple(items) => {
                for (i, v) in items.iter().enumerate().filter(|(_, v)| !matches!(v, Value::None)) {
                    all.push((format!("{n}@{i}"), Tensor::from_value(v)?));
                }
            }
            v => all.push((n.clone(), Tensor::from_value(v)?)),
        }
    }
    Ok(all.into_iter().collect())
}
/// What Python's iterators over names and tensors give, as a list.
fn pairs(entries: impl Iterator<Item = (String, Tensor)>) -> Vec<Value> {
    let pair = |(n, t)| Value::Tuple(vec![Value::Str(n), Value::Tensor(t)]);
    vec![Value::List(entries.map(pair).collect())]
}
impl Object for ModuleObject {
    fn type_name(&self) -> &'static str {
        self.class
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        self.with(|m| call_module(m, args, kwargs))
    }
    fn attribute(&self, name: &str) -> Result<Value> {
        self.with(|m| {
            if name == "training" {
                return Ok(Value::Bool(m.is_training()));
            }
            if let Some(v) = m.attribute_by_name(name) {
                return Ok(v);
            }
            if let Some(v) = m.base().and_then(|b| b.note::<Value>(name)) {
                return Ok(v);
            }
            let parameter = m.get_parameter(name).map(|p| p.tensor().clone());
            let found = parameter.or_else(|_| m.get_buffer(name).map(|b| b.tensor().clone()));
            found.map(Value::Tensor).map_err(|_| no_attribute(self.class, name))
        })
        .or_else(|e| self.child(name).ok_or(e))
        .or_else(|e| self.with(|m| argument_of(m, name).ok_or(e)))
    }
    fn method(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        if let Some(result) = self.with(|m| Ok(m.method_by_name(name, args, kwargs)))? {
            return result;
        }
        if name == "forward" {
            return self.with(|m| m.run_by_name(args, kwargs));
        }
        if !kwargs.is_empty()
            && let Some(Value::Object(ref o)) = self.child(name)
        {
            return o.call(args, kwargs);
        }
        ensure!(kwargs.is_empty(), Missing, "{}.{name} with keywords", self.class);
        if let Some(result) = containers::method(self, name, args) {
            return result;
        }
        if let Some(result) = registration::method(self, name, args) {
            return result;
        }
        match (name, args) {
            ("__setattr__", [Value::Str(n), v]) => self.set(n, v).map(|()| Vec::new()),
            ("named_modules", []) => {
                let names =
                    self.with(|m| Ok(m.named_modules().into_iter().map(|(n, _)| n).collect::<Vec<_>>()))?;
                let one = |n: String| Some(Value::Tuple(vec![Value::Str(n.clone()), self.at(&n)?]));
                Ok(vec![Value::List(names.into_iter().filter_map(one).collect())])
            }
            ("modules", []) => {
                let names =
                    self.with(|m| Ok(m.named_modules().into_iter().map(|(n, _)| n).collect::<Vec<_>>()))?;
                Ok(vec![Value::List(names.iter().filter_map(|n| self.at(n)).collect())])
            }
            ("apply", [Value::Object(f)]) => {
                let names =
                    self.with(|m| Ok(m.named_modules().into_iter().map(|(n, _)| n).collect::<Vec<_>>()))?;
                // children before their parents
                for v in names.iter().rev().filter_map(|n| self.at(n)) {
                    f.call(&[v], &[])?;
                }
                Ok(Vec::new())
            }
            ("__getitem__", [key]) => self.item(key),
            ("__len__", []) => Ok(vec![Value::Int(self.with(|m| Ok(m.named_children().len()))? as i64)]),
            ("__iter__" | "children" | "values", []) => {
                Ok(vec![Value::List(self.named_items()?.into_iter().map(|(_, v)| v).collect())])
            }
            ("named_children" | "items", []) => {
                let pair = |(n, v)| Value::Tuple(vec![Value::Str(n), v]);
                Ok(vec![Value::List(self.named_items()?.into_iter().map(pair).collect())])
            }
            ("keys", []) => {
                Ok(vec![Value::List(self.named_items()?.into_iter().map(|(n, _)| Value::Str(n)).collect())])
            }
            ("to", [Value::DType(d)]) if !d.is_floating() && !d.is_complex() => Err(Error::type_(format!(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.{}",
                d.name()
            ))),
            ("to", [Value::Str(s)]) => {
                self.convert(TensorOptions::new().device(flambeau_core::Device::parse(s)?))
            }
            ("to", [Value::Device(d), Value::DType(t)]) => {
                self.convert(TensorOptions::new().device(*d).dtype(*t))
            }
            ("to", [Value::Tensor(t)]) => {
                self.convert(TensorOptions::new().device(t.device()).dtype(t.dtype()))
            }
            ("to", [Value::DType(d)]) => self.convert(TensorOptions::new().dtype(*d)),
            ("to", [Value::Device(d)]) => self.convert(TensorOptions::new().device(*d)),
            ("to", given) => Err(wrong_to(given)),
            ("train" | "eval", _) => self.with(|m| {
                let on = !matches!((name, args), ("eval", _) | ("train", [Value::Bool(false)]));
                m.set_training(on);
                Ok(Vec::new())
            }),
            ("half" | "bfloat16" | "float" | "double", []) => {
                let dtype = match name {
                    "half" => DType::F16,
                    "bfloat16" => DType::BF16,
                    "float" => DType::F32,
                    _ => DType::F64,
                };
                self.with_mut(|m| m.try_convert_floating(dtype).map(|()| Vec::new()))
            }
            ("requires_grad_", [] | [Value::Bool(_)]) => self.with(|m| {
                m.requires_grad_(!matches!(args, [Value::Bool(false)]));
                Ok(Vec::new())
            }),
            ("load_state_dict", [Value::Dict(d)]) => {
                let state = state_of(d)?;
                self.with(|m| Ok(vec![Value::Str(m.load_state_dict(&state)?.to_string())]))
            }
            ("zero_grad", []) => self.with(|m| {
                m.zero_grad();
                Ok(Vec::new())
            }),
            ("state_dict", []) => self.with(|m| Ok(dict(m.state_dict().into_iter()))),
            ("named_parameters", []) => self
                .with(|m| Ok(pairs(m.named_parameters().into_iter().map(|(n, p)| (n, p.tensor().clone()))))),
            ("named_buffers", []) => {
                self.with(|m| Ok(pairs(m.named_buffers().into_iter().map(|(n, b)| (n, b.tensor().clone())))))
            }
            ("buffers", []) => self.with(|m| {
                let all = m.buffers().into_iter().map(|b| Value::Tensor(b.tensor().clone()));
                Ok(vec![Value::List(all.collect())])
            }),
            ("parameters", []) => self.with(|m| {
                let all = m.parameters().into_iter().map(|p| Value::Tensor(p.tensor().clone()));
                Ok(vec![Value::List(all.collect())])
            }),
            // what is called may be a module within
            _ => match self.child(name) {
                Some(Value::Object(ref o)) => o.call(args, kwargs),
                _ => Err(no_attribute(self.class, name)),
            },
        }
    }
    fn returns_self(&self, name: &str) -> bool {
        matches!(
            name,
            "apply" | "to" | "train" | "eval" | "half" | "bfloat16" | "float" | "double" | "requires_grad_"
        )
    }
    fn repr(&self) -> String {
        self.with(|m| Ok(m.repr())).unwrap_or_else(|_| format!("<{}>", self.class))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
#[cold]
fn wrong_to(given: &[Value]) -> Error {
    let types = given.iter().map(Value::type_name).collect::<Vec<_>>().join(", ");
    Error::type_(format!(
        "to() received an invalid combination of arguments - got ({types}), but expected one of:\n * (torch.device device = None, \
         torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n \
         * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n * \
         (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n"
    ))
}
#[cold]
fn in_use() -> Error {
    Error::runtime("the module is in use: a call of it, on this thread or another, has not ended")
}
impl ModuleObject {
    /// The object of the module at a dotted path below this one.
    pub(super) fn at(&self, path: &str) -> Option<Value> {
        let mut all = self.path.clone();
        all.extend(path.split('.').filter(|p| !p.is_empty()).map(str::to_owned));
        let object = ModuleObject { class: self.class, inner: self.inner.clone(), path: all };
        let class = object.with(|m| Ok(m.class())).ok()?;
        Some(Value::Object(ObjectRef::new(ModuleObject { class, ..object })))
    }
    pub(super) fn class(&self) -> &'static str {
        self.class
    }
    /// The same object again.
    pub(super) fn handle(&self) -> ObjectRef {
        ObjectRef::new(ModuleObject { class: self.class, inner: self.inner.clone(), path: self.path.clone() })
    }
    /// [`ModuleObject::with`] of the module at a dotted path below.
    pub(super) fn inside<R>(&self, path: &str, f: impl FnOnce(&dyn Run) -> Result<R>) -> Result<R> {
        let mut below = self.path.clone();
        below.extend(path.split('.').filter(|p| !p.is_empty()).map(str::to_owned));
        ModuleObject { class: self.class, inner: self.inner.clone(), path: below }.with(f)
    }
    pub(super) fn method_to(&self, d: DType) -> Result<Vec<Value>> {
        self.convert(TensorOptions::new().dtype(d))
    }
    /// Python's `module.name = v`.
    fn set(&self, name: &str, v: &Value) -> Result<()> {
        if let Value::Object(o) = v
            && let Some(m) = o.downcast::<ModuleObject>()
        {
            let m = m.take()?;
            return self.with_mut(|own| own.register_module(name, Box::new(m)));
        }
        self.with(|m| {
            if let Some(done) = m.set_attribute_by_name(name, v) {
                return done;
            }
            if let (Value::Tensor(t), Ok(b)) = (v, m.get_buffer(name)) {
                return flambeau_autograd::no_grad(|| flambeau_core::ops::copy_(b.tensor(), t, false));
            }
            let note = NOTES.iter().find(|n| **n == name);
            let (Some(note), Some(b)) = (note, m.base()) else {
                return Err(Error::missing(format!("{}.{name} = {}", self.class, v.type_name())));
            };
            b.set_note(note, v.clone());
            Ok(())
        })
    }
    /// Whether both are handles of one module.
    pub fn is_same(&self, o: &ModuleObject) -> bool {
        Arc::ptr_eq(&self.inner, &o.inner) && self.path == o.path
    }
    /// An object of a copy with tensors of its own.
    ///
    /// # Errors
    /// Something that cannot be copied.
    pub fn deepcopy(&self) -> Result<ObjectRef> {
        let copy = self.with(|m| m.boxed_copy(&mut crate::module::deepcopy::Memo::default()))?;
        Ok(Self::of(copy))
    }
    /// The object of a module of unknown type.
    pub fn of(m: Box<dyn Run>) -> ObjectRef {
        let class = m.class();
        let inner = Arc::new(RwLock::new(Some(Arc::new(m))));
        ObjectRef::new(ModuleObject { class, inner, path: Vec::new() })
    }
    /// Puts another module in the object's place.
    ///
    /// # Errors
    /// The object is part of another module, or in use.
    pub fn put(&self, m: Box<dyn Run>) -> Result<()> {
        self.take()?;
        *self.inner.write().unwrap_or_else(|e| e.into_inner()) = Some(Arc::new(m));
        Ok(())
    }
    /// Changes the module.
    ///
    /// # Errors
    /// The object is part of another module, or in use.
    pub fn with_mut<R>(&self, f: impl FnOnce(&mut dyn Run) -> Result<R>) -> Result<R> {
        ensure!(
            self.path.is_empty(),
            Missing,
            "a change of the type of a module within another one, by name"
        );
        /// Puts the module back, however the change ends.
        struct Out<'a>(&'a ModuleObject, Option<Arc<Box<dyn Run>>>);
        impl Drop for Out<'_> {
            fn drop(&mut self) {
                *self.0.inner.write().unwrap_or_else(|e| e.into_inner()) = self.1.take();
            }
        }
        let taken = self.inner.write().unwrap_or_else(|e| e.into_inner()).take();
        ensure!(taken.is_some(), Runtime, "the module is part of another one, or in use");
        let mut out = Out(self, taken);
        match out.1.as_mut().and_then(Arc::get_mut) {
            Some(m) => f(&mut **m),
            None => Err(in_use()),
        }
    }
    fn convert(&self, o: TensorOptions) -> Result<Vec<Value>> {
        self.with_mut(|m| m.try_convert(o).map(|()| Vec::new()))
    }
}
