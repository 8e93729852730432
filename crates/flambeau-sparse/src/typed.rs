//! Sparse tensors by their type, as PyTorch made them before `sparse_coo_tensor`: `torch.sparse.FloatTensor(indices, values)`
//! and the methods that the documentation lists for it, some of which have other names today.

use crate::construct::{SparseOptions, coo, coo_zeros};
use crate::ops;
use flambeau_core::Value;
use flambeau_core::dispatch::object::Kwargs;
use flambeau_core::{DType, Error, Result, Tensor, ensure};
use flambeau_library::{NativeFn, call};

fn typed(name: &str, dtype: DType, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    ensure!(kwargs.is_empty(), Type, "{name}() takes no keyword arguments");
    let sizes = |l: &[Value]| -> Result<Vec<i64>> {
        let int = |v: &Value| match v {
            Value::Int(n) => Ok(*n),
            v => Err(Error::type_(format!(
                "new(): argument 'size' must be tuple of ints, but found element of type {}",
                v.type_name()
            ))),
        };
        l.iter().map(int).collect()
    };
    let options = SparseOptions::new().dtype(dtype);
    let t = match args {
        [] => coo_zeros(&[0], &options)?,
        [Value::Tensor(i), Value::Tensor(v)] => coo(i, &of_dtype(v, dtype)?, &options)?,
        [Value::Tensor(i), Value::Tensor(v), size] => {
            let size = sizes(size.items().unwrap_or(std::slice::from_ref(size)))?;
            coo(i, &of_dtype(v, dtype)?, &options.size(size))?
        }
        [one] if one.items().is_some() => coo_zeros(&sizes(one.items().unwrap_or(&[]))?, &options)?,
        all => coo_zeros(&sizes(all)?, &options)?,
    };
    Ok(vec![Value::Tensor(t)])
}
fn of_dtype(values: &Tensor, dtype: DType) -> Result<Tensor> {
    ensure!(
        values.dtype() == dtype,
        Type,
        "expected values of dtype {dtype}, but got {}: the tensor's type says its dtype",
        values.dtype()
    );
    Ok(values.clone())
}
/// The method of a name that PyTorch has today, after a look at the dtype.
fn of(dtype: DType, name: &str, args: &[Value], kwargs: &Kwargs) -> Result<Vec<Value>> {
    if let Some(Value::Tensor(t)) = args.first() {
        ensure!(
            t.dtype() == dtype,
            Type,
            "descriptor of a sparse {} tensor doesn't apply to a {} tensor",
            dtype,
            t.dtype()
        );
    }
    call(name, args, kwargs)
}
/// Gives a tensor the sizes of another one.
fn resized_as(args: &[Value]) -> Result<Vec<Value>> {
    let [Value::Tensor(t), Value::Tensor(like)] = args else {
        return Err(Error::type_("resizeAs_() takes one tensor"));
    };
    let mut t = t.clone();
    if t.sizes() != like.sizes() {
        crate::resize::resize(&mut t, like.sizes(), ops::sparse_dim(like)?, ops::dense_dim(like)?)?;
    }
    Ok(vec![Value::Tensor(t)])
}

macro_rules! types {
    ($($type:literal $dtype:ident;)*) => {
        /// Constructors.
        const MADE: &[(&str, NativeFn)] =
            &[$((concat!("torch.sparse.", $type), |a, k| typed($type, DType::$dtype, a, k)),)*];
    };
}
types! {
    "FloatTensor" F32;
    "DoubleTensor" F64;
    "HalfTensor" F16;
    "BFloat16Tensor" BF16;
    "ByteTensor" U8;
    "CharTensor" I8;
    "ShortTensor" I16;
    "IntTensor" I32;
    "LongTensor" I64;
}
macro_rules! methods {
    ($($old:literal $new:literal;)*) => {
        /// The documented methods, and what they are called today.
        const METHODS: &[(&str, NativeFn)] =
            &[$((concat!("torch.sparse.FloatTensor.", $old), |a, k| of(DType::F32, $new, a, k)),)*];
    };
}
methods! {
    "add" "torch.Tensor.add";
    "add_" "torch.Tensor.add_";
    "clone" "torch.Tensor.clone";
    "coalesce" "torch.Tensor.coalesce";
    "dim" "torch.Tensor.dim";
    "div" "torch.Tensor.div";
    "div_" "torch.Tensor.div_";
    "get_device" "torch.Tensor.get_device";
    "hspmm" "torch.hspmm";
    "_indices" "torch.Tensor._indices";
    "is_coalesced" "torch.Tensor.is_coalesced";
    "mm" "torch.Tensor.mm";
    "mul" "torch.Tensor.mul";
    "mul_" "torch.Tensor.mul_";
    "narrow_copy" "torch.Tensor.narrow_copy";
    "_nnz" "torch.Tensor._nnz";
    "size" "torch.Tensor.size";
    "spadd" "torch.Tensor.add";
    "spmm" "torch.Tensor.mm";
    "sspaddmm" "torch.Tensor.sspaddmm";
    "sspmm" "torch.Tensor.smm";
    "sub" "torch.Tensor.sub";
    "sub_" "torch.Tensor.sub_";
    "t_" "torch.Tensor.t_";
    "toDense" "torch.Tensor.to_dense";
    "transpose" "torch.Tensor.transpose";
    "transpose_" "torch.Tensor.transpose_";
    "_values" "torch.Tensor._values";
    "zero_" "torch.Tensor.zero_";
}
const RESIZED: (&str, NativeFn) = ("torch.sparse.FloatTensor.resizeAs_", |a, _| resized_as(a));

/// Name and body.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, NativeFn)> {
    MADE.iter().chain(METHODS).copied().chain([RESIZED])
}
