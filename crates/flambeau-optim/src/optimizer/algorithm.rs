//! What an update rule says of itself, and its step over the groups.

use crate::optimizer::group::{Entry, ParamGroup, State};
use crate::optimizer::{Optim, erased};
use crate::options::number_or_tensor::Number;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::{Error, Result, Tensor, Value};
use std::fmt;

/// A function that computes the loss and runs backward.
pub type Closure<'a> = &'a mut dyn FnMut() -> Result<Tensor>;

/// An update rule: an options struct that knows its step. A user's own rule implements this, is built by
/// [`Optim::with_options`] or [`Optim::with_groups`], and gets groups, hooks, state dicts and schedules. It needs a name, the
/// step and where its learning rate is; the step runs without a record.
///
/// ```
/// use torch::optim::lr_scheduler::StepLR;
/// use torch::optim::{Algorithm, Entry, Number, Optim};
/// use torch::prelude::*;
/// use torch::{Result, nn};
///
/// /// Signs of a running mean (Chen et al. 2023).
/// #[derive(Clone, Debug)]
/// struct Lion {
///     lr: Number,
///     betas: (f64, f64),
/// }
/// impl Algorithm for Lion {
///     const NAME: &'static str = "Lion";
///     fn update(&self, entries: &mut [Entry<'_>]) -> Result<()> {
///         for e in entries {
///             e.state.zeros("exp_avg", e.param)?;             // as large as the parameter, in the first step
///             let mean = e.state.get("exp_avg").unwrap();     // a handle, so what is written to it stays
///             let step = (mean * self.betas.0 + &e.grad * (1.0 - self.betas.0)).sign();
///             e.param.sub_(&(step * self.lr.value()));
///             mean.lerp_(&e.grad, 1.0 - self.betas.1);
///         }
///         Ok(())
///     }
///     fn lr(&self) -> &Number {
///         &self.lr
///     }
///     fn lr_mut(&mut self) -> &mut Number {
///         &mut self.lr
///     }
/// }
/// # fn main() -> Result<()> {
/// let layer = nn::Linear::new(3, 1);
/// let mut optimizer = Optim::with_options(layer.parameters(), Lion { lr: 0.1.into(), betas: (0.9, 0.99) })?;
/// let mut schedule = StepLR::new(&mut optimizer, 1, 0.5);
/// let before = layer.weight.copy();
/// layer.call(&torch::ones([2, 3])).sum().backward();
/// optimizer.step();
/// schedule.step(&mut optimizer);
/// assert!(torch::allclose(&layer.weight, &(before - 0.1)));
/// assert_eq!(optimizer.lr(0), 0.05);
/// let state = optimizer.state_dict();                         // `exp_avg` and the rate, for `torch::save`
/// optimizer.load_state_dict(&state)?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no update rule of an optimizer",
    label = "no options of an optimizer",
    note = "`optim::AdamOptions` and the like are; a rule of your own implements `optim::Algorithm`"
)]
pub trait Algorithm: Clone + fmt::Debug + Send + Sync + 'static {
    /// The documented name.
    const NAME: &'static str;
    /// Entries of the state that PyTorch keeps as 0-d tensors.
    const NUMBERS: &'static [&'static str] = &["step"];
    /// The state holds numbers and lists too (LBFGS).
    const FREE_STATE: bool = false;
    /// Arguments of the constructor that can be given by position; the others are keywords only.
    const POSITIONAL: usize = usize::MAX;
    /// Options in the order of PyTorch's files, where it is not that of the constructor.
    const ORDER: &'static [&'static str] = &[];
    /// The rule takes sparse gradients.
    const SPARSE: bool = false;
    /// What a rule that does not take them says.
    fn refuses_sparse() -> String {
        format!("{} does not support sparse gradients", Self::NAME)
    }
    /// Checks the options; by default all are right.
    ///
    /// # Errors
    /// Values out of range, with PyTorch's texts.
    fn check(&self) -> Result<()> {
        Ok(())
    }
    /// Checks that come after the groups are made.
    ///
    /// # Errors
    /// Parameters that the rule does not take, flags that exclude each other.
    fn check_groups(&self, _groups: &[ParamGroup<Self>]) -> Result<()> {
        Ok(())
    }
    /// Fills in options that follow from others.
    fn complete(&mut self) {}
    /// What the state holds before the first step.
    ///
    /// # Errors
    /// No memory.
    fn prepare(&self, _p: &Tensor, _state: &mut State) -> Result<()> {
        Ok(())
    }
    /// One step of the parameters of a group that have a gradient.
    ///
    /// # Errors
    /// Dtypes that the rule does not have.
    fn update(&self, entries: &mut [Entry<'_>]) -> Result<()>;
    /// One step of all groups; gives the closure's loss.
    ///
    /// # Errors
    /// As for [`Algorithm::update`]; a parameter that a conversion of its module replaced.
    fn step(optim: &mut Optim<Self>, closure: Option<Closure<'_>>) -> Result<Option<Tensor>> {
        erased::step(optim, closure)
    }
    /// All options by name, which state dicts keep; by default the learning rate alone.
    fn options(&self) -> Vec<(&'static str, Value)> {
        vec![("lr", self.lr().clone().into_value())]
    }
    /// Sets one option by name; `false` if there is none. By default it knows the learning rate.
    ///
    /// # Errors
    /// A value of the wrong type.
    fn set_option(&mut self, name: &str, v: &Value) -> Result<bool> {
        if name != "lr" {
            return Ok(false);
        }
        *self.lr_mut() = Number::from_value(v)?;
        Ok(true)
    }
    /// The documented keywords, in order: for rules that are made by name.
    fn parameters() -> &'static [flambeau_core::dispatch::object::Parameter] {
        &[]
    }
    /// From values, one or none per keyword: for rules that are made by name.
    ///
    /// # Errors
    /// Values of the wrong type; by default always.
    fn of_values(_values: &[Option<Value>]) -> Result<Self> {
        Err(Error::type_(format!("{} is not made by name", Self::NAME)))
    }
    /// Entries of a group that are no options and never change.
    fn fixed() -> &'static [(&'static str, Value)] {
        &[]
    }
    /// Learning rate.
    fn lr(&self) -> &Number;
    /// Learning rate, to be changed.
    fn lr_mut(&mut self) -> &mut Number;
    /// Whether steps are recorded.
    fn differentiable(&self) -> bool {
        false
    }
}

