//! Samples at any places, and rearrangements of pictures.

use super::Table;
use super::convolution::each;
use crate::build::{Arg, Builder, Call, Dim, Var};
use crate::types::Attribute;
use flambeau_core::{DType, Result};

pub(super) const TABLE: Table = &[
    ("aten.grid_sampler", grid_sample),
    ("aten.grid_sampler_2d", grid_sample),
    ("aten.grid_sampler_3d", grid_sample),
    ("aten.affine_grid_generator", affine_grid),
    ("aten.pixel_shuffle", |b, c| {
        let x = c.tensor(0, "self")?;
        let r = c.int(1, "upscale_factor")?;
        let all = b.sizes(&x)?;
        let n = all.len();
        let (head, ch, h, w) = (&all[..n - 3], &all[n - 3], &all[n - 2], &all[n - 1]);
        let out = b.dim_div(ch, &Dim::Int(r * r))?;
        let mut to = head.to_vec();
        to.extend([out.clone(), Dim::Int(r), Dim::Int(r), h.clone(), w.clone()]);
        let y = b.reshape(&x, &to)?;
        let k = head.len() as i64;
        let order: Vec<i64> = (0..k).chain([k, k + 3, k + 1, k + 4, k + 2]).collect();
        let y = b.transpose(&y, &order)?;
        let (h, w) = (b.dim_mul(h, &Dim::Int(r))?, b.dim_mul(w, &Dim::Int(r))?);
        let mut to = head.to_vec();
        to.extend([out, h, w]);
        Ok(b.reshape(&y, &to)?.into())
    }),
    ("aten.pixel_unshuffle", |b, c| {
        let x = c.tensor(0, "self")?;
        let r = c.int(1, "downscale_factor")?;
        let all = b.sizes(&x)?;
        let n = all.len();
        let (head, ch) = (&all[..n - 3], &all[n - 3]);
        let (h, w) = (b.dim_div(&all[n - 2], &Dim::Int(r))?, b.dim_div(&all[n - 1], &Dim::Int(r))?);
        let mut to = head.to_vec();
        to.extend([ch.clone(), h.clone(), Dim::Int(r), w.clone(), Dim::Int(r)]);
        let y = b.reshape(&x, &to)?;
        let k = head.len() as i64;
        let order: Vec<i64> = (0..k).chain([k, k + 2, k + 4, k + 1, k + 3]).collect();
        let y = b.transpose(&y, &order)?;
        let ch = b.dim_mul(ch, &Dim::Int(r * r))?;
        let mut to = head.to_vec();
        to.extend([ch, h, w]);
        Ok(b.reshape(&y, &to)?.into())
    }),
    ("aten.channel_shuffle", |b, c| {
        let x = c.tensor(0, "self")?;
        let g = c.int(1, "groups")?;
        let all = b.sizes(&x)?;
        let per = b.dim_div(&all[1], &Dim::Int(g))?;
        let mut to = vec![all[0].clone(), Dim::Int(g), per];
        to.extend_from_slice(&all[2..]);
        let y = b.reshape(&x, &to)?;
        let y = b.swap(&y, 1, 2)?;
        Ok(b.reshape(&y, &all)?.into())
    }),
    ("aten.im2col", im2col),
    ("aten.col2im", col2im),
];

