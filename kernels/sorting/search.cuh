// Searches in sorted rows, and counts of what lies where.
#pragma once
#include "../device/atomic.cuh"
#include "key.cuh"

struct SearchParams {
    u64 bounds, sorter, values, out;
    // values, those of a row, elements of a row of bounds; whether all values share one row
    i64 n, width, bounds_width, one_row;
    i64 right, narrow;
    u64 fault, kind;
};
template <class T>
DEVICE void search(const SearchParams& p) {
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        i64 base = p.one_row ? 0 : i / p.width * p.bounds_width;
        T v = at<T>(p.values)[i];
        auto key = Key<T>::of(v);
        i64 low = 0, high = p.bounds_width;
        while (low < high) {
            i64 mid = low + (high - low) / 2, k = mid;
            if (p.sorter) {
                k = at<i64>(p.sorter)[base + mid];
                if (k < 0 || k >= p.bounds_width) {
                    report(p.fault, p.kind, k, 0, p.bounds_width);
                    break;
                }
            }
            T b = at<T>(p.bounds)[base + k];
            bool ordered = !Key<T>::is_nan(b) && !Key<T>::is_nan(v);
            bool before = ordered && (p.right ? Key<T>::of(b) > key : Key<T>::of(b) >= key);
            if (before) high = mid;
            else low = mid + 1;
        }
        if (p.narrow) at<i32>(p.out)[i] = (i32)low;
        else at<i64>(p.out)[i] = low;
    }
}
#define SEARCH(NAME, T) \
    KERNEL(NAME, SearchParams) { search<T>(p); }

struct CountParams {
    u64 in, weights, out;
    i64 n, bins;
    double low, high;
};
constexpr int SHARED_BINS = 4096;
// Numbers of elements between two ends, by bins of one width; the last has both its ends. Few bins are counted by each block
// first.
template <class T>
DEVICE void histogram(const CountParams& p) {
    typedef typename Element<T>::C C;
    __shared__ u32 own[SHARED_BINS];
    bool few = p.bins <= SHARED_BINS;
    if (few)
        for (i64 b = threadIdx.x; b < p.bins; b += blockDim.x) own[b] = 0;
    __syncthreads();
    // each step in the precision of the elements
    auto cut = [](C v) { return Element<T>::up(Element<T>::down(v)); };
    C low = cut((C)p.low), high = cut((C)p.high), bins = cut((C)p.bins);
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        C v = Element<T>::up(at<T>(p.in)[i]);
        bool inside = sizeof(T) == 2 ? v >= low && v <= high : (double)v >= p.low && (double)v <= p.high;
        if (!inside) continue;
        i64 b = Convert<i64, C>::of(cut(cut(cut(v - low) * bins) / cut(high - low)));
        if (b >= p.bins) b = p.bins - 1;
        if (b < 0) b = 0;
        if (few) atomicAdd(&own[b], 1u);
        else atomicAdd(&at<u64>(p.out)[b], (u64)1);
    }
    __syncthreads();
    if (few)
        for (i64 b = threadIdx.x; b < p.bins; b += blockDim.x)
            if (own[b]) atomicAdd(&at<u64>(p.out)[b], (u64)own[b]);
}
#define HISTOGRAM(NAME, T) \
    KERNEL_WITH_BARRIERS(NAME, CountParams) { histogram<T>(p); }

// How often each number is there, or the sums of the weights of each.
template <class W>
DEVICE void count_numbers(const CountParams& p) {
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        i64 b = at<i64>(p.in)[i];
        atomic_plus(&at<W>(p.out)[b], p.weights ? at<W>(p.weights)[i] : (W)1);
    }
}
DEVICE void count_whole(const CountParams& p) {
    __shared__ u32 own[SHARED_BINS];
    bool few = p.bins <= SHARED_BINS;
    if (few)
        for (i64 b = threadIdx.x; b < p.bins; b += blockDim.x) own[b] = 0;
    __syncthreads();
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        i64 b = at<i64>(p.in)[i];
        if (few) atomicAdd(&own[b], 1u);
        else atomicAdd(&at<u64>(p.out)[b], (u64)1);
    }
    __syncthreads();
    if (few)
        for (i64 b = threadIdx.x; b < p.bins; b += blockDim.x)
            if (own[b]) atomicAdd(&at<u64>(p.out)[b], (u64)own[b]);
}
#define COUNT_WEIGHTS(NAME, W) \
    KERNEL(NAME, CountParams) { count_numbers<W>(p); }
#define COUNT_WHOLE(NAME) \
    KERNEL_WITH_BARRIERS(NAME, CountParams) { count_whole(p); }
