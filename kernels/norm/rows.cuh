// Norms of rows: layer norm, RMS norm, and group norm, whose rows are the groups of each sample. A row has a warp or a block.
// `HELD`: each thread keeps its part of the row in registers, so that memory is read once.
#pragma once
#include "../device/block.cuh"

struct RowNormParams {
    u64 y, x, weight, bias, mean, rstd;
    // rows, their length, and the threads of each
    i64 rows, n, threads;
    // element i of row r belongs to the parameters at (r % groups) * per + i / l
    i64 groups, per, l, division;
    double eps;
};
constexpr int PACKS = 4;
// f(element, place, slot) for this thread's part of a row of `n`; held parts stand in `own`.
template <bool HELD, class In, class F>
DEVICE void own_part(Pack<In, pack_of<In>()>* own, const In* row, i64 n, u32 t, u32 step, bool load, F f) {
    constexpr int V = pack_of<In>();
    if constexpr (HELD) {
        u32 packs = (u32)(n / V);
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            u32 i = t + k * step;
            if (i >= packs) continue;
            if (load) own[k] = reinterpret_cast<const Pack<In, V>*>(row)[i];
#pragma unroll
            for (int v = 0; v < V; v++) f(own[k].v[v], (i64)(i * V + v));
        }
    } else {
        walk(row, n, t, step, f);
    }
}
// out[i] = f(element, place) for this thread's part.
template <bool HELD, class In, class F>
DEVICE void write_part(const Pack<In, pack_of<In>()>* own, const In* row, In* out, i64 n, u32 t, u32 step, F f) {
    constexpr int V = pack_of<In>();
    if constexpr (HELD) {
        u32 packs = (u32)(n / V);
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            u32 i = t + k * step;
            if (i >= packs) continue;
            Pack<In, V> y;
#pragma unroll
            for (int v = 0; v < V; v++) y.v[v] = f(own[k].v[v], (i64)(i * V + v));
            reinterpret_cast<Pack<In, V>*>(out)[i] = y;
        }
    } else {
        rewrite(row, out, n, t, step, f);
    }
}
template <class In, class W, class St, bool RMS, bool GROUPS, bool HELD>
DEVICE void row_norm(const RowNormParams& p) {
    typedef typename Element<In>::C C;
    __shared__ C room[WARP];
    u32 step = (u32)p.threads, t = threadIdx.x % step, lines = blockDim.x / step;
    bool whole = step == blockDim.x;
    auto add = [](C x, C y) { return x + y; };
    auto all = [&](C v) { return whole ? block_all(v, add, room) : warp_all(v, add); };
    Quotient channel(p.l, (u64)p.division);
    const W* weight = at<W>(p.weight);
    const W* bias = at<W>(p.bias);
    C count = (C)p.n;
    i64 rounds = (p.rows + (i64)gridDim.x * lines - 1) / ((i64)gridDim.x * lines);
    for (i64 r = 0; r < rounds; r++) {
        i64 row = (r * gridDim.x + blockIdx.x) * lines + threadIdx.x / step;
        // threads without a row go along to the barriers
        i64 n = row < p.rows ? p.n : 0;
        const In* x = at<In>(p.x) + (n ? row * p.n : 0);
        In* y = at<In>(p.y) + (n ? row * p.n : 0);
        Pack<In, pack_of<In>()> own[PACKS];
        C mean = 0, squares = 0;
        if constexpr (RMS) {
            own_part<HELD>(own, x, n, t, step, true, [&](In v, i64) { squares += Element<In>::up(v) * Element<In>::up(v); });
        } else {
            C sum = 0;
            own_part<HELD>(own, x, n, t, step, true, [&](In v, i64) { sum += Element<In>::up(v); });
            mean = all(sum) / count;
            own_part<HELD>(own, x, n, t, step, false, [&](In v, i64) {
                C d = Element<In>::up(v) - mean;
                squares += d * d;
            });
        }
        C rstd = C(1) / num::sqrt(all(squares) / count + (C)p.eps);
        if (n && t == 0) {
            if (!RMS) at<St>(p.mean)[row] = Element<St>::down((typename Element<St>::C)mean);
            at<St>(p.rstd)[row] = Element<St>::down((typename Element<St>::C)rstd);
        }
        i64 first = GROUPS ? row % p.groups * p.per : 0;
        write_part<HELD>(own, x, y, n, t, step, [&](In v, i64 i) {
            C z = (Element<In>::up(v) - mean) * rstd;
            i64 c = GROUPS ? first + channel.of((u32)i) : i;
            if (p.weight) z = z * (C)Element<W>::up(weight[c]);
            if (p.bias) z = z + (C)Element<W>::up(bias[c]);
            return Element<In>::down(z);
        });
    }
}
#define ROW_NORM(NAME, IN, W, ST, RMS, GROUPS, HELD) \
    KERNEL_OF_LARGE_BLOCKS(NAME, RowNormParams) { row_norm<IN, W, ST, RMS, GROUPS, HELD>(p); }

