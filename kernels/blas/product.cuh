// Products of matrices by tiles in shared memory, for every dtype, with strides of any kind: batches of (m, k) times (k, n).
#pragma once
#include "../device/matrix.cuh"
#include "../reduction/reduction.cuh"

struct ProductParams {
    u64 a, b, out;
    i64 batches, m, n, k;
    // in elements: batch, row, column
    i64 sa[3], sb[3], so[3];
};
// a b + c, rounded once where that is quicker
template <class S> DEVICE S fused(S a, S b, S c) { return plus(times(a, b), c); }
DEVICE float fused(float a, float b, float c) { return num::fma(a, b, c); }
DEVICE double fused(double a, double b, double c) { return num::fma(a, b, c); }
// A block of EACH x EACH threads finds PER x PER elements a thread of a tile whose sides are EACH * PER long.
template <class In, class S, class Out, int EACH, int PER>
DEVICE void product(const ProductParams& p) {
    constexpr int SIDE = EACH * PER, DEPTH = EACH;
    // one element more a row, so that a column's elements lie in different banks
    __shared__ S left[DEPTH][SIDE + 1];
    __shared__ S right[DEPTH][SIDE + 1];
    typedef typename Element<In>::C C;
    i64 rows = (p.m + SIDE - 1) / SIDE, columns = (p.n + SIDE - 1) / SIDE;
    int t = threadIdx.x, x = t % EACH, y = t / EACH;
    for (i64 tile = blockIdx.x; tile < p.batches * rows * columns; tile += gridDim.x) {
        i64 batch = tile / (rows * columns), row = tile / columns % rows * SIDE, column = tile % columns * SIDE;
        const In* a = at<In>(p.a) + batch * p.sa[0];
        const In* b = at<In>(p.b) + batch * p.sb[0];
        S sum[PER][PER];
        for (int i = 0; i < PER; i++)
            for (int j = 0; j < PER; j++) sum[i][j] = zero_of<S>();
        for (i64 k = 0; k < p.k; k += DEPTH) {
            // neighbouring threads read neighbouring elements, whichever way the matrix lies
            for (int e = t; e < DEPTH * SIDE; e += EACH * EACH) {
                int d = p.sa[2] == 1 ? e % DEPTH : e / SIDE, r = p.sa[2] == 1 ? e / DEPTH : e % SIDE;
                bool in = row + r < p.m && k + d < p.k;
                left[d][r] = in ? Convert<S, C>::of(Element<In>::up(a[(row + r) * p.sa[1] + (k + d) * p.sa[2]])) : zero_of<S>();
                d = p.sb[1] == 1 ? e % DEPTH : e / SIDE, r = p.sb[1] == 1 ? e / DEPTH : e % SIDE;
                in = column + r < p.n && k + d < p.k;
                right[d][r] = in ? Convert<S, C>::of(Element<In>::up(b[(k + d) * p.sb[1] + (column + r) * p.sb[2]])) : zero_of<S>();
            }
            __syncthreads();
            for (int d = 0; d < DEPTH; d++) {
                S u[PER], v[PER];
#pragma unroll
                for (int i = 0; i < PER; i++) u[i] = left[d][y + i * EACH], v[i] = right[d][x + i * EACH];
#pragma unroll
                for (int i = 0; i < PER; i++)
#pragma unroll
                    for (int j = 0; j < PER; j++) sum[i][j] = fused(u[i], v[j], sum[i][j]);
            }
            __syncthreads();
        }
        Out* out = at<Out>(p.out) + batch * p.so[0];
        for (int i = 0; i < PER; i++)
            for (int j = 0; j < PER; j++) {
                i64 r = row + y + i * EACH, c = column + x + j * EACH;
                if (r < p.m && c < p.n) out[r * p.so[1] + c * p.so[2]] = Element<Out>::down(Convert<typename Element<Out>::C, S>::of(sum[i][j]));
            }
    }
}
#define PRODUCT(NAME, IN, S, OUT)                                                                    \
    KERNEL_WITH_BARRIERS(NAME##_small, ProductParams) { product<IN, S, OUT, 8, 1>(p); }              \
    KERNEL_WITH_BARRIERS(NAME##_large, ProductParams) { product<IN, S, OUT, 16, 4>(p); }

// Products of halves by matrix units: a block of eight warps finds a tile of 128 rows and columns, each warp 32 rows and 64 columns of it.
// Either rows or columns of each factor lie side by side, and are staged so.
template <class T, class Out>
struct HalfProduct {
    static constexpr int SIDE = 128, DEPTH = 32, BY_DEPTH = DEPTH + 8, BY_SIDE = SIDE + 8, ROOM = SIDE * BY_DEPTH;
    // 128 lines of 32 elements, `line` and `deep` apart, of which `lines` and `depth` are there
    static DEVICE void stage(T* to, const T* from, i64 line, i64 deep, i64 lines, i64 depth) {
        bool along = deep == 1;
        i64 step = along ? line : deep;
        if (fits_packs((u64)(size_t)from) && step % 8 == 0 && lines >= SIDE && depth >= DEPTH) {
#pragma unroll
            for (int k = 0; k < 2; k++) {
                int i = threadIdx.x + k * 256, r = along ? i / 4 : i / 16, c = along ? i % 4 * 8 : i % 16 * 8;
                copy_16(to + r * (along ? BY_DEPTH : BY_SIDE) + c, from + r * step + c);
            }
            return;
        }
        for (int i = threadIdx.x; i < SIDE * DEPTH; i += 256) {
            int l = along ? i / DEPTH : i % SIDE, d = along ? i % DEPTH : i / SIDE;
            T v = l < lines && d < depth ? from[l * line + d * deep] : T{0};
            to[along ? l * BY_DEPTH + d : d * BY_SIDE + l] = v;
        }
    }
    // four tiles of 8 lines and 8 columns from line `l` and column `d` on; two tiles along the depth follow each other, or two along lines
    template <bool DEPTH_FIRST>
    static DEVICE void tiles(u32* w, const T* room, bool along, int l, int d, int lane) {
        int tile = lane / 8, deeper = (DEPTH_FIRST ? tile % 2 : tile / 2) * 8, further = (DEPTH_FIRST ? tile / 2 : tile % 2) * 8;
        if (along) four_tiles<false>(w, room + (l + further + lane % 8) * BY_DEPTH + d + deeper);
        else four_tiles<true>(w, room + (d + deeper + lane % 8) * BY_SIDE + l + further);
    }
    static DEVICE void run(const ProductParams& p) {
        __shared__ Pack<T, 8> room_packs[4 * ROOM / 8];
        T* room = room_packs[0].v;
        int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, row0 = warp / 2 * 32, column0 = warp % 2 * 64;
        bool a_along = p.sa[2] == 1, b_along = p.sb[1] == 1;
        i64 rows = (p.m + SIDE - 1) / SIDE, columns = (p.n + SIDE - 1) / SIDE;
        for (i64 tile = blockIdx.x; tile < p.batches * rows * columns; tile += gridDim.x) {
            i64 batch = tile / (rows * columns), row = tile / columns % rows * SIDE, column = tile % columns * SIDE;
            const T* a = at<T>(p.a) + batch * p.sa[0] + row * p.sa[1];
            const T* b = at<T>(p.b) + batch * p.sb[0] + column * p.sb[2];
            float sum[2][8][4];
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 8; j++) sum[i][j][0] = sum[i][j][1] = sum[i][j][2] = sum[i][j][3] = 0;
            auto fetch = [&](i64 k, int turn) {
                if (k < p.k) {
                    T* into = room + turn * 2 * ROOM;
                    stage(into, a + k * p.sa[2], p.sa[1], p.sa[2], p.m - row, p.k - k);
                    stage(into + ROOM, b + k * p.sb[1], p.sb[2], p.sb[1], p.n - column, p.k - k);
                }
                copies_end();
            };
            fetch(0, 0);
            int turn = 0;
            for (i64 k = 0; k < p.k; k += DEPTH, turn ^= 1) {
                // the next tile arrives meanwhile
                fetch(k + DEPTH, turn ^ 1);
                copied<1>();
                __syncthreads();
                const T* left = room + turn * 2 * ROOM;
                const T* right = left + ROOM;
#pragma unroll
                for (int d = 0; d < DEPTH; d += 16) {
                    u32 u[2][4];
#pragma unroll
                    for (int i = 0; i < 2; i++) tiles<false>(u[i], left, a_along, row0 + i * 16, d, lane);
#pragma unroll
                    for (int j = 0; j < 8; j += 2) {
                        u32 v[4];
                        tiles<true>(v, right, b_along, column0 + j * 8, d, lane);
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            multiply<T>(sum[i][j], u[i], v[0], v[1]);
                            multiply<T>(sum[i][j + 1], u[i], v[2], v[3]);
                        }
                    }
                }
                // before the next but one takes its place
                __syncthreads();
            }
            Out* out = at<Out>(p.out) + batch * p.so[0];
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        i64 r = row + row0 + i * 16 + lane / 4 + e / 2 * 8, c = column + column0 + j * 8 + lane % 4 * 2 + e % 2;
                        if (r < p.m && c < p.n) out[r * p.so[1] + c * p.so[2]] = Element<Out>::down(sum[i][j][e]);
                    }
        }
    }
};
#define HALF_PRODUCT(NAME, IN, OUT) \
    KERNEL_OF_BLOCKS(NAME, ProductParams, 256, 2) { HalfProduct<IN, OUT>::run(p); }
