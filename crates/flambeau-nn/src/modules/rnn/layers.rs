//! [`RNN`], [`LSTM`] and [`GRU`].

use super::{Recurrent, RecurrentWeights, Spec, States, over_batch, over_packed, recurrent};
#[cfg(feature = "by-name")]
use super::{arguments, no_projection};
use crate::by_name::{ForwardArgs, Run};
use crate::module::base::Base;
use crate::module::forward::forwards;
use crate::modules::options::Factory;
use crate::parameter::Parameter;
use crate::utils::rnn::PackedSequence;
use flambeau_core::dispatch::object::Kwargs;
#[cfg(feature = "by-name")]
use flambeau_core::dispatch::object::{Instance as _, ObjectRef};
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::{Error, Result, Tensor, Value, ops};
use flambeau_macros::{Module, class};
use flambeau_nn_functional::ops as f;

#[class("torch.nn.RNN", build = RNN, make = make_rnn, include(Recurrent, Factory),
    order(input_size, hidden_size, num_layers, nonlinearity, Recurrent, Factory),
    repr(input_size, hidden_size, num_layers=?, bias=?, batch_first=?, dropout=?, bidirectional=?))]
pub struct RNNOptions {
    /// `"tanh"` or `"relu"`.
    #[default("tanh")]
    pub nonlinearity: String,
}
recurrent!(
    /// Layers of `h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`, or with `relu`.
    ///
    /// Input `(T, B, input_size)`, `(B, T, input_size)` with `batch_first`, `(T, input_size)` without a batch, or a
    /// [`PackedSequence`]; the initial state `(layers * directions, B, hidden_size)` is zero if it is not given. The result is
    /// the last layer's hidden states of all steps, `(T, B, directions * hidden_size)`, and the hidden states after the last
    /// step. Parameters start uniform within `1 / sqrt(hidden_size)`.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let rnn = nn::RNNOptions::new(3, 5).nonlinearity("relu").build();
    /// let (output, h) = rnn.call(&torch::randn([7, 2, 3]), None);
    /// assert_eq!((output.sizes(), h.sizes()), (&[7, 2, 5][..], &[1, 2, 5][..]));
    /// ```
    RNN, RNNOptions
);
#[cfg(feature = "by-name")]
fn make_rnn(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    no_projection(kwargs)?;
    let named = kwargs.iter().find(|(k, _)| k == "nonlinearity").map(|(_, v)| v);
    if let Some(v) = args.get(3).or(named) {
        let name = match v {
            Value::Str(s) => s.clone(),
            other => flambeau_core::text::repr(other)?,
        };
        nonlinearity(&name)?;
    }
    let values = arguments(&RNNOptions::PARAMETERS, args, kwargs)?;
    Ok(RNNOptions::from_values(&values)?.try_build()?.into_object())
}
fn nonlinearity(name: &str) -> Result<&'static str> {
    match name {
        "tanh" => Ok("RNN_TANH"),
        "relu" => Ok("RNN_RELU"),
        other => Err(Error::value(format!("Unknown nonlinearity '{other}'. Select from 'tanh' or 'relu'."))),
    }
}
impl RNNOptions {
    fn spec(&self) -> Result<Spec> {
        Ok(Spec::of(nonlinearity(&self.nonlinearity)?, self, 0))
    }
}

#[class("torch.nn.GRU", build = GRU, make = make_gru, include(Recurrent, Factory),
    repr(input_size, hidden_size, num_layers=?, bias=?, batch_first=?, dropout=?, bidirectional=?))]
pub struct GRUOptions {}
recurrent!(
    /// Layers of gated recurrent units (Cho et al. 2014, with the reset gate after the product as in PyTorch):
    /// `r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)`, `z` alike, `n = tanh(W_in x + b_in + r (W_hn h + b_hn))`,
    /// `h' = (1 - z) n + z h`. Inputs and results are those of [`RNN`].
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let gru = nn::GRUOptions::new(3, 5).batch_first(true).bidirectional(true).build();
    /// let (output, h) = gru.call(&torch::randn([2, 7, 3]), None);
    /// assert_eq!((output.sizes(), h.sizes()), (&[2, 7, 10][..], &[2, 2, 5][..]));
    /// ```
    GRU, GRUOptions
);
#[cfg(feature = "by-name")]
fn make_gru(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    no_projection(kwargs)?;
    let values = arguments(&GRUOptions::PARAMETERS, args, kwargs)?;
    Ok(GRUOptions::from_values(&values)?.try_build()?.into_object())
}
impl GRUOptions {
    fn spec(&self) -> Result<Spec> {
        Ok(Spec::of("GRU", self, 0))
    }
}

#[class("torch.nn.LSTM", build = LSTM, make = make_lstm,
    include(Recurrent, Factory), order(Recurrent, proj_size, Factory),
    repr(input_size, hidden_size, proj_size=?, num_layers=?, bias=?, batch_first=?, dropout=?, bidirectional=?))]
