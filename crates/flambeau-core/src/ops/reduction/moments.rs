//! Variance, standard deviation, and both with the mean.

use super::{as_geo, reduced_dims, reduced_sizes};
use crate::backend::cpu::access::Access;
use crate::backend::out::OutMeta;
use crate::generated::args;
use crate::tensor::handle::Tensor;
use crate::types::error::Result;
use crate::types::scalar::Scalar;
use crate::{DType, Error, ensure, ops};
use flambeau_cpu::reduction::erased;

fn moment_meta(self_: &Tensor, dim: Option<&[i64]>, keepdim: bool) -> Result<OutMeta> {
    let d = self_.dtype();
    ensure!(
        d.is_floating() || d.is_complex(),
        Unsupported,
        "std and var only support floating point and complex dtypes"
    );
    let dims = reduced_dims(self_.dim(), dim)?;
    Ok(OutMeta::new(reduced_sizes(self_.sizes(), &dims, keepdim), d.to_real(), self_.device()))
}
fn correction_of(c: Option<Scalar>) -> f64 {
    c.map_or(1.0, Scalar::to_f64)
}

macro_rules! moment {
    ($($A:ident $meta:ident $cpu:ident $name:literal $std:expr;)*) => {$(
        #[doc = concat!("`", $name, ".correction`")]
        pub fn $meta(&args::$A { self_, dim, keepdim, .. }: &args::$A) -> Result<OutMeta> {
            moment_meta(self_, dim, keepdim)
        }
        #[doc = concat!("`", $name, ".correction`")]
        pub fn $cpu(&args::$A { self_, dim, correction, .. }: &args::$A, out: &Tensor) -> Result<()> {
            let (x, g) = as_geo(self_, &reduced_dims(self_.dim(), dim)?)?;
            let a = Access::new(&[&x], &[out])?;
            let c = correction_of(correction);
            let done = if $std {
                erased::std(a.any(0)?, g, c, a.any_mut(0)?)
            } else {
                erased::var(a.any(0)?, g, c, a.any_mut(0)?)
            };
            done.ok_or_else(|| match dim {
                None => Error::runtime(format!("std_var_all: Unsupported dtype {}", x.dtype().scalar_type_name())),
                Some(_) => Error::not_implemented_for("std_cpu", x.dtype()),
            })
        }
    )*};
}
moment! {
    Var var_shape var_cpu "var" false;
    Std std_shape std_cpu "std" true;
}

macro_rules! moment_forms {
    ($($plain:ident $dims:ident $to:ident $r:ty;)*) => {$(
        #[doc = concat!("`", stringify!($to), "` with `unbiased` over all elements.")]
        pub fn $plain(self_: &Tensor, unbiased: bool) -> Result<$r> {
            ops::$to(self_, None, Some(Scalar::Int(unbiased as i64)), false)
        }
        #[doc = concat!("`", stringify!($to), "` with `unbiased` over dims.")]
        pub fn $dims(self_: &Tensor, dim: Option<&[i64]>, unbiased: bool, keepdim: bool) -> Result<$r> {
            ops::$to(self_, dim, Some(Scalar::Int(unbiased as i64)), keepdim)
        }
    )*};
}
moment_forms! {
    var_unbiased var_dim var Tensor;
    std_unbiased std_dim std Tensor;
    var_mean_unbiased var_mean_dim var_mean (Tensor, Tensor);
    std_mean_unbiased std_mean_dim std_mean (Tensor, Tensor);
}

/// There are no moments of 8-bit floats.
fn no_narrow(d: crate::DType) -> Result<()> {
    if matches!(d, crate::DType::F8E4M3 | crate::DType::F8E5M2) {
        return Err(crate::Error::not_implemented_for("std_cpu", d));
    }
    Ok(())
}
/// A moment and the mean; complex32, which has no mean of its own, goes through complex64.
fn both(self_: &Tensor, f: impl Fn(&Tensor) -> Result<(Tensor, Tensor)>) -> Result<(Tensor, Tensor)> {
    if self_.dtype() != DType::C32 {
        return f(self_);
    }
    let cast = |t: &Tensor, d| ops::to(t, Some(d), None, None, None, false, false, None);
    let (moment, mean) = f(&cast(self_, DType::C64)?)?;
    Ok((cast(&moment, DType::F16)?, cast(&mean, DType::C32)?))
}
/// `var_mean.correction`
pub fn var_mean(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    let d = self_.dtype();
    ensure!(
        d.is_floating() || d.is_complex(),
        Unsupported,
        "var_mean only support floating point and complex dtypes"
    );
    no_narrow(d)?;
    both(self_, |x| Ok((ops::var(x, dim, correction, keepdim)?, ops::mean(x, dim, keepdim, None)?)))
}
/// `std_mean.correction`
pub fn std_mean(
    self_: &Tensor,
    dim: Option<&[i64]>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    let d = self_.dtype();
    ensure!(
        d.is_floating() || d.is_complex(),
        Unsupported,
        "std_mean only support floating point and complex dtypes"
    );
    no_narrow(d)?;
    both(self_, |x| Ok((ops::std(x, dim, correction, keepdim)?, ops::mean(x, dim, keepdim, None)?)))
}
