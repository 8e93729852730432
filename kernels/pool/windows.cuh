// Pooling over [planes, depth, height, width]: windows of fixed, adaptive and drawn places. A thread has an output, or in
// gradients an input, whose windows it looks up; large adaptive windows have a warp.
#pragma once
#include "../device/block.cuh"

struct PoolParams {
    u64 y, index, x;
    // elements that threads are counted by, and the last two extents and the plane that these divide by
    i64 n, planes;
    i64 input[3], kernel[3], stride[3], pad[3], dilation[3], output[3];
    u64 quotient[3];
    // what averages are divided by: whether the border counts, whether a number is given, and which
    i64 include_pad, given, divisor;
    // threads of a window
    i64 threads;
};
struct Place {
    i64 plane, d, h, w;
};
// The place of element i in planes of these extents.
DEVICE Place place_of(const PoolParams& p, const i64* extent, i64 i) {
    if (p.n < 0x7fffffff) {
        u32 a = Quotient(extent[2], p.quotient[2]).of((u32)i), w = (u32)i - a * (u32)extent[2];
        u32 b = Quotient(extent[1], p.quotient[1]).of(a), h = a - b * (u32)extent[1];
        u32 c = Quotient(extent[0], p.quotient[0]).of(b);
        return {(i64)c, (i64)(b - c * (u32)extent[0]), (i64)h, (i64)w};
    }
    i64 a = i / extent[2], b = a / extent[1], c = b / extent[0];
    return {c, b - c * extent[0], a - b * extent[1], i - a * extent[2]};
}
// The taps of window o in dimension d that lie within the input: from, to.
struct Taps {
    i64 start, from, to;
};
DEVICE Taps taps(const PoolParams& p, int d, i64 o) {
    i64 start = o * p.stride[d] - p.pad[d], step = p.dilation[d];
    i64 from = start < 0 ? (-start + step - 1) / step : 0, room = p.input[d] - start;
    i64 to = room <= 0 ? 0 : (room - 1) / step + 1;
    return {start, from, to < p.kernel[d] ? to : p.kernel[d]};
}
template <class C> DEVICE C lowest_of() { return -Consts<C>::INF(); }
template <> DEVICE u8 lowest_of() { return 0; }
template <> DEVICE u16 lowest_of() { return 0; }
template <> DEVICE u32 lowest_of() { return 0; }
template <> DEVICE i8 lowest_of() { return -128; }
template <> DEVICE i16 lowest_of() { return -32768; }
template <> DEVICE i32 lowest_of() { return (i32)0x80000000u; }
template <> DEVICE i64 lowest_of() { return (i64)0x8000000000000000ull; }

template <class T>
DEVICE void max_pool(const PoolParams& p) {
    typedef typename Element<T>::C C;
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        Place o = place_of(p, p.output, i);
        Taps d = taps(p, 0, o.d), h = taps(p, 1, o.h), w = taps(p, 2, o.w);
        const T* x = at<T>(p.x) + o.plane * p.input[0] * p.input[1] * p.input[2];
        C best = lowest_of<C>();
        // nothing above the lowest value: the first element
        i64 at_d = d.start + d.from * p.dilation[0], at_h = h.start + h.from * p.dilation[1], at_w = w.start + w.from * p.dilation[2];
        i64 place = (at_d * p.input[1] + at_h) * p.input[2] + at_w;
        for (i64 a = d.from; a < d.to; a++)
            for (i64 b = h.from; b < h.to; b++) {
                i64 row = ((d.start + a * p.dilation[0]) * p.input[1] + h.start + b * p.dilation[1]) * p.input[2] + w.start;
                for (i64 c = w.from; c < w.to; c++) {
                    i64 k = row + c * p.dilation[2];
                    C v = Element<T>::up(x[k]);
                    if (v > best || v != v) best = v, place = k;
                }
            }
        at<T>(p.y)[i] = Element<T>::down(best);
        at<i64>(p.index)[i] = place;
    }
}
// What the sum of a window is divided by.
DEVICE i64 extent_of(const PoolParams& p, int d, i64 o) {
    i64 start = o * p.stride[d] - p.pad[d], end = start + p.kernel[d], most = p.input[d] + p.pad[d];
    if (end > most) end = most;
    if (p.include_pad) return end - start;
    return (end < p.input[d] ? end : p.input[d]) - (start > 0 ? start : 0);
}
DEVICE i64 divisor_of(const PoolParams& p, i64 d, i64 h, i64 w) {
    i64 n = p.given ? p.divisor : extent_of(p, 0, d) * extent_of(p, 1, h) * extent_of(p, 2, w);
    // a window without any position has the sum 0, which stays
    return n == 0 ? 1 : n;
}
template <class T>
DEVICE void avg_pool(const PoolParams& p) {
    typedef typename Element<T>::C C;
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        Place o = place_of(p, p.output, i);
        Taps d = taps(p, 0, o.d), h = taps(p, 1, o.h), w = taps(p, 2, o.w);
        const T* x = at<T>(p.x) + o.plane * p.input[0] * p.input[1] * p.input[2];
        C sum = 0;
        for (i64 a = d.from; a < d.to; a++)
            for (i64 b = h.from; b < h.to; b++) {
                const T* row = x + ((d.start + a) * p.input[1] + h.start + b) * p.input[2] + w.start;
                for (i64 c = w.from; c < w.to; c++) sum += Element<T>::up(row[c]);
            }
        at<T>(p.y)[i] = Element<T>::down(sum / (C)divisor_of(p, o.d, o.h, o.w));
    }
}
// The windows that hold position i of dimension d: from, to.
struct Windows {
    i64 from, to;
};
DEVICE Windows windows_of(const PoolParams& p, int d, i64 i) {
    i64 reach = i + p.pad[d] - p.kernel[d], last = (i + p.pad[d]) / p.stride[d] + 1;
    return {reach < 0 ? 0 : reach / p.stride[d] + 1, last < p.output[d] ? last : p.output[d]};
}
// y: the gradient of the input; x: that of the output.
template <class T>
DEVICE void avg_pool_backward(const PoolParams& p) {
    typedef typename Element<T>::C C;
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        Place o = place_of(p, p.input, i);
        Windows d = windows_of(p, 0, o.d), h = windows_of(p, 1, o.h), w = windows_of(p, 2, o.w);
        const T* g = at<T>(p.x) + o.plane * p.output[0] * p.output[1] * p.output[2];
        C sum = 0;
        for (i64 a = d.from; a < d.to; a++)
            for (i64 b = h.from; b < h.to; b++)
                for (i64 c = w.from; c < w.to; c++)
                    sum += Element<T>::up(g[(a * p.output[1] + b) * p.output[2] + c]) / (C)divisor_of(p, a, b, c);
        at<T>(p.y)[i] = Element<T>::down(sum);
    }
}

