// Tensors made of numbers: one number for all elements, and sequences.
#pragma once
#include "../device/number.cuh"

struct FillParams {
    Geometry g;
    // the element's bytes
    u64 value[2];
};
template <class T>
DEVICE void fill(const FillParams& p) {
    T v;
    memcpy(&v, p.value, sizeof(T));
    i64 done = 0;
    constexpr int V = pack_of<T>();
    if constexpr (V > 1) {
        if (p.g.mode == DENSE && p.g.strides[0][0] == (i64)sizeof(T) && fits_packs(p.g.start[0])) {
            Pack<T, V> all;
#pragma unroll
            for (int k = 0; k < V; k++) all.v[k] = v;
            i64 packs = p.g.n / V;
            for (i64 i = first_index(); i < packs; i += all_threads()) at<Pack<T, V>>(p.g.start[0])[i] = all;
            done = packs * V;
        }
    }
    for (i64 i = done + first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<1>(p.g, i, a);
        *at<T>(a[0]) = v;
    }
}
#define FILL(NAME, T) \
    KERNEL(NAME, FillParams) { fill<T>(p); }

struct SequenceParams {
    u64 out;
    i64 n;
    // 0: integers by steps; 1: numbers by steps; 2 to 4: numbers between two ends, the second half counted from the end: in
    // float64, in float32, cut to integers
    i64 kind;
    i64 first, step;
    double start, by, end;
};
// The numbers of `arange` and `linspace`, rounded once, as the CPU's are.
template <class T>
DEVICE void sequence(const SequenceParams& p) {
    typedef typename Element<T>::C C;
    T* out = at<T>(p.out);
    i64 half = p.n / 2;
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        if (p.kind == 0) {
            out[i] = Element<T>::down(Convert<C, i64>::of((i64)((u64)p.first + (u64)i * (u64)p.step)));
            continue;
        }
        bool front = i < half || p.n == 1;
        double v = front ? p.start + p.by * (double)i : p.end - p.by * (double)(p.n - i - 1);
        if (p.kind == 1) v = p.start + (double)i * p.by;
        if (p.kind == 3) {
            // in float32, fused
            float s = (float)p.start, e = (float)p.end, d = (float)p.by;
            v = p.n == 1 ? s : front ? num::fma(d, (float)i, s) : num::fma(-d, (float)(p.n - i - 1), e);
        }
        out[i] = p.kind == 4 ? Element<T>::down(Convert<C, i64>::of(Convert<i64, double>::of(v))) : Element<T>::down(Convert<C, double>::of(v));
    }
}
#define SEQUENCE(NAME, T) \
    KERNEL(NAME, SequenceParams) { sequence<T>(p); }
