//! What puts tensors together and takes them apart, by more than a view.

use super::super::build::{Builder, Call, Item, op, wrapped};
use super::creation::{counted, filled, scalar_like};
use super::reduction::summed;
use super::view::{contiguous, permuted, reshaped, sliced};
use flambeau_core::{DType, Result, Value};

/// Vectors as the sides of a grid, one for each dimension.
fn grid(b: &mut Builder, all: &[Item]) -> Result<Vec<Item>> {
    let mut sizes = Vec::new();
    for t in all {
        sizes.push(t.tensor()?.numel());
    }
    let mut out = Vec::new();
    for (i, t) in all.iter().enumerate() {
        let mut side = vec![1; sizes.len()];
        side[i] = -1;
        let t = op!(b, "view.default", t, side);
        out.push(op!(b, "expand.default", &t, &sizes[..]));
    }
    Ok(out)
}
/// Matrices along the diagonal of one of zeros.
fn block_diag(b: &mut Builder, all: &[Item]) -> Result<Option<Item>> {
    let mut columns = Vec::new();
    for t in all {
        if t.rank()? != 2 || t.dtype()? != all[0].dtype()? {
            return Ok(None);
        }
        columns.push(t.size(1)?);
    }
    let mut rows = Vec::new();
    for (i, t) in all.iter().enumerate() {
        let (n, dtype) = (t.size(0)?, t.dtype()?);
        let mut parts = Vec::new();
        for (j, m) in columns.iter().enumerate() {
            parts.push(if i == j { t.clone() } else { filled(b, vec![n, *m], 0.into(), Some(dtype))? });
        }
        rows.push(op!(b, "cat.default", parts, 1));
    }
    Ok(Some(op!(b, "cat.default", rows)))
}
/// Where each of `n` parts of a dimension begins, and where the last ends.
fn ends(n: i64, parts: i64) -> Vec<i64> {
    let (each, more) = (n / parts, n % parts);
    (0..=parts).map(|i| i * each + i.min(more)).collect()
}
/// Twice the areas between neighbours: the stretches' sums.
fn neighbours(b: &mut Builder, x: &Item, d: i64) -> Result<Item> {
    let n = x.size(d)?;
    let after = sliced(b, x, d, 1, n)?;
    let before = sliced(b, x, d, 0, n - 1)?;
    Ok(op!(b, "add.Tensor", &after, &before))
}
/// All choices of `r` elements, in order: the places of a grid at which indices rise.
fn combinations(b: &mut Builder, c: &Call, x: &Item) -> Result<Option<Item>> {
    let (r, again) = (c.int(1, "r", 2), c.flag(2, "with_replacement", false));
    let n = x.tensor()?.numel();
    // how many there are is no linear function of the size
    if r < 1 || x.rank()? != 1 || b.symbolic.first() == Some(&true) {
        return Ok(None);
    }
    let top = if again { n + r - 1 } else { n };
    let count = (0..r).try_fold(1i64, |all, i| Some(all.checked_mul((top - i).max(0))? / (i + 1)));
    let Some(count) = count else { return Ok(None) };
    let all = counted(b, n, Some(DType::I64))?;
    let sides = grid(b, &vec![all; r as usize])?;
    let mut holds = filled(b, vec![n; r as usize], true.into(), Some(DType::Bool))?;
    for two in sides.windows(2) {
        let name = if again { "le.Tensor" } else { "lt.Tensor" };
        let rises = b.op(name, two.to_vec(), Vec::new())?;
        holds = op!(b, "mul.Tensor", &holds, &rises);
    }
    let places = op!(b, "nonzero_static.default", &holds; size = count);
    Ok(Some(op!(b, "index.Tensor", x, vec![places])))
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    Ok(Some(match c.name.as_str() {
        "meshgrid.default" | "meshgrid.indexing" => {
            let by_rows = c.get(1, "indexing").is_none_or(|i| matches!(&i.value, Value::Str(s) if s == "ij"));
            if !by_rows {
                return Ok(None);
            }
            grid(b, &x.items())?.into()
        }
        "cartesian_prod.default" if x.items().len() > 1 => {
            let mut columns = Vec::new();
            for side in grid(b, &x.items())? {
                let side = contiguous(b, &side)?;
                let n = side.tensor()?.numel();
                let side = reshaped(b, &side, vec![n])?;
                columns.push(op!(b, "unsqueeze.default", &side, 1));
            }
            op!(b, "cat.default", columns, 1)
        }
        "combinations.default" => return combinations(b, c, &x),
        "block_diag.default" => {
            let all = x.items();
            return if all.is_empty() { Ok(None) } else { block_diag(b, &all) };
        }
        "repeat_interleave.self_int" => {
            let (Some(d), true) = (c.get(2, "dim"), c.need(1, "repeats")?.int().is_some()) else {
                return Ok(None);
            };
            let times = c.int(1, "repeats", 1);
            let mut sizes = x.sizes()?;
            let d = wrapped(d.int().unwrap_or(0), sizes.len())?;
            let wide = op!(b, "unsqueeze.default", &x, d as i64 + 1);
            sizes.insert(d + 1, times);
            let wide = op!(b, "expand.default", &wide, &sizes[..]);
            let copy = contiguous(b, &wide)?;
            sizes.remove(d + 1);
            sizes[d] *= times;
            op!(b, "view.default", &copy, sizes)
        }
        "tensor_split.sections" => {
            let (parts, d) = (c.int(1, "sections", 1), c.int(2, "dim", 0));
            if parts < 1 {
                return Ok(None);
            }
            let all = ends(x.size(d)?, parts);
            let mut out = Vec::new();
            for i in 0..all.len() - 1 {
                out.push(sliced(b, &x, d, all[i], all[i + 1])?);
            }
            out.into()
        }
        "tensor_split.indices" => {
            let (d, Some(inner)) = (c.int(2, "dim", 0), c.ints(1, "indices")) else { return Ok(None) };
            let size = x.size(d)?;
            if inner.iter().any(|i| *i < 0 || *i > size) || inner.windows(2).any(|w| w[0] > w[1]) {
                return Ok(None);
            }
            let all = [vec![0], inner, vec![size]].concat();
            let parts = all.windows(2).map(|w| sliced(b, &x, d, w[0], w[1]));
            parts.collect::<Result<Vec<Item>>>()?.into()
        }
        "rot90.default" => {
            let dims = c.ints(2, "dims").unwrap_or_else(|| vec![0, 1]);
            let [i, j] = dims[..] else { return Ok(None) };
            let (i, j) = (wrapped(i, x.rank()?)?, wrapped(j, x.rank()?)?);
            let mut order: Vec<i64> = (0..x.rank()? as i64).collect();
            order.swap(i, j);
            match c.int(1, "k", 1).rem_euclid(4) {
                1 => {
                    let turned = op!(b, "flip.default", &x, vec![j as i64]);
                    permuted(b, &turned, order)?
                }
                2 => op!(b, "flip.default", &x, vec![i as i64, j as i64]),
                3 => {
                    let turned = op!(b, "flip.default", &x, vec![i as i64]);
                    permuted(b, &turned, order)?
                }
                _ => return Ok(None),
            }
        }
        "msort.default" => {
            let all = op!(b, "sort.default", &x, 0);
            b.part(&all, 0)?
        }
        "trapezoid.dx" => {
            let (d, step) = (c.int(2, "dim", -1), c.float(1, "dx", 1.0));
            if x.size(d)? < 1 {
                return Ok(None);
            }
            let sum = summed(b, &x, vec![d], false)?;
            let last = op!(b, "select.int", &x, d, -1);
            let first = op!(b, "select.int", &x, d, 0);
            let ends = op!(b, "add.Tensor", &last, &first);
            let half = op!(b, "mul.Scalar", &ends, 0.5);
            let area = op!(b, "sub.Tensor", &sum, &half);
            op!(b, "mul.Scalar", &area, step)
        }
        "cumulative_trapezoid.dx" => {
            let (d, step) = (c.int(2, "dim", -1), c.float(1, "dx", 1.0));
            let both = neighbours(b, &x, d)?;
            let areas = op!(b, "mul.Scalar", &both, step / 2.0);
            op!(b, "cumsum.default", &areas, d)
        }
        "index_copy.default" | "index_fill.int_Scalar" => {
            let mut sizes = x.sizes()?;
            let (d, index) = (wrapped(c.int(1, "dim", 0), sizes.len())?, c.need(2, "index")?);
            if sizes.is_empty() || index.rank()? != 1 {
                return Ok(None);
            }
            let values = if c.name.starts_with("index_copy") {
                c.need(3, "source")?
            } else {
                let v = scalar_like(b, &c.need(3, "value")?, &x)?;
                sizes[d] = index.tensor()?.numel();
                op!(b, "expand.default", &v, &sizes[..])
            };
            let mut places = vec![Item::none(); d];
            places.push(index);
            op!(b, "index_put.default", &x, places, &values)
        }
        "fft_fftshift.default" | "fft_ifftshift.default" => {
            let rank = x.rank()? as i64;
            let mut out = x.clone();
            for d in c.ints(1, "dim").unwrap_or_else(|| (0..rank).collect()) {
                let d = wrapped(d, x.rank()?)? as i64;
                let n = x.size(d)?;
                let by = if c.name.contains("_fft") { (n + 1) / 2 } else { n / 2 };
                let all = counted(b, n, Some(DType::I64))?;
                let all = op!(b, "add.Tensor", &all, by);
                let all = op!(b, "fmod.Scalar", &all, n);
                out = op!(b, "index_select.default", &out, d, &all);
            }
            out
        }
        "sym_numel.default" => Item::from(x.sizes()?.iter().product::<i64>()),
        _ => return Ok(None),
    }))
}
