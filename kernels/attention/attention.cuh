// Attention by tiles, without the matrix of scores in memory. A block owns 64 rows and walks over tiles of the other side: the
// queries' over the keys for results and their own gradient, the keys' over the queries for the gradients of keys and values. All
// four are sums over weights times rows: out = T B, where T is made of scores in shared memory.
#pragma once
#include "../device/block.cuh"

struct Heads {
    u64 start;
    // elements between batches, heads, rows; those of a row lie side by side
    i64 batch, head, row;
};
struct AttentionParams {
    // scores are x y^T; of gradients those of the weights are x2 y2^T
    Heads x, y, x2, y2, b, out;
    // log(sum(exp(score))) of each query, and the sum of result times gradient
    u64 lse, delta;
    i64 batches, heads, own, other, width, width2, columns, causal, chunks;
    double scale;
};
constexpr int FORWARD = 0, OF_QUERY = 1, OF_VALUE = 2, OF_KEY = 3;
constexpr int OWN = 64;
template <class C> struct Tiles { static constexpr int OTHER = 64, DEPTH = 32; };
template <> struct Tiles<double> { static constexpr int OTHER = 32, DEPTH = 16; };
constexpr int STEP = OWN + 4;

template <class T, class C, int COLUMNS, int MODE>
struct Attention {
    static constexpr int OTHER = Tiles<C>::OTHER, DEPTH = Tiles<C>::DEPTH, N = OTHER / 16, WIDE = COLUMNS * 64;
    static constexpr int BOTH = 2 * DEPTH * STEP > DEPTH * (WIDE + 4) ? 2 * DEPTH * STEP : DEPTH * (WIDE + 4);
    // four rows of the own side times N of the other
    typedef C Scores[4][N];
    static DEVICE const T* head(const Heads& h, i64 batch, i64 head) { return at<T>(h.start) + batch * h.batch + head * h.head; }
    // DEPTH columns from `from` on of `count` rows, transposed into shared memory; what is outside is zero.
    template <int ROWS>
    static DEVICE void stage(C* to, const T* rows, i64 step, i64 count, i64 from, i64 width) {
        for (int i = threadIdx.x; i < ROWS * DEPTH; i += 256) {
            int e = i % DEPTH, r = i / DEPTH;
            to[e * STEP + r] = r < count && from + e < width ? Element<T>::up(rows[r * step + from + e]) : C(0);
        }
    }
    static DEVICE void scores(Scores& s, C* room, const T* x, i64 x_step, i64 x_count, const T* y, i64 y_step, i64 y_count, i64 width) {
        int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
        C* left = room;
        C* right = room + DEPTH * STEP;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < N; j++) s[i][j] = 0;
        for (i64 from = 0; from < width; from += DEPTH) {
            __syncthreads();
            stage<OWN>(left, x, x_step, x_count, from, width);
            stage<OTHER>(right, y, y_step, y_count, from, width);
            __syncthreads();
#pragma unroll 8
            for (int e = 0; e < DEPTH; e++) {
                Pack<C, 4> a = *reinterpret_cast<const Pack<C, 4>*>(left + e * STEP + ty * 4);
                Pack<C, N> b = *reinterpret_cast<const Pack<C, N>*>(right + e * STEP + tx * N);
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int j = 0; j < N; j++) s[i][j] = num::fma(a.v[i], b.v[j], s[i][j]);
            }
        }
    }
    template <class F>
    static DEVICE C along_row(C v, F join) {
        for (int m = 8; m > 0; m /= 2) v = join(v, __shfl_xor_sync(0xffffffffu, v, m));
        return v;
    }
    static DEVICE void run(const AttentionParams& p) {
        __shared__ Pack<C, 4> room_packs[BOTH / 4];
        __shared__ Pack<C, 4> weights_packs[OTHER * STEP / 4];
        C* room = room_packs[0].v;
        C* weights = weights_packs[0].v;
        int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
        constexpr bool BY_KEY = MODE == OF_VALUE || MODE == OF_KEY, SECOND = MODE == OF_QUERY || MODE == OF_KEY;
        i64 tiles = (p.own + OWN - 1) / OWN;
        for (i64 t = blockIdx.x; t < p.batches * p.heads * tiles * p.chunks; t += gridDim.x) {
            i64 chunk = t % p.chunks, tile = t / p.chunks % tiles, head_of = t / p.chunks / tiles % p.heads, batch = t / p.chunks / tiles / p.heads;
            i64 row0 = tile * OWN, rows = p.own - row0 < OWN ? p.own - row0 : OWN, column0 = chunk * WIDE;
            i64 line = (batch * p.heads + head_of) * (BY_KEY ? p.other : p.own);
            const T* x = head(p.x, batch, head_of) + row0 * p.x.row;
            const T* y = head(p.y, batch, head_of);
            C acc[4][4 * COLUMNS];
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4 * COLUMNS; j++) acc[i][j] = 0;
            C most[4], sum[4];
            for (int i = 0; i < 4; i++) most[i] = -Consts<C>::INF(), sum[i] = 0;
            // queries see keys up to their own place
            i64 from = BY_KEY && p.causal ? row0 / OTHER * OTHER : 0;
            i64 to = !BY_KEY && p.causal && row0 + rows < p.other ? row0 + rows : p.other;
            for (i64 o0 = from; o0 < to; o0 += OTHER) {
                i64 others = p.other - o0 < OTHER ? p.other - o0 : OTHER;
                Scores s, g;
                scores(s, room, x, p.x.row, rows, y + o0 * p.y.row, p.y.row, others, p.width);
                if constexpr (SECOND)
                    scores(g, room, head(p.x2, batch, head_of) + row0 * p.x2.row, p.x2.row, rows,
                           head(p.y2, batch, head_of) + o0 * p.y2.row, p.y2.row, others, p.width2);
                for (int i = 0; i < 4; i++) {
                    i64 mine = row0 + ty * 4 + i;
                    bool there = ty * 4 + i < rows;
                    C top = most[i];
                    for (int j = 0; j < N; j++) {
                        i64 theirs = o0 + tx * N + j, query = BY_KEY ? theirs : mine, key = BY_KEY ? mine : theirs;
                        bool seen = there && tx * N + j < others && !(p.causal && key > query);
                        C v = seen ? s[i][j] * (C)p.scale : -Consts<C>::INF();
                        if constexpr (MODE == FORWARD) {
                            s[i][j] = v;
                            top = num::maximum(v, top);
                        } else {
                            C w = seen ? num::exp(v - at<C>(p.lse)[line + query]) : C(0);
                            if (SECOND && seen) w = w * (g[i][j] - at<C>(p.delta)[line + query]);
                            s[i][j] = w;
                        }
                    }
                    if constexpr (MODE == FORWARD) {
                        top = along_row(top, [](C a, C b) { return num::maximum(a, b); });
                        // nothing seen so far: any number below infinity serves
                        C base = top == -Consts<C>::INF() ? C(0) : top, keep = num::exp(most[i] - base), more = 0;
                        for (int j = 0; j < N; j++) {
                            s[i][j] = num::exp(s[i][j] - base);
                            more += s[i][j];
                        }
                        sum[i] = sum[i] * keep + along_row(more, [](C a, C b) { return a + b; });
                        most[i] = top;
                        for (int j = 0; j < 4 * COLUMNS; j++) acc[i][j] *= keep;
                    }
                }
                for (int j = 0; j < N; j++) {
                    Pack<C, 4> w;
                    for (int i = 0; i < 4; i++) w.v[i] = s[i][j];
                    *reinterpret_cast<Pack<C, 4>*>(weights + (tx * N + j) * STEP + ty * 4) = w;
                }
                const T* b = head(p.b, batch, head_of) + o0 * p.b.row;
                for (i64 k0 = 0; k0 < others; k0 += DEPTH) {
                    __syncthreads();
                    for (int i = threadIdx.x; i < DEPTH * WIDE; i += 256) {
                        int r = i / WIDE, c = i % WIDE;
                        room[r * (WIDE + 4) + c] = k0 + r < others && column0 + c < p.columns ? Element<T>::up(b[(k0 + r) * p.b.row + column0 + c]) : C(0);
                    }
                    __syncthreads();
#pragma unroll 4
                    for (int e = 0; e < DEPTH; e++) {
                        Pack<C, 4> a = *reinterpret_cast<const Pack<C, 4>*>(weights + (k0 + e) * STEP + ty * 4);
#pragma unroll
                        for (int c = 0; c < COLUMNS; c++) {
                            Pack<C, 4> v = *reinterpret_cast<const Pack<C, 4>*>(room + e * (WIDE + 4) + c * 64 + tx * 4);
#pragma unroll
                            for (int i = 0; i < 4; i++)
#pragma unroll
                                for (int j = 0; j < 4; j++) acc[i][c * 4 + j] = num::fma(a.v[i], v.v[j], acc[i][c * 4 + j]);
                        }
                    }
                }
                __syncthreads();
            }
            T* out = at<T>(p.out.start) + batch * p.out.batch + head_of * p.out.head + row0 * p.out.row;
            for (int i = 0; i < 4; i++) {
                if (ty * 4 + i >= rows) continue;
                C by = MODE == FORWARD ? C(1) / sum[i] : SECOND ? (C)p.scale : C(1);
                for (int c = 0; c < COLUMNS; c++)
                    for (int j = 0; j < 4; j++) {
                        i64 column = column0 + c * 64 + tx * 4 + j;
                        if (column < p.columns) out[(ty * 4 + i) * p.out.row + column] = Element<T>::down(acc[i][c * 4 + j] * by);
                    }
                if (MODE == FORWARD && chunk == 0 && tx == 0) at<C>(p.lse)[line + row0 + ty * 4 + i] = most[i] + num::ln(sum[i]);
            }
        }
    }
};
#define ATTENTION(NAME, T, COLUMNS, MODE) \
    KERNEL_WITH_BARRIERS(NAME, AttentionParams) { Attention<T, typename Element<T>::C, COLUMNS, MODE>::run(p); }

// The sum of result times gradient of each query, by a warp; x: the results, y: the gradients.
template <class T>
DEVICE void attention_delta(const AttentionParams& p) {
    typedef typename Element<T>::C C;
    i64 warps = all_threads() / WARP, lane = threadIdx.x % WARP;
    for (i64 i = first_index() / WARP; i < p.batches * p.heads * p.own; i += warps) {
        i64 row = i % p.own, head = i / p.own % p.heads, batch = i / p.own / p.heads;
        const T* a = at<T>(p.x.start) + batch * p.x.batch + head * p.x.head + row * p.x.row;
        const T* b = at<T>(p.y.start) + batch * p.y.batch + head * p.y.head + row * p.y.row;
        C sum = 0;
        for (i64 k = lane; k < p.width; k += WARP) sum += Element<T>::up(a[k]) * Element<T>::up(b[k]);
        sum = warp_all(sum, [](C x, C y) { return x + y; });
        if (lane == 0) at<C>(p.delta)[i] = sum;
    }
}
#define ATTENTION_DELTA(NAME, T) \
    KERNEL_WITH_BARRIERS(NAME, AttentionParams) { attention_delta<T>(p); }
