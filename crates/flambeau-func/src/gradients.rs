//! Gradients as functions of functions, over lists of tensors.

use crate::batched::{at_all_levels, moved};
use crate::levels::Randomness;
use crate::mapping::{Place, Results, map, map_chunks};
use flambeau_autograd::engine::{self, GradOptions};
use flambeau_autograd::functional::{depends_on_others, want_gradient};
use flambeau_autograd::{forward_ad, grad_mode};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::tensor::wrapper::{carrier, like};
use flambeau_core::{Error, Result, Tensor, ensure, ops};
use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}
/// Marks that a function is being differentiated: it may not ask for gradients on its own.
struct Inside;
impl Inside {
    fn new() -> Inside {
        DEPTH.set(DEPTH.get() + 1);
        Inside
    }
}
impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}
/// Whether a function is being differentiated on this thread.
pub(crate) fn inside() -> bool {
    DEPTH.get() > 0
}

/// The tensors that a function is differentiated for: views of those given, each in the graph of the given one if that is in
/// one. In a vmap each slice has its own, or gradients would be sums over slices.
pub(crate) struct Inputs {
    pub args: Vec<Tensor>,
    /// Whether what is computed here is part of graphs around it.
    recorded: bool,
}
impl Inputs {
    pub fn new(given: &[Tensor]) -> Result<Inputs> {
        let recorded = grad_mode::is_recording();
        let one = |t: &Tensor| {
            ensure!(
                t.dtype().is_floating() || t.dtype().is_complex(),
                Runtime,
                "only Tensors of floating point dtype can require gradients"
            );
            let t = at_all_levels(t)?;
            let c = flambeau_core::dispatch::stand_in::resolved(&carrier(&t))?;
            let view = if recorded && c.requires_grad() {
                grad_mode::enable_grad(|| ops::alias(&c))?
            } else {
                let view = grad_mode::no_grad(|| ops::detach(&c))?;
                forward_ad::share_tangent(&c, &view)?;
                want_gradient(&view)?;
                view
            };
            like(&t, view)
        };
        Ok(Inputs { args: given.iter().map(one).collect::<Result<_>>()?, recorded })
    }
    fn carriers(&self) -> Vec<Tensor> {
        self.args.iter().map(carrier).collect()
    }
    /// Calls a function, with recording on.
    pub fn call<R>(&self, f: impl FnOnce() -> Result<R>) -> Result<R> {
        let _inside = Inside::new();
        grad_mode::enable_grad(f)
    }
    /// Whether a result has a history besides that of the inputs.
    fn is_part(&self, of: &[Tensor]) -> bool {
        self.recorded && depends_on_others(&of.iter().map(carrier).collect::<Vec<_>>(), &self.carriers())
    }
    /// A result without the history that only leads to the inputs.
    pub fn cut(&self, t: &Tensor) -> Result<Tensor> {
        if !carrier(t).requires_grad() || self.is_part(std::slice::from_ref(t)) {
            return Ok(t.clone());
        }
        let c = carrier(t);
        let view = grad_mode::no_grad(|| ops::detach(&c))?;
        forward_ad::share_tangent(&c, &view)?;
        like(t, view)
    }
    /// Gradients of the results, weighted with `v`; zeros where there is no way.
    pub fn pull(&self, outs: &[Tensor], v: &[Option<Tensor>], retain: bool) -> Result<Vec<Tensor>> {
        let create =
            self.is_part(outs) || v.iter().flatten().any(|g| self.recorded && carrier(g).requires_grad());
        let found = self.pull_with(outs, v, retain, create)?;
        if create { found.iter().map(|t| self.cut(t)).collect() } else { Ok(found) }
    }
    fn pull_with(
        &self,
        outs: &[Tensor],
        v: &[Option<Tensor>],
        retain: bool,
        create: bool,
    ) -> Result<Vec<Tensor>> {
        let used: Vec<usize> = (0..outs.len()).filter(|&i| carrier(&outs[i]).requires_grad()).collect();
        let zeros = |t: &Tensor| grad_mode::no_grad(|| ops::zeros_like(t, None, None, None, None, None));
        if used.is_empty() {
            return self.args.iter().map(zeros).collect();
        }
        let o = GradOptions::new()
            .grad_outputs(used.iter().map(|&i| v.get(i).cloned().flatten()))
            .create_graph(create)
            .retain_graph(retain || create)
            .allow_unused(true);
        let outs: Vec<Tensor> = used.iter().map(|&i| outs[i].clone()).collect();
        let found = engine::grad(&outs, &self.args, o)?;
        found.into_iter().zip(&self.args).map(|(g, t)| g.map_or_else(|| zeros(t), Ok)).collect()
    }
}

