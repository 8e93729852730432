// Convolutions of each channel by itself, of planes by square windows without dilation: a thread finds four neighbouring results, whose
// windows overlap, from registers.
#pragma once
#include "conv.cuh"

struct DepthwiseParams {
    // the image, the weight, what is added to each channel; the result, or the output's gradient
    u64 image, weight, bias, out;
    // planes of all samples, channels, sizes of a plane of the image and of the output
    i64 planes, channels, height, width, rows, columns;
    // zeros before a plane; whether the window is turned around
    i64 pad_rows, pad_columns, turned;
    // quotients of packs in a row, rows, channels
    u64 by_pack, by_row, by_channel;
    // blocks that share a channel's gradient of the weight, and where they leave their sums
    i64 parts;
    u64 sums;
};
constexpr int NEIGHBOURS = 4;
// The elements of a row that the windows of neighbours see, zeros outside.
template <class T, class S, int WIDE>
DEVICE void window_row(S (&v)[WIDE], const T* row, int from, int width) {
#pragma unroll
    for (int j = 0; j < WIDE; j++) v[j] = (u32)(from + j) < (u32)width ? widened<T, S>(row[from + j]) : S(0);
}
template <class T, class S, int K, int STEP>
DEVICE void depthwise(const DepthwiseParams& p) {
    constexpr int WIDE = (NEIGHBOURS - 1) * STEP + K;
    int height = (int)p.height, width = (int)p.width, rows = (int)p.rows, columns = (int)p.columns, packs = (columns + NEIGHBOURS - 1) / NEIGHBOURS;
    u32 all = (u32)(p.planes * rows * packs);
    Quotient by_pack(packs, p.by_pack), by_row(rows, p.by_row), by_channel(p.channels, p.by_channel);
    for (u32 i = (u32)first_index(); i < all; i += (u32)all_threads()) {
        u32 line = by_pack.of(i), plane = by_row.of(line), channel = plane - by_channel.of(plane) * (u32)p.channels;
        int column = (int)(i - line * packs) * NEIGHBOURS, row = (int)(line - plane * rows);
        const T* image = at<T>(p.image) + (i64)plane * height * width;
        const T* weight = at<T>(p.weight) + channel * (K * K);
        int h0 = row * STEP - (int)p.pad_rows, w0 = column * STEP - (int)p.pad_columns;
        S sum[NEIGHBOURS];
#pragma unroll
        for (int u = 0; u < NEIGHBOURS; u++) sum[u] = p.bias ? widened<T, S>(at<T>(p.bias)[channel]) : S(0);
#pragma unroll
        for (int a = 0; a < K; a++) {
            if ((u32)(h0 + a) >= (u32)height) continue;
            S v[WIDE];
            window_row(v, image + (h0 + a) * width, w0, width);
#pragma unroll
            for (int b = 0; b < K; b++) {
                S w = widened<T, S>(weight[p.turned ? K * K - 1 - a * K - b : a * K + b]);
#pragma unroll
                for (int u = 0; u < NEIGHBOURS; u++) sum[u] = num::fma(v[u * STEP + b], w, sum[u]);
            }
        }
        T* out = at<T>(p.out) + ((i64)plane * rows + row) * columns + column;
#pragma unroll
        for (int u = 0; u < NEIGHBOURS; u++)
            if (column + u < columns) out[u] = narrowed<T, S>(sum[u]);
    }
}
// A block sums the products of a part of the samples for all elements of a channel's window.
template <class T, class S, int K, int STEP>
DEVICE void depthwise_weight(const DepthwiseParams& p) {
    constexpr int WIDE = (NEIGHBOURS - 1) * STEP + K;
    int height = (int)p.height, width = (int)p.width, rows = (int)p.rows, columns = (int)p.columns, packs = (columns + NEIGHBOURS - 1) / NEIGHBOURS;
    u32 channels = (u32)p.channels, samples = (u32)(p.planes / p.channels), parts = (u32)p.parts;
    Quotient by_pack(packs, p.by_pack), by_row(rows, p.by_row);
    for (u32 t = blockIdx.x; t < channels * parts; t += gridDim.x) {
        u32 channel = t / parts, part = t % parts, first = (u32)((u64)samples * part / parts), last = (u32)((u64)samples * (part + 1) / parts);
        S sum[K * K];
#pragma unroll
        for (int k = 0; k < K * K; k++) sum[k] = 0;
        for (u32 i = threadIdx.x; i < (last - first) * rows * packs; i += blockDim.x) {
            u32 line = by_pack.of(i), sample = by_row.of(line);
            int column = (int)(i - line * packs) * NEIGHBOURS, row = (int)(line - sample * rows);
            i64 plane = (i64)(first + sample) * channels + channel;
            const T* image = at<T>(p.image) + plane * height * width;
            S g[NEIGHBOURS];
            window_row(g, at<T>(p.out) + (plane * rows + row) * columns, column, columns);
            int h0 = row * STEP - (int)p.pad_rows, w0 = column * STEP - (int)p.pad_columns;
#pragma unroll
            for (int a = 0; a < K; a++) {
                if ((u32)(h0 + a) >= (u32)height) continue;
                S v[WIDE];
                window_row(v, image + (h0 + a) * width, w0, width);
#pragma unroll
                for (int b = 0; b < K; b++)
#pragma unroll
                    for (int u = 0; u < NEIGHBOURS; u++) sum[a * K + b] = num::fma(g[u], v[u * STEP + b], sum[a * K + b]);
            }
        }
#pragma unroll
        for (int k = 0; k < K * K; k++) {
            S all = block_sum(sum[k]);
            if (threadIdx.x == 0) at<S>(p.sums)[((i64)part * channels + channel) * (K * K) + k] = all;
        }
    }
}
#define DEPTHWISE(NAME, T, S, K, STEP) \
    KERNEL(NAME, DepthwiseParams) { depthwise<T, S, K, STEP>(p); }
#define DEPTHWISE_WEIGHT(NAME, T, S, K, STEP) \
    KERNEL_WITH_BARRIERS(NAME, DepthwiseParams) { depthwise_weight<T, S, K, STEP>(p); }
