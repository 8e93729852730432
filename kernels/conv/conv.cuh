// Convolutions: columns of an image for products of matrices, images from columns, and direct sums where groups have few
// channels. Three dimensions; the missing first ones are 1.
#pragma once
#include "../reduction/reduction.cuh"

struct ConvParams {
    // bias: of each channel of what is written, or none
    u64 image, columns, weight, bias;
    // samples, channels of the image and of the output, and their elements between two samples
    i64 n, c, o, image_step, output_step;
    // input channels and output channels of a group
    i64 of, to;
    i64 input[3], kernel[3], stride[3], pad[3], dilation[3], output[3];
    u64 in_quotient[3], out_quotient[3];
    // elements of the columns between two samples, channels, taps
    i64 sn, sc, st;
};
template <class T, class S>
DEVICE S widened(T v) { return Convert<S, typename Element<T>::C>::of(Element<T>::up(v)); }
template <class T, class S>
DEVICE T narrowed(S v) { return Element<T>::down(Convert<typename Element<T>::C, S>::of(v)); }
struct Spot {
    i64 plane;
    i64 at[3];
};
DEVICE Spot spot_of(const i64* extent, const u64* quotient, bool small, i64 i) {
    Spot s;
    if (small) {
        u32 rest = (u32)i;
#pragma unroll
        for (int d = 2; d >= 0; d--) {
            u32 q = Quotient(extent[d], quotient[d]).of(rest);
            s.at[d] = rest - q * (u32)extent[d];
            rest = q;
        }
        s.plane = rest;
        return s;
    }
#pragma unroll
    for (int d = 2; d >= 0; d--) {
        s.at[d] = i % extent[d];
        i /= extent[d];
    }
    s.plane = i;
    return s;
}
DEVICE i64 product_of(const i64* v) { return v[0] * v[1] * v[2]; }
// The taps along dimension d that window o finds within the input: from, to; and where the window starts.
struct Reach {
    i64 start, from, to;
};
DEVICE Reach reach_of(const ConvParams& p, int d, i64 o) {
    i64 start = o * p.stride[d] - p.pad[d], step = p.dilation[d];
    i64 from = start < 0 ? (-start + step - 1) / step : 0, room = p.input[d] - start;
    i64 to = room <= 0 ? 0 : (room - 1) / step + 1;
    return {start, from, to < p.kernel[d] ? to : p.kernel[d]};
}
// The output that tap k of input i along dimension d belongs to; below 0: none.
DEVICE i64 output_of(const ConvParams& p, int d, i64 i, i64 k) {
    i64 at = i + p.pad[d] - k * p.dilation[d];
    if (at < 0) return -1;
    i64 o = p.stride[d] == 1 ? at : at / p.stride[d];
    return o * p.stride[d] == at && o < p.output[d] ? o : -1;
}
// A thread writes all taps of a channel and a place.
template <class T>
DEVICE void im2col(const ConvParams& p) {
    i64 places = product_of(p.output), all = p.n * p.c * places;
    bool small = all < 0x7fffffff;
    for (i64 i = first_index(); i < all; i += all_threads()) {
        Spot s = spot_of(p.output, p.out_quotient, small, i);
        i64 n = s.plane / p.c, c = s.plane - n * p.c;
        T* to = at<T>(p.columns) + n * p.sn + c * p.sc + (i - s.plane * places);
        const T* x = at<T>(p.image) + n * p.image_step + c * product_of(p.input);
        i64 d0 = s.at[0] * p.stride[0] - p.pad[0], h0 = s.at[1] * p.stride[1] - p.pad[1], w0 = s.at[2] * p.stride[2] - p.pad[2];
        for (i64 a = 0; a < p.kernel[0]; a++)
            for (i64 b = 0; b < p.kernel[1]; b++) {
                i64 d = d0 + a * p.dilation[0], h = h0 + b * p.dilation[1];
                bool inside = d >= 0 && d < p.input[0] && h >= 0 && h < p.input[1];
                for (i64 k = 0; k < p.kernel[2]; k++, to += p.st) {
                    i64 w = w0 + k * p.dilation[2];
                    *to = inside && w >= 0 && w < p.input[2] ? x[(d * p.input[1] + h) * p.input[2] + w] : T{};
                }
            }
    }
}
#define IM2COL(NAME, T) \
    KERNEL(NAME, ConvParams) { im2col<T>(p); }
