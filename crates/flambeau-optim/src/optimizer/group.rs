//! Parameter groups and what an optimizer remembers of each parameter.

use super::algorithm::Algorithm;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::iter::promotion::default_dtype;
use flambeau_core::{DType, Result, Tensor, Value, ops};
use flambeau_nn::Parameter;

/// One entry of what an optimizer remembers.
///
/// ```
/// use torch::optim::{AdamOptions, Kept};
/// use torch::{nn, prelude::*};
///
/// let w = nn::Parameter::new(torch::tensor([1.0]));
/// let mut optimizer = AdamOptions::new().build([&w]);
/// w.set_grad(Some(torch::ones([1])));
/// optimizer.step();
/// let state = optimizer.param_state(0, 0);
/// assert!(matches!(state.entry("step"), Some(Kept::Number(1.0, _))));
/// assert!(matches!(state.entry("exp_avg"), Some(Kept::Tensor(_))));
/// ```
#[derive(Clone, Debug)]
pub enum Kept {
    /// A tensor.
    Tensor(Tensor),
    /// A number that PyTorch keeps as a 0-d tensor of this dtype: a count of steps, a product.
    Number(f64, DType),
    /// Anything else: numbers and lists of tensors of LBFGS.
    Value(Value),
}

/// What an optimizer remembers of one parameter, by PyTorch's names and in PyTorch's order.
///
/// ```
/// use torch::optim::SGDOptions;
/// use torch::{nn, prelude::*};
///
/// let w = nn::Parameter::new(torch::tensor([1.0]));
/// let mut optimizer = SGDOptions::new().lr(0.1).momentum(0.9).build([&w]);
/// w.set_grad(Some(torch::tensor([2.0])));
/// optimizer.step();
/// let state = optimizer.param_groups[0].state(0);
/// assert_eq!(state.get("momentum_buffer").unwrap().to_vec::<f32>(), [2.0]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct State {
    entries: Vec<(String, Kept)>,
}
impl State {
    /// All entries.
    pub fn entries(&self) -> &[(String, Kept)] {
        &self.entries
    }
    /// The entry of that name.
    pub fn entry(&self, name: &str) -> Option<&Kept> {
        self.entries.iter().find(|(n, _)| n == name).map(|(_, k)| k)
    }
    /// The tensor of that name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        match self.entry(name) {
            Some(Kept::Tensor(t)) => Some(t),
            _ => None,
        }
    }
    /// The number of that name.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.entry(name)? {
            Kept::Number(v, _) => Some(*v),
            Kept::Value(v) => v.as_scalar().map(|s| s.to_f64()),
            Kept::Tensor(_) => None,
        }
    }
    /// Puts an entry under a name.
    pub fn put(&mut self, name: &str, k: Kept) {
        match self.entries.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = k,
            None => self.entries.push((name.to_owned(), k)),
        }
    }
    /// Puts a tensor under a name.
    pub fn set(&mut self, name: &str, t: Tensor) {
        self.put(name, Kept::Tensor(t));
    }
    /// Puts a number under a name, rounded to the dtype that it is kept in: float32, or float64 where that is the
    /// default dtype.
    pub fn set_number(&mut self, name: &str, v: f64) {
        let dtype = match self.entry(name) {
            Some(Kept::Number(_, d)) => *d,
            _ if default_dtype() == DType::F64 => DType::F64,
            _ => DType::F32,
        };
        self.put(name, Kept::Number(if dtype == DType::F64 { v } else { v as f32 as f64 }, dtype));
    }
    /// Counts a step; gives its number, from 1.
    pub fn count(&mut self) -> f64 {
        self.set_number("step", self.number("step").unwrap_or(0.0) + 1.0);
        self.number("step").unwrap_or(1.0)
    }
    /// Zeros of the parameter's size and strides under a name, unless there is a tensor already.
    ///
    /// # Errors
    /// No memory.
    pub fn zeros(&mut self, name: &str, like: &Tensor) -> Result<()> {
        if self.get(name).is_none() {
            self.set(name, ops::zeros_like(&like.alias_detached(), None, None, None, None, None)?);
        }
        Ok(())
    }
    /// Nothing remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// A parameter that has a gradient, in one step: what an [`Algorithm`](crate::Algorithm) gets.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The parameter.
    pub param: &'a Tensor,
    /// Its gradient.
    pub grad: Tensor,
    /// What is remembered of it.
    pub state: &'a mut State,
}

/// Entries with sparse gradients, and the others.
pub(crate) fn apart<'a>(entries: &'a mut [Entry<'_>]) -> (Vec<Entry<'a>>, Vec<Entry<'a>>) {
    let each =
        entries.iter_mut().map(|e| Entry { param: e.param, grad: e.grad.clone(), state: &mut *e.state });
    each.partition(|e| e.grad.is_sparse_any())
}

/// Parameters that are updated with the same options.
#[derive(Clone, Debug)]
pub struct ParamGroup<A> {
    /// The parameters.
    pub params: Vec<Parameter>,
    /// The options; changed freely between steps.
    pub options: A,
    pub(crate) names: Option<Vec<String>>,
    /// Keys that are no options, in the order of their arrival: what schedules keep here, and what files bring.
    pub(crate) extras: Vec<(String, Value)>,
    /// Keys that the group was given, which files list before the defaults.
    pub(crate) given: Vec<String>,
    pub(crate) states: Vec<State>,
}
impl<A: Algorithm> ParamGroup<A> {
    /// The learning rate as a number.
    ///
    /// ```
    /// use torch::{nn, optim};
    /// let optimizer = optim::SGD::new(nn::Linear::new(2, 1).parameters(), 0.1);
    /// # use torch::prelude::*;
    /// let rates: Vec<f64> = optimizer.param_groups.iter().map(|g| g.lr()).collect();
    /// assert_eq!(rates, [0.1]);
    /// ```
    pub fn lr(&self) -> f64 {
        self.options.lr().value()
    }
}
impl<A> ParamGroup<A> {
    pub(crate) fn new(params: Vec<Parameter>, names: Option<Vec<String>>, options: A) -> Self {
        let states = params.iter().map(|_| State::default()).collect();
        ParamGroup { params, options, names, extras: Vec::new(), given: Vec::new(), states }
    }
    /// What is remembered of parameter `i`.
    pub fn state(&self, i: usize) -> &State {
        &self.states[i]
    }
    /// Names of the parameters, if they were given with names.
    pub fn param_names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }
}
