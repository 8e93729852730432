//! Checks of gradients, hooks of leaves and checkpoints of sequences by name.

use super::{function, tensors};
use crate::checkpoint::{self, CheckpointOptions, Step};
use crate::grad_fn::TensorAutogradExt as _;
use crate::gradcheck::{GradcheckOptions, try_gradcheck, try_gradgradcheck};
use flambeau_core::dispatch::object::{Kwargs, Object, ObjectRef, no_attribute};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::types::order::Mutex;
use flambeau_core::{Error, Result, Tensor, Value, ensure};
use flambeau_library::register_function;
use flambeau_library::slots::{Slots, one};
use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

/// The results of a function of tensors, given back to it where they stood.
fn called(f: &ObjectRef, all: &[Value], inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut given = inputs.iter();
    let place = |v: &Value| match v {
        Value::Tensor(_) => given.next().cloned().map_or(Value::None, Value::Tensor),
        v => v.clone(),
    };
    let args: Vec<Value> = all.iter().map(place).collect();
    match &f.call(&args, &[])?[..] {
        [v] => tensors(v).map(|t| t.0),
        many => many.iter().map(Tensor::from_value).collect(),
    }
}
fn gradcheck(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    const P: &[&str] = &[
        "func",
        "inputs",
        "eps",
        "atol",
        "rtol",
        "raise_exception",
        "nondet_tol",
        "check_undefined_grad",
        "check_grad_dtypes",
        "check_batched_grad",
        "check_batched_forward_grad",
        "check_forward_ad",
        "check_backward_ad",
        "fast_mode",
        "masked",
    ];
    let s = Slots::new("gradcheck", P, args, kwargs)?;
    let f = function(s.must(0)?)?;
    let all = match s.must(1)? {
        Value::Tensor(t) => vec![Value::Tensor(t.clone())],
        v => v.items().map_or_else(|| vec![v.clone()], <[Value]>::to_vec),
    };
    for i in [7, 8, 9, 10, 11, 12, 13, 14] {
        ensure!(
            s.values[i].is_none()
                || matches!(
                    (i, s.values[i]),
                    (7 | 12, Some(Value::Bool(true))) | (8..=11 | 13 | 14, Some(Value::Bool(false)))
                ),
            Missing,
            "gradcheck by name with {}",
            P[i]
        );
    }
    let mut o = GradcheckOptions::new();
    for (i, set) in [
        (2, GradcheckOptions::eps as fn(_, f64) -> _),
        (3, GradcheckOptions::atol),
        (4, GradcheckOptions::rtol),
        (6, GradcheckOptions::nondet_tol),
    ] {
        if let Some(v) = s.get::<f64>(i)? {
            o = set(o, v);
        }
    }
    o = o.raise_exception(s.get(5)?.unwrap_or(true));
    let inputs: Vec<Tensor> =
        all.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(t.clone()) } else { None }).collect();
    one(try_gradcheck(|x: &[Tensor]| called(f, &all, x), &inputs, o)?)
}
fn gradgradcheck(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new(
        "gradgradcheck",
        &["func", "inputs", "grad_outputs", "eps", "atol", "rtol"],
        args,
        kwargs,
    )?;
    let f = function(s.must(0)?)?;
    let (inputs, _) = tensors(s.must(1)?)?;
    let all: Vec<Value> = inputs.iter().cloned().map(Value::Tensor).collect();
    let grads = match s.values[2] {
        None | Some(Value::None) => None,
        Some(v) => Some(tensors(v)?.0),
    };
    let mut o = GradcheckOptions::new();
    for (i, set) in [
        (3, GradcheckOptions::eps as fn(_, f64) -> _),
        (4, GradcheckOptions::atol),
        (5, GradcheckOptions::rtol),
    ] {
        if let Some(v) = s.get::<f64>(i)? {
            o = set(o, v);
        }
    }
    one(try_gradgradcheck(|x: &[Tensor]| called(f, &all, x), &inputs, grads.as_deref(), o)?)
}
/// `torch.utils.checkpoint.checkpoint_sequential(functions, segments, input)`
fn sequential(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new(
        "checkpoint_sequential",
        &["functions", "segments", "input", "use_reentrant", "preserve_rng_state"],
        args,
        kwargs,
    )?;
    let list = match s.must(0)? {
        Value::Object(o) => match &o.method("__iter__", &[], &[])?[..] {
            [Value::List(l)] => l.clone(),
            _ => Vec::new(),
        },
        v => v.items().map(<[Value]>::to_vec).unwrap_or_default(),
    };
    let segments = i64::from_value(s.must(1)?)?;
    ensure!(segments != 0, Value, "integer division or modulo by zero");
    let size = list.len() as i64 / segments;
    ensure!(size != 0 || segments == 1, Value, "range() arg 3 must not be zero");
    let step = |f: &Value| -> Result<Step> {
        let f = function(f)?.clone();
        Ok(Arc::new(move |x: &Tensor| match &f.call(&[Value::Tensor(x.clone())], &[])?[..] {
            [v] => Tensor::from_value(v),
            _ => Err(Error::type_("checkpoint_sequential takes functions of one result")),
        }))
    };
    let steps = list.iter().map(step).collect::<Result<Vec<_>>>()?;
    let mut o = CheckpointOptions::new();
    if let Some(on) = s.get(3)? {
        o = o.use_reentrant(on);
    }
    if let Some(on) = s.get(4)? {
        o = o.preserve_rng_state(on);
    }
    one(checkpoint::checkpoint_sequential_with(
        &steps,
        segments.max(1) as usize,
        &Tensor::from_value(s.must(2)?)?,
        o,
    )?)
}

