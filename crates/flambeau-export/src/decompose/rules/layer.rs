//! Convolutions, pooling, normalization, embedding, padding.

use super::super::build::{Builder, Call, Item, op};
use super::creation::counted;
use super::view::{contiguous, reshaped};
use flambeau_core::{Device, Layout, Result, Value};

fn many(l: Option<Vec<i64>>, n: usize, default: i64) -> Vec<i64> {
    match l {
        Some(l) if l.len() == n => l,
        Some(l) if l.len() == 1 => vec![l[0]; n],
        _ => vec![default; n],
    }
}
fn normalized(b: &mut Builder, c: &Call, x: &Item) -> Result<Item> {
    let (w, bias) = (c.get(1, "weight"), c.get(2, "bias"));
    let of = |i: Option<Item>| i.unwrap_or_else(Item::none);
    let (mean, var) = (c.get(3, "running_mean"), c.get(4, "running_var"));
    let training = c.flag(5, "training", false);
    let (momentum, eps) = (c.float(6, "momentum", 0.1), c.float(7, "eps", 1e-5));
    let (w, bias) = (of(w), of(bias));
    match (training, mean, var) {
        (true, Some(mean), Some(var)) => {
            let all = op!(
                b,
                "_native_batch_norm_legit_functional.default",
                x,
                w,
                bias,
                mean,
                var,
                true,
                momentum,
                eps
            );
            for (at, part) in [(3, 3), (4, 4)] {
                let new = b.part(&all, part)?;
                b.writes.push((at, new));
            }
            b.part(&all, 0)
        }
        (false, Some(mean), Some(var)) => {
            let all =
                op!(b, "_native_batch_norm_legit_no_training.default", x, w, bias, mean, var, momentum, eps);
            b.part(&all, 0)
        }
        _ => {
            let all = op!(b, "_native_batch_norm_legit.no_stats", x, w, bias, training, momentum, eps);
            b.part(&all, 0)
        }
    }
}
/// A convolution of any number of dimensions, transposed or not, as the one operator that they are.
fn convolved(b: &mut Builder, c: &Call, x: &Item) -> Result<Item> {
    let w = c.need(1, "weight")?;
    let n = w.rank()?.saturating_sub(2);
    let transposed = c.name.starts_with("conv_transpose");
    let (more, dilation) =
        if transposed { (many(c.ints(5, "output_padding"), n, 0), 7) } else { (vec![0; n], 5) };
    let (stride, mut padding) = (many(c.ints(3, "stride"), n, 1), many(c.ints(4, "padding"), n, 0));
    let dilation = many(c.ints(dilation, "dilation"), n, 1);
    let mut x = x.clone();
    if c.get(4, "padding").is_some_and(|p| matches!(&p.value, Value::Str(s) if s == "same")) {
        let kernel = &w.sizes()?[2..];
        let whole: Vec<i64> = kernel.iter().zip(&dilation).map(|(k, d)| d * (k - 1)).collect();
        padding = whole.iter().map(|n| n / 2).collect();
        if whole.iter().any(|n| n % 2 != 0) {
            // one more behind than before
            let more = whole.iter().rev().flat_map(|n| [0, n % 2]).collect::<Vec<i64>>();
            x = op!(b, "constant_pad_nd.default", &x, more);
        }
    }
    let (bias, groups) = (c.get(2, "bias").unwrap_or_else(Item::none), c.int(6, "groups", 1));
    Ok(op!(b, "convolution.default", &x, &w, bias, stride, padding, dilation, transposed, more, groups))
}
/// Elements of a dimension by their numbers.
fn picked(b: &mut Builder, x: &Item, d: usize, index: &Item) -> Result<Item> {
    let mut all = vec![Item::none(); x.rank()?];
    if let Some(i) = all.get_mut(d) {
        *i = index.clone();
    }
    Ok(op!(b, "index.Tensor", x, all))
}
/// The tensor in the middle of a larger one whose borders are what lies on the other side: `pad` begins with the last dimension.
fn circular(b: &mut Builder, x: &Item, pad: &[i64]) -> Result<Item> {
    let sizes = x.sizes()?;
    let mut whole = sizes.clone();
    // dimensions with what comes before and after
    let sides: Vec<(usize, i64, i64)> =
        pad.chunks_exact(2).enumerate().map(|(k, p)| (sizes.len() - k - 1, p[0], p[1])).collect();
    for (d, before, after) in &sides {
        whole[*d] += before + after;
    }
    let dtype = x.dtype()?;
    let mut out = op!(
        b,
        "empty.memory_format",
        &whole[..];
        dtype = dtype,
        layout = Value::Layout(Layout::Strided),
        device = Value::Device(Device::Cpu),
        pin_memory = false
    );
    let (mut places, mut middle) = (vec![out.clone()], x.clone());
    for (d, before, after) in &sides {
        let (from, to) = (*before.max(&0), whole[*d] - after.max(&0));
        let place = op!(b, "slice.Tensor", places.last().unwrap_or(&out), *d as i64, from, to);
        places.push(place);
        middle = op!(b, "slice.Tensor", &middle, *d as i64, (-before).max(0), sizes[*d] - (-after).max(0));
    }
    let mut put = op!(b, "copy.default", places.last().unwrap_or(&out), &middle);
    for ((d, before, after), place) in sides.iter().zip(&places).rev() {
        put = op!(
            b,
            "slice_scatter.default",
            place,
            &put,
            *d as i64,
            *before.max(&0),
            whole[*d] - after.max(&0)
        );
    }
    out = put;
    for (d, before, after) in &sides {
        let (n, d) = (whole[*d], *d as i64);
        let (left, right) = (*before.max(&0), *after.max(&0));
        for (at, from, count) in [(0, n - left - right, left), (n - right, left, right)] {
            if count > 0 {
                let place = op!(b, "slice.Tensor", &out, d, at, at + count);
                let other = op!(b, "slice.Tensor", &out, d, from, from + count);
                let copy = op!(b, "copy.default", &place, &other);
                out = op!(b, "slice_scatter.default", &out, &copy, d, at, at + count);
            }
        }
    }
    Ok(out)
}
fn padded(b: &mut Builder, c: &Call, x: &Item) -> Result<Option<Item>> {
    let pad = c.ints(1, "pad").unwrap_or_default();
    let mode = match c.get(2, "mode").map(|i| i.value.clone()) {
        Some(Value::Str(ref s)) => s.clone(),
        _ => "constant".to_string(),
    };
    if mode == "constant" {
        let v = c.float(3, "value", 0.0);
        return Ok(Some(op!(b, "constant_pad_nd.default", x, pad, v)));
    }
    let rank = x.rank()?;
    if mode == "circular" && pad.len() / 2 < rank {
        return circular(b, x, &pad).map(Some);
    }
    let mut out = x.clone();
    // the first of the padded dimensions is the last pair
    for (k, pair) in pad.chunks_exact(2).enumerate().rev() {
        let Some(d) = rank.checked_sub(k + 1) else { return Ok(None) };
        let n = x.sizes()?[d];
        let places = op!(b, "arange.start_step", -pair[0], n + pair[1]);
        let index = match mode.as_str() {
            "reflect" => {
                let size = op!(b, "abs.default", &places);
                let left = op!(b, "sub.Tensor", n - 1, &size);
                let size = op!(b, "abs.default", &left);
                op!(b, "sub.Tensor", n - 1, &size)
            }
            "replicate" => op!(b, "clamp.default", &places, 0, n - 1),
            _ => return Ok(None),
        };
        out = picked(b, &out, d, &index)?;
    }
    Ok(Some(out))
}
pub(super) fn rule(b: &mut Builder, c: &Call) -> Result<Option<Item>> {
    let x = c.args.first().cloned().unwrap_or_else(Item::none);
    let none = Item::none;
    Ok(Some(match c.name.as_str() {
        "conv1d.padding" | "conv2d.padding" | "conv3d.padding"
            if x.rank()? == c.need(1, "weight")?.rank()? =>
        {
            convolved(b, c, &x)?
        }
        "avg_pool1d.default" => {
            let one = |at, name: &str, default: i64| {
                c.ints(at, name).and_then(|l| l.first().copied()).unwrap_or(default)
            };
            let kernel = one(1, "kernel_size", 1);
            let (stride, padding) = (one(2, "stride", kernel), one(3, "padding", 0));
            let wide = op!(b, "unsqueeze.default", &x, -2);
            let mut args =
                vec![wide, vec![1, kernel].into(), vec![1, stride].into(), vec![0, padding].into()];
            args.push(c.flag(4, "ceil_mode", false).into());
            args.push(c.flag(5, "count_include_pad", true).into());
            let out = b.op("avg_pool2d.default", args, Vec::new())?;
            op!(b, "squeeze.dims", &out, vec![-2])
        }
        "adaptive_max_pool1d.default" => {
            let n = c.ints(1, "output_size").and_then(|l| l.first().copied()).unwrap_or(1);
            let wide = op!(b, "unsqueeze.default", &x, -2);
            let all = op!(b, "adaptive_max_pool2d.default", &wide, vec![1, n]);
            let mut out = Vec::new();
            for i in 0..2 {
                let part = b.part(&all, i)?;
                out.push(op!(b, "squeeze.dims", &part, vec![-2]));
            }
            out.into()
        }
        "conv1d.default"
        | "conv2d.default"
        | "conv3d.default"
        | "conv_transpose1d.default"
        | "conv_transpose2d.input"
        | "conv_transpose3d.input" => convolved(b, c, &x)?,
        "max_pool2d.default" | "max_pool3d.default" => {
            let name = if c.name.contains("2d") {
                "max_pool2d_with_indices.default"
            } else {
                "max_pool3d_with_indices.default"
            };
            let all =
                b.op(name, c.args.clone(), c.kwargs.iter().map(|(k, v)| (k.as_str(), v.clone())).collect())?;
            b.part(&all, 0)?
        }
        "max_pool1d.default" => {
            let pair = |at, name: &str, default: i64, first: i64| -> Vec<i64> {
                vec![first, c.ints(at, name).and_then(|l| l.first().copied()).unwrap_or(default)]
            };
            let kernel = c.ints(1, "kernel_size").and_then(|l| l.first().copied()).unwrap_or(1);
            let wide = op!(b, "unsqueeze.default", &x, -2);
            let all = op!(
                b,
                "max_pool2d_with_indices.default",
                &wide,
                vec![1, kernel],
                pair(2, "stride", kernel, 1),
                pair(3, "padding", 0, 0),
                pair(4, "dilation", 1, 1),
                c.flag(5, "ceil_mode", false)
            );
            let out = b.part(&all, 0)?;
            op!(b, "squeeze.dims", &out, vec![-2])
        }
        "adaptive_avg_pool2d.default" => {
            let size = c.ints(1, "output_size").unwrap_or_default();
            if size == [1, 1] {
                op!(b, "mean.dim", &x, vec![-1, -2], true)
            } else {
                op!(b, "_adaptive_avg_pool2d.default", &x, size)
            }
        }
        "adaptive_avg_pool3d.default" => {
            let size = c.ints(1, "output_size").unwrap_or_default();
            if size == [1, 1, 1] {
                op!(b, "mean.dim", &x, vec![-1, -2, -3], true)
            } else {
                op!(b, "_adaptive_avg_pool3d.default", &x, size)
            }
        }
        "batch_norm.default" => normalized(b, c, &x)?,
        "layer_norm.default" => {
            let (w, bias) = (c.get(2, "weight").unwrap_or_else(none), c.get(3, "bias").unwrap_or_else(none));
            let all = op!(
                b,
                "native_layer_norm.default",
                &x,
                c.need(1, "normalized_shape")?,
                w,
                bias,
                c.float(4, "eps", 1e-5)
            );
            b.part(&all, 0)?
        }
        "group_norm.default" => {
            let x = contiguous(b, &x)?;
            let sizes = x.sizes()?;
            let [n, ch, rest @ ..] = &sizes[..] else { return Ok(None) };
            let (w, bias) = (c.get(2, "weight").unwrap_or_else(none), c.get(3, "bias").unwrap_or_else(none));
            let area: i64 = rest.iter().product();
            let all = op!(
                b,
                "native_group_norm.default",
                &x,
                w,
                bias,
                *n,
                *ch,
                area,
                c.int(1, "num_groups", 1),
                c.float(4, "eps", 1e-5)
            );
            b.part(&all, 0)?
        }
        "instance_norm.default" => {
            let own = c.flag(5, "use_input_stats", true);
            let sizes = x.sizes()?;
            let [n, ch, rest @ ..] = &sizes[..] else { return Ok(None) };
            if !own || c.get(3, "running_mean").is_some() {
                return Ok(None);
            }
            let times = |b: &mut Builder, i: Option<Item>| -> Result<Item> {
                match i {
                    Some(i) => Ok(op!(b, "repeat.default", &i, vec![*n])),
                    None => Ok(Item::none()),
                }
            };
            let (w, bias) = (times(b, c.get(1, "weight"))?, times(b, c.get(2, "bias"))?);
            let flat = [&[1, n * ch], rest].concat();
            let flat = reshaped(b, &x, flat)?;
            let (momentum, eps) = (c.float(6, "momentum", 0.1), c.float(7, "eps", 1e-5));
            let all = op!(b, "_native_batch_norm_legit.no_stats", &flat, w, bias, true, momentum, eps);
            let out = b.part(&all, 0)?;
            reshaped(b, &out, sizes)?
        }
        "rms_norm.default" => {
            let rank = x.rank()?;
            let n = c.ints(1, "normalized_shape").map_or(1, |l| l.len());
            let dims: Vec<i64> = (rank.saturating_sub(n)..rank).map(|d| d as i64).collect();
            let eps = c.float(3, "eps", f64::from(f32::EPSILON));
            let square = op!(b, "pow.Tensor_Scalar", &x, 2);
            let mean = op!(b, "mean.dim", &square, dims, true);
            let more = op!(b, "add.Scalar", &mean, eps);
            let scale = op!(b, "rsqrt.default", &more);
            let out = op!(b, "mul.Tensor", &x, &scale);
            match c.get(2, "weight") {
                Some(w) => op!(b, "mul.Tensor", &out, w),
                None => out,
            }
        }
        "embedding_bag.padding_idx" => {
            // what is not given at the end is left out
            let mut args = vec![x, c.need(1, "indices")?, c.need(2, "offsets")?];
            args.push(c.flag(3, "scale_grad_by_freq", false).into());
            args.push(c.int(4, "mode", 0).into());
            let rest = [
                c.flag(5, "sparse", false).into(),
                c.get(6, "per_sample_weights").unwrap_or_else(none),
                c.flag(7, "include_last_offset", false).into(),
            ];
            args.extend(rest);
            if let Some(p) = c.get(8, "padding_idx") {
                args.push(p);
            }
            b.op("_embedding_bag.default", args, Vec::new())?
        }
        "pad.default" => return padded(b, c, &x),
        "grid_sampler.default" if x.rank()? == 4 => {
            b.op("grid_sampler_2d.default", c.args.clone(), Vec::new())?
        }
        "roll.default" => {
            let (shifts, dims) =
                (c.ints(1, "shifts").unwrap_or_default(), c.ints(2, "dims").unwrap_or_default());
            if shifts.len() != dims.len() || dims.is_empty() {
                return Ok(None);
            }
            let mut out = x;
            for (s, d) in shifts.iter().zip(&dims) {
                let n = out.size(*d)?;
                let start = if n == 0 { 0 } else { (n - s.rem_euclid(n)).rem_euclid(n) };
                let places = counted(b, n, None)?;
                let moved = op!(b, "add.Tensor", &places, start);
                let places = op!(b, "fmod.Scalar", &moved, n);
                out = op!(b, "index_select.default", &out, *d, &places);
            }
            out
        }
        _ => return Ok(None),
    }))
}
