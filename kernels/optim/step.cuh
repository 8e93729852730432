// Steps of optimizers over many parameters at once; the rules are those of crates/flambeau-cpu/src/optim/rules.rs, with the same
// numbers in the same order.
#pragma once
#include "../device/number.cuh"

constexpr int ITEMS = 48;
constexpr int NUMBERS = 12;
struct StepParams {
    // parameter, gradient and what is kept of it, by item
    u64 param[ITEMS], grad[ITEMS], kept[3][ITEMS];
    i64 n[ITEMS];
    // blocks before each item, and of all
    i64 blocks[ITEMS + 1];
    i64 items;
    double numbers[NUMBERS];
    // what gradients are divided by, and where nothing is done; 0: none
    u64 scale, found_inf;
};
constexpr int STEP_BLOCK = 4096;
template <class C>
DEVICE void prepare(C& g, C p, bool maximize, double decay) {
    if (maximize) g = -g;
    if (decay != 0) g = num::fma((C)decay, p, g);
}
// `m` moves towards `g` by the part `weight`, computed from the end that is nearer.
template <class C>
DEVICE void lerp(C& m, C g, double weight) {
    C w = (C)weight;
    m = w < C(0.5) ? num::fma(w, g - m, m) : num::fma(m - g, C(1) - w, g);
}
template <class C>
DEVICE void squares(C& v, C g, double keep) { v = num::fma((C)(1.0 - keep) * g, g, v * (C)keep); }
template <class C>
DEVICE C larger(C a, C b) { return a > b || a != a ? a : b; }

