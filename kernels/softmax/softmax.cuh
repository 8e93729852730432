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
// One row, by the threads that share it. HELD: each keeps its part in registers, at most so many packs; else the row is read again.
constexpr int LOADS = 4;
template <class In, class Out, bool LOG, bool HELD>
DEVICE void softmax_row(const In* a, Out* out, i64 n, u32 t, u32 step, typename Element<In>::C* room) {
    typedef typename Element<In>::C C;
    bool whole = step == blockDim.x;
    auto larger = [](C x, C y) { return num::maximum(x, y); };
    auto add = [](C x, C y) { return x + y; };
    C most = -Consts<C>::INF(), sum = 0;
    if constexpr (HELD) {
        constexpr int V = pack_of<In>();
        i64 packs = n / V;
        C x[LOADS][V];
#pragma unroll
        for (int l = 0; l < LOADS; l++) {
            i64 i = (i64)l * step + t;
            if (i < packs) {
                Pack<In, V> e = reinterpret_cast<const Pack<In, V>*>(a)[i];
#pragma unroll
                for (int v = 0; v < V; v++) most = num::maximum(x[l][v] = Element<In>::up(e.v[v]), most);
            }
        }
        most = whole ? block_all(most, larger, room) : warp_all(most, larger);
#pragma unroll
        for (int l = 0; l < LOADS; l++) {
            if ((i64)l * step + t < packs) {
#pragma unroll
                for (int v = 0; v < V; v++) {
                    C e = num::exp(x[l][v] - most);
                    x[l][v] = LOG ? x[l][v] - most : e;
                    sum += e;
                }
            }
        }
        sum = whole ? block_all(sum, add, room) : warp_all(sum, add);
        C log = LOG ? num::ln(sum) : 0;
#pragma unroll
        for (int l = 0; l < LOADS; l++) {
            i64 i = (i64)l * step + t;
            if (i < packs) {
                Pack<Out, V> y;
#pragma unroll
                for (int v = 0; v < V; v++) y.v[v] = Element<Out>::down(LOG ? x[l][v] - log : x[l][v] / sum);
                reinterpret_cast<Pack<Out, V>*>(out)[i] = y;
            }
        }
    } else {
        walk(a, n, t, step, [&](In x, i64) { most = num::maximum(Element<In>::up(x), most); });
        most = whole ? block_all(most, larger, room) : warp_all(most, larger);
        walk(a, n, t, step, [&](In x, i64) { sum += num::exp(Element<In>::up(x) - most); });
        sum = whole ? block_all(sum, add, room) : warp_all(sum, add);
        C log = LOG ? num::ln(sum) : 0;
        rewrite(a, out, n, t, step, [&](In x, i64) {
            C v = Element<In>::up(x) - most;
            return Element<Out>::down(LOG ? v - log : num::exp(v) / sum);
        });
    }
}
template <class In, class Out, bool LOG, bool HELD>
DEVICE void softmax(const SoftmaxParams& p) {
    typedef typename Element<In>::C C;
    if (p.inner == 1) {
        __shared__ C room[WARP];
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
        return;
    }
    for (i64 l = first_index(); l < p.outer * p.inner; l += all_threads()) {
        i64 start = l / p.inner * p.n * p.inner + l % p.inner;
        const In* a = at<In>(p.a) + start;
        Out* out = at<Out>(p.out) + start;
        C most = -Consts<C>::INF();
        for (i64 i = 0; i < p.n; i++) most = num::maximum(Element<In>::up(a[i * p.inner]), most);
        C sum = 0;
        for (i64 i = 0; i < p.n; i++) sum += num::exp(Element<In>::up(a[i * p.inner]) - most);
        C log = LOG ? num::ln(sum) : 0;
        for (i64 i = 0; i < p.n; i++) {
            C v = Element<In>::up(a[i * p.inner]) - most;
            out[i * p.inner] = Element<Out>::down(LOG ? v - log : num::exp(v) / sum);
        }
    }
}
template <class In, class Out, bool LOG, bool HELD>
DEVICE void softmax_backward(const SoftmaxParams& p) {
    typedef typename Element<In>::C C;
    auto term = [](In g, In y) {
        C v = Element<In>::up(g);
        return LOG ? v : v * Element<In>::up(y);
    };
    auto value = [](In g, In y, C sum) {
        C v = Element<In>::up(g), r = Element<In>::up(y);
        return Element<Out>::down(LOG ? v - num::exp(r) * sum : r * (v - sum));
    };
    if (p.inner == 1) {
        __shared__ C room[WARP];
        u32 step = (u32)p.threads, t = threadIdx.x % step, lines = blockDim.x / step;
        bool whole = step == blockDim.x;
        i64 rounds = (p.outer + (i64)gridDim.x * lines - 1) / ((i64)gridDim.x * lines);
        for (i64 r = 0; r < rounds; r++) {
            i64 l = (r * gridDim.x + blockIdx.x) * lines + threadIdx.x / step;
            i64 n = l < p.outer ? p.n : 0, start = n ? l * p.n : 0;
            const In* g = at<In>(p.a) + start;
            const In* y = at<In>(p.b) + start;
            Out* out = at<Out>(p.out) + start;
            C sum = 0;
            for (i64 i = t; i < n; i += step) sum += term(g[i], y[i]);
            auto add = [](C x, C y) { return x + y; };
            sum = whole ? block_all(sum, add, room) : warp_all(sum, add);
            for (i64 i = t; i < n; i += step) out[i] = value(g[i], y[i], sum);
        }
        return;
    }
    for (i64 l = first_index(); l < p.outer * p.inner; l += all_threads()) {
        i64 start = l / p.inner * p.n * p.inner + l % p.inner;
        const In* g = at<In>(p.a) + start;
        const In* y = at<In>(p.b) + start;
        Out* out = at<Out>(p.out) + start;
        C sum = 0;
        for (i64 i = 0; i < p.n; i++) sum += term(g[i * p.inner], y[i * p.inner]);
        for (i64 i = 0; i < p.n; i++) out[i * p.inner] = value(g[i * p.inner], y[i * p.inner], sum);
    }
}
#define SOFTMAX(NAME, F, IN, OUT, LOG, HELD) \
    KERNEL_OF_LARGE_BLOCKS(NAME, SoftmaxParams) { F<IN, OUT, LOG, HELD>(p); }
