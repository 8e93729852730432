//! Running sums, products and extremes along a dimension.

use crate::backend::cpu::access::Access;
use crate::backend::out::OutMeta;
use crate::backend::transfer::{cast_to, contiguous_raw, copy_into};
use crate::generated::args;
use crate::tensor::geometry::wrap_dim;
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::{DType, Error, ensure, ops};
use flambeau_cpu::reduction::Geo;
use flambeau_cpu::scan::erased;
use flambeau_cpu::{Any, AnyMut};

/// The contiguous input as `[outer, n, inner]` around one dim: outputs of scans have the input's shape and layout.
pub(crate) fn around(x: &Tensor, dim: usize) -> Geo {
    if x.dim() == 0 {
        return Geo::contiguous(1, 1, 1);
    }
    let s = x.sizes();
    let outer: i64 = s[..dim].iter().product();
    let inner: i64 = s[dim + 1..].iter().product();
    Geo::contiguous(outer as usize, s[dim] as usize, inner as usize)
}

fn accumulate_meta(self_: &Tensor, dim: i64, dtype: Option<DType>) -> Result<OutMeta> {
    wrap_dim(dim, self_.dim())?;
    let d = dtype.unwrap_or(if self_.dtype().is_integral(true) { DType::I64 } else { self_.dtype() });
    Ok(OutMeta::of(self_.sizes(), d, self_.device()))
}
fn accumulate(
    label: &str,
    self_: &Tensor,
    dim: i64,
    out: &Tensor,
    kernel: fn(Any<'_>, Geo, AnyMut<'_>) -> Option<()>,
) -> Result<()> {
    if self_.numel() == 0 {
        return Ok(());
    }
    let od = out.dtype();
    if od == DType::C32 || od == DType::Bool && self_.dim() > 0 {
        return Err(Error::not_implemented_for(label, od));
    }
    let wide = if od.is_integral(true) { DType::I64 } else { od };
    let x = if self_.dtype() == wide { self_.clone() } else { cast_to(self_, wide)? };
    let x = contiguous_raw(&x)?;
    let g = around(&x, wrap_dim(dim, x.dim())?);
    let run = |to: &Tensor| {
        let a = Access::new(&[&x], &[to])?;
        kernel(a.any(0)?, g, a.any_mut(0)?).ok_or_else(|| Error::not_implemented_for(label, x.dtype()))
    };
    if od == wide {
        return run(out);
    }
    // narrow integers wrap, so they may be taken from the int64 result
    let tmp = OutMeta::of(out.sizes(), wide, out.device()).alloc()?;
    run(&tmp)?;
    copy_into(out, &tmp)
}
macro_rules! accumulating {
    ($($A:ident $meta:ident $cpu:ident $name:literal $kernel:ident;)*) => {$(
        #[doc = concat!("`", $name, "`")]
        pub fn $meta(&args::$A { self_, dim, dtype }: &args::$A) -> Result<OutMeta> {
            accumulate_meta(self_, dim, dtype)
        }
        #[doc = concat!("`", $name, "`")]
        pub fn $cpu(&args::$A { self_, dim, .. }: &args::$A, out: &Tensor) -> Result<()> {
            accumulate(concat!($name, "_out_cpu"), self_, dim, out, erased::$kernel)
        }
    )*};
}
accumulating! {
    Cumsum cumsum_shape cumsum_cpu "cumsum" cumsum;
    Cumprod cumprod_shape cumprod_cpu "cumprod" cumprod;
}

macro_rules! extreme {
    ($($A:ident $meta:ident $cpu:ident $name:literal $kernel:ident;)*) => {$(
        #[doc = concat!("`", $name, "`")]
        pub fn $meta(&args::$A { self_, dim }: &args::$A) -> Result<[OutMeta; 2]> {
            ensure!(
                self_.dim() > 0 || matches!(dim, -1 | 0),
                Index,
                concat!($name, "(): Expected reduction dim -1 or 0 for scalar but got {}"),
                dim
            );
            wrap_dim(dim, self_.dim())?;
            Ok([
                OutMeta::of(self_.sizes(), self_.dtype(), self_.device()),
                OutMeta::of(self_.sizes(), DType::I64, self_.device()),
            ])
        }
        #[doc = concat!("`", $name, "`")]
        pub fn $cpu(&args::$A { self_, dim }: &args::$A, [values, indices]: [&Tensor; 2]) -> Result<()> {
            if self_.dtype().is_wide_unsigned() {
                return Err(Error::not_implemented_for(concat!($name, "_cpu"), self_.dtype()));
            }
            if self_.numel() == 0 {
                return Ok(());
            }
            let x = contiguous_raw(self_)?;
            let g = around(&x, wrap_dim(dim, x.dim())?);
            let a = Access::new(&[&x], &[values, indices])?;
            erased::$kernel(a.any(0)?, g, a.any_mut(0)?, a.slice_mut::<i64>(1)?)
                .ok_or_else(|| Error::not_implemented_for(concat!($name, "_cpu"), x.dtype()))
        }
    )*};
}
extreme! {
    Cummax cummax_shape cummax_cpu "cummax" cummax;
    Cummin cummin_shape cummin_cpu "cummin" cummin;
}

/// `logcumsumexp`
pub fn logcumsumexp_shape(&args::Logcumsumexp { self_, dim }: &args::Logcumsumexp) -> Result<OutMeta> {
    wrap_dim(dim, self_.dim())?;
    ensure!(
        self_.dtype().is_floating() || self_.is_complex(),
        Unsupported,
        "\"logcumsumexp_out_cpu\" not implemented for '{}'",
        self_.dtype().scalar_type_name()
    );
    Ok(OutMeta::of(self_.sizes(), self_.dtype(), self_.device()))
}
/// `logcumsumexp`
pub fn logcumsumexp_cpu(&args::Logcumsumexp { self_, dim }: &args::Logcumsumexp, out: &Tensor) -> Result<()> {
    accumulate("logcumsumexp_out_cpu", self_, dim, out, erased::logcumsumexp)
}

