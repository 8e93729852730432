//! Scaling of losses, so that gradients in float16 are not lost below its smallest number.

use crate::ops;
use flambeau_autograd::no_grad;
use flambeau_core::api::ergonomic::{TensorList, expect};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::settings::determinism::warn;
use flambeau_core::tensor::sparse::Parts;
use flambeau_core::{DType, Device, Error, ErrorKind, Result, Scalar, Tensor, bail, ensure, ops as core};
use flambeau_optim::Optimizer;
use flambeau_serialization::tensors::dict;
use flambeau_serialization::{ToTree, Tree};
use std::collections::HashMap;

/// Arguments of [`GradScaler`].
#[derive(Clone, Debug)]
pub struct GradScalerOptions {
    device: String,
    init_scale: f64,
    growth_factor: f64,
    backoff_factor: f64,
    growth_interval: i64,
    enabled: bool,
}
impl Default for GradScalerOptions {
    fn default() -> Self {
        GradScalerOptions {
            device: "cuda".into(),
            init_scale: 65536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
            enabled: true,
        }
    }
}
impl GradScalerOptions {
    /// The documented defaults.
    pub fn new() -> Self {
        Self::default()
    }
    /// Type of the devices that gradients are on: `cuda` (the default) or `cpu`. Without CUDA a scaler for it is disabled.
    pub fn device(mut self, device: impl Into<String>) -> Self {
        self.device = device.into();
        self
    }
    /// The first scale: 65536 by default.
    pub fn init_scale(mut self, scale: f64) -> Self {
        self.init_scale = scale;
        self
    }
    /// What the scale is multiplied by after `growth_interval` steps without infinite gradients: 2 by default.
    pub fn growth_factor(mut self, factor: f64) -> Self {
        self.growth_factor = factor;
        self
    }
    /// What the scale is multiplied by after infinite gradients: 0.5 by default.
    pub fn backoff_factor(mut self, factor: f64) -> Self {
        self.backoff_factor = factor;
        self
    }
    /// Steps without infinite gradients before the scale grows: 2000 by default.
    pub fn growth_interval(mut self, steps: i64) -> Self {
        self.growth_interval = steps;
        self
    }
    /// Whether it does anything: a disabled scaler hands losses through and steps as usual.
    pub fn enabled(mut self, on: bool) -> Self {
        self.enabled = on;
        self
    }
    /// The scaler.
    ///
    /// # Panics
    /// Factors on the wrong side of 1.
    #[track_caller]
    pub fn build(self) -> GradScaler {
        expect(self.try_build())
    }
    /// [`GradScalerOptions::build`] with an error instead of a panic.
    ///
    /// # Errors
    /// As there.
    pub fn try_build(self) -> Result<GradScaler> {
        let mut enabled = self.enabled;
        if enabled && self.device == "cuda" && flambeau_core::backend::of(Device::Cuda(0)).is_err() {
            warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.");
            enabled = false;
        }
        if enabled {
            asserted(self.growth_factor > 1.0, "The growth factor must be > 1.0.")?;
            asserted(self.backoff_factor < 1.0, "The backoff factor must be < 1.0.")?;
        }
        let options = GradScalerOptions { enabled, ..self };
        Ok(GradScaler { options, growth_tracker: 0, scale: None, optimizers: HashMap::new() })
    }
}
fn asserted(holds: bool, text: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::new(ErrorKind::Assertion, text)) }
}

/// What was done for an optimizer since the last update.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Stage {
    #[default]
    Ready,
    Unscaled,
    Stepped,
}
#[derive(Clone, Default, Debug)]
struct OptimizerState {
    stage: Stage,
    /// One tensor a device: 1 where a gradient was not finite.
    found_inf: Vec<(Device, Tensor)>,
}

