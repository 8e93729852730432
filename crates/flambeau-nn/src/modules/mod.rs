//! The documented layers.

mod activation;
mod container;
mod conv;
mod data_parallel;
mod dropout;
mod embedding;
mod getters;
mod lazy;
mod linear;
mod loss;
mod norm;
mod options;
mod padding;
mod pooling;
mod rnn;
mod sampling;
mod shape;
mod transformer;

/// `torch.nn.modules.module`: hooks that run for every module of the program. Meant for debugging and profiling.
pub mod module {
    pub use crate::module::hooks::HookOptions;
    pub use crate::module::hooks::global::{
        register_module_backward_hook, register_module_buffer_registration_hook,
        register_module_forward_hook, register_module_forward_hook_with_kwargs,
        register_module_forward_pre_hook, register_module_full_backward_hook,
        register_module_full_backward_pre_hook, register_module_module_registration_hook,
        register_module_parameter_registration_hook,
    };
}

pub use all::*;
/// All of them: the names that `torch.nn` shows, which has no [`module`].
#[doc(hidden)]
pub mod all {
    use super::*;

    pub use activation::*;
    pub use container::{IntoLayers, ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential};
    pub use conv::*;
    pub use data_parallel::{DataParallel, data_parallel, try_data_parallel};
    pub use dropout::*;
    pub use embedding::{Embedding, EmbeddingBag, EmbeddingBagOptions, EmbeddingOptions};
    pub use lazy::*;
    pub use linear::{Bilinear, BilinearOptions, Identity, IdentityOptions, Linear, LinearOptions};
    pub use loss::*;
    pub use norm::*;
    pub use padding::*;
    pub use pooling::*;
    pub use rnn::*;
    pub use sampling::*;
    pub use shape::*;
    pub use transformer::*;
}

