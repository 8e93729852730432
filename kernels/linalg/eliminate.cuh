// Elimination with row pivots, a block for each matrix: inverses (Gauss and Jordan), and determinants by sign and logarithm.
#pragma once
#include "../device/block.cuh"

struct EliminateParams {
    // matrices row by row, which are overwritten; identities that become inverses; the first zero pivot, from 1 on
    u64 matrix, inverse, info;
    // of determinants
    u64 sign, log;
    i64 batch, n;
};
DEVICE float size_for_pivot(float v) { return num::abs(v); }
DEVICE double size_for_pivot(double v) { return num::abs(v); }
template <class V> DEVICE V size_for_pivot(Cx<V> v) { return num::abs(v.re) + num::abs(v.im); }
template <class C> DEVICE C unit_of(C v) { return v < 0 ? C(-1) : v > 0 ? C(1) : v; }
template <class V> DEVICE Cx<V> unit_of(Cx<V> v) {
    V a = num::abs(v);
    return a == V(0) ? v : Cx<V>{v.re / a, v.im / a};
}
template <class V>
struct PivotOf {
    V size;
    i64 row;
};
// The row of the largest element of a column from row `k` on.
template <class T, class V>
DEVICE i64 pivot_row(const T* a, i64 n, i64 k, PivotOf<V>* room) {
    PivotOf<V> best{V(-1), k};
    for (i64 i = k + threadIdx.x; i < n; i += blockDim.x) {
        V s = size_for_pivot(Element<T>::up(a[i * n + k]));
        if (s > best.size || s != s) best = {s, i};
    }
    auto better = [](PivotOf<V> x, PivotOf<V> y) { return y.size > x.size || (y.size == x.size && y.row < x.row) || y.size != y.size ? y : x; };
    for (u32 by = WARP / 2; by > 0; by /= 2) best = better(best, lane_of(best, (threadIdx.x % WARP + by) % WARP));
    __syncthreads();
    if (threadIdx.x % WARP == 0) room[threadIdx.x / WARP] = best;
    __syncthreads();
    best = room[0];
    for (u32 w = 1; w < blockDim.x / WARP; w++) best = better(best, room[w]);
    return best.row;
}
template <class T>
DEVICE void swap_rows(T* a, i64 n, i64 x, i64 y) {
    if (x == y) return;
    for (i64 j = threadIdx.x; j < n; j += blockDim.x) {
        T v = a[x * n + j];
        a[x * n + j] = a[y * n + j];
        a[y * n + j] = v;
    }
}
template <class T>
DEVICE void invert(const EliminateParams& p) {
    typedef typename Element<T>::C C;
    typedef typename real_of<C>::type V;
    __shared__ PivotOf<V> room[WARP];
    i64 n = p.n;
    for (i64 m = blockIdx.x; m < p.batch; m += gridDim.x) {
        T* a = at<T>(p.matrix) + m * n * n;
        T* b = at<T>(p.inverse) + m * n * n;
        i32 info = 0;
        for (i64 k = 0; k < n; k++) {
            i64 row = pivot_row(a, n, k, room);
            C pivot = Element<T>::up(a[row * n + k]);
            if (pivot == C{}) {
                info = (i32)(k + 1);
                break;
            }
            __syncthreads();
            swap_rows(a, n, k, row);
            swap_rows(b, n, k, row);
            __syncthreads();
            // the other rows lose their part of the pivot's; its own column is left as it is
            for (i64 t = threadIdx.x; t < n * 2 * n; t += blockDim.x) {
                i64 i = t / (2 * n), j = t % (2 * n);
                if (i == k || j <= k) continue;
                C f = Element<T>::up(a[i * n + k]) / pivot;
                T* to = j < n ? &a[i * n + j] : &b[i * n + j - n];
                C from = Element<T>::up(j < n ? a[k * n + j] : b[k * n + j - n]);
                *to = Element<T>::down(Element<T>::up(*to) - f * from);
            }
            __syncthreads();
        }
        if (info == 0)
            for (i64 t = threadIdx.x; t < n * n; t += blockDim.x) {
                i64 i = t / n;
                b[t] = Element<T>::down(Element<T>::up(b[t]) / Element<T>::up(a[i * n + i]));
            }
        if (threadIdx.x == 0) at<i32>(p.info)[m] = info;
        __syncthreads();
    }
}
template <class T, class R>
DEVICE void determinant(const EliminateParams& p) {
    typedef typename Element<T>::C C;
    typedef typename real_of<C>::type V;
    __shared__ PivotOf<V> room[WARP];
    i64 n = p.n;
    for (i64 m = blockIdx.x; m < p.batch; m += gridDim.x) {
        T* a = at<T>(p.matrix) + m * n * n;
        C sign = Convert<C, i64>::of(1);
        V log = 0;
        for (i64 k = 0; k < n; k++) {
            i64 row = pivot_row(a, n, k, room);
            C pivot = Element<T>::up(a[row * n + k]);
            if (row != k) sign = C{} - sign;
            sign = sign * unit_of(pivot);
            log += num::ln(num::abs(pivot));
            if (pivot == C{}) break;
            __syncthreads();
            swap_rows(a, n, k, row);
            __syncthreads();
            i64 rest = n - k - 1;
            for (i64 t = threadIdx.x; t < rest * rest; t += blockDim.x) {
                i64 i = k + 1 + t / rest, j = k + 1 + t % rest;
                C f = Element<T>::up(a[i * n + k]) / pivot;
                a[i * n + j] = Element<T>::down(Element<T>::up(a[i * n + j]) - f * Element<T>::up(a[k * n + j]));
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            at<T>(p.sign)[m] = Element<T>::down(sign);
            at<R>(p.log)[m] = log;
        }
        __syncthreads();
    }
}
#define INVERT(NAME, T) \
    KERNEL_WITH_BARRIERS(NAME, EliminateParams) { invert<T>(p); }
#define DETERMINANT(NAME, T, R) \
    KERNEL_WITH_BARRIERS(NAME, EliminateParams) { determinant<T, R>(p); }
