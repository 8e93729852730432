// Order statistics of rows that lie side by side: the digits of the key that is sought are found from the highest on, each by
// counting those of the keys that share the digits before.
#pragma once
#include "sort.cuh"

struct SelectParams {
    u64 in, values, places;
    i64 rows, n;
    // which of the keys, from 1 on; the first `k` of them are written where `many` is set, in order where `sorted` is
    i64 k, many, sorted, descending;
    // 1: the lower median, or the first NaN where there is one; 2: the lower median of what is no NaN
    i64 median;
};
constexpr int MOST_SELECTED = 1024;
template <class T>
DEVICE void select_row(const SelectParams& p) {
    typedef typename Key<T>::type K;
    __shared__ u32 count[DIGITS];
    __shared__ K found_key;
    __shared__ i64 found_rest;
    __shared__ u32 room[WARP];
    __shared__ u32 nans, first_nan;
    __shared__ K keys[MOST_SELECTED];
    __shared__ u32 order[MOST_SELECTED];
    auto add = [](u32 a, u32 b) { return a + b; };
    u32 t = threadIdx.x, lane = t % WARP;
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        const T* in = at<T>(p.in) + row * p.n;
        i64 k = p.k;
        if (p.median) {
            if (t == 0) nans = 0, first_nan = 0xffffffffu;
            __syncthreads();
            for (i64 i = t; i < p.n; i += blockDim.x) {
                if (Key<T>::is_nan(in[i])) {
                    atomicAdd(&nans, 1u);
                    atomicMin(&first_nan, (u32)i);
                }
            }
            __syncthreads();
            if (nans > 0 && (p.median == 1 || nans == p.n)) {
                if (t == 0) at<T>(p.values)[row] = in[first_nan], at<i64>(p.places)[row] = first_nan;
                __syncthreads();
                continue;
            }
            k = (p.n - nans - 1) / 2 + 1;
        }
        if (t == 0) found_key = 0, found_rest = k;
        int top = (Key<T>::bits + 7) / 8 * 8;
        i64 rounds = (p.n + blockDim.x - 1) / blockDim.x;
        for (int shift = top - 8; shift >= 0; shift -= 8) {
            for (u32 d = t; d < DIGITS; d += blockDim.x) count[d] = 0;
            __syncthreads();
            K known = found_key;
            for (i64 r = 0; r < rounds; r++) {
                i64 i = r * blockDim.x + t;
                bool in_play = false;
                u32 d = DIGITS;
                if (i < p.n) {
                    K v = key_of(in[i], p.descending);
                    in_play = shift + 8 >= top || (v >> (shift + 8)) == (known >> (shift + 8));
                    if (in_play) d = digit(v, shift);
                }
                // many share a digit: one of them counts for all
                u32 peers = __match_any_sync(0xffffffffu, d);
                if (in_play && (peers & ((1u << lane) - 1)) == 0) atomicAdd(&count[d], (u32)__popc(peers));
            }
            __syncthreads();
            i64 rest = found_rest;
            for (u32 first = 0; first < DIGITS; first += blockDim.x) {
                u32 d = first + t, own = d < DIGITS ? count[d] : 0, all;
                u32 before = scan_before(own, 0u, add, room, true, all);
                if (rest > before && rest <= (i64)before + own) {
                    found_key = known | ((K)d << shift);
                    found_rest = rest - before;
                }
                rest -= all;
                if (rest <= 0) break;
            }
            __syncthreads();
        }
        K key = found_key;
        u32 rest = (u32)found_rest, taken = 0, equals = 0;
        // those before it, and as many of its equals as are asked for, in the order of their places
        for (i64 r = 0; r < rounds; r++) {
            i64 i = r * blockDim.x + t;
            K v = i < p.n ? key_of(in[i], p.descending) : (K)~(K)0;
            u32 equal = i < p.n && v == key, less = i < p.n && v < key, all;
            u32 rank = equals + scan_before(equal, 0u, add, room, true, all);
            equals += all;
            if (!p.many) {
                if (equal && rank == rest - 1) at<T>(p.values)[row] = in[i], at<i64>(p.places)[row] = i;
                if (equals >= rest) break;
                continue;
            }
            u32 chosen = less || (equal && rank < rest);
            u32 slot = taken + scan_before(chosen, 0u, add, room, true, all);
            taken += all;
            if (chosen) keys[slot] = v, order[slot] = (u32)i;
        }
        __syncthreads();
        if (p.many) {
            if (p.sorted) {
                u32 padded = 2;
                while (padded < p.k) padded *= 2;
                for (u32 i = (u32)p.k + t; i < padded; i += blockDim.x) keys[i] = (K)~(K)0, order[i] = 0xffffffffu;
                bitonic(keys, order, padded, padded);
            }
            for (u32 i = t; i < p.k; i += blockDim.x) {
                at<T>(p.values)[row * p.k + i] = in[order[i]];
                at<i64>(p.places)[row * p.k + i] = order[i];
            }
            __syncthreads();
        }
    }
}
#define SELECT(NAME, T) \
    KERNEL_WITH_BARRIERS(NAME, SelectParams) { select_row<T>(p); }

struct ModeParams {
    // sorted rows with their places
    u64 in, order, values, places;
    i64 rows, n;
};
// The longest run of each sorted row, the first of equally long ones, and the last place in it. A NaN is a run of its own.
template <class T>
DEVICE void mode_row(const ModeParams& p) {
    struct Best {
        i64 length, end;
    };
    __shared__ Best best[WARP];
    __shared__ i64 room[WARP];
    auto larger = [](i64 a, i64 b) { return a > b ? a : b; };
    u32 t = threadIdx.x;
    for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
        const T* in = at<T>(p.in) + row * p.n;
        Best own{0, 0};
        i64 carry = 0;
        for (i64 first = 0; first < p.n; first += blockDim.x) {
            i64 i = first + t;
            bool there = i < p.n;
            auto same = [&](i64 a, i64 b) { return Key<T>::of(in[a]) == Key<T>::of(in[b]) && !Key<T>::is_nan(in[a]); };
            i64 head = there && (i == 0 || !same(i - 1, i)) ? i : 0, all;
            i64 before = larger(carry, scan_before(head, (i64)0, larger, room, true, all));
            bool last = there && (i + 1 == p.n || !same(i, i + 1));
            i64 start = larger(before, head);
            if (last && i - start + 1 > own.length) own = {i - start + 1, i};
            carry = larger(carry, all);
        }
        auto better = [](Best a, Best b) { return b.length > a.length || (b.length == a.length && b.end < a.end) ? b : a; };
        for (u32 by = WARP / 2; by > 0; by /= 2) {
            // threads of a warp from the lower half on
            Best o = lane_of(own, (t % WARP + by) % WARP);
            own = better(own, o);
        }
        __syncthreads();
        if (t % WARP == 0) best[t / WARP] = own;
        __syncthreads();
        if (t == 0) {
            for (u32 w = 1; w < blockDim.x / WARP; w++) own = better(own, best[w]);
            at<T>(p.values)[row] = in[own.end];
            at<i64>(p.places)[row] = at<i64>(p.order)[row * p.n + own.end];
        }
        __syncthreads();
    }
}
#define MODE(NAME, T) \
    KERNEL_WITH_BARRIERS(NAME, ModeParams) { mode_row<T>(p); }
