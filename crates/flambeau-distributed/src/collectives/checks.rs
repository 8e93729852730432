//! What collectives refuse, in PyTorch's words.

use flambeau_core::{DType, Error, Result, Tensor, ensure};

pub(super) fn sizes(t: &Tensor) -> String {
    let all: Vec<String> = t.sizes().iter().map(i64::to_string).collect();
    format!("({})", all.join(", "))
}
/// As C++ prints a vector.
fn plain(sizes: &[i64]) -> String {
    sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}
/// All of one dtype.
pub(super) fn same_dtype<'a>(all: impl IntoIterator<Item = &'a Tensor>) -> Result<()> {
    let mut first: Option<DType> = None;
    for t in all {
        let first = *first.get_or_insert(t.dtype());
        // PyTorch sees pairs of reals in complex numbers here
        let shown = if first == DType::C64 { DType::F32 } else { first };
        ensure!(
            first == t.dtype(),
            Value,
            "Invalid usage of tensors with different dtypesFound torch.{} and  torch.{}",
            shown.name(),
            t.dtype().name()
        );
    }
    Ok(())
}
/// What is sent as if it were one tensor: some tensors, of one dtype, which it gives.
pub(super) fn coalesced(name: &str, what: &str, all: &[Tensor]) -> Result<DType> {
    same_dtype(all)?;
    let first = all.first().map(Tensor::dtype);
    first.ok_or_else(|| {
        Error::runtime(format!("ProcessGroupGloo::{name}_coalesced: requires non-empty {what} list"))
    })
}
/// A dtype's name in C++.
fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::F16 => "c10::Half",
        DType::BF16 => "c10::BFloat16",
        DType::I64 => "long int",
        DType::I32 => "int",
        DType::I16 => "short int",
        DType::I8 => "signed char",
        DType::U8 => "unsigned char",
        DType::C64 => "c10::complex<float>",
        DType::C128 => "c10::complex<double>",
        d => d.name(),
    }
}
fn options(dtype: DType) -> String {
    let name = name(dtype);
    format!(
        "TensorOptions(dtype={name}, device=cpu, layout=Strided, requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt))"
    )
}
/// Tensors as the first is: dtype and sizes.
pub(super) fn like(name: &str, all: &[Tensor], want: &Tensor) -> Result<()> {
    for (i, t) in all.iter().enumerate() {
        ensure!(
            t.dtype() == want.dtype(),
            Runtime,
            "ProcessGroupGloo::{name}: invalid tensor type at index {i} (expected {}, got {})",
            options(want.dtype()),
            options(t.dtype())
        );
        ensure!(
            t.sizes() == want.sizes(),
            Runtime,
            "ProcessGroupGloo::{name}: invalid tensor size at index {i} (expected {}, got {})",
            sizes(want),
            sizes(t)
        );
    }
    Ok(())
}
pub(super) fn check_failed(what: &str, left: &[i64], right: &[i64]) -> flambeau_core::Error {
    flambeau_core::Error::runtime(format!("Check failed: {what} ({} vs. {}). ", plain(left), plain(right)))
}
/// An output has the dtype of what is reduced into it.
pub(super) fn output_like(out: &Tensor, input: &Tensor) -> Result<()> {
    let what = "outputTensors[i].dtype() == inputTensors[i].dtype()";
    ensure!(
        out.dtype() == input.dtype(),
        Runtime,
        "Check failed: {what} ({} vs. {}). ",
        name(out.dtype()),
        name(input.dtype())
    );
    Ok(())
}
