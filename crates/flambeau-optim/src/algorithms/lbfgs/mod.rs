//! L-BFGS.

mod line_search;

use crate::optimizer::Optim;
use crate::optimizer::algorithm::{Algorithm, Closure, algorithm, build};
use crate::optimizer::group::{Entry, Kept, ParamGroup, State};
use crate::options::number_or_tensor::Number;
use crate::options::{Moments, Switches, checks};
use crate::step::fused::real;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{Error, Result, Scalar, Tensor, Value, ensure, ops};
use flambeau_macros::class;
use flambeau_nn::Parameter;
use line_search::{Point, strong_wolfe};

#[class("torch.optim.LBFGS", make = crate::by_name::optimizer::<LBFGSOptions>, values,
    include(Moments(lr = 1), Switches),
    order(lr, max_iter, max_eval, tolerance_grad, tolerance_change, history_size, line_search_fn, maximize))]
pub struct LBFGSOptions {
    /// Most iterations of one step.
    #[default(20)]
    pub max_iter: i64,
    /// Most evaluations of one step; by default `max_iter * 5 / 4`.
    pub max_eval: Option<i64>,
    /// Ends when no element of the gradient is larger.
    #[default(1e-7)]
    pub tolerance_grad: Number,
    /// Ends when loss and parameters change by less.
    #[default(1e-9)]
    pub tolerance_change: Number,
    /// Pairs that are remembered.
    #[default(100)]
    pub history_size: i64,
    /// `"strong_wolfe"`, or none for steps of fixed length.
    pub line_search_fn: Option<String>,
}

/// L-BFGS (Liu and Nocedal 1989): quasi-Newton steps from the last pairs of steps and changes of the gradient, with a line
/// search for the strong Wolfe conditions if asked for. One parameter group; the step needs a closure.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::{LBFGSOptions, Optimizer};
///
/// let w = Parameter::new(Tensor::from_slice(&[3f64, -1.0], 2));
/// let mut optimizer = LBFGSOptions::new().line_search_fn("strong_wolfe").build([&w]);
/// optimizer.step_closure(&mut || {
///     w.set_grad(None);
///     let loss = ((w.tensor() - 1.0) * (w.tensor() - 1.0)).sum();
///     loss.backward();
///     loss
/// });
/// assert!(w.to_vec::<f64>().iter().all(|x| (x - 1.0).abs() < 1e-6));
/// ```
#[doc(alias = "torch.optim.LBFGS.step")]
pub type LBFGS = Optim<LBFGSOptions>;
build!(LBFGSOptions => LBFGS);

/// What one step leaves for the next.
struct Memory {
    d: Tensor,
    t: f64,
    dirs: Vec<Tensor>,
    steps: Vec<Tensor>,
    ro: Vec<f64>,
    h: f64,
    prev_grad: Tensor,
    prev_loss: f64,
}

fn dot(a: &Tensor, b: &Tensor) -> Result<f64> {
    ops::dot(a, b)?.try_item()
}
fn largest(t: &Tensor) -> Result<f64> {
    ops::max(&ops::abs(t)?)?.try_item()
}
fn add_scaled(x: &Tensor, y: &Tensor, by: f64) -> Result<()> {
    ops::add_(x, y, Scalar::Float(by))
}
fn scaled(x: &Tensor, by: f64) -> Result<Tensor> {
    flambeau_autograd::shorthand::mul_scalar(x, by)
}