/// A function at a point, and the linear map of its gradient there: forward.
pub(crate) struct Linear {
    inputs: Inputs,
    /// Stand for gradients of the results.
    weights: Inputs,
    /// `v^T J`, a linear function of the weights.
    pulled: Vec<Tensor>,
}
impl Linear {
    /// Of results that were computed from `inputs`.
    pub fn new(inputs: Inputs, outs: &[Tensor]) -> Result<Linear> {
        // the map does not depend on them; not 0, where some formulas take a logarithm
        let ones = outs
            .iter()
            .map(|t| grad_mode::no_grad(|| ops::ones_like(t, None, None, None, None, None)))
            .collect::<Result<Vec<_>>>()?;
        let weights = Inputs::new(&ones)?;
        let v: Vec<Option<Tensor>> = weights.args.iter().cloned().map(Some).collect();
        let pulled = grad_mode::enable_grad(|| inputs.pull_with(outs, &v, true, true))?;
        Ok(Linear { inputs, weights, pulled })
    }
    /// Tangents of the results.
    pub fn push(&self, tangents: &[Tensor]) -> Result<Vec<Tensor>> {
        let t: Vec<Option<Tensor>> = tangents.iter().cloned().map(Some).collect();
        let own: Vec<Tensor> = self.inputs.carriers().into_iter().chain(self.weights.carriers()).collect();
        let all = self.pulled.iter().chain(tangents);
        let create = forward_ad::is_level_open()
            || self.inputs.recorded && depends_on_others(&all.map(carrier).collect::<Vec<_>>(), &own);
        let found = self.weights.pull_with(&self.pulled, &t, true, create)?;
        found
            .into_iter()
            .map(|t| {
                if !carrier(&t).requires_grad()
                    || self.inputs.recorded && depends_on_others(&[carrier(&t)], &own)
                {
                    return Ok(t);
                }
                let c = carrier(&t);
                let view = grad_mode::no_grad(|| ops::detach(&c))?;
                forward_ad::share_tangent(&c, &view)?;
                like(&t, view)
            })
            .collect()
    }
    pub fn cut(&self, t: &Tensor) -> Result<Tensor> {
        self.inputs.cut(t)
    }
}

/// Results of a function and their tangents. At the outermost level by forward mode; within another one by the gradient of
/// the gradient, which forward mode goes through.
pub(crate) fn push<R>(
    primals: &[Tensor],
    tangents: &[Tensor],
    f: impl FnOnce(Vec<Tensor>) -> Result<(Vec<Tensor>, R)>,
) -> Result<(Vec<Tensor>, Vec<Tensor>, R)> {
    for (p, t) in primals.iter().zip(tangents) {
        for (t, what) in [(p, "primal"), (t, "tangent")] {
            ensure!(
                t.dtype().is_floating() || t.dtype().is_complex(),
                Value,
                "Expected {what} to be floating point or complex, but got: torch.{}",
                t.dtype().name()
            );
        }
        if p.sizes() != t.sizes() {
            return Err(Error::runtime(format!(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not \
                 supported. Tensor is of size {} while the given forward gradient is of size {}.",
                fmt_sizes(p.sizes()),
                fmt_sizes(t.sizes())
            )));
        }
    }
    if forward_ad::is_level_open() {
        let inputs = Inputs::new(primals)?;
        let (outs, rest) = inputs.call(|| f(inputs.args.clone()))?;
        let linear = Linear::new(inputs, &outs)?;
        let pushed = linear.push(tangents)?;
        let outs = outs.iter().map(|t| linear.cut(t)).collect::<Result<_>>()?;
        return Ok((outs, pushed, rest));
    }
    let _level = forward_ad::dual_level()?;
    let duals = primals
        .iter()
        .zip(tangents)
        .map(|(p, t)| {
            let p = at_all_levels(p)?;
            forward_ad::make_dual(&p, &at_all_levels(&cast(t, &p)?)?)
        })
        .collect::<Result<Vec<_>>>()?;
    let (outs, rest) = {
        let _inside = Inside::new();
        f(duals)?
    };
    let (mut values, mut pushed) = (Vec::new(), Vec::new());
    for t in &outs {
        let (p, tangent) = forward_ad::unpack_dual(t)?;
        pushed.push(match tangent {
            Some(t) => t,
            None => grad_mode::no_grad(|| ops::zeros_like(&p, None, None, None, None, None))?,
        });
        values.push(p);
    }
    Ok((values, pushed, rest))
}
fn cast(t: &Tensor, like: &Tensor) -> Result<Tensor> {
    if t.dtype() == like.dtype() {
        return Ok(t.clone());
    }
    ops::to_copy(t, Some(like.dtype()), None, None, None, false, None)
}

