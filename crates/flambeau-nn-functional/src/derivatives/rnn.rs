//! Recurrent layers.

pub use crate::ops::rnn::layer::Layer;
use flambeau_core::internal::RawTensor as _;

use crate::ops;
use crate::ops::rnn::layer::composed;
use flambeau_autograd::functional::{FunctionalOptions, try_vjp};
use flambeau_autograd::is_differentiated;
use flambeau_autograd::shorthand::{mul, sum_dims};
use flambeau_core::{Error, Result, Tensor, ops as core};

const LSTM: i64 = 2;
const GRU: i64 = 3;

/// `_recurrent_layer`: gradients of its eight operands. The kernel gives those of the gates; the rest are products over
/// all rows at once.
pub fn recurrent_layer_grad(
    grads: &[Option<Tensor>],
    l: Layer,
    [output, cells, gates]: [&Tensor; 3],
    need: &[bool],
) -> Result<[Option<Tensor>; 8]> {
    if is_differentiated() {
        return differentiable(grads, l, need);
    }
    let of = |i: usize| grads.get(i).and_then(Option::as_ref);
    let (dg, dh, dc, dy) = ops::recurrent_layer_backward(
        of(0),
        of(1).filter(|_| l.mode == LSTM),
        l.hx,
        l.cx,
        l.w_hh,
        l.w_hr,
        output,
        cells,
        gates,
        l.batch_sizes,
        l.mode,
        l.reverse,
    )?;
    let n = l.w_hh.sizes()[0];
    // a gated unit's new gate has two parts, one for the input and one for the hidden state
    let part = |from: i64, size: i64| core::narrow(&dg, 1, from, size);
    let dx = if l.mode == GRU { part(0, n)? } else { dg.clone() };
    let mut out = [const { None }; 8];
    let needs = |i: usize| need.get(i) == Some(&true);
    if needs(0) {
        out[0] = Some(core::mm(&dx, l.w_ih)?);
    }
    if needs(1) {
        out[1] = Some(dh);
    }
    if needs(2) && l.cx.is_some() {
        out[2] = Some(dc);
    }
    if needs(3) {
        out[3] = Some(core::mm(&core::transpose(&dx, 0, 1)?, l.input)?);
    }
    if needs(4) {
        let weights = |d: &Tensor| hidden_weights(d, &l, output);
        out[4] = Some(match l.mode {
            GRU => {
                let third = n / 3;
                core::cat(&[weights(&part(0, 2 * third)?)?, weights(&part(n, third)?)?], 0)?
            }
            _ => weights(&dg)?,
        });
    }
    let rows = |d: &Tensor| sum_dims(d, &[0], false);
    if (needs(5) && l.b_ih.is_some()) || (needs(6) && l.b_hh.is_some()) {
        let all = rows(&dg)?;
        let take = |from: i64, size: i64| core::narrow(&all, 0, from, size);
        if needs(5) && l.b_ih.is_some() {
            out[5] = Some(core::clone(&take(0, n)?, None)?);
        }
        if needs(6) && l.b_hh.is_some() {
            out[6] = Some(match l.mode {
                GRU => core::cat(&[take(0, n / 3 * 2)?, take(n, n / 3)?], 0)?,
                _ => core::clone(&all, None)?,
            });
        }
    }
    if needs(7) && l.w_hr.is_some() {
        let hidden = cells.sizes()[1];
        let gate = core::narrow(gates, 1, 3 * hidden, hidden)?;
        out[7] = Some(core::mm(&core::transpose(&dy, 0, 1)?, &mul(&gate, &core::tanh(cells)?)?)?);
    }
    Ok(out)
}

/// The product of the gates' gradients with the states before them.
fn hidden_weights(d: &Tensor, l: &Layer, output: &Tensor) -> Result<Tensor> {
    let rows = d.sizes()[0];
    let batch = l.batch_sizes.first().copied().unwrap_or(0);
    let product = |from: i64, count: i64, states: &Tensor| -> Result<Tensor> {
        core::mm(&core::transpose(&core::narrow(d, 0, from, count)?, 0, 1)?, states)
    };
    if l.batch_sizes.last() == Some(&batch) {
        // the states before are the results, one step further on: no copy
        let (first, rest, states) = if l.reverse { (rows - batch, 0, batch) } else { (0, batch, 0) };
        let start = product(first, batch, l.hx)?;
        if rows == batch {
            return Ok(start);
        }
        let later = core::narrow(output, 0, states, rows - batch)?;
        let d = core::narrow(d, 0, rest, rows - batch)?;
        let one = flambeau_core::Scalar::Int(1);
        return core::addmm(&start, &core::transpose(&d, 0, 1)?, &later, one, one);
    }
    let mut starts = vec![0];
    for n in l.batch_sizes {
        starts.push(starts[starts.len() - 1] + n);
    }
    // places in the initial state followed by the results
    let mut places = flambeau_core::tensor::geometry::room(rows)?;
    let last = l.batch_sizes.len().wrapping_sub(1);
    for (t, n) in l.batch_sizes.iter().enumerate() {
        for r in 0..*n {
            let before = match l.reverse {
                false => (t > 0).then(|| starts[t - 1] + r),
                true => (t < last && r < l.batch_sizes[t + 1]).then(|| starts[t + 1] + r),
            };
            places.push(before.map_or(r, |b| batch + b));
        }
    }
    let places = crate::ops::operands::on(Tensor::from_vec_raw(places, &[rows])?, output.device())?;
    let states = core::index_select(&core::cat(&[l.hx.clone(), output.clone()], 0)?, 0, &places)?;
    product(0, rows, &states)
}

/// The gradients by operators, which can be differentiated again.
fn differentiable(grads: &[Option<Tensor>], l: Layer, need: &[bool]) -> Result<[Option<Tensor>; 8]> {
    let inputs = [Some(l.input), Some(l.hx), l.cx, Some(l.w_ih), Some(l.w_hh), l.b_ih, l.b_hh, l.w_hr];
    let wanted: Vec<usize> = (0..8).filter(|i| need.get(*i) == Some(&true) && inputs[*i].is_some()).collect();
    let leaves: Vec<Tensor> = wanted.iter().filter_map(|i| inputs[*i].cloned()).collect();
    let of = |i: usize| grads.get(i).and_then(Option::as_ref).filter(|_| i == 0 || l.mode == LSTM);
    let given: Vec<Tensor> = (0..2).filter_map(of).cloned().collect();
    let run = |args: &[Tensor]| -> Result<Vec<Tensor>> {
        let mut all = inputs;
        for (k, i) in wanted.iter().enumerate() {
            all[*i] = args.get(k);
        }
        let missing = || Error::runtime("recurrent layer: an operand is missing");
        let [input, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr] = all;
        let (input, hx) = (input.ok_or_else(missing)?, hx.ok_or_else(missing)?);
        let (w_ih, w_hh) = (w_ih.ok_or_else(missing)?, w_hh.ok_or_else(missing)?);
        let (y, c) = composed(&Layer { input, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr, ..l })?;
        let results = [y, c];
        Ok((0..2).filter(|i| of(*i).is_some()).map(|i| results[i].clone()).collect())
    };
    let (_, found) = try_vjp(run, &leaves, Some(&given), FunctionalOptions::new().create_graph(true))?;
    let mut out = [const { None }; 8];
    for (i, g) in wanted.into_iter().zip(found) {
        out[i] = Some(g);
    }
    Ok(out)
}
