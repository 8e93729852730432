//! Summaries of numbers, tensors, texts, curves and meshes.

use crate::proto::*;
use flambeau_core::{DType, Error, Result, Tensor, ensure, ops};
use prost::Message;

/// Data of one of TensorBoard's plugins.
pub fn plugin(name: &str, content: Vec<u8>) -> Option<SummaryMetadata> {
    Some(SummaryMetadata { plugin_data: Some(PluginData { plugin_name: name.into(), content }) })
}
pub fn value(tag: &str) -> Value {
    Value { tag: tag.into(), ..Value::default() }
}
fn texts(shape: &[i64], bytes: Vec<u8>) -> TensorProto {
    TensorProto {
        dtype: DataType::String as i32,
        tensor_shape: Some(TensorShapeProto::of(shape)),
        string_val: vec![bytes],
        ..TensorProto::default()
    }
}
fn floats(shape: &[i64], values: Vec<f32>) -> TensorProto {
    TensorProto {
        dtype: DataType::Float as i32,
        tensor_shape: Some(TensorShapeProto::of(shape)),
        float_val: values,
        ..TensorProto::default()
    }
}

/// Options of [`add_scalar`](crate::SummaryWriter::add_scalar).
#[derive(Clone, Debug, Default)]
pub struct ScalarOptions {
    new_style: bool,
    double_precision: bool,
}
impl ScalarOptions {
    /// A simple value.
    pub fn new() -> Self {
        Self::default()
    }
    /// Writes a tensor, which TensorBoard loads faster.
    pub fn new_style(mut self, on: bool) -> Self {
        self.new_style = on;
        self
    }
    /// Keeps all digits; with `new_style` only, as in PyTorch.
    pub fn double_precision(mut self, on: bool) -> Self {
        self.double_precision = on;
        self
    }
}
pub fn scalar(tag: &str, number: f64, o: &ScalarOptions) -> Value {
    if !o.new_style {
        return Value { simple_value: Some(number as f32), ..value(tag) };
    }
    let tensor = if o.double_precision {
        TensorProto { dtype: DataType::Double as i32, double_val: vec![number], ..TensorProto::default() }
    } else {
        TensorProto {
            dtype: DataType::Float as i32,
            float_val: vec![number as f32],
            ..TensorProto::default()
        }
    };
    Value { tensor: Some(tensor), metadata: plugin("scalars", Vec::new()), ..value(tag) }
}

pub fn text(tag: &str, text: &str) -> Value {
    Value {
        tensor: Some(texts(&[1], text.as_bytes().to_vec())),
        metadata: plugin("text", Vec::new()),
        ..value(&format!("{tag}/text_summary"))
    }
}

/// Elements as TensorBoard keeps them: of halves the bits, of complex numbers the parts.
pub fn tensor(tag: &str, t: &Tensor) -> Result<Value> {
    let bytes = t.numel().saturating_mul(t.element_size() as i64);
    ensure!(bytes < 1 << 31, Value, "tensor is bigger than protocol buffer's hard limit of 2GB in size");
    let mut p = TensorProto { tensor_shape: Some(TensorShapeProto::of(t.sizes())), ..TensorProto::default() };
    let dtype = match t.dtype() {
        DType::F32 => {
            p.float_val = t.try_to_vec()?;
            DataType::Float
        }
        DType::F64 => {
            p.double_val = t.try_to_vec()?;
            DataType::Double
        }
        d @ (DType::F16 | DType::BF16) => {
            let bits =
                ops::view_dtype(&ops::contiguous(t, flambeau_core::MemoryFormat::Contiguous)?, DType::I16)?;
            p.half_val = bits.try_to_vec::<i16>()?.into_iter().map(|b| i32::from(b as u16)).collect();
            if d == DType::F16 { DataType::Half } else { DataType::BFloat16 }
        }
        DType::I64 => {
            p.int64_val = t.try_to_vec()?;
            DataType::Int64
        }
        d @ (DType::I32 | DType::I16 | DType::I8 | DType::U8) => {
            p.int_val = t.try_to_vec()?;
            match d {
                DType::I32 => DataType::Int32,
                DType::I16 => DataType::Int16,
                DType::I8 => DataType::Int8,
                _ => DataType::UInt8,
            }
        }
        DType::Bool => {
            p.bool_val = t.try_to_vec::<u8>()?.into_iter().map(|b| b != 0).collect();
            DataType::Bool
        }
        DType::C64 => {
            p.scomplex_val = ops::view_as_real(t)?.try_to_vec()?;
            DataType::Complex64
        }
        DType::C128 => {
            p.dcomplex_val = ops::view_as_real(t)?.try_to_vec()?;
            DataType::Complex128
        }
        d => return Err(Error::value(format!("{tag} has unsupported tensor dtype {d}"))),
    };
    p.dtype = dtype as i32;
    Ok(Value { tensor: Some(p), metadata: plugin("tensor", Vec::new()), ..value(tag) })
}

