//! Values that nobody has asked for: a capture needs sizes and dtypes, which the operators tell on the meta device.
//!
//! Above the gradients a program sees wrappers, whose elements it cannot read. So calls without side effects are put off: each result
//! gets memory, whose bytes nobody has written yet, and a twin on the meta device, of which the next call's sizes follow. A call that
//! needs values (sizes that depend on data, random numbers, a write to what was there before, a module that is called as it is) works
//! off what waits first, in order, and so sees what a run would have made.

use super::recorder::{Level, Recorder};
use flambeau_autograd::function::{self, BackwardContext, Context, Function};
use flambeau_autograd::no_grad;
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::internal::{RawTensor as _, effective, excluding};
use flambeau_core::types::keys::{Key, KeySet};
use flambeau_core::types::schema::Ty;
use flambeau_core::{Device, Error, Layout, Result, Tensor, Value, ops};
use flambeau_library::tags::{Tag, tags};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

struct Waiting {
    info: &'static OpInfo,
    args: Vec<Value>,
    results: Vec<Tensor>,
}
#[derive(Default)]
pub(crate) struct Deferred {
    waiting: Vec<Waiting>,
    /// By a tensor's number: the tensor, and the same on the meta device.
    twins: HashMap<usize, (Tensor, Tensor)>,
    /// By operator: whether its results follow from its arguments, and their sizes from those of the arguments.
    steady: HashMap<usize, bool>,
}
impl Deferred {
    /// Whether a tensor's memory is still to be written.
    pub(super) fn waits(&self, t: &Tensor) -> bool {
        let own = |w: &Waiting| w.results.iter().any(|r| r.storage().same(t.storage()));
        !t.is_wrapper() && t.layout() == Layout::Strided && self.waiting.iter().any(own)
    }
    fn is_steady(&mut self, info: &'static OpInfo) -> bool {
        *self.steady.entry(std::ptr::from_ref(info).addr()).or_insert_with(|| {
            let generator = info.schema.args.iter().any(|a| a.ty == Ty::OptGenerator);
            let depends = |t: &Tag| matches!(t, Tag::DynamicOutputShape | Tag::DataDependentOutput);
            // operators of the program's own may do anything
            !generator && tags(info.name).is_some_and(|l| !l.iter().any(depends))
        })
    }
    fn twin(&mut self, t: &Tensor) -> Option<Tensor> {
        if let Some((_, twin)) = self.twins.get(&t.id()) {
            return Some(twin.clone());
        }
        let beyond = t.key_set().without(KeySet::BACKENDS).without(KeySet::of(Key::Autograd));
        let plain = t.layout() == Layout::Strided
            && t.device() == Device::Cpu
            && !t.is_wrapper()
            && !t.is_wrapped_number()
            && beyond.0 == 0
            && !(t.is_conj() || t.is_neg() || t.is_inference());
        if !plain {
            return None;
        }
        let twin = Tensor::empty_strided_raw(t.sizes(), t.strides(), t.dtype(), Device::Meta).ok()?;
        if t.requires_grad() {
            twin.try_requires_grad_(true).ok()?;
        }
        self.twins.insert(t.id(), (t.clone(), twin.clone()));
        Some(twin)
    }
    fn twin_of(&mut self, v: &Value) -> Option<Value> {
        Some(match v {
            // a number that was made a tensor has a value of its own
            Value::Tensor(t) if t.is_wrapped_number() && !self.waits(t) => v.clone(),
            Value::Tensor(t) => Value::Tensor(self.twin(t)?),
            Value::List(l) => Value::List(l.iter().map(|v| self.twin_of(v)).collect::<Option<_>>()?),
            Value::Tuple(l) => Value::Tuple(l.iter().map(|v| self.twin_of(v)).collect::<Option<_>>()?),
            Value::Device(_) | Value::Object(_) | Value::Generator(_) | Value::Dict(_) => return None,
            v => v.clone(),
        })
    }
}

