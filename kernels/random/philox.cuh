// Philox4x32-10 (Salmon and others, SC 2011): numbers by a key and a counter, so that each thread has a sequence of its own.
#pragma once
#include "../device/number.cuh"

struct Words4 {
    u32 x, y, z, w;
};
DEVICE Words4 philox_block(u64 key, u64 low, u64 high) {
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    Words4 c{(u32)low, (u32)(low >> 32), (u32)high, (u32)(high >> 32)};
#pragma unroll
    for (int round = 0; round < 10; round++) {
        u64 a = (u64)0xD2511F53u * c.x, b = (u64)0xCD9E8D57u * c.z;
        c = Words4{(u32)(b >> 32) ^ c.y ^ k0, (u32)b, (u32)(a >> 32) ^ c.w ^ k1, (u32)a};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}
// The sequence of a thread from an offset on, which counts numbers of 32 bits and is a multiple of 4. Of recorded work (an odd
// offset) the seed is the address of seed and offset, which each run of the graph has of its own, and the offset is added to it.
DEVICE bool philox_recorded(u64 offset) { return offset & 1; }
DEVICE u64 philox_seed(u64 seed, u64 offset) { return philox_recorded(offset) ? at<u64>(seed)[0] : seed; }
DEVICE u64 philox_offset(u64 seed, u64 offset) { return philox_recorded(offset) ? at<u64>(seed)[1] + (offset - 1) : offset; }
struct Philox {
    u64 key, sequence, counter;
    // what of a block is left, for those who take one number at a time
    Words4 now;
    u32 taken;
    // the second of two normals
    float kept;
    bool some;
    DEVICE Philox(u64 seed, u64 sequence_, u64 offset) : key(philox_seed(seed, offset)), sequence(sequence_), counter(philox_offset(seed, offset) / 4), now{0, 0, 0, 0}, taken(4), kept(0), some(false) {}
    DEVICE Words4 four() { return philox_block(key, counter++, sequence); }
    DEVICE u32 one() {
        if (taken == 4) {
            now = four();
            taken = 0;
        }
        u32 k = taken++;
        return k == 0 ? now.x : k == 1 ? now.y : k == 2 ? now.z : now.w;
    }
};
// Of (0, 1], and pairs of normals (Box and Muller).
DEVICE float uniform_of(u32 x) { return num::fma((float)x, 2.3283064e-10f, 2.3283064e-10f / 2.0f); }
DEVICE double uniform_of(u32 x, u32 y) {
    u64 z = (u64)x ^ ((u64)y << 21);
    return num::fma((double)z, 1.1102230246251565e-16, 1.1102230246251565e-16 / 2.0);
}
template <class V>
struct Pair2 {
    V x, y;
};
DEVICE Pair2<float> normals_of(u32 x, u32 y) {
    constexpr float TURN = 2.3283064e-10f * 6.2831855f;
    float u = uniform_of(x), v = num::fma((float)y, TURN, TURN / 2.0f), s = num::sqrt(-2.0f * num::ln(u));
    return {num::sin(v) * s, num::cos(v) * s};
}
DEVICE Pair2<double> normals_of(u32 x0, u32 x1, u32 y0, u32 y1) {
    u64 z = (u64)y0 ^ ((u64)y1 << 21);
    // in half turns
    double u = uniform_of(x0, x1), v = num::fma((double)z, 2 * 1.1102230246251565e-16, 1.1102230246251565e-16);
    double s = num::sqrt(-2.0 * num::ln(u)), turn = v * 3.14159265358979323846;
    return {num::sin(turn) * s, num::cos(turn) * s};
}
DEVICE float next_uniform(Philox& g) { return uniform_of(g.one()); }
DEVICE float next_normal(Philox& g) {
    if (g.some) {
        g.some = false;
        return g.kept;
    }
    u32 x = g.one(), y = g.one();
    Pair2<float> n = normals_of(x, y);
    g.kept = n.y;
    g.some = true;
    return n.x;
}
