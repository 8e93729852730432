//! Writes by index, one-hot vectors, transforms to and from frequencies.

use super::super::build::{Builder, Call, Item, op, wrapped};
use super::creation::counted;
use super::pointwise::converted;
use flambeau_core::{DType, Result, Value};

/// An assertion that a condition holds for all elements.
fn asserted(b: &mut Builder, holds: &Item, text: &str) -> Result<()> {
    let not = op!(b, "logical_not.default", holds);
    let any = op!(b, "any.dims", &not);
    let all = op!(b, "logical_not.default", &any);
    // its value is of no use here: the condition is computed with numbers that stand for others
    b.node("torch.ops.aten._assert_async.msg", &[all, text.into()], &[], Value::None);
    Ok(())
}
/// The number of a transform's scaling.
fn scaling(c: &Call, forward: bool) -> i64 {
    match (c.get(3, "norm").map(|i| i.value.clone()), forward) {
        (Some(Value::Str(ref s)), _) if s == "ortho" => 1,
        (Some(Value::Str(ref s)), forward) if s == "forward" => {
            if forward {
                2
            } else {
                0
            }
        }
        (_, true) => 0,
        (_, false) => 2,
    }
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    Ok(Some(match c.name.as_str() {
        "index_add.default" => {
            let d = wrapped(c.int(1, "dim", 0), x.rank()?)?;
            if c.get(4, "alpha").is_some_and(|a| a.int() != Some(1)) {
                return Ok(None);
            }
            let mut places = vec![Item::none(); d];
            places.push(c.need(2, "index")?);
            op!(b, "index_put.default", &x, places, c.need(3, "source")?, true)
        }
        "one_hot.default" => {
            let n = c.int(1, "num_classes", -1);
            if n < 0 {
                return Ok(None);
            }
            let above = op!(b, "ge.Scalar", &x, 0);
            asserted(b, &above, "one_hot: Class values must be non-negative.")?;
            let below = op!(b, "lt.Scalar", &x, n);
            asserted(b, &below, "one_hot: Class values must be smaller than num_classes.")?;
            let wide = op!(b, "unsqueeze.default", &x, -1);
            let all = counted(b, n, Some(DType::I64))?;
            let same = op!(b, "eq.Tensor", &wide, &all);
            converted(b, &same, DType::I64)?
        }
        "fft_rfft.default" => {
            if c.get(1, "n").is_some() {
                return Ok(None);
            }
            let d = wrapped(c.int(2, "dim", -1), x.rank()?)? as i64;
            op!(b, "_fft_r2c.default", &x, vec![d], scaling(c, true), true)
        }
        "fft_irfft.default" => {
            let d = wrapped(c.int(2, "dim", -1), x.rank()?)? as i64;
            let n = c.int(1, "n", 2 * (x.size(d)? - 1));
            if x.size(d)? != n / 2 + 1 {
                return Ok(None);
            }
            op!(b, "_fft_c2r.default", &x, vec![d], scaling(c, false), n)
        }
        _ => return Ok(None),
    }))
}
