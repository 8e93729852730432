//! Lazy modules: they take the sizes of their parameters from their first input.

use super::conv::{Geometry, TransposedGeometry};
use super::norm::Running;
use super::options::Factory;
use super::{all::*, by_name, by_values};
use crate::module::base::Base;
use crate::module::deepcopy::{self, Copied, Memo};
use crate::module::traversal::Own;
use crate::module::{Module, Visitor, VisitorMut};
use crate::parameter::Parameter;
use flambeau_core::tensor::geometry::{checked_numel, fmt_sizes};
use flambeau_core::{Result, Scalar, Tensor, ensure, ops};
use flambeau_macros::class;
use std::borrow::Cow;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

/// A module whose parameters get their sizes from the first input. Until then they are
/// [uninitialized](Parameter::is_uninitialized); loading a state dict gives them its sizes. Build optimizers before or
/// after: parameters stay the same ones.
#[doc(alias = "torch.nn.modules.lazy.LazyModuleMixin")]
pub trait LazyModule: Module {
    /// Gives the parameters their sizes and first values, where they have none yet. `forward` does it.
    ///
    /// # Errors
    /// An input that does not fit.
    #[doc(alias = "torch.nn.modules.lazy.LazyModuleMixin.initialize_parameters")]
    fn initialize_parameters(&self, input: &Tensor) -> Result<()>;
    /// Whether some parameters or buffers have no sizes yet.
    #[doc(alias = "torch.nn.modules.lazy.LazyModuleMixin.has_uninitialized_params")]
    fn has_uninitialized_params(&self) -> bool {
        let own = Own::of(self.as_module());
        own.parameters.iter().any(|(_, p)| p.is_uninitialized())
            || own.buffers.iter().any(|(_, b)| b.is_uninitialized())
    }
}

/// Whether the module ran, and the number of features that it took from its first input.
#[derive(Debug)]
struct Found {
    number: AtomicI64,
    busy: Mutex<()>,
}
const NOT_YET: i64 = -1;
impl Found {
    fn new() -> Found {
        Found { number: AtomicI64::new(NOT_YET), busy: Mutex::new(()) }
    }
    fn copied(&self) -> Found {
        Found { number: AtomicI64::new(self.number.load(Ordering::Acquire)), busy: Mutex::new(()) }
    }
    fn get(&self) -> Option<i64> {
        Some(self.number.load(Ordering::Acquire)).filter(|n| *n != NOT_YET)
    }
    /// Runs `f` once for the first input, whatever thread brings it; it gives the number.
    fn once(&self, f: impl FnOnce() -> Result<i64>) -> Result<()> {
        if self.get().is_some() {
            return Ok(());
        }
        let _one = self.busy.lock().unwrap_or_else(|e| e.into_inner());
        if self.get().is_none() {
            self.number.store(f()?, Ordering::Release);
        }
        Ok(())
    }
}

fn first_fill(t: Option<&Tensor>, v: i64) -> Result<()> {
    t.map_or(Ok(()), |t| flambeau_autograd::no_grad(|| ops::fill_(t, Scalar::Int(v))))
}

