//! Linear layers of integers: by a rule of their own, or with integers that are found at every call.

use super::product::{Weight, linear, linear_dynamic, linear_half};
use crate::observers::ObserverSpec;
use crate::qconfig::{Made, Make};
use crate::tensor::cast;
use flambeau_core::api::ergonomic::expect;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::quantized::QScheme;
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Result, Tensor, ensure, ops};
use flambeau_nn::internal::{Copied, Memo, Run};
use flambeau_nn::{Base, Buffer, Forward, Module, StateDict, Visitor, VisitorMut};
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

/// What all layers of this crate say of themselves.
macro_rules! itself {
    () => {
        fn base(&self) -> Option<&Base> {
            Some(&self.base)
        }
        fn base_mut(&mut self) -> Option<&mut Base> {
            Some(&mut self.base)
        }
        fn as_run(&self) -> Option<&dyn Run> {
            Some(self)
        }
        fn as_module(&self) -> &dyn Module {
            self
        }
        fn as_module_mut(&mut self) -> &mut dyn Module {
            self
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
        fn as_any_mut(&mut self) -> &mut dyn Any {
            self
        }
    };
}
/// `forward` of one tensor by `try_forward`.
macro_rules! forward_of {
    ($t:ty) => {
        impl Forward<&Tensor> for $t {
            type Output = Tensor;
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                expect(Forward::try_forward(self, x))
            }
            fn try_forward(&self, x: &Tensor) -> Result<Tensor> {
                self.compute(x)
            }
        }
    };
}
pub(crate) use {forward_of, itself};

/// A weight as an observer of weights says: by tensor or by channel, in float16, or as it is.
///
/// # Errors
/// Those of the observer.
pub(crate) fn quantized_weight(w: &Tensor, make: &Make) -> Result<Tensor> {
    let w = w.alias_detached();
    if make.dtype() == Some(DType::F16) {
        return cast(&w, DType::F16);
    }
    let (spec, (scale, zero)): (ObserverSpec, _) = match make.build()? {
        Made::Observer(o) => {
            o.try_observe(&w)?;
            (o.spec.clone(), o.try_calculate_qparams()?)
        }
        Made::FakeQuantize(f) => {
            f.try_forward(&w)?;
            (f.spec.observer.clone(), f.try_calculate_qparams()?)
        }
        Made::Identity => return Ok(w),
    };
    weight_by(&w, &spec, &scale, &zero)
}
/// A weight by parameters that were found.
pub(crate) fn weight_by(w: &Tensor, spec: &ObserverSpec, scale: &Tensor, zero: &Tensor) -> Result<Tensor> {
    let w = w.alias_detached();
    match spec.qscheme {
        QScheme::PerTensorAffine | QScheme::PerTensorSymmetric => crate::ops::quantize_per_tensor(
            &w,
            f64::from(scale.try_item::<f32>()?),
            zero.try_item()?,
            spec.dtype,
        ),
        QScheme::PerChannelAffineFloatQParams => {
            crate::ops::quantize_per_channel(&w, scale, &cast(zero, DType::F32)?, spec.ch_axis, spec.dtype)
        }
        _ => crate::ops::quantize_per_channel(&w, scale, &cast(zero, DType::I64)?, spec.ch_axis, spec.dtype),
    }
}

