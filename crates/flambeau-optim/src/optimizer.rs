//! The `Optimizer` trait and the one implementation of everything but the algorithms.

use crate::group::{ParamGroup, State};
use crate::saved;
use flambeau_core::class::{self, PyText};
use flambeau_core::ergonomic::expect;
use flambeau_core::{Error, Result, Tensor, Value, ensure};
use flambeau_nn::Parameter;
use flambeau_serialization::{ToTree, Tree};
use std::collections::HashSet;
use std::fmt;

/// An update rule: an options struct that knows its step. A user's own rule implements this and gets groups, files and
/// schedules.
pub trait Algorithm: Clone + fmt::Debug + Send + Sync + 'static {
    /// The documented name.
    const NAME: &'static str;
    /// Names of the tensors that it keeps per parameter, in the order of PyTorch's files.
    const TENSORS: &'static [&'static str];
    /// Whether it counts steps per parameter.
    const COUNTS: bool = false;
    /// Checks the options.
    ///
    /// # Errors
    /// Values out of range, with PyTorch's texts.
    fn check(&self) -> Result<()>;
    /// One step of one parameter.
    ///
    /// # Errors
    /// Dtypes that the rule does not have.
    fn update(&self, p: &Tensor, grad: &Tensor, state: &mut State) -> Result<()>;
    /// All options by name.
    fn options(&self) -> Vec<(&'static str, Value)>;
    /// Sets one option by name; `false` if there is none.
    ///
    /// # Errors
    /// A value of the wrong type.
    fn set_option(&mut self, name: &str, v: &Value) -> Result<bool>;
    /// The documented keywords, in order.
    fn parameters() -> &'static [class::Parameter];
    /// From values, one or none per keyword.
    ///
    /// # Errors
    /// Values of the wrong type.
    fn of_values(values: &[Option<Value>]) -> Result<Self>;
    /// Entries of a saved group that are no options.
    fn fixed() -> &'static [(&'static str, Value)] {
        &[]
    }
    /// Learning rate.
    fn lr(&self) -> f64;
    /// Sets the learning rate.
    fn set_lr(&mut self, lr: f64);
    /// Momentum or first decay rate, which some schedules move.
    fn momentum(&self) -> Option<f64>;
    /// Sets it.
    fn set_momentum(&mut self, v: f64);
}

/// The methods of [`Algorithm`] that read and write options.
macro_rules! algorithm {
    (momentum: |$o:ident| $get:expr, |$m:ident, $v:ident| $set:expr) => {
        fn options(&self) -> Vec<(&'static str, flambeau_core::Value)> {
            self.values()
        }
        fn set_option(&mut self, name: &str, v: &flambeau_core::Value) -> Result<bool> {
            self.set_value(name, v)
        }
        fn parameters() -> &'static [flambeau_core::class::Parameter] {
            &Self::PARAMETERS
        }
        fn of_values(values: &[Option<flambeau_core::Value>]) -> Result<Self> {
            Self::from_values(values)
        }
        fn lr(&self) -> f64 {
            self.lr
        }
        fn set_lr(&mut self, lr: f64) {
            self.lr = lr;
        }
        fn momentum(&self) -> Option<f64> {
            let $o = self;
            $get
        }
        fn set_momentum(&mut self, $v: f64) {
            let $m = self;
            $set;
        }
    };
}
/// `build` and `try_build` of an options struct.
macro_rules! build {
    ($t:ident) => {
        /// Builds the optimizer of the parameters. Panics with the error's text.
        #[track_caller]
        pub fn build(self, params: impl IntoIterator<Item = impl Into<flambeau_nn::Parameter>>) -> $t {
            flambeau_core::ergonomic::expect(self.try_build(params))
        }
        /// Builds the optimizer of the parameters.
        ///
        /// # Errors
        /// Options out of range; no parameters; tensors that are no leaves.
        pub fn try_build(
            self,
            params: impl IntoIterator<Item = impl Into<flambeau_nn::Parameter>>,
        ) -> Result<$t> {
            Optim::with_options(params, self)
        }
    };
}
pub(crate) use {algorithm, build};

