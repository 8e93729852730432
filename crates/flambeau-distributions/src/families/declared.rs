//! How a distribution whose arguments are all broadcast together is declared.

/// A distribution and its options: `"path" Name NameOptions { argument: |d| constraint, .. }`.
macro_rules! family {
    ($(#[$doc:meta])* $path:literal $name:ident $options:ident {
        $($(#[$attr:meta])* $field:ident: |$d:ident| $constraint:expr,)+
    }) => {
        #[::flambeau_macros::class($path, build = $name)]
        pub struct $options {
            $($(#[$attr])* pub $field: $crate::argument::Param,)+
            /// Whether arguments and values are checked.
            pub validate_args: Option<bool>,
        }
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[doc(alias = $path)]
        pub struct $name {
            shapes: $crate::distribution::Shapes,
            $($field: ::flambeau_core::Tensor,)+
        }
        impl $name {
            fn from_options(o: $options) -> ::flambeau_core::Result<Self> {
                let all = $crate::argument::broadcast_all([$(&o.$field),+])?;
                let batch = all[0].sizes().to_vec();
                let [$($field),+] = all;
                let shapes = $crate::distribution::Shapes::new(&batch, &[], o.validate_args);
                $crate::distribution::checked($name { shapes, $($field),+ })
            }
            fn expanded(&self, batch: &[i64]) -> ::flambeau_core::Result<Self> {
                Ok($name {
                    shapes: self.shapes.expanded(batch),
                    $($field: ::flambeau_autograd::shorthand::expand(&self.$field, batch)?,)+
                })
            }
            fn held(&self) -> Vec<$crate::distribution::Argument> {
                vec![$({
                    let $d = self;
                    let _ = $d;
                    let here = $crate::distribution::Held::Here(self.$field.clone());
                    $crate::distribution::Argument::new(stringify!($field), $constraint, here)
                }),+]
            }
            $(
                #[doc = concat!("The argument `", stringify!($field), "`, over the batch.")]
                pub fn $field(&self) -> &::flambeau_core::Tensor {
                    &self.$field
                }
            )+
        }
        object!($name);
    };
}
/// What distributions made by [`family`] have in common, within `impl Distribution`.
macro_rules! common {
    ($name:ident) => {
        named!($name);
        fn arguments(&self) -> ::flambeau_core::Result<Vec<$crate::distribution::Argument>> {
            Ok(self.held())
        }
        fn try_expand(
            &self,
            batch_shape: &[i64],
        ) -> ::flambeau_core::Result<::std::sync::Arc<dyn $crate::distribution::Distribution>> {
            Ok(::std::sync::Arc::new(self.expanded(batch_shape)?))
        }
    };
}
/// Name and shapes of a distribution with a field of that name.
macro_rules! named {
    ($name:ident) => {
        fn name(&self) -> &'static str {
            stringify!($name)
        }
        fn shapes(&self) -> &$crate::distribution::Shapes {
            &self.shapes
        }
    };
}
/// The distribution as an object of calls by name.
macro_rules! object {
    ($name:ident) => {
        #[cfg(feature = "by-name")]
        impl ::flambeau_core::dispatch::object::Instance for $name {
            fn into_object(self) -> ::flambeau_core::dispatch::object::ObjectRef {
                $crate::by_name::distribution(::std::sync::Arc::new(self))
            }
        }
    };
}
/// Densities of a case of a transformed distribution: values are checked against the case's own support.
macro_rules! checked_values {
    () => {
        fn try_log_prob(
            &self,
            value: &::flambeau_core::Tensor,
        ) -> ::flambeau_core::Result<::flambeau_core::Tensor> {
            $crate::distribution::check_value(self, value)?;
            $crate::distribution::Distribution::try_log_prob(&self.plain, value)
        }
        fn try_cdf(
            &self,
            value: &::flambeau_core::Tensor,
        ) -> ::flambeau_core::Result<::flambeau_core::Tensor> {
            self.plain.cdf_with(value, self.shapes.validate())
        }
    };
}
