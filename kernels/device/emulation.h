// What a C++ compiler of the host needs to know of CUDA: the threads of a block take turns on one thread of the host, as fibers
// where the kernel has barriers. Blocks run one after the other.
#pragma once
#ifdef HOST_HEADERS
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#else
// The host's functions by name, with the compiler's own words for types: its headers take it longer than most kernels.
using size_t = __SIZE_TYPE__;
using uintptr_t = __UINTPTR_TYPE__;
using uint32_t = __UINT32_TYPE__;
extern "C" {
void* malloc(size_t);
void* memcpy(void*, const void*, size_t);
void* memset(void*, int, size_t);
int abs(int);
double frexp(double, int*);
float frexpf(float, int*);
double lgamma_r(double, int*);
float lgammaf_r(float, int*);
double j0(double);
double j1(double);
double y0(double);
double y1(double);
double fma(double, double, double);
float fmaf(float, float, float);
#define FUNCTION(NAME) \
    double NAME(double); \
    float NAME##f(float);
#define FUNCTION_OF_TWO(NAME) \
    double NAME(double, double); \
    float NAME##f(float, float);
FUNCTION(acos) FUNCTION(acosh) FUNCTION(asin) FUNCTION(asinh) FUNCTION(atan) FUNCTION(atanh)
FUNCTION(cbrt) FUNCTION(ceil) FUNCTION(cos) FUNCTION(cosh) FUNCTION(erf) FUNCTION(erfc)
FUNCTION(exp) FUNCTION(exp2) FUNCTION(expm1) FUNCTION(fabs) FUNCTION(floor) FUNCTION(lgamma)
FUNCTION(log) FUNCTION(log10) FUNCTION(log1p) FUNCTION(log2) FUNCTION(nearbyint) FUNCTION(rint)
FUNCTION(round) FUNCTION(sin) FUNCTION(sinh) FUNCTION(sqrt) FUNCTION(tan) FUNCTION(tanh)
FUNCTION(tgamma) FUNCTION(trunc)
FUNCTION_OF_TWO(atan2) FUNCTION_OF_TWO(copysign) FUNCTION_OF_TWO(fmax) FUNCTION_OF_TWO(fmin)
FUNCTION_OF_TWO(fmod) FUNCTION_OF_TWO(hypot) FUNCTION_OF_TWO(nextafter) FUNCTION_OF_TWO(pow)
FUNCTION_OF_TWO(remainder)
#undef FUNCTION
#undef FUNCTION_OF_TWO
}
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __shared__ static thread_local
#define __launch_bounds__(n)

struct dim3 {
    unsigned x, y, z;
};
inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {
// Addresses of the device carry a mark, so that a host that follows one is stopped at once.
constexpr unsigned long long MARK = 1ull << 62;

enum State : unsigned char { READY, AT_BARRIER, AT_SHUFFLE, ENDED };
constexpr unsigned MOST = 1024;
constexpr size_t STACK = 1 << 16;

struct Block {
    void* self;
    void* stacks[MOST];
    void* at[MOST];
    State state[MOST];
    unsigned n, now;
    void (*body)(const void*);
    const void* params;
    unsigned long long lanes[MOST];
    const char* wrong;
};
inline thread_local Block block;

#if defined(__x86_64__)
extern "C" void flambeau_switch(void** save, void* to);
__asm__(R"(
    .text
    .hidden flambeau_switch
    .globl flambeau_switch
    .type flambeau_switch, @function
flambeau_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size flambeau_switch, . - flambeau_switch
)");
inline void leave(unsigned t) { flambeau_switch(&block.at[t], block.self); }
inline void enter(unsigned t) { flambeau_switch(&block.self, block.at[t]); }
inline void fiber() {
    block.body(block.params);
    block.state[block.now] = ENDED;
    leave(block.now);
}
inline void prepare(unsigned t) {
    if (!block.stacks[t]) block.stacks[t] = malloc(STACK);
    auto top = reinterpret_cast<uintptr_t>(block.stacks[t]) + STACK;
    auto sp = reinterpret_cast<void**>(top & ~uintptr_t(15));
    *--sp = nullptr;
    *--sp = reinterpret_cast<void*>(&fiber);
    for (int i = 0; i < 6; i++) *--sp = nullptr;
    block.at[t] = sp;
}
#else
}
#include <ucontext.h>
namespace emulation {
inline thread_local ucontext_t home, there[MOST];
inline void leave(unsigned t) { swapcontext(&there[t], &home); }
inline void enter(unsigned t) { swapcontext(&home, &there[t]); }
inline void fiber() {
    block.body(block.params);
    block.state[block.now] = ENDED;
    leave(block.now);
}
inline void prepare(unsigned t) {
    if (!block.stacks[t]) block.stacks[t] = malloc(STACK);
    getcontext(&there[t]);
    there[t].uc_stack.ss_sp = block.stacks[t];
    there[t].uc_stack.ss_size = STACK;
    there[t].uc_link = nullptr;
    makecontext(&there[t], fiber, 0);
}
#endif

inline void pause(State s) {
    unsigned t = block.now;
    block.state[t] = s;
    leave(t);
}
inline void place(unsigned t) {
    block.now = t;
    threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y)};
}
// All threads of a block, each up to its next barrier or exchange, in an order that changes with each round.
inline int run_block() {
    unsigned n = block.n;
    for (unsigned t = 0; t < n; t++) {
        prepare(t);
        block.state[t] = READY;
    }
    for (unsigned round = 0;; round++) {
        bool ran = false;
        for (unsigned i = 0; i < n; i++) {
            unsigned t = round % 2 ? n - 1 - i : i;
            if (block.state[t] == READY) {
                ran = true;
                place(t);
                enter(t);
            }
        }
        unsigned ended = 0, waiting = 0;
        for (unsigned t = 0; t < n; t++) {
            if (block.state[t] == AT_SHUFFLE) block.state[t] = READY, waiting = n + 1;
            else if (block.state[t] == ENDED) ended++;
            else waiting += waiting <= n;
        }
        if (ended == n) return 0;
        if (waiting > n) continue;
        if (!ran) return 2;
        for (unsigned t = 0; t < n; t++)
            if (block.state[t] == AT_BARRIER) block.state[t] = READY;
    }
}
template <bool BARRIERS>
int run(void (*body)(const void*), const void* params, const unsigned* shape) {
    gridDim = {shape[0], shape[1], shape[2]};
    blockDim = {shape[3], shape[4], shape[5]};
    unsigned n = blockDim.x * blockDim.y * blockDim.z;
    if (n == 0 || n > MOST) return 1;
    block.n = n;
    block.body = body;
    block.params = params;
    for (unsigned z = 0; z < gridDim.z; z++)
        for (unsigned y = 0; y < gridDim.y; y++)
            for (unsigned x = 0; x < gridDim.x; x++) {
                blockIdx = {x, y, z};
                if constexpr (BARRIERS) {
                    if (int e = run_block()) return e;
                } else {
                    for (unsigned t = 0; t < n; t++) {
                        place(t);
                        body(params);
                    }
                }
            }
    return 0;
}
template <class T>
T exchange(T v, unsigned from) {
    static_assert(sizeof(T) <= 8);
    unsigned t = block.now;
    memcpy(&block.lanes[t], &v, sizeof(T));
    pause(AT_SHUFFLE);
    T out = v;
    if (from < block.n) memcpy(&out, &block.lanes[from], sizeof(T));
    pause(AT_SHUFFLE);
    return out;
}
// What each lane of the warp shows, until the next exchange.
inline const uint32_t (*shown(const uint32_t* words))[6] {
    static thread_local uint32_t all[MOST][6];
    memcpy(all[block.now], words, sizeof(all[0]));
    pause(AT_SHUFFLE);
    return &all[block.now / 32 * 32];
}
}  // namespace emulation

