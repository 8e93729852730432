//! Containers by their documented names: of objects, which become part of the container.

use super::{ForwardArgs, ModuleObject, Run, call_module};
use crate::module::base::Base;
use crate::module::deepcopy::{Copied, Memo};
use crate::module::field::Field;
use crate::module::forward::Forward;
use crate::module::{Module, Visitor, VisitorMut};
use crate::modules::{DataParallel, ModuleDict, ModuleList, ParameterDict, ParameterList};
use crate::parameter::Parameter;
use flambeau_core::dispatch::object::{Kwargs, ObjectRef, Parameter as Keyword, bind};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Tensor, Value, ensure};
use flambeau_library::class::{CLASSES, ClassInfo, linkme};
use std::borrow::Cow;

/// A `Sequential` of modules that are known by their class only.
#[derive(Debug)]
struct Chain {
    base: Base,
    items: Vec<(String, Box<dyn Run>)>,
}
impl Chain {
    /// Names by position again, after one came or went.
    fn number(&mut self) {
        self.items.iter_mut().enumerate().for_each(|(i, (name, _))| *name = i.to_string());
    }
}
impl Module for Chain {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed("Sequential")
    }
    fn base(&self) -> Option<&Base> {
        Some(&self.base)
    }
    fn base_mut(&mut self) -> Option<&mut Base> {
        Some(&mut self.base)
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        self.items.iter().for_each(|(k, f)| f.visit_field(k, v));
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        self.items.iter_mut().try_for_each(|(k, f)| f.visit_field_mut(k, v))
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let copy = |(k, f): &(String, Box<dyn Run>)| Ok((k.clone(), f.copied_field(memo)?));
        let items = self.items.iter().map(copy).collect::<Result<_>>()?;
        Ok(Copied::new(Chain { base: self.base.copied(memo)?, items }))
    }
    fn as_run(&self) -> Option<&dyn Run> {
        Some(self)
    }
    crate::module::is_itself!();
}
impl Run for Chain {
    fn class(&self) -> &'static str {
        "Sequential"
    }
    fn child(&self, name: &str) -> Option<&dyn Run> {
        self.items.iter().find(|(k, _)| k == name).map(|(_, m)| &**m)
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let call = |now: Vec<Tensor>, (_, m): &(String, Box<dyn Run>)| {
            let args: Vec<Value> = now.into_iter().map(Value::Tensor).collect();
            let out = call_module(&**m, &args, &[])?;
            out.iter().map(flambeau_core::dispatch::value::FromValue::from_value).collect()
        };
        self.items.iter().try_fold(inputs.to_vec(), call)
    }
    /// Each layer is given what the one before gave, several results as one tuple.
    fn run_by_name(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let a = ForwardArgs::bind("Sequential", &["input"], 1, args, kwargs)?;
        self.items.iter().try_fold(vec![a.value(0).clone()], |mut now, (_, m)| {
            let input = if now.len() == 1 { now.remove(0) } else { Value::Tuple(now) };
            call_module(&**m, &[input], &[])
        })
    }
}
impl Forward<&Tensor> for Chain {
    type Output = Tensor;
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        (self as &dyn Run).forward(input)
    }
    fn try_forward(&self, input: &Tensor) -> Result<Tensor> {
        (self as &dyn Run).try_forward(input)
    }
}

macro_rules! no_forward {
    ($($t:ty, $name:literal, |$s:ident, $n:ident| $child:expr, $text:expr;)*) => {$(
        impl Run for $t {
            fn class(&self) -> &'static str {
                $name
            }
            fn child(&self, $n: &str) -> Option<&dyn Run> {
                let $s = self;
                $child
            }
            fn run(&self, _: &[Tensor]) -> Result<Vec<Tensor>> {
                Err($text)
            }
        }
    )*};
}
no_forward! {
    ModuleList<Box<dyn Run>>, "ModuleList", |s, n| s.iter().nth(n.parse().ok()?).map(|m| &**m), unimplemented("ModuleList");
    ModuleDict<Box<dyn Run>>, "ModuleDict", |s, n| s.items().find(|(k, _)| *k == n).map(|(_, m)| &**m),
        unimplemented("ModuleDict");
    ParameterList<Parameter>, "ParameterList", |_s, _n| None, Error::runtime("ParameterList should not be called.");
    ParameterDict<Parameter>, "ParameterDict", |_s, _n| None, Error::runtime("ParameterDict should not be called.");
}
fn unimplemented(class: &str) -> Error {
    Error::unsupported(format!("Module [{class}] is missing the required \"forward\" function"))
}

