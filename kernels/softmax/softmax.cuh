// Softmax and its logarithm along one dimension, and their gradients: a thread for each line.
#pragma once
#include "../device/number.cuh"

struct SoftmaxParams {
    // results, inputs, and for gradients the results of the forward pass, all dense: lines of `n` elements `inner` apart
    u64 out, a, b;
    i64 outer, n, inner;
};
template <class In, class Out, bool LOG>
DEVICE void softmax(const SoftmaxParams& p) {
    typedef typename Element<In>::C C;
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
            C x = Element<In>::up(a[i * p.inner]) - most;
            out[i * p.inner] = Element<Out>::down(LOG ? x - log : num::exp(x) / sum);
        }
    }
}
template <class In, class Out, bool LOG>
DEVICE void softmax_backward(const SoftmaxParams& p) {
    typedef typename Element<In>::C C;
    for (i64 l = first_index(); l < p.outer * p.inner; l += all_threads()) {
        i64 start = l / p.inner * p.n * p.inner + l % p.inner;
        const In* g = at<In>(p.a) + start;
        const In* y = at<In>(p.b) + start;
        Out* out = at<Out>(p.out) + start;
        C sum = 0;
        for (i64 i = 0; i < p.n; i++) {
            C v = Element<In>::up(g[i * p.inner]);
            sum += LOG ? v : v * Element<In>::up(y[i * p.inner]);
        }
        for (i64 i = 0; i < p.n; i++) {
            C v = Element<In>::up(g[i * p.inner]), r = Element<In>::up(y[i * p.inner]);
            out[i * p.inner] = Element<Out>::down(LOG ? v - num::exp(r) * sum : r * (v - sum));
        }
    }
}
#define SOFTMAX(NAME, F, IN, OUT, LOG) \
    KERNEL(NAME, SoftmaxParams) { F<IN, OUT, LOG>(p); }
