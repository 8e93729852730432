//! Searches in sorted rows, histograms, counts of numbers.

use super::text;
use crate::driver::Shape;
use crate::kernels::{Args, Which, address, by_the_cpu, cast, dense, element, launch, shape};
use crate::{device, fault};
use flambeau_core::backend::{matrices, transfer};
use flambeau_core::generated::{args, sorting};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Result, Scalar, Tensor, ensure, ops};

fn searched(bounds: &Tensor, x: &Tensor, right: bool, sorter: Option<&Tensor>, out: &Tensor) -> Result<bool> {
    if out.numel() == 0 {
        return Ok(true);
    }
    let common = flambeau_core::iter::promotion::result_type(&[bounds, x])?;
    let Some(own) = element(common) else { return Ok(false) };
    if !out.is_contiguous() {
        let made = Tensor::empty_raw(out.sizes(), out.dtype(), out.device())?;
        return Ok(searched(bounds, x, right, sorter, &made)? && matrices::write(out, &made).is_ok());
    }
    let (b, v) = (dense(&cast(bounds, common)?)?, dense(&cast(x, common)?)?);
    let order = sorter.map(dense).transpose()?;
    let d = device::ordinal(out.device())?;
    let width = bounds.sizes().last().copied().unwrap_or(1);
    let per_row = if bounds.dim() <= 1 { v.numel() } else { v.sizes().last().copied().unwrap_or(1) };
    let list = Args::new().word(address(&b)?).word(order.as_ref().map_or(Ok(0), address)?);
    let list = list.word(address(&v)?).word(address(out)?).int(v.numel()).int(per_row).int(width);
    let list = list.int((bounds.dim() <= 1).into()).int(right.into()).int((out.dtype() == DType::I32).into());
    let list = list.word(fault::place(d)?).word(fault::number("searchsorted"));
    let text = || text("search", &format!("SEARCH(search_k, {own})"), "search_k");
    launch(d, Which("search", 0, [common as u8, 0, 0, 0]), text, shape(v.numel()), list)?;
    Ok(true)
}
fn number(value: Scalar, like: &Tensor) -> Result<Tensor> {
    transfer::to_device(flambeau_core::tensor::wrapped_number::wrapped_number(value)?, like.device())
        .map(flambeau_core::internal::RawTensor::into_wrapped_number)
}
fn from_the_right(right: bool, side: Option<&str>) -> bool {
    right || side == Some("right")
}
fn searchsorted(a: &args::Searchsorted, out: &Tensor) -> Result<()> {
    if searched(a.sorted_sequence, a.self_, from_the_right(a.right, a.side), a.sorter, out)? {
        return Ok(());
    }
    by_the_cpu("searchsorted", &[a.sorted_sequence, a.self_], out, |t| {
        let sorter = a.sorter.map(transfer::on_host).transpose()?;
        ops::searchsorted(&t[0], &t[1], a.out_int32, a.right, a.side, sorter.as_ref())
    })
}
fn searchsorted_scalar(a: &args::SearchsortedScalar, out: &Tensor) -> Result<()> {
    let v = number(a.self_, a.sorted_sequence)?;
    if searched(a.sorted_sequence, &v, from_the_right(a.right, a.side), a.sorter, out)? {
        return Ok(());
    }
    by_the_cpu("searchsorted", &[a.sorted_sequence], out, |t| {
        let sorter = a.sorter.map(transfer::on_host).transpose()?;
        ops::searchsorted_scalar(&t[0], a.self_, a.out_int32, a.right, a.side, sorter.as_ref())
    })
}
fn bucketize(a: &args::Bucketize, out: &Tensor) -> Result<()> {
    if searched(a.boundaries, a.self_, a.right, None, out)? {
        return Ok(());
    }
    by_the_cpu("bucketize", &[a.self_, a.boundaries], out, |t| {
        ops::bucketize(&t[0], &t[1], a.out_int32, a.right)
    })
}
fn bucketize_scalar(a: &args::BucketizeScalar, out: &Tensor) -> Result<()> {
    if searched(a.boundaries, &number(a.self_, a.boundaries)?, a.right, None, out)? {
        return Ok(());
    }
    by_the_cpu("bucketize", &[a.boundaries], out, |t| {
        ops::bucketize_scalar(a.self_, &t[0], a.out_int32, a.right)
    })
}

