//! Pictures in other sizes.

use super::Table;
use crate::build::{Arg, Builder, Call, Dim, Var};
use crate::types::Attribute;
use flambeau_core::{DType, Result, Tensor};

pub(super) const TABLE: Table = &[
    ("aten.upsample_nearest1d", |b, c| resize(b, c, "nearest", false)),
    ("aten.upsample_nearest2d", |b, c| resize(b, c, "nearest", false)),
    ("aten.upsample_nearest3d", |b, c| resize(b, c, "nearest", false)),
    ("aten._upsample_nearest_exact1d", |b, c| resize(b, c, "exact", false)),
    ("aten._upsample_nearest_exact2d", |b, c| resize(b, c, "exact", false)),
    ("aten._upsample_nearest_exact3d", |b, c| resize(b, c, "exact", false)),
    ("aten.upsample_linear1d", |b, c| resize(b, c, "linear", false)),
    ("aten.upsample_bilinear2d", |b, c| resize(b, c, "linear", false)),
    ("aten.upsample_trilinear3d", |b, c| resize(b, c, "linear", false)),
    ("aten.upsample_bicubic2d", |b, c| resize(b, c, "cubic", false)),
    ("aten._upsample_bilinear2d_aa", |b, c| resize(b, c, "linear", true)),
    ("aten._upsample_bicubic2d_aa", |b, c| resize(b, c, "cubic", true)),
];

