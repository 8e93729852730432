//! Matrix products over slices of run-time type, for integers (not the wider unsigned ones), floats and complex numbers.
//! `None` means that the dtypes are not supported; all operands share one dtype.

use super::{Mat, MatMut, MatmulScalar};
use crate::engine::erase::{FromParam, erased};
use crate::pointwise::Param;
use crate::{Any, AnyMut};

/// [`Mat`] of run-time type.
#[derive(Clone, Copy)]
pub struct MatAny<'a> {
    /// Elements, from `(0, 0)` on.
    pub data: Any<'a>,
    /// Step from one row to the next, in elements.
    pub row: usize,
    /// Step from one column to the next, in elements.
    pub col: usize,
}
/// [`MatMut`] of run-time type.
pub struct MatAnyMut<'a> {
    /// Elements, from `(0, 0)` on.
    pub data: AnyMut<'a>,
    /// Step from one row to the next, in elements.
    pub row: usize,
    /// Step from one column to the next, in elements.
    pub col: usize,
}
impl<'a> MatAny<'a> {
    fn get<T: crate::Element>(self) -> Mat<'a, T> {
        Mat { data: self.data.get(), row: self.row, col: self.col }
    }
}
impl<'a> MatAnyMut<'a> {
    fn get<T: crate::Element>(self) -> MatMut<'a, T> {
        MatMut { data: self.data.get(), row: self.row, col: self.col }
    }
}
fn scalar<T: MatmulScalar<Wide: FromParam>>(p: Param) -> T::Wide {
    T::Wide::from_param(p)
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
        super::gemm::<T>(m, n, k, scalar::<T>(alpha), a.get(), b.get(), scalar::<T>(beta), c.get())
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
            batch, m, n, k, scalar::<T>(alpha), (a.get(), a_stride), (b.get(), b_stride), scalar::<T>(beta),
            (c.get(), c_stride),
        )
    })
}
/// [`super::dot`] into the first element of `out`.
pub fn dot(n: usize, x: Any, x_step: usize, y: Any, y_step: usize, out: AnyMut) -> Option<()> {
    erased!(x, T in [INT, HALF, FLOAT, COMPLEX, C32], same(y, out) => {
        out.get()[0] = super::dot::<T>(n, x.get(), x_step, y.get(), y_step)
    })
}
