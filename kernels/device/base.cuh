// What all kernels share: words for CUDA and the emulation, addresses, element types, numbers.
#pragma once
#ifdef FLAMBEAU_EMULATED
#include "emulation.h"
#else
#define KERNEL(NAME, PARAMS) extern "C" __global__ void NAME(const PARAMS p)
#define KERNEL_WITH_BARRIERS(NAME, PARAMS) KERNEL(NAME, PARAMS)
// blocks of up to 1024 threads: the compiler gives each of them at most a 1024th of the registers
#define KERNEL_OF_LARGE_BLOCKS(NAME, PARAMS) extern "C" __global__ void __launch_bounds__(1024) NAME(const PARAMS p)
#pragma nv_diag_suppress 177
#endif
#define DEVICE __device__ inline

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;

// Memory of the device. An address is followed here alone.
template <class T>
DEVICE T* at(u64 address) {
#ifdef FLAMBEAU_EMULATED
    address &= ~emulation::MARK;
#endif
    return (T*)(size_t)address;
}
template <class A, class B>
DEVICE A bits_as(B v) {
    static_assert(sizeof(A) == sizeof(B));
    A out;
    memcpy(&out, &v, sizeof(A));
    return out;
}
DEVICE i64 first_index() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE i64 all_threads() { return (i64)gridDim.x * blockDim.x; }

// Conversions of halves and 8-bit floats, to nearest, ties to even.
DEVICE float f16_up(u16 h) {
    u32 sign = (u32)(h & 0x8000) << 16, mag = h & 0x7fff;
    if (mag >= 0x7c00) return bits_as<float>(sign | 0x7f800000 | (mag & 0x3ff ? 0x400000 | (mag & 0x3ff) << 13 : 0));
    if (mag >= 0x400) return bits_as<float>(sign | ((mag << 13) + 0x38000000));
    float v = (float)mag * 5.9604644775390625e-8f;
    return bits_as<float>(bits_as<u32>(v) | sign);
}
DEVICE u16 f16_down(float v) {
    u32 b = bits_as<u32>(v), mag = b & 0x7fffffff;
    u16 sign = b >> 16 & 0x8000;
    if (mag > 0x7f800000) return sign | 0x7e00 | (mag >> 13 & 0x3ff);
    if (mag >= 0x477ff000) return sign | 0x7c00;
    if (mag < 0x38800000) {
        float magic = bits_as<float>(0x3f000000u);
        return sign | (u16)(bits_as<u32>(bits_as<float>(mag) + magic) - 0x3f000000u);
    }
    return sign | (u16)((mag - 0x38000000 + 0xfff + (mag >> 13 & 1)) >> 13);
}
DEVICE float bf16_up(u16 h) { return bits_as<float>((u32)h << 16); }
DEVICE u16 bf16_down(float v) {
    u32 b = bits_as<u32>(v);
    if ((b & 0x7fffffff) > 0x7f800000) return 0x7fc0;
    return (b + 0x7fff + (b >> 16 & 1)) >> 16;
}
DEVICE float e4m3_up(u8 v) {
    u32 sign = (u32)(v & 0x80) << 24, mag = v & 0x7f;
    u32 out = mag == 0x7f ? 0x7fc00000 : mag < 8 ? bits_as<u32>((float)mag * bits_as<float>(0x3b000000u)) : (mag << 20) + 0x3c000000;
    return bits_as<float>(sign | out);
}
DEVICE u8 e4m3_down(float v) {
    u32 b = bits_as<u32>(v), mag = b & 0x7fffffff;
    u8 sign = b >> 24 & 0x80;
    if (mag > 0x7f800000) return sign | 0x7f;
    if (mag >= 0x43e00000) return sign | 0x7e;
    if (mag < 0x3c800000) return sign | (u8)(bits_as<u32>(bits_as<float>(mag) + bits_as<float>(0x46800000u)) - 0x46800000u);
    return sign | (u8)((mag - 0x3c000000 + 0x7ffff + (mag >> 20 & 1)) >> 20);
}
DEVICE float e5m2_up(u8 v) { return f16_up((u16)v << 8); }
DEVICE u8 e5m2_down(float v) {
    u32 b = bits_as<u32>(v), mag = b & 0x7fffffff;
    u8 sign = b >> 24 & 0x80;
    if (mag > 0x7f800000) return sign | 0x7f;
    if (mag >= 0x47800000) return sign | 0x7c;
    if (mag < 0x38800000) return sign | (u8)(bits_as<u32>(bits_as<float>(mag) + bits_as<float>(0x43000000u)) - 0x43000000u);
    return sign | (u8)((mag - 0x38000000 + 0xfffff + (mag >> 21 & 1)) >> 21);
}