/// Options of [`add_pr_curve`](crate::SummaryWriter::add_pr_curve).
#[derive(Clone, Debug)]
pub struct PrCurveOptions {
    num_thresholds: usize,
    weights: Option<Tensor>,
}
impl Default for PrCurveOptions {
    fn default() -> Self {
        PrCurveOptions { num_thresholds: MOST_THRESHOLDS, weights: None }
    }
}
impl PrCurveOptions {
    /// 127 thresholds, equal weights.
    pub fn new() -> Self {
        Self::default()
    }
    /// How many thresholds; TensorBoard shows 127 at most, so no more are made.
    pub fn num_thresholds(mut self, n: usize) -> Self {
        self.num_thresholds = n;
        self
    }
    /// A weight for each prediction.
    pub fn weights(mut self, weights: &Tensor) -> Self {
        self.weights = Some(weights.clone());
        self
    }
}
const MOST_THRESHOLDS: usize = 127;

/// Precision and recall that were counted elsewhere, a number for each threshold.
///
/// ```
/// use torch::utils::tensorboard::{RawPrCurve, SummaryWriter};
/// # let dir = tempfile::tempdir()?;
/// # let log_dir = dir.path();
/// let curve = RawPrCurve {
///     true_positive_counts: vec![4.0, 2.0],
///     false_positive_counts: vec![4.0, 0.0],
///     true_negative_counts: vec![0.0, 4.0],
///     false_negative_counts: vec![0.0, 2.0],
///     precision: vec![0.5, 1.0],
///     recall: vec![1.0, 0.5],
/// };
/// SummaryWriter::new(log_dir)?.add_pr_curve_raw("cats", &curve, 0, 2)?;
/// assert_eq!(std::fs::read_dir(log_dir)?.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RawPrCurve {
    /// True positives.
    pub true_positive_counts: Vec<f64>,
    /// False positives.
    pub false_positive_counts: Vec<f64>,
    /// True negatives.
    pub true_negative_counts: Vec<f64>,
    /// False negatives.
    pub false_negative_counts: Vec<f64>,
    /// Precision.
    pub precision: Vec<f64>,
    /// Recall.
    pub recall: Vec<f64>,
}

pub fn pr_curve_raw(tag: &str, curve: &RawPrCurve, num_thresholds: usize) -> Result<Value> {
    let rows = [
        &curve.true_positive_counts,
        &curve.false_positive_counts,
        &curve.true_negative_counts,
        &curve.false_negative_counts,
        &curve.precision,
        &curve.recall,
    ];
    let width = rows[0].len();
    ensure!(rows.iter().all(|r| r.len() == width), Value, "all input arrays must have the same shape");
    let content =
        PrCurvePluginData { num_thresholds: num_thresholds.min(MOST_THRESHOLDS) as u32 }.encode_to_vec();
    let values = rows.into_iter().flatten().map(|v| *v as f32).collect();
    Ok(Value {
        tensor: Some(floats(&[ROWS_OF_CURVE, width as i64], values)),
        metadata: plugin("pr_curves", content),
        ..value(tag)
    })
}
const ROWS_OF_CURVE: i64 = 6;

/// The curve of predictions from 0 to 1 against labels 0 and 1.
pub fn pr_curve(tag: &str, labels: &Tensor, predictions: &Tensor, o: &PrCurveOptions) -> Result<Value> {
    const LEAST: f64 = 1e-7;
    let n = o.num_thresholds.min(MOST_THRESHOLDS);
    ensure!(n > 0, Value, "`bins` must be positive, when an integer");
    let (labels, predictions) = (labels.try_to_vec::<f64>()?, predictions.try_to_vec::<f64>()?);
    let weights = match &o.weights {
        Some(w) => w.try_to_vec::<f64>()?,
        None => vec![1.0; labels.len()],
    };
    let fits = labels.len() == predictions.len() && weights.len() == labels.len();
    ensure!(fits, Value, "weights should have the same shape as a.");
    let (mut positive, mut negative) = (vec![0.0; n], vec![0.0; n]);
    for ((label, p), w) in labels.iter().zip(&predictions).zip(&weights) {
        let bucket = (p * (n - 1) as f64).floor();
        if bucket >= 0.0 && bucket < n as f64 {
            positive[bucket as usize] += label * w;
            negative[bucket as usize] += (1.0 - label) * w;
        }
    }
    // what lies at or above each threshold
    let above = |counts: Vec<f64>| {
        let mut counts = counts;
        for i in (0..n.saturating_sub(1)).rev() {
            counts[i] += counts[i + 1];
        }
        counts
    };
    let (tp, fp) = (above(positive), above(negative));
    let rest = |counts: &[f64]| counts.iter().map(|c| counts[0] - c).collect::<Vec<_>>();
    let (tn, fn_) = (rest(&fp), rest(&tp));
    let share = |other: &[f64]| tp.iter().zip(other).map(|(t, o)| t / (t + o).max(LEAST)).collect();
    let (precision, recall) = (share(&fp), share(&fn_));
    let curve = RawPrCurve {
        true_positive_counts: tp,
        false_positive_counts: fp,
        true_negative_counts: tn,
        false_negative_counts: fn_,
        precision,
        recall,
    };
    pr_curve_raw(tag, &curve, n)
}

