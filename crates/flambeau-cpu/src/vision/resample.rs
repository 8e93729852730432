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
/// [`Weights`] of bytes, in whole numbers: scaled to `bits` bits.
pub struct Whole {
    /// As of [`Weights`].
    pub starts: Vec<usize>,
    /// As of [`Weights`].
    pub at: Vec<usize>,
    /// Weights.
    pub w: Vec<i32>,
    /// Bits behind the point: up to 22, as many as 15 bits of the largest weight leave.
    pub bits: u32,
}
impl Whole {
    /// The weights in whole numbers; those of one source position count together.
    pub fn of(t: &Weights) -> Whole {
        let m = t.starts.len() - 1;
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
        let mut out = Whole { starts: vec![0], at: Vec::new(), w: Vec::new(), bits };
        for (at, w) in merged.into_iter().map(|r| r.into_iter().unzip::<_, _, Vec<_>, Vec<_>>()) {
            out.at.extend(at);
            out.w.extend(w.into_iter().map(|w| (w * scale + if w < 0.0 { -0.5 } else { 0.5 }) as i32));
            out.starts.push(out.at.len());
        }
        out
    }
}
/// [`forward`] of bytes, in whole numbers: a result is rounded and kept within 0 to 255.
pub fn bytes(t: &Weights, inner: usize, n: usize, x: &[u8], out: &mut [u8]) {
    let t = Whole::of(t);
    let m = t.starts.len() - 1;
    let half = if t.bits > 0 { 1i32 << (t.bits - 1) } else { 0 };
    for (x, out) in x.chunks_exact(n * inner).zip(out.chunks_exact_mut(m * inner)) {
        for (i, out) in out.chunks_exact_mut(inner).enumerate() {
            let row = t.starts[i]..t.starts[i + 1];
            for (k, o) in out.iter_mut().enumerate() {
                let sum = row.clone().fold(half, |s, e| s + t.w[e] * i32::from(x[t.at[e] * inner + k]));
                *o = (sum >> t.bits).clamp(0, 255) as u8;
            }
        }
    }
}
impl Weights {
    /// For each of the `n` sources the results that it goes into: what a gradient is summed by.
    pub fn transposed(&self, n: usize) -> Weights {
        let mut rows: Vec<Vec<(usize, f64)>> = room(n);
        rows.resize(n, Vec::new());
        for i in 0..self.starts.len() - 1 {
            for e in self.starts[i]..self.starts[i + 1] {
                rows[self.at[e]].push((i, self.w[e]));
            }
        }
        let mut out = Weights { starts: vec![0], at: Vec::new(), w: Vec::new() };
        for row in rows {
            for (at, w) in row {
                out.at.push(at);
                out.w.push(w);
            }
            out.starts.push(out.at.len());
        }
        out
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
