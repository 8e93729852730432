//! Gradients against finite differences.
//!
//! Everything is treated as a map between real vector spaces: a complex number counts as two reals, and the inner
//! product is Re(conj(a) b). For a direction `u` of an input and a weight `v` of an output the numerical value is
//! <v, (f(x + eps u) - f(x - eps u)) / (2 eps)> and the analytical one <g, u> with g the gradient under `v`.

use crate::engine::{self, GradOptions};
use crate::forward_ad;
use crate::grad_mode::{enable_grad, no_grad};
use crate::state;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::stand_in::resolved;
use flambeau_core::gradients::outputs::Outputs;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::geometry::{fmt_sizes, is_non_overlapping_and_dense};
use flambeau_core::{DType, Error, ErrorKind, Result, Tensor, ops};
use num_complex::Complex;
use std::fmt::Write;

type C = Complex<f64>;

/// Keywords of [`gradcheck_with`] and [`gradgradcheck_with`].
#[flambeau_macros::options]
pub struct GradcheckOptions {
    /// Step of the finite differences. Default: 1e-6.
    #[default(1e-6)]
    pub(crate) eps: f64,
    /// Absolute tolerance. Default: 1e-5.
    #[default(1e-5)]
    pub(crate) atol: f64,
    /// Relative tolerance. Default: 1e-3.
    #[default(1e-3)]
    pub(crate) rtol: f64,
    /// Whether gradients that differ are an error; else the answer is `false`. Default: true.
    #[default(true)]
    pub(crate) raise_exception: bool,
    /// How much two backward runs may differ. Default: 0.
    #[default(0.0)]
    pub(crate) nondet_tol: f64,
    /// Backward through one of several results at a time, with the gradients of the others undefined. Default: true.
    #[default(true)]
    pub(crate) check_undefined_grad: bool,
    /// Tangents of forward mode too. Default: false.
    #[default(false)]
    pub(crate) check_forward_ad: bool,
    /// Gradients of backward. Default: true.
    #[default(true)]
    pub(crate) check_backward_ad: bool,
    /// One random direction per input and result instead of the whole Jacobian. Default: true.
    #[default(true)]
    pub(crate) fast_mode: bool,
    /// Seed of the random directions.
    #[default(0x9e37_79b9_7f4a_7c15_u64)]
    pub(crate) seed: u64,
}

/// Small generator for directions: splitmix64, in (-1, 1) away from 0.
struct Directions(u64);
impl Directions {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let unit = (z >> 11) as f64 / (1u64 << 53) as f64;
        let magnitude = 0.25 + 0.75 * unit;
        if z & 1 == 0 { magnitude } else { -magnitude }
    }
    /// A direction in the space of `t`.
    fn of(&mut self, t: &Tensor) -> Vec<C> {
        let complex = t.dtype().is_complex();
        (0..t.numel()).map(|_| C::new(self.next(), if complex { self.next() } else { 0.0 })).collect()
    }
}

fn values(t: &Tensor) -> Result<Vec<C>> {
    no_grad(|| {
        let t = resolved(t)?.alias_detached();
        if t.dtype().is_complex() {
            t.try_to_vec::<C>()
        } else {
            Ok(t.try_to_vec::<f64>()?.into_iter().map(|x| C::new(x, 0.0)).collect())
        }
    })
}
/// A tensor of the same sizes, dtype and, where it is dense, strides.
fn tensor_like(t: &Tensor, v: &[C]) -> Result<Tensor> {
    let full = if t.dtype().is_complex() {
        Tensor::from_vec_raw(v.to_vec(), t.sizes())?
    } else {
        Tensor::from_vec_raw(v.iter().map(|c| c.re).collect(), t.sizes())?
    };
    let dense = is_non_overlapping_and_dense(t.sizes(), t.strides());
    let strides = if dense {
        t.strides().to_vec()
    } else {
        flambeau_core::tensor::geometry::contiguous_strides(t.sizes()).to_vec()
    };
    let out = Tensor::empty_strided_raw(t.sizes(), &strides, t.dtype(), t.device())?;
    no_grad(|| ops::copy_(&out, &full, false))?;
    Ok(out)
}
fn dot(a: &[C], b: &[C]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.re * b.re + a.im * b.im).sum()
}
fn axpy(x: &[C], s: f64, u: &[C]) -> Vec<C> {
    x.iter().zip(u).map(|(x, u)| x + u * s).collect()
}