/// Scales losses, so that small gradients survive in float16, and takes the scale out of the gradients before the step.
/// Where a gradient became infinite the step is left out and the scale shrinks; after many steps without, it grows.
///
/// ```
/// use torch::amp::GradScaler;
/// use torch::prelude::*;
/// use torch::{nn, optim};
/// let model = nn::Linear::new(4, 1);
/// let mut optimizer = optim::SGD::new(model.parameters(), 0.1);
/// let mut scaler = GradScaler::new("cpu");
/// let x = torch::ones([8, 4]);
/// for _ in 0..3 {
///     optimizer.zero_grad();
///     let loss = torch::autocast("cpu", || model.call(&x).square().mean());
///     scaler.scale(&loss).backward();
///     scaler.step(&mut optimizer);
///     scaler.update();
/// }
/// assert_eq!(scaler.get_scale(), 65536.0);
/// ```
///
/// Optimizers with `fused` take the scale and the mark of infinite gradients into their step.
#[doc(alias = "torch.GradScaler")]
#[doc(alias = "torch.amp.GradScaler")]
#[doc(alias = "torch.cpu.amp.GradScaler")]
#[doc(alias = "torch.cuda.amp.GradScaler")]
#[derive(Clone, Debug)]
pub struct GradScaler {
    options: GradScalerOptions,
    growth_tracker: i64,
    /// The scale and the count of steps, on the device of the first loss.
    scale: Option<(Tensor, Tensor)>,
    /// By the identity of an optimizer's hooks, which moves with it.
    optimizers: HashMap<usize, OptimizerState>,
}

fn number(v: f64, dtype: DType, device: Device) -> Result<Tensor> {
    core::full(&[], Scalar::Float(v), Some(dtype), None, Some(device), None)
}
fn on(t: &Tensor, device: Device) -> Result<Tensor> {
    if t.device() == device {
        Ok(t.clone())
    } else {
        core::to(t, None, None, Some(device), None, false, true, None)
    }
}

/// Scaled losses of [`GradScaler::state_dict`].
///
/// ```
/// use torch::amp::{GradScaler, ScalerState};
/// let mut scaler = GradScaler::new("cpu");
/// let state: ScalerState = scaler.state_dict().expect("it is enabled");
/// scaler.load_state_dict(ScalerState { scale: 8.0, ..state });
/// assert_eq!(scaler.get_scale(), 8.0);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ScalerState {
    /// The scale.
    pub scale: f64,
    /// See [`GradScalerOptions::growth_factor`].
    pub growth_factor: f64,
    /// See [`GradScalerOptions::backoff_factor`].
    pub backoff_factor: f64,
    /// See [`GradScalerOptions::growth_interval`].
    pub growth_interval: i64,
    /// Steps without infinite gradients so far.
    pub growth_tracker: i64,
}

impl ScalerState {
    /// The state in what `torch::load` gives; `None` of a disabled scaler.
    ///
    /// # Errors
    /// Other values than a dictionary with the five numbers.
    pub fn from_tree(tree: &Tree<Tensor>) -> Result<Option<ScalerState>> {
        match tree.entries() {
            None if matches!(tree, Tree::None) => return Ok(None),
            None => bail!(Value, "a GradScaler's state is a dictionary"),
            Some([]) => return Ok(None),
            Some(_) => (),
        }
        let no_number = |name: &str| Error::value(format!("a GradScaler's state has the number '{name}'"));
        let float = |name: &str| tree.get(name).and_then(Tree::as_f64).ok_or_else(|| no_number(name));
        let int = |name: &str| tree.get(name).and_then(Tree::as_i64).ok_or_else(|| no_number(name));
        Ok(Some(ScalerState {
            scale: float("scale")?,
            growth_factor: float("growth_factor")?,
            backoff_factor: float("backoff_factor")?,
            growth_interval: int("growth_interval")?,
            growth_tracker: int("_growth_tracker")?,
        }))
    }
}
/// PyTorch's dictionary, so that a scaler goes into a checkpoint beside its optimizer.
impl ToTree for ScalerState {
    fn to_tree(&self) -> Tree<Tensor> {
        dict([
            ("scale", &self.scale as &dyn ToTree),
            ("growth_factor", &self.growth_factor),
            ("backoff_factor", &self.backoff_factor),
            ("growth_interval", &self.growth_interval),
            ("_growth_tracker", &self.growth_tracker),
        ])
    }
}
/// What [`GradScaler::load_state_dict`] takes: a state, or what `torch::load` gives.
///
/// ```
/// use torch::amp::GradScaler;
/// use torch::serialization::ToTree;
/// let mut scaler = GradScaler::new("cpu");
/// let state = scaler.state_dict();
/// scaler.load_state_dict(state);
/// scaler.load_state_dict(&state.unwrap().to_tree());
/// assert_eq!(scaler.state_dict(), state);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no state of a scaler",
    label = "the state of a scaler is wanted here",
    note = "`scaler.state_dict()`, or a part of a loaded checkpoint: `&checkpoint[\"scaler\"]`"
)]
pub trait IntoScalerState {
    /// The state; `None` of a disabled scaler.
    ///
    /// # Errors
    /// A loaded value that is no such state.
    fn into_scaler_state(self) -> Result<Option<ScalerState>>;
}
impl IntoScalerState for Option<ScalerState> {
    fn into_scaler_state(self) -> Result<Option<ScalerState>> {
        Ok(self)
    }
}
impl IntoScalerState for ScalerState {
    fn into_scaler_state(self) -> Result<Option<ScalerState>> {
        Ok(Some(self))
    }
}
impl IntoScalerState for &Tree<Tensor> {
    fn into_scaler_state(self) -> Result<Option<ScalerState>> {
        ScalerState::from_tree(self)
    }
}

