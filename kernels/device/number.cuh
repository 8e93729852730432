// The numbers that formulas compute with, under the names that the formulas use: floats, wrapping integers, complex numbers.
#pragma once
#include "base.cuh"

template <class T>
struct real_of { typedef T type; };
template <class T>
struct real_of<Cx<T>> { typedef T type; };

template <class V>
struct Consts;
template <>
struct Consts<float> {
    static DEVICE float MAX() { return 3.4028234663852886e38f; }
    static DEVICE float INF() { return bits_as<float>(0x7f800000u); }
    static DEVICE float NAN_() { return bits_as<float>(0x7fc00000u); }
    static DEVICE float ZERO() { return 0; }
    static DEVICE float ONE() { return 1; }
    static DEVICE float c(double v) { return (float)v; }
};
template <>
struct Consts<double> {
    static DEVICE double MAX() { return 1.7976931348623157e308; }
    static DEVICE double INF() { return bits_as<double>(0x7ff0000000000000ull); }
    static DEVICE double NAN_() { return bits_as<double>(0x7ff8000000000000ull); }
    static DEVICE double ZERO() { return 0; }
    static DEVICE double ONE() { return 1; }
    static DEVICE double c(double v) { return v; }
};
template <class T>
struct Consts<Whole<T>> {
    static DEVICE Whole<T> ZERO() { return {0}; }
    static DEVICE Whole<T> ONE() { return {1}; }
};
template <class V>
struct Consts<Cx<V>> {
    static DEVICE Cx<V> c(double v) { return {(V)v, 0}; }
};

