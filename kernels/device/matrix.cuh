// Matrix units: products of tiles of halves, summed in float32, by the 32 threads of a warp.
#pragma once
#include "base.cuh"

// d += a b for a of 16 rows and 16 columns and b of 16 rows and 8 columns. With row = lane / 4 and pair = lane % 4 * 2 a thread has of a the
// words at (row, pair), (row + 8, pair), (row, pair + 8), (row + 8, pair + 8), two columns each; of b the words at (pair, row) and
// (pair + 8, row), two rows each; of d (row, pair), (row, pair + 1), (row + 8, pair), (row + 8, pair + 1).
template <class T>
DEVICE void multiply(float* d, const u32* a, u32 b0, u32 b1);
// d += a b for a of 16 rows and 8 columns and b of 8 rows and 8 columns of TensorFloat-32, float of which ten digits behind the first one
// count. With row = lane / 4 and k = lane % 4 a thread has of a (row, k), (row + 8, k), (row, k + 4), (row + 8, k + 4), of b (k, row) and
// (k + 4, row), of d the same as above.
DEVICE void multiply_tf32(float* d, const u32* a, u32 b0, u32 b1);
// The nearest number of TensorFloat-32.
DEVICE u32 rounded_tf32(float v) {
#if !defined(FLAMBEAU_EMULATED) && __CUDA_ARCH__ >= 800
    u32 r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
    return r;
#else
    return (bits_as<u32>(v) + 0x1000u) & 0xffffe000u;
#endif
}
// Numbers of float as sums of two of TensorFloat-32. What is infinite has no second part that is a number.
template <int N>
struct Parts {
    u32 high[N], low[N];
    DEVICE Parts() {}
    DEVICE Parts(const u32 (&v)[N]) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            float whole = bits_as<float>(v[i]);
            high[i] = rounded_tf32(whole);
            low[i] = rounded_tf32(whole - bits_as<float>(high[i]));
        }
    }
};
// The same of float with an error of some 2^-21 of each product: without that of the two smaller parts.
DEVICE void multiply_floats(float* d, const Parts<4>& a, const Parts<2>& b) {
    multiply_tf32(d, a.low, b.high[0], b.high[1]);
    multiply_tf32(d, a.high, b.low[0], b.low[1]);
    multiply_tf32(d, a.high, b.high[0], b.high[1]);
}
// Copies 16 bytes to shared memory while the thread goes on; `copies_end` ends a group of copies, and `copied` waits until at most so
// many groups of the thread are under way.
DEVICE void copy_16(void* to, const void* from) {
#if !defined(FLAMBEAU_EMULATED) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)) : "memory");
#else
    *reinterpret_cast<bytes16*>(to) = *reinterpret_cast<const bytes16*>(from);
#endif
}
// The same, or 16 zero bytes.
DEVICE void copy_16_or_zeros(void* to, const void* from, bool there) {
#if !defined(FLAMBEAU_EMULATED) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(there ? 16u : 0u)
                 : "memory");
#else
    *reinterpret_cast<bytes16*>(to) = there ? *reinterpret_cast<const bytes16*>(from) : bytes16{0, 0};
#endif
}
DEVICE void copies_end() {
#if !defined(FLAMBEAU_EMULATED) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int GROUPS>
DEVICE void copied() {
#if !defined(FLAMBEAU_EMULATED) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
#endif
}
// Two numbers rounded to halves, the first one in the lower half.
template <class T>
DEVICE u32 two_halves(float a, float b) { return bits_as<u32>(Pack<T, 2>{Element<T>::down(a), Element<T>::down(b)}); }
#if !defined(FLAMBEAU_EMULATED) && __CUDA_ARCH__ >= 800
template <>
DEVICE u32 two_halves<bf16>(float a, float b) {
    u32 v;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(b), "f"(a));
    return v;
}
template <>
DEVICE u32 two_halves<f16>(float a, float b) {
    u32 v;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(b), "f"(a));
    return v;
}
#endif
// The words that a thread has of four tiles of 8 rows and 8 columns of halves in shared memory: lane l says where row l % 8 of tile l / 8
// begins. Word t is of tile t, (lane / 4, pair) and the next column, or TURNED (pair, lane / 4) and the next row.
template <bool TURNED>
DEVICE void four_tiles(u32* words, const void* row);
#ifdef FLAMBEAU_EMULATED
template <bool TURNED>
DEVICE void four_tiles(u32* words, const void* row) {
    u32 lane = threadIdx.x % 32;
    u64 own = (u64)(size_t)row;
    u32 halves[6] = {(u32)own, (u32)(own >> 32), 0, 0, 0, 0};
    const u32(*all)[6] = emulation::shown(halves);
    auto half = [&](u32 tile, u32 r, u32 c) {
        const u32* w = all[tile * 8 + r];
        return (u32)((const u16*)(size_t)(w[0] | (u64)w[1] << 32))[c];
    };
    u32 line = lane / 4, pair = lane % 4 * 2;
    for (u32 t = 0; t < 4; t++)
        words[t] = TURNED ? half(t, pair, line) | half(t, pair + 1, line) << 16 : half(t, line, pair) | half(t, line, pair + 1) << 16;
    __syncwarp();
}
template <class T>
DEVICE void multiply(float* d, const u32* a, u32 b0, u32 b1) {
    u32 words[6] = {a[0], a[1], a[2], a[3], b0, b1};
    const u32(*all)[6] = emulation::shown(words);
    u32 lane = threadIdx.x % 32;
    auto half = [](u32 w, int second) { return Element<T>::up(T{(u16)(w >> second * 16)}); };
    for (int e = 0; e < 4; e++) {
        u32 row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        double sum = d[e];
        for (u32 k = 0; k < 16; k++) {
            u32 from = k % 8 / 2;
            sum += (double)half(all[row % 8 * 4 + from][row / 8 + k / 8 * 2], k % 2) * half(all[column * 4 + from][4 + k / 8], k % 2);
        }
        d[e] = (float)sum;
    }
    __syncwarp();
}
DEVICE void multiply_tf32(float* d, const u32* a, u32 b0, u32 b1) {
    u32 words[6] = {a[0], a[1], a[2], a[3], b0, b1};
    const u32(*all)[6] = emulation::shown(words);
    u32 lane = threadIdx.x % 32;
    for (int e = 0; e < 4; e++) {
        u32 row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        double sum = d[e];
        for (u32 k = 0; k < 8; k++) {
            u32 left = all[row % 8 * 4 + k % 4][row / 8 + k / 4 * 2], right = all[column * 4 + k % 4][4 + k / 4];
            sum += (double)bits_as<float>(left & 0xffffe000u) * bits_as<float>(right & 0xffffe000u);
        }
        d[e] = (float)sum;
    }
    __syncwarp();
}
#else
template <bool TURNED>
DEVICE void four_tiles(u32* words, const void* row) {
    u32 place = (u32)__cvta_generic_to_shared(row);
    if constexpr (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(place)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(place)
                     : "memory");
}
#define MULTIPLY(T, NAME)                                                                                                     \
    template <>                                                                                                               \
    DEVICE void multiply<T>(float* d, const u32* a, u32 b0, u32 b1) {                                                         \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                                  \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                                  \
    }
MULTIPLY(f16, "f16")
#if __CUDA_ARCH__ >= 800
MULTIPLY(bf16, "bf16")
DEVICE void multiply_tf32(float* d, const u32* a, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif
#endif
