// Which weights of attention are kept, found where they are wanted, so that no mask is stored. A call of Philox serves eight weights
// with 16 bits each: those of the queries q and q + 8 and the keys k, k + 8, k + 16 and k + 24, which one thread has in the results'
// tiles and four of which one thread has in the keys'. Each call is of a sequence of its own, at the generator's offset.
#pragma once
#include "../random/philox.cuh"

struct DropoutParams {
    // seed and offset of each batch, numbers of 64 bits; weights are kept whose 16 bits lie below `kept`, and become `by` times as large
    u64 states;
    i64 kept;
    double by;
};
template <class C>
struct Dropout {
    u64 key, counter;
    i64 first, columns;
    u32 kept;
    C by;
    DEVICE Dropout() : key(0), counter(0), first(0), columns(0), kept(0), by(0) {}
    DEVICE Dropout(const DropoutParams& p, i64 batch, i64 head, i64 queries, i64 keys) : kept((u32)p.kept), by((C)p.by) {
        key = at<u64>(p.states)[batch * 2];
        counter = at<u64>(p.states)[batch * 2 + 1] / 4;
        columns = (keys + 31) / 32 * 8;
        first = head * ((queries + 15) / 16 * 8) * columns;
    }
    // the eight of a query and a key
    DEVICE Words4 eight(i64 query, i64 key_) const { return philox_block(key, counter, (u64)(first + (query / 16 * 8 + query % 8) * columns + key_ / 32 * 8 + key_ % 8)); }
    // the factor of one of them: `second`: of the query that is 8 later, `n`: of the n-th key
    DEVICE C factor(const Words4& w, u32 second, u32 n) const {
        u32 word = second ? (n < 2 ? w.z : w.w) : (n < 2 ? w.x : w.y);
        return (word >> n % 2 * 16 & 0xffff) < kept ? by : C(0);
    }
    DEVICE C factor(i64 query, i64 key_) const { return factor(eight(query, key_), (u32)(query / 8 % 2), (u32)(key_ / 8 % 4)); }
    // f(n, e, factor) for the scores of a thread as `multiply` gives them, NS times two columns of two rows: rows from `own` on and
    // columns from `other` on, a multiple of 32
    template <int NS, bool BY_KEY, class F>
    DEVICE void each(i64 own, i64 other, int pair, F f) const {
        constexpr int TOGETHER = BY_KEY ? 2 : 4;
#pragma unroll
        for (int n = 0; n < NS; n += TOGETHER)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                i64 theirs = other + n * 8 + pair + c;
                Words4 w = BY_KEY ? eight(theirs, own) : eight(own, theirs);
#pragma unroll
                for (int k = 0; k < TOGETHER; k++)
#pragma unroll
                    for (int h = 0; h < 2; h++) f(n + k, h * 2 + c, BY_KEY ? factor(w, (u32)k, (u32)(own / 8 % 4 + h)) : factor(w, (u32)h, (u32)k));
            }
    }
};

struct DropoutMaskParams {
    u64 out;
    i64 batches, heads, queries, keys;
    DropoutParams dropout;
};
// The factors of all weights, for gradients of gradients.
template <class T>
DEVICE void attention_mask(const DropoutMaskParams& p) {
    for (i64 i = first_index(); i < p.batches * p.heads * p.queries * p.keys; i += all_threads()) {
        i64 k = i % p.keys, q = i / p.keys % p.queries, line = i / p.keys / p.queries;
        Dropout<typename Element<T>::C> drop(p.dropout, line / p.heads, line % p.heads, p.queries, p.keys);
        at<T>(p.out)[i] = Element<T>::down(drop.factor(q, k));
    }
}
#define ATTENTION_MASK(NAME, T) \
    KERNEL(NAME, DropoutMaskParams) { attention_mask<T>(p); }

struct StatesParams {
    u64 out;
    i64 n;
    u64 seed, offset;
};
// Seeds and offsets for n rows, four numbers apart; of recorded work those of the run.
DEVICE void philox_states(const StatesParams& p) {
    for (i64 i = first_index(); i < p.n; i += all_threads()) {
        at<u64>(p.out)[i * 2] = philox_seed(p.seed, p.offset);
        at<u64>(p.out)[i * 2 + 1] = philox_offset(p.seed, p.offset) + (u64)i * 4;
    }
}
#define PHILOX_STATES(NAME) \
    KERNEL(NAME, StatesParams) { philox_states(p); }
