//! Convolutions. Three bilinear operators over one geometry are closed under differentiation: the convolution itself and
//! its gradients for input and weight.

use super::operands::{cast, cpp_type, done, per_dim, plain, plain_opt, us};
use crate::generated::args;
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::tensor::geometry::{SizeVec, fmt_sizes};
use flambeau_core::{DType, Error, Result, Tensor, bail, ensure, ops as core_ops};
use flambeau_cpu::conv::ConvShape;
use flambeau_cpu::conv::erased as kernels;

fn same_type(input: &Tensor, other: Option<&Tensor>, what: &str) -> Result<()> {
    match other {
        Some(o) if o.dtype() != input.dtype() => bail!(
            Runtime,
            "Input type ({}) and {what} type ({}) should be the same",
            cpp_type(input.dtype()),
            cpp_type(o.dtype())
        ),
        _ => Ok(()),
    }
}

/// Whether PyTorch gives the convolution to oneDNN, which says differences of dtypes in words of its own.
fn by_onednn(a: &args::Convolution, stride: &[i64], extra: &[i64]) -> bool {
    let (x, w) = (a.input.sizes(), a.weight.sizes());
    // one dimension is the second of two
    let (rows, columns) = (if w.len() == 3 { 1 } else { w[w.len() - 2] }, w[w.len() - 1]);
    let large = x.iter().take(4).try_fold(1i64, |n, s| n.checked_mul(*s)).is_none_or(|n| n > 20_480);
    let big_extra = a.transposed && extra.iter().zip(stride).any(|(e, s)| e >= s);
    !big_extra
        && match a.input.dtype() {
            DType::BF16 => true,
            DType::F32 => a.groups > 1 || (columns > 3 && rows > 3) || x[0] > 1 || large,
            _ => false,
        }
}
fn differ(x: DType, o: DType, what: &str, end: &str) -> Error {
    let legacy = super::embedding::legacy_type;
    Error::runtime(format!(
        "Input type ({}) and {what} type ({}) should be the same{end}",
        legacy(x),
        legacy(o)
    ))
}
/// Products of complex numbers are made of real ones, after a check of their own.
fn complex_alike(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    let others = [Some((weight, "weight")), bias.map(|b| (b, "bias"))];
    match others.into_iter().flatten().find(|(o, _)| input.is_complex() && o.dtype() != input.dtype()) {
        Some((o, what)) => Err(differ(input.dtype(), o.dtype(), what, "")),
        None => Ok(()),
    }
}
/// Types of weight and bias that are not the input's: the check of the chosen kernel.
fn same_types(a: &args::Convolution, onednn: bool, label: &str) -> Result<()> {
    let x = a.input.dtype();
    let others = [(a.weight.dtype(), "weight")].into_iter().chain(a.bias.map(|b| (b.dtype(), "bias")));
    for (o, what) in others {
        if o == x {
            continue;
        }
        if onednn {
            let end = format!(" or input should be a MKLDNN tensor and {what} is a dense tensor");
            return Err(differ(x, o, what, &end));
        }
        if x.is_complex() && (!o.is_complex() || what == "bias") {
            return Err(differ(x, o, what, ""));
        }
        let small = matches!(x, DType::U8 | DType::I8 | DType::I16 | DType::I32);
        if x == DType::Bool || (small && (label == DILATED || a.transposed)) {
            return Err(Error::not_implemented_for(label, x));
        }
        match what {
            "weight" => bail!(
                Runtime,
                "expected scalar type {} but found {}",
                x.scalar_type_name(),
                o.scalar_type_name()
            ),
            // it is copied into the result before the products are added
            _ if !a.transposed => {}
            // in three dimensions it is read as the input's type
            _ if a.weight.dim() == 5 => bail!(
                Runtime,
                "expected scalar type {} but found {}",
                x.scalar_type_name(),
                o.scalar_type_name()
            ),
            // it is added to the result of a transposed convolution, whatever its precision
            _ if x.is_floating() && o.is_floating() => {}
            _ => bail!(
                Runtime,
                "result type {} can't be cast to the desired output type {}",
                flambeau_core::iter::promotion::promote_types(x, o)?.scalar_type_name(),
                x.scalar_type_name()
            ),
        }
    }
    Ok(())
}
/// The weight of a gradient, as [`same_types`].
fn same_weight(input: &Tensor, weight: &Tensor) -> Result<()> {
    let (x, w) = (input.dtype(), weight.dtype());
    ensure!(
        x == w,
        Runtime,
        "expected scalar type {} but found {}",
        x.scalar_type_name(),
        w.scalar_type_name()
    );
    Ok(())
}