/// One lazy class: the regular one that it becomes, its options, how the regular module is made with open places, how
/// they are closed, and the forward by name.
macro_rules! lazy {
    (
        $lazy:ident, $options:ident, $path:literal, $full:ident, $number:ident,
        include($($group:tt)*), { $($field:tt)* },
        |$o:ident| $make:expr,
        |$m:ident, $x:ident, $open:ident| $close:expr,
        $how:tt
    ) => {
        #[class($path, build = $lazy, include($($group)*))]
        pub struct $options {
            $($field)*
        }
        #[doc = concat!("A [`", stringify!($full), "`] that takes the number of its input's channels or features from the")]
        /// first input. It prints as what it is before and as the regular module afterwards.
        #[derive(Debug)]
        pub struct $lazy {
            inner: $full,
            found: Found,
        }
        #[flambeau_macros::forward]
        impl $lazy {
            fn from_options($o: $options) -> Result<Self> {
                Ok($lazy { inner: $make?, found: Found::new() })
            }
            /// The regular module, once the first input was seen.
            pub fn materialized(&self) -> Option<&$full> {
                self.found.get().map(|_| &self.inner)
            }
            /// `forward` with an error instead of a panic.
            ///
            /// # Errors
            /// Inputs that do not fit.
            pub fn try_forward(&self, input: &Tensor) -> Result<Tensor> {
                self.initialize_parameters(input)?;
                self.inner.try_forward(input)
            }
        }
        impl LazyModule for $lazy {
            fn initialize_parameters(&self, $x: &Tensor) -> Result<()> {
                let close = |$m: &$full, $x: &Tensor, $open: bool| -> Result<i64> { $close };
                self.found.once(|| close(&self.inner, $x, self.has_uninitialized_params()))
            }
        }
        impl Module for $lazy {
            fn type_name(&self) -> Cow<'static, str> {
                Cow::Borrowed(if self.found.get().is_some() { stringify!($full) } else { stringify!($lazy) })
            }
            fn base(&self) -> Option<&Base> {
                self.inner.base()
            }
            fn base_mut(&mut self) -> Option<&mut Base> {
                self.inner.base_mut()
            }
            fn extra_repr(&self) -> String {
                let mut o = self.inner.options.clone();
                o.$number = self.found.get().unwrap_or(0);
                o.extra_repr()
            }
            fn version(&self) -> i64 {
                self.inner.version()
            }
            fn may_lack(&self, name: &str, version: Option<i64>) -> bool {
                self.inner.may_lack(name, version)
            }
            fn visit<'a>(&'a self, v: &mut dyn Visitor<'a>) {
                self.inner.visit(v);
            }
            fn visit_mut(&mut self, v: &mut dyn VisitorMut) -> Result<()> {
                self.inner.visit_mut(v)
            }
            fn copied(&self, memo: &mut Memo) -> Result<Copied> {
                Ok(Copied::new($lazy { inner: deepcopy::own(&self.inner, memo)?, found: self.found.copied() }))
            }
            crate::module::is_itself!();
        }
        impl fmt::Display for $lazy {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                crate::module::repr::display(self, f)
            }
        }
        lazy!(@ $how $lazy);
    };
    (@ plain $lazy:ident) => {
        by_name!($lazy, [x] => |m| m.try_forward(x).map(|t| vec![t]), inner.options);
    };
    (@ sized $lazy:ident) => {
        impl $lazy {
            /// `forward` with an output of a wanted size, where several belong to the input's.
            ///
            /// # Errors
            /// Inputs that do not fit; sizes that no output has.
            pub fn try_forward_to(&self, input: &Tensor, output_size: Option<&[i64]>) -> Result<Tensor> {
                self.initialize_parameters(input)?;
                self.inner.try_forward_to(input, output_size)
            }
        }
        by_values!($lazy, ["input", "output_size"], 1, |m, a| {
            let size: Option<Vec<i64>> = a.get(1)?;
            m.try_forward_to(&a.must(0)?, size.as_deref()).map(|t| vec![t])
        }, inner.options);
    };
}

lazy!(
    LazyLinear,
    LazyLinearOptions,
    "torch.nn.LazyLinear",
    Linear,
    in_features,
    include(Factory),
    {
        /// Size of each output.
        pub out_features: i64,
        /// Whether a bias is added.
        #[default(true)]
        pub bias: bool,
    },
    |o| {
        let make = Factory::from(&o);
        let weight = Parameter::uninitialized(true, o.dtype, o.device)?;
        let bias = make.open_if(o.bias)?;
        let options = LinearOptions::new(0, o.out_features).bias(o.bias).with_factory(make);
        Ok::<_, flambeau_core::Error>(Linear { base: Base::new(), options, weight, bias })
    },
    |m, x, is_open| {
        let n = x.sizes().last().copied();
        let n = n.ok_or_else(|| flambeau_core::Error::index("tuple index out of range"))?;
        if is_open {
            if m.weight.is_uninitialized() {
                m.weight.materialize(&[m.options.out_features, n])?;
            }
            if let Some(b) = m.bias.as_ref().filter(|b| b.is_uninitialized()) {
                b.materialize(&[m.options.out_features])?;
            }
            m.try_reset_parameters()?;
        }
        let known = m.weight.sizes()[1];
        ensure!(
            n == known,
            Assertion,
            "The in_features inferred from input: {n} is not equal to in_features from self.weight: {known}"
        );
        Ok(n)
    },
    plain
);

/// Channels of an input of a convolution over `n` dimensions.
fn channels(x: &Tensor, n: usize, class: &str) -> Result<i64> {
    ensure!(
        x.dim() == n + 1 || x.dim() == n + 2,
        Runtime,
        "Expected {}D (unbatched) or {}D (batched) input to {class}, but got input of size: torch.Size({})",
        n + 1,
        n + 2,
        fmt_sizes(x.sizes())
    );
    Ok(x.sizes()[x.dim() - n - 1])
}

