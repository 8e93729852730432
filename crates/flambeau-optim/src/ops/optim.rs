//! Fused steps: the lists of a row, and the rule of flambeau-cpu that goes over them.

use super::elsewhere::Told;
use super::lists::{Lists, Scaling, on_meta, step};
use flambeau_autograd::shorthand::number;
use flambeau_core::backend::{lists, out};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::schema::OutDtype;
use flambeau_core::{DType, Error, Result, Tensor, ensure, ops};
use flambeau_cpu::optim as rules;

/// What PyTorch says of a condition that does not hold.
#[cold]
fn unexpected(condition: &str) -> Error {
    Error::runtime(format!(
        "Expected {condition} to be true, but got false.  (Could this error message be improved?  If so, please report an \
         enhancement request to PyTorch.)"
    ))
}
fn as_many(name: &str, list: &[Tensor], params: &[Tensor]) -> Result<()> {
    if list.len() == params.len() { Ok(()) } else { Err(unexpected(&format!("{name}.size() == n_tensors"))) }
}
/// A list that is given in full or empty.
fn given_if(wanted: bool, name: &str, list: &[Tensor], params: &[Tensor]) -> Result<()> {
    match wanted {
        true => as_many(name, list, params),
        false if list.is_empty() => Ok(()),
        false => Err(unexpected(&format!("{name}.empty()"))),
    }
}
/// A number of a gradient scaler, which is float32.
fn scaler(t: &Tensor) -> Result<f32> {
    ensure!(
        t.dtype() == DType::F32,
        DType,
        "expected scalar type Float but found {}",
        t.dtype().scalar_type_name()
    );
    t.try_item()
}
/// What the step has to do with its gradients; `None` where it is not to be made. On the CPU, and where the back end has no
/// kernel for that, gradients are divided by their scale here.
fn scaled<'a>(
    grads: &[Tensor],
    scale: Option<&'a Tensor>,
    found_inf: Option<&'a Tensor>,
) -> Result<Option<Scaling<'a>>> {
    if on_meta(grads) {
        return Ok(None);
    }
    let device = grads.first().map(Tensor::device);
    if device.is_some_and(|d| lists::of(d).is_some()) {
        return Ok(Some(Scaling { scale, found_inf }));
    }
    if found_inf.map(scaler).transpose()? == Some(1.0) {
        return Ok(None);
    }
    if let Some(scale) = scale {
        let scale = number(f64::from(scaler(scale)?))?;
        grads.iter().try_for_each(|g| ops::div_(g, &scale))?;
    }
    Ok(Some(Scaling::default()))
}

/// Reads counts of steps. Parameters often share one.
struct Steps<'a> {
    list: &'a [Tensor],
    last: Option<(&'a Tensor, f64)>,
}
impl<'a> Steps<'a> {
    fn of(list: &'a [Tensor]) -> Self {
        Steps { list, last: None }
    }
    fn at(&mut self, i: usize) -> Result<f64> {
        let t = &self.list[i];
        match self.last {
            Some((last, step)) if last.is_same(t) => Ok(step),
            _ => {
                let step = t.try_item()?;
                self.last = Some((t, step));
                Ok(step)
            }
        }
    }
}

/// `[parameters, gradients, averages, averages of squares, the largest ones, counts of steps]`
fn adam(
    rule: rules::Adam,
    [params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps]: [&[Tensor]; 6],
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    as_many("grads", grads, params)?;
    as_many("exp_avgs", exp_avgs, params)?;
    as_many("exp_avg_sqs", exp_avg_sqs, params)?;
    given_if(rule.amsgrad, "max_exp_avg_sqs", max_exp_avg_sqs, params)?;
    as_many("state_steps", state_steps, params)?;
    let Some(scaling) = scaled(grads, grad_scale, found_inf)? else { return Ok(()) };
    let kept = [exp_avgs, exp_avg_sqs, max_exp_avg_sqs];
    let mut steps = Steps::of(state_steps);
    let kept = &kept[..2 + rule.amsgrad as usize];
    step(&Lists { label: "fused_adam_kernel", params, grads, kept, scaling }, |i| Ok(rule.at(steps.at(i)?)))
}

/// `_fused_adam_`
pub fn fused_adam_(
    self_: &[Tensor],
    grads: &[Tensor],
    exp_avgs: &[Tensor],
    exp_avg_sqs: &[Tensor],
    max_exp_avg_sqs: &[Tensor],
    state_steps: &[Tensor],
    lr: f64,
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
    eps: f64,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    let (betas, decoupled) = ((beta1, beta2), false);
    let (correction1, root2) = (1.0, 1.0);
    let rule = rules::Adam { lr, betas, eps, weight_decay, decoupled, amsgrad, maximize, correction1, root2 };
    let lists = [self_, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps];
    adam(rule, lists, grad_scale, found_inf)
}

