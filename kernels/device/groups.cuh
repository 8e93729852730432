// Products of tiles of halves by groups of four warps, as devices of compute capability 9.0 have them: 64 rows of the result for a
// group, sixteen for each of its warps, summed in float32. The second factor, and the first one too if wanted, stay in shared memory,
// and the warps go on while the product is made.
//
// A tile in shared memory has rows of 64 halves, 128 bytes, and begins at a multiple of 1024 bytes; of the eight pieces of 16 bytes of
// row r, piece c lies at place c ^ r % 8 (the device's swizzle of 128 bytes), so that neither rows nor columns meet in one bank. Wider
// rows lie as panels of 64 columns, one after the other.
#pragma once
#include "matrix.cuh"

constexpr int PANEL = 64;
// The shared memory of a block whose size the launch says, from a multiple of 1024 bytes on; BYTES has as many more.
template <int BYTES>
DEVICE char* shared_bytes() {
#ifdef FLAMBEAU_EMULATED
    __shared__ char room[BYTES];
    return (char*)(((u64)(size_t)room + 1023) & ~(u64)1023);
#else
    extern __shared__ char room[];
    return room + (1024 - (u32)__cvta_generic_to_shared(room) % 1024) % 1024;
#endif
}
// Where column `c` of row `r` lies in tiles of ROWS rows, in halves.
template <int ROWS>
DEVICE int place_in(int r, int c) { return c / PANEL * (ROWS * PANEL) + r * PANEL + ((c % PANEL / 8) ^ (r % 8)) * 8 + c % 8; }
// Part of a tile as a factor: where it begins, and the bytes between panels.
#ifdef FLAMBEAU_EMULATED
struct Factor {
    const char* start;
    u32 panel;
    Factor(const void* at, u32 panel_) : start((const char*)at), panel(panel_) {}
    Factor from(u32 bytes) const { return Factor(start + bytes, panel); }
    // the half at a row and a column, by the bits of its address as the device finds it
    u16 half(u32 r, u32 c) const {
        u64 place = (u64)(size_t)(start + c / PANEL * panel + r * 128 + c % PANEL * 2);
        return *(const u16*)(size_t)(place ^ (place >> 7 & 7) << 4);
    }
};
#else
struct Factor {
    u64 bits;
    // groups of eight rows are 1024 bytes apart, and the last field says how pieces are placed
    DEVICE Factor(const void* at, u32 panel)
        : bits((u64)((u32)__cvta_generic_to_shared(at) >> 4 & 0x3fff) | (u64)(panel >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62) {}
    DEVICE Factor from(u32 bytes) const {
        Factor f = *this;
        f.bits += bytes >> 4;
        return f;
    }
};
#endif
// Begins products whose registers others wrote, ends a batch of them, and waits until at most so many batches are under way.
DEVICE void products_begin() {
#ifndef FLAMBEAU_EMULATED
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
DEVICE void products_end() {
#ifndef FLAMBEAU_EMULATED
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int BATCHES>
DEVICE void products_done() {
#ifndef FLAMBEAU_EMULATED
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(BATCHES) : "memory");
#endif
}
// Lets no use of these numbers move to the other side.
template <int N>
DEVICE void pinned(float (&v)[N][4]) {
#ifndef FLAMBEAU_EMULATED
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(v[i][0]), "+f"(v[i][1]), "+f"(v[i][2]), "+f"(v[i][3])::"memory");
#endif
}
// Keeps the assembler, which knows no reason to do so, from moving a wait that follows before what a number that is never negative is
// made of.
DEVICE void computed(float v) {
#ifndef FLAMBEAU_EMULATED
    if (v < 0) asm volatile("nanosleep.u32 1;");
#endif
}
// Shows the threads' writes to shared memory to products that begin after the next barrier.
DEVICE void tiles_written() {
#ifndef FLAMBEAU_EMULATED
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
// d = a b, or d += a b if `more`, for a of 64 rows and 16 columns and b of 16 rows and N * 8 columns. With row = lane / 4 and
// pair = lane % 4 * 2 a thread has of d (row, pair) and its next column, then of row + 8, for each 8 columns, as of `multiply`; of a in
// registers the same words as there. b lies with its columns as rows, or TURNED as it is.
template <class T, bool TURNED, int N>
DEVICE void group_product(float (&d)[N][4], const u32 (&a)[4], Factor b, bool more);
template <class T, bool TURNED, int N>
DEVICE void group_product(float (&d)[N][4], Factor a, Factor b, bool more);
#ifdef FLAMBEAU_EMULATED
template <class T, bool TURNED, int N, class A>
DEVICE void group_sums(float (&d)[N][4], A a, Factor b, bool more) {
    u32 lane = threadIdx.x % 32, row = lane / 4, pair = lane % 4 * 2;
    for (int n = 0; n < N; n++)
        for (u32 e = 0; e < 4; e++) {
            u32 r = row + e / 2 * 8, c = n * 8 + pair + e % 2;
            double sum = more ? d[n][e] : 0;
            for (u32 k = 0; k < 16; k++) sum += (double)Element<T>::up(T{a(r, k)}) * Element<T>::up(T{TURNED ? b.half(k, c) : b.half(c, k)});
            d[n][e] = (float)sum;
        }
}
template <class T, bool TURNED, int N>
DEVICE void group_product(float (&d)[N][4], const u32 (&a)[4], Factor b, bool more) {
    u32 words[6] = {a[0], a[1], a[2], a[3], 0, 0};
    const u32(*all)[6] = emulation::shown(words);
    auto half = [&](u32 r, u32 k) { return (u16)(all[r % 8 * 4 + k % 8 / 2][r / 8 + k / 8 * 2] >> k % 2 * 16); };
    group_sums<T, TURNED>(d, half, b, more);
    __syncwarp();
}
template <class T, bool TURNED, int N>
DEVICE void group_product(float (&d)[N][4], Factor a, Factor b, bool more) {
    u32 first = threadIdx.x / 32 % 4 * 16;
    group_sums<T, TURNED>(d, [&](u32 r, u32 k) { return a.half(first + r, k); }, b, more);
}
#else
template <class T> struct Named;
template <> struct Named<f16> { static constexpr bool BRAIN = false; };
template <> struct Named<bf16> { static constexpr bool BRAIN = true; };
#define D4(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define D16(i) D4(i), D4(i + 1), D4(i + 2), D4(i + 3)
#define D32(i) D16(i), D16(i + 4)
#define D64(i) D32(i), D32(i + 8)
#define LIST32 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define LIST64                                                                                                                          \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34," \
    "%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
// the numbers of the operands behind those of d
#define WORDS_PRODUCT(N, NAME, LIST, D, W0, W1, W2, W3, B, MORE, FLAG)                                                                     \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %" #MORE ", 0; wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME " " LIST     \
                 ", {%" #W0 ",%" #W1 ",%" #W2 ",%" #W3 "}, %" #B ", p, 1, 1, %" #FLAG ";}"                                                \
                 : D(0)                                                                                                                   \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits), "r"((u32)more), "n"((int)TURNED))
