//! Pooling over the last one to three dimensions.

mod checks;
pub(crate) mod fractional;
pub(crate) mod lp;
pub(crate) mod unpool;

use super::operands::{done, plain, us};
use crate::generated::args;
pub use crate::ops::pool::fractional::*;
pub use crate::ops::pool::lp::{lp_pool1d, lp_pool2d, lp_pool3d};
use crate::ops::pool::unpool::unpool;
use checks::*;
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::tensor::geometry::{SizeVec, fmt_sizes, wrap_dim_strict};
use flambeau_core::tensor::guards::expect_dtype;
use flambeau_core::{DType, Device, Error, MemoryFormat, Result, Tensor, bail, ensure, ops as core_ops};
use flambeau_cpu::pool::{AdaptiveShape, AvgDivisor, PoolShape, erased as kernels, planes};

fn shape(
    x: &[i64],
    kernel: &[i64],
    stride: &[i64],
    pad: &[i64],
    dilation: &[i64],
    ceil: bool,
) -> Result<PoolShape> {
    let first = x.len() - kernel.len();
    let planes: i64 = x[..first].iter().product();
    PoolShape::new(planes as usize, &us(&x[first..]), &us(kernel), &us(stride), &us(pad), &us(dilation), ceil)
        .map_err(Error::runtime)
}

/// `_max_pool`
pub fn max_pool_shape(
    &args::MaxPool { self_, kernel_size, stride, padding, dilation, ceil_mode }: &args::MaxPool,
) -> Result<[OutMeta; 2]> {
    let sizes = windows(self_.sizes(), kernel_size, stride, padding, dilation, ceil_mode, Take::Largest)?;
    Ok([
        OutMeta::new(sizes.clone(), self_.dtype(), self_.device()),
        OutMeta::new(sizes, DType::I64, self_.device()),
    ])
}
/// `_max_pool`
pub fn max_pool_cpu(
    &args::MaxPool { self_, kernel_size, stride, padding, dilation, ceil_mode }: &args::MaxPool,
    [values, indices]: [&Tensor; 2],
) -> Result<()> {
    if values.numel() == 0 {
        return Ok(());
    }
    let x = plain(self_)?;
    let s = shape(x.sizes(), kernel_size, stride, padding, dilation, ceil_mode)?;
    let a = Access::new(&[&x], &[values, indices])?;
    let plain = ["max_pool2d", "max_pool2d", "max_pool3d"][kernel_size.len() - 1];
    let last = ["max_pool2d", "max_pool2d_channels_last", "max_pool3d_channels_last"][kernel_size.len() - 1];
    let label = if channels_last(self_) { last } else { plain };
    done(kernels::max_pool(&s, a.any(0)?, a.any_mut(0)?, a.slice_mut::<i64>(1)?), label, x.dtype())
}

/// Whether PyTorch takes its loop for planes whose channels lie together, which has a name of its own.
pub(crate) fn channels_lie_together(t: &Tensor) -> bool {
    t.dim() == 4 && !t.is_contiguous() && t.is_contiguous_format(MemoryFormat::ChannelsLast)
}

