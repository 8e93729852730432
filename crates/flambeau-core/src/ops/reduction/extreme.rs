//! Extremes and their positions, order statistics.

use super::{
    all_dims, as_geo, few_dims, index_into, one, one_nonempty, reduce_into, reduced_dims, reduced_sizes,
    select_into,
};
use crate::iter::out::OutMeta;
use crate::ops::copy::contiguous_raw;
use crate::ops::sorting::orderable;
use crate::tensor::access::Access;
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::{DType, Error, ensure, ops};
use flambeau_cpu::reduction::{Geo, erased};

fn values_indices(self_: &Tensor, dims: &[usize], keepdim: bool) -> (OutMeta, OutMeta) {
    let sizes = reduced_sizes(self_.sizes(), dims, keepdim);
    (
        OutMeta::new(sizes.clone(), self_.dtype(), self_.device()),
        OutMeta::new(sizes, DType::I64, self_.device()),
    )
}

/// PyTorch has no order statistics of bools, complex numbers and wide unsigned integers.
fn no_order(label: &str, self_: &Tensor) -> Result<()> {
    if matches!(self_.dtype(), DType::Bool | DType::F8E4M3 | DType::F8E5M2) || self_.is_complex() {
        return Err(Error::not_implemented_for(label, self_.dtype()));
    }
    refuse_wide_unsigned(label, self_)
}
/// Unsigned integers beyond a byte are refused by what orders elements.
fn refuse_wide_unsigned(label: &str, self_: &Tensor) -> Result<()> {
    if self_.dtype().is_wide_unsigned() {
        return Err(Error::not_implemented_for(label, self_.dtype()));
    }
    Ok(())
}

