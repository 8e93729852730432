//! The table of names: a line says a function's name, its arguments, what it answers and why, and from it come the Rust
//! function and the call by name.

use flambeau_core::{Error, Result};

/// `fn NAME(required; optional) -> T { .. }` is a function that always answers, `try try_NAME(..) -> T { .. }` one that may fail
/// and gets the form that panics beside it. Optional arguments are those of Python's signature that no answer here depends on:
/// calls by name check them, Rust's functions go without.
macro_rules! answers {
    ($prefix:literal, $list:ident { $($all:tt)* }) => {
        $crate::table::answers!(@functions $($all)*);
        #[cfg(feature = "by-name")]
        pub(crate) const $list: &[$crate::by_name::Row] = $crate::table::answers!(@rows $prefix; []; $($all)*);
    };
    (@default) => { None };
    (@default $d:expr) => { Some($d) };
    (@functions) => {};
    (@functions $(#[$m:meta])* fn $name:ident($($p:ident: $t:ty $(= $d:expr)?),* $(; $($o:ident: $ot:ty),*)?) -> $r:ty { $($body:tt)* } $($rest:tt)*) => {
        $(#[$m])*
        #[allow(clippy::unused_unit)]
        pub fn $name($($p: $t),*) -> $r { $(let _ = &$p;)* $($body)* }
        $crate::table::answers!(@functions $($rest)*);
    };
    (@functions $(#[$m:meta])* try $name:ident($($p:ident: $t:ty $(= $d:expr)?),* $(; $($o:ident: $ot:ty),*)?) -> $r:ty { $($body:tt)* } $($rest:tt)*) => {
        $(#[$m])*
        ///
        /// # Errors
        /// PyTorch's error where there is no such device.
        #[flambeau_macros::short]
        pub fn $name($($p: $t),*) -> flambeau_core::Result<$r> { $(let _ = &$p;)* $($body)* }
        $crate::table::answers!(@functions $($rest)*);
    };
    (@rows $prefix:literal; [$($done:tt)*];) => { &[$($done)*] };
    (@rows $prefix:literal; [$($done:tt)*]; $(#[$m:meta])* $kind:ident $name:ident($($p:ident: $t:ty $(= $d:expr)?),* $(; $($o:ident: $ot:ty),*)?) -> $r:ty { $($body:tt)* } $($rest:tt)*) => {
        $crate::table::answers!(@rows $prefix; [$($done)* ($prefix, stringify!($name), |a, k| {
            #[allow(unused_imports)]
            use $crate::by_name::{Answer as _, Bound};
            #[allow(unused_mut)]
            let mut b = Bound::new(stringify!($name), &[$(stringify!($p),)* $($(stringify!($o),)*)?], a, k)?;
            $(let $p: $t = b.argument($crate::table::answers!(@default $($d)?))?;)*
            #[allow(unused_imports)]
            use $crate::cuda::runtime::Optional as _;
            // a device is the current one for the call, where there are devices
            $($(let $o = b.optional::<$ot>()?.map(|v| v.enter()).transpose()?;)*)?
            b.end();
            let answer = $name($($p),*).answer();
            $($(drop($o);)*)?
            answer
        }),]; $($rest)*)
    };
}
pub(crate) use answers;

/// A class whose objects need a device that is not there: a type without values, so that programs that name it compile, and its
/// constructor is an error.
macro_rules! absent_class {
    ($prefix:literal, $list:ident { $(#[$m:meta])* $class:ident = $error:expr; $($(#[$mm:meta])* $method:ident($($p:ident: $t:ty),*) -> $r:ty;)* }) => {
        $(#[$m])*
        #[derive(Debug)]
        pub struct $class($crate::table::Never);
        impl $class {
            /// Makes one. Panics with the text of [`Self::try_new`]'s error.
            #[track_caller]
            #[allow(clippy::new_without_default)]
            pub fn new() -> $class {
                flambeau_core::api::ergonomic::expect(Self::try_new())
            }
            /// Makes one.
            ///
            /// # Errors
            /// Always: there is no such device.
            pub fn try_new() -> flambeau_core::Result<$class> {
                Err($error)
            }
            $($(#[$mm])* #[allow(unused_variables)]
            pub fn $method(&self $(, $p: $t)*) -> $r {
                match self.0 {}
            })*
        }
        #[cfg(feature = "by-name")]
        pub(crate) const $list: &[$crate::by_name::Row] = &[
            ($prefix, stringify!($class), |_, _| Err($error)),
            $((concat!($prefix, ".", stringify!($class)), stringify!($method), |a, _| {
                Err($crate::by_name::unbound(stringify!($class), stringify!($method), a))
            }),)*
        ];
    };
}
pub(crate) use absent_class;

/// No value at all.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Never {}

/// What the classes of devices that are not built in say.
pub(crate) fn dummy(class: &str) -> Error {
    Error::runtime(format!("Tried to instantiate dummy base class {class}"))
}
/// What calls of a device say that the library was built without.
pub(crate) fn not_compiled<T>(device: &str) -> Result<T> {
    Err(Error::assertion(format!("Torch not compiled with {device} enabled")))
}
/// What calls into a back end's hooks say where it is not there.
pub(crate) fn without<T>(function: &str, device: &str) -> Result<T> {
    Err(Error::runtime(format!("Cannot execute {function}() without {device} backend.")))
}
