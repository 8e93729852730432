//! Sums, products and means.

use super::{Args, Geometry, address, by_the_cpu, element, launch};
use crate::device;
use crate::driver::Shape;
use flambeau_core::backend::matrices;
use flambeau_core::generated::{args, arithmetic, reduction};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::types::keys::Key;
use flambeau_core::{DType, Result, Tensor, ops};
use std::borrow::Cow;

/// What sums of a dtype are kept in.
pub(super) fn sum_type(d: DType) -> Option<(&'static str, DType)> {
    use DType::*;
    Some(match d {
        F16 | BF16 | F32 => ("float", F32),
        F64 => ("double", F64),
        C32 | C64 => ("Cx<float>", C64),
        C128 => ("Cx<double>", C128),
        U8 | I8 | I16 | I32 | I64 | U16 | U32 | U64 | Bool => ("i64", I64),
        _ => return None,
    })
}
/// The tensor without lazy bits, in that dtype.
fn plain(t: &Tensor, dtype: DType) -> Result<Cow<'_, Tensor>> {
    if !t.is_conj() && !t.is_neg() && t.dtype() == dtype {
        return Ok(Cow::Borrowed(t));
    }
    let own = Tensor::empty_raw(t.sizes(), dtype, t.device())?;
    matrices::write(&own, t)?;
    Ok(Cow::Owned(own))
}
/// Reduces `dims` of `x` into `out`. `false` where there is no kernel for it.
fn reduce(how: &str, x: &Tensor, dims: &[usize], out: &Tensor) -> Result<bool> {
    let (Some((sum, _)), Some(own), Some(to)) =
        (sum_type(x.dtype()), element(x.dtype()), element(out.dtype()))
    else {
        return Ok(false);
    };
    if out.is_conj() || out.is_neg() || x.dtype().is_complex() != out.dtype().is_complex() {
        return Ok(false);
    }
    if out.numel() == 0 {
        return Ok(true);
    }
    let kept: Vec<usize> = (0..x.dim()).filter(|d| !dims.contains(d)).collect();
    let (size, to_size) = (x.dtype().size() as i64, out.dtype().size() as i64);
    let of_out: Vec<i64> = match out.dim() == x.dim() {
        true => kept.iter().map(|d| out.strides()[*d] * to_size).collect(),
        false => out.strides().iter().map(|s| s * to_size).collect(),
    };
    if of_out.len() != kept.len() {
        return Ok(false);
    }
    let sizes = |list: &[usize]| list.iter().map(|d| x.sizes()[*d]).collect::<Vec<i64>>();
    let strides = |list: &[usize]| list.iter().map(|d| x.strides()[*d] * size).collect::<Vec<i64>>();
    let start = vec![address(out)?, address(x)?];
    let outer = Geometry::joined(&sizes(&kept), &[of_out, strides(&kept)], start);
    let along = Geometry::joined(&sizes(dims), &[vec![0; dims.len()], strides(dims)], vec![0, 0]);
    let (Some(outer), Some(along)) = (outer, along) else { return Ok(false) };
    let threads = (along.n.max(1) as u64).next_power_of_two().min(128) as u32;
    let shape = Shape { blocks: outer.n.clamp(1, 4096) as u32, threads };
    let source = format!(
        "#include \"reduction/reduction.cuh\"\nREDUCE(reduce_sum, Sum, {own}, {sum}, {to})\nREDUCE(reduce_prod, Prod, {own}, {sum}, {to})\n"
    );
    let name = format!("reduce_{how}");
    let args = Args::new().geometry(&outer).geometry(&along).number(0.0).number(0.0).int(0);
    launch(device::ordinal(x.device())?, &source, &name, shape, args)?;
    Ok(true)
}
/// The dimensions of a list, all where there is none.
fn dims(x: &Tensor, list: Option<&[i64]>) -> Vec<usize> {
    let all = || (0..x.dim()).collect();
    match list {
        Some(l) if !l.is_empty() => {
            let n = x.dim() as i64;
            let mut d: Vec<usize> = l.iter().map(|d| if *d < 0 { d + n } else { *d } as usize).collect();
            d.sort_unstable();
            // a single number has dimension 0 as well
            d.retain(|d| *d < x.dim());
            d
        }
        _ => all(),
    }
}
fn sum(a: &args::Sum, out: &Tensor) -> Result<()> {
    let x = plain(a.self_, a.dtype.filter(|d| *d != a.self_.dtype()).unwrap_or(a.self_.dtype()))?;
    if reduce("sum", &x, &dims(&x, a.dim), out)? {
        return Ok(());
    }
    by_the_cpu("sum", &[a.self_], out, |t| ops::sum(&t[0], a.dim, a.keepdim, a.dtype))
}
fn prod(a: &args::Prod, out: &Tensor) -> Result<()> {
    let x = plain(a.self_, a.dtype.unwrap_or(a.self_.dtype()))?;
    if reduce("prod", &x, &dims(&x, None), out)? {
        return Ok(());
    }
    by_the_cpu("prod", &[a.self_], out, |t| ops::prod(&t[0], a.dtype))
}
fn prod_dim(a: &args::ProdDim, out: &Tensor) -> Result<()> {
    let x = plain(a.self_, a.dtype.unwrap_or(a.self_.dtype()))?;
    if reduce("prod", &x, &dims(&x, Some(&[a.dim])), out)? {
        return Ok(());
    }
    by_the_cpu("prod", &[a.self_], out, |t| ops::prod_dim(&t[0], a.dim, a.keepdim, a.dtype))
}
fn mean(a: &args::Mean, out: &Tensor) -> Result<()> {
    let d = a.dtype.unwrap_or(a.self_.dtype());
    let x = plain(a.self_, d)?;
    let list = dims(&x, a.dim);
    if let Some((_, kept_in)) = sum_type(d).filter(|s| s.1 != DType::I64) {
        let sums = Tensor::empty_raw(out.sizes(), kept_in, out.device())?;
        if reduce("sum", &x, &list, &sums)? {
            let n: i64 = list.iter().map(|d| x.sizes()[*d]).product();
            let count = flambeau_core::backend::transfer::to_device(
                Tensor::from_slice(&[n as f64], [0i64; 0]),
                out.device(),
            )?;
            use flambeau_core::backend::pointwise::pointwise_typed;
            let mean = pointwise_typed(&arithmetic::DIV_SPEC, Some(kept_in), &[&sums, &count], &[])?;
            return matrices::write(out, &mean);
        }
    }
    by_the_cpu("mean", &[a.self_], out, |t| ops::mean(&t[0], a.dim, a.keepdim, a.dtype))
}

/// Fills the rows' tables.
pub(crate) fn register() {
    reduction::SUM_KERNEL.register(Key::Cuda, sum);
    reduction::PROD_KERNEL.register(Key::Cuda, prod);
    reduction::PROD_DIM_KERNEL.register(Key::Cuda, prod_dim);
    reduction::MEAN_KERNEL.register(Key::Cuda, mean);
}