/// What a layer computes of one tensor, from one fallible expression: `try_forward`, `forward`, and the by-name call.
macro_rules! layer {
    ($t:ident, |$m:ident, $x:ident| $body:expr) => {
        $crate::modules::layer!($t, |$m, $x| $body, run |m, x| crate::by_name::one(m.try_forward(x)));
    };
    // calls by name may have more results
    ($t:ident, |$m:ident, $x:ident| $body:expr, run |$rm:ident, $rx:ident| $run:expr) => {
        #[flambeau_macros::forward]
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
        $crate::modules::by_name!($t, [$rx] => |$rm| $run);
    };
}
/// The same of several tensors.
macro_rules! layer_of {
    ($t:ident, |$m:ident, $($x:ident),+| $body:expr) => {
        $crate::modules::layer_of!($t, |$m, $($x),+| $body, options);
    };
    ($t:ident, |$m:ident, $($x:ident),+| $body:expr, $($options:ident).+) => {
        #[flambeau_macros::forward]
        impl $t {
            /// `forward` with an error instead of a panic.
            ///
            /// # Errors
            /// Inputs that do not fit.
            pub fn try_forward(&self, $($x: &flambeau_core::Tensor),+) -> flambeau_core::Result<flambeau_core::Tensor> {
                let $m = self;
                $body
            }
        }
        $crate::modules::by_name!($t, [$($x),+] => |m| crate::by_name::one(m.try_forward($($x),+)), $($options).+);
    };
}
/// The forms of a module that takes a struct of arguments beside its tensors, from `compute` of all of them.
macro_rules! with_arguments {
    ($t:ident => $out:ty, $args:ident, |$($x:ident),+|, $full:ty, $lent:ty) => {
        #[flambeau_macros::forward]
        impl $t {
            /// `forward` with an error instead of a panic.
            ///
            /// # Errors
            /// Inputs that do not fit.
            pub fn try_forward(&self, $($x: &flambeau_core::Tensor),+) -> flambeau_core::Result<$out> {
                self.compute($($x,)+ &$args::new())
            }
        }
        impl $t {
            #[doc = concat!("`forward` with further arguments: [`", stringify!($args), "`].")]
            #[track_caller]
            pub fn forward_with(&self, $($x: &flambeau_core::Tensor,)+ args: $args) -> $out {
                flambeau_core::api::ergonomic::expect(self.try_forward_with($($x,)+ args))
            }
            #[doc = concat!("[`", stringify!($t), "::forward_with`] with an error instead of a panic.")]
            ///
            /// # Errors
            /// Inputs or masks that do not fit.
            pub fn try_forward_with(&self, $($x: &flambeau_core::Tensor,)+ args: $args) -> flambeau_core::Result<$out> {
                self.compute($($x,)+ &args)
            }
            #[doc = concat!("Runs the module and its hooks with further arguments: [`", stringify!($args), "`].")]
            #[track_caller]
            pub fn call_with(&self, $($x: &flambeau_core::Tensor,)+ args: $args) -> $out {
                flambeau_core::api::ergonomic::expect(self.try_call_with($($x,)+ args))
            }
            #[doc = concat!("[`", stringify!($t), "::call_with`] with an error instead of a panic.")]
            ///
            /// # Errors
            /// Inputs or masks that do not fit; those of hooks.
            pub fn try_call_with(&self, $($x: &flambeau_core::Tensor,)+ args: $args) -> flambeau_core::Result<$out> {
                crate::module::forward::Call::try_call(self, ($($x,)+ &args))
            }
        }
        crate::module::forward::forwards!(
            $t => $out;
            |m, ($($x,)+ args)| $full => m.compute($($x,)+ &args);
            |m, ($($x,)+ args)| $lent => m.compute($($x,)+ args);
        );
    };
}
macro_rules! by_name {
    ($t:ident, [$($x:ident),+] => |$m:ident| $call:expr) => {
        $crate::modules::by_name!($t, [$($x),+] => |$m| $call, options);
    };
    // the arguments stand elsewhere
    ($t:ident, [$($x:ident),+] => |$m:ident| $call:expr, $($options:ident).+) => {
        impl crate::by_name::Run for $t {
            fn class(&self) -> &'static str {
                stringify!($t)
            }
            #[cfg(feature = "by-name")]
            fn option_by_name(&self, name: &str) -> Option<flambeau_core::Value> {
                self.$($options).+.value_by_name(name)
            }
            fn run(&self, inputs: &[flambeau_core::Tensor]) -> flambeau_core::Result<Vec<flambeau_core::Tensor>> {
                let $m = self;
                match inputs {
                    [$($x),+] => $call,
                    _ => Err(crate::by_name::wrong_count(stringify!($t), [$(stringify!($x)),+].len(), inputs.len())),
                }
            }
        }
        #[cfg(feature = "by-name")]
        impl flambeau_core::dispatch::object::Instance for $t {
            fn into_object(self) -> flambeau_core::dispatch::object::ObjectRef {
                crate::by_name::ModuleObject::make(self)
            }
        }
    };
}
/// Calls by name of a layer whose `forward` takes more than tensors: its parameters, how many are required, and what a
/// call gives.
macro_rules! by_values {
    ($t:ident, $names:expr, $required:literal, |$m:ident, $a:ident| $call:expr) => {
        $crate::modules::by_values!($t, $names, $required, |$m, $a| $call, options);
    };
    ($t:ident, $names:expr, $required:literal, |$m:ident, $a:ident| $call:expr, $($options:ident).+) => {
        impl crate::by_name::Run for $t {
            fn class(&self) -> &'static str {
                stringify!($t)
            }
            #[cfg(feature = "by-name")]
            fn option_by_name(&self, name: &str) -> Option<flambeau_core::Value> {
                self.$($options).+.value_by_name(name)
            }
            fn run(
                &self,
                inputs: &[flambeau_core::Tensor],
            ) -> flambeau_core::Result<Vec<flambeau_core::Tensor>> {
                crate::by_name::on_values(&|v, k| crate::by_name::Run::run_by_name(self, v, k), inputs)
            }
            fn run_by_name(
                &self,
                args: &[flambeau_core::Value],
                kwargs: &flambeau_core::dispatch::object::Kwargs,
            ) -> flambeau_core::Result<Vec<flambeau_core::Value>> {
                let names = $names;
                let $a = crate::by_name::ForwardArgs::bind(stringify!($t), &names, $required, args, kwargs)?;
                let $m = self;
                Ok(crate::by_name::values($call?))
            }
        }
        #[cfg(feature = "by-name")]
        impl flambeau_core::dispatch::object::Instance for $t {
            fn into_object(self) -> flambeau_core::dispatch::object::ObjectRef {
                crate::by_name::ModuleObject::make(self)
            }
        }
    };
}
/// A layer that has nothing but its options, and the buffers among them.
macro_rules! plain {
    ($(#[$doc:meta])* $t:ident, $options:ident) => {
        $crate::modules::plain!($(#[$doc])* $t, $options, |o| Ok::<_, flambeau_core::Error>(o));
    };
    ($(#[$doc:meta])* $t:ident, $options:ident, |$o:ident| $check:expr) => {
        $crate::modules::plain!($(#[$doc])* $t, $options, buffers(), |$o| $check);
    };
    (
        $(#[$doc:meta])* $t:ident, $options:ident, buffers($($(#[$bm:meta])* $buffer:ident),*), |$o:ident| $check:expr
    ) => {
        $(#[$doc])*
        #[derive(Debug, flambeau_macros::Module)]
        pub struct $t {
            base: crate::Base,
            /// The arguments.
            pub options: $options,
            $($(#[$bm])* pub $buffer: Option<crate::Buffer>,)*
        }
        impl $t {
            fn from_options($o: $options) -> flambeau_core::Result<Self> {
                let options = $check?;
                $(let $buffer = options.$buffer.clone().map(crate::Buffer::new);)*
                Ok($t { base: crate::Base::new(), options, $($buffer),* })
            }
        }
    };
}
/// Such layers with one row each: class, further arguments of `#[class]`, fields of the options, buffers and checks where
/// there are any, and what is computed of module, options and inputs.
macro_rules! layers {
    ($(
        $(#[$doc:meta])*
        $t:ident $options:ident $path:literal [$($class:tt)*] { $($(#[$fm:meta])* $field:ident: $ty:ty),* $(,)? }
        $(buffers($($buffers:tt)*))? $(check |$c:ident| $check:expr,)?
        |$m:ident, $o:ident, $($x:ident),+| $e:expr;
    )*) => {$(
        #[flambeau_macros::class($path, build = $t, $($class)*)]
        pub struct $options {
            $($(#[$fm])* pub $field: $ty,)*
        }
        $crate::modules::plain!($(#[$doc])* $t, $options, buffers($($($buffers)*)?), |o| {
            $({
                let $c = &o;
                $check?;
            })?
            Ok::<_, flambeau_core::Error>(o)
        });
        $crate::modules::layers!(@ $t, $m, $o, [$($x),+], $e);
    )*};
    (@ $t:ident, $m:ident, $o:ident, [$x:ident], $e:expr) => {
        $crate::modules::layer!($t, |$m, $x| {
            #[allow(unused_variables)]
            let $o = &$m.options;
            $e
        });
    };
    (@ $t:ident, $m:ident, $o:ident, [$($x:ident),+], $e:expr) => {
        $crate::modules::layer_of!($t, |$m, $($x),+| {
            let $o = &$m.options;
            $e
        });
    };
}
use {by_name, by_values, layer, layer_of, layers, plain, with_arguments};
