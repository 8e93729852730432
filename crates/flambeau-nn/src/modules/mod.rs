//! The documented layers.

mod activation;
mod adaptive;
mod attention;
mod container;
mod container_by_name;
mod conv;
mod conv_transpose;
mod data_parallel;
mod dropout;
mod embedding;
mod instance_norm;
mod lazy;
mod linear;
mod linear_cross_entropy;
mod local_norm;
mod loss;
mod margins;
pub mod module;
mod norm;
mod padding;
mod pooling;
mod rnn;
mod rnn_cells;
mod rnn_layers;
mod sampling;
mod shape;
mod softmax;
mod transformer;
mod transformer_layers;
mod triplet;
mod unpool;

pub use activation::*;
pub use adaptive::{AdaptiveLogSoftmaxWithLoss, AdaptiveLogSoftmaxWithLossOptions};
pub use attention::{
    AttentionArgs, MultiheadAttention, MultiheadAttentionOptions, OutProjection, get_fastpath_enabled,
    set_fastpath_enabled,
};
pub use container::{IntoLayers, ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential};
pub use conv::*;
pub use conv_transpose::*;
pub use data_parallel::{DataParallel, data_parallel, try_data_parallel};
pub use dropout::*;
pub use embedding::{Embedding, EmbeddingBag, EmbeddingBagOptions, EmbeddingOptions};
pub use instance_norm::*;
pub use lazy::*;
pub use linear::{Bilinear, BilinearOptions, Identity, IdentityOptions, Linear, LinearOptions};
pub use linear_cross_entropy::{
    LinearCrossEntropyLoss, LinearCrossEntropyLossOptions, LinearCrossEntropyOptions,
};
pub use local_norm::{CrossMapLRN2d, CrossMapLRN2dOptions, LocalResponseNorm, LocalResponseNormOptions};
pub use loss::*;
pub use margins::*;
pub use norm::*;
pub use padding::*;
pub use pooling::*;
pub use rnn::{RNNBase, RNNBaseOptions, RecurrentWeights};
pub use rnn_cells::*;
pub use rnn_layers::*;
pub use sampling::*;
pub use shape::*;
pub use softmax::*;
pub use transformer::*;
pub use transformer_layers::*;
pub use triplet::{Distance, TripletMarginWithDistanceLoss, TripletMarginWithDistanceLossOptions};
pub use unpool::*;