/// `_adaptive_max_pool`
pub fn adaptive_max_pool_shape(
    &args::AdaptiveMaxPool { self_, output_size }: &args::AdaptiveMaxPool,
) -> Result<[OutMeta; 2]> {
    let n = output_size.len();
    ensure!((1..=3).contains(&n), Shape, "adaptive pooling: expected 1 to 3 spatial dimensions, got {n}");
    let x = self_.sizes();
    // one dimension is the second of two
    let (as_, all) = (n.max(2), planar_sizes(x, n));
    let batch = usize::from(all.len() == as_ + 2);
    let empty = (batch..all.len()).find(|d| all[*d] == 0);
    let ranked = || {
        ensure!(
            all.len() == as_ + 1 || all.len() == as_ + 2,
            Runtime,
            "adaptive_max_pool{as_}d(): Expected {}D or {}D tensor, but got: {}",
            as_ + 1,
            as_ + 2,
            fmt_sizes(&all)
        );
        Ok(())
    };
    // PyTorch asks planes for their rank before it looks for empty dimensions, volumes after that
    if as_ == 2 {
        ranked()?;
    }
    ensure!(
        empty.is_none(),
        Runtime,
        "adaptive_max_pool{as_}d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {} with dimension {} being empty",
        fmt_sizes(&all),
        empty.unwrap_or(0)
    );
    ranked()?;
    let mut sizes = SizeVec::from_slice(&x[..x.len() - n]);
    sizes.extend_from_slice(output_size);
    if let Some(d) = output_size.iter().find(|d| **d < 0) {
        let sizes = planar_sizes(&sizes, n);
        bail!(Runtime, "Trying to create tensor with negative dimension {d}: {}", fmt_sizes(&sizes));
    }
    Ok([
        OutMeta::new(sizes.clone(), self_.dtype(), self_.device()),
        OutMeta::new(sizes, DType::I64, self_.device()),
    ])
}
fn adaptive(x: &[i64], out: &[i64]) -> Result<AdaptiveShape> {
    let first = x.len() - out.len();
    let planes: i64 = x[..first].iter().product();
    AdaptiveShape::new(planes as usize, &us(&x[first..]), &us(out)).map_err(Error::runtime)
}
/// `_adaptive_max_pool`
pub fn adaptive_max_pool_cpu(
    &args::AdaptiveMaxPool { self_, output_size }: &args::AdaptiveMaxPool,
    [values, indices]: [&Tensor; 2],
) -> Result<()> {
    if values.numel() == 0 {
        return Ok(());
    }
    let x = plain(self_)?;
    let s = adaptive(x.sizes(), output_size)?;
    let a = Access::new(&[&x], &[values, indices])?;
    done(
        kernels::adaptive_max_pool(&s, a.any(0)?, a.any_mut(0)?, a.slice_mut::<i64>(1)?),
        match output_size.len() {
            1 => "adaptive_max_pool1d",
            2 if channels_lie_together(self_) => "adaptive_max_pool2d_channels_last",
            2 => "adaptive_max_pool2d",
            _ => "adaptive_max_pool3d_cpu",
        },
        x.dtype(),
    )
}

