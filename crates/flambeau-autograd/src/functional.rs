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

use crate::engine;
use crate::forward_ad;
use crate::grad_mode::enable_grad;
use crate::shorthand;
use flambeau_core::dispatch::stand_in::resolved;
pub use flambeau_core::gradients::outputs::Outputs;
use flambeau_core::gradients::products::{Multi, Strict, along, check_outputs, finished, prepared, weighted};
use flambeau_core::gradients::state;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::fmt_sizes;
use flambeau_core::tensor::graph::{Edge, Node};
use flambeau_core::tensor::wrapper::{carrier, like};
use flambeau_core::{Error, Result, Tensor};
use std::collections::HashSet;
use std::sync::Arc;

/// Strict mode: first derivatives must depend on the inputs.
fn check_first(grads: &[Tensor]) -> Result<()> {
    match grads.iter().position(|t| !t.requires_grad()) {
        None => Ok(()),
        Some(i) => Err(Error::runtime(format!(
            "While computing the hessian, found that the jacobian of the user-provided function with respect to input {i} is \
             independent of the input. This is not allowed in strict mode. You should ensure that your function is twice \
             differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for example)."
        ))),
    }
}
fn check_v(v: &[Tensor], like: &[Tensor], tuple: bool) -> Result<()> {
    if v.len() != like.len() {
        return Err(Error::runtime(if tuple {
            format!("v is a tuple of invalid length: should be {} but got {}.", like.len(), v.len())
        } else {
            "The given v should contain a single Tensor.".to_string()
        }));
    }
    for (i, (v, t)) in v.iter().zip(like).enumerate() {
        if v.sizes() != t.sizes() {
            let entry = if tuple { format!("Entry {i} in ") } else { String::new() };
            return Err(Error::runtime(format!(
                "{entry}v has invalid size: should be torch.Size({}) but got torch.Size({}).",
                fmt_sizes(t.sizes()),
                fmt_sizes(v.sizes())
            )));
        }
    }
    Ok(())
}
/// Keywords of the functions in this module.
#[flambeau_macros::options]
pub struct FunctionalOptions {
    /// Whether the results are recorded, to be differentiated again. Default: false.
    #[default(false)]
    pub(crate) create_graph: bool,
    /// Whether inputs that results do not depend on are errors, instead of zeros. Default: false.
    #[default(false)]
    pub(crate) strict: bool,
    /// Of Jacobians and Hessians: all rows (or columns) at once, by vmap. Default: false.
    #[default(false)]
    pub(crate) vectorize: bool,
    /// Of Jacobians and Hessians: by columns, in forward mode, which needs `vectorize`. Default: false.
    #[default(false)]
    pub(crate) forward_mode: bool,
}
impl FunctionalOptions {
    fn product(&self) -> Result<ProductOptions> {
        if self.vectorize || self.forward_mode {
            return Err(Error::value("vectorize and forward_mode are for Jacobians and Hessians"));
        }
        Ok(ProductOptions { create_graph: self.create_graph, strict: self.strict, tuples: (true, true) })
    }
    fn jacobian(&self) -> JacobianOptions {
        JacobianOptions {
            create_graph: self.create_graph,
            strict: self.strict,
            vectorize: self.vectorize,
            forward: self.forward_mode,
        }
    }
}

