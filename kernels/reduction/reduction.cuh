// Reductions: a block finds several results, or a part of them where there are few. Halves are summed in float, floats and
// integers in themselves.
#pragma once
#include "../device/block.cuh"

struct ReduceParams {
    // where results lie (operand 0) and where the first element of each lies (operand 1)
    Geometry kept;
    // where the elements of one result lie (operand 1)
    Geometry along;
    // threads that work on one result, results of a block, and whether neighbouring threads take neighbouring results
    i64 threads, results, turned;
    // blocks that share a result, and where they leave their states for the second kernel: all results' of a part side by side
    i64 parts;
    u64 states;
    Param numbers[2];
};
// Bytes of the largest state: what the host makes room for.
constexpr int STATE = 32;
// Blocks that a multiprocessor has at once: the host shares results among as many.
constexpr int RESIDENT = 4;
// Large states take more registers.
template <class R>
DEVICE constexpr int resident() { return sizeof(typename R::State) > 8 ? RESIDENT - 1 : RESIDENT; }
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

// A reduction: its state over elements computed in `C` with sums in `S`, the first state, what an element and another state
// do to it, and the result in `R`.
template <class C, class S>
struct Sum {
    typedef S State;
    typedef S R;
    static DEVICE State start(const Param*) { return zero_of<S>(); }
    static DEVICE void add(State& s, C v, i64, const Param*) { s = plus(s, Convert<S, C>::of(v)); }
    static DEVICE State join(State a, State b) { return plus(a, b); }
    static DEVICE R end(State s, const Param*) { return s; }
};
template <class C, class S>
struct Nansum : Sum<C, S> {
    static DEVICE void add(S& s, C v, i64, const Param*) {
        if (!num::is_nan(v)) s = plus(s, Convert<S, C>::of(v));
    }
};
// numbers[0] is the number of elements.
template <class C, class S>
struct Mean : Sum<C, S> {
    static DEVICE float over(float s, double n) { return s / (float)n; }
    static DEVICE double over(double s, double n) { return s / n; }
    static DEVICE i64 over(i64 s, double) { return s; }
    template <class V> static DEVICE Cx<V> over(Cx<V> s, double n) { return {over(s.re, n), over(s.im, n)}; }
    static DEVICE S end(S s, const Param* p) { return over(s, p[0].re); }
};
template <class C, class S>
struct Prod {
    typedef S State;
    typedef S R;
    static DEVICE State start(const Param*) { return Convert<S, i64>::of(1); }
    static DEVICE void add(State& s, C v, i64, const Param*) { s = times(s, Convert<S, C>::of(v)); }
    static DEVICE State join(State a, State b) { return times(a, b); }
    static DEVICE R end(State s, const Param*) { return s; }
};
// The largest or smallest element; a NaN comes before all others. Elements in themselves.
template <class C> DEVICE C least_of() { return (C)((C)-1 < (C)0 ? (C)1 << (sizeof(C) * 8 - 1) : (C)0); }
template <> DEVICE float least_of() { return -Consts<float>::INF(); }
template <> DEVICE double least_of() { return -Consts<double>::INF(); }
template <> DEVICE bool least_of() { return false; }
template <class C> DEVICE C greatest_of() { return (C)~least_of<C>(); }
template <> DEVICE float greatest_of() { return Consts<float>::INF(); }
template <> DEVICE double greatest_of() { return Consts<double>::INF(); }
template <> DEVICE bool greatest_of() { return true; }
template <class C, class S>
struct Amax {
    typedef C State;
    typedef C R;
    static DEVICE State start(const Param*) { return least_of<C>(); }
    static DEVICE void add(State& s, C v, i64, const Param*) { s = num::maximum(v, s); }
    static DEVICE State join(State a, State b) { return num::maximum(a, b); }
    static DEVICE R end(State s, const Param*) { return s; }
};
template <class C, class S>
struct Amin {
    typedef C State;
    typedef C R;
    static DEVICE State start(const Param*) { return greatest_of<C>(); }
    static DEVICE void add(State& s, C v, i64, const Param*) { s = num::minimum(v, s); }
    static DEVICE State join(State a, State b) { return num::minimum(a, b); }
    static DEVICE R end(State s, const Param*) { return s; }
};
// The place of the largest or smallest element: the first of equals. `I` holds places.
template <class C, class I, bool LARGEST>
struct Place {
    struct State {
        C v;
        I at;
    };
    typedef i64 R;
    static DEVICE bool ahead(C a, C b) { return LARGEST ? a > b : a < b; }
    static DEVICE State start(const Param*) { return {C(), (I)-1}; }
    // one thread's places grow, so that an equal one comes later
    static DEVICE void add(State& s, C v, i64 i, const Param*) {
        if (s.at < 0 || ahead(v, s.v) || (v != v && s.v == s.v)) s = {v, (I)i};
    }
    static DEVICE State join(State a, State b) {
        if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
        bool na = a.v != a.v, nb = b.v != b.v;
        if (na || nb) return na && (!nb || a.at < b.at) ? a : b;
        if (a.v == b.v) return a.at < b.at ? a : b;
        return ahead(a.v, b.v) ? a : b;
    }
    static DEVICE R end(State s, const Param*) { return s.at; }
};
template <class C, class I> struct Argmax : Place<C, I, true> {};
template <class C, class I> struct Argmin : Place<C, I, false> {};
template <class C, class S>
struct Any {
    typedef bool State;
    typedef bool R;
    static DEVICE State start(const Param*) { return false; }
    static DEVICE void add(State& s, C v, i64, const Param*) { s = s || Convert<bool, C>::of(v); }
    static DEVICE State join(State a, State b) { return a || b; }
    static DEVICE R end(State s, const Param*) { return s; }
};
template <class C, class S>
struct All {
    typedef bool State;
    typedef bool R;
    static DEVICE State start(const Param*) { return true; }
    static DEVICE void add(State& s, C v, i64, const Param*) { s = s && Convert<bool, C>::of(v); }
    static DEVICE State join(State a, State b) { return a && b; }
    static DEVICE R end(State s, const Param*) { return s; }
};
template <class C, class S>
struct CountNonzero {
    typedef i64 State;
    typedef i64 R;
    static DEVICE State start(const Param*) { return 0; }
    static DEVICE void add(State& s, C v, i64, const Param*) { s += Convert<bool, C>::of(v); }
    static DEVICE State join(State a, State b) { return a + b; }
    static DEVICE R end(State s, const Param*) { return s; }
};
// Variance by Welford's rule, states joined by Chan's; numbers[0] is the correction. C is a real float.
template <class C, class S>
struct Variance {
    struct State {
        S mean, squares, n;
    };
    typedef S R;
    static DEVICE State start(const Param*) { return {0, 0, 0}; }
    static DEVICE void add(State& s, C v, i64, const Param*) {
        s.n += 1;
        S away = (S)v - s.mean;
        s.mean += away / s.n;
        s.squares += away * ((S)v - s.mean);
    }
    // The same for states of as many elements each, by one division.
    template <int V>
    static DEVICE void add_each(State (&s)[V], const C (&c)[V]) {
        S n = s[0].n + 1, by = 1 / n;
#pragma unroll
        for (int v = 0; v < V; v++) {
            S away = (S)c[v] - s[v].mean;
            s[v].mean = num::fma(away, by, s[v].mean);
            s[v].squares = num::fma(away, (S)c[v] - s[v].mean, s[v].squares);
            s[v].n = n;
        }
    }
    static DEVICE State join(State a, State b) {
        if (a.n == 0) return b;
        if (b.n == 0) return a;
        S n = a.n + b.n, away = b.mean - a.mean;
        return {a.mean + away * (b.n / n), a.squares + b.squares + away * away * a.n * (b.n / n), n};
    }
    static DEVICE R end(State s, const Param* p) {
        S free = s.n - (S)p[0].re;
        return s.squares / (free > 0 ? free : S(0));
    }
};
template <class C, class S>
struct Deviation : Variance<C, S> {
    static DEVICE S end(typename Variance<C, S>::State s, const Param* p) { return num::sqrt(Variance<C, S>::end(s, p)); }
};
// The norm of order numbers[0] over absolute values, which are computed in S.
DEVICE float size_of(float v) { return num::abs(v); }
DEVICE double size_of(double v) { return num::abs(v); }
template <class V> DEVICE V size_of(Cx<V> v) { return num::abs(v); }
template <class C, class S>
struct Norm {
    typedef S State;
    typedef S R;
    static DEVICE bool limit(const Param* p) { return p[0].re == Consts<double>::INF() || p[0].re == -Consts<double>::INF(); }
    static DEVICE State start(const Param* p) { return p[0].re == -Consts<double>::INF() ? Consts<S>::INF() : S(0); }
    static DEVICE void add(State& s, C v, i64, const Param* p) {
        S a = size_of(v);
        double order = p[0].re;
        if (order == 2) s += a * a;
        else if (order == 1) s += a;
        else if (order == 0) s += a != 0 ? S(1) : S(0);
        else if (order == Consts<double>::INF()) s = num::maximum(a, s);
        else if (order == -Consts<double>::INF()) s = num::minimum(a, s);
        else s += num::pow(a, (S)order);
    }
    static DEVICE State join(State a, State b) { return a + b; }
    static DEVICE R end(State s, const Param* p) {
        double order = p[0].re;
        if (order == 2) return num::sqrt(s);
        if (order == 1 || order == 0) return s;
        return num::pow(s, (S)(1 / order));
    }
};
template <class C, class S>
struct NormMax : Norm<C, S> {
    static DEVICE S join(S a, S b) { return num::maximum(a, b); }
    static DEVICE S end(S s, const Param*) { return s; }
};
template <class C, class S>
struct NormMin : Norm<C, S> {
    static DEVICE S join(S a, S b) { return num::minimum(a, b); }
    static DEVICE S end(S s, const Param*) { return s; }
};

