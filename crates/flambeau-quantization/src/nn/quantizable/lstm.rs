//! Long short-term memory of parts.

use super::{Parts, Room};
use crate::nn::float_functional::Functional;
use crate::nn::linear::itself;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::dispatch::value::FromValue;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Error, Result, Tensor, Value, ensure, ops};
use flambeau_nn as nn;
use flambeau_nn::internal::{Copied, Memo, Run};
use flambeau_nn::{Base, Module, Parameter, Visitor, VisitorMut};
use std::any::Any;
use std::borrow::Cow;

/// Hidden state and cell state.
type State = (Tensor, Tensor);

fn linear(from: i64, to: i64, bias: bool) -> Result<nn::Linear> {
    nn::LinearOptions::new(from, to).bias(bias).try_build()
}
/// Zeros, as integers where the input is of integers.
fn zeros(sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    let z = ops::zeros(sizes, Some(DType::F32), None, Some(like.device()), None)?;
    if like.quantizer().is_some() { crate::ops::quantize_per_tensor(&z, 1.0, 0, like.dtype()) } else { Ok(z) }
}

/// One step of long short-term memory, of two linear maps, three gates and their sums and products.
///
/// Input `(N, input_size)`, states `(N, hidden_size)`, which are zero if they are not given; gives the states after the step.
///
/// ```
/// use torch::ao::nn::quantizable::LSTMCell;
/// let cell = LSTMCell::new(4, 3);
/// let (h, c) = cell.forward(&torch::randn([2, 4]), None);
/// assert_eq!((h.sizes(), c.sizes()), (&[2, 3][..], &[2, 3][..]));
/// ```
#[derive(Debug)]
#[doc(alias = "torch.ao.nn.quantizable.LSTMCell")]
pub struct LSTMCell {
    base: Base,
    hidden_size: i64,
    parts: Parts,
}
impl LSTMCell {
    /// With weights and biases that are drawn.
    ///
    /// # Panics
    /// Negative sizes.
    #[track_caller]
    pub fn new(input_dim: i64, hidden_dim: i64) -> LSTMCell {
        flambeau_core::api::ergonomic::expect(LSTMCell::try_new(input_dim, hidden_dim, true))
    }
    /// With biases or without.
    ///
    /// # Errors
    /// Negative sizes.
    pub fn try_new(input_dim: i64, hidden_dim: i64, bias: bool) -> Result<LSTMCell> {
        let gates =
            hidden_dim.checked_mul(4).ok_or_else(|| Error::runtime("Storage size calculation overflowed"))?;
        let (i, h) = (linear(input_dim, gates, bias)?, linear(hidden_dim, gates, bias)?);
        Ok(LSTMCell::of(hidden_dim, i, h))
    }
    fn of(hidden_size: i64, igates: nn::Linear, hgates: nn::Linear) -> LSTMCell {
        let sum = || Functional::new(false);
        let parts = Parts::default()
            .with("igates", igates)
            .with("hgates", hgates)
            .with("gates", sum())
            .with("input_gate", nn::Sigmoid::new())
            .with("forget_gate", nn::Sigmoid::new())
            .with("cell_gate", nn::Tanh::new())
            .with("output_gate", nn::Sigmoid::new())
            .with("fgate_cx", sum())
            .with("igate_cgate", sum())
            .with("fgate_cx_igate_cgate", sum())
            .with("ogate_cy", sum());
        LSTMCell { base: Base::new(), hidden_size, parts }
    }
    /// With given weights `(4 hidden_size, ..)` and biases.
    fn with(w: &[Parameter]) -> Result<LSTMCell> {
        let (wi, wh) = (w[0].tensor(), w[1].tensor());
        let (rows, hidden) = (wi.sizes()[0], wh.sizes()[1]);
        let mut i = linear(wi.sizes()[1], rows, w.len() > 2)?;
        let mut h = linear(hidden, rows, w.len() > 3)?;
        (i.weight, i.bias) = (w[0].clone(), w.get(2).cloned());
        (h.weight, h.bias) = (w[1].clone(), w.get(3).cloned());
        Ok(LSTMCell::of(hidden, i, h))
    }
    /// The cell that computes what a float cell does, with its parameters.
    ///
    /// # Errors
    /// A cell with one bias alone.
    pub fn try_from_float(cell: &nn::LSTMCell) -> Result<LSTMCell> {
        let mut all = vec![cell.weight_ih.clone(), cell.weight_hh.clone()];
        all.extend(cell.bias_ih.clone());
        all.extend(cell.bias_hh.clone());
        ensure!(all.len() != 3, Assertion, "bi and bh must both be None or both have values");
        LSTMCell::with(&all)
    }
    /// The states after a step.
    ///
    /// # Panics
    /// As [`try_forward`](LSTMCell::try_forward).
    #[track_caller]
    pub fn forward(&self, x: &Tensor, hidden: Option<(&Tensor, &Tensor)>) -> (Tensor, Tensor) {
        flambeau_core::api::ergonomic::expect(self.try_forward(x, hidden))
    }
    /// The states after a step.
    ///
    /// # Errors
    /// Sizes that do not fit.
    pub fn try_forward(&self, x: &Tensor, hidden: Option<(&Tensor, &Tensor)>) -> Result<(Tensor, Tensor)> {
        let p = &self.parts;
        let (h, c) = match hidden {
            Some((h, c)) => (h.clone(), c.clone()),
            None => {
                let z = zeros(&[x.sizes().first().copied().unwrap_or(0), self.hidden_size], x)?;
                (z.clone(), z)
            }
        };
        let gates = p.functional("gates")?.add(&p.call("igates", x)?, &p.call("hgates", &h)?)?;
        let parts = ops::chunk(&gates, 4, 1)?;
        let [i, f, g, o] = &parts[..] else {
            return Err(Error::runtime("the gates of a cell are four"));
        };
        let input = p.call("input_gate", i)?;
        let forget = p.call("forget_gate", f)?;
        let cell = p.call("cell_gate", g)?;
        let out = p.call("output_gate", o)?;
        let kept = p.functional("fgate_cx")?.mul(&forget, &c)?;
        let new = p.functional("igate_cgate")?.mul(&input, &cell)?;
        let c = p.functional("fgate_cx_igate_cgate")?.add(&kept, &new)?;
        let h = p.functional("ogate_cy")?.mul(&out, &ops::tanh(&c)?)?;
        Ok((h, c))
    }
}
impl Module for LSTMCell {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed("QuantizableLSTMCell")
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        self.parts.visit(v);
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        self.parts.visit_mut(v)
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let (base, parts) = (self.base.copied(memo)?, self.parts.copied(memo)?);
        Ok(Copied::new(LSTMCell { base, hidden_size: self.hidden_size, parts }))
    }
    itself!();
}
fn tensors(v: Option<&Value>) -> Result<Option<State>> {
    match v {
        None | Some(Value::None) => Ok(None),
        Some(v) => match &Vec::<Tensor>::from_value(v)?[..] {
            [h, c] => Ok(Some((h.clone(), c.clone()))),
            other => Err(Error::value(format!(
                "a hidden and a cell state are expected, not {} tensors",
                other.len()
            ))),
        },
    }
}
/// `forward(x, hidden=None)`
fn arguments(args: &[Value], kwargs: &Kwargs) -> Result<(Tensor, Option<State>)> {
    let named = |name: &str| kwargs.iter().find(|(k, _)| k == name).map(|(_, v)| v);
    let x = Tensor::from_value(args.first().or(named("x")).unwrap_or(&Value::None))?;
    Ok((x, tensors(args.get(1).or(named("hidden")))?))
}
fn lent(s: &Option<State>) -> Option<(&Tensor, &Tensor)> {
    s.as_ref().map(|(h, c)| (h, c))
}
impl Run for LSTMCell {
    fn class(&self) -> &'static str {
        "LSTMCell"
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (h, c) = match inputs {
            [x] => self.try_forward(x, None)?,
            [x, h, c] => self.try_forward(x, Some((h, c)))?,
            _ => return Err(Error::type_("LSTMCell.forward() takes an input and two states")),
        };
        Ok(vec![h, c])
    }
    fn run_by_name(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let (x, hidden) = arguments(args, kwargs)?;
        let (h, c) = self.try_forward(&x, lent(&hidden))?;
        Ok(vec![Value::Tensor(h), Value::Tensor(c)])
    }
}

