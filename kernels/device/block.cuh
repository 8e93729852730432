// What the threads of a block find together, and walks along dense rows.
#pragma once
#include "number.cuh"

// A quotient as a product and a shift, for dividends below 2^31.
struct Quotient {
    u32 by, factor, shift;
    DEVICE Quotient(i64 n, u64 packed) : by((u32)n), factor((u32)packed), shift((u32)(packed >> 32)) {}
    DEVICE u32 of(u32 i) const { return (u32)(((u64)high_half(i, factor) + i) >> shift); }
};
constexpr int WARP = 32;
// `join` over the threads of a warp; every thread gets the result. Warps are whole.
template <class S, class J>
DEVICE S warp_all(S v, J join) {
    for (int m = WARP / 2; m > 0; m /= 2) v = join(v, __shfl_xor_sync(0xffffffffu, v, m));
    return v;
}
// `join` over the threads of a block, whose number is a multiple of a warp's; `room` is shared and holds 32 states.
template <class S, class J>
DEVICE S block_all(S v, J join, S* room) {
    v = warp_all(v, join);
    u32 warps = blockDim.x / WARP;
    if (warps == 1) return v;
    __syncthreads();
    if (threadIdx.x % WARP == 0) room[threadIdx.x / WARP] = v;
    __syncthreads();
    if (warps & (warps - 1)) {
        S all = room[0];
        for (u32 w = 1; w < warps; w++) all = join(all, room[w]);
        return all;
    }
    // every warp joins all of them, lanes in groups of as many as there are warps
    v = room[threadIdx.x % warps];
    for (u32 m = warps / 2; m > 0; m /= 2) v = join(v, __shfl_xor_sync(0xffffffffu, v, m));
    return v;
}
// The larger one, or a NaN if one of them is none; of zeros any.
template <class V>
DEVICE V larger_of(V a, V b) { return num::maximum(a, b); }
#if !defined(FLAMBEAU_EMULATED) && __CUDA_ARCH__ >= 800
template <>
DEVICE float larger_of(float a, float b) {
    float v;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
    return v;
}
#endif
// exp(x) for results that are rounded to `T`: what halves do not show is not computed.
template <class T, class V>
DEVICE V exp_for(V x) {
#ifndef FLAMBEAU_EMULATED
    if constexpr (sizeof(T) == 2) {
        float v;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(x * 1.4426950408889634f));
        return v;
    }
