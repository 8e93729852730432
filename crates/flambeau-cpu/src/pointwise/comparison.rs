//! Comparisons, predicates, logic and bits.

use crate::pointwise;

/// A comparison of real numbers in all ordered classes.
macro_rules! compare {
    ($($(#[$m:meta])* $S:ident = $name:literal $op:tt;)*) => { pointwise! {$(
        $(#[$m])*
        $S = $name(a, b) cost 50 { float_bool => a $op b, int_bool => a $op b, boolean => a $op b }
    )*} };
}
compare! {
    /// `a < b`.
    LT = "lt" <;
    /// `a <= b`.
    LE = "le" <=;
    /// `a > b`.
    GT = "gt" >;
    /// `a >= b`.
    GE = "ge" >=;
}
/// A logical connective of truth values in all classes.
macro_rules! logic {
    ($($(#[$m:meta])* $S:ident = $name:literal $op:tt;)*) => { pointwise! {$(
        $(#[$m])*
        $S = $name(a, b) cost 50 {
            float_bool => (a != V::zero()) $op (b != V::zero()),
            int_bool => (a != V::ZERO) $op (b != V::ZERO),
            boolean => a $op b,
            complex_bool => !a.is_zero() $op !b.is_zero(),
        }
    )*} };
}
logic! {
    /// Both are non-zero.
    LOGICAL_AND = "logical_and" &;
    /// Either is non-zero.
    LOGICAL_OR = "logical_or" |;
    /// Exactly one is non-zero.
    LOGICAL_XOR = "logical_xor" ^;
}
pointwise! {
    /// `a == b`.
    EQ = "eq"(a, b) cost 50 {
        float_bool => a == b, int_bool => a == b, boolean => a == b, complex_bool => a == b,
    }
    /// `a != b`.
    NE = "ne"(a, b) cost 50 {
        float_bool => a != b, int_bool => a != b, boolean => a != b, complex_bool => a != b,
    }
    /// Is zero.
    LOGICAL_NOT = "logical_not"(x) cost 50 {
        float_bool => x == V::zero(), int_bool => x == V::ZERO, boolean => !x, complex_bool => x.is_zero(),
    }
    /// Not a number (either part of a complex one).
    ISNAN = "isnan"(x) cost 50 {
        float_bool => x.is_nan(), int_bool => false, boolean => false, complex_bool => x.is_nan(),
    }
    /// Infinite (either part of a complex one).
    ISINF = "isinf"(x) cost 50 {
        float_bool => x.abs() == V::INF, int_bool => false, boolean => false,
        complex_bool => x.re.abs() == V::INF || x.im.abs() == V::INF,
    }
    /// Neither infinite nor NaN.
    ISFINITE = "isfinite"(x) cost 50 {
        float_bool => x.is_finite(), int_bool => true, boolean => true,
        complex_bool => x.re.is_finite() && x.im.is_finite(),
    }
    /// Plus infinity.
    ISPOSINF = "isposinf"(x) cost 50 { float_bool => x == V::INF, int_bool => false, boolean => false }
    /// Minus infinity.
    ISNEGINF = "isneginf"(x) cost 50 { float_bool => x == -V::INF, int_bool => false, boolean => false }
    /// The sign bit.
    SIGNBIT = "signbit"(x) cost 50 {
        float_bool => x.is_sign_negative(), int_bool => x < V::ZERO, boolean => false,
    }
    /// `a & b`.
    BITWISE_AND = "bitwise_and"(a, b) cost 60 { int => a & b, boolean => a & b }
    /// `a | b`.
    BITWISE_OR = "bitwise_or"(a, b) cost 60 { int => a | b, boolean => a | b }
    /// `a ^ b`.
    BITWISE_XOR = "bitwise_xor"(a, b) cost 60 { int => a ^ b, boolean => a ^ b }
    /// `!x`.
    BITWISE_NOT = "bitwise_not"(x) cost 60 { int => !x, boolean => !x }
    /// `a << b`; 0 when `b` is negative or not below the width.
    LEFT_SHIFT = "left_shift"(a, b) cost 90 { int => a.shl(b) }
    /// `a >> b` with the sign; only sign bits when `b` is negative or not below the width.
    RIGHT_SHIFT = "right_shift"(a, b) cost 90 { int => a.shr(b) }
}
