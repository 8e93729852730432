//! Options that are numbers, or tensors of one element.

use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::text::PyText;
use flambeau_core::{Error, Result, Scalar, Tensor, Value, ensure, ops};

/// A numeric option: a Python number, or a tensor of one element, which schedules write to and which may require a
/// gradient.
///
/// ```
/// use torch::optim::{Number, SGDOptions};
/// use torch::{nn, prelude::*};
///
/// let rate = torch::tensor(0.1);
/// let mut optimizer = SGDOptions::new().lr(&rate).build(nn::Linear::new(2, 1).parameters());
/// optimizer.set_lr(0, 0.5);
/// assert!(matches!(&optimizer.param_groups[0].options.lr, Number::Tensor(t) if t.item::<f64>() == 0.5));
/// assert_eq!(Number::from(3).to_string(), "3");
/// ```
#[derive(Clone, Debug)]
pub enum Number {
    /// A number; integers stay integers when printed and saved.
    Plain(Scalar),
    /// A tensor of one element.
    Tensor(Tensor),
}
impl Number {
    /// The value. A tensor of another size than one gives NaN; the optimizers refuse it before.
    pub fn value(&self) -> f64 {
        match self {
            Number::Plain(s) => s.to_f64(),
            Number::Tensor(t) => t.try_item().unwrap_or(f64::NAN),
        }
    }
    /// The tensor, if it is one.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Number::Plain(_) => None,
            Number::Tensor(t) => Some(t),
        }
    }
    /// What a formula's result with this number is rounded to: a tensor of float32 computes in float32.
    pub(crate) fn round(&self, v: f64) -> f64 {
        match self {
            Number::Tensor(t) if t.dtype() != flambeau_core::DType::F64 => v as f32 as f64,
            _ => v,
        }
    }
    /// `self * x`, in the precision of the number.
    pub(crate) fn times(&self, x: f64) -> f64 {
        self.round(self.value() * self.round(x))
    }
    /// `self / x`, in the precision of the number.
    pub(crate) fn over(&self, x: f64) -> f64 {
        self.round(self.value() / self.round(x))
    }
    /// The factor of a parameter that loses the part `self * decay`.
    pub(crate) fn shrink(&self, decay: f64) -> f64 {
        self.round(1.0 - self.times(decay))
    }
    /// The tensor as a 0-d one, if it requires a gradient: then formulas record it.
    pub(crate) fn recorded(&self) -> Result<Option<Tensor>> {
        match self.tensor() {
            Some(t) if t.requires_grad() => ops::reshape(t, &[]).map(Some),
            _ => Ok(None),
        }
    }
    /// Writes a value: into the tensor's memory, or in place of the number.
    pub(crate) fn set(&mut self, v: f64) -> Result<()> {
        match self {
            Number::Plain(s) => *s = Scalar::Float(v),
            Number::Tensor(t) => {
                let _no_grad = flambeau_autograd::no_grad_guard();
                ops::fill_(t, Scalar::Float(v))?;
            }
        }
        Ok(())
    }
    /// A copy that shares no memory.
    pub(crate) fn copied(&self) -> Result<Number> {
        Ok(match self {
            Number::Plain(s) => Number::Plain(*s),
            Number::Tensor(t) => Number::Tensor(ops::clone(&t.alias_detached(), None)?),
        })
    }
    /// A learning rate as a tensor has one element.
    ///
    /// # Errors
    /// More or fewer elements.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        if let Some(t) = self.tensor() {
            ensure!(t.numel() == 1, Value, "Tensor {name} must be 1-element");
        }
        Ok(())
    }
}
impl PyText for Number {
    fn py_text(&self) -> String {
        text(&self.clone().into_value())
    }
}
impl std::fmt::Display for Number {
    /// Python's text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.py_text())
    }
}
impl IntoValue for Number {
    fn into_value(self) -> Value {
        match self {
            Number::Plain(s) => s.into_value(),
            Number::Tensor(t) => Value::Tensor(t),
        }
    }
}
impl FromValue for Number {
    fn from_value(v: &Value) -> Result<Self> {
        match v {
            Value::Tensor(t) => Ok(Number::Tensor(t.clone())),
            other => Scalar::from_value(other).map(Number::Plain),
        }
    }
}
macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl From<$t> for Number {
            fn from(v: $t) -> Number {
                Number::Plain(Scalar::from(v))
            }
        }
        impl IntoArg<Number> for $t {
            fn into_arg(self) -> Number {
                Number::from(self)
            }
        }
    )*};
}
numbers!(i32, i64, usize, f64, Scalar);
impl IntoArg<Number> for f32 {
    fn into_arg(self) -> Number {
        Number::from(IntoArg::<f64>::into_arg(self))
    }
}
impl IntoArg<Number> for Number {
    fn into_arg(self) -> Number {
        self
    }
}
impl IntoArg<Number> for Tensor {
    fn into_arg(self) -> Number {
        Number::Tensor(self)
    }
}
impl IntoArg<Number> for &Tensor {
    fn into_arg(self) -> Number {
        Number::Tensor(self.clone())
    }
}

