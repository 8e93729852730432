// Negative log likelihood and cross-entropy over [N, C, L], classes in the middle. Losses of targets are summed in double.
#pragma once
#include "../device/block.cuh"

struct LossParams {
    u64 x, target, weight, out, lse, total;
    // gradients: of the result, and of x
    u64 grad, grad_x;
    // losses of targets, and what each block of the sum leaves
    u64 losses, sums;
    i64 n, c, l, ignore, reduction;
    // threads of a row where L is 1, blocks of the sum
    i64 threads, parts;
    double smoothing;
    u64 fault, kind;
};
constexpr i64 NO_REDUCTION = 0, MEAN = 1;
template <class In>
DEVICE double class_weight(const LossParams& p, i64 c) { return p.weight ? (double)Element<In>::up(at<In>(p.weight)[c]) : 1.0; }
template <class In>
DEVICE In rounded(double v) { return Element<In>::down((typename Element<In>::C)v); }
// The class of target i; -1 where it does not count, also where it is none, which is reported.
template <class T>
DEVICE i64 class_of(const LossParams& p, i64 i) {
    i64 t = (i64)at<T>(p.target)[i];
    if (t == p.ignore) return -1;
    if (t < 0 || t >= p.c) {
        report(p.fault, p.kind, t, 1, p.c);
        return -1;
    }
    return t;
}
struct Total {
    double loss, weight;
};
DEVICE Total block_total(Total s) {
    __shared__ double room[WARP];
    auto add = [](double x, double y) { return x + y; };
    s.loss = block_all(s.loss, add, room);
    __syncthreads();
    s.weight = block_all(s.weight, add, room);
    __syncthreads();
    return s;
}
template <class In>
DEVICE void leave(const LossParams& p, Total s) {
    *at<In>(p.out) = rounded<In>(p.reduction == MEAN ? s.loss / s.weight : s.loss);
    *at<double>(p.total) = s.weight;
}
// Of each target, or a block's part of their sum. LOG: losses are there already.
template <class In, class T, bool LOG>
DEVICE void nll(const LossParams& p) {
    Total s{0, 0};
    for (i64 i = first_index(); i < p.n * p.l; i += all_threads()) {
        i64 t = class_of<T>(p, i);
        double w = t < 0 ? 0 : class_weight<In>(p, t), v = 0;
        if (LOG) v = at<double>(p.losses)[i];
        else if (t >= 0) v = -w * (double)Element<In>::up(at<In>(p.x)[(i / p.l * p.c + t) * p.l + i % p.l]);
        if (p.reduction == NO_REDUCTION) at<In>(p.out)[i] = rounded<In>(v);
        s.loss += v, s.weight += w;
    }
    if (p.reduction == NO_REDUCTION && !LOG) {
        if (first_index() == 0) *at<double>(p.total) = 0;
        return;
    }
    s = block_total(s);
    if (threadIdx.x != 0) return;
    if (p.parts > 1) {
        at<Total>(p.sums)[blockIdx.x] = s;
    } else if (p.reduction == NO_REDUCTION) {
        *at<double>(p.total) = s.weight;
    } else {
        leave<In>(p, s);
    }
}
template <class In>
DEVICE void nll_parts(const LossParams& p) {
    Total s{0, 0};
    for (i64 i = threadIdx.x; i < p.parts; i += blockDim.x) s.loss += at<Total>(p.sums)[i].loss, s.weight += at<Total>(p.sums)[i].weight;
    s = block_total(s);
    if (threadIdx.x != 0) return;
    if (p.reduction == NO_REDUCTION) *at<double>(p.total) = s.weight;
    else leave<In>(p, s);
}
#define NLL(NAME, IN, T, LOG)                                               \
    KERNEL_WITH_BARRIERS(NAME, LossParams) { nll<IN, T, LOG>(p); }          \
    KERNEL_WITH_BARRIERS(NAME##_parts, LossParams) { nll_parts<IN>(p); }

// What the gradient of target i's loss is multiplied by, before the class weight.
template <class In>
DEVICE double upstream(const LossParams& p, i64 i) {
    double g = (double)Element<In>::up(at<In>(p.grad)[p.reduction == NO_REDUCTION ? i : 0]);
    return p.reduction == MEAN ? g / *at<double>(p.total) : g;
}
// The gradient was zeroed before.
template <class In, class T>
DEVICE void nll_backward(const LossParams& p) {
    for (i64 i = first_index(); i < p.n * p.l; i += all_threads()) {
        i64 t = class_of<T>(p, i);
        if (t >= 0) at<In>(p.grad_x)[(i / p.l * p.c + t) * p.l + i % p.l] = rounded<In>(-class_weight<In>(p, t) * upstream<In>(p, i));
    }
}
#define NLL_BACKWARD(NAME, IN, T) \
    KERNEL(NAME, LossParams) { nll_backward<IN, T>(p); }

// The largest logit so far, and the sum of exp(x - largest).
template <class C>
struct LogSum {
    C most, sum;
    DEVICE void add(C v) {
        if (v > most || v != v) sum = (most == -Consts<C>::INF() ? C(0) : sum * num::exp(most - v)) + C(1), most = v;
        else if (v != -Consts<C>::INF()) sum += num::exp(v - most);
    }
    static DEVICE LogSum join(LogSum a, LogSum b) {
        if (a.most != a.most) return a;
        if (b.most != b.most) return b;
        if (a.most < b.most) return join(b, a);
        if (b.most == -Consts<C>::INF() || a.most == Consts<C>::INF()) return a;
        return {a.most, a.sum + b.sum * num::exp(b.most - a.most)};
    }
    DEVICE double end() const {
        if (num::abs(most) == Consts<C>::INF()) return Consts<double>::NAN_();
        return (double)most + (double)num::ln(sum);
    }
};
template <class In, class T>
DEVICE void leave_loss(const LossParams& p, i64 i, double log, double weighted, double all) {
    i64 t = class_of<T>(p, i);
    double loss = 0;
    if (t >= 0) {
        double hard = class_weight<In>(p, t) * (log - (double)Element<In>::up(at<In>(p.x)[(i / p.l * p.c + t) * p.l + i % p.l]));
        loss = p.smoothing > 0 ? (1 - p.smoothing) * hard + p.smoothing / (double)p.c * (all * log - weighted) : hard;
    }
    at<double>(p.lse)[i] = log;
    at<double>(p.losses)[i] = loss;
}
template <class In, class T>
DEVICE void cross_entropy(const LossParams& p) {
    typedef typename Element<In>::C C;
    bool smooth = p.smoothing > 0;
    if (p.l == 1) {
        __shared__ C room[WARP];
        u32 step = (u32)p.threads, t = threadIdx.x % step, lines = blockDim.x / step;
        bool whole = step == blockDim.x;
        auto add = [](C x, C y) { return x + y; };
        auto larger = [](C x, C y) { return num::maximum(x, y); };
        i64 rounds = (p.n + (i64)gridDim.x * lines - 1) / ((i64)gridDim.x * lines);
        for (i64 r = 0; r < rounds; r++) {
            i64 row = (r * gridDim.x + blockIdx.x) * lines + threadIdx.x / step, n = row < p.n ? p.c : 0;
            const In* x = at<In>(p.x) + (n ? row * p.c : 0);
            LogSum<C> s{-Consts<C>::INF(), 0};
            C weighted = 0, weights = 0;
            walk(x, n, t, step, [&](In v, i64 c) {
                s.add(Element<In>::up(v));
                if (smooth) {
                    C w = (C)class_weight<In>(p, c);
                    weighted += w * Element<In>::up(v), weights += w;
                }
            });
            C most = whole ? block_all(s.most, larger, room) : warp_all(s.most, larger);
            C own = s.most == -Consts<C>::INF() || num::abs(most) == Consts<C>::INF() ? C(0) : s.sum * num::exp(s.most - most);
            auto all = [&](C v) { return whole ? block_all(v, add, room) : warp_all(v, add); };
            s = {most, all(own)};
            if (smooth) weighted = all(weighted), weights = all(weights);
            if (n && t == 0) leave_loss<In, T>(p, row, s.end(), weighted, weights);
        }
        return;
    }
    for (i64 i = first_index(); i < p.n * p.l; i += all_threads()) {
        const In* x = at<In>(p.x) + i / p.l * p.c * p.l + i % p.l;
        LogSum<C> s{-Consts<C>::INF(), 0};
        C weighted = 0, weights = 0;
        for (i64 c = 0; c < p.c; c++) {
            C v = Element<In>::up(x[c * p.l]);
            s.add(v);
            if (smooth) {
                C w = (C)class_weight<In>(p, c);
                weighted += w * v, weights += w;
            }
        }
        leave_loss<In, T>(p, i, s.end(), weighted, weights);
    }
}
#define CROSS_ENTROPY(NAME, IN, T) \
    KERNEL_OF_LARGE_BLOCKS(NAME, LossParams, 1024) { cross_entropy<IN, T>(p); }

template <class In, class T>
DEVICE void cross_entropy_backward(const LossParams& p) {
    typedef typename Element<In>::C C;
    double smooth = p.smoothing / (double)(p.c > 0 ? p.c : 1);
    // of one target: its class, the factor of its softmax, and the factor of all
    auto value = [&](In x, i64 c, i64 t, C log, C hard, C full, C up) {
        if (t < 0) return Element<In>::down(C(0));
        C g = num::exp(Element<In>::up(x) - log) * full;
        if (smooth > 0) g -= (C)(smooth * class_weight<In>(p, c));
        if (c == t) g -= hard;
        return Element<In>::down(g * up);
    };
    if (p.l == 1) {
        __shared__ C room[WARP];
        u32 step = (u32)p.threads, k = threadIdx.x % step, lines = blockDim.x / step;
        bool whole = step == blockDim.x;
        auto add = [](C x, C y) { return x + y; };
        i64 rounds = (p.n + (i64)gridDim.x * lines - 1) / ((i64)gridDim.x * lines);
        for (i64 r = 0; r < rounds; r++) {
            i64 row = (r * gridDim.x + blockIdx.x) * lines + threadIdx.x / step, n = row < p.n ? p.c : 0;
            C weights = (C)p.c;
            if (smooth > 0 && p.weight) {
                weights = 0;
                for (i64 c = k; c < n; c += step) weights += (C)class_weight<In>(p, c);
                weights = whole ? block_all(weights, add, room) : warp_all(weights, add);
            }
            if (!n) continue;
            i64 t = class_of<T>(p, row);
            C hard = t < 0 ? C(0) : (C)((1 - p.smoothing) * class_weight<In>(p, t)), up = t < 0 ? C(0) : (C)upstream<In>(p, row);
            C log = (C)at<double>(p.lse)[row], full = hard + (C)smooth * weights;
            rewrite(at<In>(p.x) + row * p.c, at<In>(p.grad_x) + row * p.c, n, k, step, [&](In x, i64 c) { return value(x, c, t, log, hard, full, up); });
        }
        return;
    }
    for (i64 i = first_index(); i < p.n * p.l; i += all_threads()) {
        i64 start = i / p.l * p.c * p.l + i % p.l, t = class_of<T>(p, i);
        C weights = (C)p.c;
        if (smooth > 0 && p.weight) {
            weights = 0;
            for (i64 c = 0; c < p.c; c++) weights += (C)class_weight<In>(p, c);
        }
        C hard = t < 0 ? C(0) : (C)((1 - p.smoothing) * class_weight<In>(p, t)), up = t < 0 ? C(0) : (C)upstream<In>(p, i);
        C log = (C)at<double>(p.lse)[i], full = hard + (C)smooth * weights;
        for (i64 c = 0; c < p.c; c++) at<In>(p.grad_x)[start + c * p.l] = value(at<In>(p.x)[start + c * p.l], c, t, log, hard, full, up);
    }
}
#define CROSS_ENTROPY_BACKWARD(NAME, IN, T) \
    KERNEL_OF_LARGE_BLOCKS(NAME, LossParams, 1024) { cross_entropy_backward<IN, T>(p); }
