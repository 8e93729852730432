//! Pooling over one to three dimensions, its inverse, and the gradients.

use super::dense::{dense, floats, quotient, text, wide};
use super::{Args, Which, address, element, launch, opaque, shape};
use crate::device::ordinal;
use crate::fault;
use flambeau_core::backend::matrices;
use flambeau_core::internal::RawTensor as _;
use flambeau_core::settings::determinism;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Error, Result, Tensor, ops};
use flambeau_cpu::pool::PoolShape;
use flambeau_nn_functional::generated::{args, pool as rows};

const WINDOWS: &str = "pool/windows.cuh";
const PLANES: &str = "pool/planes.cuh";

/// Three numbers, the missing first ones being `v`.
fn three(list: &[i64], v: i64) -> [i64; 3] {
    let missing = 3 - list.len().min(3);
    std::array::from_fn(|d| d.checked_sub(missing).and_then(|i| list.get(i)).copied().unwrap_or(v))
}
/// What kernels of windows get.
struct Windows<'a> {
    y: &'a Tensor,
    index: Option<&'a Tensor>,
    x: &'a Tensor,
    input: [i64; 3],
    kernel: [i64; 3],
    stride: [i64; 3],
    pad: [i64; 3],
    dilation: [i64; 3],
    output: [i64; 3],
    include_pad: bool,
    divisor: Option<i64>,
    threads: i64,
    /// Whether threads are counted by inputs.
    by_inputs: bool,
}
impl<'a> Windows<'a> {
    fn new(x: &'a Tensor, y: &'a Tensor, n: usize, by_inputs: bool) -> Windows<'a> {
        let last = |t: &Tensor| three(&t.sizes()[t.dim() - n..], 1);
        let (input, output) = if by_inputs { (last(y), last(x)) } else { (last(x), last(y)) };
        Windows {
            y,
            index: None,
            x,
            input,
            kernel: [1; 3],
            stride: [1; 3],
            pad: [0; 3],
            dilation: [1; 3],
            output,
            include_pad: false,
            divisor: None,
            threads: 1,
            by_inputs,
        }
    }
    fn args(&self) -> Result<Args> {
        let extent = if self.by_inputs { self.input } else { self.output };
        let n = self.y.numel();
        let planes = n / extent.iter().product::<i64>().max(1);
        let list = Args::new().word(address(self.y)?).word(super::dense::address_of(self.index)?);
        let mut list = list.word(address(self.x)?).int(n).int(planes);
        for v in [self.input, self.kernel, self.stride, self.pad, self.dilation, self.output] {
            list = v.iter().fold(list, |l, v| l.int(*v));
        }
        list = extent.iter().fold(list, |l, v| l.word(quotient(*v)));
        let list = list.int(self.include_pad.into()).int(self.divisor.is_some().into());
        Ok(list.int(self.divisor.unwrap_or(1)).int(self.threads))
    }
    /// Launches a kernel of kernels/pool/windows.cuh.
    fn run(&self, f: &'static str, label: &str, kind: &'static str) -> Result<()> {
        let d = self.x.dtype();
        let own = element(d).filter(|_| self.y.dtype() == d);
        let own = own.ok_or_else(|| Error::not_implemented_for(label, d))?;
        if self.y.numel() == 0 {
            return Ok(());
        }
        let text = || text(WINDOWS, &format!("{kind}(k, {f}, {own})"));
        let which = Which(f, 0, [d as u8, 0, 0, 0]);
        launch(ordinal(self.y.device())?, which, text, shape(self.y.numel() * self.threads), self.args()?)
    }
}
/// The checks that the CPU's kernel makes.
fn check(x: &[i64], kernel: &[i64], stride: &[i64], pad: &[i64], dilation: &[i64], ceil: bool) -> Result<()> {
    let us = |v: &[i64]| v.iter().map(|d| *d as usize).collect::<Vec<_>>();
    let first = x.len() - kernel.len();
    let planes: i64 = x[..first].iter().product();
    let all = [kernel, stride, pad, dilation].map(us);
    PoolShape::new(planes as usize, &us(&x[first..]), &all[0], &all[1], &all[2], &all[3], ceil)
        .map(drop)
        .map_err(Error::runtime)
}
fn max_pool(a: &args::MaxPool, [values, indices]: [&Tensor; 2]) -> Result<()> {
    let (n, d) = (a.kernel_size.len(), a.self_.dtype());
    if values.numel() == 0 {
        return Ok(());
    }
    let last = by_channels(a.self_);
    let label = match n {
        3 if last => "max_pool3d_channels_last",
        3 => "max_pool3d",
        2 if last => "max_pool2d_channels_last",
        _ => "max_pool2d",
    };
    if d.is_complex() || matches!(d, DType::Bool | DType::U64) {
        return Err(Error::not_implemented_for(label, d));
    }
    check(a.self_.sizes(), a.kernel_size, a.stride, a.padding, a.dilation, a.ceil_mode)?;
    let x = dense(a.self_)?;
    let w = Windows {
        index: Some(indices),
        kernel: three(a.kernel_size, 1),
        stride: three(a.stride, 1),
        pad: three(a.padding, 0),
        dilation: three(a.dilation, 1),
        ..Windows::new(&x, values, n, false)
    };
    w.run("max_pool", label, "POOL")
}
/// Whether channels lie side by side, which the words of errors tell.
fn by_channels(x: &Tensor) -> bool {
    use flambeau_core::MemoryFormat::{ChannelsLast, ChannelsLast3d};
    let format = if x.dim() == 5 { ChannelsLast3d } else { ChannelsLast };
    x.dim() >= 4 && !x.is_contiguous() && x.is_contiguous_format(format)
}
/// Averages are of floats and of int64.
fn averaged(d: DType, label: &str) -> Result<()> {
    if d == DType::I64 { Ok(()) } else { floats(label, d).map(drop) }
}
fn avg_pool(a: &args::AvgPool, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let n = a.kernel_size.len();
    let label = match n {
        3 => "avg_pool3d_out_frame",
        2 if by_channels(a.self_) => "avg_pool2d_channels_last",
        _ => "avg_pool2d",
    };
    averaged(a.self_.dtype(), label)?;
    let one = [1; 3];
    check(a.self_.sizes(), a.kernel_size, a.stride, a.padding, &one[..n], a.ceil_mode)?;
    divisor(a.divisor_override)?;
    let x = dense(a.self_)?;
    let w = Windows {
        kernel: three(a.kernel_size, 1),
        stride: three(a.stride, 1),
        pad: three(a.padding, 0),
        include_pad: a.count_include_pad,
        divisor: a.divisor_override,
        ..Windows::new(&x, out, n, false)
    };
    w.run("avg_pool", label, "POOL")
}
fn divisor(given: Option<i64>) -> Result<()> {
    if given == Some(0) { Err(Error::runtime("divisor must be not zero")) } else { Ok(()) }
}
fn avg_pool_backward(a: &args::AvgPoolBackward, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let n = a.kernel_size.len();
    averaged(a.grad_output.dtype(), "avg_pool_backward")?;
    let one = [1; 3];
    check(a.input_sizes, a.kernel_size, a.stride, a.padding, &one[..n], a.ceil_mode)?;
    divisor(a.divisor_override)?;
    let g = dense(a.grad_output)?;
    let w = Windows {
        kernel: three(a.kernel_size, 1),
        stride: three(a.stride, 1),
        pad: three(a.padding, 0),
        include_pad: a.count_include_pad,
        divisor: a.divisor_override,
        ..Windows::new(&g, out, n, true)
    };
    w.run("avg_pool_backward", "avg_pool_backward", "POOL")
}
/// Lanes of a window: large ones have a warp.
fn lanes(w: Windows) -> Windows {
    let each = |d: usize| w.input[d] / w.output[d].max(1);
    Windows { threads: if each(0) * each(1) * each(2) >= 64 { 32 } else { 1 }, ..w }
}
fn adaptive_avg_pool(a: &args::AdaptiveAvgPool, out: &Tensor) -> Result<()> {
    let n = a.output_size.len();
    let label = if n == 3 { "adaptive_avg_pool3d_cpu" } else { "adaptive_avg_pool2d" };
    floats(label, a.self_.dtype())?;
    let x = dense(a.self_)?;
    lanes(Windows::new(&x, out, n, false)).run("adaptive_avg_pool", label, "ADAPTIVE_POOL")
}
fn adaptive_avg_pool_backward(a: &args::AdaptiveAvgPoolBackward, out: &Tensor) -> Result<()> {
    const LABEL: &str = "adaptive_avg_pool_backward";
    floats(LABEL, a.grad_output.dtype())?;
    if a.grad_output.numel() == 0 {
        return ops::zero_(out);
    }
    let g = dense(a.grad_output)?;
    Windows::new(&g, out, a.spatial as usize, true).run(LABEL, LABEL, "POOL")
}
fn adaptive_max_pool(a: &args::AdaptiveMaxPool, [values, indices]: [&Tensor; 2]) -> Result<()> {
    let n = a.output_size.len();
    let label = format!("adaptive_max_pool{n}d");
    if values.numel() == 0 {
        return Ok(());
    }
    floats(&label, a.self_.dtype())?;
    let x = dense(a.self_)?;
    let w = lanes(Windows::new(&x, values, n, false));
    Windows { index: Some(indices), ..w }.run("adaptive_max_pool", &label, "ADAPTIVE_POOL")
}
fn fractional_max_pool(a: &args::FractionalMaxPool, [values, indices]: [&Tensor; 2]) -> Result<()> {
    let (n, d) = (a.kernel_size.len(), a.self_.dtype());
    let label = if n == 2 { "fractional_max_pool2d_out_frame" } else { "fractional_max_pool3d_out_frame" };
    let own = floats(label, d)?;
    if values.numel() == 0 {
        return Ok(());
    }
    let (x, samples) = (dense(a.self_)?, dense(a.random_samples)?);
    let w = Windows {
        index: Some(indices),
        kernel: three(a.kernel_size, 1),
        ..Windows::new(&x, values, n, false)
    };
    let list = w.args()?.word(address(&samples)?).int(n as i64);
    let text = || text(WINDOWS, &format!("FRACTIONAL_POOL(k, {own})"));
    let which = Which("fractional_max_pool", 0, [d as u8, 0, 0, 0]);
    launch(ordinal(x.device())?, which, text, shape(values.numel()), list)
}