namespace num {
template <class V> DEVICE V pick(bool c, V a, V b) { return c ? a : b; }
#define F1(NAME, F, D) DEVICE float NAME(float x) { return F(x); } DEVICE double NAME(double x) { return D(x); }
#define F2(NAME, F, D) DEVICE float NAME(float x, float y) { return F(x, y); } DEVICE double NAME(double x, double y) { return D(x, y); }
F1(abs, ::fabsf, ::fabs) F1(floor, ::floorf, ::floor) F1(ceil, ::ceilf, ::ceil) F1(trunc, ::truncf, ::trunc) F1(round_even, ::rintf, ::rint)
F1(sqrt, ::sqrtf, ::sqrt) F1(exp, ::expf, ::exp) F1(exp2, ::exp2f, ::exp2) F1(expm1, ::expm1f, ::expm1) F1(ln, ::logf, ::log)
F1(log2, ::log2f, ::log2) F1(log10, ::log10f, ::log10) F1(log1p, ::log1pf, ::log1p) F1(ln_1p, ::log1pf, ::log1p) F1(sin, ::sinf, ::sin)
F1(cos, ::cosf, ::cos) F1(tan, ::tanf, ::tan) F1(asin, ::asinf, ::asin) F1(acos, ::acosf, ::acos) F1(atan, ::atanf, ::atan) F1(sinh, ::sinhf, ::sinh)
F1(cosh, ::coshf, ::cosh) F1(tanh, ::tanhf, ::tanh) F1(asinh, ::asinhf, ::asinh) F1(acosh, ::acoshf, ::acosh) F1(atanh, ::atanhf, ::atanh)
F1(erf, ::erff, ::erf) F1(erfc, ::erfcf, ::erfc)
F2(copysign, ::copysignf, ::copysign) F2(fmod, ::fmodf, ::fmod) F2(nextafter, ::nextafterf, ::nextafter) F2(atan2, ::atan2f, ::atan2)
F2(hypot, ::hypotf, ::hypot) F2(powf, ::powf, ::pow)
DEVICE float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
DEVICE double fma(double a, double b, double c) { return ::fma(a, b, c); }
DEVICE double mul_add(double a, double b, double c) { return ::fma(a, b, c); }
DEVICE float pow(float x, float y) { return (float)::pow((double)x, (double)y); }
DEVICE double pow(double x, double y) { return ::pow(x, y); }
DEVICE double powi(double x, int n) { return ::pow(x, (double)n); }
template <class V> DEVICE bool is_nan(V x) { return x != x; }
DEVICE bool is_finite(float x) { return ::fabsf(x) <= Consts<float>::MAX(); }
DEVICE bool is_finite(double x) { return ::fabs(x) <= Consts<double>::MAX(); }
DEVICE bool is_infinite(double x) { return ::fabs(x) == Consts<double>::INF(); }
DEVICE bool is_sign_negative(float x) { return bits_as<u32>(x) >> 31; }
DEVICE bool is_sign_negative(double x) { return bits_as<u64>(x) >> 63; }
DEVICE double to_f64(float x) { return x; }
DEVICE double to_f64(double x) { return x; }
template <class V> DEVICE V square(V x) { return x * x; }
DEVICE float recip(float x) { return 1.0f / x; }
DEVICE double recip(double x) { return 1.0 / x; }
template <class V> DEVICE V maximum(V a, V b) { return a > b || a != a ? a : b; }
template <class V> DEVICE V minimum(V a, V b) { return a < b || a != a ? a : b; }
template <class V> DEVICE V at_least(V a, V b) { return a < b ? b : a; }
template <class V> DEVICE V at_most(V a, V b) { return a > b ? b : a; }
// Rust's max and min: the number if one of them is none.
DEVICE double max(double a, double b) { return ::fmax(a, b); }
DEVICE double min(double a, double b) { return ::fmin(a, b); }
DEVICE float sigmoid(float x) { return 1.0f / (1.0f + ::expf(-x)); }
DEVICE double sigmoid(double x) { return 1.0 / (1.0 + ::exp(-x)); }
#ifdef FLAMBEAU_EMULATED
DEVICE float normal_cdf(float x) { return (float)(0.5 * ::erfc(-(double)x * 0.70710678118654752440)); }
#else
// doubles are many times slower there; as PyTorch computes it there
DEVICE float normal_cdf(float x) { return 0.5f * (1.0f + ::erff(x * 0.70710678118654752440f)); }
#endif
DEVICE double normal_cdf(double x) { return 0.5 * ::erfc(-x * 0.70710678118654752440); }
// From a rational start, by Halley's steps on erf (near 0) or erfc (in the tails).
DEVICE double erfinv(double y) {
    if (!(::fabs(y) <= 1)) return Consts<double>::NAN_();
    if (::fabs(y) == 1) return y * Consts<double>::INF();
    if (y == 0) return y;
    double w = -::log((1 - y) * (1 + y)), a = 0.147, u = 2 / (3.14159265358979323846 * a) - w / 2;
    double x = ::copysign(::sqrt(::sqrt(u * u + w / a) - u), y);
    for (int i = 0; i < 3; i++) {
        double e = ::fabs(y) < 0.5 ? ::erf(x) - y : y > 0 ? (1 - y) - ::erfc(x) : ::erfc(-x) - (1 + y);
        e = e / (1.12837916709551257390 * ::exp(-x * x));
        x -= e / (1 + x * e);
    }
    return x;
}
DEVICE float erfinv(float y) { return (float)erfinv((double)y); }
DEVICE double lgamma(double x) {
    if (x == -Consts<double>::INF()) return Consts<double>::INF();
#ifdef FLAMBEAU_EMULATED
    int sign;
    return ::lgamma_r(x, &sign);
#else
    return ::lgamma(x);
#endif
}
DEVICE float lgamma(float x) { return (float)lgamma((double)x); }
DEVICE double digamma(double x) {
    if (x == 0) return ::copysign(Consts<double>::INF(), -x);
    double less = 0;
    if (x < 0) {
        if (x == ::trunc(x)) return Consts<double>::NAN_();
        double t = x - ::trunc(x);
        less = 3.14159265358979323846 / ::tan(3.14159265358979323846 * t);
        x = 1 - x;
    }
    double sum = 0;
    while (x < 10) sum -= 1 / x, x += 1;
    double z = 1 / (x * x);
    double tail = z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
    return sum + ::log(x) - 0.5 / x - tail - less;
}
DEVICE float digamma(float x) { return (float)digamma((double)x); }
DEVICE double i0(double x) {
    double a = ::fabs(x);
    if (!(a < 30)) {
        // as PyTorch: exp(a) / sqrt(a)
        if (a == Consts<double>::INF()) return Consts<double>::NAN_();
        double term = 1, sum = 1;
        for (int k = 1; k < 30 && ::fabs(term) > 1e-18; k++) term *= (2.0 * k - 1) * (2.0 * k - 1) / (8 * a * k), sum += term;
        double h = ::exp(0.5 * a);
        return sum / (2.50662827463100050242 * ::sqrt(a)) * h * h;
    }
    double q = 0.25 * x * x, term = 1, sum = 1;
    for (double k = 1; term > sum * 1e-18; k++) term *= q / (k * k), sum += term;
    return sum;
}
// Rust's remainder.
DEVICE double rem(double a, double b) { return ::fmod(a, b); }
DEVICE float rem(float a, float b) { return ::fmodf(a, b); }
DEVICE i64 rem(i64 a, i64 b) { return a % b; }
DEVICE double tgamma(double x) { return ::tgamma(x); }
DEVICE double j0(double x) { return ::j0(x); }
DEVICE double j1(double x) { return ::j1(x); }
DEVICE double y0(double x) { return ::y0(x); }
DEVICE double y1(double x) { return ::y1(x); }
DEVICE float i0(float x) { return (float)i0((double)x); }
}  // namespace num

