//! Max pooling over windows at pseudo-random places (Graham 2015).

use crate::generated::args;
use crate::ops::operands::{cast, done, per_dim, plain};
use crate::ops::pool::use_indices;
use flambeau_core::backend::out::OutMeta;
use flambeau_core::internal::Access;
use flambeau_core::tensor::geometry::{SizeVec, fmt_sizes, wrap_dim_strict};
use flambeau_core::{DType, Error, Result, Tensor, bail, ensure, ops as core_ops};
use flambeau_cpu::engine::room::room;
use flambeau_cpu::pool::fractional as kernels;

/// Rows and columns as messages name them, and how they name the operator.
fn names(n: usize) -> (&'static [&'static str], String) {
    if n == 2 {
        (&["height", "width"], "fractional_max_pool2d()".into())
    } else {
        (&["time", "height", "width"], "fractional_max_pool3d_out()".into())
    }
}
fn by(v: &[i64]) -> String {
    v.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
}

/// `_fractional_max_pool`
pub fn fractional_max_pool_shape(
    &args::FractionalMaxPool { self_, kernel_size, output_size, random_samples }: &args::FractionalMaxPool,
) -> Result<[OutMeta; 2]> {
    let (x, n) = (self_.sizes(), kernel_size.len());
    ensure!(matches!(n, 2 | 3) && output_size.len() == n, Shape, "fractional pooling: 2 or 3 dimensions");
    let (axes, name) = names(n);
    ensure!(
        kernel_size.iter().all(|k| *k > 0),
        Runtime,
        "fractional_max_pool{n}d(): kernel size should be greater than zero, but got {}",
        by(kernel_size)
    );
    ensure!(
        x.len() == n + 1 || x.len() == n + 2,
        Runtime,
        "{name}: Expected {}D or {}D tensor, but got: {}",
        n + 1,
        n + 2,
        fmt_sizes(x)
    );
    let batch = usize::from(x.len() == n + 2);
    for (d, size) in x.iter().enumerate().skip(batch) {
        ensure!(
            *size > 0,
            Runtime,
            "{name}: Expected input to have non-zero size for non-batch dimensions, but got{} with dimension {d} being empty.",
            fmt_sizes(x)
        );
    }
    let first = batch + 1;
    for d in 0..n {
        ensure!(
            // in space there must be one more
            output_size[d].saturating_add(kernel_size[d] - 1).saturating_add(i64::from(n == 3))
                <= x[first + d],
            Runtime,
            "{name}: pool {} {} too large relative to input {} {}",
            axes[d],
            kernel_size[d],
            axes[d],
            x[first + d]
        );
        ensure!(
            output_size[d] >= 0,
            Runtime,
            "Trying to create tensor with negative dimension {}: {}",
            output_size[d],
            fmt_sizes(&[&x[..first], output_size].concat())
        );
    }
    let r = random_samples;
    ensure!(r.dtype() == self_.dtype(), Runtime, "Expect _random_samples to have the same dtype as input");
    ensure!(r.dim() == 3, Runtime, "Expect _random_samples to have 3 dimensions, got {}", r.dim());
    let (rows, channels) = if batch == 1 { (x[0], x[1]) } else { (1, x[0]) };
    ensure!(r.sizes()[0] >= rows, Runtime, "Expect _random_samples.size(0) no less then input batch size.");
    ensure!(
        r.sizes()[1] == channels,
        Runtime,
        "Expect _random_samples.size(1) equals to input channel size."
    );
    ensure!(
        r.sizes()[2] == n as i64,
        Runtime,
        "Expect _random_samples.size(2) equals to {n}; got {}.",
        r.sizes()[2]
    );
    let mut sizes = SizeVec::from_slice(&x[..first]);
    sizes.extend_from_slice(output_size);
    let device = self_.device();
    Ok([OutMeta::of(&sizes, self_.dtype(), device), OutMeta::of(&sizes, DType::I64, device)])
}

/// Where the windows start: steps of `room / (out - 1)` from a random phase, the last one at the end. PyTorch computes in
/// the input's dtype, so every step is rounded to it.
fn starts(phase: f64, input: i64, out: i64, kernel: i64, round: fn(f64) -> f64) -> Vec<usize> {
    let last = input - kernel;
    let mut all: Vec<usize> = room(out.max(0) as usize);
    if out > 1 {
        let alpha = round(round(last as f64) / round((out - 1) as f64));
        let at = |i: i64| round(round(round(i as f64) + phase) * alpha) as i64;
        let zero = round(phase * alpha) as i64;
        all.extend((0..out - 1).map(|i| (at(i) - zero).clamp(0, last) as usize));
    }
    if out > 0 {
        all.push(last as usize);
    }
    all
}
fn rounding(d: DType) -> fn(f64) -> f64 {
    match d {
        DType::F16 => |v| flambeau_dtype::f16_::from_f64(v).to_f64(),
        DType::BF16 => |v| flambeau_dtype::bf16_::from_f64(v).to_f64(),
        DType::F32 => |v| f64::from(v as f32),
        _ => |v| v,
    }
}