/// The parameters as one vector, and the loss at it.
pub(crate) struct Problem<'a, 'c> {
    params: &'a [Parameter],
    closure: Closure<'c>,
    maximize: bool,
}
impl Problem<'_, '_> {
    fn call(&mut self) -> Result<(Tensor, f64)> {
        let loss = flambeau_autograd::enable_grad(&mut *self.closure)?;
        let value: f64 = loss.try_item()?;
        Ok((loss, if self.maximize { -value } else { value }))
    }
    fn grad(&self) -> Result<Tensor> {
        let flat = |p: &Parameter| {
            let g = match p.grad() {
                Some(g) => flambeau_sparse::ops::to_dense(&g.alias_detached(), None, None)?,
                None => ops::zeros_like(&p.alias_detached(), None, None, None, None, None)?,
            };
            ops::reshape(&real(&g)?, &[-1])
        };
        let all = self.params.iter().map(flat).collect::<Result<Vec<_>>>()?;
        let flat = ops::cat(&all, 0)?;
        if self.maximize {
            ops::neg_(&flat)?;
        }
        Ok(flat)
    }
    /// Moves the parameters by `by * d`.
    fn walk(&self, d: &Tensor, by: f64) -> Result<()> {
        let mut at = 0;
        for p in self.params {
            let p = real(&p.alias_detached())?;
            let n = p.numel() as i64;
            add_scaled(&p, &ops::reshape(&ops::narrow(d, 0, at, n)?, p.sizes())?, by)?;
            at += n;
        }
        Ok(())
    }
    fn copies(&self) -> Result<Vec<Tensor>> {
        self.params.iter().map(|p| ops::clone(&p.alias_detached(), None)).collect()
    }
    /// Loss and gradient at `x + t * d`; the parameters are `x` again afterwards.
    pub(crate) fn at(&mut self, x: &[Tensor], d: &Tensor, t: f64) -> Result<Point> {
        self.walk(d, t)?;
        let (_, f) = self.call()?;
        let g = self.grad()?;
        for (p, x) in self.params.iter().zip(x) {
            ops::copy_(&p.alias_detached(), x, false)?;
        }
        let slope = dot(&g, d)?;
        Ok(Point { t, f, g, slope })
    }
}

fn tensors(v: Option<&Kept>) -> Vec<Tensor> {
    let Some(Kept::Value(v)) = v else { return Vec::new() };
    let tensor = |v: &Value| if let Value::Tensor(t) = v { Some(t.clone()) } else { None };
    v.items().unwrap_or_default().iter().filter_map(tensor).collect()
}
fn scalar(v: &Value) -> f64 {
    match v {
        Value::Tensor(t) => t.try_item().unwrap_or(f64::NAN),
        v => v.as_scalar().map_or(f64::NAN, |s| s.to_f64()),
    }
}
fn number(state: &State, name: &str) -> f64 {
    match state.entry(name) {
        Some(Kept::Value(v)) => scalar(v),
        Some(Kept::Tensor(t)) => t.try_item().unwrap_or(f64::NAN),
        Some(Kept::Number(v, _)) => *v,
        None => 0.0,
    }
}
fn memory(state: &State) -> Option<Memory> {
    let tensor = |name: &str| match state.entry(name)? {
        Kept::Value(Value::Tensor(t)) | Kept::Tensor(t) => Some(t.clone()),
        _ => None,
    };
    let ro = match state.entry("ro")? {
        Kept::Value(v) => v.items()?.iter().map(scalar).collect(),
        _ => return None,
    };
    Some(Memory {
        d: tensor("d")?,
        t: number(state, "t"),
        dirs: tensors(state.entry("old_dirs")),
        steps: tensors(state.entry("old_stps")),
        ro,
        h: number(state, "H_diag"),
        prev_grad: tensor("prev_flat_grad")?,
        prev_loss: number(state, "prev_loss"),
    })
}
/// A number as the 0-d tensor that PyTorch has there.
fn zero_dim(v: f64, like: &Tensor) -> Result<Value> {
    let t = Tensor::zeros_raw(&[], like.dtype(), like.device())?;
    ops::fill_(&t, Scalar::Float(v))?;
    Ok(Value::Tensor(t))
}
fn list(l: &[Tensor]) -> Value {
    Value::List(l.iter().cloned().map(Value::Tensor).collect())
}

