//! What operators over matrices share: PyTorch's checks of their operands, matrices by columns as kernels take them, and the
//! errors that kernels report by number.

use super::out::OutMeta;
use super::transfer::copy_into;
use crate::tensor::geometry::{self, SizeVec};
use crate::tensor::handle::Tensor;
use crate::tensor::wrapper::all_slices;
use crate::types::error::{Error, ErrorKind, Result};
use crate::{DType, Device, ensure, ops};

/// Two dimensions at least.
///
/// # Errors
/// In PyTorch's words, of the function `name`.
pub fn at_least_a_matrix(name: &str, a: &Tensor, what: &str) -> Result<()> {
    ensure!(a.dim() >= 2, Runtime, "{name}: The input tensor {what} must have at least 2 dimensions.");
    Ok(())
}
/// Square in the last two dimensions.
///
/// # Errors
/// As [`at_least_a_matrix`].
pub fn square(name: &str, a: &Tensor, what: &str) -> Result<()> {
    at_least_a_matrix(name, a, what)?;
    let (m, n) = sides(a);
    ensure!(
        m == n,
        Runtime,
        "{name}: {what} must be batches of square matrices, but they are {m} by {n} matrices"
    );
    Ok(())
}
/// Floating or complex numbers; halves only if `halves`.
///
/// # Errors
/// As [`at_least_a_matrix`].
pub fn numbers(name: &str, d: DType, halves: bool) -> Result<()> {
    ensure!(
        d.is_floating() || d.is_complex(),
        Unsupported,
        "{name}: Expected a floating point or complex tensor as input. Got {}",
        d.scalar_type_name()
    );
    ensure!(
        halves || matches!(d, DType::F32 | DType::F64 | DType::C64 | DType::C128),
        Unsupported,
        "{name}: Low precision dtypes not supported. Got {}",
        d.scalar_type_name()
    );
    Ok(())
}
/// Whether kernels compute in this dtype; the others are "not implemented for".
///
/// # Errors
/// For the others.
pub fn computed(kernel: &str, d: DType) -> Result<()> {
    let fine = matches!(d, DType::F32 | DType::F64 | DType::C64 | DType::C128);
    if fine { Ok(()) } else { Err(Error::not_implemented_for(kernel, d)) }
}
/// Rows and columns.
pub fn sides(a: &Tensor) -> (i64, i64) {
    (a.sizes()[a.dim() - 2], a.sizes()[a.dim() - 1])
}
/// The dimensions before the last two.
pub fn batch(a: &Tensor) -> &[i64] {
    &a.sizes()[..a.dim() - 2]
}
/// Batch dimensions and those of each element.
pub fn sized(batch: &[i64], last: &[i64]) -> SizeVec {
    batch.iter().chain(last).copied().collect()
}
/// An output of these sizes, row by row.
pub fn plain(a: &Tensor, batch: &[i64], last: &[i64], d: DType) -> OutMeta {
    OutMeta::new(sized(batch, last), d, a.device())
}
/// An output of `m x n` matrices by columns.
pub fn by_columns(a: &Tensor, batch: &[i64], m: i64, n: i64, d: DType) -> OutMeta {
    let mut meta = plain(a, batch, &[m, n], d);
    meta.strides = Some(column_strides(&meta.sizes));
    meta
}
/// Strides of dense matrices by columns.
pub fn column_strides(sizes: &[i64]) -> SizeVec {
    let mut st = geometry::contiguous_strides(sizes);
    let n = sizes.len();
    st[n - 2] = 1;
    st[n - 1] = sizes[n - 2].max(1);
    st
}
/// A fresh copy by columns, without lazy bits.
///
/// # Errors
/// No memory, no kernel for the dtype.
pub fn columns(a: &Tensor) -> Result<Tensor> {
    let out = Tensor::empty_strided_raw(a.sizes(), &column_strides(a.sizes()), a.dtype(), a.device())?;
    copy_into(&out, a)?;
    Ok(out)
}
/// A fresh copy by rows, without lazy bits.
///
/// # Errors
/// As [`columns`].
pub fn rows(a: &Tensor) -> Result<Tensor> {
    let out = Tensor::empty_raw(a.sizes(), a.dtype(), a.device())?;
    copy_into(&out, a)?;
    Ok(out)
}
/// Writes one tensor's elements into another, cast and broadcast: below dispatch and gradients.
///
/// # Errors
/// As a copy.
pub fn write(to: &Tensor, from: &Tensor) -> Result<()> {
    copy_into(to, from)
}
/// The first number of `info` for which `failed` holds becomes an error: `text` gets that number.
///
/// # Errors
/// Of kind `Linalg`, with the place in the batch if there is one.
pub fn check_info(
    name: &str,
    info: &Tensor,
    failed: impl Fn(i32) -> bool,
    text: impl Fn(i32) -> String,
) -> Result<()> {
    let info = &all_slices(info);
    if info.device() == Device::Meta || info.numel() == 0 {
        return Ok(());
    }
    let all = ops::reshape(info, &[-1])?.try_to_vec::<i32>()?;
    let Some((i, k)) = all.iter().enumerate().find(|(_, k)| failed(**k)) else { return Ok(()) };
    let place = if info.dim() == 0 { String::new() } else { format!("(Batch element {i}): ") };
    Err(Error::new(ErrorKind::Linalg, format!("{name}: {place}{}", text(*k))))
}