// Complex numbers over floats that are computed with.
template <class V>
struct Cx {
    V re, im;
};
// Integers that wrap.
template <class T>
struct Whole {
    T v;
};

// Element types as they lie in memory, each with what it is computed in (`C`) and what sums of it are kept in (`Sum`).
struct f16 { u16 b; };
struct bf16 { u16 b; };
struct e4m3 { u8 b; };
struct e5m2 { u8 b; };
struct b8 { u8 b; };
template <class T>
struct pair { T re, im; };

template <class T>
struct Element;
#define PLAIN(T, SUM)                             \
    template <>                                   \
    struct Element<T> {                           \
        typedef T C;                              \
        typedef SUM Sum;                          \
        static DEVICE T up(T v) { return v; }     \
        static DEVICE T down(T v) { return v; }   \
    };
PLAIN(u8, i64) PLAIN(i8, i64) PLAIN(i16, i64) PLAIN(i32, i64) PLAIN(i64, i64) PLAIN(u16, i64) PLAIN(u32, i64) PLAIN(u64, i64)
PLAIN(float, float) PLAIN(double, double)
#define NARROW(T, UP, DOWN)                                     \
    template <>                                                 \
    struct Element<T> {                                         \
        typedef float C;                                        \
        typedef float Sum;                                      \
        static DEVICE float up(T v) { return UP(v.b); }         \
        static DEVICE T down(float v) { return T{DOWN(v)}; }    \
    };
NARROW(f16, f16_up, f16_down) NARROW(bf16, bf16_up, bf16_down) NARROW(e4m3, e4m3_up, e4m3_down) NARROW(e5m2, e5m2_up, e5m2_down)
template <>
struct Element<b8> {
    typedef bool C;
    typedef i64 Sum;
    static DEVICE bool up(b8 v) { return v.b != 0; }
    static DEVICE b8 down(bool v) { return b8{(u8)v}; }
};
template <class T>
struct Element<pair<T>> {
    typedef Cx<typename Element<T>::C> C;
    typedef C Sum;
    static DEVICE C up(pair<T> v) { return C{Element<T>::up(v.re), Element<T>::up(v.im)}; }
    static DEVICE pair<T> down(C v) { return pair<T>{Element<T>::down(v.re), Element<T>::down(v.im)}; }
};

// From one type of computation to another, as `Tensor::to` does.
template <class A, class B>
struct Convert {
    static DEVICE A of(B v) { return (A)v; }
};
#ifdef FLAMBEAU_EMULATED
// What a float out of range becomes is not C++'s to say: as Rust and PyTorch on x86 do.
template <class A>
DEVICE A integer_of(double v) {
    if (!(v == v)) return 0;
    if constexpr (sizeof(A) == 8 && (A)-1 > 0) return v < 0 ? (A)(i64)v : v >= 1.8446744073709552e19 ? 0 : (A)v;
    if (v >= 9.2233720368547758e18 || v < -9.2233720368547758e18) return (A)(i64)0x8000000000000000ull;
    return (A)(i64)v;
}
#define FROM_FLOAT(A) \
    template <> struct Convert<A, float> { static DEVICE A of(float v) { return integer_of<A>(v); } }; \
    template <> struct Convert<A, double> { static DEVICE A of(double v) { return integer_of<A>(v); } };
