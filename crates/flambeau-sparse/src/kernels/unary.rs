//! Functions of one tensor that leave zero zero: they work on the values.

use crate::coo::{Coo, layout_name};
use flambeau_core::generated::{comparison as c, special_ops as s, unary as u};
use flambeau_core::internal::RawTensor as _;
use flambeau_core::tensor::sparse::Parts;
use flambeau_core::types::keys::Key::SparseCpu;
use flambeau_core::{Error, Result, Tensor, ensure, ops};

fn parts(t: &Tensor) -> Result<Parts> {
    t.sparse_parts().ok_or_else(|| {
        Error::runtime(format!("expected a sparse tensor but got layout {}", layout_name(t.layout())))
    })
}
/// `f` of the values. Functions that are not linear see the sum of each place.
pub(crate) fn map(t: &Tensor, linear: bool, f: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let p = match parts(t)? {
        Parts::Coo { coalesced: false, .. } if !linear => Coo::of(t, "coalesce")?.coalesce()?.parts(),
        p => p,
    };
    let new = f(p.values())?;
    Tensor::from_sparse_parts(t.sizes(), t.layout(), p.with_values(new))
}
fn map_(name: &str, t: &Tensor, linear: bool, f: impl FnOnce(&Tensor) -> Result<()>) -> Result<()> {
    let p = parts(t)?;
    if let Parts::Coo { coalesced: false, .. } = p {
        ensure!(linear, Runtime, "{name} requires coalesced input");
    }
    f(p.values())?;
    t.set_sparse_parts(p)
}
fn out(t: &Tensor, result: Result<Tensor>, out: &mut Tensor) -> Result<()> {
    super::shape::write_out(&result?, t, out)
}

macro_rules! unary {
    ($($module:ident $stat:ident $stat_:ident $stat_out:ident $name:ident $name_:ident $linear:literal;)*) => {$(
        $module::$stat.register(SparseCpu, |t| map(t, $linear, ops::$name));
        $module::$stat_.register(SparseCpu, |t| map_(stringify!($name_), t, $linear, ops::$name_));
        $module::$stat_out.register(SparseCpu, |t, o| out(t, map(t, $linear, ops::$name), o));
    )*};
}
macro_rules! tests_of {
    ($($module:ident $stat:ident $name:ident;)*) => {$(
        $module::$stat.register(SparseCpu, |t| map(t, false, ops::$name));
    )*};
}

pub(super) fn fill() {
    unary! {
        u ABS ABS_ ABS_OUT abs abs_ false;
        u ASIN ASIN_ ASIN_OUT asin asin_ false;
        u ASINH ASINH_ ASINH_OUT asinh asinh_ false;
        u ATAN ATAN_ ATAN_OUT atan atan_ false;
        u ATANH ATANH_ ATANH_OUT atanh atanh_ false;
        u CEIL CEIL_ CEIL_OUT ceil ceil_ false;
        u CONJ_PHYSICAL CONJ_PHYSICAL_ CONJ_PHYSICAL_OUT conj_physical conj_physical_ false;
        u DEG2RAD DEG2RAD_ DEG2RAD_OUT deg2rad deg2rad_ false;
        s ERF ERF_ ERF_OUT erf erf_ false;
        s ERFINV ERFINV_ ERFINV_OUT erfinv erfinv_ false;
        u EXPM1 EXPM1_ EXPM1_OUT expm1 expm1_ false;
        u FLOOR FLOOR_ FLOOR_OUT floor floor_ false;
        u FRAC FRAC_ FRAC_OUT frac frac_ false;
        u LOG1P LOG1P_ LOG1P_OUT log1p log1p_ false;
        u NEG NEG_ NEG_OUT neg neg_ true;
        u RAD2DEG RAD2DEG_ RAD2DEG_OUT rad2deg rad2deg_ false;
        u ROUND ROUND_ ROUND_OUT round round_ false;
        u SGN SGN_ SGN_OUT sgn sgn_ false;
        u SIGN SIGN_ SIGN_OUT sign sign_ false;
        u SIN SIN_ SIN_OUT sin sin_ false;
        u SINH SINH_ SINH_OUT sinh sinh_ false;
        u SQRT SQRT_ SQRT_OUT sqrt sqrt_ false;
        u TAN TAN_ TAN_OUT tan tan_ false;
        u TANH TANH_ TANH_OUT tanh tanh_ false;
        u TRUNC TRUNC_ TRUNC_OUT trunc trunc_ false;
    }
    u::RELU.register(SparseCpu, |t| map(t, false, ops::relu));
    u::RELU_.register(SparseCpu, |t| map_("relu_", t, false, ops::relu_));
    u::ANGLE.register(SparseCpu, |t| map(t, false, ops::angle));
    u::SQUARE.register(SparseCpu, |t| map(t, false, ops::square));
    u::NAN_TO_NUM.register(SparseCpu, |t, nan, posinf, neginf| {
        map(t, false, |v| ops::nan_to_num(v, nan, posinf, neginf))
    });
    u::ROUND_DECIMALS.register(SparseCpu, |t, n| map(t, false, |v| ops::round_decimals(v, n)));
    tests_of! {
        c ISNAN isnan; c ISINF isinf; c ISNEGINF isneginf; c ISPOSINF isposinf; u SIGNBIT signbit;
    }
}
