//! Products of matrices.

use super::super::build::{Builder, Call, Item, op, wrapped};
use super::view::{permuted, reshaped, transposed};
use flambeau_core::Result;

/// Whether the dimensions before the last are one dimension in memory.
fn folds(x: &Item) -> Result<bool> {
    let t = x.tensor()?;
    Ok(t.is_contiguous())
}
/// A tensor of matrices as one of three dimensions.
fn batched(b: &mut Builder, x: &Item, batch: &[i64]) -> Result<Item> {
    let sizes = x.sizes()?;
    let matrix = &sizes[sizes.len() - 2..];
    let whole = [batch, matrix].concat();
    let wide = op!(b, "expand.default", x, whole);
    let view = [&[batch.iter().product()], matrix].concat();
    if wide.sizes()? == view {
        return Ok(op!(b, "view.default", &wide, view));
    }
    reshaped(b, &wide, view)
}
/// The sizes of what broadcasts two.
pub(super) fn common(x: &[i64], y: &[i64]) -> Vec<i64> {
    let n = x.len().max(y.len());
    let at = |l: &[i64], i: usize| (i + l.len()).checked_sub(n).map_or(1, |k| l[k]);
    (0..n).map(|i| if at(x, i) == 1 { at(y, i) } else { at(x, i) }).collect()
}
/// `torch.matmul`
pub(super) fn matmul(b: &mut Builder, x: &Item, y: &Item) -> Result<Item> {
    match (x.rank()?, y.rank()?) {
        (1, 1) => dot(b, x, y),
        (2, 1) => vector(b, x, y),
        (1, 2) => {
            let row = op!(b, "unsqueeze.default", x, 0);
            let out = op!(b, "mm.default", &row, y);
            Ok(op!(b, "squeeze.dims", &out, vec![0]))
        }
        (2, 2) => Ok(op!(b, "mm.default", x, y)),
        (n, m) if n >= 3 && m <= 2 && folds(x)? => {
            let sizes = x.sizes()?;
            let (front, k) = (&sizes[..n - 1], sizes[n - 1]);
            let flat = op!(b, "view.default", x, vec![front.iter().product(), k]);
            if m == 1 {
                let out = vector(b, &flat, y)?;
                return Ok(op!(b, "view.default", &out, front));
            }
            let out = op!(b, "mm.default", &flat, y);
            let new = [front, &[y.size(1)?]].concat();
            Ok(op!(b, "view.default", &out, new))
        }
        (n, m) if m >= 3 && n <= 2 && n == 2 => {
            // the transposed product folds
            let yt = transposed(b, y, -2, -1)?;
            if folds(&yt)? {
                let xt = transposed(b, x, 0, 1)?;
                let out = matmul(b, &yt, &xt)?;
                return transposed(b, &out, -2, -1);
            }
            wide(b, x, y)
        }
        _ => wide(b, x, y),
    }
}
fn wide(b: &mut Builder, x: &Item, y: &Item) -> Result<Item> {
    let (row, column) = (x.rank()? == 1, y.rank()? == 1);
    let x = if row { op!(b, "unsqueeze.default", x, 0) } else { x.clone() };
    let y = if column { op!(b, "unsqueeze.default", y, 1) } else { y.clone() };
    let (sx, sy) = (x.sizes()?, y.sizes()?);
    let batch = common(&sx[..sx.len() - 2], &sy[..sy.len() - 2]);
    let (bx, by) = (batched(b, &x, &batch)?, batched(b, &y, &batch)?);
    let out = op!(b, "bmm.default", &bx, &by);
    let mut sizes = batch;
    if !row {
        sizes.push(sx[sx.len() - 2]);
    }
    if !column {
        sizes.push(sy[sy.len() - 1]);
    }
    Ok(op!(b, "view.default", &out, sizes))
}
fn dot(b: &mut Builder, x: &Item, y: &Item) -> Result<Item> {
    let product = op!(b, "mul.Tensor", x, y);
    Ok(op!(b, "sum.dim_IntList", &product, Vec::<i64>::new()))
}
fn vector(b: &mut Builder, x: &Item, y: &Item) -> Result<Item> {
    let product = op!(b, "mul.Tensor", x, y);
    Ok(op!(b, "sum.dim_IntList", &product, vec![1]))
}
/// `x w^T + bias`
pub(super) fn linear(b: &mut Builder, x: &Item, w: &Item, bias: Option<&Item>) -> Result<Item> {
    let rank = x.rank()?;
    if w.rank()? == 2
        && let (Some(bias), true) = (bias, rank == 2 || rank > 0 && x.tensor()?.is_contiguous())
    {
        let sizes = x.sizes()?;
        let flat = if rank == 2 {
            x.clone()
        } else {
            let rows: i64 = sizes[..rank - 1].iter().product();
            op!(b, "view.default", x, vec![rows, sizes[rank - 1]])
        };
        let wt = permuted(b, w, vec![1, 0])?;
        let out = op!(b, "addmm.default", bias, &flat, &wt);
        if rank == 2 {
            return Ok(out);
        }
        let new = [&sizes[..rank - 1], &[w.size(0)?]].concat();
        return Ok(op!(b, "view.default", &out, new));
    }
    let wt = if w.rank()? == 2 { permuted(b, w, vec![1, 0])? } else { w.clone() };
    let out = matmul(b, x, &wt)?;
    match bias {
        Some(bias) => Ok(op!(b, "add.Tensor", &out, bias)),
        None => Ok(out),
    }
}
/// All products of elements, block by block.
fn kron(b: &mut Builder, x: &Item, y: &Item) -> Result<Item> {
    let (sx, sy) = (x.sizes()?, y.sizes()?);
    let rank = sx.len().max(sy.len());
    let at = |l: &[i64], i: usize| (i + l.len()).checked_sub(rank).map_or(1, |k| l[k]);
    let pairs: Vec<(i64, i64)> = (0..rank).map(|i| (at(&sx, i), at(&sy, i))).collect();
    let each = |one: fn(&(i64, i64)) -> [i64; 2]| pairs.iter().flat_map(one).collect::<Vec<i64>>();
    let vx = op!(b, "view.default", x, each(|p| [p.0, 1]));
    let vy = op!(b, "view.default", y, each(|p| [1, p.1]));
    let product = op!(b, "mul.Tensor", &vx, &vy);
    Ok(op!(b, "view.default", &product, pairs.iter().map(|p| p.0 * p.1).collect::<Vec<i64>>()))
}
/// Sums over pairs of dimensions as one product of matrices.
fn tensordot(b: &mut Builder, x: &Item, c: &Call) -> Result<Item> {
    let y = c.need(1, "other")?;
    let dims = |at, name, rank: usize| -> Result<Vec<usize>> {
        c.ints(at, name).unwrap_or_default().into_iter().map(|d| wrapped(d, rank)).collect()
    };
    let (dx, dy) = (dims(2, "dims_self", x.rank()?)?, dims(3, "dims_other", y.rank()?)?);
    let (sx, sy) = (x.sizes()?, y.sizes()?);
    let free =
        |sizes: &[i64], used: &[usize]| (0..sizes.len()).filter(|d| !used.contains(d)).collect::<Vec<_>>();
    let (fx, fy) = (free(&sx, &dx), free(&sy, &dy));
    let order = |a: &[usize], b: &[usize]| a.iter().chain(b).map(|d| *d as i64).collect::<Vec<i64>>();
    let count = |sizes: &[i64], of: &[usize]| of.iter().map(|d| sizes[*d]).product::<i64>();
    let inner = count(&sx, &dx);
    let vx = op!(b, "permute.default", x, order(&fx, &dx));
    let vx = reshaped(b, &vx, vec![count(&sx, &fx), inner])?;
    let vy = op!(b, "permute.default", &y, order(&dy, &fy));
    let vy = reshaped(b, &vy, vec![inner, count(&sy, &fy)])?;
    let product = op!(b, "mm.default", &vx, &vy);
    let sizes: Vec<i64> = fx.iter().map(|d| sx[*d]).chain(fy.iter().map(|d| sy[*d])).collect();
    Ok(op!(b, "view.default", &product, sizes))
}
/// `n x`, which is `x` where `n` is 1.
fn scaled(b: &mut Builder, x: &Item, n: Option<Item>) -> Result<Item> {
    match n {
        Some(n) if n.int() != Some(1) => Ok(op!(b, "mul.Tensor", x, n)),
        _ => Ok(x.clone()),
    }
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    Ok(Some(match c.name.as_str() {
        "linear.default" => linear(b, &x, &c.need(1, "weight")?, c.get(2, "bias").as_ref())?,
        "matmul.default" | "__matmul__.default" => matmul(b, &x, &c.need(1, "other")?)?,
        "mv.default" => vector(b, &x, &c.need(1, "vec")?)?,
        "dot.default" => dot(b, &x, &c.need(1, "tensor")?)?,
        "vdot.default" if !x.dtype()?.is_complex() => dot(b, &x, &c.need(1, "other")?)?,
        "addr.default" => {
            let (v, w) = (c.need(1, "vec1")?, c.need(2, "vec2")?);
            let (n, m) = (v.tensor()?.numel(), w.tensor()?.numel());
            let factor = |at, name| c.get(at, name).unwrap_or_else(|| 1.into());
            let wide = op!(b, "expand.default", &x, vec![n, m]);
            let x = op!(b, "mul.Tensor", &wide, factor(3, "beta"));
            let column = op!(b, "view.default", &v, vec![n, 1]);
            let outer = op!(b, "mul.Tensor", &column, &w);
            let outer = op!(b, "mul.Tensor", &outer, factor(4, "alpha"));
            op!(b, "add.Tensor", &x, &outer)
        }
        "kron.default" => kron(b, &x, &c.need(1, "other")?)?,
        "tensordot.default" => tensordot(b, &x, c)?,
        "outer.default" | "ger.default" => {
            let n = x.tensor()?.numel();
            let column = op!(b, "view.default", &x, vec![n, 1]);
            op!(b, "mul.Tensor", &column, c.need(1, "vec2")?)
        }
        "baddbmm.default" => {
            let product = op!(b, "bmm.default", c.need(1, "batch1")?, c.need(2, "batch2")?);
            let product = scaled(b, &product, c.get(4, "alpha"))?;
            let x = scaled(b, &x, c.get(3, "beta"))?;
            op!(b, "add.Tensor", &x, &product)
        }
        "bilinear.default" => {
            let (y, w) = (c.need(1, "input2")?, c.need(2, "weight")?);
            let (n, m) = (x.size(-1)?, y.size(-1)?);
            let mut sizes = x.sizes()?;
            let fx = op!(b, "view.default", &x, vec![-1, n]);
            let fy = op!(b, "view.default", &y, vec![-1, m]);
            let lists: [Vec<i64>; 4] = [vec![1, 3], vec![0], vec![1, 2], vec![2, 3]];
            let [e1, e2, e3, sum] = lists.map(Item::from);
            let out = op!(b, "_trilinear.default", &fx, &w, &fy, e1, e2, e3, sum);
            if let Some(last) = sizes.last_mut() {
                *last = w.size(0)?;
            }
            let out = op!(b, "view.default", &out, sizes);
            match c.get(3, "bias") {
                Some(bias) => op!(b, "add.Tensor", &out, bias),
                None => out,
            }
        }
        _ => return Ok(None),
    }))
}
