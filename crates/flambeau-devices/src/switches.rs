//! Switches: values that are set and read, a line each. By name they are attributes of modules
//! (`torch.backends.cudnn.enabled`), written by `NAME.__set__`.

#[cfg(feature = "by-name")]
pub(crate) use by_name::{ALL, Kind, Switch};

/// `"path" read write CELL: CellType, type = default, "what errors call the setter";`
macro_rules! switches {
    ($list:ident; $($(#[$m:meta])* $path:literal $read:ident $write:ident $cell:ident: $atomic:ident, $t:ident = $default:expr, $said:literal;)*) => {
        $(
            static $cell: std::sync::atomic::$atomic = std::sync::atomic::$atomic::new($default);
            $(#[$m])*
            pub fn $read() -> $t {
                $cell.load(std::sync::atomic::Ordering::Relaxed)
            }
            #[doc = concat!("Sets [`", stringify!($read), "`].")]
            pub fn $write(value: $t) {
                $cell.store(value, std::sync::atomic::Ordering::Relaxed);
            }
        )*
        #[cfg(feature = "by-name")]
        pub(crate) const $list: &[$crate::switches::Switch] =
            &[$($crate::switches::switch!($path, $read, $write, $t, $said)),*];
    };
}
pub(crate) use switches;

/// A switch whose functions are written by hand.
#[cfg(feature = "by-name")]
macro_rules! switch {
    ($path:literal, $read:path, $write:path, $t:ty, $said:literal) => {
        $crate::switches::Switch {
            path: $path,
            setter: concat!($path, ".__set__"),
            read: || flambeau_core::Value::from($read()),
            write: |a, _| {
                $write(<$t as $crate::switches::Kind>::given(a.first(), $said)?);
                Ok(vec![flambeau_core::Value::None])
            },
        }
    };
}
#[cfg(feature = "by-name")]
pub(crate) use switch;

#[cfg(feature = "by-name")]
mod by_name {
    use crate::backends::{self, cuda, cudnn, mkldnn};
    use flambeau_core::{Error, Result, Value};
    use flambeau_library::NativeFn;

    /// A switch by name.
    pub(crate) struct Switch {
        pub(crate) path: &'static str,
        pub(crate) setter: &'static str,
        pub(crate) read: fn() -> Value,
        pub(crate) write: NativeFn,
    }
    /// All switches.
    pub(crate) const ALL: &[&[Switch]] = &[
        cudnn::SWITCHES,
        cuda::matmul::SWITCHES,
        cuda::matmul::TF32,
        mkldnn::SWITCHES,
        backends::EINSUM,
        backends::DETERMINISTIC,
    ];

    /// What a switch holds.
    pub(crate) trait Kind: Sized {
        fn given(v: Option<&Value>, setter: &str) -> Result<Self>;
    }
    impl Kind for bool {
        fn given(v: Option<&Value>, setter: &str) -> Result<bool> {
            match v {
                Some(Value::Bool(b)) => Ok(*b),
                v => Err(Error::runtime(format!("{setter} expects a bool, but got {}", kind(v)))),
            }
        }
    }
    impl Kind for i64 {
        fn given(v: Option<&Value>, setter: &str) -> Result<i64> {
            match v {
                Some(Value::Int(i)) => Ok(*i),
                v => Err(Error::runtime(format!("{setter} expects an int, but got {}", kind(v)))),
            }
        }
    }
    fn kind(v: Option<&Value>) -> &'static str {
        v.map_or("nothing", Value::type_name)
    }
}