// Integers that wrap, whatever their width.
template <class T> struct unsigned_of { typedef T type; };
template <> struct unsigned_of<i32> { typedef u32 type; };
template <> struct unsigned_of<i64> { typedef u64 type; };
#define WHOLE(OP) \
    template <class T> DEVICE Whole<T> operator OP(Whole<T> a, Whole<T> b) { typedef typename unsigned_of<T>::type U; return {(T)((U)a.v OP (U)b.v)}; }
WHOLE(+) WHOLE(-) WHOLE(*) WHOLE(&) WHOLE(|) WHOLE(^)
#define WHOLE_IS(OP) template <class T> DEVICE bool operator OP(Whole<T> a, Whole<T> b) { return a.v OP b.v; }
WHOLE_IS(==) WHOLE_IS(!=) WHOLE_IS(<) WHOLE_IS(<=) WHOLE_IS(>) WHOLE_IS(>=)
template <class T> DEVICE Whole<T> operator-(Whole<T> a) { typedef typename unsigned_of<T>::type U; return {(T)(0 - (U)a.v)}; }
template <class T> DEVICE Whole<T> operator~(Whole<T> a) { return {(T)~a.v}; }
template <class T> DEVICE Whole<T> operator!(Whole<T> a) { return ~a; }
namespace num {
template <class T> DEVICE Whole<T> max(Whole<T> a, Whole<T> b) { return a.v > b.v ? a : b; }
template <class T> DEVICE Whole<T> min(Whole<T> a, Whole<T> b) { return a.v < b.v ? a : b; }
template <class T> DEVICE Whole<T> abs(Whole<T> a) { return a.v < 0 ? -a : a; }
template <class T> DEVICE Whole<T> div_trunc(Whole<T> a, Whole<T> b) {
    if (b.v == 0) return {0};
    if (b.v == (T)-1 && (T)-1 < 0) return -a;
    return {(T)(a.v / b.v)};
}
template <class T> DEVICE Whole<T> rem_trunc(Whole<T> a, Whole<T> b) {
    if (b.v == 0 || (b.v == (T)-1 && (T)-1 < 0)) return {0};
    return {(T)(a.v % b.v)};
}
template <class T> DEVICE Whole<T> div_floor(Whole<T> a, Whole<T> b) {
    Whole<T> q = div_trunc(a, b), r = rem_trunc(a, b);
    return r.v != 0 && (r.v < 0) != (b.v < 0) ? q - Whole<T>{1} : q;
}
template <class T> DEVICE Whole<T> rem_floor(Whole<T> a, Whole<T> b) {
    Whole<T> r = rem_trunc(a, b);
    return r.v != 0 && (r.v < 0) != (b.v < 0) ? r + b : r;
}
template <class T> DEVICE Whole<T> shl(Whole<T> a, Whole<T> n) {
    typedef typename unsigned_of<T>::type U;
    return {(u64)n.v < sizeof(T) * 8 ? (T)((U)a.v << n.v) : (T)0};
}
template <class T> DEVICE Whole<T> shr(Whole<T> a, Whole<T> n) {
    return {(u64)n.v < sizeof(T) * 8 ? (T)(a.v >> n.v) : (T)((T)-1 < 0 ? a.v >> (sizeof(T) * 8 - 1) : 0)};
}
template <class T> DEVICE Whole<T> pow(Whole<T> a, Whole<T> e) {
    if (e.v < 0) return {(T)(a.v == 1 ? 1 : a.v == (T)-1 ? (e.v & 1 ? -1 : 1) : 0)};
    Whole<T> base = a, r = {1};
    for (u64 n = (u64)e.v; n; n >>= 1) {
        if (n & 1) r = r * base;
        base = base * base;
    }
    return r;
}
}  // namespace num

