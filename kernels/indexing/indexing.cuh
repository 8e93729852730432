// Elements at places that indices name: read, written, joined with others. An index that is out of bounds is reported, and its
// element is not touched.
#pragma once
#include "../device/atomic.cuh"

struct IndexParams {
    // the result, or what is written without the dimension's stride; the source (without it); the index
    Geometry g;
    // the dimension: its size, and its stride in bytes; whether negative indices count from the end
    i64 size, stride, dim, wrap;
    u64 fault, kind;
    // the bytes of one element that is written everywhere
    u64 value[2];
    // what elements are multiplied by before they are added
    Param alpha;
    i64 scaled;
};
// The index, or -1 with a report.
template <class P>
DEVICE i64 checked(const P& p, i64 k, i64 size, i64 dim) {
    i64 w = p.wrap && k < 0 ? k + size : k;
    if (w >= 0 && w < size) return w;
    report(p.fault, p.kind, k, dim, size);
    return -1;
}
template <class T, class I>
DEVICE void pick(const IndexParams& p) {
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<3>(p.g, i, a);
        i64 k = checked(p, *at<I>(a[2]), p.size, p.dim);
        if (k >= 0) *at<T>(a[0]) = *at<T>(a[1] + k * p.stride);
    }
}
template <class T, class I>
DEVICE void put(const IndexParams& p) {
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<3>(p.g, i, a);
        i64 k = checked(p, *at<I>(a[2]), p.size, p.dim);
        if (k >= 0) *at<T>(a[0] + k * p.stride) = *at<T>(a[1]);
    }
}
template <class T, class I>
DEVICE void put_value(const IndexParams& p) {
    T v;
    memcpy(&v, p.value, sizeof(T));
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<2>(p.g, i, a);
        i64 k = checked(p, *at<I>(a[1]), p.size, p.dim);
        if (k >= 0) *at<T>(a[0] + k * p.stride) = v;
    }
}
// Whole rows, whose units lie side by side: `threads` neighbouring threads share a row, and have several loads under way.
struct PickRowsParams {
    u64 out, source, index;
    // rows, their units; bytes between rows of the result and between indices; threads of a row
    i64 rows, units, step, index_step, threads;
    i64 size, stride, dim, wrap;
    u64 fault, kind;
};
template <class T, class I>
DEVICE void pick_rows(const PickRowsParams& p) {
    u32 threads = (u32)p.threads, t = threadIdx.x % threads, own = blockDim.x / threads;
    for (i64 r = (i64)blockIdx.x * own + threadIdx.x / threads; r < p.rows; r += (i64)gridDim.x * own) {
        i64 k = checked(p, *at<I>(p.index + r * p.index_step), p.size, p.dim);
        if (k < 0) continue;
        const T* from = at<T>(p.source + k * p.stride);
        T* to = at<T>(p.out + r * p.step);
        i64 i = t;
        constexpr int LOADS = 4;
        for (; i + (LOADS - 1) * threads < p.units; i += LOADS * threads) {
            T v[LOADS];
#pragma unroll
            for (int l = 0; l < LOADS; l++) v[l] = from[i + l * threads];
#pragma unroll
            for (int l = 0; l < LOADS; l++) to[i + l * threads] = v[l];
        }
        for (; i < p.units; i += threads) to[i] = from[i];
    }
}
#define PICK_ROWS(NAME, T, I) \
    KERNEL(NAME, PickRowsParams) { pick_rows<T, I>(p); }
#define PICK(NAME, T, I) \
    KERNEL(NAME, IndexParams) { pick<T, I>(p); }
#define PUT(NAME, T, I) \
    KERNEL(NAME, IndexParams) { put<T, I>(p); }
#define PUT_VALUE(NAME, T, I) \
    KERNEL(NAME, IndexParams) { put_value<T, I>(p); }

// Offsets in bytes of places that up to three indices name together.
struct OffsetParams {
    // the offsets, the indices
    Geometry g;
    i64 indices, sizes[3], strides[3];
    // the number of the first index, and whether offsets are added to those that are there
    i64 first, more;
    i64 wrap;
    u64 fault, kind;
};
DEVICE void offsets(const OffsetParams& p) {
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<4>(p.g, i, a);
        i64 out = p.more ? *at<i64>(a[0]) : 0;
#pragma unroll
        for (int d = 0; d < 3; d++) {
            if (d >= p.indices) continue;
            i64 k = checked(p, *at<i64>(a[d + 1]), p.sizes[d], p.first + d);
            // what is out of bounds goes nowhere, whatever is added to it
            out = k < 0 || out < 0 ? -1 : out + k * p.strides[d];
        }
        *at<i64>(a[0]) = out;
    }
}
#define OFFSETS(NAME) \
    KERNEL(NAME, OffsetParams) { offsets(p); }