/// A number for each dimension of the weight.
fn for_dims(v: &[i64], n: usize, what: &str) -> Result<SizeVec> {
    match v.len() {
        l if l == n => Ok(SizeVec::from_slice(v)),
        1 => Ok(SizeVec::from_elem(v[0], n)),
        _ => bail!(
            Runtime,
            "expected {what} to be a single integer value or a list of {n} values to match the convolution dimensions, \
             but got {what}={}",
            fmt_sizes(v)
        ),
    }
}

/// "2 x 3"
fn times(v: impl Iterator<Item = i64>) -> String {
    v.map(|d| d.to_string()).collect::<Vec<_>>().join(" x ")
}

/// Output sizes, after the checks that PyTorch makes, in its order.
pub fn convolution_shape(all: &args::Convolution) -> Result<OutMeta> {
    let &args::Convolution {
        input,
        weight,
        bias,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
    } = all;
    let (x, w) = (input.sizes(), weight.sizes());
    ensure!(w.len() > 2, Runtime, "weight should have at least three dimensions");
    ensure!(groups > 0, Runtime, "non-positive groups is not supported");
    let n = w.len() - 2;
    let stride = for_dims(stride, n, "stride")?;
    let padding = for_dims(padding, n, "padding")?;
    let dilation = for_dims(dilation, n, "dilation")?;
    let extra = for_dims(output_padding, n, "output_padding")?;
    ensure!(padding.iter().all(|p| *p >= 0), Runtime, "negative padding is not supported");
    ensure!(extra.iter().all(|p| *p >= 0), Runtime, "negative output_padding is not supported");
    ensure!(stride.iter().all(|p| *p > 0), Runtime, "non-positive stride is not supported");
    ensure!(dilation.iter().all(|p| *p >= 0), Runtime, "dilation should be greater than zero");
    ensure!(
        x.len() == w.len(),
        Runtime,
        "Expected {0}-dimensional input for {0}-dimensional weight {1}, but got {2}-dimensional input of size {3} instead",
        w.len(),
        fmt_sizes(w),
        x.len(),
        fmt_sizes(x)
    );
    ensure!(w.len() <= 5, Runtime, "convolution: expected 1 to 3 spatial dimensions, got {n}");
    ensure!(
        w[0] >= groups,
        Runtime,
        "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {} instead",
        fmt_sizes(w)
    );
    ensure!(
        w[0] % groups == 0,
        Runtime,
        "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size [{}] instead",
        fmt_sizes(w)
    );
    let given = if transposed { format!("Given transposed={}", 1) } else { format!("Given groups={groups}") };
    let (channels, out) = if transposed { (w[0], w[1] * groups) } else { (w[1] * groups, w[0]) };
    ensure!(
        x[1] == channels,
        Runtime,
        "{given}, weight of size {}, expected input{} to have {channels} channels, but got {} channels instead",
        fmt_sizes(w),
        fmt_sizes(x),
        x[1]
    );
    if let Some(b) = bias {
        ensure!(
            b.sizes() == [out],
            Runtime,
            "{}, expected bias to be 1-dimensional with {out} elements, but got bias of size {} instead",
            if transposed {
                format!("Given transposed=1, weight of size {}", fmt_sizes(w))
            } else {
                format!("Given weight of size {}", fmt_sizes(w))
            },
            fmt_sizes(b.sizes())
        );
    }
    if !transposed {
        let reach = |d: usize| dilation[d].saturating_mul(w[d + 2] - 1).saturating_add(1);
        let room = |d: usize| padding[d].saturating_mul(2).saturating_add(x[d + 2]);
        // what is beyond all numbers is told below
        let fits = |d: usize| room(d) >= reach(d) || reach(d) == i64::MAX;
        ensure!(
            (0..n).all(fits),
            Runtime,
            "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than actual input size",
            times((0..n).map(room)),
            times((0..n).map(reach))
        );
    }
    ensure!(
        w[2..].iter().all(|k| *k > 0),
        Runtime,
        "kernel size should be greater than zero, but got{}",
        if n == 3 && !transposed {
            format!(": {} (TxHxW)", times(w[2..].iter().copied()))
        } else {
            format!(" {}", by_axis("kernel", &w[2..], 1, " "))
        }
    );
    let onednn = by_onednn(all, &stride, &extra);
    if onednn {
        same_types(all, true, "")?;
    }
    if transposed {
        ensure!(
            dilation.iter().all(|d| *d > 0),
            Runtime,
            "dilation should be greater than zero, but got {}",
            by_axis("dilation", &dilation, 1, ", ")
        );
        ensure!(
            (0..n).all(|d| extra[d] < stride[d].max(dilation[d])),
            Runtime,
            "output padding must be smaller than either stride or dilation, but got {} {} {}",
            by_axis("output_padding", &extra, 0, " "),
            by_axis("stride", &stride, 1, " "),
            by_axis("dilation", &dilation, 1, " ")
        );
        ensure!(
            x[0] == 0 || x[1] == 0 || x[2..].iter().all(|s| *s > 0),
            Runtime,
            "Only zero batch or zero channel inputs are supported, but got input shape: {}",
            fmt_sizes(&[&x[..2], one(n), &x[2..]].concat())
        );
    }
    ensure!(!onednn || dilation.iter().all(|p| *p > 0), Runtime, "non-positive dilation is not supported");
    // zero is found here, of transposed convolutions above
    ensure!(
        dilation.iter().all(|p| *p > 0),
        Runtime,
        "dilation should be greater than zero, but got {}",
        fmt_sizes(&[one(n), &dilation].concat())
    );
    let mut sizes = SizeVec::from_slice(&[x[0], out]);
    for d in 0..n {
        let reach = dilation[d].checked_mul(w[d + 2] - 1).and_then(|r| r.checked_add(1));
        let reach = reach.ok_or_else(|| Error::runtime("convolution: dilation is too large"))?;
        let room = padding[d].checked_mul(2).and_then(|p| p.checked_add(x[d + 2]));
        let room = room.ok_or_else(|| {
            Error::runtime(format!(
                "Given padding={} at dimension {d} , expected padding to be at most {}",
                padding[d],
                i64::MAX / 2
            ))
        })?;
        if transposed {
            let full = (x[d + 2] - 1).checked_mul(stride[d]).and_then(|s| s.checked_add(reach + extra[d]));
            let full = full.ok_or_else(|| Error::runtime("convolution: stride is too large"))?;
            sizes.push(full - 2 * padding[d]);
        } else {
            sizes.push((room - reach) / stride[d] + 1);
        }
    }
    if transposed {
        // oneDNN makes an empty result
        let least = i64::from(!onednn);
        ensure!(
            sizes[2..].iter().all(|s| *s >= least),
            Runtime,
            "Given input size per channel: ({}). Calculated output size per channel: ({}). Output size is too small",
            times(one(n).iter().chain(&x[2..]).copied()),
            times(one(n).iter().chain(&sizes[2..]).copied())
        );
    }
    same_types(all, onednn, label(all))?;
    Ok(OutMeta::new(sizes, input.dtype(), input.device()))
}
const DILATED: &str = "slow_conv_dilated<>";
/// The kernel that PyTorch's "not implemented for" names.
fn label(a: &args::Convolution) -> &'static str {
    let w = a.weight.sizes();
    let all = |v: &[i64], n: i64| v.iter().all(|d| *d == n);
    match (a.transposed, w.len()) {
        (true, 5) => "slow_conv_transpose3d_out_cpu",
        (true, _) => "slow_conv_transpose2d_out_cpu",
        (false, _) if !all(a.dilation, 1) => DILATED,
        // points need no columns
        (false, 5) if all(&w[2..], 1) && all(a.stride, 1) && all(a.padding, 0) => "slow_conv3d_cpu",
        (false, 5) => "compute_columns3d",
        (false, _) => "slow_conv2d_cpu",
    }
}