/// Two numeric options that go together, such as `betas`.
///
/// ```
/// use torch::optim::AdamOptions;
///
/// let options = AdamOptions::new().betas((0.5, 0.75));
/// assert_eq!(options.betas.values(), (0.5, 0.75));
/// ```
#[derive(Clone, Debug)]
pub struct Pair(pub Number, pub Number);
impl Pair {
    /// Both values.
    pub fn values(&self) -> (f64, f64) {
        (self.0.value(), self.1.value())
    }
}
impl IntoValue for Pair {
    fn into_value(self) -> Value {
        Value::Tuple(vec![self.0.into_value(), self.1.into_value()])
    }
}
impl FromValue for Pair {
    fn from_value(v: &Value) -> Result<Self> {
        match v.items() {
            // PyTorch looks at the first two
            Some([a, b, ..]) => Ok(Pair(Number::from_value(a)?, Number::from_value(b)?)),
            Some(_) => Err(Error::index("tuple index out of range")),
            None => Err(Error::type_(format!("'{}' object is not subscriptable", v.type_name()))),
        }
    }
}
impl PyText for Pair {
    fn py_text(&self) -> String {
        text(&self.clone().into_value())
    }
}
impl IntoArg<Pair> for Pair {
    fn into_arg(self) -> Pair {
        self
    }
}
impl<A: IntoArg<Number>, B: IntoArg<Number>> IntoArg<Pair> for (A, B) {
    fn into_arg(self) -> Pair {
        Pair(self.0.into_arg(), self.1.into_arg())
    }
}

/// One number for all groups, or one for each.
///
/// ```
/// use torch::optim::{PerGroup, SGD, SGDOptions};
/// use torch::optim::lr_scheduler::{CyclicLR, LRScheduler};
/// use torch::{nn, prelude::*};
///
/// let p = || vec![nn::Parameter::new(torch::ones([1]))];
/// let options = SGDOptions::new().lr(0.1).momentum(0.9);
/// let mut optimizer = SGD::with_groups(vec![(p(), options.clone()), (p(), options.clone())], options)?;
/// let schedule = CyclicLR::new(&mut optimizer, [0.1, 0.2], PerGroup::All(1.0.into()));
/// assert_eq!(schedule.get_last_lr(), [0.1, 0.2]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum PerGroup {
    /// For all.
    All(Number),
    /// One each.
    Each(Vec<Number>),
}
impl PerGroup {
    /// The numbers of the groups.
    ///
    /// # Errors
    /// Another number of values than of groups.
    pub(crate) fn of(&self, groups: usize, name: &str) -> Result<Vec<Number>> {
        match self {
            PerGroup::All(n) => (0..groups).map(|_| n.copied()).collect(),
            PerGroup::Each(l) => {
                ensure!(
                    l.len() == groups,
                    Value,
                    "{name} must have the same length as optimizer.param_groups. {name} has {} values, param_groups has {groups}.",
                    l.len()
                );
                l.iter().map(Number::copied).collect()
            }
        }
    }
}
impl FromValue for PerGroup {
    fn from_value(v: &Value) -> Result<Self> {
        Ok(match v.items() {
            Some(l) => PerGroup::Each(l.iter().map(Number::from_value).collect::<Result<_>>()?),
            None => PerGroup::All(Number::from_value(v)?),
        })
    }
}
impl IntoValue for PerGroup {
    fn into_value(self) -> Value {
        match self {
            PerGroup::All(n) => n.into_value(),
            PerGroup::Each(l) => l.into_value(),
        }
    }
}
impl PyText for PerGroup {
    fn py_text(&self) -> String {
        text(&self.clone().into_value())
    }
}
macro_rules! for_all_groups {
    ($($t:ty),*) => {$(
        impl IntoArg<PerGroup> for $t {
            fn into_arg(self) -> PerGroup {
                PerGroup::All(self.into_arg())
            }
        }
    )*};
}
for_all_groups!(i32, f64, &Tensor);
impl<const N: usize> IntoArg<PerGroup> for [f64; N] {
    fn into_arg(self) -> PerGroup {
        PerGroup::Each(self.into_iter().map(Number::from).collect())
    }
}
impl IntoArg<PerGroup> for Vec<f64> {
    fn into_arg(self) -> PerGroup {
        PerGroup::Each(self.into_iter().map(Number::from).collect())
    }
}
impl IntoArg<PerGroup> for PerGroup {
    fn into_arg(self) -> PerGroup {
        self
    }
}

/// A value inside a list, as Python's `repr` writes it.
fn quoted(v: &Value) -> String {
    match v {
        Value::Str(s) => format!("'{s}'"),
        Value::Tensor(t) => t.to_string(),
        other => text(other),
    }
}
/// A value as Python's format strings write it: a 0-d tensor is its number there.
pub(crate) fn text(v: &Value) -> String {
    let joined = |l: &[Value]| l.iter().map(quoted).collect::<Vec<_>>().join(", ");
    match v {
        Value::None => "None".into(),
        Value::Str(s) => s.clone(),
        Value::Tensor(t) if t.dim() == 0 => {
            t.try_item::<f64>().map_or_else(|_| t.to_string(), |v| v.py_text())
        }
        Value::Tensor(t) => t.to_string(),
        Value::Tuple(l) if l.len() == 1 => format!("({},)", joined(l)),
        Value::Tuple(l) => format!("({})", joined(l)),
        Value::List(l) => format!("[{}]", joined(l)),
        other => other.as_scalar().map_or_else(|| format!("{other:?}"), |s| s.py_text()),
    }
}
