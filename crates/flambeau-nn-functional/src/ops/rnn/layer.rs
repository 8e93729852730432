//! One direction of one layer over packed rows: the fused kernel, and the same by differentiable operators.

use crate::generated::args;
use crate::ops::cells::{gru_step, lstm_step};
use crate::ops::linear;
use crate::ops::operands::{done, plain, plain_opt};
use flambeau_autograd::forward_ad::{any_tangent, dual_active};
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Scalar, Tensor, bail, ensure, ops as core};
use flambeau_cpu::rnn::erased as rnn;
use flambeau_cpu::rnn::erased::{SavedAny, WeightsAny};
use flambeau_cpu::rnn::{Cell, RecurrentShape};

/// Operands of a layer's direction: rows of all steps one after another, weights, and the rows of each step.
#[derive(Clone, Copy)]
pub struct Layer<'a> {
    /// `[rows, features]`
    pub input: &'a Tensor,
    /// `[batch, out]`
    pub hx: &'a Tensor,
    /// `[batch, hidden]`
    pub cx: Option<&'a Tensor>,
    /// `[gates * hidden, features]`
    pub w_ih: &'a Tensor,
    /// `[gates * hidden, out]`
    pub w_hh: &'a Tensor,
    /// `[gates * hidden]`
    pub b_ih: Option<&'a Tensor>,
    /// `[gates * hidden]`
    pub b_hh: Option<&'a Tensor>,
    /// `[out, hidden]`
    pub w_hr: Option<&'a Tensor>,
    /// Rows of each step, never growing.
    pub batch_sizes: &'a [i64],
    /// As `mode_of` numbers them.
    pub mode: i64,
    /// From the last step to the first.
    pub reverse: bool,
}

/// A kind of step as the operators' number.
pub fn mode_of(cell: Cell) -> i64 {
    match cell {
        Cell::Relu => 0,
        Cell::Tanh => 1,
        Cell::Lstm => 2,
        Cell::Gru => 3,
    }
}
fn cell_of(mode: i64) -> Result<Cell> {
    Ok(match mode {
        0 => Cell::Relu,
        1 => Cell::Tanh,
        2 => Cell::Lstm,
        3 => Cell::Gru,
        _ => bail!(Runtime, "Unrecognized RNN mode: {mode}"),
    })
}

