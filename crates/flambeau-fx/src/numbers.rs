//! Numbers of a program: expressions of sizes, with what they are worth in an example (`torch.SymInt`, `torch.SymFloat`,
//! `torch.SymBool`).

use crate::symbolic::{Bindings, Expr, Number};
use flambeau_core::{Error, Result};
use std::fmt;

macro_rules! number {
    ($(#[$meta:meta])* $name:ident: $t:ty, $kind:ident) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            expr: Expr,
            value: $t,
        }
        impl $name {
            /// An expression, at the values of its symbols.
            ///
            /// # Errors
            /// A symbol without a value; an expression of another kind.
            pub fn new(expr: Expr, at: &Bindings) -> Result<$name> {
                match expr.evaluate(at) {
                    Some(Number::$kind(value)) => Ok($name { expr, value }),
                    _ => Err(Error::value(format!("{expr} is no {} here", stringify!($kind)))),
                }
            }
            /// The expression.
            pub fn expr(&self) -> &Expr {
                &self.expr
            }
            /// What it is worth in the example.
            pub fn hint(&self) -> $t {
                self.value
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.expr.fmt(f)
            }
        }
    };
}
number! {
    /// An integer that follows from sizes.
    ///
    /// ```
    /// use torch::fx::symbolic::Expr;
    /// use torch::fx::SymInt;
    ///
    /// let at = [("s0".to_string(), 6)].into();
    /// let n = SymInt::new(Expr::read("2*s0 + 1").unwrap(), &at).unwrap();
    /// assert_eq!((n.to_string().as_str(), n.hint(), n.as_integer_ratio()), ("2*s0 + 1", 13, (13, 1)));
    /// ```
    #[doc(alias = "torch.SymInt")]
    SymInt: i64, Int
}
number! {
    /// A floating number that follows from sizes.
    ///
    /// ```
    /// use torch::fx::symbolic::Expr;
    /// use torch::fx::SymFloat;
    ///
    /// let at = [("s0".to_string(), 7)].into();
    /// let x = SymFloat::new(Expr::read("IntTrueDiv(s0, 2)").unwrap(), &at).unwrap();
    /// assert_eq!((x.hint(), x.is_integer(), x.as_integer_ratio().unwrap()), (3.5, false, (7, 2)));
    /// assert_eq!(x.hex(), "0x1.c000000000000p+1");
    /// ```
    #[doc(alias = "torch.SymFloat")]
    SymFloat: f64, Float
}
number! {
    /// A truth that follows from sizes.
    ///
    /// ```
    /// use torch::fx::symbolic::Expr;
    /// use torch::fx::SymBool;
    ///
    /// let at = [("s0".to_string(), 7)].into();
    /// assert!(SymBool::new(Expr::read("s0 > 2").unwrap(), &at).unwrap().hint());
    /// ```
    #[doc(alias = "torch.SymBool")]
    SymBool: bool, Bool
}
impl SymInt {
    /// The number and 1.
    #[doc(alias = "torch.SymInt.as_integer_ratio")]
    pub fn as_integer_ratio(&self) -> (i64, i64) {
        (self.value, 1)
    }
}
impl SymFloat {
    /// Two integers whose quotient it is, the second above zero and as small as possible.
    ///
    /// # Errors
    /// A number that is not finite, or whose integers have more than 63 bits.
    #[doc(alias = "torch.SymFloat.as_integer_ratio")]
    pub fn as_integer_ratio(&self) -> Result<(i64, i64)> {
        let x = self.value;
        if !x.is_finite() {
            return Err(Error::value(format!("{x} is no quotient of integers")));
        }
        let (mut n, mut d) = (x, 1i64);
        while n.fract() != 0.0 {
            n *= 2.0;
            d = d
                .checked_mul(2)
                .ok_or_else(|| Error::value(format!("{x} is a quotient of larger integers")))?;
        }
        if n.abs() >= 9.2e18 {
            return Err(Error::value(format!("{x} is a quotient of larger integers")));
        }
        Ok((n as i64, d))
    }
    /// The number itself: it has no imaginary part.
    #[doc(alias = "torch.SymFloat.conjugate")]
    pub fn conjugate(&self) -> SymFloat {
        self.clone()
    }
    /// Whether it is a whole number.
    #[doc(alias = "torch.SymFloat.is_integer")]
    pub fn is_integer(&self) -> bool {
        self.value.is_finite() && self.value.fract() == 0.0
    }
    /// Python's `float.hex`.
    #[doc(alias = "torch.SymFloat.hex")]
    pub fn hex(&self) -> String {
        let x = self.value;
        if x.is_nan() {
            return "nan".into();
        }
        let sign = if x.is_sign_negative() { "-" } else { "" };
        if x.is_infinite() {
            return format!("{sign}inf");
        }
        if x == 0.0 {
            return format!("{sign}0x0.0p+0");
        }
        let bits = x.to_bits();
        let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i64, bits & ((1 << 52) - 1));
        let (lead, power) = if exponent == 0 { (0, -1022) } else { (1, exponent - 1023) };
        let plus = if power < 0 { "" } else { "+" };
        format!("{sign}0x{lead}.{fraction:013x}p{plus}{power}")
    }
}
