//! Element types, constants of operators, tensors as messages.

use crate::proto::{
    AttributeProto, DimensionProto, GraphProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto,
    ValueInfoProto, attribute_type,
};
use flambeau_core::{DType, Error, MemoryFormat, Result, Tensor, ops};
use flambeau_fx::symbolic::Expr;

/// ONNX's number of an element type. Complex tensors are real ones with a last dimension of two.
pub(crate) fn element_type(d: DType) -> Result<i32> {
    Ok(match d {
        DType::F32 | DType::C64 => 1,
        DType::U8 => 2,
        DType::I8 => 3,
        DType::U16 => 4,
        DType::I16 => 5,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        DType::F16 | DType::C32 => 10,
        DType::F64 | DType::C128 => 11,
        DType::U32 => 12,
        DType::U64 => 13,
        DType::BF16 => 16,
        DType::F8E4M3 => 17,
        DType::F8E5M2 => 19,
        other => return Err(Error::unsupported(format!("ONNX has no element type {}", other.name()))),
    })
}
/// A constant of an operator: its name and value.
///
/// ```
/// use torch::onnx::Attribute;
///
/// let axis = Attribute::int("axis", -1);
/// assert_eq!(axis.proto().i, Some(-1));
/// ```
#[derive(Clone, Debug)]
pub struct Attribute(AttributeProto);
impl Attribute {
    fn named(name: &str, kind: i32) -> AttributeProto {
        AttributeProto { name: Some(name.into()), r#type: Some(kind), ..Default::default() }
    }
    /// An integer.
    pub fn int(name: &str, v: i64) -> Attribute {
        Attribute(AttributeProto { i: Some(v), ..Attribute::named(name, attribute_type::INT) })
    }
    /// A float.
    pub fn float(name: &str, v: f64) -> Attribute {
        Attribute(AttributeProto { f: Some(v as f32), ..Attribute::named(name, attribute_type::FLOAT) })
    }
    /// A text.
    pub fn text(name: &str, v: &str) -> Attribute {
        let s = Some(v.as_bytes().to_vec());
        Attribute(AttributeProto { s, ..Attribute::named(name, attribute_type::STRING) })
    }
    /// Integers.
    pub fn ints(name: &str, v: &[i64]) -> Attribute {
        Attribute(AttributeProto { ints: v.to_vec(), ..Attribute::named(name, attribute_type::INTS) })
    }
    /// Floats.
    pub fn floats(name: &str, v: &[f32]) -> Attribute {
        Attribute(AttributeProto { floats: v.to_vec(), ..Attribute::named(name, attribute_type::FLOATS) })
    }
    /// Texts.
    pub fn texts(name: &str, v: &[&str]) -> Attribute {
        let strings = v.iter().map(|s| s.as_bytes().to_vec()).collect();
        Attribute(AttributeProto { strings, ..Attribute::named(name, attribute_type::STRINGS) })
    }
    pub(crate) fn graph(name: &str, g: GraphProto) -> Attribute {
        Attribute(AttributeProto { g: Some(Box::new(g)), ..Attribute::named(name, attribute_type::GRAPH) })
    }
    /// The message.
    pub fn proto(&self) -> &AttributeProto {
        &self.0
    }
    pub(crate) fn into_proto(self) -> AttributeProto {
        self.0
    }
}

/// A tensor's elements, row by row.
pub(crate) fn bytes(t: &Tensor) -> Result<Vec<u8>> {
    let t = if t.is_conj() { ops::resolve_conj(t)? } else { t.clone() };
    let t = if t.is_neg() { ops::resolve_neg(&t)? } else { t };
    if t.numel() == 0 {
        return Ok(Vec::new());
    }
    let flat = ops::reshape(&ops::contiguous(&ops::detach(&t)?, MemoryFormat::Contiguous)?, &[-1])?;
    ops::view_dtype(&flat, DType::U8)?.try_to_vec::<u8>()
}
/// Sizes of the tensor that stands for it.
pub(crate) fn dims(t: &Tensor) -> Vec<i64> {
    let mut d = t.sizes().to_vec();
    if t.dtype().is_complex() {
        d.push(2);
    }
    d
}
/// A tensor as a message.
pub(crate) fn tensor_proto(name: &str, t: &Tensor) -> Result<TensorProto> {
    Ok(TensorProto {
        dims: dims(t),
        data_type: Some(element_type(t.dtype())?),
        name: (!name.is_empty()).then(|| name.to_string()),
        raw_data: Some(bytes(t)?),
        ..Default::default()
    })
}
/// A size as a message; the function renames symbols.
fn dimension(e: &Expr, rename: &dyn Fn(&str) -> String) -> DimensionProto {
    match e {
        Expr::Int(n) => DimensionProto { dim_value: Some(*n), dim_param: None },
        e => DimensionProto { dim_value: None, dim_param: Some(rename(&e.to_string())) },
    }
}
/// A value's name and type.
pub(crate) fn value_info(
    name: &str,
    dtype: DType,
    shape: &[Expr],
    rename: &dyn Fn(&str) -> String,
) -> Result<ValueInfoProto> {
    let mut dim: Vec<DimensionProto> = shape.iter().map(|e| dimension(e, rename)).collect();
    if dtype.is_complex() {
        dim.push(DimensionProto { dim_value: Some(2), dim_param: None });
    }
    let tensor =
        TensorTypeProto { elem_type: Some(element_type(dtype)?), shape: Some(TensorShapeProto { dim }) };
    Ok(ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto { tensor_type: Some(tensor), denotation: None }),
        ..Default::default()
    })
}