struct SGD {
    static DEVICE int kept(const double* x) { return x[1] != 0; }
    template <class C>
    static DEVICE void step(C& p, C& g, C* k, const double* x) {
        prepare(g, p, x[5] != 0, x[3]);
        if (x[1] != 0) {
            k[0] = x[6] != 0 ? g : num::fma((C)(1.0 - x[2]), g, k[0] * (C)x[1]);
            g = x[4] != 0 ? num::fma((C)x[1], k[0], g) : k[0];
        }
        p = num::fma((C)-x[0], g, p);
    }
};
struct Adam {
    static DEVICE int kept(const double* x) { return x[6] != 0 ? 3 : 2; }
    template <class C>
    static DEVICE void step(C& p, C& g, C* k, const double* x) {
        bool decoupled = x[5] != 0;
        prepare(g, p, x[7] != 0, decoupled ? 0.0 : x[4]);
        if (decoupled && x[4] != 0) p = p * (C)(1.0 - x[0] * x[4]);
        lerp(k[0], g, 1.0 - x[1]);
        squares(k[1], g, x[2]);
        C second = k[1];
        if (x[6] != 0) second = k[2] = larger(k[1], k[2]);
        p = p + (C)(-(x[0] / x[8])) * k[0] / (num::sqrt(second) / (C)x[9] + (C)x[3]);
    }
};
struct Adamax {
    static DEVICE int kept(const double*) { return 2; }
    template <class C>
    static DEVICE void step(C& p, C& g, C* k, const double* x) {
        prepare(g, p, x[4] != 0, x[3]);
        lerp(k[0], g, 1.0 - x[0]);
        k[1] = larger(k[1] * (C)x[1], num::abs(g) + (C)x[2]);
        p = p + (C)-x[5] * k[0] / k[1];
    }
};
struct NAdam {
    static DEVICE int kept(const double*) { return 2; }
    template <class C>
    static DEVICE void step(C& p, C& g, C* k, const double* x) {
        prepare(g, p, x[5] != 0, x[3]);
        if (x[4] != 1) p = p * (C)x[4];
        lerp(k[0], g, 1.0 - x[0]);
        squares(k[1], g, x[1]);
        C under = num::sqrt(k[1] / (C)x[6]) + (C)x[2];
        p = p + (C)x[7] * g / under;
        p = p + (C)x[8] * k[0] / under;
    }
};
struct RAdam {
    static DEVICE int kept(const double*) { return 2; }
    template <class C>
    static DEVICE void step(C& p, C& g, C* k, const double* x) {
        prepare(g, p, x[6] != 0, x[4]);
        if (x[5] != 1) p = p * (C)x[5];
        lerp(k[0], g, 1.0 - x[1]);
        squares(k[1], g, x[2]);
        C move = k[0] / (C)x[7] * (C)x[0];
        if (x[8] != 0) move = move * ((C)x[9] / (num::sqrt(k[1]) + (C)x[3])) * (C)x[10];
        p = p - move;
    }
};
struct Adagrad {
    static DEVICE int kept(const double*) { return 1; }
    template <class C>
    static DEVICE void step(C& p, C& g, C* k, const double* x) {
        prepare(g, p, x[2] != 0, x[1]);
        k[0] = num::fma(g, g, k[0]);
        p = p + (C)-x[3] * g / (num::sqrt(k[0]) + (C)x[0]);
    }
};
struct Adadelta {
    static DEVICE int kept(const double*) { return 2; }
    template <class C>
    static DEVICE void step(C& p, C& g, C* k, const double* x) {
        prepare(g, p, x[4] != 0, x[3]);
        squares(k[0], g, x[1]);
        C e = (C)x[2];
        g = num::sqrt(k[1] + e) / num::sqrt(k[0] + e) * g;
        squares(k[1], g, x[1]);
        p = num::fma((C)-x[0], g, p);
    }
};
struct ASGD {
    static DEVICE int kept(const double*) { return 1; }
    template <class C>
    static DEVICE void step(C& p, C& g, C* k, const double* x) {
        prepare(g, p, x[2] != 0, x[1]);
        p = p * (C)(1.0 - x[0] * x[3]);
        p = num::fma((C)-x[3], g, p);
        k[0] = x[4] == 1 ? p : k[0] + (p - k[0]) * (C)x[4];
    }
};
struct RMSprop {
    static DEVICE int kept(const double* x) { return 1 + (x[5] != 0) + (x[4] > 0); }
    template <class C>
    static DEVICE void step(C& p, C& g, C* k, const double* x) {
        prepare(g, p, x[6] != 0, x[3]);
        squares(k[0], g, x[1]);
        C under = k[0];
        bool centered = x[5] != 0;
        if (centered) {
            lerp(k[1], g, 1.0 - x[1]);
            under = num::fma(-k[1], k[1], k[0]);
        }
        under = num::sqrt(under) + (C)x[2];
        if (x[4] > 0) {
            C b = (centered ? k[2] : k[1]) * (C)x[4] + g / under;
            if (centered) k[2] = b;
            else k[1] = b;
            p = num::fma((C)-x[0], b, p);
        } else p = p + (C)-x[0] * g / under;
    }
};
struct Rprop {
    static DEVICE int kept(const double*) { return 2; }
    template <class C>
    static DEVICE void step(C& p, C& g, C* k, const double* x) {
        prepare(g, p, x[4] != 0, 0.0);
        C agreement = g * k[0];
        // the sign of a NaN is a NaN
        C factor = agreement > 0 ? (C)x[1] : agreement < 0 ? (C)x[0] : agreement != agreement ? agreement : C(1);
        C size = k[1] * factor;
        size = size < (C)x[2] ? (C)x[2] : size;
        size = size > (C)x[3] ? (C)x[3] : size;
        C grad = agreement < 0 ? C(0) : g;
        k[1] = size;
        k[0] = grad;
        p = p - (grad > 0 ? size : grad < 0 ? -size : grad * size);
    }
};