/// `_plane_scatter`
pub fn plane_scatter_shape(
    &args::PlaneScatter { self_, indices, sizes, spatial }: &args::PlaneScatter,
) -> Result<OutMeta> {
    let n = spatial as usize;
    expect_dtype(indices, DType::I64)?;
    ensure!(
        spatial >= 1 && self_.dim() == sizes.len() && n <= sizes.len() && self_.sizes() == indices.sizes(),
        Shape,
        "max pooling: sizes {} and indices {} do not fit an input of {}",
        fmt_sizes(self_.sizes()),
        fmt_sizes(indices.sizes()),
        fmt_sizes(sizes)
    );
    ensure!(
        self_.sizes()[..sizes.len() - n] == sizes[..sizes.len() - n],
        Shape,
        "max pooling: planes of {} and {} do not fit",
        fmt_sizes(self_.sizes()),
        fmt_sizes(sizes)
    );
    Ok(OutMeta::of(sizes, self_.dtype(), self_.device()))
}
/// `_plane_scatter`
pub fn plane_scatter_cpu(
    &args::PlaneScatter { self_, indices, sizes, spatial }: &args::PlaneScatter,
    out: &Tensor,
) -> Result<()> {
    let (g, i) = (plain(self_)?, plain(indices)?);
    if g.numel() == 0 {
        return core_ops::zero_(out);
    }
    let first = sizes.len() - spatial as usize;
    let planes: i64 = sizes[..first].iter().product();
    let plane: i64 = sizes[first..].iter().product();
    let a = Access::new(&[&g, &i], &[out])?;
    done(
        kernels::max_pool_backward(
            planes as usize,
            plane as usize,
            a.any(0)?,
            a.slice::<i64>(1)?,
            a.any_mut(0)?,
        ),
        "max_pool_backward",
        g.dtype(),
    )?
    .map_err(Error::runtime)
}
/// The gradients of these have no complex kernels, nor have PyTorch's operators.
fn real(x: &Tensor, name: &str) -> Result<()> {
    if x.dtype().is_complex() { Err(Error::not_implemented_for(name, x.dtype())) } else { Ok(()) }
}
/// `_plane_unpool`
pub fn plane_unpool_shape(
    &args::PlaneUnpool { self_, indices, sizes, spatial }: &args::PlaneUnpool,
) -> Result<OutMeta> {
    real(self_, &format!("max_unpool{spatial}d"))?;
    plane_scatter_shape(&args::PlaneScatter { self_, indices, sizes, spatial })
}
/// `_plane_unpool`
pub fn plane_unpool_cpu(
    &args::PlaneUnpool { self_, indices, sizes, spatial }: &args::PlaneUnpool,
    out: &Tensor,
) -> Result<()> {
    // several values may go to one place; one dimension is two to PyTorch
    let name = format!("max_unpooling{}d_forward_out", spatial.max(2));
    flambeau_core::settings::determinism::alert_not_deterministic(&name)?;
    let (x, i) = (plain(self_)?, plain(indices)?);
    if x.numel() == 0 {
        return core_ops::zero_(out);
    }
    let first = sizes.len() - spatial as usize;
    let plane: i64 = sizes[first..].iter().product();
    let each: i64 = i.sizes()[first..].iter().product();
    let a = Access::new(&[&x, &i], &[out])?;
    let idx = a.slice::<i64>(1)?;
    done(
        planes::scatter_planes(a.any(0)?, plane as usize, idx, each as usize, a.any_mut(0)?),
        "max_unpooling",
        x.dtype(),
    )?
    .map_err(|e| {
        Error::runtime(format!(
            "Found an invalid max index: {} (output volumes are of size {})",
            e.0,
            if spatial == 1 { format!("{}x1", sizes[first]) } else { by(&sizes[first..]) }
        ))
    })
}
/// `_plane_gather`
pub fn plane_gather_shape(
    &args::PlaneGather { self_, indices, spatial }: &args::PlaneGather,
) -> Result<OutMeta> {
    real(self_, "max_pool_double_backward")?;
    expect_dtype(indices, DType::I64)?;
    let first = self_.dim().wrapping_sub(spatial as usize);
    ensure!(
        (1..=self_.dim() as i64).contains(&spatial)
            && indices.dim() == self_.dim()
            && self_.sizes()[..first] == indices.sizes()[..first],
        Shape,
        "max pooling: indices {} do not fit an input of {}",
        fmt_sizes(indices.sizes()),
        fmt_sizes(self_.sizes())
    );
    Ok(OutMeta::of(indices.sizes(), self_.dtype(), self_.device()))
}
/// `_plane_gather`
pub fn plane_gather_cpu(
    &args::PlaneGather { self_, indices, spatial }: &args::PlaneGather,
    out: &Tensor,
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let (x, i) = (plain(self_)?, plain(indices)?);
    let first = x.dim() - spatial as usize;
    let plane: i64 = x.sizes()[first..].iter().product();
    let each: i64 = i.sizes()[first..].iter().product();
    let a = Access::new(&[&x, &i], &[out])?;
    let idx = a.slice::<i64>(1)?;
    done(
        planes::gather_planes(a.any(0)?, plane as usize, idx, each as usize, a.any_mut(0)?),
        "max_pool_double_backward",
        x.dtype(),
    )?
    .map_err(|_| Error::index("max pooling: index out of range"))
}

