//! Batch and group normalisation over contiguous `[N, C, L]` memory (`L` is the product of the spatial dimensions).
//! Halves are computed in f32, and their statistics may be held in f32 (mixed) or in the half itself.

use crate::engine::accumulate::fold_two;
use crate::engine::isa::{Isa, Job, Level, best_for, run};
use crate::engine::parallel::parallel_for;
use crate::engine::room::filled;
use crate::engine::{SharedMut, span};
use crate::num::{Arith, Compute, Float};

/// Rows are summed in pieces of this length, each piece in the wide type, the pieces in f64.
const PIECE: usize = 4096;

/// Sum of one row, and of the squares of its distance from `centre`.
struct Moments<'a, T: Float> {
    x: &'a [T],
    centre: T::Compute,
}
impl<T: Float> Job for Moments<'_, T> {
    type Out = (f64, f64);
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) -> (f64, f64) {
        let (mut sum, mut square) = (0.0, 0.0);
        for piece in self.x.chunks(PIECE) {
            let terms = |[v]: [T; 1]| {
                let d = v.up() - self.centre;
                [d, d.times(d)]
            };
            let [a, b] = fold_two::<I, _, _, _>([piece], T::Compute::ZERO, terms, |a, b| a.plus(b));
            sum += a.f64();
            square += b.f64();
        }
        (sum, square)
    }
}

/// `y = x * scale + shift`.
struct Affine<'a, T: Float> {
    x: &'a [T],
    scale: T::Compute,
    shift: T::Compute,
    y: &'a mut [T],
}
impl<T: Float> Job for Affine<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (y, x) in self.y.iter_mut().zip(self.x) {
            *y = T::down(x.up().times(self.scale).plus(self.shift));
        }
    }
}

/// `y = (x - mean) * scale`.
struct Centered<'a, T: Float> {
    x: &'a [T],
    mean: T::Compute,
    scale: T::Compute,
    y: &'a mut [T],
}
impl<T: Float> Job for Centered<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for (y, x) in self.y.iter_mut().zip(self.x) {
            *y = T::down((x.up() - self.mean).times(self.scale));
        }
    }
}

/// Sums of `g` and of `g * (x - mean)`.
struct Dots<'a, T: Float> {
    x: &'a [T],
    g: &'a [T],
    mean: T::Compute,
}
impl<T: Float> Job for Dots<'_, T> {
    type Out = (f64, f64);
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) -> (f64, f64) {
        let (mut sum, mut dot) = (0.0, 0.0);
        for (x, g) in self.x.chunks(PIECE).zip(self.g.chunks(PIECE)) {
            let terms = |[x, g]: [T; 2]| {
                let g = g.up();
                [g, g.times(x.up() - self.mean)]
            };
            let [a, b] = fold_two::<I, _, _, _>([x, g], T::Compute::ZERO, terms, |a, b| a.plus(b));
            sum += a.f64();
            dot += b.f64();
        }
        (sum, dot)
    }
}

/// `gx = g * scale - (x - mean) * slope - offset`.
struct Backward<'a, T: Float> {
    x: &'a [T],
    g: &'a [T],
    scale: T::Compute,
    mean: T::Compute,
    slope: T::Compute,
    offset: T::Compute,
    gx: &'a mut [T],
}
impl<T: Float> Job for Backward<'_, T> {
    type Out = ();
    const BEST: Level = best_for::<T>();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for ((gx, x), g) in self.gx.iter_mut().zip(self.x).zip(self.g) {
            let centred = (x.up() - self.mean).times(self.slope);
            *gx = T::down(g.up().times(self.scale) - centred - self.offset);
        }
    }
}

/// Sizes of a normalised tensor: batch, channels, positions per channel.
#[derive(Clone, Copy, Debug)]
pub struct NormShape {
    /// Batch.
    pub n: usize,
    /// Channels.
    pub c: usize,
    /// Positions.
    pub l: usize,
}
impl NormShape {
    fn len(self) -> usize {
        span::product([self.n, self.c, self.l])
    }
    fn row(self, n: usize, c: usize) -> std::ops::Range<usize> {
        let r = n * self.c + c;
        r * self.l..(r + 1) * self.l
    }
    fn grain(self) -> usize {
        (16_384 / (self.n * self.l).max(1)).max(1)
    }
}