// log(sum(exp(x))), by the largest element so far and the sum of exp(x - largest).
template <class C, class S>
struct LogSumExp {
    struct State {
        S most, sum;
    };
    typedef S R;
    static DEVICE State start(const Param*) { return {-Consts<S>::INF(), 0}; }
    static DEVICE State join(State a, State b) {
        if (a.most != a.most || b.sum == 0) return a;
        if (b.most != b.most || a.sum == 0) return b;
        if (a.most < b.most) return {b.most, b.sum + a.sum * num::exp(a.most - b.most)};
        return {a.most, a.sum + b.sum * num::exp(b.most - a.most)};
    }
    static DEVICE void add(State& s, C v, i64, const Param*) {
        S x = (S)v;
        if (x != -Consts<S>::INF()) s = join(s, {x, 1});
    }
    static DEVICE R end(State s, const Param*) {
        return s.most != s.most || s.sum == 0 || num::abs(s.most) == Consts<S>::INF() ? s.most : s.most + num::ln(s.sum);
    }
};

// Adds an element to each of several states, which have as many elements; `step` lies between the places of two of them.
template <class R, class In, int V>
DEVICE void add_each(typename R::State (&s)[V], const In (&e)[V], i64 at, i64 step, const Param* p) {
    typedef typename Element<In>::C C;
    if constexpr (requires(C(&c)[V]) { R::add_each(s, c); }) {
        C c[V];
#pragma unroll
        for (int v = 0; v < V; v++) c[v] = Element<In>::up(e[v]);
        R::add_each(s, c);
    } else {
#pragma unroll
        for (int v = 0; v < V; v++) R::add(s[v], Element<In>::up(e[v]), at + v * step, p);
    }
}
template <class R, class Out>
DEVICE void leave(const ReduceParams& p, i64 o, typename R::State s) {
    u64 a[OPERANDS];
    places<1>(p.kept, o, a);
    *at<Out>(a[0]) = Element<Out>::down(Convert<typename Element<Out>::C, typename R::R>::of(R::end(s, p.numbers)));
}
template <class R, class In, class Out>
DEVICE void reduce(const ReduceParams& p) {
    typedef typename R::State S;
    static_assert(sizeof(S) <= STATE);
    constexpr int AT_ONCE = 4;
    __shared__ S room[256];
    u32 threads = (u32)p.threads, results = (u32)p.results;
    u32 x = p.turned ? threadIdx.x / results : threadIdx.x % threads, y = p.turned ? threadIdx.x % results : threadIdx.x / threads;
    i64 n = p.along.n, groups = (p.kept.n + results - 1) / results;
    i64 step = threads * p.parts;
    for (i64 b = blockIdx.x; b < groups * p.parts; b += gridDim.x) {
        i64 part = b / groups, o = b % groups * results + y;
        S all = R::start(p.numbers);
        if (o < p.kept.n) {
            u64 a[OPERANDS];
            places<2>(p.kept, o, a);
            u64 base = a[1];
            i64 first = part * threads + x, done = 0;
            if (p.along.dims <= 1) {
                i64 stride = p.along.dims == 1 ? p.along.strides[1][0] : 0;
                constexpr int V = pack_of<In>();
                if (V > 1 && stride == (i64)sizeof(In) && fits_packs(base)) {
                    S s[V];
                    for (int v = 0; v < V; v++) s[v] = R::start(p.numbers);
                    i64 packs = n / V;
#pragma unroll 4
                    for (i64 i = first; i < packs; i += step) {
                        Pack<In, V> e = at<Pack<In, V>>(base)[i];
                        add_each<R>(s, e.v, i * V, 1, p.numbers);
                    }
                    for (int v = 0; v < V; v++) all = R::join(all, s[v]);
                    done = packs * V;
                } else {
                    S s[AT_ONCE];
                    for (int v = 0; v < AT_ONCE; v++) s[v] = R::start(p.numbers);
                    i64 i = first;
                    for (; i + step * (AT_ONCE - 1) < n; i += step * AT_ONCE) {
                        In e[AT_ONCE];
#pragma unroll
                        for (int v = 0; v < AT_ONCE; v++) e[v] = *at<In>(base + (i + v * step) * stride);
                        add_each<R>(s, e, i, step, p.numbers);
                    }
                    for (; i < n; i += step) R::add(s[0], Element<In>::up(*at<In>(base + i * stride)), i, p.numbers);
                    for (int v = 0; v < AT_ONCE; v++) all = R::join(all, s[v]);
                    done = n;
                }
            }
            for (i64 i = done + first; i < n; i += step) {
                u64 e[OPERANDS];
                places<2>(p.along, i, e);
                R::add(all, Element<In>::up(*at<In>(base + e[1])), i, p.numbers);
            }
        }
        room[threadIdx.x] = all;
        __syncthreads();
        u32 apart = p.turned ? results : 1;
        for (u32 half = threads / 2; half > 0; half /= 2) {
            if (x < half) room[threadIdx.x] = R::join(room[threadIdx.x], room[threadIdx.x + half * apart]);
            __syncthreads();
        }
        if (x == 0 && o < p.kept.n) {
            if (p.parts > 1) at<S>(p.states)[part * p.kept.n + o] = room[threadIdx.x];
            else leave<R, Out>(p, o, room[threadIdx.x]);
        }
        __syncthreads();
    }
}
// Results whose first elements lie side by side: a thread has as many of them as a pack holds. `results` counts packs.
template <class R, class In, class Out>
DEVICE void reduce_columns(const ReduceParams& p) {
    typedef typename R::State S;
    static_assert(sizeof(S) <= STATE);
    constexpr int V = pack_of<In>(), AHEAD = sizeof(S) > 8 ? 4 : 8;
    __shared__ S room[256];
    u32 threads = (u32)p.threads, results = (u32)p.results, x = threadIdx.x / results, y = threadIdx.x % results;
    i64 n = p.along.n, packs = p.kept.n / V, groups = (packs + results - 1) / results, step = threads * p.parts;
    for (i64 b = blockIdx.x; b < groups * p.parts; b += gridDim.x) {
        i64 part = b / groups, o = b % groups * results + y;
        S s[V];
#pragma unroll
        for (int v = 0; v < V; v++) s[v] = R::start(p.numbers);
        if (o < packs) {
            u64 a[OPERANDS];
            places<2>(p.kept, o * V, a);
            u64 base = a[1];
            auto add = [&](u64 from, i64 i) {
                Pack<In, V> c = *at<Pack<In, V>>(from);
                add_each<R>(s, c.v, i, 0, p.numbers);
            };
            if (p.along.dims <= 1) {
                i64 stride = p.along.dims == 1 ? p.along.strides[1][0] : 0;
                i64 i = part * threads + x, last = n - step * (AHEAD - 1);
                // several packs are on their way at once
                for (; i < last; i += step * AHEAD) {
                    Pack<In, V> c[AHEAD];
#pragma unroll
                    for (int k = 0; k < AHEAD; k++) c[k] = *at<Pack<In, V>>(base + (i + k * step) * stride);
#pragma unroll
                    for (int k = 0; k < AHEAD; k++) add_each<R>(s, c[k].v, i + k * step, 0, p.numbers);
                }
                for (; i < n; i += step) add(base + i * stride, i);
            } else {
                for (i64 i = part * threads + x; i < n; i += step) {
                    u64 e[OPERANDS];
                    places<2>(p.along, i, e);
                    add(base + e[1], i);
                }
            }
        }
#pragma unroll
        for (int v = 0; v < V; v++) {
            room[threadIdx.x] = s[v];
            __syncthreads();
            for (u32 half = threads / 2; half > 0; half /= 2) {
                if (x < half) room[threadIdx.x] = R::join(room[threadIdx.x], room[threadIdx.x + half * results]);
                __syncthreads();
            }
            if (x == 0 && o < packs) {
                if (p.parts > 1) at<S>(p.states)[part * p.kept.n + o * V + v] = room[threadIdx.x];
                else leave<R, Out>(p, o * V + v, room[threadIdx.x]);
            }
            __syncthreads();
        }
    }
}
// The states of all parts of results: neighbouring threads take neighbouring results, `results` of a block, and `threads` share one.
template <class R, class Out>
DEVICE void reduce_parts(const ReduceParams& p) {
    typedef typename R::State S;
    __shared__ S room[256];
    u32 threads = (u32)p.threads, results = (u32)p.results, x = threadIdx.x / results, y = threadIdx.x % results;
    i64 groups = (p.kept.n + results - 1) / results;
    for (i64 b = blockIdx.x; b < groups; b += gridDim.x) {
        i64 o = b * results + y;
        S all = R::start(p.numbers);
        if (o < p.kept.n) {
#pragma unroll 4
            for (i64 i = x; i < p.parts; i += threads) all = R::join(all, at<S>(p.states)[i * p.kept.n + o]);
        }
        room[threadIdx.x] = all;
        __syncthreads();
        for (u32 half = threads / 2; half > 0; half /= 2) {
            if (x < half) room[threadIdx.x] = R::join(room[threadIdx.x], room[threadIdx.x + half * results]);
            __syncthreads();
        }
        if (x == 0 && o < p.kept.n) leave<R, Out>(p, o, room[threadIdx.x]);
        __syncthreads();
    }
}
#define REDUCE(NAME, R, IN, S, OUT) \
    KERNEL_OF_BLOCKS(NAME, ReduceParams, 256, (resident<R<Element<IN>::C, S>>())) { reduce<R<typename Element<IN>::C, S>, IN, OUT>(p); }
#define REDUCE_COLUMNS(NAME, R, IN, S, OUT) \
    KERNEL_OF_BLOCKS(NAME, ReduceParams, 256, (resident<R<Element<IN>::C, S>>())) { reduce_columns<R<typename Element<IN>::C, S>, IN, OUT>(p); }
#define REDUCE_PARTS(NAME, R, IN, S, OUT) \
    KERNEL_OF_BLOCKS(NAME, ReduceParams, 256, (resident<R<Element<IN>::C, S>>())) { reduce_parts<R<typename Element<IN>::C, S>, OUT>(p); }
