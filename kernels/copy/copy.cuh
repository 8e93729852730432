// Copies between dtypes and geometries, with lazy bits worked out; `where`, which moves whole elements.
#pragma once
#include "../device/block.cuh"
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
    auto one = [&](In x) {
        A v = Element<In>::up(x);
        if (p.conjugate) v = conjugated(v);
        if (p.negate) v = negated(v);
        return Element<Out>::down(Convert<B, A>::of(v));
    };
    if (p.g.mode == DENSE)
        return rewrite(at<In>(p.g.start[1]), at<Out>(p.g.start[0]), p.g.n, (u32)first_index(), (u32)all_threads(), [&](In x, i64) { return one(x); });
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<2>(p.g, i, a);
        *at<Out>(a[0]) = one(*at<In>(a[1]));
    }
}
#define COPY(NAME, IN, OUT) \
    KERNEL(NAME, CopyParams) { copy<IN, OUT>(p); }

// A copy between elements that lie side by side along different dimensions, by way of tiles in shared memory: neighbouring
// threads read neighbours and write neighbours.
struct TurnParams {
    // dimensions but the two, for results (operand 0) and inputs (operand 1)
    Geometry rest;
    // elements along the dimension where results lie side by side, and along the one where inputs do
    i64 m, n;
    // bytes between neighbours: of results along n, of inputs along m
    i64 out, in;
};
template <class T>
DEVICE void turn(const TurnParams& p) {
    constexpr int SIDE = 32, ROWS = 8;
    __shared__ T tile[SIDE][SIDE + 1];
    i64 across = (p.m + SIDE - 1) / SIDE, down = (p.n + SIDE - 1) / SIDE;
    int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    for (i64 t = blockIdx.x; t < p.rest.n * across * down; t += gridDim.x) {
        u64 a[OPERANDS];
        places<2>(p.rest, t / (across * down), a);
        i64 m = t % across * SIDE, n = t / across % down * SIDE;
        for (int r = y; r < SIDE; r += ROWS)
            if (m + r < p.m && n + x < p.n) tile[r][x] = at<T>(a[1] + (m + r) * p.in)[n + x];
        __syncthreads();
        for (int r = y; r < SIDE; r += ROWS)
            if (n + r < p.n && m + x < p.m) at<T>(a[0] + (n + r) * p.out)[m + x] = tile[x][r];
        __syncthreads();
    }
}
#define TURN(NAME, T) \
    KERNEL_WITH_BARRIERS(NAME, TurnParams) { turn<T>(p); }

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
