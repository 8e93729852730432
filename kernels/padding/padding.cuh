// Padding of up to three dimensions by what the input shows: reflected, repeated, wrapped round. A thread has an element of the
// result, or of the gradient, whose places in the result it looks up.
#pragma once
#include "../reduction/reduction.cuh"

struct PadParams {
    u64 out, x;
    // elements that threads are counted by
    i64 all, mode;
    i64 size[3], padded[3], before[3], after[3];
};
constexpr i64 REFLECT = 0, REPLICATE = 1;
DEVICE i64 least(i64 a, i64 b) { return a < b ? a : b; }
// What place i of the result shows.
DEVICE i64 source_of(const PadParams& p, int d, i64 i) {
    i64 n = p.size[d], j = i - p.before[d];
    if (p.mode == REFLECT) {
        if (j < 0) j = -j;
        return j >= n ? 2 * (n - 1) - j : j;
    }
    if (p.mode == REPLICATE) return j < 0 ? 0 : j >= n ? n - 1 : j;
    i64 cut = least(p.before[d], 0), left = n + cut + least(p.after[d], 0), r = (j + cut) % (left > 0 ? left : 1);
    return (r < 0 ? r + left : r) - cut;
}
template <class T>
DEVICE void pad(const PadParams& p) {
    for (i64 i = first_index(); i < p.all; i += all_threads()) {
        i64 rest = i, at_in[3];
        if (p.all < 0x7fffffff) {
            u32 r = (u32)i;
            for (int d = 2; d >= 0; d--) {
                u32 q = r / (u32)p.padded[d];
                at_in[d] = source_of(p, d, r - q * (u32)p.padded[d]);
                r = q;
            }
            rest = r;
        } else {
            for (int d = 2; d >= 0; d--) {
                at_in[d] = source_of(p, d, rest % p.padded[d]);
                rest /= p.padded[d];
            }
        }
        at<T>(p.out)[i] = at<T>(p.x)[((rest * p.size[0] + at_in[0]) * p.size[1] + at_in[1]) * p.size[2] + at_in[2]];
    }
}
#define PAD(NAME, T) \
    KERNEL(NAME, PadParams) { pad<T>(p); }

// The places of the result that show element j: a run, or up to three of which some may be outside.
struct Places {
    i64 first, step, count;
    i64 more[2];
};
DEVICE Places places_of(const PadParams& p, int d, i64 j) {
    i64 n = p.size[d], before = p.before[d], most = p.padded[d];
    Places s{0, 1, 0, {-1, -1}};
    auto inside = [&](i64 i) { return i >= 0 && i < most; };
    if (p.mode == REFLECT) {
        if (inside(j + before)) s.first = j + before, s.count = 1;
        if (j > 0 && inside(before - j)) s.more[0] = before - j;
        i64 behind = 2 * (n - 1) - j;
        if (behind >= n && inside(behind + before)) s.more[1] = behind + before;
        return s;
    }
    if (p.mode == REPLICATE) {
        i64 first = j == 0 ? 0 : j + before, end = j == n - 1 ? most : j + before + 1;
        if (first < 0) first = 0;
        if (end > most) end = most;
        s.first = first, s.count = end > first ? end - first : 0;
        return s;
    }
    i64 cut = least(before, 0), left = n + cut + least(p.after[d], 0);
    if (left <= 0 || j < -cut || j >= left - cut) return s;
    i64 first = (j + before) % left;
    if (first < 0) first += left;
    s.first = first, s.step = left, s.count = first < most ? (most - first - 1) / left + 1 : 0;
    return s;
}
template <class F>
DEVICE void each_place(const Places& s, F f) {
    for (i64 k = 0; k < s.count; k++) f(s.first + k * s.step);
    if (s.more[0] >= 0) f(s.more[0]);
    if (s.more[1] >= 0) f(s.more[1]);
}
template <class T, class S>
DEVICE void pad_backward(const PadParams& p) {
    typedef typename Element<T>::C C;
    for (i64 i = first_index(); i < p.all; i += all_threads()) {
        i64 rest = i, k[3];
        for (int d = 2; d >= 0; d--) {
            k[d] = rest % p.size[d];
            rest /= p.size[d];
        }
        Places a = places_of(p, 0, k[0]), b = places_of(p, 1, k[1]), c = places_of(p, 2, k[2]);
        S sum = zero_of<S>();
        each_place(a, [&](i64 x) {
            each_place(b, [&](i64 y) {
                const T* row = at<T>(p.x) + ((rest * p.padded[0] + x) * p.padded[1] + y) * p.padded[2];
                each_place(c, [&](i64 z) { sum = plus(sum, Convert<S, C>::of(Element<T>::up(row[z]))); });
            });
        });
        at<T>(p.out)[i] = Element<T>::down(Convert<C, S>::of(sum));
    }
}
#define PAD_BACKWARD(NAME, T, S) \
    KERNEL(NAME, PadParams) { pad_backward<T, S>(p); }
