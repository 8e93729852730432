//! What the recurrent modules share: their parameters, the checks of their arguments and inputs, and [`RNNBase`].

mod calls;
mod cells;
mod layers;

pub use calls::{MaybeTensors, Steps};
pub use cells::*;
pub use layers::*;

use crate::init;
use crate::module::base::Base;
use crate::module::deepcopy::Memo;
use crate::module::field::Field;
use crate::module::{Visitor, VisitorMut};
use crate::modules::options::Factory;
use crate::parameter::Parameter;
use crate::utils::rnn::PackedSequence;
use flambeau_core::dispatch::autocast::type_of;
#[cfg(feature = "by-name")]
use flambeau_core::dispatch::object::{Instance as _, Kwargs, ObjectRef};
use flambeau_core::settings::determinism::warn;
use flambeau_core::text::PyText;
use flambeau_core::types::autocast;
use flambeau_core::{DType, Error, Result, Tensor, ensure, ops};
#[cfg(feature = "by-name")]
use flambeau_core::{Device, Value};
use flambeau_macros::{Module, class, fields};

/// A recurrent module, and what it has beside its `forward`.
macro_rules! recurrent {
    ($(#[$doc:meta])* $t:ident, $options:ident) => {
        $(#[$doc])*
        #[derive(Debug, Module)]
        pub struct $t {
            base: Base,
            /// The arguments.
            pub options: $options,
            /// All parameters.
            pub weights: RecurrentWeights,
        }
        impl $t {
            fn from_options(options: $options) -> Result<Self> {
                let weights = options.spec()?.weights()?;
                Ok($t { base: Base::new(), weights, options })
            }
            /// Draws all parameters anew.
            ///
            /// # Errors
            /// A parameter that is borrowed.
            pub fn try_reset_parameters(&self) -> Result<()> {
                self.options.spec()?.draw(&self.weights)
            }
            /// The parameters of each layer and direction: `weight_ih`, `weight_hh`, the biases, the projection.
            pub fn all_weights(&self) -> Vec<Vec<Parameter>> {
                self.weights.groups()
            }
            /// Does nothing: on the CPU the parameters need not lie in one piece, and conversions keep what they have.
            pub fn flatten_parameters(&self) {}
        }
    };
}
/// The options that every recurrent module has.
#[fields]
pub(crate) struct Recurrent {
    /// Features of the input.
    pub input_size: i64,
    /// Features of the hidden state; those of the cell state where a projection makes others of them.
    pub hidden_size: i64,
    /// Layers, each over the results of the one before.
    #[default(1)]
    pub num_layers: i64,
    /// Whether biases are added.
    #[default(true)]
    pub bias: bool,
    /// Whether inputs and results are `(B, T, features)` instead of `(T, B, features)`.
    #[default(false)]
    pub batch_first: bool,
    /// Probability of dropout after each layer but the last.
    #[default(0.0)]
    pub dropout: f64,
    /// Whether each layer goes through the steps in both directions.
    #[default(false)]
    pub bidirectional: bool,
}
/// The arguments of a recurrent module, whatever its class.
#[derive(Clone, Debug)]
struct Spec {
    mode: &'static str,
    common: Recurrent,
    proj_size: i64,
    factory: Factory,
}
impl std::ops::Deref for Spec {
    type Target = Recurrent;
    fn deref(&self) -> &Recurrent {
        &self.common
    }
}

/// The parameters of a recurrent module, under PyTorch's names: `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`,
/// `bias_hh_l0`, `weight_hr_l0`, then with `_reverse`, then those of the next layer.
#[derive(Clone, Debug)]
pub struct RecurrentWeights {
    names: Vec<String>,
    all: Vec<Parameter>,
    each: usize,
}
impl RecurrentWeights {
    /// All parameters in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Parameter)> {
        self.names.iter().map(String::as_str).zip(&self.all)
    }
    /// The parameter of that name.
    pub fn get(&self, name: &str) -> Option<&Parameter> {
        self.iter().find(|(n, _)| *n == name).map(|(_, p)| p)
    }
    /// The parameters of each layer and direction.
    pub fn groups(&self) -> Vec<Vec<Parameter>> {
        self.all.chunks(self.each).map(<[Parameter]>::to_vec).collect()
    }
    fn tensors(&self) -> Vec<Tensor> {
        self.all.iter().map(|p| p.tensor().clone()).collect()
    }
}
impl Field for RecurrentWeights {
    fn visit_field<'a>(&'a self, _: &str, v: &mut dyn Visitor<'a>) {
        self.names.iter().zip(&self.all).for_each(|(n, p)| v.parameter(n, p));
    }
    fn visit_field_mut(&mut self, _: &str, v: &mut dyn VisitorMut) -> Result<()> {
        self.names.iter().zip(&mut self.all).try_for_each(|(n, p)| v.parameter(n, p))
    }
    fn copied_field(&self, memo: &mut Memo) -> Result<Self> {
        let all = self.all.iter().map(|p| p.copied_field(memo)).collect::<Result<_>>()?;
        Ok(RecurrentWeights { names: self.names.clone(), all, each: self.each })
    }
}

