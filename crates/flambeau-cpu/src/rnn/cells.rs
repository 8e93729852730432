//! The pointwise part of a step, forward and backward, a few lanes at a time.

use super::{Cell, RecurrentScalar};
use crate::engine::isa::{Isa, Job, Level, best_for};

/// Lanes that are computed together; local arrays, so that no two slices have to be told apart.
const L: usize = 32;

#[inline(always)]
fn load<T: RecurrentScalar>(s: &[T], at: usize, n: usize) -> [T; L] {
    let mut out = [T::ZERO; L];
    if n == L {
        out.copy_from_slice(&s[at..at + L]);
    } else {
        out[..n].copy_from_slice(&s[at..at + n]);
    }
    out
}
#[inline(always)]
fn store<T: RecurrentScalar>(v: &[T; L], s: &mut [T], at: usize, n: usize) {
    if n == L {
        s[at..at + L].copy_from_slice(v);
    } else {
        s[at..at + n].copy_from_slice(&v[..n]);
    }
}
#[inline(always)]
fn map<T: RecurrentScalar, const N: usize>(x: [&[T; L]; N], f: impl Fn([T; N]) -> T) -> [T; L] {
    let mut out = [T::ZERO; L];
    for l in 0..L {
        let mut one = [T::ZERO; N];
        for k in 0..N {
            one[k] = x[k][l];
        }
        out[l] = f(one);
    }
    out
}
/// `x + bias`. Functions, since a closure that is not inlined is compiled without the instruction set.
#[inline(always)]
fn biased<T: RecurrentScalar>(x: &[T], at: usize, bias: &[T], to: usize, n: usize) -> [T; L] {
    map([&load(x, at, n), &load(bias, to, n)], |[x, b]| x + b)
}
/// Runs a body for `n` lanes from lane `j` on of each of `rows` rows of `h`. It stands there twice: with a constant for whole
/// groups of lanes, whose copies are loads and stores then and no calls.
macro_rules! lanes {
    ($rows:expr, $h:expr, |$r:ident, $j:ident, $n:ident| $body:block) => {
        for $r in 0..$rows {
            let whole = $h / L * L;
            for $j in (0..whole).step_by(L) {
                let $n = L;
                $body
            }
            if whole < $h {
                let ($j, $n) = (whole, $h - whole);
                $body
            }
        }
    };
}

/// Gates before the activations to gates after them, and the next state.
pub(super) struct Forward<'a, T> {
    pub cell: Cell,
    pub hidden: usize,
    /// `[rows, parts * hidden]`; of a plain unit it is the result.
    pub gates: &'a mut [T],
    /// `[parts * hidden]`
    pub bias: &'a [T],
    /// The cell state before, or the hidden state.
    pub state: &'a [T],
    /// The next cell state.
    pub cells: &'a mut [T],
    /// `[rows, hidden]`: the next hidden state, before a projection.
    pub out: &'a mut [T],
}
impl<T: RecurrentScalar> Job for Forward<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Forward { cell, hidden: h, gates, bias, state, cells, out } = self;
        let width = cell.parts() * h;
        let rows = gates.len() / width;
        match cell {
            Cell::Relu => lanes!(rows, h, |r, j, n| {
                let x = [&load(gates, r * h + j, n), &load(bias, j, n)];
                let y = map(x, |[x, b]| {
                    let v = x + b;
                    // NaN stays
                    if v < T::ZERO { T::ZERO } else { v }
                });
                store(&y, gates, r * h + j, n);
            }),
            Cell::Tanh => lanes!(rows, h, |r, j, n| {
                let x = [&load(gates, r * h + j, n), &load(bias, j, n)];
                store(&map(x, |[x, b]| (x + b).tanh_gate::<I>()), gates, r * h + j, n);
            }),
            Cell::Lstm => lanes!(rows, h, |r, j, n| {
                let at = r * width + j;
                let i = map([&biased(gates, at, bias, j, n)], |[x]| x.sigmoid_gate::<I>());
                let f = map([&biased(gates, at + h, bias, h + j, n)], |[x]| x.sigmoid_gate::<I>());
                let g = map([&biased(gates, at + 2 * h, bias, 2 * h + j, n)], |[x]| x.tanh_gate::<I>());
                let o = map([&biased(gates, at + 3 * h, bias, 3 * h + j, n)], |[x]| x.sigmoid_gate::<I>());
                let c = map([&f, &load(state, r * h + j, n), &i, &g], |[f, c, i, g]| i.fma::<I>(g, f * c));
                let y = map([&o, &c], |[o, c]| o * c.tanh_gate::<I>());
                store(&i, gates, at, n);
                store(&f, gates, at + h, n);
                store(&g, gates, at + 2 * h, n);
                store(&o, gates, at + 3 * h, n);
                store(&c, cells, r * h + j, n);
                store(&y, out, r * h + j, n);
            }),
            Cell::Gru => lanes!(rows, h, |r, j, n| {
                let at = r * width + j;
                let reset = map([&biased(gates, at, bias, j, n)], |[x]| x.sigmoid_gate::<I>());
                let update = map([&biased(gates, at + h, bias, h + j, n)], |[x]| x.sigmoid_gate::<I>());
                let input = biased(gates, at + 2 * h, bias, 2 * h + j, n);
                let hidden = biased(gates, at + 3 * h, bias, 3 * h + j, n);
                let new = map([&input, &reset, &hidden], |[x, r, h]| r.fma::<I>(h, x).tanh_gate::<I>());
                let y = map([&update, &load(state, r * h + j, n), &new], |[z, h, n]| z.fma::<I>(h - n, n));
                store(&reset, gates, at, n);
                store(&update, gates, at + h, n);
                store(&new, gates, at + 2 * h, n);
                store(&hidden, gates, at + 3 * h, n);
                store(&y, out, r * h + j, n);
            }),
        }
    }
}

