//! Quantization: to integers and back.

use super::Table;
use super::views::along;
use crate::build::{Arg, Builder, Call, Var};
use flambeau_core::{DType, Result};

pub(super) const TABLE: Table = &[
    ("quantized_decomposed.quantize_per_tensor", |b, c| {
        let (x, d) = (c.tensor(0, "input")?, c.dtype(5, "dtype")?.unwrap_or(DType::U8));
        let (s, z) = scalars(b, c)?;
        let (lo, hi) = (c.int(3, "quant_min")?, c.int(4, "quant_max")?);
        let q = quantized(b, &x, &s, &z, lo, hi)?;
        Ok(b.cast(&q, d)?.into())
    }),
    ("quantized_decomposed.dequantize_per_tensor", |b, c| {
        let x = c.tensor(0, "input")?;
        let (s, z) = scalars(b, c)?;
        let d = c.result_dtype().unwrap_or(DType::F32);
        Ok(dequantized(b, &x, &s, &z, d)?.into())
    }),
    ("quantized_decomposed.quantize_per_channel", |b, c| {
        let (x, d) = (c.tensor(0, "input")?, c.dtype(6, "dtype")?.unwrap_or(DType::U8));
        let (s, z) = by_channel(b, c, &x)?;
        let (lo, hi) = (c.int(4, "quant_min")?, c.int(5, "quant_max")?);
        let q = quantized(b, &x, &s, &z, lo, hi)?;
        Ok(b.cast(&q, d)?.into())
    }),
    ("quantized_decomposed.dequantize_per_channel", |b, c| {
        let x = c.tensor(0, "input")?;
        let (s, z) = by_channel(b, c, &x)?;
        let d = c.result_dtype().unwrap_or(DType::F32);
        Ok(dequantized(b, &x, &s, &z, d)?.into())
    }),
    ("aten.fake_quantize_per_tensor_affine", |b, c| {
        let x = c.tensor(0, "self")?;
        let (s, z) = scalars(b, c)?;
        let q = quantized(b, &x, &s, &z, c.int(3, "quant_min")?, c.int(4, "quant_max")?)?;
        Ok(dequantized(b, &q, &s, &z, x.dtype())?.into())
    }),
    ("aten.fake_quantize_per_channel_affine", |b, c| {
        let x = c.tensor(0, "self")?;
        let (s, z) = by_channel(b, c, &x)?;
        let q = quantized(b, &x, &s, &z, c.int(4, "quant_min")?, c.int(5, "quant_max")?)?;
        Ok(dequantized(b, &q, &s, &z, x.dtype())?.into())
    }),
];

fn scalars(b: &mut Builder, c: &Call) -> Result<(Var, Var)> {
    let (s, z): (Arg, Arg) = (c.arg(1, "scale").clone(), c.arg(2, "zero_point").clone());
    let (s, z) = (b.value(&s, DType::F32)?, b.value(&z, DType::F32)?);
    Ok((b.reshape_to(&s, &[])?, b.reshape_to(&z, &[])?))
}
fn by_channel(b: &mut Builder, c: &Call, x: &Var) -> Result<(Var, Var)> {
    let (s, z) = (c.tensor(1, "scales")?, c.tensor(2, "zero_points")?);
    let d = c.axis(3, "axis", None, x.rank())?;
    let (s, z) = (b.cast(&s, DType::F32)?, b.cast(&z, DType::F32)?);
    Ok((along(b, &s, x.rank(), d)?, along(b, &z, x.rank(), d)?))
}
fn quantized(b: &mut Builder, x: &Var, s: &Var, z: &Var, lo: i64, hi: i64) -> Result<Var> {
    let x = b.cast(x, DType::F32)?;
    let q = b.div(&x, s)?;
    let q = b.unary("Round", &q)?;
    let q = b.add(&q, z)?;
    let (lo, hi) = (b.scalar(lo as f64, DType::F32)?, b.scalar(hi as f64, DType::F32)?);
    b.node("Clip", &[&q, &lo, &hi], Vec::new(), DType::F32, q.shape.clone())
}
fn dequantized(b: &mut Builder, q: &Var, s: &Var, z: &Var, d: DType) -> Result<Var> {
    let q = b.cast(q, DType::F32)?;
    let y = b.sub(&q, z)?;
    let y = b.mul(&y, s)?;
    b.cast(&y, d)
}
