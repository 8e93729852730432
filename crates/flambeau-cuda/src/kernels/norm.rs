//! Normalisation: of rows (layer, RMS, group norm) and of channels (batch norm), with their gradients.

use super::dense::{
    address_of, dense, dense_opt, floats, named, quotient, room, row_shape, row_threads, text, up, wide,
    written,
};
use super::{Args, Which, address, launch, shape};
use crate::device::{ordinal, processors};
use crate::driver::Shape;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Scalar, Tensor, ops};
use flambeau_nn_functional::generated::{args, norm as rows};

const ROWS: &str = "norm/rows.cuh";
const CHANNELS: &str = "norm/channels.cuh";

/// The C++ names of an input's elements and of its parameters', all of one dtype.
fn elements(
    label: &str,
    x: DType,
    parameters: &[Option<DType>],
) -> Result<(&'static str, &'static str, DType)> {
    let mut given = parameters.iter().copied().flatten();
    let p = given.next().unwrap_or(x);
    if given.any(|d| d != p) {
        return Err(Error::not_implemented_for(label, x));
    }
    Ok((floats(label, x)?, floats(label, p)?, p))
}
fn dtype(t: Option<&Tensor>) -> Option<DType> {
    t.map(Tensor::dtype)
}
/// All elements of those that are there become a number.
fn fill(all: &[Option<&Tensor>], v: f64) -> Result<()> {
    all.iter().flatten().filter(|t| t.numel() > 0).try_for_each(|t| ops::fill_(t, Scalar::Float(v)).map(drop))
}

