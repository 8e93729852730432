//! TensorBoard's messages: the fields that are written here, under the numbers of TensorBoard's `.proto` files. A field of
//! a `oneof` is an optional field of which one is set.

use prost::Message;
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Message)]
pub struct Event {
    #[prost(double, tag = "1")]
    pub wall_time: f64,
    #[prost(int64, tag = "2")]
    pub step: i64,
    #[prost(string, optional, tag = "3")]
    pub file_version: Option<String>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub graph_def: Option<Vec<u8>>,
    #[prost(message, optional, tag = "5")]
    pub summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    pub session_log: Option<SessionLog>,
    #[prost(message, optional, tag = "8")]
    pub tagged_run_metadata: Option<TaggedRunMetadata>,
    #[prost(message, optional, tag = "10")]
    pub source_metadata: Option<SourceMetadata>,
}
#[derive(Clone, PartialEq, Message)]
pub struct SourceMetadata {
    #[prost(string, tag = "1")]
    pub writer: String,
}
#[derive(Clone, PartialEq, Message)]
pub struct SessionLog {
    #[prost(int32, tag = "1")]
    pub status: i32,
}
/// `SessionLog.START`
pub const SESSION_START: i32 = 1;
#[derive(Clone, PartialEq, Message)]
pub struct TaggedRunMetadata {
    #[prost(string, tag = "1")]
    pub tag: String,
    #[prost(bytes = "vec", tag = "2")]
    pub run_metadata: Vec<u8>,
}
#[derive(Clone, PartialEq, Message)]
pub struct RunMetadata {
    #[prost(message, optional, tag = "1")]
    pub step_stats: Option<StepStats>,
}
#[derive(Clone, PartialEq, Message)]
pub struct StepStats {
    #[prost(message, repeated, tag = "1")]
    pub dev_stats: Vec<DeviceStepStats>,
}
#[derive(Clone, PartialEq, Message)]
pub struct DeviceStepStats {
    #[prost(string, tag = "1")]
    pub device: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub value: Vec<Value>,
}
#[derive(Clone, PartialEq, Message)]
pub struct Value {
    #[prost(string, tag = "1")]
    pub tag: String,
    #[prost(float, optional, tag = "2")]
    pub simple_value: Option<f32>,
    #[prost(message, optional, tag = "4")]
    pub image: Option<Image>,
    #[prost(message, optional, tag = "5")]
    pub histo: Option<HistogramProto>,
    #[prost(message, optional, tag = "6")]
    pub audio: Option<Audio>,
    #[prost(message, optional, tag = "8")]
    pub tensor: Option<TensorProto>,
    #[prost(message, optional, tag = "9")]
    pub metadata: Option<SummaryMetadata>,
}
#[derive(Clone, PartialEq, Message)]
pub struct Image {
    #[prost(int32, tag = "1")]
    pub height: i32,
    #[prost(int32, tag = "2")]
    pub width: i32,
    #[prost(int32, tag = "3")]
    pub colorspace: i32,
    #[prost(bytes = "vec", tag = "4")]
    pub encoded_image_string: Vec<u8>,
}
#[derive(Clone, PartialEq, Message)]
pub struct Audio {
    #[prost(float, tag = "1")]
    pub sample_rate: f32,
    #[prost(int64, tag = "2")]
    pub num_channels: i64,
    #[prost(int64, tag = "3")]
    pub length_frames: i64,
    #[prost(bytes = "vec", tag = "4")]
    pub encoded_audio_string: Vec<u8>,
    #[prost(string, tag = "5")]
    pub content_type: String,
}
#[derive(Clone, PartialEq, Message)]
pub struct HistogramProto {
    #[prost(double, tag = "1")]
    pub min: f64,
    #[prost(double, tag = "2")]
    pub max: f64,
    #[prost(double, tag = "3")]
    pub num: f64,
    #[prost(double, tag = "4")]
    pub sum: f64,
    #[prost(double, tag = "5")]
    pub sum_squares: f64,
    #[prost(double, repeated, tag = "6")]
    pub bucket_limit: Vec<f64>,
    #[prost(double, repeated, tag = "7")]
    pub bucket: Vec<f64>,
}
#[derive(Clone, PartialEq, Message)]
pub struct SummaryMetadata {
    #[prost(message, optional, tag = "1")]
    pub plugin_data: Option<PluginData>,
}
#[derive(Clone, PartialEq, Message)]
pub struct PluginData {
    #[prost(string, tag = "1")]
    pub plugin_name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub content: Vec<u8>,
}

