//! What is read by places: elements, diagonals, order statistics.

use super::super::build::{Builder, Call, Item, op, wrapped};
use super::creation::counted;
use super::pointwise::{chosen, converted};
use super::product::common;
use super::view::{contiguous, permuted};
use flambeau_core::{DType, Device, Result, Value};

/// Elements along a dimension, at the places that another tensor says for each.
fn taken_along(b: &mut Builder, x: &Item, at: &Item, d: i64) -> Result<Option<Item>> {
    let d = wrapped(d, x.rank()?)?;
    let (sx, sa) = (x.sizes()?, at.sizes()?);
    if sx.len() != sa.len() || sx.is_empty() {
        return Ok(None);
    }
    // all sizes but those along the dimension are common
    let mut wide = common(&sx, &sa);
    wide[d] = sa[d];
    let at = op!(b, "expand.default", at, wide.clone());
    wide[d] = sx[d];
    let x = op!(b, "expand.default", x, wide);
    let at = op!(b, "remainder.Scalar", &at, sx[d]);
    Ok(Some(op!(b, "gather.default", &x, d as i64, &at)))
}
/// A matrix for each row, with the row as its diagonal.
fn embedded(b: &mut Builder, x: &Item, offset: i64, dims: (i64, i64)) -> Result<Option<Item>> {
    let rank = x.rank()? + 1;
    if rank < 2 || offset != 0 {
        return Ok(None);
    }
    let (i, j) = (wrapped(dims.0, rank)?, wrapped(dims.1, rank)?);
    let (i, j) = (i.min(j), i.max(j));
    let n = x.size(-1)?;
    let wide = op!(b, "unsqueeze.default", x, i as i64);
    // the last dimension goes to its place
    let mut order: Vec<i64> = (0..rank as i64 - 1).collect();
    order.insert(j, rank as i64 - 1);
    let wide = permuted(b, &wide, order)?;
    let across = counted(b, n, Some(DType::I64))?;
    let down = counted(b, n, Some(DType::I64))?;
    let down = op!(b, "unsqueeze.default", &down, -1);
    let same = op!(b, "eq.Tensor", &across, &down);
    let sizes: Vec<i64> = (0..rank).map(|d| if d == i || d == j { n } else { 1 }).collect();
    let same = op!(b, "view.default", &same, sizes);
    let out = chosen(b, &same, &wide, &0.into())?;
    contiguous(b, &out).map(Some)
}
/// The value below which a part of each row lies: between two neighbours in the row's order.
fn quantile(b: &mut Builder, c: &Call, x: &Item) -> Result<Option<Item>> {
    let (rank, q) = (x.rank()?, c.float(1, "q", 0.5));
    let plain = match c.get(4, "interpolation").map(|i| i.value.clone()) {
        None => true,
        Some(Value::Str(ref how)) => how == "linear",
        _ => false,
    };
    let Some(d) = c.get(2, "dim").and_then(|i| i.int()) else { return Ok(None) };
    if !plain || rank == 0 || wrapped(d, rank)? != rank - 1 || !x.dtype()?.is_floating() {
        return Ok(None);
    }
    let (dtype, sizes) = (x.dtype()?, x.sizes()?);
    let last = sizes[rank - 1] - 1;
    let q = op!(b, "scalar_tensor.default", q; dtype = dtype);
    let x = op!(b, "view.default", x, sizes.clone());
    let q = converted(b, &q, DType::F64)?;
    let at = op!(b, "mul.Scalar", &q, last);
    let nan = op!(b, "isnan.default", &x);
    let nan = op!(b, "any.dim", &nan, -1, true);
    let mut rows = sizes;
    rows[rank - 1] = 1;
    let at = op!(b, "expand.default", &at, rows);
    let end = op!(b, "scalar_tensor.default", last as f64; dtype = DType::F64);
    // what is no number stands last in the order
    let at = op!(b, "where.self", &nan, &end, &at);
    let whole = |b: &mut Builder, t: &Item| -> Result<Item> {
        Ok(op!(b, "_to_copy.default", t; dtype = DType::I64, device = Value::Device(Device::Cpu)))
    };
    let low = whole(b, &at)?;
    let part = op!(b, "sub.Tensor", &at, &low);
    let part = converted(b, &part, dtype)?;
    let high = op!(b, "ceil.default", &at);
    let high = whole(b, &high)?;
    let order = op!(b, "sort.default", &x);
    let order = b.part(&order, 0)?;
    let low = op!(b, "gather.default", &order, -1, &low);
    let high = op!(b, "gather.default", &order, -1, &high);
    let size = op!(b, "abs.default", &part);
    let near = op!(b, "ge.Scalar", &size, 0.5);
    let back = op!(b, "sub.Tensor", &part, 1);
    let part = op!(b, "where.self", &near, &back, &part);
    let from = op!(b, "where.self", &near, &high, &low);
    let step = op!(b, "sub.Tensor", &high, &low);
    let step = op!(b, "mul.Tensor", &part, &step);
    let out = op!(b, "add.Tensor", &step, &from);
    Ok(Some(if c.flag(3, "keepdim", false) { out } else { op!(b, "squeeze.dims", &out, vec![-1]) }))
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    Ok(Some(match c.name.as_str() {
        "take.default" => {
            let flat = op!(b, "view.default", &x, vec![-1]);
            op!(b, "index.Tensor", &flat, vec![c.need(1, "index")?])
        }
        "take_along_dim.default" => {
            let Some(d) = c.get(2, "dim").and_then(|i| i.int()) else { return Ok(None) };
            return taken_along(b, &x, &c.need(1, "indices")?, d);
        }
        "diag_embed.default" => {
            return embedded(b, &x, c.int(1, "offset", 0), (c.int(2, "dim1", -2), c.int(3, "dim2", -1)));
        }
        "diag.default" => {
            let offset = c.int(1, "diagonal", 0);
            if x.rank()? == 1 {
                return embedded(b, &x, offset, (-2, -1));
            }
            let line = match offset {
                0 => op!(b, "diagonal.default", &x),
                _ => op!(b, "diagonal.default", &x, offset),
            };
            contiguous(b, &line)?
        }
        "isin.Tensor_Tensor" => {
            let among = c.need(1, "test_elements")?;
            let (n, m) = (x.tensor()?.numel(), among.tensor()?.numel());
            // as long as comparing all pairs is quicker than an order
            if n < 1 || m as f64 >= 10.0 * (n as f64).powf(0.145) {
                return Ok(None);
            }
            let more = among.rank()?;
            let wide = op!(b, "view.default", &x, [x.sizes()?, vec![1; more]].concat());
            let same = op!(b, "eq.Tensor", &wide, &among);
            let found = op!(b, "any.dims", &same, (1..=more as i64).map(|d| -d).collect::<Vec<i64>>());
            if c.flag(3, "invert", false) { op!(b, "bitwise_not.default", &found) } else { found }
        }
        "quantile.scalar" => return quantile(b, c, &x),
        _ => return Ok(None),
    }))
}
