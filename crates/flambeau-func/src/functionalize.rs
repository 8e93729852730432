//! Functions without writes: what writes in place becomes an operator whose result stands for the tensor from then on.
//!
//! Within the function every tensor is a wrapper around its present value. Views of one tensor share a cell with the value of
//! the whole, and know the way from it to theirs; a write through a view puts its values into the whole, and the other views
//! compute theirs anew. A mode sees the calls, so that modes outside of the function see what became of them.

use crate::tree::Tree;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::overrides::{ModeGuard, OperatorCall, push_function_mode, without_modes};
use flambeau_core::dispatch::value::{Value, arg};
use flambeau_core::dispatch::wrapper::{self, Class};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::wrapper::{Shown, Wrapped, all_slices};
use flambeau_core::types::order::Mutex;
use flambeau_core::types::schema::Ty;
use flambeau_core::{DType, Error, Result, Tensor, ensure, ops};
use std::any::Any;
use std::cell::Cell;
use std::sync::{Arc, PoisonError};

const CLASS: &str = "functional";

impl flambeau_core::api::into_arg::IntoArg<Remove> for Remove {
    fn into_arg(self) -> Remove {
        self
    }
}
/// Options of [`functionalize_with`].
#[flambeau_macros::options]
pub struct FunctionalizeOptions {
    /// What is taken out of the function. Default: its writes.
    #[default(Remove::Mutations)]
    pub(crate) remove: Remove,
}
/// What [`functionalize_with`] takes out of a function.
///
/// ```
/// use torch::func::{FunctionalizeOptions, Remove, functionalize_with};
/// use torch::prelude::*;
/// let f = |x: &Tensor| x.view([2]).add_(1.0).clone();
/// let pure = functionalize_with(f, FunctionalizeOptions::new().remove(Remove::MutationsAndViews));
/// assert_eq!(pure(&torch::tensor([[1.0], [2.0]])).to_vec::<f32>(), [2.0, 3.0]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Remove {
    /// Writes: in place, and into `out=`.
    #[default]
    Mutations,
    /// Views too, which become copies.
    MutationsAndViews,
}

thread_local! {
    static NEXT: Cell<u64> = const { Cell::new(1) };
    static VIEWS_TOO: Cell<bool> = const { Cell::new(false) };
}
/// Whether views are taken out too.
fn views_too() -> bool {
    VIEWS_TOO.try_with(Cell::get).unwrap_or(false)
}
/// Sets it, and gives what held before.
fn set_views_too(on: bool) -> bool {
    VIEWS_TOO.try_with(|v| v.replace(on)).unwrap_or(false)
}

