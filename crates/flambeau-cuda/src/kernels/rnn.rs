//! One direction of a recurrent layer over packed rows: a product with the hidden state and the pointwise part of each step; the
//! input's part of all steps is one product before.

use super::blas::product;
use super::dense::{address_of, dense, dense_opt, text};
use super::{Args, Which, element, launch, shape};
use crate::device::ordinal;
use flambeau_core::backend::matrices;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ops};
use flambeau_nn_functional::generated::{args, rnn as rows};

const FILE: &str = "rnn/cells.cuh";
const LSTM: i64 = 2;
const GRU: i64 = 3;

/// Sizes that the shape rule checked.
struct Layer<'a> {
    mode: i64,
    h: i64,
    /// Gates of the weights, and elements of a row of gates.
    gates: i64,
    width: i64,
    steps: &'a [i64],
    starts: Vec<i64>,
    reverse: bool,
    own: &'static str,
    dtype: DType,
}
/// Rows of a step whose state before stands in one place: the first, how many, their row in memory, and the state's.
struct Stretch {
    from: i64,
    n: i64,
    at: i64,
    before: Option<i64>,
}
impl<'a> Layer<'a> {
    fn new(w_hh: &Tensor, steps: &'a [i64], mode: i64, reverse: bool, label: &str) -> Result<Layer<'a>> {
        let dtype = w_hh.dtype();
        let own = element(dtype).filter(|_| matches!(dtype, DType::F32 | DType::F64));
        let own = own.ok_or_else(|| Error::not_implemented_for(label, dtype))?;
        let gates = match mode {
            LSTM => 4,
            GRU => 3,
            _ => 1,
        };
        let h = w_hh.sizes()[0] / gates;
        let width = if mode == GRU { 4 * h } else { gates * h };
        let starts = steps.iter().scan(0, |at, n| {
            let start = *at;
            *at += n;
            Some(start)
        });
        Ok(Layer { mode, h, gates, width, steps, starts: starts.collect(), reverse, own, dtype })
    }
    /// The stretches of step `t`: sequences that begin in this direction have their initial state.
    fn stretches(&self, t: usize) -> Vec<Stretch> {
        let (n, at) = (self.steps[t], self.starts[t]);
        let all = if !self.reverse {
            vec![Stretch { from: 0, n, at, before: t.checked_sub(1).map(|b| self.starts[b]) }]
        } else {
            let old = self.steps.get(t + 1).copied().unwrap_or(0);
            let before = self.starts.get(t + 1).copied();
            vec![
                Stretch { from: 0, n: old, at, before },
                Stretch { from: old, n: n - old, at: at + old, before: None },
            ]
        };
        all.into_iter().filter(|s| s.n > 0).collect()
    }
    /// Steps in the order of the recurrence, or against it.
    fn order(&self, against: bool) -> Vec<usize> {
        let all = 0..self.steps.len();
        if self.reverse != against { all.rev().collect() } else { all.collect() }
    }
    fn run(&self, f: &'static str, like: &Tensor, n: i64, all: [Option<&Tensor>; 13]) -> Result<()> {
        let list = all.iter().try_fold(Args::new(), |l, t| Ok::<_, Error>(l.word(address_of(*t)?)))?;
        let list = list.int(n).int(self.h).int(self.width).int(self.mode);
        let which = Which(f, 0, [self.dtype as u8, 0, 0, 0]);
        let text = || text(FILE, &format!("CELL(k, {f}, {})", self.own));
        launch(ordinal(like.device())?, which, text, shape(n * self.h), list)
    }
}
/// Some rows of a dense matrix.
fn part(t: &Tensor, first: i64, n: i64) -> Result<Tensor> {
    let w = t.sizes()[1];
    t.view_raw([n, w], [w, 1], t.storage_offset() + first * w)
}
fn parts(t: Option<&Tensor>, first: i64, n: i64) -> Result<Option<Tensor>> {
    t.map(|t| part(t, first, n)).transpose()
}
fn multiplied(a: &Tensor, b: &Tensor, out: &Tensor) -> Result<()> {
    if product(a, b, out)? {
        Ok(())
    } else {
        Err(Error::not_implemented_for("_recurrent_layer", out.dtype()))
    }
}
/// What is added to each row of gates: both biases together, but those of a gated unit's new gate, which stay apart.
fn bias(a: &args::RecurrentLayer, l: &Layer) -> Result<Option<Tensor>> {
    let none = |t: &Tensor| Tensor::zeros_raw(t.sizes(), t.dtype(), t.device());
    let (i, h) = match (a.b_ih, a.b_hh) {
        (None, None) => return Ok(None),
        (Some(i), Some(h)) => (dense(i)?, dense(h)?),
        (Some(i), None) => (dense(i)?, none(i)?),
        (None, Some(h)) => (none(h)?, dense(h)?),
    };
    if l.mode != GRU {
        return ops::add(&i, &h, Scalar::Int(1)).map(Some);
    }
    let first = |t: &Tensor| ops::narrow(t, 0, 0, 2 * l.h);
    let last = |t: &Tensor| ops::narrow(t, 0, 2 * l.h, l.h);
    let both = ops::add(&first(&i)?, &first(&h)?, Scalar::Int(1))?;
    ops::cat(&[both, last(&i)?, last(&h)?], 0).map(Some)
}
fn forward(a: &args::RecurrentLayer, [out, cells, gates]: [&Tensor; 3]) -> Result<()> {
    let l = Layer::new(a.w_hh, a.batch_sizes, a.mode, a.reverse, "_recurrent_layer")?;
    if out.numel() == 0 {
        return Ok(());
    }
    let bias = bias(a, &l)?;
    let (x, h0, c0) = (dense(a.input)?, dense(a.hx)?, dense_opt(a.c0)?);
    let plain = l.gates == 1;
    let buffer = if plain { out } else { gates };
    let rows = out.sizes()[0];
    let to = buffer.view_raw([rows, l.gates * l.h], [l.width, 1], buffer.storage_offset())?;
    multiplied(&x, &ops::t(a.w_ih)?, &to)?;
    let w = ops::t(a.w_hh)?;
    let most = a.batch_sizes.first().copied().unwrap_or(0);
    let fresh = |w: i64| Tensor::empty_raw(&[most, w], l.dtype, out.device());
    let products = fresh(l.gates * l.h)?;
    let raw = a.w_hr.map(|_| fresh(l.h)).transpose()?;
    for t in l.order(false) {
        for s in l.stretches(t) {
            let last = match s.before {
                Some(row) => part(out, row + s.from, s.n)?,
                None => part(&h0, s.from, s.n)?,
            };
            let u = part(&products, 0, s.n)?;
            multiplied(&last, &w, &u)?;
            let state = match (l.mode == LSTM, s.before) {
                (true, Some(row)) => part(cells, row + s.from, s.n)?,
                (true, None) => match &c0 {
                    Some(c) => part(c, s.from, s.n)?,
                    None => return Err(Error::runtime("lstm expects cell states")),
                },
                _ => last,
            };
            let g = part(buffer, s.at, s.n)?;
            let c = (l.mode == LSTM).then(|| part(cells, s.at, s.n)).transpose()?;
            let y = match &raw {
                Some(r) => part(r, 0, s.n)?,
                None => part(out, s.at, s.n)?,
            };
            let mut all = [None; 13];
            all[..6].copy_from_slice(&[
                Some(&g),
                Some(&u),
                bias.as_ref(),
                Some(&state),
                c.as_ref(),
                Some(&y),
            ]);
            l.run("cell_forward", out, s.n, all)?;
            if let Some(w_hr) = a.w_hr {
                multiplied(&y, &ops::t(w_hr)?, &part(out, s.at, s.n)?)?;
            }
        }
    }
    Ok(())
}
fn backward(a: &args::RecurrentLayerBackward, [grad, carry, kept, grad_rows]: [&Tensor; 4]) -> Result<()> {
    let l = Layer::new(a.w_hh, a.batch_sizes, a.mode, a.reverse, "_recurrent_layer_backward")?;
    ops::zero_(carry)?;
    ops::zero_(kept)?;
    if a.output.numel() == 0 {
        return Ok(());
    }
    let (out, cells, gates) = (dense(a.output)?, dense(a.cells)?, dense(a.gates)?);
    let (h0, c0, w) = (dense(a.hx)?, dense_opt(a.c0)?, dense(a.w_hh)?);
    let (from_out, from_cells) = (dense_opt(a.grad_output)?, dense_opt(a.grad_cells)?);
    let (lstm, gru, plain) = (l.mode == LSTM, l.mode == GRU, l.gates == 1);
    let most = a.batch_sizes.first().copied().unwrap_or(0);
    let fresh = |w: i64| Tensor::empty_raw(&[most, w], l.dtype, out.device());
    let compact = gru.then(|| fresh(3 * l.h)).transpose()?;
    let more = gru.then(|| fresh(l.h)).transpose()?;
    let raw = a.w_hr.map(|_| fresh(l.h)).transpose()?;
    for t in l.order(true) {
        for s in l.stretches(t) {
            let here = part(carry, s.from, s.n)?;
            let g_out = parts(from_out.as_ref(), s.at, s.n)?;
            let unprojected = parts(raw.as_ref(), 0, s.n)?;
            if let (Some(w_hr), Some(to)) = (a.w_hr, &unprojected) {
                if let Some(g) = &g_out {
                    ops::add_(&here, g, Scalar::Int(1))?;
                }
                matrices::write(&part(grad_rows, s.at, s.n)?, &here)?;
                multiplied(&here, w_hr, to)?;
            }
            let state = match (lstm, s.before) {
                (true, Some(row)) => part(&cells, row + s.from, s.n)?,
                (true, None) => match &c0 {
                    Some(c) => part(c, s.from, s.n)?,
                    None => return Err(Error::runtime("lstm expects cell states")),
                },
                (false, Some(row)) => part(&out, row + s.from, s.n)?,
                (false, None) => part(&h0, s.from, s.n)?,
            };
            let g = part(if plain { &out } else { &gates }, s.at, s.n)?;
            let own_cells = lstm.then(|| part(&cells, s.at, s.n)).transpose()?;
            let own_kept = lstm.then(|| part(kept, s.from, s.n)).transpose()?;
            let g_cells = parts(from_cells.as_ref(), s.at, s.n)?;
            let to = part(grad, s.at, s.n)?;
            let side = parts(compact.as_ref(), 0, s.n)?;
            let all = [
                Some(&g),
                None,
                None,
                Some(&state),
                own_cells.as_ref(),
                None,
                Some(&here),
                g_out.as_ref(),
                g_cells.as_ref(),
                unprojected.as_ref(),
                own_kept.as_ref(),
                Some(&to),
                side.as_ref(),
            ];
            l.run("cell_backward", &out, s.n, all)?;
            match (&side, &more) {
                // a gated unit left there what goes straight to the state before
                (Some(side), Some(more)) => {
                    let more = part(more, 0, s.n)?;
                    multiplied(side, &w, &more)?;
                    ops::add_(&here, &more, Scalar::Int(1))?;
                }
                _ => multiplied(&to, &w, &here)?,
            }
        }
    }
    Ok(())
}

/// Fills the rows' tables.
pub(crate) fn register() {
    rows::RECURRENT_LAYER_KERNEL.register(Key::Cuda, forward);
    rows::RECURRENT_LAYER_BACKWARD_KERNEL.register(Key::Cuda, backward);
}
