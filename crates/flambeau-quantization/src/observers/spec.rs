//! What makes an observer: its class and the arguments of its constructor. PyTorch's `with_args` gives a function that makes
//! observers; here it is a value, which can be compared and shown.

use super::{Observer, Statistics};
use flambeau_core::tensor::quantized::QScheme;
use flambeau_core::types::order::Mutex;
use flambeau_core::{DType, Result, Tensor, bail, ensure, ops};
use flambeau_nn::Base;
use flambeau_nn::Buffer;

/// A class of observers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObserverClass {
    /// Running extremes.
    #[doc(alias = "torch.ao.quantization.observer.MinMaxObserver")]
    MinMax,
    /// Moving averages of the extremes.
    #[doc(alias = "torch.ao.quantization.observer.MovingAverageMinMaxObserver")]
    MovingAverageMinMax,
    /// Running extremes of each channel.
    #[doc(alias = "torch.ao.quantization.observer.PerChannelMinMaxObserver")]
    PerChannelMinMax,
    /// Moving averages of the extremes of each channel.
    #[doc(alias = "torch.ao.quantization.observer.MovingAveragePerChannelMinMaxObserver")]
    MovingAveragePerChannelMinMax,
    /// A histogram, of which the range with the least error is taken.
    #[doc(alias = "torch.ao.quantization.observer.HistogramObserver")]
    Histogram,
    /// Given parameters.
    #[doc(alias = "torch.ao.quantization.observer.FixedQParamsObserver")]
    FixedQParams,
    /// Nothing but a dtype.
    #[doc(alias = "torch.ao.quantization.observer.PlaceholderObserver")]
    Placeholder,
    /// Every tensor.
    #[doc(alias = "torch.ao.quantization.observer.RecordingObserver")]
    Recording,
    /// Nothing.
    #[doc(alias = "torch.ao.quantization.observer.NoopObserver")]
    Noop,
    /// Nothing: the input's parameters are taken.
    #[doc(alias = "torch.ao.quantization.observer.ReuseInputObserver")]
    ReuseInput,
}
/// All of them.
pub(crate) const CLASSES: [ObserverClass; 10] = [
    ObserverClass::MinMax,
    ObserverClass::MovingAverageMinMax,
    ObserverClass::PerChannelMinMax,
    ObserverClass::MovingAveragePerChannelMinMax,
    ObserverClass::Histogram,
    ObserverClass::FixedQParams,
    ObserverClass::Placeholder,
    ObserverClass::Recording,
    ObserverClass::Noop,
    ObserverClass::ReuseInput,
];
impl ObserverClass {
    /// The class's name in Python.
    pub const fn name(self) -> &'static str {
        use ObserverClass::*;
        match self {
            MinMax => "MinMaxObserver",
            MovingAverageMinMax => "MovingAverageMinMaxObserver",
            PerChannelMinMax => "PerChannelMinMaxObserver",
            MovingAveragePerChannelMinMax => "MovingAveragePerChannelMinMaxObserver",
            Histogram => "HistogramObserver",
            FixedQParams => "FixedQParamsObserver",
            Placeholder => "PlaceholderObserver",
            Recording => "RecordingObserver",
            Noop => "NoopObserver",
            ReuseInput => "ReuseInputObserver",
        }
    }
    /// One range for each channel.
    pub const fn is_per_channel(self) -> bool {
        matches!(self, ObserverClass::PerChannelMinMax | ObserverClass::MovingAveragePerChannelMinMax)
    }
    /// It computes scale and zero point of a range.
    pub(crate) const fn is_uniform(self) -> bool {
        use ObserverClass::*;
        matches!(
            self,
            MinMax | MovingAverageMinMax | PerChannelMinMax | MovingAveragePerChannelMinMax | Histogram
        )
    }
}