/// An argument by name.
fn argument<'a>(info: &OpInfo, args: &'a [Value], name: &str) -> Option<&'a Value> {
    args.get(info.schema.args.iter().position(|a| a.name == name)?)
}
/// Whether these arguments make the call draw random numbers, or write to statistics.
fn is_training(info: &OpInfo, args: &[Value]) -> bool {
    let flag = ["train", "training", "use_input_stats"].iter().find_map(|n| argument(info, args, n));
    let statistics = matches!(argument(info, args, "running_mean"), Some(Value::Tensor(_)));
    let random = tags(info.name).is_some_and(|l| l.contains(&Tag::NondeterministicSeeded));
    (statistics || random) && !matches!(flag, Some(Value::Bool(false)))
}
fn tensors<'a>(v: &'a Value, into: &mut Vec<&'a Tensor>) -> bool {
    match v {
        Value::Tensor(t) => into.push(t),
        Value::None => {}
        v => return v.items().is_some_and(|l| l.iter().all(|v| tensors(v, into))),
    }
    true
}
/// The tensors of a call's results; none where there are numbers.
fn all(results: &[Value]) -> Option<Vec<&Tensor>> {
    let mut found = Vec::new();
    results.iter().all(|v| tensors(v, &mut found)).then_some(found)
}
/// The same results with other tensors, in order.
fn with(v: &Value, tensors: &mut std::slice::Iter<'_, Tensor>) -> Option<Value> {
    let mut each = |l: &[Value]| l.iter().map(|v| with(v, tensors)).collect::<Option<Vec<_>>>();
    Some(match v {
        Value::List(l) => Value::List(each(l)?),
        Value::Tuple(l) => Value::Tuple(each(l)?),
        Value::Named(t) => {
            let mut t = t.clone();
            t.items = each(&t.items)?;
            Value::Named(t)
        }
        Value::Tensor(_) => Value::Tensor(tensors.next()?.clone()),
        v => v.clone(),
    })
}