inline void __syncthreads() { emulation::pause(emulation::AT_BARRIER); }
template <class T>
T __shfl_xor_sync(unsigned, T v, unsigned mask) {
    return emulation::exchange(v, emulation::block.now ^ mask);
}
template <class T>
T __shfl_down_sync(unsigned, T v, unsigned by) {
    unsigned t = emulation::block.now;
    return emulation::exchange(v, t % 32 + by < 32 ? t + by : t);
}
template <class T>
T __shfl_up_sync(unsigned, T v, unsigned by) {
    unsigned t = emulation::block.now;
    return emulation::exchange(v, t % 32 >= by ? t - by : t);
}
template <class T>
T __shfl_sync(unsigned, T v, unsigned lane) {
    return emulation::exchange(v, emulation::block.now / 32 * 32 + lane % 32);
}
// The lanes of the warp whose value is this lane's.
template <class T>
unsigned __match_any_sync(unsigned, T v) {
    static_assert(sizeof(T) <= 8);
    unsigned t = emulation::block.now, first = t / 32 * 32, out = 0;
    unsigned long long own = 0;
    memcpy(&own, &v, sizeof(T));
    emulation::block.lanes[t] = own;
    emulation::pause(emulation::AT_SHUFFLE);
    for (unsigned i = 0; i < 32 && first + i < emulation::block.n; i++) out |= (unsigned)(emulation::block.lanes[first + i] == own) << i;
    emulation::pause(emulation::AT_SHUFFLE);
    return out;
}
inline unsigned __ballot_sync(unsigned, int v) {
    unsigned t = emulation::block.now, first = t / 32 * 32, out = 0;
    emulation::block.lanes[t] = v != 0;
    emulation::pause(emulation::AT_SHUFFLE);
    for (unsigned i = 0; i < 32 && first + i < emulation::block.n; i++) out |= (unsigned)(emulation::block.lanes[first + i] != 0) << i;
    emulation::pause(emulation::AT_SHUFFLE);
    return out;
}
inline void __syncwarp(unsigned = 0xffffffffu) { emulation::pause(emulation::AT_SHUFFLE); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
template <class T>
T atomicAdd(T* to, T v) {
    T old = *to;
    *to = old + v;
    return old;
}
template <class T>
T atomicCAS(T* to, T expected, T v) {
    T old = *to;
    if (old == expected) *to = v;
    return old;
}

template <class T>
T atomicMax(T* to, T v) {
    T old = *to;
    if (v > old) *to = v;
    return old;
}
template <class T>
T atomicMin(T* to, T v) {
    T old = *to;
    if (v < old) *to = v;
    return old;
}

#define KERNEL_AS(NAME, PARAMS, BARRIERS)                                                        \
    static void NAME##_body(const PARAMS& p);                                                    \
    extern "C" int NAME(const void* params, const unsigned* shape) {                             \
        return emulation::run<BARRIERS>(                                                         \
            [](const void* p) { NAME##_body(*static_cast<const PARAMS*>(p)); }, params, shape); \
    }                                                                                            \
    static void NAME##_body(const PARAMS& p)
#define KERNEL(NAME, PARAMS) KERNEL_AS(NAME, PARAMS, false)
#define KERNEL_WITH_BARRIERS(NAME, PARAMS) KERNEL_AS(NAME, PARAMS, true)
#define KERNEL_OF_BLOCKS(NAME, PARAMS, MOST, RESIDENT) KERNEL_AS(NAME, PARAMS, true)
#define KERNEL_OF_LARGE_BLOCKS(NAME, PARAMS, MOST) KERNEL_AS(NAME, PARAMS, true)
