//! Operator schemas as constants.

/// The type of a schema argument or result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ty {
    /// `Tensor`
    Tensor,
    /// `Tensor?`
    OptTensor,
    /// `Tensor[]`
    TensorList,
    /// `Tensor?[]`
    OptTensorList,
    /// `Scalar`
    Scalar,
    /// `Scalar?`
    OptScalar,
    /// `Scalar[]`
    ScalarList,
    /// `int`
    Int,
    /// `int?`
    OptInt,
    /// `int[]`; a number n: a lone int means that int n times (`int[2]`), 0: no expansion
    IntList(u8),
    /// `int[]?`, number as for IntList
    OptIntList(u8),
    /// `float`
    Float,
    /// `float?`
    OptFloat,
    /// `float[]`
    FloatList,
    /// `float[]?`
    OptFloatList,
    /// `bool`
    Bool,
    /// `bool?`
    OptBool,
    /// `bool[]`
    BoolList,
    /// `str`
    Str,
    /// `str?`
    OptStr,
    /// `ScalarType`
    DType,
    /// `ScalarType?`
    OptDType,
    /// `Layout?`
    OptLayout,
    /// `Device`
    Device,
    /// `Device?`
    OptDevice,
    /// `MemoryFormat`
    MemoryFormat,
    /// `MemoryFormat?`
    OptMemoryFormat,
    /// `Generator?`
    OptGenerator,
}

/// A default value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Default_ {
    /// No default: the argument is required.
    Required,
    /// `None`
    None,
    /// An int.
    Int(i64),
    /// A float.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// A string.
    Str(&'static str),
    /// A list of ints.
    IntList(&'static [i64]),
    /// A memory format by name.
    MemoryFormat(crate::types::layout::MemoryFormat),
    /// A layout by name.
    Layout(crate::types::layout::Layout),
}

/// One argument.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Arg {
    /// Documented name.
    pub name: &'static str,
    /// Type.
    pub ty: Ty,
    /// Default.
    pub default: Default_,
    /// Only by keyword.
    pub kw_only: bool,
    /// Written to: `Tensor(a!)`.
    pub mutated: bool,
    /// A tensor that may be given as a number.
    pub number: bool,
}

/// Arguments and results.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Schema {
    /// Arguments in order.
    pub args: &'static [Arg],
    /// Result types, with their names (empty where the schema gives none).
    pub returns: &'static [(&'static str, Ty)],
}

impl Schema {
    /// Whether any argument is written to.
    pub const fn mutates(&self) -> bool {
        let mut i = 0;
        while i < self.args.len() {
            if self.args[i].mutated {
                return true;
            }
            i += 1;
        }
        false
    }
}

/// Whether the `out=` form of an operator writes a result to a tensor of another dtype, and what it says where not. In the
/// texts `{want}` and `{got}` stand for the dtypes (`Float`), `{want_c}` and `{got_c}` for their names in C++ (`float`), and
/// `{want_int32}` for `True` where an int32 result is wanted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum OutDtype {
    /// As type promotion casts; an error else.
    Cast,
    /// As type promotion casts; else an error with this text.
    CastOr(&'static str),
    /// The same with an error of kind `Type`.
    CastOrType(&'static str),
    /// To any dtype.
    Any,
    /// Its own dtype alone; the text of the error.
    Exact(&'static str),
    /// Its own dtype or uint8; the text of the error.
    ExactOrByte(&'static str),
    /// To any complex dtype; the text of the error.
    Complex(&'static str),
    /// To any floating dtype; the text of the error.
    Floating(&'static str),
    /// To any floating dtype, in which it is computed; the text of the error, which is of kind `Unsupported`.
    Computed(&'static str),
}
impl OutDtype {
    /// Its own dtype alone, in PyTorch's usual words.
    pub const FOUND: OutDtype = OutDtype::Exact("Found dtype {got} but expected {want}");
    /// The same in other words.
    pub const EXACT: OutDtype =
        OutDtype::Exact("Expected out tensor to have dtype {want_c}, but got {got_c} instead");
}
