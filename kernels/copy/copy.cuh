// Copies between dtypes and geometries, with lazy bits worked out; `where`, which moves whole elements.
#pragma once
#include "../pointwise/loop.cuh"

struct CopyParams {
    Geometry g;
    i64 conjugate, negate;
};
template <class T> DEVICE T negated(T v) { return (T)(0 - v); }
template <> DEVICE bool negated(bool v) { return v; }
template <> DEVICE float negated(float v) { return -v; }
template <> DEVICE double negated(double v) { return -v; }
template <class V> DEVICE Cx<V> negated(Cx<V> v) { return -v; }
template <class T> DEVICE T conjugated(T v) { return v; }
template <class V> DEVICE Cx<V> conjugated(Cx<V> v) { return num::conj(v); }

template <class In, class Out>
DEVICE void copy(const CopyParams& p) {
    typedef typename Element<In>::C A;
    typedef typename Element<Out>::C B;
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<2>(p.g, i, a);
        A v = Element<In>::up(*at<In>(a[1]));
        if (p.conjugate) v = conjugated(v);
        if (p.negate) v = negated(v);
        *at<Out>(a[0]) = Element<Out>::down(Convert<B, A>::of(v));
    }
}
#define COPY(NAME, IN, OUT) \
    KERNEL(NAME, CopyParams) { copy<IN, OUT>(p); }

template <class T>
DEVICE void select(const CopyParams& p) {
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<4>(p.g, i, a);
        *at<T>(a[0]) = *at<u8>(a[1]) ? *at<T>(a[2]) : *at<T>(a[3]);
    }
}
#define WHERE(NAME, T) \
    KERNEL(NAME, CopyParams) { select<T>(p); }