impl GradScaler {
    /// With PyTorch's defaults, for gradients on devices of a type.
    #[track_caller]
    pub fn new(device: &str) -> GradScaler {
        GradScalerOptions::new().device(device).build()
    }
    /// Whether it does anything.
    #[doc(alias = "torch.cuda.amp.GradScaler.is_enabled")]
    pub fn is_enabled(&self) -> bool {
        self.options.enabled
    }
    fn begun(&self, what: &str) -> Result<&(Tensor, Tensor)> {
        self.scale.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Assertion,
                format!(
                    "Attempted {what} but _scale is None.  This may indicate your script did not use scaler.scale(loss or \
                     outputs) earlier in the iteration."
                ),
            )
        })
    }
    fn scale_on(&mut self, device: Device) -> Result<Tensor> {
        if self.scale.is_none() {
            let tracker = core::full(
                &[],
                Scalar::Int(self.growth_tracker),
                Some(DType::I32),
                None,
                Some(device),
                None,
            )?;
            self.scale = Some((number(self.options.init_scale, DType::F32, device)?, tracker));
        }
        on(&self.begun("scale")?.0, device)
    }
    /// A loss times the scale. Panics if memory lacks.
    #[track_caller]
    #[doc(alias = "torch.cuda.amp.GradScaler.scale")]
    pub fn scale(&mut self, loss: &Tensor) -> Tensor {
        expect(self.try_scale(loss))
    }
    /// [`GradScaler::scale`] with an error instead of a panic.
    ///
    /// # Errors
    /// No memory; a device that is not there.
    pub fn try_scale(&mut self, loss: &Tensor) -> Result<Tensor> {
        if !self.is_enabled() {
            return Ok(loss.clone());
        }
        core::mul(loss, &self.scale_on(loss.device())?)
    }
    /// Several losses times the scale, each on its own device: PyTorch's `scale` of a list. Panics if memory lacks.
    #[track_caller]
    #[doc(alias = "torch.cuda.amp.GradScaler.scale")]
    pub fn scale_all(&mut self, losses: impl TensorList) -> Vec<Tensor> {
        expect(self.try_scale_all(losses))
    }
    /// [`GradScaler::scale_all`] with an error instead of a panic.
    ///
    /// # Errors
    /// As [`GradScaler::try_scale`].
    pub fn try_scale_all(&mut self, losses: impl TensorList) -> Result<Vec<Tensor>> {
        losses.tensor_list().iter().map(|l| self.try_scale(l)).collect()
    }
    /// Takes the scale out of the gradients of an optimizer's parameters, so that they can be clipped or looked at before the
    /// step, which then leaves them alone.
    #[track_caller]
    #[doc(alias = "torch.cuda.amp.GradScaler.unscale_")]
    pub fn unscale_(&mut self, optimizer: &mut dyn Optimizer) {
        expect(self.try_unscale_(optimizer));
    }
    /// [`GradScaler::unscale_`] with an error instead of a panic.
    ///
    /// # Errors
    /// No loss was scaled yet; the second time since the last update, or after the step; gradients in float16.
    pub fn try_unscale_(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        if !self.is_enabled() {
            return Ok(());
        }
        let scale = self.begun("unscale_")?.0.clone();
        let id = optimizer.hooks().id();
        match self.optimizers.get(&id).map(|s| s.stage).unwrap_or_default() {
            Stage::Ready => {}
            Stage::Unscaled => {
                bail!(
                    Runtime,
                    "unscale_() has already been called on this optimizer since the last update()."
                )
            }
            Stage::Stepped => bail!(Runtime, "unscale_() is being called after step()."),
        }
        let inverse = (1.0 / f64::from(scale.try_item::<f32>()?)) as f32;
        let found_inf = unscale(optimizer, f64::from(inverse), scale.device(), false)?;
        self.optimizers.insert(id, OptimizerState { stage: Stage::Unscaled, found_inf });
        Ok(())
    }
    /// A step of an optimizer with the scale taken out of its gradients, unless one of them is not finite.
    #[track_caller]
    #[doc(alias = "torch.cuda.amp.GradScaler.step")]
    pub fn step(&mut self, optimizer: &mut dyn Optimizer) {
        expect(self.try_step(optimizer));
    }
    /// [`GradScaler::step`] with an error instead of a panic.
    ///
    /// # Errors
    /// No loss was scaled yet, the second step since the last update, no parameter with a gradient; those of
    /// [`GradScaler::try_unscale_`] and of the step.
    pub fn try_step(&mut self, optimizer: &mut dyn Optimizer) -> Result<()> {
        if !self.is_enabled() {
            return optimizer.try_step();
        }
        let scale = self.begun("step")?.0.clone();
        let id = optimizer.hooks().id();
        let stage = self.optimizers.get(&id).map(|s| s.stage).unwrap_or_default();
        ensure!(stage != Stage::Stepped, Runtime, "step() has already been called since the last update().");
        if optimizer.supports_scaling() {
            if stage == Stage::Ready {
                // the step takes the scale out itself: gradients are only looked at
                let found_inf = unscale(optimizer, 1.0, scale.device(), true)?;
                self.optimizers.insert(id, OptimizerState { stage, found_inf });
            }
            let found = self.found(id)?;
            let all = number(if found { 1.0 } else { 0.0 }, DType::F32, scale.device())?;
            optimizer.try_step_scaled((stage == Stage::Ready).then_some(&scale), &all)?;
        } else {
            if stage == Stage::Ready {
                self.try_unscale_(optimizer)?;
            }
            let none = self.optimizers.get(&id).is_none_or(|s| s.found_inf.is_empty());
            asserted(!none, "No inf checks were recorded for this optimizer.")?;
            if !self.found(id)? {
                optimizer.try_step()?;
            }
        }
        self.optimizers.entry(id).or_default().stage = Stage::Stepped;
        Ok(())
    }
    /// Whether a gradient of this optimizer was not finite.
    fn found(&self, id: usize) -> Result<bool> {
        let all = self.optimizers.get(&id).map_or(&[][..], |s| &s.found_inf);
        all.iter().try_fold(false, |found, (_, t)| Ok(found | (t.try_item::<f32>()? != 0.0)))
    }
    /// The scale of the next iteration, once all optimizers have made their step.
    #[track_caller]
    #[doc(alias = "torch.cuda.amp.GradScaler.update")]
    pub fn update(&mut self) {
        expect(self.try_update());
    }
    /// [`GradScaler::update`] with an error instead of a panic.
    ///
    /// # Errors
    /// No loss was scaled, or no gradients were checked.
    pub fn try_update(&mut self) -> Result<()> {
        if !self.is_enabled() {
            return Ok(());
        }
        let (scale, tracker) = self.begun("update")?.clone();
        let found = self.optimizers.values().flat_map(|s| &s.found_inf).map(|f| on(&f.1, scale.device()));
        let found = found.collect::<Result<Vec<_>>>()?;
        let Some((first, rest)) = found.split_first() else {
            return asserted(false, "No inf checks were recorded prior to update.");
        };
        let all = rest.iter().try_fold(first.clone(), |all, f| core::add(&all, f, Scalar::Int(1)))?;
        let o = &self.options;
        ops::amp_update_scale_(&scale, &tracker, &all, o.growth_factor, o.backoff_factor, o.growth_interval)?;
        self.optimizers.clear();
        Ok(())
    }
    /// Sets the scale by hand, in the place of [`GradScaler::update`].
    ///
    /// # Errors
    /// No loss was scaled yet.
    pub fn try_update_to(&mut self, scale: f64) -> Result<()> {
        if !self.is_enabled() {
            return Ok(());
        }
        core::fill_(&self.begun("update")?.0, Scalar::Float(scale))?;
        self.optimizers.clear();
        Ok(())
    }
    /// Sets the scale from a tensor of one element.
    ///
    /// # Errors
    /// No loss was scaled yet; a tensor of several elements, on devices of another type, or that requires a gradient.
    pub fn try_update_from(&mut self, scale: &Tensor) -> Result<()> {
        if !self.is_enabled() {
            return Ok(());
        }
        let own = self.begun("update")?.0.clone();
        let fits =
            scale.device().kind() == self.options.device && scale.numel() == 1 && !scale.requires_grad();
        asserted(
            fits,
            "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with requires_grad=False.",
        )?;
        core::copy_(&own, &core::reshape(scale, &[])?, false)?;
        self.optimizers.clear();
        Ok(())
    }
    /// The scale; 1 of a disabled scaler.
    #[track_caller]
    #[doc(alias = "torch.cuda.amp.GradScaler.get_scale")]
    pub fn get_scale(&self) -> f64 {
        expect(self.try_get_scale())
    }
    /// [`GradScaler::get_scale`] with an error instead of a panic.
    ///
    /// # Errors
    /// The scale's tensor is borrowed.
    pub fn try_get_scale(&self) -> Result<f64> {
        match &self.scale {
            _ if !self.is_enabled() => Ok(1.0),
            None => Ok(self.options.init_scale),
            Some((scale, _)) => scale.try_item::<f64>(),
        }
    }
    /// See [`GradScalerOptions::growth_factor`].
    #[doc(alias = "torch.cuda.amp.GradScaler.get_growth_factor")]
    pub fn get_growth_factor(&self) -> f64 {
        self.options.growth_factor
    }
    /// Sets it.
    #[doc(alias = "torch.cuda.amp.GradScaler.set_growth_factor")]
    pub fn set_growth_factor(&mut self, factor: f64) {
        self.options.growth_factor = factor;
    }
    /// See [`GradScalerOptions::backoff_factor`].
    #[doc(alias = "torch.cuda.amp.GradScaler.get_backoff_factor")]
    pub fn get_backoff_factor(&self) -> f64 {
        self.options.backoff_factor
    }
    /// Sets it.
    #[doc(alias = "torch.cuda.amp.GradScaler.set_backoff_factor")]
    pub fn set_backoff_factor(&mut self, factor: f64) {
        self.options.backoff_factor = factor;
    }
    /// See [`GradScalerOptions::growth_interval`].
    #[doc(alias = "torch.cuda.amp.GradScaler.get_growth_interval")]
    pub fn get_growth_interval(&self) -> i64 {
        self.options.growth_interval
    }
    /// Sets it.
    #[doc(alias = "torch.cuda.amp.GradScaler.set_growth_interval")]
    pub fn set_growth_interval(&mut self, steps: i64) {
        self.options.growth_interval = steps;
    }
    /// What training goes on from; `None` of a disabled scaler, whose dictionary is empty in PyTorch.
    #[track_caller]
    #[doc(alias = "torch.cuda.amp.GradScaler.state_dict")]
    pub fn state_dict(&self) -> Option<ScalerState> {
        expect(self.try_state_dict())
    }
    /// [`GradScaler::state_dict`] with an error instead of a panic.
    ///
    /// # Errors
    /// A tensor of the scaler is borrowed.
    pub fn try_state_dict(&self) -> Result<Option<ScalerState>> {
        if !self.is_enabled() {
            return Ok(None);
        }
        let growth_tracker = match &self.scale {
            Some((_, t)) => i64::from(t.try_item::<i32>()?),
            None => self.growth_tracker,
        };
        Ok(Some(ScalerState {
            scale: self.try_get_scale()?,
            growth_factor: self.options.growth_factor,
            backoff_factor: self.options.backoff_factor,
            growth_interval: self.options.growth_interval,
            growth_tracker,
        }))
    }
    /// Takes over a state, or what was loaded of one (`&checkpoint["scaler"]`); that of a disabled scaler is an error, unless this one is
    /// disabled too.
    ///
    /// ```
    /// use torch::amp::GradScaler;
    /// use torch::serialization::ToTree;
    ///
    /// let mut scaler = GradScaler::new("cpu");
    /// let saved = scaler.state_dict().to_tree();       // what torch::save writes and torch::load gives
    /// scaler.load_state_dict(&saved)?;
    /// assert_eq!(saved["scale"].as_f64(), Some(65536.0));
    /// # Ok::<(), torch::Error>(())
    /// ```
    ///
    /// # Errors
    /// As above; a loaded value that is no such state; a tensor of the scaler is borrowed.
    #[doc(alias = "torch.cuda.amp.GradScaler.load_state_dict")]
    pub fn load_state_dict(&mut self, state: impl IntoScalerState) -> Result<()> {
        if !self.is_enabled() {
            return Ok(());
        }
        let Some(s) = state.into_scaler_state()? else {
            bail!(
                Runtime,
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        };
        if let Some((scale, tracker)) = &self.scale {
            core::fill_(scale, Scalar::Float(s.scale))?;
            core::fill_(tracker, Scalar::Int(s.growth_tracker))?;
        }
        let o = &mut self.options;
        (o.init_scale, o.growth_factor, o.backoff_factor) = (s.scale, s.growth_factor, s.backoff_factor);
        o.growth_interval = s.growth_interval;
        self.growth_tracker = s.growth_tracker;
        Ok(())
    }
}

