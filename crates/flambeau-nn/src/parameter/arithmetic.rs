//! `self.scale * x`, `2.0 * self.scale`, `-self.shift`: parameters and buffers in arithmetic, as the tensors that they are.

use super::{Buffer, Parameter};
use flambeau_core::Tensor;
use flambeau_core::api::ergonomic::Operand;
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

macro_rules! operators {
    ($($t:ty: $($trait:ident $method:ident)*;)*) => {$($(
        impl<R: Operand> $trait<R> for &$t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: R) -> Tensor {
                $trait::$method(&**self, rhs)
            }
        }
        impl<R: Operand> $trait<R> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: R) -> Tensor {
                $trait::$method(&*self, rhs)
            }
        }
        // the types of numbers that tensors have on their left
        number_on_the_left!($t: $trait $method i64 f64);
    )*)*};
}
macro_rules! number_on_the_left {
    ($t:ty: $trait:ident $method:ident $($number:ty)*) => {$(
        impl $trait<&$t> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: &$t) -> Tensor {
                $trait::$method(self, &**rhs)
            }
        }
    )*};
}
macro_rules! negated {
    ($($t:ty)*) => {$(
        impl Neg for &$t {
            type Output = Tensor;
            #[track_caller]
            fn neg(self) -> Tensor {
                Neg::neg(&**self)
            }
        }
    )*};
}
operators! {
    Parameter: Add add Sub sub Mul mul Div div Rem rem;
    Buffer: Add add Sub sub Mul mul Div div Rem rem;
}
negated! { Parameter Buffer }