/// Elements by positions in planes: `each` positions of a plane, whose extents these are.
struct Planes<'a> {
    out: &'a Tensor,
    x: &'a Tensor,
    index: &'a Tensor,
    each: i64,
    plane: &'a [i64],
}
impl Planes<'_> {
    fn run(&self, f: &'static str, own: &str, key: u8, fault: u64) -> Result<()> {
        let (d, n) = (ordinal(self.out.device())?, self.index.numel());
        let list = Args::new().word(address(self.out)?).word(address(self.x)?).word(address(self.index)?);
        let list = list.int(n).int(self.each).int(self.plane.iter().product()).word(quotient(self.each));
        // of three extents the last two share a number
        let [a, b] = match self.plane {
            [a] => [*a, 1],
            [a, b] => [*a, *b],
            [a, b, c] => [*a, b << 32 | c],
            _ => [0, 0],
        };
        let list = list.word(fault::place(d)?).word(fault).int(a).int(b);
        launch(
            d,
            Which(f, 0, [key, 0, 0, 0]),
            || text(PLANES, &format!("PLANES(k, {f}, {own})")),
            shape(n),
            list,
        )
    }
}
fn plane_scatter(a: &args::PlaneScatter, out: &Tensor) -> Result<()> {
    const OUTSIDE: &str = "max pooling backward: found an invalid max index: {index} (input plane of {size})";
    let d = a.self_.dtype();
    let own = floats("max_pool_backward", d)?;
    ops::zero_(out)?;
    let (g, index) = (dense(a.self_)?, dense(a.indices)?);
    if g.numel() == 0 {
        return Ok(());
    }
    let first = a.sizes.len() - a.spatial as usize;
    let each = index.sizes()[first..].iter().product();
    let plane = [a.sizes[first..].iter().product()];
    let planes = |out, x| Planes { out, x, index: &index, each, plane: &plane };
    let fault = fault::refusal(OUTSIDE);
    if determinism::are_deterministic_algorithms_enabled() {
        let keys = Tensor::empty_raw(&[index.numel()], DType::I64, out.device())?;
        planes(&keys, &g).run("plane_keys", own, d as u8, fault)?;
        return super::embedding::add_sorted(&keys, &g, out, [1, -1], false);
    }
    if wide(d) == d {
        return planes(out, &g).run("plane_scatter", own, d as u8, fault);
    }
    let sums = Tensor::zeros_raw(out.sizes(), wide(d), out.device())?;
    planes(&sums, &g).run("plane_scatter", own, d as u8, fault)?;
    matrices::write(out, &sums)
}
fn plane_unpool(a: &args::PlaneUnpool, out: &Tensor) -> Result<()> {
    // several values may go to one place; one dimension is two to PyTorch
    determinism::alert_not_deterministic(&format!("max_unpooling{}d_forward_out", a.spatial.max(2)))?;
    ops::zero_(out)?;
    let (x, index) = (dense(a.self_)?, dense(a.indices)?);
    if x.numel() == 0 {
        return Ok(());
    }
    let first = a.sizes.len() - a.spatial as usize;
    let each = index.sizes()[first..].iter().product();
    let fault = match a.spatial {
        3 => "Found an invalid max index: {index} (output volumes are of size {dim}x{high}x{low})",
        _ => "Found an invalid max index: {index} (output volumes are of size {dim}x{size})",
    };
    let size = x.dtype().size();
    Planes { out, x: &x, index: &index, each, plane: &a.sizes[first..] }.run(
        "plane_unpool",
        opaque(size),
        size as u8,
        fault::refusal(fault),
    )
}
fn plane_gather(a: &args::PlaneGather, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let (x, index) = (dense(a.self_)?, dense(a.indices)?);
    let first = x.dim() - a.spatial as usize;
    let each = index.sizes()[first..].iter().product();
    let size = x.dtype().size();
    Planes { out, x: &x, index: &index, each, plane: &x.sizes()[first..] }.run(
        "plane_gather",
        opaque(size),
        size as u8,
        fault::number("max pooling: index out of range"),
    )
}

/// Fills the rows' tables.
pub(crate) fn register() {
    rows::MAX_POOL_KERNEL.register(Key::Cuda, max_pool);
    rows::ADAPTIVE_MAX_POOL_KERNEL.register(Key::Cuda, adaptive_max_pool);
    rows::PLANE_SCATTER_KERNEL.register(Key::Cuda, plane_scatter);
    rows::PLANE_UNPOOL_KERNEL.register(Key::Cuda, plane_unpool);
    rows::PLANE_GATHER_KERNEL.register(Key::Cuda, plane_gather);
    rows::AVG_POOL_KERNEL.register(Key::Cuda, avg_pool);
    rows::AVG_POOL_BACKWARD_KERNEL.register(Key::Cuda, avg_pool_backward);
    rows::ADAPTIVE_AVG_POOL_KERNEL.register(Key::Cuda, adaptive_avg_pool);
    rows::ADAPTIVE_AVG_POOL_BACKWARD_KERNEL.register(Key::Cuda, adaptive_avg_pool_backward);
    rows::FRACTIONAL_MAX_POOL_KERNEL.register(Key::Cuda, fractional_max_pool);
}
