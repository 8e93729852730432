// Elements that are joined with those at places that indices name.
#pragma once
#include "indexing.cuh"

// What an element and one that is joined to it give.
template <class T>
struct Times {
    typedef typename Element<T>::C C;
    static DEVICE bool of(bool a, bool b) { return a && b; }
    template <class V> static DEVICE V of(V a, V b) { return (V)(a * b); }
    static DEVICE i64 of(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
    static DEVICE i32 of(i32 a, i32 b) { return (i32)((u32)a * (u32)b); }
    static DEVICE void apply(T* to, C v) {
        atomic_change(to, [=](T o) { return Element<T>::down(of(Element<T>::up(o), v)); });
    }
};
template <class T>
struct Most {
    static DEVICE void apply(T* to, typename Element<T>::C v) {
        atomic_change(to, [=](T o) {
            auto a = Element<T>::up(o);
            return a != a || !(v > a || v != v) ? o : Element<T>::down(v);
        });
    }
};
template <class T>
struct Least {
    static DEVICE void apply(T* to, typename Element<T>::C v) {
        atomic_change(to, [=](T o) {
            auto a = Element<T>::up(o);
            return a != a || !(v < a || v != v) ? o : Element<T>::down(v);
        });
    }
};
template <class T>
struct Plus {
    static DEVICE void apply(T* to, typename Element<T>::C v) { atomic_plus(to, v); }
};
template <class C> DEVICE C scaled_by(C v, Param a) { return (C)(v * (C)a.integer); }
template <> DEVICE float scaled_by(float v, Param a) { return v * (float)a.re; }
template <> DEVICE double scaled_by(double v, Param a) { return v * a.re; }
template <> DEVICE bool scaled_by(bool v, Param a) { return v && (a.integer != 0 || a.re != 0); }
template <> DEVICE i64 scaled_by(i64 v, Param a) { return (i64)((u64)v * (u64)a.integer); }
template <> DEVICE i32 scaled_by(i32 v, Param a) { return (i32)((u32)v * (u32)a.integer); }
template <class V> DEVICE Cx<V> scaled_by(Cx<V> v, Param a) { return v * Cx<V>{(V)a.re, (V)a.im}; }

template <class T, class I, class OP>
DEVICE void combine(const IndexParams& p) {
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<3>(p.g, i, a);
        i64 k = checked(p, *at<I>(a[2]), p.size, p.dim);
        if (k < 0) continue;
        auto v = Element<T>::up(*at<T>(a[1]));
        if (p.scaled) v = scaled_by(v, p.alpha);
        OP::apply(at<T>(a[0] + k * p.stride), v);
    }
}
#define COMBINE(NAME, T, I, OP) \
    KERNEL(NAME, IndexParams) { combine<T, I, OP<T>>(p); }

// Sums in the order of the source: rows sorted by where they go, and one thread for each element of a run of equal ones.
struct KeyParams {
    // offsets, index
    Geometry g;
    i64 size, stride, dim, wrap;
    u64 fault, kind;
};
template <class I>
DEVICE void keys(const KeyParams& p) {
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<2>(p.g, i, a);
        i64 k = checked(p, *at<I>(a[1]), p.size, p.dim);
        *at<i64>(a[0]) = k < 0 ? -1 : k;
    }
}
#define INDEX_KEYS(NAME, I) \
    KERNEL(NAME, KeyParams) { keys<I>(p); }

struct RunParams {
    // by row: where it goes to without the index's part (0), where it comes from (1)
    Geometry rows;
    // by element of a row: the same
    Geometry inner;
    // numbers of places, sorted, and the rows they are of
    u64 keys, order;
    i64 stride;
    Param alpha;
    i64 scaled;
    // sums of pieces of runs, and 1: they are found; 2: they are added up; 0: whole runs
    u64 pieces;
    i64 step;
};
constexpr i64 PIECE = 64;
template <class T>
DEVICE void add_runs(const RunParams& p) {
    typedef typename Element<T>::C C;
    const i64* keys = at<i64>(p.keys);
    i64 rows = p.rows.n, width = p.inner.n;
    for (i64 t = first_index(); t < rows * width; t += all_threads()) {
        i64 i = t / width, e = t - i * width, key = keys[i];
        bool head = i == 0 || keys[i - 1] != key;
        if (key < 0 || !(head || (p.step == 1 && i % PIECE == 0))) continue;
        u64 within[OPERANDS], a[OPERANDS];
        places<2>(p.inner, e, within);
        T* to = at<T>(within[0] + key * p.stride);
        C* pieces = at<C>(p.pieces);
        C sum = p.step == 1 ? C() : Element<T>::up(*to);
        if (p.step == 2) {
            sum = joined(sum, pieces[t]);
            for (i64 k = i / PIECE * PIECE + PIECE; k < rows && keys[k] == key; k += PIECE) sum = joined(sum, pieces[k * width + e]);
        } else {
            i64 end = p.step == 1 ? i / PIECE * PIECE + PIECE : rows;
            for (i64 k = i; k < end && k < rows && keys[k] == key; k++) {
                places<2>(p.rows, at<i64>(p.order)[k], a);
                C v = Element<T>::up(*at<T>(a[1] + within[1]));
                if (p.scaled) v = scaled_by(v, p.alpha);
                sum = joined(sum, v);
            }
        }
        if (p.step == 1) pieces[t] = sum;
        else *to = Element<T>::down(sum);
    }
}
#define ADD_RUNS(NAME, T) \
    KERNEL(NAME, RunParams) { add_runs<T>(p); }