/// A chart of [`add_custom_scalars`](crate::SummaryWriter::add_custom_scalars).
///
/// ```
/// use torch::utils::tensorboard::{Chart, SummaryWriter};
/// # let dir = tempfile::tempdir()?;
/// # let log_dir = dir.path();
/// let both = Chart::Multiline(vec!["loss/train".into(), "loss/test".into()]);
/// let within = Chart::Margin { value: "mean".into(), lower: "min".into(), upper: "max".into() };
/// SummaryWriter::new(log_dir)?.add_custom_scalars(&[("run", vec![("losses", both), ("range", within)])])?;
/// assert_eq!(std::fs::read_dir(log_dir)?.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chart {
    /// The curves of these tags (regular expressions too).
    Multiline(Vec<String>),
    /// A curve between a lower and an upper one.
    Margin {
        /// The curve's tag.
        value: String,
        /// The tag below.
        lower: String,
        /// The tag above.
        upper: String,
    },
}
pub fn custom_scalars<C: AsRef<str>, T: AsRef<str>>(layout: &[(C, Vec<(T, Chart)>)]) -> Value {
    let chart = |(title, chart): &(T, Chart)| {
        let (multiline, margin) = match chart {
            Chart::Multiline(tags) => (Some(Multiline { tag: tags.clone() }), None),
            Chart::Margin { value, lower, upper } => {
                let series = Series { value: value.clone(), lower: lower.clone(), upper: upper.clone() };
                (None, Some(Margin { series: vec![series] }))
            }
        };
        ChartProto { title: title.as_ref().into(), multiline, margin }
    };
    let category = layout
        .iter()
        .map(|(title, charts)| Category {
            title: title.as_ref().into(),
            chart: charts.iter().map(chart).collect(),
        })
        .collect();
    Value {
        tensor: Some(texts(&[], Layout { category }.encode_to_vec())),
        metadata: plugin("custom_scalars", Vec::new()),
        ..value("custom_scalars__config__")
    }
}

/// Options of [`add_mesh`](crate::SummaryWriter::add_mesh).
#[derive(Clone, Debug, Default)]
pub struct MeshOptions {
    colors: Option<Tensor>,
    faces: Option<Tensor>,
    config: Option<String>,
}
impl MeshOptions {
    /// Points alone.
    pub fn new() -> Self {
        Self::default()
    }
    /// Colours of the points from 0 to 255 (B, N, 3).
    pub fn colors(mut self, colors: &Tensor) -> Self {
        self.colors = Some(colors.clone());
        self
    }
    /// Triangles, as indices of points (B, M, 3).
    pub fn faces(mut self, faces: &Tensor) -> Self {
        self.faces = Some(faces.clone());
        self
    }
    /// Camera, lights and material for ThreeJS, as JSON.
    pub fn config(mut self, json: impl Into<String>) -> Self {
        self.config = Some(json.into());
        self
    }
}
pub fn mesh(tag: &str, vertices: &Tensor, o: &MeshOptions) -> Result<Vec<Value>> {
    // numbers and names of the parts as TensorBoard has them
    const PARTS: [(i32, &str); 3] = [(1, "VERTEX"), (2, "FACE"), (3, "COLOR")];
    let tensors = [Some(vertices), o.faces.as_ref(), o.colors.as_ref()];
    let parts: Vec<_> = PARTS.into_iter().zip(tensors).filter_map(|(p, t)| Some((p, t?))).collect();
    let components = parts.iter().map(|((number, _), _)| 1u32 << number).sum();
    parts
        .into_iter()
        .map(|((number, part), t)| {
            let sizes = t.sizes();
            ensure!(sizes.len() == 3, Value, "Tensor shape should be of shape BxNx3, but got {sizes:?}.");
            let data = MeshPluginData {
                name: tag.into(),
                content_type: number,
                json_config: o.config.clone().unwrap_or_else(|| "{}".into()),
                shape: sizes.iter().map(|n| i32::try_from(*n).unwrap_or(i32::MAX)).collect(),
                components,
            };
            Ok(Value {
                tensor: Some(floats(sizes, t.try_to_vec()?)),
                metadata: plugin("mesh", data.encode_to_vec()),
                ..value(&format!("{tag}_{part}"))
            })
        })
        .collect()
}