/// The direction `-H g` by the two-loop recursion; also its first coefficients, which files hold.
fn direction(m: &Memory, g: &Tensor) -> Result<(Tensor, Vec<f64>)> {
    let q = ops::neg(g)?;
    let mut al = vec![0.0; m.dirs.len()];
    for i in (0..m.dirs.len()).rev() {
        al[i] = dot(&m.steps[i], &q)? * m.ro[i];
        add_scaled(&q, &m.dirs[i], -al[i])?;
    }
    let r = ops::mul(&q, &flambeau_autograd::shorthand::number(m.h)?)?;
    for (i, al) in al.iter().enumerate() {
        let be = dot(&m.dirs[i], &r)? * m.ro[i];
        add_scaled(&r, &m.steps[i], al - be)?;
    }
    Ok((r, al))
}

impl LBFGSOptions {
    fn minimise(
        &self,
        problem: &mut Problem<'_, '_>,
        state: &mut State,
        line_search: Option<&str>,
    ) -> Result<Tensor> {
        let lr = self.lr.value();
        let (tolerance_grad, tolerance) = (self.tolerance_grad.value(), self.tolerance_change.value());
        let max_eval = self.max_eval.unwrap_or(self.max_iter.saturating_mul(5) / 4);
        let count = |state: &mut State, name: &str, by: i64| {
            let n = number(state, name) as i64 + by;
            state.put(name, Kept::Value(Value::Int(n)));
            n
        };
        count(state, "func_evals", 0);
        count(state, "n_iter", 0);
        let (first, mut loss) = problem.call()?;
        let mut evals = 1;
        count(state, "func_evals", 1);
        let mut g = problem.grad()?;
        let mut flat = largest(&g)? <= tolerance_grad;
        if flat {
            return Ok(first);
        }
        let mut kept = memory(state);
        let mut iterations = 0;
        while iterations < self.max_iter {
            iterations += 1;
            let n = count(state, "n_iter", 1);
            let mut m = match kept.take() {
                Some(mut m) if n > 1 => {
                    let y = ops::sub(&g, &m.prev_grad, Scalar::Int(1))?;
                    let s = scaled(&m.d, m.t)?;
                    let ys = dot(&y, &s)?;
                    if ys > 1e-10 {
                        if m.dirs.len() as i64 == self.history_size && !m.dirs.is_empty() {
                            m.dirs.remove(0);
                            m.steps.remove(0);
                            m.ro.remove(0);
                        }
                        m.h = ys / dot(&y, &y)?;
                        m.dirs.push(y);
                        m.steps.push(s);
                        m.ro.push(1.0 / ys);
                    }
                    let (d, al) = direction(&m, &g)?;
                    m.d = d;
                    // as long as the history may become, within reason
                    let mut entry =
                        vec![Value::None; self.history_size.min(1 << 16).max(al.len() as i64) as usize];
                    for (e, al) in entry.iter_mut().zip(al) {
                        *e = zero_dim(al, &g)?;
                    }
                    state.put("al", Kept::Value(Value::List(entry)));
                    m
                }
                _ => Memory {
                    d: ops::neg(&g)?,
                    t: 0.0,
                    dirs: vec![],
                    steps: vec![],
                    ro: vec![],
                    h: 1.0,
                    prev_grad: ops::clone(&g, None)?,
                    prev_loss: loss,
                },
            };
            m.prev_grad = ops::clone(&g, None)?;
            m.prev_loss = loss;
            m.t = lr;
            if n == 1 {
                let sum: f64 = ops::sum(&ops::abs(&g)?, None, false, None)?.try_item()?;
                m.t = (1.0f64).min(1.0 / sum) * lr;
            }
            let slope = dot(&g, &m.d)?;
            if slope > -tolerance {
                kept = Some(m);
                break;
            }
            let mut calls = 0;
            match line_search {
                Some("strong_wolfe") => {
                    let x = problem.copies()?;
                    let start = Point { t: 0.0, f: loss, g: g.clone(), slope };
                    let (p, n) = strong_wolfe(problem, &x, &m.d, m.t, start, tolerance, max_eval - evals)?;
                    (loss, g, m.t, calls) = (p.f, p.g, p.t, n);
                    problem.walk(&m.d, m.t)?;
                    flat = largest(&g)? <= tolerance_grad;
                }
                Some(_) => return Err(Error::runtime("only 'strong_wolfe' is supported")),
                None => {
                    problem.walk(&m.d, m.t)?;
                    // not after the last iteration: where the loss is stochastic it would be of no use
                    if iterations != self.max_iter {
                        loss = problem.call()?.1;
                        g = problem.grad()?;
                        flat = largest(&g)? <= tolerance_grad;
                        calls = 1;
                    }
                }
            }
            evals += calls;
            count(state, "func_evals", calls);
            let still = largest(&scaled(&m.d, m.t)?)? <= tolerance;
            let level = (loss - m.prev_loss).abs() < tolerance;
            kept = Some(m);
            if iterations == self.max_iter || evals >= max_eval || flat || still || level {
                break;
            }
        }
        if let Some(m) = kept {
            let mut put = |name: &str, v: Value| state.put(name, Kept::Value(v));
            let ro = m.ro.iter().map(|r| zero_dim(*r, &g)).collect::<Result<Vec<_>>>()?;
            put("d", Value::Tensor(m.d));
            put("t", Value::Float(m.t));
            put("old_dirs", list(&m.dirs));
            put("old_stps", list(&m.steps));
            put("ro", Value::List(ro));
            put("H_diag", if m.dirs.is_empty() { Value::Int(1) } else { zero_dim(m.h, &g)? });
            put("prev_flat_grad", Value::Tensor(m.prev_grad));
            put("prev_loss", Value::Float(m.prev_loss));
        }
        Ok(first)
    }
}
impl Algorithm for LBFGSOptions {
    const NAME: &'static str = "LBFGS";
    const NUMBERS: &'static [&'static str] = &[];
    const FREE_STATE: bool = true;
    const POSITIONAL: usize = 7;
    fn check(&self) -> Result<()> {
        checks::lr(&self.lr)
    }
    fn check_groups(&self, groups: &[ParamGroup<Self>]) -> Result<()> {
        ensure!(groups.len() == 1, Value, "LBFGS doesn't support per-parameter options (parameter groups)");
        Ok(())
    }
    fn complete(&mut self) {
        self.max_eval.get_or_insert(self.max_iter.saturating_mul(5) / 4);
    }
    fn update(&self, _: &mut [Entry<'_>]) -> Result<()> {
        Err(Error::type_("LBFGS.step() missing 1 required positional argument: 'closure'"))
    }
    fn step(optim: &mut Optim<Self>, closure: Option<Closure<'_>>) -> Result<Option<Tensor>> {
        let missing = || Error::type_("LBFGS.step() missing 1 required positional argument: 'closure'");
        let closure = closure.ok_or_else(missing)?;
        let groups = optim.param_groups.len();
        ensure!(groups == 1, Assertion, "Expected exactly one param_group, but got {groups}");
        let _no_grad = flambeau_autograd::no_grad_guard();
        let ParamGroup { params, states, options, .. } = &mut optim.param_groups[0];
        ensure!(
            params.iter().all(|p| !p.is_replaced()),
            Runtime,
            "LBFGS: a parameter was replaced when its module was converted (to, half, ...): build the optimizer after \
             the conversion"
        );
        let Some(state) = states.first_mut() else {
            return flambeau_autograd::enable_grad(closure).map(Some);
        };
        let mut problem = Problem { params: params.as_slice(), closure, maximize: options.maximize };
        options.minimise(&mut problem, state, options.line_search_fn.as_deref()).map(Some)
    }
    algorithm!();
}