/// What every optimizer does.
#[doc(alias = "torch.optim.Optimizer")]
pub trait Optimizer: fmt::Debug + Send {
    /// Updates all parameters that have a gradient.
    ///
    /// # Errors
    /// A parameter that a conversion of its module replaced; dtypes that the algorithm does not have.
    fn try_step(&mut self) -> Result<()>;
    /// [`Optimizer::try_step`] that panics.
    #[track_caller]
    #[doc(alias = "torch.optim.Optimizer.step")]
    fn step(&mut self) {
        expect(self.try_step());
    }
    /// Computes the loss by a closure that also runs backward, then steps; gives the loss.
    #[track_caller]
    fn step_closure(&mut self, closure: &mut dyn FnMut() -> Tensor) -> Tensor {
        let loss = flambeau_autograd::enable_grad(closure);
        expect(self.try_step());
        loss
    }
    /// Forgets all gradients.
    #[doc(alias = "torch.optim.Optimizer.zero_grad")]
    fn zero_grad(&mut self) {
        expect(self.try_zero_grad(true));
    }
    /// Forgets all gradients, or (`set_to_none` false) fills them with zeros.
    ///
    /// # Errors
    /// A gradient that is borrowed.
    fn try_zero_grad(&mut self, set_to_none: bool) -> Result<()>;
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
    /// Learning rate of a group.
    fn lr(&self, group: usize) -> f64;
    /// Sets the learning rate of a group.
    fn set_lr(&mut self, group: usize, lr: f64);
    /// Learning rate that schedules start from; the present one unless it was set.
    fn initial_lr(&self, group: usize) -> f64;
    /// Sets the learning rate that schedules start from.
    fn set_initial_lr(&mut self, group: usize, lr: f64);
    /// Whether [`Optimizer::set_initial_lr`] was called for the group.
    fn has_initial_lr(&self, group: usize) -> bool;
    /// Momentum or first decay rate of a group, where the algorithm has one.
    fn momentum(&self, group: usize) -> Option<f64>;
    /// Sets it.
    fn set_momentum(&mut self, group: usize, v: f64);
}

/// An optimizer: parameter groups and an update rule.
#[derive(Clone)]
pub struct Optim<A> {
    /// The groups; options may be changed between steps.
    pub param_groups: Vec<ParamGroup<A>>,
    defaults: A,
}

impl<A: Algorithm> Optim<A> {
    /// One group of parameters with the given options.
    ///
    /// # Errors
    /// Options out of range; no parameters; tensors that are no leaves.
    pub fn with_options(params: impl IntoIterator<Item = impl Into<Parameter>>, options: A) -> Result<Self> {
        let params: Vec<Parameter> = params.into_iter().map(Into::into).collect();
        ensure!(!params.is_empty(), Value, "optimizer got an empty parameter list");
        Self::with_groups(vec![(params, options.clone())], options)
    }
    /// Several groups, each with its own options; `defaults` are those of groups that are added later.
    ///
    /// # Errors
    /// As for [`Optim::with_options`]; a parameter in two groups.
    pub fn with_groups(groups: Vec<(Vec<Parameter>, A)>, defaults: A) -> Result<Self> {
        defaults.check()?;
        let mut out = Optim { param_groups: Vec::new(), defaults };
        for (params, options) in groups {
            out.add_param_group(params, options)?;
        }
        ensure!(!out.param_groups.is_empty(), Value, "optimizer got an empty parameter list");
        Ok(out)
    }
    /// Adds a group of parameters with its own options.
    ///
    /// # Errors
    /// Options out of range; tensors that are no leaves; a parameter that another group has.
    #[doc(alias = "torch.optim.Optimizer.add_param_group")]
    pub fn add_param_group(
        &mut self,
        params: impl IntoIterator<Item = impl Into<Parameter>>,
        options: A,
    ) -> Result<()> {
        options.check()?;
        let params: Vec<Parameter> = params.into_iter().map(Into::into).collect();
        ensure!(params.iter().all(|p| p.is_leaf()), Value, "can't optimize a non-leaf Tensor");
        let known: HashSet<usize> =
            self.param_groups.iter().flat_map(|g| &g.params).map(|p| p.tensor().id()).collect();
        ensure!(
            !params.iter().any(|p| known.contains(&p.tensor().id())),
            Value,
            "some parameters appear in more than one parameter group"
        );
        self.param_groups.push(ParamGroup::new(params, options));
        Ok(())
    }
    /// The options that the optimizer was made with.
    pub fn defaults(&self) -> &A {
        &self.defaults
    }
}
impl<A: Algorithm + Default> Optim<A> {
    /// The optimizer of the parameters with this learning rate and the documented defaults. Panics with the error's text.
    #[track_caller]
    pub fn new(
        params: impl IntoIterator<Item = impl Into<Parameter>>,
        lr: impl flambeau_core::class::IntoArg<f64>,
    ) -> Self {
        let mut options = A::default();
        options.set_lr(lr.into_arg());
        expect(Self::with_options(params, options))
    }
}

