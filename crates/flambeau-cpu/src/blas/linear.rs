//! Products with a transposed matrix of weights, as layers have them.

use super::erased::{MatAny, MatAnyMut, gemm};
use crate::pointwise::Param;
use crate::{Any, AnyMut, with_dtype};

/// `out[m, n] = x[m, k] w[n, k]^T + bias[n]`; operands come with row and column strides.
pub fn linear(
    [m, n, k]: [usize; 3],
    (x, xr, xc): (Any, usize, usize),
    (w, wr, wc): (Any, usize, usize),
    bias: Option<Any>,
    mut out: AnyMut,
) -> Option<()> {
    let mut beta = Param::default();
    if let Some(b) = bias {
        beta = Param::from(1i64);
        with_dtype!(b.dtype(), T in [INT, HALF, FLOAT, COMPLEX, C32] => {
            let b = b.get::<T>();
            out.reborrow().get::<T>().chunks_exact_mut(n).take(m).for_each(|r| r.copy_from_slice(b));
        }, else return None);
    }
    let (a, b) = (MatAny { data: x, row: xr, col: xc }, MatAny { data: w, row: wc, col: wr });
    gemm(m, n, k, Param::from(1i64), a, b, beta, MatAnyMut { data: out, row: n, col: 1 })
}
/// `out[m, n] = x[m, k] w[n, k]^T`, operands dense, rows of the result `step` apart.
pub fn into([m, n, k]: [usize; 3], x: Any, w: Any, out: AnyMut, step: usize) -> Option<()> {
    let (a, b) = (MatAny { data: x, row: k, col: 1 }, MatAny { data: w, row: 1, col: k });
    gemm(m, n, k, Param::from(1i64), a, b, Param::default(), MatAnyMut { data: out, row: step, col: 1 })
}
