//! Averages of models over training (`torch.optim.swa_utils`): stochastic weight averaging (Izmailov et al. 2018) and
//! exponential moving averages.

use crate::lr_scheduler::{At, Schedule, Scheduler, schedule};
use crate::optimizer::Optimizer;
use crate::options::Resumed;
use crate::options::number_or_tensor::{Number, PerGroup};
use flambeau_autograd::shorthand::{add, div_scalar, mul_scalar, sub};
use flambeau_core::api::ergonomic::expect;
use flambeau_core::dispatch::value::{FromValue, IntoValue};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::text::PyText;
use flambeau_core::{DType, Device, Result, Scalar, Tensor, Value, ensure, ops};
use flambeau_macros::class;
use flambeau_nn::{
    Base, Buffer, Call, Forward, Module, ModuleExt, RunningStatistics, Tensors, running_statistics,
};
use std::fmt;
use std::sync::Arc;

/// Averages one tensor: the average so far, the model's value, how many went into the average; gives the new average.
pub type AvgFn = Arc<dyn Fn(&Tensor, &Tensor, i64) -> Result<Tensor> + Send + Sync>;
/// Averages tensors of one dtype in place: averages so far, the model's values, how many went into the averages.
pub type MultiAvgFn = Arc<dyn Fn(&[Tensor], &[Tensor], i64) -> Result<()> + Send + Sync>;

/// The equal average: `averaged + (current - averaged) / (count + 1)`.
///
/// ```
/// use torch::optim::swa_utils::get_swa_avg_fn;
/// use torch::tensor;
///
/// // a third value beside a mean of two
/// let mean = get_swa_avg_fn()(&tensor([1.0]), &tensor([4.0]), 2)?;
/// assert_eq!(mean.to_vec::<f32>(), [2.0]);
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.optim.swa_utils.get_swa_avg_fn")]
pub fn get_swa_avg_fn() -> AvgFn {
    Arc::new(|averaged, current, count| add(averaged, &div_scalar(&sub(current, averaged)?, count + 1)?))
}
/// [`get_swa_avg_fn`] over many tensors.
///
/// ```
/// use torch::optim::swa_utils::get_swa_multi_avg_fn;
/// use torch::tensor;
///
/// let mean = [tensor([1.0]), tensor([10.0])];
/// get_swa_multi_avg_fn()(&mean, &[tensor([3.0]), tensor([20.0])], 1)?;
/// assert_eq!((mean[0].item::<f64>(), mean[1].item::<f64>()), (2.0, 15.0));
/// # Ok::<(), torch::Error>(())
/// ```
#[doc(alias = "torch.optim.swa_utils.get_swa_multi_avg_fn")]
pub fn get_swa_multi_avg_fn() -> MultiAvgFn {
    Arc::new(|averaged, current, count| {
        for (a, c) in averaged.iter().zip(current) {
            if a.dtype().is_floating() || a.is_complex() {
                ops::lerp_(a, c, Scalar::Float(1.0 / (count + 1) as f64))?;
            } else {
                // whole numbers move by whole numbers
                let by = ops::trunc(&div_scalar(&sub(c, a)?, count + 1)?)?;
                ops::copy_(a, &add(a, &by)?, false)?;
            }
        }
        Ok(())
    })
}
fn check_decay(decay: f64) -> Result<()> {
    ensure!(
        decay.is_nan() || (0.0..=1.0).contains(&decay),
        Value,
        "Invalid decay value {} provided. Please provide a value in [0,1] range.",
        decay.py_text()
    );
    Ok(())
}
/// The exponential moving average: `decay * average + (1 - decay) * current`.
///
/// ```
/// use torch::optim::swa_utils::get_ema_avg_fn;
/// use torch::tensor;
///
/// let mean = get_ema_avg_fn(0.75)(&tensor([1.0]), &tensor([5.0]), 1)?;
/// assert_eq!(mean.to_vec::<f32>(), [2.0]);
/// # Ok::<(), torch::Error>(())
/// ```
///
/// # Errors
/// A decay outside [0, 1].
#[doc(alias = "torch.optim.swa_utils.get_ema_avg_fn")]
#[flambeau_macros::short]
pub fn try_get_ema_avg_fn(decay: f64) -> Result<AvgFn> {
    check_decay(decay)?;
    Ok(Arc::new(move |ema, current, _| add(&mul_scalar(ema, decay)?, &mul_scalar(current, 1.0 - decay)?)))
}
/// [`get_ema_avg_fn`] over many tensors.
///
/// # Errors
/// A decay outside [0, 1].
#[doc(alias = "torch.optim.swa_utils.get_ema_multi_avg_fn")]
#[flambeau_macros::short]
pub fn try_get_ema_multi_avg_fn(decay: f64) -> Result<MultiAvgFn> {
    check_decay(decay)?;
    Ok(Arc::new(move |ema, current, _| {
        for (e, c) in ema.iter().zip(current) {
            if e.dtype().is_floating() || e.is_complex() {
                ops::lerp_(e, c, Scalar::Float(1.0 - decay))?;
            } else {
                let new = add(&mul_scalar(e, decay)?, &mul_scalar(c, 1.0 - decay)?)?;
                ops::copy_(e, &new, false)?;
            }
        }
        Ok(())
    }))
}

