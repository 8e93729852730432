//! Copies between dtypes and geometries on one device.

use super::{Args, Geometry, Which, address, element, launch, opaque, shape};
use crate::device;
use crate::driver::Shape;
use flambeau_core::{DType, Result, Tensor};

const ALL: [DType; 19] = {
    use DType::*;
    [U8, I8, I16, I32, I64, U16, U32, U64, F16, BF16, F32, F64, Bool, C32, BC32, C64, C128, F8E4M3, F8E5M2]
};
/// The kernel between two dtypes; together with those to all others where that costs nothing.
fn text(from: DType, to: DType, all: bool) -> (String, String) {
    let kernels = ALL
        .iter()
        .enumerate()
        .filter(|(_, d)| all || **d == to)
        .filter_map(|(i, d)| Some(format!("COPY(copy_{i}, {}, {})\n", element(from)?, element(*d)?)));
    (format!("#include \"copy/copy.cuh\"\n{}", kernels.collect::<String>()), format!("copy_{}", place(to)))
}
fn place(d: DType) -> usize {
    ALL.iter().position(|x| *x == d).unwrap_or(0)
}

/// See [`flambeau_core::backend::Backend::copy_elements`].
///
/// # Errors
/// Of the launch.
pub(crate) fn copy(dst: &Tensor, src: &Tensor) -> Result<bool> {
    if element(src.dtype()).is_none() || element(dst.dtype()).is_none() {
        return Ok(false);
    }
    if dst.dtype().is_quantized() || src.dtype().is_quantized() {
        return Ok(false);
    }
    if dst.numel() == 0 {
        return Ok(true);
    }
    let Some(g) = Geometry::of(dst.sizes(), &[dst, src])? else { return Ok(false) };
    let d = device::ordinal(dst.device())?;
    // the sign turns in the dtype that is read: where that has none, or what is written has none, the CPU knows
    let negate = src.is_neg() != dst.is_neg();
    if negate && src.dtype() != dst.dtype() {
        return Ok(false);
    }
    if !negate && dst.dtype() == src.dtype() && src.is_conj() == dst.is_conj() && turned(d, dst, src)? {
        return Ok(true);
    }
    let conjugate = src.is_conj() != dst.is_conj();
    let args = Args::new().geometry(&g).int(conjugate.into()).int(negate.into());
    let which = Which("copy", 0, [place(src.dtype()) as u8, place(dst.dtype()) as u8, 0, 0]);
    // as `rewrite` of kernels/device/block.cuh, where elements lie side by side
    let each =
        if g.dense() { (16 / src.dtype().size().min(dst.dtype().size()).clamp(1, 16)) as u64 } else { 1 };
    let threads = (g.n as u64).div_ceil(each) as i64;
    let all = crate::driver::driver()?.compiles_families();
    launch(d, which, || text(src.dtype(), dst.dtype(), all), shape(threads), args)?;
    Ok(true)
}
/// A copy between elements that lie side by side along different dimensions, by tiles. `false` where they do not.
fn turned(device: usize, dst: &Tensor, src: &Tensor) -> Result<bool> {
    let side = |t: &Tensor| (0..t.dim()).find(|d| t.sizes()[*d] >= 16 && t.strides()[*d] == 1);
    let (Some(m), Some(n)) = (side(dst), side(src)) else { return Ok(false) };
    if m == n || dst.sizes() != src.sizes() {
        return Ok(false);
    }
    let size = dst.dtype().size();
    let bytes = size as i64;
    let rest: Vec<usize> = (0..dst.dim()).filter(|d| *d != m && *d != n).collect();
    let sizes: Vec<i64> = rest.iter().map(|d| dst.sizes()[*d]).collect();
    let strides = |t: &Tensor| rest.iter().map(|d| t.strides()[*d] * bytes).collect::<Vec<i64>>();
    let start = vec![address(dst)?, address(src)?];
    let Some(g) = Geometry::joined(&sizes, &[strides(dst), strides(src)], start) else { return Ok(false) };
    let (across, down) = (dst.sizes()[m], dst.sizes()[n]);
    let args = Args::new().geometry(&g).int(across).int(down);
    let args = args.int(dst.strides()[n] * bytes).int(src.strides()[m] * bytes);
    let tiles = g.n * (across as u64).div_ceil(32) as i64 * (down as u64).div_ceil(32) as i64;
    let shape = Shape { blocks: tiles.clamp(1, 1 << 20) as u32, threads: 256 };
    let own = opaque(size);
    let text = || (format!("#include \"copy/copy.cuh\"\nTURN(turn_k, {own})\n"), "turn_k".to_string());
    launch(device, Which("turn", 0, [size as u8, 0, 0, 0]), text, shape, args)?;
    Ok(true)
}
