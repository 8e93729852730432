//! Views as tensors of their own.

use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::{DType, MemoryFormat, ops};

fn copy(t: &Tensor) -> Result<Tensor> {
    ops::clone(t, Some(MemoryFormat::Contiguous))
}
macro_rules! copies {
    ($($name:ident $view:ident($($a:ident: $t:ty),*);)*) => {$(
        #[doc = concat!("A copy of `", stringify!($view), "`.")]
        pub fn $name(self_: &Tensor, $($a: $t),*) -> Result<Tensor> {
            copy(&ops::$view(self_, $($a),*)?)
        }
    )*};
}
copies! {
    alias_copy alias();
    as_strided_copy as_strided(size: &[i64], stride: &[i64], storage_offset: Option<i64>);
    detach_copy detach();
    diagonal_copy diagonal(offset: i64, dim1: i64, dim2: i64);
    expand_copy expand(size: &[i64], implicit: bool);
    permute_copy permute(dims: &[i64]);
    select_copy select(dim: i64, index: i64);
    slice_copy slice(dim: i64, start: Option<i64>, end: Option<i64>, step: i64);
    squeeze_copy squeeze();
    squeeze_dim_copy squeeze_dim(dim: i64);
    squeeze_dims_copy squeeze_dims(dim: &[i64]);
    t_copy t();
    transpose_copy transpose(dim0: i64, dim1: i64);
    unfold_copy unfold(dimension: i64, size: i64, step: i64);
    unsqueeze_copy unsqueeze(dim: i64);
    view_dtype_copy view_dtype(dtype: DType);
    view_as_real_copy view_as_real();
    view_as_complex_copy view_as_complex();
}
/// A copy of `view`; where no view has these sizes, of `reshape`.
pub fn view_copy(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    match ops::view(self_, size) {
        Ok(v) => copy(&v),
        Err(_) => ops::reshape(self_, size),
    }
}
macro_rules! parts {
    ($($name:ident $view:ident($($a:ident: $t:ty),*);)*) => {$(
        #[doc = concat!("Copies of the parts of `", stringify!($view), "`.")]
        pub fn $name(self_: &Tensor, $($a: $t),*) -> Result<Vec<Tensor>> {
            let parts = ops::$view(self_, $($a),*)?;
            super::views::views(parts.len() as i64, |i| copy(&parts[i as usize]))
        }
    )*};
}
parts! {
    unbind_copy unbind(dim: i64);
    split_copy split(split_size: i64, dim: i64);
    split_with_sizes_copy split_with_sizes(split_sizes: &[i64], dim: i64);
    unsafe_chunk chunk(chunks: i64, dim: i64);
    unsafe_split split(split_size: i64, dim: i64);
    unsafe_split_with_sizes split_with_sizes(split_sizes: &[i64], dim: i64);
}