/// `_avg_pool`
pub fn avg_pool_shape(
    &args::AvgPool { self_, kernel_size, stride, padding, ceil_mode, divisor_override, .. }: &args::AvgPool,
) -> Result<OutMeta> {
    let n = kernel_size.len();
    if n == 2 {
        ensure!(divisor_override != Some(0), Runtime, "divisor must be not zero");
        wrap_dim_strict(-3, self_.dim())?;
    }
    if n == 3 {
        check_rank_3d(self_.sizes())?;
        ensure!(divisor_override != Some(0), Runtime, "divisor must be not zero");
    }
    let one = vec![1; n];
    let sizes = windows(self_.sizes(), kernel_size, stride, padding, &one, ceil_mode, Take::Mean)?;
    // of volumes PyTorch has loops for these alone, on the CPU
    let volumes = n == 3 && self_.device() == Device::Cpu;
    let counted = matches!(self_.dtype(), DType::F32 | DType::F64 | DType::I64);
    // and of images for numbers with a fraction and int64, whose lack nobody meets in an empty result elsewhere
    let images = n < 3 && self_.device() == Device::Cpu;
    let refused = images && self_.dtype().is_integral(true) && self_.dtype() != DType::I64;
    if self_.is_complex() || volumes && !counted || refused {
        let label = avg_pool_label(self_, n);
        return Err(Error::not_implemented_for(label, self_.dtype()));
    }
    Ok(OutMeta::new(sizes, self_.dtype(), self_.device()))
}
/// The kernel that PyTorch's "not implemented for" names.
fn avg_pool_label(x: &Tensor, n: usize) -> &'static str {
    match n {
        3 => "avg_pool3d_out_frame",
        2 if channels_last(x) => "avg_pool2d_channels_last",
        _ => "avg_pool2d",
    }
}
/// `_avg_pool`
pub fn avg_pool_cpu(
    &args::AvgPool { self_, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override }: &args::AvgPool,
    out: &Tensor,
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let x = plain(self_)?;
    let one = vec![1; kernel_size.len()];
    let s = shape(x.sizes(), kernel_size, stride, padding, &one, ceil_mode)?;
    let a = Access::new(&[&x], &[out])?;
    let div = AvgDivisor { count_include_pad, divisor_override };
    let label = avg_pool_label(self_, kernel_size.len());
    done(kernels::avg_pool(&s, div, a.any(0)?, a.any_mut(0)?), label, x.dtype())?.map_err(Error::runtime)
}
/// `_avg_pool_backward`
pub fn avg_pool_backward_shape(
    &args::AvgPoolBackward { grad_output, input_sizes, kernel_size, stride, padding, ceil_mode, .. }: &args::AvgPoolBackward,
) -> Result<OutMeta> {
    let one = vec![1; kernel_size.len()];
    let want = windows(input_sizes, kernel_size, stride, padding, &one, ceil_mode, Take::MeanBackward)?;
    ensure!(
        want[..] == *grad_output.sizes(),
        Shape,
        "avg_pool_backward: expected a gradient of {}, got {}",
        fmt_sizes(&want),
        fmt_sizes(grad_output.sizes())
    );
    Ok(OutMeta::of(input_sizes, grad_output.dtype(), grad_output.device()))
}
/// `_avg_pool_backward`
pub fn avg_pool_backward_cpu(
    &args::AvgPoolBackward {
        grad_output,
        input_sizes,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    }: &args::AvgPoolBackward,
    out: &Tensor,
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let g = plain(grad_output)?;
    let one = vec![1; kernel_size.len()];
    let s = shape(input_sizes, kernel_size, stride, padding, &one, ceil_mode)?;
    let a = Access::new(&[&g], &[out])?;
    let div = AvgDivisor { count_include_pad, divisor_override };
    done(kernels::avg_pool_backward(&s, div, a.any(0)?, a.any_mut(0)?), "avg_pool_backward", g.dtype())?
        .map_err(Error::runtime)
}

