// Weighted sums along one dimension of [outer, n, inner], by a list of entries for each result.
#pragma once
#include "../device/block.cuh"

struct ResampleParams {
    u64 out, x;
    // the first entry of each result and the end of all, and of each entry the source and the weight
    u64 starts, at, weights;
    // results in all and of a line, elements of a line of the source
    i64 all, m, n, inner, line, place;
    // of bytes: how many bits the weights have
    i64 bits;
};
template <class T, class W>
DEVICE void resample(const ResampleParams& p) {
    bool small = p.all < 0x7fffffff;
    Quotient by_inner(p.inner, (u64)p.place), by_m(p.m, (u64)p.line);
    const i64* starts = at<i64>(p.starts);
    const i64* from = at<i64>(p.at);
    const W* weights = at<W>(p.weights);
    for (i64 i = first_index(); i < p.all; i += all_threads()) {
        i64 row = small ? (i64)by_inner.of((u32)i) : i / p.inner, k = i - row * p.inner;
        i64 outer = small ? (i64)by_m.of((u32)row) : row / p.m, r = row - outer * p.m;
        const T* x = at<T>(p.x) + outer * p.n * p.inner + k;
        W sum = p.bits > 0 ? (W)(1 << (p.bits - 1)) : W(0);
        for (i64 e = starts[r]; e < starts[r + 1]; e++) sum += weights[e] * (W)x[from[e] * p.inner];
        if constexpr (sizeof(T) == 1) {
            i32 v = (i32)sum >> p.bits;
            at<T>(p.out)[i] = v < 0 ? 0 : v > 255 ? 255 : (T)v;
        } else {
            at<T>(p.out)[i] = sum;
        }
    }
}
#define RESAMPLE(NAME, T, W) \
    KERNEL(NAME, ResampleParams) { resample<T, W>(p); }
