//! Observers: modules that give their input, and keep of it what scale and zero point are computed from.

mod histogram;
mod spec;

pub(crate) use spec::CLASSES;
pub use spec::{ObserverClass, ObserverSpec};

use crate::nn::linear::itself;
use crate::tensor::{cast, number};
use flambeau_autograd::no_grad;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::quantized::QScheme;
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ops};
use flambeau_nn::internal::{Copied, Memo, Run};
use flambeau_nn::{Base, Buffer, Forward, Module, Visitor, VisitorMut};
use std::any::Any;
use std::borrow::Cow;

/// What an observer keeps.
#[derive(Clone, Debug)]
pub(crate) enum Statistics {
    None,
    Range { min: Tensor, max: Tensor },
    Histogram { bins: Tensor, min: Tensor, max: Tensor },
}

/// A module that gives its input and keeps its extremes, its histogram or itself: see [`ObserverClass`].
///
/// ```
/// use torch::ao::quantization::{Observer, ObserverClass, ObserverSpec};
/// use torch::prelude::*;
/// let observer: Observer = ObserverSpec::new(ObserverClass::MinMax).build();
/// observer.observe(&torch::tensor([-1.0, 3.0]));
/// let (scale, zero) = observer.calculate_qparams();
/// assert!((scale.item::<f64>() - 4.0 / 255.0).abs() < 1e-6 && zero.item::<i64>() == 64);
/// ```
#[doc(alias = "torch.ao.quantization.ObserverBase")]
#[doc(alias = "torch.ao.quantization.UniformQuantizationObserverBase")]
#[derive(Debug)]
pub struct Observer {
    base: Base,
    /// What it was made of.
    pub spec: ObserverSpec,
    eps: Option<Buffer>,
    scale: Option<Buffer>,
    zero_point: Option<Buffer>,
    /// Statistics, and recorded tensors.
    seen: Mutex<(Statistics, Vec<Tensor>)>,
}
impl Observer {
    fn seen(&self) -> Statistics {
        self.seen.lock().unwrap_or_else(|e| e.into_inner()).0.clone()
    }
    fn keep(&self, s: Statistics) {
        let old = std::mem::replace(&mut self.seen.lock().unwrap_or_else(|e| e.into_inner()).0, s);
        drop(old);
    }
    /// The least value so far, of each channel where there are channels.
    pub fn min_val(&self) -> Option<Tensor> {
        match self.seen() {
            Statistics::Range { min, .. } | Statistics::Histogram { min, .. } => Some(min),
            Statistics::None => None,
        }
    }
    /// The greatest value so far.
    pub fn max_val(&self) -> Option<Tensor> {
        match self.seen() {
            Statistics::Range { max, .. } | Statistics::Histogram { max, .. } => Some(max),
            Statistics::None => None,
        }
    }
    /// The histogram so far.
    pub fn histogram(&self) -> Option<Tensor> {
        match self.seen() {
            Statistics::Histogram { bins, .. } => Some(bins),
            _ => None,
        }
    }
    /// The tensors that a recording observer has seen.
    #[doc(alias = "torch.ao.quantization.observer.RecordingObserver.get_tensor_value")]
    pub fn get_tensor_value(&self) -> Vec<Tensor> {
        self.seen.lock().unwrap_or_else(|e| e.into_inner()).1.clone()
    }
    /// Forgets the extremes.
    ///
    /// # Errors
    /// Classes without.
    pub fn reset_min_max_vals(&self) -> Result<()> {
        let new = self.spec.try_build()?;
        match self.seen() {
            Statistics::Range { .. } => self.keep(new.seen()),
            _ => return Err(Error::unsupported("Cannot reset min/max values in the given observer.")),
        }
        Ok(())
    }
    /// Takes extremes from elsewhere.
    pub(crate) fn set_range(&self, min: Tensor, max: Tensor) {
        self.keep(Statistics::Range { min, max });
    }
    fn one(&self, t: &Tensor) -> Result<f32> {
        t.try_item()
    }
    /// The extremes along the channels.
    fn by_channel(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
        flambeau_core::ensure!(x.dim() > 0, Runtime, "a number has no channels");
        let mut order: Vec<i64> = (0..x.dim() as i64).collect();
        let axis = flambeau_core::tensor::geometry::wrap_dim(self.spec.ch_axis, x.dim())?;
        order.swap(0, axis);
        let y = ops::flatten(&cast(&ops::permute(x, &order)?, DType::F32)?, 1, -1)?;
        ops::aminmax(&y, Some(1), false)
    }
    fn averaged(&self, old: &Tensor, new: &Tensor) -> Result<Tensor> {
        let step = ops::mul(&ops::sub(new, old, Scalar::Int(1))?, &number(self.spec.averaging_constant)?)?;
        ops::add(old, &step, Scalar::Int(1))
    }
    /// Looks at a tensor.
    ///
    /// # Errors
    /// Tensors whose extremes cannot be taken.
    pub fn try_observe(&self, x: &Tensor) -> Result<()> {
        use ObserverClass::*;
        if self.spec.class == Recording {
            let copy = ops::clone(x, None)?;
            self.seen.lock().unwrap_or_else(|e| e.into_inner()).1.push(copy);
            return Ok(());
        }
        if x.numel() == 0 || !self.spec.class.is_uniform() {
            return Ok(());
        }
        no_grad(|| {
            let x = x.alias_detached();
            let (min, max) = match self.seen() {
                Statistics::Range { min, max } => (min, max),
                Statistics::Histogram { bins, min, max } => {
                    let (bins, min, max) = histogram::updated(&x, &bins, &min, &max, self.spec.bins)?;
                    // the buffers are float32, whatever was seen
                    let [bins, min, max] =
                        [cast(&bins, DType::F32)?, cast(&min, DType::F32)?, cast(&max, DType::F32)?];
                    self.keep(Statistics::Histogram { bins, min, max });
                    return Ok(());
                }
                Statistics::None => return Ok(()),
            };
            let (new_min, new_max) = if self.spec.class.is_per_channel() {
                self.by_channel(&x)?
            } else {
                ops::aminmax(&cast(&x, DType::F32)?, None, false)?
            };
            let (min, max) = match self.spec.class {
                PerChannelMinMax | MovingAveragePerChannelMinMax if min.numel() == 0 => (new_min, new_max),
                MinMax | PerChannelMinMax => (ops::minimum(&new_min, &min)?, ops::maximum(&new_max, &max)?),
                MovingAverageMinMax
                    if self.one(&min)? == f32::INFINITY && self.one(&max)? == f32::NEG_INFINITY =>
                {
                    (new_min, new_max)
                }
                _ => (self.averaged(&min, &new_min)?, self.averaged(&max, &new_max)?),
            };
            // into the tensors that there are, where they have the sizes: states and programs that hold them see it
            match self.seen() {
                Statistics::Range { min: a, max: b } if a.sizes() == min.sizes() => {
                    ops::copy_(&a, &min, false)?;
                    ops::copy_(&b, &max, false)?;
                }
                _ => self.keep(Statistics::Range { min, max }),
            }
            Ok(())
        })
    }
    /// [`Observer::try_observe`] that panics.
    #[track_caller]
    pub fn observe(&self, x: &Tensor) {
        expect(self.try_observe(x));
    }
    /// Scales and zero points of what was seen: one of each, or one per channel.
    ///
    /// # Errors
    /// Classes that compute none.
    pub fn try_calculate_qparams(&self) -> Result<(Tensor, Tensor)> {
        let default = || Ok((Tensor::from_vec(vec![1f32], [1]), Tensor::from_vec(vec![0i64], [1])));
        match (self.spec.class, self.seen()) {
            (ObserverClass::FixedQParams, _) => match (&self.scale, &self.zero_point) {
                (Some(s), Some(z)) => Ok((s.tensor().clone(), z.tensor().clone())),
                _ => default(),
            },
            (_, Statistics::Range { min, max }) => no_grad(|| self.of_range(&min, &max)),
            (_, Statistics::Histogram { bins, min, max }) => no_grad(|| {
                if self.one(&min)? == f32::INFINITY && self.one(&max)? == f32::NEG_INFINITY {
                    return default();
                }
                let bits = self.spec.dtype.size() as u32 * 8;
                let (min, max) = histogram::search(&bins, &min, &max, 2f64.powi(bits as i32))?;
                self.of_range(&min, &max)
            }),
            (c, _) => Err(Error::runtime(format!("calculate_qparams should not be called for {}", c.name()))),
        }
    }
    /// [`Observer::try_calculate_qparams`] that panics.
    #[track_caller]
    #[doc(alias = "torch.ao.quantization.observer.MinMaxObserver.calculate_qparams")]
    pub fn calculate_qparams(&self) -> (Tensor, Tensor) {
        expect(self.try_calculate_qparams())
    }
    fn of_range(&self, min: &Tensor, max: &Tensor) -> Result<(Tensor, Tensor)> {
        qparams(&self.spec, min, max)
    }
}
/// Extremes of another number of channels may be loaded: room is made for them first.
pub(crate) fn take_other_sizes(base: &Base) {
    base.register_load_state_dict_pre_hook(|m, state, prefix, _| {
        let Some(o) = m.downcast_ref::<Observer>() else { return };
        let found = |name: &str| state.get(&format!("{prefix}{name}")).map(|t| t.sizes().to_vec());
        let room = |n: Vec<i64>| ops::empty(&n, Some(DType::F32), None, None, None, None).ok();
        match (o.seen(), found("min_val").and_then(room), found("max_val").and_then(room)) {
            (Statistics::Range { min: old, .. }, Some(min), Some(max)) if old.sizes() != min.sizes() => {
                o.keep(Statistics::Range { min, max });
            }
            _ => {}
        }
    });
}
/// Whether there are extremes, in order.
fn valid(min: &Tensor, max: &Tensor) -> Result<bool> {
    flambeau_core::ensure!(
        min.sizes() == max.sizes(),
        Assertion,
        "least and greatest values of other sizes: {:?} and {:?}",
        min.sizes(),
        max.sizes()
    );
    let (a, b) = (min.try_to_vec::<f32>()?, max.try_to_vec::<f32>()?);
    if a.is_empty() || b.is_empty() {
        return Ok(false);
    }
    if min.dim() == 0 {
        if a[0] == f32::INFINITY && b[0] == f32::NEG_INFINITY {
            return Ok(false);
        }
        flambeau_core::ensure!(a[0] <= b[0], Assertion, "min {} should be less than max {}", a[0], b[0]);
        return Ok(true);
    }
    flambeau_core::ensure!(
        a.iter().zip(&b).all(|(a, b)| a <= b),
        Assertion,
        "min {min} should be less than max {max}"
    );
    Ok(true)
}
/// Scales and zero points for ranges of numbers.
pub(crate) fn qparams(spec: &ObserverSpec, min: &Tensor, max: &Tensor) -> Result<(Tensor, Tensor)> {
    if !valid(min, max)? {
        return Ok((Tensor::from_vec(vec![1f32], [1]), Tensor::from_vec(vec![0i64], [1])));
    }
    let (low, high) = spec.range()?;
    let steps = high.saturating_sub(low);
    let n = min.numel();
    let eps = spec.eps as f32;
    let (lows, highs) = (min.try_to_vec::<f32>()?, max.try_to_vec::<f32>()?);
    let mut scales = Vec::new();
    let (mut zeros, mut float_zeros) = (Vec::new(), Vec::new());
    let symmetric = spec.qscheme.is_symmetric();
    for (a, b) in lows.into_iter().zip(highs) {
        let (below, above) = (a.min(0.0), b.max(0.0));
        if symmetric {
            let most = (-below).max(above);
            scales.push((most / (steps as f32 / 2.0)).max(eps));
            zeros.push(match spec.dtype {
                DType::QU8 | DType::U8 if spec.quant_min.is_some() && spec.quant_max.is_some() => {
                    low.saturating_add(high).div_euclid(2)
                }
                DType::QU8 | DType::U8 => 128,
                DType::U16 => 1 << 15,
                _ => 0,
            });
        } else if spec.qscheme == QScheme::PerChannelAffineFloatQParams {
            let s = (b - a) / steps as f32;
            let s = if s > eps { s } else { 1.0 };
            scales.push(s);
            float_zeros.push(-a / s);
        } else {
            let s = ((above - below) / steps as f32).max(eps);
            scales.push(s);
            zeros.push(low.saturating_sub((below / s).round_ties_even() as i64).clamp(low, high));
        }
    }
    let scale = Tensor::from_vec(scales, [n]);
    if !float_zeros.is_empty() {
        return Ok((scale, Tensor::from_vec(float_zeros, [n])));
    }
    let zero = Tensor::from_vec(zeros, [n]);
    // PyTorch's arithmetic leaves int32 where it rounds, and int64 where it fills
    Ok((scale, if symmetric { zero } else { cast(&zero, DType::I32)? }))
}