template <class V> DEVICE Cx<V> operator+(Cx<V> a, Cx<V> b) { return {a.re + b.re, a.im + b.im}; }
template <class V> DEVICE Cx<V> operator-(Cx<V> a, Cx<V> b) { return {a.re - b.re, a.im - b.im}; }
template <class V> DEVICE Cx<V> operator-(Cx<V> a) { return {-a.re, -a.im}; }
template <class V> DEVICE Cx<V> operator*(Cx<V> a, Cx<V> b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
template <class V> DEVICE bool operator==(Cx<V> a, Cx<V> b) { return a.re == b.re && a.im == b.im; }
template <class V> DEVICE bool operator!=(Cx<V> a, Cx<V> b) { return !(a == b); }
template <class V> DEVICE Cx<V> operator/(Cx<V> x, Cx<V> o) {
    V a = x.re, b = x.im, c = o.re, d = o.im;
    bool flat = num::abs(c) >= num::abs(d);
    V large = flat ? c : d, small = flat ? d : c, ratio = small / large, scale = V(1) / (large + small * ratio);
    V p = flat ? a : b, q = flat ? b : a;
    V re = (p + q * ratio) * scale, im = (q - p * ratio) * scale;
    im = flat ? im : -im;
    bool zero = c == V(0) && d == V(0);
    return {zero ? a / num::abs(c) : re, zero ? b / num::abs(d) : im};
}
namespace num {
template <class V> DEVICE Cx<V> mul_i(Cx<V> z) { return {-z.im, z.re}; }
template <class V> DEVICE Cx<V> mul_neg_i(Cx<V> z) { return {z.im, -z.re}; }
template <class V> DEVICE Cx<V> scale(Cx<V> z, V s) { return {z.re * s, z.im * s}; }
template <class V> DEVICE V abs(Cx<V> z) { return hypot(z.re, z.im); }
template <class V> DEVICE V arg(Cx<V> z) { return atan2(z.im, z.re); }
template <class V> DEVICE Cx<V> conj(Cx<V> z) { return {z.re, -z.im}; }
template <class V> DEVICE bool is_nan(Cx<V> z) { return z.re != z.re || z.im != z.im; }
template <class V> DEVICE bool is_zero(Cx<V> z) { return z.re == V(0) && z.im == V(0); }
template <class V> DEVICE Cx<V> polar(V r, V t) { return {r * cos(t), r * sin(t)}; }
}  // namespace num