template <class T, class R>
DEVICE void step(const StepParams& p) {
    typedef typename Element<T>::C C;
    constexpr int V = pack_of<T>();
    if (p.found_inf && *at<float>(p.found_inf) == 1) return;
    C scale = p.scale ? (C)*at<float>(p.scale) : C(1);
    int kept = R::kept(p.numbers), item = 0;
    while (item + 1 < p.items && p.blocks[item + 1] <= blockIdx.x) item++;
    i64 first = (i64)(blockIdx.x - p.blocks[item]) * STEP_BLOCK, last = first + STEP_BLOCK < p.n[item] ? first + STEP_BLOCK : p.n[item];
    T* param = at<T>(p.param[item]);
    T* grad = at<T>(p.grad[item]);
    T* own[3] = {at<T>(p.kept[0][item]), at<T>(p.kept[1][item]), at<T>(p.kept[2][item])};
    auto one = [&](T& pe, T& ge, T* ke) {
        C v = Element<T>::up(pe), g = Element<T>::up(ge), k[3];
        for (int j = 0; j < 3; j++) k[j] = j < kept ? Element<T>::up(ke[j]) : C(0);
        if (p.scale) {
            g = g / scale;
            ge = Element<T>::down(g);
            g = Element<T>::up(ge);
        }
        R::step(v, g, k, p.numbers);
        pe = Element<T>::down(v);
        for (int j = 0; j < 3; j++)
            if (j < kept) ke[j] = Element<T>::down(k[j]);
    };
    bool fits = fits_packs(p.param[item]) && fits_packs(p.grad[item]);
    for (int j = 0; j < kept; j++) fits = fits && fits_packs(p.kept[j][item]);
    i64 done = first;
    if (V > 1 && fits) {
        i64 packs = (last - first) / V;
        typedef Pack<T, V> P;
        for (i64 i = threadIdx.x; i < packs; i += blockDim.x) {
            i64 k = first / V + i;
            P a = reinterpret_cast<P*>(param)[k], g = reinterpret_cast<P*>(grad)[k], s[3];
#pragma unroll
            for (int j = 0; j < 3; j++)
                if (j < kept) s[j] = reinterpret_cast<P*>(own[j])[k];
#pragma unroll
            for (int v = 0; v < V; v++) {
                T ke[3] = {s[0].v[v], s[1].v[v], s[2].v[v]};
                one(a.v[v], g.v[v], ke);
                s[0].v[v] = ke[0], s[1].v[v] = ke[1], s[2].v[v] = ke[2];
            }
            reinterpret_cast<P*>(param)[k] = a;
            if (p.scale) reinterpret_cast<P*>(grad)[k] = g;
#pragma unroll
            for (int j = 0; j < 3; j++)
                if (j < kept) reinterpret_cast<P*>(own[j])[k] = s[j];
        }
        done = first + packs * V;
    }
    for (i64 i = done + threadIdx.x; i < last; i += blockDim.x) {
        T a = param[i], g = grad[i], ke[3];
        for (int j = 0; j < kept; j++) ke[j] = own[j][i];
        one(a, g, ke);
        param[i] = a;
        if (p.scale) grad[i] = g;
        for (int j = 0; j < kept; j++) own[j][i] = ke[j];
    }
}
#define STEP(NAME, T, R) \
    KERNEL(NAME, StepParams) { step<T, R>(p); }

// Tensors times a scale; what is not finite is told.
struct UnscaleParams {
    u64 tensor[ITEMS];
    i64 n[ITEMS], blocks[ITEMS + 1], items;
    u64 found_inf, inv_scale;
};
template <class T>
DEVICE void unscale(const UnscaleParams& p) {
    typedef typename Element<T>::C C;
    int item = 0;
    while (item + 1 < p.items && p.blocks[item + 1] <= blockIdx.x) item++;
    i64 first = (i64)(blockIdx.x - p.blocks[item]) * STEP_BLOCK, last = first + STEP_BLOCK < p.n[item] ? first + STEP_BLOCK : p.n[item];
    T* t = at<T>(p.tensor[item]);
    C scale = (C)*at<float>(p.inv_scale);
    for (i64 i = first + threadIdx.x; i < last; i += blockDim.x) {
        C v = Element<T>::up(t[i]);
        // all that write write the same
        if (!num::is_finite(v)) *at<float>(p.found_inf) = 1;
        // a scale of 1 changes nothing
        if (scale != C(1)) t[i] = Element<T>::down(v * scale);
    }
}
#define UNSCALE(NAME, T) \
    KERNEL(NAME, UnscaleParams) { unscale<T>(p); }

struct ScaleParams {
    u64 scale, tracker, found_inf;
    double growth, backoff;
    i64 interval;
};
DEVICE void update_scale(const ScaleParams& p) {
    float* scale = at<float>(p.scale);
    i32* tracker = at<i32>(p.tracker);
    if (*at<float>(p.found_inf) != 0) {
        *scale = (float)(*scale * p.backoff);
        *tracker = 0;
        return;
    }
    i64 steps = (i64)*tracker + 1;
    if (steps == p.interval) {
        // a scale that is too large for its type would make every gradient infinite
        float grown = (float)(*scale * p.growth);
        if (num::is_finite(grown)) *scale = grown;
        steps = 0;
    }
    *tracker = (i32)steps;
}
#define UPDATE_SCALE(NAME) \
    KERNEL(NAME, ScaleParams) { update_scale(p); }