/// The gradient of the gates before the activations, and what goes on to the step before.
pub(super) struct Gradient<'a, T> {
    pub cell: Cell,
    pub hidden: usize,
    /// After the activations.
    pub gates: &'a [T],
    /// The cell state before, or the hidden state.
    pub state: &'a [T],
    /// The cell state after.
    pub cells: &'a [T],
    /// What comes from outside for it.
    pub grad_cells: Option<&'a [T]>,
    /// The gradient of the hidden state before a projection, where there is one.
    pub unprojected: &'a [T],
    /// Without projection: the gradient of the hidden state. A gated unit leaves the part here that goes straight to the
    /// state before.
    pub carry: &'a mut [T],
    /// The gradient of the cell state: after in, before out.
    pub kept: &'a mut [T],
    /// `[rows, parts * hidden]`
    pub grad: &'a mut [T],
}
impl<T: RecurrentScalar> Job for Gradient<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let Gradient { cell, hidden: h, gates, state, cells, grad_cells, unprojected, carry, kept, grad } =
            self;
        let width = cell.parts() * h;
        let rows = grad.len() / width;
        match cell {
            Cell::Relu => lanes!(rows, h, |r, j, n| {
                let x = [&load(carry, r * h + j, n), &load(gates, r * h + j, n)];
                let d = map(x, |[d, y]| if y <= T::ZERO { T::ZERO } else { d });
                store(&d, grad, r * h + j, n);
            }),
            Cell::Tanh => lanes!(rows, h, |r, j, n| {
                let x = [&load(carry, r * h + j, n), &load(gates, r * h + j, n)];
                store(&map(x, |[d, y]| d * (T::ONE - y * y)), grad, r * h + j, n);
            }),
            Cell::Lstm => lanes!(rows, h, |r, j, n| {
                let (at, own) = (r * width + j, r * h + j);
                let (i, f) = (load(gates, at, n), load(gates, at + h, n));
                let (g, o) = (load(gates, at + 2 * h, n), load(gates, at + 3 * h, n));
                let d = load(if unprojected.is_empty() { &*carry } else { unprojected }, own, n);
                let t = map([&load(cells, own, n)], |[c]| c.tanh_gate::<I>());
                let mut dc =
                    map([&load(kept, own, n), &d, &o, &t], |[k, d, o, t]| k + d * o * (T::ONE - t * t));
                if let Some(g) = grad_cells {
                    dc = map([&dc, &load(g, own, n)], |[a, b]| a + b);
                }
                let di = map([&dc, &g, &i], |[d, g, i]| d * g * i * (T::ONE - i));
                let df = map([&dc, &load(state, own, n), &f], |[d, c, f]| d * c * f * (T::ONE - f));
                let dg = map([&dc, &i, &g], |[d, i, g]| d * i * (T::ONE - g * g));
                let d_o = map([&d, &t, &o], |[d, t, o]| d * t * o * (T::ONE - o));
                store(&di, grad, at, n);
                store(&df, grad, at + h, n);
                store(&dg, grad, at + 2 * h, n);
                store(&d_o, grad, at + 3 * h, n);
                store(&map([&dc, &f], |[d, f]| d * f), kept, own, n);
            }),
            Cell::Gru => lanes!(rows, h, |r, j, n| {
                let (at, own) = (r * width + j, r * h + j);
                let (reset, update) = (load(gates, at, n), load(gates, at + h, n));
                let (new, hidden) = (load(gates, at + 2 * h, n), load(gates, at + 3 * h, n));
                let d = load(carry, own, n);
                let dn = map([&d, &update, &new], |[d, z, n]| d * (T::ONE - z) * (T::ONE - n * n));
                let x = [&d, &load(state, own, n), &new, &update];
                let dz = map(x, |[d, h, n, z]| d * (h - n) * z * (T::ONE - z));
                let dr = map([&dn, &hidden, &reset], |[d, h, r]| d * h * r * (T::ONE - r));
                let dh = map([&dn, &reset], |[d, r]| d * r);
                store(&dr, grad, at, n);
                store(&dz, grad, at + h, n);
                store(&dn, grad, at + 2 * h, n);
                store(&dh, grad, at + 3 * h, n);
                store(&map([&d, &update], |[d, z]| d * z), carry, own, n);
            }),
        }
    }
}