#[derive(Clone, Default)]
enum Rule {
    #[default]
    Equal,
    One(AvgFn),
    Multi(MultiAvgFn),
}
/// How an [`AveragedModel`] averages.
#[derive(Clone, Default)]
pub struct AveragedModelOptions {
    avg_fn: Option<AvgFn>,
    multi_avg_fn: Option<MultiAvgFn>,
    use_buffers: bool,
    device: Option<Device>,
}
impl fmt::Debug for AveragedModelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AveragedModelOptions {{ use_buffers: {} }}", self.use_buffers)
    }
}
impl AveragedModelOptions {
    /// The equal average of parameters; buffers are those of the model.
    pub fn new() -> Self {
        Self::default()
    }
    /// Averages tensor by tensor.
    pub fn avg_fn(mut self, f: AvgFn) -> Self {
        self.avg_fn = Some(f);
        self
    }
    /// Averages all tensors of a dtype at once.
    pub fn multi_avg_fn(mut self, f: MultiAvgFn) -> Self {
        self.multi_avg_fn = Some(f);
        self
    }
    /// Averages buffers too.
    pub fn use_buffers(mut self, on: bool) -> Self {
        self.use_buffers = on;
        self
    }
    /// Where the averages are kept.
    pub fn device(mut self, device: Device) -> Self {
        self.device = Some(device);
        self
    }
    /// Averages of `model`, in a copy of it. Panics with the error's text.
    #[track_caller]
    pub fn build<M: Module>(self, model: &M) -> AveragedModel<M> {
        expect(self.try_build(model))
    }
    /// [`AveragedModelOptions::build`] with a result.
    ///
    /// # Errors
    /// Two averaging functions; a model that cannot be copied ([`Module::try_deepcopy`]).
    pub fn try_build<M: Module>(self, model: &M) -> Result<AveragedModel<M>> {
        self.try_build_in(model.try_deepcopy()?, model)
    }
    /// Averages of `model` in `module`, a second model of the same shape, which takes over the first one's values: for
    /// models that cannot be copied.
    ///
    /// # Errors
    /// Two averaging functions; a second model of another shape.
    pub fn try_build_in<M: Module>(self, mut module: M, model: &dyn Module) -> Result<AveragedModel<M>> {
        ensure!(
            self.avg_fn.is_none() || self.multi_avg_fn.is_none(),
            Assertion,
            "Only one of avg_fn and multi_avg_fn should be provided"
        );
        if let Some(d) = self.device {
            module.try_convert(d.into())?;
        }
        let _no_grad = flambeau_autograd::no_grad_guard();
        let pairs = tensors(&module, true).into_iter().zip(tensors(model, true));
        ensure!(
            tensors(&module, true).len() == tensors(model, true).len(),
            Value,
            "AveragedModel: the second model is not of the first one's shape"
        );
        for (to, from) in pairs {
            ops::copy_(&to, &from, false)?;
        }
        let count = Tensor::zeros_raw(&[], DType::I64, self.device.unwrap_or(Device::Cpu))?;
        let rule = match (self.avg_fn, self.multi_avg_fn) {
            (Some(f), _) => Rule::One(f),
            (_, Some(f)) => Rule::Multi(f),
            _ => Rule::Equal,
        };
        let averaging = Averaging { rule, use_buffers: self.use_buffers };
        Ok(AveragedModel { base: Base::new(), n_averaged: Buffer::new(count), module, averaging })
    }
}
/// The way of averaging, which is no part of the state.
#[derive(Clone)]
struct Averaging {
    rule: Rule,
    use_buffers: bool,
}
impl fmt::Debug for Averaging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Averaging")
    }
}