fn per_channel<W: Compute>(v: Option<&[W]>, c: usize, default: W) -> W {
    v.map_or(default, |v| v[c])
}

/// What PyTorch's batch normalisation does beyond the formula.
#[derive(Clone, Copy, Default)]
pub struct Rules {
    /// Rounds to the dtype of the statistics where that is narrower than the sums: the rounded ones normalise.
    pub round: Option<fn(f64) -> f64>,
    /// Whether mean and sum of squares are rounded before anything else is made of them, as where the input lies densely.
    pub early: bool,
    /// Rounds each step of the running statistics, as PyTorch's arithmetic of bfloat16 does.
    pub steps: bool,
    /// A channel without variance becomes its bias where `eps` is 0.
    pub constant: bool,
}

/// Batch normalisation in training: normalises by the batch's mean and biased variance, writes `save_mean` and
/// `save_invstd` (`[C]`), and moves the running statistics by `momentum` (the running variance gets the unbiased one).
/// The parameters `weight`, `bias` and all statistics are `[C]` in the wide type.
///
/// # Panics
/// If a slice has not the length that the shape says: a bug of the caller.
pub fn batch_norm_train<T: Float>(
    shape: NormShape,
    x: &[T],
    weight: Option<&[T::Compute]>,
    bias: Option<&[T::Compute]>,
    running_mean: Option<&mut [T::Compute]>,
    running_var: Option<&mut [T::Compute]>,
    momentum: f64,
    eps: f64,
    rules: Rules,
    y: &mut [T],
    save_mean: &mut [T::Compute],
    save_invstd: &mut [T::Compute],
) {
    let NormShape { n, c, l } = shape;
    assert!(x.len() == shape.len() && y.len() == x.len() && save_mean.len() == c && save_invstd.len() == c);
    assert!(weight.is_none_or(|w| w.len() == c) && bias.is_none_or(|b| b.len() == c));
    assert!(
        running_mean.as_ref().is_none_or(|r| r.len() == c)
            && running_var.as_ref().is_none_or(|r| r.len() == c)
    );
    let count = (n * l) as f64;
    let (y, mean_out, inv_out) = (SharedMut::new(y), SharedMut::new(save_mean), SharedMut::new(save_invstd));
    let (run_mean, run_var) = (running_mean.map(SharedMut::new), running_var.map(SharedMut::new));
    parallel_for(c, shape.grain(), |channels| {
        for ch in channels {
            // A first value as the centre keeps one pass over memory and loses no digits to a large mean.
            let first = if n * l > 0 { x[ch * l].up() } else { T::Compute::ZERO };
            let centre = if first.f64().is_finite() { first } else { T::Compute::ZERO };
            let (mut s, mut q) = (0.0, 0.0);
            for i in 0..n {
                let (a, b) = run(Moments { x: &x[shape.row(i, ch)], centre });
                s += a;
                q += b;
            }
            let (mean, var) = if q > 0.0 && s * s > 0.99 * count * q {
                // The first value was far from all others: centre on the mean itself.
                let mean = centre.f64() + s / count;
                let (mut s2, mut q2) = (0.0, 0.0);
                for i in 0..n {
                    let (a, b) = run(Moments { x: &x[shape.row(i, ch)], centre: T::Compute::of(mean) });
                    s2 += a;
                    q2 += b;
                }
                let d = s2 / count;
                (T::Compute::of(mean).f64() + d, (q2 / count - d * d).max(0.0))
            } else {
                let d = s / count;
                let v = q / count - d * d;
                (centre.f64() + d, if v < 0.0 { 0.0 } else { v })
            };
            let late = |v: f64| rules.round.map_or(v, |round| round(v));
            let (mean, var) = match rules.round.filter(|_| rules.early) {
                Some(round) => (round(mean), round(var * count) / count),
                None => (mean, var),
            };
            let flat = rules.constant && var + eps == 0.0;
            let inv = if flat { 0.0 } else { late(1.0 / (var + eps).sqrt()) };
            let moved = |old: f64, new: f64| match rules.round.filter(|_| rules.steps) {
                Some(r) => r(r(momentum) * r(new)) + r(r(1.0 - momentum) * old),
                None => momentum * new + (1.0 - momentum) * old,
            };
            // SAFETY: channel `ch` is this index's own.
            unsafe {
                mean_out.slice(ch, 1)[0] = T::Compute::of(mean);
                inv_out.slice(ch, 1)[0] = T::Compute::of(inv);
                if let Some(r) = &run_mean {
                    let r = &mut r.slice(ch, 1)[0];
                    *r = T::Compute::of(moved(r.f64(), mean));
                }
                if let Some(r) = &run_var {
                    let r = &mut r.slice(ch, 1)[0];
                    *r = T::Compute::of(moved(r.f64(), var * count / (count - 1.0)));
                }
            }
            let scale = inv * per_channel(weight, ch, T::Compute::ONE).f64();
            let shift = per_channel(bias, ch, T::Compute::ZERO).f64() - late(mean) * scale;
            for i in 0..n {
                let r = shape.row(i, ch);
                // SAFETY: rows of this channel are this index's own.
                let y = unsafe { y.slice(r.start, l) };
                run(Affine { x: &x[r], scale: T::Compute::of(scale), shift: T::Compute::of(shift), y });
            }
        }
    });
}

