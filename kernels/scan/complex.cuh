// What scans of complex numbers need beside the others.
#pragma once
#include "../generated/pointwise.cuh"
#include "scan.cuh"

// Of complex numbers, in complex128.
template <class C, class S>
struct LogcumsumexpComplex {
    struct State {
        Cx<double> v;
        i64 some;
    };
    static DEVICE State none() { return {{0, 0}, 0}; }
    static DEVICE State of(C v, i64) { return {{(double)v.re, (double)v.im}, 1}; }
    static DEVICE State join(State a, State b) {
        if (!a.some) return b;
        if (!b.some) return a;
        return {of_complex_math::f_logaddexp_complex(a.v, b.v), 1};
    }
    template <class Out> static DEVICE void end(State s, Out* out, i64*) {
        typedef typename Element<Out>::C R;
        *out = Element<Out>::down(Convert<R, Cx<double>>::of(s.v));
    }
};
