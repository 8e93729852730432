//! ONNX's messages, under the numbers of its `onnx.proto`. A field of a `oneof` is an optional field of which one is set.
//!
//! ```
//! use torch::onnx::proto::*;
//! use torch::{Tensor, export, nn, onnx, prelude::*};
//!
//! let net = nn::Linear::new(2, 3);
//! let program = export::export(&net, |x: &[Tensor]| net.call(&x[0]), &[&torch::zeros([4, 2])]);
//! let model: ModelProto = onnx::export(&program).model_proto()?;
//! let opset: &OperatorSetIdProto = &model.opset_import[0];
//! assert!(opset.version.is_some());
//! let graph: &GraphProto = model.graph.as_ref().unwrap();
//! let node: &NodeProto = graph.node.last().unwrap();
//! assert_eq!(node.output, [graph.output[0].name.clone().unwrap()]);
//! let input: &ValueInfoProto = &graph.input[0];
//! let of: &TypeProto = input.r#type.as_ref().unwrap();
//! let tensor: &TensorTypeProto = of.tensor_type.as_ref().unwrap();
//! let shape: &TensorShapeProto = tensor.shape.as_ref().unwrap();
//! let sizes: Vec<Option<i64>> = shape.dim.iter().map(|d: &DimensionProto| d.dim_value).collect();
//! assert_eq!(sizes, [Some(4), Some(2)]);
//! let note = StringStringEntryProto { key: Some("author".into()), value: Some("me".into()) };
//! let named = ModelProto { metadata_props: vec![note], ..model };
//! assert_eq!(named.functions, Vec::<FunctionProto>::new());
//! let axis = AttributeProto { name: Some("axis".into()), i: Some(1), ..Default::default() };
//! let weight = TensorProto { dims: vec![2], ..Default::default() };
//! assert_eq!((axis.i, weight.dims), (Some(1), vec![2]));
//! # Ok::<(), torch::Error>(())
//! ```

use prost::Message;

/// A model: a graph, and what it needs to be understood.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    /// Version of the format.
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    /// Who wrote it.
    #[prost(string, optional, tag = "2")]
    pub producer_name: Option<String>,
    /// In which version.
    #[prost(string, optional, tag = "3")]
    pub producer_version: Option<String>,
    /// Name space of the model.
    #[prost(string, optional, tag = "4")]
    pub domain: Option<String>,
    /// Version of the model.
    #[prost(int64, optional, tag = "5")]
    pub model_version: Option<i64>,
    /// What it is.
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    /// The graph.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// The operator sets that it uses.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Notes.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
    /// Functions of the model's own.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
}
/// A note.
#[derive(Clone, PartialEq, Message)]
pub struct StringStringEntryProto {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// What it says.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}
/// A set of operators in a version.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSetIdProto {
    /// The set; empty for ONNX's own.
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    /// Its version.
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}
/// A graph.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    /// Steps, each after those that it uses.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// Its name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// Weights and constants.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// What it is.
    #[prost(string, optional, tag = "10")]
    pub doc_string: Option<String>,
    /// What is given.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// What comes out.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// What is known of values in between.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
    /// Notes.
    #[prost(message, repeated, tag = "16")]
    pub metadata_props: Vec<StringStringEntryProto>,
}
/// A step.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// Values that it uses; an empty name for none.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Values that it makes.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// Its name.
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    /// The operator.
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    /// Constants of the operator.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// What it is.
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    /// The operator's set.
    #[prost(string, optional, tag = "7")]
    pub domain: Option<String>,
    /// Notes.
    #[prost(message, repeated, tag = "9")]
    pub metadata_props: Vec<StringStringEntryProto>,
}
/// A constant of an operator.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// A float.
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    /// An integer.
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// A text.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub s: Option<Vec<u8>>,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// A graph.
    #[prost(message, optional, boxed, tag = "6")]
    pub g: Option<Box<GraphProto>>,
    /// Floats.
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    /// Integers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// Texts.
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub strings: Vec<Vec<u8>>,
    /// Which of the fields is set.
    #[prost(int32, optional, tag = "20")]
    pub r#type: Option<i32>,
}
/// Kinds of [`AttributeProto`].
pub mod attribute_type {
    /// A float.
    pub const FLOAT: i32 = 1;
    /// An integer.
    pub const INT: i32 = 2;
    /// A text.
    pub const STRING: i32 = 3;
    /// A tensor.
    pub const TENSOR: i32 = 4;
    /// A graph.
    pub const GRAPH: i32 = 5;
    /// Floats.
    pub const FLOATS: i32 = 6;
    /// Integers.
    pub const INTS: i32 = 7;
    /// Texts.
    pub const STRINGS: i32 = 8;
}
/// A tensor's values.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    /// Sizes.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// Element type.
    #[prost(int32, optional, tag = "2")]
    pub data_type: Option<i32>,
    /// Its name.
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    /// What it is.
    #[prost(string, optional, tag = "12")]
    pub doc_string: Option<String>,
    /// The elements, little-endian, row by row.
    #[prost(bytes = "vec", optional, tag = "9")]
    pub raw_data: Option<Vec<u8>>,
    /// Where the elements stand in another file.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1: in another file.
    #[prost(int32, optional, tag = "14")]
    pub data_location: Option<i32>,
}
/// A value: its name and type.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Its type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
    /// What it is.
    #[prost(string, optional, tag = "3")]
    pub doc_string: Option<String>,
    /// Notes.
    #[prost(message, repeated, tag = "4")]
    pub metadata_props: Vec<StringStringEntryProto>,
}
/// A type: of tensors alone.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    /// A tensor's.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
    /// What the value means.
    #[prost(string, optional, tag = "6")]
    pub denotation: Option<String>,
}
/// Element type and sizes.
#[derive(Clone, PartialEq, Message)]
pub struct TensorTypeProto {
    /// Element type.
    #[prost(int32, optional, tag = "1")]
    pub elem_type: Option<i32>,
    /// Sizes.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}
/// Sizes.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    /// One by dimension.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}
/// A size: a number, a name for one, or nothing.
#[derive(Clone, PartialEq, Message)]
pub struct DimensionProto {
    /// The number.
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    /// The name.
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}
/// A function of the model's own.
#[derive(Clone, PartialEq, Message)]
pub struct FunctionProto {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Names of its inputs.
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    /// Names of its outputs.
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// Names of its constants.
    #[prost(string, repeated, tag = "6")]
    pub attribute: Vec<String>,
    /// Its steps.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    /// What it is.
    #[prost(string, optional, tag = "8")]
    pub doc_string: Option<String>,
    /// The operator sets that it uses.
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// The set that it belongs to.
    #[prost(string, optional, tag = "10")]
    pub domain: Option<String>,
}
