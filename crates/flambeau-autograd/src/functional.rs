//! Jacobians, Hessians and products with them (`torch.autograd.functional`).
//!
//! Functions take a slice of tensors and give a tensor, several, or a `Result` of these. Each has three forms: `NAME` with what is
//! always given, `NAME_with` with [`FunctionalOptions`], which both panic with the error's text, and `try_NAME`.
//!
//! ```
//! use torch::autograd::functional::{hessian, jacobian};
//! let x = torch::tensor([1.0, 2.0]);
//! let j = jacobian(|x| &x[0] * &x[0], &[x.clone()]);
//! assert_eq!(j[0][0].to_vec::<f32>(), [2.0, 0.0, 0.0, 4.0]);
//! let h = hessian(|x| x[0].pow(3).sum(), &[x]);
//! assert_eq!(h[0][0].to_vec::<f32>(), [6.0, 0.0, 0.0, 12.0]);
//! ```

use crate::engine::{self, GradOptions};
use crate::grad_mode::enable_grad;
pub use crate::outputs::Outputs;
use crate::shorthand;
use crate::state;
use flambeau_core::dispatch::stand_in::resolved;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::{Error, Result, Tensor};

/// Views of the inputs that require a gradient, in the graph of the originals only when that is asked for.
fn prepared(inputs: &[Tensor], create_graph: bool) -> Result<Vec<Tensor>> {
    inputs
        .iter()
        .map(|t| {
            if create_graph && state::requires_grad(t) {
                return shorthand::alias(t);
            }
            let d = resolved(t)?.alias_detached();
            state::set_requires_grad(&d, true)?;
            Ok(d)
        })
        .collect()
}
fn finished(ts: Vec<Tensor>, create_graph: bool) -> Vec<Tensor> {
    if create_graph { ts } else { ts.iter().map(Tensor::alias_detached).collect() }
}
fn zeros_for_missing(grads: Vec<Option<Tensor>>, like: &[Tensor]) -> Result<Vec<Tensor>> {
    grads.into_iter().zip(like).map(|(g, t)| g.map_or_else(|| shorthand::zeros_like(t), Ok)).collect()
}
fn check_v(v: &[Tensor], like: &[Tensor], what: &str) -> Result<()> {
    if v.len() != like.len() {
        return Err(Error::runtime(format!(
            "v is a tuple of invalid length: should be {} but got {}.",
            like.len(),
            v.len()
        )));
    }
    for (i, (v, t)) in v.iter().zip(like).enumerate() {
        if v.sizes() != t.sizes() {
            return Err(Error::runtime(format!(
                "v has invalid size: should be {} but got {} (entry {i} of {what}).",
                fmt_sizes(t.sizes()),
                fmt_sizes(v.sizes())
            )));
        }
    }
    Ok(())
}
fn weighted(
    outs: &[Tensor],
    inputs: &[Tensor],
    v: Vec<Option<Tensor>>,
    create_graph: bool,
    retain: bool,
) -> Result<Vec<Tensor>> {
    let used: Vec<usize> = (0..outs.len()).filter(|&i| state::requires_grad(&outs[i])).collect();
    if used.is_empty() {
        return inputs.iter().map(shorthand::zeros_like).collect();
    }
    let o = GradOptions::new()
        .grad_outputs(used.iter().map(|&i| v[i].clone()))
        .create_graph(create_graph)
        .retain_graph(retain || create_graph)
        .allow_unused(true);
    let outs: Vec<Tensor> = used.iter().map(|&i| outs[i].clone()).collect();
    zeros_for_missing(engine::grad(&outs, inputs, o)?, inputs)
}

type Multi<'a> = &'a dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>;

/// Keywords of the functions in this module.
#[flambeau_macros::options]
pub struct FunctionalOptions {
    /// Whether the results are recorded, to be differentiated again. Default: false.
    #[default(false)]
    pub(crate) create_graph: bool,
}