/// A value, and how often it was replaced.
type Present = (Tensor, u64);
fn read(cell: &Mutex<Present>) -> Present {
    cell.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
fn replace(cell: &Mutex<Present>, by: Present) {
    let old = std::mem::replace(&mut *cell.lock().unwrap_or_else(PoisonError::into_inner), by);
    drop(old);
}

/// One view on the way from the whole: the call, which argument the whole is, and which of the results it gave.
#[derive(Clone)]
struct Step {
    info: &'static OpInfo,
    args: Vec<Value>,
    at: usize,
    result: usize,
}
impl Step {
    fn run(&self, whole: &Tensor) -> Result<Tensor> {
        let mut args = self.args.clone();
        args[self.at] = Value::Tensor(whole.clone());
        let found = tensors(&self.info.call(&args)?);
        found
            .get(self.result)
            .cloned()
            .ok_or_else(|| Error::runtime("functionalize: a view has another number of results"))
    }
    /// The whole with `new` in the place of the view.
    fn put(&self, whole: &Tensor, new: &Tensor) -> Result<Tensor> {
        let a = &self.args;
        let base = self.info.name.split('.').next().unwrap_or_default();
        Ok(match base.strip_suffix("_copy").unwrap_or(base) {
            "slice" => ops::slice_scatter(whole, new, arg(a, 1)?, arg(a, 2)?, arg(a, 3)?, arg(a, 4)?)?,
            "select" => ops::select_scatter(whole, new, arg(a, 1)?, arg(a, 2)?)?,
            "diagonal" => ops::diagonal_scatter(whole, new, arg(a, 1)?, arg(a, 2)?, arg(a, 3)?)?,
            // numbers lie as the elements do only where there are no gaps
            "as_strided" => {
                ensure!(
                    whole.is_contiguous(),
                    Missing,
                    "functionalize: a write through as_strided of a tensor with strides"
                );
                self.by_places(whole, new)?
            }
            "view" | "_unsafe_view" | "reshape" | "unsqueeze" | "squeeze" | "flatten" | "unflatten"
            | "view_as"
                if new.dtype() == whole.dtype() =>
            {
                ops::reshape(new, whole.sizes())?
            }
            "transpose" if views_too() => ops::transpose_copy(new, arg(a, 1)?, arg(a, 2)?)?,
            "transpose" => ops::transpose(new, arg(a, 1)?, arg(a, 2)?)?,
            "t" if views_too() => ops::t_copy(new)?,
            "t" => ops::t(new)?,
            "permute" => {
                let dims: Vec<i64> = arg(a, 1)?;
                let n = dims.len() as i64;
                let mut back = vec![0; dims.len()];
                for (to, from) in dims.iter().enumerate() {
                    back[from.rem_euclid(n) as usize] = to as i64;
                }
                if views_too() { ops::permute_copy(new, &back)? } else { ops::permute(new, &back)? }
            }
            "alias" | "detach" => new.clone(),
            _ => self.by_places(whole, new)?,
        })
    }
    /// The same for any view of whole elements: numbered elements show which of them it has.
    fn by_places(&self, whole: &Tensor, new: &Tensor) -> Result<Tensor> {
        ensure!(
            new.dtype() == whole.dtype(),
            Missing,
            "functionalize: a write through {}, which shows elements as others",
            self.info.name
        );
        let numbers = ops::arange(whole.numel().into(), Some(DType::I64), None, Some(whole.device()), None)?;
        let places = self.run(&ops::reshape(&numbers, whole.sizes())?)?;
        let flat = ops::reshape(whole, &[-1])?;
        let put = ops::scatter(&flat, 0, &ops::reshape(&places, &[-1])?, &ops::reshape(new, &[-1])?)?;
        ops::reshape(&put, whole.sizes())
    }
}

/// What a wrapper is made of.
struct Functional {
    /// Which function it belongs to; further inside is higher.
    level: u64,
    whole: Arc<Mutex<Present>>,
    way: Vec<Step>,
    /// The value at the end of the way, as of one state of the whole.
    seen: Mutex<Present>,
}
impl Functional {
    fn current(&self) -> Result<Tensor> {
        let (whole, age) = read(&self.whole);
        if self.way.is_empty() {
            return Ok(whole);
        }
        let (seen, of) = read(&self.seen);
        if of == age {
            return Ok(seen);
        }
        let now = self.way.iter().try_fold(whole, |t, s| s.run(&t))?;
        replace(&self.seen, (now.clone(), age));
        Ok(now)
    }
    fn set(&self, new: Tensor) -> Result<()> {
        let (whole, age) = read(&self.whole);
        let mut on_the_way = vec![whole];
        for s in self.way.iter().take(self.way.len().saturating_sub(1)) {
            on_the_way.push(s.run(&on_the_way[on_the_way.len() - 1])?);
        }
        let mut back = self.way.iter().zip(&on_the_way).rev();
        let whole = back.try_fold(new.clone(), |new, (s, t)| s.put(t, &new))?;
        replace(&self.whole, (whole, age + 1));
        replace(&self.seen, (new, age + 1));
        Ok(())
    }
}
impl Wrapped for Functional {
    fn class(&self) -> &'static str {
        CLASS
    }
    fn carrier(&self) -> Tensor {
        self.current().unwrap_or_else(|_| read(&self.seen).0)
    }
    fn around(&self, carrier: Tensor) -> Result<Arc<dyn Wrapped>> {
        Ok(Arc::new(whole(carrier, self.level)))
    }
    fn text(&self, _: &Tensor) -> Result<String> {
        Ok(format!("FunctionalTensor(lvl={}, value=\\\n{})", self.level, self.current()?))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
fn whole(t: Tensor, level: u64) -> Functional {
    let seen = Mutex::new((t.clone(), 0));
    Functional { level, whole: Arc::new(Mutex::new((t, 0))), way: Vec::new(), seen }
}
fn wrap(f: Functional) -> Result<Tensor> {
    let t = read(&f.seen).0;
    let shown = Shown {
        sizes: t.sizes(),
        strides: t.strides(),
        numel: t.numel(),
        contiguous: t.is_contiguous(),
        layout: t.layout(),
        dtype: t.dtype(),
        device: t.device(),
    };
    Tensor::wrap(&shown, Arc::new(f))
}
/// What the wrapper of a function at this level is made of.
fn functional(t: &Tensor, level: u64) -> Option<&Functional> {
    t.wrapped()?.as_any().downcast_ref::<Functional>().filter(|f| f.level == level)
}

/// Whether a tensor belongs to a function without writes.
pub(crate) fn is_functional(t: &Tensor) -> bool {
    t.wrapped().is_some_and(|w| w.class() == CLASS)
}

fn tensors(all: &[Value]) -> Vec<Tensor> {
    let mut found = Vec::new();
    for v in all {
        match v {
            Value::Tensor(t) => found.push(t.clone()),
            v => found.extend(v.items().map(tensors).unwrap_or_default()),
        }
    }
    found
}
fn mapped(v: &Value, f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Value> {
    let mut all = |l: &[Value]| l.iter().map(|v| mapped(v, f)).collect::<Result<Vec<_>>>();
    Ok(match v {
        Value::List(l) => Value::List(all(l)?),
        Value::Tuple(l) => Value::Tuple(all(l)?),
        Value::Tensor(t) => Value::Tensor(f(t)?),
        v => v.clone(),
    })
}
fn same_memory(a: &Tensor, b: &Tensor) -> bool {
    let (a, b) = (all_slices(a), all_slices(b));
    !a.is_wrapper() && !b.is_wrapper() && a.storage().same(b.storage())
}
/// A call within the function of this level.
fn call(info: &'static OpInfo, args: &[Value], level: u64) -> Result<Vec<Value>> {
    let given = tensors(args);
    let plain: Vec<Value> = args
        .iter()
        .map(|v| mapped(v, &mut |t| functional(t, level).map_or_else(|| Ok(t.clone()), Functional::current)))
        .collect::<Result<_>>()?;
    if !given.iter().any(|t| functional(t, level).is_some()) {
        let results = info.call(&plain)?;
        // what was made here belongs here; what is read from outside stays outside
        if given.is_empty() {
            return results.iter().map(|v| mapped(v, &mut |t| wrap(whole(t.clone(), level)))).collect();
        }
        return Ok(results);
    }
    if info.schema.mutates() { written(info, args, plain, level) } else { computed(info, args, plain, level) }
}
/// A call that writes nothing: its results, as views where they are.
fn computed(info: &'static OpInfo, args: &[Value], plain: Vec<Value>, level: u64) -> Result<Vec<Value>> {
    let copies = if views_too() { info.functional } else { None };
    let results = match copies {
        // only to learn whose memory the views have
        Some(_) => without_modes(|| info.call(&plain))?,
        None => info.call(&plain)?,
    };
    let values = copies.map(|c| c.call(&plain).map(|r| tensors(&r))).transpose()?;
    let mut number = 0;
    let mut one = |t: &Tensor| {
        let result = number;
        number += 1;
        let source = plain.iter().zip(args).enumerate().find_map(|(at, (p, a))| match (p, a) {
            (Value::Tensor(p), Value::Tensor(a)) if same_memory(p, t) => Some((at, functional(a, level)?)),
            _ => None,
        });
        let value = values.as_ref().and_then(|v| v.get(result)).unwrap_or(t).clone();
        let Some((at, f)) = source else { return wrap(whole(value, level)) };
        let mut way = f.way.clone();
        way.push(Step { info: copies.unwrap_or(info), args: plain.clone(), at, result });
        let age = read(&f.whole).1;
        wrap(Functional { level, whole: f.whole.clone(), way, seen: Mutex::new((value, age)) })
    };
    results.iter().map(|v| mapped(v, &mut one)).collect()
}
/// A call that writes: the operator that gives the result instead, or the call on copies.
fn written(info: &'static OpInfo, args: &[Value], plain: Vec<Value>, level: u64) -> Result<Vec<Value>> {
    let places: Vec<usize> =
        info.schema.args.iter().enumerate().filter(|(_, a)| a.mutated).map(|(i, _)| i).collect();
    let targets: Vec<Tensor> = places.iter().flat_map(|i| tensors(&args[*i..=*i])).collect();
    for t in &targets {
        ensure!(
            functional(t, level).is_some(),
            Runtime,
            "mutating a non-functional tensor with a functional tensor is not allowed. Please ensure that all of your inputs are \
             wrapped inside of a functionalize() call."
        );
    }
    let old = tensors(&places.iter().map(|i| plain[*i].clone()).collect::<Vec<_>>());
    for (t, new) in targets.iter().zip(results_instead(info, &plain, &places, &old)?) {
        if let Some(f) = functional(t, level) {
            f.set(new)?;
        }
    }
    // the results are the tensors that were written
    Ok(info.schema.returns.iter().zip(&places).map(|(_, i)| args[*i].clone()).collect())
}

/// What a call that writes makes of `old`, the tensors that it writes.
fn results_instead(
    info: &'static OpInfo,
    plain: &[Value],
    places: &[usize],
    old: &[Tensor],
) -> Result<Vec<Tensor>> {
    let base = info.name.split('.').next().unwrap_or_default();
    let on_copies = || {
        let mut args = plain.to_vec();
        for i in places {
            args[*i] = mapped(&args[*i], &mut |t| ops::clone(t, None))?;
        }
        info.call(&args)?;
        Ok(places.iter().flat_map(|i| tensors(&args[*i..=*i])).collect::<Vec<_>>())
    };
    if base == "copy_" {
        let (Some(old), Some(Value::Tensor(from))) = (old.first(), plain.get(1)) else {
            return Err(Error::type_("copy_: the source is no tensor"));
        };
        let from = as_dtype(from, old)?;
        return Ok(vec![ops::clone(&ops::expand(&from, old.sizes(), false)?, None)?]);
    }
    let Some(pure) = info.functional else { return on_copies() };
    // a form with `out=` has its outputs after the arguments of the other
    let with_outputs = info.schema.args.len() > pure.schema.args.len();
    if with_outputs && info.schema.args.iter().any(|a| matches!(a.ty, Ty::OptGenerator)) {
        // random numbers are drawn once
        return on_copies();
    }
    let mut args: Vec<Value> = plain.iter().take(pure.schema.args.len()).cloned().collect();
    // the other's flags, which are off
    args.resize(pure.schema.args.len(), Value::Bool(false));
    let new = tensors(&pure.call(&args)?);
    if new.len() != old.len() {
        return on_copies();
    }
    if with_outputs && new.iter().zip(old).any(|(n, o)| n.dtype() != o.dtype() || n.sizes() != o.sizes()) {
        // says what the form says of an output that it refuses, or that sizes change
        let written = without_modes(on_copies)?;
        let kept = written.iter().zip(old).all(|(w, o)| w.sizes() == o.sizes());
        ensure!(kept, Missing, "{} within functionalize: an output that changes its sizes", info.name);
    }
    let one = |(new, old): (&Tensor, &Tensor)| {
        ensure!(
            new.sizes() == old.sizes(),
            Runtime,
            "output with shape {:?} doesn't match the broadcast shape {:?}",
            old.sizes(),
            new.sizes()
        );
        as_dtype(new, old)
    };
    new.iter().zip(old).map(one).collect()
}
/// A tensor with the dtype and on the device of another.
fn as_dtype(t: &Tensor, like: &Tensor) -> Result<Tensor> {
    if t.dtype() == like.dtype() && t.device() == like.device() {
        return Ok(t.clone());
    }
    ops::to_copy(t, Some(like.dtype()), None, Some(like.device()), None, false, None)
}

/// The innermost function that a tensor belongs to.
fn level_of(args: &[Value]) -> u64 {
    let level = |t: &Tensor| Some(t.wrapped()?.as_any().downcast_ref::<Functional>()?.level);
    tensors(args).iter().filter_map(level).max().unwrap_or(0)
}
static KNOWN: Class = Class {
    name: CLASS,
    call: |info, args| call(info, args, level_of(args)).map(Some),
    claims: |_| true,
    refuses: |info, _| Error::missing(format!("{} within functionalize", info.name)),
    named: |_, _, _, _| None,
};

/// Within a function, until it is dropped.
struct Within {
    _mode: ModeGuard,
    views_too: bool,
}
impl Drop for Within {
    fn drop(&mut self) {
        set_views_too(self.views_too);
    }
}
/// Runs `f` on wrappers of the tensors, and gives its results without them. What `f` wrote to its arguments is written at the end.
pub(crate) fn run<R>(
    given: &[Tensor],
    remove: Remove,
    f: impl FnOnce(Vec<Tensor>) -> Result<R>,
    results: impl FnOnce(&R) -> Vec<Tensor>,
) -> Result<(R, Vec<Tensor>)> {
    wrapper::register(&KNOWN);
    let level = NEXT.get();
    NEXT.set(level + 1);
    let mut wrapped: Vec<Tensor> = Vec::new();
    for (i, t) in given.iter().enumerate() {
        // one tensor that is given twice is one
        let before = given[..i].iter().position(|o| o.is_same(t));
        wrapped.push(match before {
            Some(k) => wrapped[k].clone(),
            None => wrap(whole(t.clone(), level))?,
        });
    }
    let (r, out) = {
        let mode = push_function_mode(move |c: &OperatorCall<'_>| call(c.operator(), c.args(), level));
        let _within = Within { _mode: mode, views_too: set_views_too(remove == Remove::MutationsAndViews) };
        let r = f(wrapped.clone())?;
        let out = results(&r);
        let out = out.iter().map(|t| functional(t, level).map_or_else(|| Ok(t.clone()), Functional::current));
        let out = out.collect::<Result<Vec<_>>>()?;
        (r, out)
    };
    for (t, w) in given.iter().zip(&wrapped) {
        if let Some(f) = functional(w, level)
            && read(&f.whole).1 > 0
        {
            ops::copy_(t, &f.current()?, false)?;
        }
    }
    Ok((r, out))
}

/// The same function without writes: each operator that writes in place, or into an output, is replaced by one that gives the
/// result. What a mode outside of it records is a program that writes nothing. What `f` writes to its arguments is copied to them at
/// the end. What it only captures it may read, not write.
///
/// ```
/// use torch::{Tensor, func, overrides};
/// use torch::prelude::*;
/// use std::{cell::RefCell, rc::Rc};
/// let f = |x: &Tensor| {
///     let y = x.copy().reshape([2, 2]);
///     y.select(0, 0).add_(1.0);
///     y.exp_();
///     y
/// };
/// let x = torch::tensor([1.0, 2.0, 3.0, 4.0]);
/// let names = Rc::new(RefCell::new(Vec::new()));
/// let log = names.clone();
/// let _mode = overrides::push_function_mode(move |call: &overrides::OperatorCall<'_>| {
///     log.borrow_mut().push(call.name());
///     call.call_on()
/// });
/// let y = func::functionalize(f)(&x);
/// assert!(!names.borrow().iter().any(|n| n.ends_with('_')));
/// # drop(_mode);
/// assert_eq!(y.to_vec::<f32>(), f(&x).to_vec::<f32>());
/// ```
///
/// # Panics
/// The returned function panics where that of [`try_functionalize`] gives an error.
#[doc(alias = "torch.func.functionalize")]
pub fn functionalize<A: Tree, R: Tree>(f: impl Fn(&A) -> R) -> impl Fn(&A) -> R {
    functionalize_with(f, FunctionalizeOptions::new())
}
/// [`functionalize`] with what is taken out.
///
/// # Panics
/// As [`functionalize`].
pub fn functionalize_with<A: Tree, R: Tree>(
    f: impl Fn(&A) -> R,
    options: FunctionalizeOptions,
) -> impl Fn(&A) -> R {
    let pure = try_functionalize(move |a: &A| Ok(f(a)), options);
    move |a| expect(pure(a))
}
/// [`functionalize_with`] of a function that may fail.
///
/// # Errors
/// The returned function's: those of `f`; writes to captured tensors; writes through views that show elements as others
/// (`view_as_real`).
pub fn try_functionalize<A: Tree, R: Tree>(
    f: impl Fn(&A) -> Result<R>,
    options: FunctionalizeOptions,
) -> impl Fn(&A) -> Result<R> {
    let remove = options.remove;
    move |args| {
        let call = |all: Vec<Tensor>| f(&args.rebuild(&mut all.into_iter()));
        let (r, out) = run(&args.tensors(), remove, call, Tree::tensors)?;
        Ok(r.rebuild(&mut out.into_iter()))
    }
}
