//! Order statistics with indices.

use super::fold::Geo;
use crate::engine::SharedMut;
use crate::engine::parallel::parallel_for;
use crate::engine::room::room;
use crate::num::Order;

/// Calls `body(row, pairs, n)` for each row with the row's (key, index) pairs; the buffer is reused within a task.
fn each<T: Order>(x: &[T], g: Geo, body: impl Fn(usize, &mut Vec<(u64, u32)>) + Sync) {
    g.check(x.len(), g.rows());
    assert!(g.n > 0 || g.rows() == 0, "an order statistic needs elements");
    assert!(g.n <= u32::MAX as usize, "a row has too many elements");
    parallel_for(g.rows(), g.grain(), |rows| {
        let mut buf = room(g.n);
        for row in rows {
            let x = &x[g.base(row)..];
            buf.clear();
            buf.extend((0..g.n).map(|k| (x[k * g.ns as usize].key(), k as u32)));
            body(row, &mut buf);
        }
    });
}

struct Outs<'a, T>(SharedMut<'a, T>, SharedMut<'a, i64>);
impl<'a, T: Order> Outs<'a, T> {
    fn new(g: Geo, v: &'a mut [T], i: &'a mut [i64]) -> Self {
        assert!(v.len() == g.rows() && i.len() == g.rows(), "a reduction has a wrong number of results");
        Outs(SharedMut::new(v), SharedMut::new(i))
    }
    fn put(&self, x: &[T], g: Geo, row: usize, k: u32) {
        // SAFETY: each row is handled by one task.
        unsafe { self.0.set(row, x[g.base(row) + k as usize * g.ns as usize]) };
        // SAFETY: as above.
        unsafe { self.1.set(row, k as i64) };
    }
}

/// The `k`-th smallest element (`k` from 1 to `n`) and its index; NaN is the largest value.
pub fn kthvalue<T: Order>(x: &[T], g: Geo, k: usize, values: &mut [T], indices: &mut [i64]) {
    assert!(g.rows() == 0 || (1..=g.n).contains(&k), "kthvalue: k is out of range");
    let out = Outs::new(g, values, indices);
    each(x, g, |row, p| {
        let at = p.select_nth_unstable(k - 1).1.1;
        out.put(x, g, row, at);
    });
}
fn median_of<T: Order>(x: &[T], g: Geo, skip_nan: bool, values: &mut [T], indices: &mut [i64]) {
    let out = Outs::new(g, values, indices);
    let ns = g.ns as usize;
    each(x, g, |row, p| {
        let base = g.base(row);
        let nan = |k: usize| x[base + k * ns].nan();
        let nans = (0..g.n).filter(|k| nan(*k)).count();
        if nans > 0 && (!skip_nan || nans == g.n) {
            let first = (0..g.n).position(nan).unwrap_or(0);
            return out.put(x, g, row, first as u32);
        }
        let n = g.n - nans;
        let at = p.select_nth_unstable((n - 1) / 2).1.1;
        out.put(x, g, row, at);
    });
}
/// The lower median of each row and its index; a row with a NaN gives its first NaN.
pub fn median<T: Order>(x: &[T], g: Geo, values: &mut [T], indices: &mut [i64]) {
    median_of(x, g, false, values, indices);
}
/// The lower median of what is not NaN; NaN where nothing else is there.
pub fn nanmedian<T: Order>(x: &[T], g: Geo, values: &mut [T], indices: &mut [i64]) {
    median_of(x, g, true, values, indices);
}
/// The most frequent value of each row (the smallest among equals) and the last index where it occurs.
pub fn mode<T: Order>(x: &[T], g: Geo, values: &mut [T], indices: &mut [i64]) {
    let out = Outs::new(g, values, indices);
    let ns = g.ns as usize;
    each(x, g, |row, p| {
        p.sort_unstable();
        let base = g.base(row);
        let (mut best, mut at, mut i) = (0, 0, 0);
        while i < p.len() {
            let mut j = i + 1;
            // A NaN equals nothing, itself included.
            while j < p.len() && p[j].0 == p[i].0 && !x[base + p[j].1 as usize * ns].nan() {
                j += 1;
            }
            if j - i > best {
                best = j - i;
                at = p[j - 1].1;
            }
            i = j;
        }
        out.put(x, g, row, at);
    });
}