/// Checked sizes.
pub(crate) struct Sizes {
    pub cell: Cell,
    pub rows: i64,
    pub hidden: i64,
    pub out: i64,
    steps: Vec<usize>,
}
impl Sizes {
    fn shape(&self, reverse: bool) -> RecurrentShape<'_> {
        let (hidden, out) = (self.hidden as usize, self.out as usize);
        RecurrentShape { cell: self.cell, hidden, out, steps: &self.steps, reverse }
    }
    /// Sizes of the saved gates: plain units have none beside their results.
    fn gates(&self) -> Vec<i64> {
        match self.cell.gates() {
            1 => vec![0],
            _ => vec![self.rows, self.cell.parts() as i64 * self.hidden],
        }
    }
    fn cells(&self) -> Vec<i64> {
        if self.cell == Cell::Lstm { vec![self.rows, self.hidden] } else { vec![0] }
    }
    /// Sizes of state, weight and step list together.
    fn of(
        hx: &Tensor,
        cx: Option<&Tensor>,
        w_hh: &Tensor,
        w_hr: Option<&Tensor>,
        batch_sizes: &[i64],
        mode: i64,
    ) -> Result<Sizes> {
        let cell = cell_of(mode)?;
        let gates = cell.gates() as i64;
        ensure!(
            w_hh.dim() == 2 && w_hh.sizes()[0] % gates == 0,
            Runtime,
            "the hidden weights must be a matrix with {gates} gates one below the other, but have sizes {:?}",
            w_hh.sizes()
        );
        let (hidden, out) = (w_hh.sizes()[0] / gates, w_hh.sizes()[1]);
        let batch = batch_sizes.first().copied().unwrap_or(0);
        ensure!(
            batch_sizes.windows(2).all(|w| w[0] >= w[1]) && batch_sizes.last().is_none_or(|n| *n >= 0),
            Runtime,
            "batch_sizes must not grow, and not be negative"
        );
        ensure!(hidden > 0 && out > 0, Runtime, "hidden_size must be greater than zero");
        ensure!(
            hx.sizes() == [batch, out],
            Runtime,
            "Expected hidden size {:?}, got {:?}",
            [batch, out],
            hx.sizes()
        );
        let wants = cell == Cell::Lstm;
        ensure!(
            cx.map_or(!wants, |c| wants && c.sizes() == [batch, hidden]),
            Runtime,
            "Expected cell size {:?}, got {:?}",
            [batch, hidden],
            cx.map(Tensor::sizes)
        );
        ensure!(
            w_hr.map_or(out == hidden, |w| wants && w.sizes() == [out, hidden]),
            Runtime,
            "the projection must have sizes {:?}, but has {:?}",
            [out, hidden],
            w_hr.map(Tensor::sizes)
        );
        let mut rows = 0i64;
        for n in batch_sizes {
            rows = match rows.checked_add(*n) {
                Some(r) => r,
                None => bail!(Runtime, "batch_sizes are too large"),
            };
        }
        Ok(Sizes { cell, rows, hidden, out, steps: batch_sizes.iter().map(|n| *n as usize).collect() })
    }
}
impl<'a> Layer<'a> {
    pub(crate) fn sizes(&self) -> Result<Sizes> {
        let s = Sizes::of(self.hx, self.cx, self.w_hh, self.w_hr, self.batch_sizes, self.mode)?;
        let n = self.w_hh.sizes()[0];
        ensure!(self.input.dim() == 2, Runtime, "input must have 2 dimensions, got {}", self.input.dim());
        let features = self.input.sizes()[1];
        ensure!(
            self.w_ih.sizes() == [n, features],
            Runtime,
            "input.size(-1) must be equal to input_size. Expected {}, got {features}",
            self.w_ih.sizes().last().copied().unwrap_or(0)
        );
        ensure!(
            self.input.sizes()[0] == s.rows,
            Runtime,
            "Expected {} rows of input, got {}",
            s.rows,
            self.input.sizes()[0]
        );
        for b in [self.b_ih, self.b_hh].into_iter().flatten() {
            ensure!(b.sizes() == [n], Runtime, "Expected a bias of {n} elements, got {:?}", b.sizes());
        }
        Ok(s)
    }
    fn tensors(&self) -> Vec<&'a Tensor> {
        let optional = [self.cx, self.b_ih, self.b_hh, self.w_hr];
        [self.input, self.hx, self.w_ih, self.w_hh]
            .into_iter()
            .chain(optional.into_iter().flatten())
            .collect()
    }
    /// Whether the kernel serves: one dtype that it knows, a device that has it, and no tangents, which it does not carry.
    fn fusable(&self) -> bool {
        let all = self.tensors();
        let d = self.input.dtype();
        matches!(d, DType::F32 | DType::F64)
            && crate::generated::rnn::RECURRENT_LAYER_KERNEL.serves(self.input.device())
            && all.iter().all(|t| t.dtype() == d && t.device() == self.input.device())
            && self.input.numel() > 0
            && !(dual_active() && any_tangent(&all))
    }
}

/// The layer's results of all rows, and the cell states of an LSTM.
pub(crate) fn run(l: &Layer) -> Result<(Tensor, Option<Tensor>)> {
    let s = l.sizes()?;
    let (y, c) = if l.fusable() {
        let (y, c, _) = super::super::recurrent_layer(
            l.input,
            l.hx,
            l.cx,
            l.w_ih,
            l.w_hh,
            l.b_ih,
            l.b_hh,
            l.w_hr,
            l.batch_sizes,
            l.mode,
            l.reverse,
        )?;
        (y, c)
    } else {
        composed(l)?
    };
    Ok((y, (s.cell == Cell::Lstm).then_some(c)))
}