/// What a layer computes of one tensor, from one fallible expression: `try_forward`, `forward`, and the by-name call.
macro_rules! layer {
    ($t:ident, |$m:ident, $x:ident| $body:expr) => {
        layer!($t, |$m, $x| $body, run |m, x| m.try_forward(x).map(|t| vec![t]));
    };
    // calls by name may have more results
    ($t:ident, |$m:ident, $x:ident| $body:expr, run |$rm:ident, $rx:ident| $run:expr) => {
        impl $t {
            /// `forward` with an error instead of a panic.
            ///
            /// # Errors
            /// Inputs that do not fit.
            pub fn try_forward(&self, input: &flambeau_core::Tensor) -> flambeau_core::Result<flambeau_core::Tensor> {
                let ($m, $x) = (self, input);
                $body
            }
        }
        crate::forward::forwards!($t => flambeau_core::Tensor; |m, x| &'t flambeau_core::Tensor => m.try_forward(x););
        $crate::modules::by_name!($t, [$rx] => |$rm| $run);
    };
}
/// The same of several tensors, which `forward` takes one by one and `call` as a tuple.
macro_rules! layer_of {
    ($t:ident, |$m:ident, $($x:ident),+| $body:expr) => {
        impl $t {
            /// `forward` with an error instead of a panic.
            ///
            /// # Errors
            /// Inputs that do not fit.
            pub fn try_forward(&self, $($x: &flambeau_core::Tensor),+) -> flambeau_core::Result<flambeau_core::Tensor> {
                let $m = self;
                $body
            }
            /// Computes it, without hooks; panics with the error's text.
            #[track_caller]
            pub fn forward(&self, $($x: &flambeau_core::Tensor),+) -> flambeau_core::Tensor {
                flambeau_core::api::ergonomic::expect(self.try_forward($($x),+))
            }
        }
        crate::forward::forwards!(
            $t => flambeau_core::Tensor;
            |m, ($($x),+)| $crate::modules::tuple_of!($($x),+) => m.try_forward($($x),+);
        );
        $crate::modules::by_name!($t, [$($x),+] => |m| m.try_forward($($x),+).map(|t| vec![t]));
    };
}
macro_rules! tuple_of {
    ($a:ident, $b:ident) => { (&'t flambeau_core::Tensor, &'t flambeau_core::Tensor) };
    ($a:ident, $b:ident, $c:ident) => {
        (&'t flambeau_core::Tensor, &'t flambeau_core::Tensor, &'t flambeau_core::Tensor)
    };
}
macro_rules! by_name {
    ($t:ident, [$($x:ident),+] => |$m:ident| $call:expr) => {
        impl crate::object::Run for $t {
            fn class(&self) -> &'static str {
                stringify!($t)
            }
            fn run(&self, inputs: &[flambeau_core::Tensor]) -> flambeau_core::Result<Vec<flambeau_core::Tensor>> {
                let $m = self;
                match inputs {
                    [$($x),+] => $call,
                    _ => Err(crate::object::wrong_count(stringify!($t), [$(stringify!($x)),+].len(), inputs.len())),
                }
            }
        }
        impl flambeau_core::library::class::Instance for $t {
            fn into_object(self) -> flambeau_core::dispatch::object::ObjectRef {
                crate::object::ModuleObject::make(self)
            }
        }
    };
}
/// Calls by name of a layer whose `forward` takes more than tensors: its parameters, how many are required, and what a
/// call gives.
macro_rules! by_values {
    ($t:ident, $names:expr, $required:literal, |$m:ident, $a:ident| $call:expr) => {
        impl crate::object::Run for $t {
            fn class(&self) -> &'static str {
                stringify!($t)
            }
            fn run(
                &self,
                inputs: &[flambeau_core::Tensor],
            ) -> flambeau_core::Result<Vec<flambeau_core::Tensor>> {
                let values: Vec<_> = inputs.iter().cloned().map(flambeau_core::Value::Tensor).collect();
                let out = crate::object::Run::run_by_name(self, &values, &[])?;
                let given = out.iter().filter(|v| !matches!(v, flambeau_core::Value::None));
                given.map(flambeau_core::dispatch::value::FromValue::from_value).collect()
            }
            fn run_by_name(
                &self,
                args: &[flambeau_core::Value],
                kwargs: &flambeau_core::dispatch::object::Kwargs,
            ) -> flambeau_core::Result<Vec<flambeau_core::Value>> {
                let names = $names;
                let $a = crate::object::ForwardArgs::bind(stringify!($t), &names, $required, args, kwargs)?;
                let $m = self;
                let out: Vec<_> = $call?;
                Ok(out.into_iter().map(flambeau_core::dispatch::value::IntoValue::into_value).collect())
            }
        }
        impl flambeau_core::library::class::Instance for $t {
            fn into_object(self) -> flambeau_core::dispatch::object::ObjectRef {
                crate::object::ModuleObject::make(self)
            }
        }
    };
}
/// A layer that has nothing but its options.
macro_rules! plain {
    ($(#[$doc:meta])* $t:ident, $options:ident) => {
        plain!($(#[$doc])* $t, $options, |o| Ok::<_, flambeau_core::Error>(o));
    };
    ($(#[$doc:meta])* $t:ident, $options:ident, |$o:ident| $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, flambeau_macros::Module)]
        pub struct $t {
            base: crate::Base,
            /// The arguments.
            pub options: $options,
        }
        impl $t {
            fn from_options($o: $options) -> flambeau_core::Result<Self> {
                let options = $check?;
                Ok($t { base: crate::Base::new(), options })
            }
        }
    };
}
use {by_name, by_values, layer, layer_of, plain, tuple_of};

/// A fresh tensor for a parameter.
fn empty(
    sizes: &[i64],
    dtype: Option<flambeau_core::DType>,
    device: Option<flambeau_core::Device>,
) -> flambeau_core::Result<flambeau_core::Tensor> {
    flambeau_core::Tensor::empty_raw(
        sizes,
        dtype.unwrap_or_else(flambeau_core::iter::promotion::default_dtype),
        device.unwrap_or(flambeau_core::Device::Cpu),
    )
}
