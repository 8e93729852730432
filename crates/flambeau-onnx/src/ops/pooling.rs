//! Pooling.

use super::Table;
use super::convolution::each;
use crate::build::{Arg, Builder, Call, Dim, Var};
use crate::types::Attribute;
use flambeau_core::{DType, Error, Result, Tensor};

pub(super) const TABLE: Table = &[
    ("aten.max_pool1d", |b, c| max_pool(b, c, 1, false)),
    ("aten.max_pool2d", |b, c| max_pool(b, c, 2, false)),
    ("aten.max_pool3d", |b, c| max_pool(b, c, 3, false)),
    ("aten.max_pool1d_with_indices", |b, c| max_pool(b, c, 1, true)),
    ("aten.max_pool2d_with_indices", |b, c| max_pool(b, c, 2, true)),
    ("aten.max_pool3d_with_indices", |b, c| max_pool(b, c, 3, true)),
    ("aten.avg_pool1d", |b, c| avg_pool(b, c, 1)),
    ("aten.avg_pool2d", |b, c| avg_pool(b, c, 2)),
    ("aten.avg_pool3d", |b, c| avg_pool(b, c, 3)),
    ("aten.adaptive_avg_pool1d", |b, c| adaptive_avg(b, c, 1)),
    ("aten.adaptive_avg_pool2d", |b, c| adaptive_avg(b, c, 2)),
    ("aten._adaptive_avg_pool2d", |b, c| adaptive_avg(b, c, 2)),
    ("aten.adaptive_avg_pool3d", |b, c| adaptive_avg(b, c, 3)),
    ("aten._adaptive_avg_pool3d", |b, c| adaptive_avg(b, c, 3)),
    ("aten.adaptive_max_pool1d", |b, c| adaptive_max(b, c, 1)),
    ("aten.adaptive_max_pool2d", |b, c| adaptive_max(b, c, 2)),
    ("aten.adaptive_max_pool3d", |b, c| adaptive_max(b, c, 3)),
    ("aten.max_unpool2d", |b, c| unpool(b, c, 2)),
    ("aten.max_unpool3d", |b, c| unpool(b, c, 3)),
];

