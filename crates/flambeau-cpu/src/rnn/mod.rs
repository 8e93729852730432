//! One direction of one recurrent layer over all steps: the products with the hidden state and the pointwise part of each
//! step. Rows (sequences of a batch) do not depend on each other, so each thread takes its rows through all steps without
//! waiting for the others. The weights lie in the order that the products read, so nothing is packed step by step.

mod cells;
pub mod erased;

use crate::blas::prepared::Right;
use crate::blas::{Mat, MatmulScalar, PARALLEL_MACS, RawMat, RawOut, WideScalar, gemm, unpacked};
use crate::engine::isa::{self, Isa};
use crate::engine::parallel::{num_threads, parallel_chunks};
use crate::engine::room::{collected, filled};
use crate::engine::scratch::with_scratch;
use crate::engine::{SharedMut, span};
use crate::num::Compute;
use crate::vmath::{double, single};
use cells::{Forward, Gradient};

/// A type in which recurrent layers are computed.
pub trait RecurrentScalar: Compute + WideScalar + MatmulScalar {
    /// `1 / (1 + e^-x)`
    fn sigmoid_gate<I: Isa>(self) -> Self;
    /// Hyperbolic tangent.
    fn tanh_gate<I: Isa>(self) -> Self;
}
impl RecurrentScalar for f32 {
    #[inline(always)]
    fn sigmoid_gate<I: Isa>(self) -> f32 {
        single::sigmoid_gate::<I>(self)
    }
    #[inline(always)]
    fn tanh_gate<I: Isa>(self) -> f32 {
        single::tanh_gate::<I>(self)
    }
}
impl RecurrentScalar for f64 {
    #[inline(always)]
    fn sigmoid_gate<I: Isa>(self) -> f64 {
        double::sigmoid::<I>(self)
    }
    #[inline(always)]
    fn tanh_gate<I: Isa>(self) -> f64 {
        double::tanh::<I>(self)
    }
}

/// What a step computes of its gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `relu(x + h)`
    Relu,
    /// `tanh(x + h)`
    Tanh,
    /// Input, forget, new and output gate.
    Lstm,
    /// Reset, update and new gate.
    Gru,
}
impl Cell {
    /// Gates of the weights.
    pub fn gates(self) -> usize {
        match self {
            Cell::Relu | Cell::Tanh => 1,
            Cell::Lstm => 4,
            Cell::Gru => 3,
        }
    }
    /// Parts of a row of gates in memory: a gated unit keeps the hidden part of its new gate beside the others.
    pub fn parts(self) -> usize {
        if self == Cell::Gru { 4 } else { self.gates() }
    }
}

/// Sizes of a layer's direction.
#[derive(Clone, Copy, Debug)]
pub struct RecurrentShape<'a> {
    /// The kind of step.
    pub cell: Cell,
    /// Size of a gate, and of the cell state.
    pub hidden: usize,
    /// Size of the hidden state: smaller than `hidden` with a projection.
    pub out: usize,
    /// Rows of each step, never growing.
    pub steps: &'a [usize],
    /// From the last step to the first.
    pub reverse: bool,
}
impl RecurrentShape<'_> {
    /// Rows of all steps.
    pub fn rows(&self) -> usize {
        let sum = self.steps.iter().try_fold(0usize, |n, s| n.checked_add(*s));
        sum.expect("recurrent: the number of rows does not fit in 64 bits")
    }
    /// Elements of a row of gates.
    pub fn width(&self) -> usize {
        span::product([self.cell.parts(), self.hidden])
    }
    fn batch(&self) -> usize {
        self.steps.first().copied().unwrap_or(0)
    }
    /// The first row of each step.
    pub fn starts(&self) -> Vec<usize> {
        let sum = |at: &mut usize, n: &usize| {
            let start = *at;
            *at += n;
            Some(start)
        };
        self.steps.iter().scan(0, sum).collect()
    }
    fn check(&self) {
        assert!(self.steps.windows(2).all(|w| w[0] >= w[1]), "recurrent: steps grow");
        assert!(self.cell == Cell::Lstm || self.out == self.hidden, "recurrent: a projection");
    }
    /// The rows `from..to` of step `t`, cut where the step before them (in time of the recurrence) changes: the rows, and
    /// the first of them in that step's memory; `None` for the initial state.
    fn before(
        &self,
        t: usize,
        (from, to): (usize, usize),
        starts: &[usize],
    ) -> [(usize, usize, Option<usize>); 2] {
        let last = self.steps.len() - 1;
        if !self.reverse {
            return [(from, to, (t > 0).then(|| starts[t - 1] + from)), (to, to, None)];
        }
        let old = if t == last { 0 } else { self.steps[t + 1].clamp(from, to) };
        let old = old.max(from);
        [(from, old, (t < last).then(|| starts[t + 1] + from)), (old, to, None)]
    }
    /// How the rows are cut for the threads, in rows each.
    fn chunk(&self) -> usize {
        let batch = self.batch();
        let work = self.rows().saturating_mul(self.cell.gates() * self.hidden).saturating_mul(self.out);
        if num_threads() == 1 || work < PARALLEL_MACS {
            return batch.max(1);
        }
        batch.div_ceil(num_threads()).next_multiple_of(unpacked::ROWS)
    }
}