const DROPOUT: &str =
    "dropout should be a number in range [0, 1] representing the probability of an element being zeroed";

impl Spec {
    fn of<'o, O>(mode: &'static str, options: &'o O, proj_size: i64) -> Spec
    where
        Recurrent: From<&'o O>,
        Factory: From<&'o O>,
    {
        Spec { mode, common: options.into(), proj_size, factory: options.into() }
    }
    fn directions(&self) -> i64 {
        if self.bidirectional { 2 } else { 1 }
    }
    /// Size of the hidden state.
    fn real_hidden(&self) -> i64 {
        if self.proj_size > 0 { self.proj_size } else { self.hidden_size }
    }
    /// The parameters, drawn.
    fn weights(&self) -> Result<RecurrentWeights> {
        ensure!((0.0..=1.0).contains(&self.dropout), Value, "{DROPOUT}");
        if self.dropout > 0.0 && self.num_layers == 1 {
            warn(&format!(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater than 1, but got dropout={} and num_layers={}",
                self.dropout.py_text(),
                self.num_layers
            ));
        }
        ensure!(self.input_size > 0, Value, "input_size must be greater than zero");
        ensure!(self.hidden_size > 0, Value, "hidden_size must be greater than zero");
        ensure!(self.num_layers > 0, Value, "num_layers must be greater than zero");
        ensure!(
            self.proj_size >= 0,
            Value,
            "proj_size should be a positive integer or zero to disable projections"
        );
        ensure!(self.proj_size < self.hidden_size, Value, "proj_size has to be smaller than hidden_size");
        let gates = match self.mode {
            "LSTM" => 4,
            "GRU" => 3,
            "RNN_TANH" | "RNN_RELU" => 1,
            other => return Err(Error::value(format!("Unrecognized RNN mode: {other}"))),
        };
        let rows =
            self.hidden_size.checked_mul(gates).ok_or_else(|| Error::runtime("hidden_size is too large"))?;
        let (mut names, mut all) = (Vec::new(), Vec::new());
        let count = self.num_layers.checked_mul(self.directions() * 5).and_then(|n| usize::try_from(n).ok());
        if !count.is_some_and(|n| names.try_reserve(n).is_ok() && all.try_reserve(n).is_ok()) {
            return Err(Error::runtime(format!("there is no memory for {} layers", self.num_layers)));
        }
        for layer in 0..self.num_layers {
            for direction in 0..self.directions() {
                let suffix = if direction == 1 { "_reverse" } else { "" };
                let features =
                    if layer == 0 { self.input_size } else { self.real_hidden() * self.directions() };
                let mut put = |name: &str, sizes: &[i64]| -> Result<()> {
                    names.push(format!("{name}_l{layer}{suffix}"));
                    all.push(self.factory.parameter(sizes)?);
                    Ok(())
                };
                put("weight_ih", &[rows, features])?;
                put("weight_hh", &[rows, self.real_hidden()])?;
                if self.bias {
                    put("bias_ih", &[rows])?;
                    put("bias_hh", &[rows])?;
                }
                if self.proj_size > 0 {
                    put("weight_hr", &[self.proj_size, self.hidden_size])?;
                }
            }
        }
        let each = all.len() / (self.num_layers * self.directions()) as usize;
        let weights = RecurrentWeights { names, all, each };
        self.draw(&weights)?;
        Ok(weights)
    }
    /// Uniform within `1 / sqrt(hidden_size)`.
    fn draw(&self, w: &RecurrentWeights) -> Result<()> {
        let bound = 1.0 / (self.hidden_size as f64).sqrt();
        w.all.iter().try_for_each(|p| init::try_uniform_(p, -bound, bound, None))
    }
    fn check_input(&self, input: &Tensor, w: &RecurrentWeights, packed: bool) -> Result<()> {
        let (got, want) = (input.dtype(), w.all[0].dtype());
        // regions of autocast bring them to one dtype ([`in_region`])
        ensure!(
            got == want || autocast::state().any(),
            Value,
            "RNN input dtype (torch.{0}) does not match weight dtype (torch.{1}). Convert input: input.to(torch.{1}), or convert model: model.to(torch.{0})",
            got.name(),
            want.name()
        );
        let rank = if packed { 2 } else { 3 };
        ensure!(input.dim() == rank, Runtime, "input must have {rank} dimensions, got {}", input.dim());
        let features = input.sizes()[rank - 1];
        ensure!(
            self.input_size == features,
            Runtime,
            "input.size(-1) must be equal to input_size. Expected {}, got {features}",
            self.input_size
        );
        Ok(())
    }
    fn check_state(&self, h: &Tensor, batch: i64, size: i64, what: &str) -> Result<()> {
        let want = [self.num_layers * self.directions(), batch, size];
        ensure!(
            h.sizes() == want,
            Runtime,
            "Expected {what} size ({}, {}, {}), got {:?}",
            want[0],
            want[1],
            want[2],
            h.sizes()
        );
        Ok(())
    }
    /// Sizes of the two states.
    fn sizes(&self) -> [i64; 2] {
        [self.real_hidden(), self.hidden_size]
    }
}

