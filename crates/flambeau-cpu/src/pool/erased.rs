//! Pooling over slices of run-time type: floats, and for windows with a fixed kernel integers too (maxima of any, averages
//! of i64). `None` means that the dtypes are not supported; data slices share one dtype.

use super::{AdaptiveShape, AvgDivisor, PoolShape};
use crate::engine::erase::{erased, through};
use crate::{Any, AnyMut, DType};

/// Runs `f` on slices of one floating dtype or of i64; halves go through f32.
fn floats<R>(x: Any, y: AnyMut, f: impl FnOnce(Any, AnyMut) -> Option<R>) -> Option<R> {
    if x.dtype() != y.dtype() || !(x.dtype().is_floating() || x.dtype() == DType::I64) {
        return None;
    }
    through(x, y, f)
}

/// [`super::max_pool`] of integers and floats.
pub fn max_pool(s: &PoolShape, x: Any, y: AnyMut, index: &mut [i64]) -> Option<()> {
    if x.dtype() != y.dtype() || matches!(x.dtype(), DType::Bool | DType::U64) {
        return None;
    }
    through(x, y, |x, y| erased!(x, T in [LONG, FLOAT] => super::max_pool::<T>(s, x.get(), y.get(), index)))
}
/// [`super::max_pool_backward`] of floats.
pub fn max_pool_backward(
    planes: usize,
    in_plane: usize,
    grad_y: Any,
    index: &[i64],
    grad_x: AnyMut,
) -> Option<Result<(), String>> {
    floats(
        grad_y,
        grad_x,
        |gy, gx| erased!(gy, T in [FLOAT] => super::max_pool_backward::<T>(planes, in_plane, gy.get(), index, gx.get())),
    )
}
/// [`super::avg_pool`] of i64 and floats.
pub fn avg_pool(s: &PoolShape, div: AvgDivisor, x: Any, y: AnyMut) -> Option<Result<(), String>> {
    floats(x, y, |x, y| erased!(x, T in [LONG, FLOAT] => super::avg_pool::<T>(s, div, x.get(), y.get())))
}
/// [`super::avg_pool_backward`] of i64 and floats.
pub fn avg_pool_backward(
    s: &PoolShape,
    div: AvgDivisor,
    grad_y: Any,
    grad_x: AnyMut,
) -> Option<Result<(), String>> {
    floats(
        grad_y,
        grad_x,
        |gy, gx| erased!(gy, T in [LONG, FLOAT] => super::avg_pool_backward::<T>(s, div, gy.get(), gx.get())),
    )
}
/// [`super::adaptive_avg_pool`] of floats.
pub fn adaptive_avg_pool(s: &AdaptiveShape, x: Any, y: AnyMut) -> Option<()> {
    floats(x, y, |x, y| erased!(x, T in [FLOAT] => super::adaptive_avg_pool::<T>(s, x.get(), y.get())))
}
/// [`super::adaptive_avg_pool_backward`] of floats.
pub fn adaptive_avg_pool_backward(s: &AdaptiveShape, grad_y: Any, grad_x: AnyMut) -> Option<()> {
    floats(
        grad_y,
        grad_x,
        |gy, gx| erased!(gy, T in [FLOAT] => super::adaptive_avg_pool_backward::<T>(s, gy.get(), gx.get())),
    )
}
/// [`super::adaptive_max_pool`] of floats.
pub fn adaptive_max_pool(s: &AdaptiveShape, x: Any, y: AnyMut, index: &mut [i64]) -> Option<()> {
    floats(x, y, |x, y| erased!(x, T in [FLOAT] => super::adaptive_max_pool::<T>(s, x.get(), y.get(), index)))
}
