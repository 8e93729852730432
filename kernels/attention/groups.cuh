// Attention of halves where groups of four warps multiply (`device/groups.cuh`): a block owns 64 rows for each of its GROUPS, and all of
// them walk over the same tiles of OTHER rows of the other side, of which the next one arrives meanwhile.
#pragma once
#include "../device/groups.cuh"
#include "attention.cuh"

// Gradients of keys and values at once.
constexpr int OF_BOTH = 4;

template <class T, int DEPTH, int MODE, bool MASKED, bool DROPS, int GROUPS, int OTHER>
struct GroupAttention {
    static constexpr bool BY_KEY = MODE == OF_BOTH, SECOND = MODE != FORWARD;
    static constexpr int ROWS = GROUPS * 64, THREADS = GROUPS * 128, NS = OTHER / 8, NO = DEPTH / 8;
    // of a tile of the other side, and of the own rows, in halves
    static constexpr int SIDE = OTHER * DEPTH, OWN_SIDE = ROWS * DEPTH;
    static constexpr int SHARED = ((SECOND ? 2 : 1) * OWN_SIDE + 4 * SIDE) * 2 + (BY_KEY ? 4 * OTHER * 4 : 0) + 1024;
    typedef float Scores[NS][4];
    typedef float Sums[NO][4];
    static constexpr float DOUBLINGS = 1.4426950408889634f, HALVING = 0.69314718055994531f;
    static DEVICE const T* head(const Heads& h, i64 batch, i64 head) { return at<T>(h.start) + batch * h.batch + head * h.head; }
    static DEVICE u32 word(float a, float b) { return two_halves<T>(a, b); }
    static DEVICE float doubled(float x) {
#ifdef FLAMBEAU_EMULATED
        return ::exp2f(x);
#else
        float v;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(x));
        return v;
#endif
    }
    // A query that sees nothing has weights of minus infinity beside any other number.
    static DEVICE float doublings(float lse) { return lse == -Consts<float>::INF() ? 0.0f : lse * DOUBLINGS; }
    // over the four lanes that share a row
    template <class F>
    static DEVICE float along_row(float v, F join) {
        v = join(v, __shfl_xor_sync(0xffffffffu, v, 1));
        return join(v, __shfl_xor_sync(0xffffffffu, v, 2));
    }
    // a tile of N rows, zeros outside of `count` rows and `width` columns, which arrives when `copied` is waited for: all rows are whole
    // numbers of 16 bytes and aligned so
    template <int N>
    static DEVICE void stage(T* to, const T* rows, i64 step, int count, int width) {
        // the rows that a thread takes are whole groups of eight apart, so its piece lies at the same place in each
        constexpr int PIECES = DEPTH / 8, APART = THREADS / PIECES;
        static_assert(APART % 8 == 0);
        int r0 = threadIdx.x / PIECES, c = threadIdx.x % PIECES * 8;
        T* place = to + place_in<N>(r0, c);
        const T* source = rows + r0 * step + c;
        int there = c < width ? count - r0 : 0;
#pragma unroll
        for (int r = 0; r < N; r += APART)
            if (N % APART == 0 || r0 + r < N) copy_16_or_zeros(place + r * PANEL, source + r * step, r < there);
    }
    // f(number, place in it, row of the own side, row of the other) for a thread's scores
    template <class F>
    static DEVICE void each(Scores& s, int row, int pair, F f) {
#pragma unroll
        for (int n = 0; n < NS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) f(s[n][e], n, e, row + e / 2 * 8, n * 8 + pair + e % 2);
    }
    // What a mask of truths says of a thread's scores, a bit each, or one for each of their columns if all rows are one `line`: read while
    // the scores are made.
    struct Seen {
        u32 bits[(NS * 4 + 31) / 32];
        bool line;
    };
    static DEVICE Seen seen(const AttentionParams& p, i64 mask0, i64 row0, i64 o0, int row, int pair) {
        Seen all{};
        if (!MASKED || p.kind != TRUTHS) return all;
        int rows = p.own - row0 < ROWS ? (int)(p.own - row0) : ROWS, others = p.other - o0 < OTHER ? (int)(p.other - o0) : OTHER;
        i64 own_step = BY_KEY ? p.mask_key : p.mask_query, other_step = BY_KEY ? p.mask_query : p.mask_key;
        const u8* mask = at<u8>(p.mask) + mask0 + (row0 + row) * own_step + (o0 + pair) * other_step;
        if (own_step == 0 && other_step == 1 && others == OTHER && ((u64)(size_t)mask & 1) == 0) {
            static_assert(NS <= 16);
            all.line = true;
#pragma unroll
            for (int n = 0; n < NS; n++) {
                u32 w = *reinterpret_cast<const u16*>(mask + n * 8);
                all.bits[0] |= ((w & 0xff ? 1u : 0u) | (w & 0xff00 ? 2u : 0u)) << n * 2;
            }
            return all;
        }
        if (other_step == 0) {
            // all columns are one: a bit for each row, everywhere
            u32 first = row < rows && mask[0] ? 3u : 0u, second = row + 8 < rows && mask[8 * own_step] ? 12u : 0u;
#pragma unroll
            for (int i = 0; i < (NS * 4 + 31) / 32; i++) all.bits[i] = (first | second) * 0x11111111u;
            return all;
        }
        auto two = [](const u8* from) {
            u32 w = *reinterpret_cast<const u16*>(from);
            return (w & 0xff ? 1u : 0u) | (w & 0xff00 ? 2u : 0u);
        };
        bool twos = other_step == 1 && others == OTHER && row + 8 < rows && ((u64)(size_t)mask & 1) == 0;
#pragma unroll
        for (int i = 0; i < (NS * 4 + 31) / 32; i++) {
            if (twos) {
                const u8* from = mask + i * 64;
#pragma unroll
                for (int n = 0; n < 8; n++) all.bits[i] |= (two(from + n * 8) | two(from + 8 * own_step + n * 8) << 2) << n * 4;
                continue;
            }
            // some at once: all of them would take as many registers as the scores
            constexpr int TOGETHER = SECOND ? 4 : 2;
#pragma unroll TOGETHER
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    int theirs = (i * 8 + n) * 8 + e % 2;
                    bool there = row + e / 2 * 8 < rows && theirs + pair < others;
                    if (there && mask[e / 2 * 8 * own_step + theirs * other_step]) all.bits[i] |= 1u << (n * 4 + e);
                }
        }
        return all;
    }
    template <class M>
    static DEVICE void add_mask(Scores& s, const AttentionParams& p, i64 first, i64 own_step, i64 other_step, int rows, int others, int row, int pair) {
        const M* mask = at<M>(p.mask) + first;
        each(s, row, pair, [&](float& v, int, int, int mine, int theirs) {
            if (mine >= rows || theirs >= others) return;
            v += Element<M>::up(mask[mine * own_step + theirs * other_step]) * DOUBLINGS;
        });
    }
    // Minus infinity, or what the mask adds, for the scores of own rows from `row0` on and others from `o0` on.
    static DEVICE void veil(Scores& s, const Seen& truths, const AttentionParams& p, i64 mask0, i64 row0, i64 o0, int row, int pair) {
        int rows = p.own - row0 < ROWS ? (int)(p.own - row0) : ROWS, others = p.other - o0 < OTHER ? (int)(p.other - o0) : OTHER, gap = (int)(row0 - o0);
        if constexpr (MASKED) {
            float scale = (float)p.scale * DOUBLINGS;
            if (truths.line) {
#pragma unroll
                for (int n = 0; n < NS; n++)
#pragma unroll
                    for (int c = 0; c < 2; c++) {
                        float more = truths.bits[0] >> (n * 2 + c) & 1 ? 0.0f : -Consts<float>::INF();
                        s[n][c] = num::fma(s[n][c], scale, more), s[n][c + 2] = num::fma(s[n][c + 2], scale, more);
                    }
            } else {
                each(s, row, pair, [&](float& v, int, int, int, int) { v *= scale; });
            }
            i64 own_step = BY_KEY ? p.mask_key : p.mask_query, other_step = BY_KEY ? p.mask_query : p.mask_key;
            i64 corner = mask0 + row0 * own_step + o0 * other_step;
            if (p.kind == TRUTHS && !truths.line) each(s, row, pair, [&](float& v, int n, int e, int, int) { v = truths.bits[n / 8] >> (n % 8 * 4 + e) & 1 ? v : -Consts<float>::INF(); });
            else if (p.kind == FLOATS) add_mask<float>(s, p, corner, own_step, other_step, rows, others, row, pair);
            else if (p.kind == OWN_TYPE) add_mask<T>(s, p, corner, own_step, other_step, rows, others, row, pair);
        }
        // of rows that are not there nothing is written, but gradients of keys sum over all queries
        if (others < OTHER || (p.causal && (BY_KEY ? -gap < ROWS : gap < OTHER)))
            each(s, row, pair, [&](float& v, int, int, int mine, int theirs) {
                bool ahead = BY_KEY ? mine - theirs > -gap : theirs - mine > gap;
                v = theirs < others && !(p.causal && ahead) ? v : -Consts<float>::INF();
            });
    }
    // own rows times others' rows, which are columns here
    static DEVICE void scores(Scores& s, Factor own, Factor others) {
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16)
            group_product<T, false>(s, own.from(k / PANEL * (ROWS * 128) + k % PANEL * 2), others.from(k / PANEL * (OTHER * 128) + k % PANEL * 2), k > 0);
    }
    typedef u32 Weights[OTHER / 16][4];
    static DEVICE void rounded(Weights& w, const Scores& s) {
#pragma unroll
        for (int k = 0; k < OTHER / 16; k++)
            w[k][0] = word(s[2 * k][0], s[2 * k][1]), w[k][1] = word(s[2 * k][2], s[2 * k][3]), w[k][2] = word(s[2 * k + 1][0], s[2 * k + 1][1]),
            w[k][3] = word(s[2 * k + 1][2], s[2 * k + 1][3]);
    }
    static DEVICE void add(Sums& acc, const Weights& w, Factor others) {
#pragma unroll
        for (int k = 0; k < OTHER / 16; k++) group_product<T, true>(acc, w[k], others.from(k * 2048), true);
    }
    static DEVICE void write(const Heads& to, i64 batch, i64 head_of, i64 first, int rows, int row, int pair, int columns, const Sums& acc, const float (&by)[2]) {
        T* out = at<T>(to.start) + batch * to.batch + head_of * to.head + first * to.row;
        bool words = (u64)(size_t)out % 4 == 0 && to.row % 2 == 0;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (row + h * 8 >= rows) continue;
            T* line = out + (row + h * 8) * to.row;
#pragma unroll
            for (int n = 0; n < NO; n++) {
                int c = n * 8 + pair;
                float a = acc[n][h * 2] * by[h], b = acc[n][h * 2 + 1] * by[h];
                if (words && c + 1 < columns) *reinterpret_cast<u32*>(line + c) = word(a, b);
                else {
                    if (c < columns) line[c] = Element<T>::down(a);
                    if (c + 1 < columns) line[c + 1] = Element<T>::down(b);
                }
            }
        }
    }
    static DEVICE void clear(Sums& v) {
#pragma unroll
        for (int n = 0; n < NO; n++) v[n][0] = v[n][1] = v[n][2] = v[n][3] = 0;
    }
    // Weights are in units of the largest score so far, in which what was summed is kept.
    struct Softmax {
        float most[2], sum[2];
        DEVICE void begin() { most[0] = most[1] = -Consts<float>::INF(), sum[0] = sum[1] = 0; }
        // `own`, `other`: the first row of each side that the thread's scores are of, before its own places in them
        DEVICE void step(Scores& s, float (&keep)[2], float factor, int row, int pair, const Dropout<float>& drop, i64 own, i64 other) {
            // two chains for each row, so that a number does not always wait for the one before
            float top[2][2] = {{most[0], most[0]}, {most[1], most[1]}}, base[2], more[2][2] = {{0, 0}, {0, 0}};
            each(s, row, pair, [&](float& v, int, int e, int, int) { top[e / 2][e % 2] = larger_of(v, top[e / 2][e % 2]); });
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float all = along_row(larger_of(top[h][0], top[h][1]), [](float a, float b) { return larger_of(a, b); });
                // nothing seen so far: any number below infinity serves
                base[h] = all == -Consts<float>::INF() ? 0.0f : all * factor;
                keep[h] = doubled(num::fma(most[h], factor, -base[h]));
                most[h] = all;
            }
            each(s, row, pair, [&](float& v, int, int e, int, int) { more[e / 2][e % 2] += v = doubled(num::fma(v, factor, -base[e / 2])); });
#pragma unroll
            for (int h = 0; h < 2; h++) sum[h] = num::fma(sum[h], keep[h], more[h][0] + more[h][1]);
            // sums count what is dropped too
            if constexpr (DROPS) drop.template each<NS, false>(own + row, other, pair, [&](int n, int e, float by) { s[n][e] *= by; });
        }
    };
    static DEVICE void forward(const AttentionParams& p) {
        // two tiles of each: the keys of a tile are wanted before its values
        T* own = reinterpret_cast<T*>(shared_bytes<SHARED>());
        T* keys = own + OWN_SIDE;
        T* values = keys + 2 * SIDE;
        int lane = threadIdx.x % WARP, group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0), row = threadIdx.x / WARP * 16 + lane / 4, pair = lane % 4 * 2;
        int width = (int)p.width, columns = (int)p.columns;
        // scores are kept in units of a doubling
        float factor = MASKED ? 1.0f : (float)p.scale * DOUBLINGS;
        i64 tiles = (p.own + ROWS - 1) / ROWS;
        for (i64 t = blockIdx.x; t < p.batches * p.heads * tiles; t += gridDim.x) {
            // later queries see more keys: they come first
            i64 tile = tiles - 1 - t % tiles, head_of = t / tiles % p.heads, batch = t / tiles / p.heads, row0 = tile * ROWS;
            int rows = p.own - row0 < ROWS ? (int)(p.own - row0) : ROWS;
            i64 line = (batch * p.heads + head_of) * p.own + row0, mask0 = batch * p.mask_batch + head_of * p.mask_head;
            Dropout<float> drop = dropout_of<float, DROPS>(p, batch, head_of, BY_KEY);
            const T* y = head(p.y, batch, head_of);
            const T* z = head(p.b, batch, head_of);
            // queries see keys up to their own place
            int n = (int)(((p.causal && row0 + rows < p.other ? row0 + rows : p.other) + OTHER - 1) / OTHER);
            auto fetch = [&](T* room, const Heads& of, const T* from, int i, int wide) {
                int left = p.other - (i64)i * OTHER < OTHER ? (int)(p.other - (i64)i * OTHER) : OTHER;
                if (i < n) stage<OTHER>(room + i % 2 * SIDE, from + (i64)i * OTHER * of.row, of.row, left, wide);
            };
            __syncthreads();
            stage<ROWS>(own, head(p.x, batch, head_of) + row0 * p.x.row, p.x.row, rows, width);
            fetch(keys, p.y, y, 0, width);
            copies_end();
            fetch(values, p.b, z, 0, columns);
            fetch(keys, p.y, y, 1, width);
            copies_end();
            Factor x(own + group * 64 * PANEL, ROWS * 128);
            Sums acc;
            Scores s;
            Weights w;
            Softmax soft;
            float keep[2];
            clear(acc);
            soft.begin();
            copied<1>();
            tiles_written();
            __syncthreads();
            products_begin();
            scores(s, x, Factor(keys, OTHER * 128));
            products_end();
            Seen truths = seen(p, mask0, row0, 0, row, pair);
            products_done<0>();
            pinned(s);
            veil(s, truths, p, mask0, row0, 0, row, pair);
            soft.step(s, keep, factor, row, pair, drop, row0, 0);
            rounded(w, s);
            for (int i = 0; i + 1 < n; i++) {
                copied<0>();
                tiles_written();
                // and nobody reads the tiles any more whose places are taken now
                __syncthreads();
                products_begin();
                // the next scores are ready before these sums, and become weights meanwhile
                scores(s, x, Factor(keys + (i + 1) % 2 * SIDE, OTHER * 128));
                products_end();
                add(acc, w, Factor(values + i % 2 * SIDE, OTHER * 128));
                products_end();
                fetch(values, p.b, z, i + 1, columns);
                fetch(keys, p.y, y, i + 2, width);
                copies_end();
                truths = seen(p, mask0, row0, (i64)(i + 1) * OTHER, row, pair);
                products_done<1>();
                pinned(s);
                veil(s, truths, p, mask0, row0, (i64)(i + 1) * OTHER, row, pair);
                soft.step(s, keep, factor, row, pair, drop, row0, (i64)(i + 1) * OTHER);
                computed(soft.sum[0] + soft.sum[1]);
                products_done<0>();
                pinned(acc);
                rounded(w, s);
#pragma unroll
                for (int k = 0; k < NO; k++) acc[k][0] *= keep[0], acc[k][1] *= keep[0], acc[k][2] *= keep[1], acc[k][3] *= keep[1];
            }
            copied<0>();
            tiles_written();
            __syncthreads();
            products_begin();
            add(acc, w, Factor(values + (n - 1) % 2 * SIDE, OTHER * 128));
            products_end();
            products_done<0>();
            pinned(acc);
            float by[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float sum = along_row(soft.sum[h], [](float a, float b) { return a + b; });
                // a query without any key gets zeros
                by[h] = sum == 0 ? 0.0f : 1.0f / sum;
                if (row + h * 8 < rows && pair == 0) at<float>(p.lse)[line + row + h * 8] = soft.most[h] * factor * HALVING + num::ln(sum);
            }
            write(p.out, batch, head_of, row0, rows, row, pair, columns, acc, by);
        }
    }
    static DEVICE void backward(const AttentionParams& p) {
        T* own = reinterpret_cast<T*>(shared_bytes<SHARED>());
        T* own2 = own + OWN_SIDE;
        T* room = own2 + OWN_SIDE;
        // of the queries of a tile
        float* tile_lse = reinterpret_cast<float*>(room + 4 * SIDE);
        float* tile_delta = tile_lse + 2 * OTHER;
        int lane = threadIdx.x % WARP, group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0), row = threadIdx.x / WARP * 16 + lane / 4, pair = lane % 4 * 2;
        int width = (int)p.width, width2 = (int)p.width2;
        float factor = MASKED ? 1.0f : (float)p.scale * DOUBLINGS;
        i64 tiles = (p.own + ROWS - 1) / ROWS;
        for (i64 t = blockIdx.x; t < p.batches * p.heads * tiles; t += gridDim.x) {
            // later queries see more keys, and earlier keys are seen by more queries: they come first
            i64 tile = BY_KEY ? t % tiles : tiles - 1 - t % tiles, head_of = t / tiles % p.heads, batch = t / tiles / p.heads, row0 = tile * ROWS;
            int rows = p.own - row0 < ROWS ? (int)(p.own - row0) : ROWS;
            i64 line = (batch * p.heads + head_of) * (BY_KEY ? p.other : p.own), mask0 = batch * p.mask_batch + head_of * p.mask_head;
            Dropout<float> drop = dropout_of<float, DROPS>(p, batch, head_of, BY_KEY);
            const T* y = head(p.y, batch, head_of);
            const T* z = head(p.y2, batch, head_of);
            // queries see keys up to their own place
            int n = (int)(((!BY_KEY && p.causal && row0 + rows < p.other ? row0 + rows : p.other) + OTHER - 1) / OTHER);
            int from = BY_KEY && p.causal ? (int)(row0 / OTHER) : 0;
            auto fetch = [&](int i) {
                if (i < n) {
                    i64 o0 = (i64)i * OTHER;
                    int others = p.other - o0 < OTHER ? (int)(p.other - o0) : OTHER, k = (int)threadIdx.x, turn = i % 2;
                    T* into = room + turn * 2 * SIDE;
                    stage<OTHER>(into, y + o0 * p.y.row, p.y.row, others, width);
                    stage<OTHER>(into + SIDE, z + o0 * p.y2.row, p.y2.row, others, width2);
                    if (BY_KEY && k < OTHER) {
                        tile_lse[turn * OTHER + k] = k < others ? doublings(at<float>(p.lse)[line + o0 + k]) : 0.0f;
                        tile_delta[turn * OTHER + k] = k < others ? at<float>(p.delta)[line + o0 + k] : 0.0f;
                    }
                }
                copies_end();
            };
            __syncthreads();
            stage<ROWS>(own, head(p.x, batch, head_of) + row0 * p.x.row, p.x.row, rows, width);
            stage<ROWS>(own2, head(p.x2, batch, head_of) + row0 * p.x2.row, p.x2.row, rows, width2);
            fetch(from);
            Factor x(own + group * 64 * PANEL, ROWS * 128), x2(own2 + group * 64 * PANEL, ROWS * 128);
            Sums acc, acc2;
            clear(acc);
            if constexpr (BY_KEY) clear(acc2);
            float own_lse[2], own_delta[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                bool there = !BY_KEY && row + h * 8 < rows;
                own_lse[h] = there ? doublings(at<float>(p.lse)[line + row0 + row + h * 8]) : 0.0f;
                own_delta[h] = there ? at<float>(p.delta)[line + row0 + row + h * 8] : 0.0f;
            }
            for (int i = from; i < n; i++) {
                copied<0>();
                tiles_written();
                // and nobody reads the other tile any more
                __syncthreads();
                Factor first(room + i % 2 * 2 * SIDE, OTHER * 128), second(room + i % 2 * 2 * SIDE + SIDE, OTHER * 128);
                const float* lse = tile_lse + i % 2 * OTHER;
                const float* delta = tile_delta + i % 2 * OTHER;
                Scores s, g;
                products_begin();
                scores(s, x, first);
                products_end();
                scores(g, x2, second);
                products_end();
                fetch(i + 1);
                Seen truths = seen(p, mask0, row0, (i64)i * OTHER, row, pair);
                products_done<1>();
                pinned(s);
                veil(s, truths, p, mask0, row0, (i64)i * OTHER, row, pair);
                each(s, row, pair, [&](float& v, int, int e, int, int theirs) { v = doubled(num::fma(v, factor, -(BY_KEY ? lse[theirs] : own_lse[e / 2]))); });
                Weights w;
                if constexpr (BY_KEY) {
                    if constexpr (DROPS) {
                        Scores kept;
                        drop.template each<NS, true>(row0 + row, (i64)i * OTHER, pair, [&](int n, int e, float by) { kept[n][e] = s[n][e] * by; });
                        rounded(w, kept);
                    } else {
                        rounded(w, s);
                    }
                    products_begin();
                    add(acc2, w, second);
                    products_end();
                    products_done<1>();
                } else {
                    computed(s[0][0]);
                    products_done<0>();
                }
                pinned(g);
                if constexpr (DROPS) drop.template each<NS, BY_KEY>(row0 + row, (i64)i * OTHER, pair, [&](int n, int e, float by) { g[n][e] *= by; });
                each(s, row, pair, [&](float& v, int n, int e, int, int theirs) { v *= g[n][e] - (BY_KEY ? delta[theirs] : own_delta[e / 2]); });
                Weights v;
                rounded(v, s);
                products_begin();
                add(acc, v, first);
                products_end();
                products_done<0>();
                pinned(acc);
                if constexpr (BY_KEY) pinned(acc2);
            }
            float by[2] = {(float)p.scale, (float)p.scale}, ones[2] = {1, 1};
            write(p.out, batch, head_of, row0, rows, row, pair, (int)p.columns, acc, by);
            if constexpr (BY_KEY) write(p.b, batch, head_of, row0, rows, row, pair, width2, acc2, ones);
        }
    }
    static DEVICE void run(const AttentionParams& p) {
        if constexpr (MODE == FORWARD) forward(p);
        else backward(p);
    }
};
// BYTES: what the launch gives a block.
#define GROUP_ATTENTION(NAME, T, DEPTH, MODE, MASKED, DROPS, GROUPS, OTHER, RESIDENT, BYTES)        \
    KERNEL_OF_BLOCKS(NAME, AttentionParams, GROUPS * 128, RESIDENT) {                        \
        typedef GroupAttention<T, DEPTH, MODE, MASKED, DROPS, GROUPS, OTHER> Whole;                 \
        static_assert(Whole::SHARED == BYTES);                                               \
        Whole::run(p);                                                                       \
    }
