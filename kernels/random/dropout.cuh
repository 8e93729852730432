// Masks of dropout and slopes of leaky units, with the sequences that PyTorch's kernels draw them from on CUDA.
#pragma once
#include "philox.cuh"

struct MaskParams {
    u64 out, x;
    // elements, and how many a thread takes side by side: 4, 2, or 1 with those of a call as many apart as there are threads
    i64 n, together;
    u64 seed, offset;
    // the share that is kept and what it becomes; or the bounds of slopes
    double a, b;
};
// f(place, number of (0, 1]) for all elements.
template <class F>
DEVICE void each_uniform(const MaskParams& p, F f) {
    i64 t = first_index(), total = all_threads();
    Philox g(p.seed, (u64)t, p.offset);
    if (p.together == 4) {
        for (i64 i = t * 4; i < p.n; i += total * 4) {
            Words4 w = g.four();
            f(i, uniform_of(w.x)), f(i + 1, uniform_of(w.y)), f(i + 2, uniform_of(w.z)), f(i + 3, uniform_of(w.w));
        }
        return;
    }
    if (p.together == 2) {
        Words4 w{0, 0, 0, 0};
        bool second = false;
        for (i64 i = t * 2; i < p.n; i += total * 2, second = !second) {
            if (!second) w = g.four();
            f(i, uniform_of(second ? w.z : w.x)), f(i + 1, uniform_of(second ? w.w : w.y));
        }
        return;
    }
    i64 most = ((p.n - 1) / (total * 4) + 1) * total * 4;
    for (i64 i = t; i < most; i += total * 4) {
        Words4 w = g.four();
        float u[4] = {uniform_of(w.x), uniform_of(w.y), uniform_of(w.z), uniform_of(w.w)};
        for (int k = 0; k < 4; k++)
            if (i + k * total < p.n) f(i + k * total, u[k]);
    }
}
template <class T>
DEVICE void dropout_mask(const MaskParams& p) {
    typedef typename Element<T>::C C;
    T kept = Element<T>::down(Convert<C, double>::of(p.b)), none = Element<T>::down(Convert<C, double>::of(0));
    each_uniform(p, [&](i64 i, float u) { at<T>(p.out)[i] = (double)u < p.a ? kept : none; });
}
// Slopes between two bounds where an element is not positive; numbers of double come two from a call.
template <class T, class W>
DEVICE void slopes(const MaskParams& p) {
    typedef typename Element<T>::C C;
    auto put = [&](i64 i, W u) { at<W>(p.out)[i] = (double)Element<T>::up(at<T>(p.x)[i]) <= 0 ? u * (W)(p.b - p.a) + (W)p.a : W(1); };
    if constexpr (sizeof(W) == 8) {
        i64 t = first_index(), total = all_threads(), most = ((p.n - 1) / (total * 2) + 1) * total * 2;
        Philox g(p.seed, (u64)t, p.offset);
        for (i64 i = t; i < most; i += total * 2) {
            Words4 w = g.four();
            if (i < p.n) put(i, uniform_of(w.x, w.y));
            if (i + total < p.n) put(i + total, uniform_of(w.z, w.w));
        }
    } else {
        each_uniform(p, [&](i64 i, float u) { put(i, u); });
    }
}
#define DROPOUT_MASK(NAME, T) \
    KERNEL(NAME, MaskParams) { dropout_mask<T>(p); }
#define SLOPES(NAME, T, W) \
    KERNEL(NAME, MaskParams) { slopes<T, W>(p); }
