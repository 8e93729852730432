// Tensors of random numbers. Threads have a sequence each, blocks 256 threads, and a thread takes what a call of the generator
// gives for elements that lie as many apart as there are threads: the numbers depend on how many there are.
#pragma once
#include "philox.cuh"

struct DrawParams {
    // the tensor in the order of its memory
    Geometry g;
    u64 seed, offset;
    double a, b;
    // of integers: how many there are to draw from, 0 for all, and the first
    u64 range;
    i64 base;
};
// What one call of the generator gives.
template <class V> struct Uniform;
template <> struct Uniform<float> {
    typedef float R;
    static constexpr int N = 4;
    static DEVICE void draw(Philox& g, R* r) {
        Words4 w = g.four();
        r[0] = uniform_of(w.x), r[1] = uniform_of(w.y), r[2] = uniform_of(w.z), r[3] = uniform_of(w.w);
    }
};
template <> struct Uniform<double> {
    typedef double R;
    static constexpr int N = 2;
    static DEVICE void draw(Philox& g, R* r) {
        Words4 w = g.four();
        r[0] = uniform_of(w.x, w.y), r[1] = uniform_of(w.z, w.w);
    }
};
template <class V> struct Normals;
template <> struct Normals<float> {
    typedef float R;
    static constexpr int N = 4;
    static DEVICE void draw(Philox& g, R* r) {
        Words4 w = g.four();
        Pair2<float> a = normals_of(w.x, w.y), b = normals_of(w.z, w.w);
        r[0] = a.x, r[1] = a.y, r[2] = b.x, r[3] = b.y;
    }
};
template <> struct Normals<double> {
    typedef double R;
    static constexpr int N = 2;
    static DEVICE void draw(Philox& g, R* r) {
        Words4 w = g.four();
        Pair2<double> a = normals_of(w.x, w.y, w.z, w.w);
        r[0] = a.x, r[1] = a.y;
    }
};
template <class V> struct Bits;
template <> struct Bits<u32> {
    typedef u32 R;
    static constexpr int N = 4;
    static DEVICE void draw(Philox& g, R* r) {
        Words4 w = g.four();
        r[0] = w.x, r[1] = w.y, r[2] = w.z, r[3] = w.w;
    }
};
template <> struct Bits<u64> {
    typedef u64 R;
    static constexpr int N = 2;
    static DEVICE void draw(Philox& g, R* r) {
        Words4 w = g.four();
        r[0] = (u64)w.x << 32 | w.y, r[1] = (u64)w.z << 32 | w.w;
    }
};
// What becomes of a number: an element of `T` by the numbers of the call.
template <class V> DEVICE V last_digit();
template <> DEVICE float last_digit() { return 1.1920928955078125e-07f; }
template <> DEVICE double last_digit() { return 2.220446049250313e-16; }
template <class T>
struct ToUniform {
    typedef typename Element<T>::C C;
    static DEVICE T of(C r, const DrawParams& p) {
        // ends as the elements hold them; the upper one counts as the lower
        C from = Element<T>::up(Element<T>::down((C)p.a)), to = Element<T>::up(Element<T>::down((C)p.b));
        C range = Element<T>::up(Element<T>::down(to - from));
        C v = Element<T>::up(Element<T>::down(num::fma(r, range, from)));
        return Element<T>::down(v == to ? from : v);
    }
};
template <class T>
struct ToNormal {
    typedef typename Element<T>::C C;
    static DEVICE T of(C r, const DrawParams& p) { return Element<T>::down(num::fma(r, (C)p.b, (C)p.a)); }
};
template <class T>
struct ToLogNormal {
    typedef typename Element<T>::C C;
    static DEVICE T of(C r, const DrawParams& p) { return Element<T>::down(num::exp(num::fma(r, (C)p.b, (C)p.a))); }
};
template <class T>
struct ToExponential {
    typedef typename Element<T>::C C;
    static DEVICE T of(C r, const DrawParams& p) {
        // 0 is no such number
        C half = last_digit<C>() / 2, log = r >= C(1) - half ? -half : num::ln(r);
        return Element<T>::down(C(-1) / (C)p.a * log);
    }
};
template <class T>
struct ToCauchy {
    typedef typename Element<T>::C C;
    static DEVICE T of(C r, const DrawParams& p) {
        C e = last_digit<C>();
        r = r > C(1) - e ? C(1) - e : r < e ? e : r;
        return Element<T>::down(num::fma((C)p.b, num::tan((C)3.14159265358979323846 * (r - C(0.5))), (C)p.a));
    }
};
template <class T>
struct ToGeometric {
    template <class V>
    static DEVICE T of(V r, const DrawParams& p) {
        return Element<T>::down(Convert<typename Element<T>::C, V>::of(num::ceil(num::ln(r) / num::log1p(-(V)p.a))));
    }
};
template <class T>
struct ToOnes {
    template <class V>
    static DEVICE T of(V r, const DrawParams& p) { return Element<T>::down(Convert<typename Element<T>::C, i64>::of(r < (V)p.a)); }
};
template <class T>
struct ToInteger {
    template <class V>
    static DEVICE T of(V r, const DrawParams& p) {
        i64 v = (i64)((p.range ? (u64)(r % (V)p.range) : (u64)r) + (u64)p.base);
        return Element<T>::down(Convert<typename Element<T>::C, i64>::of(v));
    }
};
template <class T, class SOURCE, class F>
DEVICE void draw(const DrawParams& p) {
    typedef typename SOURCE::R R;
    constexpr int N = SOURCE::N;
    i64 threads = all_threads();
    Philox g(p.seed, (u64)first_index(), p.offset);
    for (i64 first = first_index(); first < p.g.n; first += threads * N) {
        R r[N];
        SOURCE::draw(g, r);
#pragma unroll
        for (int k = 0; k < N; k++) {
            i64 i = first + threads * k;
            if (i >= p.g.n) continue;
            u64 a[OPERANDS];
            places<1>(p.g, i, a);
            *at<T>(a[0]) = F::of(r[k], p);
        }
    }
}
#define DRAW(NAME, T, SOURCE, F) \
    KERNEL(NAME, DrawParams) { draw<T, SOURCE, F<T>>(p); }