/// Sizes and switches of an [`LSTM`].
#[derive(Clone, Debug)]
pub struct LstmShape {
    /// Features of the input.
    pub input_size: i64,
    /// Features of the states.
    pub hidden_size: i64,
    /// Layers over each other.
    pub num_layers: i64,
    /// With biases.
    pub bias: bool,
    /// Batches come first.
    pub batch_first: bool,
    /// In both directions.
    pub bidirectional: bool,
}
impl LstmShape {
    /// One layer with biases in one direction; steps come first.
    pub fn new(input_size: i64, hidden_size: i64) -> LstmShape {
        let (num_layers, bias, batch_first, bidirectional) = (1, true, false, false);
        LstmShape { input_size, hidden_size, num_layers, bias, batch_first, bidirectional }
    }
}
/// Layers of long short-term memory, of cells whose parts can be quantized. [`prepare_`](crate::flow::prepare_) puts observers into it
/// and [`convert_`](crate::flow::convert_) makes it the layer of integers.
///
/// Input `(T, N, input_size)`, `(N, T, input_size)` with `batch_first`; states `(layers * directions, N, hidden_size)`. It begins in
/// evaluation mode.
///
/// ```
/// use torch::ao::nn::quantizable::{LSTM, LstmShape};
/// let lstm = LSTM::try_new(LstmShape::new(4, 3))?;
/// let (y, (h, c)) = lstm.forward(&torch::randn([5, 2, 4]), None);
/// assert_eq!((y.sizes(), h.sizes(), c.sizes()), (&[5, 2, 3][..], &[1, 2, 3][..], &[1, 2, 3][..]));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Debug)]
#[doc(alias = "torch.ao.nn.quantizable.LSTM")]
#[doc(alias = "torch.ao.nn.quantized.LSTM")]
pub struct LSTM {
    base: Base,
    /// Sizes and switches.
    pub shape: LstmShape,
    pub(super) quantized: bool,
    parts: Parts,
}
impl LSTM {
    /// With weights that are drawn.
    ///
    /// # Errors
    /// Negative sizes.
    pub fn try_new(shape: LstmShape) -> Result<LSTM> {
        let mut cells = Vec::new();
        let directions = if shape.bidirectional { 2 } else { 1 };
        for l in 0..shape.num_layers.max(0) {
            let from = if l == 0 { shape.input_size } else { shape.hidden_size };
            for _ in 0..directions {
                cells.push(LSTMCell::try_new(from, shape.hidden_size, shape.bias)?);
            }
        }
        Ok(LSTM::of(shape, cells))
    }
    /// The layer that computes what a float one does, with its parameters.
    ///
    /// # Errors
    /// A projection of the hidden state; several layers in both directions, which PyTorch's own layer does not compute either.
    pub fn try_from_float(m: &nn::LSTM) -> Result<LSTM> {
        let o = &m.options;
        ensure!(o.proj_size == 0, Missing, "quantizable LSTM with proj_size");
        let shape = LstmShape {
            input_size: o.input_size,
            hidden_size: o.hidden_size,
            num_layers: o.num_layers,
            bias: o.bias,
            batch_first: o.batch_first,
            bidirectional: o.bidirectional,
        };
        let cells = m.weights.groups().iter().map(|g| LSTMCell::with(g)).collect::<Result<Vec<_>>>()?;
        let new = LSTM::of(shape, cells);
        new.set_training(m.is_training());
        Ok(new)
    }
    fn of(shape: LstmShape, cells: Vec<LSTMCell>) -> LSTM {
        let mut cells = cells.into_iter();
        let one = |c: LSTMCell| Room::new("_LSTMSingleLayer", Parts::default().with("cell", c));
        let mut layers = Parts::default();
        for i in 0.. {
            let Some(forward) = cells.next() else { break };
            let mut layer = Parts::default().with("layer_fw", one(forward));
            if let Some(back) = shape.bidirectional.then(|| cells.next()).flatten() {
                layer = layer.with("layer_bw", one(back));
            }
            layers = layers.with(&format!("{i}"), Room::new("_LSTMLayer", layer));
        }
        let parts = Parts::default().with("layers", Room::new("ModuleList", layers));
        let new = LSTM { base: Base::new(), shape, quantized: false, parts };
        new.eval();
        new
    }
    /// Whether its parts are of integers.
    pub fn is_quantized(&self) -> bool {
        self.quantized
    }
    pub(crate) fn become_quantized(&mut self) {
        self.quantized = true;
    }
    fn cells(&self) -> Result<Vec<&LSTMCell>> {
        let layers = &self.parts.get_as::<Room>("layers")?.parts;
        let mut all = Vec::new();
        for (name, _) in &layers.0 {
            for (side, _) in &layers.get_as::<Room>(name)?.parts.0 {
                let side = layers.get_as::<Room>(name)?.parts.get_as::<Room>(side)?;
                all.push(side.parts.get_as::<LSTMCell>("cell")?);
            }
        }
        Ok(all)
    }
    /// All steps of one direction.
    fn steps(cell: &LSTMCell, x: &Tensor, state: State) -> Result<(Tensor, State)> {
        let (mut state, mut out) = (state, Vec::new());
        for i in 0..x.sizes()[0] {
            state = cell.try_forward(&ops::select(x, 0, i)?, Some((&state.0, &state.1)))?;
            out.push(state.0.clone());
        }
        ensure!(!out.is_empty(), Runtime, "Expected sequence length to be larger than 0 in RNN");
        Ok((ops::stack(&out, 0)?, state))
    }
    /// Hidden states of all steps, and the states after the last one.
    ///
    /// # Panics
    /// As [`try_forward`](LSTM::try_forward).
    #[track_caller]
    pub fn forward(&self, x: &Tensor, hidden: Option<(&Tensor, &Tensor)>) -> (Tensor, (Tensor, Tensor)) {
        flambeau_core::api::ergonomic::expect(self.try_forward(x, hidden))
    }
    /// Hidden states of all steps, and the states after the last one.
    ///
    /// # Errors
    /// Sizes that do not fit.
    pub fn try_forward(
        &self,
        x: &Tensor,
        hidden: Option<(&Tensor, &Tensor)>,
    ) -> Result<(Tensor, (Tensor, Tensor))> {
        ensure!(
            x.dim() == 3,
            Runtime,
            "quantizable LSTM: Expected input to be 3-D, got {}-D tensor",
            x.dim()
        );
        let turned = |t: &Tensor| ops::transpose(t, 0, 1);
        let mut x = if self.shape.batch_first { turned(x)? } else { x.clone() };
        let cells = self.cells()?;
        let directions = if self.shape.bidirectional { 2 } else { 1 };
        let batch = x.sizes()[1];
        let initial = match hidden {
            Some((h, c)) => {
                let want = [cells.len() as i64, batch, self.shape.hidden_size];
                (ops::reshape(h, &want)?, ops::reshape(c, &want)?)
            }
            None => {
                let z = zeros(&[cells.len() as i64, batch, self.shape.hidden_size], &x)?;
                (z.clone(), z)
            }
        };
        let (mut hs, mut cs) = (Vec::new(), Vec::new());
        for (l, layer) in cells.chunks(directions).enumerate() {
            let mut results = Vec::new();
            for (d, cell) in layer.iter().enumerate() {
                let at = (l * directions + d) as i64;
                let state = (ops::select(&initial.0, 0, at)?, ops::select(&initial.1, 0, at)?);
                let given = if d == 1 { ops::flip(&x, &[0])? } else { x.clone() };
                let (y, (h, c)) = LSTM::steps(cell, &given, state)?;
                results.push(if d == 1 { ops::flip(&y, &[0])? } else { y });
                hs.push(h);
                cs.push(c);
            }
            x = match results.len() {
                1 => results.remove(0),
                _ => ops::cat(&results, 2)?,
            };
        }
        let y = if self.shape.batch_first { turned(&x)? } else { x };
        Ok((y, (ops::stack(&hs, 0)?, ops::stack(&cs, 0)?)))
    }
}
impl Module for LSTM {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(if self.quantized { "QuantizedLSTM" } else { "QuantizableLSTM" })
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        self.parts.visit(v);
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        self.parts.visit_mut(v)
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let (base, parts) = (self.base.copied(memo)?, self.parts.copied(memo)?);
        Ok(Copied::new(LSTM { base, shape: self.shape.clone(), quantized: self.quantized, parts }))
    }
    itself!();
}
impl Run for LSTM {
    fn class(&self) -> &'static str {
        "LSTM"
    }
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (y, (h, c)) = match inputs {
            [x] => self.try_forward(x, None)?,
            [x, h, c] => self.try_forward(x, Some((h, c)))?,
            _ => return Err(Error::type_("LSTM.forward() takes an input and two states")),
        };
        Ok(vec![y, h, c])
    }
    fn run_by_name(&self, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
        let (x, hidden) = arguments(args, kwargs)?;
        let (y, (h, c)) = self.try_forward(&x, lent(&hidden))?;
        Ok(vec![Value::Tensor(y), Value::Tuple(vec![Value::Tensor(h), Value::Tensor(c)])])
    }
}