/// `_adaptive_avg_pool`
pub fn adaptive_avg_pool_shape(
    &args::AdaptiveAvgPool { self_, output_size }: &args::AdaptiveAvgPool,
) -> Result<OutMeta> {
    let (x, n) = (self_.sizes(), output_size.len());
    let d = self_.dtype();
    ensure!((1..=3).contains(&n), Runtime, "adaptive_avg_pool{n}d: output_size must be {n}");
    ensure!(
        output_size.iter().all(|d| *d >= 0),
        Runtime,
        "adaptive_avg_pool{}d: elements of output_size must be greater than or equal to 0 but received {{{}}}",
        n.max(2),
        output_text(output_size)
    );
    if !d.is_floating() && !d.is_complex() && output_size.iter().all(|s| *s == 1) {
        bail!(
            Unsupported,
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {}",
            d.scalar_type_name()
        );
    }
    let (as_, sizes) = (n.max(2), planar_sizes(x, n));
    let ranks = || -> Result<()> {
        ensure!(
            sizes.len() == as_ + 1 || sizes.len() == as_ + 2,
            Runtime,
            "adaptive_avg_pool{as_}d(): Expected {}D or {}D tensor, but got {}",
            as_ + 1,
            as_ + 2,
            fmt_sizes(&sizes)
        );
        Ok(())
    };
    // of volumes, the sizes come before their number
    if n < 3 {
        ranks()?;
    }
    let empty = (if n == 3 { 1 } else { sizes.len() - 2 }..sizes.len()).find(|d| sizes[*d] == 0);
    ensure!(
        empty.is_none(),
        Runtime,
        "adaptive_avg_pool{as_}d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {} with dimension {} being empty",
        fmt_sizes(&sizes),
        empty.unwrap_or(0)
    );
    ranks()?;
    if !d.is_floating() {
        let label = match n {
            3 => "adaptive_avg_pool3d_cpu",
            2 if channels_last(self_) => "adaptive_avg_pool2d_channels_last",
            _ => "adaptive_avg_pool2d",
        };
        return Err(Error::not_implemented_for(label, d));
    }
    let mut sizes = SizeVec::from_slice(&x[..x.len() - n]);
    sizes.extend_from_slice(output_size);
    Ok(OutMeta::new(sizes, self_.dtype(), self_.device()))
}
/// One window is a mean in PyTorch, which takes what windows do not: nothing, complex numbers, any number of dimensions.
/// `None` for what the windows' kernel takes.
fn overall_mean(x: &Tensor, output_size: &[i64]) -> Result<Option<Tensor>> {
    let n = output_size.len();
    let usual = x.numel() > 0 && !x.dtype().is_complex() && [n + 1, n + 2].contains(&x.dim());
    if usual || output_size.iter().any(|s| *s != 1) {
        return Ok(None);
    }
    let last: Vec<i64> = (1..=n as i64).map(|d| -d).collect();
    core_ops::mean(x, Some(&last), true, None).map(Some)
}
/// The sizes as PyTorch's message joins them, which for one dimension come from the two-dimensional form.
fn output_text(v: &[i64]) -> String {
    match v {
        [a] => format!("1, {a}"),
        [a, b] => format!("{a}, {b}"),
        [a, b, c] => format!("{a}, {b},{c}"),
        _ => String::new(),
    }
}
/// `_adaptive_avg_pool`
pub fn adaptive_avg_pool_cpu(
    &args::AdaptiveAvgPool { self_, output_size }: &args::AdaptiveAvgPool,
    out: &Tensor,
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let x = plain(self_)?;
    let s = adaptive(x.sizes(), output_size)?;
    let a = Access::new(&[&x], &[out])?;
    let label =
        ["adaptive_avg_pool2d", "adaptive_avg_pool2d", "adaptive_avg_pool3d_cpu"][output_size.len() - 1];
    done(kernels::adaptive_avg_pool(&s, a.any(0)?, a.any_mut(0)?), label, x.dtype())
}
/// `_adaptive_avg_pool_backward`
pub fn adaptive_avg_pool_backward_shape(
    &args::AdaptiveAvgPoolBackward { grad_output, input_sizes, spatial }: &args::AdaptiveAvgPoolBackward,
) -> Result<OutMeta> {
    let g = grad_output.sizes();
    ensure!(
        (1..=3).contains(&spatial)
            && g.len() == input_sizes.len()
            && g.len() > spatial as usize
            && g[..g.len() - spatial as usize] == input_sizes[..g.len() - spatial as usize],
        Shape,
        "adaptive_avg_pool_backward: a gradient of {} does not fit an input of {}",
        fmt_sizes(g),
        fmt_sizes(input_sizes)
    );
    Ok(OutMeta::of(input_sizes, grad_output.dtype(), grad_output.device()))
}
/// `_adaptive_avg_pool_backward`
pub fn adaptive_avg_pool_backward_cpu(
    &args::AdaptiveAvgPoolBackward { grad_output, input_sizes, spatial }: &args::AdaptiveAvgPoolBackward,
    out: &Tensor,
) -> Result<()> {
    let g = plain(grad_output)?;
    if g.numel() == 0 {
        return core_ops::zero_(out);
    }
    let s = adaptive(input_sizes, &g.sizes()[g.dim() - spatial as usize..])?;
    let a = Access::new(&[&g], &[out])?;
    done(
        kernels::adaptive_avg_pool_backward(&s, a.any(0)?, a.any_mut(0)?),
        "adaptive_avg_pool_backward",
        g.dtype(),
    )
}

