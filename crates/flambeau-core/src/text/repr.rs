//! The text of a whole tensor.

use super::format::{Formatter, complex};
use super::options::{Limits, get_printoptions};
use super::python::PyText as _;
use crate::backend::transfer::to_vec;
use crate::iter::promotion::{default_complex_dtype, default_dtype};
use crate::ops::quantize::dequantized;
use crate::tensor::geometry::SizeVec;
use crate::tensor::graph;
use crate::tensor::handle::Tensor;
use crate::tensor::quantized::Quantizer;
use crate::tensor::sparse::Parts;
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::layout::Layout;
use crate::{DType, ops};
use num_complex::Complex;
use std::fmt;

const PREFIX: &str = "tensor(";

/// PyTorch's own text ends where Python's recursion does.
const MOST_BRACKETS: usize = 900;

/// Python's text of a tuple of ints: `(2, 3)`, `(2,)`, `()`.
pub fn size_tuple(sizes: &[i64]) -> String {
    match sizes {
        [one] => format!("({one},)"),
        s => format!("({})", s.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// The elements in brackets, without `tensor(`; later lines are indented by `indent`. `[]` without elements.
///
/// # Errors
/// When the elements cannot be read: borrowed mutably, or on a device that cannot be copied from.
pub fn elements(t: &Tensor, indent: usize) -> Result<String> {
    let l = get_printoptions();
    if t.numel() == 0 {
        return Ok("[]".into());
    }
    if t.dim() > MOST_BRACKETS {
        return Err(Error::runtime(
            "maximum recursion depth exceeded: a tensor of so many dimensions has no text",
        ));
    }
    let summarize = t.numel() as u128 > l.threshold as u128;
    let shown = if summarize { edges(t, l.edgeitems)? } else { t.clone() };
    let (texts, width) = texts(&shown, &l)?;
    let mut w = Writer { sizes: t.sizes(), texts: texts.into_iter(), width, summarize, l };
    Ok(w.write(0, indent))
}

/// The elements that a summary shows (and, for a vector of which it shows none, all, as they decide the width).
fn edges(t: &Tensor, edge: usize) -> Result<Tensor> {
    let mut t = t.clone();
    for d in 0..t.dim() {
        let (n, e) = (t.sizes()[d], i64::try_from(edge).unwrap_or(i64::MAX).min(i64::MAX / 2));
        if n <= 2 * e || (edge == 0 && t.dim() == 1) {
            continue;
        }
        let mut sizes = SizeVec::from_slice(t.sizes());
        sizes[d] = 2 * e;
        let joined = Tensor::empty_raw(&sizes, t.dtype(), Device::Cpu)?;
        for (to, from) in [(0, 0), (e, n - e)] {
            let dst = ops::views::slice(&joined, d as i64, Some(to), Some(to + e), 1)?;
            let src = ops::views::slice(&t, d as i64, Some(from), Some(from + e), 1)?;
            crate::backend::transfer::copy_into(&dst, &src)?;
        }
        t = joined;
    }
    Ok(t)
}

/// All elements as padded texts, and the columns that one takes, with its comma and space.
fn texts(t: &Tensor, l: &Limits) -> Result<(Vec<String>, usize)> {
    let plain = |texts: Vec<String>| {
        let f = Formatter::of_texts(&texts);
        (texts.iter().map(|s| f.pad(s)).collect(), f.width() + 2)
    };
    Ok(match t.dtype() {
        DType::Bool => {
            let v: Vec<crate::B8> = to_vec(t)?;
            plain(v.iter().map(|b| if b.get() { "True" } else { "False" }.to_string()).collect())
        }
        DType::U64 => plain(to_vec::<u64>(t)?.iter().map(u64::to_string).collect()),
        d if d.is_integral(true) => plain(to_vec::<i64>(t)?.iter().map(i64::to_string).collect()),
        d if d.is_complex() => {
            let v: Vec<Complex<f64>> = to_vec(t)?;
            let part =
                |f: fn(&Complex<f64>) -> f64| Formatter::of_floats(&v.iter().map(f).collect::<Vec<_>>(), l);
            let (re, im) = (part(|c| c.re), part(|c| c.im));
            (v.iter().map(|c| complex(&re, &im, *c)).collect(), re.width() + im.width() + 3)
        }
        _ => {
            let v: Vec<f64> = to_vec(t)?;
            let f = Formatter::of_floats(&v, l);
            (v.iter().map(|x| f.float(*x)).collect(), f.width() + 2)
        }
    })
}

/// Puts texts into brackets and lines. Each row of a dimension shows the same number of items, so that the texts come in
/// the order in which they are written.
struct Writer<'a> {
    sizes: &'a [i64],
    texts: std::vec::IntoIter<String>,
    width: usize,
    summarize: bool,
    l: Limits,
}
impl Writer<'_> {
    /// Number of items of dimension `d` before and after the dots; no dots if `None`.
    fn cut(&self, d: usize) -> Option<usize> {
        let n = self.sizes[d] as usize;
        (self.summarize && n > self.l.edgeitems.saturating_mul(2)).then_some(self.l.edgeitems)
    }
    fn write(&mut self, d: usize, indent: usize) -> String {
        match self.sizes.len() - d {
            0 => self.texts.next().unwrap_or_default(),
            1 => self.vector(d, indent),
            rest => {
                let n = self.sizes[d] as usize;
                let mut items = Vec::new();
                match self.cut(d) {
                    Some(e) => {
                        items.extend((0..e).map(|_| self.write(d + 1, indent + 1)));
                        items.push("...".into());
                        items.extend((0..e).map(|_| self.write(d + 1, indent + 1)));
                    }
                    None => items.extend((0..n).map(|_| self.write(d + 1, indent + 1))),
                }
                let gap = format!(",{}{}", "\n".repeat(rest - 1), " ".repeat(indent + 1));
                format!("[{}]", items.join(&gap))
            }
        }
    }
    fn vector(&mut self, d: usize, indent: usize) -> String {
        let per_line = (self.l.linewidth.saturating_sub(indent) / self.width).max(1);
        let mut items: Vec<String> = Vec::new();
        match self.cut(d) {
            _ if self.summarize && self.l.edgeitems == 0 => items.push("...".into()),
            Some(e) => {
                items.extend(self.texts.by_ref().take(e));
                items.push(" ...".into());
                items.extend(self.texts.by_ref().take(e));
            }
            None => items.extend(self.texts.by_ref().take(self.sizes[d] as usize)),
        }
        let lines: Vec<String> = items.chunks(per_line).map(|l| l.join(", ")).collect();
        format!("[{}]", lines.join(&format!(",\n{}", " ".repeat(indent + 1))))
    }
}

/// `body` and what follows it, each on the same line where it fits, and the closing parenthesis.
pub fn assemble(body: String, suffixes: &[String], indent: usize, mut force_newline: bool) -> String {
    let width = get_printoptions().linewidth;
    // the line's length is counted with the line break before it
    let mut line = match body.rfind('\n') {
        Some(at) => body.len() - at + 1,
        None => body.len() + 2,
    };
    let mut out = body;
    for s in suffixes {
        if force_newline || line + s.len() + 2 > width {
            out.push_str(",\n");
            out.push_str(&" ".repeat(indent));
            line = indent + s.len();
            force_newline = false;
        } else {
            out.push_str(", ");
            line += s.len() + 2;
        }
        out.push_str(s);
    }
    out.push(')');
    out
}

/// What `grad_fn` or `requires_grad` adds.
fn gradient_suffix(t: &Tensor) -> Option<String> {
    if !t.key_set().has(crate::types::keys::Key::Autograd) {
        return None;
    }
    match graph::history(t) {
        Some(e) => Some(format!("grad_fn=<{}>", graph::node_name(&**e.node()))),
        None => t.requires_grad().then(|| "requires_grad=True".to_string()),
    }
}

/// PyTorch's `repr`.
///
/// # Errors
/// When the elements cannot be read, as for [`elements`].
#[doc(alias = "printing:tensor")]
pub fn to_text(t: &Tensor) -> Result<String> {
    if t.is_parameter() {
        return Ok(format!("Parameter containing:\n{}", tensor_text(t)?));
    }
    tensor_text(t)
}
fn tensor_text(t: &Tensor) -> Result<String> {
    if let Some(w) = t.wrapped() {
        return w.text(t);
    }
    if let Some(parts) = t.sparse_parts() {
        return sparse_text(t, &parts);
    }
    if let Some(q) = t.quantizer() {
        return quantized_text(t, &q);
    }
    let indent = PREFIX.len();
    let mut suffixes = Vec::new();
    if t.device() != Device::Cpu {
        suffixes.push(format!("device='{}'", t.device()));
    }
    let d = t.dtype();
    let size = |s: &mut Vec<String>| s.push(format!("size={}", size_tuple(t.sizes())));
    let body = if t.device() == Device::Meta {
        size(&mut suffixes);
        if d != default_dtype() {
            suffixes.push(format!("dtype={d}"));
        }
        "...".to_string()
    } else if t.numel() == 0 {
        if t.dim() != 1 {
            size(&mut suffixes);
        }
        // without elements the dtype cannot be seen
        if d != default_dtype() {
            suffixes.push(format!("dtype={d}"));
        }
        "[]".to_string()
    } else {
        if get_printoptions().edgeitems == 0 {
            size(&mut suffixes);
        }
        // the complex default that goes without saying is complex64 unless the default is double
        let complex = if default_dtype() == DType::F64 { default_complex_dtype() } else { DType::C64 };
        if d != default_dtype() && d != complex && d != DType::I64 && d != DType::Bool {
            suffixes.push(format!("dtype={d}"));
        }
        elements(t, indent)?
    };
    if t.layout() != Layout::Strided {
        suffixes.push(format!("layout=torch.{}", t.layout().name()));
    }
    suffixes.extend(gradient_suffix(t));
    if t.has_names() {
        suffixes.push(format!("names={}", t.dim_names().tuple_text()));
    }
    Ok(assemble(format!("{PREFIX}{body}"), &suffixes, indent, false))
}

/// A tensor's parts, each as a tensor of its own, and what the parts do not show.
fn sparse_text(t: &Tensor, parts: &Parts) -> Result<String> {
    let indent = PREFIX.len();
    let named: Vec<(&str, &Tensor)> = match (parts, t.layout()) {
        (Parts::Coo { indices, values, .. }, _) => vec![("indices", indices), ("values", values)],
        (Parts::Compressed { compressed, plain, values }, Layout::SparseCsr | Layout::SparseBsr) => {
            vec![("crow_indices", compressed), ("col_indices", plain), ("values", values)]
        }
        (Parts::Compressed { compressed, plain, values }, _) => {
            vec![("ccol_indices", compressed), ("row_indices", plain), ("values", values)]
        }
    };
    let mut texts = Vec::new();
    for (name, part) in named {
        let head = format!("{name}=tensor(");
        let body = if part.numel() == 0 { "[]".into() } else { elements(part, indent + head.len())? };
        let mut s = format!("{head}{body}");
        if part.numel() == 0 {
            s += &format!(", size={}", size_tuple(part.sizes()));
        }
        // int32 indices are as unusual as they are elsewhere
        if name != "values" && part.dtype() != DType::I64 {
            s += &format!(", dtype={}", part.dtype());
        }
        texts.push(s + ")");
    }
    let body = texts.join(&format!(",\n{}", " ".repeat(indent)));
    let d = t.dtype();
    let mut suffixes = vec![format!("size={}", size_tuple(t.sizes())), format!("nnz={}", parts.nnz())];
    if d != default_dtype() && d != DType::C64 && d != DType::I64 && d != DType::Bool {
        suffixes.push(format!("dtype={d}"));
    }
    suffixes.push(format!("layout=torch.{}", t.layout().name()));
    suffixes.extend(gradient_suffix(t));
    Ok(assemble(format!("{PREFIX}{body}"), &suffixes, indent, matches!(parts, Parts::Coo { .. })))
}

/// The numbers that a quantized tensor stands for, and how it does.
fn quantized_text(t: &Tensor, q: &Quantizer) -> Result<String> {
    let indent = PREFIX.len();
    let body = if t.numel() == 0 { "[]".to_string() } else { elements(&dequantized(t)?, indent)? };
    let mut suffixes = vec![format!("size={}", size_tuple(t.sizes()))];
    suffixes.push(format!("dtype={}", t.dtype()));
    suffixes.push(format!("quantization_scheme={}", q.scheme()));
    match q {
        Quantizer::PerTensor { scale, zero_point } => {
            suffixes.push(format!("scale={}", scale.py_text()));
            suffixes.push(format!("zero_point={zero_point}"));
        }
        Quantizer::PerChannel { scales, zero_points, axis } => {
            suffixes.push(format!("scale={}", tensor_text(scales)?));
            suffixes.push(format!("zero_point={}", tensor_text(zero_points)?));
            suffixes.push(format!("axis={axis}"));
        }
    }
    suffixes.extend(gradient_suffix(t));
    Ok(assemble(format!("{PREFIX}{body}"), &suffixes, indent, false))
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match to_text(self) {
            Ok(s) => f.write_str(&s),
            // printing never fails: a tensor that cannot be read says why
            Err(e) => write!(f, "{PREFIX}<{e}>, size={}, dtype={})", size_tuple(self.sizes()), self.dtype()),
        }
    }
}
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
