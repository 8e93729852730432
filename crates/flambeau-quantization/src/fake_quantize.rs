//! Modules that round to what a quantized tensor could hold, and let gradients pass: quantization-aware training.
//!
//! ```
//! use torch::ao::quantization::{FakeQuantize, FakeQuantizeClass, FakeQuantizeSpec, ObserverClass, ObserverSpec};
//! use torch::prelude::*;
//!
//! let observer = ObserverSpec::new(ObserverClass::MovingAverageMinMax).quant_min(0).quant_max(3);
//! let round: FakeQuantize = FakeQuantizeSpec::new(FakeQuantizeClass::FakeQuantize, observer).try_build()?;
//! let y = round.call(&torch::tensor([0.0, 1.1, 1.9, 3.0]));
//! // of the range that was seen, four values
//! assert_eq!(y.to_vec::<f32>(), [0.0, 1.0, 2.0, 3.0]);
//! # Ok::<(), torch::Error>(())
//! ```

use crate::nn::linear::itself;
use crate::observers::{Observer, ObserverClass, ObserverSpec};
use crate::tensor::{cast, choose};
use flambeau_autograd::no_grad;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::quantized::QScheme;
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Result, Tensor, ensure, ops};
use flambeau_nn::internal::{Copied, Memo, Run};
use flambeau_nn::{Base, Buffer, Forward, Module, Visitor, VisitorMut};
use std::any::Any;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

/// A class of fake quantization.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FakeQuantizeClass {
    /// By an observer of any class.
    #[doc(alias = "torch.ao.quantization.fake_quantize.FakeQuantize")]
    FakeQuantize,
    /// By given parameters.
    #[doc(alias = "torch.ao.quantization.fake_quantize.FixedQParamsFakeQuantize")]
    FixedQParams,
    /// By moving averages of the extremes, in one step.
    #[doc(alias = "torch.ao.quantization.fake_quantize.FusedMovingAvgObsFakeQuantize")]
    FusedMovingAvgObs,
}
impl FakeQuantizeClass {
    /// The class's name in Python.
    pub const fn name(self) -> &'static str {
        match self {
            FakeQuantizeClass::FakeQuantize => "FakeQuantize",
            FakeQuantizeClass::FixedQParams => "FixedQParamsFakeQuantize",
            FakeQuantizeClass::FusedMovingAvgObs => "FusedMovingAvgObsFakeQuantize",
        }
    }
}

/// A class of fake quantization and the arguments of its constructor.
#[derive(Clone, PartialEq, Debug)]
pub struct FakeQuantizeSpec {
    /// The class.
    pub class: FakeQuantizeClass,
    /// What finds the parameters. Its range is that of the rounded numbers.
    pub observer: ObserverSpec,
}
impl FakeQuantizeSpec {
    /// By an observer.
    pub fn new(class: FakeQuantizeClass, observer: ObserverSpec) -> FakeQuantizeSpec {
        FakeQuantizeSpec { class, observer }
    }
    /// A module.
    ///
    /// # Errors
    /// Ranges that the dtype does not hold; those of the observer.
    pub fn try_build(&self) -> Result<FakeQuantize> {
        let mut o = self.observer.clone();
        if let (Some(low), Some(high)) = (o.quant_min, o.quant_max) {
            ensure!(low <= high, Assertion, "quant_min must be less than or equal to quant_max");
            let (least, most) = o.dtype.quantized_range().unwrap_or((i64::MIN, i64::MAX));
            ensure!(low >= least, Assertion, "quant_min out of bound");
            ensure!(high <= most, Assertion, "quant_max out of bound");
        }
        if o.class == ObserverClass::FixedQParams {
            o.quant_min = o.quant_min.or(Some(0));
            o.quant_max = o.quant_max.or(Some(255));
        }
        let (quant_min, quant_max) = o.range()?;
        let observer = o.try_build()?;
        let floats = o.qscheme == QScheme::PerChannelAffineFloatQParams;
        let (scale, zero_point) = match self.class {
            FakeQuantizeClass::FixedQParams => observer.try_calculate_qparams()?,
            _ => {
                let zero = Tensor::from_vec(vec![0i32], [1]);
                (Tensor::from_vec(vec![1f32], [1]), if floats { cast(&zero, DType::F32)? } else { zero })
            }
        };
        Ok(FakeQuantize {
            base: Base::new(),
            spec: self.clone(),
            quant_min,
            quant_max,
            observer,
            fake_quant_enabled: AtomicBool::new(true),
            observer_enabled: AtomicBool::new(true),
            parameters: Mutex::new((scale, zero_point)),
        })
    }
    /// [`FakeQuantizeSpec::try_build`] that panics.
    #[track_caller]
    pub fn build(&self) -> FakeQuantize {
        expect(self.try_build())
    }
}