/// `v^T J`: the results of `f` and the product of `v` (one per result) with the Jacobian, one per input. `v` may be
/// `None` where there is one result of one element.
///
/// ```
/// use torch::autograd::functional::vjp;
/// let x = torch::tensor([1.0, 2.0]);
/// let (y, g) = vjp(|x| x[0].pow(2), &[x], Some(&[torch::tensor([1.0, 10.0])]));
/// assert_eq!((y[0].to_vec::<f32>(), g[0].to_vec::<f32>()), (vec![1.0, 4.0], vec![2.0, 40.0]));
/// ```
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
    vjp_of(&|x| f(x).outputs(), inputs, v, &options.product()?)
}
/// `J v`: the results of `f` and the product of the Jacobian with `v` (one per input), one per result. Computed with
/// two backward passes, so that every differentiable function will do.
///
/// ```
/// use torch::autograd::functional::jvp;
/// let x = torch::tensor([1.0, 2.0]);
/// let (_, t) = jvp(|x| x[0].pow(2), &[x], Some(&[torch::tensor([1.0, 0.0])]));
/// assert_eq!(t[0].to_vec::<f32>(), [2.0, 0.0]);
/// ```
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
    jvp_of(&|x| f(x).outputs(), inputs, v, &options.product()?)
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
    jacobian_of(&|x| f(x).outputs(), inputs, &options.jacobian())
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
    hessian_of(&|x| f(x).outputs(), inputs, &options.jacobian())
}
/// `v^T H` for a function with one scalar result: its value and one product per input.
///
/// ```
/// use torch::autograd::functional::vhp;
/// let x = torch::tensor([1.0, 2.0]);
/// let (y, p) = vhp(|x| x[0].pow(3).sum(), &[x], &[torch::tensor([1.0, 1.0])]);
/// assert_eq!((y.item::<f32>(), p[0].to_vec::<f32>()), (9.0, vec![6.0, 12.0]));
/// ```
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
    product(&|x| f(x).outputs(), inputs, v, &options.product()?, "vhp")
}
/// `H v` for a function with one scalar result: its value and one product per input. The Hessian is symmetric, so this
/// is [`vhp`].
///
/// ```
/// use torch::autograd::functional::hvp;
/// let x = torch::tensor([1.0, 2.0]);
/// let (_, p) = hvp(|x| x[0].pow(3).sum(), &[x], &[torch::tensor([1.0, 0.0])]);
/// assert_eq!(p[0].to_vec::<f32>(), [6.0, 0.0]);
/// ```
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
    product(&|x| f(x).outputs(), inputs, v, &options.product()?, "hvp")
}

