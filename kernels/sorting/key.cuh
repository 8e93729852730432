// Elements as unsigned keys in ascending order, with NaN last and both zeros equal.
#pragma once
#include "../device/block.cuh"

template <class T>
struct Key;
#define WHOLE_KEY(T, K, BITS, FLIP)                                        \
    template <>                                                            \
    struct Key<T> {                                                        \
        typedef K type;                                                    \
        static constexpr int bits = BITS;                                  \
        static DEVICE K of(T v) { return (K)((K)(v) ^ (K)(FLIP)); }        \
        static DEVICE bool is_nan(T) { return false; }                     \
    };
WHOLE_KEY(u8, u32, 8, 0)
WHOLE_KEY(u16, u32, 16, 0)
WHOLE_KEY(u32, u32, 32, 0)
WHOLE_KEY(u64, u64, 64, 0)
WHOLE_KEY(i32, u32, 32, 0x80000000u)
WHOLE_KEY(i64, u64, 64, 0x8000000000000000ull)
template <> struct Key<i8> {
    typedef u32 type;
    static constexpr int bits = 8;
    static DEVICE u32 of(i8 v) { return (u8)v ^ 0x80u; }
    static DEVICE bool is_nan(i8) { return false; }
};
template <> struct Key<i16> {
    typedef u32 type;
    static constexpr int bits = 16;
    static DEVICE u32 of(i16 v) { return (u16)v ^ 0x8000u; }
    static DEVICE bool is_nan(i16) { return false; }
};
template <> struct Key<b8> {
    typedef u32 type;
    static constexpr int bits = 1;
    static DEVICE u32 of(b8 v) { return v.b != 0; }
    static DEVICE bool is_nan(b8) { return false; }
};
template <> struct Key<float> {
    typedef u32 type;
    static constexpr int bits = 32;
    static DEVICE u32 of(float v) {
        u32 b = bits_as<u32>(v + 0.0f);
        return v != v ? 0xffffffffu : b ^ ((u32)((i32)b >> 31) | 0x80000000u);
    }
    static DEVICE bool is_nan(float v) { return v != v; }
};
template <> struct Key<double> {
    typedef u64 type;
    static constexpr int bits = 64;
    static DEVICE u64 of(double v) {
        u64 b = bits_as<u64>(v + 0.0);
        return v != v ? ~(u64)0 : b ^ ((u64)((i64)b >> 63) | 0x8000000000000000ull);
    }
    static DEVICE bool is_nan(double v) { return v != v; }
};
template <u16 INF>
DEVICE u32 key_of_half(u16 b) {
    if ((b & 0x7fff) > INF) return 0xffff;
    if (b == 0x8000) b = 0;
    return (u16)(b ^ ((u16)((i16)b >> 15) | 0x8000));
}
template <> struct Key<f16> {
    typedef u32 type;
    static constexpr int bits = 16;
    static DEVICE u32 of(f16 v) { return key_of_half<0x7c00>(v.b); }
    static DEVICE bool is_nan(f16 v) { return (v.b & 0x7fff) > 0x7c00; }
};
template <> struct Key<bf16> {
    typedef u32 type;
    static constexpr int bits = 16;
    static DEVICE u32 of(bf16 v) { return key_of_half<0x7f80>(v.b); }
    static DEVICE bool is_nan(bf16 v) { return (v.b & 0x7fff) > 0x7f80; }
};
template <> struct Key<e4m3> {
    typedef u32 type;
    static constexpr int bits = 32;
    static DEVICE u32 of(e4m3 v) { return Key<float>::of(e4m3_up(v.b)); }
    static DEVICE bool is_nan(e4m3 v) { return Key<float>::is_nan(e4m3_up(v.b)); }
};
template <> struct Key<e5m2> {
    typedef u32 type;
    static constexpr int bits = 32;
    static DEVICE u32 of(e5m2 v) { return Key<float>::of(e5m2_up(v.b)); }
    static DEVICE bool is_nan(e5m2 v) { return Key<float>::is_nan(e5m2_up(v.b)); }
};
// In the order that is asked for.
template <class T>
DEVICE typename Key<T>::type key_of(T v, bool descending) {
    typedef typename Key<T>::type K;
    K k = Key<T>::of(v);
    return descending ? k ^ (K)((K)~(K)0 >> (sizeof(K) * 8 - Key<T>::bits)) : k;
}