/// Rounds its input to what a quantized tensor could hold; gradients pass where the input is within the range.
#[derive(Debug)]
#[doc(alias = "torch.ao.quantization.FakeQuantizeBase")]
#[doc(alias = "torch.ao.quantization.fake_quantize.FakeQuantizeBase")]
pub struct FakeQuantize {
    base: Base,
    /// What it was made of.
    pub spec: FakeQuantizeSpec,
    /// The least integer.
    pub quant_min: i64,
    /// The greatest integer.
    pub quant_max: i64,
    observer: Observer,
    fake_quant_enabled: AtomicBool,
    observer_enabled: AtomicBool,
    parameters: Mutex<(Tensor, Tensor)>,
}
impl FakeQuantize {
    /// What finds the parameters.
    pub fn activation_post_process(&self) -> &Observer {
        &self.observer
    }
    fn parameters(&self) -> (Tensor, Tensor) {
        self.parameters.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
    fn keep(&self, new: (Tensor, Tensor)) {
        let old = std::mem::replace(&mut *self.parameters.lock().unwrap_or_else(|e| e.into_inner()), new);
        drop(old);
    }
    /// Into the tensors that there are, where they have the sizes: states and programs that hold them see it.
    fn write(&self, scale: Tensor, zero: Tensor) -> Result<()> {
        let old = self.parameters();
        if old.0.sizes() != scale.sizes() || old.1.sizes() != zero.sizes() {
            self.keep((scale, zero));
            return Ok(());
        }
        ops::copy_(&old.0, &scale, false)?;
        ops::copy_(&old.1, &zero, false)
    }
    /// The scale in use, or one per channel.
    pub fn scale(&self) -> Tensor {
        self.parameters().0
    }
    /// The zero point in use, or one per channel.
    pub fn zero_point(&self) -> Tensor {
        self.parameters().1
    }
    /// Whether it rounds.
    pub fn enable_fake_quant(&self, on: bool) {
        self.fake_quant_enabled.store(on, Ordering::Relaxed);
    }
    /// Whether it observes.
    pub fn enable_observer(&self, on: bool) {
        self.observer_enabled.store(on, Ordering::Relaxed);
    }
    /// Scales and zero points of what was seen.
    ///
    /// # Errors
    /// Those of the observer.
    pub fn try_calculate_qparams(&self) -> Result<(Tensor, Tensor)> {
        match self.spec.class {
            FakeQuantizeClass::FixedQParams => Ok(self.parameters()),
            _ => self.observer.try_calculate_qparams(),
        }
    }
    fn is_per_channel(&self) -> bool {
        !self.spec.observer.qscheme.is_per_tensor()
    }
    fn axis(&self) -> i64 {
        if self.spec.observer.class.is_per_channel() { self.spec.observer.ch_axis } else { -1 }
    }
    fn observe(&self, x: &Tensor) -> Result<()> {
        if self.spec.class == FakeQuantizeClass::FusedMovingAvgObs {
            return self.observe_fused(x);
        }
        self.observer.try_observe(x)?;
        let (scale, zero) = self.try_calculate_qparams()?;
        let (_, old) = self.parameters();
        self.write(cast(&scale, DType::F32)?, cast(&zero, old.dtype())?)
    }
    /// Moving averages and parameters as PyTorch's fused operator finds them: another rule than that of its observers.
    fn observe_fused(&self, x: &Tensor) -> Result<()> {
        if x.is_complex() {
            // refuses by name
            ops::aminmax(x, None, false)?;
        }
        ensure!(
            x.dtype() == DType::F32,
            Runtime,
            "expected scalar type Float but found {}",
            x.dtype().scalar_type_name()
        );
        self.observer.try_observe(x)?;
        let (Some(min), Some(max)) = (self.observer.min_val(), self.observer.max_val()) else {
            return Ok(());
        };
        let symmetric = self.spec.observer.qscheme.is_symmetric();
        let (mut scales, mut zeros) = (Vec::new(), Vec::new());
        for (a, b) in min.try_to_vec::<f32>()?.into_iter().zip(max.try_to_vec::<f32>()?) {
            let (s, z) = choose((a, b), (self.quant_min as i32, self.quant_max as i32), symmetric);
            scales.push(s as f32);
            zeros.push(z as i32);
        }
        let n = scales.len() as i64;
        self.write(Tensor::from_vec(scales, [n]), Tensor::from_vec(zeros, [n]))
    }
    fn shown(&self, on: &AtomicBool) -> String {
        let b = i32::from(on.load(Ordering::Relaxed));
        match self.spec.class {
            FakeQuantizeClass::FusedMovingAvgObs => format!("tensor([{b}])"),
            _ => format!("tensor([{b}], dtype=torch.uint8)"),
        }
    }
    fn flag(&self, on: &AtomicBool) -> Tensor {
        let b = on.load(Ordering::Relaxed);
        match self.spec.class {
            FakeQuantizeClass::FusedMovingAvgObs => Tensor::from_vec(vec![i64::from(b)], [1]),
            _ => Tensor::from_vec(vec![u8::from(b)], [1]),
        }
    }
}
impl Forward<&Tensor> for FakeQuantize {
    type Output = Tensor;
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        expect(self.try_forward(x))
    }
    fn try_forward(&self, x: &Tensor) -> Result<Tensor> {
        if self.observer_enabled.load(Ordering::Relaxed) {
            no_grad(|| self.observe(&x.alias_detached()))?;
        }
        if !self.fake_quant_enabled.load(Ordering::Relaxed) {
            return Ok(x.clone());
        }
        let (scale, zero) = self.parameters();
        if self.is_per_channel() {
            return ops::fake_quantize_per_channel_affine(
                x,
                &scale,
                &zero,
                self.axis(),
                self.quant_min,
                self.quant_max,
            );
        }
        ops::fake_quantize_per_tensor_affine_by(x, &scale, &zero, self.quant_min, self.quant_max)
    }
}
impl Module for FakeQuantize {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.spec.class.name())
    }
    itself!();
    fn extra_repr(&self) -> String {
        let o = &self.spec.observer;
        let (scale, zero) = self.parameters();
        let switches = format!(
            "fake_quant_enabled={}, observer_enabled={}",
            self.shown(&self.fake_quant_enabled),
            self.shown(&self.observer_enabled)
        );
        let (low, high) = (self.quant_min, self.quant_max);
        match self.spec.class {
            FakeQuantizeClass::FakeQuantize => format!(
                "{switches}, quant_min={low}, quant_max={high}, dtype={}, qscheme={}, ch_axis={}, scale={scale}, \
                 zero_point={zero}",
                o.dtype,
                o.qscheme,
                self.axis()
            ),
            FakeQuantizeClass::FixedQParams => format!(
                "{switches}, scale={scale}, zero_point={zero}, dtype={}, quant_min={low}, quant_max={high}, qscheme={}",
                o.dtype, o.qscheme
            ),
            FakeQuantizeClass::FusedMovingAvgObs => format!(
                "{switches}, scale={scale}, zero_point={zero}, dtype={}, quant_min={low}, quant_max={high}, qscheme={}, \
                 reduce_range={}",
                o.dtype,
                o.qscheme,
                if o.reduce_range { "True" } else { "False" }
            ),
        }
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        let (scale, zero) = self.parameters();
        v.buffer("fake_quant_enabled", &Buffer::new(self.flag(&self.fake_quant_enabled)));
        v.buffer("observer_enabled", &Buffer::new(self.flag(&self.observer_enabled)));
        v.buffer("scale", &Buffer::new(scale));
        v.buffer("zero_point", &Buffer::new(zero));
        v.module("activation_post_process", &self.observer);
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        let (scale, zero) = self.parameters();
        let (mut s, mut z) = (Buffer::new(scale), Buffer::new(zero));
        v.buffer("scale", &mut s)?;
        v.buffer("zero_point", &mut z)?;
        self.keep((s.tensor().clone(), z.tensor().clone()));
        v.module("activation_post_process", &mut self.observer)
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let new = self.spec.try_build()?;
        let (scale, zero) = self.parameters();
        new.keep((ops::clone(&scale, None)?, ops::clone(&zero, None)?));
        new.enable_fake_quant(self.fake_quant_enabled.load(Ordering::Relaxed));
        new.enable_observer(self.observer_enabled.load(Ordering::Relaxed));
        let (base, observer) = (self.base.copied(memo)?, self.observer.try_deepcopy()?);
        Ok(Copied::new(FakeQuantize { base, observer, ..new }))
    }
}
/// `torch.fused_moving_avg_obs_fake_quant`: moving averages of the extremes, the parameters of them, and rounding by these.
/// Buffers are given as they are and written.
///
/// # Errors
/// Sizes that do not fit.
#[allow(clippy::too_many_arguments)]
#[doc(alias = "torch.fused_moving_avg_obs_fake_quant")]
#[flambeau_macros::short]
pub fn try_fused_moving_avg_obs_fake_quant(
    x: &Tensor,
    observer_on: bool,
    fake_quant_on: bool,
    running: (&mut Tensor, &mut Tensor),
    parameters: (&mut Tensor, &mut Tensor),
    averaging_const: f64,
    range: (i64, i64),
    ch_axis: i64,
    per_row_and_symmetric: (bool, bool),
) -> Result<Tensor> {
    let ((quant_min, quant_max), (per_row, symmetric)) = (range, per_row_and_symmetric);
    let class = if per_row {
        ObserverClass::MovingAveragePerChannelMinMax
    } else {
        ObserverClass::MovingAverageMinMax
    };
    let mut o = ObserverSpec::new(class)
        .dtype(DType::QI32)
        .averaging_constant(averaging_const)
        .ch_axis(ch_axis)
        .quant_min(quant_min)
        .quant_max(quant_max);
    if symmetric {
        o = o.symmetric();
    }
    let m = FakeQuantizeSpec::new(FakeQuantizeClass::FusedMovingAvgObs, o).try_build()?;
    m.enable_observer(observer_on);
    m.enable_fake_quant(fake_quant_on);
    m.observer.set_range(running.0.alias_detached(), running.1.alias_detached());
    m.keep((parameters.0.alias_detached(), parameters.1.alias_detached()));
    let y = m.try_forward(x)?;
    if observer_on {
        let put = |to: &mut Tensor, from: Tensor| -> Result<()> {
            let from = cast(&from, to.dtype())?;
            if to.sizes() == from.sizes() {
                return no_grad(|| ops::copy_(to, &from, false));
            }
            if to.numel() == 1 && from.numel() == 1 {
                return no_grad(|| ops::copy_(to, &ops::reshape(&from, to.sizes())?, false));
            }
            *to = from;
            Ok(())
        };
        if let (Some(a), Some(b)) = (m.observer.min_val(), m.observer.max_val()) {
            put(running.0, a)?;
            put(running.1, b)?;
        }
        put(parameters.0, m.scale())?;
        put(parameters.1, m.zero_point())?;
    }
    Ok(y)
}