#endif
    return num::exp(x);
}
// f(element, place) for the elements of a dense row that thread `t` of `step` looks at, in packs where they are aligned.
template <class In, class F>
DEVICE void walk(const In* a, i64 n, u32 t, u32 step, F f) {
    constexpr int V = pack_of<In>();
    i64 packs = 0;
    if constexpr (V > 1) {
        if (fits_packs((u64)(size_t)a)) packs = n / V;
        // several loads are under way at once
#pragma unroll 4
        for (i64 i = t; i < packs; i += step) {
            Pack<In, V> x = reinterpret_cast<const Pack<In, V>*>(a)[i];
#pragma unroll
            for (int v = 0; v < V; v++) f(x.v[v], i * V + v);
        }
    }
    for (i64 i = packs * V + t; i < n; i += step) f(a[i], i);
}
// out[i] = f(a[i], i) along two dense rows, in packs where both are aligned.
template <class In, class Out, class F>
DEVICE void rewrite(const In* a, Out* out, i64 n, u32 t, u32 step, F f) {
    // 16 bytes of the smaller elements, so several loads of the larger ones are under way at once
    constexpr int V = sizeof(In) > sizeof(Out) ? pack_of<Out>() : pack_of<In>();
    i64 packs = 0;
    if constexpr (V > 1) {
        if (fits_packs((u64)(size_t)a) && fits_packs((u64)(size_t)out)) packs = n / V;
        for (i64 i = t; i < packs; i += step) {
            Pack<In, V> x = reinterpret_cast<const Pack<In, V>*>(a)[i];
            Pack<Out, V> y;
#pragma unroll
            for (int v = 0; v < V; v++) y.v[v] = f(x.v[v], i * V + v);
            reinterpret_cast<Pack<Out, V>*>(out)[i] = y;
        }
    }
    for (i64 i = packs * V + t; i < n; i += step) out[i] = f(a[i], i);
}
// This thread's part of a dense row of `n` elements that `step` threads share: in registers, where HELD is the most packs that a
// thread has (the row is a whole number of packs, and they are aligned), or in memory, where HELD is 0.
template <class In, int HELD>
struct Part {
    static constexpr int V = pack_of<In>();
    Pack<In, V> own[HELD ? HELD : 1];
    const In* row;
    i64 n;
    u32 t, step, count;
    DEVICE Part(const In* row, i64 n, u32 t, u32 step) : row(row), n(n), t(t), step(step), count((u32)n / V) {
        if constexpr (HELD) {
            // all loads before the first use
#pragma unroll
            for (int k = 0; k < HELD; k++)
                if (t + k * step < count) own[k] = reinterpret_cast<const Pack<In, V>*>(row)[t + k * step];
        }
    }
    // f(element, place)
    template <class F>
    DEVICE void each(F f) const {
        if constexpr (HELD) {
#pragma unroll
            for (int k = 0; k < HELD; k++) {
                u32 i = t + k * step;
                if (i >= count) continue;
#pragma unroll
                for (int v = 0; v < V; v++) f(own[k].v[v], (i64)(i * V + v));
            }
        } else {
            walk(row, n, t, step, f);
        }
    }
    // out[place] = f(element, place)
    template <class Out, class F>
    DEVICE void into(Out* out, F f) const {
        if constexpr (HELD) {
#pragma unroll
            for (int k = 0; k < HELD; k++) {
                u32 i = t + k * step;
                if (i >= count) continue;
                Pack<Out, V> y;
#pragma unroll
                for (int v = 0; v < V; v++) y.v[v] = f(own[k].v[v], (i64)(i * V + v));
                reinterpret_cast<Pack<Out, V>*>(out)[i] = y;
            }
        } else {
            rewrite(row, out, n, t, step, f);
        }
    }
    // f(k, place of a pack) for the packs that are held
    template <class F>
    DEVICE void packs(F f) const {
#pragma unroll
        for (int k = 0; k < HELD; k++)
            if (t + k * step < count) f(k, t + k * step);
    }
};
// The value of the lane `by` places before, and of the lane of a number; any struct. Warps are whole.
template <class T>
DEVICE T lane_up(T v, u32 by) {
    constexpr int N = (sizeof(T) + 3) / 4;
    u32 w[N] = {};
    memcpy(w, &v, sizeof(T));
#pragma unroll
    for (int i = 0; i < N; i++) w[i] = __shfl_up_sync(0xffffffffu, w[i], by);
    memcpy(&v, w, sizeof(T));
    return v;
}
template <class T>
DEVICE T lane_of(T v, u32 lane) {
    constexpr int N = (sizeof(T) + 3) / 4;
    u32 w[N] = {};
    memcpy(w, &v, sizeof(T));
#pragma unroll
    for (int i = 0; i < N; i++) w[i] = __shfl_sync(0xffffffffu, w[i], lane);
    memcpy(&v, w, sizeof(T));
    return v;
}
// `join` over the threads before this one, in their order, from `start` on; `all` gets that of all threads. `whole`: over the
// block's threads, a multiple of a warp's, and `room` is shared and holds 32 states; else over each warp's.
template <class S, class J>
DEVICE S scan_before(S v, S start, J join, S* room, bool whole, S& all) {
    u32 lane = threadIdx.x % WARP;
#pragma unroll
    for (u32 by = 1; by < WARP; by *= 2) {
        S o = lane_up(v, by);
        if (lane >= by) v = join(o, v);
    }
    S before = lane_up(v, 1);
    if (lane == 0) before = start;
    if (!whole) {
        all = lane_of(v, WARP - 1);
        return before;
    }
    u32 warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    __syncthreads();
    if (lane == WARP - 1) room[warp] = v;
    __syncthreads();
    S earlier = start;
    all = start;
    for (u32 w = 0; w < warps; w++) {
        if (w == warp) earlier = all;
        all = join(all, room[w]);
    }
    return join(earlier, before);
}
