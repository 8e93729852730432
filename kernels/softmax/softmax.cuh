// Softmax and its logarithm along one dimension, and their gradients. Rows whose elements lie side by side have a warp or a
// block each; of others each thread has one.
#pragma once
#include "../device/block.cuh"

struct SoftmaxParams {
    // results, inputs, and for gradients the results of the forward pass, all dense: lines of `n` elements `inner` apart
    u64 out, a, b;
    i64 outer, n, inner;
    // threads of a line, where inner is 1: a warp's or a block's
    i64 threads;
};
// e / sum by its reciprocal, where e is at most 1 and sum at least 1. Halves do not show how a quotient is rounded; others are
// corrected by what is left of e.
template <class Out, class C>
DEVICE C part_of(C e, C sum, C by) {
    C q = e * by;
    return sizeof(Out) == 2 ? q : num::fma(num::fma(-q, sum, e), by, q);
}
// One row, by the threads that share it.
template <class In, class Out, bool LOG, int HELD>
DEVICE void softmax_row(const In* a, Out* out, i64 n, u32 t, u32 step, typename Element<In>::C* room) {
    typedef typename Element<In>::C C;
    bool whole = step == blockDim.x;
    auto larger = [](C x, C y) { return larger_of(x, y); };
    auto add = [](C x, C y) { return x + y; };
    Part<In, HELD> row(a, n, t, step);
    C most = -Consts<C>::INF(), sum = 0;
    row.each([&](In x, i64) { most = larger_of(Element<In>::up(x), most); });
    most = whole ? block_all(most, larger, room) : warp_all(most, larger);
    row.each([&](In x, i64) { sum += exp_for<Out>(Element<In>::up(x) - most); });
    sum = whole ? block_all(sum, add, room) : warp_all(sum, add);
    C by = LOG ? num::ln(sum) : C(1) / sum;
    row.into(out, [&](In x, i64) {
        C v = Element<In>::up(x) - most;
        if constexpr (LOG) return Element<Out>::down(v - by);
        return Element<Out>::down(part_of<Out>(exp_for<Out>(v), sum, by));
    });
}
template <class In, class Out, bool LOG, int HELD>
DEVICE void softmax(const SoftmaxParams& p) {
    __shared__ typename Element<In>::C room[WARP];
    u32 step = (u32)p.threads, t = threadIdx.x % step, lines = blockDim.x / step;
    i64 rounds = (p.outer + (i64)gridDim.x * lines - 1) / ((i64)gridDim.x * lines);
    for (i64 r = 0; r < rounds; r++) {
        i64 l = (r * gridDim.x + blockIdx.x) * lines + threadIdx.x / step;
        // threads without a line go along to the barriers
        i64 n = l < p.outer ? p.n : 0;
        const In* a = at<In>(p.a) + (n ? l * p.n : 0);
        Out* out = at<Out>(p.out) + (n ? l * p.n : 0);
        softmax_row<In, Out, LOG, HELD>(a, out, n, t, step, room);
    }
}
// f(first place) for the lines of a thread, whose elements are `inner` apart
template <class F>
DEVICE void each_line(const SoftmaxParams& p, F f) {
    for (i64 l = first_index(); l < p.outer * p.inner; l += all_threads()) f(l / p.inner * p.n * p.inner + l % p.inner);
}
template <class In, class Out, bool LOG>
DEVICE void softmax_apart(const SoftmaxParams& p) {
    typedef typename Element<In>::C C;
    each_line(p, [&](i64 start) {
        const In* a = at<In>(p.a) + start;
        Out* out = at<Out>(p.out) + start;
        C most = -Consts<C>::INF(), sum = 0;
        for (i64 i = 0; i < p.n; i++) most = larger_of(Element<In>::up(a[i * p.inner]), most);
        for (i64 i = 0; i < p.n; i++) sum += exp_for<Out>(Element<In>::up(a[i * p.inner]) - most);
        C by = LOG ? num::ln(sum) : C(1) / sum;
        for (i64 i = 0; i < p.n; i++) {
            C v = Element<In>::up(a[i * p.inner]) - most;
            out[i * p.inner] = Element<Out>::down(LOG ? v - by : part_of<Out>(exp_for<Out>(v), sum, by));
        }
    });
}
// What a gradient and a result add to their row's sum, and the gradient that is made of that.
template <class In, class Out, bool LOG>
struct SoftmaxGradient {
    typedef typename Element<In>::C C;
    static DEVICE C term(In g, In y) { return LOG ? Element<In>::up(g) : Element<In>::up(g) * Element<In>::up(y); }
    static DEVICE Out value(In g, In y, C sum) {
        C v = Element<In>::up(g), r = Element<In>::up(y);
        return Element<Out>::down(LOG ? v - exp_for<Out>(r) * sum : r * (v - sum));
    }
};
template <class In, class Out, bool LOG, int HELD>
DEVICE void softmax_backward(const SoftmaxParams& p) {
    typedef typename Element<In>::C C;
    typedef SoftmaxGradient<In, Out, LOG> G;
    __shared__ C room[WARP];
    u32 step = (u32)p.threads, t = threadIdx.x % step, lines = blockDim.x / step;
    bool whole = step == blockDim.x;
    auto add = [](C x, C y) { return x + y; };
    i64 rounds = (p.outer + (i64)gridDim.x * lines - 1) / ((i64)gridDim.x * lines);
    for (i64 r = 0; r < rounds; r++) {
        i64 l = (r * gridDim.x + blockIdx.x) * lines + threadIdx.x / step;
        i64 n = l < p.outer ? p.n : 0, start = n ? l * p.n : 0;
        const In* g = at<In>(p.a) + start;
        const In* y = at<In>(p.b) + start;
        Out* out = at<Out>(p.out) + start;
        C sum = 0;
        if constexpr (HELD > 0) {
            Part<In, HELD> grad(g, n, t, step), result(y, n, t, step);
            constexpr int V = pack_of<In>();
            grad.packs([&](int k, u32) {
#pragma unroll
                for (int v = 0; v < V; v++) sum += G::term(grad.own[k].v[v], result.own[k].v[v]);
            });
            sum = whole ? block_all(sum, add, room) : warp_all(sum, add);
            grad.packs([&](int k, u32 i) {
                Pack<Out, V> z;
#pragma unroll
                for (int v = 0; v < V; v++) z.v[v] = G::value(grad.own[k].v[v], result.own[k].v[v], sum);
                reinterpret_cast<Pack<Out, V>*>(out)[i] = z;
            });
        } else {
            walk(g, n, t, step, [&](In x, i64 i) { sum += G::term(x, y[i]); });
            sum = whole ? block_all(sum, add, room) : warp_all(sum, add);
            rewrite(g, out, n, t, step, [&](In x, i64 i) { return G::value(x, y[i], sum); });
        }
    }
}
template <class In, class Out, bool LOG>
DEVICE void softmax_backward_apart(const SoftmaxParams& p) {
    typedef SoftmaxGradient<In, Out, LOG> G;
    each_line(p, [&](i64 start) {
        const In* g = at<In>(p.a) + start;
        const In* y = at<In>(p.b) + start;
        Out* out = at<Out>(p.out) + start;
        typename G::C sum = 0;
        for (i64 i = 0; i < p.n; i++) sum += G::term(g[i * p.inner], y[i * p.inner]);
        for (i64 i = 0; i < p.n; i++) out[i * p.inner] = G::value(g[i * p.inner], y[i * p.inner], sum);
    });
}
#define SOFTMAX(NAME, F, IN, OUT, LOG, HELD) \
    KERNEL_OF_LARGE_BLOCKS(NAME, SoftmaxParams, sizeof(IN) == 8 ? 512 : 1024) { F<IN, OUT, LOG, HELD>(p); }
#define SOFTMAX_APART(NAME, F, IN, OUT, LOG) \
    KERNEL(NAME, SoftmaxParams) { F##_apart<IN, OUT, LOG>(p); }
