//! Averaged models and their functions by their documented names.

use crate::swa_utils::{
    AveragedModel, AveragedModelOptions, AvgFn, MultiAvgFn, get_swa_avg_fn, get_swa_multi_avg_fn,
    try_get_ema_avg_fn, try_get_ema_multi_avg_fn, update_statistics,
};
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, Parameter as Keyword, bind, no_attribute};
use flambeau_core::dispatch::registry::{CRATES, CrateReg};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Tensor, Value};
use flambeau_library::class::{CLASSES, ClassInfo, linkme};
use flambeau_library::register_function;
use flambeau_nn::internal::{ForwardArgs, Memo, ModuleObject, Run, call_module};
use std::any::Any;
use std::sync::Arc;

impl Run for AveragedModel<Box<dyn Run>> {
    fn class(&self) -> &'static str {
        "AveragedModel"
    }
    fn child(&self, name: &str) -> Option<&dyn Run> {
        (name == "module").then_some(&*self.module)
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let inputs: Vec<Value> = inputs.iter().cloned().map(Value::Tensor).collect();
        self.run_by_name(&inputs, &[])?.iter().map(Tensor::from_value).collect()
    }
    fn run_by_name(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        call_module(&*self.module, args, kwargs)
    }
    fn method_by_name(&self, name: &str, args: &[Value], kwargs: &Kwargs) -> Option<Result<Vec<Value>>> {
        (name == "update_parameters").then(|| {
            let a = ForwardArgs::of_function("AveragedModel.update_parameters", &["model"], 1, args, kwargs)?;
            module(a.value(0))?.with(|m| self.try_update_parameters(m.as_module()))?;
            Ok(Vec::new())
        })
    }
}

fn module(v: &Value) -> Result<&ModuleObject> {
    let found = match v {
        Value::Object(o) => o.downcast::<ModuleObject>(),
        _ => None,
    };
    found.ok_or_else(|| Error::type_(format!("{} is not a Module subclass", v.type_name())))
}