/// As [`row_threads`]; parameters are read in packs of as many elements.
fn threads(
    n: i64,
    x: &Tensor,
    most: i64,
    places: &[u64],
    parameters: [Option<&Tensor>; 2],
) -> Result<(i64, i64)> {
    let size = x.dtype().size();
    let (threads, held) = row_threads(n, size, most, places);
    for t in parameters.into_iter().flatten() {
        if address(t)? % (16 / size * t.dtype().size()) as u64 != 0 {
            // as rows whose memory is not aligned
            return Ok((row_threads(n, size, most, &[1]).0, 0));
        }
    }
    Ok((threads, held))
}
/// Rows that are normalised by their own mean (none for RMS norm) and spread; parameters of layer norm by place, of group norm by
/// channel.
struct RowNorm<'a> {
    label: &'static str,
    x: &'a Tensor,
    weight: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
    eps: f64,
    /// Rows, their length.
    rows: i64,
    n: i64,
    /// Groups, channels of one, places of a channel: of group norm.
    groups: Option<[i64; 3]>,
}
fn row_norm(a: &RowNorm, y: &Tensor, mean: Option<&Tensor>, rstd: &Tensor) -> Result<()> {
    let (own, param, p) = elements(a.label, a.x.dtype(), &[dtype(a.weight), dtype(a.bias)])?;
    let stat = floats(a.label, rstd.dtype())?;
    if a.x.numel() == 0 {
        return fill(&[mean, Some(rstd)], f64::NAN);
    }
    let (x, w, b) = (dense(a.x)?, dense_opt(a.weight)?, dense_opt(a.bias)?);
    let places = [address(y)?, address(&x)?];
    // the channels of group norm's elements take registers too
    let most = if a.groups.is_some() { 4 } else { 8 };
    let (threads, held) = threads(a.n, &x, most, &places, [w.as_ref(), b.as_ref()])?;
    let mut list = Args::new().word(places[0]).word(places[1]).word(address_of(w.as_ref())?);
    list = list.word(address_of(b.as_ref())?).word(address_of(mean)?).word(address(rstd)?);
    let [groups, per, l] = a.groups.unwrap_or([1, 0, 1]);
    let list =
        list.int(a.rows).int(a.n).int(threads).int(groups).int(per).int(l).word(quotient(l)).number(a.eps);
    let (rms, grouped) = (mean.is_none(), a.groups.is_some());
    let flags = u8::from(rms) | u8::from(grouped) << 1 | (held as u8) << 2;
    let which = Which("row_norm", 0, [x.dtype() as u8, p as u8, rstd.dtype() as u8, flags]);
    let text = || text(ROWS, &format!("ROW_NORM(k, {own}, {param}, {stat}, {rms}, {grouped}, {held})"));
    launch(ordinal(x.device())?, which, text, row_shape(a.rows, threads), list)
}
/// The gradients of layer norm with `mean`, of RMS norm without.
fn row_norm_backward(
    label: &'static str,
    [grad, x]: [&Tensor; 2],
    n: i64,
    mean: Option<&Tensor>,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    [gx, gw, gb]: [Option<&Tensor>; 3],
) -> Result<()> {
    let (own, param, p) = elements(label, x.dtype(), &[dtype(weight), dtype(gw), dtype(gb)])?;
    let stat = floats(label, rstd.dtype())?;
    if grad.dtype() != x.dtype() || mean.is_some_and(|m| m.dtype() != rstd.dtype()) {
        return Err(Error::not_implemented_for(label, x.dtype()));
    }
    if x.numel() == 0 {
        return fill(&[gw, gb], 0.0);
    }
    let (g, x, w) = (dense(grad)?, dense(x)?, dense_opt(weight)?);
    let (mean, rstd) = (dense_opt(mean)?, dense(rstd)?);
    let (d, rms, count) = (ordinal(x.device())?, mean.is_none(), x.numel() / n);
    let key = |flags: u8| [x.dtype() as u8, p as u8, rstd.dtype() as u8, flags];
    if let Some(gx) = gx {
        let places = [address(gx)?, address(&g)?, address(&x)?];
        let (threads, held) = threads(n, &x, 4, &places, [w.as_ref(), None])?;
        let list = places.iter().fold(Args::new(), |l, a| l.word(*a));
        let list = list.word(address_of(w.as_ref())?).word(address_of(mean.as_ref())?).word(address(&rstd)?);
        let list = list.int(count).int(n).int(threads);
        let which = Which("row_norm_backward", 0, key(u8::from(rms) | (held as u8) << 2));
        let text = || text(ROWS, &format!("ROW_NORM_BACKWARD(k, {own}, {param}, {stat}, {rms}, {held})"));
        launch(d, which, text, row_shape(count, threads), list)?;
    }
    if gw.is_none() && gb.is_none() {
        return Ok(());
    }
    let groups = up(n, 32);
    // each thread has some rows before blocks share a column
    let parts = (processors(d)? * 8 / groups).min(up(count, 8 * 8)).clamp(1, 1024);
    let sums = (parts > 1).then(|| room(2 * parts * n, wide(x.dtype()), &x)).transpose()?;
    let list = || -> Result<Args> {
        let list =
            Args::new().word(address_of(gw)?).word(address_of(gb)?).word(address(&g)?).word(address(&x)?);
        let list = list.word(address_of(mean.as_ref())?).word(address(&rstd)?);
        Ok(list.int(count).int(n).int(parts).word(address_of(sums.as_ref())?))
    };
    let text =
        |name: &str| named(ROWS, &format!("ROW_NORM_PARAMETERS(k, {own}, {param}, {stat}, {rms})"), name);
    let shape = Shape { blocks: (groups * parts).clamp(1, 1 << 20) as u32, threads: 256 };
    launch(d, Which("row_norm_parameters", 0, key(rms.into())), || text("k"), shape, list()?)?;
    if parts > 1 {
        let shape = Shape { blocks: (groups * 2).clamp(1, 1 << 20) as u32, threads: 256 };
        launch(d, Which("row_norm_parts", 0, key(rms.into())), || text("k_parts"), shape, list()?)?;
    }
    Ok(())
}
fn layer_norm(a: &args::NativeLayerNorm, [y, mean, rstd]: [&Tensor; 3]) -> Result<()> {
    let n = a.normalized_shape.iter().product::<i64>();
    let norm = RowNorm {
        label: "LayerNormKernelImpl",
        x: a.input,
        weight: a.weight,
        bias: a.bias,
        eps: a.eps,
        rows: rstd.numel(),
        n,
        groups: None,
    };
    row_norm(&norm, y, Some(mean), rstd)
}
fn layer_norm_backward(a: &args::NativeLayerNormBackward, grads: &[Option<&Tensor>]) -> Result<()> {
    let n = a.normalized_shape.iter().product();
    let label = "LayerNormBackwardKernelImpl";
    let all = [grads[0], grads[1], grads[2]];
    row_norm_backward(label, [a.grad_out, a.input], n, Some(a.mean), a.rstd, a.weight, all)
}
fn rms_norm(a: &args::FusedRmsNorm, [y, rstd]: [&Tensor; 2]) -> Result<()> {
    let n = a.normalized_shape.iter().product::<i64>();
    let norm = RowNorm {
        label: "rms_norm",
        x: a.input,
        weight: a.weight,
        bias: None,
        eps: a.eps,
        rows: rstd.numel(),
        n,
        groups: None,
    };
    row_norm(&norm, y, None, rstd)
}
fn rms_norm_backward(a: &args::FusedRmsNormBackward, grads: &[Option<&Tensor>]) -> Result<()> {
    let n = a.normalized_shape.iter().product();
    let all = [grads[0], grads[1], None];
    row_norm_backward("LayerNormBackwardKernelImpl", [a.grad_out, a.input], n, None, a.rstd, a.weight, all)
}
fn group_norm(a: &args::FusedGroupNorm, [y, mean, rstd]: [&Tensor; 3]) -> Result<()> {
    let per = a.c / a.group;
    let norm = RowNorm {
        label: "GroupNormKernelImpl",
        x: a.input,
        weight: a.weight,
        bias: a.bias,
        eps: a.eps,
        rows: a.n * a.group,
        n: per * a.hxw,
        groups: Some([a.group, per, a.hxw]),
    };
    if norm.n >= i64::from(i32::MAX) {
        return Err(Error::missing("group norm of groups of 2^31 elements and more on CUDA"));
    }
    row_norm(&norm, y, Some(mean), rstd)
}

