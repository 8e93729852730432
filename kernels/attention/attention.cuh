// Attention by tiles, without the matrix of scores in memory. A block owns 64 rows and walks over tiles of the other side: the
// queries' over the keys for results and their own gradient, the keys' over the queries for the gradients of keys and values. All
// four are sums over weights times rows: out = T B, where T is made of scores in shared memory. Masks are read where scores are.
#pragma once
#include "../device/block.cuh"
#include "../device/matrix.cuh"
#include "dropout.cuh"

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
    // what is added to scores or says which of them count; elements between batches, heads, queries, keys
    u64 mask;
    i64 kind, mask_batch, mask_head, mask_query, mask_key;
    DropoutParams dropout;
};
constexpr i64 NO_MASK = 0, TRUTHS = 1, FLOATS = 2, OWN_TYPE = 3;
// What a mask adds to the score of a query and a key of a head whose mask begins at `first`: minus infinity where they do not meet.
template <class T, class C>
DEVICE C masked(const AttentionParams& p, i64 first, i64 query, i64 key) {
    i64 i = first + query * p.mask_query + key * p.mask_key;
    if (p.kind == TRUTHS) return at<b8>(p.mask)[i].b ? C(0) : -Consts<C>::INF();
    if (p.kind == FLOATS) return (C)at<float>(p.mask)[i];
    return Element<T>::up(at<T>(p.mask)[i]);
}
// What is dropped of a head's weights.
template <class C, bool DROPS>
DEVICE Dropout<C> dropout_of(const AttentionParams& p, i64 batch, i64 head, bool by_key) {
    if constexpr (DROPS) return Dropout<C>(p.dropout, batch, head, by_key ? p.other : p.own, by_key ? p.own : p.other);
    else return Dropout<C>();
}
constexpr int FORWARD = 0, OF_QUERY = 1, OF_VALUE = 2, OF_KEY = 3;
constexpr int OWN = 64;
template <class C> struct Tiles { static constexpr int OTHER = 64, DEPTH = 32; };
template <> struct Tiles<double> { static constexpr int OTHER = 32, DEPTH = 16; };
constexpr int STEP = OWN + 4;

