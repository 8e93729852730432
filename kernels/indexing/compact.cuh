// Elements that a mask chooses, side by side. Blocks count first, and know then where theirs go.
#pragma once
#include "../device/block.cuh"

struct CompactParams {
    // the mask, and what goes with it: the elements that are chosen, or the places that are written
    Geometry g;
    u64 counts, out;
    // sizes for coordinates, as many as dims; rows of the result at most
    i64 dims, sizes[DIMS];
    i64 most;
};
constexpr int EACH = 8;
template <class M>
DEVICE bool holds(u64 place) { return Convert<bool, typename Element<M>::C>::of(Element<M>::up(*at<M>(place))); }
// How many each block has. A thread has EACH neighbours.
template <class M>
DEVICE void compact_count(const CompactParams& p) {
    __shared__ u32 room[WARP];
    auto add = [](u32 a, u32 b) { return a + b; };
    i64 tile = (i64)blockDim.x * EACH, tiles = (p.g.n + tile - 1) / tile;
    for (i64 b = blockIdx.x; b < tiles; b += gridDim.x) {
        u32 own = 0;
        for (int e = 0; e < EACH; e++) {
            // neighbouring threads take neighbouring elements: the order does not matter yet
            i64 i = b * tile + (i64)e * blockDim.x + threadIdx.x;
            if (i >= p.g.n) continue;
            u64 a[OPERANDS];
            places<1>(p.g, i, a);
            own += holds<M>(a[0]);
        }
        own = block_all(own, add, room);
        if (threadIdx.x == 0) at<i64>(p.counts)[b] = own;
        __syncthreads();
    }
}
// f(i, rank) for each that is chosen, in order; `counts` are running sums now.
template <class M, class F>
DEVICE void compact_each(const CompactParams& p, F f) {
    __shared__ u32 room[WARP];
    auto add = [](u32 a, u32 b) { return a + b; };
    i64 tile = (i64)blockDim.x * EACH, tiles = (p.g.n + tile - 1) / tile;
    for (i64 b = blockIdx.x; b < tiles; b += gridDim.x) {
        i64 rank = b ? at<i64>(p.counts)[b - 1] : 0;
        for (int e = 0; e < EACH; e++) {
            i64 i = b * tile + (i64)e * blockDim.x + threadIdx.x;
            u64 a[OPERANDS];
            bool chosen = false;
            if (i < p.g.n) {
                places<2>(p.g, i, a);
                chosen = holds<M>(a[0]);
            }
            u32 all, before = scan_before((u32)chosen, 0u, add, room, true, all);
            if (chosen) f(i, rank + before, a[1]);
            rank += all;
        }
        __syncthreads();
    }
}
template <class M>
DEVICE void nonzero(const CompactParams& p) {
    compact_each<M>(p, [&](i64 i, i64 rank, u64) {
        if (rank >= p.most) return;
        i64* out = at<i64>(p.out) + rank * p.dims;
        for (int d = (int)p.dims - 1; d >= 0; d--) {
            i64 q = i / p.sizes[d];
            out[d] = i - q * p.sizes[d];
            i = q;
        }
    });
}
template <class M, class T>
DEVICE void masked_select(const CompactParams& p) {
    compact_each<M>(p, [&](i64, i64 rank, u64 from) { at<T>(p.out)[rank] = *at<T>(from); });
}
// `out` is the source here.
template <class M, class T>
DEVICE void masked_scatter(const CompactParams& p) {
    compact_each<M>(p, [&](i64, i64 rank, u64 to) {
        if (rank < p.most) *at<T>(to) = at<T>(p.out)[rank];
    });
}
#define COMPACT_COUNT(NAME, M) \
    KERNEL_WITH_BARRIERS(NAME, CompactParams) { compact_count<M>(p); }
#define NONZERO(NAME, M) \
    KERNEL_WITH_BARRIERS(NAME, CompactParams) { nonzero<M>(p); }
#define MASKED_SELECT(NAME, M, T) \
    KERNEL_WITH_BARRIERS(NAME, CompactParams) { masked_select<M, T>(p); }
#define MASKED_SCATTER(NAME, M, T) \
    KERNEL_WITH_BARRIERS(NAME, CompactParams) { masked_scatter<M, T>(p); }