/// Whether an input takes part: it requires a gradient.
fn checked(inputs: &[Tensor]) -> Vec<usize> {
    (0..inputs.len()).filter(|&i| state::requires_grad(&inputs[i])).collect()
}
/// Fresh leaves with the inputs' values.
fn leaves(inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    inputs
        .iter()
        .map(|t| {
            if !state::requires_grad(t) {
                return Ok(t.clone());
            }
            let l = tensor_like(t, &values(t)?)?;
            state::set_requires_grad(&l, true)?;
            Ok(l)
        })
        .collect()
}
/// The function at `inputs` with input `i` moved by `s * u`, without recording.
fn moved<F>(f: &F, inputs: &[Tensor], i: usize, s: f64, u: &[C]) -> Result<Vec<Vec<C>>>
where
    F: Fn(&[Tensor]) -> Result<Vec<Tensor>> + ?Sized,
{
    let mut args: Vec<Tensor> = inputs.iter().map(Tensor::alias_detached).collect();
    args[i] = tensor_like(&inputs[i], &axpy(&values(&inputs[i])?, s, u))?;
    // the function may itself ask for gradients (gradgradcheck), so recording stays as it is
    for (a, t) in args.iter().zip(inputs) {
        if state::requires_grad(t) {
            state::set_requires_grad(a, true)?;
        }
    }
    f(&args)?.iter().map(values).collect()
}
fn derivative<F>(f: &F, inputs: &[Tensor], i: usize, u: &[C], eps: f64) -> Result<Vec<Vec<C>>>
where
    F: Fn(&[Tensor]) -> Result<Vec<Tensor>> + ?Sized,
{
    let (plus, minus) = (moved(f, inputs, i, eps, u)?, moved(f, inputs, i, -eps, u)?);
    Ok(plus
        .iter()
        .zip(&minus)
        .map(|(p, m)| p.iter().zip(m).map(|(p, m)| (p - m) / (2.0 * eps)).collect())
        .collect())
}

fn differentiable(t: &Tensor) -> bool {
    t.dtype().is_floating() || t.dtype().is_complex()
}

struct Report<'a> {
    o: &'a GradcheckOptions,
    text: String,
}
impl Report<'_> {
    fn compare(&mut self, what: &str, output: usize, input: usize, numerical: f64, analytical: f64) -> bool {
        let ok = (numerical - analytical).abs() <= self.o.atol + self.o.rtol * numerical.abs()
            || (numerical.is_nan() && analytical.is_nan());
        if !ok {
            let _ = write!(
                self.text,
                "\n{what} mismatch for output {output} with respect to input {input}: numerical {numerical:.9e}, \
                 analytical {analytical:.9e}"
            );
        }
        ok
    }
}

/// The answer, or the error where one was asked for.
fn answer(found: Result<()>, raise: bool) -> Result<bool> {
    match found {
        Ok(()) => Ok(true),
        Err(e) if !raise && e.kind() == ErrorKind::Assertion => Ok(false),
        Err(e) => Err(e),
    }
}
/// Compares the gradients of `f` with finite differences, for every input that requires a gradient and every result: true, or a
/// panic with a report of what differs. Inputs should be float64 or complex128.
///
/// ```
/// use torch::autograd::gradcheck::{GradcheckOptions, gradcheck, gradcheck_with};
/// use torch::prelude::*;
/// let x = torch::tensor_with([0.5, 2.0], f64).requires_grad_(true);
/// assert!(gradcheck(|x| x[0].sin() * &x[0], &[x.clone()]));
/// assert!(gradcheck_with(|x| (x[0].exp(), x[0].sqrt()), &[x], GradcheckOptions::new().fast_mode(false)));
/// ```
#[doc(alias = "torch.autograd.gradcheck")]
#[doc(alias = "torch.autograd.gradcheck.gradcheck")]
#[track_caller]
pub fn gradcheck<O: Outputs>(f: impl Fn(&[Tensor]) -> O, inputs: &[Tensor]) -> bool {
    expect(try_gradcheck(f, inputs, GradcheckOptions::new()))
}
/// What [`try_gradcheck`] gives where gradients differ: an error of kind `Assertion` with the report.
///
/// ```
/// use torch::autograd::gradcheck::{GradcheckError, GradcheckOptions, try_gradcheck};
/// use torch::prelude::*;
/// let x = torch::tensor_with([0.5, 2.0], f64).requires_grad_(true).clone();
/// // what was detached is missing in the gradient
/// let e: GradcheckError = try_gradcheck(|x| &x[0] * x[0].detach(), &[x], GradcheckOptions::new()).unwrap_err();
/// assert_eq!(e.kind(), torch::ErrorKind::Assertion);
/// ```
#[doc(alias = "torch.autograd.gradcheck.GradcheckError")]
pub type GradcheckError = flambeau_core::Error;

