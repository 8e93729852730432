// The loop of all formulas: as many operands as the formula reads, each with its strides.
#pragma once
#include "../device/number.cuh"

struct PointwiseParams {
    Geometry g;
    Param numbers[3];
};
// Numbers among the arguments in the type of computation.
template <class C> struct Number;
template <> struct Number<float> { static DEVICE float of(Param p) { return (float)p.re; } };
template <> struct Number<double> { static DEVICE double of(Param p) { return p.re; } };
template <> struct Number<bool> { static DEVICE bool of(Param p) { return p.re != 0 || p.im != 0 || p.integer != 0; } };
template <class T> struct Number<Whole<T>> { static DEVICE Whole<T> of(Param p) { return {(T)p.integer}; } };
template <class V> struct Number<Cx<V>> { static DEVICE Cx<V> of(Param p) { return {(V)p.re, (V)p.im}; } };

// From memory to the type of computation and back.
template <class C, class M> struct Load { static DEVICE C of(M v) { return Convert<C, typename Element<M>::C>::of(Element<M>::up(v)); } };
template <class T, class M> struct Load<Whole<T>, M> { static DEVICE Whole<T> of(M v) { return {(T)v}; } };
template <class M, class C> struct Store { static DEVICE M of(C v) { return Element<M>::down((typename Element<M>::C)v); } };
template <class M, class V> struct Store<pair<M>, Cx<V>> {
    static DEVICE pair<M> of(Cx<V> v) {
        typedef typename Element<M>::C W;
        return Element<pair<M>>::down(Cx<W>{(W)v.re, (W)v.im});
    }
};
template <class M, class T> struct Store<M, Whole<T>> { static DEVICE M of(Whole<T> v) { return (M)v.v; } };

