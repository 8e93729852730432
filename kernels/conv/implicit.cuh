// Convolutions, and gradients of their images, as products of matrices by matrix units without columns in memory: a block finds BM channels
// of 128 places, reads what its tiles need from where it lies, and has the next tile on its way meanwhile. Halves are summed in float32;
// float is multiplied as TensorFloat-32, EXACT in parts that keep its digits (`multiply_floats`).
#pragma once
#include "../device/matrix.cuh"
#include "conv.cuh"

struct ImplicitParams {
    u64 source, weight, bias, out;
    // samples; groups; of a group: channels of the result, channels of the source
    i64 n, groups, rows, channels;
    // of a tap v, the place i of the result takes what lies at (i mul + add + v step) / div of the source, if that is whole and inside
    i64 places[3], source_sizes[3], kernel[3], mul[3], add[3], step[3], div[3];
    // elements between rows of the weight, one for each channel of the result: the taps of all channels of the source, and zeros up to
    // a whole number of 16 bytes
    i64 weight_row;
    u64 place_quotients[3], all_places;
};

template <class T, int BM, bool EXACT, bool DIVIDED>
struct Implicit {
    static constexpr bool SINGLE = sizeof(T) == 4;
    static constexpr int BN = 128, BK = SINGLE ? 16 : 32, PIECE = 16 / sizeof(T), A_STEP = BK + PIECE, B_STEP = BN + 8;
    // tiles of 16 rows and of 8 columns of a warp: two warps share the rows, four the columns
    static constexpr int MT = BM / 32, NT = 4, OWN_B = BK * BN / 256;
    // What the k-th factor of each sum is about: a channel and a tap.
    struct Tap {
        // the channel's plane; below 0: there is no such factor
        int plane, at[3];
    };
    typedef float Sums[MT][NT][4];
    static DEVICE void describe(const ImplicitParams& p, Tap* taps, int k0) {
        int k = k0 + (int)threadIdx.x, all = (int)product_of(p.kernel);
        if (threadIdx.x >= BK) return;
        int c = k / all, tap = k % all;
        Tap t;
        t.plane = c < p.channels ? c * (int)product_of(p.source_sizes) : -1;
        t.at[2] = tap % (int)p.kernel[2] * (int)p.step[2];
        t.at[1] = tap / (int)p.kernel[2] % (int)p.kernel[1] * (int)p.step[1];
        t.at[0] = tap / (int)p.kernel[2] / (int)p.kernel[1] * (int)p.step[0];
        taps[threadIdx.x] = t;
    }
    static DEVICE void gather(const ImplicitParams& p, T (&v)[OWN_B], const Tap* taps, const T* source, const int (&start)[3], bool there) {
#pragma unroll
        for (int j = 0; j < OWN_B; j++) {
            const Tap& t = taps[j * 2 + threadIdx.x / BN];
            bool inside = there && t.plane >= 0;
            int offset = 0;
#pragma unroll
            for (int d = 0; d < 3; d++) {
                int at = start[d] + t.at[d];
                if constexpr (DIVIDED) {
                    int by = (int)p.div[d], whole = at / by;
                    inside = inside && whole * by == at;
                    at = whole;
                }
                inside = inside && (u32)at < (u32)p.source_sizes[d];
                offset = offset * (int)p.source_sizes[d] + at;
            }
            v[j] = inside ? source[t.plane + offset] : T{0};
        }
    }
    static DEVICE u32 word(const T* at) { return *reinterpret_cast<const u32*>(at); }
    static DEVICE void multiply_tiles(Sums& acc, const T* a, const T* b, int lane, int m0, int n0) {
        if constexpr (EXACT) {
            // matrix units cut sums off: of a tile alone, so that long sums do not shrink
            static_assert(BK == 16 && MT == 2);
            int line = lane / 4, quarter = lane % 4;
            Parts<4> x[MT][2];
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    const T* from = a + (m0 + m * 16 + line) * A_STEP + k * 8 + quarter;
                    u32 w[4] = {word(from), word(from + 8 * A_STEP), word(from + 4), word(from + 8 * A_STEP + 4)};
                    x[m][k] = Parts<4>(w);
                }
#pragma unroll
            for (int n = 0; n < NT; n++) {
                Parts<2> y[2];
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    const T* from = b + (k * 8 + quarter) * B_STEP + n0 + n * 8 + line;
                    u32 w[2] = {word(from), word(from + 4 * B_STEP)};
                    y[k] = Parts<2>(w);
                }
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    float sum[4] = {0, 0, 0, 0};
                    multiply_floats(sum, x[m][0], y[0]);
                    multiply_floats(sum, x[m][1], y[1]);
#pragma unroll
                    for (int e = 0; e < 4; e++) acc[m][n][e] += sum[e];
                }
            }
        } else if constexpr (SINGLE) {
            int line = lane / 4, quarter = lane % 4;
            auto rounded = [](const T* at) { return rounded_tf32(*at); };
#pragma unroll
            for (int k = 0; k < BK; k += 8) {
                u32 x[MT][4];
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    const T* from = a + (m0 + m * 16 + line) * A_STEP + k + quarter;
                    x[m][0] = rounded(from), x[m][1] = rounded(from + 8 * A_STEP), x[m][2] = rounded(from + 4), x[m][3] = rounded(from + 8 * A_STEP + 4);
                }
#pragma unroll
                for (int n = 0; n < NT; n++) {
                    const T* from = b + (k + quarter) * B_STEP + n0 + n * 8 + line;
                    u32 y0 = rounded(from), y1 = rounded(from + 4 * B_STEP);
#pragma unroll
                    for (int m = 0; m < MT; m++) multiply_tf32(acc[m][n], x[m], y0, y1);
                }
            }
        } else {
#pragma unroll
            for (int k = 0; k < BK; k += 16) {
                u32 x[MT][4];
#pragma unroll
                for (int m = 0; m < MT; m++) four_tiles<false>(x[m], a + (m0 + m * 16 + lane % 16) * A_STEP + k + lane / 16 * 8);
#pragma unroll
                for (int n = 0; n < NT; n += 2) {
                    u32 y[4];
                    four_tiles<true>(y, b + (k + lane % 16) * B_STEP + n0 + n * 8 + lane / 16 * 8);
#pragma unroll
                    for (int m = 0; m < MT; m++) {
                        multiply<T>(acc[m][n], x[m], y[0], y[1]);
                        multiply<T>(acc[m][n + 1], x[m], y[2], y[3]);
                    }
                }
            }
        }
    }
    static DEVICE void run(const ImplicitParams& p) {
        __shared__ Pack<T, PIECE> a_packs[2 * BM * A_STEP / PIECE];
        __shared__ Pack<T, PIECE> b_packs[2 * BK * B_STEP / PIECE];
        __shared__ Tap taps[2][BK];
        T* left = a_packs[0].v;
        T* right = b_packs[0].v;
        int thread = (int)threadIdx.x, lane = thread % WARP, warp = thread / WARP, m0 = warp / 4 * (BM / 2), n0 = warp % 4 * 32;
        int places = (int)product_of(p.places), inside = (int)product_of(p.source_sizes), all = (int)p.n * places;
        int width = (int)p.weight_row, steps = (width + BK - 1) / BK, rows = (int)p.rows;
        i64 row_tiles = (rows + BM - 1) / BM, tiles = (all + BN - 1) / BN;
        for (i64 t = blockIdx.x; t < p.groups * row_tiles * tiles; t += gridDim.x) {
            // blocks of the same places run side by side: they read the same part of the source
            int row0 = (int)(t % row_tiles) * BM, group = (int)(t / row_tiles % p.groups), first = (int)(t / row_tiles / p.groups) * BN;
            int column = first + thread % BN;
            bool there = column < all;
            Spot s = spot_of(p.places, p.place_quotients, true, there ? column : 0);
            const T* source = at<T>(p.source) + (s.plane * p.groups + group) * p.channels * inside;
            const T* weight = at<T>(p.weight) + (i64)group * rows * p.weight_row;
            int start[3];
#pragma unroll
            for (int d = 0; d < 3; d++) start[d] = (int)(s.at[d] * p.mul[d] + p.add[d]);
            Sums acc;
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int n = 0; n < NT; n++) acc[m][n][0] = acc[m][n][1] = acc[m][n][2] = acc[m][n][3] = 0;
            T b[OWN_B];
            // what a tile needs: the weight's packs on their way to their place, the source's elements to registers
            auto fetch = [&](int step) {
                constexpr int PIECES = BK / PIECE;
                T* to = left + step % 2 * BM * A_STEP;
#pragma unroll
                for (int i = thread; i < BM * PIECES; i += 256) {
                    int r = i / PIECES, c = i % PIECES * PIECE;
                    bool in = row0 + r < rows && step * BK + c < width;
                    copy_16_or_zeros(to + r * A_STEP + c, weight + (in ? (i64)(row0 + r) * width + step * BK + c : 0), in);
                }
                copies_end();
                gather(p, b, taps[step % 2], source, start, there);
            };
            auto store = [&](int step) {
                T* to = right + step % 2 * BK * B_STEP + thread / BN * B_STEP + thread % BN;
#pragma unroll
                for (int j = 0; j < OWN_B; j++) to[j * 2 * B_STEP] = b[j];
            };
            __syncthreads();
            describe(p, taps[0], 0);
            __syncthreads();
            fetch(0);
            describe(p, taps[1], BK);
            store(0);
            copied<0>();
            __syncthreads();
            for (int step = 0; step < steps; step++) {
                if (step + 1 < steps) fetch(step + 1);
                multiply_tiles(acc, left + step % 2 * BM * A_STEP, right + step % 2 * BK * B_STEP, lane, m0, n0);
                if (step + 1 < steps) {
                    store(step + 1);
                    // the table of this step was read before the last barrier
                    describe(p, taps[step % 2], (step + 2) * BK);
                }
                copied<0>();
                __syncthreads();
            }
            Quotient by(places, p.all_places);
#pragma unroll
            for (int n = 0; n < NT; n++) {
                int at0 = first + n0 + n * 8 + lane % 4 * 2;
                u32 sample = by.of((u32)at0);
                int place = at0 - (int)sample * places;
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        int row = row0 + m0 + m * 16 + lane / 4 + h * 8;
                        if (row >= rows || at0 >= all) continue;
                        i64 channel = (i64)group * rows + row;
                        float more = p.bias ? Element<T>::up(at<T>(p.bias)[channel]) : 0.0f;
                        T v[2] = {Element<T>::down(acc[m][n][h * 2] + more), Element<T>::down(acc[m][n][h * 2 + 1] + more)};
                        T* to = at<T>(p.out) + (((i64)sample * p.groups * rows + channel) * places + place);
                        to[0] = v[0];
                        // the next one may be another sample's first
                        if (at0 + 1 < all) to[place + 1 < places ? 1 : ((i64)p.groups * rows - 1) * places + 1] = v[1];
                    }
            }
        }
    }
};
#define IMPLICIT(NAME, T, BM, EXACT, DIVIDED) \
    KERNEL_OF_BLOCKS(NAME, ImplicitParams, 256, 2) { Implicit<T, BM, EXACT, DIVIDED>::run(p); }
