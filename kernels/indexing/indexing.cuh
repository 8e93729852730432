// Elements picked by an index along one dimension. An index that is out of bounds is reported, and its element is not touched.
#pragma once
#include "../device/base.cuh"

struct IndexParams {
    // out, source without the dimension's stride, index
    Geometry g;
    // the dimension: its size, and its stride in bytes in the source
    i64 size, stride, dim;
    u64 fault, kind;
};
template <class T, class I>
DEVICE void pick(const IndexParams& p) {
    for (i64 i = first_index(); i < p.g.n; i += all_threads()) {
        u64 a[OPERANDS];
        places<3>(p.g, i, a);
        i64 k = *at<I>(a[2]);
        if (k < 0 || k >= p.size) {
            report(p.fault, p.kind, k, p.dim, p.size);
            continue;
        }
        *at<T>(a[0]) = *at<T>(a[1] + k * p.stride);
    }
}
#define PICK(NAME, T, I) \
    KERNEL(NAME, IndexParams) { pick<T, I>(p); }