struct RowNormBackParams {
    u64 dx, dy, x, weight, mean, rstd;
    i64 rows, n, threads;
};
template <class In, class W, class St, bool RMS, bool HELD>
DEVICE void row_norm_backward(const RowNormBackParams& p) {
    typedef typename Element<In>::C C;
    __shared__ C room[WARP];
    u32 step = (u32)p.threads, t = threadIdx.x % step, lines = blockDim.x / step;
    bool whole = step == blockDim.x;
    auto add = [](C x, C y) { return x + y; };
    auto all = [&](C v) { return whole ? block_all(v, add, room) : warp_all(v, add); };
    const W* weight = at<W>(p.weight);
    C count = (C)p.n;
    i64 rounds = (p.rows + (i64)gridDim.x * lines - 1) / ((i64)gridDim.x * lines);
    for (i64 r = 0; r < rounds; r++) {
        i64 row = (r * gridDim.x + blockIdx.x) * lines + threadIdx.x / step;
        i64 n = row < p.rows ? p.n : 0, start = n ? row * p.n : 0;
        const In* x = at<In>(p.x) + start;
        const In* dy = at<In>(p.dy) + start;
        In* dx = at<In>(p.dx) + start;
        C mean = RMS || !n ? C(0) : (C)Element<St>::up(at<St>(p.mean)[row]);
        C rstd = n ? (C)Element<St>::up(at<St>(p.rstd)[row]) : C(0);
        Pack<In, pack_of<In>()> own[PACKS];
        C a = 0, b = 0;
        // dy is held; x comes from the cache the second time
        own_part<HELD>(own, dy, n, t, step, true, [&](In d, i64 i) {
            C up = Element<In>::up(d);
            if (p.weight) up = up * (C)Element<W>::up(weight[i]);
            if (!RMS) a += up;
            b += up * ((Element<In>::up(x[i]) - mean) * rstd);
        });
        if (!RMS) a = all(a) / count;
        b = all(b) / count;
        write_part<HELD>(own, dy, dx, n, t, step, [&](In d, i64 i) {
            C up = Element<In>::up(d);
            if (p.weight) up = up * (C)Element<W>::up(weight[i]);
            C hat = (Element<In>::up(x[i]) - mean) * rstd;
            return Element<In>::down((up - a - hat * b) * rstd);
        });
    }
}
#define ROW_NORM_BACKWARD(NAME, IN, W, ST, RMS, HELD) \
    KERNEL_OF_LARGE_BLOCKS(NAME, RowNormBackParams) { row_norm_backward<IN, W, ST, RMS, HELD>(p); }

struct ColumnParams {
    // sums over rows of dy * (x - mean) * rstd, and of dy
    u64 weight, bias, dy, x, mean, rstd;
    i64 rows, n;
    // blocks that share the rows of a column, and where each leaves its sums
    i64 parts;
    u64 sums;
};
constexpr int COLUMNS = 32, ROWS = 8;
// The sums of a block's columns, over its threads one below the other.
template <class C>
DEVICE void column_sums(C (*room)[COLUMNS], C& v, int x, int y) {
    room[y][x] = v;
    __syncthreads();
    for (int half = ROWS / 2; half > 0; half /= 2) {
        if (y < half) room[y][x] += room[y + half][x];
        __syncthreads();
    }
    v = room[0][x];
    __syncthreads();
}
template <class In, class W, class St, bool RMS>
DEVICE void row_norm_parameters(const ColumnParams& p) {
    typedef typename Element<In>::C C;
    __shared__ C room[ROWS][COLUMNS];
    int x = threadIdx.x % COLUMNS, y = threadIdx.x / COLUMNS;
    i64 groups = (p.n + COLUMNS - 1) / COLUMNS;
    for (i64 b = blockIdx.x; b < groups * p.parts; b += gridDim.x) {
        i64 part = b / groups, column = b % groups * COLUMNS + x;
        C dot = 0, sum = 0;
        if (column < p.n) {
#pragma unroll 4
            for (i64 r = part * ROWS + y; r < p.rows; r += p.parts * ROWS) {
                C d = Element<In>::up(at<In>(p.dy)[r * p.n + column]), v = Element<In>::up(at<In>(p.x)[r * p.n + column]);
                C mean = RMS ? C(0) : (C)Element<St>::up(at<St>(p.mean)[r]);
                dot += d * ((v - mean) * (C)Element<St>::up(at<St>(p.rstd)[r]));
                sum += d;
            }
        }
        column_sums(room, dot, x, y);
        column_sums(room, sum, x, y);
        if (y != 0 || column >= p.n) continue;
        if (p.parts > 1) {
            at<C>(p.sums)[part * p.n + column] = dot;
            at<C>(p.sums)[(p.parts + part) * p.n + column] = sum;
        } else {
            if (p.weight) at<W>(p.weight)[column] = Element<W>::down((typename Element<W>::C)dot);
            if (p.bias) at<W>(p.bias)[column] = Element<W>::down((typename Element<W>::C)sum);
        }
    }
}
template <class In, class W>
DEVICE void row_norm_parts(const ColumnParams& p) {
    typedef typename Element<In>::C C;
    __shared__ C room[ROWS][COLUMNS];
    int x = threadIdx.x % COLUMNS, y = threadIdx.x / COLUMNS;
    i64 groups = (p.n + COLUMNS - 1) / COLUMNS;
    for (i64 b = blockIdx.x; b < groups * 2; b += gridDim.x) {
        i64 column = b % groups * COLUMNS + x;
        u64 to = b < groups ? p.weight : p.bias;
        C sum = 0;
        if (column < p.n)
            for (i64 r = y; r < p.parts; r += ROWS) sum += at<C>(p.sums)[(b / groups * p.parts + r) * p.n + column];
        column_sums(room, sum, x, y);
        if (y == 0 && column < p.n && to) at<W>(to)[column] = Element<W>::down((typename Element<W>::C)sum);
    }
}
#define ROW_NORM_PARAMETERS(NAME, IN, W, ST, RMS)                                              \
    KERNEL_WITH_BARRIERS(NAME, ColumnParams) { row_norm_parameters<IN, W, ST, RMS>(p); }       \
    KERNEL_WITH_BARRIERS(NAME##_parts, ColumnParams) { row_norm_parts<IN, W>(p); }
