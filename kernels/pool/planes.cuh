// Elements of planes by their positions, as max pooling gives them.
#pragma once
#include "../device/block.cuh"

struct PlaneParams {
    u64 out, x, index;
    // positions, of one plane, and elements of a plane
    i64 n, each, plane, division;
    u64 fault, kind;
    // what is reported beside a position that is outside
    i64 rows, columns;
};
DEVICE i64 plane_place(const PlaneParams& p, i64 i) {
    i64 k = at<i64>(p.index)[i];
    if (k < 0 || k >= p.plane) {
        report(p.fault, p.kind, k, p.rows, p.columns);
        return -1;
    }
    i64 plane = p.n < 0x7fffffff ? (i64)Quotient(p.each, (u64)p.division).of((u32)i) : i / p.each;
    return plane * p.plane + k;
}
template <class T>
DEVICE void plane_gather(const PlaneParams& p) {
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        i64 k = plane_place(p, i);
        if (k >= 0) at<T>(p.out)[i] = at<T>(p.x)[k];
    }
}
template <class T>
DEVICE void plane_unpool(const PlaneParams& p) {
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        i64 k = plane_place(p, i);
        if (k >= 0) at<T>(p.out)[k] = at<T>(p.x)[i];
    }
}
// `out` is of the type of sums, and was zeroed before.
template <class T>
DEVICE void plane_scatter(const PlaneParams& p) {
    typedef typename Element<T>::C C;
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        i64 k = plane_place(p, i);
        if (k >= 0) atomicAdd(at<C>(p.out) + k, Element<T>::up(at<T>(p.x)[i]));
    }
}
// The places in all planes, which are sorted for sums that are the same each time.
template <class T>
DEVICE void plane_keys(const PlaneParams& p) {
    for (i64 i = first_index(); i < p.n; i += all_threads()) at<i64>(p.out)[i] = plane_place(p, i);
}
#define PLANES(NAME, F, T) \
    KERNEL(NAME, PlaneParams) { F<T>(p); }
