//! Optimizers and update rules without their types. What every optimizer does alike is compiled here once, and not for each
//! rule in each program that uses it.

use crate::optimizer::algorithm::{Algorithm, Closure};
use crate::optimizer::group::{Entry, ParamGroup, State};
use crate::optimizer::hooks::{self, StepArgs};
use crate::optimizer::{Optim, Optimizer, clear_grads, state_dict};
use crate::options::number_or_tensor::{Number, text};
use flambeau_autograd::TensorAutogradExt;
use flambeau_core::dispatch::value::IntoValue;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::order::none_held;
use flambeau_core::{Error, Result, Tensor, Value, ensure};
use flambeau_nn::Parameter;
use flambeau_serialization::Tree;
use std::any::Any;
use std::collections::HashSet;
use std::fmt;

/// What all options of one rule have in common.
pub(crate) struct Class {
    pub name: &'static str,
    pub numbers: &'static [&'static str],
    pub free_state: bool,
    pub order: &'static [&'static str],
    pub sparse: bool,
    pub refuses_sparse: fn() -> String,
    pub fixed: fn() -> &'static [(&'static str, Value)],
}
impl Class {
    /// Whether a group has a key of that name that never changes.
    pub fn has_fixed(&self, name: &str) -> bool {
        (self.fixed)().iter().any(|(n, _)| *n == name)
    }
}
/// An [`Algorithm`] as an object.
pub(crate) trait Rule: Any {
    fn class(&self) -> &'static Class;
    fn all(&self) -> Vec<(&'static str, Value)>;
    fn set(&mut self, name: &str, v: &Value) -> Result<bool>;
    fn rate(&self) -> &Number;
    fn rate_mut(&mut self) -> &mut Number;
    fn fill(&mut self);
    fn ready(&self, p: &Tensor, state: &mut State) -> Result<()>;
    fn move_on(&self, entries: &mut [Entry<'_>]) -> Result<()>;
    fn is_recorded(&self) -> bool;
    fn another(&self) -> Box<dyn Rule>;
    /// Becomes the other, which is of the same rule.
    fn become_as(&mut self, other: &mut dyn Any);
}
/// The constants of a rule, in memory once.
struct Of<A>(std::marker::PhantomData<A>);
impl<A: Algorithm> Of<A> {
    const CLASS: Class = Class {
        name: A::NAME,
        numbers: A::NUMBERS,
        free_state: A::FREE_STATE,
        order: A::ORDER,
        sparse: A::SPARSE,
        refuses_sparse: A::refuses_sparse,
        fixed: A::fixed,
    };
}
impl<A: Algorithm> Rule for A {
    fn class(&self) -> &'static Class {
        &Of::<A>::CLASS
    }
    fn all(&self) -> Vec<(&'static str, Value)> {
        self.options()
    }
    fn set(&mut self, name: &str, v: &Value) -> Result<bool> {
        self.set_option(name, v)
    }
    fn rate(&self) -> &Number {
        self.lr()
    }
    fn rate_mut(&mut self) -> &mut Number {
        self.lr_mut()
    }
    fn fill(&mut self) {
        self.complete();
    }
    fn ready(&self, p: &Tensor, state: &mut State) -> Result<()> {
        self.prepare(p, state)
    }
    fn move_on(&self, entries: &mut [Entry<'_>]) -> Result<()> {
        self.update(entries)
    }
    fn is_recorded(&self) -> bool {
        self.differentiable()
    }
    fn another(&self) -> Box<dyn Rule> {
        Box::new(self.clone())
    }
    fn become_as(&mut self, other: &mut dyn Any) {
        if let Some(other) = other.downcast_mut() {
            std::mem::swap(self, other);
        }
    }
}

/// A [`ParamGroup`] of any rule.
pub(crate) struct Group<'a> {
    pub params: &'a [Parameter],
    pub names: Option<&'a Vec<String>>,
    pub extras: &'a [(String, Value)],
    pub given: &'a [String],
    pub states: &'a [State],
    pub rule: &'a dyn Rule,
}
impl Group<'_> {
    pub fn extra(&self, name: &str) -> Option<&Value> {
        self.extras.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }
}
/// The same, to be changed.
pub(crate) struct GroupMut<'a> {
    pub params: &'a [Parameter],
    pub names: &'a mut Option<Vec<String>>,
    pub extras: &'a mut Vec<(String, Value)>,
    pub given: &'a mut Vec<String>,
    pub states: &'a mut Vec<State>,
    pub rule: &'a mut dyn Rule,
}
/// Keeps a value under a name that is no option.
pub(crate) fn set_extra(extras: &mut Vec<(String, Value)>, name: &str, v: Value) {
    match extras.iter_mut().find(|(n, _)| n == name) {
        Some((_, old)) => *old = v,
        None => extras.push((name.to_owned(), v)),
    }
}
impl<A: Algorithm> ParamGroup<A> {
    fn view(&self) -> Group<'_> {
        Group {
            params: &self.params,
            names: self.names.as_ref(),
            extras: &self.extras,
            given: &self.given,
            states: &self.states,
            rule: &self.options,
        }
    }
    pub(crate) fn view_mut(&mut self) -> GroupMut<'_> {
        GroupMut {
            params: &self.params,
            names: &mut self.names,
            extras: &mut self.extras,
            given: &mut self.given,
            states: &mut self.states,
            rule: &mut self.options,
        }
    }
}