/// Batch normalisation by the running statistics.
///
/// # Panics
/// As [`batch_norm_train`].
pub fn batch_norm_eval<T: Float>(
    shape: NormShape,
    x: &[T],
    weight: Option<&[T::Compute]>,
    bias: Option<&[T::Compute]>,
    running_mean: &[T::Compute],
    running_var: &[T::Compute],
    eps: f64,
    y: &mut [T],
) {
    let NormShape { n, c, l } = shape;
    assert!(
        x.len() == shape.len() && y.len() == x.len() && running_mean.len() == c && running_var.len() == c
    );
    assert!(weight.is_none_or(|w| w.len() == c) && bias.is_none_or(|b| b.len() == c));
    let y = SharedMut::new(y);
    let grain = (32_768 / l.max(1)).max(1);
    parallel_for(n * c, grain, |rows| {
        for row in rows {
            let ch = row % c;
            let scale = per_channel(weight, ch, T::Compute::ONE).f64() / (running_var[ch].f64() + eps).sqrt();
            let shift = per_channel(bias, ch, T::Compute::ZERO).f64() - running_mean[ch].f64() * scale;
            let r = row * l..(row + 1) * l;
            // SAFETY: this row is this index's own.
            let y = unsafe { y.slice(r.start, l) };
            run(Affine { x: &x[r], scale: T::Compute::of(scale), shift: T::Compute::of(shift), y });
        }
    });
}