fn resize(b: &mut Builder, c: &Call, mode: &str, antialias: bool) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let aligned = matches!(mode, "linear" | "cubic");
    let corners = aligned && c.bool_or(2, "align_corners", false)?;
    // (input, output_size, [align_corners], scale_factors) or (input, output_size, [align_corners], scales_h, scales_w)
    let at = 2 + usize::from(aligned);
    let spatial = x.rank() - 2;
    let scales: Option<Vec<f64>> = match c.arg(at, "scale_factors") {
        Arg::List(_) => Some(c.floats(at, "scale_factors")?),
        _ if c.overload() == "vec" => None,
        _ => {
            let names: &[&str] = match spatial {
                1 => &["scales"],
                2 => &["scales_h", "scales_w"],
                _ => &["scales_d", "scales_h", "scales_w"],
            };
            let all = names.iter().enumerate().map(|(i, n)| match c.arg(at + i, n) {
                Arg::Float(x) => Some(*x),
                _ => None,
            });
            all.collect()
        }
    };
    if antialias && let Some(done) = smoothed(b, c, &x, mode == "cubic", corners, scales.as_deref())? {
        return Ok(done);
    }
    let (way, coordinates) = match mode {
        "nearest" => ("nearest", "asymmetric"),
        "exact" => ("nearest", "half_pixel"),
        m if corners => (m, "align_corners"),
        m => (m, "half_pixel"),
    };
    let mut attr = vec![
        Attribute::text("mode", way),
        Attribute::text("coordinate_transformation_mode", coordinates),
        Attribute::int("antialias", i64::from(antialias)),
    ];
    match mode {
        "nearest" => attr.push(Attribute::text("nearest_mode", "floor")),
        "exact" => attr.push(Attribute::text("nearest_mode", "round_prefer_ceil")),
        "cubic" => {
            attr.push(Attribute::float("cubic_coeff_a", if antialias { -0.5 } else { -0.75 }));
            if antialias {
                attr.push(Attribute::int("exclude_outside", 1));
            }
        }
        _ => {}
    }
    let shape = c.result_shape().unwrap_or_else(|| vec![None; x.rank()]);
    let by_scale = scales.filter(|_| !corners);
    let known: Option<Vec<i64>> = shape.iter().copied().collect();
    // sizes that are known say exactly what comes out; scales say where elements come from
    let exact = |s: &[f64]| {
        known.as_ref().zip(x.sizes()).is_none_or(|(out, of)| {
            (0..spatial).all(|i| (of[i + 2] as f64 * s[i]).floor() as i64 == out[i + 2])
        })
    };
    if let Some(s) = by_scale.filter(|s| s.len() == spatial && exact(s)) {
        let mut all = vec![1.0f32, 1.0];
        all.extend(s.iter().map(|v| *v as f32));
        let n = all.len() as i64;
        let scales = b.constant(&Tensor::from_vec(all, [n]))?;
        return Ok(b.node("Resize", &[&x, &Var::none(), &scales], attr, x.dtype(), shape)?.into());
    }
    let mut to = vec![b.size(&x, 0)?, b.size(&x, 1)?];
    let asked = c.dims(1, "output_size")?;
    if asked.is_empty() {
        let scales = c.floats(at, "scale_factors")?;
        for (i, s) in scales.iter().enumerate() {
            let n = b.size(&x, i as i64 + 2)?;
            to.push(match n {
                Dim::Int(n) => Dim::Int((n as f64 * s).floor() as i64),
                Dim::Var(v) => {
                    let n = b.cast(&v, DType::F64)?;
                    let n = b.mul_number(&n, *s)?;
                    let n = b.unary("Floor", &n)?;
                    Dim::Var(b.cast(&n, DType::I64)?)
                }
            });
        }
    } else {
        to.extend(asked);
    }
    let to = b.dims_vector(&to)?;
    Ok(b.node("Resize", &[&x, &Var::none(), &Var::none(), &to], attr, x.dtype(), shape)?.into())
}
/// The weights with which elements of a line of `n` make each of `out`: a filter as wide as the step between results, or as
/// two elements where that is less.
fn weights(n: i64, out: i64, cubic: bool, corners: bool, scale: Option<f64>) -> Vec<f32> {
    let step = match (corners, scale) {
        (true, _) if out > 1 => (n - 1) as f64 / (out - 1) as f64,
        (true, _) => 0.0,
        (false, Some(s)) if s > 0.0 => 1.0 / s,
        (false, _) => n as f64 / out as f64,
    };
    let wide = step.max(1.0);
    let support = if cubic { 2.0 * wide } else { wide };
    let filter = |x: f64| {
        let x = x.abs();
        match cubic {
            false => (1.0 - x).max(0.0),
            true if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
            true if x < 2.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
            true => 0.0,
        }
    };
    let mut all = Vec::new();
    for i in 0..out {
        let middle = step * (i as f64 + 0.5);
        let first = ((middle - support + 0.5) as i64).max(0);
        let end = ((middle + support + 0.5) as i64).min(n);
        let own: Vec<f64> = (0..n)
            .map(|j| if j < first || j >= end { 0.0 } else { filter((j as f64 - middle + 0.5) / wide) })
            .collect();
        let sum: f64 = own.iter().sum();
        all.extend(own.iter().map(|w| (if sum == 0.0 { *w } else { w / sum }) as f32));
    }
    all
}
/// Smaller pictures without false patterns, as products with matrices of weights: runtimes weigh the borders of their own operator
/// otherwise than PyTorch. Only where the sizes are numbers.
fn smoothed(
    b: &mut Builder,
    c: &Call,
    x: &Var,
    cubic: bool,
    corners: bool,
    scales: Option<&[f64]>,
) -> Result<Option<Arg>> {
    let shape = c.result_shape().unwrap_or_default();
    let (Some(&[Some(h), Some(w)]), Some(&[Some(to_h), Some(to_w)])) = (x.shape.get(2..), shape.get(2..))
    else {
        return Ok(None);
    };
    if x.dtype() != DType::F32 || [h, w, to_h, to_w].iter().any(|n| *n < 1) {
        return Ok(None);
    }
    let scale = |i: usize| scales.and_then(|s| s.get(i)).copied();
    let rows = b.constant(&Tensor::from_vec(weights(h, to_h, cubic, corners, scale(0)), [to_h, h]))?;
    let columns = weights(w, to_w, cubic, corners, scale(1));
    let columns = b.constant(&Tensor::from_vec(columns, [to_w, w]))?;
    let columns = b.transpose(&columns, &[1, 0])?;
    let mut half = x.shape.clone();
    half[3] = Some(to_w);
    let wide = b.node("MatMul", &[x, &columns], Vec::new(), x.dtype(), half)?;
    Ok(Some(b.node("MatMul", &[&rows, &wide], Vec::new(), x.dtype(), shape)?.into()))
}
