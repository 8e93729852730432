//! Copies between dtypes and geometries on one device.

use super::{Args, Geometry, element, launch, shape};
use crate::device;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::{DType, Result, Tensor};

/// All kernels from one dtype: 19 targets are compiled together, which takes no longer than two of them alone.
const ALL: [DType; 19] = {
    use DType::*;
    [U8, I8, I16, I32, I64, U16, U32, U64, F16, BF16, F32, F64, Bool, C32, BC32, C64, C128, F8E4M3, F8E5M2]
};
fn source(from: DType) -> Option<String> {
    let own = element(from)?;
    let kernels =
        ALL.iter().filter_map(|to| Some(format!("COPY(copy_{}, {own}, {})\n", place(*to), element(*to)?)));
    Some(format!("#include \"copy/copy.cuh\"\n{}", kernels.collect::<String>()))
}
fn place(d: DType) -> usize {
    ALL.iter().position(|x| *x == d).unwrap_or(0)
}

/// See [`flambeau_core::backend::Backend::copy_elements`].
///
/// # Errors
/// Of the launch.
pub(crate) fn copy(dst: &Tensor, src: &Tensor) -> Result<bool> {
    let (Some(source), Some(_)) = (source(src.dtype()), element(dst.dtype())) else { return Ok(false) };
    if dst.dtype().is_quantized() || src.dtype().is_quantized() {
        return Ok(false);
    }
    if dst.numel() == 0 {
        return Ok(true);
    }
    let Some(g) = Geometry::of(dst.sizes(), &[dst, src])? else { return Ok(false) };
    let d = device::ordinal(dst.device())?;
    let (from, to) = (src.lazy_bits(), dst.lazy_bits());
    // the sign turns in the dtype that is read: where that has none, or what is written has none, the CPU knows
    let negate = src.is_neg() != dst.is_neg();
    if negate && src.dtype() != dst.dtype() {
        return Ok(false);
    }
    let conjugate = src.is_conj() != dst.is_conj();
    let _ = (from, to);
    let args = Args::new().geometry(&g).int(conjugate.into()).int(negate.into());
    let name = format!("copy_{}", place(dst.dtype()));
    launch(d, &source, &name, shape(g.n), args)?;
    Ok(true)
}