// Window o of adaptive pooling in dimension d.
DEVICE Windows adaptive(const PoolParams& p, int d, i64 o) {
    return {o * p.input[d] / p.output[d], ((o + 1) * p.input[d] + p.output[d] - 1) / p.output[d]};
}
template <class C>
struct Best {
    C v;
    i64 at;
};
// f(element, place) for the elements of a window that lane t of so many looks at.
template <class T, class F>
DEVICE i64 each_adaptive(const PoolParams& p, const Place& o, i64 t, i64 step, F f) {
    Windows d = adaptive(p, 0, o.d), h = adaptive(p, 1, o.h), w = adaptive(p, 2, o.w);
    i64 rows = h.to - h.from, columns = w.to - w.from, n = (d.to - d.from) * rows * columns;
    const T* x = at<T>(p.x) + o.plane * p.input[0] * p.input[1] * p.input[2];
    if (step == 1) {
        for (i64 a = d.from; a < d.to; a++)
            for (i64 b = h.from; b < h.to; b++)
                for (i64 c = w.from; c < w.to; c++) {
                    i64 k = (a * p.input[1] + b) * p.input[2] + c;
                    f(x[k], k);
                }
        return n;
    }
    bool whole = columns == p.input[2] && (rows == p.input[1] || d.to - d.from == 1);
    i64 first = (d.from * p.input[1] + h.from) * p.input[2] + w.from;
    for (i64 e = t; e < n; e += step) {
        i64 k = first + e;
        if (!whole) {
            u32 row = (u32)e / (u32)columns, c = (u32)e - row * (u32)columns, a = row / (u32)rows;
            k = ((d.from + a) * p.input[1] + h.from + row - a * (u32)rows) * p.input[2] + w.from + c;
        }
        f(x[k], k);
    }
    return n;
}
template <class T>
DEVICE void adaptive_avg_pool(const PoolParams& p) {
    typedef typename Element<T>::C C;
    i64 lane = p.threads == 1 ? 0 : threadIdx.x % WARP, all = all_threads() / p.threads;
    for (i64 i = first_index() / p.threads; i < p.n; i += all) {
        Place o = place_of(p, p.output, i);
        C sum = 0;
        i64 n = each_adaptive<T>(p, o, lane, p.threads, [&](T v, i64) { sum += Element<T>::up(v); });
        if (p.threads > 1) sum = warp_all(sum, [](C x, C y) { return x + y; });
        if (lane == 0) at<T>(p.y)[i] = Element<T>::down(sum / (C)n);
    }
}
template <class T>
DEVICE void adaptive_avg_pool_backward(const PoolParams& p) {
    typedef typename Element<T>::C C;
    auto windows = [&](int d, i64 i) { return Windows{i * p.output[d] / p.input[d], ((i + 1) * p.output[d] + p.input[d] - 1) / p.input[d]}; };
    auto length = [&](int d, i64 o) {
        Windows w = adaptive(p, d, o);
        return w.to - w.from;
    };
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        Place o = place_of(p, p.input, i);
        Windows d = windows(0, o.d), h = windows(1, o.h), w = windows(2, o.w);
        const T* g = at<T>(p.x) + o.plane * p.output[0] * p.output[1] * p.output[2];
        C sum = 0;
        for (i64 a = d.from; a < d.to; a++)
            for (i64 b = h.from; b < h.to; b++) {
                i64 rows = length(0, a) * length(1, b);
                for (i64 c = w.from; c < w.to; c++)
                    sum += Element<T>::up(g[(a * p.output[1] + b) * p.output[2] + c]) / (C)(rows * length(2, c));
            }
        at<T>(p.y)[i] = Element<T>::down(sum);
    }
}
// The larger one, the first of equals, the last NaN.
template <class C>
DEVICE Best<C> better(Best<C> a, Best<C> b) {
    if (b.at < 0) return a;
    if (a.at < 0) return b;
    bool na = a.v != a.v, nb = b.v != b.v;
    if (na && nb) return a.at > b.at ? a : b;
    if (na || nb) return na ? a : b;
    if (a.v == b.v) return a.at < b.at ? a : b;
    return a.v > b.v ? a : b;
}
template <class T>
DEVICE void adaptive_max_pool(const PoolParams& p) {
    typedef typename Element<T>::C C;
    i64 lane = p.threads == 1 ? 0 : threadIdx.x % WARP, all = all_threads() / p.threads;
    for (i64 i = first_index() / p.threads; i < p.n; i += all) {
        Place o = place_of(p, p.output, i);
        Best<C> best{C(0), -1};
        each_adaptive<T>(p, o, lane, p.threads, [&](T e, i64 k) {
            C v = Element<T>::up(e);
            if (best.at < 0 || v > best.v || v != v) best = {v, k};
        });
        if (p.threads > 1)
            for (int m = WARP / 2; m > 0; m /= 2) {
                Best<C> other{__shfl_xor_sync(0xffffffffu, best.v, m), __shfl_xor_sync(0xffffffffu, best.at, m)};
                best = better(best, other);
            }
        if (lane != 0) continue;
        at<T>(p.y)[i] = Element<T>::down(best.v);
        at<i64>(p.index)[i] = best.at;
    }
}
#define POOL(NAME, F, T) \
    KERNEL(NAME, PoolParams) { F<T>(p); }