fn grid_sample(b: &mut Builder, c: &Call) -> Result<Arg> {
    let (x, grid) = (c.tensor(0, "input")?, c.tensor(1, "grid")?);
    let newer = b.opset() >= 20;
    let mode = match (c.int_or(2, "interpolation_mode", 0)?, newer) {
        (0, true) => "linear",
        (0, false) => "bilinear",
        (1, _) => "nearest",
        (_, true) => "cubic",
        (_, false) => "bicubic",
    };
    let padding = match c.int_or(3, "padding_mode", 0)? {
        0 => "zeros",
        1 => "border",
        _ => "reflection",
    };
    if x.rank() == 5 && !newer {
        b.faults
            .push((crate::build::Fault::NewerOpset, "GridSample of five dimensions: operator set 20".into()));
        return Err(flambeau_core::Error::missing(
            "samples of volumes before operator set 20 of ONNX: export with a newer one",
        ));
    }
    let attr = vec![
        Attribute::text("mode", mode),
        Attribute::text("padding_mode", padding),
        Attribute::int("align_corners", i64::from(c.bool_or(4, "align_corners", false)?)),
    ];
    let mut shape = x.shape[..2].to_vec();
    shape.extend(&grid.shape[1..grid.rank() - 1]);
    Ok(b.node("GridSample", &[&x, &grid], attr, x.dtype(), shape)?.into())
}
fn affine_grid(b: &mut Builder, c: &Call) -> Result<Arg> {
    let theta = c.tensor(0, "theta")?;
    let to = c.dims(1, "size")?;
    let corners = c.bool_or(2, "align_corners", false)?;
    let d = theta.dtype();
    let spatial = &to[2..];
    let n = spatial.len();
    // x goes with the last dimension
    let mut parts = Vec::new();
    for (i, size) in spatial.iter().enumerate().rev() {
        let i = i as i64;
        let places = b.range(&Dim::Int(0), size)?;
        let places = b.cast(&places, d)?;
        let size = b.dim_scalar(size)?;
        let size = b.cast(&size, d)?;
        let twice = b.mul_number(&places, 2.0)?;
        let at = if corners {
            let one = b.scalar(1.0, d)?;
            let last = b.add_number(&size, -1.0)?;
            let shifted = b.sub(&twice, &last)?;
            let last = b.max(&last, &one)?;
            b.div(&shifted, &last)?
        } else {
            let odd = b.add_number(&twice, 1.0)?;
            let q = b.div(&odd, &size)?;
            b.add_number(&q, -1.0)?
        };
        let wide = super::views::along(b, &at, n, i)?;
        let wide = b.expand(&wide, spatial)?;
        parts.push(b.unsqueeze(&wide, &[n as i64])?);
    }
    let one = b.scalar(1.0, d)?;
    let mut sizes = spatial.to_vec();
    sizes.push(Dim::Int(1));
    parts.push(b.full(&sizes, &one)?);
    let grid = b.concat(&parts, n as i64)?;
    let flat = b.reshape_to(&grid, &[-1, n as i64 + 1])?;
    let t = b.transpose(&theta, &[0, 2, 1])?;
    let out = b.matmul(&flat, &t)?;
    let batch = b.size(&theta, 0)?;
    let mut shape = vec![batch];
    shape.extend_from_slice(spatial);
    shape.push(Dim::Int(n as i64));
    Ok(b.reshape(&out, &shape)?.into())
}
fn im2col(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let (k, dil) = (each(c.ints(1, "kernel_size")?, 2, 1), each(c.ints(2, "dilation")?, 2, 1));
    let (pad, stride) = (each(c.ints(3, "padding")?, 2, 0), each(c.ints(4, "stride")?, 2, 1));
    let alone = x.rank() == 3;
    let x = if alone { b.unsqueeze(&x, &[0])? } else { x };
    let mut pairs = vec![(Dim::Int(0), Dim::Int(0)); 2];
    pairs.extend(pad.iter().map(|p| (Dim::Int(*p), Dim::Int(*p))));
    let zero = b.scalar(0.0, x.dtype())?;
    let mut y = if pad.iter().all(|p| *p == 0) { x.clone() } else { b.pad(&x, &pairs, "constant", &zero)? };
    let mut places = Vec::new();
    for i in 0..2 {
        // [kernel, places]
        let d = 2 + 2 * i as i64;
        let n = b.size(&y, d)?;
        let n = b.dim_sub(&n, &Dim::Int(dil[i] * (k[i] - 1) + 1))?;
        let n = b.dim_div(&n, &Dim::Int(stride[i]))?;
        let n = b.dim_add(&n, &Dim::Int(1))?;
        let (at, step) = (b.range(&Dim::Int(0), &n)?, b.int(stride[i])?);
        let at = b.mul(&at, &step)?;
        let within = b.ints(&(0..k[i]).map(|j| j * dil[i]).collect::<Vec<_>>())?;
        let within = b.unsqueeze(&within, &[1])?;
        let index = b.add(&within, &at)?;
        y = b.gather(&y, &index, d)?;
        places.push(n);
    }
    let y = b.transpose(&y, &[0, 1, 2, 4, 3, 5])?;
    let (n, ch) = (b.size(&x, 0)?, b.size(&x, 1)?);
    let rows = b.dim_mul(&ch, &Dim::Int(k[0] * k[1]))?;
    let cols = b.dim_mul(&places[0], &places[1])?;
    let y = b.reshape(&y, &[n, rows, cols])?;
    Ok(if alone { b.squeeze(&y, &[0])? } else { y }.into())
}
fn col2im(b: &mut Builder, c: &Call) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let to = c.dims(1, "output_size")?;
    let k = each(c.ints(2, "kernel_size")?, 2, 1);
    let (dil, pad) = (each(c.ints(3, "dilation")?, 2, 1), each(c.ints(4, "padding")?, 2, 0));
    let stride = each(c.ints(5, "stride")?, 2, 1);
    let alone = x.rank() == 2;
    let x = if alone { b.unsqueeze(&x, &[0])? } else { x };
    let of = x.dtype();
    // runtimes have it in single precision alone
    let y = if of == DType::F32 { x.clone() } else { b.cast(&x, DType::F32)? };
    let pads = [pad[0], pad[1], pad[0], pad[1]];
    let attr = vec![
        Attribute::ints("dilations", &dil),
        Attribute::ints("pads", &pads),
        Attribute::ints("strides", &stride),
    ];
    let (size, kernel) = (b.dims_vector(&to)?, b.ints(&k)?);
    let shape = vec![x.shape[0], x.shape[1].map(|n| n / (k[0] * k[1])), to[0].known(), to[1].known()];
    let y = b.node("Col2Im", &[&y, &size, &kernel], attr, DType::F32, shape)?;
    let y: Var = b.cast(&y, of)?;
    Ok(if alone { b.squeeze(&y, &[0])? } else { y }.into())
}
