// The pointwise part of a step of recurrent layers, forward and backward, for rows of a step.
#pragma once
#include "../device/number.cuh"

struct CellParams {
    // gates: the input's part of each row in, what the gradient needs out; the hidden state's products; what is added to gates
    u64 gates, products, bias;
    // before: the cell state, or the hidden state; cell states after; the hidden state after, before a projection
    u64 state, cells, out;
    // gradients: of the hidden state, of what comes from outside for it and for the cells; of gates; of what the products were of
    u64 carry, from_out, from_cells, unprojected, kept, grad, compact;
    // rows, size of a gate, elements of a row of gates, kind of cell: 0 relu, 1 tanh, 2 LSTM, 3 GRU
    i64 rows, h, width, kind;
};
constexpr i64 RELU = 0, TANH = 1, LSTM = 2;
template <class T>
DEVICE void cell_forward(const CellParams& p) {
    for (i64 k = first_index(); k < p.rows * p.h; k += all_threads()) {
        i64 r = k / p.h, j = k - r * p.h, h = p.h, n = p.kind == LSTM ? 4 : p.kind < LSTM ? 1 : 3;
        T* g = at<T>(p.gates) + r * p.width + j;
        const T* u = at<T>(p.products) + r * n * h + j;
        auto bias = [&](i64 part) { return p.bias ? at<T>(p.bias)[part * h + j] : T(0); };
        auto gate = [&](i64 part) { return g[part * h] + u[part * h] + bias(part); };
        if (p.kind < LSTM) {
            T v = gate(0);
            g[0] = p.kind == RELU ? (v < 0 ? T(0) : v) : num::tanh(v);
            continue;
        }
        if (p.kind == LSTM) {
            T i = num::sigmoid(gate(0)), f = num::sigmoid(gate(1)), c = num::tanh(gate(2)), o = num::sigmoid(gate(3));
            T now = f * at<T>(p.state)[k] + i * c;
            g[0] = i, g[h] = f, g[2 * h] = c, g[3 * h] = o;
            at<T>(p.cells)[k] = now;
            at<T>(p.out)[k] = o * num::tanh(now);
            continue;
        }
        T reset = num::sigmoid(gate(0)), update = num::sigmoid(gate(1));
        T hidden = u[2 * h] + bias(3), fresh = num::tanh(g[2 * h] + bias(2) + reset * hidden);
        g[0] = reset, g[h] = update, g[2 * h] = fresh, g[3 * h] = hidden;
        at<T>(p.out)[k] = fresh + update * (at<T>(p.state)[k] - fresh);
    }
}
template <class T>
DEVICE void cell_backward(const CellParams& p) {
    for (i64 k = first_index(); k < p.rows * p.h; k += all_threads()) {
        i64 r = k / p.h, j = k - r * p.h, h = p.h;
        const T* g = at<T>(p.gates) + r * p.width + j;
        T* to = at<T>(p.grad) + r * p.width + j;
        T d = p.unprojected ? at<T>(p.unprojected)[k] : at<T>(p.carry)[k] + (p.from_out ? at<T>(p.from_out)[k] : T(0));
        if (p.kind < LSTM) {
            T y = g[0];
            to[0] = p.kind == TANH ? d * (1 - y * y) : y <= 0 ? T(0) : d;
            continue;
        }
        if (p.kind == LSTM) {
            T i = g[0], f = g[h], c = g[2 * h], o = g[3 * h], t = num::tanh(at<T>(p.cells)[k]);
            T dc = at<T>(p.kept)[k] + d * o * (1 - t * t) + (p.from_cells ? at<T>(p.from_cells)[k] : T(0));
            to[0] = dc * c * i * (1 - i);
            to[h] = dc * at<T>(p.state)[k] * f * (1 - f);
            to[2 * h] = dc * i * (1 - c * c);
            to[3 * h] = d * t * o * (1 - o);
            at<T>(p.kept)[k] = dc * f;
            continue;
        }
        T reset = g[0], update = g[h], fresh = g[2 * h], hidden = g[3 * h];
        T dn = d * (1 - update) * (1 - fresh * fresh), dz = d * (at<T>(p.state)[k] - fresh) * update * (1 - update);
        T dr = dn * hidden * reset * (1 - reset), dh = dn * reset;
        to[0] = dr, to[h] = dz, to[2 * h] = dn, to[3 * h] = dh;
        T* side = at<T>(p.compact) + r * 3 * h + j;
        side[0] = dr, side[h] = dz, side[2 * h] = dh;
        at<T>(p.carry)[k] = d * update;
    }
}
#define CELL(NAME, F, T) \
    KERNEL(NAME, CellParams) { F<T>(p); }