thread_local! {
    /// Guards of the regions that this thread is in.
    static REGIONS: RefCell<Vec<crate::saved::SavedTensorsHooksGuard>> = const { RefCell::new(Vec::new()) };
}
/// `torch.autograd.graph.save_on_cpu(pin_memory=False, device_type='cuda')`.
fn ending() -> flambeau_core::Error {
    flambeau_core::Error::runtime("save_on_cpu: the thread is ending")
}
/// Whether in pinned memory.
struct SaveOnCpu(bool);
impl Object for SaveOnCpu {
    fn type_name(&self) -> &'static str {
        "save_on_cpu"
    }
    fn method(&self, name: &str, _: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        match name {
            "__enter__" => {
                let guard =
                    crate::saved::save_on_cpu_with(crate::saved::SaveOnCpuOptions::new().pin_memory(self.0));
                REGIONS.try_with(|r| r.borrow_mut().push(guard)).map_err(|_| ending())?;
            }
            "__exit__" => drop(REGIONS.try_with(|r| r.borrow_mut().pop()).map_err(|_| ending())?),
            _ => return Err(no_attribute("save_on_cpu", name)),
        }
        Ok(vec![Value::None])
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn save_on_cpu(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    ensure!(
        args.len() <= 2,
        Type,
        "save_on_cpu.__init__() takes from 1 to 3 positional arguments but {} were given",
        args.len() + 1
    );
    let s = Slots::new("save_on_cpu.__init__", &["pin_memory", "device_type"], args, kwargs)?;
    Ok(vec![Value::Object(ObjectRef::new(SaveOnCpu(s.get(0)?.unwrap_or(false))))])
}

/// The handle of a hook.
struct Handle(Mutex<Option<crate::hooks::RemovableHandle>>);
impl Object for Handle {
    fn type_name(&self) -> &'static str {
        "RemovableHandle"
    }
    fn method(&self, name: &str, args: &[Value], _: &Kwargs) -> Result<Vec<Value>> {
        match (name, args) {
            ("remove", []) => {
                if let Some(h) = self.0.lock().unwrap_or_else(|e| e.into_inner()).take() {
                    h.remove();
                }
                Ok(vec![Value::None])
            }
            _ => Err(no_attribute("RemovableHandle", name)),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn post_accumulate(args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    let s = Slots::new("register_post_accumulate_grad_hook", &["self", "hook"], args, kwargs)?;
    let f = function(s.must(1)?)?.clone();
    let t = s.tensor()?;
    let handle = t.register_fallible_post_accumulate_grad_hook(move |t| {
        f.call(&[Value::Tensor(t.clone())], &[]).map(drop)
    })?;
    Ok(vec![Value::Object(ObjectRef::new(Handle(Mutex::new(Some(handle)))))])
}

pub(super) fn install() {
    register_function("torch.autograd.gradcheck", gradcheck);
    register_function("torch.autograd.gradcheck.gradcheck", gradcheck);
    register_function("torch.autograd.gradgradcheck", gradgradcheck);
    register_function("torch.autograd.gradcheck.gradgradcheck", gradgradcheck);
    register_function("torch.utils.checkpoint.checkpoint_sequential", sequential);
    register_function("torch.autograd.graph.save_on_cpu", save_on_cpu);
    register_function("torch.Tensor.register_post_accumulate_grad_hook", post_accumulate);
}