struct Window {
    kernel: Vec<i64>,
    stride: Vec<i64>,
    pad: Vec<i64>,
    dilation: Vec<i64>,
    ceil: bool,
}
impl Window {
    /// Places of the window along a dimension of `n` elements.
    fn places(&self, i: usize, n: i64) -> i64 {
        let reach = self.dilation[i] * (self.kernel[i] - 1) + 1;
        let free = n + 2 * self.pad[i] - reach;
        let s = self.stride[i];
        let mut out = (if self.ceil { free + s - 1 } else { free }).div_euclid(s) + 1;
        // the last window must begin within the tensor or its left padding
        if self.ceil && (out - 1) * s >= n + self.pad[i] {
            out -= 1;
        }
        out
    }
    /// The padding at the end with which as many windows fit without rounding up.
    fn end(&self, i: usize, n: i64) -> i64 {
        let reach = self.dilation[i] * (self.kernel[i] - 1) + 1;
        ((self.places(i, n) - 1) * self.stride[i] + reach - n - self.pad[i]).max(0)
    }
}
fn window(c: &Call, n: usize, dilated: bool) -> Result<Window> {
    let kernel = each(c.ints(1, "kernel_size")?, n, 1);
    let stride = c.ints(2, "stride")?;
    let stride = if stride.is_empty() { kernel.clone() } else { each(stride, n, 1) };
    Ok(Window {
        stride,
        pad: each(c.ints(3, "padding")?, n, 0),
        dilation: if dilated { each(c.ints(4, "dilation")?, n, 1) } else { vec![1; n] },
        ceil: c.bool_or(if dilated { 5 } else { 4 }, "ceil_mode", false)?,
        kernel,
    })
}
/// A batch of one for what has none.
fn with_batch(b: &mut Builder, x: &Var, n: usize) -> Result<(Var, bool)> {
    Ok(if x.rank() == n + 1 { (b.unsqueeze(x, &[0])?, true) } else { (x.clone(), false) })
}
fn known_sizes(x: &Var) -> Option<Vec<i64>> {
    x.shape.get(2..)?.iter().copied().collect()
}
/// The output's sizes.
fn pooled(x: &Var, w: &Window) -> Vec<Option<i64>> {
    let mut shape = x.shape[..2].to_vec();
    shape.extend(x.shape[2..].iter().enumerate().map(|(i, n)| n.map(|n| w.places(i, n))));
    shape
}
fn attributes(x: &Var, w: &Window) -> Vec<Attribute> {
    let mut pads = w.pad.clone();
    let mut ceil = w.ceil;
    match known_sizes(x) {
        Some(sizes) if w.ceil => {
            pads.extend(sizes.iter().enumerate().map(|(i, n)| w.end(i, *n)));
            ceil = false;
        }
        _ => pads.extend_from_slice(&w.pad),
    }
    vec![
        Attribute::ints("kernel_shape", &w.kernel),
        Attribute::ints("strides", &w.stride),
        Attribute::ints("pads", &pads),
        Attribute::int("ceil_mode", i64::from(ceil)),
    ]
}
fn max_pool(b: &mut Builder, c: &Call, n: usize, indices: bool) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let (x, alone) = with_batch(b, &x, n)?;
    let w = window(c, n, true)?;
    let (y, i) = max_of_windows(b, &x, &w, indices)?;
    let y = if alone { b.squeeze(&y, &[0])? } else { y };
    Ok(match i {
        None => y.into(),
        Some(i) => vec![y, if alone { b.squeeze(&i, &[0])? } else { i }].into(),
    })
}
fn max_of_windows(b: &mut Builder, x: &Var, w: &Window, indices: bool) -> Result<(Var, Option<Var>)> {
    let mut attr = attributes(x, w);
    attr.push(Attribute::ints("dilations", &w.dilation));
    let shape = pooled(x, w);
    let mut outputs = vec![(x.dtype(), shape.clone())];
    if indices {
        outputs.push((DType::I64, shape));
    }
    // padding beyond half of the kernel, as rounding up may ask for, is only taken where it is written out
    let out = b.nodes("MaxPool", &[x], attr, &outputs)?;
    let mut out = out.into_iter();
    let y = out.next().unwrap_or_else(Var::none);
    let Some(i) = out.next() else { return Ok((y, None)) };
    // ONNX counts through the whole tensor, PyTorch through a channel
    let all: Vec<Dim> = (2..x.rank() as i64).map(|d| b.size(x, d)).collect::<Result<_>>()?;
    let plane = b.dim_product(&all)?;
    let plane = b.dim_scalar(&plane)?;
    Ok((y, Some(b.pair("Mod", &i, &plane)?)))
}
fn avg_pool(b: &mut Builder, c: &Call, n: usize) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let (x, alone) = with_batch(b, &x, n)?;
    let w = window(c, n, false)?;
    let include = c.bool_or(5, "count_include_pad", true)?;
    let divisor =
        if c.arg(6, "divisor_override").is_none() { None } else { Some(c.int(6, "divisor_override")?) };
    let y = average(b, &x, &w, include, divisor)?;
    Ok(if alone { b.squeeze(&y, &[0])? } else { y }.into())
}
fn average(b: &mut Builder, x: &Var, w: &Window, include: bool, divisor: Option<i64>) -> Result<Var> {
    let size: i64 = w.kernel.iter().product();
    let shape = pooled(x, w);
    let known = known_sizes(x);
    let uneven =
        w.ceil && known.as_ref().is_none_or(|l| l.iter().enumerate().any(|(i, n)| w.end(i, *n) > w.pad[i]));
    if !uneven || known.is_none() {
        let mut attr = attributes(x, &Window { ceil: w.ceil && known.is_none(), ..copy(w) });
        let counted = include || divisor.is_some();
        attr.push(Attribute::int("count_include_pad", i64::from(counted)));
        let y = b.node("AveragePool", &[x], attr, x.dtype(), shape)?;
        return match divisor {
            Some(d) => b.mul_number(&y, size as f64 / d as f64),
            None => Ok(y),
        };
    }
    let sizes = known.unwrap_or_default();
    // sums over what is padded with zeros, and how many elements each counts
    let mut pads = vec![(Dim::Int(0), Dim::Int(0)); 2];
    for (i, n) in sizes.iter().enumerate() {
        pads.push((Dim::Int(w.pad[i]), Dim::Int(w.end(i, *n))));
    }
    let zero = b.scalar(0.0, x.dtype())?;
    let padded = b.pad(x, &pads, "constant", &zero)?;
    let attr = vec![Attribute::ints("kernel_shape", &w.kernel), Attribute::ints("strides", &w.stride)];
    let y = b.node("AveragePool", &[&padded], attr, x.dtype(), shape)?;
    let y = b.mul_number(&y, size as f64)?;
    if let Some(d) = divisor {
        return b.div_number(&y, d as f64);
    }
    let mut counts = vec![1.0f64];
    let mut out = vec![1i64, 1];
    for (i, n) in sizes.iter().enumerate() {
        let places = w.places(i, *n);
        out.push(places);
        let mut next = Vec::with_capacity(counts.len() * places as usize);
        for c in &counts {
            for p in 0..places {
                let from = p * w.stride[i] - w.pad[i];
                let to = from + w.kernel[i];
                let seen = if include { to.min(n + w.pad[i]) - from } else { to.min(*n) - from.max(0) };
                next.push(c * seen as f64);
            }
        }
        counts = next;
    }
    let counts = b.constant(&Tensor::from_vec(counts, out).try_to(x.dtype())?)?;
    b.div(&y, &counts)
}
fn copy(w: &Window) -> Window {
    Window {
        kernel: w.kernel.clone(),
        stride: w.stride.clone(),
        pad: w.pad.clone(),
        dilation: w.dilation.clone(),
        ceil: w.ceil,
    }
}
/// The output's sizes of adaptive pooling; `None` for one that stays as it is.
fn wanted(c: &Call, n: usize) -> Result<Vec<Option<Dim>>> {
    let Arg::List(l) = c.arg(1, "output_size") else {
        let d = c.dim(1, "output_size")?;
        return Ok(vec![Some(d); n]);
    };
    let one = |a: &Arg| match a {
        Arg::Int(n) => Ok(Some(Dim::Int(*n))),
        Arg::Var(v) => Ok(Some(Dim::Var(v.clone()))),
        Arg::None => Ok(None),
        _ => Err(Error::type_("argument 'output_size' is a list of ints")),
    };
    let l = l.iter().map(one).collect::<Result<Vec<_>>>()?;
    Ok(if l.len() == 1 { vec![l[0].clone(); n] } else { l })
}
fn adaptive_avg(b: &mut Builder, c: &Call, n: usize) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let to = wanted(c, n)?;
    let front = x.rank() - n;
    if to.iter().all(|d| matches!(d, Some(Dim::Int(1)))) {
        let dims: Vec<i64> = (front as i64..x.rank() as i64).collect();
        return Ok(b.reduce("ReduceMean", &x, &dims, true)?.into());
    }
    let (whole, alone) = with_batch(b, &x, n)?;
    if let Some(w) = even(&whole, &to) {
        let y = average(b, &whole, &w, false, None)?;
        return Ok(if alone { b.squeeze(&y, &[0])? } else { y }.into());
    }
    // a product with a matrix of shares for each dimension
    let mut y = x;
    for (i, d) in to.iter().enumerate() {
        let Some(out) = d else { continue };
        let d = (front + i) as i64;
        let size = b.size(&y, d)?;
        let shares = shares(b, &size, out, y.dtype())?;
        let last = y.rank() as i64 - 1;
        let t = b.swap(&y, d, last)?;
        let t = b.matmul(&t, &shares)?;
        y = b.swap(&t, d, last)?;
    }
    Ok(y.into())
}
/// A window that makes the same as adaptive pooling, where sizes divide.
fn even(x: &Var, to: &[Option<Dim>]) -> Option<Window> {
    let sizes = known_sizes(x)?;
    let mut kernel = Vec::new();
    for (n, d) in sizes.iter().zip(to) {
        let out = match d {
            Some(d) => d.known()?,
            None => *n,
        };
        if out <= 0 || n % out != 0 {
            return None;
        }
        kernel.push(n / out);
    }
    let n = kernel.len();
    Some(Window { stride: kernel.clone(), kernel, pad: vec![0; n], dilation: vec![1; n], ceil: false })
}
/// `[n, out]`: how much each element counts in each result.
fn shares(b: &mut Builder, n: &Dim, out: &Dim, dtype: DType) -> Result<Var> {
    let (i, j) = (b.range(&Dim::Int(0), out)?, b.range(&Dim::Int(0), n)?);
    let (n, out, one) = (b.dim_scalar(n)?, b.dim_scalar(out)?, b.int(1)?);
    let begin = b.mul(&i, &n)?;
    let begin = b.div(&begin, &out)?;
    let next = b.add(&i, &one)?;
    let end = b.mul(&next, &n)?;
    let end = b.add(&end, &out)?;
    let end = b.sub(&end, &one)?;
    let end = b.div(&end, &out)?;
    let j = b.unsqueeze(&j, &[1])?;
    let (from, to) = (b.ge(&j, &begin)?, b.lt(&j, &end)?);
    let member = b.and(&from, &to)?;
    let member = b.cast(&member, dtype)?;
    let count = b.sub(&end, &begin)?;
    let count = b.cast(&count, dtype)?;
    b.div(&member, &count)
}
fn adaptive_max(b: &mut Builder, c: &Call, n: usize) -> Result<Arg> {
    let x = c.tensor(0, "self")?;
    let to = wanted(c, n)?;
    let (x, alone) = with_batch(b, &x, n)?;
    let (y, i) = if let Some(w) = even(&x, &to) {
        let (y, i) = max_of_windows(b, &x, &w, true)?;
        (y, i.unwrap_or_else(Var::none))
    } else if to.iter().all(|d| matches!(d, Some(Dim::Int(1)))) {
        let head: Vec<Dim> = vec![b.size(&x, 0)?, b.size(&x, 1)?];
        let mut flat_to = head.clone();
        flat_to.push(Dim::Int(-1));
        let flat = b.reshape(&x, &flat_to)?;
        let (y, i) = (b.reduce("ReduceMax", &flat, &[2], true)?, {
            let attr = vec![Attribute::int("axis", 2), Attribute::int("keepdims", 1)];
            b.node("ArgMax", &[&flat], attr, DType::I64, vec![x.shape[0], x.shape[1], Some(1)])?
        });
        let more: Vec<i64> = (3..2 + n as i64).collect();
        (b.unsqueeze(&y, &more)?, b.unsqueeze(&i, &more)?)
    } else {
        uneven_max(b, &x, &to)?
    };
    let parts = if alone { vec![b.squeeze(&y, &[0])?, b.squeeze(&i, &[0])?] } else { vec![y, i] };
    Ok(parts.into())
}
/// Windows of different sizes: each is filled up with its last element.
fn uneven_max(b: &mut Builder, x: &Var, to: &[Option<Dim>]) -> Result<(Var, Var)> {
    let Some(sizes) = known_sizes(x) else {
        return Err(Error::missing(
            "adaptive_max_pool of sizes that are not known, to more than one element, as ONNX",
        ));
    };
    let n = sizes.len();
    let mut tables: Vec<(i64, i64, Vec<i64>)> = Vec::new();
    for (m, d) in sizes.iter().zip(to) {
        let out = match d {
            Some(d) => {
                d.known().ok_or_else(|| Error::missing("adaptive_max_pool to a size that is not known"))?
            }
            None => *m,
        };
        let bounds: Vec<(i64, i64)> =
            (0..out).map(|i| (i * m / out, ((i + 1) * m + out - 1).div_euclid(out))).collect();
        let k = bounds.iter().map(|(a, z)| z - a).max().unwrap_or(1);
        let table = bounds.iter().flat_map(|(a, z)| (0..k).map(move |j| (a + j).min(z - 1))).collect();
        tables.push((out, k, table));
    }
    // [b, c, o0, k0, o1, k1, ..]
    let mut y = x.clone();
    for (i, (out, k, table)) in tables.iter().enumerate() {
        let t = b.ints(table)?;
        let t = b.reshape_to(&t, &[*out, *k])?;
        y = b.gather(&y, &t, 2 + 2 * i as i64)?;
    }
    let n64 = n as i64;
    let mut order = vec![0, 1];
    order.extend((0..n64).map(|i| 2 + 2 * i));
    order.extend((0..n64).map(|i| 3 + 2 * i));
    let y = b.transpose(&y, &order)?;
    let all = b.sizes(&y)?;
    let mut shape = all[..2 + n].to_vec();
    let k: i64 = tables.iter().map(|t| t.1).product();
    shape.push(Dim::Int(k));
    let y = b.reshape(&y, &shape)?;
    let last = 2 + n64;
    let best = b.reduce("ReduceMax", &y, &[last], false)?;
    let at = b.node(
        "ArgMax",
        &[&y],
        vec![Attribute::int("axis", last), Attribute::int("keepdims", 1)],
        DType::I64,
        y.shape[..2 + n].iter().copied().chain([Some(1)]).collect(),
    )?;
    // numbers within the channel of each place of each window
    let mut flat: Vec<(Vec<usize>, i64)> = vec![(Vec::new(), 0)];
    for (out, _, _) in &tables {
        flat = flat
            .into_iter()
            .flat_map(|(p, v)| (0..*out as usize).map(move |o| ([&p[..], &[o]].concat(), v)))
            .collect();
    }
    let mut numbers = Vec::new();
    for (place, _) in &flat {
        let mut rows = vec![0i64];
        for (i, (_, k, table)) in tables.iter().enumerate() {
            let own = &table[place[i] * *k as usize..(place[i] + 1) * *k as usize];
            rows = rows
                .iter()
                .flat_map(|r| {
                    let n = sizes[i];
                    own.iter().map(move |j| r * n + j)
                })
                .collect();
        }
        numbers.extend(rows);
    }
    let numbers = b.ints(&numbers)?;
    let mut dims = vec![1, 1];
    dims.extend(tables.iter().map(|t| t.0));
    dims.push(k);
    let numbers = b.reshape_to(&numbers, &dims)?;
    let whole = b.sizes(&y)?;
    let numbers = b.expand(&numbers, &whole)?;
    let i = super::indexing::gather_elements(b, &numbers, &at, last)?;
    Ok((best, b.squeeze(&i, &[last])?))
}
fn unpool(b: &mut Builder, c: &Call, n: usize) -> Result<Arg> {
    let (x, i, to) = (c.tensor(0, "self")?, c.tensor(1, "indices")?, c.dims(2, "output_size")?);
    let front = x.rank() - n;
    let mut sizes = b.sizes(&x)?[..front].to_vec();
    let head = sizes.clone();
    let plane = b.dim_product(&to[to.len() - n..])?;
    sizes.extend_from_slice(&to[to.len() - n..]);
    let mut flat = head.clone();
    flat.push(plane);
    let zero = b.scalar(0.0, x.dtype())?;
    let empty = b.full(&flat, &zero)?;
    let mut row = head;
    row.push(Dim::Int(-1));
    let (x, i) = (b.reshape(&x, &row)?, b.reshape(&i, &row)?);
    let out = super::indexing::scatter_elements(b, &empty, &i, &x, front as i64, "none")?;
    Ok(b.reshape(&out, &sizes)?.into())
}