/// `_fractional_max_pool`
pub fn fractional_max_pool_cpu(
    &args::FractionalMaxPool { self_, kernel_size, output_size, random_samples }: &args::FractionalMaxPool,
    [values, indices]: [&Tensor; 2],
) -> Result<()> {
    let n = kernel_size.len();
    let label = if n == 2 { "fractional_max_pool2d_out_frame" } else { "fractional_max_pool3d_out_frame" };
    if !self_.dtype().is_floating() {
        return Err(Error::not_implemented_for(label, self_.dtype()));
    }
    if values.numel() == 0 {
        return Ok(());
    }
    let x = plain(self_)?;
    let phases = cast(random_samples, DType::F64)?.try_to_vec::<f64>()?;
    let first = x.dim() - n;
    let planes: i64 = x.sizes()[..first].iter().product();
    let round = rounding(x.dtype());
    // the samples of a plane are for width, height (2D); time, height, width (3D)
    let sample = |d: usize| if n == 2 { 1 - d } else { d };
    let windows: Vec<Vec<Vec<usize>>> = (0..planes as usize)
        .map(|p| {
            let axis = |d| {
                starts(phases[p * n + sample(d)], x.sizes()[first + d], output_size[d], kernel_size[d], round)
            };
            (0..n).map(axis).collect()
        })
        .collect();
    let space: Vec<usize> = x.sizes()[first..].iter().map(|d| *d as usize).collect();
    let kernel: Vec<usize> = kernel_size.iter().map(|d| *d as usize).collect();
    let a = Access::new(&[&x], &[values, indices])?;
    let (v, i) = (a.any_mut(0)?, a.slice_mut::<i64>(1)?);
    done(kernels::max(a.any(0)?, &space, &kernel, &windows, v, i), label, x.dtype())
}

/// The sizes and the samples of a call.
#[allow(clippy::type_complexity)]
fn with_indices(
    n: usize,
    input: &Tensor,
    kernel_size: &[i64],
    output_size: Option<&[i64]>,
    output_ratio: Option<&[f64]>,
    random_samples: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    let name = format!("fractional_max_pool{n}d");
    let size =
        |d: usize| -> Result<i64> { Ok(input.sizes()[wrap_dim_strict(d as i64 - n as i64, input.dim())?]) };
    let out: SizeVec = match (output_size, output_ratio) {
        (Some(s), _) => SizeVec::from_slice(s),
        (None, None) => bail!(Value, "{name} requires specifying either an output_size or an output_ratio"),
        (None, Some(r)) => {
            ensure!(
                r.len() <= n || n == 3,
                Value,
                "{name} requires output_ratio to either be a single Int or tuple of Ints."
            );
            ensure!(r.len() >= n, Index, "tuple index out of range");
            (0..n).map(|d| size(d).map(|s| (s as f64 * r[d]) as i64)).collect::<Result<_>>()?
        }
    };
    let drawn;
    let samples = match random_samples {
        Some(s) => s,
        None => {
            let size = |d: i64| Ok::<_, Error>(input.sizes()[wrap_dim_strict(d, input.dim())?]);
            let batch = if input.dim() == n + 1 { 1 } else { size(0)? };
            let channels = size(-1 - n as i64)?;
            drawn = core_ops::rand(
                &[batch, channels, n as i64],
                None,
                Some(input.dtype()),
                None,
                Some(input.device()),
                None,
            )?;
            &drawn
        }
    };
    let ints = |v: &[i64], what: &str| {
        per_dim(v, n, &name, what).map_err(|_| {
            let ints = if n == 3 { "three Ints" } else { "Ints" };
            Error::runtime(format!("{name}: {what} must either be a single Int or tuple of {ints}"))
        })
    };
    let kernel = ints(kernel_size, "kernel_size")?;
    crate::ops::fractional_max_pool(input, &kernel, &ints(&out, "output_size")?, samples)
}

/// `fractional_max_pool3d` with one ratio for all dimensions.
pub fn fractional_max_pool3d_by(
    input: &Tensor,
    kernel_size: &[i64],
    output_size: Option<&[i64]>,
    output_ratio: Option<f64>,
    return_indices: bool,
    random_samples: Option<&Tensor>,
) -> Result<Tensor> {
    let ratio = output_ratio.map(|r| [r; 3]);
    let ratio = ratio.as_ref().map(|r| &r[..]);
    fractional_max_pool3d(input, kernel_size, output_size, ratio, return_indices, random_samples)
}
/// `fractional_max_pool3d_with_indices` with one ratio for all dimensions.
pub fn fractional_max_pool3d_with_indices_by(
    input: &Tensor,
    kernel_size: &[i64],
    output_size: Option<&[i64]>,
    output_ratio: Option<f64>,
    _return_indices: bool,
    random_samples: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    let ratio = output_ratio.map(|r| [r; 3]);
    with_indices(3, input, kernel_size, output_size, ratio.as_ref().map(|r| &r[..]), random_samples)
}
macro_rules! forms {
    ($($n:literal $plain:ident $with:ident;)*) => {$(
        #[doc = concat!("`", stringify!($plain), "`")]
        pub fn $plain(
            input: &Tensor,
            kernel_size: &[i64],
            output_size: Option<&[i64]>,
            output_ratio: Option<&[f64]>,
            return_indices: bool,
            random_samples: Option<&Tensor>,
        ) -> Result<Tensor> {
            if return_indices {
                return Err(use_indices(stringify!($plain)));
            }
            with_indices($n, input, kernel_size, output_size, output_ratio, random_samples).map(|r| r.0)
        }
        #[doc = concat!("`", stringify!($with), "`")]
        pub fn $with(
            input: &Tensor,
            kernel_size: &[i64],
            output_size: Option<&[i64]>,
            output_ratio: Option<&[f64]>,
            _return_indices: bool,
            random_samples: Option<&Tensor>,
        ) -> Result<(Tensor, Tensor)> {
            with_indices($n, input, kernel_size, output_size, output_ratio, random_samples)
        }
    )*};
}
forms! {
    2 fractional_max_pool2d fractional_max_pool2d_with_indices;
    3 fractional_max_pool3d fractional_max_pool3d_with_indices;
}