/// The layer by differentiable operators.
pub(crate) fn composed(l: &Layer) -> Result<(Tensor, Tensor)> {
    let s = l.sizes()?;
    let x = linear(l.input, l.w_ih, l.b_ih)?;
    let steps = l.batch_sizes.len();
    let mut starts = Vec::with_capacity(steps);
    let mut at = 0;
    for n in l.batch_sizes {
        starts.push(at);
        at += n;
    }
    let mut outputs = vec![None; steps];
    let mut cells = vec![None; steps];
    let first = |t: &Tensor, n: i64| core::narrow(t, 0, 0, n);
    let most = if l.reverse { l.batch_sizes.last() } else { l.batch_sizes.first() };
    let most = most.copied().unwrap_or(0);
    let mut h = first(l.hx, most)?;
    let mut c = l.cx.map(|c| first(c, most)).transpose()?;
    for k in 0..steps {
        let t = if l.reverse { steps - 1 - k } else { k };
        let n = l.batch_sizes[t];
        // sequences that ended leave; those that begin in this direction come in with their initial state
        let fit = |now: Tensor, initial: &Tensor| -> Result<Tensor> {
            let have = now.sizes()[0];
            match have.cmp(&n) {
                std::cmp::Ordering::Equal => Ok(now),
                std::cmp::Ordering::Greater => first(&now, n),
                std::cmp::Ordering::Less => core::cat(&[now, core::narrow(initial, 0, have, n - have)?], 0),
            }
        };
        h = fit(h, l.hx)?;
        let xg = core::narrow(&x, 0, starts[t], n)?;
        let hg = linear(&h, l.w_hh, l.b_hh)?;
        let sum = || core::add(&hg, &xg, Scalar::Int(1));
        h = match s.cell {
            Cell::Relu => core::relu(&sum()?)?,
            Cell::Tanh => core::tanh(&sum()?)?,
            Cell::Gru => gru_step(&xg, &hg, &h)?,
            Cell::Lstm => {
                let (Some(now), Some(initial)) = (c.take(), l.cx) else {
                    bail!(Runtime, "lstm expects cell states");
                };
                let (y, next) = lstm_step(&sum()?, &fit(now, initial)?)?;
                cells[t] = Some(next.clone());
                c = Some(next);
                match l.w_hr {
                    Some(w) => linear(&y, w, None)?,
                    None => y,
                }
            }
        };
        outputs[t] = Some(h.clone());
    }
    let all = |rows: Vec<Option<Tensor>>, width: i64| -> Result<Tensor> {
        let rows: Vec<Tensor> = rows.into_iter().flatten().collect();
        if rows.is_empty() {
            return Tensor::zeros_raw(&[0, width], l.input.dtype(), l.input.device());
        }
        core::cat(&rows, 0)
    };
    let cells = match s.cell {
        Cell::Lstm => all(cells, s.hidden)?,
        _ => Tensor::empty_raw(&[0], l.input.dtype(), l.input.device())?,
    };
    Ok((all(outputs, s.out)?, cells))
}

/// What is added to each row of gates: the two biases together, except that a gated unit's new gate keeps them apart.
fn bias(l: &Layer, cell: Cell) -> Result<Option<Tensor>> {
    let (i, h) = match (l.b_ih, l.b_hh) {
        (None, None) => return Ok(None),
        (Some(i), Some(h)) => (plain(i)?, plain(h)?),
        (Some(one), None) => (plain(one)?, core::zeros_like(one, None, None, None, None, None)?),
        (None, Some(one)) => (core::zeros_like(one, None, None, None, None, None)?, plain(one)?),
    };
    if cell != Cell::Gru {
        return core::add(&i, &h, Scalar::Int(1)).map(Some);
    }
    let n = i.sizes()[0] / 3;
    let both = core::add(&core::narrow(&i, 0, 0, 2 * n)?, &core::narrow(&h, 0, 0, 2 * n)?, Scalar::Int(1))?;
    let apart = |t: &Tensor| core::narrow(t, 0, 2 * n, n);
    core::cat(&[both, apart(&i)?, apart(&h)?], 0).map(Some)
}

/// The row's arguments as operands.
fn operands<'a>(a: &args::RecurrentLayer<'a>) -> Layer<'a> {
    Layer {
        input: a.input,
        hx: a.hx,
        cx: a.c0,
        w_ih: a.w_ih,
        w_hh: a.w_hh,
        b_ih: a.b_ih,
        b_hh: a.b_hh,
        w_hr: a.w_hr,
        batch_sizes: a.batch_sizes,
        mode: a.mode,
        reverse: a.reverse,
    }
}
/// `_recurrent_layer`
pub fn recurrent_layer_shape(given: &args::RecurrentLayer) -> Result<[OutMeta; 3]> {
    let l = operands(given);
    let (s, d) = (l.sizes()?, l.input.dtype());
    for t in l.tensors() {
        ensure!(
            t.dtype() == d,
            Runtime,
            "expected scalar type {} but found {}",
            d.scalar_type_name(),
            t.dtype().scalar_type_name()
        );
    }
    let new = |sizes: &[i64]| OutMeta::of(sizes, d, l.input.device());
    Ok([new(&[s.rows, s.out]), new(&s.cells()), new(&s.gates())])
}
/// `_recurrent_layer`
pub fn recurrent_layer_cpu(given: &args::RecurrentLayer, [out, cells, gates]: [&Tensor; 3]) -> Result<()> {
    let l = operands(given);
    let s = l.sizes()?;
    let shape = s.shape(l.reverse);
    let bias = bias(&l, s.cell)?;
    let (x, w, hh) = (plain(l.input)?, plain(l.w_ih)?, plain(l.w_hh)?);
    let (h0, c0, hr) = (plain(l.hx)?, plain_opt(l.cx)?, plain_opt(l.w_hr)?);
    let mut read: Vec<&Tensor> = vec![&x, &w, &hh, &h0];
    let at = further(&mut read, [bias.as_ref(), c0.as_ref(), hr.as_ref()]);
    let a = Access::new(&read, &[out, cells, gates])?;
    let given = |i: usize| at[i].map(|k| a.any(k)).transpose();
    let weights = WeightsAny { hh: a.any(2)?, bias: given(0)?, hr: given(2)?, h0: a.any(3)?, c0: given(1)? };
    let (y, c, g) = (a.any_mut(0)?, a.any_mut(1)?, a.any_mut(2)?);
    let r = rnn::forward(&shape, [a.any(0)?, a.any(1)?], weights, g, y, c);
    done(r, "_recurrent_layer", l.input.dtype())
}
/// Adds the operands that there are; says which place each has.
fn further<'a, const N: usize>(
    read: &mut Vec<&'a Tensor>,
    extra: [Option<&'a Tensor>; N],
) -> [Option<usize>; N] {
    extra.map(|t| {
        t.map(|t| {
            read.push(t);
            read.len() - 1
        })
    })
}

