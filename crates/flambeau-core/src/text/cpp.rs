//! Tensors as PyTorch's C++ prints them: what a few error texts hold.

use crate::backend::transfer::to_vec;
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use std::fmt::Write;

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

fn matrix(out: &mut String, v: &[f64], columns: usize, indent: usize) {
    let f = Format::of(v);
    let pad = " ".repeat(indent);
    let per_line = ((LINE - indent) / (f.width + 1)).max(1);
    let rows = v.len() / columns.max(1);
    for first in (0..columns).step_by(per_line) {
        let last = (first + per_line).min(columns);
        if per_line < columns {
            if first != 0 {
                out.push('\n');
            }
            let _ = write!(out, "Columns {} to {last}{pad}", first + 1);
        }
        if f.scale != 1.0 {
            let _ = write!(out, "{} *\n{pad}", f.scale);
        }
        for row in 0..rows {
            let texts: Vec<String> =
                v[row * columns..][first..last].iter().map(|x| f.number(x / f.scale)).collect();
            out.push_str(&texts.join(" "));
            out.push('\n');
            if row + 1 < rows {
                out.push_str(&pad);
                out.push_str(if f.scale != 1.0 { " " } else { "" });
            }
        }
    }
}

/// A real tensor of two or more dimensions.
///
/// # Errors
/// When the elements cannot be read.
pub fn cpp_text(t: &Tensor) -> Result<String> {
    let v: Vec<f64> = to_vec(t)?;
    let sizes: Vec<usize> = t.sizes().iter().map(|n| *n as usize).collect();
    let mut out = String::new();
    if let [outer @ .., rows, columns] = &sizes[..]
        && !v.is_empty()
    {
        let each = rows * columns;
        let mut at = vec![0; outer.len()];
        // the first dimension runs fastest
        for i in 0..v.len() / each {
            if !outer.is_empty() {
                if i > 0 {
                    out.push('\n');
                }
                let place: String = at.iter().map(|a| format!("{},", a + 1)).collect();
                let _ = writeln!(out, "({place}.,.) = ");
            }
            let flat = at.iter().zip(outer).fold(0, |f, (a, n)| f * n + a);
            matrix(&mut out, &v[flat * each..][..each], *columns, usize::from(!outer.is_empty()));
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
        crate::DType::Bool => format!("CPU{name}Type"),
        _ => format!("torch.{name}Tensor"),
    };
    let dims: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let _ = write!(out, "[ {class}{{{}}} ]", dims.join(","));
    Ok(out)
}