/// What PyTorch puts before the sizes of one dimension, which it treats as the second of two.
fn one(n: usize) -> &'static [i64] {
    if n == 1 { &[1] } else { &[] }
}
/// "stride_height: 1 stride_width: 2"; `first` is the height where there is only one dimension.
fn by_axis(what: &str, v: &[i64], first: i64, between: &str) -> String {
    let all = if v.len() == 1 { vec![first, v[0]] } else { v.to_vec() };
    let names = &["depth", "height", "width"][3 - all.len()..];
    let each = names.iter().zip(&all).map(|(name, v)| format!("{what}_{name}: {v}"));
    each.collect::<Vec<_>>().join(between)
}

/// The geometry with `x` on the input side and `y` on the output side; all sizes were checked before.
fn shape(
    x: &[i64],
    y: &[i64],
    w: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<ConvShape> {
    let n = w.len() - 2;
    let list = |v: &[i64], what: &str| per_dim(v, n, "convolution", what).map(|v| us(&v));
    let (stride, padding, dilation) =
        (list(stride, "stride")?, list(padding, "padding")?, list(dilation, "dilation")?);
    let head = (x[0] as usize, x[1] as usize, y[1] as usize, groups as usize);
    // sizes come in pairs that fit already; `output` may be smaller than the formula's where `x` is the larger of
    // several inputs with the same output
    ConvShape::between(head, &us(&x[2..]), &us(&y[2..]), &us(&w[2..]), &stride, &padding, &dilation)
        .map_err(Error::runtime)
}

/// Whether PyTorch computes a transposed convolution of 16-bit numbers by columns of that width: what oneDNN does not take.
fn columns_are_rounded(a: &args::Convolution) -> bool {
    let extra = |stride: &[i64], d: usize, v: &[i64]| {
        v[if v.len() == 1 { 0 } else { d }] >= stride[if stride.len() == 1 { 0 } else { d }]
    };
    a.transposed
        && match a.input.dtype() {
            DType::F16 => true,
            DType::BF16 => (0..a.weight.dim() - 2).any(|d| extra(a.stride, d, a.output_padding)),
            _ => false,
        }
}
/// A transposed convolution whose products are rounded before they are added, one place of the kernel after the other.
fn by_rounded_columns(a: &args::Convolution, out: &Tensor) -> Result<()> {
    let (x, w) = (a.input.sizes(), a.weight.sizes());
    let n = w.len() - 2;
    let list = |v: &[i64], what: &str| per_dim(v, n, "convolution", what);
    let (stride, padding, dilation) =
        (list(a.stride, "stride")?, list(a.padding, "padding")?, list(a.dilation, "dilation")?);
    let (of, to, groups) = (w[0] / a.groups, w[1], a.groups);
    let kernel: i64 = w[2..].iter().product();
    let places: i64 = x[2..].iter().product();
    core_ops::zero_(out)?;
    for g in 0..groups {
        let weight = core_ops::reshape(&core_ops::narrow(a.weight, 0, g * of, of)?, &[of, to * kernel])?;
        let input = core_ops::reshape(&core_ops::narrow(a.input, 1, g * of, of)?, &[x[0], of, places])?;
        let columns = core_ops::matmul(&core_ops::transpose(&weight, 0, 1)?, &input)?;
        let mut sizes = SizeVec::from_slice(&[x[0], to, kernel]);
        sizes.extend_from_slice(&x[2..]);
        let columns = core_ops::reshape(&columns, &sizes)?;
        let image = core_ops::narrow(out, 1, g * to, to)?;
        'places: for k in 0..kernel {
            let (mut from, mut into) = (core_ops::select(&columns, 2, k)?, image.clone());
            let mut rest = k;
            for d in (0..n).rev() {
                let shift = rest % w[d + 2] * dilation[d] - padding[d];
                rest /= w[d + 2];
                // positions i with 0 <= i * stride + shift < the image's extent
                let low = if shift < 0 { (-shift + stride[d] - 1) / stride[d] } else { 0 };
                let room = out.sizes()[d + 2] - shift;
                let high = if room <= 0 { 0 } else { ((room - 1) / stride[d] + 1).min(x[d + 2]) };
                if low >= high {
                    continue 'places;
                }
                let (axis, start) = (d as i64 + 2, low * stride[d] + shift);
                from = core_ops::narrow(&from, axis, low, high - low)?;
                let end = start + (high - low - 1) * stride[d] + 1;
                into = core_ops::slice(&into, axis, Some(start), Some(end), stride[d])?;
            }
            core_ops::add_(&into, &from, flambeau_core::Scalar::Int(1))?;
        }
    }
    if let Some(bias) = a.bias {
        let mut sizes = SizeVec::from_elem(1, n + 1);
        sizes[0] = bias.numel();
        core_ops::add_(out, &core_ops::reshape(bias, &sizes)?, flambeau_core::Scalar::Int(1))?;
    }
    Ok(())
}