/// `_fused_adamw_`
pub fn fused_adamw_(
    self_: &[Tensor],
    grads: &[Tensor],
    exp_avgs: &[Tensor],
    exp_avg_sqs: &[Tensor],
    max_exp_avg_sqs: &[Tensor],
    state_steps: &[Tensor],
    lr: f64,
    beta1: f64,
    beta2: f64,
    weight_decay: f64,
    eps: f64,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    let (betas, decoupled) = ((beta1, beta2), true);
    let (correction1, root2) = (1.0, 1.0);
    let rule = rules::Adam { lr, betas, eps, weight_decay, decoupled, amsgrad, maximize, correction1, root2 };
    let lists = [self_, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps];
    adam(rule, lists, grad_scale, found_inf)
}

/// `_fused_sgd_`
pub fn fused_sgd_(
    self_: &[Tensor],
    grads: &[Tensor],
    momentum_buffer_list: &[Tensor],
    weight_decay: f64,
    momentum: f64,
    lr: f64,
    dampening: f64,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    as_many("grads", grads, self_)?;
    given_if(momentum != 0.0, "momentum_buffer_list", momentum_buffer_list, self_)?;
    let Some(scaling) = scaled(grads, grad_scale, found_inf)? else { return Ok(()) };
    let rule = rules::SGD { lr, momentum, dampening, weight_decay, nesterov, maximize, first: is_first_step };
    let buffers = [momentum_buffer_list];
    let kept = if momentum == 0.0 { &[][..] } else { &buffers[..] };
    step(&Lists { label: "fused_sgd_kernel", params: self_, grads, kept, scaling }, |_| Ok(rule))
}

/// `_fused_adagrad_`
pub fn fused_adagrad_(
    self_: &[Tensor],
    grads: &[Tensor],
    state_sums: &[Tensor],
    state_steps: &[Tensor],
    lr: f64,
    lr_decay: f64,
    weight_decay: f64,
    eps: f64,
    maximize: bool,
    grad_scale: Option<&Tensor>,
    found_inf: Option<&Tensor>,
) -> Result<()> {
    as_many("grads", grads, self_)?;
    as_many("state_sums", state_sums, self_)?;
    as_many("state_steps", state_steps, self_)?;
    let Some(scaling) = scaled(grads, grad_scale, found_inf)? else { return Ok(()) };
    let mut steps = Steps::of(state_steps);
    step(&Lists { label: "fused_adagrad_kernel", params: self_, grads, kept: &[state_sums], scaling }, |i| {
        let step_size = lr / (1.0 + (steps.at(i)? - 1.0) * lr_decay);
        Ok(rules::Adagrad { eps, weight_decay, maximize, step_size })
    })
}

/// A step of a rule whose numbers are those of all parameters; `names` are the lists' in errors.
fn alike<R: Told>(
    label: &'static str,
    rule: R,
    params: &[Tensor],
    grads: &[Tensor],
    kept: &[&[Tensor]],
    names: &[&str],
) -> Result<()> {
    as_many("grads", grads, params)?;
    kept.iter().zip(names).try_for_each(|(list, name)| as_many(name, list, params))?;
    step(&Lists { label, params, grads, kept, scaling: Scaling::default() }, |_| Ok(rule))
}

/// `flambeau::_fused_adadelta_`
pub fn fused_adadelta_(
    self_: &[Tensor],
    grads: &[Tensor],
    square_avgs: &[Tensor],
    acc_deltas: &[Tensor],
    lr: f64,
    rho: f64,
    eps: f64,
    weight_decay: f64,
    maximize: bool,
) -> Result<()> {
    let rule = rules::Adadelta { lr, rho, eps, weight_decay, maximize };
    let (kept, names) = ([square_avgs, acc_deltas], ["square_avgs", "acc_deltas"]);
    alike("fused_adadelta_kernel", rule, self_, grads, &kept, &names)
}

/// `flambeau::_fused_adamax_`
pub fn fused_adamax_(
    self_: &[Tensor],
    grads: &[Tensor],
    exp_avgs: &[Tensor],
    exp_infs: &[Tensor],
    step_size: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    maximize: bool,
) -> Result<()> {
    let rule = rules::Adamax { betas: (beta1, beta2), eps, weight_decay, maximize, step_size };
    let (kept, names) = ([exp_avgs, exp_infs], ["exp_avgs", "exp_infs"]);
    alike("fused_adamax_kernel", rule, self_, grads, &kept, &names)
}