/// States of a network with `N` of them: one, or hidden and cell state.
type States<const N: usize> = [Tensor; N];

/// Runs a module over an input `(T, B, features)`, `(B, T, features)` or `(T, features)`. `run` gets the input, the
/// initial states and whether the batch comes first.
fn over_batch<const N: usize>(
    s: &Spec,
    class: &str,
    w: &RecurrentWeights,
    input: &Tensor,
    hx: Option<[&Tensor; N]>,
    run: impl FnOnce(&Tensor, &States<N>, &[Tensor]) -> Result<(Tensor, States<N>)>,
) -> Result<(Tensor, States<N>)> {
    let rank = input.dim();
    let noun = if class == "RNN" { " tensor" } else { "" };
    ensure!(
        matches!(rank, 2 | 3),
        Value,
        "{class}: Expected input to be 2D or 3D, got {rank}D{noun} instead"
    );
    let batch_dim = i64::from(!s.batch_first);
    let single = rank == 2;
    if let Some(hx) = hx {
        let (want, word) = if single { (2, "unbatched 2-D") } else { (3, "batched 3-D") };
        if hx.iter().any(|h| h.dim() != want) {
            return Err(Error::runtime(match hx.as_slice() {
                [h, c] => format!(
                    "For {word} input, hx and cx should also be {want}-D but got ({}-D, {}-D) tensors",
                    h.dim(),
                    c.dim()
                ),
                _ => format!("For {word} input, hx should also be {want}-D but got {}-D tensor", hx[0].dim()),
            }));
        }
    }
    let x = if single { ops::unsqueeze(input, batch_dim)? } else { input.clone() };
    let batch = x.sizes()[batch_dim as usize];
    let states = match hx {
        Some(h) if single => each(h, |t| ops::unsqueeze(t, 1))?,
        Some(h) => h.map(Tensor::clone),
        None => zeros(s, batch, &x)?,
    };
    s.check_input(&x, w, false)?;
    check_states(s, &states, batch)?;
    let (x, states, weights) = in_region(x, states, w.tensors())?;
    let (mut y, mut states) = run(&x, &states, &weights)?;
    if single {
        y = ops::squeeze_dim(&y, batch_dim)?;
        states = each(states.each_ref(), |t| ops::squeeze_dim(t, 1))?;
    }
    Ok((y, states))
}
/// Runs a module over a packed batch.
fn over_packed<const N: usize>(
    s: &Spec,
    w: &RecurrentWeights,
    input: &PackedSequence,
    hx: Option<[&Tensor; N]>,
    run: impl FnOnce(&Tensor, &States<N>, &[Tensor]) -> Result<(Tensor, States<N>)>,
) -> Result<(PackedSequence, States<N>)> {
    let batch = input.batch()?;
    let permuted = |h: [&Tensor; N], order: &Option<Tensor>| match order {
        Some(order) => each(h, |t| ops::index_select(t, 1, order)),
        None => Ok(h.map(Tensor::clone)),
    };
    let states = match hx {
        Some(h) => permuted(h, &input.sorted_indices)?,
        None => zeros(s, batch, &input.data)?,
    };
    if N == 1 {
        // an LSTM leaves these to the operator, as in PyTorch
        s.check_input(&input.data, w, true)?;
        check_states(s, &states, batch)?;
    }
    let (x, states, weights) = in_region(input.data.clone(), states, w.tensors())?;
    let (y, states) = run(&x, &states, &weights)?;
    Ok((input.with_data(y), permuted(states.each_ref(), &input.unsorted_indices)?))
}
/// Where a layer before this one has given the dtype of a region of autocast, the weights and states get it too, as they would within
/// the products that PyTorch makes of such a layer.
fn in_region<const N: usize>(
    x: Tensor,
    states: States<N>,
    weights: Vec<Tensor>,
) -> Result<(Tensor, States<N>, Vec<Tensor>)> {
    let region = autocast::state();
    let narrow = |t: &Tensor| t.is_floating_point() && t.dtype() != DType::F64;
    let differ = weights.first().is_some_and(|w| w.dtype() != x.dtype() && narrow(w) && narrow(&x));
    let Some(on) = type_of(x.device()).filter(|d| differ && region.is_enabled(*d)) else {
        return Ok((x, states, weights));
    };
    let dtype = region.dtype(on);
    let weights = weights.iter().map(|w| w.try_to(dtype)).collect::<Result<_>>()?;
    Ok((x.try_to(dtype)?, each(states.each_ref(), |t| t.try_to(dtype))?, weights))
}
fn each<const N: usize>(t: [&Tensor; N], f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<[Tensor; N]> {
    let mut out = t.map(Tensor::clone);
    for o in &mut out {
        *o = f(o)?;
    }
    Ok(out)
}
fn zeros<const N: usize>(s: &Spec, batch: i64, like: &Tensor) -> Result<States<N>> {
    let layers = s.num_layers * s.directions();
    let mut out = Vec::with_capacity(N);
    for size in s.sizes().into_iter().take(N) {
        out.push(ops::zeros(&[layers, batch, size], Some(like.dtype()), None, Some(like.device()), None)?);
    }
    out.try_into().map_err(|_| Error::runtime("a recurrent module has one or two states"))
}
fn check_states<const N: usize>(s: &Spec, states: &States<N>, batch: i64) -> Result<()> {
    if let [h] = states.as_slice() {
        return s.check_state(h, batch, s.hidden_size, "hidden");
    }
    states
        .iter()
        .enumerate()
        .try_for_each(|(k, h)| s.check_state(h, batch, s.sizes()[k], &format!("hidden[{k}]")))
}

/// The arguments of a constructor by name, checked in PyTorch's order and with its texts: one slot per parameter.
#[cfg(feature = "by-name")]
fn arguments(
    parameters: &[flambeau_core::dispatch::object::Parameter],
    args: &[Value],
    kwargs: &Kwargs,
) -> Result<Vec<Option<Value>>> {
    let mut values = flambeau_core::dispatch::object::bind("RNNBase", parameters, args, kwargs)?;
    let at = |name: &str| parameters.iter().position(|p| p.name == name);
    let given = |values: &[Option<Value>], name: &str| at(name).and_then(|i| values[i].clone());
    if let Some(v) = given(&values, "dropout") {
        let number = match &v {
            Value::Float(f) => Some(*f),
            Value::Int(i) => Some(*i as f64),
            Value::Str(s) => {
                return Err(Error::value(format!("could not convert string to float: '{s}'")));
            }
            _ => None,
        };
        ensure!(number.is_some_and(|n| (0.0..=1.0).contains(&n)), Value, "{DROPOUT}");
    }
    for name in ["bias", "batch_first"] {
        if let Some(v) = given(&values, name) {
            ensure!(
                matches!(v, Value::Bool(_)),
                Type,
                "{name} should be of type bool, got: {}",
                v.type_name()
            );
        }
    }
    for name in ["input_size", "hidden_size"] {
        let v = given(&values, name).unwrap_or(Value::None);
        let n = match v {
            Value::Int(n) => n,
            Value::Bool(b) => i64::from(b),
            other => {
                return Err(Error::type_(format!(
                    "{name} should be of type int, got: {}",
                    other.type_name()
                )));
            }
        };
        ensure!(n > 0, Value, "{name} must be greater than zero");
    }
    for name in ["num_layers", "proj_size"] {
        match given(&values, name) {
            None | Some(Value::Int(_) | Value::Bool(_)) => {}
            Some(Value::Float(f)) if f > 0.0 => {
                return Err(Error::type_("'float' object cannot be interpreted as an integer"));
            }
            Some(other) => {
                let op = if name == "num_layers" { "<=" } else { "<" };
                return Err(Error::type_(format!(
                    "'{op}' not supported between instances of '{}' and 'int'",
                    other.type_name()
                )));
            }
        }
    }
    if let Some(i) = at("device")
        && let Some(Value::Str(s)) = &values[i]
    {
        values[i] = Some(Value::Device(Device::parse(s)?));
    }
    // anything has a truth in Python
    if let Some(i) = at("bidirectional")
        && let Some(Value::None) = &values[i]
    {
        values[i] = Some(Value::Bool(false));
    }
    Ok(values)
}
/// Refuses what only an LSTM has.
#[cfg(feature = "by-name")]
fn no_projection(kwargs: &Kwargs) -> Result<()> {
    ensure!(
        !kwargs.iter().any(|(k, _)| k == "proj_size"),
        Value,
        "proj_size argument is only supported for LSTM, not RNN or GRU"
    );
    Ok(())
}

#[class("torch.nn.RNNBase", build = RNNBase, make = make,
    include(Recurrent, Factory), order(mode, Recurrent, proj_size, Factory),
    repr(input_size, hidden_size, proj_size=?, num_layers=?, bias=?, batch_first=?, dropout=?, bidirectional=?))]