// How many elements a thread takes at once where all lie side by side: formulas of doubles are slower than memory anyway.
template <class C, class In, class Out>
DEVICE constexpr int together() {
    constexpr int most = 16 / (int)(sizeof(In) > sizeof(Out) ? sizeof(In) : sizeof(Out));
    if (sizeof(C) > 4) return 1;
    return most < 1 ? 1 : most;
}
// F: the formula; C: what it computes in; In, Out: elements in memory. The number of operands and of arguments is the formula's.
template <class F, class C, class In, class Out>
struct Formula {
    C n0, n1, n2;
    DEVICE Formula(const Param* numbers) : n0(Number<C>::of(numbers[0])), n1(Number<C>::of(numbers[1])), n2(Number<C>::of(numbers[2])) {}
    DEVICE Out operator()(In a, In b, In c) const {
        C x0{}, x1{}, x2{};
        if constexpr (F::N > 0) x0 = Load<C, In>::of(a);
        if constexpr (F::N > 1) x1 = Load<C, In>::of(b);
        if constexpr (F::N > 2) x2 = Load<C, In>::of(c);
        auto r = F::template f<typename real_of<C>::type>(x0, x1, x2, n0, n1, n2);
        return Store<Out, decltype(r)>::of(r);
    }
};
// Elements of V at once along the innermost dimension, where operands lie side by side or stand still.
template <class F, class C, class In, class Out, int V>
DEVICE void packs(const PointwiseParams& p, const Formula<F, C, In, Out>& one) {
    bool still[3];
    for (int k = 0; k < F::N; k++) still[k] = p.g.strides[k + 1][p.g.dims - 1] == 0;
    for (i64 i = first_index(); i < p.g.n / V; i += all_threads()) {
        u64 a[OPERANDS];
        places<F::N + 1>(p.g, i * V, a);
        Pack<In, V> x[3];
#pragma unroll
        for (int k = 0; k < F::N; k++) {
            if (!still[k]) x[k] = *at<Pack<In, V>>(a[k + 1]);
            else {
                In v = *at<In>(a[k + 1]);
#pragma unroll
                for (int j = 0; j < V; j++) x[k].v[j] = v;
            }
        }
        Pack<Out, V> y;
#pragma unroll
        for (int j = 0; j < V; j++) y.v[j] = one(x[0].v[j], x[1].v[j], x[2].v[j]);
        *at<Pack<Out, V>>(a[0]) = y;
    }
}
template <class F, class C, class In, class Out>
DEVICE void pointwise(const PointwiseParams& p) {
    Formula<F, C, In, Out> one(p.numbers);
    constexpr int V = together<C, In, Out>();
    if constexpr (V > 1)
        if (p.g.mode == PACKED) return packs<F, C, In, Out, V>(p, one);
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<F::N + 1>(p.g, i, a);
        In x[3];
        for (int k = 0; k < F::N; k++) x[k] = *at<In>(a[k + 1]);
        *at<Out>(a[0]) = one(x[0], x[1], x[2]);
    }
}
// Operands that lie side by side in the order of the result, aligned for packs: the commonest case, with few arguments.
struct DenseParams {
    i64 n;
    u64 start[OPERANDS];
    Param numbers[3];
};
template <class F, class C, class In, class Out>
DEVICE void dense(const DenseParams& p) {
    Formula<F, C, In, Out> one(p.numbers);
    constexpr int V = together<C, In, Out>();
    i64 whole = p.n / V;
    for (i64 i = first_index(); i < whole; i += all_threads()) {
        Pack<In, V> x[3];
#pragma unroll
        for (int k = 0; k < F::N; k++) x[k] = at<Pack<In, V>>(p.start[k + 1])[i];
        Pack<Out, V> y;
#pragma unroll
        for (int v = 0; v < V; v++) y.v[v] = one(x[0].v[v], x[1].v[v], x[2].v[v]);
        at<Pack<Out, V>>(p.start[0])[i] = y;
    }
    for (i64 i = whole * V + first_index(); i < p.n; i += all_threads()) {
        In x[3];
        for (int k = 0; k < F::N; k++) x[k] = at<In>(p.start[k + 1])[i];
        at<Out>(p.start[0])[i] = one(x[0], x[1], x[2]);
    }
}
// The same formula over many tensors at once: each lies side by side, aligned for packs; an operand may be a single number.
constexpr int LISTED = 48;
constexpr int LISTED_BLOCK = 4096;
struct ListParams {
    i64 n[LISTED];
    // blocks before each tensor
    i64 blocks[LISTED];
    u64 start[OPERANDS][LISTED];
    i64 items;
    // operands that are a number, by bit
    i64 still;
    Param numbers[3];
};
template <class F, class C, class In, class Out>
DEVICE void listed(const ListParams& p) {
    Formula<F, C, In, Out> one(p.numbers);
    constexpr int V = together<C, In, Out>();
    int item = 0;
    while (item + 1 < p.items && p.blocks[item + 1] <= blockIdx.x) item++;
    i64 first = (i64)(blockIdx.x - p.blocks[item]) * LISTED_BLOCK, last = first + LISTED_BLOCK < p.n[item] ? first + LISTED_BLOCK : p.n[item];
    In number[3];
#pragma unroll
    for (int k = 0; k < F::N; k++)
        if (p.still >> k & 1) number[k] = *at<In>(p.start[k + 1][item]);
    i64 whole = (last - first) / V;
    for (i64 i = threadIdx.x; i < whole; i += blockDim.x) {
        Pack<In, V> x[3];
#pragma unroll
        for (int k = 0; k < F::N; k++) {
            if (!(p.still >> k & 1)) x[k] = at<Pack<In, V>>(p.start[k + 1][item])[first / V + i];
            else {
#pragma unroll
                for (int v = 0; v < V; v++) x[k].v[v] = number[k];
            }
        }
        Pack<Out, V> y;
#pragma unroll
        for (int v = 0; v < V; v++) y.v[v] = one(x[0].v[v], x[1].v[v], x[2].v[v]);
        at<Pack<Out, V>>(p.start[0][item])[first / V + i] = y;
    }
    for (i64 i = first + whole * V + threadIdx.x; i < last; i += blockDim.x) {
        In x[3];
#pragma unroll
        for (int k = 0; k < F::N; k++) x[k] = p.still >> k & 1 ? number[k] : at<In>(p.start[k + 1][item])[i];
        at<Out>(p.start[0][item])[i] = one(x[0], x[1], x[2]);
    }
}
#define POINTWISE(NAME, F, C, IN, OUT) \
    KERNEL(NAME, PointwiseParams) { pointwise<F, C, IN, OUT>(p); }
#define DENSE_POINTWISE(NAME, F, C, IN, OUT) \
    KERNEL(NAME, DenseParams) { dense<F, C, IN, OUT>(p); }
#define LIST_POINTWISE(NAME, F, C, IN, OUT) \
    KERNEL(NAME, ListParams) { listed<F, C, IN, OUT>(p); }