#define ADAPTIVE_POOL(NAME, F, T) \
    KERNEL_WITH_BARRIERS(NAME, PoolParams) { F<T>(p); }

// Where window o of so many begins: steps from a drawn phase, each rounded to T, the last one at the end.
template <class T>
DEVICE i64 drawn_start(T sample, i64 input, i64 out, i64 kernel, i64 o) {
    typedef typename Element<T>::C C;
    i64 last = input - kernel;
    if (o == out - 1) return last;
    auto round = [](C v) { return Element<T>::up(Element<T>::down(v)); };
    C phase = Element<T>::up(sample), alpha = round(round((C)last) / round((C)(out - 1)));
    i64 k = (i64)round(round(round((C)o) + phase) * alpha) - (i64)round(phase * alpha);
    return k < 0 ? 0 : k > last ? last : k;
}
// index: a sample for each plane and axis, in the order width, height of two, depth, height, width of three.
template <class T>
DEVICE void fractional_max_pool(const PoolParams& p, u64 samples, i64 axes) {
    typedef typename Element<T>::C C;
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        Place o = place_of(p, p.output, i);
        const T* s = at<T>(samples) + o.plane * axes;
        i64 d = axes == 3 ? drawn_start(s[0], p.input[0], p.output[0], p.kernel[0], o.d) : 0;
        i64 h = drawn_start(s[1], p.input[1], p.output[1], p.kernel[1], o.h);
        i64 w = drawn_start(s[axes == 3 ? 2 : 0], p.input[2], p.output[2], p.kernel[2], o.w);
        const T* x = at<T>(p.x) + o.plane * p.input[0] * p.input[1] * p.input[2];
        i64 place = (d * p.input[1] + h) * p.input[2] + w;
        C best = Element<T>::up(x[place]);
        for (i64 a = d; a < d + p.kernel[0]; a++)
            for (i64 b = h; b < h + p.kernel[1]; b++)
                for (i64 c = w; c < w + p.kernel[2]; c++) {
                    i64 k = (a * p.input[1] + b) * p.input[2] + c;
                    C v = Element<T>::up(x[k]);
                    if (v > best || v != v) best = v, place = k;
                }
        at<T>(p.y)[i] = Element<T>::down(best);
        at<i64>(p.index)[i] = place;
    }
}
struct FractionalParams {
    PoolParams pool;
    u64 samples;
    i64 axes;
};
#define FRACTIONAL_POOL(NAME, T) \
    KERNEL(NAME, FractionalParams) { fractional_max_pool<T>(p.pool, p.samples, p.axes); }