/// Keywords of products with Jacobians and Hessians.
#[derive(Clone, Debug)]
pub(crate) struct ProductOptions {
    pub(crate) create_graph: bool,
    pub(crate) strict: bool,
    /// Whether inputs, and `v`, are tuples, for errors.
    pub(crate) tuples: (bool, bool),
}
pub(crate) fn vjp_of(
    f: Multi,
    inputs: &[Tensor],
    v: Option<&[Tensor]>,
    o: &ProductOptions,
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let create_graph = o.create_graph;
    enable_grad(|| {
        let args = prepared(inputs, create_graph)?;
        let outs = f(&args)?;
        let v: Vec<Option<Tensor>> = match v {
            Some(v) => {
                check_v(v, &outs, o.tuples.1)?;
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
        let strict = o.strict.then(|| Strict::first(create_graph));
        if o.strict {
            check_outputs(&outs)?;
        }
        let g = weighted(&outs, &args, v, create_graph, false, strict)?;
        Ok((finished(outs, create_graph), finished(g, create_graph)))
    })
}

pub(crate) fn jvp_of(
    f: Multi,
    inputs: &[Tensor],
    v: Option<&[Tensor]>,
    o: &ProductOptions,
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let create_graph = o.create_graph;
    enable_grad(|| {
        let args = prepared(inputs, create_graph)?;
        let v: Vec<Tensor> = match v {
            Some(v) => {
                check_v(v, inputs, o.tuples.0)?;
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
        along(f, &args, v, create_graph, o.strict)
    })
}

/// How a Jacobian is computed.
#[derive(Clone, Debug)]
pub(crate) struct JacobianOptions {
    pub(crate) create_graph: bool,
    pub(crate) strict: bool,
    pub(crate) vectorize: bool,
    pub(crate) forward: bool,
}
pub(crate) fn jacobian_of(f: Multi, inputs: &[Tensor], o: &JacobianOptions) -> Result<Vec<Vec<Tensor>>> {
    let create_graph = o.create_graph;
    if o.forward {
        if create_graph {
            return Err(Error::unsupported(
                "torch.autograd.functional.jacobian: `create_graph=True` and `strategy=\"forward-mode\"` are not supported together \
                 (yet). Please either set `create_graph=False` or `strategy=\"reverse-mode\"`.",
            ));
        }
        if o.strict {
            return Err(Error::runtime(
                "torch.autograd.functional.jacobian: `strict=True` and `strategy=\"forward-mode\"` are not supported together (yet). \
                 Please either set `strict=False` or `strategy=\"reverse-mode\"`.",
            ));
        }
        if !o.vectorize {
            return Err(Error::unsupported(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for `vectorize=True`.",
            ));
        }
        return by_columns(f, inputs, create_graph);
    }
    enable_grad(|| {
        let args = prepared(inputs, create_graph)?;
        let outs = f(&args)?;
        if o.strict {
            check_outputs(&outs)?;
        }
        if o.vectorize {
            if o.strict {
                return Err(Error::runtime(
                    "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Please \
                     either set `strict=False` or `vectorize=False`.",
                ));
            }
            return by_rows(&outs, &args, create_graph);
        }
        outs.iter()
            .enumerate()
            .map(|(i, out)| {
                let n = out.numel() as usize;
                let mut rows: Vec<Vec<Tensor>> = vec![Vec::with_capacity(n); args.len()];
                for j in 0..n {
                    let unit = shorthand::zeros(out.sizes(), out)?;
                    let flat = shorthand::reshape(&unit, &[-1])?;
                    shorthand::copy_(&shorthand::select(&flat, 0, j as i64)?, &one(out)?)?;
                    let strict = o.strict.then(|| Strict::first(create_graph));
                    let g = weighted(
                        std::slice::from_ref(out),
                        &args,
                        vec![Some(unit)],
                        create_graph,
                        true,
                        strict,
                    )
                    .map_err(|e| of_output(e, i))?;
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
/// Of several results the error says which.
fn of_output(e: Error, i: usize) -> Error {
    match e.message().strip_prefix("The output of the user-provided function is") {
        Some(rest) => Error::runtime(format!("Output {i} of the user-provided function is{rest}")),
        // PyTorch's number is the result's here
        None if e
            .message()
            .starts_with("The jacobian of the user-provided function is independent of input") =>
        {
            Error::runtime(format!(
                "The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict mode when \
                 create_graph=True."
            ))
        }
        None => e,
    }
}
/// Unit vectors of all elements of a tensor, along a new first dimension.
fn units(like: &Tensor) -> Result<Tensor> {
    let n = like.numel();
    let all = shorthand::zeros(&[n, n], like)?;
    let places = flambeau_core::ops::diagonal(&all, 0, 0, 1)?;
    flambeau_core::ops::fill_(&places, 1.into())?;
    let mut sizes = vec![n];
    sizes.extend_from_slice(like.sizes());
    shorthand::reshape(&all, &sizes)
}
fn sized(rows: &Tensor, out: &[i64], input: &[i64], create_graph: bool) -> Result<Tensor> {
    let j = shorthand::reshape(rows, &[out, input].concat())?;
    Ok(if create_graph { j } else { j.alias_detached() })
}
fn by_rows(outs: &[Tensor], args: &[Tensor], create_graph: bool) -> Result<Vec<Vec<Tensor>>> {
    outs.iter()
        .map(|out| {
            let pull = |v: &[Tensor]| {
                let g = weighted(
                    std::slice::from_ref(out),
                    args,
                    vec![v.first().cloned()],
                    create_graph,
                    true,
                    None,
                )?;
                Ok(g.into_iter().map(Some).collect())
            };
            let rows = engine::mapped(&pull, &[units(out)?])?;
            rows.into_iter()
                .flatten()
                .zip(args)
                .map(|(r, a)| sized(&r, out.sizes(), a.sizes(), create_graph))
                .collect()
        })
        .collect()
}
fn by_columns(f: Multi, inputs: &[Tensor], create_graph: bool) -> Result<Vec<Vec<Tensor>>> {
    let mut columns: Vec<Vec<(Vec<i64>, Tensor)>> = Vec::new();
    for (k, x) in inputs.iter().enumerate() {
        let _level = forward_ad::dual_level()?;
        let push = |t: &[Tensor]| -> Result<Vec<Option<Tensor>>> {
            let mut args = inputs.to_vec();
            args[k] = forward_ad::make_dual(x, &t[0])?;
            let one = |out: &Tensor| -> Result<Option<Tensor>> {
                let (p, t) = forward_ad::unpack_dual(out)?;
                Ok(Some(t.map_or_else(|| shorthand::zeros_like(&p), Ok)?))
            };
            f(&args)?.iter().map(one).collect()
        };
        let found = engine::mapped(&push, &[units(x)?])?;
        for (i, t) in found.into_iter().flatten().enumerate() {
            if columns.len() <= i {
                columns.push(Vec::new());
            }
            let out = t.sizes()[1..].to_vec();
            let mut order: Vec<i64> = (1..t.dim() as i64).collect();
            order.push(0);
            let t = flambeau_core::ops::permute(&t, &order)?;
            let j = sized(&t, &out, x.sizes(), create_graph)?;
            columns[i].push((out, j));
        }
    }
    Ok(columns.into_iter().map(|row| row.into_iter().map(|(_, j)| j).collect()).collect())
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
        Ok(_) => Err(Error::runtime(format!(
            "The Tensor returned by the function given to {name} should contain a single element"
        ))),
        Err(_) => Err(Error::runtime(format!("The function given to {name} should return a single Tensor"))),
    }
}

pub(crate) fn hessian_of(f: Multi, inputs: &[Tensor], o: &JacobianOptions) -> Result<Vec<Vec<Tensor>>> {
    let gradient = |args: &[Tensor]| -> Result<Vec<Tensor>> {
        enable_grad(|| {
            // in forward mode nothing is recorded yet
            let args = if o.forward { recorded(args)? } else { args.to_vec() };
            let out = scalar(f(&args)?, "hessian")?;
            if o.strict {
                check_outputs(std::slice::from_ref(&out))?;
            }
            let g = weighted(&[out], &args, vec![None], true, true, o.strict.then(|| Strict::first(false)))?;
            if o.strict {
                check_first(&g)?;
            }
            Ok(g)
        })
    };
    jacobian_of(&gradient, inputs, o)
}
/// Views that require a gradient and keep their tangents.
fn recorded(args: &[Tensor]) -> Result<Vec<Tensor>> {
    args.iter()
        .map(|t| {
            let c = resolved(&carrier(t))?;
            let d = c.alias_detached();
            forward_ad::share_tangent(&c, &d)?;
            state::set_requires_grad(&d, true)?;
            like(t, d)
        })
        .collect()
}

/// `v^T H`, and `H v`, which is the same.
pub(crate) fn product(
    f: Multi,
    inputs: &[Tensor],
    v: &[Tensor],
    o: &ProductOptions,
    name: &str,
) -> Result<(Tensor, Vec<Tensor>)> {
    let create_graph = o.create_graph;
    enable_grad(|| {
        check_v(v, inputs, o.tuples.0)?;
        let args = prepared(inputs, create_graph)?;
        let out = scalar(f(&args)?, name)?;
        if o.strict {
            check_outputs(std::slice::from_ref(&out))?;
        }
        let g = weighted(std::slice::from_ref(&out), &args, vec![None], true, true, None)?;
        if o.strict {
            check_first(&g)?;
        }
        let strict = o.strict.then(|| Strict::second(create_graph));
        let hv = weighted(&g, &args, v.iter().cloned().map(Some).collect(), create_graph, false, strict)?;
        Ok((finished(vec![out], create_graph).remove(0), finished(hv, create_graph)))
    })
}

/// Whether the history of some of these tensors leads to others than `own`: to other leaves, or behind those of `own` that are
/// no leaves.
///
/// ```
/// use torch::autograd::functional::depends_on_others;
/// let [x, w] = [1.0, 2.0].map(|v| torch::tensor(v).requires_grad_(true).clone());
/// assert!(!depends_on_others(&[x.exp()], &[x.clone()]));
/// assert!(depends_on_others(&[&x * &w], &[x]));
/// ```
pub fn depends_on_others(of: &[Tensor], own: &[Tensor]) -> bool {
    let leaves: Vec<u64> = own
        .iter()
        .filter(|t| state::is_leaf(t))
        .filter_map(|t| state::grad_edge(t).map(|e| e.node().header().seq))
        .collect();
    let edges: Vec<_> = of.iter().filter(|t| state::requires_grad(t)).filter_map(state::grad_edge).collect();
    let mut seen = HashSet::new();
    let mut stack: Vec<&Arc<dyn Node>> = edges.iter().map(Edge::node).collect();
    while let Some(n) = stack.pop() {
        let h = n.header();
        if !seen.insert(h.seq) {
            continue;
        }
        if n.leaf().is_some() && !leaves.contains(&h.seq) {
            return true;
        }
        stack.extend(h.edges.iter().flatten().map(Edge::node));
    }
    false
}
/// Makes a tensor without history a leaf that wants a gradient, within transforms of `torch.func` too.
///
/// # Errors
/// What is neither floating nor complex, or computed.
#[doc(hidden)]
pub fn want_gradient(t: &Tensor) -> Result<()> {
    state::set_requires_grad(t, true)
}
