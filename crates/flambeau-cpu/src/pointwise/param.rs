//! Scalar arguments.

use crate::num::float8::{f32_to_e4m3, f32_to_e5m2};
use crate::num::half::{f32_to_bf16, f32_to_f16};
use flambeau_dtype::{B8, F8E4M3, F8E5M2};
use half::{bf16, f16};
use num_complex::Complex;

/// A scalar argument, in all readings; a formula takes the one of its class.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Param {
    /// The value as a real number, or the real part.
    pub re: f64,
    /// The imaginary part.
    pub im: f64,
    /// The value as an integer (truncated from a float).
    pub int: i64,
}

impl From<f64> for Param {
    fn from(v: f64) -> Self {
        Param { re: v, im: 0.0, int: v as i64 }
    }
}
impl From<i64> for Param {
    fn from(v: i64) -> Self {
        Param { re: v as f64, im: 0.0, int: v }
    }
}

/// An element, or a type of computation, that a scalar argument can be read as.
pub(crate) trait FromParam {
    fn from_param(p: Param) -> Self;
}
macro_rules! from_param {
    ($($t:ty: |$p:ident| $e:expr),* $(,)?) => {$(impl FromParam for $t { fn from_param($p: Param) -> Self { $e } })*};
}
from_param! {
    u8: |p| p.int as u8, i8: |p| p.int as i8, i16: |p| p.int as i16, i32: |p| p.int as i32, i64: |p| p.int,
    u16: |p| p.int as u16, u32: |p| p.int as u32, u64: |p| p.int as u64,
    f32: |p| p.re as f32, f64: |p| p.re, f16: |p| f32_to_f16(p.re as f32), bf16: |p| f32_to_bf16(p.re as f32),
    B8: |p| B8::from(p.re != 0.0 || p.im != 0.0 || p.int != 0),
    F8E4M3: |p| F8E4M3(f32_to_e4m3(p.re as f32)), F8E5M2: |p| F8E5M2(f32_to_e5m2(p.re as f32)),
}
macro_rules! from_complex_param {
    ($($t:ty),*) => {$(impl FromParam for Complex<$t> {
        fn from_param(p: Param) -> Self {
            Complex::new(<$t>::from_param(Param::from(p.re)), <$t>::from_param(Param::from(p.im)))
        }
    })*};
}
from_complex_param!(f16, bf16, f32, f64);
