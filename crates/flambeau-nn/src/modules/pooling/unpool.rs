//! Pooling that is none of the common kinds: by a norm, at random places, and back.

use super::{Indices, Rounding, Window};
use crate::args::{Dims, Factors, Ints};
use crate::module::base::Base;
use crate::modules::{by_values, layer, plain};
use crate::parameter::Buffer;
use flambeau_core::text::PyText;
use flambeau_core::{Error, Result, Scalar, Tensor, ensure};
use flambeau_macros::{Module, class, dims};
use flambeau_nn_functional::ops as f;

dims! { 1, 2, 3 =>
    #[class("torch.nn.LPPoolNd", build = LPPoolNd, include(Window<Ints<N>>, Rounding),
        order(norm_type, kernel_size, stride, Rounding), repr(norm_type=, kernel_size=, stride=, ceil_mode=))]
    pub struct LPPoolNdOptions {
        /// Power of the norm.
        pub norm_type: Scalar,
    }
    plain!(
        /// The norm of each window: `sum(x^p)^(1/p)`.
        LPPoolNd, LPPoolNdOptions, |o| {
            ensure!(
                o.norm_type.to_f64() != 0.0,
                Value,
                "norm_type must be a non-zero value, but got {}",
                o.norm_type.py_text()
            );
            Ok::<_, Error>(o)
        }
    );
    layer!(LPPoolNd, |m, x| {
        let o = &m.options;
        let stride = o.stride.map(|s| s.each());
        let stride = stride.as_ref().map(|s| &s[..]);
        f::lp_poolNd(x, o.norm_type.to_f64(), &o.kernel_size.each(), stride, o.ceil_mode)
    });
}

macro_rules! max_unpool {
    ($n:literal, $pool:ident, $options:ident, $path:literal, $op:ident) => {
        #[class($path, build = $pool, include(Window<Dims<$n>>), repr(kernel_size=, stride=, padding=))]
        pub struct $options {}
        plain!(
            /// Puts maxima back to their positions, with zeros elsewhere.
            $pool, $options, |o| {
                let mut o = o;
                o.stride = Some(o.stride.unwrap_or(o.kernel_size));
                Ok::<_, Error>(o)
            }
        );
        #[flambeau_macros::forward]
        impl $pool {
            /// `forward` with an error instead of a panic.
            ///
            /// # Errors
            /// Inputs that do not fit.
            pub fn try_forward(&self, input: &Tensor, indices: &Tensor) -> Result<Tensor> {
                self.try_forward_to(input, indices, None)
            }
            /// `forward` with the output size that the pooling's input had, where several give the same.
            ///
            /// # Errors
            /// Inputs that do not fit; sizes that no input had.
            pub fn try_forward_to(
                &self,
                input: &Tensor,
                indices: &Tensor,
                output_size: Option<&[i64]>,
            ) -> Result<Tensor> {
                let o = &self.options;
                let stride = o.stride.unwrap_or(o.kernel_size).0;
                f::$op(input, indices, &o.kernel_size.0, Some(&stride), &o.padding.0, output_size)
            }
        }
        by_values!($pool, ["input", "indices", "output_size"], 2, |m, a| {
            let size: Option<Vec<i64>> = a.get(2)?;
            m.try_forward_to(&a.must(0)?, &a.must(1)?, size.as_deref()).map(|t| vec![t])
        });
    };
}
max_unpool!(1, MaxUnpool1d, MaxUnpool1dOptions, "torch.nn.MaxUnpool1d", max_unpool1d);
max_unpool!(2, MaxUnpool2d, MaxUnpool2dOptions, "torch.nn.MaxUnpool2d", max_unpool2d);
max_unpool!(3, MaxUnpool3d, MaxUnpool3dOptions, "torch.nn.MaxUnpool3d", max_unpool3d);

/// Only windows in space are checked when they are given.
fn check_kernel<const N: usize>(sizes: &Ints<N>) -> Result<()> {
    ensure!(
        N == 2 || sizes.each().iter().all(|k| *k > 0),
        Value,
        "kernel_size must be greater than 0, but got {}",
        sizes.py_text()
    );
    Ok(())
}
dims! { 2, 3 =>
    #[class("torch.nn.FractionalMaxPoolNd", build = FractionalMaxPoolNd, include(Indices),
                                order(kernel_size, output_size, output_ratio, Indices, _random_samples))]
    pub struct FractionalMaxPoolNdOptions {
        /// Size of the windows.
        pub kernel_size: Ints<N>,
        /// Sizes of the output.
        pub output_size: Option<Ints<N>>,
        /// Sizes of the output over those of the input, instead of `output_size`.
        pub output_ratio: Option<Factors>,
        /// Random numbers `(N, C, dimensions)` to use instead of fresh ones.
        pub _random_samples: Option<Tensor>,
    }
    /// The largest element of each window, with windows at pseudo-random places (Graham 2015).
    #[derive(Debug, Module)]
    pub struct FractionalMaxPoolNd {
        base: Base,
        /// The arguments.
        pub options: FractionalMaxPoolNdOptions,
        /// Random numbers to use.
        #[module(rename = "_random_samples")]
        pub random_samples: Option<Buffer>,
    }
    impl FractionalMaxPoolNd {
        fn from_options(o: FractionalMaxPoolNdOptions) -> Result<Self> {
            check_kernel(&o.kernel_size)?;
            let name = stringify!(FractionalMaxPoolNd);
            ensure!(
                o.output_size.is_some() || o.output_ratio.is_some(),
                Value,
                "{name} requires specifying either an output size, or a pooling ratio"
            );
            ensure!(
                o.output_size.is_none() || o.output_ratio.is_none(),
                Value,
                "only one of output_size and output_ratio may be specified"
            );
            if let Some(r) = &o.output_ratio {
                let each = r.each(N);
                let wrong = each.iter().take(N).any(|r| !(0.0 < *r && *r < 1.0));
                ensure!(wrong || each.len() >= N, Index, "tuple index out of range");
                ensure!(
                    each.iter().take(N).all(|r| 0.0 < *r && *r < 1.0),
                    Value,
                    "output_ratio must be between 0 and 1 (got {})",
                    r.py_text()
                );
            }
            let random_samples = o._random_samples.clone().map(Buffer::new);
            Ok(FractionalMaxPoolNd { base: Base::new(), options: o, random_samples })
        }
        /// The largest elements, and their positions in their planes.
        ///
        /// # Errors
        /// Inputs that do not fit.
        pub fn try_forward_with_indices(&self, input: &Tensor) -> Result<(Tensor, Tensor)> {
            let o = &self.options;
            let size = o.output_size.map(|s| s.each());
            let size = size.as_ref().map(|s| &s[..]);
            let ratio = o.output_ratio.as_ref().map(|r| r.each(N));
            let samples = self.random_samples.as_deref();
            f::fractional_max_poolNd_with_indices(input, &o.kernel_size.each(), size, ratio.as_deref(), true, samples)
        }
    }
    layer!(
        FractionalMaxPoolNd,
        |m, x| m.try_forward_with_indices(x).map(|r| r.0),
        run | m,
        x | {
            let (values, indices) = m.try_forward_with_indices(x)?;
            Ok(if m.options.return_indices { vec![values, indices] } else { vec![values] })
        }
    );
}
