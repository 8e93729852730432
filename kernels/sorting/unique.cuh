// Runs of equal elements, or of equal rows of numbers.
#pragma once
#include "key.cuh"

struct UniqueParams {
    // elements in the order of their runs, and where each was before (0: in its place)
    u64 in, order;
    i64 n;
    // 1 at the first of each run; running sums of that
    u64 heads, sums;
    // the first of each run: its value and its place before; runs by element; lengths of runs
    u64 values, first, inverse, lengths;
    i64 runs;
    // of rows: their numbers
    i64 width;
};
template <class T>
DEVICE void unique_heads(const UniqueParams& p) {
    const T* in = at<T>(p.in);
    for (i64 i = first_index(); i < p.n; i += all_threads())
        at<i64>(p.heads)[i] = i == 0 || Key<T>::is_nan(in[i]) || Key<T>::of(in[i - 1]) != Key<T>::of(in[i]);
}
// -1, 0 or 1: how two rows of numbers are ordered.
DEVICE int compare_rows(const i64* a, const i64* b, i64 width) {
    for (i64 k = 0; k < width; k++)
        if (a[k] != b[k]) return a[k] < b[k] ? -1 : 1;
    return 0;
}
DEVICE void unique_row_heads(const UniqueParams& p) {
    const i64* in = at<i64>(p.in);
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        i64 head = 1;
        if (i > 0) {
            i64 a = p.order ? at<i64>(p.order)[i - 1] : i - 1, b = p.order ? at<i64>(p.order)[i] : i;
            head = compare_rows(in + a * p.width, in + b * p.width, p.width) != 0;
        }
        at<i64>(p.heads)[i] = head;
    }
}
// What each element says of its run.
DEVICE void unique_runs(const UniqueParams& p) {
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        i64 run = at<i64>(p.sums)[i] - 1, from = p.order ? at<i64>(p.order)[i] : i;
        if (p.inverse) at<i64>(p.inverse)[from] = run;
        if (at<i64>(p.heads)[i]) {
            at<i64>(p.first)[run] = from;
            // where runs begin, for their lengths
            at<i64>(p.lengths)[run] = i;
        }
    }
}
// From where runs begin to how long they are.
struct LengthParams {
    u64 starts, lengths;
    i64 runs, n;
};
DEVICE void run_lengths(const LengthParams& p) {
    for (i64 i = first_index(); i < p.runs; i += all_threads())
        at<i64>(p.lengths)[i] = (i + 1 < p.runs ? at<i64>(p.starts)[i + 1] : p.n) - at<i64>(p.starts)[i];
}
#define UNIQUE_HEADS(NAME, T) \
    KERNEL(NAME, UniqueParams) { unique_heads<T>(p); }
#define UNIQUE_ROWS(NAME)                                            \
    KERNEL(NAME##_heads, UniqueParams) { unique_row_heads(p); }      \
    KERNEL(NAME##_runs, UniqueParams) { unique_runs(p); }            \
    KERNEL(NAME##_lengths, LengthParams) { run_lengths(p); }

// One step of a bitonic sort of rows of numbers by their order: places from `n` on come last.
struct RowSortParams {
    u64 rows, order;
    i64 n, width, padded, k, j;
};
DEVICE void row_sort(const RowSortParams& p) {
    i64* order = at<i64>(p.order);
    const i64* rows = at<i64>(p.rows);
    for (i64 t = first_index(); t < p.padded / 2; t += all_threads()) {
        i64 i = 2 * t - (t & (p.j - 1)), l = i + p.j, a = order[i], b = order[l];
        bool larger = a > b;
        if (a < p.n && b < p.n) {
            int c = compare_rows(rows + a * p.width, rows + b * p.width, p.width);
            if (c != 0) larger = c > 0;
        }
        if (larger == ((i & p.k) == 0)) order[i] = b, order[l] = a;
    }
}
#define ROW_SORT(NAME) \
    KERNEL(NAME, RowSortParams) { row_sort(p); }
