// Reductions: a thread for each result where there are many, a block for each where there are few. Sums of floats are kept in the type
// of computation, of doubles and integers in themselves.
#pragma once
#include "../device/number.cuh"

// Operand 0 is the result with stride 0 along what is reduced; sizes are the kept dimensions, then `length` elements that lie
// `inner` dimensions deep.
struct ReduceParams {
    // where results lie (operand 0) and where the first element of each lies (operand 1)
    Geometry kept;
    // where the elements of one result lie (operand 1)
    Geometry along;
    Param numbers[1];
};
template <class S> DEVICE S zero_of();
template <> DEVICE float zero_of() { return 0; }
template <> DEVICE double zero_of() { return 0; }
template <> DEVICE i64 zero_of() { return 0; }
template <> DEVICE Cx<float> zero_of() { return {0, 0}; }
template <> DEVICE Cx<double> zero_of() { return {0, 0}; }
DEVICE float plus(float a, float b) { return a + b; }
DEVICE double plus(double a, double b) { return a + b; }
DEVICE i64 plus(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
template <class V> DEVICE Cx<V> plus(Cx<V> a, Cx<V> b) { return a + b; }
DEVICE float times(float a, float b) { return a * b; }
DEVICE double times(double a, double b) { return a * b; }
DEVICE i64 times(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
template <class V> DEVICE Cx<V> times(Cx<V> a, Cx<V> b) { return a * b; }

struct Sum {
    template <class S> static DEVICE S start() { return zero_of<S>(); }
    template <class S> static DEVICE S join(S a, S b) { return plus(a, b); }
};
struct Prod {
    template <class S> static DEVICE S start() { return Convert<S, i64>::of(1); }
    template <class S> static DEVICE S join(S a, S b) { return times(a, b); }
};
template <class R, class In, class S, class Out>
DEVICE void reduce(const ReduceParams& p) {
    __shared__ S part[128];
    typedef typename Element<In>::C C;
    i64 n = p.along.n;
    for (i64 o = blockIdx.x; o < p.kept.n; o += gridDim.x) {
        u64 a[OPERANDS], b[OPERANDS];
        places<2>(p.kept, o, a);
        S sum = R::template start<S>();
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
            places<2>(p.along, i, b);
            sum = R::join(sum, Convert<S, C>::of(Element<In>::up(*at<In>(a[1] + b[1]))));
        }
        part[threadIdx.x] = sum;
        __syncthreads();
        for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
            if (threadIdx.x < half) part[threadIdx.x] = R::join(part[threadIdx.x], part[threadIdx.x + half]);
            __syncthreads();
        }
        if (threadIdx.x == 0) *at<Out>(a[0]) = Element<Out>::down(Convert<typename Element<Out>::C, S>::of(part[0]));
        __syncthreads();
    }
}
#define REDUCE(NAME, R, IN, S, OUT) \
    KERNEL_WITH_BARRIERS(NAME, ReduceParams) { reduce<R, IN, S, OUT>(p); }