/// A module's object, which is empty afterwards.
fn module(v: &Value) -> Result<Box<dyn Run>> {
    match v {
        Value::Object(o) => match o.downcast::<ModuleObject>() {
            Some(m) => m.take(),
            None => Err(Error::type_(format!("{} is not a Module subclass", o.type_name()))),
        },
        other => Err(Error::type_(format!("{} is not a Module subclass", other.type_name()))),
    }
}
fn parameter(v: &Value) -> Result<Parameter> {
    match v {
        Value::Tensor(t) if t.is_parameter() => Ok(Parameter::of_leaf(t.clone())),
        Value::Tensor(t) => Parameter::try_new(t, true),
        other => Err(Error::missing(format!("a {} in a container of parameters", other.type_name()))),
    }
}
/// The one argument of most containers.
fn argument<'a>(class: &str, name: &'static str, a: &'a [Value], k: &'a Kwargs) -> Result<Option<&'a Value>> {
    let p = [Keyword { name, required: false }];
    bind(class, &p, a, k)?;
    Ok(a.first().or_else(|| k.first().map(|(_, v)| v)).filter(|v| !matches!(v, Value::None)))
}
fn items<'a>(class: &str, v: Option<&'a Value>) -> Result<&'a [Value]> {
    match v {
        None => Ok(&[]),
        Some(v) => v.items().ok_or_else(|| {
            Error::type_(format!(
                "{class}.extend should be called with an iterable, but got {}",
                v.type_name()
            ))
        }),
    }
}
/// Names and values of a dictionary or of a list of pairs.
fn entries(class: &str, v: Option<&Value>) -> Result<Vec<(String, Value)>> {
    let pair = |(j, v): (usize, &Value)| match v.items() {
        Some([Value::Str(name), item]) => Ok((name.clone(), item.clone())),
        Some(l) if l.len() != 2 => Err(Error::value(format!(
            "{class} update sequence element #{j} has length {}; 2 is required",
            l.len()
        ))),
        Some(_) => Err(Error::type_("module name should be a string")),
        None => Err(Error::type_(format!(
            "{class} update sequence element #{j} should be Iterable; is{}",
            v.type_name()
        ))),
    };
    match v {
        None => Ok(Vec::new()),
        Some(Value::Dict(d)) => Ok(d.clone()),
        Some(v) => match v.items() {
            Some(l) => l.iter().enumerate().map(pair).collect(),
            None => Err(Error::type_(format!(
                "{class}.update should be called with an iterable of key/value pairs, but got {}",
                v.type_name()
            ))),
        },
    }
}

/// Methods that change a container; `None` where there is none of that name.
pub(super) fn method(o: &ModuleObject, name: &str, args: &[Value]) -> Option<Result<Vec<Value>>> {
    let class = o.class();
    let list = matches!(class, "Sequential" | "ModuleList");
    if !list && class != "ModuleDict" {
        return None;
    }
    Some(match (name, args) {
        ("append", [v]) if list => module(v).and_then(|m| insert(o, i64::MAX, m)),
        ("insert", [Value::Int(i), v]) if list => module(v).and_then(|m| insert(o, *i, m)),
        ("extend", [v]) if list => extend(o, v),
        ("pop", [Value::Int(i)]) if list => pop(o, *i),
        ("pop", []) if class == "ModuleList" => pop(o, -1),
        ("pop", [Value::Str(key)]) if !list => o.with_mut(|m| {
            let dict = m.as_module_mut().downcast_mut::<ModuleDict<Box<dyn Run>>>().ok_or_else(other)?;
            let found = dict.remove(key).ok_or_else(|| Error::index(format!("'{key}'")))?;
            Ok(vec![Value::Object(ModuleObject::of(found))])
        }),
        ("clear", []) if !list => o.with_mut(|m| {
            m.as_module_mut().downcast_mut::<ModuleDict<Box<dyn Run>>>().ok_or_else(other)?.clear();
            Ok(vec![Value::None])
        }),
        ("update", [v]) if !list => entries("ModuleDict", Some(v)).and_then(|all| {
            let all = all.iter().map(|(n, v)| Ok((n.clone(), module(v)?))).collect::<Result<Vec<_>>>()?;
            o.with_mut(|m| {
                m.as_module_mut().downcast_mut::<ModuleDict<Box<dyn Run>>>().ok_or_else(other)?.update(all);
                Ok(vec![Value::None])
            })
        }),
        _ => return None,
    })
}
fn other() -> Error {
    Error::runtime("the container is of another type")
}
fn insert(o: &ModuleObject, at: i64, new: Box<dyn Run>) -> Result<Vec<Value>> {
    o.with_mut(|m| {
        let m = m.as_module_mut();
        if let Some(c) = m.downcast_mut::<Chain>() {
            let n = c.items.len() as i64;
            let place = if at == i64::MAX { n } else { at };
            ensure!((-n..=n).contains(&place), Index, "Index out of range: {place}");
            let place = if place < 0 { place + n } else { place } as usize;
            c.items.insert(place, (String::new(), new));
            c.number();
            return Ok(());
        }
        let l = m.downcast_mut::<ModuleList<Box<dyn Run>>>().ok_or_else(other)?;
        if at == i64::MAX {
            l.append(new);
            return Ok(());
        }
        l.insert(at, new)
    })?;
    Ok(vec![Value::Object(o.handle())])
}
fn extend(o: &ModuleObject, v: &Value) -> Result<Vec<Value>> {
    let all = match v {
        Value::Object(m) => match &m.method("__iter__", &[], &[])?[..] {
            [Value::List(l)] => l.clone(),
            _ => Vec::new(),
        },
        v => v.items().map(<[Value]>::to_vec).ok_or_else(|| {
            Error::type_(format!(
                "ModuleList.extend should be called with an iterable, but got {}",
                v.type_name()
            ))
        })?,
    };
    for m in &all {
        insert(o, i64::MAX, module(m)?)?;
    }
    Ok(vec![Value::Object(o.handle())])
}
fn pop(o: &ModuleObject, i: i64) -> Result<Vec<Value>> {
    let found = o.with_mut(|m| {
        let m = m.as_module_mut();
        let n = m.named_children().len() as i64;
        ensure!((-n..n).contains(&i), Index, "index {i} is out of range");
        match m.downcast_mut::<Chain>() {
            Some(c) => {
                let (_, m) = c.items.remove((if i < 0 { i + n } else { i }) as usize);
                c.number();
                Ok(m)
            }
            None => m.downcast_mut::<ModuleList<Box<dyn Run>>>().ok_or_else(other)?.pop(i),
        }
    })?;
    Ok(vec![Value::Object(ModuleObject::of(found))])
}