/// `convolution`
pub fn convolution_cpu(all: &args::Convolution, out: &Tensor) -> Result<()> {
    let &args::Convolution { input, weight, bias, stride, padding, dilation, transposed, groups, .. } = all;
    if out.numel() > 0 && columns_are_rounded(all) {
        return by_rounded_columns(all, out);
    }
    let bias = bias.map(|b| cast(b, input.dtype())).transpose()?;
    let (x, w, b) = (plain(input)?, plain(weight)?, plain_opt(bias.as_ref())?);
    if out.numel() == 0 {
        return Ok(());
    }
    let mut ins = vec![&x, &w];
    ins.extend(&b);
    let a = Access::new(&ins, &[out])?;
    let bias = b.as_ref().map(|_| a.any(2)).transpose()?;
    let (xs, ys) = if transposed { (out.sizes(), x.sizes()) } else { (x.sizes(), out.sizes()) };
    let s = shape(xs, ys, w.sizes(), stride, padding, dilation, groups)?;
    let r = if transposed {
        kernels::transposed(&s, a.any(0)?, a.any(1)?, bias, a.any_mut(0)?)
    } else {
        kernels::forward(&s, a.any(0)?, a.any(1)?, bias, a.any_mut(0)?)
    };
    done(r, label(all), x.dtype())
}

