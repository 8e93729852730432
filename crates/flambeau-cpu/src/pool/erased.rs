//! Pooling over slices of run-time type: floats, and for windows with a fixed kernel integers too (maxima of any, averages
//! of i64). `None` means that the dtypes are not supported; data slices share one dtype.

use super::{AdaptiveShape, AvgDivisor, PoolShape};
use crate::erase::{erased, through};
use crate::{Any, AnyMut, DType};

/// [`super::max_pool`] of integers and floats.
pub fn max_pool(s: &PoolShape, x: Any, y: AnyMut, index: &mut [i64]) -> Option<()> {
    if x.dtype() != y.dtype() || matches!(x.dtype(), DType::Bool | DType::U64) {
        return None;
    }
    if matches!(x.dtype(), DType::F16 | DType::BF16) {
        return erased!(x, T in [HALF] => super::max_pool::<T>(s, x.get(), y.get(), index));
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
    erased!(grad_y, T in [HALF, FLOAT], same(grad_x) => {
        super::max_pool_backward::<T>(planes, in_plane, grad_y.get(), index, grad_x.get())
    })
}
/// [`super::avg_pool`] of i64 and floats.
pub fn avg_pool(s: &PoolShape, div: AvgDivisor, x: Any, y: AnyMut) -> Option<Result<(), String>> {
    erased!(x, T in [LONG, HALF, FLOAT], same(y) => super::avg_pool::<T>(s, div, x.get(), y.get()))
}
/// [`super::avg_pool_backward`] of i64 and floats.
pub fn avg_pool_backward(
    s: &PoolShape,
    div: AvgDivisor,
    grad_y: Any,
    grad_x: AnyMut,
) -> Option<Result<(), String>> {
    erased!(grad_y, T in [LONG, HALF, FLOAT], same(grad_x) => {
        super::avg_pool_backward::<T>(s, div, grad_y.get(), grad_x.get())
    })
}
/// [`super::adaptive_avg_pool`] of floats.
pub fn adaptive_avg_pool(s: &AdaptiveShape, x: Any, y: AnyMut) -> Option<()> {
    erased!(x, T in [HALF, FLOAT], same(y) => super::adaptive_avg_pool::<T>(s, x.get(), y.get()))
}
/// [`super::adaptive_avg_pool_backward`] of floats.
pub fn adaptive_avg_pool_backward(s: &AdaptiveShape, grad_y: Any, grad_x: AnyMut) -> Option<()> {
    erased!(grad_y, T in [HALF, FLOAT], same(grad_x) => {
        super::adaptive_avg_pool_backward::<T>(s, grad_y.get(), grad_x.get())
    })
}
/// [`super::adaptive_max_pool`] of floats.
pub fn adaptive_max_pool(s: &AdaptiveShape, x: Any, y: AnyMut, index: &mut [i64]) -> Option<()> {
    erased!(x, T in [HALF, FLOAT], same(y) => super::adaptive_max_pool::<T>(s, x.get(), y.get(), index))
}