/// Parameters, and buffers if asked for, apart from their graphs.
fn tensors(m: &dyn Module, buffers: bool) -> Vec<Tensor> {
    let mut out: Vec<Tensor> = m.parameters().iter().map(|p| p.alias_detached()).collect();
    if buffers {
        out.extend(m.buffers().iter().map(|b| b.alias_detached()));
    }
    out
}

/// A second model that holds averages of a first one's parameters.
///
/// The second model is a copy of the first ([`Module::deepcopy`]), or, where that cannot be copied, one that the program
/// made ([`AveragedModelOptions::try_build_in`]). The state dict is PyTorch's: `n_averaged` and `module.*`.
///
/// ```
/// use torch::nn::{Linear, Module};
/// use torch::optim::swa_utils::{AveragedModelOptions, get_ema_multi_avg_fn};
///
/// let model = Linear::new(2, 1);
/// let options = AveragedModelOptions::new().multi_avg_fn(get_ema_multi_avg_fn(0.9));
/// let averaged = options.build(&model);
/// averaged.update_parameters(&model);
/// assert_eq!(averaged.module.weight.to_vec::<f32>(), model.weight.to_vec::<f32>());
/// assert_eq!(averaged.state_dict().keys().next(), Some("n_averaged"));
/// ```
#[derive(Debug, Module)]
#[doc(alias = "torch.optim.swa_utils.AveragedModel")]
pub struct AveragedModel<M: Module> {
    base: Base,
    /// How many models went into the averages.
    pub n_averaged: Buffer,
    /// The averages.
    pub module: M,
    #[module(skip)]
    averaging: Averaging,
}
impl<M: Module> AveragedModel<M> {
    /// The equal average, in a copy of the model. Panics with the error's text.
    #[track_caller]
    pub fn new(model: &M) -> Self {
        AveragedModelOptions::new().build(model)
    }
    /// Takes the model's present values into the averages; the first time they are copied. Panics with the error's text.
    #[track_caller]
    #[doc(alias = "torch.optim.swa_utils.AveragedModel.update_parameters")]
    pub fn update_parameters(&self, model: &dyn Module) {
        expect(self.try_update_parameters(model));
    }
    /// [`AveragedModel::update_parameters`] with a result.
    ///
    /// # Errors
    /// A model of another shape; those of the averaging function.
    pub fn try_update_parameters(&self, model: &dyn Module) -> Result<()> {
        let _no_grad = flambeau_autograd::no_grad_guard();
        let buffers = self.averaging.use_buffers;
        let (own, theirs) = (tensors(&self.module, buffers), tensors(model, buffers));
        ensure!(
            own.len() == theirs.len() && self.module.buffers().len() == model.buffers().len(),
            Value,
            "AveragedModel: the model is not of the averages' shape"
        );
        let theirs = theirs.into_iter().zip(&own);
        let theirs = theirs.map(|(t, o)| if t.device() == o.device() { Ok(t) } else { moved(&t, o) });
        let theirs: Vec<Tensor> = theirs.collect::<Result<_>>()?;
        let count: i64 = self.n_averaged.try_item()?;
        if count == 0 {
            own.iter().zip(&theirs).try_for_each(|(o, t)| ops::copy_(o, t, false))?;
        } else {
            match &self.averaging.rule {
                Rule::One(f) => {
                    for (o, t) in own.iter().zip(&theirs) {
                        ops::copy_(o, &f(o, t, count)?, false)?;
                    }
                }
                Rule::Multi(f) => by_dtype(&own, &theirs, |o, t| f(o, t, count))?,
                Rule::Equal => by_dtype(&own, &theirs, |o, t| get_swa_multi_avg_fn()(o, t, count))?,
            }
        }
        if !buffers {
            // not averaged, so those of the model
            for (o, t) in self.module.buffers().iter().zip(model.buffers()) {
                ops::copy_(&o.alias_detached(), &t.alias_detached(), false)?;
            }
        }
        ops::add_(&self.n_averaged, &flambeau_autograd::shorthand::number(1i64)?, Scalar::Int(1))
    }
}
fn moved(t: &Tensor, like: &Tensor) -> Result<Tensor> {
    ops::to(t, None, None, Some(like.device()), None, false, false, None)
}
/// Calls `f` once per dtype.
fn by_dtype(own: &[Tensor], theirs: &[Tensor], f: impl Fn(&[Tensor], &[Tensor]) -> Result<()>) -> Result<()> {
    let mut dtypes: Vec<DType> = Vec::new();
    own.iter().for_each(|t| {
        if !dtypes.contains(&t.dtype()) {
            dtypes.push(t.dtype())
        }
    });
    for d in dtypes {
        let pick = |l: &[Tensor]| -> Vec<Tensor> {
            l.iter().zip(own).filter(|(_, o)| o.dtype() == d).map(|(t, _)| t.clone()).collect()
        };
        f(&pick(own), &pick(theirs))?;
    }
    Ok(())
}
impl<O: Tensors, M: Module + for<'a> Forward<&'a Tensor, Output = O>> Forward<&Tensor> for AveragedModel<M> {
    type Output = O;
    fn forward(&self, x: &Tensor) -> O {
        self.module.call(x)
    }
    fn try_forward(&self, x: &Tensor) -> Result<O> {
        self.module.try_call(x)
    }
}

