//! What constructors and setters of options take.

use crate::DType;
use crate::api::convert::Dim;
use crate::tensor::geometry::SizeVec;
use crate::tensor::handle::Tensor;
use crate::types::device::Device;
use crate::types::scalar::Scalar;
use std::sync::Arc;
use std::time::Duration;

/// What constructors and setters take where the documentation says `T`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not taken where `{T}` is wanted",
    label = "`{T}` is wanted here"
)]
pub trait IntoArg<T> {
    /// Converts.
    fn into_arg(self) -> T;
}
macro_rules! into_arg {
    ($($from:ty => $to:ty),* $(,)?) => {$(
        impl IntoArg<$to> for $from {
            fn into_arg(self) -> $to {
                self as $to
            }
        }
    )*};
}
into_arg!(i32 => i64, usize => i64, i64 => i64, u32 => i64, f64 => f64, i32 => f64, i64 => f64, usize => f64, u64 => u64, i32 => u64);
impl IntoArg<f64> for f32 {
    /// The shortest decimal that reads back as this number, so that `0.1f32` means 0.1.
    fn into_arg(self) -> f64 {
        self.to_string().parse().unwrap_or(self as f64)
    }
}
macro_rules! into_arg_self {
    ($($t:ty),* $(,)?) => {$(
        impl IntoArg<$t> for $t {
            fn into_arg(self) -> $t {
                self
            }
        }
    )*};
}
into_arg_self!(bool, String, Tensor, DType, Device, Scalar, (f64, f64), Vec<i64>);
impl IntoArg<Duration> for Duration {
    fn into_arg(self) -> Duration {
        self
    }
}
impl<T: ?Sized> IntoArg<Arc<T>> for Arc<T> {
    fn into_arg(self) -> Arc<T> {
        self
    }
}
impl IntoArg<String> for &str {
    fn into_arg(self) -> String {
        self.to_owned()
    }
}
impl IntoArg<Tensor> for &Tensor {
    fn into_arg(self) -> Tensor {
        self.clone()
    }
}
impl IntoArg<Option<Tensor>> for Tensor {
    fn into_arg(self) -> Option<Tensor> {
        Some(self)
    }
}
impl IntoArg<Option<Tensor>> for &Tensor {
    fn into_arg(self) -> Option<Tensor> {
        Some(self.clone())
    }
}
impl<T> IntoArg<Option<T>> for Option<T> {
    fn into_arg(self) -> Option<T> {
        self
    }
}
impl IntoArg<Option<f64>> for f64 {
    fn into_arg(self) -> Option<f64> {
        Some(self)
    }
}
impl IntoArg<Option<String>> for &str {
    fn into_arg(self) -> Option<String> {
        Some(self.to_owned())
    }
}
impl IntoArg<Option<String>> for String {
    fn into_arg(self) -> Option<String> {
        Some(self)
    }
}
macro_rules! scalar_arg {
    ($($t:ty),*) => {$(
        impl IntoArg<Scalar> for $t {
            fn into_arg(self) -> Scalar {
                Scalar::from(self)
            }
        }
    )*};
}
scalar_arg!(bool, i32, i64, usize, f64);
impl IntoArg<Vec<i64>> for SizeVec {
    fn into_arg(self) -> Vec<i64> {
        self.to_vec()
    }
}
impl<D: Dim> IntoArg<Vec<i64>> for D {
    fn into_arg(self) -> Vec<i64> {
        vec![self.dim()]
    }
}
impl<D: Dim, const N: usize> IntoArg<Vec<i64>> for [D; N] {
    fn into_arg(self) -> Vec<i64> {
        self.iter().map(|d| d.dim()).collect()
    }
}
impl<D: Dim> IntoArg<Vec<i64>> for &[D] {
    fn into_arg(self) -> Vec<i64> {
        self.iter().map(|d| d.dim()).collect()
    }
}
