//! Elementary functions of complex numbers.

use crate::num::real::{Cx, Real};

/// log(e^a + e^b), from the operand with the larger real part.
#[inline(always)]
pub(crate) fn logaddexp_complex<V: Real>(a: Cx<V>, b: Cx<V>) -> Cx<V> {
    if a.is_nan() || b.is_nan() {
        return Cx::new(V::NAN, V::NAN);
    }
    let (lo, hi) = if a.re >= b.re { (b, a) } else { (a, b) };
    if hi.re == lo.re && hi.re.abs() == V::INF {
        // at minus infinity the imaginary part means nothing
        return if hi.re < V::zero() { lo } else { complex_ln(complex_exp(lo) + complex_exp(hi)) };
    }
    hi + complex_log1p(complex_exp(lo - hi))
}
/// e^z. A zero imaginary part stays zero beside an infinite magnitude.
#[inline(never)]
pub(super) fn complex_exp<V: Real>(z: Cx<V>) -> Cx<V> {
    if z.im == V::zero() {
        return Cx::new(z.re.exp(), z.im);
    }
    if z.re == -V::INF && !z.im.is_finite() {
        return Cx::new(V::zero(), V::zero());
    }
    if z.re == V::INF && !z.im.is_finite() {
        return Cx::new(V::INF, V::NAN);
    }
    let e = z.re.exp();
    if e == V::INF && z.re.is_finite() {
        // The magnitude overflows before its product with a small cosine need to.
        let h = (z.re * V::c(0.5)).exp();
        return Cx::new(h * z.im.cos() * h, h * z.im.sin() * h);
    }
    Cx::new(e * z.im.cos(), e * z.im.sin())
}
/// e^z - 1 without cancellation in the real part.
#[inline(never)]
pub(super) fn complex_expm1<V: Real>(z: Cx<V>) -> Cx<V> {
    let s = (z.im * V::c(0.5)).sin();
    let (em1, e) = (z.re.expm1(), z.re.exp());
    Cx::new(em1 * z.im.cos() - V::c(2.0) * s * s, e * z.im.sin())
}
/// Natural logarithm, principal branch.
#[inline(never)]
pub(super) fn complex_ln<V: Real>(z: Cx<V>) -> Cx<V> {
    let (a, b) = (z.re.abs(), z.im.abs());
    let (big, small) = if a > b { (a, b) } else { (b, a) };
    // Near the unit circle log|z| is log1p of |z|^2 - 1.
    let re = if big > V::c(0.5) && big < V::c(2.0) {
        ((big - V::one()) * (big + V::one()) + small * small).log1p() * V::c(0.5)
    } else {
        a.hypot(b).ln()
    };
    Cx::new(re, z.arg())
}
/// A logarithm to another base: both parts divided by that base's logarithm, as PyTorch rounds.
#[inline(always)]
pub(super) fn complex_log<V: Real>(z: Cx<V>, of_base: f64) -> Cx<V> {
    let (z, b) = (complex_ln(z), V::c(of_base));
    Cx::new(z.re / b, z.im / b)
}
/// log(1 + z) without cancellation at 0.
#[inline(never)]
pub(super) fn complex_log1p<V: Real>(z: Cx<V>) -> Cx<V> {
    let w = Cx::new(z.re + V::one(), z.im);
    if z.is_nan() {
        return Cx::new(V::NAN, V::NAN);
    }
    if z.re.abs() < V::c(0.5) && z.im.abs() < V::c(0.5) {
        let re = (z.re * (V::c(2.0) + z.re) + z.im * z.im).log1p() * V::c(0.5);
        return Cx::new(re, w.arg());
    }
    complex_ln(w)
}
/// Square root, principal branch, with C99's special cases.
#[inline(never)]
pub(super) fn complex_sqrt<V: Real>(z: Cx<V>) -> Cx<V> {
    if z.is_zero() {
        return Cx::new(V::zero(), z.im);
    }
    if z.im.abs() == V::INF {
        return Cx::new(V::INF, z.im);
    }
    if z.re.is_nan() {
        return Cx::new(z.re, z.re);
    }
    if z.re.abs() == V::INF {
        let other = V::pick(z.im.is_nan(), z.im, V::zero());
        return if z.re > V::zero() {
            Cx::new(z.re, V::pick(z.im.is_nan(), z.im, V::zero().copysign(z.im)))
        } else {
            Cx::new(other, V::INF.copysign(z.im))
        };
    }
    // Scaled by powers of four away from over- and underflow.
    let m = z.re.abs().maximum(z.im.abs());
    let (up, back) = if m > V::MAX * V::c(0.2) {
        (V::c(0.0625), V::c(4.0))
    } else if m < V::MAX.recip() * V::c(65536.0) {
        (V::c(1048576.0 * 1048576.0), V::c(1.0 / 1048576.0))
    } else {
        (V::one(), V::one())
    };
    let z = z.scale(up);
    let t = ((z.re.abs() + z.abs()) * V::c(0.5)).sqrt();
    let half = z.im.abs() / (t * V::c(2.0));
    let w = if z.re >= V::zero() { Cx::new(t, half.copysign(z.im)) } else { Cx::new(half, t.copysign(z.im)) };
    w.scale(back)
}
/// z^w by exp(w log z), also where either is 0: then the logarithm decides, and 0^0 is NaN as in PyTorch.
#[inline(never)]
pub(super) fn complex_pow<V: Real>(z: Cx<V>, w: Cx<V>) -> Cx<V> {
    complex_exp(product(w, complex_ln(z)))
}
/// The product with C99's rule that an infinite operand makes an infinite product: parts that are infinity minus infinity
/// are decided by the operands' directions.
#[inline(always)]
fn product<V: Real>(x: Cx<V>, y: Cx<V>) -> Cx<V> {
    let p = x * y;
    if !(p.re.is_nan() && p.im.is_nan()) {
        return p;
    }
    // 1 for an infinite part, 0 for another, with its sign
    let direction = |v: V| V::pick(v.abs() == V::INF, V::one(), V::zero()).copysign(v);
    let defined = |v: V| V::pick(v.is_nan(), V::zero().copysign(v), v);
    let (a, b) = match (is_infinite(x), is_infinite(y)) {
        (false, false) => return p,
        (true, false) => (Cx::new(direction(x.re), direction(x.im)), Cx::new(defined(y.re), defined(y.im))),
        (false, true) => (Cx::new(defined(x.re), defined(x.im)), Cx::new(direction(y.re), direction(y.im))),
        (true, true) => {
            (Cx::new(direction(x.re), direction(x.im)), Cx::new(direction(y.re), direction(y.im)))
        }
    };
    (a * b).scale(V::INF)
}
/// Hyperbolic sine.
#[inline(never)]
pub(super) fn complex_sinh<V: Real>(z: Cx<V>) -> Cx<V> {
    if z.im == V::zero() {
        return Cx::new(z.re.sinh(), z.im);
    }
    if z.re == V::zero() && !z.im.is_finite() {
        return Cx::new(z.re, V::NAN);
    }
    if z.re.abs() == V::INF && !z.im.is_finite() {
        return Cx::new(z.re, V::NAN);
    }
    Cx::new(z.re.sinh() * z.im.cos(), z.re.cosh() * z.im.sin())
}
/// Hyperbolic cosine.
#[inline(never)]
pub(super) fn complex_cosh<V: Real>(z: Cx<V>) -> Cx<V> {
    if z.im == V::zero() {
        return Cx::new(z.re.cosh(), z.im * V::one().copysign(z.re));
    }
    if z.re == V::zero() && !z.im.is_finite() {
        return Cx::new(V::NAN, z.re);
    }
    if z.re.abs() == V::INF && !z.im.is_finite() {
        return Cx::new(V::INF, V::NAN);
    }
    Cx::new(z.re.cosh() * z.im.cos(), z.re.sinh() * z.im.sin())
}
/// Hyperbolic tangent, by Kahan's formula.
#[inline(never)]
pub(super) fn complex_tanh<V: Real>(z: Cx<V>) -> Cx<V> {
    if z.re.abs() > V::c(25.0) {
        // The real part has rounded to one; the imaginary part is 4 sin cos e^-2|x|.
        let e = (z.re.abs() * V::c(-1.0)).exp();
        let im = if z.im.is_finite() { V::c(4.0) * z.im.sin() * z.im.cos() * e * e } else { V::zero() };
        return Cx::new(V::one().copysign(z.re), im);
    }
    if z.im == V::zero() {
        return Cx::new(z.re.tanh(), z.im);
    }
    let t = z.im.tan();
    let beta = V::one() + t * t;
    let s = z.re.sinh();
    let rho = (V::one() + s * s).sqrt();
    if t.abs() == V::INF {
        return Cx::new(rho / s, t.recip());
    }
    let den = V::one() + beta * s * s;
    Cx::new(beta * rho * s / den, t / den)
}
/// Inverse hyperbolic tangent.
#[inline(never)]
pub(super) fn complex_atanh<V: Real>(z: Cx<V>) -> Cx<V> {
    let (x, y) = (z.re, z.im);
    let big = V::MAX.sqrt() * V::c(0.25);
    if x.abs() > big || y.abs() > big {
        let re = if x.abs() == V::INF || y.abs() == V::INF {
            V::zero().copysign(x)
        } else {
            // x / |z|^2 without overflow.
            let h = x.hypot(y);
            x / h / h
        };
        return Cx::new(re, V::pick(y.is_nan(), y, V::c(std::f64::consts::FRAC_PI_2).copysign(y)));
    }
    let one = V::one();
    let a = (one - x.abs()) * (one - x.abs()) + y * y;
    let re = if a == V::zero() && y != V::zero() {
        // beside a pole, nearer than the square root of the smallest number
        (V::c(std::f64::consts::LN_2) - y.abs().ln()) * V::c(0.5)
    } else {
        (V::c(4.0) * x.abs() / a).log1p() * V::c(0.25)
    };
    let im = (V::c(2.0) * y).atan2((one - x.abs()) * (one + x.abs()) - y * y) * V::c(0.5);
    Cx::new(re.copysign(x), im)
}
/// Arc sine, by Kahan's formula through two square roots.
#[inline(never)]
pub(super) fn complex_asin<V: Real>(z: Cx<V>) -> Cx<V> {
    if is_infinite(z) {
        // a quarter turn less the arc cosine
        let re = V::c(std::f64::consts::FRAC_PI_2) - acos_infinite(z).re;
        let re = V::pick(z.re.abs() == V::INF || z.is_nan(), re, V::zero().copysign(z.re));
        return Cx::new(re, V::INF.copysign(z.im));
    }
    let one = Cx::c(1.0);
    let a = complex_sqrt(one - z);
    let b = complex_sqrt(one + z);
    let re = z.re.atan2((a.re * b.re) - (a.im * b.im));
    let im = (a.re * b.im - a.im * b.re).asinh();
    Cx::new(re, im.copysign(z.im))
}
/// Arc cosine of a number with an infinite part, as C99 has it.
#[inline(never)]
fn acos_infinite<V: Real>(z: Cx<V>) -> Cx<V> {
    let quarter = std::f64::consts::FRAC_PI_4;
    let below = z.re < V::zero();
    let re = if z.is_nan() {
        V::NAN
    } else if z.re.abs() != V::INF {
        V::c(2.0 * quarter)
    } else if z.im.abs() != V::INF {
        V::c(if below { 4.0 * quarter } else { 0.0 })
    } else {
        V::c(if below { 3.0 * quarter } else { quarter })
    };
    let down = !z.im.is_nan() && V::one().copysign(z.im) < V::zero();
    Cx::new(re, if down { V::INF } else { -V::INF })
}
/// Whether a part is infinite.
#[inline(always)]
fn is_infinite<V: Real>(z: Cx<V>) -> bool {
    z.re.abs() == V::INF || z.im.abs() == V::INF
}
/// Arc cosine.
#[inline(never)]
pub(super) fn complex_acos<V: Real>(z: Cx<V>) -> Cx<V> {
    if is_infinite(z) {
        return acos_infinite(z);
    }
    let one = Cx::c(1.0);
    let a = complex_sqrt(one - z);
    let b = complex_sqrt(one + z);
    let re = a.re.atan2(b.re) * V::c(2.0);
    let im = (b.re * a.im - b.im * a.re).asinh();
    Cx::new(re, im)
}
/// Inverse hyperbolic cosine.
#[inline(never)]
pub(super) fn complex_acosh<V: Real>(z: Cx<V>) -> Cx<V> {
    if is_infinite(z) {
        return Cx::new(V::INF, acos_infinite(z).re.copysign(z.im));
    }
    let one = Cx::c(1.0);
    let a = complex_sqrt(z - one);
    let b = complex_sqrt(z + one);
    let re = (a.re * b.re + a.im * b.im).asinh();
    let im = a.im.atan2(b.re) * V::c(2.0);
    Cx::new(re, im)
}
