//! Histograms of what was seen, and the range of one that quantizes with the least error. The steps, and the rounding of
//! each, are PyTorch's.

use flambeau_core::{DType, Result, Scalar, Tensor, ensure, ops};

const UPSAMPLE: i64 = 16;

fn item(t: &Tensor) -> Result<f32> {
    t.try_item()
}
fn histc(x: &Tensor, bins: i64, min: f32, max: f32) -> Result<Tensor> {
    ops::histc(x, bins, Scalar::Float(f64::from(min)), Scalar::Float(f64::from(max)))
}
fn linspace(a: f32, b: f32, n: i64) -> Result<Tensor> {
    ops::linspace(
        Scalar::Float(f64::from(a)),
        Scalar::Float(f64::from(b)),
        n,
        Some(DType::F32),
        None,
        None,
        None,
    )
}
/// A histogram over another, wider range: each bin is sixteen smaller ones, which go where their middles lie.
fn upscaled(bins: &Tensor, (a, b): (f32, f32), (low, high): (f32, f32)) -> Result<Tensor> {
    let n = bins.numel();
    ensure!(n > 0, Assertion, "bins mismatch");
    let fine = n * UPSAMPLE;
    let parts: Vec<f32> = bins
        .try_to_vec::<f32>()?
        .iter()
        .flat_map(|v| std::iter::repeat_n(v / UPSAMPLE as f32, UPSAMPLE as usize))
        .collect();
    let half = 0.5 * ((b - a) / fine as f32);
    let places = linspace(a, b, fine + 1)?.try_to_vec::<f32>()?;
    let bounds = linspace(low, high, n + 1)?.try_to_vec::<f32>()?;
    let mut out = vec![0f32; n as usize];
    for (v, p) in parts.iter().zip(&places[..fine as usize]) {
        let middle = p + half;
        let at = bounds.partition_point(|x| *x <= middle) as i64 - 1;
        out[at.clamp(0, n - 1) as usize] += v;
    }
    Ok(Tensor::from_vec(out, [n]))
}
/// Histogram and extremes once a tensor is added.
pub(super) fn updated(
    x: &Tensor,
    bins: &Tensor,
    min: &Tensor,
    max: &Tensor,
    n: i64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let mut x = x.clone();
    let (mut a, mut b) = ops::aminmax(&x, None, false)?;
    if item(&a)? == f32::NEG_INFINITY || item(&b)? == f32::INFINITY {
        let finite = ops::ne(&ops::abs(&x)?, &crate::tensor::number(f64::INFINITY)?)?;
        x = ops::masked_select(&x, &finite)?;
        if x.numel() == 0 {
            return Ok((bins.clone(), min.clone(), max.clone()));
        }
        (a, b) = ops::aminmax(&x, None, false)?;
    }
    let (low, high) = (item(min)?, item(max)?);
    if low == f32::INFINITY || high == f32::NEG_INFINITY {
        return Ok((histc(&x, n, item(&a)?, item(&b)?)?, a, b));
    }
    let (new_min, new_max) = (ops::minimum(min, &a)?, ops::maximum(max, &b)?);
    let (new_low, new_high) = (item(&new_min)?, item(&new_max)?);
    let update = histc(&x, n, new_low, new_high)?;
    if (new_low, new_high) == (low, high) {
        return Ok((ops::add(bins, &update, Scalar::Int(1))?, min.clone(), max.clone()));
    }
    let old = if low == high {
        let all = ops::sum(bins, None, false, None)?;
        ops::mul(&histc(min, n, new_low, new_high)?, &all)?
    } else {
        upscaled(bins, (low, high), (new_low, new_high))?
    };
    Ok((ops::add(&update, &old, Scalar::Int(1))?, new_min, new_max))
}

fn cube(v: f32) -> f32 {
    v * v * v
}
/// The error of quantizing what lies in bins `first..=last` with `steps` integers.
fn error(bins: &[f32], width: f64, first: usize, last: usize, steps: f64) -> f64 {
    let step = width * (last as f64 - first as f64 + 1.0) / steps;
    if step == 0.0 {
        return 0.0;
    }
    let (width, step32) = (width as f32, step as f32);
    let top = (steps - 1.0) as f32;
    let norm = |begin: f32, end: f32, density: f32| density * ((cube(end) - cube(begin)) / 3.0);
    let half = (step / 2.0) as f32;
    let mut sum = 0f64;
    for (i, v) in bins.iter().enumerate() {
        let begin = (i as f32 - first as f32) * width;
        let end = begin + width;
        let of_begin = (begin / step32).floor().clamp(0.0, top);
        let center = (of_begin + 0.5) * step32;
        let of_end = (end / step32).floor().clamp(0.0, top);
        let density = v / width;
        let mut e = norm(begin - center, half, density);
        e += (of_end - of_begin - 1.0) * norm(-half, half, density);
        let end_center = of_end * step32 + half;
        e += norm(-half, end - end_center, density);
        sum += f64::from(e);
    }
    sum
}
/// The range with the least error, found by cutting quantiles from either end.
pub(super) fn search(bins: &Tensor, min: &Tensor, max: &Tensor, steps: f64) -> Result<(Tensor, Tensor)> {
    let n = bins.numel();
    ensure!(n > 0, Assertion, "bins mismatch");
    let v = bins.try_to_vec::<f32>()?;
    let total = f64::from(ops::sum(bins, None, false, None)?.try_item::<f32>()?);
    let sums = ops::cumsum(bins, 0, None)?.try_to_vec::<f32>()?;
    let (low, high) = (item(min)?, item(max)?);
    let width64 = (f64::from(high) - f64::from(low)) / n as f64;
    const STEP: f64 = 1e-5;
    let (mut alpha, mut beta) = (0f64, 1f64);
    let (mut start, mut end) = (0usize, n as usize - 1);
    let mut least = f64::INFINITY;
    while alpha < beta {
        let (next_alpha, next_beta) = (alpha + STEP, beta - STEP);
        let (mut l, mut r) = (start, end);
        while l < end && f64::from(sums[l]) < next_alpha * total {
            l += 1;
        }
        while r > start && f64::from(sums[r]) > next_beta * total {
            r -= 1;
        }
        let (mut next_start, mut next_end) = (start, end);
        if l - start > end - r {
            next_start = l;
            alpha = next_alpha;
        } else {
            next_end = r;
            beta = next_beta;
        }
        if (next_start, next_end) == (start, end) {
            continue;
        }
        let e = error(&v, width64, next_start, next_end, steps);
        if e > least {
            break;
        }
        least = e;
        (start, end) = (next_start, next_end);
    }
    let width = (high - low) / n as f32;
    let number = |v: f32| Tensor::from_vec(vec![v], [0i64; 0]);
    Ok((number(low + width * start as f32), number(low + width * (end + 1) as f32)))
}
