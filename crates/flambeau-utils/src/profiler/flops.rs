//! How many operations a call has, for the operators that PyTorch's profiler estimates, by its rules.

use flambeau_core::Value;

/// Operations of a call, or 0 where nothing is estimated.
pub(super) fn estimate(name: &str, shapes: &[Vec<i64>], args: &[Value]) -> u64 {
    // sizes that lie in no memory make more than there are numbers
    let elements = |s: &[i64]| s.iter().fold(1i64, |n, m| n.saturating_mul(*m));
    // each element of the result is a sum of products
    let product =
        |a: &[i64], b: &[i64]| b.last().map_or(0, |n| elements(a).saturating_mul(*n).saturating_mul(2));
    let count = match (name, shapes) {
        ("aten::mm" | "aten::bmm", [a, b, ..]) => product(a, b),
        ("aten::addmm" | "aten::baddbmm", [_, a, b, ..]) => product(a, b),
        ("aten::add" | "aten::mul", [a, ..]) => elements(a),
        ("aten::conv2d", [x, w, ..]) => convolution(x, w, args).unwrap_or(0),
        _ => 0,
    };
    u64::try_from(count).unwrap_or(0)
}

/// Of a convolution of images: stride, padding, dilation and groups are its arguments from the fourth on.
fn convolution(x: &[i64], w: &[i64], args: &[Value]) -> Option<i64> {
    let (&[batch, channels, height, width], &[out, _, kh, kw]) = (x, w) else { return None };
    let number = |v: &Value| if let Value::Int(i) = v { Some(*i) } else { None };
    let pair = |i: usize| {
        let v = args.get(i)?;
        match v.items() {
            Some([one]) => number(one).map(|n| [n, n]),
            Some([a, b]) => Some([number(a)?, number(b)?]),
            _ => number(v).map(|n| [n, n]),
        }
    };
    let (stride, padding, dilation) = (pair(3)?, pair(4)?, pair(5)?);
    let groups = number(args.get(6)?).filter(|g| *g > 0)?;
    let places = |size: i64, k: i64, d: usize| {
        let room = padding[d].checked_mul(2)?.checked_add(size)?;
        let window = dilation[d].checked_mul(k.checked_sub(1)?)?.checked_add(1)?;
        room.checked_sub(window)?.checked_div(stride[d])?.checked_add(1)
    };
    let all = [batch, places(height, kh, 0)?, places(width, kw, 1)?, kh, kw, channels, out];
    Some(all.into_iter().fold(2i64, i64::saturating_mul) / groups)
}
