// Elements moved as they are to other places: parts of a join, triangles, repeated places.
#pragma once
#include "../device/block.cuh"

struct MoveParams {
    Geometry g;
};
// out[i] = x[i] where the two lie anywhere.
template <class T>
DEVICE void move(const MoveParams& p) {
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<2>(p.g, i, a);
        *at<T>(a[0]) = *at<T>(a[1]);
    }
}
#define MOVE(NAME, T) \
    KERNEL(NAME, MoveParams) { move<T>(p); }

// Dense parts that are joined row by row: a row of the result is a row of each part, one after the other.
constexpr int PARTS = 64;
struct JoinParams {
    u64 out;
    // rows, units of a row of the result
    i64 rows, width;
    i64 parts;
    u64 start[PARTS];
    // where the row of each part begins in a row of the result; the last is the end of all
    i64 from[PARTS + 1];
};
template <class T>
DEVICE void join(const JoinParams& p) {
    i64 own = p.from[p.parts] - p.from[0];
    T* out = at<T>(p.out);
    for (i64 i = first_index(); i < p.rows * own; i += all_threads()) {
        i64 row = i / own, c = i - row * own + p.from[0];
        i64 low = 0, high = p.parts;
        while (high - low > 1) {
            i64 mid = (low + high) / 2;
            if (p.from[mid] <= c) low = mid;
            else high = mid;
        }
        i64 n = p.from[low + 1] - p.from[low];
        out[row * p.width + c] = at<T>(p.start[low])[row * n + c - p.from[low]];
    }
}
#define JOIN_PARTS(NAME, T) \
    KERNEL(NAME, JoinParams) { join<T>(p); }

struct TriangleParams {
    Geometry g;
    // rows and columns of each matrix; which diagonal bounds what is kept, and which side
    i64 rows, columns, diagonal, lower;
};
template <class T>
DEVICE void triangle(const TriangleParams& p) {
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<2>(p.g, i, a);
        i64 c = i % p.columns, r = i / p.columns % p.rows;
        bool keep = p.lower ? c - r <= p.diagonal : c - r >= p.diagonal;
        T v;
        memset(&v, 0, sizeof(T));
        if (keep) v = *at<T>(a[1]);
        *at<T>(a[0]) = v;
    }
}
#define TRIANGLE(NAME, T) \
    KERNEL(NAME, TriangleParams) { triangle<T>(p); }

struct RepeatParams {
    // for each count the sum of all up to it; the places to be written
    u64 sums, out;
    i64 counts, n;
};
// out[i]: the first place whose sum is larger than i.
DEVICE void repeat(const RepeatParams& p) {
    const i64* sums = at<i64>(p.sums);
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        i64 low = 0, high = p.counts;
        while (low < high) {
            i64 mid = (low + high) / 2;
            if (sums[mid] > i) high = mid;
            else low = mid + 1;
        }
        at<i64>(p.out)[i] = low;
    }
}
#define REPEAT(NAME) \
    KERNEL(NAME, RepeatParams) { repeat(p); }