/// An [`Optim`] of any rule.
pub(crate) trait Erased: Optimizer {
    fn group(&self, group: usize) -> Option<Group<'_>>;
    fn group_mut(&mut self, group: usize) -> Option<GroupMut<'_>>;
    /// The options that the optimizer was made with.
    fn base(&self) -> &dyn Rule;
    /// The rule's own step.
    fn step_of_rule(&mut self, closure: Option<Closure<'_>>) -> Result<Option<Tensor>>;
}
impl<A: Algorithm> Erased for Optim<A> {
    fn group(&self, group: usize) -> Option<Group<'_>> {
        self.param_groups.get(group).map(ParamGroup::view)
    }
    fn group_mut(&mut self, group: usize) -> Option<GroupMut<'_>> {
        self.param_groups.get_mut(group).map(ParamGroup::view_mut)
    }
    fn base(&self) -> &dyn Rule {
        &self.defaults
    }
    fn step_of_rule(&mut self, closure: Option<Closure<'_>>) -> Result<Option<Tensor>> {
        A::step(self, closure)
    }
}
fn groups(o: &dyn Erased) -> impl Iterator<Item = Group<'_>> {
    (0..o.group_count()).filter_map(move |g| o.group(g))
}
fn existing(o: &mut dyn Erased, group: usize) -> Result<GroupMut<'_>> {
    let n = o.group_count();
    o.group_mut(group).ok_or_else(|| Error::index(format!("parameter group {group} of {n}")))
}

/// Sets options; gives those that are none.
pub(crate) fn set_all(rule: &mut dyn Rule, given: &[(String, Value)]) -> Result<Vec<(String, Value)>> {
    let mut extras = Vec::new();
    for (k, v) in given {
        if !rule.set(k, v)? && !rule.class().has_fixed(k) {
            extras.push((k.clone(), v.clone()));
        }
    }
    Ok(extras)
}
/// Whether an optimizer takes a group of these parameters.
pub(crate) fn check_new(o: &dyn Erased, params: &[Parameter], named: bool) -> Result<()> {
    ensure!(
        o.base().is_recorded() || params.iter().all(|p| p.is_leaf() || p.retains_grad()),
        Value,
        "can't optimize a non-leaf Tensor"
    );
    ensure!(
        groups(o).all(|g| g.names.is_some() == named),
        Value,
        "all optimizer param groups should be with/without names. cannot add param group {} to the optimizer",
        if named { "with names" } else { "without names" }
    );
    let known: HashSet<usize> = groups(o).flat_map(|g| g.params).map(|p| p.tensor().id()).collect();
    ensure!(
        !params.iter().any(|p| known.contains(&p.tensor().id())),
        Value,
        "some parameters appear in more than one parameter group"
    );
    Ok(())
}
/// Readies a new group.
pub(crate) fn start(g: GroupMut<'_>, given: Vec<String>, extras: Vec<(String, Value)>) -> Result<()> {
    g.rule.fill();
    *g.given = given;
    *g.extras = extras;
    g.params.iter().zip(g.states).try_for_each(|(p, s)| g.rule.ready(p.tensor(), s))
}