/// `flambeau::_fused_asgd_`
pub fn fused_asgd_(
    self_: &[Tensor],
    grads: &[Tensor],
    axs: &[Tensor],
    eta: f64,
    mu: f64,
    lambd: f64,
    weight_decay: f64,
    maximize: bool,
) -> Result<()> {
    let rule = rules::ASGD { lambd, weight_decay, maximize, eta, mu };
    alike("fused_asgd_kernel", rule, self_, grads, &[axs], &["axs"])
}

/// `flambeau::_fused_nadam_`
pub fn fused_nadam_(
    self_: &[Tensor],
    grads: &[Tensor],
    exp_avgs: &[Tensor],
    exp_avg_sqs: &[Tensor],
    grad_factor: f64,
    moment_factor: f64,
    correction2: f64,
    shrink: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    maximize: bool,
) -> Result<()> {
    let (betas, by_grad, by_moment) = ((beta1, beta2), grad_factor, moment_factor);
    let rule = rules::NAdam { betas, eps, weight_decay, shrink, maximize, correction2, by_grad, by_moment };
    let (kept, names) = ([exp_avgs, exp_avg_sqs], ["exp_avgs", "exp_avg_sqs"]);
    alike("fused_nadam_kernel", rule, self_, grads, &kept, &names)
}

/// `flambeau::_fused_radam_`
pub fn fused_radam_(
    self_: &[Tensor],
    grads: &[Tensor],
    exp_avgs: &[Tensor],
    exp_avg_sqs: &[Tensor],
    lr: f64,
    correction1: f64,
    root2: Option<f64>,
    rectification: f64,
    shrink: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    maximize: bool,
) -> Result<()> {
    let (betas, adaptive) = ((beta1, beta2), root2.map(|r| (r, rectification)));
    let rule = rules::RAdam { lr, betas, eps, weight_decay, shrink, maximize, correction1, adaptive };
    let (kept, names) = ([exp_avgs, exp_avg_sqs], ["exp_avgs", "exp_avg_sqs"]);
    alike("fused_radam_kernel", rule, self_, grads, &kept, &names)
}

/// `flambeau::_fused_rmsprop_`
pub fn fused_rmsprop_(
    self_: &[Tensor],
    grads: &[Tensor],
    square_avgs: &[Tensor],
    grad_avgs: &[Tensor],
    momentum_buffer_list: &[Tensor],
    lr: f64,
    alpha: f64,
    eps: f64,
    weight_decay: f64,
    momentum: f64,
    centered: bool,
    maximize: bool,
) -> Result<()> {
    given_if(centered, "grad_avgs", grad_avgs, self_)?;
    given_if(momentum > 0.0, "momentum_buffer_list", momentum_buffer_list, self_)?;
    let rule = rules::RMSprop { lr, alpha, eps, weight_decay, momentum, centered, maximize };
    let second = if centered { grad_avgs } else { momentum_buffer_list };
    let kept = [square_avgs, second, momentum_buffer_list];
    let kept = &kept[..1 + centered as usize + (momentum > 0.0) as usize];
    alike("fused_rmsprop_kernel", rule, self_, grads, kept, &["square_avgs"])
}

/// `flambeau::_fused_rprop_`
pub fn fused_rprop_(
    self_: &[Tensor],
    grads: &[Tensor],
    prevs: &[Tensor],
    step_sizes: &[Tensor],
    etaminus: f64,
    etaplus: f64,
    step_size_min: f64,
    step_size_max: f64,
    maximize: bool,
) -> Result<()> {
    let (etas, sizes) = ((etaminus, etaplus), (step_size_min, step_size_max));
    let rule = rules::Rprop { etas, step_sizes: sizes, maximize };
    let (kept, names) = ([prevs, step_sizes], ["prevs", "step_sizes"]);
    alike("fused_rprop_kernel", rule, self_, grads, &kept, &names)
}

/// Copies for the functional forms; their gradients end here.
pub(crate) fn copies(list: &[Tensor]) -> Result<Vec<Tensor>> {
    list.iter().map(|t| ops::clone(&t.alias_detached(), None)).collect()
}
/// Puts results into the tensors of an `out=` form.
pub(crate) fn into_lists(into: &[Tensor], results: &[Tensor]) -> Result<()> {
    if into.len() != results.len() {
        return Err(unexpected("dst.size() == src.size()"));
    }
    for (o, r) in into.iter().zip(results) {
        if o.sizes() != r.sizes() {
            return Err(Error::missing(
                "outputs of a fused step that have other sizes than their parameters",
            ));
        }
        out::copy_to_out(&OutDtype::EXACT, &mut o.clone(), r)?;
    }
    Ok(())
}
