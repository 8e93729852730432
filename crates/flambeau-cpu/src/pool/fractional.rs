//! Maxima of windows that begin where a random sample says.

use crate::{Any, AnyMut, with_dtype};

fn plane<T: Copy + PartialOrd>(
    x: &[T],
    [h, w]: [usize; 2],
    kernel: &[usize],
    windows: &[Vec<usize>],
    mut put: impl FnMut(T, i64),
) {
    let [t, r, c] = windows else { return };
    for (a, b, d) in t.iter().flat_map(|a| r.iter().flat_map(move |b| c.iter().map(move |d| (a, b, d)))) {
        let first = (a * h + b) * w + d;
        let (mut at, mut best) = (first, x[first]);
        for i in *a..a + kernel[0] {
            for j in *b..b + kernel[1] {
                let row = (i * h + j) * w;
                for k in row + d..row + d + kernel[2] {
                    #[allow(clippy::eq_op)] // NaN
                    if x[k] > best || x[k] != x[k] {
                        (at, best) = (k, x[k]);
                    }
                }
            }
        }
        put(best, at as i64);
    }
}
/// The largest elements of windows, and their positions in their planes: `windows` has the starts for each plane and
/// axis. A NaN counts as the largest.
pub fn max(
    x: Any,
    space: &[usize],
    kernel: &[usize],
    windows: &[Vec<Vec<usize>>],
    values: AnyMut,
    indices: &mut [i64],
) -> Option<()> {
    let three = |v: &[usize]| match *v {
        [a, b] => [1, a, b],
        [a, b, c] => [a, b, c],
        _ => [0; 3],
    };
    let ([t, h, w], kernel) = (three(space), three(kernel));
    let (size, each) = (t * h * w, indices.len() / windows.len().max(1));
    with_dtype!(x.dtype(), T in [HALF, FLOAT] => {
        let (x, values) = (x.get::<T>(), values.get::<T>());
        let outs = values.chunks_mut(each.max(1)).zip(indices.chunks_mut(each.max(1)));
        for ((x, s), (v, i)) in x.chunks(size).zip(windows).zip(outs) {
            let mut axes = s.clone();
            if axes.len() == 2 {
                axes.insert(0, vec![0]);
            }
            let mut out = v.iter_mut().zip(i);
            plane(x, [h, w], &kernel, &axes, |value, at| {
                if let Some((v, i)) = out.next() {
                    (*v, *i) = (value, at);
                }
            });
        }
        Some(())
    }, else None)
}
