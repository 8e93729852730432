// Stable sorts of rows that lie side by side. Short rows are sorted by a block in its shared memory (bitonic, of keys with
// their places, so that no two are equal); long ones by their digits, the lowest first.
#pragma once
#include "key.cuh"

struct SortParams {
    u64 in, values, places;
    // rows, their elements, and how many of each are written
    i64 rows, n, m;
    i64 descending;
    // short rows: elements of a row with padding, a power of two, and rows of a block
    i64 padded, together;
    // long rows: keys and places, and where those of the next pass go; numbers of keys by row, digit and tile, summed up
    u64 keys, order, next_keys, next_order, counts;
    i64 tiles, shift;
};
constexpr int SHORT_ROW = 2048;
// Sorts `all` keys and places in shared memory by rows of `padded`.
template <class K>
DEVICE void bitonic(K* key, u32* place, u32 all, u32 padded) {
    for (u32 k = 2; k <= padded; k *= 2) {
        for (u32 j = k / 2; j > 0; j /= 2) {
            __syncthreads();
            for (u32 t = threadIdx.x; t < all / 2; t += blockDim.x) {
                u32 i = 2 * t - (t & (j - 1)), l = i + j;
                bool up = ((i & (padded - 1)) & k) == 0;
                K a = key[i], b = key[l];
                u32 x = place[i], y = place[l];
                bool larger = a > b || (a == b && x > y);
                if (larger == up) key[i] = b, key[l] = a, place[i] = y, place[l] = x;
            }
        }
    }
    __syncthreads();
}
template <class T>
DEVICE void sort_short(const SortParams& p) {
    typedef typename Key<T>::type K;
    __shared__ K key[SHORT_ROW];
    __shared__ u32 place[SHORT_ROW];
    u32 padded = (u32)p.padded, all = padded * (u32)p.together;
    i64 groups = (p.rows + p.together - 1) / p.together;
    for (i64 g = blockIdx.x; g < groups; g += gridDim.x) {
        for (u32 i = threadIdx.x; i < all; i += blockDim.x) {
            i64 row = g * p.together + i / padded, k = i & (padded - 1);
            bool there = row < p.rows && k < p.n;
            key[i] = there ? key_of(at<T>(p.in)[row * p.n + k], p.descending) : (K)~(K)0;
            place[i] = there ? (u32)k : 0xffffffffu;
        }
        bitonic(key, place, all, padded);
        for (u32 i = threadIdx.x; i < all; i += blockDim.x) {
            i64 row = g * p.together + i / padded, k = i & (padded - 1);
            if (row >= p.rows || k >= p.m) continue;
            at<T>(p.values)[row * p.m + k] = at<T>(p.in)[row * p.n + place[i]];
            at<i64>(p.places)[row * p.m + k] = place[i];
        }
        __syncthreads();
    }
}
template <class T>
DEVICE void sort_keys(const SortParams& p) {
    typedef typename Key<T>::type K;
    for (i64 i = first_index(); i < p.rows * p.n; i += all_threads()) {
        at<K>(p.keys)[i] = key_of(at<T>(p.in)[i], p.descending);
        at<u32>(p.order)[i] = (u32)(i % p.n);
    }
}
constexpr int DIGITS = 256;
template <class K>
DEVICE constexpr int tile_items() { return sizeof(K) == 4 ? 16 : 8; }
template <class K>
DEVICE u32 digit(K k, i64 shift) { return (u32)(k >> shift) & (DIGITS - 1); }
// How many keys of each tile have each digit. Blocks have DIGITS threads.
template <class K>
DEVICE void sort_count(const SortParams& p) {
    constexpr int TILE = DIGITS * tile_items<K>();
    __shared__ u32 count[DIGITS];
    for (i64 b = blockIdx.x; b < p.rows * p.tiles; b += gridDim.x) {
        i64 row = b / p.tiles, tile = b % p.tiles;
        count[threadIdx.x] = 0;
        __syncthreads();
        i64 end = (tile + 1) * TILE < p.n ? (tile + 1) * TILE : p.n;
        for (i64 i = tile * TILE + threadIdx.x; i < end; i += DIGITS) atomicAdd(&count[digit(at<K>(p.keys)[row * p.n + i], p.shift)], 1u);
        __syncthreads();
        at<i64>(p.counts)[(row * DIGITS + threadIdx.x) * p.tiles + tile] = count[threadIdx.x];
        __syncthreads();
    }
}
// Moves the keys of each tile to their places by digit: `counts` are running sums now.
template <class K>
DEVICE void sort_scatter(const SortParams& p) {
    constexpr int ITEMS = tile_items<K>(), TILE = DIGITS * ITEMS, WARPS = DIGITS / WARP;
    __shared__ K keys[TILE];
    __shared__ u32 order[TILE];
    __shared__ u32 count[WARPS][DIGITS];
    __shared__ u32 start[DIGITS];
    __shared__ i64 base[DIGITS];
    __shared__ u32 room[WARP];
    u32 t = threadIdx.x, w = t / WARP, lane = t % WARP;
    for (i64 b = blockIdx.x; b < p.rows * p.tiles; b += gridDim.x) {
        i64 row = b / p.tiles, tile = b % p.tiles;
        i64 first = tile * TILE, there = p.n - first < TILE ? p.n - first : TILE;
        for (int v = 0; v < WARPS; v++) count[v][t] = 0;
        __syncthreads();
        K key[ITEMS];
        u32 from[ITEMS], rank[ITEMS];
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            u32 at_tile = w * WARP * ITEMS + i * WARP + lane;
            bool some = at_tile < there;
            // what is missing comes last of all
            key[i] = some ? at<K>(p.keys)[row * p.n + first + at_tile] : (K)~(K)0;
            from[i] = some ? at<u32>(p.order)[row * p.n + first + at_tile] : 0;
            u32 d = digit(key[i], p.shift);
            u32 peers = __match_any_sync(0xffffffffu, d), lower = peers & ((1u << lane) - 1);
            u32 before = count[w][d];
            __syncwarp();
            if (lower == 0) count[w][d] = before + __popc(peers);
            __syncwarp();
            rank[i] = before + __popc(lower);
        }
        __syncthreads();
        u32 own = 0;
        for (int v = 0; v < WARPS; v++) {
            u32 c = count[v][t];
            count[v][t] = own;
            own += c;
        }
        u32 all;
        u32 earlier = scan_before(own, 0u, [](u32 a, u32 b) { return a + b; }, room, true, all);
        start[t] = earlier;
        i64 cell = t * p.tiles + tile;
        base[t] = (cell ? at<i64>(p.counts)[row * DIGITS * p.tiles + cell - 1] : 0) - earlier;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            u32 d = digit(key[i], p.shift), to = start[d] + count[w][d] + rank[i];
            keys[to] = key[i];
            order[to] = from[i];
        }
        __syncthreads();
        for (u32 i = t; i < there; i += DIGITS) {
            K k = keys[i];
            i64 to = row * p.n + base[digit(k, p.shift)] + i;
            at<K>(p.next_keys)[to] = k;
            at<u32>(p.next_order)[to] = order[i];
        }
        __syncthreads();
    }
}
// The first `m` values and places of each row, by their order.
template <class T>
DEVICE void sort_take(const SortParams& p) {
    for (i64 i = first_index(); i < p.rows * p.m; i += all_threads()) {
        i64 row = i / p.m, k = i - row * p.m;
        u32 from = at<u32>(p.order)[row * p.n + k];
        if (p.values) at<T>(p.values)[i] = at<T>(p.in)[row * p.n + from];
        if (p.places) at<i64>(p.places)[i] = from;
    }
}
#define SORT_SHORT(NAME, T) \
    KERNEL_WITH_BARRIERS(NAME, SortParams) { sort_short<T>(p); }
#define SORT_LONG(NAME, T)                                                                        \
    KERNEL(NAME##_keys, SortParams) { sort_keys<T>(p); }                                          \
    KERNEL_WITH_BARRIERS(NAME##_count, SortParams) { sort_count<typename Key<T>::type>(p); }      \
    KERNEL_WITH_BARRIERS(NAME##_scatter, SortParams) { sort_scatter<typename Key<T>::type>(p); }  \
    KERNEL(NAME##_take, SortParams) { sort_take<T>(p); }
