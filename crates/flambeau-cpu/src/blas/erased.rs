//! Matrix products over slices of run-time type, for integers (not the wider unsigned ones), floats and complex numbers.
//! `None` means that the dtypes are not supported; all operands share one dtype.

use super::{Mat, MatmulScalar};
use crate::engine::erase::erased;
use crate::pointwise::{FromParam, Param};
use crate::{Any, AnyMut};

/// A matrix of run-time type.
pub type MatAny<'a> = Mat<Any<'a>>;
/// A matrix of run-time type to write.
pub type MatAnyMut<'a> = Mat<AnyMut<'a>>;

fn scalar<T: MatmulScalar<Compute: FromParam>>(p: Param) -> T::Compute {
    T::Compute::from_param(p)
}

/// [`super::gemm`].
pub fn gemm(
    m: usize,
    n: usize,
    k: usize,
    alpha: Param,
    a: MatAny,
    b: MatAny,
    beta: Param,
    c: MatAnyMut,
) -> Option<()> {
    erased!(a.data, T in [INT, HALF, FLOAT, COMPLEX, C32], same(b.data, c.data) => {
        super::gemm::<T>(m, n, k, scalar::<T>(alpha), a.map(|a| a.get()), b.map(|b| b.get()), scalar::<T>(beta), c.map(|c| c.get()))
    })
}
/// [`super::gemm_batched`].
pub fn gemm_batched(
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    alpha: Param,
    (a, a_stride): (MatAny, usize),
    (b, b_stride): (MatAny, usize),
    beta: Param,
    (c, c_stride): (MatAnyMut, usize),
) -> Option<()> {
    erased!(a.data, T in [INT, HALF, FLOAT, COMPLEX, C32], same(b.data, c.data) => {
        super::gemm_batched::<T>(
            batch, m, n, k, scalar::<T>(alpha), (a.map(|a| a.get()), a_stride), (b.map(|b| b.get()), b_stride), scalar::<T>(beta),
            (c.map(|c| c.get()), c_stride),
        )
    })
}
/// [`super::dot`] into the first element of `out`.
pub fn dot(n: usize, x: Any, x_step: usize, y: Any, y_step: usize, out: AnyMut) -> Option<()> {
    erased!(x, T in [INT, HALF, FLOAT, COMPLEX, C32], same(y, out) => {
        out.get()[0] = super::dot::<T>(n, x.get(), x_step, y.get(), y_step)
    })
}