pub struct RNNBaseOptions {
    /// `"LSTM"`, `"GRU"`, `"RNN_TANH"` or `"RNN_RELU"`.
    pub mode: String,
    /// Size that an LSTM's hidden state is projected to.
    #[default(0)]
    pub proj_size: i64,
}
recurrent!(
    /// The parameters that [`RNN`](crate::RNN), [`LSTM`](crate::LSTM) and [`GRU`](crate::GRU) have, without a `forward`.
    RNNBase, RNNBaseOptions
);
#[cfg(feature = "by-name")]
fn make(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let values = arguments(&RNNBaseOptions::PARAMETERS, args, kwargs)?;
    Ok(RNNBaseOptions::from_values(&values)?.try_build()?.into_object())
}
impl RNNBaseOptions {
    fn spec(&self) -> Result<Spec> {
        let known = ["LSTM", "GRU", "RNN_TANH", "RNN_RELU"].into_iter().find(|m| *m == self.mode);
        let mode = known.ok_or_else(|| Error::value(format!("Unrecognized RNN mode: {}", self.mode)))?;
        Ok(Spec::of(mode, self, self.proj_size))
    }
}
crate::modules::by_name!(RNNBase, [_input] => |m| {
    let _ = m;
    Err(Error::unsupported("Module [RNNBase] is missing the required \"forward\" function"))
});
use recurrent;
