//! Extremes and their positions, order statistics.

use super::{
    all_dims, as_geo, few_dims, index_into, one, one_nonempty, reduce_into, reduced_dims, reduced_sizes,
    select_into,
};
use crate::backend::cpu::access::Access;
use crate::backend::out::OutMeta;
use crate::backend::transfer::contiguous_raw;
use crate::generated::args;
use crate::ops::sorting::orderable;
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::{DType, Error, ensure, ops};
use flambeau_cpu::reduction::{Geo, erased};

fn values_indices(self_: &Tensor, dims: &[usize], keepdim: bool) -> [OutMeta; 2] {
    let sizes = reduced_sizes(self_.sizes(), dims, keepdim);
    [
        OutMeta::new(sizes.clone(), self_.dtype(), self_.device()),
        OutMeta::new(sizes, DType::I64, self_.device()),
    ]
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
    ($($D:ident $meta:ident $cpu:ident $A:ident $all_meta:ident $all_cpu:ident $name:literal $kernel:ident $value:ident;)*) => {$(
        #[doc = concat!("`", $name, ".dim`")]
        pub fn $meta(&args::$D { self_, dim, keepdim }: &args::$D) -> Result<[OutMeta; 2]> {
            let dims = one_nonempty(self_, dim, concat!($name, "()"))?;
            ensure!(!self_.is_complex(), Type, concat!($name, "(): does not support complex input"));
            Ok(values_indices(self_, &dims, keepdim))
        }
        #[doc = concat!("`", $name, ".dim`")]
        pub fn $cpu(&args::$D { self_, dim, .. }: &args::$D, [values, indices]: [&Tensor; 2]) -> Result<()> {
            select_into(concat!($name, "_cpu"), self_, &one(self_, dim)?, (values, indices), erased::$kernel)
        }
        #[doc = concat!("`", $name, "`")]
        pub fn $all_meta(&args::$A { self_ }: &args::$A) -> Result<OutMeta> {
            ensure!(
                self_.numel() > 0,
                Runtime,
                concat!($name, "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.")
            );
            Ok(OutMeta::of(&[], self_.dtype(), self_.device()))
        }
        #[doc = concat!("`", $name, "`")]
        pub fn $all_cpu(&args::$A { self_ }: &args::$A, out: &Tensor) -> Result<()> {
            refuse_wide_unsigned(concat!($name, "_all"), self_)?;
            reduce_into(concat!($name, "_all"), self_, &all_dims(self_), out, erased::$value)
        }
    )*};
}
extreme_dim! {
    MaxDim max_dim_shape max_dim_cpu Max max_shape max_cpu "max" max_with_index amax;
    MinDim min_dim_shape min_dim_cpu Min min_shape min_cpu "min" min_with_index amin;
}

macro_rules! extreme_value {
    ($($A:ident $meta:ident $cpu:ident $name:literal $label:literal $kernel:ident;)*) => {$(
        #[doc = concat!("`", $name, "`")]
        pub fn $meta(&args::$A { self_, dim, keepdim }: &args::$A) -> Result<OutMeta> {
            refuse_wide_unsigned($label, self_)?;
            nonempty(self_, dim, $name)?;
            let dims = reduced_dims(self_.dim(), Some(dim))?;
            Ok(OutMeta::new(reduced_sizes(self_.sizes(), &dims, keepdim), self_.dtype(), self_.device()))
        }
        #[doc = concat!("`", $name, "`")]
        pub fn $cpu(&args::$A { self_, dim, .. }: &args::$A, out: &Tensor) -> Result<()> {
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
    Amax amax_shape amax_cpu "amax" "max_values_cpu" amax;
    Amin amin_shape amin_cpu "amin" "min_values_cpu" amin;
}

/// `aminmax`
pub fn aminmax_shape(&args::Aminmax { self_, dim, keepdim }: &args::Aminmax) -> Result<[OutMeta; 2]> {
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
    Ok([m.clone(), m])
}
/// `aminmax`
pub fn aminmax_cpu(
    &args::Aminmax { self_, dim, .. }: &args::Aminmax,
    [min, max]: [&Tensor; 2],
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
    ($($A:ident $meta:ident $cpu:ident $name:literal $kernel:ident;)*) => {$(
        #[doc = concat!("`", $name, "`")]
        pub fn $meta(&args::$A { self_, dim, keepdim }: &args::$A) -> Result<OutMeta> {
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
        pub fn $cpu(&args::$A { self_, dim, .. }: &args::$A, out: &Tensor) -> Result<()> {
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
    Argmax argmax_shape argmax_cpu "argmax" argmax;
    Argmin argmin_shape argmin_cpu "argmin" argmin;
}

macro_rules! order_dim {
    ($($A:ident $meta:ident $cpu:ident $all:ident $name:literal $kernel:ident $op:ident;)*) => {$(
        #[doc = concat!("`", $name, ".dim`")]
        pub fn $meta(&args::$A { self_, dim, keepdim }: &args::$A) -> Result<[OutMeta; 2]> {
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
        pub fn $cpu(&args::$A { self_, dim, .. }: &args::$A, [values, indices]: [&Tensor; 2]) -> Result<()> {
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
    MedianDim median_dim_shape median_dim_cpu median "median" median median_dim;
    NanmedianDim nanmedian_dim_shape nanmedian_dim_cpu nanmedian "nanmedian" nanmedian nanmedian_dim;
}

/// `mode`
pub fn mode_shape(&args::Mode { self_, dim, keepdim }: &args::Mode) -> Result<[OutMeta; 2]> {
    refuse_wide_unsigned("mode_cpu", self_)?;
    Ok(values_indices(self_, &one_nonempty(self_, dim, "mode()")?, keepdim))
}
/// `mode`
pub fn mode_cpu(&args::Mode { self_, dim, .. }: &args::Mode, [values, indices]: [&Tensor; 2]) -> Result<()> {
    orderable(self_, dim)?;
    select_into("mode_cpu", self_, &one(self_, dim)?, (values, indices), erased::mode)
}

/// `kthvalue`
pub fn kthvalue_shape(&args::Kthvalue { self_, k, dim, keepdim }: &args::Kthvalue) -> Result<[OutMeta; 2]> {
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
    &args::Kthvalue { self_, k, dim, .. }: &args::Kthvalue,
    [values, indices]: [&Tensor; 2],
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