/// A weight and a bias, packed for products when they are first needed.
#[derive(Debug)]
pub(crate) struct PackedParams {
    base: Base,
    state: Mutex<(Tensor, Option<Tensor>, Option<(u32, Arc<Weight>)>)>,
    dtype: DType,
}
impl PackedParams {
    pub(crate) fn new(weight: Tensor, bias: Option<Tensor>, dtype: DType) -> PackedParams {
        let base = Base::new();
        base.register_load_state_dict_pre_hook(|m, state, prefix, _| {
            let Some(p) = m.downcast_ref::<PackedParams>() else { return };
            // another scheme cannot be copied into: the weight is exchanged
            if let Some(w) = state.get(&format!("{prefix}_packed_params@0")) {
                let bias = state.get(&format!("{prefix}_packed_params@1")).cloned();
                if let (Ok(w), Ok(b)) = (ops::clone(w, None), bias.map(|b| ops::clone(&b, None)).transpose())
                {
                    p.set(w, b);
                }
            }
        });
        PackedParams { base, state: Mutex::new((weight, bias, None)), dtype }
    }
    pub(crate) fn set(&self, weight: Tensor, bias: Option<Tensor>) {
        let old = std::mem::replace(
            &mut *self.state.lock().unwrap_or_else(|e| e.into_inner()),
            (weight, bias, None),
        );
        drop(old);
    }
    pub(crate) fn get(&self) -> (Tensor, Option<Tensor>) {
        let s = self.state.lock().unwrap_or_else(|e| e.into_inner());
        (s.0.clone(), s.1.clone())
    }
    /// The weight packed, in groups of the results' channels.
    pub(crate) fn packed(&self, groups: i64) -> Result<Arc<Weight>> {
        let (w, _) = self.get();
        let version = w.version();
        {
            let s = self.state.lock().unwrap_or_else(|e| e.into_inner());
            if let Some((v, p)) = &s.2
                && *v == version
            {
                return Ok(p.clone());
            }
        }
        let new = Arc::new(Weight::new(&w, groups)?);
        self.state.lock().unwrap_or_else(|e| e.into_inner()).2 = Some((version, new.clone()));
        Ok(new)
    }
    fn copy(&self) -> Result<PackedParams> {
        let (w, b) = self.get();
        let own = |t: &Tensor| ops::clone(&t.alias_detached(), None);
        Ok(PackedParams::new(own(&w)?, b.as_ref().map(own).transpose()?, self.dtype))
    }
}
impl Module for PackedParams {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed("LinearPackedParams")
    }
    fn version(&self) -> i64 {
        3
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        let (w, b) = self.get();
        if let Ok(t) = ops::empty(&[0], Some(self.dtype), None, None, None, None) {
            v.buffer("dtype@dtype", &Buffer::new(t));
        }
        v.buffer("_packed_params@0", &Buffer::new(w));
        if let Some(b) = b {
            v.buffer("_packed_params@1", &Buffer::new(b));
        }
    }
    fn visit_mut(&mut self, _: &mut dyn VisitorMut) -> Result<()> {
        Ok(())
    }
    fn copied(&self, _: &mut Memo) -> Result<Copied> {
        Ok(Copied::new(self.copy()?))
    }
    itself!();
}
impl Run for PackedParams {
    fn class(&self) -> &'static str {
        "LinearPackedParams"
    }
    fn run(&self, _: &[Tensor]) -> Result<Vec<Tensor>> {
        Err(flambeau_core::Error::unsupported(
            "Module [LinearPackedParams] is missing the required \"forward\" function",
        ))
    }
}

