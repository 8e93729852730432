// Products of matrices by tiles in shared memory, for every dtype, with strides of any kind: batches of (m, k) times (k, n).
#pragma once
#include "../reduction/reduction.cuh"

struct ProductParams {
    u64 a, b, out;
    i64 batches, m, n, k;
    // in elements: batch, row, column
    i64 sa[3], sb[3], so[3];
};
constexpr int TILE = 8;
template <class In, class S>
DEVICE void product(const ProductParams& p) {
    __shared__ S left[TILE][TILE];
    __shared__ S right[TILE][TILE];
    typedef typename Element<In>::C C;
    i64 rows = (p.m + TILE - 1) / TILE, columns = (p.n + TILE - 1) / TILE;
    int x = threadIdx.x % TILE, y = threadIdx.x / TILE;
    for (i64 t = blockIdx.x; t < p.batches * rows * columns; t += gridDim.x) {
        i64 batch = t / (rows * columns), row = t / columns % rows * TILE + y, column = t % columns * TILE + x;
        const In* a = at<In>(p.a) + batch * p.sa[0];
        const In* b = at<In>(p.b) + batch * p.sb[0];
        S sum = zero_of<S>();
        for (i64 k = 0; k < p.k; k += TILE) {
            bool in_a = row < p.m && k + x < p.k, in_b = column < p.n && k + y < p.k;
            left[y][x] = in_a ? Convert<S, C>::of(Element<In>::up(a[row * p.sa[1] + (k + x) * p.sa[2]])) : zero_of<S>();
            right[y][x] = in_b ? Convert<S, C>::of(Element<In>::up(b[(k + y) * p.sb[1] + column * p.sb[2]])) : zero_of<S>();
            __syncthreads();
            for (int i = 0; i < TILE; i++) sum = plus(sum, times(left[y][i], right[i][x]));
            __syncthreads();
        }
        if (row < p.m && column < p.n)
            at<In>(p.out)[batch * p.so[0] + row * p.so[1] + column * p.so[2]] = Element<In>::down(Convert<C, S>::of(sum));
    }
}
#define PRODUCT(NAME, IN, S) \
    KERNEL_WITH_BARRIERS(NAME, ProductParams) { product<IN, S>(p); }