/// Multiplies all gradients of an optimizer by a number; gives for each device whether one was not finite.
fn unscale(
    optimizer: &dyn Optimizer,
    inverse: f64,
    home: Device,
    allow_fp16: bool,
) -> Result<Vec<(Device, Tensor)>> {
    let mut lists: Vec<(Device, DType, Vec<Tensor>)> = Vec::new();
    for group in 0..optimizer.group_count() {
        for p in optimizer.group_params(group) {
            let Some(grad) = p.grad() else { continue };
            ensure!(allow_fp16 || grad.dtype() != DType::F16, Value, "Attempting to unscale FP16 gradients.");
            let grad = if grad.is_sparse_any() { stored(&grad)? } else { grad };
            let (device, dtype) = (grad.device(), grad.dtype());
            match lists.iter_mut().find(|l| (l.0, l.1) == (device, dtype)) {
                Some(l) => l.2.push(grad.alias_detached()),
                None => lists.push((device, dtype, vec![grad.alias_detached()])),
            }
        }
    }
    no_grad(|| {
        let mut found: Vec<(Device, Tensor)> = Vec::new();
        for (device, _, grads) in lists {
            let mark = match found.iter().find(|f| f.0 == device) {
                Some((_, t)) => t.clone(),
                None => {
                    let t = on(&number(0.0, DType::F32, home)?, device)?;
                    found.push((device, t.clone()));
                    t
                }
            };
            let inverse = number(inverse, DType::F32, device)?;
            ops::amp_foreach_non_finite_check_and_unscale_(&grads, &mark, &inverse)?;
        }
        Ok(found)
    })
}
/// The values that a sparse gradient stores.
fn stored(grad: &Tensor) -> Result<Tensor> {
    match grad.sparse_parts() {
        Some(Parts::Coo { values, .. } | Parts::Compressed { values, .. }) => Ok(values.alias_detached()),
        None => Err(Error::missing(format!("GradScaler of gradients of layout {:?}", grad.layout()))),
    }
}