// A thread finds the sum of an element of the image.
template <class T, class S, class C>
DEVICE void col2im(const ConvParams& p) {
    i64 places = product_of(p.input), all = p.n * p.c * places;
    bool small = all < 0x7fffffff;
    for (i64 i = first_index(); i < all; i += all_threads()) {
        Spot s = spot_of(p.input, p.in_quotient, small, i);
        i64 n = s.plane / p.c, c = s.plane - n * p.c;
        const C* from = at<C>(p.columns) + n * p.sn + c * p.sc;
        S sum = p.bias ? widened<T, S>(at<T>(p.bias)[c]) : zero_of<S>();
        for (i64 a = 0; a < p.kernel[0]; a++) {
            i64 d = output_of(p, 0, s.at[0], a);
            if (d < 0) continue;
            for (i64 b = 0; b < p.kernel[1]; b++) {
                i64 h = output_of(p, 1, s.at[1], b);
                if (h < 0) continue;
                for (i64 k = 0; k < p.kernel[2]; k++) {
                    i64 w = output_of(p, 2, s.at[2], k);
                    if (w < 0) continue;
                    i64 tap = (a * p.kernel[1] + b) * p.kernel[2] + k;
                    sum = plus(sum, Convert<S, typename Element<C>::C>::of(Element<C>::up(from[tap * p.st + (d * p.output[1] + h) * p.output[2] + w])));
                }
            }
        }
        at<T>(p.image)[n * p.image_step + c * places + s.at[2] + p.input[2] * (s.at[1] + p.input[1] * s.at[0])] =
            Element<T>::down(Convert<typename Element<T>::C, S>::of(sum));
    }
}
#define COL2IM(NAME, T, S, C) \
    KERNEL(NAME, ConvParams) { col2im<T, S, C>(p); }

