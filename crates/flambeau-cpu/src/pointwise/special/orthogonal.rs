//! Orthogonal polynomials by degree; a negative degree gives 0, a degree is truncated to an integer.

/// A degree as an integer; what no integer holds counts as negative.
fn degree(n: f64) -> i64 {
    if n.abs() < 9e18 { n as i64 } else { -1 }
}
/// Three-term recurrence from the first two values up to degree `n`.
fn recur(n: i64, p: f64, q: f64, next: impl Fn(f64, f64, f64) -> f64) -> f64 {
    match n {
        ..0 => return 0.0,
        0 => return p,
        _ => {}
    }
    let (mut p, mut q) = (p, q);
    for k in 1..n {
        if q.is_nan() {
            break;
        }
        (p, q) = (q, next(k as f64, p, q));
    }
    q
}
fn even(n: i64) -> bool {
    n % 2 == 0
}
/// The first value with an even degree or a positive argument, else the negated one: values at the ends of the interval.
fn end(x: f64, n: i64, v: f64) -> f64 {
    if x > 0.0 || even(n) { v } else { -v }
}

/// First kind.
pub fn chebyshev_t(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if n < 0 {
        return 0.0;
    }
    if x.abs() == 1.0 {
        return end(x, n, 1.0);
    }
    if n > 6 && x.abs() < 1.0 {
        return (n as f64 * x.acos()).cos();
    }
    recur(n, 1.0, x, |_, p, q| 2.0 * x * q - p)
}
/// Second kind.
pub fn chebyshev_u(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if n < 0 {
        return 0.0;
    }
    let next = n as f64 + 1.0;
    if x.abs() == 1.0 {
        return end(x, n, next);
    }
    if n > 8 && x.abs() < 1.0 {
        let angle = x.acos();
        let s = angle.sin();
        return if s != 0.0 { (next * angle).sin() / s } else { next * (next * angle).cos() / x };
    }
    recur(n, 1.0, 2.0 * x, |_, p, q| 2.0 * x * q - p)
}
/// Third kind.
pub fn chebyshev_v(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if n < 0 {
        return 0.0;
    }
    let twice = 2.0 * n as f64 + 1.0;
    if x.abs() == 1.0 {
        return if x > 0.0 { 1.0 } else { end(x, n, twice) };
    }
    if n > 8 && x.abs() < 1.0 {
        let half = 0.5 * x.acos();
        return (twice * half).cos() / half.cos();
    }
    recur(n, 1.0, 2.0 * x - 1.0, |_, p, q| 2.0 * x * q - p)
}
/// Fourth kind.
pub fn chebyshev_w(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if n < 0 {
        return 0.0;
    }
    let twice = 2.0 * n as f64 + 1.0;
    if x.abs() == 1.0 {
        return if x > 0.0 { twice } else { end(x, n, 1.0) };
    }
    if n > 8 && x.abs() < 1.0 {
        let half = 0.5 * x.acos();
        return (twice * half).sin() / half.sin();
    }
    recur(n, 1.0, 2.0 * x + 1.0, |_, p, q| 2.0 * x * q - p)
}
/// From this degree on Hermite polynomials overflow anyway.
const HERMITE_LIMIT: i64 = 512;
/// Physicist's.
pub fn hermite_h(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if n > HERMITE_LIMIT {
        return f64::NAN;
    }
    recur(n, 1.0, 2.0 * x, |k, p, q| 2.0 * x * q - 2.0 * k * p)
}
/// Probabilist's.
pub fn hermite_he(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if n > HERMITE_LIMIT {
        return f64::NAN;
    }
    recur(n, 1.0, x, |k, p, q| x * q - k * p)
}
/// Laguerre. `round` gives the nearest number of the dtype in memory: beyond its range the recurrence has no value.
pub fn laguerre_l(x: f64, n: f64, round: impl Fn(f64) -> f64) -> f64 {
    let n = degree(n);
    if n >= 0 && x == 0.0 {
        return 1.0;
    }
    recur(n, 1.0, 1.0 - x, |k, p, q| (round((2.0 * k + 1.0 - x) * q) - round(k * p)) / (k + 1.0))
}
/// Legendre.
pub fn legendre_p(x: f64, n: f64) -> f64 {
    let n = degree(n);
    if n >= 0 && x.abs() == 1.0 {
        return end(x, n, 1.0);
    }
    recur(n, 1.0, x, |k, p, q| ((2.0 * k + 1.0) * x * q - k * p) / (k + 1.0))
}
