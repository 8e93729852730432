//! Elements of planes by their positions, as pooling gives them.

use crate::{Any, AnyMut, with_dtype};

/// A position outside its plane.
pub struct Outside(pub i64);

fn at(i: i64, plane: usize) -> Result<usize, Outside> {
    usize::try_from(i).ok().filter(|i| *i < plane).ok_or(Outside(i))
}
/// `out[p, k] = x[p, idx[p, k]]` over planes of `plane` elements, `each` indices per plane.
pub fn gather_planes(
    x: Any,
    plane: usize,
    idx: &[i64],
    each: usize,
    out: AnyMut,
) -> Option<Result<(), Outside>> {
    with_dtype!(x.dtype(), T in [INT, HALF, FLOAT, COMPLEX] => {
        let (x, out) = (x.get::<T>(), out.get::<T>());
        for (k, (o, i)) in out.iter_mut().zip(idx).enumerate() {
            match at(*i, plane) {
                Ok(i) => *o = x[k / each * plane + i],
                Err(e) => return Some(Err(e)),
            }
        }
        Some(Ok(()))
    }, else None)
}
/// `out[p, idx[p, k]] = x[p, k]`, the last one staying; `out` is zeroed first.
pub fn scatter_planes(
    x: Any,
    plane: usize,
    idx: &[i64],
    each: usize,
    out: AnyMut,
) -> Option<Result<(), Outside>> {
    with_dtype!(x.dtype(), T in [INT, HALF, FLOAT, COMPLEX] => {
        let (x, out) = (x.get::<T>(), out.get::<T>());
        out.fill(T::default());
        for (k, (v, i)) in x.iter().zip(idx).enumerate() {
            match at(*i, plane) {
                Ok(i) => out[k / each * plane + i] = *v,
                Err(e) => return Some(Err(e)),
            }
        }
        Some(Ok(()))
    }, else None)
}