impl<A: Algorithm> Optimizer for Optim<A> {
    fn try_step(&mut self) -> Result<()> {
        for (g, group) in self.param_groups.iter_mut().enumerate() {
            for (i, (p, state)) in group.params.iter().zip(&mut group.states).enumerate() {
                if p.is_replaced() {
                    return Err(Error::runtime(format!(
                        "{}: parameter {i} of group {g} was replaced when its module was converted (to, half, ...): \
                         build the optimizer after the conversion",
                        A::NAME
                    )));
                }
                if let Some(grad) = p.grad() {
                    group.options.update(p.tensor(), &grad, state)?;
                }
            }
        }
        Ok(())
    }
    fn try_zero_grad(&mut self, set_to_none: bool) -> Result<()> {
        for p in self.param_groups.iter().flat_map(|g| &g.params) {
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
    fn state_dict(&self) -> Tree<Tensor> {
        saved::save(self)
    }
    fn load_state_dict(&mut self, state: &Tree<Tensor>) -> Result<()> {
        saved::load(self, state)
    }
    fn group_count(&self) -> usize {
        self.param_groups.len()
    }
    fn group_params(&self, group: usize) -> &[Parameter] {
        &self.param_groups[group].params
    }
    fn lr(&self, group: usize) -> f64 {
        self.param_groups[group].options.lr()
    }
    fn set_lr(&mut self, group: usize, lr: f64) {
        self.param_groups[group].options.set_lr(lr);
    }
    fn initial_lr(&self, group: usize) -> f64 {
        let g = &self.param_groups[group];
        g.initial_lr.unwrap_or_else(|| g.options.lr())
    }
    fn set_initial_lr(&mut self, group: usize, lr: f64) {
        self.param_groups[group].initial_lr = Some(lr);
    }
    fn has_initial_lr(&self, group: usize) -> bool {
        self.param_groups[group].initial_lr.is_some()
    }
    fn momentum(&self, group: usize) -> Option<f64> {
        self.param_groups[group].options.momentum()
    }
    fn set_momentum(&mut self, group: usize, v: f64) {
        self.param_groups[group].options.set_momentum(v);
    }
}

impl<A: Algorithm> ToTree for Optim<A> {
    fn to_tree(&self) -> Tree<Tensor> {
        self.state_dict()
    }
}

/// A value as Python prints it.
fn text(v: &Value) -> String {
    match v {
        Value::None => "None".into(),
        Value::Str(s) => s.clone(),
        Value::Tuple(l) => format!("({})", l.iter().map(text).collect::<Vec<_>>().join(", ")),
        other => other.as_scalar().map_or_else(|| format!("{other:?}"), |s| s.py_text()),
    }
}
/// A line per option, by name.
fn lines(f: &mut fmt::Formatter<'_>, mut all: Vec<(&'static str, Value)>) -> fmt::Result {
    all.sort_by_key(|(n, _)| *n);
    all.iter().try_for_each(|(n, v)| writeln!(f, "    {n}: {}", text(v)))
}
impl<A: Algorithm> fmt::Display for Optim<A> {
    /// PyTorch's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", A::NAME)?;
        for (i, g) in self.param_groups.iter().enumerate() {
            write!(f, "\nParameter Group {i}\n")?;
            let mut all = g.options.options();
            all.extend(A::fixed().iter().cloned());
            all.extend(g.initial_lr.map(|lr| ("initial_lr", Value::Float(lr))));
            lines(f, all)?;
        }
        f.write_str(")")
    }
}
impl<A: Algorithm> fmt::Debug for Optim<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