/// [`Algorithm::step`] of a rule that has none of its own.
pub(crate) fn step(o: &mut dyn Erased, closure: Option<Closure<'_>>) -> Result<Option<Tensor>> {
    let loss = match closure {
        Some(f) => Some(flambeau_autograd::enable_grad(f)?),
        None => None,
    };
    let _mode = flambeau_autograd::set_grad_enabled_guard(o.base().is_recorded());
    for g in 0..o.group_count() {
        let Some(group) = o.group_mut(g) else { continue };
        let class = group.rule.class();
        let mut entries = Vec::with_capacity(group.params.len());
        for (i, (p, state)) in group.params.iter().zip(group.states).enumerate() {
            ensure!(
                !p.is_replaced(),
                Runtime,
                "{}: parameter {i} of group {g} was replaced when its module was converted (to, half, ...): build the \
                 optimizer after the conversion",
                class.name
            );
            if let Some(grad) = p.grad() {
                ensure!(class.sparse || !grad.is_sparse_any(), Runtime, "{}", (class.refuses_sparse)());
                entries.push(Entry { param: p.tensor(), grad, state });
            }
        }
        if !entries.is_empty() {
            group.rule.move_on(&mut entries)?;
        }
    }
    Ok(loss)
}
/// A step between its hooks.
pub(crate) fn run(o: &mut dyn Erased, closure: Option<Closure<'_>>) -> Result<Option<Tensor>> {
    let pre = hooks::global_step_pre().into_iter().chain(o.hooks().step_pre());
    let mut args = StepArgs { closure: closure.map(|f| Box::new(f) as Box<dyn FnMut() -> Result<Tensor>>) };
    for hook in pre {
        none_held("a hook of an optimizer runs");
        hook(o, &mut args)?;
    }
    let loss = match &mut args.closure {
        Some(f) => o.step_of_rule(Some(&mut **f))?,
        None => o.step_of_rule(None)?,
    };
    for hook in o.hooks().step_post().into_iter().chain(hooks::global_step_post()) {
        hook(o, &mut args)?;
    }
    Ok(loss)
}
pub(crate) fn run_alone(o: &mut dyn Erased) -> Result<()> {
    run(o, None).map(|_| ())
}
pub(crate) fn run_closure(o: &mut dyn Erased, closure: Closure<'_>) -> Result<Tensor> {
    let loss = run(o, Some(closure))?;
    loss.ok_or_else(|| Error::runtime(format!("{}: the step gave no loss", o.name())))
}
pub(crate) fn zero_grad(o: &dyn Erased, set_to_none: bool) -> Result<()> {
    clear_grads(groups(o).flat_map(|g| g.params), set_to_none)
}
pub(crate) fn save(o: &dyn Erased) -> Tree<Tensor> {
    o.hooks().state_dict_pre().iter().for_each(|hook| hook(o));
    let mut state = state_dict::save(o);
    for hook in o.hooks().state_dict_post() {
        state = hook(o, &state).unwrap_or(state);
    }
    state
}
pub(crate) fn load(o: &mut dyn Erased, state: &Tree<Tensor>) -> Result<()> {
    let mut replaced: Option<Tree<Tensor>> = None;
    for hook in o.hooks().load_pre() {
        if let Some(other) = hook(o, replaced.as_ref().unwrap_or(state)) {
            replaced = Some(other);
        }
    }
    state_dict::load(o, replaced.as_ref().unwrap_or(state))?;
    o.hooks().load_post().iter().for_each(|hook| hook(o));
    Ok(())
}

/// An option by name.
pub(crate) fn pick(rule: &dyn Rule, name: &str) -> Option<Value> {
    let fixed = || (rule.class().fixed)().iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
    rule.all().into_iter().find(|(n, _)| *n == name).map(|(_, v)| v).or_else(fixed)
}
pub(crate) fn option(o: &dyn Erased, group: usize, name: &str) -> Option<Value> {
    let g = o.group(group)?;
    if name == "lr" {
        return Some(g.rule.rate().clone().into_value());
    }
    pick(g.rule, name).or_else(|| g.extra(name).cloned())
}
pub(crate) fn set_option(o: &mut dyn Erased, group: usize, name: &str, v: Value) -> Result<()> {
    let g = existing(o, group)?;
    if !g.rule.set(name, &v)? && !g.rule.class().has_fixed(name) {
        set_extra(g.extras, name, v);
    }
    Ok(())
}
pub(crate) fn set_lr(o: &mut dyn Erased, group: usize, lr: f64) -> Result<()> {
    existing(o, group)?.rule.rate_mut().set(lr)
}
/// PyTorch's text.
pub(crate) fn print(o: &dyn Erased, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{} (", o.name())?;
    for (i, g) in groups(o).enumerate() {
        write!(f, "\nParameter Group {i}\n")?;
        let mut all = state_dict::group_values(&g);
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all.iter().try_for_each(|(n, v)| writeln!(f, "    {n}: {}", text(v)))?;
    }
    f.write_str(")")
}
