//! Pictures of other sizes, and elements put back where a pool took them from.

use super::super::build::{Builder, Call, Item, op};
use super::creation::{counted, filled};
use super::view::{reshaped, sliced};
use flambeau_core::{DType, Result};

/// What one step of the result is in elements of the input, along a dimension.
fn step(input: i64, output: i64, corners: bool, scale: Option<f64>) -> f64 {
    match (corners, scale) {
        (true, _) if output > 1 => (input - 1) as f64 / (output - 1) as f64,
        (true, _) => 0.0,
        (false, Some(s)) if s > 0.0 => 1.0 / s,
        (false, _) => input as f64 / output as f64,
    }
}
/// Where the elements of the result lie in the input.
fn places(b: &mut Builder, x: &Item, step: f64, corners: bool) -> Result<Item> {
    if corners {
        return Ok(op!(b, "mul.Tensor", x, step));
    }
    let middle = op!(b, "add.Tensor", x, 0.5);
    let middle = op!(b, "mul.Tensor", &middle, step);
    Ok(op!(b, "sub.Tensor", &middle, 0.5))
}
/// The first and the second half of the first dimension, which is two long.
fn halves(b: &mut Builder, x: &Item) -> Result<[Item; 2]> {
    let parts = [sliced(b, x, 0, 0, 1)?, sliced(b, x, 0, 1, 2)?];
    let [first, second] = parts.map(|p| b.op("squeeze.dims", vec![p, vec![0i64].into()], Vec::new()));
    Ok([first?, second?])
}
/// The weights of four neighbours by the way `t` behind the second of them: Keys' cubic with the factor -0.75.
fn cubic(b: &mut Builder, t: &Item) -> Result<[Item; 4]> {
    let sizes = [vec![2], t.sizes()?].concat();
    let rest = op!(b, "sub.Tensor", 1.0, t);
    let near = op!(b, "cat.default", vec![t.clone(), rest]);
    let near = op!(b, "view.default", &near, &sizes[..]);
    let more = op!(b, "add.Tensor", t, 1.0);
    let rest = op!(b, "sub.Tensor", 2.0, t);
    let far = op!(b, "cat.default", vec![more, rest]);
    let far = op!(b, "view.default", &far, sizes);
    let outer = op!(b, "mul.Tensor", &far, -0.75);
    let outer = op!(b, "sub.Tensor", &outer, -3.75);
    let outer = op!(b, "mul.Tensor", &outer, &far);
    let outer = op!(b, "add.Tensor", &outer, -6.0);
    let outer = op!(b, "mul.Tensor", &outer, &far);
    let outer = op!(b, "sub.Tensor", &outer, -3.0);
    let inner = op!(b, "mul.Tensor", &near, 1.25);
    let inner = op!(b, "sub.Tensor", &inner, 2.25);
    let inner = op!(b, "mul.Tensor", &inner, &near);
    let inner = op!(b, "mul.Tensor", &inner, &near);
    let inner = op!(b, "add.Tensor", &inner, 1);
    let [first, last] = halves(b, &outer)?;
    let [second, third] = halves(b, &inner)?;
    Ok([first, second, third, last])
}
/// The sum of four values with weights.
fn weighted(b: &mut Builder, values: &[Item], weights: &[Item; 4]) -> Result<Item> {
    let mut sum: Option<Item> = None;
    for (v, w) in values.iter().zip(weights) {
        let part = op!(b, "mul.Tensor", v, w);
        sum = Some(match sum {
            Some(s) => op!(b, "add.Tensor", &s, &part),
            None => part,
        });
    }
    Ok(sum.unwrap_or_else(Item::none))
}
/// Four neighbours of places in one dimension.
fn neighbours(b: &mut Builder, at: &Item) -> Result<[Item; 4]> {
    let before = op!(b, "sub.Tensor", at, 1);
    let next = op!(b, "add.Tensor", at, 1);
    let last = op!(b, "add.Tensor", at, 2);
    Ok([before, at.clone(), next, last])
}
fn bicubic(b: &mut Builder, c: &Call, x: &Item) -> Result<Option<Item>> {
    let sizes = x.sizes()?;
    let &[_, _, h, w] = &sizes[..] else { return Ok(None) };
    let corners = c.flag(2, "align_corners", false);
    let number = |i: &Item| match i.value {
        flambeau_core::Value::Float(f) => Some(f),
        flambeau_core::Value::Int(i) => Some(i as f64),
        _ => None,
    };
    let scales: [Option<f64>; 2] = if c.name.ends_with("vec") {
        let all = c.get(3, "scale_factors").map(|i| i.items()).unwrap_or_default();
        [all.first().and_then(number), all.get(1).and_then(number)]
    } else {
        [(3, "scales_h"), (4, "scales_w")].map(|(at, name)| c.get(at, name).as_ref().and_then(number))
    };
    let out = match (c.ints(1, "output_size"), scales) {
        (Some(o), _) if o.len() == 2 => [o[0], o[1]],
        (None, [Some(sh), Some(sw)]) => [(h as f64 * sh).floor() as i64, (w as f64 * sw).floor() as i64],
        _ => return Ok(None),
    };
    // a step that follows from sizes that are no numbers is no number either
    let open = |d: usize| b.symbolic.get(d).copied().unwrap_or(false);
    if (0..2).any(|i| (corners || scales[i].is_none()) && open(i + 2)) || !x.dtype()?.is_floating() {
        return Ok(None);
    }
    if out.iter().any(|n| *n < 1) || h < 1 || w < 1 || x.dtype()? == DType::F16 || x.dtype()? == DType::BF16 {
        return Ok(None);
    }
    let dtype = x.dtype()?;
    let rows = counted(b, out[0], None)?;
    let rows = op!(b, "_to_copy.default", &rows; dtype = dtype);
    let columns = counted(b, out[1], None)?;
    let columns = op!(b, "_to_copy.default", &columns; dtype = dtype);
    let columns = places(b, &columns, step(w, out[1], corners, scales[1]), corners)?;
    let rows = places(b, &rows, step(h, out[0], corners, scales[0]), corners)?;
    let rows = op!(b, "unsqueeze.default", &rows, -1);
    let left = op!(b, "floor.default", &columns);
    let top = op!(b, "floor.default", &rows);
    let way_y = op!(b, "sub.Tensor", &rows, &top);
    let way_y = op!(b, "clamp.default", &way_y, 0.0, 1.0);
    let way_x = op!(b, "sub.Tensor", &columns, &left);
    let way_x = op!(b, "clamp.default", &way_x, 0.0, 1.0);
    let left = op!(b, "_to_copy.default", &left; dtype = DType::I64);
    let top = op!(b, "_to_copy.default", &top; dtype = DType::I64);
    let (top, left) = (neighbours(b, &top)?, neighbours(b, &left)?);
    let (across, down) = (cubic(b, &way_x)?, cubic(b, &way_y)?);
    let mut lines = Vec::new();
    for y in &top {
        let mut found = Vec::new();
        for at in &left {
            let y = op!(b, "clamp.default", y, 0, h - 1);
            let at = op!(b, "clamp.default", at, 0, w - 1);
            found.push(op!(b, "index.Tensor", x, vec![Item::none(), Item::none(), y, at]));
        }
        lines.push(weighted(b, &found, &across)?);
    }
    weighted(b, &lines, &down).map(Some)
}
/// The sizes of a result, and the scales that were given: of a call that says one or the other.
fn wanted(c: &Call, x: &Item, scales_at: usize) -> Result<Option<(Vec<i64>, Vec<Option<f64>>)>> {
    let given = x.sizes()?;
    let Some(given) = given.get(2..) else { return Ok(None) };
    let number = |i: &Item| match i.value {
        flambeau_core::Value::Float(f) => Some(f),
        flambeau_core::Value::Int(i) => Some(i as f64),
        _ => None,
    };
    let scales: Vec<Option<f64>> = match c.get(scales_at, "scale_factors") {
        Some(all) => all.items().iter().map(number).collect(),
        None => vec![None; given.len()],
    };
    let sizes = match c.ints(1, "output_size") {
        Some(sizes) => sizes,
        None => {
            given.iter().zip(&scales).map(|(n, s)| (*n as f64 * s.unwrap_or(1.0)).floor() as i64).collect()
        }
    };
    let fits = sizes.len() == given.len() && scales.len() == given.len();
    Ok((fits && sizes.iter().chain(given).all(|n| *n > 0)).then_some((sizes, scales)))
}
/// Whether a step along some dimension would follow from a size that is no number.
fn open(b: &Builder, scales: &[Option<f64>]) -> bool {
    let symbolic = |d: usize| b.symbolic.get(d + 2).copied().unwrap_or(false);
    scales.iter().enumerate().any(|(d, s)| s.is_none() && symbolic(d))
}
/// The nearest elements, by the middles of elements.
fn nearest_exact(b: &mut Builder, c: &Call, x: &Item) -> Result<Option<Item>> {
    let Some((sizes, scales)) = wanted(c, x, 2)? else { return Ok(None) };
    if open(b, &scales) {
        return Ok(None);
    }
    let mut places = vec![Item::none(), Item::none()];
    for (d, (n, s)) in sizes.iter().zip(&scales).enumerate() {
        let all = counted(b, *n, Some(DType::F32))?;
        let middle = op!(b, "add.Tensor", &all, 0.5);
        let at = op!(b, "mul.Tensor", &middle, step(x.size(d as i64 + 2)?, *n, false, *s));
        let mut at = op!(b, "_to_copy.default", &at; dtype = DType::I64);
        for _ in d + 1..sizes.len() {
            at = op!(b, "unsqueeze.default", &at, -1);
        }
        places.push(at);
    }
    Ok(Some(op!(b, "index.Tensor", x, places)))
}
/// Between two neighbours along each dimension.
fn linear(b: &mut Builder, c: &Call, x: &Item) -> Result<Option<Item>> {
    let Some((sizes, scales)) = wanted(c, x, 3)? else { return Ok(None) };
    let (corners, dtype) = (c.flag(2, "align_corners", false), x.dtype()?);
    let steps: Vec<Option<f64>> = scales.iter().map(|s| s.filter(|_| !corners)).collect();
    if open(b, &steps) || !matches!(dtype, DType::F32 | DType::F64) {
        return Ok(None);
    }
    // by dimension: where elements lie, and the numbers of both neighbours
    let mut all = Vec::new();
    for (d, (out, scale)) in sizes.iter().zip(&scales).enumerate() {
        let n = x.size(d as i64 + 2)?;
        let at = counted(b, *out, None)?;
        let at = op!(b, "_to_copy.default", &at; dtype = dtype);
        let at = places(b, &at, step(n, *out, corners, *scale), corners)?;
        let at = if corners { at } else { op!(b, "clamp.default", &at, 0.0) };
        let side = [vec![*out], vec![1; sizes.len() - d - 1]].concat();
        let at = op!(b, "view.default", &at, side);
        let low = op!(b, "_to_copy.default", &at; dtype = DType::I64);
        let next = op!(b, "add.Tensor", &low, 1);
        let high = op!(b, "clamp.default", &next, Item::none(), n - 1);
        all.push((at, low, high));
    }
    // the values of all neighbours: the last dimension's change first
    let mut values = Vec::new();
    for k in 0..1usize << all.len() {
        let mut index = vec![Item::none(), Item::none()];
        for (d, (_, low, high)) in all.iter().enumerate() {
            let after = k >> (all.len() - 1 - d) & 1 == 1;
            index.push(if after { high.clone() } else { low.clone() });
        }
        values.push(op!(b, "index.Tensor", x, index));
    }
    for (at, low, _) in all.iter().rev() {
        let way = op!(b, "sub.Tensor", at, low);
        let way = op!(b, "clamp.default", &way, 0.0, 1.0);
        let mut fewer = Vec::new();
        for two in values.chunks_exact(2) {
            let rise = op!(b, "sub.Tensor", &two[1], &two[0]);
            let part = op!(b, "mul.Tensor", &rise, &way);
            fewer.push(op!(b, "add.Tensor", &two[0], &part));
        }
        values = fewer;
    }
    Ok(values.pop())
}
/// `max_unpool2d` and `max_unpool3d`: elements at their places in pictures of zeros.
fn unpooled(b: &mut Builder, c: &Call, x: &Item) -> Result<Option<Item>> {
    let (at, size) = (c.need(1, "indices")?, c.ints(2, "output_size").unwrap_or_default());
    let (&[n, ch, ..], dims) = (&x.sizes()?[..], size.len()) else { return Ok(None) };
    if x.rank()? != dims + 2 {
        return Ok(None);
    }
    let dtype = x.dtype()?;
    let first = counted(b, n * ch, None)?;
    let first = op!(b, "view.default", &first, [vec![n, ch], vec![1; dims]].concat());
    let first = op!(b, "mul.Tensor", &first, size.iter().product::<i64>());
    let at = op!(b, "add.Tensor", &at, &first);
    let at = reshaped(b, &at, vec![-1])?;
    let whole = [vec![n, ch], size].concat();
    let empty = filled(b, whole.clone(), 0.into(), Some(dtype))?;
    let empty = op!(b, "view.default", &empty, vec![-1]);
    let values = reshaped(b, x, vec![-1])?;
    let put = op!(b, "index_put.default", &empty, vec![at], &values);
    Ok(Some(op!(b, "view.default", &put, whole)))
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    match c.name.as_str() {
        "upsample_bicubic2d.vec" | "upsample_bicubic2d.default" => bicubic(b, c, &x),
        "_upsample_nearest_exact1d.vec"
        | "_upsample_nearest_exact2d.vec"
        | "_upsample_nearest_exact3d.vec" => nearest_exact(b, c, &x),
        "_upsample_bilinear2d_aa.vec" | "_upsample_bicubic2d_aa.vec" => {
            let Some((sizes, scales)) = wanted(c, &x, 3)? else { return Ok(None) };
            let name = c.name.replace(".vec", ".default");
            let mut args = vec![x.clone(), sizes.into(), c.flag(2, "align_corners", false).into()];
            args.extend(scales.into_iter().flatten().map(Item::from));
            b.op(&name, args, Vec::new()).map(Some)
        }
        "upsample_linear1d.vec" | "upsample_trilinear3d.vec" => linear(b, c, &x),
        "max_unpool2d.default" | "max_unpool3d.default" => unpooled(b, c, &x),
        _ => Ok(None),
    }
}
