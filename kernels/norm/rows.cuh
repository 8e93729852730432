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
template <class In, class W, class St, bool RMS, bool GROUPS, int HELD>
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
        Part<In, HELD> part(x, n, t, step);
        C mean = 0, squares = 0;
        if constexpr (RMS) {
            part.each([&](In v, i64) { squares = num::fma(Element<In>::up(v), Element<In>::up(v), squares); });
        } else {
            C sum = 0;
            part.each([&](In v, i64) { sum += Element<In>::up(v); });
            mean = all(sum) / count;
            part.each([&](In v, i64) {
                C d = Element<In>::up(v) - mean;
                squares = num::fma(d, d, squares);
            });
        }
        C rstd = C(1) / num::sqrt(all(squares) / count + (C)p.eps);
        if (n && t == 0) {
            if (!RMS) at<St>(p.mean)[row] = Element<St>::down((typename Element<St>::C)mean);
            at<St>(p.rstd)[row] = Element<St>::down((typename Element<St>::C)rstd);
        }
        if constexpr (HELD && !GROUPS) {
            constexpr int V = pack_of<In>();
            part.packs([&](int k, u32 i) {
                Pack<W, V> w, b;
                if (p.weight) w = reinterpret_cast<const Pack<W, V>*>(weight)[i];
                if (p.bias) b = reinterpret_cast<const Pack<W, V>*>(bias)[i];
                Pack<In, V> z;
#pragma unroll
                for (int v = 0; v < V; v++) {
                    C c = (Element<In>::up(part.own[k].v[v]) - mean) * rstd;
                    if (p.weight) c = c * (C)Element<W>::up(w.v[v]);
                    if (p.bias) c = c + (C)Element<W>::up(b.v[v]);
                    z.v[v] = Element<In>::down(c);
                }
                reinterpret_cast<Pack<In, V>*>(y)[i] = z;
            });
        } else {
            i64 first = GROUPS ? row % p.groups * p.per : 0;
            part.into(y, [&](In v, i64 i) {
                C z = (Element<In>::up(v) - mean) * rstd;
                i64 c = GROUPS ? first + channel.of((u32)i) : i;
                if (p.weight) z = z * (C)Element<W>::up(weight[c]);
                if (p.bias) z = z + (C)Element<W>::up(bias[c]);
                return Element<In>::down(z);
            });
        }
    }
}
#define ROW_NORM(NAME, IN, W, ST, RMS, GROUPS, HELD) \
    KERNEL_OF_LARGE_BLOCKS(NAME, RowNormParams, sizeof(IN) == 8 ? 512 : 1024) { row_norm<IN, W, ST, RMS, GROUPS, HELD>(p); }

struct RowNormBackParams {
    u64 dx, dy, x, weight, mean, rstd;
    i64 rows, n, threads;
};
template <class In, class W, class St, bool RMS, int HELD>
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
        C a = 0, b = 0;
        // the gradient with the weight, and the normalised element
        auto pair = [&](In d, In v, C w) {
            C up = Element<In>::up(d) * w, hat = (Element<In>::up(v) - mean) * rstd;
            return Cx<C>{up, hat};
        };
        if constexpr (HELD) {
            constexpr int V = pack_of<In>();
            Part<In, HELD> grad(dy, n, t, step), value(x, n, t, step);
            auto factors = [&](u32 i) {
                Pack<W, V> w;
                if (p.weight) w = reinterpret_cast<const Pack<W, V>*>(weight)[i];
                return w;
            };
            grad.packs([&](int k, u32 i) {
                Pack<W, V> w = factors(i);
#pragma unroll
                for (int v = 0; v < V; v++) {
                    Cx<C> r = pair(grad.own[k].v[v], value.own[k].v[v], p.weight ? (C)Element<W>::up(w.v[v]) : C(1));
                    if (!RMS) a += r.re;
                    b = num::fma(r.re, r.im, b);
                }
            });
            if (!RMS) a = all(a) / count;
            b = all(b) / count;
            grad.packs([&](int k, u32 i) {
                Pack<W, V> w = factors(i);
                Pack<In, V> z;
#pragma unroll
                for (int v = 0; v < V; v++) {
                    Cx<C> r = pair(grad.own[k].v[v], value.own[k].v[v], p.weight ? (C)Element<W>::up(w.v[v]) : C(1));
                    z.v[v] = Element<In>::down((r.re - a - r.im * b) * rstd);
                }
                reinterpret_cast<Pack<In, V>*>(dx)[i] = z;
            });
        } else {
            auto one = [&](In d, i64 i) { return pair(d, x[i], p.weight ? (C)Element<W>::up(weight[i]) : C(1)); };
            walk(dy, n, t, step, [&](In d, i64 i) {
                Cx<C> r = one(d, i);
                if (!RMS) a += r.re;
                b += r.re * r.im;
            });
            if (!RMS) a = all(a) / count;
            b = all(b) / count;
            rewrite(dy, dx, n, t, step, [&](In d, i64 i) {
                Cx<C> r = one(d, i);
                return Element<In>::down((r.re - a - r.im * b) * rstd);
            });
        }
    }
}
#define ROW_NORM_BACKWARD(NAME, IN, W, ST, RMS, HELD) \
    KERNEL_OF_LARGE_BLOCKS(NAME, RowNormBackParams, sizeof(IN) == 8 ? 512 : 1024) { row_norm_backward<IN, W, ST, RMS, HELD>(p); }

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