/// Gradients of batch normalisation. `mean` and `invstd` are the saved ones with `train`, else those of the running
/// statistics. Each wanted gradient is given as a slice to overwrite.
///
/// # Panics
/// As [`batch_norm_train`].
pub fn batch_norm_backward<T: Float>(
    shape: NormShape,
    train: bool,
    grad_y: &[T],
    x: &[T],
    weight: Option<&[T::Compute]>,
    mean: &[T::Compute],
    invstd: &[T::Compute],
    grad_x: Option<&mut [T]>,
    grad_weight: Option<&mut [T::Compute]>,
    grad_bias: Option<&mut [T::Compute]>,
) {
    let NormShape { n, c, l } = shape;
    assert!(x.len() == shape.len() && grad_y.len() == x.len() && mean.len() == c && invstd.len() == c);
    assert!(weight.is_none_or(|w| w.len() == c) && grad_x.as_ref().is_none_or(|g| g.len() == x.len()));
    assert!(
        grad_weight.as_ref().is_none_or(|g| g.len() == c) && grad_bias.as_ref().is_none_or(|g| g.len() == c)
    );
    let count = (n * l) as f64;
    let sums_wanted = train || grad_weight.is_some() || grad_bias.is_some();
    let gx = grad_x.map(SharedMut::new);
    let (gw, gb) = (grad_weight.map(SharedMut::new), grad_bias.map(SharedMut::new));
    parallel_for(c, shape.grain(), |channels| {
        for ch in channels {
            let (mean, inv) = (mean[ch], invstd[ch].f64());
            let (mut sum, mut dot) = (0.0, 0.0);
            if sums_wanted {
                for i in 0..n {
                    let r = shape.row(i, ch);
                    let (a, b) = run(Dots { x: &x[r.clone()], g: &grad_y[r], mean });
                    sum += a;
                    dot += b;
                }
            }
            // SAFETY: channel `ch` is this index's own.
            unsafe {
                if let Some(g) = &gw {
                    g.slice(ch, 1)[0] = T::Compute::of(dot * inv);
                }
                if let Some(g) = &gb {
                    g.slice(ch, 1)[0] = T::Compute::of(sum);
                }
            }
            let Some(gx) = &gx else { continue };
            let scale = inv * per_channel(weight, ch, T::Compute::ONE).f64();
            let (slope, offset) =
                if train { (dot * inv * inv / count * scale, sum / count * scale) } else { (0.0, 0.0) };
            let (scale, slope, offset) =
                (T::Compute::of(scale), T::Compute::of(slope), T::Compute::of(offset));
            for i in 0..n {
                let r = shape.row(i, ch);
                // SAFETY: rows of this channel are this index's own.
                let out = unsafe { gx.slice(r.start, l) };
                let g = &grad_y[r.clone()];
                if train {
                    run(Backward { x: &x[r], g, scale, mean, slope, offset, gx: out });
                } else {
                    run(Affine { x: g, scale, shift: T::Compute::ZERO, y: out });
                }
            }
        }
    });
}

/// Group normalisation: each of `groups` channel groups of each sample is normalised by its own mean and biased
/// variance. Writes `mean` and `rstd` (`[N, groups]`).
///
/// # Panics
/// If `groups` does not divide the channels, or a slice has not the length that the shape says: a bug of the caller.
pub fn group_norm<T: Float>(
    shape: NormShape,
    groups: usize,
    x: &[T],
    weight: Option<&[T::Compute]>,
    bias: Option<&[T::Compute]>,
    eps: f64,
    y: &mut [T],
    mean: &mut [T::Compute],
    rstd: &mut [T::Compute],
) {
    let NormShape { n, c, l } = shape;
    assert!(
        groups > 0 && c % groups == 0 && mean.len() == span::product([n, groups]) && rstd.len() == mean.len()
    );
    let per = c / groups;
    // A sample's group is one channel of `per * l` positions, without the affine part.
    let flat = NormShape { n: 1, c: n * groups, l: per * l };
    let plain = weight.is_none() && bias.is_none();
    batch_norm_train(flat, x, None, None, None, None, 0.0, eps, Rules::default(), y, mean, rstd);
    let out = SharedMut::new(y);
    let (mean, rstd) = (&*mean, &*rstd);
    parallel_for(n * c, (32_768 / l.max(1)).max(1), |rows| {
        for row in rows {
            let (ch, g) = (row % c, row / c * groups + row % c / per);
            let x = &x[row * l..(row + 1) * l];
            // SAFETY: this row is this index's own.
            let y = unsafe { out.slice(row * l, l) };
            if plain {
                run(Centered { x, mean: mean[g], scale: rstd[g], y });
                continue;
            }
            // the factor is rounded before it meets the mean, as PyTorch rounds it
            let scale = T::Compute::of(per_channel(weight, ch, T::Compute::ONE).f64() * rstd[g].f64());
            let shift = (-scale.f64()).mul_add(mean[g].f64(), per_channel(bias, ch, T::Compute::ZERO).f64());
            run(Affine { x, scale, shift: T::Compute::of(shift), y });
        }
    });
}

