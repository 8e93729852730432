//! The documented layers.

mod container;
mod shape;

pub use container::{ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential};
pub use shape::{Flatten, FlattenOptions, Identity, IdentityOptions};

/// Modules are handed out by name as boxed `dyn Module`.
macro_rules! instances {
    ($($t:ty),* $(,)?) => {$(
        impl flambeau_core::class::Instance for $t {
            fn into_object(self) -> flambeau_core::class::Object {
                let m: Box<dyn crate::module::Module> = Box::new(self);
                Box::new(m)
            }
        }
    )*};
}
use instances;