/// How a quantized linear layer computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinearKind {
    /// Of quantized inputs, by a scale and zero point of its own.
    Static,
    /// Of numbers, whose integers are found at every call; or with a weight in float16.
    Dynamic,
}
/// `torch.ao.nn.quantized.Linear`, its dynamic form, and those with a ReLU.
#[derive(Debug)]
#[doc(alias = "torch.ao.nn.quantized.Linear")]
#[doc(alias = "torch.ao.nn.quantized.dynamic.Linear")]
#[doc(alias = "torch.ao.nn.intrinsic.quantized.LinearReLU")]
pub struct Linear {
    base: Base,
    /// How it computes.
    pub kind: LinearKind,
    /// Whether a ReLU follows.
    pub relu: bool,
    in_features: i64,
    out_features: i64,
    rule: Mutex<(f64, i64)>,
    packed: PackedParams,
}
/// Scale and zero point of a state, into a rule.
pub(crate) fn loaded_rule(state: &StateDict, prefix: &str) -> Option<(f64, i64)> {
    let scale: f32 = state.get(&format!("{prefix}scale"))?.try_item().ok()?;
    let zero: i64 = state.get(&format!("{prefix}zero_point"))?.try_item().ok()?;
    Some((f64::from(scale), zero))
}
/// A rule as the tensors that states have.
pub(crate) fn rule_buffers((scale, zero): (f64, i64)) -> [(&'static str, Buffer); 2] {
    [
        ("scale", Buffer::new(Tensor::from_vec(vec![scale as f32], [0i64; 0]))),
        ("zero_point", Buffer::new(Tensor::from_vec(vec![zero], [0i64; 0]))),
    ]
}
impl Linear {
    /// With a weight of zeros.
    ///
    /// # Errors
    /// Negative sizes, dtypes that weights do not have.
    pub fn new(
        in_features: i64,
        out_features: i64,
        bias: bool,
        dtype: DType,
        kind: LinearKind,
        relu: bool,
    ) -> Result<Linear> {
        let zeros = |n: &[i64]| ops::zeros(n, Some(DType::F32), None, None, None);
        let w = zeros(&[out_features, in_features])?;
        let w = match dtype {
            DType::QI8 => crate::ops::quantize_per_tensor(&w, 1.0, 0, DType::QI8)?,
            DType::F16 => cast(&w, DType::F16)?,
            d => {
                return Err(flambeau_core::Error::runtime(format!(
                    "Unsupported dtype specified for quantized Linear: {d}!"
                )));
            }
        };
        let b = bias.then(|| zeros(&[out_features])).transpose()?;
        Ok(Self::of(w, b, (1.0, 0), kind, relu))
    }
    /// Of a quantized (or float16) weight and a bias.
    pub(crate) fn of(
        w: Tensor,
        bias: Option<Tensor>,
        rule: (f64, i64),
        kind: LinearKind,
        relu: bool,
    ) -> Linear {
        let base = Base::new();
        base.register_load_state_dict_pre_hook(|m, state, prefix, _| {
            if let (Some(l), Some(rule)) = (m.downcast_ref::<Linear>(), loaded_rule(state, prefix)) {
                l.set_rule(rule.0, rule.1);
            }
        });
        let (o, i) = (w.sizes().first().copied().unwrap_or(0), w.sizes().get(1).copied().unwrap_or(0));
        let dtype = w.dtype();
        base.set_training(false);
        Linear {
            base,
            kind,
            relu,
            in_features: i,
            out_features: o,
            rule: Mutex::new(rule),
            packed: PackedParams::new(w, bias.map(|b| b.alias_detached()), dtype),
        }
    }
    /// The weight.
    pub fn weight(&self) -> Tensor {
        self.packed.get().0
    }
    /// The bias.
    pub fn bias(&self) -> Option<Tensor> {
        self.packed.get().1
    }
    /// Exchanges weight and bias.
    ///
    /// # Errors
    /// Another number of dimensions.
    pub fn set_weight_bias(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
        ensure!(weight.dim() == 2, Runtime, "The weight tensor should be 2-dimensional");
        self.packed.set(weight.alias_detached(), bias.map(|b| b.alias_detached()));
        Ok(())
    }
    /// Scale and zero point of the results.
    pub fn rule(&self) -> (f64, i64) {
        *self.rule.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// Sets them.
    pub fn set_rule(&self, scale: f64, zero_point: i64) {
        *self.rule.lock().unwrap_or_else(|e| e.into_inner()) = (scale, zero_point);
    }
    fn compute(&self, x: &Tensor) -> Result<Tensor> {
        match self.kind {
            LinearKind::Static => self.of_integers(x, self.rule(), self.relu),
            LinearKind::Dynamic => self.of_numbers(x, true, self.relu),
        }
    }
    /// Of a quantized input, by a rule for the results.
    pub(crate) fn of_integers(&self, x: &Tensor, rule: (f64, i64), relu: bool) -> Result<Tensor> {
        linear(x, &*self.packed.packed(1)?, self.bias().as_ref(), rule, relu)
    }
    /// Of numbers, whose integers are found for this call, in 7 bits or in 8.
    pub(crate) fn of_numbers(&self, x: &Tensor, reduce_range: bool, relu: bool) -> Result<Tensor> {
        let (w, bias) = self.packed.get();
        if w.dtype() == DType::F16 {
            return linear_half(x, &w, bias.as_ref(), relu);
        }
        linear_dynamic(x, &*self.packed.packed(1)?, bias.as_ref(), reduce_range, relu)
    }
}
forward_of!(Linear);
impl Module for Linear {
    fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match (self.kind, self.relu) {
            (LinearKind::Static, false) => "QuantizedLinear",
            (LinearKind::Static, true) => "QuantizedLinearReLU",
            (LinearKind::Dynamic, false) => "DynamicQuantizedLinear",
            (LinearKind::Dynamic, true) => "DynamicQuantizedLinearReLU",
        })
    }
    fn version(&self) -> i64 {
        if self.kind == LinearKind::Static { 3 } else { 4 }
    }
    fn extra_repr(&self) -> String {
        let sizes = format!("in_features={}, out_features={}", self.in_features, self.out_features);
        let w = self.weight();
        let scheme = w.quantizer().map_or(QScheme::PerTensorAffine, |q| q.scheme());
        match self.kind {
            LinearKind::Static => {
                let (s, z) = self.rule();
                let s = flambeau_core::text::PyText::py_text(&s);
                format!("{sizes}, scale={s}, zero_point={z}, qscheme={scheme}")
            }
            LinearKind::Dynamic if w.dtype() == DType::QI8 => {
                format!("{sizes}, dtype=torch.qint8, qscheme={scheme}")
            }
            LinearKind::Dynamic => format!("{sizes}, dtype={}", w.dtype()),
        }
    }
    fn repr(&self) -> String {
        // the packed parameters are no part of the text
        format!("{}({})", self.type_name(), self.extra_repr())
    }
    fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
        if self.kind == LinearKind::Static {
            for (n, b) in rule_buffers(self.rule()) {
                v.buffer(n, &b);
            }
        }
        v.module("_packed_params", &self.packed);
    }
    fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
        v.module("_packed_params", &mut self.packed)
    }
    fn copied(&self, memo: &mut Memo) -> Result<Copied> {
        let packed = self.packed.copy()?;
        Ok(Copied::new(Linear {
            base: self.base.copied(memo)?,
            kind: self.kind,
            relu: self.relu,
            in_features: self.in_features,
            out_features: self.out_features,
            rule: Mutex::new(self.rule()),
            packed,
        }))
    }
    itself!();
}
