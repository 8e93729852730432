// Updates of one element by many threads.
#pragma once
#include "number.cuh"

template <int BYTES> struct word_of;
template <> struct word_of<2> { typedef u16 type; };
template <> struct word_of<4> { typedef u32 type; };
template <> struct word_of<8> { typedef u64 type; };
// `*to = f(*to)` as one step; f gives the same for the same.
template <class T, class F>
DEVICE void atomic_change(T* to, F f) {
    if constexpr (sizeof(T) == 1) {
        // the word around it
        size_t place = (size_t)to;
        u32* word = (u32*)(place & ~(size_t)3);
        u32 shift = (u32)(place & 3) * 8, old = *word;
        for (;;) {
            u32 made = (old & ~(0xffu << shift)) | (u32)bits_as<u8>(f(bits_as<T>((u8)(old >> shift)))) << shift;
            u32 found = atomicCAS(word, old, made);
            if (found == old) return;
            old = found;
        }
    } else {
        typedef typename word_of<sizeof(T)>::type W;
        W* word = (W*)to;
        W old = *word;
        for (;;) {
            W made = bits_as<W>(f(bits_as<T>(old)));
            if (made == old) return;
            W found = atomicCAS(word, old, made);
            if (found == old) return;
            old = found;
        }
    }
}

// Sums as elements hold them: halves are summed in float and rounded, truth values are joined, integers wrap.
DEVICE bool joined(bool a, bool b) { return a || b; }
template <class V> DEVICE V joined(V a, V b) { return (V)(a + b); }
DEVICE i32 joined(i32 a, i32 b) { return (i32)((u32)a + (u32)b); }
DEVICE i64 joined(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
template <class T>
DEVICE void atomic_plus(T* to, typename Element<T>::C v) {
    atomic_change(to, [=](T o) { return Element<T>::down(joined(Element<T>::up(o), v)); });
}
template <> DEVICE void atomic_plus<float>(float* to, float v) { atomicAdd(to, v); }
template <> DEVICE void atomic_plus<double>(double* to, double v) { atomicAdd(to, v); }
template <> DEVICE void atomic_plus<i32>(i32* to, i32 v) { atomicAdd(to, v); }
template <> DEVICE void atomic_plus<u32>(u32* to, u32 v) { atomicAdd(to, v); }
template <> DEVICE void atomic_plus<i64>(i64* to, i64 v) { atomicAdd((u64*)to, (u64)v); }
template <> DEVICE void atomic_plus<u64>(u64* to, u64 v) { atomicAdd(to, v); }
template <> DEVICE void atomic_plus<pair<float>>(pair<float>* to, Cx<float> v) {
    atomicAdd(&to->re, v.re);
    atomicAdd(&to->im, v.im);
}
template <> DEVICE void atomic_plus<pair<double>>(pair<double>* to, Cx<double> v) {
    atomicAdd(&to->re, v.re);
    atomicAdd(&to->im, v.im);
}
#ifndef FLAMBEAU_EMULATED
template <> DEVICE void atomic_plus<f16>(f16* to, float v) {
    u16 b = f16_down(v);
    asm volatile("red.relaxed.gpu.global.add.noftz.f16 [%0], %1;" ::"l"(to), "h"(b) : "memory");
}
#if __CUDA_ARCH__ >= 900
template <> DEVICE void atomic_plus<bf16>(bf16* to, float v) {
    u16 b = bf16_down(v);
    asm volatile("red.relaxed.gpu.global.add.noftz.bf16 [%0], %1;" ::"l"(to), "h"(b) : "memory");
}
#endif
#endif