/// One tensor for each, whose slices along the first dimension are the unit vectors of all of them together.
pub(crate) fn basis(of: &[Tensor]) -> Result<Vec<Tensor>> {
    let total: i64 = of.iter().map(Tensor::numel).sum();
    let mut at = 0;
    of.iter()
        .map(|t| {
            let n = t.numel();
            let all = Tensor::zeros_raw(&[total, n], t.dtype(), t.device())?;
            let own = ops::diagonal(&ops::slice(&all, 0, Some(at), Some(at + n), 1)?, 0, 0, 1)?;
            ops::fill_(&own, 1.into())?;
            at += n;
            ops::reshape(&all, &[&[total][..], t.sizes()].concat())
        })
        .collect()
}
/// Rows for all elements of several tensors as one block for each.
pub(crate) fn blocks(rows: &Tensor, of: &[Tensor]) -> Result<Vec<Tensor>> {
    let sizes: Vec<i64> = of.iter().map(Tensor::numel).collect();
    ops::split_with_sizes(rows, &sizes, 0)
}

/// Jacobians of each result for each input, and what went with the results: `v^T J` for all unit vectors at once.
pub(crate) fn jacobian_by_rows<R>(
    xs: &[Tensor],
    chunk: Option<i64>,
    f: impl FnOnce(Vec<Tensor>) -> Result<(Vec<Tensor>, R)>,
) -> Result<(Vec<Vec<Tensor>>, R)> {
    let inputs = Inputs::new(xs)?;
    let (outs, rest) = inputs.call(|| f(inputs.args.clone()))?;
    let units = basis(&outs)?;
    let rows = if outs.is_empty() || units[0].sizes()[0] == 0 {
        xs.iter()
            .map(|x| Tensor::zeros_raw(&[&[0][..], x.sizes()].concat(), x.dtype(), x.device()))
            .collect::<Result<Vec<_>>>()?
    } else {
        let dims = vec![Some(0); units.len()];
        let pull = |v: Vec<Tensor>| {
            let v: Vec<Option<Tensor>> = v.into_iter().map(Some).collect();
            let tensors = inputs.pull(&outs, &v, true)?;
            let places = vec![Place::At(0); tensors.len()];
            Ok(Results { tensors, places, rest: () })
        };
        map_chunks("vjp", &units, &dims, Randomness::Same, chunk, pull)?.0
    };
    let mut all: Vec<Vec<Tensor>> = vec![Vec::new(); outs.len()];
    for (x, rows) in xs.iter().zip(&rows) {
        for ((out, block), to) in outs.iter().zip(blocks(rows, &outs)?).zip(&mut all) {
            to.push(ops::reshape(&block, &[out.sizes(), x.sizes()].concat())?);
        }
    }
    Ok((all, rest))
}
/// The same by `J v`, forward.
pub(crate) fn jacobian_by_columns<R>(
    xs: &[Tensor],
    randomness: Randomness,
    f: impl Fn(Vec<Tensor>) -> Result<(Vec<Tensor>, R)>,
) -> Result<(Vec<Vec<Tensor>>, R)> {
    let units = basis(xs)?;
    let dims = vec![Some(0); units.len()];
    let (columns, rest) = map("jvp", &units, &dims, randomness, |v| {
        let (_, tensors, rest) = push(xs, &v, &f)?;
        let places = vec![Place::At(0); tensors.len()];
        Ok(Results { tensors, places, rest })
    })?;
    let all = columns
        .iter()
        .map(|columns| {
            let parts = blocks(columns, xs)?;
            xs.iter()
                .zip(parts)
                .map(|(x, block)| {
                    let last = block.dim() - 1;
                    let moved = moved(&block, 0, last)?;
                    let out = &block.sizes()[1..];
                    ops::reshape(&moved, &[out, x.sizes()].concat())
                })
                .collect::<Result<Vec<_>>>()
        })
        .collect::<Result<Vec<_>>>()?;
    Ok((all, rest))
}
