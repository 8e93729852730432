// Products of matrices by tiles in shared memory, for every dtype, with strides of any kind: batches of (m, k) times (k, n).
#pragma once
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