/// `DataType` of tensors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum DataType {
    Float = 1,
    Double = 2,
    Int32 = 3,
    UInt8 = 4,
    Int16 = 5,
    Int8 = 6,
    String = 7,
    Complex64 = 8,
    Int64 = 9,
    Bool = 10,
    BFloat16 = 14,
    Complex128 = 18,
    Half = 19,
}
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    #[prost(int32, tag = "1")]
    pub dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub tensor_shape: Option<TensorShapeProto>,
    #[prost(float, repeated, tag = "5")]
    pub float_val: Vec<f32>,
    #[prost(double, repeated, tag = "6")]
    pub double_val: Vec<f64>,
    #[prost(int32, repeated, tag = "7")]
    pub int_val: Vec<i32>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub string_val: Vec<Vec<u8>>,
    #[prost(float, repeated, tag = "9")]
    pub scomplex_val: Vec<f32>,
    #[prost(int64, repeated, tag = "10")]
    pub int64_val: Vec<i64>,
    #[prost(bool, repeated, tag = "11")]
    pub bool_val: Vec<bool>,
    #[prost(double, repeated, tag = "12")]
    pub dcomplex_val: Vec<f64>,
    #[prost(int32, repeated, tag = "13")]
    pub half_val: Vec<i32>,
}
#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    #[prost(message, repeated, tag = "2")]
    pub dim: Vec<Dim>,
}
#[derive(Clone, PartialEq, Message)]
pub struct Dim {
    #[prost(int64, tag = "1")]
    pub size: i64,
}
impl TensorShapeProto {
    pub fn of(sizes: &[i64]) -> Self {
        TensorShapeProto { dim: sizes.iter().map(|size| Dim { size: *size }).collect() }
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct GraphDef {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeDef>,
    #[prost(message, optional, tag = "4")]
    pub versions: Option<VersionDef>,
}
#[derive(Clone, PartialEq, Message)]
pub struct VersionDef {
    #[prost(int32, tag = "1")]
    pub producer: i32,
}
#[derive(Clone, PartialEq, Message)]
pub struct NodeDef {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub op: String,
    #[prost(string, repeated, tag = "3")]
    pub input: Vec<String>,
    #[prost(string, tag = "4")]
    pub device: String,
    #[prost(btree_map = "string, message", tag = "5")]
    pub attr: BTreeMap<String, AttrValue>,
}
#[derive(Clone, PartialEq, Message)]
pub struct AttrValue {
    #[prost(message, optional, tag = "1")]
    pub list: Option<ListValue>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub s: Option<Vec<u8>>,
}
#[derive(Clone, PartialEq, Message)]
pub struct ListValue {
    #[prost(message, repeated, tag = "7")]
    pub shape: Vec<TensorShapeProto>,
}

/// Custom scalars.
#[derive(Clone, PartialEq, Message)]
pub struct Layout {
    #[prost(message, repeated, tag = "2")]
    pub category: Vec<Category>,
}
#[derive(Clone, PartialEq, Message)]
pub struct Category {
    #[prost(string, tag = "1")]
    pub title: String,
    #[prost(message, repeated, tag = "2")]
    pub chart: Vec<ChartProto>,
}
#[derive(Clone, PartialEq, Message)]
pub struct ChartProto {
    #[prost(string, tag = "1")]
    pub title: String,
    #[prost(message, optional, tag = "2")]
    pub multiline: Option<Multiline>,
    #[prost(message, optional, tag = "3")]
    pub margin: Option<Margin>,
}
#[derive(Clone, PartialEq, Message)]
pub struct Multiline {
    #[prost(string, repeated, tag = "1")]
    pub tag: Vec<String>,
}
#[derive(Clone, PartialEq, Message)]
pub struct Margin {
    #[prost(message, repeated, tag = "1")]
    pub series: Vec<Series>,
}
#[derive(Clone, PartialEq, Message)]
pub struct Series {
    #[prost(string, tag = "1")]
    pub value: String,
    #[prost(string, tag = "2")]
    pub lower: String,
    #[prost(string, tag = "3")]
    pub upper: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct PrCurvePluginData {
    #[prost(uint32, tag = "2")]
    pub num_thresholds: u32,
}
#[derive(Clone, PartialEq, Message)]
pub struct MeshPluginData {
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(int32, tag = "3")]
    pub content_type: i32,
    #[prost(string, tag = "5")]
    pub json_config: String,
    #[prost(int32, repeated, tag = "6")]
    pub shape: Vec<i32>,
    #[prost(uint32, tag = "7")]
    pub components: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct HParamsPluginData {
    #[prost(message, optional, tag = "2")]
    pub experiment: Option<Experiment>,
    #[prost(message, optional, tag = "3")]
    pub session_start_info: Option<SessionStartInfo>,
    #[prost(message, optional, tag = "4")]
    pub session_end_info: Option<SessionEndInfo>,
}
#[derive(Clone, PartialEq, Message)]
pub struct Experiment {
    #[prost(message, repeated, tag = "4")]
    pub hparam_infos: Vec<HParamInfo>,
    #[prost(message, repeated, tag = "5")]
    pub metric_infos: Vec<MetricInfo>,
}
#[derive(Clone, PartialEq, Message)]
pub struct HParamInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(int32, tag = "4")]
    pub r#type: i32,
    #[prost(message, optional, tag = "5")]
    pub domain_discrete: Option<PlainList>,
}
/// `DATA_TYPE_STRING` of hyper-parameters.
pub const HPARAM_STRING: i32 = 1;
/// `DATA_TYPE_FLOAT64` of hyper-parameters.
pub const HPARAM_FLOAT: i32 = 3;
#[derive(Clone, PartialEq, Message)]
pub struct MetricInfo {
    #[prost(message, optional, tag = "1")]
    pub name: Option<MetricName>,
}
#[derive(Clone, PartialEq, Message)]
pub struct MetricName {
    #[prost(string, tag = "2")]
    pub tag: String,
}
#[derive(Clone, PartialEq, Message)]
pub struct SessionStartInfo {
    #[prost(btree_map = "string, message", tag = "1")]
    pub hparams: BTreeMap<String, Plain>,
}
#[derive(Clone, PartialEq, Message)]
pub struct SessionEndInfo {
    #[prost(int32, tag = "1")]
    pub status: i32,
}
/// `STATUS_SUCCESS`
pub const SUCCESS: i32 = 1;
/// `google.protobuf.Value`
#[derive(Clone, PartialEq, Message)]
pub struct Plain {
    #[prost(double, optional, tag = "2")]
    pub number_value: Option<f64>,
    #[prost(string, optional, tag = "3")]
    pub string_value: Option<String>,
}
/// `google.protobuf.ListValue`
#[derive(Clone, PartialEq, Message)]
pub struct PlainList {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<Plain>,
}