FROM_FLOAT(u8) FROM_FLOAT(i8) FROM_FLOAT(i16) FROM_FLOAT(i32) FROM_FLOAT(i64) FROM_FLOAT(u16) FROM_FLOAT(u32) FROM_FLOAT(u64)
#else
// The device's own conversion stops at 0; PyTorch goes by way of int64, so that negative values wrap.
template <>
struct Convert<u8, float> {
    static DEVICE u8 of(float v) { return (u8)(i64)v; }
};
template <>
struct Convert<u8, double> {
    static DEVICE u8 of(double v) { return (u8)(i64)v; }
};
#endif
template <class B>
struct Convert<bool, B> {
    static DEVICE bool of(B v) { return v != 0; }
};
template <>
struct Convert<bool, float> {
    static DEVICE bool of(float v) { return v != 0; }
};
template <>
struct Convert<bool, double> {
    static DEVICE bool of(double v) { return v != 0; }
};
template <class A, class B>
struct Convert<A, Cx<B>> {
    static DEVICE A of(Cx<B> v) { return Convert<A, B>::of(v.re); }
};
template <class B>
struct Convert<bool, Cx<B>> {
    static DEVICE bool of(Cx<B> v) { return v.re != 0 || v.im != 0; }
};
template <class A, class B>
struct Convert<Cx<A>, B> {
    static DEVICE Cx<A> of(B v) { return Cx<A>{Convert<A, B>::of(v), 0}; }
};
template <class A, class B>
struct Convert<Cx<A>, Cx<B>> {
    static DEVICE Cx<A> of(Cx<B> v) { return Cx<A>{(A)v.re, (A)v.im}; }
};

// Numbers among the arguments, in all readings.
struct Param {
    double re, im;
    i64 integer;
};

// Where the elements of up to four operands lie. Strides count bytes; the last dimension varies fastest.
constexpr int DIMS = 12;
constexpr int OPERANDS = 4;
struct Geometry {
    i64 n;
    i64 dims;
    // how places are computed: WIDE, SHORT, DENSE or PACKED
    i64 mode;
    i64 sizes[DIMS];
    // a division by a size as a product and a shift (Granlund and Montgomery, PLDI 1994)
    u32 factor[DIMS], shift[DIMS];
    i64 strides[OPERANDS][DIMS];
    u64 start[OPERANDS];
};
constexpr i64 WIDE = 0;   // divisions of 64 bits
constexpr i64 SHORT = 1;  // fewer than 2^31 elements: by factors
constexpr i64 DENSE = 2;  // one dimension (dims is 1): all operands' elements lie side by side, aligned to 16 bytes
constexpr i64 PACKED = 3; // as SHORT; rows are whole numbers of 16 bytes, aligned so, and lie side by side or stand still
DEVICE u32 high_half(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
template <int N>
DEVICE void places(const Geometry& g, i64 i, u64* out) {
    for (int k = 0; k < N; k++) out[k] = g.start[k];
    if (g.mode == DENSE) {
        for (int k = 0; k < N; k++) out[k] += i * g.strides[k][0];
        return;
    }
    if (g.mode != WIDE) {
        u32 rest = (u32)i;
        for (int d = (int)g.dims - 1; d > 0; d--) {
            u32 next = (u32)(((u64)high_half(rest, g.factor[d]) + rest) >> g.shift[d]), at = rest - next * (u32)g.sizes[d];
            for (int k = 0; k < N; k++) out[k] += at * g.strides[k][d];
            rest = next;
        }
        if (g.dims > 0)
            for (int k = 0; k < N; k++) out[k] += rest * g.strides[k][0];
        return;
    }
    for (int d = (int)g.dims - 1; d >= 0; d--) {
        i64 q = i % g.sizes[d];
        i /= g.sizes[d];
        for (int k = 0; k < N; k++) out[k] += q * g.strides[k][d];
    }
}

// Several elements that are moved at once, by 16 bytes on the device.
template <class T, int V>
struct alignas(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) Pack {
    T v[V];
};
template <class T>
DEVICE constexpr int pack_of() { return sizeof(T) >= 16 ? 1 : 16 / (int)sizeof(T); }
DEVICE bool fits_packs(u64 address) { return address % 16 == 0; }

// The first thing that went wrong on the device: what, and three numbers. The host asks when it waits.
struct Fault {
    u64 kind;
    i64 a, b, c;
};
DEVICE void report(u64 fault, u64 kind, i64 a, i64 b, i64 c) {
    Fault* f = at<Fault>(fault);
    if (atomicCAS(&f->kind, (u64)0, kind) == 0) f->a = a, f->b = b, f->c = c;
}
