//! Products with Jacobians, made of gradients: what `torch.autograd.functional` and operators without a rule of forward mode
//! stand on.

use crate::derivatives::shorthand;
use crate::dispatch::stand_in::resolved;
use crate::gradients::engine::{self, GradOptions};
use crate::gradients::state;
use crate::tensor::wrapper::carrier;
use crate::{Error, Result, Tensor};

/// A function of tensors.
pub type Multi<'a> = &'a dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>;

/// Views of the inputs that require a gradient, in the graph of the originals only when that is asked for.
pub fn prepared(inputs: &[Tensor], create_graph: bool) -> Result<Vec<Tensor>> {
    inputs
        .iter()
        .map(|t| {
            if create_graph && t.requires_grad() {
                return shorthand::alias(t);
            }
            let d = resolved(t)?.alias_detached();
            state::set_requires_grad(&carrier(&d), true)?;
            Ok(d)
        })
        .collect()
}
/// Results that are recorded, or not.
pub fn finished(ts: Vec<Tensor>, create_graph: bool) -> Vec<Tensor> {
    if create_graph { ts } else { ts.iter().map(Tensor::alias_detached).collect() }
}
/// What strict mode says of a gradient that is not there, and of one that no graph leads on from.
#[derive(Clone, Copy)]
pub struct Strict {
    absent: fn(usize) -> String,
    create_graph: bool,
}
impl Strict {
    /// Of first derivatives.
    pub fn first(create_graph: bool) -> Strict {
        let absent = |i| {
            format!(
                "The output of the user-provided function is independent of input {i}. This is not allowed in strict mode."
            )
        };
        Strict { absent, create_graph }
    }
    /// Of gradients of gradients.
    pub fn trick(create_graph: bool) -> Strict {
        let absent = |i| {
            format!(
                "The gradient with respect to the input is independent of entry {i} in the grad_outputs when using the double \
                 backward trick to compute forward mode gradients. This is not allowed in strict mode."
            )
        };
        Strict { absent, create_graph }
    }
    /// Of second derivatives.
    pub fn second(create_graph: bool) -> Strict {
        let absent = |i| {
            format!(
                "The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict mode."
            )
        };
        Strict { absent, create_graph }
    }
    fn check(&self, i: usize, g: Option<&Tensor>) -> Result<()> {
        match g {
            None => Err(Error::runtime((self.absent)(i))),
            Some(g) if self.create_graph && !g.requires_grad() => Err(Error::runtime(format!(
                "The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict mode when \
                 create_graph=True."
            ))),
            Some(_) => Ok(()),
        }
    }
}
/// Strict mode: all results must be computed from the inputs.
///
/// # Errors
/// One is not.
pub fn check_outputs(outs: &[Tensor]) -> Result<()> {
    match outs.iter().position(|t| !t.requires_grad()) {
        None => Ok(()),
        Some(i) => Err(Error::runtime(format!(
            "Output {i} of the user-provided function does not require gradients. The outputs must be computed in a differentiable \
             manner from the input when running in strict mode."
        ))),
    }
}
/// Gradients, with zeros where there are none; in strict mode that is an error.
///
/// # Errors
/// Those of strict mode.
pub fn zeros_for_missing(
    grads: Vec<Option<Tensor>>,
    like: &[Tensor],
    strict: Option<Strict>,
) -> Result<Vec<Tensor>> {
    let one = |(i, (g, t)): (usize, (Option<Tensor>, &Tensor))| {
        if let Some(s) = strict {
            s.check(i, g.as_ref())?;
        }
        g.map_or_else(|| shorthand::zeros_like(t), Ok)
    };
    grads.into_iter().zip(like).enumerate().map(one).collect()
}
/// Gradients of `outs`, weighted by `v`, for `inputs`.
///
/// # Errors
/// Those of the formulas, and of strict mode.
pub fn weighted(
    outs: &[Tensor],
    inputs: &[Tensor],
    v: Vec<Option<Tensor>>,
    create_graph: bool,
    retain: bool,
    strict: Option<Strict>,
) -> Result<Vec<Tensor>> {
    let used: Vec<usize> = (0..outs.len()).filter(|&i| outs[i].requires_grad()).collect();
    if used.is_empty() {
        return zeros_for_missing(vec![None; inputs.len()], inputs, strict);
    }
    let o = GradOptions::new()
        .grad_outputs(used.iter().map(|&i| v[i].clone()))
        .create_graph(create_graph)
        .retain_graph(retain || create_graph)
        .allow_unused(true);
    let outs: Vec<Tensor> = used.iter().map(|&i| outs[i].clone()).collect();
    zeros_for_missing(engine::grad(&outs, inputs, o)?, inputs, strict)
}

/// `J v` at inputs that [`prepared`] made: the results of `f` and the products, one per result. The gradient is linear in its
/// weights `w`, and its own gradient along `v` is `J v`, whatever `w` is.
///
/// # Errors
/// Those of `f`, of formulas that cannot be differentiated again, and of strict mode.
pub fn along(
    f: Multi,
    args: &[Tensor],
    v: Vec<Tensor>,
    create_graph: bool,
    strict: bool,
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let outs = f(args)?;
    if strict {
        check_outputs(&outs)?;
    }
    // not 0, where some formulas take a logarithm
    let w: Vec<Tensor> = outs
        .iter()
        .map(|t| {
            let w = shorthand::detached(shorthand::ones_like(t)?);
            state::set_requires_grad(&carrier(&w), true)?;
            Ok(w)
        })
        .collect::<Result<_>>()?;
    let g = weighted(&outs, args, w.iter().cloned().map(Some).collect(), true, true, None)?;
    let strict = strict.then(|| Strict::trick(create_graph));
    let jv = weighted(&g, &w, v.into_iter().map(Some).collect(), create_graph, false, strict)?;
    Ok((finished(outs, create_graph), finished(jv, create_graph)))
}