/// Gives memory a history without values. Above the gradients no backward pass comes.
struct PutOff(Vec<Tensor>);
impl Function for PutOff {
    fn forward(&self, _: &mut Context, _: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(self.0.clone())
    }
    fn backward(&self, _: &BackwardContext<'_>, _: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        Err(Error::missing("a backward pass in a program that is captured above the gradients"))
    }
}
/// Memory for results that are like these.
fn memory(twins: &[&Tensor], args: &[Value]) -> Option<Vec<Tensor>> {
    let mut fresh = Vec::with_capacity(twins.len());
    for t in twins {
        let plain = t.device() == Device::Meta && t.layout() == Layout::Strided && t.storage_offset() == 0;
        if !plain || t.is_conj() || t.is_neg() || t.is_wrapper() {
            return None;
        }
        fresh.push(Tensor::empty_strided_raw(t.sizes(), t.strides(), t.dtype(), Device::Cpu).ok()?);
    }
    let wanted: Vec<usize> = (0..fresh.len()).filter(|i| twins[*i].requires_grad()).collect();
    if !wanted.is_empty() {
        let mut inputs = Vec::new();
        args.iter().for_each(|v| {
            tensors(v, &mut inputs);
        });
        let inputs: Vec<Tensor> = inputs.into_iter().filter(|t| t.requires_grad()).cloned().collect();
        let bare = wanted.iter().map(|i| fresh[*i].clone()).collect();
        for (i, t) in wanted.iter().zip(function::apply(PutOff(bare), &inputs).ok()?) {
            fresh[*i] = t;
        }
    }
    Some(fresh)
}
/// Whether a call writes to nothing but what waits itself.
fn writes_what_waits(r: &Recorder, info: &OpInfo, args: &[Value]) -> bool {
    let written = |(a, v): (&flambeau_core::types::schema::Arg, &Value)| {
        !a.mutated || matches!(v, Value::Tensor(t) if r.deferred.waits(t))
    };
    info.schema.args.iter().zip(args).all(written)
}
/// The results of a write, which are what is written to; none where that has other sizes or another history afterwards.
fn written(info: &OpInfo, args: &[Value], twins: &[Value], results: &[Value]) -> Option<Vec<Value>> {
    let pairs = args.iter().zip(twins).filter_map(|(v, twin)| match (v, twin) {
        (Value::Tensor(t), Value::Tensor(twin)) => Some((t, twin)),
        _ => None,
    });
    let pairs: Vec<(&Tensor, &Tensor)> = pairs.collect();
    let like = |(t, twin): &(&Tensor, &Tensor)| {
        t.sizes() == twin.sizes()
            && t.strides() == twin.strides()
            && t.requires_grad() == twin.requires_grad()
    };
    if !pairs.iter().all(like) || info.schema.args.iter().any(|a| a.mutated && a.kw_only) {
        return None;
    }
    let own = |v: &Value| match v {
        Value::Tensor(t) => {
            pairs.iter().find(|(_, twin)| twin.is_same(t)).map(|(t, _)| Value::Tensor((*t).clone()))
        }
        _ => None,
    };
    results.iter().map(own).collect()
}
/// The results of a call without their values, where that can be.
fn put_off(
    recorder: &Rc<RefCell<Recorder>>,
    info: &'static OpInfo,
    args: &[Value],
) -> Option<Result<Vec<Value>>> {
    const SEEN: KeySet = KeySet::of(Key::Tracer);
    if effective(KeySet::EMPTY).without(SEEN).without(KeySet::of(Key::Autograd)).0 != 0 {
        return None;
    }
    let twins = {
        let mut r = recorder.borrow_mut();
        let can = r.level == Level::Calls && !r.is_within() && r.deferred.is_steady(info);
        if !can || is_training(info, args) || !writes_what_waits(&r, info, args) {
            return None;
        }
        args.iter().map(|v| r.deferred.twin_of(v)).collect::<Option<Vec<_>>>()?
    };
    let results = excluding(SEEN, || info.call(&twins)).ok()?;
    if info.schema.mutates() {
        let values = written(info, args, &twins, &results)?;
        let waiting = Waiting { info, args: args.to_vec(), results: Vec::new() };
        recorder.borrow_mut().deferred.waiting.push(waiting);
        return Some(Ok(values));
    }
    let found = all(&results)?;
    let mut given = Vec::new();
    twins.iter().for_each(|v| {
        tensors(v, &mut given);
    });
    let views = found.iter().filter(|t| given.iter().any(|g| g.storage().same(t.storage()))).count();
    if views > 0 {
        // a view reads nothing; what gives views and more is called as it is
        return (views == found.len()).then(|| excluding(SEEN, || info.call(args)));
    }
    let fresh = memory(&found, args)?;
    let mut each = fresh.iter();
    let values = results.iter().map(|v| with(v, &mut each)).collect::<Option<Vec<_>>>()?;
    let mut r = recorder.borrow_mut();
    for (t, twin) in fresh.iter().zip(found) {
        r.deferred.twins.insert(t.id(), (t.clone(), twin.clone()));
    }
    r.deferred.waiting.push(Waiting { info, args: args.to_vec(), results: fresh });
    Some(Ok(values))
}
/// A call of a program that is captured.
pub(super) fn call(
    recorder: &Rc<RefCell<Recorder>>,
    info: &'static OpInfo,
    args: &[Value],
) -> Result<Vec<Value>> {
    if let Some(results) = put_off(recorder, info, args) {
        return results;
    }
    settle(recorder)?;
    let results = excluding(KeySet::of(Key::Tracer), || info.call(args))?;
    // what was written to may have other sizes, or another history
    let mut written = Vec::new();
    for (_, v) in info.schema.args.iter().zip(args).filter(|(a, _)| a.mutated) {
        tensors(v, &mut written);
    }
    if !written.is_empty() {
        let twins = &mut recorder.borrow_mut().deferred.twins;
        written.iter().for_each(|t| drop(twins.remove(&t.id())));
    }
    Ok(results)
}
/// Works off what was put off.
pub(super) fn settle(recorder: &Rc<RefCell<Recorder>>) -> Result<()> {
    let waiting = std::mem::take(&mut recorder.borrow_mut().deferred.waiting);
    if waiting.is_empty() {
        return Ok(());
    }
    excluding(KeySet::of(Key::Tracer), || {
        no_grad(|| {
            for w in &waiting {
                let results = w.info.call(&w.args)?;
                let found = all(&results).unwrap_or_default();
                for (to, from) in w.results.iter().zip(found) {
                    ops::copy_(to, from, false)?;
                }
            }
            Ok(())
        })
    })
}