pub(super) fn use_indices(name: &str) -> Error {
    Error::missing(format!("{name}(return_indices=True) has two results: call {name}_with_indices"))
}
macro_rules! pools {
    ($($n:literal $max:ident $max_with:ident $avg:ident ($($div:ident)?) $aavg:ident $amax:ident $amax_with:ident $unpool:ident),*) => {$(
        #[doc = concat!("`", stringify!($max), "`")]
        pub fn $max(input: &Tensor, kernel_size: &[i64], stride: Option<&[i64]>, padding: &[i64], dilation: &[i64],
            ceil_mode: bool, return_indices: bool) -> Result<Tensor> {
            if return_indices {
                return Err(use_indices(stringify!($max)));
            }
            if $n == 1 {
                check_max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)?;
            }
            super::$max_with(input, kernel_size, stride, padding, dilation, ceil_mode, true).map(|r| r.0)
        }
        #[doc = concat!("`", stringify!($max_with), "`")]
        pub fn $max_with(input: &Tensor, kernel_size: &[i64], stride: Option<&[i64]>, padding: &[i64], dilation: &[i64],
            ceil_mode: bool, _return_indices: bool) -> Result<(Tensor, Tensor)> {
            if $n == 1 {
                check_rank_1d(input, stringify!($max))?;
            }
            let [k, s, p, d] = options(stringify!($max), $n, kernel_size, stride, padding, dilation)?;
            super::max_pool(input, &k, &s, &p, &d, ceil_mode)
        }
        #[doc = concat!("`", stringify!($avg), "`")]
        pub fn $avg(input: &Tensor, kernel_size: &[i64], stride: Option<&[i64]>, padding: &[i64], ceil_mode: bool,
            count_include_pad: bool, $($div: Option<i64>)?) -> Result<Tensor> {
            if $n == 1 {
                check_rank_1d(input, stringify!($avg))?;
            }
            let [k, s, p, _] = options(stringify!($avg), $n, kernel_size, stride, padding, &[1])?;
            let div = [None::<i64>, $($div)?];
            super::avg_pool(input, &k, &s, &p, ceil_mode, count_include_pad, div[div.len() - 1])
        }
        #[doc = concat!("`", stringify!($aavg), "`")]
        pub fn $aavg(input: &Tensor, output_size: &[i64]) -> Result<Tensor> {
            if $n == 1 {
                check_rank_1d(input, stringify!($aavg))?;
            }
            let size = adaptive_size(stringify!($aavg), $n, output_size, ": ")?;
            match overall_mean(input, &size)? {
                Some(mean) => Ok(mean),
                None => super::adaptive_avg_pool(input, &size),
            }
        }
        #[doc = concat!("`", stringify!($amax), "`")]
        pub fn $amax(input: &Tensor, output_size: &[i64], return_indices: bool) -> Result<Tensor> {
            if return_indices {
                return Err(use_indices(stringify!($amax)));
            }
            super::$amax_with(input, output_size, true).map(|r| r.0)
        }
        #[doc = concat!("`", stringify!($amax_with), "`")]
        pub fn $amax_with(input: &Tensor, output_size: &[i64], _return_indices: bool) -> Result<(Tensor, Tensor)> {
            if $n == 1 {
                check_rank_1d(input, stringify!($amax))?;
            }
            let size = adaptive_size(stringify!($amax), $n, output_size, "(): internal error: ")?;
            super::adaptive_max_pool(input, &size)
        }
        #[doc = concat!("`", stringify!($unpool), "`")]
        pub fn $unpool(input: &Tensor, indices: &Tensor, kernel_size: &[i64], stride: Option<&[i64]>, padding: &[i64],
            output_size: Option<&[i64]>) -> Result<Tensor> {
            unpool(stringify!($unpool), $n, input, indices, kernel_size, stride, padding, output_size)
        }
    )*};
}
pools!(
    1 max_pool1d max_pool1d_with_indices avg_pool1d () adaptive_avg_pool1d adaptive_max_pool1d
        adaptive_max_pool1d_with_indices max_unpool1d,
    2 max_pool2d max_pool2d_with_indices avg_pool2d (divisor_override) adaptive_avg_pool2d adaptive_max_pool2d
        adaptive_max_pool2d_with_indices max_unpool2d,
    3 max_pool3d max_pool3d_with_indices avg_pool3d (divisor_override) adaptive_avg_pool3d adaptive_max_pool3d
        adaptive_max_pool3d_with_indices max_unpool3d
);
