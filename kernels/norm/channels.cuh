// Norms of channels, [N, C, L] in memory: statistics of each channel over samples and places, what follows of them, and the
// elements. Gradients of group norm share them: there the rows of all samples are channels of their own.
#pragma once
#include "rows.cuh"

struct ChannelParams {
    // elements, gradients
    u64 x, g;
    i64 n, c, l;
    // divisions by the length of a row in packs
    i64 division;
    // threads of a channel, channels of a block, whether neighbouring threads take neighbouring channels, blocks that share one
    i64 threads, results, turned, parts;
    u64 states;
    // parameters, statistics, their gradients
    u64 weight, bias, mean, invstd, running_mean, running_var, grad_weight, grad_bias;
    // what the elements need of each channel: a list of C of as many channels for each number
    u64 coefficients;
    // channels that share a mean (gradients of group norm), whether the batch's statistics count, whether the input lay densely
    i64 per, train, dense;
    double momentum, eps;
};
// Moments by Welford's rule for packs, joined by Chan's.
template <class C>
struct Moments {
    C n, mean, squares;
    DEVICE void join(Moments b) {
        if (b.n == 0) return;
        C total = n + b.n, away = b.mean - mean, share = b.n / total;
        mean += away * share;
        squares += b.squares + away * away * n * share;
        n = total;
    }
    template <int V>
    DEVICE void add(const C* x, const C*, C) {
        C sum = 0, q = 0;
        for (int v = 0; v < V; v++) sum += x[v];
        C m = sum / C(V);
        for (int v = 0; v < V; v++) q += (x[v] - m) * (x[v] - m);
        join(Moments{C(V), m, q});
    }
    static constexpr bool PAIRS = false;
};
// Sums of g and of g * (x - mean).
template <class C>
struct Dots {
    C sum, dot;
    DEVICE void join(Dots b) { sum += b.sum, dot += b.dot; }
    template <int V>
    DEVICE void add(const C* x, const C* g, C mean) {
        for (int v = 0; v < V; v++) sum += g[v], dot += g[v] * (x[v] - mean);
    }
    static constexpr bool PAIRS = true;
};
template <class In, class P, class S>
struct Finish;
// Statistics and gradients of each channel, in double as there are few. Halves round as PyTorch's do: the statistics first, where
// the input lay densely, and each step of the running ones in bfloat16.
template <class P> struct Rounding { static constexpr bool NARROW = false, STEPS = false; };
template <> struct Rounding<f16> { static constexpr bool NARROW = true, STEPS = false; };
template <> struct Rounding<bf16> { static constexpr bool NARROW = true, STEPS = true; };
template <class P> DEVICE double loaded(u64 a, i64 i, double otherwise) { return a ? (double)Element<P>::up(at<P>(a)[i]) : otherwise; }
template <class P> DEVICE void stored(u64 a, i64 i, double v) {
    if (a) at<P>(a)[i] = Element<P>::down((typename Element<P>::C)v);
}
template <class In, class P>
struct Finish<In, P, Moments<typename Element<In>::C>> {
    typedef typename Element<In>::C C;
    static DEVICE double round(double v) { return Rounding<P>::NARROW ? (double)Element<P>::up(Element<P>::down((typename Element<P>::C)v)) : v; }
    static DEVICE double moved(double old, double now, double momentum) {
        if (Rounding<P>::STEPS) return round(round(momentum) * round(now)) + round(round(1 - momentum) * old);
        return momentum * now + (1 - momentum) * old;
    }
    static DEVICE void channel(const ChannelParams& p, i64 ch, Moments<C> s) {
        double count = (double)p.n * (double)p.l, mean = s.mean, var = s.squares / count;
        if (p.dense && Rounding<P>::NARROW) mean = round(mean), var = round(var * count) / count;
        double inv = var + p.eps == 0 ? 0 : round(1 / num::sqrt(var + p.eps));
        stored<P>(p.mean, ch, mean);
        stored<P>(p.invstd, ch, inv);
        if (p.running_mean) stored<P>(p.running_mean, ch, moved(loaded<P>(p.running_mean, ch, 0), mean, p.momentum));
        if (p.running_var) stored<P>(p.running_var, ch, moved(loaded<P>(p.running_var, ch, 0), var * count / (count - 1), p.momentum));
        C* to = at<C>(p.coefficients);
        to[ch] = (C)round(mean);
        to[p.c + ch] = (C)(inv * loaded<P>(p.weight, ch, 1));
        to[2 * p.c + ch] = (C)loaded<P>(p.bias, ch, 0);
    }
};
template <class In, class P>
struct Finish<In, P, Dots<typename Element<In>::C>> {
    typedef typename Element<In>::C C;
    static DEVICE void channel(const ChannelParams& p, i64 ch, Dots<C> s) {
        if (p.per) {
            // group norm goes on by itself
            at<C>(p.coefficients)[ch] = s.sum;
            at<C>(p.coefficients)[p.c + ch] = s.dot;
            return;
        }
        double count = (double)p.n * (double)p.l, spread = loaded<P>(p.invstd, ch, 0);
        double inv = p.train ? spread : (double)(C)(1 / num::sqrt(spread + p.eps));
        stored<P>(p.grad_weight, ch, s.dot * inv);
        stored<P>(p.grad_bias, ch, s.sum);
        double scale = inv * loaded<P>(p.weight, ch, 1);
        C* to = at<C>(p.coefficients);
        to[ch] = (C)scale;
        to[p.c + ch] = (C)loaded<P>(p.mean, ch, 0);
        to[2 * p.c + ch] = p.train ? (C)(s.dot * inv * inv / count * scale) : C(0);
        to[3 * p.c + ch] = p.train ? (C)(s.sum / count * scale) : C(0);
    }
};
template <class In, class P, class S>
DEVICE void channels(const ChannelParams& p) {
    typedef typename Element<In>::C C;
    __shared__ S room[256];
    u32 threads = (u32)p.threads, results = (u32)p.results;
    u32 x = p.turned ? threadIdx.x / results : threadIdx.x % threads, y = p.turned ? threadIdx.x % results : threadIdx.x / threads;
    constexpr int V = pack_of<In>();
    bool packs = p.l % V == 0 && fits_packs(p.x) && fits_packs(p.g) && !p.turned;
    i64 wide = packs ? V : 1, per_row = p.l / wide, all = p.n * per_row, groups = (p.c + results - 1) / results;
    bool small = all < 0x7fffffff;
    Quotient rows(per_row, (u64)p.division);
    for (i64 b = blockIdx.x; b < groups * p.parts; b += gridDim.x) {
        i64 part = b % p.parts, ch = b / p.parts * results + y;
        S s{};
        if (ch < p.c) {
            C mean = S::PAIRS ? (C)loaded<P>(p.mean, p.per ? ch / p.per : ch, 0) : C(0);
            auto place = [&](i64 i) {
                i64 r = small ? (i64)rows.of((u32)i) : i / per_row;
                return (r * p.c + ch) * p.l + (i - r * per_row) * wide;
            };
            i64 i = part * threads + x, step = threads * p.parts;
            if (packs) {
#pragma unroll 2
                for (; i < all; i += step) {
                    i64 a = place(i);
                    Pack<In, V> e = *reinterpret_cast<const Pack<In, V>*>(at<In>(p.x) + a), g{};
                    if (S::PAIRS) g = *reinterpret_cast<const Pack<In, V>*>(at<In>(p.g) + a);
                    C u[V], w[V];
#pragma unroll
                    for (int v = 0; v < V; v++) u[v] = Element<In>::up(e.v[v]), w[v] = S::PAIRS ? Element<In>::up(g.v[v]) : C(0);
                    s.template add<V>(u, w, mean);
                }
            } else {
#pragma unroll 4
                for (; i < all; i += step) {
                    i64 a = place(i);
                    C u = Element<In>::up(at<In>(p.x)[a]), w = S::PAIRS ? Element<In>::up(at<In>(p.g)[a]) : C(0);
                    s.template add<1>(&u, &w, mean);
                }
            }
        }
        room[threadIdx.x] = s;
        __syncthreads();
        u32 apart = p.turned ? results : 1;
        for (u32 half = threads / 2; half > 0; half /= 2) {
            if (x < half) room[threadIdx.x].join(room[threadIdx.x + half * apart]);
            __syncthreads();
        }
        if (x == 0 && ch < p.c) {
            if (p.parts > 1) at<S>(p.states)[ch * p.parts + part] = room[threadIdx.x];
            else Finish<In, P, S>::channel(p, ch, room[threadIdx.x]);
        }
        __syncthreads();
    }
}
// The states of all parts of a channel, by one warp.
template <class In, class P, class S>
DEVICE void channel_parts(const ChannelParams& p) {
    __shared__ S room[WARP];
    for (i64 ch = blockIdx.x; ch < p.c; ch += gridDim.x) {
        S s{};
        for (i64 i = threadIdx.x; i < p.parts; i += WARP) s.join(at<S>(p.states)[ch * p.parts + i]);
        room[threadIdx.x] = s;
        __syncthreads();
        for (u32 half = WARP / 2; half > 0; half /= 2) {
            if (threadIdx.x < half) room[threadIdx.x].join(room[threadIdx.x + half]);
            __syncthreads();
        }
        if (threadIdx.x == 0) Finish<In, P, S>::channel(p, ch, room[0]);
        __syncthreads();
    }
}
#define CHANNELS(NAME, IN, P, S)                                                                                            \
    KERNEL_WITH_BARRIERS(NAME, ChannelParams) { channels<IN, P, S<typename Element<IN>::C>>(p); }                           \
    KERNEL_WITH_BARRIERS(NAME##_parts, ChannelParams) { channel_parts<IN, P, S<typename Element<IN>::C>>(p); }

// What the elements of a row need.
template <class C>
struct Coefficients {
    C scale, mean, slope, offset;
};
struct NormElementsParams {
    u64 out, x, g;
    // elements of a row, rows that have coefficients of their own (the others repeat them), all elements
    i64 l, c, all, division;
    u64 coefficients, weight, mean, invstd;
    // channels of a group, channels
    i64 per, channels;
    double eps;
};
// out = (x - mean) * scale + offset with the batch's statistics.
template <class In, class P>
struct Forward {
    typedef typename Element<In>::C C;
    static constexpr bool PAIRS = false;
    static DEVICE Coefficients<C> of(const NormElementsParams& p, i64 ch) {
        const C* k = at<C>(p.coefficients);
        return {k[p.c + ch], k[ch], 0, k[2 * p.c + ch]};
    }
    static DEVICE C f(const Coefficients<C>& k, C x, C) { return (x - k.mean) * k.scale + k.offset; }
};
// The same with the running ones; the bias stands in the place of coefficients.
template <class In, class P>
struct Evaluate : Forward<In, P> {
    typedef typename Element<In>::C C;
    static DEVICE Coefficients<C> of(const NormElementsParams& p, i64 ch) {
        double scale = loaded<P>(p.weight, ch, 1) / num::sqrt(loaded<P>(p.invstd, ch, 1) + p.eps);
        return {(C)scale, (C)loaded<P>(p.mean, ch, 0), 0, (C)loaded<P>(p.coefficients, ch, 0)};
    }
};
// g * scale - (x - mean) * slope - offset
template <class In, class P>
struct Backward {
    typedef typename Element<In>::C C;
    static constexpr bool PAIRS = true;
    static DEVICE Coefficients<C> of(const NormElementsParams& p, i64 ch) {
        const C* k = at<C>(p.coefficients);
        return {k[ch], k[p.c + ch], k[2 * p.c + ch], k[3 * p.c + ch]};
    }
    static DEVICE C f(const Coefficients<C>& k, C x, C g) { return g * k.scale - (x - k.mean) * k.slope - k.offset; }
};
template <class In, class P>
struct GroupBackward : Backward<In, P> {
    typedef typename Element<In>::C C;
    static DEVICE Coefficients<C> of(const NormElementsParams& p, i64 row) {
        i64 group = row / p.per;
        const C* k = at<C>(p.coefficients);
        return {(C)(loaded<P>(p.invstd, group, 0) * loaded<P>(p.weight, row % p.channels, 1)), (C)loaded<P>(p.mean, group, 0), k[2 * group], k[2 * group + 1]};
    }
};
template <class In, class F>
DEVICE void norm_elements(const NormElementsParams& p) {
    typedef typename Element<In>::C C;
    constexpr int V = pack_of<In>();
    i64 packs = fits_packs(p.x) && fits_packs(p.g) && fits_packs(p.out) ? p.all / V : 0;
    bool small = p.all < 0x7fffffff;
    Quotient rows(p.l, (u64)p.division);
    auto row_of = [&](i64 i) { return small ? (i64)rows.of((u32)i) : i / p.l; };
    for (i64 i = first_index(); i < packs; i += all_threads()) {
        i64 r = row_of(i * V), j = i * V - r * p.l, ch = r % p.c;
        Pack<In, V> x = at<Pack<In, V>>(p.x)[i], g = x, out;
        if (F::PAIRS) g = at<Pack<In, V>>(p.g)[i];
        auto k = F::of(p, ch);
#pragma unroll
        for (int v = 0; v < V; v++) {
            if (j == p.l) {
                j = 0;
                ch = ch + 1 == p.c ? 0 : ch + 1;
                k = F::of(p, ch);
            }
            out.v[v] = Element<In>::down(F::f(k, Element<In>::up(x.v[v]), Element<In>::up(g.v[v])));
            j++;
        }
        at<Pack<In, V>>(p.out)[i] = out;
    }
    for (i64 i = packs * V + first_index(); i < p.all; i += all_threads()) {
        auto k = F::of(p, row_of(i) % p.c);
        C x = Element<In>::up(at<In>(p.x)[i]), g = F::PAIRS ? Element<In>::up(at<In>(p.g)[i]) : C(0);
        at<In>(p.out)[i] = Element<In>::down(F::f(k, x, g));
    }
}
#define NORM_ELEMENTS(NAME, F, IN, P) \
    KERNEL(NAME, NormElementsParams) { norm_elements<IN, F<IN, P>>(p); }

// Group norm's gradient: slope and offset of each group from the sums of its rows, by a warp; then the parameters' sums over
// samples, a thread for each channel.
struct GroupParams {
    u64 sums, coefficients, weight, mean, rstd, grad_weight, grad_bias;
    i64 n, c, groups, per, l;
};
template <class In, class P>
DEVICE void group_coefficients(const GroupParams& p) {
    typedef typename Element<In>::C C;
    i64 warps = all_threads() / WARP, rows = p.n * p.c;
    for (i64 g = first_index() / WARP; g < p.n * p.groups; g += warps) {
        C s = 0, d = 0;
        for (i64 i = threadIdx.x % WARP; i < p.per; i += WARP) {
            C w = (C)loaded<P>(p.weight, (g * p.per + i) % p.c, 1);
            s += at<C>(p.sums)[g * p.per + i] * w;
            d += at<C>(p.sums)[rows + g * p.per + i] * w;
        }
        auto add = [](C x, C y) { return x + y; };
        s = warp_all(s, add), d = warp_all(d, add);
        C inv = (C)loaded<P>(p.rstd, g, 0), count = (C)((double)p.per * (double)p.l);
        if (threadIdx.x % WARP == 0) {
            at<C>(p.coefficients)[2 * g] = d * inv * inv * inv / count;
            at<C>(p.coefficients)[2 * g + 1] = s * inv / count;
        }
    }
}
template <class In, class P>
DEVICE void group_parameters(const GroupParams& p) {
    typedef typename Element<In>::C C;
    for (i64 ch = first_index(); ch < p.c; ch += all_threads()) {
        C dot = 0, sum = 0;
        for (i64 i = 0; i < p.n; i++) {
            sum += at<C>(p.sums)[i * p.c + ch];
            dot += at<C>(p.sums)[p.n * p.c + i * p.c + ch] * (C)loaded<P>(p.rstd, i * p.groups + ch / p.per, 0);
        }
        stored<P>(p.grad_weight, ch, dot);
        stored<P>(p.grad_bias, ch, sum);
    }
}
#define GROUP_NORM_BACKWARD(NAME, IN, P)                                              \
    KERNEL_WITH_BARRIERS(NAME, GroupParams) { group_coefficients<IN, P>(p); }         \
    KERNEL(NAME##_parameters, GroupParams) { group_parameters<IN, P>(p); }
