//! Tensors as PyTorch's C++ prints them: what a few error texts hold.

use crate::backend::transfer::to_vec;
use crate::tensor::geometry::too_large;
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use std::fmt::{self, Write};

const LINE: usize = 80;

/// How the numbers of a matrix are written.
struct Format {
    scale: f64,
    width: usize,
    notation: Notation,
}
#[derive(Clone, Copy)]
enum Notation {
    General,
    Fixed,
    Scientific,
}

/// Digits before the point: of 250, 3.
fn exponent(v: f64) -> f64 {
    if v == 0.0 { 1.0 } else { v.log10().floor() + 1.0 }
}
impl Format {
    fn of(v: &[f64]) -> Format {
        let finite = || v.iter().copied().filter(|x| x.is_finite()).map(f64::abs);
        let (mut low, mut high) = (1.0, 1.0);
        if let Some(first) = finite().next() {
            low = exponent(finite().fold(first, f64::min));
            high = exponent(finite().fold(first, f64::max));
        }
        let format = |scale, width, notation| Format { scale, width, notation };
        if finite().all(|x| x == x.ceil()) {
            return match high > 9.0 {
                true => format(1.0, 11, Notation::Scientific),
                false => format(1.0, high as usize + 1, Notation::General),
            };
        }
        if high - low > 4.0 {
            let wide = usize::from(high.abs() > 99.0 || low.abs() > 99.0);
            return format(1.0, 11 + wide, Notation::Scientific);
        }
        if !(0.0..=5.0).contains(&high) {
            return format(10f64.powf(high - 1.0), 7, Notation::Fixed);
        }
        format(1.0, if high == 0.0 { 7 } else { high as usize + 6 }, Notation::Fixed)
    }
    fn number(&self, v: f64) -> String {
        let text = match self.notation {
            _ if !v.is_finite() => format!("{v}").to_lowercase(),
            Notation::General => format!("{v}"),
            Notation::Fixed => format!("{v:.4}"),
            Notation::Scientific => {
                let t = format!("{v:.4e}");
                let (m, e) = t.split_once('e').unwrap_or((&t, "0"));
                let (sign, e) = e.strip_prefix('-').map_or(('+', e), |e| ('-', e));
                format!("{m}e{sign}{e:0>2}")
            }
        };
        format!("{text:>0$}", self.width)
    }
}

/// A text as long as its tensor, for which there may be no memory: writing to it fails then.
#[derive(Default)]
struct Text(String);
impl Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.0.try_reserve(s.len()).map_err(|_| fmt::Error)?;
        self.0.push_str(s);
        Ok(())
    }
}

fn matrix(out: &mut Text, v: &[f64], columns: usize, indent: usize) -> fmt::Result {
    let f = Format::of(v);
    let pad = " ".repeat(indent);
    let per_line = ((LINE - indent) / (f.width + 1)).max(1);
    let rows = v.len() / columns.max(1);
    for first in (0..columns).step_by(per_line) {
        let last = (first + per_line).min(columns);
        if per_line < columns {
            if first != 0 {
                out.write_char('\n')?;
            }
            write!(out, "Columns {} to {last}{pad}", first + 1)?;
        }
        if f.scale != 1.0 {
            write!(out, "{} *\n{pad}", f.scale)?;
        }
        for row in 0..rows {
            let texts: Vec<String> =
                v[row * columns..][first..last].iter().map(|x| f.number(x / f.scale)).collect();
            out.write_str(&texts.join(" "))?;
            out.write_char('\n')?;
            if row + 1 < rows {
                out.write_str(&pad)?;
                out.write_str(if f.scale != 1.0 { " " } else { "" })?;
            }
        }
    }
    Ok(())
}

/// A real tensor of two or more dimensions.
///
/// # Errors
/// When the elements cannot be read, or there is no memory for the text.
pub fn cpp_text(t: &Tensor) -> Result<String> {
    let v: Vec<f64> = to_vec(t)?;
    let mut out = Text::default();
    written(t, &v, &mut out).map_err(|_| too_large(out.0.len().saturating_mul(2)))?;
    Ok(out.0)
}
fn written(t: &Tensor, v: &[f64], out: &mut Text) -> fmt::Result {
    let sizes: Vec<usize> = t.sizes().iter().map(|n| *n as usize).collect();
    if let [outer @ .., rows, columns] = &sizes[..]
        && !v.is_empty()
    {
        let each = rows * columns;
        let mut at = vec![0; outer.len()];
        // the first dimension runs fastest
        for i in 0..v.len() / each {
            if !outer.is_empty() {
                if i > 0 {
                    out.write_char('\n')?;
                }
                let place: String = at.iter().map(|a| format!("{},", a + 1)).collect();
                writeln!(out, "({place}.,.) = ")?;
            }
            let flat = at.iter().zip(outer).fold(0, |f, (a, n)| f * n + a);
            matrix(out, &v[flat * each..][..each], *columns, usize::from(!outer.is_empty()))?;
            for (a, n) in at.iter_mut().zip(outer) {
                *a += 1;
                if *a < *n {
                    break;
                }
                *a = 0;
            }
        }
    }
    let name = t.dtype().scalar_type_name();
    let class = match t.dtype() {
        // dtypes without a class of their own in Python
        crate::DType::Bool | crate::DType::BF16 => format!("CPU{name}Type"),
        _ => format!("torch.{name}Tensor"),
    };
    let dims: Vec<String> = sizes.iter().map(usize::to_string).collect();
    write!(out, "[ {class}{{{}}} ]", dims.join(","))
}