/// The stretches of gates, of the weights and of a row of gates, that the hidden state's products fill: those of a gated
/// unit's new gate stand apart, since the reset gate weighs them.
fn stretches(cell: Cell, h: usize) -> Vec<(usize, usize, usize)> {
    match cell {
        Cell::Gru => vec![(0, 0, 2 * h), (2 * h, 3 * h, h)],
        _ => vec![(0, 0, cell.gates() * h)],
    }
}
/// Takes `n` elements from work memory.
fn take<'a, T>(room: &mut &'a mut [T], n: usize) -> &'a mut [T] {
    let (first, rest) = std::mem::take(room).split_at_mut(n);
    *room = rest;
    first
}

/// Operands of [`forward`], dense.
#[derive(Clone, Copy)]
pub struct Weights<'a, T> {
    /// `[gates * hidden, out]`
    pub hh: &'a [T],
    /// What is added to a row of gates.
    pub bias: Option<&'a [T]>,
    /// `[out, hidden]`, of a projection.
    pub hr: Option<&'a [T]>,
    /// `[batch, out]`
    pub h0: &'a [T],
    /// `[batch, hidden]`, of a long short-term memory.
    pub c0: Option<&'a [T]>,
}
impl<T> Weights<'_, T> {
    fn check(&self, s: &RecurrentShape) {
        let (h, p, b) = (s.hidden, s.out, s.batch());
        let lstm = s.cell == Cell::Lstm;
        assert!(
            self.hh.len() == span::product([s.cell.gates(), h, p]) && self.h0.len() == span::product([b, p]),
            "recurrent: weights"
        );
        assert!(self.bias.is_none_or(|x| x.len() == s.width()), "recurrent: bias");
        assert!(self.c0.map_or(!lstm, |c| lstm && c.len() == span::product([b, h])), "recurrent: cell state");
        assert!(
            self.hr.map_or(p == h, |w| lstm && w.len() == span::product([h, p])),
            "recurrent: projection"
        );
    }
}

/// The input and its weight, dense.
#[derive(Clone, Copy)]
pub struct Input<'a, T> {
    /// `[rows, features]`
    pub x: &'a [T],
    /// `[gates * hidden, features]`
    pub ih: &'a [T],
}

/// Rows of a step from which its input is multiplied with the step: the gates then stay near.
const LEAST_ROWS: usize = 32;

