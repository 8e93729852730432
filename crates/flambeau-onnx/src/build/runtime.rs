//! Element types that runtimes compute in.
//!
//! ONNX lets most operators have most element types, and runtimes leave out many: onnxruntime on the CPU has nearly nothing for
//! bfloat16, and few small integers. There an operator computes in a wider type, with casts around it; results are the same,
//! as integers wrap and bfloat16 is rounded once.

use flambeau_core::DType;

fn is_small_int(d: DType) -> bool {
    matches!(d, DType::I8 | DType::I16 | DType::U8 | DType::U16)
}
fn is_wide_unsigned(d: DType) -> bool {
    matches!(d, DType::U32 | DType::U64)
}
/// The type that an operator computes in for tensors of `d`, if that is another one.
pub(crate) fn computed_in(op: &str, d: DType) -> Option<DType> {
    if d == DType::BF16 {
        // what only moves elements, and what has nothing to do with them
        return match op {
            "Abs" | "Neg" | "Expand" | "Tile" | "Pad" | "Where" | "Compress" | "Trilu" => Some(DType::F32),
            "Cast" | "Shape" | "Identity" | "Gather" | "GatherElements" | "GatherND" | "ScatterElements"
            | "ScatterND" | "Transpose" | "Reshape" | "Slice" | "Split" | "ConstantOfShape" | "Unsqueeze"
            | "Squeeze" | "Concat" | "If" | "Loop" | "Scan" | "Size" | "Constant" | "Sign" | "Flatten" => {
                None
            }
            _ => Some(DType::F32),
        };
    }
    match op {
        "Where" => match d {
            DType::I16 | DType::U16 => Some(DType::I32),
            DType::U64 => Some(DType::I64),
            DType::Bool => Some(DType::U8),
            _ => None,
        },
        "Max" | "Min" | "Clip" | "Pad" => matches!(d, DType::I16 | DType::U16).then_some(DType::I32),
        "Neg" if is_small_int(d) && d != DType::I8 && d != DType::I16 => Some(DType::I32),
        "Neg" if is_wide_unsigned(d) => Some(DType::I64),
        "MatMul" if is_small_int(d) => Some(DType::I32),
        "CumSum" | "ReduceSum" | "ReduceMean" | "ReduceProd" | "ReduceL2" | "Einsum" | "Pow" => {
            if is_small_int(d) {
                Some(DType::I32)
            } else if is_wide_unsigned(d) {
                Some(DType::I64)
            } else {
                None
            }
        }
        "ReduceMax" | "ReduceMin" | "ArgMax" | "ArgMin" | "TopK" => match d {
            DType::I16 | DType::U16 => Some(DType::I32),
            DType::U32 | DType::U64 => Some(DType::I64),
            DType::Bool => Some(DType::I32),
            _ => None,
        },
        "Trilu" => match d {
            DType::I8 | DType::I16 | DType::U8 | DType::U16 | DType::U32 | DType::U64 => Some(DType::I64),
            _ => None,
        },
        "Range" => match d {
            DType::F16 => Some(DType::F32),
            _ if is_small_int(d) && d != DType::I16 => Some(DType::I64),
            _ if is_wide_unsigned(d) || d == DType::Bool => Some(DType::I64),
            _ => None,
        },
        "NonZero" => match d {
            DType::F64 | DType::I8 | DType::I16 | DType::U16 | DType::U32 | DType::U64 => Some(DType::Bool),
            _ => None,
        },
        "OneHot" | "EyeLike" => match d {
            DType::F32 | DType::I64 => None,
            _ if d.is_floating() => Some(DType::F32),
            _ => Some(DType::I64),
        },
        // these have no kernels for integers: the dtype rules keep them away, but for pooling
        "MaxPool" => match d {
            DType::I16 | DType::I32 | DType::U16 => Some(DType::F32),
            DType::I64 | DType::U32 | DType::U64 => Some(DType::F64),
            _ => None,
        },
        "IsInf" if d == DType::F16 => Some(DType::F32),
        "Celu" if d == DType::F16 => Some(DType::F32),
        // no kernels for double precision: what the format allows is left to other runtimes, single functions are computed in
        // single precision
        "Tan" | "Asin" | "Acos" | "Atan" | "Asinh" | "Acosh" | "Atanh" | "Erf" | "Det" if d == DType::F64 => {
            Some(DType::F32)
        }
        "Resize" => match d {
            DType::I16 | DType::I64 | DType::U16 | DType::U32 | DType::U64 | DType::F64 => Some(DType::F32),
            _ => None,
        },
        _ => None,
    }
}
/// Whether an input is of the element type that the operator computes in; others are numbers of places, sizes and conditions.
pub(crate) fn is_operand(op: &str, i: usize) -> bool {
    match op {
        "Where" => i > 0,
        "Pad" => i == 0 || i == 2,
        "OneHot" => i == 2,
        "Resize" | "TopK" | "CumSum" | "Trilu" | "Expand" | "Tile" | "Compress" | "Split" | "Slice" => i == 0,
        _ => i == 0 || !op.starts_with("Reduce"),
    }
}