/// Calls `f` with each batch normalisation's statistics; gives their number.
fn each_batch_norm(m: &dyn Module, f: &mut dyn FnMut(&dyn RunningStatistics) -> Result<()>) -> Result<usize> {
    let (mut count, mut result) = (0, Ok(()));
    m.apply(|m| {
        if let Some(s) = running_statistics(m).filter(|_| result.is_ok()) {
            count += 1;
            result = f(s);
        }
    });
    result.map(|()| count)
}
/// A batch whose first tensor is the model's input: a tensor, or a tuple or list that begins with one.
///
/// ```
/// use torch::optim::swa_utils::BatchInput;
/// use torch::{Tensor, tensor};
///
/// let input = |batch: (Tensor, Tensor)| batch.input().item::<f64>();
/// assert_eq!(input((tensor(1.0), tensor(2.0))), 1.0);
/// assert_eq!(vec![tensor(3.0), tensor(4.0)].input().item::<f64>(), 3.0);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no first tensor for the model",
    label = "a tensor, or a tuple or list of which the first is a tensor, is wanted here",
    note = "other batches: `update_bn(loader.iter().map(|batch| batch.images), &model)`"
)]
pub trait BatchInput {
    /// The input. An empty list panics.
    fn input(self) -> Tensor;
}
impl BatchInput for Tensor {
    fn input(self) -> Tensor {
        self
    }
}
impl BatchInput for &Tensor {
    fn input(self) -> Tensor {
        self.clone()
    }
}
impl BatchInput for Vec<Tensor> {
    #[track_caller]
    fn input(mut self) -> Tensor {
        self.swap_remove(0)
    }
}
macro_rules! tuples {
    ($($($other:ident)*;)*) => {$(
        impl<$($other),*> BatchInput for (Tensor, $($other,)*) {
            fn input(self) -> Tensor {
                self.0
            }
        }
    )*};
}
tuples! { ; A; A B; A B C; A B C D; A B C D E; }

/// Computes the running statistics of the model's batch normalisations anew, by one pass over data. Panics with the
/// error's text.
///
/// ```
/// use torch::Tensor;
/// use torch::nn::BatchNorm1d;
/// use torch::optim::swa_utils::update_bn;
///
/// let norm = BatchNorm1d::new(1);
/// let batch = |v: &[f32]| Tensor::from_slice(v, [v.len() as i64, 1]);
/// update_bn([batch(&[1.0, 3.0]), batch(&[5.0, 7.0])], &norm);
/// // the mean over all, not one that forgets
/// assert_eq!(norm.running_mean.as_ref().unwrap().to_vec::<f32>(), [4.0]);
/// // a loader's batches with their targets will do
/// update_bn([(batch(&[0.0, 2.0]), batch(&[0.0, 1.0]))], &norm);
/// assert_eq!(norm.running_mean.as_ref().unwrap().to_vec::<f32>(), [1.0]);
/// ```
#[track_caller]
#[doc(alias = "torch.optim.swa_utils.update_bn")]
pub fn update_bn<M, O: Tensors>(loader: impl IntoIterator<Item: BatchInput>, model: &M)
where
    M: Module + for<'a> Forward<&'a Tensor, Output = O>,
{
    expect(try_update_bn(loader, model, None));
}
/// [`update_bn`] with a result, moving each batch to a device first.
///
/// # Errors
/// Statistics that are borrowed; those of the model, which then goes on as before.
pub fn try_update_bn<M, O: Tensors>(
    loader: impl IntoIterator<Item: BatchInput>,
    model: &M,
    device: Option<Device>,
) -> Result<()>
where
    M: Module + for<'a> Forward<&'a Tensor, Output = O>,
{
    let batches = loader.into_iter().map(|batch| Ok(batch.input()));
    update_statistics(model, batches, device, &|batch| model.try_call(&batch).map(|_| ()))
}
/// [`try_update_bn`] with a model that `call` runs.
pub(crate) fn update_statistics(
    model: &dyn Module,
    batches: impl Iterator<Item = Result<Tensor>>,
    device: Option<Device>,
    call: &dyn Fn(Tensor) -> Result<()>,
) -> Result<()> {
    let _no_grad = flambeau_autograd::no_grad_guard();
    let cumulative = |on: bool| {
        each_batch_norm(model, &mut |s| {
            s.set_cumulative(on);
            Ok(())
        })
    };
    if each_batch_norm(model, &mut |s| s.restart())? == 0 {
        return Ok(());
    }
    cumulative(true)?;
    let training = model.is_training();
    model.train();
    let mut batches = batches;
    let passed = batches.try_for_each(|batch| {
        let batch = batch?;
        call(match device {
            Some(d) if d != batch.device() => ops::to(&batch, None, None, Some(d), None, false, false, None)?,
            _ => batch,
        })
    });
    cumulative(false)?;
    model.set_training(training);
    passed
}

