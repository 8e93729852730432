//! The macros that pointwise operators are written with.

/// Defines pointwise operators; see [mod@crate::pointwise] for the classes.
#[macro_export]
macro_rules! pointwise {
    ($(
        $(#[$meta:meta])*
        $S:ident = $name:literal $args:tt cost $cost:literal {
            $($class:ident => $body:expr),+ $(,)?
        }
    )*) => {$(
        $(#[$meta])*
        pub static $S: $crate::pointwise::Pointwise = {
            struct Op;
            $($crate::pointwise!(@class $class Op $args $body);)+
            fn lookup(d: $crate::DType, l: $crate::engine::isa::Level) -> Option<$crate::pointwise::Loop> {
                $(if let Some(found) = $crate::pointwise::$class::<Op>(d, l) {
                    return Some(found);
                })+
                None
            }
            $crate::pointwise::Pointwise {
                name: $name,
                inputs: $crate::pointwise!(@inputs $args),
                params: $crate::pointwise!(@params $args),
                cost: $cost,
                lookup,
            }
        };
    )*};
    (@inputs ($($x:ident),* $(; $($p:ident),+)?)) => { $crate::pointwise!(@count $($x)*) };
    (@params ($($x:ident),* $(; $($p:ident),+)?)) => { $crate::pointwise!(@count $($($p)+)?) };
    (@count $($x:ident)*) => { 0 $(+ { let _ = stringify!($x); 1 })* };
    (@class float $($r:tt)*) => { $crate::pointwise!(@imp Float (V: Real) V, V; $($r)*); };
    (@class float_hot $($r:tt)*) => { $crate::pointwise!(@imp Float (V: Real) V, V; $($r)*); };
    (@class float_wide $($r:tt)*) => { $crate::pointwise!(@imp Float (V: Real) V, V; $($r)*); };
    (@class float_scalar $($r:tt)*) => { $crate::pointwise!(@imp Float (V: Real) V, V; $($r)*); };
    (@class float_exp $($r:tt)*) => { $crate::pointwise!(@imp Float (V: Real) V, V; $($r)*); };
    (@class float_tanh $($r:tt)*) => { $crate::pointwise!(@imp Float (V: Real) V, V; $($r)*); };
    (@class float_sigmoid $($r:tt)*) => { $crate::pointwise!(@imp Float (V: Real) V, V; $($r)*); };
    (@class float_silu $($r:tt)*) => { $crate::pointwise!(@imp Float (V: Real) V, V; $($r)*); };
    (@class float_gelu $($r:tt)*) => { $crate::pointwise!(@imp Float (V: Real) V, V; $($r)*); };
    (@class float_gelu_tanh $($r:tt)*) => { $crate::pointwise!(@imp Float (V: Real) V, V; $($r)*); };
    (@class int $($r:tt)*) => { $crate::pointwise!(@imp Integer (V: Int) V, V; $($r)*); };
    (@class boolean $($r:tt)*) => { $crate::pointwise!(@imp Boolean () bool, bool; $($r)*); };
    (@class complex $($r:tt)*) => {
        $crate::pointwise!(@imp ComplexOp (V: Real) $crate::num::real::Cx<V>, $crate::num::real::Cx<V>; $($r)*); };
    (@class complex_hot $($r:tt)*) => {
        $crate::pointwise!(@imp ComplexOp (V: Real) $crate::num::real::Cx<V>, $crate::num::real::Cx<V>; $($r)*); };
    (@class float_bool $($r:tt)*) => { $crate::pointwise!(@imp FloatBool (V: Real) V, bool; $($r)*); };
    (@class int_bool $($r:tt)*) => { $crate::pointwise!(@imp IntBool (V: Int) V, bool; $($r)*); };
    (@class complex_bool $($r:tt)*) => {
        $crate::pointwise!(@imp ComplexBool (V: Real) $crate::num::real::Cx<V>, bool; $($r)*); };
    (@class complex_real $($r:tt)*) => {
        $crate::pointwise!(@imp ComplexReal (V: Real) $crate::num::real::Cx<V>, V; $($r)*); };
    (@class real_complex $($r:tt)*) => {
        $crate::pointwise!(@imp RealComplex (V: Real) V, $crate::num::real::Cx<V>; $($r)*); };
    (@imp $Tr:ident ($($V:ident: $bound:ident)?) $X:ty, $R:ty; $Op:ident ($($x:ident),* $(; $($p:ident),+)?) $body:expr) => {
        impl $crate::pointwise::$Tr for $Op {
            const N: usize = $crate::pointwise!(@count $($x)*);
            const P: usize = $crate::pointwise!(@count $($($p)+)?);
            #[allow(unused_variables)]
            #[inline(always)]
            fn f$(<$V: $crate::num::real::$bound>)?([$($x,)* ..]: [$X; 3], [$($($p,)+)? ..]: [$X; 3]) -> $R {
                $body
            }
        }
    };
}

/// Defines operators from functions of f64, computed one element at a time. `false` before the cost: there are no loops for float16 and bfloat16.
macro_rules! one_by_one {
    ($($(#[$m:meta])* $S:ident = $name:literal $args:tt $halves:literal cost $cost:literal => |$($x:ident),+| $body:expr;)*) => {$(
        $(#[$m])*
        pub static $S: $crate::pointwise::Pointwise = {
            struct Op;
            $crate::pointwise!(@class float_scalar Op $args { $(let $x = $x.to_f64();)+ V::c($body) });
            fn lookup(d: $crate::DType, l: $crate::engine::isa::Level) -> Option<$crate::pointwise::Loop> {
                if !$halves && !matches!(d, $crate::DType::F32 | $crate::DType::F64) {
                    return None;
                }
                $crate::pointwise::float_scalar::<Op>(d, l)
            }
            $crate::pointwise::Pointwise {
                name: $name,
                inputs: $crate::pointwise!(@inputs $args),
                params: $crate::pointwise!(@params $args),
                cost: $cost,
                lookup,
            }
        };
    )*};
}
pub(super) use one_by_one;