/// Counts into the int64 zeros of `out`.
fn counted(
    kernel: &str,
    which: Which,
    [x, weights, out]: [u64; 3],
    device: usize,
    n: i64,
    bins: i64,
    ends: [f64; 2],
) -> Result<()> {
    let list = Args::new().word(x).word(weights).word(out).int(n).int(bins).number(ends[0]).number(ends[1]);
    let shape = shape(n);
    // each block goes over some elements for every bin that it adds to the others'
    let blocks = shape.blocks.min((device::processors(device)? * 4).max(1) as u32);
    launch(device, which, || text("search", kernel, "count_k"), Shape { blocks, ..shape }, list)
}
fn histc(a: &args::Histc, out: &Tensor) -> Result<()> {
    let d = a.self_.dtype();
    let Some(own) = element(d).filter(|_| matches!(d, DType::F16 | DType::BF16 | DType::F32 | DType::F64))
    else {
        return by_the_cpu("histc", &[a.self_], out, |t| ops::histc(&t[0], a.bins, a.min, a.max));
    };
    let (mut lo, mut hi) = (a.min.to_f64(), a.max.to_f64());
    let x = dense(&a.self_.alias_detached())?;
    if lo == hi && x.numel() > 0 {
        let (least, most) = ops::aminmax(&ops::flatten(&x, 0, -1)?, None, false)?;
        (lo, hi) = (least.try_item()?, most.try_item()?);
        let shown = flambeau_core::types::type_info::c_number;
        ensure!(
            lo.is_finite() && hi.is_finite(),
            Runtime,
            "torch.histc: range of [{}, {}] is not finite",
            shown(lo),
            shown(hi)
        );
    }
    if lo == hi {
        (lo, hi) = (lo - 1.0, hi + 1.0);
    }
    let counts = Tensor::zeros_raw(&[a.bins], DType::I64, out.device())?;
    if x.numel() > 0 {
        let which = Which("histogram", 0, [d as u8, 0, 0, 0]);
        let places = [address(&x)?, 0, address(&counts)?];
        let device = device::ordinal(out.device())?;
        counted(&format!("HISTOGRAM(count_k, {own})"), which, places, device, x.numel(), a.bins, [lo, hi])?;
    }
    // halves count no further than they are exact
    let most = match d {
        DType::F16 => Some(1 << 11),
        DType::BF16 => Some(1 << 8),
        _ => None,
    };
    let counts = match most {
        Some(m) => ops::clamp(&counts, None, Some(Scalar::Int(m)))?,
        None => counts,
    };
    matrices::write(out, &counts)
}
fn bincount(a: &args::Bincount) -> Result<Tensor> {
    let x = dense(&cast(a.self_, DType::I64)?)?;
    let n = x.numel();
    let mut bins = a.minlength;
    if n > 0 {
        let (least, most) = ops::aminmax(&x, None, false)?;
        let (least, most): (i64, i64) = (least.try_item()?, most.try_item()?);
        ensure!(least >= 0, Runtime, "bincount only supports 1-d non-negative integral inputs.");
        ensure!(
            most != i64::MAX,
            Runtime,
            "maximum value of input overflowed, it should be < {} but got {}",
            i64::MAX,
            i64::MAX
        );
        bins = bins.max(most + 1);
    }
    let dtype = match a.weights.map(Tensor::dtype) {
        None => DType::I64,
        Some(DType::F32) => DType::F32,
        Some(_) => DType::F64,
    };
    let out = Tensor::zeros_raw(&[bins], dtype, x.device())?;
    if n == 0 {
        return Ok(out);
    }
    let weights = a.weights.map(|w| dense(&cast(w, dtype)?)).transpose()?;
    let places = [address(&x)?, weights.as_ref().map_or(Ok(0), address)?, address(&out)?];
    let kernel = match dtype {
        DType::I64 => "COUNT_WHOLE(count_k)",
        DType::F32 => "COUNT_WEIGHTS(count_k, float)",
        _ => "COUNT_WEIGHTS(count_k, double)",
    };
    let which = Which("bincount", 0, [dtype as u8, 0, 0, 0]);
    counted(kernel, which, places, device::ordinal(x.device())?, n, bins, [0.0; 2])?;
    Ok(out)
}

/// Fills the rows' tables.
pub(super) fn register() {
    sorting::SEARCHSORTED_KERNEL.register(Key::Cuda, searchsorted);
    sorting::SEARCHSORTED_SCALAR_KERNEL.register(Key::Cuda, searchsorted_scalar);
    sorting::BUCKETIZE_KERNEL.register(Key::Cuda, bucketize);
    sorting::BUCKETIZE_SCALAR_KERNEL.register(Key::Cuda, bucketize_scalar);
    sorting::HISTC_KERNEL.register(Key::Cuda, histc);
    sorting::BINCOUNT_KERNEL.register(Key::Cuda, bincount);
}