/// `v^T J`: the results of `f` and the product of `v` (one per result) with the Jacobian, one per input. `v` may be
/// `None` where there is one result of one element.
///
/// # Errors
/// Those of `f`; `v` of other sizes than the results.
#[doc(alias = "torch.autograd.functional.vjp")]
#[flambeau_macros::short(with)]
pub fn try_vjp<O: Outputs>(
    f: impl Fn(&[Tensor]) -> O,
    inputs: &[Tensor],
    v: Option<&[Tensor]>,
    options: FunctionalOptions,
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    vjp_of(&|x| f(x).outputs(), inputs, v, options.create_graph)
}
/// `J v`: the results of `f` and the product of the Jacobian with `v` (one per input), one per result. Computed with
/// two backward passes, so that every differentiable function will do.
///
/// # Errors
/// Those of `f`; `v` of other sizes than the inputs.
#[doc(alias = "torch.autograd.functional.jvp")]
#[flambeau_macros::short(with)]
pub fn try_jvp<O: Outputs>(
    f: impl Fn(&[Tensor]) -> O,
    inputs: &[Tensor],
    v: Option<&[Tensor]>,
    options: FunctionalOptions,
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    jvp_of(&|x| f(x).outputs(), inputs, v, options.create_graph)
}
/// The Jacobian of every result with respect to every input: `[result][input]`, of sizes result sizes + input sizes.
///
/// # Errors
/// Those of `f`.
#[doc(alias = "torch.autograd.functional.jacobian")]
#[flambeau_macros::short(with)]
pub fn try_jacobian<O: Outputs>(
    f: impl Fn(&[Tensor]) -> O,
    inputs: &[Tensor],
    options: FunctionalOptions,
) -> Result<Vec<Vec<Tensor>>> {
    jacobian_of(&|x| f(x).outputs(), inputs, options.create_graph)
}
/// The Hessian of a function with one scalar result: `[input][input]`.
///
/// # Errors
/// Those of `f`; more than one result, or more than one element.
#[doc(alias = "torch.autograd.functional.hessian")]
#[flambeau_macros::short(with)]
pub fn try_hessian<O: Outputs>(
    f: impl Fn(&[Tensor]) -> O,
    inputs: &[Tensor],
    options: FunctionalOptions,
) -> Result<Vec<Vec<Tensor>>> {
    hessian_of(&|x| f(x).outputs(), inputs, options.create_graph)
}
/// `v^T H` for a function with one scalar result: its value and one product per input.
///
/// # Errors
/// As [`try_hessian`]; `v` of other sizes than the inputs.
#[doc(alias = "torch.autograd.functional.vhp")]
#[flambeau_macros::short(with)]
pub fn try_vhp<O: Outputs>(
    f: impl Fn(&[Tensor]) -> O,
    inputs: &[Tensor],
    v: &[Tensor],
    options: FunctionalOptions,
) -> Result<(Tensor, Vec<Tensor>)> {
    vhp_of(&|x| f(x).outputs(), inputs, v, options.create_graph)
}
/// `H v` for a function with one scalar result: its value and one product per input. The Hessian is symmetric, so this
/// is [`vhp`].
///
/// # Errors
/// As [`try_vhp`].
#[doc(alias = "torch.autograd.functional.hvp")]
#[flambeau_macros::short(with)]
pub fn try_hvp<O: Outputs>(
    f: impl Fn(&[Tensor]) -> O,
    inputs: &[Tensor],
    v: &[Tensor],
    options: FunctionalOptions,
) -> Result<(Tensor, Vec<Tensor>)> {
    vhp_of(&|x| f(x).outputs(), inputs, v, options.create_graph)
}

fn vjp_of(
    f: Multi,
    inputs: &[Tensor],
    v: Option<&[Tensor]>,
    create_graph: bool,
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    enable_grad(|| {
        let args = prepared(inputs, create_graph)?;
        let outs = f(&args)?;
        let v: Vec<Option<Tensor>> = match v {
            Some(v) => {
                check_v(v, &outs, "v")?;
                v.iter().cloned().map(Some).collect()
            }
            None if outs.len() == 1 && outs[0].numel() == 1 => vec![None],
            None => {
                return Err(Error::runtime(
                    "The vector v can only be None if the user-provided function returns a single Tensor with a single \
                     element.",
                ));
            }
        };
        let g = weighted(&outs, &args, v, create_graph, false)?;
        Ok((finished(outs, create_graph), finished(g, create_graph)))
    })
}

