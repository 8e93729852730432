// Mantissas and exponents.
#pragma once
#include "../device/number.cuh"

struct FrexpParams {
    // mantissas, exponents, numbers
    Geometry g;
};
DEVICE float split(float v, int* e) { return ::frexpf(v, e); }
DEVICE double split(double v, int* e) { return ::frexp(v, e); }
template <class T>
DEVICE void frexp_of(const FrexpParams& p) {
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<3>(p.g, i, a);
        auto v = Element<T>::up(*at<T>(a[2]));
        int e = 0;
        // infinities and NaNs have no exponent
        auto m = v - v == 0 ? split(v, &e) : v;
        *at<T>(a[0]) = Element<T>::down(m);
        *at<i32>(a[1]) = e;
    }
}
#define FREXP(NAME, T) \
    KERNEL(NAME, FrexpParams) { frexp_of<T>(p); }
