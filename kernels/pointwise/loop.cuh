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

// F: the formula; C: what it computes in; In, Out: elements in memory. The number of operands and of arguments is the formula's.
template <class F, class C, class In, class Out>
DEVICE void pointwise(const PointwiseParams& p) {
    C n0 = Number<C>::of(p.numbers[0]), n1 = Number<C>::of(p.numbers[1]), n2 = Number<C>::of(p.numbers[2]);
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<F::N + 1>(p.g, i, a);
        C x0{}, x1{}, x2{};
        if constexpr (F::N > 0) x0 = Load<C, In>::of(*at<In>(a[1]));
        if constexpr (F::N > 1) x1 = Load<C, In>::of(*at<In>(a[2]));
        if constexpr (F::N > 2) x2 = Load<C, In>::of(*at<In>(a[3]));
        auto r = F::template f<typename real_of<C>::type>(x0, x1, x2, n0, n1, n2);
        *at<Out>(a[0]) = Store<Out, decltype(r)>::of(r);
    }
}
#define POINTWISE(NAME, F, C, IN, OUT) \
    KERNEL(NAME, PointwiseParams) { pointwise<F, C, IN, OUT>(p); }
