// Connectionist temporal classification: the forward-backward algorithm over the targets with blanks between them, in logarithms.
// A block has a row of the batch and walks through time; the gradient of each step is a block's of its own.
#pragma once
#include "../device/block.cuh"

struct CtcParams {
    // log probabilities [T, N, C], targets, and of each row its steps, its labels, and where they begin
    u64 p, targets, times, lengths, firsts;
    // forward variables [N, T, wide], the loss of each row
    u64 alpha, loss;
    // gradients: of the losses and of p; backward variables with the forward ones, and of two steps alone
    u64 grad, out, both, beta;
    i64 steps, rows, classes, wide, stride, blank, zero;
    u64 fault, kind;
};
template <class T>
DEVICE T never() { return -Consts<T>::INF(); }
template <class T>
DEVICE T log_of_three(T a, T b, T c) {
    T m = a > b ? a : b;
    if (c > m) m = c;
    if (m == never<T>()) m = 0;
    return num::ln(num::exp(a - m) + num::exp(b - m) + num::exp(c - m)) + m;
}
// A row of the batch.
struct CtcRow {
    const i64* labels;
    i64 stride, blank, time, length;
    DEVICE i64 states() const { return 2 * length + 1; }
    DEVICE i64 at(i64 s) const { return s % 2 == 0 ? blank : labels[s / 2 * stride]; }
};
DEVICE CtcRow ctc_row(const CtcParams& p, i64 n) {
    return {at<i64>(p.targets) + at<i64>(p.firsts)[n], p.stride, p.blank, at<i64>(p.times)[n], at<i64>(p.lengths)[n]};
}
// Whether all labels are classes; one that is none is reported.
DEVICE bool ctc_checked(const CtcParams& p, const CtcRow& r) {
    bool fine = true;
    for (i64 k = 0; k < r.length; k++) {
        i64 label = r.labels[k * r.stride];
        if (label >= 0 && label < p.classes) continue;
        fine = false;
        if (threadIdx.x == 0) report(p.fault, p.kind, label, 0, p.classes);
    }
    return fine;
}
template <class T>
DEVICE void ctc_forward(const CtcParams& p) {
    for (i64 n = blockIdx.x; n < p.rows; n += gridDim.x) {
        CtcRow r = ctc_row(p, n);
        T* alpha = at<T>(p.alpha) + n * p.steps * p.wide;
        T* loss = at<T>(p.loss) + n;
        i64 states = ctc_checked(p, r) ? r.states() : 0, time = states ? r.time : 0;
        auto prob = [&](i64 t, i64 c) { return at<T>(p.p)[(t * p.rows + n) * p.classes + c]; };
        // what no step reaches
        for (i64 i = threadIdx.x; i < p.steps * p.wide; i += blockDim.x)
            if (i / p.wide >= time || i % p.wide >= states) alpha[i] = never<T>();
        for (i64 s = threadIdx.x; time > 0 && s < states; s += blockDim.x) alpha[s] = s < 2 ? prob(0, r.at(s)) : never<T>();
        for (i64 t = 1; t < time; t++) {
            __syncthreads();
            const T* before = alpha + (t - 1) * p.wide;
            for (i64 s = threadIdx.x; s < states; s += blockDim.x) {
                i64 label = r.at(s);
                T second = s > 0 ? before[s - 1] : never<T>(), third = s > 1 && r.at(s - 2) != label ? before[s - 2] : never<T>();
                alpha[t * p.wide + s] = log_of_three(before[s], second, third) + prob(t, label);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            const T* last = alpha + (time - 1) * p.wide;
            // only the empty target comes out of no input
            if (time == 0) *loss = states == 1 ? T(0) : -never<T>();
            else *loss = -(states > 1 ? log_of_three(last[states - 1], last[states - 2], never<T>()) : last[0]);
        }
        __syncthreads();
    }
}
template <class T>
DEVICE void ctc_backward(const CtcParams& p) {
    for (i64 n = blockIdx.x; n < p.rows; n += gridDim.x) {
        CtcRow r = ctc_row(p, n);
        i64 states = ctc_checked(p, r) ? r.states() : 0;
        const T* alpha = at<T>(p.alpha) + n * p.steps * p.wide;
        T* both = at<T>(p.both) + n * p.steps * p.wide;
        T* beta = at<T>(p.beta) + n * 2 * p.wide;
        for (i64 t = r.time - 1; t >= 0; t--) {
            T* now = beta + t % 2 * p.wide;
            const T* after = beta + (t + 1) % 2 * p.wide;
            for (i64 s = threadIdx.x; s < states; s += blockDim.x) {
                i64 label = r.at(s);
                T prob = at<T>(p.p)[(t * p.rows + n) * p.classes + label], v;
                if (t + 1 == r.time) {
                    v = s + 2 >= states ? prob : never<T>();
                } else {
                    T second = s + 1 < states ? after[s + 1] : never<T>(), third = s + 2 < states && r.at(s + 2) != label ? after[s + 2] : never<T>();
                    v = log_of_three(after[s], second, third) + prob;
                }
                now[s] = v;
                both[t * p.wide + s] = alpha[t * p.wide + s] + v;
            }
            __syncthreads();
        }
    }
}
template <class T>
DEVICE void ctc_gradient(const CtcParams& p) {
    __shared__ T room[WARP];
    auto larger = [](T x, T y) { return num::maximum(x, y); };
    auto add = [](T x, T y) { return x + y; };
    for (i64 b = blockIdx.x; b < p.rows * p.steps; b += gridDim.x) {
        i64 n = b / p.steps, t = b % p.steps;
        CtcRow r = ctc_row(p, n);
        T loss = at<T>(p.loss)[n], g = at<T>(p.grad)[n];
        const T* prob = at<T>(p.p) + (t * p.rows + n) * p.classes;
        T* out = at<T>(p.out) + (t * p.rows + n) * p.classes;
        bool lost = p.zero && loss == -never<T>(), none = lost || t >= r.time;
        const T* both = at<T>(p.both) + b * p.wide;
        auto value = [&](i64 c, T sum) { return (num::exp(prob[c]) - num::exp(sum + loss - prob[c])) * g; };
        for (i64 c = threadIdx.x; c < p.classes; c += blockDim.x) out[c] = none ? T(0) : value(c, never<T>());
        if (none) continue;
        // the blank is between all labels
        T most = never<T>();
        for (i64 s = threadIdx.x; s < r.states(); s += blockDim.x)
            if (r.at(s) == r.blank) most = num::maximum(both[s], most);
        most = block_all(most, larger, room);
        if (most == never<T>()) most = 0;
        T sum = 0;
        for (i64 s = threadIdx.x; s < r.states(); s += blockDim.x)
            if (r.at(s) == r.blank) sum += num::exp(both[s] - most);
        __syncthreads();
        sum = block_all(sum, add, room);
        if (threadIdx.x == 0) out[r.blank] = value(r.blank, num::ln(sum) + most);
        // a label's first place sums up all of its places
        for (i64 k = threadIdx.x; k < r.length; k += blockDim.x) {
            i64 label = r.labels[k * r.stride];
            bool first = label != r.blank && label >= 0 && label < p.classes;
            for (i64 j = 0; j < k && first; j++) first = r.labels[j * r.stride] != label;
            if (!first) continue;
            T all = never<T>();
            for (i64 j = k; j < r.length; j++)
                if (r.labels[j * r.stride] == label) all = all == never<T>() ? both[2 * j + 1] : log_of_three(all, both[2 * j + 1], never<T>());
            out[label] = value(label, all);
        }
        __syncthreads();
    }
}
#define CTC(NAME, F, T) \
    KERNEL_WITH_BARRIERS(NAME, CtcParams) { F<T>(p); }