fn sequential(a: &[Value], k: &Kwargs) -> Result<ObjectRef> {
    if let Some((key, _)) = k.first() {
        return Err(Error::type_(format!(
            "Sequential.__init__() got an unexpected keyword argument '{key}'"
        )));
    }
    let items = match a {
        [Value::Dict(d)] => d.iter().map(|(n, v)| Ok((n.clone(), module(v)?))).collect::<Result<_>>()?,
        _ => a.iter().enumerate().map(|(i, v)| Ok((i.to_string(), module(v)?))).collect::<Result<_>>()?,
    };
    Ok(ModuleObject::make(Chain { base: Base::new(), items }))
}
fn data_parallel(a: &[Value], k: &Kwargs) -> Result<ObjectRef> {
    let parameter = |name| Keyword { name, required: name == "module" };
    // without GPUs PyTorch does not look at the devices either
    let p = ["module", "device_ids", "output_device", "dim"].map(parameter);
    let given = bind("DataParallel", &p, a, k)?;
    let m = module(given[0].as_ref().unwrap_or(&Value::None))?;
    Ok(ModuleObject::make(DataParallel::new(m)))
}
fn module_list(a: &[Value], k: &Kwargs) -> Result<ObjectRef> {
    let all = items("ModuleList", argument("ModuleList", "modules", a, k)?)?;
    let all = all.iter().map(module).collect::<Result<Vec<_>>>()?;
    Ok(ModuleObject::make(ModuleList::new(all)))
}
fn module_dict(a: &[Value], k: &Kwargs) -> Result<ObjectRef> {
    let all = entries("ModuleDict", argument("ModuleDict", "modules", a, k)?)?;
    let all = all.iter().map(|(n, v)| Ok((n.clone(), module(v)?))).collect::<Result<Vec<_>>>()?;
    Ok(ModuleObject::make(ModuleDict::new(all)))
}
fn parameter_list(a: &[Value], k: &Kwargs) -> Result<ObjectRef> {
    let all = items("ParameterList", argument("ParameterList", "values", a, k)?)?;
    let all = all.iter().map(parameter).collect::<Result<Vec<_>>>()?;
    Ok(ModuleObject::make(ParameterList::new(all)))
}
fn parameter_dict(a: &[Value], k: &Kwargs) -> Result<ObjectRef> {
    let given = argument("ParameterDict", "parameters", a, k)?;
    let mut all = entries("ParameterDict", given)?;
    if matches!(given, Some(Value::Dict(_))) {
        // PyTorch sorts the names of plain dictionaries
        all.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let all = all.iter().map(|(n, v)| Ok((n.clone(), parameter(v)?))).collect::<Result<Vec<_>>>()?;
    Ok(ModuleObject::make(ParameterDict::new(all)))
}

const fn optional(name: &'static str) -> Keyword {
    Keyword { name, required: false }
}
macro_rules! classes {
    ($($entry:ident, $path:literal, [$($parameter:literal)?], $make:ident;)*) => {$(
        #[linkme::distributed_slice(CLASSES)]
        #[linkme(crate = linkme)]
        static $entry: ClassInfo =
            ClassInfo { path: $path, parameters: &[$(optional($parameter))?], make: $make };
    )*};
}
classes! {
    SEQUENTIAL, "torch.nn.Sequential", [], sequential;
    DATA_PARALLEL, "torch.nn.DataParallel", ["module"], data_parallel;
    MODULE_LIST, "torch.nn.ModuleList", ["modules"], module_list;
    MODULE_DICT, "torch.nn.ModuleDict", ["modules"], module_dict;
    PARAMETER_LIST, "torch.nn.ParameterList", ["values"], parameter_list;
    PARAMETER_DICT, "torch.nn.ParameterDict", ["parameters"], parameter_dict;
}
