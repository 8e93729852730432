//! Single steps: [`RNNCell`], [`LSTMCell`] and [`GRUCell`].

use crate::by_name::{ForwardArgs, Run};
use crate::init;
use crate::module::base::Base;
use crate::module::forward::forwards;
use crate::modules::options::Factory;
use crate::parameter::Parameter;
use flambeau_core::dispatch::object::Kwargs;
#[cfg(feature = "by-name")]
use flambeau_core::dispatch::object::{Instance as _, ObjectRef};
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::{Error, Result, Tensor, Value, ensure, ops};
use flambeau_macros::{Module, class, fields};
use flambeau_nn_functional::ops as f;

/// The options that every cell has.
#[fields]
pub(crate) struct Cell {
    /// Features of the input.
    pub input_size: i64,
    /// Features of each state.
    pub hidden_size: i64,
    /// Whether biases are added.
    #[default(true)]
    pub bias: bool,
}
#[class("torch.nn.RNNCell", build = RNNCell, make = make_rnn_cell,
    include(Cell, Factory), order(Cell, nonlinearity, Factory), repr(input_size, hidden_size, bias=?, nonlinearity=?))]
pub struct RNNCellOptions {
    /// `"tanh"` or `"relu"`.
    #[default("tanh")]
    pub nonlinearity: String,
}
#[class("torch.nn.LSTMCell", build = LSTMCell, make = make_lstm_cell,
    include(Cell, Factory), repr(input_size, hidden_size, bias=?))]
pub struct LSTMCellOptions {}
#[class("torch.nn.GRUCell", build = GRUCell, make = make_gru_cell,
    include(Cell, Factory), repr(input_size, hidden_size, bias=?))]
pub struct GRUCellOptions {}