/// Shapes of a gradient: everything was checked in the forward call, but by-name callers may pass anything.
fn check_grad(
    x: &[i64],
    y: &[i64],
    w: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<()> {
    let n = w.len().wrapping_sub(2);
    ensure!(
        (1..=3).contains(&n) && x.len() == n + 2 && y.len() == n + 2 && groups > 0,
        Shape,
        "convolution gradient: expected 1 to 3 spatial dimensions, the same everywhere"
    );
    let all = [stride, padding, dilation];
    ensure!(
        all.iter().all(|v| v.len() == n),
        Shape,
        "convolution gradient: one stride, padding and dilation per spatial dimension"
    );
    ensure!(
        x[0] == y[0] && w[0] == y[1] && w[1] * groups == x[1] && w[0] % groups == 0,
        Shape,
        "convolution gradient: sizes {}, {} and {} do not fit",
        fmt_sizes(x),
        fmt_sizes(y),
        fmt_sizes(w)
    );
    for d in 0..n {
        let bounded = |v: i64, low: i64| (low..=i32::MAX as i64).contains(&v);
        ensure!(
            bounded(stride[d], 1) && bounded(padding[d], 0) && bounded(dilation[d], 1) && w[d + 2] > 0,
            Shape,
            "convolution gradient: stride {}, padding {}, dilation {} of dimension {d}",
            stride[d],
            padding[d],
            dilation[d]
        );
        let reach = dilation[d].saturating_mul(w[d + 2] - 1).saturating_add(1);
        let room = x[d + 2].saturating_add(2 * padding[d]);
        ensure!(
            room >= reach && (room - reach) / stride[d] + 1 == y[d + 2],
            Shape,
            "convolution gradient: sizes {}, {} and {} do not fit in dimension {d}",
            fmt_sizes(x),
            fmt_sizes(y),
            fmt_sizes(w)
        );
    }
    Ok(())
}

/// `_convolution_input_grad`
pub fn convolution_input_grad_shape(
    &args::ConvolutionInputGrad { grad_output, weight, input_sizes, stride, padding, dilation, groups }: &args::ConvolutionInputGrad,
) -> Result<OutMeta> {
    check_grad(input_sizes, grad_output.sizes(), weight.sizes(), stride, padding, dilation, groups)?;
    same_weight(grad_output, weight)?;
    Ok(OutMeta::of(input_sizes, grad_output.dtype(), grad_output.device()))
}
/// `_convolution_input_grad`
pub fn convolution_input_grad_cpu(
    &args::ConvolutionInputGrad { grad_output, weight, input_sizes, stride, padding, dilation, groups }: &args::ConvolutionInputGrad,
    out: &Tensor,
) -> Result<()> {
    let (g, w) = (plain(grad_output)?, plain(weight)?);
    if out.numel() == 0 {
        return Ok(());
    }
    let a = Access::new(&[&g, &w], &[out])?;
    let s = shape(input_sizes, g.sizes(), w.sizes(), stride, padding, dilation, groups)?;
    done(kernels::backward_input(&s, a.any(0)?, a.any(1)?, a.any_mut(0)?), "convolution_backward", g.dtype())
}
/// `_convolution_weight_grad`
pub fn convolution_weight_grad_shape(
    &args::ConvolutionWeightGrad { grad_output, input, weight_sizes, stride, padding, dilation, groups }: &args::ConvolutionWeightGrad,
) -> Result<OutMeta> {
    check_grad(input.sizes(), grad_output.sizes(), weight_sizes, stride, padding, dilation, groups)?;
    same_type(grad_output, Some(input), "input")?;
    Ok(OutMeta::of(weight_sizes, grad_output.dtype(), grad_output.device()))
}
/// `_convolution_weight_grad`
pub fn convolution_weight_grad_cpu(
    &args::ConvolutionWeightGrad { grad_output, input, weight_sizes, stride, padding, dilation, groups }: &args::ConvolutionWeightGrad,
    out: &Tensor,
) -> Result<()> {
    let (g, x) = (plain(grad_output)?, plain(input)?);
    if out.numel() == 0 {
        return Ok(());
    }
    if g.numel() == 0 || x.numel() == 0 {
        return core_ops::zero_(out);
    }
    let a = Access::new(&[&x, &g], &[out])?;
    let s = shape(x.sizes(), g.sizes(), weight_sizes, stride, padding, dilation, groups)?;
    done(kernels::backward_weight(&s, a.any(0)?, a.any(1)?, a.any_mut(0)?), "convolution_backward", g.dtype())
}

/// The input with a batch dimension, and whether it had none.
fn batched(name: &str, n: usize, input: &Tensor) -> Result<(Tensor, bool)> {
    match input.dim() {
        d if d == n + 2 => Ok((input.clone(), false)),
        d if d == n + 1 => Ok((core_ops::unsqueeze(input, 0)?, true)),
        _ => bail!(
            Runtime,
            "Expected {}D (unbatched) or {}D (batched) input to {name}, but got input of size: {}",
            n + 1,
            n + 2,
            fmt_sizes(input.sizes())
        ),
    }
}
fn unbatched(out: Tensor, was: bool) -> Result<Tensor> {
    if was { core_ops::squeeze_dim(&out, 0) } else { Ok(out) }
}

/// Pads in a mode other than zeros; `pad` is the padding of both sides per spatial dimension.
fn padded(input: &Tensor, pad: &[i64], mode: &str) -> Result<Tensor> {
    let both: Vec<i64> = pad.iter().rev().flat_map(|p| [*p, *p]).collect();
    super::pad(input, &both, mode, None)
}

fn conv_nd(
    name: &str,
    n: usize,
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    groups: i64,
    padding_mode: &str,
) -> Result<Tensor> {
    if padding_mode != "zeros" {
        let x = padded(input, &per_dim(padding, n, name, "padding")?, padding_mode)?;
        let none = &[0; 3][..n];
        return conv_nd(name, n, &x, weight, bias, stride, none, dilation, groups, "zeros");
    }
    same_type(input, bias, "bias")?;
    let (x, single) = batched(name, n, input)?;
    complex_alike(input, weight, bias)?;
    // numbers stand for all dimensions of the function; what the weight's dimensions want is checked below
    let wide = |v: &[i64]| if v.len() == 1 { SizeVec::from_elem(v[0], n) } else { SizeVec::from_slice(v) };
    let (stride, dilation) = (&wide(stride)[..], &wide(dilation)[..]);
    let out = super::convolution(&x, weight, bias, stride, &wide(padding), dilation, false, &[0], groups)?;
    unbatched(out, single)
}

fn conv_text_padding(
    name: &str,
    n: usize,
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &str,
    dilation: &[i64],
    groups: i64,
    padding_mode: &str,
) -> Result<Tensor> {
    let (x, single) = batched(name, n, input)?;
    complex_alike(input, weight, bias)?;
    let none = [0i64; 3];
    let zero = &none[..n];
    if padding == "valid" {
        let wide =
            |v: &[i64]| if v.len() == 1 { SizeVec::from_elem(v[0], n) } else { SizeVec::from_slice(v) };
        let (stride, dilation) = (&wide(stride)[..], &wide(dilation)[..]);
        let out = super::convolution(&x, weight, bias, stride, zero, dilation, false, zero, groups)?;
        return unbatched(out, single);
    }
    ensure!(padding == "same", Runtime, "Invalid padding string: '{padding}'");
    ensure!(weight.dim() > 2, Runtime, "weight should have at least three dimensions");
    ensure!(
        weight.dim() == x.dim(),
        Runtime,
        "Expected {0}-dimensional input for {0}-dimensional weight{1}, but got {2}-dimensional input of size {3} instead",
        weight.dim(),
        fmt_sizes(weight.sizes()),
        x.dim(),
        fmt_sizes(x.sizes())
    );
    let each = |v: &[i64], what: &str| match v.len() {
        1 => Ok(SizeVec::from_elem(v[0], n)),
        l if l == n => Ok(SizeVec::from_slice(v)),
        _ => bail!(Runtime, "{what} cannot broadcast to {n} dimensions"),
    };
    let (stride, dilation) = (each(stride, "stride")?, each(dilation, "dilation")?);
    ensure!(
        stride.iter().all(|s| *s == 1),
        Runtime,
        "padding='same' is not supported for strided convolutions"
    );
    let (mut left, mut pad, mut even) = (SizeVec::new(), Vec::new(), true);
    for d in 0..n {
        let total = dilation[d].saturating_mul(weight.sizes()[d + 2] - 1);
        left.push(total / 2);
        even &= total % 2 == 0;
        pad.splice(0..0, [total / 2, total - total / 2]);
    }
    ensure!(
        padding_mode != "zeros" || left.iter().all(|p| *p >= 0),
        Runtime,
        "negative padding is not supported"
    );
    let out = if even && padding_mode == "zeros" {
        super::convolution(&x, weight, bias, &stride, &left, &dilation, false, zero, groups)?
    } else {
        let mode = if padding_mode == "zeros" { "constant" } else { padding_mode };
        let x = super::pad(&x, &pad, mode, None)?;
        super::convolution(&x, weight, bias, &stride, zero, &dilation, false, zero, groups)?
    };
    unbatched(out, single)
}

macro_rules! convolutions {
    ($($n:literal $conv:ident $text:ident $transposed:ident),*) => {$(
        #[doc = concat!("`", stringify!($conv), "`")]
        pub fn $conv(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>, stride: &[i64], padding: &[i64], dilation: &[i64],
            groups: i64, padding_mode: &str) -> Result<Tensor> {
            conv_nd(stringify!($conv), $n, input, weight, bias, stride, padding, dilation, groups, padding_mode)
        }
        #[doc = concat!("`", stringify!($conv), ".padding`")]
        pub fn $text(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>, stride: &[i64], padding: &str, dilation: &[i64],
            groups: i64, padding_mode: &str) -> Result<Tensor> {
            conv_text_padding(stringify!($conv), $n, input, weight, bias, stride, padding, dilation, groups, padding_mode)
        }
        #[doc = concat!("`", stringify!($transposed), "`")]
        pub fn $transposed(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>, stride: &[i64], padding: &[i64],
            output_padding: &[i64], groups: i64, dilation: &[i64]) -> Result<Tensor> {
            let (x, single) = batched(stringify!($transposed), $n, input)?;
            complex_alike(input, weight, bias)?;
            let wide = |v: &[i64]| if v.len() == 1 { SizeVec::from_elem(v[0], $n) } else { SizeVec::from_slice(v) };
            let (s, p, d, o) = (wide(stride), wide(padding), wide(dilation), wide(output_padding));
            let cast_bias;
            let bias = match bias {
                Some(b) if b.dtype() != x.dtype() => {
                    // it is added afterwards, so its precision may be another
                    convolution_shape(&args::Convolution {
                        input: &x, weight, bias, stride: &s, padding: &p, dilation: &d, transposed: true,
                        output_padding: &o, groups,
                    })?;
                    cast_bias = cast(b, x.dtype())?;
                    Some(&cast_bias)
                }
                other => other,
            };
            unbatched(super::convolution(&x, weight, bias, &s, &p, &d, true, &o, groups)?, single)
        }
    )*};
}
convolutions!(1 conv1d conv1d_padding conv_transpose1d, 2 conv2d conv2d_padding conv_transpose2d,
    3 conv3d conv3d_padding conv_transpose3d);

/// `conv_tbc`
pub fn conv_tbc(self_: &Tensor, weight: &Tensor, bias: &Tensor, pad: i64) -> Result<Tensor> {
    ensure!(self_.dim() == 3, Runtime, "Input must have 3 dims: time, batch, in_channel");
    ensure!(
        weight.dim() == 3,
        Runtime,
        "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels."
    );
    ensure!(bias.dim() == 1, Runtime, "Bias must be 1-D");
    let x = core_ops::permute(self_, &[1, 2, 0])?;
    let w = core_ops::permute(weight, &[2, 1, 0])?;
    let y = super::convolution(&x, &w, Some(bias), &[1], &[pad], &[1], false, &[0], 1)?;
    core_ops::permute(&y, &[2, 0, 1])
}
