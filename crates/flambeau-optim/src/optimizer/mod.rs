//! The `Optimizer` trait and the one implementation of everything but the algorithms.

pub(crate) mod algorithm;
pub(crate) mod erased;
pub(crate) mod group;
pub(crate) mod hooks;
pub(crate) mod parameters;
pub(crate) mod state_dict;
mod values;

use crate::optimizer::algorithm::{Algorithm, Closure};
use crate::optimizer::group::{ParamGroup, State};
use crate::optimizer::hooks::{Hooks, StepArgs};
use crate::optimizer::parameters::IntoParameters;
use crate::options::number_or_tensor::Number;
use flambeau_autograd::RemovableHandle;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Result, Tensor, Value, ensure};
use flambeau_nn::{Parameter, ZeroGradOptions};
use flambeau_serialization::{ToTree, Tree};
use std::fmt;
use std::sync::Arc;

/// What every optimizer does.
///
/// ```
/// use torch::{nn, optim, prelude::*};
///
/// let w = nn::Parameter::new(torch::tensor([1.0]));
/// let mut all: Vec<Box<dyn Optimizer>> = vec![];
/// all.push(Box::new(optim::SGD::new([&w], 0.1)));
/// all.push(Box::new(optim::AdamOptions::new().lr(0.1).build([&w])));
/// for optimizer in &mut all {
///     optimizer.zero_grad();
///     w.pow(2.0).sum().backward();
///     optimizer.step();
/// }
/// assert!(torch::allclose(&w, &torch::tensor([1.0 - 0.2 - 0.1])));
/// ```
#[doc(alias = "torch.optim.Optimizer")]
pub trait Optimizer: fmt::Debug + Send {
    /// The documented name of the class.
    fn name(&self) -> &'static str;
    /// Updates all parameters that have a gradient.
    ///
    /// # Errors
    /// A parameter that a conversion of its module replaced; dtypes that the algorithm does not have; an algorithm that
    /// needs a closure.
    fn try_step(&mut self) -> Result<()>;
    /// [`Optimizer::try_step`] that panics.
    #[track_caller]
    #[doc(alias = "torch.optim.Optimizer.step")]
    fn step(&mut self) {
        expect(self.try_step());
    }
    /// Computes the loss by a closure that also runs backward, then steps; gives the loss. LBFGS calls the closure
    /// several times.
    ///
    /// # Errors
    /// Those of the closure, and as for [`Optimizer::try_step`].
    fn try_step_closure(&mut self, closure: Closure<'_>) -> Result<Tensor>;
    /// [`Optimizer::try_step_closure`] that panics.
    #[track_caller]
    #[doc(alias = "torch.optim.note:closure")]
    fn step_closure(&mut self, closure: &mut dyn FnMut() -> Tensor) -> Tensor {
        expect(self.try_step_closure(&mut || Ok(closure())))
    }
    /// Whether the step itself takes out what losses were scaled by ([`Optimizer::try_step_scaled`]): fused ones do.
    fn supports_scaling(&self) -> bool {
        values::is_true(self.default_option("fused"))
    }
    /// A fused step with gradients divided by `grad_scale`, unless `found_inf` is 1: then nothing happens.
    ///
    /// # Errors
    /// As for [`Optimizer::try_step`]; a tensor of several elements.
    fn try_step_scaled(&mut self, grad_scale: Option<&Tensor>, found_inf: &Tensor) -> Result<()> {
        values::scaled(grad_scale, found_inf, &mut || self.try_step())
    }
    /// Forgets all gradients.
    #[track_caller]
    #[doc(alias = "torch.optim.Optimizer.zero_grad")]
    fn zero_grad(&mut self) {
        expect(self.try_zero_grad(ZeroGradOptions::new()));
    }
    /// [`Optimizer::zero_grad`] with its keywords.
    #[track_caller]
    fn zero_grad_with(&mut self, options: ZeroGradOptions) {
        expect(self.try_zero_grad(options));
    }
    /// [`Optimizer::zero_grad_with`] with an error instead of a panic.
    ///
    /// # Errors
    /// A gradient that is borrowed.
    fn try_zero_grad(&mut self, options: ZeroGradOptions) -> Result<()>;
    /// State and options in the shape of PyTorch's files.
    #[doc(alias = "torch.optim.Optimizer.state_dict")]
    fn state_dict(&self) -> Tree<Tensor>;
    /// Takes over state and options from a file's tree.
    ///
    /// # Errors
    /// Other numbers of groups or parameters; a tree of another shape.
    #[doc(alias = "torch.optim.Optimizer.load_state_dict")]
    fn load_state_dict(&mut self, state: &Tree<Tensor>) -> Result<()>;
    /// Number of parameter groups.
    fn group_count(&self) -> usize;
    /// Parameters of a group.
    fn group_params(&self, group: usize) -> &[Parameter];
    /// What is remembered of a parameter of a group.
    fn param_state(&self, group: usize, param: usize) -> &State;
    /// An option of a group, or what a schedule keeps there (`initial_lr`, `max_lr`), by PyTorch's name.
    fn option(&self, group: usize, name: &str) -> Option<Value>;
    /// Sets an option of a group, or keeps a value there under a name that is no option.
    ///
    /// # Errors
    /// No such group; a value of the wrong type.
    fn set_option(&mut self, group: usize, name: &str, v: Value) -> Result<()>;
    /// A default that groups without an option of their own have.
    fn default_option(&self, name: &str) -> Option<Value>;
    /// Adds a group by values: parameters, their names, and options that differ from the defaults.
    ///
    /// # Errors
    /// Tensors that are no leaves; a parameter that another group has; unknown options.
    fn add_group_of_values(
        &mut self,
        params: Vec<Parameter>,
        names: Option<Vec<String>>,
        options: &[(String, Value)],
    ) -> Result<()>;
    /// Writes a learning rate: a tensor's memory where it is one.
    ///
    /// # Errors
    /// No such group; a tensor that is borrowed.
    fn try_set_lr(&mut self, group: usize, lr: f64) -> Result<()>;
    /// The hooks.
    fn hooks(&self) -> &Hooks;

    /// Learning rate of a group.
    fn lr(&self, group: usize) -> f64 {
        self.option_value(group, "lr").unwrap_or(f64::NAN)
    }
    /// Sets the learning rate of a group. Panics if it is a tensor that is borrowed.
    #[track_caller]
    fn set_lr(&mut self, group: usize, lr: f64) {
        expect(self.try_set_lr(group, lr));
    }
    /// A numeric option of a group.
    fn option_value(&self, group: usize, name: &str) -> Option<f64> {
        values::number(self.option(group, name))
    }
    /// Learning rate that schedules start from; the present one unless it was set.
    fn initial_lr(&self, group: usize) -> f64 {
        self.option_value(group, "initial_lr").unwrap_or_else(|| self.lr(group))
    }
    /// Momentum or first decay rate of a group, where the algorithm has one.
    fn momentum(&self, group: usize) -> Option<f64> {
        match self.default_option("betas") {
            Some(_) => values::first_number(self.option(group, "betas")),
            None => self.option_value(group, "momentum"),
        }
    }
    /// Sets it.
    ///
    /// # Errors
    /// An optimizer without.
    fn set_momentum(&mut self, group: usize, v: Value) -> Result<()> {
        let (name, v) = values::momentum(self.option(group, "betas"), v);
        self.set_option(group, name, v)
    }
}

/// An optimizer: parameter groups and an update rule.
///
/// ```
/// use torch::optim::{Adam, AdamOptions, Optim};
/// use torch::{nn, prelude::*};
///
/// // what the names of optimizers stand for
/// let mut optimizer: Optim<AdamOptions> = Adam::new(nn::Linear::new(2, 1).parameters(), 0.1);
/// optimizer.param_groups[0].options.lr = 0.01.into();
/// assert_eq!(optimizer.lr(0), 0.01);
/// ```
#[derive(Clone)]
pub struct Optim<A> {
    /// The groups; options may be changed between steps.
    pub param_groups: Vec<ParamGroup<A>>,
    defaults: A,
    hooks: Hooks,
}

impl<A: Algorithm> Optim<A> {
    /// One group of parameters with the given options.
    ///
    /// # Errors
    /// Options out of range; no parameters; tensors that are no leaves.
    pub fn with_options(params: impl IntoParameters, options: A) -> Result<Self> {
        Self::of_list(params.into_parameters(), options)
    }
    /// One group of parameters that have names, which state dicts then carry.
    ///
    /// # Errors
    /// As for [`Optim::with_options`].
    pub fn with_named_options(
        params: impl IntoIterator<Item = (impl Into<String>, impl Into<Parameter>)>,
        options: A,
    ) -> Result<Self> {
        let (names, params): (Vec<String>, Vec<Parameter>) =
            params.into_iter().map(|(n, p)| (n.into(), p.into())).unzip();
        Self::of_one(params, Some(names), options)
    }
    /// Several groups, each with its own options; `defaults` are those of groups that are added later.
    ///
    /// ```
    /// use torch::Tensor;
    /// use torch::nn::Parameter;
    /// use torch::optim::{SGD, SGDOptions};
    ///
    /// let p = |v: f32| Parameter::new(Tensor::from_slice(&[v], 1));
    /// let defaults = SGDOptions::new().lr(0.1).momentum(0.9);
    /// let groups = vec![(vec![p(1.0)], defaults.clone()), (vec![p(2.0)], defaults.clone().lr(0.01))];
    /// let optimizer = SGD::with_groups(groups, defaults).unwrap();
    /// assert_eq!(optimizer.param_groups[1].options.lr.value(), 0.01);
    /// ```
    ///
    /// # Errors
    /// As for [`Optim::with_options`]; a parameter in two groups.
    #[doc(alias = "torch.optim.note:per-parameter-options")]
    pub fn with_groups(groups: Vec<(Vec<Parameter>, A)>, defaults: A) -> Result<Self> {
        groups.iter().try_for_each(|(_, o)| o.check())?;
        Self::with_all(groups.into_iter().map(|(p, o)| (p, None, o, vec![])).collect(), defaults)
    }
    /// [`Optim::with_options`] of a list.
    pub(crate) fn of_list(params: Vec<Parameter>, options: A) -> Result<Self> {
        if !params.is_empty() {
            options.check()?;
        }
        Self::of_one(params, None, options)
    }
    /// One group, whose options are the defaults.
    fn of_one(params: Vec<Parameter>, names: Option<Vec<String>>, options: A) -> Result<Self> {
        let mut out = Self::start(options.clone(), params.is_empty())?;
        out.add_group(params, names, options, Vec::new(), Vec::new())?;
        out.defaults.check_groups(&out.param_groups)?;
        Ok(out)
    }
    /// Groups with names and the keys that they were given.
    #[allow(clippy::type_complexity)]
    pub(crate) fn with_all(
        groups: Vec<(Vec<Parameter>, Option<Vec<String>>, A, Vec<(String, Value)>)>,
        defaults: A,
    ) -> Result<Self> {
        let mut out = Self::start(defaults, groups.is_empty())?;
        for (params, names, mut options, given) in groups {
            let extras = erased::set_all(&mut options, &given)?;
            out.add_group(params, names, options, given.into_iter().map(|(k, _)| k).collect(), extras)?;
        }
        out.defaults.check_groups(&out.param_groups)?;
        Ok(out)
    }
    /// No groups yet; `none` if there will be none.
    fn start(mut defaults: A, none: bool) -> Result<Self> {
        defaults.complete();
        defaults.check()?;
        ensure!(!none, Value, "optimizer got an empty parameter list");
        Ok(Optim { param_groups: Vec::new(), defaults, hooks: Hooks::default() })
    }
    /// Adds a group of parameters with its own options.
    ///
    /// # Errors
    /// Options out of range; tensors that are no leaves; a parameter that another group has.
    #[doc(alias = "torch.optim.Optimizer.add_param_group")]
    pub fn add_param_group(&mut self, params: impl IntoParameters, options: A) -> Result<()> {
        options.check()?;
        self.add_group(params.into_parameters(), None, options, vec![], vec![])
    }
    fn add_group(
        &mut self,
        params: Vec<Parameter>,
        names: Option<Vec<String>>,
        options: A,
        given: Vec<String>,
        extras: Vec<(String, Value)>,
    ) -> Result<()> {
        erased::check_new(self, &params, names.is_some())?;
        let mut group = ParamGroup::new(params, names, options);
        erased::start(group.view_mut(), given, extras)?;
        self.param_groups.push(group);
        Ok(())
    }
    /// The options that the optimizer was made with.
    pub fn defaults(&self) -> &A {
        &self.defaults
    }
    /// A hook that runs before each step.
    #[doc(alias = "torch.optim.Optimizer.register_step_pre_hook")]
    pub fn register_step_pre_hook(
        &self,
        hook: impl Fn(&mut dyn Optimizer) + Send + Sync + 'static,
    ) -> RemovableHandle {
        self.hooks.add_step_pre(hooks::without_args(hook), false)
    }
    /// A hook that runs after each step.
    #[doc(alias = "torch.optim.Optimizer.register_step_post_hook")]
    pub fn register_step_post_hook(
        &self,
        hook: impl Fn(&mut dyn Optimizer) + Send + Sync + 'static,
    ) -> RemovableHandle {
        self.hooks.add_step_post(hooks::without_args(hook), false)
    }
    /// [`Optim::register_step_pre_hook`] for a hook that sees the step's arguments and may change them: PyTorch's hooks
    /// get `args` and `kwargs`, which are the closure. An error ends the step.
    pub fn register_step_pre_hook_with_args(
        &self,
        hook: impl Fn(&mut dyn Optimizer, &mut StepArgs<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> RemovableHandle {
        self.hooks.add_step_pre(Arc::new(hook), false)
    }
    /// [`Optim::register_step_post_hook`] for a hook that sees the step's arguments.
    pub fn register_step_post_hook_with_args(
        &self,
        hook: impl Fn(&mut dyn Optimizer, &mut StepArgs<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> RemovableHandle {
        self.hooks.add_step_post(Arc::new(hook), false)
    }
    /// A hook that runs before a state dict is made, ahead of the others if `prepend`.
    #[doc(alias = "torch.optim.Optimizer.register_state_dict_pre_hook")]
    pub fn register_state_dict_pre_hook(
        &self,
        hook: impl Fn(&dyn Optimizer) + Send + Sync + 'static,
        prepend: bool,
    ) -> RemovableHandle {
        self.hooks.add_state_dict_pre(Arc::new(hook), prepend)
    }
    /// A hook that sees a state dict that was made and may give another.
    #[doc(alias = "torch.optim.Optimizer.register_state_dict_post_hook")]
    pub fn register_state_dict_post_hook(
        &self,
        hook: impl Fn(&dyn Optimizer, &Tree<Tensor>) -> Option<Tree<Tensor>> + Send + Sync + 'static,
        prepend: bool,
    ) -> RemovableHandle {
        self.hooks.add_state_dict_post(Arc::new(hook), prepend)
    }
    /// A hook that sees a state dict that is to be loaded and may give another.
    #[doc(alias = "torch.optim.Optimizer.register_load_state_dict_pre_hook")]
    pub fn register_load_state_dict_pre_hook(
        &self,
        hook: impl Fn(&dyn Optimizer, &Tree<Tensor>) -> Option<Tree<Tensor>> + Send + Sync + 'static,
        prepend: bool,
    ) -> RemovableHandle {
        self.hooks.add_load_pre(Arc::new(hook), prepend)
    }
    /// A hook that runs after a state dict was loaded.
    #[doc(alias = "torch.optim.Optimizer.register_load_state_dict_post_hook")]
    pub fn register_load_state_dict_post_hook(
        &self,
        hook: impl Fn(&mut dyn Optimizer) + Send + Sync + 'static,
        prepend: bool,
    ) -> RemovableHandle {
        self.hooks.add_load_post(Arc::new(hook), prepend)
    }
}
impl<A: Algorithm + Default> Optim<A> {
    /// The optimizer of the parameters with this learning rate and the documented defaults. Panics with the error's text.
    #[track_caller]
    pub fn new(params: impl IntoParameters, lr: impl IntoArg<Number>) -> Self {
        let mut options = A::default();
        *options.lr_mut() = lr.into_arg();
        expect(Self::with_options(params, options))
    }
}

impl<A: Algorithm> Optimizer for Optim<A> {
    fn name(&self) -> &'static str {
        A::NAME
    }
    fn try_step(&mut self) -> Result<()> {
        erased::run_alone(self)
    }
    fn try_step_closure(&mut self, closure: Closure<'_>) -> Result<Tensor> {
        erased::run_closure(self, closure)
    }
    fn try_zero_grad(&mut self, options: ZeroGradOptions) -> Result<()> {
        erased::zero_grad(self, options.set_to_none)
    }
    fn state_dict(&self) -> Tree<Tensor> {
        erased::save(self)
    }
    fn load_state_dict(&mut self, state: &Tree<Tensor>) -> Result<()> {
        erased::load(self, state)
    }
    fn group_count(&self) -> usize {
        self.param_groups.len()
    }
    fn group_params(&self, group: usize) -> &[Parameter] {
        &self.param_groups[group].params
    }
    fn param_state(&self, group: usize, param: usize) -> &State {
        self.param_groups[group].state(param)
    }
    fn option(&self, group: usize, name: &str) -> Option<Value> {
        erased::option(self, group, name)
    }
    fn set_option(&mut self, group: usize, name: &str, v: Value) -> Result<()> {
        erased::set_option(self, group, name, v)
    }
    fn default_option(&self, name: &str) -> Option<Value> {
        erased::pick(&self.defaults, name)
    }
    fn add_group_of_values(
        &mut self,
        params: Vec<Parameter>,
        names: Option<Vec<String>>,
        given: &[(String, Value)],
    ) -> Result<()> {
        let mut options = self.defaults.clone();
        let extras = erased::set_all(&mut options, given)?;
        self.add_group(params, names, options, given.iter().map(|(k, _)| k.clone()).collect(), extras)
    }
    fn try_set_lr(&mut self, group: usize, lr: f64) -> Result<()> {
        erased::set_lr(self, group, lr)
    }
    fn hooks(&self) -> &Hooks {
        &self.hooks
    }
}

impl<A: Algorithm> ToTree for Optim<A> {
    fn to_tree(&self) -> Tree<Tensor> {
        self.state_dict()
    }
}

impl<A: Algorithm> fmt::Display for Optim<A> {
    /// PyTorch's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        erased::print(self, f)
    }
}
impl<A: Algorithm> fmt::Debug for Optim<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        erased::print(self, f)
    }
}

/// Takes the gradients of parameters away, or makes them zero.
pub(crate) fn clear_grads<'a>(params: impl Iterator<Item = &'a Parameter>, set_to_none: bool) -> Result<()> {
    for p in params {
        let Some(grad) = p.grad() else { continue };
        if set_to_none {
            p.try_set_grad(None)?;
        } else if grad.requires_grad() {
            let zero = grad.alias_detached();
            flambeau_core::ops::zero_(&zero)?;
            p.try_set_grad(Some(zero))?;
        } else {
            flambeau_core::ops::zero_(&grad)?;
        }
    }
    Ok(())
}
