//! Activations.

use super::super::build::{Builder, Call, Item, op};
use super::creation::{filled, scalar_like};
use super::pointwise::{converted, softplus};
use super::view::sliced;
use flambeau_core::{Device, MemoryFormat, Result, Value};

/// `min(x, 0) - log(1 + exp(-|x|))`
pub(super) fn log_sigmoid(b: &mut Builder, x: &Item) -> Result<Item> {
    let dtype = x.dtype()?;
    let zero = filled(b, Vec::new(), 0.into(), Some(dtype))?;
    let low = op!(b, "minimum.default", &zero, x);
    let size = op!(b, "abs.default", x);
    let minus = op!(b, "neg.default", &size);
    let e = op!(b, "exp.default", &minus);
    let log = op!(b, "log1p.default", &e);
    Ok(op!(b, "sub.Tensor", &low, &log))
}
/// `x + 3` between 0 and 6
fn gate(b: &mut Builder, x: &Item) -> Result<Item> {
    let shifted = op!(b, "add.Tensor", x, 3);
    let above = op!(b, "clamp.default", &shifted, 0);
    Ok(op!(b, "clamp.default", &above, Item::none(), 6))
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    Ok(Some(match c.name.as_str() {
        "softmax.int" | "log_softmax.int" => {
            let x = match c.get(2, "dtype").map(|i| i.value.clone()) {
                Some(Value::DType(d)) => converted(b, &x, d)?,
                _ => x,
            };
            let name = if c.name.starts_with('l') { "_log_softmax.default" } else { "_softmax.default" };
            op!(b, name, &x, c.need(1, "dim")?, false)
        }
        "selu.default" => op!(b, "elu.default", &x, 1.673_263_242_354_377_2, 1.050_700_987_355_480_5),
        // training draws slopes
        "rrelu.default" if !c.flag(3, "training", false) => {
            let dtype = x.dtype()?;
            let noise = op!(
                b,
                "empty.memory_format",
                x.sizes()?;
                dtype = dtype,
                device = Value::Device(Device::Cpu),
                pin_memory = false,
                memory_format = Value::MemoryFormat(MemoryFormat::Contiguous)
            );
            let args = [vec![x, noise], c.args.iter().skip(1).take(2).cloned().collect()].concat();
            let both = b.op("rrelu_with_noise_functional.default", args, Vec::new())?;
            b.part(&both, 0)?
        }
        "relu6.default" => op!(b, "hardtanh.default", &x, 0, 6),
        "celu.default" => {
            let alpha = c.float(1, "alpha", 1.0);
            let scaled = if alpha == 1.0 { x.clone() } else { op!(b, "div.Tensor", &x, alpha) };
            let e = op!(b, "expm1.default", &scaled);
            let e = if alpha == 1.0 { e } else { op!(b, "mul.Tensor", &e, alpha) };
            let above = op!(b, "gt.Scalar", &x, 0);
            op!(b, "where.self", &above, &x, &e)
        }
        "threshold.default" => {
            let low = op!(b, "le.Scalar", &x, c.need(1, "threshold")?);
            let v = scalar_like(b, &c.need(2, "value")?, &x)?;
            op!(b, "where.self", &low, &v, &x)
        }
        "softshrink.default" => {
            let lambda = c.float(1, "lambd", 0.5);
            let size = op!(b, "abs.default", &x);
            let far = op!(b, "gt.Scalar", &size, lambda);
            let sign = op!(b, "sign.default", &x);
            let step = op!(b, "mul.Tensor", &sign, lambda);
            let moved = op!(b, "sub.Tensor", &x, &step);
            let zero = op!(b, "mul.Tensor", &x, 0);
            op!(b, "where.self", &far, &moved, &zero)
        }
        "hardshrink.default" => {
            let lambda = c.float(1, "lambd", 0.5);
            let size = op!(b, "abs.default", &x);
            let near = op!(b, "le.Scalar", &size, lambda);
            let zero = scalar_like(b, &Item::from(0), &x)?;
            op!(b, "where.self", &near, &zero, &x)
        }
        "prelu.default" | "_prelu_kernel.default" => {
            let weight = c.need(1, "weight")?;
            let mut sizes = vec![1; x.rank()?];
            let n = weight.tensor()?.numel();
            if let Some(s) = if x.rank()? > 1 { sizes.get_mut(1) } else { sizes.first_mut() } {
                *s = n;
            }
            let weight =
                if weight.sizes()? == sizes { weight } else { op!(b, "view.default", &weight, sizes) };
            let above = op!(b, "gt.Scalar", &x, 0);
            let scaled = op!(b, "mul.Tensor", &weight, &x);
            op!(b, "where.self", &above, &x, &scaled)
        }
        "silu.default" => {
            let s = op!(b, "sigmoid.default", &x);
            op!(b, "mul.Tensor", &x, &s)
        }
        "mish.default" => {
            let s = softplus(b, &x, 1.0, 20.0)?;
            let t = op!(b, "tanh.default", &s);
            op!(b, "mul.Tensor", &x, &t)
        }
        "hardswish.default" => {
            let g = gate(b, &x)?;
            let product = op!(b, "mul.Tensor", &x, &g);
            op!(b, "div.Tensor", &product, 6)
        }
        "hardsigmoid.default" => {
            let g = gate(b, &x)?;
            op!(b, "div.Tensor", &g, 6)
        }
        "log_sigmoid.default" => log_sigmoid(b, &x)?,
        "glu.default" => {
            let d = c.int(1, "dim", -1);
            let n = x.size(d)? / 2;
            let front = sliced(b, &x, d, 0, n)?;
            let back = sliced(b, &x, d, n, 2 * n)?;
            let s = op!(b, "sigmoid.default", &back);
            op!(b, "mul.Tensor", &front, &s)
        }
        "dropout.default" | "feature_dropout.default" | "alpha_dropout.default" => {
            let (p, train) = (c.float(1, "p", 0.5), c.flag(2, "train", true));
            if !train || p == 0.0 {
                return Ok(Some(x));
            }
            if c.name != "dropout.default" {
                return Ok(None);
            }
            let all = op!(b, "native_dropout.default", &x, p, true);
            b.part(&all, 0)?
        }
        _ => return Ok(None),
    }))
}
