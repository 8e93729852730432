//! What a checkpoint means: a [`Tree`] of Python values with tensors at its leaves, and its way to and from
//! pickles and files.

mod decode;
mod encode;
mod file;
mod parts;
mod tree;

pub use decode::{decode, is_known_global};
pub use encode::{Encoded, Form, encode, encode_as};
pub(crate) use file::load_any;
pub use file::{
    ArchivePart, load, load_from, load_part, save, save_legacy_to, save_to, save_to_with, stream_to,
};
pub(crate) use tree::QUANTIZED;
pub use tree::{Object, Tree};

use crate::container::{ByteOrder, STORAGE_ALIGNMENT};
use flambeau_dtype::DType;

/// How much a reader accepts.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Gives classes and functions outside the allow-list as opaque [`Tree::Object`] and [`Tree::Global`]
    /// (nothing is ever executed); otherwise they are an error.
    pub lenient: bool,
    /// Further names, as in `package.module.Class`, that are given as opaque objects.
    pub safe_globals: Vec<String>,
    /// Byte order of archives that do not say theirs; PyTorch takes them for little-endian.
    pub byte_order: Option<ByteOrder>,
}

/// How a checkpoint is written.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// The pickle's protocol, 2 to 5.
    pub protocol: u8,
    /// Multiple that records start at.
    pub alignment: u16,
    /// Whether the byte order is recorded.
    pub byte_order: bool,
    /// Whether the space of the storages is written as zeros, to be filled later.
    pub skip_data: bool,
}
impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions {
            protocol: crate::pickle::DEFAULT_PROTOCOL,
            alignment: STORAGE_ALIGNMENT,
            byte_order: true,
            skip_data: false,
        }
    }
}

/// One storage that a checkpoint refers to.
#[derive(Clone, PartialEq, Debug)]
pub struct StorageInfo {
    /// Name of its record.
    pub key: String,
    /// Element type it was saved as; untyped storages are bytes.
    pub dtype: DType,
    /// Its size in bytes.
    pub nbytes: usize,
    /// Where it was, as in `cpu` or `cuda:0`.
    pub location: String,
    /// Where its bytes start in the file, if they lie there as the machine would have them in memory.
    pub file_offset: Option<u64>,
}

/// A tensor as described in a checkpoint. Strides and offset count elements.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorRef {
    /// Equal for two references to one tensor object (tied weights, for instance).
    pub object: usize,
    /// Position of its storage in the list that [`decode`] gives; none for a tensor on the meta device.
    pub storage: Option<usize>,
    /// Name of its storage's record.
    pub storage_key: String,
    /// Where its storage was.
    pub location: String,
    /// Element type.
    pub dtype: DType,
    /// First element.
    pub offset: i64,
    /// Size of each dimension.
    pub size: Vec<i64>,
    /// Stride of each dimension.
    pub stride: Vec<i64>,
    /// Whether gradients are wanted.
    pub requires_grad: bool,
    /// Whether it is a `torch.nn.Parameter`.
    pub is_parameter: bool,
    /// Lazily conjugated.
    pub conj: bool,
    /// Lazily negated.
    pub neg: bool,
}

/// Dtypes that have a storage class of their own in the format; all others go through untyped storage.
const STORAGE_CLASSES: [(&str, DType); 16] = [
    ("DoubleStorage", DType::F64),
    ("FloatStorage", DType::F32),
    ("HalfStorage", DType::F16),
    ("LongStorage", DType::I64),
    ("IntStorage", DType::I32),
    ("ShortStorage", DType::I16),
    ("CharStorage", DType::I8),
    ("ByteStorage", DType::U8),
    ("BoolStorage", DType::Bool),
    ("BFloat16Storage", DType::BF16),
    ("ComplexDoubleStorage", DType::C128),
    ("ComplexFloatStorage", DType::C64),
    ("QInt8Storage", DType::QI8),
    ("QInt32Storage", DType::QI32),
    ("QUInt8Storage", DType::QU8),
    ("QUInt4x2Storage", DType::QU4X2),
];

/// Size of the numbers whose bytes are reversed between byte orders: half an element for complex ones.
pub(crate) fn swap_unit(dtype: DType) -> usize {
    if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() }
}
