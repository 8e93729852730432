//! Patches of pictures as columns and back, and grids.

use super::super::build::{Builder, Call, Item, op};
use super::creation::{counted, filled};
use super::view::{contiguous, permuted};
use flambeau_core::{DType, Device, Result, Value};

/// The places of the elements of all patches along a dimension: by patch and by element.
fn places(b: &mut Builder, size: i64, kernel: i64, dilation: i64, padding: i64, stride: i64) -> Result<Item> {
    let end = size + 2 * padding - dilation * (kernel - 1);
    let cpu = || Value::Device(Device::Cpu);
    let from =
        op!(b, "arange.start_step", 0, end, stride; dtype = DType::I64, device = cpu(), pin_memory = false);
    let from = op!(b, "unsqueeze.default", &from, 0);
    let within = op!(b, "arange.start_step", 0, kernel * dilation, dilation; dtype = DType::I64, device = cpu(), pin_memory = false);
    let within = op!(b, "unsqueeze.default", &within, -1);
    Ok(op!(b, "add.Tensor", &from, &within))
}
fn pair(c: &Call, at: usize, name: &str) -> Result<[i64; 2]> {
    Ok(match c.ints(at, name).unwrap_or_default()[..] {
        [a, b] => [a, b],
        [a] => [a, a],
        _ => return Err(flambeau_core::Error::value(format!("{} wants two numbers for {name}", c.name))),
    })
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    Ok(Some(match c.name.as_str() {
        "im2col.default" if x.rank()? == 4 => {
            let (k, d) = (pair(c, 1, "kernel_size")?, pair(c, 2, "dilation")?);
            let (p, s) = (pair(c, 3, "padding")?, pair(c, 4, "stride")?);
            let sizes = x.sizes()?;
            let rows = places(b, sizes[2], k[0], d[0], p[0], s[0])?;
            let columns = places(b, sizes[3], k[1], d[1], p[1], s[1])?;
            let padded = op!(b, "constant_pad_nd.default", &x, vec![p[1], p[1], p[0], p[0]], 0.0);
            let rows = op!(b, "unsqueeze.default", &rows, -1);
            let rows = op!(b, "unsqueeze.default", &rows, -1);
            let found = op!(b, "index.Tensor", &padded, vec![Item::none(), Item::none(), rows, columns]);
            let found = permuted(b, &found, vec![0, 1, 2, 4, 3, 5])?;
            let f = found.sizes()?;
            let found = contiguous(b, &found)?;
            op!(b, "view.default", &found, vec![f[0], f[1] * f[2] * f[3], f[4] * f[5]])
        }
        "col2im.default" if x.rank()? == 3 => {
            let size = pair(c, 1, "output_size")?;
            let (k, d) = (pair(c, 2, "kernel_size")?, pair(c, 3, "dilation")?);
            let (p, s) = (pair(c, 4, "padding")?, pair(c, 5, "stride")?);
            let sizes = x.sizes()?;
            let count = |i: usize| (size[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1) / s[i] + 1;
            let ch = sizes[1] / (k[0] * k[1]);
            let parts = op!(b, "view.default", &x, vec![sizes[0], ch, k[0], k[1], count(0), count(1)]);
            let parts = permuted(b, &parts, vec![0, 1, 2, 4, 3, 5])?;
            let rows = places(b, size[0], k[0], d[0], p[0], s[0])?;
            let rows = op!(b, "unsqueeze.default", &rows, -1);
            let rows = op!(b, "unsqueeze.default", &rows, -1);
            let columns = places(b, size[1], k[1], d[1], p[1], s[1])?;
            let dtype = x.dtype()?;
            let whole = vec![sizes[0], ch, size[0] + 2 * p[0], size[1] + 2 * p[1]];
            let empty = filled(b, whole, 0.into(), Some(dtype))?;
            let put = op!(
                b,
                "index_put.default",
                &empty,
                vec![Item::none(), Item::none(), rows, columns],
                &parts,
                true
            );
            op!(b, "constant_pad_nd.default", &put, vec![-p[1], -p[1], -p[0], -p[0]], 0.0)
        }
        "affine_grid_generator.default" => {
            let size = c.ints(1, "size").unwrap_or_default();
            let [n, _, h, w] = size[..] else { return Ok(None) };
            let corners = c.flag(2, "align_corners", false);
            let dtype = x.dtype()?;
            let column = line(b, w, corners, dtype, vec![1, w, 1])?;
            let row = line(b, h, corners, dtype, vec![h, 1, 1])?;
            let one = filled(b, vec![1, 1, 1], 1.into(), Some(dtype))?;
            let column = op!(b, "constant_pad_nd.default", &column, vec![0, 2], 0.0);
            let row = op!(b, "constant_pad_nd.default", &row, vec![1, 1], 0.0);
            let one = op!(b, "constant_pad_nd.default", &one, vec![2, 0], 0.0);
            let grid = op!(b, "add.Tensor", &column, &row);
            let grid = op!(b, "add.Tensor", &grid, &one);
            let grid = op!(b, "view.default", &grid, vec![-1, 3, 1]);
            let theta = permuted(b, &x, vec![0, 2, 1])?;
            let theta = op!(b, "unsqueeze.default", &theta, 1);
            let product = op!(b, "mul.Tensor", &grid, &theta);
            let sum = op!(b, "sum.dim_IntList", &product, vec![-2]);
            op!(b, "view.default", &sum, vec![n, h, w, 2])
        }
        _ => return Ok(None),
    }))
}
/// The middles of `n` equal parts from -1 to 1; with `corners` `n` places of which the first is -1 and the last 1.
fn line(b: &mut Builder, n: i64, corners: bool, dtype: DType, sizes: Vec<i64>) -> Result<Item> {
    let (step, end) = match corners {
        true => (if n > 1 { 2.0 / (n - 1) as f64 } else { 0.0 }, 1.0),
        false => (2.0 / n as f64, (n as f64 - 1.0) / n as f64),
    };
    let all = counted(b, n, None)?;
    let front = op!(b, "lt.Scalar", &all, n as f64 / 2.0);
    let part = op!(b, "_to_copy.default", &all; dtype = dtype);
    let part = op!(b, "mul.Tensor", &part, step);
    let low = op!(b, "add.Tensor", &part, -end);
    let back = op!(b, "sub.Tensor", n - 1, &all);
    let part = op!(b, "_to_copy.default", &back; dtype = dtype);
    let part = op!(b, "mul.Tensor", &part, step);
    let high = op!(b, "sub.Tensor", end, &part);
    let out = op!(b, "where.self", &front, &low, &high);
    Ok(op!(b, "view.default", &out, sizes))
}
