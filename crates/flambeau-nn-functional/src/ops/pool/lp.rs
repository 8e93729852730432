//! Power-average pooling, made of average pooling.

use crate::ops::operands::{number, per_dim};
use flambeau_core::tensor::geometry;
use flambeau_core::{Result, Tensor, ensure, ops as core_ops};

macro_rules! lp_pools {
    ($($n:literal $name:ident $max:ident $avg:ident($($div:expr)?)),*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        pub fn $name(input: &Tensor, norm_type: f64, kernel_size: &[i64], stride: Option<&[i64]>, ceil_mode: bool) -> Result<Tensor> {
            ensure!(norm_type != 0.0, Value, "norm_type must be a non-zero value, but got 0");
            if norm_type.is_infinite() {
                // the largest magnitude, or the smallest
                let a = core_ops::abs(input)?;
                let largest = norm_type > 0.0;
                let a = if largest { a } else { core_ops::neg(&a)? };
                let m = super::$max(&a, kernel_size, stride, &[0], &[1], ceil_mode, false)?;
                return if largest { Ok(m) } else { core_ops::neg(&m) };
            }
            // Python takes the size apart
            let given = kernel_size.len();
            if $n > 1 && given != 1 {
                ensure!(given <= $n, Value, "too many values to unpack (expected {})", $n);
                ensure!(given == $n, Value, "not enough values to unpack (expected {}, got {given})", $n);
            }
            let k = per_dim(kernel_size, $n, stringify!($name), "kernel_size")?;
            let k = k.iter().try_fold(1, |n, k| geometry::size_mul(n, *k))?;
            let powers = core_ops::pow(input, &number(norm_type)?)?;
            let mean = super::$avg(&powers, kernel_size, stride, &[0], ceil_mode, true, $($div)?)?;
            // a negative sum of odd powers counts by its size
            let sum = core_ops::mul(&core_ops::mul(&core_ops::sign(&mean)?, &core_ops::relu(&core_ops::abs(&mean)?)?)?, &number(k)?)?;
            core_ops::pow(&sum, &number(1.0 / norm_type)?)
        }
    )*};
}
lp_pools!(
    1 lp_pool1d max_pool1d avg_pool1d(), 2 lp_pool2d max_pool2d avg_pool2d(None), 3 lp_pool3d max_pool3d avg_pool3d(None)
);