fn jvp_of(
    f: Multi,
    inputs: &[Tensor],
    v: Option<&[Tensor]>,
    create_graph: bool,
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    enable_grad(|| {
        let args = prepared(inputs, create_graph)?;
        let v: Vec<Tensor> = match v {
            Some(v) => {
                check_v(v, inputs, "v")?;
                v.to_vec()
            }
            None if inputs.len() == 1 && inputs[0].numel() == 1 => vec![shorthand::ones_like(&inputs[0])?],
            None => {
                return Err(Error::runtime(
                    "The vector v can only be None if the input to the user-provided function is a single Tensor with \
                     a single element.",
                ));
            }
        };
        let outs = f(&args)?;
        // the gradient is linear in w, and its own gradient along v is J v, whatever w is; not 0, where some formulas
        // take a logarithm
        let w: Vec<Tensor> = outs
            .iter()
            .map(|t| {
                let w = shorthand::detached(shorthand::ones_like(t)?);
                state::set_requires_grad(&w, true)?;
                Ok(w)
            })
            .collect::<Result<_>>()?;
        let g = weighted(&outs, &args, w.iter().cloned().map(Some).collect(), true, true)?;
        let jv = weighted(&g, &w, v.into_iter().map(Some).collect(), create_graph, false)?;
        Ok((finished(outs, create_graph), finished(jv, create_graph)))
    })
}

fn jacobian_of(f: Multi, inputs: &[Tensor], create_graph: bool) -> Result<Vec<Vec<Tensor>>> {
    enable_grad(|| {
        let args = prepared(inputs, create_graph)?;
        let outs = f(&args)?;
        outs.iter()
            .map(|out| {
                let n = out.numel() as usize;
                let mut rows: Vec<Vec<Tensor>> = vec![Vec::with_capacity(n); args.len()];
                for j in 0..n {
                    let unit = shorthand::zeros(out.sizes(), out)?;
                    let flat = shorthand::reshape(&unit, &[-1])?;
                    shorthand::copy_(&shorthand::select(&flat, 0, j as i64)?, &one(out)?)?;
                    let g = weighted(std::slice::from_ref(out), &args, vec![Some(unit)], create_graph, true)?;
                    for (r, g) in rows.iter_mut().zip(g) {
                        r.push(g);
                    }
                }
                rows.into_iter()
                    .zip(&args)
                    .map(|(r, a)| {
                        let mut sizes = out.sizes().to_vec();
                        sizes.extend_from_slice(a.sizes());
                        let stacked = stack(&r, a)?;
                        let j = shorthand::reshape(&stacked, &sizes)?;
                        Ok(if create_graph { j } else { j.alias_detached() })
                    })
                    .collect()
            })
            .collect()
    })
}
fn one(like: &Tensor) -> Result<Tensor> {
    shorthand::ones_like(&shorthand::zeros(&[], like)?)
}
/// Rows of equal sizes one above the other.
fn stack(rows: &[Tensor], like: &Tensor) -> Result<Tensor> {
    let mut sizes = vec![rows.len() as i64];
    sizes.extend_from_slice(like.sizes());
    let out = shorthand::zeros(&sizes, like)?;
    for (i, r) in rows.iter().enumerate() {
        shorthand::copy_(&shorthand::select(&out, 0, i as i64)?, r)?;
    }
    Ok(out)
}

fn scalar(outs: Vec<Tensor>, name: &str) -> Result<Tensor> {
    match <[Tensor; 1]>::try_from(outs) {
        Ok([t]) if t.numel() == 1 => shorthand::reshape(&t, &[]),
        _ => Err(Error::runtime(format!(
            "The function given to {name} should return a single Tensor with a single element."
        ))),
    }
}

fn hessian_of(f: Multi, inputs: &[Tensor], create_graph: bool) -> Result<Vec<Vec<Tensor>>> {
    let gradient = |args: &[Tensor]| -> Result<Vec<Tensor>> {
        let out = scalar(f(args)?, "hessian")?;
        weighted(&[out], args, vec![None], true, true)
    };
    jacobian_of(&gradient, inputs, create_graph)
}

fn vhp_of(f: Multi, inputs: &[Tensor], v: &[Tensor], create_graph: bool) -> Result<(Tensor, Vec<Tensor>)> {
    enable_grad(|| {
        check_v(v, inputs, "v")?;
        let args = prepared(inputs, create_graph)?;
        let out = scalar(f(&args)?, "vhp")?;
        let g = weighted(std::slice::from_ref(&out), &args, vec![None], true, true)?;
        let hv = weighted(&g, &args, v.iter().cloned().map(Some).collect(), create_graph, false)?;
        Ok((finished(vec![out], create_graph).remove(0), finished(hv, create_graph)))
    })
}