/// The module's struct, its constructor, and what all cells do with inputs of one dimension.
macro_rules! cell {
    ($(#[$doc:meta])* $t:ident, $options:ident, $gates:literal, $make:ident) => {
        $(#[$doc])*
        #[derive(Debug, Module)]
        pub struct $t {
            base: Base,
            /// The arguments.
            pub options: $options,
            /// `(gates * hidden_size, input_size)`
            pub weight_ih: Parameter,
            /// `(gates * hidden_size, hidden_size)`
            pub weight_hh: Parameter,
            /// `(gates * hidden_size)`
            pub bias_ih: Option<Parameter>,
            /// `(gates * hidden_size)`
            pub bias_hh: Option<Parameter>,
        }
        impl $t {
            fn from_options(o: $options) -> Result<Self> {
                let too_large = || Error::runtime("hidden_size is too large");
                let rows = o.hidden_size.checked_mul($gates).ok_or_else(too_large)?;
                let make = Factory::from(&o);
                let weight_ih = make.parameter(&[rows, o.input_size])?;
                let weight_hh = make.parameter(&[rows, o.hidden_size])?;
                let bias_ih = make.parameter_if(o.bias, &[rows])?;
                let bias_hh = make.parameter_if(o.bias, &[rows])?;
                let out = $t { base: Base::new(), options: o, weight_ih, weight_hh, bias_ih, bias_hh };
                out.try_reset_parameters()?;
                Ok(out)
            }
            /// Draws all parameters anew.
            ///
            /// # Errors
            /// A parameter that is borrowed.
            pub fn try_reset_parameters(&self) -> Result<()> {
                let n = self.options.hidden_size;
                let bound = if n > 0 { 1.0 / (n as f64).sqrt() } else { 0.0 };
                let all = [Some(&self.weight_ih), Some(&self.weight_hh), self.bias_ih.as_ref(), self.bias_hh.as_ref()];
                all.into_iter().flatten().try_for_each(|p| init::try_uniform_(p, -bound, bound, None))
            }
            /// The input and the states as matrices, and whether they were vectors. States that are not given are zero.
            fn matrices<const N: usize>(
                &self,
                input: &Tensor,
                hx: Option<[&Tensor; N]>,
            ) -> Result<(Tensor, [Tensor; N], bool)> {
                let class = stringify!($t);
                let rank = input.dim();
                ensure!(
                    matches!(rank, 1 | 2),
                    Value,
                    "{class}: Expected input to be 1D or 2D, got {rank}D instead"
                );
                for (i, h) in hx.iter().flatten().enumerate() {
                    let what = if N == 1 { "hidden".to_owned() } else { format!("hx[{i}]") };
                    ensure!(
                        matches!(h.dim(), 1 | 2),
                        Value,
                        "{class}: Expected {what} to be 1D or 2D, got {}D instead",
                        h.dim()
                    );
                }
                let single = rank == 1;
                let x = if single { ops::unsqueeze(input, 0)? } else { input.clone() };
                let states = match hx {
                    Some(hx) => {
                        let mut all = hx.map(Tensor::clone);
                        if single {
                            for h in &mut all {
                                *h = ops::unsqueeze(h, 0)?;
                            }
                        }
                        all
                    }
                    None => {
                        let sizes = [x.sizes()[0], self.options.hidden_size];
                        let zeros = ops::zeros(&sizes, Some(x.dtype()), None, Some(x.device()), None)?;
                        std::array::from_fn(|_| zeros.clone())
                    }
                };
                Ok((x, states, single))
            }
        }
        #[cfg(feature = "by-name")]
        impl flambeau_core::dispatch::object::Instance for $t {
            fn into_object(self) -> ObjectRef {
                crate::by_name::ModuleObject::make(self)
            }
        }
        #[cfg(feature = "by-name")]
        fn $make(args: &[Value], kwargs: &Kwargs) -> Result<ObjectRef> {
            let values = arguments(stringify!($t), &$options::PARAMETERS, args, kwargs)?;
            Ok($options::from_values(&values)?.try_build()?.into_object())
        }
    };
}
/// The arguments of a constructor by name. Anything has a truth in Python, and a device may be a text.
#[cfg(feature = "by-name")]
fn arguments(
    name: &str,
    parameters: &[flambeau_core::dispatch::object::Parameter],
    args: &[Value],
    kwargs: &Kwargs,
) -> Result<Vec<Option<Value>>> {
    let mut values = flambeau_core::dispatch::object::bind(name, parameters, args, kwargs)?;
    for (p, v) in parameters.iter().zip(&mut values) {
        *v = Some(match (p.name, &*v) {
            ("bias", Some(Value::Str(s))) => Value::Bool(!s.is_empty()),
            ("bias", Some(Value::Float(f))) => Value::Bool(*f != 0.0),
            ("bias", Some(Value::None)) => Value::Bool(false),
            ("device", Some(Value::Str(s))) => Value::Device(flambeau_core::Device::parse(s)?),
            _ => continue,
        });
    }
    Ok(values)
}
cell!(
    /// One step of an [`RNN`](crate::RNN): `h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`, or with `relu`. Input
    /// `(B, input_size)` or `(input_size)`, state `(B, hidden_size)` or `(hidden_size)`, zero if it is not given.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let cell = nn::RNNCell::new(3, 5);
    /// let mut h = torch::zeros([2, 5]);
    /// for x in &torch::randn([7, 2, 3]) {
    ///     h = cell.call(&x, &h);
    /// }
    /// assert_eq!(h.sizes(), [2, 5]);
    /// ```
    RNNCell, RNNCellOptions, 1, make_rnn_cell
);
cell!(
    /// One step of an [`LSTM`](crate::LSTM): input `(B, input_size)` or `(input_size)`, hidden and cell state
    /// `(B, hidden_size)` or `(hidden_size)`, zero if they are not given; the result is the next pair of states.
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let cell = nn::LSTMCell::new(3, 5);
    /// let (h, c) = cell.call(&torch::randn([2, 3]), None);
    /// let (h, _c) = cell.call(&torch::randn([2, 3]), (&h, &c));
    /// assert_eq!(h.sizes(), [2, 5]);
    /// ```
    LSTMCell, LSTMCellOptions, 4, make_lstm_cell
);
cell!(
    /// One step of a [`GRU`](crate::GRU). Inputs and result are those of [`RNNCell`].
    ///
    /// ```
    /// use torch::{nn, prelude::*};
    ///
    /// let cell = nn::GRUCell::new(3, 5);
    /// let h = cell.call(&torch::randn([2, 3]), None);
    /// assert_eq!(cell.call(&torch::randn([2, 3]), &h).sizes(), [2, 5]);
    /// ```
    GRUCell, GRUCellOptions, 3, make_gru_cell
);

macro_rules! one_state {
    ($t:ident, |$m:ident| $op:expr) => {
        impl $t {
            fn step(&self, input: &Tensor, hx: Option<&Tensor>) -> Result<Tensor> {
                let $m = self;
                let (x, [h], single) = self.matrices(input, hx.map(|h| [h]))?;
                let (b_ih, b_hh) = (self.bias_ih.as_deref(), self.bias_hh.as_deref());
                let y = $op?(&x, &h, &self.weight_ih, &self.weight_hh, b_ih, b_hh)?;
                if single { ops::squeeze_dim(&y, 0) } else { Ok(y) }
            }
        }
        forwards!(
            $t => Tensor;
            |m, x| &'t Tensor => m.step(x, None);
            |m, (x, hx)| (&'t Tensor, &'t Tensor) => m.step(x, Some(hx));
        );
        impl Run for $t {
            fn class(&self) -> &'static str {
                stringify!($t)
            }
            #[cfg(feature = "by-name")]
            fn option_by_name(&self, name: &str) -> Option<flambeau_core::Value> {
                self.options.value_by_name(name)
            }
            fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
                let y = match inputs {
                    [x] => self.step(x, None),
                    [x, h] => self.step(x, Some(h)),
                    _ => {
                        Err(Error::type_(format!("{}.forward() got {} tensors", self.class(), inputs.len())))
                    }
                };
                y.map(|y| vec![y])
            }
            fn run_by_name(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
                let a = ForwardArgs::bind(stringify!($t), &["input", "hx"], 1, args, kwargs)?;
                let (x, h): (Tensor, Option<Tensor>) = (a.must(0)?, a.get(1)?);
                self.step(&x, h.as_ref()).map(|y| vec![Value::Tensor(y)])
            }
        }
    };
}
one_state!(RNNCell, |m| match m.options.nonlinearity.as_str() {
    "tanh" => Ok(f::rnn_tanh_cell as Step),
    "relu" => Ok(f::rnn_relu_cell as Step),
    other => Err(Error::runtime(format!("Unknown nonlinearity: {other}"))),
});
one_state!(GRUCell, |_m| Ok::<Step, Error>(f::gru_cell));
type Step = fn(&Tensor, &Tensor, &Tensor, &Tensor, Option<&Tensor>, Option<&Tensor>) -> Result<Tensor>;