// image: the input; columns: the output.
template <class T, class S>
DEVICE void conv_direct(const ConvParams& p) {
    i64 places = product_of(p.output), inside = product_of(p.input), taps = product_of(p.kernel), all = p.n * p.o * places;
    bool small = all < 0x7fffffff;
    for (i64 i = first_index(); i < all; i += all_threads()) {
        Spot s = spot_of(p.output, p.out_quotient, small, i);
        i64 n = s.plane / p.o, o = s.plane - n * p.o;
        const T* x = at<T>(p.image) + (n * p.c + o / p.to * p.of) * inside;
        const T* weight = at<T>(p.weight) + o * p.of * taps;
        Reach d = reach_of(p, 0, s.at[0]), h = reach_of(p, 1, s.at[1]), w = reach_of(p, 2, s.at[2]);
        S sum = p.bias ? widened<T, S>(at<T>(p.bias)[o]) : zero_of<S>();
        for (i64 c = 0; c < p.of; c++, x += inside, weight += taps)
            for (i64 a = d.from; a < d.to; a++)
                for (i64 b = h.from; b < h.to; b++) {
                    const T* row = x + ((d.start + a * p.dilation[0]) * p.input[1] + h.start + b * p.dilation[1]) * p.input[2] + w.start;
                    const T* k = weight + (a * p.kernel[1] + b) * p.kernel[2];
                    for (i64 j = w.from; j < w.to; j++) sum = plus(sum, times(widened<T, S>(row[j * p.dilation[2]]), widened<T, S>(k[j])));
                }
        at<T>(p.columns)[i] = narrowed<T, S>(sum);
    }
}
// image: the gradient of the input; columns: that of the output.
template <class T, class S>
DEVICE void conv_direct_input(const ConvParams& p) {
    i64 places = product_of(p.output), inside = product_of(p.input), taps = product_of(p.kernel), all = p.n * p.c * inside;
    bool small = all < 0x7fffffff;
    for (i64 i = first_index(); i < all; i += all_threads()) {
        Spot s = spot_of(p.input, p.in_quotient, small, i);
        i64 n = s.plane / p.c, c = s.plane - n * p.c, group = c / p.of;
        const T* g = at<T>(p.columns) + (n * p.o + group * p.to) * places;
        const T* weight = at<T>(p.weight) + (group * p.to * p.of + c % p.of) * taps;
        S sum = p.bias ? widened<T, S>(at<T>(p.bias)[c]) : zero_of<S>();
        for (i64 a = 0; a < p.kernel[0]; a++) {
            i64 d = output_of(p, 0, s.at[0], a);
            if (d < 0) continue;
            for (i64 b = 0; b < p.kernel[1]; b++) {
                i64 h = output_of(p, 1, s.at[1], b);
                if (h < 0) continue;
                for (i64 k = 0; k < p.kernel[2]; k++) {
                    i64 w = output_of(p, 2, s.at[2], k);
                    if (w < 0) continue;
                    i64 tap = (a * p.kernel[1] + b) * p.kernel[2] + k, place = (d * p.output[1] + h) * p.output[2] + w;
                    for (i64 o = 0; o < p.to; o++)
                        sum = plus(sum, times(widened<T, S>(g[o * places + place]), widened<T, S>(weight[o * p.of * taps + tap])));
                }
            }
        }
        at<T>(p.image)[i] = narrowed<T, S>(sum);
    }
}
// A block for each element of the weight's gradient: over samples and places.
template <class S>
DEVICE S block_sum(S v) {
    __shared__ S room[1024];
    room[threadIdx.x] = v;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) room[threadIdx.x] = plus(room[threadIdx.x], room[threadIdx.x + half]);
        __syncthreads();
    }
    v = room[0];
    __syncthreads();
    return v;
}
template <class T, class S>
DEVICE void conv_direct_weight(const ConvParams& p) {
    i64 places = product_of(p.output), inside = product_of(p.input), taps = product_of(p.kernel), all = p.n * places;
    bool small = all < 0x7fffffff;
    for (i64 e = blockIdx.x; e < p.o * p.of * taps; e += gridDim.x) {
        i64 tap = e % taps, o = e / taps / p.of, c = o / p.to * p.of + e / taps % p.of;
        i64 k[3] = {tap / p.kernel[2] / p.kernel[1], tap / p.kernel[2] % p.kernel[1], tap % p.kernel[2]};
        S sum = zero_of<S>();
        for (i64 i = threadIdx.x; i < all; i += blockDim.x) {
            Spot s = spot_of(p.output, p.out_quotient, small, i);
            i64 at_in = 0;
            bool within = true;
            for (int d = 0; d < 3; d++) {
                i64 v = s.at[d] * p.stride[d] - p.pad[d] + k[d] * p.dilation[d];
                within = within && v >= 0 && v < p.input[d];
                at_in = at_in * p.input[d] + v;
            }
            if (!within) continue;
            T g = at<T>(p.columns)[(s.plane * p.o + o) * places + i - s.plane * places];
            sum = plus(sum, times(widened<T, S>(g), widened<T, S>(at<T>(p.image)[(s.plane * p.c + c) * inside + at_in])));
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) at<T>(p.weight)[e] = narrowed<T, S>(sum);
    }
}
#define CONV_DIRECT(NAME, F, T, S) \
    KERNEL(NAME, ConvParams) { F<T, S>(p); }
#define CONV_DIRECT_WEIGHT(NAME, T, S) \
    KERNEL_WITH_BARRIERS(NAME, ConvParams) { conv_direct_weight<T, S>(p); }
// Adds a number to each channel of [n, c, l].
struct ConvBiasParams {
    u64 out, bias;
    i64 all, c, l, division;
};
template <class T, class S>
DEVICE void add_bias(const ConvBiasParams& p) {
    bool small = p.all < 0x7fffffff;
    Quotient q(p.l, (u64)p.division);
    for (i64 i = first_index(); i < p.all; i += all_threads()) {
        i64 plane = small ? (i64)q.of((u32)i) : i / p.l;
        at<T>(p.out)[i] = narrowed<T, S>(plus(widened<T, S>(at<T>(p.out)[i]), widened<T, S>(at<T>(p.bias)[plane % p.c])));
    }
}
#define ADD_BIAS(NAME, T, S) \
    KERNEL(NAME, ConvBiasParams) { add_bias<T, S>(p); }