/// Gradients of [`group_norm`]. Each wanted gradient is given as a slice to overwrite.
///
/// # Panics
/// As [`group_norm`].
pub fn group_norm_backward<T: Float>(
    shape: NormShape,
    groups: usize,
    grad_y: &[T],
    x: &[T],
    weight: Option<&[T::Compute]>,
    mean: &[T::Compute],
    rstd: &[T::Compute],
    grad_x: Option<&mut [T]>,
    grad_weight: Option<&mut [T::Compute]>,
    grad_bias: Option<&mut [T::Compute]>,
) {
    let NormShape { n, c, l } = shape;
    assert!(
        groups > 0 && c % groups == 0 && mean.len() == span::product([n, groups]) && rstd.len() == mean.len()
    );
    assert!(x.len() == shape.len() && grad_y.len() == x.len());
    assert!(grad_x.as_ref().is_none_or(|g| g.len() == x.len()) && weight.is_none_or(|w| w.len() == c));
    assert!(
        grad_weight.as_ref().is_none_or(|g| g.len() == c) && grad_bias.as_ref().is_none_or(|g| g.len() == c)
    );
    let per = c / groups;
    let mut sums = filled((0.0, 0.0), n * c);
    {
        let out = SharedMut::new(&mut sums);
        parallel_for(n * c, (32_768 / l.max(1)).max(1), |rows| {
            for row in rows {
                let (g, r) = (row / c * groups + row % c / per, row * l..(row + 1) * l);
                let pair = run(Dots { x: &x[r.clone()], g: &grad_y[r], mean: mean[g] });
                // SAFETY: this row's sums are this index's own.
                let cell = unsafe { out.slice(row, 1) };
                cell[0] = pair;
            }
        });
    }
    if let Some(gw) = grad_weight {
        for (ch, gw) in gw.iter_mut().enumerate() {
            let total = (0..n).map(|i| sums[i * c + ch].1 * rstd[i * groups + ch / per].f64()).sum();
            *gw = T::Compute::of(total);
        }
    }
    if let Some(gb) = grad_bias {
        for (ch, gb) in gb.iter_mut().enumerate() {
            *gb = T::Compute::of((0..n).map(|i| sums[i * c + ch].0).sum());
        }
    }
    let Some(gx) = grad_x else { return };
    let (out, sums) = (SharedMut::new(gx), &sums);
    let count = (per * l) as f64;
    parallel_for(n * groups, (32_768 / (per * l).max(1)).max(1), |range| {
        for g in range {
            let first = g * per;
            let w = |i: usize| per_channel(weight, (first + i) % c, T::Compute::ONE).f64();
            let (mut s, mut d) = (0.0, 0.0);
            for i in 0..per {
                s += sums[first + i].0 * w(i);
                d += sums[first + i].1 * w(i);
            }
            let inv = rstd[g].f64();
            let (slope, offset) =
                (T::Compute::of(d * inv * inv * inv / count), T::Compute::of(s * inv / count));
            for i in 0..per {
                let r = (first + i) * l..(first + i + 1) * l;
                // SAFETY: the rows of this group are this index's own.
                let gx = unsafe { out.slice(r.start, l) };
                let scale = T::Compute::of(inv * w(i));
                run(Backward { x: &x[r.clone()], g: &grad_y[r], scale, mean: mean[g], slope, offset, gx });
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(n: usize, seed: u64, at: f64) -> Vec<f32> {
        let mut s = seed;
        (0..n)
            .map(|_| {
                s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (at + (s >> 33) as f64 / (1u64 << 31) as f64 * 2.0 - 1.0) as f32
            })
            .collect()
    }
    fn near(got: &[f32], want: &[f64], tol: f64) {
        assert_eq!(got.len(), want.len());
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            assert!((*g as f64 - w).abs() <= tol * (1.0 + w.abs()), "at {i}: {g} want {w}");
        }
    }
    /// Forward of group `key(index)` in f64: y, mean, inv.
    fn model(
        x: &[f32],
        keys: usize,
        key: impl Fn(usize) -> usize,
        eps: f64,
    ) -> (Vec<f64>, Vec<f64>, Vec<f64>, f64) {
        let (mut mean, mut var, mut count) = (vec![0.0; keys], vec![0.0; keys], vec![0.0; keys]);
        x.iter().enumerate().for_each(|(i, v)| {
            mean[key(i)] += *v as f64;
            count[key(i)] += 1.0;
        });
        (0..keys).for_each(|k| mean[k] /= count[k]);
        x.iter().enumerate().for_each(|(i, v)| var[key(i)] += (*v as f64 - mean[key(i)]).powi(2));
        let var: Vec<f64> = var.iter().zip(&count).map(|(v, c)| v / c).collect();
        let inv: Vec<f64> = var.iter().map(|v| 1.0 / (v + eps).sqrt()).collect();
        let y = x.iter().enumerate().map(|(i, v)| (*v as f64 - mean[key(i)]) * inv[key(i)]).collect();
        (y, mean, var, count[0])
    }
    /// d loss / dx by the textbook sum, for `h = g * w` inside each key.
    fn back(x: &[f32], h: &[f64], keys: usize, key: impl Fn(usize) -> usize, eps: f64) -> Vec<f64> {
        let (y, _, var, count) = model(x, keys, &key, eps);
        let (mut s, mut d) = (vec![0.0; keys], vec![0.0; keys]);
        h.iter().enumerate().for_each(|(i, h)| {
            s[key(i)] += h;
            d[key(i)] += h * y[i];
        });
        (0..x.len())
            .map(|i| (h[i] - s[key(i)] / count - y[i] * d[key(i)] / count) / (var[key(i)] + eps).sqrt())
            .collect()
    }

    #[test]
    fn batch_norm_matches_the_model() {
        for (n, c, l, at) in [(3, 5, 7, 0.0), (8, 4, 200, 100.0), (40, 3, 1, -3.0), (2, 2, 5000, 0.0)] {
            let shape = NormShape { n, c, l };
            let (x, g) = (data(n * c * l, 1, at), data(n * c * l, 2, 0.0));
            let (w, b) = (data(c, 3, 1.0), data(c, 4, 0.0));
            let key = |i: usize| i / l % c;
            let (z, mean, var, count) = model(&x, c, key, 1e-5);
            let mut y = vec![9.0; x.len()];
            let (mut m, mut inv) = (vec![0f32; c], vec![0f32; c]);
            let (mut rm, mut rv) = (vec![0.5f32; c], vec![2f32; c]);
            batch_norm_train(
                shape,
                &x,
                Some(&w),
                Some(&b),
                Some(&mut rm),
                Some(&mut rv),
                0.1,
                1e-5,
                Rules::default(),
                &mut y,
                &mut m,
                &mut inv,
            );
            let want: Vec<f64> =
                z.iter().enumerate().map(|(i, z)| z * w[key(i)] as f64 + b[key(i)] as f64).collect();
            near(&y, &want, if at.abs() > 10.0 { 5e-5 } else { 2e-6 });
            near(&m, &mean, 1e-6);
            let want: Vec<f64> = mean.iter().map(|m| 0.45 + 0.1 * m).collect();
            near(&rm, &want, 1e-6);
            let want: Vec<f64> = var.iter().map(|v| 1.8 + 0.1 * v * count / (count - 1.0)).collect();
            near(&rv, &want, 1e-6);
            let (mut gx, mut gw, mut gb) = (vec![9f32; x.len()], vec![9f32; c], vec![9f32; c]);
            batch_norm_backward(
                shape,
                true,
                &g,
                &x,
                Some(&w),
                &m,
                &inv,
                Some(&mut gx),
                Some(&mut gw),
                Some(&mut gb),
            );
            let h: Vec<f64> = g.iter().enumerate().map(|(i, g)| *g as f64 * w[key(i)] as f64).collect();
            near(&gx, &back(&x, &h, c, key, 1e-5), 1e-5);
            let (mut ww, mut wb) = (vec![0.0; c], vec![0.0; c]);
            g.iter().enumerate().for_each(|(i, g)| {
                ww[key(i)] += *g as f64 * z[i];
                wb[key(i)] += *g as f64;
            });
            near(&gw, &ww, 1e-5);
            near(&gb, &wb, 1e-5);
            batch_norm_eval(shape, &x, Some(&w), Some(&b), &rm, &rv, 1e-5, &mut y);
            let want: Vec<f64> = (0..x.len())
                .map(|i| {
                    let k = key(i);
                    (x[i] as f64 - rm[k] as f64) / (rv[k] as f64 + 1e-5).sqrt() * w[k] as f64 + b[k] as f64
                })
                .collect();
            near(&y, &want, 1e-5);
            batch_norm_backward(shape, false, &g, &x, Some(&w), &rm, &inv, Some(&mut gx), None, None);
            let want: Vec<f64> = (0..x.len()).map(|i| h[i] * inv[key(i)] as f64).collect();
            near(&gx, &want, 1e-6);
        }
    }

    #[test]
    fn group_norm_matches_the_model() {
        let (n, c, l, groups) = (3, 6, 11, 2);
        let shape = NormShape { n, c, l };
        let (x, g) = (data(n * c * l, 1, 2.0), data(n * c * l, 2, 0.0));
        let (w, b) = (data(c, 3, 1.0), data(c, 4, 0.0));
        let key = |i: usize| i / (l * c / groups);
        let ch = |i: usize| i / l % c;
        let (z, mean, _, _) = model(&x, n * groups, key, 1e-3);
        let (mut y, mut m, mut r) = (vec![0f32; x.len()], vec![0f32; n * groups], vec![0f32; n * groups]);
        group_norm(shape, groups, &x, Some(&w), Some(&b), 1e-3, &mut y, &mut m, &mut r);
        let want: Vec<f64> = (0..x.len()).map(|i| z[i] * w[ch(i)] as f64 + b[ch(i)] as f64).collect();
        near(&y, &want, 2e-6);
        near(&m, &mean, 1e-6);
        let (mut gx, mut gw, mut gb) = (vec![0f32; x.len()], vec![0f32; c], vec![0f32; c]);
        group_norm_backward(
            shape,
            groups,
            &g,
            &x,
            Some(&w),
            &m,
            &r,
            Some(&mut gx),
            Some(&mut gw),
            Some(&mut gb),
        );
        let h: Vec<f64> = (0..x.len()).map(|i| g[i] as f64 * w[ch(i)] as f64).collect();
        near(&gx, &back(&x, &h, n * groups, key, 1e-3), 1e-5);
        let mut ww = vec![0.0; c];
        (0..x.len()).for_each(|i| ww[ch(i)] += g[i] as f64 * z[i]);
        near(&gw, &ww, 1e-5);
    }

    #[test]
    fn one_element_of_a_group_is_its_mean() {
        let shape = NormShape { n: 3, c: 1, l: 1 };
        let (x, mut y) = ([2.7f32, -0.3, 1e-4], [1f32; 3]);
        group_norm(shape, 1, &x, None, None, 1e-5, &mut y, &mut [0.0; 3], &mut [0.0; 3]);
        assert_eq!(y, [0.0; 3]);
    }

    #[test]
    fn nan_and_empty() {
        let shape = NormShape { n: 1, c: 2, l: 2 };
        let (mut y, mut m, mut r) = (vec![0f32; 4], vec![0f32; 2], vec![0f32; 2]);
        let x = [f32::NAN, 1.0, 1.0, 3.0];
        batch_norm_train(
            shape,
            &x,
            None,
            None,
            None,
            None,
            0.1,
            0.0,
            Rules::default(),
            &mut y,
            &mut m,
            &mut r,
        );
        assert!(y[0].is_nan() && y[1].is_nan() && r[0].is_nan());
        assert_eq!(y[2..], [-1.0, 1.0]);
        let empty = NormShape { n: 0, c: 2, l: 2 };
        batch_norm_train::<f32>(
            empty,
            &[],
            None,
            None,
            None,
            None,
            0.1,
            0.0,
            Rules::default(),
            &mut [],
            &mut m,
            &mut r,
        );
        assert!(m[0].is_nan());
    }
}