fn backward_sizes(a: &args::RecurrentLayerBackward) -> Result<Sizes> {
    Sizes::of(a.hx, a.c0, a.w_hh, a.w_hr, a.batch_sizes, a.mode)
}
/// `_recurrent_layer_backward`
pub fn recurrent_layer_backward_shape(a: &args::RecurrentLayerBackward) -> Result<[OutMeta; 4]> {
    let s = backward_sizes(a)?;
    let d = a.w_hh.dtype();
    let optional = [a.grad_output, a.grad_cells, a.c0, a.w_hr];
    for t in [a.hx, a.output, a.cells, a.gates].into_iter().chain(optional.into_iter().flatten()) {
        ensure!(t.dtype() == d, Runtime, "_recurrent_layer_backward: operands of more than one dtype");
    }
    let results = [s.rows, s.out];
    ensure!(
        a.output.sizes() == results
            && a.cells.sizes() == s.cells()
            && a.gates.sizes() == s.gates()
            && a.grad_output.is_none_or(|g| g.sizes() == results)
            && a.grad_cells.is_none_or(|g| g.sizes() == a.cells.sizes()),
        Shape,
        "_recurrent_layer_backward: a gradient or a saved result is not like the result"
    );
    let new = |sizes: &[i64]| OutMeta::of(sizes, d, a.w_hh.device());
    let state = if s.cell == Cell::Lstm { new(&[a.hx.sizes()[0], s.hidden]) } else { new(&[0]) };
    let rows = if a.w_hr.is_some() { new(&results) } else { new(&[0]) };
    Ok([new(&[s.rows, s.cell.parts() as i64 * s.hidden]), new(a.hx.sizes()), state, rows])
}
/// `_recurrent_layer_backward`
pub fn recurrent_layer_backward_cpu(given: &args::RecurrentLayerBackward, outs: [&Tensor; 4]) -> Result<()> {
    let s = backward_sizes(given)?;
    let fixed = [
        plain(given.w_hh)?,
        plain(given.hx)?,
        plain(given.output)?,
        plain(given.cells)?,
        plain(given.gates)?,
    ];
    let extra = [
        plain_opt(given.c0)?,
        plain_opt(given.w_hr)?,
        plain_opt(given.grad_output)?,
        plain_opt(given.grad_cells)?,
    ];
    let mut read: Vec<&Tensor> = fixed.iter().collect();
    let at = further(&mut read, [0, 1, 2, 3].map(|i: usize| extra[i].as_ref()));
    let a = Access::new(&read, &outs)?;
    let there = |i: usize| at[i].map(|k| a.any(k)).transpose();
    let saved = SavedAny {
        weights: WeightsAny { hh: a.any(0)?, bias: None, hr: there(1)?, h0: a.any(1)?, c0: there(0)? },
        gates: a.any(4)?,
        out: a.any(2)?,
        cells: a.any(3)?,
        grad_out: there(2)?,
        grad_cells: there(3)?,
    };
    let to = [a.any_mut(0)?, a.any_mut(1)?, a.any_mut(2)?, a.any_mut(3)?];
    let r = rnn::backward(&s.shape(given.reverse), saved, to);
    done(r, "_recurrent_layer_backward", given.w_hh.dtype())
}