// Ones by probabilities: a thread has four neighbours, in the order of the memory.
struct OnesParams {
    // the tensor, the probabilities
    Geometry g;
    u64 seed, offset, fault, kind;
};
template <class T, class P>
DEVICE void draw_ones(const OnesParams& p) {
    for (i64 t = first_index(); t * 4 < p.g.n; t += all_threads()) {
        Philox g(p.seed, (u64)t, p.offset);
        float r[4];
        Uniform<float>::draw(g, r);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (t * 4 + k >= p.g.n) continue;
            u64 a[OPERANDS];
            places<2>(p.g, t * 4 + k, a);
            P chance = *at<P>(a[1]);
            if (!(chance >= 0 && chance <= 1)) report(p.fault, p.kind, t * 4 + k, 0, p.g.n);
            *at<T>(a[0]) = Element<T>::down(Convert<typename Element<T>::C, i64>::of(r[k] <= chance));
        }
    }
}
#define DRAW_ONES(NAME, T, P) \
    KERNEL(NAME, OnesParams) { draw_ones<T, P>(p); }

// Places with one sorted key: shuffled by the first of them (Fisher and Yates).
struct ShuffleParams {
    u64 keys, values;
    i64 n, bits;
    u64 seed, offset;
};
DEVICE void shuffle(const ShuffleParams& p) {
    const u64* keys = at<u64>(p.keys);
    i64* values = at<i64>(p.values);
    for (i64 t = first_index(); t + 1 < p.n; t += all_threads()) {
        u64 key = keys[t];
        if (keys[t + 1] != key || (t > 0 && keys[t - 1] == key)) continue;
        i64 size = 2;
        while (t + size < p.n && keys[t + size] == key) size++;
        Philox g(p.seed, (u64)t, p.offset);
        for (i64 i = size - 1; i > 0; i--) {
            i64 r = g.one() % (u32)(i + 1);
            i64 v = values[t + i];
            values[t + i] = values[t + r];
            values[t + r] = v;
        }
    }
}
// Random integers as keys of so many bits.
struct MaskParams {
    u64 in, out;
    i64 n, bits;
};
DEVICE void mask_keys(const MaskParams& p) {
    u64 mask = p.bits >= 64 ? ~(u64)0 : ((u64)1 << p.bits) - 1;
    for (i64 i = first_index(); i < p.n; i += all_threads()) at<u64>(p.out)[i] = (u64)at<i64>(p.in)[i] & mask;
}
#define SHUFFLE(NAME)                                    \
    KERNEL(NAME, ShuffleParams) { shuffle(p); }          \
    KERNEL(NAME##_mask, MaskParams) { mask_keys(p); }

// Categories drawn by running sums of their weights: rows of blocks have a row of weights each.
struct ChoiceParams {
    u64 sums, weights, out;
    i64 rows, categories, samples;
    // blocks of a row, and rows of blocks
    i64 across, down;
    u64 seed, offset;
};
template <class T>
DEVICE void choose(const ChoiceParams& p) {
    i64 across = blockIdx.x % p.across, row = blockIdx.x / p.across;
    i64 thread = across * blockDim.x + threadIdx.x, width = p.across * blockDim.x;
    Philox g(p.seed, (u64)(row * width + thread), p.offset);
    for (; row < p.rows; row += p.down) {
        const T* sums = at<T>(p.sums) + row * p.categories;
        const T* weights = at<T>(p.weights) + row * p.categories;
        for (i64 s = thread; s < p.samples; s += width) {
            auto r = Element<T>::up(Element<T>::down(uniform_of(g.four().x)));
            i64 low = 0, high = p.categories;
            while (low < high) {
                i64 mid = (low + high) / 2;
                if (Element<T>::up(sums[mid]) < r) low = mid + 1;
                else high = mid;
            }
            if (low == p.categories) low--;
            // a weight of nothing is never drawn
            while (low >= 1 && Element<T>::up(weights[low]) == 0) low--;
            at<i64>(p.out)[row * p.samples + s] = low;
        }
    }
}
#define CHOOSE(NAME, T) \
    KERNEL(NAME, ChoiceParams) { choose<T>(p); }