impl LSTMCell {
    fn step(&self, input: &Tensor, hx: Option<(&Tensor, &Tensor)>) -> Result<(Tensor, Tensor)> {
        let (x, states, single) = self.matrices(input, hx.map(|(h, c)| [h, c]))?;
        let (b_ih, b_hh) = (self.bias_ih.as_deref(), self.bias_hh.as_deref());
        let (h, c) = f::lstm_cell(&x, &states, &self.weight_ih, &self.weight_hh, b_ih, b_hh)?;
        if single { Ok((ops::squeeze_dim(&h, 0)?, ops::squeeze_dim(&c, 0)?)) } else { Ok((h, c)) }
    }
}
forwards!(
    LSTMCell => (Tensor, Tensor);
    |m, x| &'t Tensor => m.step(x, None);
    |m, (x, hx)| (&'t Tensor, (&'t Tensor, &'t Tensor)) => m.step(x, Some(hx));
);
impl Run for LSTMCell {
    fn class(&self) -> &'static str {
        "LSTMCell"
    }
    #[cfg(feature = "by-name")]
    fn option_by_name(&self, name: &str) -> Option<flambeau_core::Value> {
        self.options.value_by_name(name)
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (h, c) = match inputs {
            [x] => self.step(x, None)?,
            [x, h, c] => self.step(x, Some((h, c)))?,
            _ => return Err(Error::type_(format!("LSTMCell.forward() got {} tensors", inputs.len()))),
        };
        Ok(vec![h, c])
    }
    fn run_by_name(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let a = ForwardArgs::bind("LSTMCell", &["input", "hx"], 1, args, kwargs)?;
        let x: Tensor = a.must(0)?;
        let (h, c) = match a.value(1) {
            Value::None => self.step(&x, None)?,
            Value::Tensor(_) => {
                return Err(Error::type_(
                    "lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not Tensor",
                ));
            }
            pair => match Vec::<Tensor>::from_value(pair)?.as_slice() {
                [h, c] => self.step(&x, Some((h, c)))?,
                _ => return Err(Error::runtime("lstm_cell expects two hidden states")),
            },
        };
        Ok(vec![Value::Tensor(h), Value::Tensor(c)])
    }
}
