// Distributions by rejection: a sequence for each element.
#pragma once
#include "philox.cuh"

struct SampleParams {
    // samples, their parameters; dense
    u64 out, a, b;
    i64 n;
    u64 seed, offset, fault, kind;
};
DEVICE double next_wide(Philox& g) {
    u32 x = g.one(), y = g.one();
    return uniform_of(x, y);
}
DEVICE double poisson_of(Philox& g, double rate) {
    if (rate == 0) return 0;
    if (rate == Consts<double>::INF()) return rate;
    if (rate < 64) {
        // products of uniforms
        double k = 0, p = num::exp(rate);
        do {
            k++;
            p *= next_uniform(g);
        } while (p > 1);
        return k - 1;
    }
    // transformed rejection (Hoermann 1993)
    double root = num::sqrt(rate), log = num::ln(rate), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    double alpha = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2.0);
    for (;;) {
        double u = next_wide(g) - 0.5, v = next_wide(g), us = 0.5 - num::abs(u);
        double k = num::floor((2.0 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= vr) return k;
        if (k < 0 || (us < 0.013 && v > us)) continue;
        if (num::ln(v) + num::ln(alpha) - num::ln(a / (us * us) + b) <= -rate + k * log - ::lgamma(k + 1)) return k;
    }
}
DEVICE double stirling_tail(double k) {
    if (k < 10) {
        double x = k + 1;
        // what Stirling's formula leaves of lgamma(k + 1)
        return ::lgamma(x) - ((x - 0.5) * num::ln(x) - x + 0.91893853320467274178);
    }
    double sq = (k + 1) * (k + 1);
    return (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / sq) / sq) / (k + 1);
}
DEVICE double binomial_half(Philox& g, double n, double p) {
    if (n * p < 10) {
        double sum = 0, found = 0, log_q = num::log1p(-p);
        for (;;) {
            sum += num::ceil(num::ln(next_wide(g)) / log_q);
            if (sum > n) return found;
            found++;
        }
    }
    // transformed rejection with squeeze (Hoermann 1993)
    double spread = num::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p;
    double c = n * p + 0.5, vr = 0.92 - 4.2 / b, r = p / (1 - p), alpha = (2.83 + 5.1 / b) * spread, m = num::floor((n + 1) * p);
    for (;;) {
        double u = next_wide(g) - 0.5, v = next_wide(g), us = 0.5 - num::abs(u), k = num::floor((2 * a / us + b) * u + c);
        if (k < 0 || k > n) continue;
        if (us >= 0.07 && v <= vr) return k;
        v = num::ln(v * alpha / (a / (us * us) + b));
        double bound = (m + 0.5) * num::ln((m + 1) / (r * (n - m + 1))) + (n + 1) * num::ln((n - m + 1) / (n - k + 1)) +
                       (k + 0.5) * num::ln(r * (n - k + 1) / (k + 1)) + stirling_tail(m) + stirling_tail(n - m) - stirling_tail(k) -
                       stirling_tail(n - k);
        if (v <= bound) return k;
    }
}
DEVICE double binomial_of(Philox& g, double n, double p) {
    if (n != n || p != p) return Consts<double>::NAN_();
    if (n <= 0 || p <= 0) return 0;
    if (p >= 1 || n == Consts<double>::INF()) return n;
    return p <= 0.5 ? binomial_half(g, n, p) : n - binomial_half(g, n, 1 - p);
}
// Marsaglia and Tsang 2000.
template <class C>
DEVICE C gamma_of(Philox& g, C alpha) {
    C scale = 1;
    if (alpha < 1) {
        if (alpha == 0) return 0;
        scale *= num::powf(C(1) - (C)next_uniform(g), C(1) / alpha);
        alpha += 1;
    }
    C d = alpha - C(1) / C(3);
    if (!num::is_finite(d)) return d;
    C c = C(1) / num::sqrt(C(9) * d);
    for (;;) {
        C x, y;
        do {
            x = (C)next_normal(g);
            y = C(1) + c * x;
            // a negative concentration has no samples
        } while (y <= 0);
        if (y != y) return y;
        C v = y * y * y, u = C(1) - (C)next_uniform(g), xx = x * x;
        if (u < C(1) - C(0.0331) * xx * xx || num::ln(u) < C(0.5) * xx + d * (C(1) - v + num::ln(v))) return scale * d * v;
    }
}
template <class T> DEVICE typename Element<T>::C least_of();
template <> DEVICE float least_of<float>() { return 1.17549435e-38f; }
template <> DEVICE double least_of<double>() { return 2.2250738585072014e-308; }
template <> DEVICE float least_of<f16>() { return 6.103515625e-05f; }
template <> DEVICE float least_of<bf16>() { return 1.17549435e-38f; }

template <class T>
DEVICE void poisson(const SampleParams& p) {
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        Philox g(p.seed, (u64)i, p.offset);
        double rate = Element<T>::up(at<T>(p.a)[i]);
        if (!(rate >= 0)) {
            report(p.fault, p.kind, i, 0, p.n);
            rate = 0;
        }
        at<T>(p.out)[i] = Element<T>::down((typename Element<T>::C)poisson_of(g, rate));
    }
}
template <class T>
DEVICE void binomial(const SampleParams& p) {
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        Philox g(p.seed, (u64)i, p.offset);
        double v = binomial_of(g, Element<T>::up(at<T>(p.a)[i]), Element<T>::up(at<T>(p.b)[i]));
        at<T>(p.out)[i] = Element<T>::down((typename Element<T>::C)v);
    }
}
template <class T>
DEVICE void standard_gamma(const SampleParams& p) {
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        Philox g(p.seed, (u64)i, p.offset);
        auto v = gamma_of(g, Element<T>::up(at<T>(p.a)[i]));
        at<T>(p.out)[i] = Element<T>::down(v < least_of<T>() ? least_of<T>() : v);
    }
}
#define SAMPLE(NAME, F, T) \
    KERNEL(NAME, SampleParams) { F<T>(p); }
