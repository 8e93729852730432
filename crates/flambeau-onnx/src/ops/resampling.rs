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