/// Runs the layer. `gates` `[rows, width]` becomes what the gradient needs: the gates' values, and for a gated unit the hidden
/// part of its new gate. A plain unit has its gates in `out` `[rows, out]` and none here. Without `input` they hold its part.
/// `cells` `[rows, hidden]` are the cell states of a long short-term memory.
///
/// # Panics
/// If a slice has the wrong length: a bug of the caller.
pub fn forward<T: RecurrentScalar>(
    s: &RecurrentShape,
    input: Option<Input<T>>,
    w: Weights<T>,
    gates: &mut [T],
    out: &mut [T],
    cells: &mut [T],
) {
    s.check();
    w.check(s);
    assert!(
        input.is_none_or(|i| {
            let n = s.cell.gates() * s.hidden;
            i.ih.len().is_multiple_of(n) && i.x.len() == span::product([s.rows(), i.ih.len() / n])
        }),
        "recurrent: input"
    );
    let (rows, h, p, width) = (s.rows(), s.hidden, s.out, s.width());
    let plain = s.cell.gates() == 1;
    assert!(
        out.len() == span::product([rows, p])
            && gates.len() == if plain { 0 } else { span::product([rows, width]) },
        "recurrent: gates"
    );
    assert!(
        cells.len() == if s.cell == Cell::Lstm { span::product([rows, h]) } else { 0 },
        "recurrent: cells"
    );
    if rows == 0 {
        return;
    }
    let stretches = stretches(s.cell, h);
    let n = s.cell.gates() * h;
    // Steps of few rows would read the input's weight for little: all rows at once then.
    let by_step = input.filter(|_| Right::<T>::turns() && s.batch().min(s.chunk()) >= LEAST_ROWS);
    if let Some(i) = input.filter(|_| by_step.is_none()) {
        let k = i.ih.len() / n;
        let (a, b) = (Mat { data: i.x, row: k, col: 1 }, Mat { data: i.ih, row: 1, col: k });
        let to = if plain { &mut *out } else { &mut *gates };
        gemm(rows, n, k, T::ONE, a, b, T::ZERO, Mat { data: to, row: width, col: 1 });
    }
    let features = by_step.map_or(0, |i| i.ih.len() / n);
    let sizes = stretches.iter().map(|g| Right::<T>::room(p, g.2)).sum::<usize>();
    let sizes = sizes + if w.hr.is_some() { Right::<T>::room(h, p) } else { 0 };
    let sizes = sizes + if by_step.is_some() { Right::<T>::room(features, n) } else { 0 };
    with_scratch::<T, _>(sizes, |mut room| {
        let gate = |g: &(usize, usize, usize)| {
            let room = take(&mut room, Right::<T>::room(p, g.2));
            // SAFETY: rows of the weights, whose length was checked.
            (g.1, g.2, unsafe {
                Right::of_columns(RawMat::new(w.hh[g.0 * p..].as_ptr(), 1, p), p, g.2, room)
            })
        };
        let hh: Vec<_> = collected(stretches.iter().map(gate));
        let hr = w.hr.map(|m| {
            let room = take(&mut room, Right::<T>::room(h, p));
            // SAFETY: the projection's length was checked.
            unsafe { Right::of_columns(RawMat::new(m.as_ptr(), 1, h), h, p, room) }
        });
        let ih = by_step.map(|i| {
            let room = take(&mut room, Right::<T>::room(features, n));
            // SAFETY: the weight's length is a whole number of rows.
            (i.x, unsafe { Right::of_columns(RawMat::new(i.ih.as_ptr(), 1, features), features, n, room) })
        });
        let no_bias = if w.bias.is_none() { filled(T::ZERO, width) } else { Vec::new() };
        let bias = w.bias.unwrap_or(&no_bias);
        let (starts, chunk) = (s.starts(), s.chunk());
        let (out, gates, cells) = (SharedMut::new(out), SharedMut::new(gates), SharedMut::new(cells));
        parallel_chunks(s.batch().div_ceil(chunk), &|i| {
            with_scratch::<T, _>(if hr.is_some() { chunk * h } else { 0 }, |raw| {
                let steps = s.steps.len();
                for k in 0..steps {
                    let t = if s.reverse { steps - 1 - k } else { k };
                    let (from, to) = (i * chunk, s.steps[t].min((i + 1) * chunk));
                    if from >= to {
                        continue;
                    }
                    for (from, to, before) in s.before(t, (from, to), &starts) {
                        if from >= to {
                            continue;
                        }
                        let (m, at) = (to - from, starts[t] + from);
                        let last = match before {
                            Some(row) => out.ptr().wrapping_add(row * p).cast_const(),
                            None => w.h0[from * p..].as_ptr(),
                        };
                        let g = if plain { &out } else { &gates };
                        let row = g.ptr().wrapping_add(at * width);
                        // SAFETY: rows of this chunk alone; those of the step before were written by it too. The weights'
                        // lengths were checked.
                        unsafe {
                            if let Some((x, ih)) = &ih {
                                let x = RawMat::rows(x[at * features..].as_ptr(), features);
                                ih.product(m, (0, n), x, false, RawOut::rows(row, width));
                            }
                            for (g, (to, n, hh)) in hh.iter().enumerate() {
                                // the second stretch has no part of the input's
                                let to = RawOut::rows(row.wrapping_add(*to), width);
                                hh.product(m, (0, *n), RawMat::rows(last, p), g == 0, to);
                            }
                        }
                        // SAFETY: rows of this chunk, written by it before; `state` and `result` are none of the other two.
                        unsafe {
                            let state = match (s.cell, before) {
                                (Cell::Lstm, Some(row)) => &*cells.slice(row * h, m * h),
                                (Cell::Lstm, None) => &w.c0.unwrap_or(&[])[from * h..to * h],
                                _ => std::slice::from_raw_parts(last, m * p),
                            };
                            let lstm = s.cell == Cell::Lstm;
                            let result = match hr {
                                Some(_) => &mut raw[..m * h],
                                None if plain => &mut [],
                                None => out.slice(at * p, m * p),
                            };
                            isa::run(Forward {
                                cell: s.cell,
                                hidden: h,
                                gates: g.slice(at * width, m * width),
                                bias,
                                state,
                                cells: if lstm { cells.slice(at * h, m * h) } else { &mut [] },
                                out: result,
                            });
                            if let Some(hr) = &hr {
                                let to = out.ptr().wrapping_add(at * p);
                                hr.product(
                                    m,
                                    (0, p),
                                    RawMat::rows(raw.as_ptr(), h),
                                    false,
                                    RawOut::rows(to, p),
                                );
                            }
                        }
                    }
                }
            });
        });
    });
}