/// The methods of [`Algorithm`] that read and write options.
macro_rules! algorithm {
    ($($differentiable:ident)?) => {
        fn options(&self) -> Vec<(&'static str, flambeau_core::Value)> {
            self.values()
        }
        fn set_option(&mut self, name: &str, v: &flambeau_core::Value) -> flambeau_core::Result<bool> {
            self.set_value(name, v)
        }
        fn parameters() -> &'static [flambeau_core::dispatch::object::Parameter] {
            &Self::PARAMETERS
        }
        #[inline]
        fn of_values(values: &[Option<flambeau_core::Value>]) -> flambeau_core::Result<Self> {
            Self::from_values(values)
        }
        fn lr(&self) -> &crate::options::number_or_tensor::Number {
            &self.lr
        }
        fn lr_mut(&mut self) -> &mut crate::options::number_or_tensor::Number {
            &mut self.lr
        }
        $(fn $differentiable(&self) -> bool {
            self.$differentiable
        })?
    };
}
/// `build` and its kin of an options struct.
macro_rules! build {
    ($options:ident => $t:ident) => {
        impl $options {
            /// Builds the optimizer of the parameters. Panics with the error's text.
            #[track_caller]
            pub fn build(self, params: impl crate::optimizer::parameters::IntoParameters) -> $t {
                flambeau_core::api::ergonomic::expect(self.try_build(params))
            }
            /// Builds the optimizer of the parameters.
            ///
            /// # Errors
            /// Options out of range; no parameters; tensors that are no leaves.
            pub fn try_build(
                self,
                params: impl crate::optimizer::parameters::IntoParameters,
            ) -> flambeau_core::Result<$t> {
                self.build_of(params.into_parameters())
            }
            // of no type of the caller's, so that it is compiled here and not in each program
            fn build_of(self, params: Vec<flambeau_nn::Parameter>) -> flambeau_core::Result<$t> {
                crate::optimizer::Optim::of_list(params, self)
            }
            /// Builds the optimizer of parameters with their names, which state dicts then carry.
            ///
            /// # Errors
            /// Options out of range; no parameters; tensors that are no leaves.
            pub fn try_build_named(
                self,
                params: impl IntoIterator<Item = (impl Into<String>, impl Into<flambeau_nn::Parameter>)>,
            ) -> flambeau_core::Result<$t> {
                crate::optimizer::Optim::with_named_options(params, self)
            }
        }
    };
}
pub(crate) use {algorithm, build};
