//! Kernels over slices of run-time type: those of `flambeau_cpu`, and the small ones that only this crate needs.

pub(crate) use flambeau_cpu::attention::erased as attention;
pub(crate) use flambeau_cpu::conv::erased as conv;
pub(crate) use flambeau_cpu::loss::erased as loss;
pub(crate) use flambeau_cpu::norm::erased as norm;
pub(crate) use flambeau_cpu::random::erased as random;
pub(crate) use flambeau_cpu::rnn::erased as rnn;

pub(crate) mod matmul {
    use flambeau_cpu::blas::erased::{MatAny, MatAnyMut, gemm};
    use flambeau_cpu::pointwise::Param;
    use flambeau_cpu::{Any, AnyMut, with_dtype};

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
}

pub(crate) mod index {
    use flambeau_cpu::indexing::IndexError;
    use flambeau_cpu::indexing::erased::{embedding_backward, index_select};
    use flambeau_cpu::reduction::Geo;
    use flambeau_cpu::{Any, AnyMut};

    /// `out[i] = x[idx[i]]` over rows of `width`.
    pub fn rows(x: Any, n: usize, width: usize, idx: &[i64], out: AnyMut) -> Option<Result<(), IndexError>> {
        index_select(x, Geo::contiguous(1, n, width), idx, out)
    }
    /// The gradient of [`rows`]; rows at `padding` get none.
    pub fn add_rows(
        grad: Any,
        width: usize,
        idx: &[i64],
        padding: i64,
        by_frequency: bool,
        out: AnyMut,
    ) -> Option<Result<(), IndexError>> {
        embedding_backward(grad, idx, width, usize::try_from(padding).ok(), by_frequency, out)
    }
}

pub(crate) mod pool {
    pub use flambeau_cpu::pool::erased::*;
    use flambeau_cpu::{Any, AnyMut, with_dtype};

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
}

pub(crate) mod fractional {
    use flambeau_cpu::{Any, AnyMut, with_dtype};

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
}

pub(crate) mod pad {
    use flambeau_cpu::{Any, AnyMut, with_dtype};

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
}

pub(crate) mod blocks {
    use crate::ops::vision::Blocks;
    use flambeau_cpu::{Any, AnyMut, with_dtype};

    /// Calls `f(column element, image element)` for all pairs inside the images.
    fn each(b: &Blocks, planes: usize, f: &mut impl FnMut(usize, usize)) {
        let [kh, kw] = b.kernel;
        let [bh, bw] = b.blocks;
        let [ih, iw] = b.image;
        let taps = (kh * kw) as usize;
        for p in 0..planes {
            for tap in 0..taps as i64 {
                let (ty, tx) = (tap / kw * b.dilation[0], tap % kw * b.dilation[1]);
                let column = (p * taps + tap as usize) * (bh * bw) as usize;
                for y in 0..bh {
                    let iy = y * b.stride[0] - b.padding[0] + ty;
                    if !(0..ih).contains(&iy) {
                        continue;
                    }
                    for x in 0..bw {
                        let ix = x * b.stride[1] - b.padding[1] + tx;
                        if (0..iw).contains(&ix) {
                            f(
                                column + (y * bw + x) as usize,
                                p * (ih * iw) as usize + (iy * iw + ix) as usize,
                            );
                        }
                    }
                }
            }
        }
    }
    fn planes(b: &Blocks, images: usize) -> usize {
        images / (b.image[0] * b.image[1]) as usize
    }
    /// Columns from images; `out` is zero before.
    pub fn gather(b: &Blocks, x: Any, out: AnyMut) -> Option<()> {
        with_dtype!(x.dtype(), T in [BOOL, HALF, FLOAT, COMPLEX] => {
            let (x, out) = (x.get::<T>(), out.get::<T>());
            each(b, planes(b, x.len()), &mut |c, i| out[c] = x[i]);
            Some(())
        }, else None)
    }
    /// Images from columns; `out` is zero before.
    pub fn scatter(b: &Blocks, x: Any, out: AnyMut) -> Option<()> {
        with_dtype!(x.dtype(), T in [HALF, FLOAT, COMPLEX] => {
            let (x, out) = (x.get::<T>(), out.get::<T>());
            each(b, planes(b, out.len()), &mut |c, i| out[i] += x[c]);
            Some(())
        }, else None)
    }
}

pub(crate) mod resample {
    use flambeau_cpu::{Any, AnyMut, with_dtype};

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
        let mut merged: Vec<Vec<(usize, f64)>> = Vec::with_capacity(m);
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
}
