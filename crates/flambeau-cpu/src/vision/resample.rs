//! Weighted sums along one dimension, as interpolation needs them.

use crate::engine::room::room;
use crate::{Any, AnyMut, with_dtype};

/// For each result the elements it is made of, and their weights.
pub struct Weights {
    /// Start of each result's entries, and the end of all.
    pub starts: Vec<usize>,
    /// Source positions.
    pub at: Vec<usize>,
    /// Weights.
    pub w: Vec<f64>,
}
/// `out[o, i, k] = sum w x[o, at, k]` over `[outer, n, inner]`.
pub fn forward(t: &Weights, inner: usize, n: usize, x: Any, out: AnyMut) -> Option<()> {
    let m = t.starts.len() - 1;
    with_dtype!(x.dtype(), T in [FLOAT] => {
        let (x, out) = (x.get::<T>(), out.get::<T>());
        for (x, out) in x.chunks_exact(n * inner).zip(out.chunks_exact_mut(m * inner)) {
            for (i, row) in out.chunks_exact_mut(inner).enumerate() {
                row.fill(0.0);
                for e in t.starts[i]..t.starts[i + 1] {
                    let w = t.w[e] as T;
                    let src = &x[t.at[e] * inner..][..inner];
                    row.iter_mut().zip(src).for_each(|(r, s)| *r += w * s);
                }
            }
        }
        Some(())
    }, else None)
}
/// [`forward`] of bytes, in whole numbers: weights scaled to 15 bits, and a result rounded and kept within 0 to 255.
pub fn bytes(t: &Weights, inner: usize, n: usize, x: &[u8], out: &mut [u8]) {
    let m = t.starts.len() - 1;
    // weights of one source position count together
    let mut merged: Vec<Vec<(usize, f64)>> = room(m);
    for i in 0..m {
        let mut row: Vec<(usize, f64)> = Vec::new();
        for e in t.starts[i]..t.starts[i + 1] {
            match row.iter_mut().find(|(at, _)| *at == t.at[e]) {
                Some((_, w)) => *w += t.w[e],
                None => row.push((t.at[e], t.w[e])),
            }
        }
        merged.push(row);
    }
    let most = merged.iter().flatten().fold(0.0f64, |m, (_, w)| m.max(*w));
    let fits = |bits: u32| (0.5 + most * f64::from(1u32 << (bits + 1))) < 32768.0;
    let bits = (0..22).find(|b| !fits(*b)).unwrap_or(22);
    let scale = f64::from(1u32 << bits);
    let half = if bits > 0 { 1i32 << (bits - 1) } else { 0 };
    let whole = |w: f64| (w * scale + if w < 0.0 { -0.5 } else { 0.5 }) as i32;
    let rows: Vec<Vec<(usize, i32)>> =
        merged.into_iter().map(|r| r.into_iter().map(|(at, w)| (at, whole(w))).collect()).collect();
    for (x, out) in x.chunks_exact(n * inner).zip(out.chunks_exact_mut(m * inner)) {
        for (row, out) in rows.iter().zip(out.chunks_exact_mut(inner)) {
            for (k, o) in out.iter_mut().enumerate() {
                let sum = row.iter().fold(half, |s, (at, w)| s + w * i32::from(x[at * inner + k]));
                *o = (sum >> bits).clamp(0, 255) as u8;
            }
        }
    }
}
/// The transpose of [`forward`].
pub fn backward(t: &Weights, inner: usize, n: usize, g: Any, out: AnyMut) -> Option<()> {
    let m = t.starts.len() - 1;
    with_dtype!(g.dtype(), T in [FLOAT] => {
        let (g, out) = (g.get::<T>(), out.get::<T>());
        out.fill(0.0);
        for (g, out) in g.chunks_exact(m * inner).zip(out.chunks_exact_mut(n * inner)) {
            for (i, row) in g.chunks_exact(inner).enumerate() {
                for e in t.starts[i]..t.starts[i + 1] {
                    let w = t.w[e] as T;
                    let dst = &mut out[t.at[e] * inner..][..inner];
                    dst.iter_mut().zip(row).for_each(|(d, r)| *d += w * r);
                }
            }
        }
        Some(())
    }, else None)
}