template <class T, class C, int COLUMNS, int MODE, bool DROPS>
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
            i64 mask0 = batch * p.mask_batch + head_of * p.mask_head;
            Dropout<C> drop = dropout_of<C, DROPS>(p, batch, head_of, BY_KEY);
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
                        if (p.kind != NO_MASK && seen) {
                            v += masked<T, C>(p, mask0, query, key);
                            seen = v != -Consts<C>::INF();
                        }
                        if constexpr (MODE == FORWARD) {
                            s[i][j] = v;
                            top = num::maximum(v, top);
                        } else {
                            C w = seen ? num::exp(v - at<C>(p.lse)[line + query]) : C(0);
                            C kept = 1;
                            if constexpr (DROPS) kept = drop.factor(query, key);
                            if (SECOND && seen) w = w * (g[i][j] * kept - at<C>(p.delta)[line + query]);
                            else w *= kept;
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
                            // sums count what is dropped too
                            if constexpr (DROPS) s[i][j] *= drop.factor(mine, o0 + tx * N + j);
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
                // a query without any key gets zeros
                C by = MODE == FORWARD ? (sum[i] == 0 ? C(0) : C(1) / sum[i]) : SECOND ? (C)p.scale : C(1);
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
#define ATTENTION(NAME, T, COLUMNS, MODE, DROPS) \
    KERNEL_WITH_BARRIERS(NAME, AttentionParams) { Attention<T, typename Element<T>::C, COLUMNS, MODE, DROPS>::run(p); }

// The sum of result times gradient of each query, by a warp, or by eight threads of halves; x: the results, y: the gradients.
template <class T>
DEVICE void attention_delta(const AttentionParams& p) {
    typedef typename Element<T>::C C;
    constexpr int LANES = sizeof(T) == 2 ? 8 : WARP, ROWS = WARP / LANES, V = pack_of<T>();
    int lane = threadIdx.x % LANES;
    i64 total = p.batches * p.heads * p.own;
    for (i64 first = first_index() / WARP * ROWS; first < total; first += all_threads() / WARP * ROWS) {
        i64 i = first + threadIdx.x % WARP / LANES;
        C sum = 0;
        if (i < total) {
            i64 row, head, batch;
            // divisions of 32 bits are much cheaper
            if (total <= 0xffffffff) row = (u32)i % (u32)p.own, head = (u32)i / (u32)p.own % (u32)p.heads, batch = (u32)i / (u32)p.own / (u32)p.heads;
            else row = i % p.own, head = i / p.own % p.heads, batch = i / p.own / p.heads;
            const T* a = at<T>(p.x.start) + batch * p.x.batch + head * p.x.head + row * p.x.row;
            const T* b = at<T>(p.y.start) + batch * p.y.batch + head * p.y.head + row * p.y.row;
            if (fits_packs((u64)(size_t)a) && fits_packs((u64)(size_t)b) && p.width % V == 0) {
                for (i64 k = lane * V; k < p.width; k += LANES * V) {
                    Pack<T, V> x = *reinterpret_cast<const Pack<T, V>*>(a + k), y = *reinterpret_cast<const Pack<T, V>*>(b + k);
#pragma unroll
                    for (int v = 0; v < V; v++) sum = num::fma(Element<T>::up(x.v[v]), Element<T>::up(y.v[v]), sum);
                }
            } else {
                for (i64 k = lane; k < p.width; k += LANES) sum = num::fma(Element<T>::up(a[k]), Element<T>::up(b[k]), sum);
            }
        }
        for (int m = LANES / 2; m > 0; m /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, m);
        if (i < total && lane == 0) at<C>(p.delta)[i] = sum;
    }
}
#define ATTENTION_DELTA(NAME, T) \
    KERNEL_WITH_BARRIERS(NAME, AttentionParams) { attention_delta<T>(p); }

// The same sums of halves and of float by matrix units: four warps with 16 rows of their own each. What rows have less than DEPTH columns
// is zero. Weights are rounded to halves before they meet halves; products of float keep its digits (`multiply_floats`).
template <class T, int DEPTH, int MODE, bool DROPS>
struct WarpAttention {
    static constexpr bool BY_KEY = MODE == OF_VALUE || MODE == OF_KEY, SECOND = MODE == OF_QUERY || MODE == OF_KEY, SINGLE = sizeof(T) == 4;
    // elements in 16 bytes, and columns that are multiplied at once
    static constexpr int PIECE = 16 / sizeof(T), DEEP = SINGLE ? 8 : 16;
    // two products of a tile take more registers, and two tiles of wide rows more shared memory
    static constexpr int OTHER = SECOND || SINGLE || DEPTH > 64 ? 32 : 64, STEP = DEPTH + PIECE, NK = DEPTH / DEEP, NS = OTHER / 8, NO = DEPTH / 8;
    // tiles that there is room for: the next one arrives meanwhile, or other blocks go on
    static constexpr int TURNS = SINGLE && DEPTH > 64 ? 1 : 2;
    // the words of a thread's rows, DEEP columns each
    typedef u32 Words[NK][4];
    typedef float Scores[NS][4];
    static DEVICE const T* head(const Heads& h, i64 batch, i64 head) { return at<T>(h.start) + batch * h.batch + head * h.head; }
    // rows as they lie, STEP apart in shared memory, zeros outside; whole rows arrive when `copied` is waited for
    template <int ROWS>
    static DEVICE void stage(T* to, const T* rows, i64 step, int count, int width) {
        constexpr int PIECES = DEPTH / PIECE;
        if (fits_packs((u64)(size_t)rows) && step % PIECE == 0 && width == DEPTH && count == ROWS) {
#pragma unroll
            for (int k = 0; k < ROWS * PIECES / 128; k++) {
                int i = threadIdx.x + k * 128;
                copy_16(to + i / PIECES * STEP + i % PIECES * PIECE, rows + i / PIECES * step + i % PIECES * PIECE);
            }
            return;
        }
        for (int i = threadIdx.x; i < ROWS * DEPTH; i += 128) {
            int r = i / DEPTH, c = i % DEPTH;
            to[r * STEP + c] = r < count && c < width ? rows[r * step + c] : T{0};
        }
    }
    static DEVICE u32 word(const T* at) { return *reinterpret_cast<const u32*>(at); }
    static DEVICE u32 word(float a, float b) { return bits_as<u32>(Pack<T, 2>{Element<T>::down(a), Element<T>::down(b)}); }
    // this thread's words of the block's own rows, by way of shared memory
    static DEVICE void own_words(Words& w, T* room, const T* rows, i64 step, int count, int width, int row, int pair) {
        __syncthreads();
        stage<OWN>(room, rows, step, count, width);
        copies_end();
        copied<0>();
        __syncthreads();
        constexpr int APART = DEEP / 2;
#pragma unroll
        for (int k = 0; k < NK; k++) {
            const T* from = room + row * STEP + k * DEEP + (SINGLE ? pair / 2 : pair);
            w[k][0] = word(from), w[k][1] = word(from + 8 * STEP), w[k][2] = word(from + APART), w[k][3] = word(from + 8 * STEP + APART);
        }
    }
    // own rows times others' rows, which are columns here
    static DEVICE void scores(Scores& s, const Words& own, const T* others, int lane) {
#pragma unroll
        for (int n = 0; n < NS; n++) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
        if constexpr (SINGLE) {
            const T* from = others + lane / 4 * STEP + lane % 4;
#pragma unroll
            for (int k = 0; k < NK; k++) {
                Parts<4> a(own[k]);
#pragma unroll
                for (int n = 0; n < NS; n++) {
                    u32 b[2] = {word(from + n * 8 * STEP + k * 8), word(from + n * 8 * STEP + k * 8 + 4)};
                    multiply_floats(s[n], a, Parts<2>(b));
                }
            }
        } else {
            const T* from = others + lane % 8 * STEP + lane / 8 * 8;
#pragma unroll
            for (int k = 0; k < NK; k += 2)
#pragma unroll
                for (int n = 0; n < NS; n++) {
                    u32 w[4];
                    four_tiles<false>(w, from + n * 8 * STEP + k * 16);
                    multiply<T>(s[n], own[k], w[0], w[1]);
                    multiply<T>(s[n], own[k + 1], w[2], w[3]);
                }
        }
    }
    // acc += weights times others' rows
    static DEVICE void add(float (*acc)[4], const Scores& s, const T* others, int lane) {
        if constexpr (SINGLE) {
            // a sum knows no order: columns 2 i and 2 i + 1, which a thread has, are taken for i and i + 4
            const T* from = others + lane % 4 * 2 * STEP + lane / 4;
            Parts<4> a[NS];
#pragma unroll
            for (int k = 0; k < NS; k++) {
                u32 w[4] = {bits_as<u32>(s[k][0]), bits_as<u32>(s[k][2]), bits_as<u32>(s[k][1]), bits_as<u32>(s[k][3])};
                a[k] = Parts<4>(w);
            }
#pragma unroll
            for (int n = 0; n < NO; n++) {
                // matrix units cut sums off: of a tile alone, so that long sums do not shrink
                float sum[4] = {0, 0, 0, 0};
#pragma unroll
                for (int k = 0; k < NS; k++) {
                    u32 b[2] = {word(from + k * 8 * STEP + n * 8), word(from + (k * 8 + 1) * STEP + n * 8)};
                    multiply_floats(sum, a[k], Parts<2>(b));
                }
#pragma unroll
                for (int e = 0; e < 4; e++) acc[n][e] += sum[e];
            }
        } else {
            const T* from = others + lane % 16 * STEP + lane / 16 * 8;
#pragma unroll
            for (int k = 0; k < OTHER / 16; k++) {
                u32 w[4] = {word(s[2 * k][0], s[2 * k][1]), word(s[2 * k][2], s[2 * k][3]), word(s[2 * k + 1][0], s[2 * k + 1][1]),
                            word(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
                for (int n = 0; n < NO; n += 2) {
                    u32 v[4];
                    four_tiles<true>(v, from + k * 16 * STEP + n * 8);
                    multiply<T>(acc[n], w, v[0], v[1]);
                    multiply<T>(acc[n + 1], w, v[2], v[3]);
                }
            }
        }
    }
    // f(number, row of the own side, row of the other) for a thread's scores
    template <class F>
    static DEVICE void each(Scores& s, int row, int pair, F f) {
#pragma unroll
        for (int n = 0; n < NS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) f(s[n][e], n, e, row + e / 2 * 8, n * 8 + pair + e % 2);
    }
    template <class M>
    static DEVICE void add_mask(Scores& s, const AttentionParams& p, i64 first, i64 own_step, i64 other_step, int rows, int others, int row, int pair) {
        const M* mask = at<M>(p.mask) + first;
        each(s, row, pair, [&](float& v, int, int, int mine, int theirs) {
            if (mine >= rows || theirs >= others) return;
            M m = mask[mine * own_step + theirs * other_step];
            if constexpr (sizeof(M) == 1) v = m.b ? v : -Consts<float>::INF();
            else v += Element<M>::up(m) * DOUBLINGS;
        });
    }
    // scores are kept in units of a doubling
    static constexpr float DOUBLINGS = 1.4426950408889634f, HALVING = 0.69314718055994531f;
    static DEVICE float doubled(float x) {
#ifdef FLAMBEAU_EMULATED
        return ::exp2f(x);
#else
        float v;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(x));
        return v;
#endif
    }
    // over the four lanes that share a row
    template <class F>
    static DEVICE float along_row(float v, F join) {
        v = join(v, __shfl_xor_sync(0xffffffffu, v, 1));
        return join(v, __shfl_xor_sync(0xffffffffu, v, 2));
    }
    static DEVICE void run(const AttentionParams& p) {
        // tiles of two matrices; also a block's own rows at first
        constexpr int SIDE = OTHER * STEP;
        static_assert(2 * TURNS * OTHER >= OWN);
        __shared__ Pack<T, PIECE> room_packs[2 * TURNS * SIDE / PIECE];
        // of the queries of a tile
        __shared__ float tile_lse[TURNS][OTHER], tile_delta[TURNS][OTHER];
        T* room = room_packs[0].v;
        int lane = threadIdx.x % WARP, row = threadIdx.x / WARP * 16 + lane / 4, pair = lane % 4 * 2;
        int width = (int)p.width, width2 = (int)p.width2, columns = (int)p.columns;
        float scale = (float)(p.scale * DOUBLINGS);
        i64 tiles = (p.own + OWN - 1) / OWN;
        for (i64 t = blockIdx.x; t < p.batches * p.heads * tiles; t += gridDim.x) {
            // later queries see more keys, and earlier keys are seen by more queries: they come first
            i64 tile = BY_KEY ? t % tiles : tiles - 1 - t % tiles, head_of = t / tiles % p.heads, batch = t / tiles / p.heads;
            i64 row0 = tile * OWN;
            int rows = p.own - row0 < OWN ? (int)(p.own - row0) : OWN;
            i64 line = (batch * p.heads + head_of) * (BY_KEY ? p.other : p.own), mask0 = batch * p.mask_batch + head_of * p.mask_head;
            i64 own_step = BY_KEY ? p.mask_key : p.mask_query, other_step = BY_KEY ? p.mask_query : p.mask_key;
            Dropout<float> drop = dropout_of<float, DROPS>(p, batch, head_of, BY_KEY);
            const T* y = head(p.y, batch, head_of);
            // what is summed is the other side itself, or rows beside it
            const Heads& beside = SECOND ? p.y2 : p.b;
            const T* z = head(beside, batch, head_of);
            Words x, x2;
            own_words(x, room, head(p.x, batch, head_of) + row0 * p.x.row, p.x.row, rows, width, row, pair);
            if constexpr (SECOND) own_words(x2, room, head(p.x2, batch, head_of) + row0 * p.x2.row, p.x2.row, rows, width2, row, pair);
            float acc[NO][4], most[2], sum[2] = {0, 0}, own_lse[2], own_delta[2];
            most[0] = most[1] = -Consts<float>::INF();
#pragma unroll
            for (int n = 0; n < NO; n++) acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                bool there = MODE == OF_QUERY && row + h * 8 < rows;
                own_lse[h] = there ? at<float>(p.lse)[line + row0 + row + h * 8] * DOUBLINGS : 0.0f;
                own_delta[h] = there ? at<float>(p.delta)[line + row0 + row + h * 8] : 0.0f;
            }
            // queries see keys up to their own place
            i64 from = BY_KEY && p.causal ? row0 / OTHER * OTHER : 0;
            i64 to = !BY_KEY && p.causal && row0 + rows < p.other ? row0 + rows : p.other;
            auto fetch = [&](i64 o0, int turn) {
                if (o0 < to) {
                    int others = p.other - o0 < OTHER ? (int)(p.other - o0) : OTHER, k = (int)threadIdx.x;
                    T* into = room + turn * 2 * SIDE;
                    stage<OTHER>(into, y + o0 * p.y.row, p.y.row, others, width);
                    stage<OTHER>(into + SIDE, z + o0 * beside.row, beside.row, others, SECOND ? width2 : columns);
                    if (BY_KEY && k < OTHER) {
                        tile_lse[turn][k] = k < others ? at<float>(p.lse)[line + o0 + k] * DOUBLINGS : 0.0f;
                        if (SECOND) tile_delta[turn][k] = k < others ? at<float>(p.delta)[line + o0 + k] : 0.0f;
                    }
                }
                copies_end();
            };
            __syncthreads();
            if constexpr (TURNS == 2) fetch(from, 0);
            int turn = 0;
            for (i64 o0 = from; o0 < to; o0 += OTHER, turn ^= TURNS - 1) {
                int others = p.other - o0 < OTHER ? (int)(p.other - o0) : OTHER, gap = (int)(row0 - o0);
                fetch(o0 + (TURNS - 1) * OTHER, turn ^ (TURNS - 1));
                copied<TURNS - 1>();
                __syncthreads();
                const T* first = room + turn * 2 * SIDE;
                const T* second = first + SIDE;
                const float* lse = tile_lse[turn];
                const float* delta = tile_delta[turn];
                Scores s, g;
                scores(s, x, first, lane);
                if constexpr (SECOND) scores(g, x2, second, lane);
                each(s, row, pair, [&](float& v, int, int, int, int) { v *= scale; });
                i64 corner = mask0 + row0 * own_step + o0 * other_step;
                if (p.kind == TRUTHS) add_mask<b8>(s, p, corner, own_step, other_step, rows, others, row, pair);
                else if (p.kind == FLOATS) add_mask<float>(s, p, corner, own_step, other_step, rows, others, row, pair);
                else if (p.kind == OWN_TYPE) add_mask<T>(s, p, corner, own_step, other_step, rows, others, row, pair);
                if (others < OTHER || rows < OWN || (p.causal && (BY_KEY ? -gap < OWN : gap < OTHER)))
                    each(s, row, pair, [&](float& v, int, int, int mine, int theirs) {
                        bool ahead = BY_KEY ? mine - theirs > -gap : theirs - mine > gap;
                        v = theirs < others && mine < rows && !(p.causal && ahead) ? v : -Consts<float>::INF();
                    });
                if constexpr (MODE == FORWARD) {
                    float top[2] = {most[0], most[1]}, keep[2], base[2], more[2] = {0, 0};
                    each(s, row, pair, [&](float& v, int, int e, int, int) { top[e / 2] = larger_of(v, top[e / 2]); });
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        top[h] = along_row(top[h], [](float a, float b) { return larger_of(a, b); });
                        // nothing seen so far: any number below infinity serves
                        base[h] = top[h] == -Consts<float>::INF() ? 0.0f : top[h];
                        keep[h] = doubled(most[h] - base[h]);
                        most[h] = top[h];
                    }
                    each(s, row, pair, [&](float& v, int, int e, int, int) { more[e / 2] += v = doubled(v - base[e / 2]); });
#pragma unroll
                    for (int h = 0; h < 2; h++) sum[h] = num::fma(sum[h], keep[h], more[h]);
#pragma unroll
                    for (int n = 0; n < NO; n++) acc[n][0] *= keep[0], acc[n][1] *= keep[0], acc[n][2] *= keep[1], acc[n][3] *= keep[1];
                    // sums count what is dropped too
                    if constexpr (DROPS) drop.template each<NS, false>(row0 + row, o0, pair, [&](int n, int e, float by) { s[n][e] *= by; });
                } else {
                    if constexpr (DROPS && SECOND) drop.template each<NS, BY_KEY>(row0 + row, o0, pair, [&](int n, int e, float by) { g[n][e] *= by; });
                    each(s, row, pair, [&](float& v, int n, int e, int, int theirs) {
                        // what is not seen has no weight, also where a query sees nothing
                        float w = v == -Consts<float>::INF() ? 0.0f : doubled(v - (BY_KEY ? lse[theirs] : own_lse[e / 2]));
                        if constexpr (SECOND) w *= g[n][e] - (BY_KEY ? delta[theirs] : own_delta[e / 2]);
                        v = w;
                    });
                    if constexpr (DROPS && !SECOND) drop.template each<NS, BY_KEY>(row0 + row, o0, pair, [&](int n, int e, float by) { s[n][e] *= by; });
                }
                add(acc, s, SECOND ? first : second, lane);
                // before the next but one takes its place
                __syncthreads();
            }
            copied<0>();
            T* out = at<T>(p.out.start) + batch * p.out.batch + head_of * p.out.head;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float by = SECOND ? (float)p.scale : 1.0f;
                if constexpr (MODE == FORWARD) {
                    sum[h] = along_row(sum[h], [](float a, float b) { return a + b; });
                    // a query without any key gets zeros
                    by = sum[h] == 0 ? 0.0f : 1.0f / sum[h];
                }
                if (row + h * 8 >= rows) continue;
                i64 mine = row0 + row + h * 8;
#pragma unroll
                for (int n = 0; n < NO; n++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        int column = n * 8 + pair + e;
                        if (column < columns) out[mine * p.out.row + column] = Element<T>::down(acc[n][h * 2 + e] * by);
                    }
                if (MODE == FORWARD && pair == 0) at<float>(p.lse)[line + mine] = most[h] * HALVING + num::ln(sum[h]);
            }
        }
    }
};
// Of gradients of halves a fourth block is worth the few registers that it makes threads spill (measured on an H200).
#define WARP_ATTENTION(NAME, T, DEPTH, MODE, DROPS)                                                                                 \
    KERNEL_OF_BLOCKS(NAME, AttentionParams, 128, DEPTH > 64 ? 2 : sizeof(T) == 4 && MODE >= OF_QUERY && MODE != OF_VALUE ? 2 : MODE == FORWARD || sizeof(T) == 4 ? 3 : 4) { \
        WarpAttention<T, DEPTH, MODE, DROPS>::run(p);                                                                               \
    }