/// Statistics of channels over `[n, c, l]`, and what is made of them.
struct Channels<'a> {
    x: &'a Tensor,
    g: Option<&'a Tensor>,
    sizes: [i64; 3],
    weight: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
    mean: Option<&'a Tensor>,
    invstd: Option<&'a Tensor>,
    running: [Option<&'a Tensor>; 2],
    grads: [Option<&'a Tensor>; 2],
    /// Rows that share a mean: of group norm's gradient.
    per: i64,
    train: bool,
    dense: bool,
    momentum: f64,
    eps: f64,
}
/// Runs the statistics, whose coefficients stay in the result. `names` are those of the elements.
fn channels(a: &Channels, own: &str, param: (&str, DType)) -> Result<Tensor> {
    let [n, c, l] = a.sizes;
    let (d, x) = (ordinal(a.x.device())?, a.x);
    let size = x.dtype().size() as i64;
    let places = [address(x)?, address_of(a.g)?];
    let pack = 16 / size;
    let turned = l < 8 && c > 1;
    let packed = l % pack == 0 && !turned && places.iter().all(|p| p % 16 == 0);
    let each = if packed { pack } else { 1 };
    let all = n * (l / each);
    let (threads, results) = match turned {
        true => (super::dense::power(up(all, 4), 1, 8), 32),
        false => {
            let threads = super::dense::power(up(all, 4), 1, 256);
            (threads, super::dense::power(c, 1, 256 / threads))
        }
    };
    let groups = up(c, results);
    let parts = (processors(d)? * 4 / groups).min(all / (threads * 8)).clamp(1, 512);
    let compute = wide(x.dtype());
    let coefficients = room(4 * c, compute, x)?;
    let states = (parts > 1).then(|| room(3 * c * parts, compute, x)).transpose()?;
    let list = || -> Result<Args> {
        let list = Args::new().word(places[0]).word(places[1]).int(n).int(c).int(l).word(quotient(l / each));
        let list = list.int(threads).int(results).int(turned.into()).int(parts);
        let list =
            list.word(address_of(states.as_ref())?).word(address_of(a.weight)?).word(address_of(a.bias)?);
        let list = list.word(address_of(a.mean)?).word(address_of(a.invstd)?);
        let list = list.word(address_of(a.running[0])?).word(address_of(a.running[1])?);
        let list = list.word(address_of(a.grads[0])?).word(address_of(a.grads[1])?);
        let list = list.word(address(&coefficients)?).int(a.per).int(a.train.into()).int(a.dense.into());
        Ok(list.number(a.momentum).number(a.eps))
    };
    let state = if a.g.is_some() { "Dots" } else { "Moments" };
    let text = |name: &str| named(CHANNELS, &format!("CHANNELS(k, {own}, {}, {state})", param.0), name);
    let which = |second: u8| Which(state, 0, [x.dtype() as u8, param.1 as u8, second, 0]);
    let shape =
        Shape { blocks: (groups * parts).clamp(1, 1 << 20) as u32, threads: (threads * results) as u32 };
    launch(d, which(0), || text("k"), shape, list()?)?;
    if parts > 1 {
        let shape = Shape { blocks: c.clamp(1, 1 << 16) as u32, threads: 32 };
        launch(d, which(1), || text("k_parts"), shape, list()?)?;
    }
    Ok(coefficients)
}
/// The elements of rows of `l` by coefficients of `c` rows: `f` is the formula in kernels/norm/channels.cuh.
struct Elements<'a> {
    f: &'static str,
    x: &'a Tensor,
    g: Option<&'a Tensor>,
    c: i64,
    l: i64,
    coefficients: Option<&'a Tensor>,
    weight: Option<&'a Tensor>,
    mean: Option<&'a Tensor>,
    invstd: Option<&'a Tensor>,
    per: i64,
    channels: i64,
    eps: f64,
}
fn write_elements(a: &Elements, out: &Tensor, own: &str, param: (&str, DType)) -> Result<()> {
    let n = out.numel();
    let list = Args::new().word(address(out)?).word(address(a.x)?).word(address_of(a.g)?);
    let list = list.int(a.l).int(a.c).int(n).word(quotient(a.l)).word(address_of(a.coefficients)?);
    let list = list.word(address_of(a.weight)?).word(address_of(a.mean)?).word(address_of(a.invstd)?);
    let list = list.int(a.per).int(a.channels).number(a.eps);
    let which = Which(a.f, 0, [out.dtype() as u8, param.1 as u8, 0, 0]);
    let text = || text(CHANNELS, &format!("NORM_ELEMENTS(k, {}, {own}, {})", a.f, param.0));
    let packs = up(n, 16 / out.dtype().size() as i64);
    launch(ordinal(out.device())?, which, text, shape(packs), list)
}
/// `[N, C, *]` as samples, channels, places.
fn places(x: &Tensor) -> [i64; 3] {
    let s = x.sizes();
    [s[0], s[1], s[2..].iter().product()]
}
fn batch_norm_train(a: &args::BatchNormTrain, [y, mean, invstd]: [&Tensor; 3]) -> Result<()> {
    use flambeau_core::MemoryFormat::{ChannelsLast, ChannelsLast3d};
    const LABEL: &str = "batch_norm";
    let all =
        [Some(mean.dtype()), dtype(a.weight), dtype(a.bias), dtype(a.running_mean), dtype(a.running_var)];
    let (own, param, p) = elements(LABEL, a.input.dtype(), &all)?;
    let [n, c, l] = places(a.input);
    if c == 0 {
        return Ok(());
    }
    if n * l == 0 {
        return batch_norm_of_nothing(a, mean, invstd);
    }
    let (x, w, b) = (dense(a.input)?, dense_opt(a.weight)?, dense_opt(a.bias)?);
    let (rm, rv) = (dense_opt(a.running_mean)?, dense_opt(a.running_var)?);
    let formats = [ChannelsLast, ChannelsLast3d];
    let lies_dense = a.input.is_contiguous() || formats.iter().any(|f| a.input.is_contiguous_format(*f));
    let all = Channels {
        x: &x,
        g: None,
        sizes: [n, c, l],
        weight: w.as_ref(),
        bias: b.as_ref(),
        mean: Some(mean),
        invstd: Some(invstd),
        running: [rm.as_ref(), rv.as_ref()],
        grads: [None; 2],
        per: 0,
        train: true,
        dense: lies_dense,
        momentum: a.momentum,
        eps: a.eps,
    };
    let coefficients = channels(&all, own, (param, p))?;
    written(a.running_mean, rm.as_ref())?;
    written(a.running_var, rv.as_ref())?;
    let e = Elements {
        f: "Forward",
        x: &x,
        g: None,
        c,
        l,
        coefficients: Some(&coefficients),
        weight: None,
        mean: None,
        invstd: None,
        per: 0,
        channels: 0,
        eps: a.eps,
    };
    write_elements(&e, y, own, (param, p))
}
/// No elements: means and variances are NaN, and the running ones become so.
fn batch_norm_of_nothing(a: &args::BatchNormTrain, mean: &Tensor, invstd: &Tensor) -> Result<()> {
    fill(&[Some(mean), Some(invstd)], f64::NAN)?;
    fill(&[a.running_mean, a.running_var], f64::NAN)
}
fn batch_norm_eval(a: &args::BatchNormEval, [y, _, _]: [&Tensor; 3]) -> Result<()> {
    const LABEL: &str = "batch_norm";
    let all = [dtype(a.running_mean), dtype(a.running_var), dtype(a.weight), dtype(a.bias)];
    let (own, param, p) = elements(LABEL, a.input.dtype(), &all)?;
    let [_, c, l] = places(a.input);
    if y.numel() == 0 {
        return Ok(());
    }
    let (x, w, b) = (dense(a.input)?, dense_opt(a.weight)?, dense_opt(a.bias)?);
    let (rm, rv) = (dense_opt(a.running_mean)?, dense_opt(a.running_var)?);
    let e = Elements {
        f: "Evaluate",
        x: &x,
        g: None,
        c,
        l,
        coefficients: b.as_ref(),
        weight: w.as_ref(),
        mean: rm.as_ref(),
        invstd: rv.as_ref(),
        per: 0,
        channels: 0,
        eps: a.eps,
    };
    write_elements(&e, y, own, (param, p))
}
fn batch_norm_backward(a: &args::NativeBatchNormBackward, grads: &[Option<&Tensor>]) -> Result<()> {
    const LABEL: &str = "batch_norm_backward";
    let statistics = if a.train { (a.save_mean, a.save_invstd) } else { (a.running_mean, a.running_var) };
    let (Some(mean), Some(spread)) = statistics else { return Ok(()) };
    let all = [Some(mean.dtype()), Some(spread.dtype()), dtype(a.weight), dtype(grads[1]), dtype(grads[2])];
    // statistics of another precision than the parameters' are read as they are
    let (mean, spread) = match dtype(a.weight).or(dtype(grads[1])).or(dtype(grads[2])) {
        Some(d) if all.iter().flatten().any(|o| *o != d) => {
            (super::dense::cast(mean, d)?, super::dense::cast(spread, d)?)
        }
        _ => (dense(mean)?, dense(spread)?),
    };
    let all = [Some(mean.dtype()), Some(spread.dtype()), dtype(a.weight), dtype(grads[1]), dtype(grads[2])];
    let (own, param, p) = elements(LABEL, a.input.dtype(), &all)?;
    let [n, c, l] = places(a.input);
    if c == 0 {
        return Ok(());
    }
    if n * l == 0 {
        return fill(&grads[1..], 0.0);
    }
    let (g, x, w) = (dense(a.grad_out)?, dense(a.input)?, dense_opt(a.weight)?);
    let all = Channels {
        x: &x,
        g: Some(&g),
        sizes: [n, c, l],
        weight: w.as_ref(),
        bias: None,
        mean: Some(&mean),
        invstd: Some(&spread),
        running: [None; 2],
        grads: [grads[1], grads[2]],
        per: 0,
        train: a.train,
        dense: false,
        momentum: 0.0,
        eps: a.eps,
    };
    let coefficients = channels(&all, own, (param, p))?;
    let Some(gx) = grads[0] else { return Ok(()) };
    let e = Elements {
        f: "Backward",
        x: &x,
        g: Some(&g),
        c,
        l,
        coefficients: Some(&coefficients),
        weight: None,
        mean: None,
        invstd: None,
        per: 0,
        channels: 0,
        eps: a.eps,
    };
    write_elements(&e, gx, own, (param, p))
}
fn group_norm_backward(a: &args::NativeGroupNormBackward, grads: &[Option<&Tensor>]) -> Result<()> {
    const LABEL: &str = "GroupNormBackwardKernelImpl";
    let same = |t: &Tensor, p: DType| if t.dtype() == p { dense(t) } else { super::dense::cast(t, p) };
    let first = dtype(a.weight).or(dtype(grads[1])).or(dtype(grads[2])).unwrap_or(a.mean.dtype());
    let (mean, rstd) = (same(a.mean, first)?, same(a.rstd, first)?);
    let all = [Some(first), dtype(a.weight), dtype(grads[1]), dtype(grads[2])];
    let (own, param, p) = elements(LABEL, a.input.dtype(), &all)?;
    if a.input.numel() == 0 {
        return fill(&grads[1..], 0.0);
    }
    let (g, x, w) = (dense(a.grad_out)?, dense(a.input)?, dense_opt(a.weight)?);
    let per = a.c / a.group;
    let all = Channels {
        x: &x,
        g: Some(&g),
        sizes: [1, a.n * a.c, a.hxw],
        weight: None,
        bias: None,
        mean: Some(&mean),
        invstd: None,
        running: [None; 2],
        grads: [None; 2],
        per,
        train: true,
        dense: false,
        momentum: 0.0,
        eps: 0.0,
    };
    let sums = channels(&all, own, (param, p))?;
    let (d, compute) = (ordinal(x.device())?, wide(x.dtype()));
    let coefficients = room(2 * a.n * a.group, compute, &x)?;
    let list = || -> Result<Args> {
        let list =
            Args::new().word(address(&sums)?).word(address(&coefficients)?).word(address_of(w.as_ref())?);
        let list = list.word(address(&mean)?).word(address(&rstd)?);
        let list = list.word(address_of(grads[1])?).word(address_of(grads[2])?);
        Ok(list.int(a.n).int(a.c).int(a.group).int(per).int(a.hxw))
    };
    let text = |name: &str| named(CHANNELS, &format!("GROUP_NORM_BACKWARD(k, {own}, {param})"), name);
    let which = |second: u8| Which("group_norm_backward", 0, [x.dtype() as u8, p as u8, second, 0]);
    if let Some(gx) = grads[0] {
        let shape = Shape { blocks: up(a.n * a.group, 4).clamp(1, 1 << 16) as u32, threads: 128 };
        launch(d, which(0), || text("k"), shape, list()?)?;
        let e = Elements {
            f: "GroupBackward",
            x: &x,
            g: Some(&g),
            c: a.n * a.c,
            l: a.hxw,
            coefficients: Some(&coefficients),
            weight: w.as_ref(),
            mean: Some(&mean),
            invstd: Some(&rstd),
            per,
            channels: a.c,
            eps: 0.0,
        };
        write_elements(&e, gx, own, (param, p))?;
    }
    if grads[1].is_some() || grads[2].is_some() {
        launch(d, which(1), || text("k_parameters"), shape(a.c), list()?)?;
    }
    Ok(())
}

/// Fills the rows' tables.
pub(crate) fn register() {
    rows::BATCH_NORM_TRAIN_KERNEL.register(Key::Cuda, batch_norm_train);
    rows::BATCH_NORM_EVAL_KERNEL.register(Key::Cuda, batch_norm_eval);
    rows::NATIVE_BATCH_NORM_BACKWARD_KERNEL.register(Key::Cuda, batch_norm_backward);
    rows::NATIVE_LAYER_NORM_KERNEL.register(Key::Cuda, layer_norm);
    rows::NATIVE_LAYER_NORM_BACKWARD_KERNEL.register(Key::Cuda, layer_norm_backward);
    rows::FUSED_RMS_NORM_KERNEL.register(Key::Cuda, rms_norm);
    rows::FUSED_RMS_NORM_BACKWARD_KERNEL.register(Key::Cuda, rms_norm_backward);
    rows::FUSED_GROUP_NORM_KERNEL.register(Key::Cuda, group_norm);
    rows::NATIVE_GROUP_NORM_BACKWARD_KERNEL.register(Key::Cuda, group_norm_backward);
}
