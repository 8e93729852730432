//! Writes by index, one-hot vectors, transforms to and from frequencies.

use super::super::build::{Builder, Call, Item, op, wrapped};
use super::creation::{counted, filled};
use super::pointwise::converted;
use super::view::{contiguous, reshaped, sliced};
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
/// Overlapping parts of length `n`, `hop` apart, added up along a line.
fn overlapped(b: &mut Builder, parts: &Item, sizes: Vec<i64>, n: i64, hop: i64) -> Result<Item> {
    let (frames, dtype) = (parts.size(1)?, parts.dtype()?);
    let line = filled(b, sizes.clone(), 0.into(), Some(dtype))?;
    let at = counted(b, sizes[1], Some(DType::I32))?;
    let at = op!(b, "unfold.default", &at, 0, n, hop);
    let at = contiguous(b, &at)?;
    let at = op!(b, "view.default", &at, vec![frames * n]);
    let parts = op!(b, "permute.default", parts, vec![0, 1, 2]);
    let parts = reshaped(b, &parts, vec![parts.size(0)?, frames * n])?;
    Ok(op!(b, "index_put.default", &line, vec![Item::none(), at], &parts, true))
}
/// The signal whose parts have these frequencies, divided by what the windows add up to.
fn istft(b: &mut Builder, c: &Call, x: &Item) -> Result<Option<Item>> {
    let n = c.int(1, "n_fft", 0);
    let (hop, length) = (c.int(2, "hop_length", n / 4), c.int(3, "win_length", n));
    let real = match x.dtype()? {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        _ => return Ok(None),
    };
    let one = x.rank()? == 2;
    let fits = n > 0 && hop > 0 && (1..=n).contains(&length) && (one || x.rank()? == 3);
    if !fits || !c.flag(7, "onesided", true) || c.flag(9, "return_complex", false) {
        return Ok(None);
    }
    let mut window = match c.get(4, "window") {
        Some(w) if w.dtype()?.is_complex() => return Ok(None),
        Some(w) => w,
        None => filled(b, vec![length], 1.into(), Some(real))?,
    };
    let whole = n + hop * (x.size(-1)? - 1);
    let center = c.flag(5, "center", true);
    let start = if center { n / 2 } else { 0 };
    let end = match c.get(8, "length").and_then(|i| i.int()) {
        Some(wanted) => start + wanted,
        None => whole - start,
    };
    // what lies beyond the parts would be zeros
    if end > whole || x.size(-2)? != n / 2 + 1 {
        return Ok(None);
    }
    if length < n {
        let before = (n - length) / 2;
        window = op!(b, "constant_pad_nd.default", &window, vec![before, n - length - before]);
    }
    let x = if one { op!(b, "unsqueeze.default", x, 0) } else { x.clone() };
    let turned = op!(b, "permute.default", &x, vec![0, 2, 1]);
    let norm = if c.flag(6, "normalized", false) { 1 } else { 2 };
    let parts = op!(b, "_fft_c2r.default", &turned, vec![2], norm, n);
    let wide = op!(b, "view.default", &window, vec![1, 1, n]);
    let parts = op!(b, "mul.Tensor", &parts, &wide);
    let sizes = vec![x.size(0)?, whole];
    let signal = overlapped(b, &parts, sizes.clone(), n, hop)?;
    let squares = op!(b, "pow.Tensor_Scalar", &window, 2);
    let squares = op!(b, "expand.default", &squares, vec![1, parts.size(1)?, n]);
    let envelope = overlapped(b, &squares, sizes, n, hop)?;
    let signal = sliced(b, &signal, 1, start, end)?;
    let envelope = sliced(b, &envelope, 1, start, end)?;
    let out = op!(b, "div.Tensor", &signal, &envelope);
    Ok(Some(if one { op!(b, "squeeze.dims", &out, vec![0]) } else { out }))
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
        "fft_fft.default" | "fft_ifft.default" if c.get(1, "n").is_none() => {
            let d = wrapped(c.int(2, "dim", -1), x.rank()?)? as i64;
            let forward = c.name == "fft_fft.default";
            let norm = scaling(c, forward);
            if !x.dtype()?.is_complex() && !x.dtype()?.is_floating() {
                return Ok(None);
            }
            if x.dtype()?.is_complex() {
                op!(b, "_fft_c2c.default", &x, vec![d], norm, forward)
            } else {
                let out = op!(b, "_fft_r2c.default", &x, vec![d], norm, false);
                if forward { out } else { op!(b, "_conj.default", &out) }
            }
        }
        "fft_fft2.default" | "fft_ifft2.default" | "fft_fftn.default" | "fft_ifftn.default"
            if c.get(1, "s").is_none() =>
        {
            let rank = x.rank()?;
            let forward = c.name.starts_with("fft_fft");
            let standard = if c.name.contains("2.") { vec![-2, -1] } else { (0..rank as i64).collect() };
            let mut dims = Vec::new();
            for d in c.ints(2, "dim").unwrap_or(standard) {
                dims.push(wrapped(d, rank)? as i64);
            }
            let x = match x.dtype()? {
                DType::F32 => converted(b, &x, DType::C64)?,
                DType::F64 => converted(b, &x, DType::C128)?,
                d if d.is_complex() => x,
                _ => return Ok(None),
            };
            op!(b, "_fft_c2c.default", &x, dims, scaling(c, forward), forward)
        }
        "fft_rfft2.default" | "fft_rfftn.default" | "fft_irfft2.default" | "fft_irfftn.default"
            if c.get(1, "s").is_none() =>
        {
            let (rank, forward) = (x.rank()?, c.name.starts_with("fft_rfft"));
            let standard = if c.name.contains("2.") { vec![-2, -1] } else { (0..rank as i64).collect() };
            let mut dims = Vec::new();
            for d in c.ints(2, "dim").unwrap_or(standard) {
                dims.push(wrapped(d, rank)? as i64);
            }
            let Some(last) = dims.last().copied() else { return Ok(None) };
            if forward {
                op!(b, "_fft_r2c.default", &x, dims, scaling(c, true), true)
            } else {
                let n = 2 * (x.size(last)? - 1);
                op!(b, "_fft_c2r.default", &x, dims, scaling(c, false), n)
            }
        }
        "fft_hfft.default" if x.dtype()?.is_complex() => {
            let d = wrapped(c.int(2, "dim", -1), x.rank()?)? as i64;
            let n = c.int(1, "n", 2 * (x.size(d)? - 1));
            if x.size(d)? != n / 2 + 1 {
                return Ok(None);
            }
            let turned = op!(b, "_conj.default", &x);
            op!(b, "_fft_c2r.default", &turned, vec![d], scaling(c, true), n)
        }
        "istft.default" => return istft(b, c, &x),
        "stft.center" => {
            let (n, rank) = (c.int(1, "n_fft", 0), x.rank()?);
            let args: Vec<Item> = (1..5)
                .map(|at| c.get(at, ["n_fft", "hop_length", "win_length", "window"][at - 1]))
                .map(|i| i.unwrap_or_else(Item::none))
                .collect();
            let rest = [(7, "normalized"), (8, "onesided"), (9, "return_complex")];
            let rest: Vec<Item> =
                rest.into_iter().map(|(at, name)| c.get(at, name).unwrap_or_else(Item::none)).collect();
            let mut x = x;
            if rank == 0 {
                return Ok(None);
            }
            if c.flag(5, "center", true) {
                let sizes = x.sizes()?;
                let mode = c.get(6, "pad_mode").unwrap_or_else(|| "reflect".into());
                let wide = op!(b, "view.default", &x, [vec![1; 3 - rank.min(3)], sizes.clone()].concat());
                let args = vec![wide, vec![n / 2, n / 2].into(), mode];
                let pad = Call { name: "pad.default".into(), args, kwargs: Vec::new() };
                let Some(padded) = super::decomposed(b, &pad)? else { return Ok(None) };
                let last = padded.size(-1)?;
                x = op!(b, "view.default", &padded, [&sizes[..rank - 1], &[last]].concat());
            }
            let args = [vec![x], args, rest].concat();
            return rule(b, &Call { name: "stft.default".into(), args, kwargs: Vec::new() });
        }
        "stft.default" if !x.dtype()?.is_complex() && c.flag(7, "return_complex", false) => {
            let n = c.int(1, "n_fft", 0);
            let hop = c.int(2, "hop_length", n / 4);
            let length = c.int(3, "win_length", n);
            let window = c.get(4, "window");
            let plain = match &window {
                Some(w) => !w.dtype()?.is_complex(),
                None => length == n,
            };
            if n < 1 || hop < 1 || !plain {
                return Ok(None);
            }
            let one = x.rank()? == 1;
            let x = if one { op!(b, "unsqueeze.default", &x, 0) } else { x };
            let mut parts = op!(b, "unfold.default", &x, -1, n, hop);
            if let Some(mut w) = window {
                if length < n {
                    let before = (n - length) / 2;
                    w = op!(b, "constant_pad_nd.default", &w, vec![before, n - length - before]);
                }
                parts = op!(b, "mul.Tensor", &parts, &w);
            }
            let half = c.flag(6, "onesided", true);
            let norm = i64::from(c.flag(5, "normalized", false));
            let found = op!(b, "_fft_r2c.default", &parts, vec![2], norm, half);
            let found = op!(b, "permute.default", &found, vec![0, 2, 1]);
            if one { op!(b, "squeeze.dims", &found, vec![0]) } else { found }
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