#[class("torch.optim.swa_utils.SWALR", make = crate::by_name::scheduler::<SWALROptions>, include(Resumed))]
pub struct SWALROptions {
    /// Learning rate at the end.
    pub swa_lr: PerGroup,
    /// Steps until then.
    #[default(10)]
    pub anneal_epochs: Number,
    /// `"cos"` or `"linear"`.
    #[default("cos")]
    pub anneal_strategy: String,
}
/// Moves the learning rates to a constant one for weight averaging (Izmailov et al. 2018).
///
/// ```
/// use torch::Tensor;
/// use torch::nn::Parameter;
/// use torch::optim::lr_scheduler::LRScheduler;
/// use torch::optim::swa_utils::SWALROptions;
/// use torch::optim::{Optimizer, SGD};
///
/// let w = Parameter::new(Tensor::from_slice(&[1f32], 1));
/// let mut optimizer = SGD::new([&w], 1.0);
/// let options = SWALROptions::new(0.5).anneal_epochs(2).anneal_strategy("linear");
/// let mut schedule = options.build(&mut optimizer);
/// schedule.step(&mut optimizer);
/// assert_eq!(optimizer.lr(0), 0.75);
/// ```
pub type SWALR = Scheduler<SWALROptions>;
schedule!(SWALR, SWALROptions, (swa_lr: PerGroup));
impl SWALROptions {
    fn part(&self, step: i64) -> f64 {
        let t = (step as f64 / self.anneal_epochs.value().max(1.0)).clamp(0.0, 1.0);
        if self.anneal_strategy == "cos" { (1.0 - (std::f64::consts::PI * t).cos()) / 2.0 } else { t }
    }
}
impl Schedule for SWALROptions {
    fn start(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        for (g, lr) in self.swa_lr.of(optimizer.group_count(), "swa_lr")?.into_iter().enumerate() {
            optimizer.set_option(g, "swa_lr", lr.into_value())?;
        }
        ensure!(
            matches!(self.anneal_strategy.as_str(), "cos" | "linear"),
            Value,
            "anneal_strategy must be one of 'cos' or 'linear', instead got {}",
            self.anneal_strategy
        );
        ensure!(
            matches!(self.anneal_epochs, Number::Plain(Scalar::Int(n)) if n >= 0),
            Value,
            "anneal_epochs must be equal or greater than 0, got {}",
            self.anneal_epochs.py_text()
        );
        Ok(())
    }
    fn resume_from(&self) -> i64 {
        self.last_epoch
    }
    fn lrs(&mut self, at: At<'_>) -> Result<Vec<f64>> {
        let mut step = at.step_count - 1;
        if self.anneal_epochs.value() == 0.0 {
            step = step.max(1);
        }
        let (before, now) = (self.part(step - 1), self.part(step));
        let one = |(g, lr): (usize, &f64)| {
            let end = at.optimizer.option_value(g, "swa_lr").unwrap_or(*lr);
            let start = if before == 1.0 { end } else { (lr - before * end) / (1.0 - before) };
            end * now + start * (1.0 - now)
        };
        Ok(at.current.iter().enumerate().map(one).collect())
    }
    fn entries(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("_anneal_strategy", Value::Str(self.anneal_strategy.clone())),
            ("anneal_epochs", self.anneal_epochs.clone().into_value()),
        ]
    }
    fn load(&mut self, name: &str, v: &Value) -> Result<()> {
        match name {
            "_anneal_strategy" => self.anneal_strategy = String::from_value(v)?,
            "anneal_epochs" => self.anneal_epochs = Number::from_value(v)?,
            _ => {}
        }
        Ok(())
    }
}
