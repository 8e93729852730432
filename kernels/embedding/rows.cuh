// Rows of a table by index, in opaque pieces, and the sums that their gradients are. Those go over the indices in sorted order,
// so that they are the same each time.
#pragma once
#include "../reduction/reduction.cuh"

struct LookupParams {
    u64 out, table, index;
    // indices, pieces of a row, rows of the table
    i64 n, pieces, rows, division;
    u64 fault, kind;
};
template <class T, class I>
DEVICE void lookup(const LookupParams& p) {
    Quotient q(p.pieces, (u64)p.division);
    i64 all = p.n * p.pieces;
    bool small = all < 0x7fffffff;
    for (i64 i = first_index(); i < all; i += all_threads()) {
        i64 r = small ? (i64)q.of((u32)i) : i / p.pieces, piece = i - r * p.pieces, k = (i64)at<I>(p.index)[r];
        if (k < 0 || k >= p.rows) {
            if (piece == 0) report(p.fault, p.kind, k, 0, p.rows);
            continue;
        }
        at<T>(p.out)[i] = at<T>(p.table)[k * p.pieces + piece];
    }
}
#define LOOKUP(NAME, T, I) \
    KERNEL(NAME, LookupParams) { lookup<T, I>(p); }

// A chunk is this many places of the sorted order.
constexpr i64 CHUNK = 32;
struct ScatterRowsParams {
    // sums of rows; gradients; indices in sorted order, and where each came from
    u64 out, grad, keys, from;
    // of each chunk the sum of the row that began before it, and of the one that goes on behind it
    u64 partial;
    i64 n, width, rows, padding, by_frequency;
    u64 fault, kind;
};
// How many of the sorted keys are below `k`, or not above it.
DEVICE i64 keys_before(const i64* keys, i64 n, i64 k, bool equal_too) {
    i64 low = 0, high = n;
    while (low < high) {
        i64 mid = (low + high) / 2;
        if (keys[mid] < k || (equal_too && keys[mid] == k)) low = mid + 1;
        else high = mid;
    }
    return low;
}
DEVICE float shared_by(float s, i64 n) { return s / (float)n; }
DEVICE double shared_by(double s, i64 n) { return s / (double)n; }
template <class V> DEVICE Cx<V> shared_by(Cx<V> s, i64 n) { return {s.re / (V)n, s.im / (V)n}; }
template <class T, class C>
DEVICE void put_row(const ScatterRowsParams& p, i64 row, i64 column, C sum) {
    const i64* keys = at<i64>(p.keys);
    if (p.by_frequency) sum = shared_by(sum, keys_before(keys, p.n, row, true) - keys_before(keys, p.n, row, false));
    at<T>(p.out)[row * p.width + column] = Element<T>::down(Convert<typename Element<T>::C, C>::of(sum));
}
template <class T, class C>
DEVICE void scatter_rows(const ScatterRowsParams& p) {
    const i64* keys = at<i64>(p.keys);
    i64 chunks = (p.n + CHUNK - 1) / CHUNK;
    for (i64 i = first_index(); i < chunks * p.width; i += all_threads()) {
        i64 chunk = i / p.width, column = i % p.width, start = chunk * CHUNK, end = start + CHUNK < p.n ? start + CHUNK : p.n;
        i64 row = keys[start];
        bool before = start > 0 && keys[start - 1] == row;
        C sum = zero_of<C>();
        auto leave = [&](bool after) {
            if (row == p.padding || row < 0 || row >= p.rows) {
                if (row != p.padding && column == 0) report(p.fault, p.kind, row, 0, p.rows);
            } else if (before) {
                at<C>(p.partial)[chunk * 2 * p.width + column] = sum;
            } else if (after) {
                at<C>(p.partial)[(chunk * 2 + 1) * p.width + column] = sum;
            } else {
                put_row<T, C>(p, row, column, sum);
            }
        };
        for (i64 j = start; j < end; j++) {
            if (keys[j] != row) {
                leave(false);
                row = keys[j], before = false, sum = zero_of<C>();
            }
            sum = plus(sum, Element<T>::up(at<T>(p.grad)[at<i64>(p.from)[j] * p.width + column]));
        }
        leave(end < p.n && keys[end] == row);
    }
}
// Rows that several chunks share, from the chunk in which they begin.
template <class T, class C>
DEVICE void scatter_shared(const ScatterRowsParams& p) {
    const i64* keys = at<i64>(p.keys);
    i64 chunks = (p.n + CHUNK - 1) / CHUNK;
    for (i64 i = first_index(); i < (chunks - 1) * p.width; i += all_threads()) {
        i64 chunk = i / p.width, column = i % p.width, start = chunk * CHUNK, end = start + CHUNK;
        i64 row = keys[end - 1];
        bool begins = start == 0 || keys[start - 1] != row;
        if (keys[end] != row || !begins || row == p.padding || row < 0 || row >= p.rows) continue;
        C sum = at<C>(p.partial)[(chunk * 2 + 1) * p.width + column];
        for (i64 q = chunk + 1; q < chunks && keys[q * CHUNK] == row; q++) sum = plus(sum, at<C>(p.partial)[q * 2 * p.width + column]);
        put_row<T, C>(p, row, column, sum);
    }
}
#define SCATTER_ROWS(NAME, T, C)                                        \
    KERNEL(NAME, ScatterRowsParams) { scatter_rows<T, C>(p); }          \
    KERNEL(NAME##_shared, ScatterRowsParams) { scatter_shared<T, C>(p); }