/// A class of observers and the arguments of its constructor.
///
/// ```
/// use torch::ao::quantization::{ObserverClass, ObserverSpec};
/// let weights = ObserverSpec::new(ObserverClass::MinMax).dtype(torch::DType::QI8).symmetric();
/// let observer = weights.build();
/// observer.observe(&torch::tensor([-1.0, 0.5]));
/// let (scale, zero_point) = observer.calculate_qparams();
/// assert_eq!((scale.numel(), zero_point.item::<i64>()), (1, 0));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct ObserverSpec {
    /// The class.
    pub class: ObserverClass,
    /// Of the quantized tensors to be.
    pub dtype: DType,
    /// The scheme of the quantized tensors to be.
    pub qscheme: QScheme,
    /// One bit less, for instructions whose sums saturate.
    pub reduce_range: bool,
    /// The least integer, if not the dtype's.
    pub quant_min: Option<i64>,
    /// The greatest integer, if not the dtype's.
    pub quant_max: Option<i64>,
    /// The least scale.
    pub eps: f64,
    /// Parameters are found at every call.
    pub is_dynamic: bool,
    /// How much a new extreme counts in moving averages.
    pub averaging_constant: f64,
    /// The dimension of the channels.
    pub ch_axis: i64,
    /// Of histograms.
    pub bins: i64,
    /// Of given parameters.
    pub scale: f64,
    /// Of given parameters.
    pub zero_point: i64,
}
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $ty:ty => $field:ident = $v:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $name: $ty) -> Self {
            self.$field = $v;
            self
        }
    )*};
}
impl ObserverSpec {
    /// With the documented defaults of the class.
    pub fn new(class: ObserverClass) -> ObserverSpec {
        use ObserverClass::*;
        ObserverSpec {
            class,
            dtype: match class {
                Placeholder => DType::F32,
                Noop => DType::F16,
                _ => DType::QU8,
            },
            qscheme: if class.is_per_channel() {
                QScheme::PerChannelAffine
            } else {
                QScheme::PerTensorAffine
            },
            reduce_range: false,
            quant_min: (class == FixedQParams).then_some(0),
            quant_max: (class == FixedQParams).then_some(255),
            eps: f64::from(f32::EPSILON),
            is_dynamic: false,
            averaging_constant: 0.01,
            ch_axis: 0,
            bins: 2048,
            scale: 1.0,
            zero_point: 0,
        }
    }
    setters! {
        /// Sets the dtype.
        dtype: DType => dtype = dtype;
        /// Sets the scheme.
        qscheme: QScheme => qscheme = qscheme;
        /// Sets whether one bit is left out.
        reduce_range: bool => reduce_range = reduce_range;
        /// Sets the least integer.
        quant_min: i64 => quant_min = Some(quant_min);
        /// Sets the greatest integer.
        quant_max: i64 => quant_max = Some(quant_max);
        /// Sets the least scale.
        eps: f64 => eps = eps;
        /// Sets whether parameters are found at every call.
        is_dynamic: bool => is_dynamic = is_dynamic;
        /// Sets how much a new extreme counts.
        averaging_constant: f64 => averaging_constant = averaging_constant;
        /// Sets the dimension of the channels.
        ch_axis: i64 => ch_axis = ch_axis;
        /// Sets the number of bins.
        bins: i64 => bins = bins;
        /// Sets the given scale.
        scale: f64 => scale = scale;
        /// Sets the given zero point.
        zero_point: i64 => zero_point = zero_point;
    }
    /// The symmetric scheme of its class.
    pub fn symmetric(self) -> Self {
        let s = if self.class.is_per_channel() {
            QScheme::PerChannelSymmetric
        } else {
            QScheme::PerTensorSymmetric
        };
        self.qscheme(s)
    }
    /// The range of the integers.
    ///
    /// # Errors
    /// Ranges without zero or beyond the dtype's.
    pub fn range(&self) -> Result<(i64, i64)> {
        let given = self.quant_min.zip(self.quant_max);
        if let Some((low, high)) = given
            && self.class.is_uniform()
        {
            ensure!(
                (low..=high).contains(&0),
                Assertion,
                "Used-specified quantization range must include 0."
            );
            ensure!(
                low < high,
                Assertion,
                "qmin must be strictly less than qmax for user-specified quantization range."
            );
        }
        let Some((mut low, mut high)) = given else { return default_range(self.dtype, self.reduce_range) };
        if !self.class.is_uniform() {
            return Ok((low, high));
        }
        let most = match self.dtype {
            DType::QI32 | DType::I32 => 1i64 << 32,
            _ => 256,
        };
        let count = high.saturating_sub(low).saturating_add(1);
        ensure!(
            count > 0 && count <= most,
            Assertion,
            "quantization range should be positive and not exceed the maximum bit range (={}).",
            if most == 256 { "256".to_string() } else { "4294967296".to_string() }
        );
        if self.reduce_range {
            (low, high) = (low.div_euclid(2), high.div_euclid(2));
        }
        Ok((low, high))
    }
    fn check(&self) -> Result<()> {
        use ObserverClass::*;
        let (per_channel, name) = (self.class.is_per_channel(), self.class.name());
        const GAP: &str = "                    ";
        match self.class {
            MinMax | Histogram if !self.qscheme.is_per_tensor() => bail!(
                Unsupported,
                "{name}'s qscheme only support torch.per_tensor_symmetric {GAP}and torch.per_tensor_affine."
            ),
            MovingAverageMinMax if !self.qscheme.is_per_tensor() => bail!(
                Unsupported,
                "{name}'s qscheme only support                 torch.per_tensor_symmetric and torch.per_tensor_affine.\
                 \u{20}                but got: {}",
                self.qscheme
            ),
            PerChannelMinMax | MovingAveragePerChannelMinMax if self.qscheme.is_per_tensor() => bail!(
                Unsupported,
                "{name}'s qscheme only support {GAP}torch.per_channel_symmetric, torch.per_channel_affine and \
                 torch.per_channel_affine_float_qparams."
            ),
            MovingAverageMinMax if self.is_dynamic && self.averaging_constant != 1.0 => bail!(
                Unsupported,
                "{name} doesn't support dynamic quantization for averaging constant of {}",
                flambeau_core::text::PyText::py_text(&self.averaging_constant)
            ),
            Histogram | FixedQParams if self.is_dynamic => {
                bail!(Unsupported, "{name} doesn't support dynamic quantization")
            }
            _ if per_channel && self.is_dynamic => {
                bail!(Unsupported, "{name} doesn't support dynamic quantization")
            }
            _ => {}
        }
        if !self.class.is_uniform() {
            return Ok(());
        }
        use DType::*;
        ensure!(
            matches!(self.dtype, QI8 | QU8 | QU4X2 | QI32 | I8 | U8 | I16 | I32 | F8E5M2 | F8E4M3 | U16),
            Assertion,
            "Default Observer only works for (torch.qint8, torch.quint8, torch.quint4x2, torch.qint32, torch.int8, \
             torch.uint8, torch.int16, torch.int32, torch.float8_e5m2, torch.float8_e4m3fn, torch.uint16) data type"
        );
        self.range()?;
        let reduced = self.reduce_range && self.dtype == QU8 && self.qscheme.is_symmetric();
        match self.class {
            MinMax | MovingAverageMinMax if reduced => bail!(
                Unsupported,
                "Cannot reduce range for symmetric                                        quantization for quint8"
            ),
            PerChannelMinMax | MovingAveragePerChannelMinMax if reduced => {
                bail!(Unsupported, "Cannot reduce range for symmetric quantization for quint8")
            }
            _ => Ok(()),
        }
    }
    /// An observer.
    ///
    /// # Errors
    /// Schemes and dtypes that the class does not take.
    pub fn try_build(&self) -> Result<Observer> {
        self.check()?;
        let number = |v: f32| Tensor::from_vec(vec![v], [0i64; 0]);
        let none = || Tensor::from_vec(Vec::<f32>::new(), [0]);
        let statistics = match self.class {
            ObserverClass::MinMax | ObserverClass::MovingAverageMinMax => {
                Statistics::Range { min: number(f32::INFINITY), max: number(f32::NEG_INFINITY) }
            }
            ObserverClass::Histogram => Statistics::Histogram {
                bins: ops::zeros(&[self.bins.max(0)], Some(DType::F32), None, None, None)?,
                min: number(f32::INFINITY),
                max: number(f32::NEG_INFINITY),
            },
            c if c.is_per_channel() => Statistics::Range { min: none(), max: none() },
            _ => Statistics::None,
        };
        let fixed = self.class == ObserverClass::FixedQParams;
        let of = |on: bool, t: Tensor| on.then(|| Buffer::new(t));
        let base = Base::new();
        super::take_other_sizes(&base);
        Ok(Observer {
            base,
            spec: self.clone(),
            eps: of(self.class.is_uniform(), Tensor::from_vec(vec![self.eps as f32], [1])),
            scale: of(fixed, Tensor::from_vec(vec![self.scale as f32], [1])),
            zero_point: of(fixed, Tensor::from_vec(vec![self.zero_point as i32], [1])),
            seen: Mutex::new((statistics, Vec::new())),
        })
    }
    /// [`ObserverSpec::try_build`] that panics.
    #[track_caller]
    pub fn build(&self) -> Observer {
        flambeau_core::api::ergonomic::expect(self.try_build())
    }
}
/// The range of a dtype's integers, or one bit less.
fn default_range(d: DType, reduce: bool) -> Result<(i64, i64)> {
    use DType::*;
    Ok(match (d, reduce) {
        (QI8 | I8, true) => (-64, 63),
        (QI8 | I8, false) => (-128, 127),
        (QU8 | U8, true) => (0, 127),
        (QU8 | U8, false) => (0, 255),
        (QI32 | I32, _) => (-(1 << 31), (1 << 31) - 1),
        (I16, _) => (-(1 << 15), (1 << 15) - 1),
        (U16, _) => (0, (1 << 16) - 1),
        (F8E4M3, _) => (-448, 448),
        (F8E5M2, _) => (-57344, 57344),
        _ => (0, 15),
    })
}