/// `cumulative_trapezoid`, `trapezoid`: see the composites below.
fn spacing(y: &Tensor, dx: f64, dim: i64, cumulative: bool) -> Result<Tensor> {
    let d = wrap_dim(dim, y.dim())? as i64;
    let n = y.sizes().get(d as usize).copied().unwrap_or(1);
    let one = crate::Scalar::Int(1);
    if cumulative {
        let pairs =
            ops::add(&ops::slice(y, d, Some(1), None, 1)?, &ops::slice(y, d, None, Some(-1), 1)?, one)?;
        return ops::cumsum(
            &ops::mul(&pairs, &crate::tensor::wrapped_number::wrapped_number((dx / 2.0).into())?)?,
            d,
            None,
        );
    }
    if n == 0 {
        let mut sizes = crate::tensor::geometry::SizeVec::from_slice(y.sizes());
        sizes.remove(d as usize);
        return ops::zeros(&sizes, Some(y.dtype()), None, Some(y.device()), None);
    }
    let ends = ops::add(&ops::select(y, d, 0)?, &ops::select(y, d, -1)?, one)?;
    let half = ops::mul(&ends, &crate::tensor::wrapped_number::wrapped_number(0.5.into())?)?;
    let s = ops::sub(&ops::sum(y, Some(&[d]), false, None)?, &half, one)?;
    ops::mul(&s, &crate::tensor::wrapped_number::wrapped_number(dx.into())?)
}
/// `trapezoid.dx`
pub fn trapezoid(y: &Tensor, dx: crate::Scalar, dim: i64) -> Result<Tensor> {
    crate::tensor::geometry::wrap_dim_strict(dim, y.dim())?;
    no_bool("trapezoid", &[y])?;
    spacing(y, dx.to_f64(), dim, false)
}
/// `cumulative_trapezoid.dx`
pub fn cumulative_trapezoid(y: &Tensor, dx: crate::Scalar, dim: i64) -> Result<Tensor> {
    no_bool("cumulative_trapezoid", &[y])?;
    spacing(y, dx.to_f64(), dim, true)
}
/// Areas of truth values mean nothing.
fn no_bool(name: &str, all: &[&Tensor]) -> Result<()> {
    ensure!(
        all.iter().all(|t| t.dtype() != DType::Bool),
        Unsupported,
        "{name}: received a bool input for {}, but bool is not supported",
        if all.len() > 1 { "`x` or `y`" } else { "`y`" }
    );
    Ok(())
}
/// The spacing tensor as differences that broadcast against `y`'s slices.
fn widths(name: &str, y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, y.dim())?;
    ensure!(y.dim() > 0, Index, "Dimension specified as {d} but tensor has no dimensions");
    let n = y.sizes()[d];
    let x = if x.dim() == 1 {
        ensure!(x.sizes()[0] == n, Runtime, "{name}: There must be one `x` value for each sample point");
        let mut shape = crate::tensor::geometry::SizeVec::from_elem(1, y.dim());
        shape[d] = n;
        ops::view(&ops::contiguous(x, crate::MemoryFormat::Contiguous)?, &shape)?
    } else if x.dim() < y.dim() {
        let mut shape = crate::tensor::geometry::SizeVec::from_elem(1, y.dim() - x.dim());
        shape.extend_from_slice(x.sizes());
        ops::reshape(x, &shape)?
    } else {
        x.clone()
    };
    // counted from the front, as PyTorch does where the points have more dimensions than the values
    let xd = d as i64;
    ops::sub(
        &ops::slice(&x, xd, Some(1), None, 1)?,
        &ops::slice(&x, xd, None, Some(-1), 1)?,
        crate::Scalar::Int(1),
    )
}
fn weighted(name: &str, y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let w = widths(name, y, x, dim)?;
    let yd = wrap_dim(dim, y.dim())? as i64 - y.dim() as i64;
    let pairs = ops::add(
        &ops::slice(y, yd, Some(1), None, 1)?,
        &ops::slice(y, yd, None, Some(-1), 1)?,
        crate::Scalar::Int(1),
    )?;
    ops::mul(&pairs, &w)
}
/// `trapezoid.x`
pub fn trapezoid_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, y.dim())?;
    ensure!(y.dim() > 0, Index, "Dimension specified as {d} but tensor has no dimensions");
    no_bool("trapezoid", &[y, x])?;
    if y.sizes().get(d).copied() == Some(0) {
        return spacing(y, 1.0, dim, false);
    }
    let w = weighted("trapezoid", y, x, dim)?;
    let d = d as i64 - y.dim() as i64;
    let s = ops::sum(&w, Some(&[d]), false, None)?;
    ops::div(&s, &crate::tensor::wrapped_number::wrapped_number(2.0.into())?)
}
/// `cumulative_trapezoid.x`
pub fn cumulative_trapezoid_x(y: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let d = wrap_dim(dim, y.dim())?;
    ensure!(y.dim() > 0 || x.dim() != 1, Index, "Dimension specified as {d} but tensor has no dimensions");
    ensure!(y.dim() > 0, Index, "slice() cannot be applied to a 0-dim tensor.");
    no_bool("cumulative_trapezoid", &[y, x])?;
    let w = weighted("cumulative_trapezoid", y, x, dim)?;
    let d = wrap_dim(dim, y.dim())? as i64 - y.dim() as i64;
    ops::div(&ops::cumsum(&w, d, None)?, &crate::tensor::wrapped_number::wrapped_number(2.0.into())?)
}
