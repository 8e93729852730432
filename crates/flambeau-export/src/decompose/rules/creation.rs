//! Tensors made of numbers.

use super::super::build::{Builder, Call, Item, op};
use flambeau_core::iter::promotion::default_dtype;
use flambeau_core::{DType, Device, Result, Value};

/// A tensor of one number; sizes are integers, or numbers of the program.
fn full(b: &mut Builder, sizes: Item, v: Item, dtype: Option<DType>) -> Result<Item> {
    let mut kwargs = Vec::new();
    if let Some(d) = dtype {
        kwargs.push(("dtype", Item::from(d)));
    }
    kwargs.push(("device", Item::from(Value::Device(Device::Cpu))));
    kwargs.push(("pin_memory", Item::from(false)));
    b.op("full.default", vec![sizes, v], kwargs)
}
/// A tensor of one number.
pub(super) fn filled(b: &mut Builder, sizes: Vec<i64>, v: Item, dtype: Option<DType>) -> Result<Item> {
    full(b, sizes.into(), v, dtype)
}
/// A number as a tensor with the dtype of another.
pub(super) fn scalar_like(b: &mut Builder, v: &Item, like: &Item) -> Result<Item> {
    let dtype = like.dtype()?;
    Ok(op!(b, "scalar_tensor.default", v; dtype = dtype))
}
/// Whole numbers from 0, in a dtype if one is given.
pub(super) fn counted(b: &mut Builder, n: i64, dtype: Option<DType>) -> Result<Item> {
    Ok(match dtype {
        Some(d) => {
            op!(b, "arange.start_step", 0, n; dtype = d, device = Value::Device(Device::Cpu), pin_memory = false)
        }
        None => op!(b, "arange.start_step", 0, n; device = Value::Device(Device::Cpu), pin_memory = false),
    })
}
fn dtype_of(c: &Call, at: usize) -> Option<DType> {
    match c.get(at, "dtype").map(|i| i.value.clone()) {
        Some(Value::DType(d)) => Some(d),
        _ => None,
    }
}
/// The number that fills a tensor of a dtype.
fn number(one: bool, dtype: DType) -> Item {
    if dtype == DType::Bool { one.into() } else { i64::from(one).into() }
}

pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    let standard = default_dtype();
    Ok(Some(match c.name.as_str() {
        "zeros.default" | "ones.default" => {
            let dtype = dtype_of(c, 1).unwrap_or(standard);
            full(b, x, number(c.name.starts_with('o'), dtype), Some(dtype))?
        }
        "new_zeros.default" | "new_ones.default" => {
            let dtype = dtype_of(c, 2).unwrap_or(x.dtype()?);
            full(b, c.need(1, "size")?, number(c.name.contains("ones"), dtype), Some(dtype))?
        }
        "new_full.default" => {
            let dtype = dtype_of(c, 3).unwrap_or(x.dtype()?);
            full(b, c.need(1, "size")?, c.need(2, "fill_value")?, Some(dtype))?
        }
        "zeros_like.default" | "ones_like.default" => {
            let dtype = dtype_of(c, 1).unwrap_or(x.dtype()?);
            op!(b, "full_like.default", &x, number(c.name.starts_with('o'), dtype); dtype = dtype, pin_memory = false)
        }
        "arange.default" | "arange.start" => {
            let (from, to) = match c.name.ends_with("start") {
                true => (x, c.need(1, "end")?),
                false => (Item::from(0), x),
            };
            let mut kwargs: Vec<(&str, Item)> = Vec::new();
            if let Some(d) = dtype_of(c, 9) {
                kwargs.push(("dtype", d.into()));
            }
            kwargs.push(("device", Value::Device(Device::Cpu).into()));
            kwargs.push(("pin_memory", false.into()));
            b.op("arange.start_step", vec![from, to], kwargs)?
        }
        "eye.default" | "eye.m" => {
            let n = x.int().unwrap_or(0);
            let m = if c.name.ends_with('m') { c.int(1, "m", n) } else { n };
            let dtype = dtype_of(c, 9).unwrap_or(standard);
            let row = counted(b, n, Some(DType::I64))?;
            let column = counted(b, m, Some(DType::I64))?;
            let row = op!(b, "unsqueeze.default", &row, -1);
            let same = op!(b, "eq.Tensor", &row, &column);
            op!(b, "_to_copy.default", &same; dtype = dtype)
        }
        "bernoulli.default" => {
            let dtype = x.dtype()?;
            let sizes = x.sizes()?;
            let drawn = op!(b, "rand.default", sizes; dtype = dtype, device = Value::Device(Device::Cpu), pin_memory = false);
            let below = op!(b, "lt.Tensor", &drawn, &x);
            op!(b, "_to_copy.default", &below; dtype = dtype)
        }
        "hann_window.default" | "hann_window.periodic" => {
            let n = x.int().unwrap_or(0);
            let periodic = c.name.ends_with("default") || c.flag(1, "periodic", true);
            // the angle of a number of the program would be no number
            if n < 2 || x.arg.node().is_some() {
                return Ok(None);
            }
            let points = n + i64::from(periodic);
            let all = counted(b, points, Some(dtype_of(c, 9).unwrap_or(standard)))?;
            let angle = op!(b, "mul.Tensor", &all, 2.0 * std::f64::consts::PI / (points - 1) as f64);
            let wave = op!(b, "cos.default", &angle);
            let wave = op!(b, "mul.Tensor", &wave, -0.5);
            let out = op!(b, "add.Tensor", &wave, 0.5);
            if periodic { op!(b, "slice.Tensor", &out, 0, 0, n) } else { out }
        }
        "fill.Scalar" => op!(b, "full_like.default", &x, c.need(1, "value")?; pin_memory = false),
        "zero.default" => op!(b, "full_like.default", &x, 0; pin_memory = false),
        _ => return Ok(None),
    }))
}