/// [`gradcheck`] with all keywords.
#[track_caller]
pub fn gradcheck_with<O: Outputs>(
    f: impl Fn(&[Tensor]) -> O,
    inputs: &[Tensor],
    options: GradcheckOptions,
) -> bool {
    expect(try_gradcheck(f, inputs, options))
}
/// [`gradcheck_with`] with an error instead of a panic.
///
/// # Errors
/// `Assertion` with a report when they differ, unless `raise_exception` is off; errors of `f` itself.
pub fn try_gradcheck<O: Outputs>(
    f: impl Fn(&[Tensor]) -> O,
    inputs: &[Tensor],
    options: GradcheckOptions,
) -> Result<bool> {
    let erased: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> = &|x| f(x).outputs();
    answer(enable_grad(|| check(erased, inputs, &options)), options.raise_exception)
}

fn check<F>(f: &F, inputs: &[Tensor], o: &GradcheckOptions) -> Result<()>
where
    F: Fn(&[Tensor]) -> Result<Vec<Tensor>> + ?Sized,
{
    let ins = checked(inputs);
    if ins.is_empty() {
        return Err(Error::value(
            "gradcheck expects at least one input tensor to require gradient, but none of them have \
             requires_grad=True.",
        ));
    }
    for &i in &ins {
        if !matches!(inputs[i].dtype(), DType::F64 | DType::C128) {
            return Err(Error::value(format!(
                "gradcheck needs inputs of double precision; input {i} is {}",
                inputs[i].dtype().name()
            )));
        }
    }
    let mut rng = Directions(o.seed);
    let mut report = Report { o, text: String::new() };
    let args = leaves(inputs)?;
    let outs = f(&args)?;
    let wrt: Vec<Tensor> = ins.iter().map(|&i| args[i].clone()).collect();
    let directions: Vec<Vec<C>> = wrt.iter().map(|t| rng.of(t)).collect();
    let numerical: Vec<Vec<Vec<C>>> = ins
        .iter()
        .zip(&directions)
        .map(|(&i, u)| derivative(f, inputs, i, u, o.eps))
        .collect::<Result<_>>()?;
    if !outs.iter().any(state::requires_grad) {
        let constant = numerical.iter().flatten().flatten().all(|v| *v == C::default());
        flambeau_core::ensure!(constant, Assertion, "Numerical gradient for function expected to be zero");
        return Ok(());
    }
    let mut suspects = Vec::new();
    for (k, out) in outs.iter().enumerate() {
        if !differentiable(out) {
            continue;
        }
        let v = rng.of(out);
        if o.check_backward_ad {
            let grads = gradients(out, &wrt, &v)?;
            for (n, g) in grads.iter().enumerate() {
                let g = g.as_ref().map_or(Ok(vec![C::default(); wrt[n].numel() as usize]), values)?;
                if !report.compare("Jacobian", k, ins[n], dot(&v, &numerical[n][k]), dot(&g, &directions[n]))
                {
                    suspects.push((k, n));
                }
            }
            nondeterminism(out, &wrt, &v, &grads, o)?;
        }
        if o.check_forward_ad {
            for (n, &i) in ins.iter().enumerate() {
                let t = tangent_of(f, inputs, i, &directions[n], k)?;
                let w = t.unwrap_or_else(|| vec![C::default(); v.len()]);
                if !report.compare("Forward-mode", k, i, dot(&v, &numerical[n][k]), dot(&v, &w)) {
                    suspects.push((k, n));
                }
            }
        }
    }
    if o.check_undefined_grad && outs.iter().filter(|t| state::requires_grad(t)).count() > 1 {
        let with_history: Vec<&Tensor> = outs.iter().filter(|t| state::requires_grad(t)).collect();
        for t in with_history {
            let v = vec![C::new(1.0, 0.0); t.numel() as usize];
            gradients(t, &wrt, &v)?;
        }
    }
    if !o.fast_mode && o.check_backward_ad {
        full(f, inputs, &ins, &args, &outs, o)?;
    }
    if report.text.is_empty() {
        return Ok(());
    }
    suspects.dedup();
    for &(k, n) in suspects.iter().take(2) {
        if outs[k].numel() * wrt[n].numel() <= 64 {
            report.text.push_str(&jacobians(f, inputs, ins[n], &args, &outs, k, o)?.2);
        }
    }
    Err(Error::assertion(format!("gradcheck failed:{}", report.text)))
}

