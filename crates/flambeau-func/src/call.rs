//! Operators that meet a tensor with a hidden dimension: each is worked out by the rule of its row.

use crate::batched::{self, hides, highest, moved, repeated, shown};
use crate::generated::RULES;
use crate::levels::{self, Level};
use crate::rules;
use flambeau_core::dispatch::custom::{self, VmapRule};
use flambeau_core::dispatch::op::OpInfo;
use flambeau_core::dispatch::registry;
use flambeau_core::dispatch::value::Value;
use flambeau_core::dispatch::wrapper::set_batched_bodies;
use flambeau_core::internal::excluding;
use flambeau_core::types::deep;
use flambeau_core::types::keys::{Key, KeySet};
use flambeau_core::types::schema::Ty;
use flambeau_core::{Error, Result, Scalar, Tensor, ensure};
use std::collections::HashMap;
use std::sync::LazyLock;

/// A rule written by hand: the results of the call, with hidden dimensions.
pub(crate) type ByHand = fn(&Call<'_>) -> Result<Vec<Value>>;

/// What a row's verdict on vmap is.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// The operator's body, which calls others.
    Body,
    /// A function.
    By(ByHand),
    /// A call for each slice, with the reason why there is nothing better.
    Loop(#[allow(dead_code)] &'static str),
    /// Random numbers, by the vmap's word on randomness.
    Random,
    /// Writes into tensors that are given.
    Out,
}

static TABLE: LazyLock<HashMap<(&'static str, &'static str), Rule>> =
    LazyLock::new(|| RULES.iter().map(|(owner, name, rule)| ((*owner, *name), *rule)).collect());
/// The verdict; operators that a program defined have none.
pub(crate) fn rule(info: &OpInfo) -> Option<Rule> {
    TABLE.get(&(info.owner, info.name)).copied()
}
fn runs_body(info: &'static OpInfo) -> bool {
    match rule(info) {
        Some(Rule::Body) => true,
        Some(_) => false,
        None => info.composite,
    }
}

/// Part of what the crate registers.
pub(crate) fn install() {
    registry::set_fallback(Key::Batched, Some(through));
    set_batched_bodies(runs_body);
}

fn any(args: &[Value], f: &mut dyn FnMut(&Tensor) -> bool) -> bool {
    args.iter().any(|v| match v {
        Value::Tensor(t) => f(t),
        v => v.items().is_some_and(|l| any(l, f)),
    })
}
fn through(info: &'static OpInfo, _: Key, args: Vec<Value>) -> Result<Vec<Value>> {
    let top = levels::top();
    let id = top.map_or(0, |l| l.id);
    ensure!(
        !any(&args, &mut |t| highest(t) > id),
        Runtime,
        "{}: a tensor of a vmap that has ended, or is outside of the one at work",
        info.name
    );
    let Some(level) = top else {
        return excluding(KeySet::of(Key::Batched), || info.call(&args));
    };
    let call = Call { info, args: &args, level };
    levels::below(|| {
        if !any(&args, &mut |t| highest(t) == level.id) {
            return match rule(info) {
                Some(Rule::Random) => rules::random::unbatched(&call),
                _ => info.call(&args),
            };
        }
        match rule(info) {
            Some(Rule::By(f)) => f(&call),
            Some(Rule::Random) => rules::random::batched(&call),
            Some(Rule::Out) => Err(Error::runtime(format!(
                "Batching rule not implemented for aten::{}; the fallback path doesn't work on out= or view ops.",
                info.name
            ))),
            Some(Rule::Body) => {
                Err(Error::missing(format!("{}: no body where its rule wants one", info.name)))
            }
            Some(Rule::Loop(_)) => rules::looped::looped(&call),
            None => match custom::find(info.name).and_then(|o| o.vmap_rule()) {
                Some(f) => call.by_program(&f),
                None => rules::looped::looped(&call),
            },
        }
    })
}

/// A call at one level.
pub(crate) struct Call<'a> {
    pub info: &'static OpInfo,
    pub args: &'a [Value],
    pub level: Level,
}
impl Call<'_> {
    pub fn batch(&self) -> i64 {
        self.level.batch
    }
    /// So many times the slices.
    pub fn times(&self, n: i64) -> i64 {
        n.saturating_mul(self.batch())
    }
    /// Sizes of all slices together, along a dimension of one.
    ///
    /// # Errors
    /// There is none of that number.
    pub fn grown(&self, mut sizes: Vec<i64>, dim: usize) -> Result<Vec<i64>> {
        match sizes.get_mut(dim) {
            Some(n) => *n = self.times(*n),
            None => {
                return Err(Error::index(format!(
                    "{}: {sizes:?} has no size of number {dim}",
                    self.info.name
                )));
            }
        }
        Ok(sizes)
    }
    pub fn position(&self, name: &str) -> Option<usize> {
        self.info.schema.args.iter().position(|a| a.name == name)
    }
    /// An argument that is a tensor.
    pub fn tensor(&self, i: usize) -> Result<&Tensor> {
        match self.args.get(i) {
            Some(Value::Tensor(t)) => Ok(t),
            _ => Err(Error::type_(format!("{}: argument {i} is no tensor", self.info.name))),
        }
    }
    pub fn maybe(&self, i: usize) -> Option<&Tensor> {
        match self.args.get(i) {
            Some(Value::Tensor(t)) => Some(t),
            _ => None,
        }
    }
    pub fn int(&self, i: usize) -> Result<i64> {
        flambeau_core::dispatch::value::arg(self.args, i)
    }
    pub fn ints(&self, i: usize) -> Result<Vec<i64>> {
        flambeau_core::dispatch::value::arg(self.args, i)
    }
    pub fn flag(&self, i: usize) -> Result<bool> {
        flambeau_core::dispatch::value::arg(self.args, i)
    }
    pub fn scalar(&self, i: usize) -> Result<Scalar> {
        flambeau_core::dispatch::value::arg(self.args, i)
    }
    pub fn is_batched(&self, i: usize) -> bool {
        match self.args.get(i) {
            Some(Value::Tensor(t)) => hides(t, self.level.id),
            Some(v) => v.items().is_some_and(|l| any(l, &mut |t| hides(t, self.level.id))),
            None => false,
        }
    }
    /// The tensor with its dimension shown, and its place.
    pub fn parts(&self, t: &Tensor) -> (Tensor, Option<usize>) {
        shown(t, self.level.id)
    }
    /// The tensor with its dimension in front, if it has one.
    pub fn front(&self, t: &Tensor) -> Result<(Tensor, bool)> {
        match self.parts(t) {
            (t, Some(d)) => Ok((moved(&t, d, 0)?, true)),
            (t, None) => Ok((t, false)),
        }
    }
    /// The tensor with the dimension in front; one that has none is repeated.
    pub fn whole(&self, t: &Tensor) -> Result<Tensor> {
        match self.front(t)? {
            (t, true) => Ok(t),
            (t, false) => repeated(&t, 0, self.batch()),
        }
    }
    pub fn whole_at(&self, i: usize) -> Result<Tensor> {
        self.whole(self.tensor(i)?)
    }
    pub fn whole_maybe(&self, i: usize) -> Result<Option<Tensor>> {
        self.maybe(i).map(|t| self.whole(t)).transpose()
    }
    /// Hides the first dimension of all tensors of a result.
    pub fn hide(&self, mut v: Value) -> Result<Value> {
        deep::leaves_mut(&mut v, |leaf| {
            if let Value::Tensor(t) = leaf {
                *t = batched::hide(t, 0, self.level.id)?;
            }
            Ok(())
        })?;
        Ok(v)
    }
    pub fn hidden(&self, t: &Tensor, dim: usize) -> Result<Value> {
        batched::hide(t, dim, self.level.id).map(Value::Tensor)
    }
    pub fn one(&self, t: &Tensor) -> Result<Vec<Value>> {
        Ok(vec![self.hidden(t, 0)?])
    }
    pub fn hide_all(&self, all: Vec<Value>) -> Result<Vec<Value>> {
        all.into_iter().map(|v| self.hide(v)).collect()
    }
    /// The argument that the call writes.
    pub fn written(&self) -> Option<usize> {
        self.info.schema.args.iter().position(|a| a.mutated)
    }
    /// Calls the operator with these arguments, whose tensors have the dimension in front, and hides that of the results. What
    /// writes gives the tensor that was written.
    pub fn run(&self, args: &[Value]) -> Result<Vec<Value>> {
        let results = self.info.call(args)?;
        match self.written() {
            Some(i) => Ok(vec![self.args[i].clone()]),
            None => self.hide_all(results),
        }
    }
    /// Refuses to write what the slices have of their own to a tensor that they share.
    pub fn check_written(&self) -> Result<()> {
        if let Some(i) = self.written()
            && !self.is_batched(i)
        {
            let full = self.info.name.split('.').next().unwrap_or(self.info.name);
            return Err(Error::runtime(format!(
                "vmap: aten::{full}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that \
                 has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped \
                 over. Please try to use out-of-place operators instead of {full}. If said operator is being called inside the \
                 PyTorch framework, please file a bug report instead."
            )));
        }
        Ok(())
    }
    /// The rank that arguments have without the dimension.
    pub fn rank(&self, i: usize) -> usize {
        self.maybe(i).map_or(0, |t| t.dim())
    }
    /// By the rule that a program gave an operator of its own.
    fn by_program(&self, rule: &VmapRule) -> Result<Vec<Value>> {
        let mut dims = Vec::new();
        let args = self.args.iter().map(|v| self.opened(v, &mut dims)).collect::<Vec<_>>();
        let (results, places) = rule(&args, &dims)?;
        ensure!(
            results.len() == places.len(),
            Runtime,
            "{}: its vmap rule gave {} results and {} places",
            self.info.name,
            results.len(),
            places.len()
        );
        results.into_iter().zip(places).map(|(v, d)| put(v, d, self.level.id)).collect()
    }
    /// The value with the dimensions of its tensors shown, and their places.
    fn opened(&self, v: &Value, dims: &mut Vec<Option<i64>>) -> Value {
        match v {
            Value::Tensor(t) => {
                let (t, d) = self.parts(t);
                dims.push(d.map(|d| d as i64));
                Value::Tensor(t)
            }
            Value::List(l) => Value::List(l.iter().map(|v| self.opened(v, dims)).collect()),
            Value::Tuple(l) => Value::Tuple(l.iter().map(|v| self.opened(v, dims)).collect()),
            v => v.clone(),
        }
    }
}
/// Hides dimensions at places that a program's rule gave.
fn put(mut v: Value, place: Option<i64>, level: u64) -> Result<Value> {
    let Some(d) = place else { return Ok(v) };
    deep::leaves_mut(&mut v, |leaf| {
        if let Value::Tensor(t) = leaf {
            let n = t.dim() as i64;
            ensure!(
                (-n..n).contains(&d),
                Index,
                "a vmap rule gave the place {d} in a tensor of {n} dimensions"
            );
            *t = batched::hide(t, d.rem_euclid(n) as usize, level)?;
        }
        Ok(())
    })?;
    Ok(v)
}
/// Whether arguments of this type hold dimensions' numbers where they are called so.
pub(crate) fn holds_ints(ty: Ty) -> bool {
    matches!(ty, Ty::Int | Ty::OptInt | Ty::IntList(_) | Ty::OptIntList(_))
}