/// What [`forward`] got and gave, and the gradients of its results.
#[derive(Clone, Copy)]
pub struct Saved<'a, T> {
    /// As for [`forward`]; the bias is not read.
    pub weights: Weights<'a, T>,
    /// As [`forward`] left them.
    pub gates: &'a [T],
    /// The results.
    pub out: &'a [T],
    /// The cell states.
    pub cells: &'a [T],
    /// Of the results.
    pub grad_out: Option<&'a [T]>,
    /// Of the cell states.
    pub grad_cells: Option<&'a [T]>,
}
/// Results of [`backward`], dense and overwritten.
pub struct Gradients<'a, T> {
    /// `[rows, width]`: before the activations; for a gated unit the fourth part is that of the new gate's hidden part.
    pub gates: &'a mut [T],
    /// `[batch, out]`
    pub h0: &'a mut [T],
    /// `[batch, hidden]`, or empty.
    pub c0: &'a mut [T],
    /// `[rows, out]`, or empty without projection: of the results, with what the later steps add.
    pub out: &'a mut [T],
}

/// The gradients of [`forward`]. Products over all rows (for the weights and the input) are left to the caller.
///
/// # Panics
/// If a slice has the wrong length: a bug of the caller.
pub fn backward<T: RecurrentScalar>(s: &RecurrentShape, x: Saved<T>, g: Gradients<T>) {
    s.check();
    x.weights.check(s);
    let (rows, batch, h, p, width) = (s.rows(), s.batch(), s.hidden, s.out, s.width());
    let lstm = s.cell == Cell::Lstm;
    let plain = s.cell.gates() == 1;
    assert!(x.gates.len() == if plain { 0 } else { span::product([rows, width]) }, "recurrent: saved gates");
    assert!(
        x.out.len() == span::product([rows, p])
            && x.cells.len() == if lstm { span::product([rows, h]) } else { 0 },
        "recurrent: saved"
    );
    assert!(x.grad_out.is_none_or(|g| g.len() == span::product([rows, p])), "recurrent: gradient");
    assert!(x.grad_cells.is_none_or(|g| g.len() == x.cells.len()), "recurrent: gradient of the cells");
    assert!(
        g.gates.len() == span::product([rows, width]) && g.h0.len() == span::product([batch, p]),
        "recurrent: results"
    );
    assert!(g.c0.len() == if lstm { span::product([batch, h]) } else { 0 }, "recurrent: results");
    let hr = x.weights.hr;
    assert!(g.out.len() == if hr.is_some() { span::product([rows, p]) } else { 0 }, "recurrent: results");
    g.h0.fill(T::ZERO);
    g.c0.fill(T::ZERO);
    if rows == 0 {
        return;
    }
    let stretches = stretches(s.cell, h);
    let sizes = stretches.iter().map(|g| Right::<T>::room(g.2, p)).sum::<usize>();
    let sizes = sizes + if hr.is_some() { Right::<T>::room(p, h) } else { 0 };
    with_scratch::<T, _>(sizes, |mut room| {
        let gate = |g: &(usize, usize, usize)| {
            let room = take(&mut room, Right::<T>::room(g.2, p));
            // SAFETY: rows of the weights, whose length was checked.
            (g.1, unsafe { Right::of_rows(RawMat::rows(x.weights.hh[g.0 * p..].as_ptr(), p), g.2, p, room) })
        };
        let hh: Vec<_> = collected(stretches.iter().map(gate));
        let hr = hr.map(|m| {
            let room = take(&mut room, Right::<T>::room(p, h));
            // SAFETY: the projection's length was checked.
            unsafe { Right::of_rows(RawMat::rows(m.as_ptr(), h), p, h, room) }
        });
        let (starts, chunk) = (s.starts(), s.chunk());
        let [gates, h0, c0, out] = [g.gates, g.h0, g.c0, g.out].map(SharedMut::new);
        parallel_chunks(batch.div_ceil(chunk), &|i| {
            with_scratch::<T, _>(if hr.is_some() { chunk * h } else { 0 }, |raw| {
                let steps = s.steps.len();
                // against the order of the forward pass
                for k in 0..steps {
                    let t = if s.reverse { k } else { steps - 1 - k };
                    let (from, to) = (i * chunk, s.steps[t].min((i + 1) * chunk));
                    if from >= to {
                        continue;
                    }
                    for (from, to, before) in s.before(t, (from, to), &starts) {
                        if from >= to {
                            continue;
                        }
                        let (m, at) = (to - from, starts[t] + from);
                        // SAFETY: sequences of this chunk alone.
                        let (carry, kept) = unsafe {
                            let kept = if lstm { c0.slice(from * h, m * h) } else { &mut [] };
                            (h0.slice(from * p, m * p), kept)
                        };
                        if let Some(g) = x.grad_out {
                            for (c, g) in carry.iter_mut().zip(&g[at * p..][..m * p]) {
                                *c = *c + *g;
                            }
                        }
                        if let Some(hr) = &hr {
                            // SAFETY: rows of this chunk alone; the projection's length was checked.
                            unsafe {
                                out.slice(at * p, m * p).copy_from_slice(carry);
                                let from = RawMat::rows(carry.as_ptr(), p);
                                hr.product(m, (0, h), from, false, RawOut::rows(raw.as_mut_ptr(), h));
                            }
                        }
                        let state = match (s.cell, before) {
                            (Cell::Lstm, Some(row)) => &x.cells[row * h..][..m * h],
                            (Cell::Lstm, None) => &x.weights.c0.unwrap_or(&[])[from * h..to * h],
                            (_, Some(row)) => &x.out[row * p..][..m * p],
                            (_, None) => &x.weights.h0[from * p..to * p],
                        };
                        // SAFETY: rows of this chunk alone.
                        let grad = unsafe { gates.slice(at * width, m * width) };
                        let (grad_out, unprojected) = match hr {
                            Some(_) => (&mut [][..], &raw[..m * h]),
                            None => (&mut *carry, &[][..]),
                        };
                        isa::run(Gradient {
                            cell: s.cell,
                            hidden: h,
                            gates: if plain {
                                &x.out[at * p..][..m * p]
                            } else {
                                &x.gates[at * width..][..m * width]
                            },
                            state,
                            cells: if lstm { &x.cells[at * h..][..m * h] } else { &[] },
                            grad_cells: x.grad_cells.map(|g| &g[at * h..][..m * h]),
                            unprojected,
                            carry: grad_out,
                            kept,
                            grad,
                        });
                        let (from, to) =
                            (RawMat::rows(grad.as_ptr(), width), RawOut::rows(carry.as_mut_ptr(), p));
                        for (g, (start, hh)) in hh.iter().enumerate() {
                            // A gated unit left a part of the gradient there.
                            let add = g > 0 || s.cell == Cell::Gru;
                            // SAFETY: gates of these rows, weights, and this chunk's own state.
                            unsafe { hh.product(m, (0, p), from.at(0, *start), add, to) };
                        }
                    }
                }
            });
        });
    });
}
