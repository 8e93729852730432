//! Recurrent layers with quantized weights: the integers of inputs and states are found at every step.

use super::linear::{Linear, LinearKind, itself, quantized_weight};
use crate::qconfig::QConfig;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::{fmt_sizes, wrap_dim};
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ensure, ops};
use flambeau_nn as nn;
use flambeau_nn::internal::{Copied, Memo, Run};
use flambeau_nn::{Base, Forward as _, Module, Parameter, Visitor, VisitorMut};
use std::any::Any;
use std::borrow::Cow;

/// What a step computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Step {
    Lstm,
    Gru,
    Tanh,
    Relu,
}
/// `torch.ao.nn.quantized.dynamic.LSTM`, `GRU`, and the cells.
#[derive(Debug)]
#[doc(alias = "torch.ao.nn.quantized.dynamic.LSTM")]
#[doc(alias = "torch.ao.nn.quantized.dynamic.GRU")]
#[doc(alias = "torch.ao.nn.quantized.dynamic.LSTMCell")]
#[doc(alias = "torch.ao.nn.quantized.dynamic.GRUCell")]
#[doc(alias = "torch.ao.nn.quantized.dynamic.RNNCell")]
pub struct Recurrent {
    base: Base,
    class: &'static str,
    text: String,
    step: Step,
    hidden: i64,
    directions: usize,
    batch_first: bool,
    /// Of inputs and of states, for each layer and direction; one pair of a cell.
    weights: Vec<(Linear, Linear)>,
}
/// What a recurrent layer of its own is made of: sizes and switches of the float layer.
#[derive(Clone, Debug)]
pub struct RecurrentShape {
    /// `LSTM`, `GRU`, or a cell: `LSTMCell`, `GRUCell`, `RNNCell`.
    pub class: &'static str,
    /// What a step computes.
    pub step: Step,
    /// Features of the input.
    pub input: i64,
    /// Features of the state.
    pub hidden: i64,
    /// Layers over each other; one of a cell.
    pub layers: i64,
    /// With biases.
    pub bias: bool,
    /// Batches come first.
    pub batch_first: bool,
    /// In both directions.
    pub bidirectional: bool,
    /// As the text shows the arguments.
    pub text: String,
}
fn plain(p: Option<&Parameter>) -> Option<Tensor> {
    p.map(|p| p.tensor().alias_detached())
}
fn layer(w: &Tensor, b: Option<Tensor>, q: &QConfig) -> Result<Linear> {
    Ok(Linear::of(quantized_weight(w, &q.weight)?, b, (1.0, 0), LinearKind::Dynamic, false))
}
/// The dynamic form of a recurrent layer.
pub(crate) fn dynamic_form(m: &dyn Module, q: &QConfig) -> Result<Option<Box<dyn Run>>> {
    macro_rules! layers {
        ($($t:ident $step:ident $name:literal),*) => {$(
            if let Some(l) = m.downcast_ref::<nn::$t>() {
                let o = &l.options;
                let mut weights = Vec::new();
                for g in l.weights.groups() {
                    let (b1, b2) = (plain(g.get(2)), plain(g.get(3)));
                    weights.push((layer(g[0].tensor(), b1, q)?, layer(g[1].tensor(), b2, q)?));
                }
                return Ok(Some(Box::new(Recurrent {
                    base: Base::new(),
                    class: $name,
                    text: m.extra_repr(),
                    step: Step::$step,
                    hidden: o.hidden_size,
                    directions: if o.bidirectional { 2 } else { 1 },
                    batch_first: o.batch_first,
                    weights,
                })));
            }
        )*};
    }
    layers!(LSTM Lstm "LSTM", GRU Gru "GRU");
    macro_rules! cells {
        ($($t:ident $name:literal |$c:ident| $step:expr),*) => {$(
            if let Some($c) = m.downcast_ref::<nn::$t>() {
                let pair = (
                    layer($c.weight_ih.tensor(), plain($c.bias_ih.as_ref()), q)?,
                    layer($c.weight_hh.tensor(), plain($c.bias_hh.as_ref()), q)?,
                );
                return Ok(Some(Box::new(Recurrent {
                    base: Base::new(),
                    class: $name,
                    text: m.extra_repr(),
                    step: $step,
                    hidden: $c.options.hidden_size,
                    directions: 1,
                    batch_first: false,
                    weights: vec![pair],
                })));
            }
        )*};
    }
    cells!(LSTMCell "LSTMCell" |c| Step::Lstm, GRUCell "GRUCell" |c| Step::Gru,
        RNNCell "RNNCell" |c| if c.options.nonlinearity == "relu" { Step::Relu } else { Step::Tanh });
    Ok(None)
}
fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ops::add(a, b, Scalar::Int(1))
}
impl Recurrent {
    /// With weights and biases that are drawn from the normal distribution, weights in qint8 or float16.
    ///
    /// # Errors
    /// Sizes below zero.
    pub fn new(o: RecurrentShape, dtype: DType) -> Result<Recurrent> {
        let cell = o.class.ends_with("Cell");
        let times = |n: i64| {
            let product = o.hidden.checked_mul(n);
            product.ok_or_else(|| Error::runtime("Storage size calculation overflowed"))
        };
        let gates = times(match o.step {
            Step::Lstm => 4,
            Step::Gru => 3,
            Step::Tanh | Step::Relu => 1,
        })?;
        let directions = if o.bidirectional { 2 } else { 1 };
        let both = times(directions)?;
        let draw = |sizes: &[i64]| ops::randn(sizes, None, Some(DType::F32), None, None, None);
        let linear = |w: &Tensor, b: Option<Tensor>| -> Result<Linear> {
            // the scales that PyTorch begins with
            let w = match dtype {
                DType::F16 => ops::to(w, Some(DType::F16), None, None, None, false, false, None)?,
                d => crate::ops::quantize_per_tensor(w, if cell { 1.0 } else { 0.1 }, 0, d)?,
            };
            Ok(Linear::of(w, b, (1.0, 0), LinearKind::Dynamic, false))
        };
        let mut weights = Vec::new();
        for l in 0..o.layers {
            let from = if l == 0 { o.input } else { both };
            for _ in 0..directions {
                // cells draw their biases first, and none where they have none
                let early = if cell && o.bias { Some((draw(&[gates])?, draw(&[gates])?)) } else { None };
                let (ih, hh) = (draw(&[gates, from])?, draw(&[gates, o.hidden])?);
                let late = if cell { None } else { Some((draw(&[gates])?, draw(&[gates])?)) };
                let (b, c) = early.or(late).map_or((None, None), |(b, c)| (Some(b), Some(c)));
                weights.push((linear(&ih, b)?, linear(&hh, c)?));
            }
        }
        let base = Base::new();
        if !cell {
            base.set_training(false);
        }
        Ok(Recurrent {
            base,
            class: o.class,
            text: o.text,
            step: o.step,
            hidden: o.hidden,
            directions: directions as usize,
            batch_first: o.batch_first,
            weights,
        })
    }
    fn named<T>(&self, of: &str, get: impl Fn(&Linear) -> T) -> Vec<(String, T)> {
        let mut all = Vec::new();
        for (i, (ih, hh)) in self.weights.iter().enumerate() {
            let at = if self.is_cell() {
                String::new()
            } else {
                let back = if i % self.directions == 1 { "_reverse" } else { "" };
                format!("_l{}{back}", i / self.directions)
            };
            all.push((format!("{of}_ih{at}"), get(ih)));
            all.push((format!("{of}_hh{at}"), get(hh)));
        }
        all
    }
    /// The weights by their names.
    pub fn weights(&self) -> Vec<(String, Tensor)> {
        self.named("weight", Linear::weight)
    }
    /// The biases by their names.
    pub fn biases(&self) -> Vec<(String, Option<Tensor>)> {
        self.named("bias", Linear::bias)
    }
    fn is_cell(&self) -> bool {
        self.class.ends_with("Cell")
    }
    /// One step of gates that the input has made, from state to state.
    fn advance(
        &self,
        gates: &Tensor,
        hh: &Linear,
        h: &Tensor,
        c: Option<&Tensor>,
    ) -> Result<(Tensor, Option<Tensor>)> {
        let from_state = hh.try_forward(h)?;
        let chunk = |t: &Tensor, n| ops::chunk(t, n, -1);
        match self.step {
            Step::Lstm => {
                let all = chunk(&add(gates, &from_state)?, 4)?;
                let (i, f) = (ops::sigmoid(&all[0])?, ops::sigmoid(&all[1])?);
                let (g, o) = (ops::tanh(&all[2])?, ops::sigmoid(&all[3])?);
                let c = c.ok_or_else(|| Error::runtime("an LSTM without its cell state"))?;
                let c = add(&ops::mul(&f, c)?, &ops::mul(&i, &g)?)?;
                Ok((ops::mul(&o, &ops::tanh(&c)?)?, Some(c)))
            }
            Step::Gru => {
                let (x, y) = (chunk(gates, 3)?, chunk(&from_state, 3)?);
                let r = ops::sigmoid(&add(&y[0], &x[0])?)?;
                let z = ops::sigmoid(&add(&y[1], &x[1])?)?;
                let n = ops::tanh(&add(&ops::mul(&y[2], &r)?, &x[2])?)?;
                let h = add(&ops::mul(&ops::sub(h, &n, Scalar::Int(1))?, &z)?, &n)?;
                Ok((h, None))
            }
            Step::Tanh => Ok((ops::tanh(&add(gates, &from_state)?)?, None)),
            Step::Relu => Ok((ops::relu(&add(gates, &from_state)?)?, None)),
        }
    }
    fn zeros(&self, like: &Tensor, sizes: &[i64]) -> Result<Tensor> {
        ops::zeros(sizes, Some(like.dtype()), None, None, None)
    }
    /// Features of the input; whatever comes, where there is no layer.
    fn features(&self, got: i64) -> i64 {
        self.weights.first().map_or(got, |(ih, _)| ih.weight().sizes()[1])
    }
    /// PyTorch's checks of a cell's input and states.
    fn check_cell(&self, x: &Tensor, states: [Option<&Tensor>; 2]) -> Result<()> {
        let size = |t: &Tensor, d: i64| -> Result<i64> { Ok(t.sizes()[wrap_dim(d, t.dim())?]) };
        let got = size(x, 1)?;
        let want = self.features(got);
        ensure!(got == want, Runtime, "input has inconsistent input_size: got {got}, expected {want}");
        for (i, s) in states.iter().enumerate() {
            let Some(s) = s else { continue };
            let label = if self.step == Step::Lstm { format!("hidden[{i}]") } else { "hidden".into() };
            let (batch, own) = (size(x, 0)?, size(s, 0)?);
            ensure!(batch == own, Runtime, "Input batch size {batch} doesn't match {label} batch size {own}");
            let got = size(s, 1)?;
            ensure!(
                got == self.hidden,
                Runtime,
                "{label} has inconsistent hidden_size: got {got}, expected {}",
                self.hidden
            );
        }
        Ok(())
    }
    /// PyTorch's checks of a layer's input and states.
    fn check_sequence(&self, x: &Tensor, states: [Option<&Tensor>; 2]) -> Result<()> {
        ensure!(matches!(x.dim(), 2 | 3), Runtime, "input must have 3 dimensions, got {}", x.dim());
        let got = x.sizes()[x.dim() - 1];
        let want = self.features(got);
        ensure!(
            got == want,
            Runtime,
            "input.size(-1) must be equal to input_size. Expected {want}, got {got}"
        );
        let batch = (x.dim() == 3).then(|| x.sizes()[if self.batch_first { 0 } else { 1 }]);
        let layers = self.weights.len() as i64;
        let want: Vec<i64> = std::iter::once(layers).chain(batch).chain([self.hidden]).collect();
        for (i, s) in states.iter().enumerate() {
            let Some(s) = s else { continue };
            let label = if self.step == Step::Lstm { format!("hidden[{i}]") } else { "hidden".into() };
            let list = want.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
            ensure!(
                s.sizes() == want,
                Runtime,
                "Expected {label} size ({list}), got {}",
                fmt_sizes(s.sizes())
            );
        }
        let steps = x.sizes()[if self.batch_first && x.dim() == 3 { 1 } else { 0 }];
        ensure!(steps > 0, Runtime, "Expected sequence length to be larger than 0 in RNN");
        Ok(())
    }
    /// A cell's step.
    fn cell(&self, x: &Tensor, h: Option<&Tensor>, c: Option<&Tensor>) -> Result<Vec<Tensor>> {
        self.check_cell(x, [h, c])?;
        let mut sizes = x.sizes().to_vec();
        if let Some(last) = sizes.last_mut() {
            *last = self.hidden;
        }
        let zero = self.zeros(x, &sizes)?;
        let (ih, hh) = &self.weights[0];
        let (h, c) = self.advance(&ih.try_forward(x)?, hh, h.unwrap_or(&zero), Some(c.unwrap_or(&zero)))?;
        Ok(std::iter::once(h).chain(c).collect())
    }
    /// All steps of all layers: results, states, and cell states.
    fn sequence(&self, x: &Tensor, h: Option<&Tensor>, c: Option<&Tensor>) -> Result<Vec<Tensor>> {
        self.check_sequence(x, [h, c])?;
        let single = x.dim() == 2;
        let mut x = if single { ops::unsqueeze(x, if self.batch_first { 0 } else { 1 })? } else { x.clone() };
        if self.batch_first {
            x = ops::transpose(&x, 0, 1)?;
        }
        let batch = x.sizes()[1];
        let zero = self.zeros(&x, &[self.weights.len() as i64, batch, self.hidden])?;
        let wide = |t: Option<&Tensor>| match t {
            Some(t) if single => ops::unsqueeze(t, 1),
            Some(t) => Ok(t.clone()),
            None => Ok(zero.clone()),
        };
        let (h0, c0) = (wide(h)?, wide(c)?);
        let (mut hs, mut cs) = (Vec::new(), Vec::new());
        for (l, pairs) in self.weights.chunks(self.directions).enumerate() {
            let mut both = Vec::new();
            for (d, (ih, hh)) in pairs.iter().enumerate() {
                let at = (l * self.directions + d) as i64;
                let (mut h, mut c) = (ops::select(&h0, 0, at)?, Some(ops::select(&c0, 0, at)?));
                let gates = ops::unbind(&ih.try_forward(&x)?, 0)?;
                let mut out = Vec::new();
                let order: Vec<usize> =
                    if d == 0 { (0..gates.len()).collect() } else { (0..gates.len()).rev().collect() };
                for t in order {
                    let new = self.advance(&gates[t], hh, &h, c.as_ref())?;
                    (h, c) = (new.0, new.1.or(c));
                    out.push(h.clone());
                }
                if d == 1 {
                    out.reverse();
                }
                both.push(ops::stack(&out, 0)?);
                hs.push(h);
                cs.extend(c);
            }
            x = if both.len() == 1 { both.remove(0) } else { ops::cat(&both, -1)? };
        }
        if self.batch_first {
            x = ops::transpose(&x, 0, 1)?;
        }
        let (mut h, mut c) = (ops::stack(&hs, 0)?, ops::stack(&cs, 0)?);
        if single {
            x = ops::squeeze_dim(&x, if self.batch_first { 0 } else { 1 })?;
            (h, c) = (ops::squeeze_dim(&h, 1)?, ops::squeeze_dim(&c, 1)?);
        }
        Ok(if self.step == Step::Lstm { vec![x, h, c] } else { vec![x, h] })
    }
    /// A step of a cell, or all steps: results, then states.
    ///
    /// # Errors
    /// Sizes that do not fit.
    pub fn try_forward(&self, x: &Tensor, h: Option<&Tensor>, c: Option<&Tensor>) -> Result<Vec<Tensor>> {
        let x = &x.alias_detached();
        if self.is_cell() { self.cell(x, h, c) } else { self.sequence(x, h, c) }
    }
    pub(crate) fn class_name(&self) -> &'static str {
        self.class
    }
    pub(crate) fn is_lstm(&self) -> bool {
        self.step == Step::Lstm
    }
    pub(crate) fn steps_once(&self) -> bool {
        self.is_cell()
    }
}
impl Module for Recurrent {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Owned(format!("DynamicQuantized{}", self.class))
    }
    fn extra_repr(&self) -> String {
        self.text.clone()
    }
    fn repr(&self) -> String {
        format!("{}({})", self.type_name(), self.text)
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        for (i, (a, b)) in self.weights.iter().enumerate() {
            v.module(&format!("ih{i}"), a);
            v.module(&format!("hh{i}"), b);
        }
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        for (i, (a, b)) in self.weights.iter_mut().enumerate() {
            v.module(&format!("ih{i}"), a)?;
            v.module(&format!("hh{i}"), b)?;
        }
        Ok(())
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let weights = self.weights.iter().map(|(a, b)| Ok((a.try_deepcopy()?, b.try_deepcopy()?)));
        Ok(Copied::new(Recurrent {
            base: self.base.copied(memo)?,
            class: self.class,
            text: self.text.clone(),
            step: self.step,
            hidden: self.hidden,
            directions: self.directions,
            batch_first: self.batch_first,
            weights: weights.collect::<Result<_>>()?,
        }))
    }
    itself!();
}