impl Module for Observer {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.spec.class.name())
    }
    itself!();
    fn version(&self) -> i64 {
        3
    }
    fn extra_repr(&self) -> String {
        match self.spec.class {
            ObserverClass::Placeholder => format!(
                "dtype={}, is_dynamic={}",
                self.spec.dtype,
                if self.spec.is_dynamic { "True" } else { "False" }
            ),
            _ => match (self.min_val(), self.max_val()) {
                (Some(a), Some(b)) => format!("min_val={}, max_val={}", shown(&a), shown(&b)),
                _ => String::new(),
            },
        }
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        for (name, b) in [("eps", &self.eps), ("scale", &self.scale), ("zero_point", &self.zero_point)] {
            if let Some(b) = b {
                v.buffer(name, b);
            }
        }
        match self.seen() {
            Statistics::None => {}
            Statistics::Range { min, max } => {
                v.buffer("min_val", &Buffer::new(min));
                v.buffer("max_val", &Buffer::new(max));
            }
            Statistics::Histogram { bins, min, max } => {
                v.buffer("histogram", &Buffer::new(bins));
                v.buffer("min_val", &Buffer::new(min));
                v.buffer("max_val", &Buffer::new(max));
            }
        }
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        let own = [("eps", &mut self.eps), ("scale", &mut self.scale), ("zero_point", &mut self.zero_point)];
        for (name, b) in own {
            if let Some(b) = b {
                v.buffer(name, b)?;
            }
        }
        let mut through = |name: &str, t: &mut Tensor| -> Result<()> {
            let mut b = Buffer::new(t.clone());
            v.buffer(name, &mut b)?;
            *t = b.tensor().clone();
            Ok(())
        };
        let mut s = self.seen();
        match &mut s {
            Statistics::None => {}
            Statistics::Range { min, max } => {
                through("min_val", min)?;
                through("max_val", max)?;
            }
            Statistics::Histogram { bins, min, max } => {
                through("histogram", bins)?;
                through("min_val", min)?;
                through("max_val", max)?;
            }
        }
        self.keep(s);
        Ok(())
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let own = |b: &Option<Buffer>| match b {
            Some(b) => ops::clone(b.tensor(), None).map(|t| Some(Buffer::new(t))),
            None => Ok(None),
        };
        let s = match self.seen() {
            Statistics::None => Statistics::None,
            Statistics::Range { min, max } => {
                Statistics::Range { min: ops::clone(&min, None)?, max: ops::clone(&max, None)? }
            }
            Statistics::Histogram { bins, min, max } => Statistics::Histogram {
                bins: ops::clone(&bins, None)?,
                min: ops::clone(&min, None)?,
                max: ops::clone(&max, None)?,
            },
        };
        Ok(Copied::new(Observer {
            base: self.base.copied(memo)?,
            spec: self.spec.clone(),
            eps: own(&self.eps)?,
            scale: own(&self.scale)?,
            zero_point: own(&self.zero_point)?,
            seen: Mutex::new((s, self.get_tensor_value())),
        }))
    }
}
/// Python's text of a tensor in an f-string: a number where it has no dimensions.
pub(crate) fn shown(t: &Tensor) -> String {
    match t.dim() {
        0 => t.try_item::<f64>().map_or_else(|e| e.to_string(), |v| flambeau_core::text::PyText::py_text(&v)),
        _ => t.to_string(),
    }
}
impl Forward<&Tensor> for Observer {
    type Output = Tensor;
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        expect(self.try_forward(x))
    }
    fn try_forward(&self, x: &Tensor) -> Result<Tensor> {
        self.try_observe(x)?;
        Ok(x.clone())
    }
}