macro_rules! extreme_dim {
    ($($meta:ident $cpu:ident $all_meta:ident $all_cpu:ident $name:literal $kernel:ident $value:ident;)*) => {$(
        #[doc = concat!("`", $name, ".dim`")]
        pub fn $meta(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(OutMeta, OutMeta)> {
            let dims = one_nonempty(self_, dim, concat!($name, "()"))?;
            ensure!(!self_.is_complex(), Type, concat!($name, "(): does not support complex input"));
            Ok(values_indices(self_, &dims, keepdim))
        }
        #[doc = concat!("`", $name, ".dim`")]
        pub fn $cpu(self_: &Tensor, dim: i64, _keepdim: bool, values: &Tensor, indices: &Tensor) -> Result<()> {
            select_into(concat!($name, "_cpu"), self_, &one(self_, dim)?, (values, indices), erased::$kernel)
        }
        #[doc = concat!("`", $name, "`")]
        pub fn $all_meta(self_: &Tensor) -> Result<OutMeta> {
            ensure!(
                self_.numel() > 0,
                Runtime,
                concat!($name, "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.")
            );
            Ok(OutMeta::of(&[], self_.dtype(), self_.device()))
        }
        #[doc = concat!("`", $name, "`")]
        pub fn $all_cpu(self_: &Tensor, out: &Tensor) -> Result<()> {
            refuse_wide_unsigned(concat!($name, "_all"), self_)?;
            reduce_into(concat!($name, "_all"), self_, &all_dims(self_), out, erased::$value)
        }
    )*};
}
extreme_dim! {
    max_dim_meta max_dim_cpu max_meta max_cpu "max" max_with_index amax;
    min_dim_meta min_dim_cpu min_meta min_cpu "min" min_with_index amin;
}

macro_rules! extreme_value {
    ($($meta:ident $cpu:ident $name:literal $label:literal $kernel:ident;)*) => {$(
        #[doc = concat!("`", $name, "`")]
        pub fn $meta(self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<OutMeta> {
            refuse_wide_unsigned($label, self_)?;
            nonempty(self_, dim, $name)?;
            let dims = reduced_dims(self_.dim(), Some(dim))?;
            Ok(OutMeta::new(reduced_sizes(self_.sizes(), &dims, keepdim), self_.dtype(), self_.device()))
        }
        #[doc = concat!("`", $name, "`")]
        pub fn $cpu(self_: &Tensor, dim: &[i64], _keepdim: bool, out: &Tensor) -> Result<()> {
            reduce_into($label, self_, &reduced_dims(self_.dim(), Some(dim))?, out, erased::$kernel)
        }
    )*};
}
/// One dimension after the other: a first one that is empty is reported before a later one that does not exist.
fn nonempty(self_: &Tensor, dim: &[i64], name: &str) -> Result<()> {
    ensure!(
        !(dim.is_empty() && self_.numel() == 0),
        Runtime,
        "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
    );
    if self_.numel() == 0 {
        for d in dim {
            let d = crate::tensor::geometry::wrap_dim(*d, self_.dim())?;
            let empty = self_.sizes().get(d) == Some(&0);
            ensure!(!empty, Index, "{name}(): Expected reduction dim {d} to have non-zero size.");
        }
    }
    Ok(())
}
extreme_value! {
    amax_meta amax_cpu "amax" "max_values_cpu" amax;
    amin_meta amin_cpu "amin" "min_values_cpu" amin;
}

/// `aminmax`
pub fn aminmax_meta(self_: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<(OutMeta, OutMeta)> {
    ensure!(!self_.is_complex(), Type, "aminmax not implemented for {}", self_.dtype().scalar_type_name());
    refuse_wide_unsigned(
        if dim.is_some() || self_.dim() == 1 { "aminmax_cpu" } else { "aminmax_all_cpu" },
        self_,
    )?;
    let dims = match dim {
        Some(d) => {
            few_dims(self_.dim())?;
            one_nonempty(self_, d, "aminmax")?
        }
        None => {
            ensure!(
                self_.numel() > 0,
                Runtime,
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
            );
            all_dims(self_)
        }
    };
    let sizes = reduced_sizes(self_.sizes(), &dims, keepdim);
    let m = OutMeta::new(sizes, self_.dtype(), self_.device());
    Ok((m.clone(), m))
}
/// `aminmax`
pub fn aminmax_cpu(
    self_: &Tensor,
    dim: Option<i64>,
    _keepdim: bool,
    min: &Tensor,
    max: &Tensor,
) -> Result<()> {
    let dims = match dim {
        Some(d) => one(self_, d)?,
        None => all_dims(self_),
    };
    let (x, g) = as_geo(self_, &dims)?;
    let a = Access::new(&[&x], &[min, max])?;
    erased::aminmax(a.any(0)?, g, a.any_mut(0)?, a.any_mut(1)?)
        .ok_or_else(|| Error::not_implemented_for("aminmax_cpu", x.dtype()))
}

macro_rules! arg {
    ($($meta:ident $cpu:ident $name:literal $kernel:ident;)*) => {$(
        #[doc = concat!("`", $name, "`")]
        pub fn $meta(self_: &Tensor, dim: Option<i64>, keepdim: bool) -> Result<OutMeta> {
            ensure!(!self_.is_complex(), Type, concat!($name, "(): does not support complex input"));
            ensure!(self_.dtype() != DType::Bool, Unsupported, concat!($name, "(): does not support bool input"));
            let dims = match dim {
                Some(d) => one_nonempty(self_, d, concat!($name, "()"))?,
                None => {
                    ensure!(
                        self_.numel() > 0,
                        Index,
                        concat!($name, "(): Expected reduction dim to be specified for input.numel() == 0.")
                    );
                    all_dims(self_)
                }
            };
            Ok(OutMeta::new(reduced_sizes(self_.sizes(), &dims, keepdim), DType::I64, self_.device()))
        }
        #[doc = concat!("`", $name, "`")]
        pub fn $cpu(self_: &Tensor, dim: Option<i64>, _keepdim: bool, out: &Tensor) -> Result<()> {
            refuse_wide_unsigned(concat!($name, "_cpu"), self_)?;
            match dim {
                Some(d) => index_into(concat!($name, "_cpu"), self_, &one(self_, d)?, out, erased::$kernel),
                None => {
                    // positions count in row-major order whatever the strides
                    let x = contiguous_raw(self_)?;
                    let a = Access::new(&[&x], &[out])?;
                    erased::$kernel(a.any(0)?, Geo::contiguous(1, x.numel() as usize, 1), a.slice_mut::<i64>(0)?)
                        .ok_or_else(|| Error::not_implemented_for(concat!($name, "_cpu"), x.dtype()))
                }
            }
        }
    )*};
}
arg! {
    argmax_meta argmax_cpu "argmax" argmax;
    argmin_meta argmin_cpu "argmin" argmin;
}

macro_rules! order_dim {
    ($($meta:ident $cpu:ident $all:ident $name:literal $kernel:ident $op:ident;)*) => {$(
        #[doc = concat!("`", $name, ".dim`")]
        pub fn $meta(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(OutMeta, OutMeta)> {
            let dims = one(self_, dim)?;
            if let [d] = dims[..] {
                ensure!(
                    self_.sizes()[d] != 0,
                    Index,
                    "median(): Expected reduction dim {dim} to have non-zero size."
                );
            }
            no_order("median_out", self_)?;
            Ok(values_indices(self_, &dims, keepdim))
        }
        #[doc = concat!("`", $name, ".dim`")]
        pub fn $cpu(self_: &Tensor, dim: i64, _keepdim: bool, values: &Tensor, indices: &Tensor) -> Result<()> {
            orderable(self_, dim)?;
            select_into("median_out", self_, &one(self_, dim)?, (values, indices), erased::$kernel)
        }
        #[doc = concat!("`", $name, "`: over all elements.")]
        pub fn $all(self_: &Tensor) -> Result<Tensor> {
            no_order("median_cpu", self_)?;
            if self_.numel() == 0 {
                ensure!(
                    self_.dtype().is_floating(),
                    Unsupported,
                    concat!("\"", $name, "_cpu\" not implemented for an empty tensor of dtype {}"),
                    self_.dtype()
                );
                return ops::full(&[], f64::NAN.into(), Some(self_.dtype()), None, Some(self_.device()), None);
            }
            let flat = ops::reshape(self_, &[-1])?;
            Ok(ops::$op(&flat, 0, false)?.0)
        }
    )*};
}
order_dim! {
    median_dim_meta median_dim_cpu median "median" median median_dim;
    nanmedian_dim_meta nanmedian_dim_cpu nanmedian "nanmedian" nanmedian nanmedian_dim;
}

/// `mode`
pub fn mode_meta(self_: &Tensor, dim: i64, keepdim: bool) -> Result<(OutMeta, OutMeta)> {
    refuse_wide_unsigned("mode_cpu", self_)?;
    Ok(values_indices(self_, &one_nonempty(self_, dim, "mode()")?, keepdim))
}
/// `mode`
pub fn mode_cpu(self_: &Tensor, dim: i64, _keepdim: bool, values: &Tensor, indices: &Tensor) -> Result<()> {
    orderable(self_, dim)?;
    select_into("mode_cpu", self_, &one(self_, dim)?, (values, indices), erased::mode)
}

/// `kthvalue`
pub fn kthvalue_meta(self_: &Tensor, k: i64, dim: i64, keepdim: bool) -> Result<(OutMeta, OutMeta)> {
    let dims = one_nonempty(self_, dim, "kthvalue()")?;
    let n = dims.first().map_or(1, |d| self_.sizes()[*d]);
    ensure!(
        k >= 1 && k <= n,
        Runtime,
        "kthvalue(): selected number k out of range for dimension {}",
        dims.first().unwrap_or(&0)
    );
    no_order("kthvalue_cpu", self_)?;
    Ok(values_indices(self_, &dims, keepdim))
}
/// `kthvalue`
pub fn kthvalue_cpu(
    self_: &Tensor,
    k: i64,
    dim: i64,
    _keepdim: bool,
    values: &Tensor,
    indices: &Tensor,
) -> Result<()> {
    orderable(self_, dim)?;
    let (x, g) = as_geo(self_, &one(self_, dim)?)?;
    let a = Access::new(&[&x], &[values, indices])?;
    erased::kthvalue(a.any(0)?, g, k as usize, a.any_mut(0)?, a.slice_mut::<i64>(1)?)
        .ok_or_else(|| Error::not_implemented_for("kthvalue_cpu", x.dtype()))
}

/// `max.other`
pub fn max_other(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::maximum(self_, other)
}
/// `min.other`
pub fn min_other(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::minimum(self_, other)
}
