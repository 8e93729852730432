//! Linear algebra.

use super::super::build::{Builder, Call, Item, op, wrapped};
use super::creation::counted;
use super::product::{common, matmul};
use super::reduction::norm2;
use flambeau_core::{MemoryFormat, Result, Value};

/// The first parts of a result.
fn parts(b: &mut Builder, all: &Item, n: usize) -> Result<Item> {
    let mut out = Vec::new();
    for i in 0..n {
        out.push(b.part(all, i)?);
    }
    Ok(out.into())
}
/// The first part of a result, whose part `at` says whether all went well: that is checked where the program runs.
fn good(b: &mut Builder, x: &Item, all: &Item, at: usize, name: &str) -> Result<Item> {
    let (out, info) = (b.part(all, 0)?, b.part(all, at)?);
    let matrix = x.rank()? == 2;
    let target = "torch.ops.aten._linalg_check_errors.default";
    b.node(target, &[info, name.into()], &[("is_matrix".to_string(), matrix.into())], Value::None);
    Ok(out)
}
fn checked(
    b: &mut Builder,
    x: &Item,
    operator: &str,
    more: Vec<Item>,
    at: usize,
    name: &str,
) -> Result<Item> {
    let all = b.op(operator, [vec![x.clone()], more].concat(), Vec::new())?;
    good(b, x, &all, at, name)
}
/// The elements of each vector after the next ones.
fn turned(b: &mut Builder, x: &Item, d: i64, places: &Item, by: i64) -> Result<Item> {
    let at = op!(b, "add.Tensor", places, by);
    let at = op!(b, "remainder.Scalar", &at, 3);
    Ok(op!(b, "index_select.default", x, d, &at))
}
fn cross(b: &mut Builder, c: &Call, x: &Item) -> Result<Option<Item>> {
    let y = c.need(1, "other")?;
    let sizes = common(&x.sizes()?, &y.sizes()?);
    let d = match (c.get(2, "dim"), c.name.starts_with("linalg")) {
        (Some(d), _) => d.int().unwrap_or(-1),
        (None, true) => -1,
        // the first dimension of three, which other sizes may be as well
        (None, false) => return Ok(None),
    };
    let d = wrapped(d, sizes.len())? as i64;
    let mut wide = Vec::new();
    for t in [x, &y] {
        wide.push(if t.sizes()? == sizes { t.clone() } else { op!(b, "expand.default", t, &sizes[..]) });
    }
    let [x, y] = &wide[..] else { return Ok(None) };
    let places = counted(b, 3, None)?;
    let first = turned(b, x, d, &places, 1)?;
    let second = turned(b, y, d, &places, 2)?;
    let plus = op!(b, "mul.Tensor", &first, &second);
    let first = turned(b, x, d, &places, 2)?;
    let second = turned(b, y, d, &places, 1)?;
    let minus = op!(b, "mul.Tensor", &first, &second);
    Ok(Some(op!(b, "sub.Tensor", &plus, &minus)))
}
/// A matrix times itself, by squares.
fn power(b: &mut Builder, x: &Item, n: i64) -> Result<Option<Item>> {
    if n < 1 {
        return Ok(None);
    }
    if n == 1 {
        return Ok(Some(
            op!(b, "clone.default", x; memory_format = Value::MemoryFormat(MemoryFormat::Contiguous)),
        ));
    }
    if n == 3 {
        let square = matmul(b, x, x)?;
        return matmul(b, &square, x).map(Some);
    }
    let (mut left, mut square, mut out): (i64, Option<Item>, Option<Item>) = (n, None, None);
    while left > 0 {
        let now = match &square {
            Some(s) => matmul(b, s, s)?,
            None => x.clone(),
        };
        if left % 2 == 1 {
            out = Some(match &out {
                Some(o) => matmul(b, o, &now)?,
                None => now.clone(),
            });
        }
        square = Some(now);
        left /= 2;
    }
    Ok(out)
}
/// A product of matrices in the order of the fewest multiplications.
fn multi_dot(b: &mut Builder, all: &[Item]) -> Result<Option<Item>> {
    let mut all = all.to_vec();
    let (Some(first), Some(last), true) = (all.first(), all.last(), all.len() > 1) else { return Ok(None) };
    let mut sizes = Vec::new();
    let (row, column) = (first.rank()? == 1, last.rank()? == 1);
    if !row {
        sizes.push(first.size(0)?);
    }
    if !column {
        sizes.push(last.size(-1)?);
    }
    // which order that is may differ from size to size
    if all.len() > 2 && b.symbolic.contains(&true) {
        return Ok(None);
    }
    if row {
        all[0] = op!(b, "unsqueeze.default", &all[0], 0);
    }
    let end = all.len() - 1;
    if column {
        all[end] = op!(b, "unsqueeze.default", &all[end], -1);
    }
    let mut dims = vec![all[0].size(0)?];
    for t in &all {
        dims.push(t.size(1)?);
    }
    let out = chain(b, &all, &cheapest(&dims), 0, end)?;
    Ok(Some(op!(b, "view.default", &out, sizes)))
}
/// Where the product of the matrices from `i` to `j` is split, for all `i` and `j`: matrix `k` has `dims[k]` rows.
fn cheapest(dims: &[i64]) -> Vec<Vec<usize>> {
    let n = dims.len() - 1;
    let (mut cost, mut split) = (vec![vec![0i64; n]; n], vec![vec![0usize; n]; n]);
    for length in 1..n {
        for i in 0..n - length {
            let j = i + length;
            cost[i][j] = i64::MAX;
            for k in i..j {
                let product = dims[i].saturating_mul(dims[k + 1]).saturating_mul(dims[j + 1]);
                let c = cost[i][k].saturating_add(cost[k + 1][j]).saturating_add(product);
                // of three matrices the left product comes first where both orders cost the same
                if c < cost[i][j] || c == cost[i][j] && n == 3 {
                    (cost[i][j], split[i][j]) = (c, k);
                }
            }
        }
    }
    split
}
fn chain(b: &mut Builder, all: &[Item], split: &[Vec<usize>], i: usize, j: usize) -> Result<Item> {
    if i == j {
        return Ok(all[i].clone());
    }
    let k = split[i][j];
    let left = chain(b, all, split, i, k)?;
    let right = chain(b, all, split, k + 1, j)?;
    Ok(op!(b, "mm.default", &left, &right))
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    Ok(Some(match c.name.as_str() {
        "cross.default" | "linalg_cross.default" => return cross(b, c, &x),
        "linalg_det.default" => {
            let all = op!(b, "_linalg_det.default", &x);
            b.part(&all, 0)?
        }
        "linalg_slogdet.default" => {
            let all = op!(b, "_linalg_slogdet.default", &x);
            parts(b, &all, 2)?
        }
        "linalg_inv.default" => checked(b, &x, "linalg_inv_ex.default", Vec::new(), 1, "linalg.inv")?,
        "linalg_cholesky.default" => {
            let upper = c.flag(9, "upper", false);
            let kwargs = if upper { vec![("upper", true.into())] } else { Vec::new() };
            let (name, args) = ("linalg_cholesky_ex.default", vec![x.clone()]);
            let all = b.op(name, args, kwargs)?;
            good(b, &x, &all, 1, "linalg.cholesky")?
        }
        "linalg_solve.default" if c.flag(9, "left", true) => {
            checked(b, &x, "_linalg_solve_ex.default", vec![c.need(1, "B")?], 3, "torch.linalg.solve")?
        }
        "linalg_eigvalsh.default" if c.get(1, "UPLO").is_none() => {
            let all = op!(b, "_linalg_eigh.default", &x);
            b.part(&all, 0)?
        }
        "linalg_svdvals.default" if c.get(9, "driver").is_none() => {
            let all = op!(b, "_linalg_svd.default", &x);
            b.part(&all, 1)?
        }
        "linalg_svd.default" => {
            let all = match c.flag(1, "full_matrices", true) {
                true => op!(b, "_linalg_svd.default", &x, true),
                false => op!(b, "_linalg_svd.default", &x),
            };
            parts(b, &all, 3)?
        }
        "linalg_eigh.default" => {
            let all = match c.get(1, "UPLO").map(|i| i.value.clone()) {
                Some(Value::Str(ref part)) if part != "L" => {
                    op!(b, "_linalg_eigh.default", &x, part.as_str())
                }
                _ => op!(b, "_linalg_eigh.default", &x),
            };
            parts(b, &all, 2)?
        }
        "linalg_matrix_norm.str_ord" if c.get(4, "dtype").is_none() && !x.dtype()?.is_complex() => {
            let name = c.get(1, "ord").map(|i| i.value.clone());
            if !matches!(name, None | Some(Value::Str(_)))
                || matches!(&name, Some(Value::Str(s)) if s != "fro")
            {
                return Ok(None);
            }
            let rank = x.rank()?;
            let mut dims = Vec::new();
            for d in c.ints(2, "dim").unwrap_or_else(|| vec![-2, -1]) {
                dims.push(wrapped(d, rank)? as i64);
            }
            norm2(b, &x, dims, c.flag(3, "keepdim", false))?
        }
        "linalg_multi_dot.default" => return multi_dot(b, &x.items()),
        "linalg_matrix_power.default" => return power(b, &x, c.int(1, "n", 0)),
        _ => return Ok(None),
    }))
}