/// What `get_swa_avg_fn` and the like give.
enum Average {
    One(AvgFn),
    Many(MultiAvgFn),
}
impl Average {
    fn object(self) -> Result<Vec<Value>> {
        Ok(vec![Value::Object(ObjectRef::new(self))])
    }
}
/// How many models went into an average: a number or a tensor.
fn count(v: &Value) -> Result<i64> {
    match v {
        Value::Tensor(t) => t.try_item(),
        v => i64::from_value(v),
    }
}
impl Object for Average {
    fn type_name(&self) -> &'static str {
        "function"
    }
    fn call(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let names = ["averaged", "current", "num_averaged"];
        let a = ForwardArgs::of_function("averaged_model_update", &names, 3, args, kwargs)?;
        match self {
            Average::One(f) => Ok(vec![Value::Tensor(f(&a.must(0)?, &a.must(1)?, count(a.value(2))?)?)]),
            Average::Many(f) => {
                let (own, theirs): (Vec<Tensor>, Vec<Tensor>) = (a.must(0)?, a.must(1)?);
                f(&own, &theirs, count(a.value(2))?).map(|()| vec![Value::None])
            }
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
/// A count as averaging functions of programs get it.
fn counted(n: i64) -> Result<Value> {
    Ok(Value::Tensor(Tensor::scalar_raw(n)?))
}
fn one_of(f: &ObjectRef) -> AvgFn {
    if let Some(Average::One(f)) = f.downcast() {
        return f.clone();
    }
    let f = f.clone();
    Arc::new(move |own, theirs, n| {
        let given = f.call(&[Value::Tensor(own.clone()), Value::Tensor(theirs.clone()), counted(n)?], &[])?;
        Tensor::from_value(given.first().unwrap_or_else(|| Value::none()))
    })
}
fn many_of(f: &ObjectRef) -> MultiAvgFn {
    if let Some(Average::Many(f)) = f.downcast() {
        return f.clone();
    }
    let f = f.clone();
    Arc::new(move |own, theirs, n| {
        let list = |l: &[Tensor]| Value::List(l.iter().cloned().map(Value::Tensor).collect());
        f.call(&[list(own), list(theirs), counted(n)?], &[]).map(drop)
    })
}

fn averaged_model(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let given = bind("AveragedModel", &PARAMETERS, args, kwargs)?;
    let function = |i: usize| match &given[i] {
        None | Some(Value::None) => Ok(None),
        Some(Value::Object(f)) => Ok(Some(f)),
        Some(other) => Err(Error::type_(format!("'{}' object is not callable", other.type_name()))),
    };
    let mut o = AveragedModelOptions::new();
    if let Some(device) = given[1].as_ref().map_or(Ok(None), Option::from_value)? {
        o = o.device(device);
    }
    if let Some(f) = function(2)? {
        o = o.avg_fn(one_of(f));
    }
    if let Some(f) = function(3)? {
        o = o.multi_avg_fn(many_of(f));
    }
    let o = o.use_buffers(given[4].as_ref().map_or(Ok(false), bool::from_value)?);
    let model = module(given[0].as_ref().unwrap_or_else(|| Value::none()))?;
    model.with(|m| {
        let copy = m.boxed_copy(&mut Memo::default())?;
        Ok(ModuleObject::make(o.try_build_in(copy, m.as_module())?))
    })
}
const fn keyword(name: &'static str, required: bool) -> Keyword {
    Keyword { name, required }
}
static PARAMETERS: [Keyword; 5] = [
    keyword("model", true),
    keyword("device", false),
    keyword("avg_fn", false),
    keyword("multi_avg_fn", false),
    keyword("use_buffers", false),
];
#[linkme::distributed_slice(CLASSES)]
#[linkme(crate = linkme)]
static AVERAGED_MODEL: ClassInfo =
    ClassInfo { path: "torch.optim.swa_utils.AveragedModel", parameters: &PARAMETERS, make: averaged_model };

/// The only argument of the functions that make exponential averages.
fn decay(name: &str, args: &[Value], kwargs: &Kwargs) -> Result<f64> {
    Ok(ForwardArgs::of_function(name, &["decay"], 0, args, kwargs)?.get(0)?.unwrap_or(0.999))
}
fn update_bn(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let a = ForwardArgs::of_function("update_bn", &["loader", "model", "device"], 2, args, kwargs)?;
    // PyTorch looks at the model first
    let model = module(a.value(1)).map_err(|_| no_attribute(a.value(1).type_name(), "modules"))?;
    let batches = match a.value(0) {
        Value::Object(o) => {
            o.method("__iter__", &[], &[])?.first().and_then(Value::items).map(<[Value]>::to_vec)
        }
        other => other.items().map(<[Value]>::to_vec),
    };
    let batches = batches
        .ok_or_else(|| Error::type_(format!("'{}' object is not iterable", a.value(0).type_name())))?;
    let input = |v: Value| match v.items() {
        Some(parts) => Tensor::from_value(parts.first().unwrap_or_else(|| Value::none())),
        None => Tensor::from_value(&v),
    };
    let call = |m: &dyn Run, x: Tensor| call_module(m, &[Value::Tensor(x)], &[]).map(drop);
    model.with(|m| {
        update_statistics(m.as_module(), batches.into_iter().map(input), a.get(2)?, &|x| call(m, x))
    })?;
    Ok(Vec::new())
}

fn install() {
    register_function("torch.optim.swa_utils.get_swa_avg_fn", |_, _| Average::One(get_swa_avg_fn()).object());
    register_function("torch.optim.swa_utils.get_swa_multi_avg_fn", |_, _| {
        Average::Many(get_swa_multi_avg_fn()).object()
    });
    register_function("torch.optim.swa_utils.get_ema_avg_fn", |a, k| {
        Average::One(try_get_ema_avg_fn(decay("get_ema_avg_fn", a, k)?)?).object()
    });
    register_function("torch.optim.swa_utils.get_ema_multi_avg_fn", |a, k| {
        Average::Many(try_get_ema_multi_avg_fn(decay("get_ema_multi_avg_fn", a, k)?)?).object()
    });
    register_function("torch.optim.swa_utils.update_bn", update_bn);
}
static REG: CrateReg = CrateReg { name: "flambeau-optim/swa_utils", ops: &[], fills: &[install] };
#[linkme::distributed_slice(CRATES)]
#[linkme(crate = linkme)]
static LINKED: &CrateReg = &REG;