fn gradients(out: &Tensor, wrt: &[Tensor], v: &[C]) -> Result<Vec<Option<Tensor>>> {
    if !state::requires_grad(out) {
        return Ok(vec![None; wrt.len()]);
    }
    let o =
        GradOptions::new().grad_outputs([Some(tensor_like(out, v)?)]).retain_graph(true).allow_unused(true);
    let grads = engine::grad(std::slice::from_ref(out), wrt, o)?;
    for (g, t) in grads.iter().zip(wrt) {
        if let Some(g) = g
            && (g.sizes() != t.sizes() || g.dtype() != t.dtype())
        {
            return Err(Error::assertion(format!(
                "gradient of sizes {} and dtype {} for an input of sizes {} and dtype {}",
                fmt_sizes(g.sizes()),
                g.dtype().name(),
                fmt_sizes(t.sizes()),
                t.dtype().name()
            )));
        }
    }
    Ok(grads)
}

fn nondeterminism(
    out: &Tensor,
    wrt: &[Tensor],
    v: &[C],
    first: &[Option<Tensor>],
    o: &GradcheckOptions,
) -> Result<()> {
    for (n, (a, b)) in first.iter().zip(gradients(out, wrt, v)?).enumerate() {
        let (Some(a), Some(b)) = (a, &b) else { continue };
        let worst = values(a)?
            .iter()
            .zip(values(b)?)
            .map(|(a, b)| (a - b).norm())
            .filter(|d| !d.is_nan())
            .fold(0.0, f64::max);
        if worst > o.nondet_tol {
            return Err(Error::assertion(format!(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times \
                 gives different values, although analytical gradient matches numerical gradient (input {n}: {worst:e}). \
                 The tolerance for nondeterminism was {}.",
                o.nondet_tol
            )));
        }
    }
    Ok(())
}

fn tangent_of<F>(f: &F, inputs: &[Tensor], i: usize, u: &[C], output: usize) -> Result<Option<Vec<C>>>
where
    F: Fn(&[Tensor]) -> Result<Vec<Tensor>> + ?Sized,
{
    let _level = forward_ad::dual_level()?;
    let mut args: Vec<Tensor> = leaves(inputs)?;
    args[i] = forward_ad::make_dual(&args[i], &tensor_like(&inputs[i], u)?)?;
    let outs = f(&args)?;
    outs.get(output).and_then(forward_ad::tangent).map(|t| values(&t)).transpose()
}

/// Both Jacobians of one result and one input, column by column, with a text that shows them.
fn jacobians<F>(
    f: &F,
    inputs: &[Tensor],
    i: usize,
    args: &[Tensor],
    outs: &[Tensor],
    k: usize,
    o: &GradcheckOptions,
) -> Result<(Vec<Vec<f64>>, Vec<Vec<f64>>, String)>
where
    F: Fn(&[Tensor]) -> Result<Vec<Tensor>> + ?Sized,
{
    let units = |t: &Tensor| -> Vec<Vec<C>> {
        let n = t.numel() as usize;
        let parts: &[C] =
            if t.dtype().is_complex() { &[C::new(1.0, 0.0), C::new(0.0, 1.0)] } else { &[C::new(1.0, 0.0)] };
        (0..n)
            .flat_map(|j| {
                parts.iter().map(move |p| {
                    let mut u = vec![C::default(); n];
                    u[j] = *p;
                    u
                })
            })
            .collect()
    };
    let (rows, columns) = (units(&inputs[i]), units(&outs[k]));
    let wrt = [args[i].clone()];
    let grads: Vec<Vec<C>> = columns
        .iter()
        .map(|v| {
            let g = gradients(&outs[k], &wrt, v)?.remove(0);
            g.as_ref().map_or(Ok(vec![C::default(); wrt[0].numel() as usize]), values)
        })
        .collect::<Result<_>>()?;
    let (mut numerical, mut analytical) = (Vec::new(), Vec::new());
    for u in &rows {
        let d = derivative(f, inputs, i, u, o.eps)?;
        numerical.push(columns.iter().map(|v| dot(v, &d[k])).collect::<Vec<f64>>());
        analytical.push(grads.iter().map(|g| dot(g, u)).collect::<Vec<f64>>());
    }
    let text = format!(
        "\nJacobian of output {k} with respect to input {i} (a row per input element):\nnumerical:  {numerical:.6?}\n\
         analytical: {analytical:.6?}"
    );
    Ok((numerical, analytical, text))
}

