//! Convolutions.

use super::Table;
use crate::build::{Arg, Builder, Call, Var};
use crate::types::Attribute;
use flambeau_core::{Error, Result};

pub(super) const TABLE: Table = &[
    ("aten.conv1d", |b, c| plain(b, c, 1)),
    ("aten.conv2d", |b, c| plain(b, c, 2)),
    ("aten.conv3d", |b, c| plain(b, c, 3)),
    ("aten.conv_transpose1d", |b, c| transposed(b, c, 1)),
    ("aten.conv_transpose2d", |b, c| transposed(b, c, 2)),
    ("aten.conv_transpose3d", |b, c| transposed(b, c, 3)),
    ("aten.convolution", general),
    ("aten._convolution", general),
    ("aten.conv_tbc", |b, c| {
        let (x, w, bias) = (c.tensor(0, "self")?, c.tensor(1, "weight")?, c.tensor(2, "bias")?);
        let pad = c.int_or(3, "pad", 0)?;
        let (x, w) = (b.transpose(&x, &[1, 2, 0])?, b.transpose(&w, &[2, 1, 0])?);
        let y = convolve(
            b,
            &x,
            &w,
            Some(bias),
            &Shape {
                stride: vec![1],
                pads: vec![pad, pad],
                dilation: vec![1],
                groups: 1,
                output_padding: None,
            },
        )?;
        Ok(b.transpose(&y, &[2, 0, 1])?.into())
    }),
];

struct Shape {
    stride: Vec<i64>,
    /// Beginnings, then ends.
    pads: Vec<i64>,
    dilation: Vec<i64>,
    groups: i64,
    /// Of transposed ones.
    output_padding: Option<Vec<i64>>,
}
/// A number for each dimension.
pub(super) fn each(l: Vec<i64>, n: usize, default: i64) -> Vec<i64> {
    match l.len() {
        0 => vec![default; n],
        1 => vec![l[0]; n],
        _ => l,
    }
}
fn both_ends(pads: Vec<i64>) -> Vec<i64> {
    let again = pads.clone();
    pads.into_iter().chain(again).collect()
}
fn plain(b: &mut Builder, c: &Call, n: usize) -> Result<Arg> {
    let (x, w, bias) = (c.tensor(0, "input")?, c.tensor(1, "weight")?, c.optional(2, "bias")?);
    let stride = each(c.ints(3, "stride")?, n, 1);
    let dilation = each(c.ints(5, "dilation")?, n, 1);
    let groups = c.int_or(6, "groups", 1)?;
    let pads = match c.arg(4, "padding") {
        Arg::Str(s) if s == "same" => {
            let mut ends = (Vec::new(), Vec::new());
            for (i, d) in dilation.iter().enumerate() {
                let Some(Some(k)) = w.shape.get(i + 2) else {
                    return Err(Error::missing(
                        "convolutions whose kernel's sizes are not known, with padding 'same'",
                    ));
                };
                let all = d * (k - 1);
                ends.0.push(all / 2);
                ends.1.push(all - all / 2);
            }
            ends.0.into_iter().chain(ends.1).collect()
        }
        Arg::Str(_) => vec![0; 2 * n],
        _ => both_ends(each(c.ints(4, "padding")?, n, 0)),
    };
    batched(b, &x, &w, bias, n, Shape { stride, pads, dilation, groups, output_padding: None })
}
fn transposed(b: &mut Builder, c: &Call, n: usize) -> Result<Arg> {
    let (x, w, bias) = (c.tensor(0, "input")?, c.tensor(1, "weight")?, c.optional(2, "bias")?);
    let shape = Shape {
        stride: each(c.ints(3, "stride")?, n, 1),
        pads: both_ends(each(c.ints(4, "padding")?, n, 0)),
        output_padding: Some(each(c.ints(5, "output_padding")?, n, 0)),
        groups: c.int_or(6, "groups", 1)?,
        dilation: each(c.ints(7, "dilation")?, n, 1),
    };
    batched(b, &x, &w, bias, n, shape)
}
fn general(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, w, bias) = (c.tensor(0, "input")?, c.tensor(1, "weight")?, c.optional(2, "bias")?);
    let n = w.rank() - 2;
    let turned = c.bool_or(6, "transposed", false)?;
    let shape = Shape {
        stride: each(c.ints(3, "stride")?, n, 1),
        pads: both_ends(each(c.ints(4, "padding")?, n, 0)),
        dilation: each(c.ints(5, "dilation")?, n, 1),
        output_padding: if turned { Some(each(c.ints(7, "output_padding")?, n, 0)) } else { None },
        groups: c.int_or(8, "groups", 1)?,
    };
    batched(b, &x, &w, bias, n, shape)
}
/// With a batch of one for what has none.
fn batched(b: &mut Builder, x: &Var, w: &Var, bias: Option<Var>, n: usize, shape: Shape) -> Result<Arg> {
    if x.rank() == n + 1 {
        let x = b.unsqueeze(x, &[0])?;
        let y = convolve(b, &x, w, bias, &shape)?;
        return Ok(b.squeeze(&y, &[0])?.into());
    }
    Ok(convolve(b, x, w, bias, &shape)?.into())
}
fn convolve(b: &mut Builder, x: &Var, w: &Var, bias: Option<Var>, s: &Shape) -> Result<Var> {
    let n = w.rank() - 2;
    let mut attr = vec![
        Attribute::ints("strides", &s.stride),
        Attribute::ints("pads", &s.pads),
        Attribute::ints("dilations", &s.dilation),
        Attribute::int("group", s.groups),
    ];
    let mut sizes = Vec::new();
    for i in 0..n {
        let pads = s.pads[i] + s.pads[i + n];
        sizes.push(match (x.shape[i + 2], w.shape[i + 2], &s.output_padding) {
            (Some(m), Some(k), None) => {
                Some((m + pads - s.dilation[i] * (k - 1) - 1).div_euclid(s.stride[i]) + 1)
            }
            (Some(m), Some(k), Some(o)) => {
                Some((m - 1) * s.stride[i] - pads + s.dilation[i] * (k - 1) + o[i] + 1)
            }
            _ => None,
        });
    }
    let channels = match (&s.output_padding, w.shape[1]) {
        (Some(_), c) => c.map(|c| c * s.groups),
        (None, _) => w.shape[0],
    };
    let mut shape = vec![x.shape[0], channels];
    shape.extend(sizes);
    let op = if let Some(o) = &s.output_padding {
        attr.push(Attribute::ints("output_padding", o));
        "ConvTranspose"
    } else {
        "Conv"
    };
    let w = b.cast(w, x.dtype())?;
    let bias = match bias {
        Some(v) => b.cast(&v, x.dtype())?,
        None => Var::none(),
    };
    b.node(op, &[x, &w, &bias], attr, x.dtype(), shape)
}