macro_rules! lazy_conv {
    (
        $n:literal, $lazy:ident, $options:ident, $path:literal, $full:ident, $full_options:ident, $geometry:ident,
        $with:ident, $how:tt
    ) => {
        lazy!(
            $lazy,
            $options,
            $path,
            $full,
            in_channels,
            include($geometry<$n>, Factory),
            {},
            |o| {
                let options = $full_options::new(0, o.out_channels, o.kernel_size).$with(&o).with_factory(&o);
                $full::checked(&options, (0, 0), stringify!($lazy))?;
                // PyTorch makes a weight without channels first
                checked_numel(&[&[0, 0], &options.kernel_size.0[..]].concat())?;
                let weight = Parameter::uninitialized(true, o.dtype, o.device)?;
                let bias = Factory::from(&o).open_if(o.bias)?;
                Ok::<_, flambeau_core::Error>($full { base: Base::new(), options, weight, bias })
            },
            |m, x, is_open| {
                if !is_open {
                    return Ok(0);
                }
                let (o, n) = (&m.options, channels(x, $n, stringify!($lazy))?);
                ensure!(n % o.groups == 0, Value, "in_channels must be divisible by groups");
                if m.weight.is_uninitialized() {
                    m.weight.materialize(&$full::weight_sizes(o, n))?;
                }
                if let Some(b) = m.bias.as_ref().filter(|b| b.is_uninitialized()) {
                    b.materialize(&[o.out_channels])?;
                }
                if n != 0 {
                    m.try_reset_parameters()?;
                }
                Ok(n)
            },
            $how
        );
    };
}
macro_rules! lazy_convs {
    ($($n:literal, $lazy:ident, $options:ident, $path:literal, $full:ident, $full_options:ident;)*) => {$(
        lazy_conv!($n, $lazy, $options, $path, $full, $full_options, Geometry, with_geometry, plain);
    )*};
    (transposed $($n:literal, $lazy:ident, $options:ident, $path:literal, $full:ident, $full_options:ident;)*) => {$(
        lazy_conv!(
            $n, $lazy, $options, $path, $full, $full_options, TransposedGeometry, with_transposed_geometry, sized
        );
    )*};
}
lazy_convs! {
    1, LazyConv1d, LazyConv1dOptions, "torch.nn.LazyConv1d", Conv1d, Conv1dOptions;
    2, LazyConv2d, LazyConv2dOptions, "torch.nn.LazyConv2d", Conv2d, Conv2dOptions;
    3, LazyConv3d, LazyConv3dOptions, "torch.nn.LazyConv3d", Conv3d, Conv3dOptions;
}
lazy_convs! { transposed
    1, LazyConvTranspose1d, LazyConvTranspose1dOptions, "torch.nn.LazyConvTranspose1d", ConvTranspose1d, ConvTranspose1dOptions;
    2, LazyConvTranspose2d, LazyConvTranspose2dOptions, "torch.nn.LazyConvTranspose2d", ConvTranspose2d, ConvTranspose2dOptions;
    3, LazyConvTranspose3d, LazyConvTranspose3dOptions, "torch.nn.LazyConvTranspose3d", ConvTranspose3d, ConvTranspose3dOptions;
}

macro_rules! lazy_norm {
    ($($lazy:ident, $options:ident, $path:literal, $full:ident, $full_options:ident;)*) => {$(
        lazy!(
            $lazy,
            $options,
            $path,
            $full,
            num_features,
            include(Running),
            {},
            |o| {
                let mut running = Running::from(&o);
                running.bias &= running.affine;
                let parts = running.open_parts()?;
                Ok::<_, flambeau_core::Error>($full::of_parts($full_options::new(0).with_running(running), parts))
            },
            |m, x, is_open| {
                if !is_open {
                    return Ok(0);
                }
                let n = x.sizes().get(1).copied();
                let n = n.ok_or_else(|| flambeau_core::Error::index("tuple index out of range"))?;
                for p in [&m.weight, &m.bias].into_iter().flatten().filter(|p| p.is_uninitialized()) {
                    p.materialize(&[n])?;
                }
                for b in [&m.running_mean, &m.running_var].into_iter().flatten().filter(|b| b.is_uninitialized()) {
                    b.materialize(&[n])?;
                }
                if n != 0 {
                    first_fill(m.running_mean.as_deref(), 0)?;
                    first_fill(m.running_var.as_deref(), 1)?;
                    first_fill(m.weight.as_deref(), 1)?;
                    first_fill(m.bias.as_deref(), 0)?;
                }
                Ok(n)
            },
            plain
        );
    )*};
}
lazy_norm! {
    LazyBatchNorm1d, LazyBatchNorm1dOptions, "torch.nn.LazyBatchNorm1d", BatchNorm1d, BatchNorm1dOptions;
    LazyBatchNorm2d, LazyBatchNorm2dOptions, "torch.nn.LazyBatchNorm2d", BatchNorm2d, BatchNorm2dOptions;
    LazyBatchNorm3d, LazyBatchNorm3dOptions, "torch.nn.LazyBatchNorm3d", BatchNorm3d, BatchNorm3dOptions;
    LazyInstanceNorm1d, LazyInstanceNorm1dOptions, "torch.nn.LazyInstanceNorm1d", InstanceNorm1d, InstanceNorm1dOptions;
    LazyInstanceNorm2d, LazyInstanceNorm2dOptions, "torch.nn.LazyInstanceNorm2d", InstanceNorm2d, InstanceNorm2dOptions;
    LazyInstanceNorm3d, LazyInstanceNorm3dOptions, "torch.nn.LazyInstanceNorm3d", InstanceNorm3d, InstanceNorm3dOptions;
}