fn full<F>(
    f: &F,
    inputs: &[Tensor],
    ins: &[usize],
    args: &[Tensor],
    outs: &[Tensor],
    o: &GradcheckOptions,
) -> Result<()>
where
    F: Fn(&[Tensor]) -> Result<Vec<Tensor>> + ?Sized,
{
    for (k, out) in outs.iter().enumerate().filter(|(_, t)| differentiable(t)) {
        let _ = out;
        for &i in ins {
            let (n, a, text) = jacobians(f, inputs, i, args, outs, k, o)?;
            let same = n
                .iter()
                .flatten()
                .zip(a.iter().flatten())
                .all(|(n, a)| (n - a).abs() <= o.atol + o.rtol * n.abs() || (n.is_nan() && a.is_nan()));
            if !same {
                return Err(Error::assertion(format!(
                    "Jacobian mismatch for output {k} with respect to input {i}.{text}"
                )));
            }
        }
    }
    Ok(())
}

/// Compares second derivatives of `f` with finite differences of its gradients: true, or a panic with a report. The gradients
/// of the results are random, and are differentiated too.
///
/// ```
/// use torch::autograd::gradcheck::gradgradcheck;
/// use torch::prelude::*;
/// let x = torch::tensor_with([0.5, 2.0], f64).requires_grad_(true).clone();
/// assert!(gradgradcheck(|x| x[0].sin() * &x[0], &[x]));
/// ```
#[doc(alias = "torch.autograd.gradgradcheck")]
#[doc(alias = "torch.autograd.gradcheck.gradgradcheck")]
#[track_caller]
pub fn gradgradcheck<O: Outputs>(f: impl Fn(&[Tensor]) -> O, inputs: &[Tensor]) -> bool {
    expect(try_gradgradcheck(f, inputs, None, GradcheckOptions::new()))
}
/// [`gradgradcheck`] with given gradients of the results and all keywords.
#[track_caller]
pub fn gradgradcheck_with<O: Outputs>(
    f: impl Fn(&[Tensor]) -> O,
    inputs: &[Tensor],
    grad_outputs: Option<&[Tensor]>,
    options: GradcheckOptions,
) -> bool {
    expect(try_gradgradcheck(f, inputs, grad_outputs, options))
}
/// [`gradgradcheck_with`] with an error instead of a panic.
///
/// # Errors
/// `Assertion` with a report when they differ, unless `raise_exception` is off; errors of `f` itself.
pub fn try_gradgradcheck<O: Outputs>(
    f: impl Fn(&[Tensor]) -> O,
    inputs: &[Tensor],
    grad_outputs: Option<&[Tensor]>,
    options: GradcheckOptions,
) -> Result<bool> {
    let found = second(&|x| f(x).outputs(), inputs, grad_outputs, &options);
    answer(found, options.raise_exception)
}
fn second(
    f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    grad_outputs: Option<&[Tensor]>,
    o: &GradcheckOptions,
) -> Result<()> {
    enable_grad(|| {
        let n = inputs.len();
        let outs: Vec<Tensor> = f(&leaves(inputs)?)?;
        let kept: Vec<usize> = (0..outs.len()).filter(|&k| state::requires_grad(&outs[k])).collect();
        let mut rng = Directions(o.seed ^ 0x5555);
        let weights: Vec<Tensor> = match grad_outputs {
            Some(g) => g.to_vec(),
            None => kept
                .iter()
                .map(|&k| {
                    let w = tensor_like(&outs[k], &rng.of(&outs[k]))?;
                    state::set_requires_grad(&w, true)?;
                    Ok(w)
                })
                .collect::<Result<_>>()?,
        };
        let ins = checked(inputs);
        let first = |all: &[Tensor]| -> Result<Vec<Tensor>> {
            let (args, weights) = all.split_at(n);
            // leaves of this call may be constants of a finite difference: gradients need tensors that require one
            let outs = f(args)?;
            let outs: Vec<Tensor> = kept.iter().map(|&k| outs[k].clone()).collect();
            let wrt: Vec<Tensor> = ins.iter().map(|&i| args[i].clone()).collect();
            let go = GradOptions::new()
                .grad_outputs(weights.iter().cloned().map(Some))
                .create_graph(true)
                .materialize_grads(true);
            Ok(engine::grad(&outs, &wrt, go)?.into_iter().flatten().collect())
        };
        let all: Vec<Tensor> = inputs.iter().chain(&weights).cloned().collect();
        check(&first, &all, o)
    })
}