pub struct LSTMOptions {
    /// Size that the hidden state is projected to; 0 for none.
    #[default(0)]
    pub proj_size: i64,
}
recurrent!(
    /// Layers of long short-term memory (Hochreiter and Schmidhuber 1997): gates `i`, `f`, `o` are
    /// `sigmoid(W_i x + b_i + W_h h + b_h)`, `g` the same with `tanh`; `c' = f c + i g`, `h' = o tanh(c')`, and with `proj_size`
    /// (Sak et al. 2014) `h' = W_hr h'`.
    ///
    /// Input `(T, B, input_size)`, `(B, T, input_size)` with `batch_first`, `(T, input_size)` without a batch, or a
    /// [`PackedSequence`]. The initial states, hidden `(layers * directions, B, proj_size or hidden_size)` and cell
    /// `(layers * directions, B, hidden_size)`, are zero if they are not given. The result is the last layer's hidden states of
    /// all steps and the pair of states after the last step. Parameters start uniform within `1 / sqrt(hidden_size)`.
    ///
    /// ```
    /// use torch::prelude::*;
    /// use torch::nn;
    ///
    /// let lstm = nn::LSTMOptions::new(3, 5).num_layers(2).build();
    /// let x = torch::randn([7, 2, 3]);
    /// let (output, state) = lstm.call(&x, None);
    /// assert_eq!(output.sizes(), [7, 2, 5]);
    /// assert_eq!((state.0.sizes(), state.1.sizes()), (&[2, 2, 5][..], &[2, 2, 5][..]));
    /// let (_, (h, c)) = lstm.call(&x, &state);
    /// let (_, _) = lstm.call(&x, (&h, &c));
    /// ```
    LSTM, LSTMOptions
);
#[cfg(feature = "by-name")]
fn make_lstm(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
    let values = arguments(&LSTMOptions::PARAMETERS, args, kwargs)?;
    Ok(LSTMOptions::from_values(&values)?.try_build()?.into_object())
}
impl LSTMOptions {
    fn spec(&self) -> Result<Spec> {
        Ok(Spec::of("LSTM", self, self.proj_size))
    }
}

/// Both forms of `forward`, over an operator for batches and one for packed rows.
macro_rules! module {
    ($t:ident, $states:literal, |$m:ident| $ops:expr) => {
        impl $t {
            fn batch(
                &self,
                input: &Tensor,
                hx: Option<[&Tensor; $states]>,
            ) -> Result<(Tensor, States<$states>)> {
                let ($m, s) = (self, self.options.spec()?);
                let (run, _) = $ops;
                let train = self.base.is_training();
                over_batch(&s, stringify!($t), &self.weights, input, hx, |x, h, w| {
                    run(x, h, w, s.bias, s.num_layers, s.dropout, train, s.bidirectional, s.batch_first)
                })
            }
            fn packed(
                &self,
                input: &PackedSequence,
                hx: Option<[&Tensor; $states]>,
            ) -> Result<(PackedSequence, States<$states>)> {
                let ($m, s) = (self, self.options.spec()?);
                let (_, run) = $ops;
                let train = self.base.is_training();
                over_packed(&s, &self.weights, input, hx, |x, h, w| {
                    run(x, &input.batch_sizes, h, w, s.bias, s.num_layers, s.dropout, train, s.bidirectional)
                })
            }
        }
        #[cfg(feature = "by-name")]
        impl flambeau_core::dispatch::object::Instance for $t {
            fn into_object(self) -> ObjectRef {
                crate::by_name::ModuleObject::make(self)
            }
        }
    };
}
/// Calls by name: `forward(input, hx=None)`, where `hx` is read and the states are given as `one` and `all` say.
macro_rules! by_values {
    ($t:ident, $states:literal, |$h:ident| $read:expr, |$done:ident| $give:expr) => {
        impl Run for $t {
            fn class(&self) -> &'static str {
                stringify!($t)
            }
            #[cfg(feature = "by-name")]
            fn option_by_name(&self, name: &str) -> Option<flambeau_core::Value> {
                self.options.value_by_name(name)
            }
            fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
                match inputs {
                    [x] => self.batch(x, None).map(|(y, s)| std::iter::once(y).chain(s).collect()),
                    _ => {
                        Err(Error::type_(format!("{}.forward() got {} tensors", self.class(), inputs.len())))
                    }
                }
            }
            fn run_by_name(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
                let a = ForwardArgs::bind(stringify!($t), &["input", "hx"], 1, args, kwargs)?;
                let states = match a.value(1) {
                    Value::None => None,
                    $h => Some($read?),
                };
                let hx = states.as_ref().map(|s: &States<$states>| s.each_ref());
                let give = |$done: States<$states>| $give;
                Ok(match a.value(0) {
                    Value::Named(_) => {
                        let (y, s) = self.packed(&a.must(0)?, hx)?;
                        vec![y.into_value(), give(s)]
                    }
                    Value::Tensor(x) => {
                        let (y, s) = self.batch(x, hx)?;
                        vec![Value::Tensor(y), give(s)]
                    }
                    other => {
                        return Err(Error::attribute(format!(
                            "'{}' object has no attribute 'dim'",
                            other.type_name()
                        )));
                    }
                })
            }
        }
    };
}

