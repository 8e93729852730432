// Scans along one dimension of dense tensors. Rows whose elements lie side by side have a warp or a block each, and a thread
// some neighbours at a time; of others each thread has one. Long rows are cut into parts where there are few: their states are
// found first, then those before each part, then the results.
#pragma once
#include "../device/block.cuh"
#include "../reduction/reduction.cuh"

struct ScanParams {
    u64 in, out, places;
    i64 outer, n, inner;
    // threads of a row, where inner is 1
    i64 threads;
    // parts of a row, elements of a part, and where the states of the parts are
    i64 parts, length;
    u64 states;
};
// A scan: its state over elements computed in `C` with sums in `S`, the state of nothing, of an element, of two neighbours, and
// what is written.
template <class C, class S>
struct Cumsum {
    typedef S State;
    static DEVICE State none() { return zero_of<S>(); }
    static DEVICE State of(C v, i64) { return Convert<S, C>::of(v); }
    static DEVICE State join(State a, State b) { return plus(a, b); }
    template <class Out> static DEVICE void end(State s, Out* out, i64*) { *out = Element<Out>::down(Convert<typename Element<Out>::C, S>::of(s)); }
};
template <class C, class S>
struct Cumprod : Cumsum<C, S> {
    static DEVICE S none() { return Convert<S, i64>::of(1); }
    static DEVICE S join(S a, S b) { return times(a, b); }
};
// The last of equals; once a NaN, always one.
template <class C, bool LARGEST>
struct RunningExtreme {
    struct State {
        C v;
        i64 at;
    };
    static DEVICE State none() { return {C(), -1}; }
    static DEVICE State of(C v, i64 i) { return {v, i}; }
    static DEVICE State join(State a, State b) {
        if (a.at < 0) return b;
        if (b.at < 0) return a;
        bool na = a.v != a.v, nb = b.v != b.v;
        return nb || (!na && (LARGEST ? b.v >= a.v : b.v <= a.v)) ? b : a;
    }
    template <class Out> static DEVICE void end(State s, Out* out, i64* place) {
        *out = Element<Out>::down(s.v);
        *place = s.at;
    }
};
template <class C, class S> struct Cummax : RunningExtreme<C, true> {};
template <class C, class S> struct Cummin : RunningExtreme<C, false> {};
template <class C, class S>
struct Logcumsumexp : Cumsum<C, S> {
    static DEVICE S none() { return -Consts<S>::INF(); }
    static DEVICE S join(S a, S b) {
        S low = num::minimum(a, b), high = num::maximum(a, b);
        if (high != high || low != low) return high != high ? high : low;
        // equal infinities would give inf - inf
        if (low == high && num::abs(high) == Consts<S>::INF()) return high;
        return high + num::ln_1p(num::exp(low - high));
    }
};
constexpr int SCAN_STATE = 32;
template <class In>
DEVICE constexpr int scan_pack() { return pack_of<In>() > 4 ? 4 : pack_of<In>() < 2 ? 2 : pack_of<In>(); }
// Rows side by side: the states of the parts where FINAL is false, the results otherwise.
template <class R, class In, class Out, bool FINAL>
DEVICE void scan_rows(const ScanParams& p) {
    typedef typename R::State S;
    static_assert(sizeof(S) <= SCAN_STATE);
    constexpr int V = scan_pack<In>();
    __shared__ S room[WARP];
    u32 step = (u32)p.threads, t = threadIdx.x % step, lines = blockDim.x / step;
    bool whole = step > WARP;
    i64 all_lines = p.outer * p.parts, rounds = (all_lines + (i64)gridDim.x * lines - 1) / ((i64)gridDim.x * lines);
    auto join = [](S a, S b) { return R::join(a, b); };
    for (i64 r = 0; r < rounds; r++) {
        i64 l = (r * gridDim.x + blockIdx.x) * lines + threadIdx.x / step;
        i64 row = l / p.parts, part = l % p.parts;
        i64 first = part * p.length, last = first + p.length < p.n ? first + p.length : p.n;
        // threads without a row go along to the barriers
        if (l >= all_lines) row = 0, first = last = 0;
        const In* in = at<In>(p.in) + row * p.n;
        Out* out = at<Out>(p.out) + row * p.n;
        i64* places = at<i64>(p.places) + row * p.n;
        S carry = R::none();
        if (FINAL && part > 0 && last > first) carry = *at<S>(p.states + (row * p.parts + part - 1) * SCAN_STATE);
        i64 tiles = (p.length + step * V - 1) / (step * V);
        for (i64 tile = 0; tile < tiles; tile++) {
            i64 i = first + (tile * step + t) * V;
            S s[V];
            S own = R::none();
            bool full = i + V <= last;
            In e[V];
            if (full && (u64)(size_t)(in + i) % (sizeof(In) * V) == 0) {
                Pack<In, V> x = *reinterpret_cast<const Pack<In, V>*>(in + i);
#pragma unroll
                for (int v = 0; v < V; v++) e[v] = x.v[v];
            } else {
#pragma unroll
                for (int v = 0; v < V; v++)
                    if (i + v < last) e[v] = in[i + v];
            }
#pragma unroll
            for (int v = 0; v < V; v++) {
                if (i + v < last) own = R::join(own, R::of(Element<In>::up(e[v]), i + v));
                s[v] = own;
            }
            S all;
            S before = R::join(carry, scan_before(own, R::none(), join, room, whole, all));
            if (FINAL)
#pragma unroll
                for (int v = 0; v < V; v++)
                    if (i + v < last) R::end(R::join(before, s[v]), out + i + v, places + i + v);
            carry = R::join(carry, all);
        }
        if (!FINAL && t == 0 && l < all_lines) *at<S>(p.states + l * SCAN_STATE) = carry;
    }
}
// Rows apart: neighbouring threads take neighbouring rows.
template <class R, class In, class Out, bool FINAL>
DEVICE void scan_columns(const ScanParams& p) {
    typedef typename R::State S;
    i64 rows = p.outer * p.inner;
    for (i64 l = first_index(); l < rows * p.parts; l += all_threads()) {
        i64 c = l % p.inner, rest = l / p.inner, part = rest % p.parts, o = rest / p.parts, row = o * p.inner + c;
        i64 first = part * p.length, last = first + p.length < p.n ? first + p.length : p.n;
        i64 start = o * p.n * p.inner + c;
        S s = R::none();
        if (FINAL && part > 0) s = *at<S>(p.states + (row * p.parts + part - 1) * SCAN_STATE);
        for (i64 i = first; i < last; i++) {
            i64 k = start + i * p.inner;
            s = R::join(s, R::of(Element<In>::up(at<In>(p.in)[k]), i));
            if (FINAL) R::end(s, at<Out>(p.out) + k, at<i64>(p.places) + k);
        }
        if (!FINAL) *at<S>(p.states + (row * p.parts + part) * SCAN_STATE) = s;
    }
}
template <class R, class In, class Out, bool FINAL>
DEVICE void scan(const ScanParams& p) {
    if (p.inner == 1) scan_rows<R, In, Out, FINAL>(p);
    else scan_columns<R, In, Out, FINAL>(p);
}
// The states of the parts of each row, each joined with those before, by one block.
template <class R>
DEVICE void scan_states(const ScanParams& p) {
    typedef typename R::State S;
    __shared__ S room[WARP];
    auto join = [](S a, S b) { return R::join(a, b); };
    for (i64 row = blockIdx.x; row < p.outer * p.inner; row += gridDim.x) {
        S carry = R::none();
        for (i64 first = 0; first < p.parts; first += blockDim.x) {
            i64 i = first + threadIdx.x;
            S* place = at<S>(p.states + (row * p.parts + i) * SCAN_STATE);
            S own = i < p.parts ? *place : R::none(), all;
            S before = scan_before(own, R::none(), join, room, blockDim.x > WARP, all);
            if (i < p.parts) *place = R::join(R::join(carry, before), own);
            carry = R::join(carry, all);
        }
    }
}
#define SCAN(NAME, R, IN, S, OUT)                                                                                  \
    KERNEL_WITH_BARRIERS(NAME, ScanParams) { scan<R<typename Element<IN>::C, S>, IN, OUT, true>(p); }              \
    KERNEL_WITH_BARRIERS(NAME##_parts, ScanParams) { scan<R<typename Element<IN>::C, S>, IN, OUT, false>(p); }     \
    KERNEL_WITH_BARRIERS(NAME##_states, ScanParams) { scan_states<R<typename Element<IN>::C, S>>(p); }
