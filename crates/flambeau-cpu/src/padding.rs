//! Padding: for each dimension, the source of every position.

use crate::{Any, AnyMut, with_dtype};

/// Calls `f` with the source offset of each output position, in order: the sum of one entry per dimension.
fn each(maps: &[Vec<usize>], f: &mut impl FnMut(usize)) {
    fn go(maps: &[Vec<usize>], base: usize, f: &mut impl FnMut(usize)) {
        match maps {
            [] => f(base),
            [last] => last.iter().for_each(|i| f(base + i)),
            [first, rest @ ..] => first.iter().for_each(|i| go(rest, base + i, f)),
        }
    }
    go(maps, 0, f);
}
/// `out[p] = x[source of p]`
pub fn gather(maps: &[Vec<usize>], x: Any, out: AnyMut) -> Option<()> {
    with_dtype!(x.dtype(), T in [BOOL, INT, UINT, HALF, FLOAT, COMPLEX, C32] => {
        let x = x.get::<T>();
        let mut out = out.get::<T>().iter_mut();
        each(maps, &mut |i| if let Some(o) = out.next() { *o = x[i] });
        Some(())
    }, else None)
}
/// `out[source of p] += x[p]`
pub fn scatter(maps: &[Vec<usize>], x: Any, out: AnyMut) -> Option<()> {
    with_dtype!(x.dtype(), T in [HALF, FLOAT, COMPLEX] => {
        let out = out.get::<T>();
        let mut x = x.get::<T>().iter();
        each(maps, &mut |i| if let Some(v) = x.next() { out[i] += *v });
        Some(())
    }, else None)
}