macro_rules! one_state {
    ($t:ident, |$m:ident| $ops:expr) => {
        module!($t, 1, |$m| {
            let (batch, packed) = $ops;
            (
                move |x: &Tensor, h: &States<1>, w: &[Tensor], b, n, p, train, two, first| {
                    batch(x, &h[0], w, b, n, p, train, two, first).map(|(y, h)| (y, [h]))
                },
                move |x: &Tensor, sizes: &Tensor, h: &States<1>, w: &[Tensor], b, n, p, train, two| {
                    packed(x, sizes, &h[0], w, b, n, p, train, two).map(|(y, h)| (y, [h]))
                },
            )
        });
        by_values!($t, 1, |h| Tensor::from_value(h).map(|h| [h]), |s| {
            let [h] = s;
            Value::Tensor(h)
        });
        impl $t {
            fn steps(&self, input: &Tensor, hx: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
                self.batch(input, hx.map(|h| [h])).map(|(y, [h])| (y, h))
            }
            fn packed_steps(
                &self,
                input: &PackedSequence,
                hx: Option<&Tensor>,
            ) -> Result<(PackedSequence, Tensor)> {
                self.packed(input, hx.map(|h| [h])).map(|(y, [h])| (y, h))
            }
        }
        forwards!(
            $t => (Tensor, Tensor);
            |m, x| &'t Tensor => m.steps(x, None);
            |m, (x, hx)| (&'t Tensor, &'t Tensor) => m.steps(x, Some(hx));
        );
        forwards!(
            $t => (PackedSequence, Tensor);
            |m, x| &'t PackedSequence => m.packed_steps(x, None);
            |m, (x, hx)| (&'t PackedSequence, &'t Tensor) => m.packed_steps(x, Some(hx));
        );
    };
}
type Batch = fn(&Tensor, &Tensor, &[Tensor], bool, i64, f64, bool, bool, bool) -> Result<(Tensor, Tensor)>;
type Packed =
    fn(&Tensor, &Tensor, &Tensor, &[Tensor], bool, i64, f64, bool, bool) -> Result<(Tensor, Tensor)>;
one_state!(RNN, |m| {
    if m.options.nonlinearity == "relu" {
        (f::rnn_relu as Batch, f::rnn_relu_packed as Packed)
    } else {
        (f::rnn_tanh as Batch, f::rnn_tanh_packed as Packed)
    }
});
one_state!(GRU, |_m| (f::gru, f::gru_packed));

fn pair((y, h, c): (Tensor, Tensor, Tensor)) -> (Tensor, States<2>) {
    (y, [h, c])
}
module!(LSTM, 2, |_m| (
    |x: &Tensor, h: &States<2>, w: &[Tensor], b, n, p, train, two, first| {
        f::lstm(x, h, w, b, n, p, train, two, first).map(pair)
    },
    |x: &Tensor, sizes: &Tensor, h: &States<2>, w: &[Tensor], b, n, p, train, two| {
        f::lstm_packed(x, sizes, h, w, b, n, p, train, two).map(pair)
    },
));
by_values!(LSTM, 2, |h| two_states(h), |s| Value::Tuple(s.into_iter().map(Value::Tensor).collect()));

/// Hidden and cell state: a pair, or one tensor that is taken apart as Python does.
fn two_states(v: &Value) -> Result<States<2>> {
    match v {
        Value::Tensor(t) => Ok([ops::select(t, 0, 0)?, ops::select(t, 0, 1)?]),
        other => {
            let all: Vec<Tensor> = FromValue::from_value(other)?;
            all.try_into().map_err(|l: Vec<Tensor>| {
                if l.len() < 2 {
                    Error::index("tuple index out of range")
                } else {
                    Error::runtime("lstm expects two hidden states")
                }
            })
        }
    }
}
impl LSTM {
    fn steps(&self, input: &Tensor, hx: Option<(&Tensor, &Tensor)>) -> Result<(Tensor, (Tensor, Tensor))> {
        self.batch(input, hx.map(|(h, c)| [h, c])).map(|(y, [h, c])| (y, (h, c)))
    }
    fn packed_steps(
        &self,
        input: &PackedSequence,
        hx: Option<(&Tensor, &Tensor)>,
    ) -> Result<(PackedSequence, (Tensor, Tensor))> {
        self.packed(input, hx.map(|(h, c)| [h, c])).map(|(y, [h, c])| (y, (h, c)))
    }
}
forwards!(
    LSTM => (Tensor, (Tensor, Tensor));
    |m, x| &'t Tensor => m.steps(x, None);
    |m, (x, hx)| (&'t Tensor, (&'t Tensor, &'t Tensor)) => m.steps(x, Some(hx));
);
forwards!(
    LSTM => (PackedSequence, (Tensor, Tensor));
    |m, x| &'t PackedSequence => m.packed_steps(x, None);
    |m, (x, hx)| (&'t PackedSequence, (&'t Tensor, &'t Tensor)) => m.packed_steps(x, Some(hx));
);