#define TILES_PRODUCT(N, NAME, LIST, D, A, B, MORE, FLAG)                                                                                  \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %" #MORE ", 0; wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME " " LIST     \
                 ", %" #A ", %" #B ", p, 1, 1, 0, %" #FLAG ";}"                                                                           \
                 : D(0)                                                                                                                   \
                 : "l"(a.bits), "l"(b.bits), "r"((u32)more), "n"((int)TURNED))
template <class T, bool TURNED, int N>
DEVICE void group_product(float (&d)[N][4], const u32 (&a)[4], Factor b, bool more) {
    static_assert(N == 8 || N == 16);
    if constexpr (N == 8 && Named<T>::BRAIN) WORDS_PRODUCT(64, "bf16", LIST32, D32, 32, 33, 34, 35, 36, 37, 38);
    else if constexpr (N == 8) WORDS_PRODUCT(64, "f16", LIST32, D32, 32, 33, 34, 35, 36, 37, 38);
    else if constexpr (Named<T>::BRAIN) WORDS_PRODUCT(128, "bf16", LIST64, D64, 64, 65, 66, 67, 68, 69, 70);
    else WORDS_PRODUCT(128, "f16", LIST64, D64, 64, 65, 66, 67, 68, 69, 70);
}
template <class T, bool TURNED, int N>
DEVICE void group_product(float (&d)[N][4], Factor a, Factor b, bool more) {
    static_assert(N == 8 || N == 16);
    if constexpr (N == 8 && Named<T>::BRAIN) TILES_PRODUCT(64, "bf16", LIST32, D32, 32, 33, 34, 35);
    else if constexpr (N == 8) TILES_PRODUCT(64, "f16", LIST32, D32, 32, 33, 34, 35);
    else if constexpr (Named<T>::BRAIN) TILES_PRODUCT(128, "bf16", LIST64, D64, 64, 65, 66, 67);
    else TILES_PRODUCT(128, "f16", LIST64, D64, 64, 65, 66, 67);
}
#endif
