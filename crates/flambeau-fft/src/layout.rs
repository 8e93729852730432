//! How results lie in memory, and the lines that a transform sees.

use flambeau_core::tensor::geometry::{SizeVec, contiguous_strides, numel};
use flambeau_cpu_fft::Lines;

/// Dimensions by falling strides, equal ones in their order; the last `fixed` stay where they are.
pub fn sorted(dims: &[usize], strides: &[i64], fixed: usize) -> Vec<usize> {
    let mut dims = dims.to_vec();
    let n = dims.len() - fixed.min(dims.len());
    dims[..n].sort_by_key(|d| -strides[*d]);
    dims
}

/// The order in which PyTorch lays out a result: batch dimensions by falling strides of the input, then `dims`.
pub fn order(strides: &[i64], dims: &[usize]) -> Vec<usize> {
    // as `std::partition` leaves them: it exchanges from both ends, which shows where strides are equal
    let mut all: Vec<usize> = (0..strides.len()).collect();
    let (mut first, mut last) = (0, all.len());
    let batch = 'end: loop {
        while first < last && !dims.contains(&all[first]) {
            first += 1;
        }
        loop {
            if first >= last {
                break 'end first;
            }
            last -= 1;
            if !dims.contains(&all[last]) {
                break;
            }
        }
        if first >= last {
            break first;
        }
        all.swap(first, last);
        first += 1;
    };
    all.truncate(batch);
    all.sort_by_key(|d| -strides[*d]);
    all.extend_from_slice(dims);
    all
}

/// Strides of a result of `sizes` in such an order.
pub fn strides(sizes: &[i64], order: &[usize], transformed: usize) -> SizeVec {
    let batch = order.len() - transformed;
    let signal: Vec<i64> = order[batch..].iter().map(|d| sizes[*d]).collect();
    let mut out = SizeVec::from_elem(1, sizes.len());
    for (d, s) in order[batch..].iter().zip(contiguous_strides(&signal)) {
        out[*d] = s;
    }
    // PyTorch collapses the batch to one dimension before it takes the stride, of which an empty signal has 1
    // (what is too large for memory is refused where memory is asked for)
    let mut step = signal.iter().fold(1i64, |n, s| n.saturating_mul((*s).max(1)));
    for d in order[..batch].iter().rev() {
        out[*d] = step;
        step = step.saturating_mul(sizes[*d]);
    }
    out
}

/// Lines along dimension `d` in two tensors, as few groups as their strides allow: for each group the offsets in both.
pub fn lines(sizes: &[i64], x: &[i64], out: &[i64], d: usize) -> (Lines, Lines, Vec<(usize, usize)>) {
    let other = |k: &usize| *k != d && sizes[*k] != 1;
    let mut dims: Vec<(usize, usize, usize)> =
        (0..sizes.len()).filter(other).map(|k| (sizes[k] as usize, x[k] as usize, out[k] as usize)).collect();
    // longest steps first
    dims.sort_by_key(|(_, x, o)| std::cmp::Reverse((*o, *x)));
    let mut merged: Vec<(usize, usize, usize)> = Vec::new();
    for (n, x, o) in dims {
        match merged.last_mut() {
            Some(l) if l.1 == n * x && l.2 == n * o => *l = (l.0 * n, x, o),
            _ => merged.push((n, x, o)),
        }
    }
    let inner = merged.pop().unwrap_or((1, 0, 0));
    let outer = merged.pop().unwrap_or((1, 0, 0));
    let mut offsets = vec![(0, 0)];
    for (n, x, o) in merged {
        offsets = offsets.iter().flat_map(|(a, b)| (0..n).map(move |i| (a + i * x, b + i * o))).collect();
    }
    let of = |outer_step, inner_step, stride: i64| Lines {
        outer: outer.0,
        outer_step,
        inner: inner.0,
        inner_step,
        stride: stride as usize,
    };
    (of(outer.1, inner.1, x[d]), of(outer.2, inner.2, out[d]), offsets)
}

/// Whether there is nothing to write.
pub fn is_empty(sizes: &[i64]) -> bool {
    numel(sizes) == 0
}
