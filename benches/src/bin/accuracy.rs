//! Measures how far results of functions of one number are from the correctly rounded ones, in units in the last place: the
//! program behind `cargo xtask accuracy`, which says what its files hold. Arguments: the table of functions and dtypes, and the
//! table of points with exact values. Prints a line for each row of the first.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use torch::library::{self, Value};
use torch::{DType, Tensor};

/// Bits of the fraction, and the exponent of the smallest normal number.
fn format_of(d: DType) -> Option<(i32, i32, f64)> {
    Some(match d {
        DType::F64 => (52, -1022, f64::MAX),
        DType::F32 => (23, -126, f64::from(f32::MAX)),
        DType::F16 => (10, -14, 65504.0),
        DType::BF16 => (7, -126, 3.389_531_389_251_535_5e38),
        _ => return None,
    })
}
fn exponent(v: f64) -> i32 {
    // normal numbers only: others are left out before
    ((v.abs().to_bits() >> 52) as i32) - 1023
}
fn power(e: i32) -> f64 {
    // in two steps, since the last place of a small number is subnormal
    2f64.powi(e / 2) * 2f64.powi(e - e / 2)
}
fn call(name: &str, x: &Tensor) -> Result<Tensor, String> {
    let r = library::call(name, &[Value::Tensor(x.clone())], &[]).map_err(|e| format!("{name}: {e}"))?;
    match r.into_iter().next().map(Value::into_tensor) {
        Some(Ok(t)) => Ok(t),
        _ => Err(format!("{name}: no tensor")),
    }
}
fn numbers(t: &Tensor) -> Vec<f64> {
    t.to(DType::F64).to_vec::<f64>()
}
/// The distance of `got` from `exact + rest`, in last places of the exact value.
fn distance(got: f64, exact: f64, rest: f64, (fraction, least, most): (i32, i32, f64)) -> Option<f64> {
    let a = exact.abs();
    if !exact.is_finite() || a > most || a < power(least).max(f64::MIN_POSITIVE) {
        return None;
    }
    let d = ((got - exact) - rest).abs() / power(exponent(exact) - fraction);
    Some(if d.is_nan() { f64::INFINITY } else { d })
}
/// All numbers of 16 bits, or 2^19 of float32: as many of each binade.
fn arguments(d: DType) -> Option<Tensor> {
    let n = 1 << 18;
    Some(match d {
        DType::F32 => {
            let top = f64::from(0x7f7f_ffffu32);
            let bits = |i: usize| (top * i as f64 / (n - 1) as f64) as u32;
            let positive: Vec<f32> = (0..n).map(|i| f32::from_bits(bits(i))).collect();
            let all: Vec<f32> = positive.iter().copied().chain(positive.iter().map(|v| -v)).collect();
            let len = all.len() as i64;
            Tensor::from_vec(all, [len])
        }
        DType::F16 | DType::BF16 => {
            let bits: Vec<i16> = (0..=u16::MAX).map(|b| b as i16).collect();
            Tensor::from_vec(bits, [65536]).view_dtype(d)
        }
        _ => return None,
    })
}

struct Point {
    x: f64,
    exact: f64,
    rest: f64,
}
fn points(text: &str) -> Result<HashMap<&str, Vec<Point>>, String> {
    let mut all: HashMap<&str, Vec<Point>> = HashMap::new();
    for line in text.lines().skip(1) {
        let parts: Vec<&str> = line.split('\t').collect();
        let bits = |i: usize| {
            let p = parts.get(i).ok_or_else(|| format!("a point lacks a part: {line}"))?;
            u64::from_str_radix(p, 16).map(f64::from_bits).map_err(|e| format!("{line}: {e}"))
        };
        all.entry(parts[0]).or_default().push(Point { x: bits(1)?, exact: bits(2)?, rest: bits(3)? });
    }
    Ok(all)
}
fn worst(name: &str, d: DType, points: &HashMap<&str, Vec<Point>>) -> Result<f64, String> {
    let format = format_of(d).ok_or_else(|| format!("{name}: no error of {d}"))?;
    if d == DType::F64 {
        let p = points.get(name).ok_or_else(|| format!("{name}: no points"))?;
        let x = Tensor::from_vec(p.iter().map(|p| p.x).collect::<Vec<_>>(), [p.len() as i64]);
        let got = numbers(&call(name, &x)?);
        let each = got.iter().zip(p).filter_map(|(g, p)| distance(*g, p.exact, p.rest, format));
        return Ok(each.fold(0.0, f64::max));
    }
    let x = arguments(d).ok_or_else(|| format!("{name}: no arguments of {d}"))?;
    let (got, exact) = (numbers(&call(name, &x)?), numbers(&call(name, &x.to(DType::F64))?));
    let each = got.iter().zip(&exact).filter_map(|(g, e)| distance(*g, *e, 0.0, format));
    Ok(each.fold(0.0, f64::max))
}

fn run() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [table, at] = &args[..] else { return Err("usage: accuracy TABLE POINTS".into()) };
    let read = |p: &String| std::fs::read_to_string(p).map_err(|e| format!("{p}: {e}"));
    let (table, at) = (read(table)?, read(at)?);
    let at = points(&at)?;
    for line in table.lines().skip(1) {
        let mut parts = line.split('\t');
        let (Some(name), Some(dtype)) = (parts.next(), parts.next()) else { continue };
        let d = DType::from_name(dtype).ok_or_else(|| format!("no dtype {dtype}"))?;
        println!("{name}\t{dtype}\t{}", worst(name, d, &at)?);
    }
    Ok(())
}
fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            std::process::ExitCode::FAILURE
        }
    }
}
