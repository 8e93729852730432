//! How a pointwise operator walks its operands: dimensions in the order of their strides and collapsed, rows split
//! between threads, tiles where operands are dense along different dimensions.

use crate::iter::layout::dim_order;
use crate::iter::spec::MAX_OPERANDS;
use crate::tensor::geometry::SizeVec;
use flambeau_cpu::copy::transpose::transpose_copy;
use flambeau_cpu::engine::parallel::{num_threads, parallel_for};
use flambeau_cpu::pointwise::{LoopFn, Param, finish};
use smallvec::SmallVec;

/// Work below this many picoseconds is not worth waking a thread for: one that looks for work begins after one or two
/// microseconds, one that sleeps after five to ten.
const GRAIN_PS: usize = 12_000_000;
/// Bytes that one core has near itself.
const NEAR: usize = 1 << 20;
/// About the picoseconds that a byte from further away takes.
const BYTE_PS: usize = 30;

/// Pointers that cross into worker threads.
#[derive(Clone, Copy)]
struct Raw([*mut u8; MAX_OPERANDS]);
// SAFETY: each thread uses the pointers for its own range of elements only.
unsafe impl Send for Raw {}
// SAFETY: as for Send.
unsafe impl Sync for Raw {}

/// # Safety
/// As [`LoopFn`], for `n` elements.
#[inline]
unsafe fn run_1d(
    run: LoopFn,
    cost: u32,
    ptrs: &[*mut u8; MAX_OPERANDS],
    strides: &[isize; MAX_OPERANDS],
    n: usize,
    params: &[Param],
    flags: u32,
) {
    let bytes = strides.iter().map(|s| s.unsigned_abs()).sum::<usize>();
    // what does not fit the nearer caches takes the time of its bytes
    let cost = if n * bytes > NEAR { (cost as usize).max(bytes * BYTE_PS) } else { cost as usize };
    let grain = GRAIN_PS / cost.max(1);
    if n <= grain {
        if n > 0 {
            // SAFETY: the caller's promise.
            unsafe { run.call(ptrs.as_ptr(), strides.as_ptr(), n, params.as_ptr(), flags) };
        }
        return;
    }
    let raw = Raw(*ptrs);
    // ranges start at multiples of 64 elements, so that every store of a range can stay aligned
    parallel_for(n.div_ceil(64), grain.div_ceil(64), |r| {
        let raw = &raw;
        let (start, end) = (r.start * 64, (r.end * 64).min(n));
        let mut p = raw.0;
        for (p, s) in p.iter_mut().zip(strides) {
            // SAFETY: stays inside the operand's `n` elements.
            *p = unsafe { p.offset(start as isize * s) };
        }
        // SAFETY: ranges are disjoint, and the caller's promise.
        unsafe { run.call(p.as_ptr(), strides.as_ptr(), end - start, params.as_ptr(), flags) };
    });
}

/// Inputs that are dense along dimension `d`: the sizes of their elements, 0 for the other inputs.
struct Across {
    d: usize,
    sizes: [usize; MAX_OPERANDS - 1],
}

/// Collapsed dimensions, fastest first, with byte strides per operand.
pub(crate) struct Plan {
    shape: SmallVec<[usize; 6]>,
    strides: SmallVec<[[isize; MAX_OPERANDS]; 6]>,
}
impl Plan {
    pub(crate) fn new(shape: &[i64], strides: &[SizeVec], n_ops: usize) -> Plan {
        let perm = dim_order(shape, strides);
        let mut out = Plan { shape: SmallVec::new(), strides: SmallVec::new() };
        for &d in &perm {
            let n = shape[d] as usize;
            if n == 1 {
                continue;
            }
            let mut st = [0isize; MAX_OPERANDS];
            for k in 0..n_ops {
                st[k] = strides[k][d] as isize;
            }
            if let (Some(pn), Some(ps)) = (out.shape.last_mut(), out.strides.last())
                && (0..n_ops).all(|k| ps[k] * *pn as isize == st[k])
            {
                *pn *= n;
                continue;
            }
            out.shape.push(n);
            out.strides.push(st);
        }
        if out.shape.is_empty() {
            out.shape.push(1);
            out.strides.push([0; MAX_OPERANDS]);
        }
        // a short innermost run wastes the loop's set-up: take a longer dimension instead
        if out.shape[0] < 8
            && let Some(d) = (1..out.shape.len())
                .max_by_key(|d| out.shape[*d])
                .filter(|d| out.shape[*d] > 4 * out.shape[0])
        {
            out.shape.swap(0, d);
            out.strides.swap(0, d);
        }
        out
    }
    /// # Safety
    /// As [`LoopFn`], for every run of the plan. Runs write disjoint elements unless `alone`, which uses this thread only.
    pub(crate) unsafe fn run(
        &self,
        run: LoopFn,
        cost: u32,
        ptrs: &[*mut u8; MAX_OPERANDS],
        params: &[Param],
        flags: u32,
        alone: bool,
    ) {
        let inner = self.shape[0];
        let outer: usize = self.shape[1..].iter().product();
        if alone {
            let raw = Raw(*ptrs);
            for r in 0..outer {
                let p = self.row(&raw, r);
                // SAFETY: the caller's promise; the row is inside the plan.
                unsafe { run.call(p.as_ptr(), self.strides[0].as_ptr(), inner, params.as_ptr(), flags) };
            }
            return;
        }
        if outer == 1 {
            // SAFETY: the caller's promise.
            return unsafe { run_1d(run, cost, ptrs, &self.strides[0], inner, params, flags) };
        }
        let raw = Raw(*ptrs);
        if let Some(size) = run.copies()
            && let Some(d) = self.crossing(size)
        {
            // SAFETY: the caller's promise.
            return unsafe { self.transpose(size, d, cost, raw) };
        }
        if let Some(across) = self.across(&run) {
            // SAFETY: the caller's promise.
            return unsafe { self.tiles(run, across, cost, raw, params, flags) };
        }
        let per_row = (inner * cost.max(1) as usize).max(1);
        if outer < 2 * num_threads() && inner > 1 << 14 {
            for r in 0..outer {
                let p = self.row(&raw, r);
                // SAFETY: the caller's promise; the row is inside the plan.
                unsafe { run_1d(run, cost, &p, &self.strides[0], inner, params, flags) };
            }
            return;
        }
        parallel_for(outer, GRAIN_PS.div_ceil(per_row), |range| {
            let raw = &raw;
            let mut idx: SmallVec<[usize; 6]> = SmallVec::from_elem(0, self.shape.len() - 1);
            let mut rem = range.start;
            for (d, i) in idx.iter_mut().enumerate() {
                *i = rem % self.shape[d + 1];
                rem /= self.shape[d + 1];
            }
            let mut p = self.row(raw, range.start);
            for _ in range {
                // SAFETY: rows are disjoint between threads, and the caller's promise.
                unsafe {
                    run.call_unfenced(p.as_ptr(), self.strides[0].as_ptr(), inner, params.as_ptr(), flags)
                };
                for d in 0..idx.len() {
                    idx[d] += 1;
                    let st = &self.strides[d + 1];
                    if idx[d] < self.shape[d + 1] {
                        for k in 0..MAX_OPERANDS {
                            p[k] = p[k].wrapping_offset(st[k]);
                        }
                        break;
                    }
                    idx[d] = 0;
                    let back = self.shape[d + 1] as isize - 1;
                    for k in 0..MAX_OPERANDS {
                        p[k] = p[k].wrapping_offset(-st[k] * back);
                    }
                }
            }
            finish(flags);
        });
    }
    /// The dimension along which the input is dense, where the output is dense along the innermost one.
    fn crossing(&self, size: usize) -> Option<usize> {
        let w = size as isize;
        let [out, input, ..] = self.strides[0];
        if out != w || input == w || input == 0 || self.shape[0] < 8 {
            return None;
        }
        (1..self.shape.len()).find(|d| self.strides[*d][1] == w && self.shape[*d] >= 8)
    }
    /// A copy whose input is dense along dimension `d`, tile by tile.
    ///
    /// # Safety
    /// As [`LoopFn`], for every run of the plan.
    unsafe fn transpose(&self, size: usize, d: usize, cost: u32, raw: Raw) {
        let (rows, cols) = (self.shape[d], self.shape[0]);
        let others = Plan { shape: Self::without(&self.shape, d), strides: Self::without(&self.strides, d) };
        let matrices: usize = others.shape[1..].iter().product();
        parallel_for(matrices, GRAIN_PS.div_ceil((rows * cols * cost.max(1) as usize).max(1)), |range| {
            for r in range {
                let [out, input, ..] = others.row(&raw, r);
                let (out_row, src_col) = (self.strides[d][0], self.strides[0][1]);
                // SAFETY: the caller's promise; matrices are disjoint in the output.
                unsafe { transpose_copy(out, out_row, input, src_col, rows, cols, size) };
            }
        });
    }
    /// The dimension along which inputs are dense that are far from it along the innermost one, and which inputs these
    /// are.
    fn across(&self, run: &LoopFn) -> Option<Across> {
        if self.shape[0] < 8 {
            return None;
        }
        let sizes = run.input_sizes();
        let far = |k: &usize| sizes[*k] > 0 && self.strides[0][*k + 1].unsigned_abs() >= 64;
        let d = (0..sizes.len()).filter(far).find_map(|k| {
            (1..self.shape.len())
                .find(|d| self.strides[*d][k + 1] == sizes[k] as isize && self.shape[*d] >= 8)
        })?;
        let from = |k| if far(&k) && self.strides[d][k + 1] == sizes[k] as isize { sizes[k] } else { 0 };
        Some(Across { d, sizes: std::array::from_fn(from) })
    }
    /// Tile by tile: what lies across is brought into row order first, so that every line of memory is used whole.
    ///
    /// # Safety
    /// As [`LoopFn`], for every run of the plan.
    unsafe fn tiles(
        &self,
        run: LoopFn,
        Across { d, sizes }: Across,
        cost: u32,
        raw: Raw,
        params: &[Param],
        flags: u32,
    ) {
        const ROWS: usize = 32;
        const COLS: usize = 128;
        let (rows, cols) = (self.shape[d], self.shape[0]);
        let others = Plan { shape: Self::without(&self.shape, d), strides: Self::without(&self.strides, d) };
        let matrices: usize = others.shape[1..].iter().product();
        let (bands, stripes) = (rows.div_ceil(ROWS), cols.div_ceil(COLS));
        let ps = ROWS * COLS * cost.max(1) as usize;
        parallel_for(matrices * bands * stripes, GRAIN_PS.div_ceil(ps), |range| {
            let raw = &raw;
            // words, so that every element is aligned
            let mut tile: [Vec<u64>; 3] = Default::default();
            let made = tile.iter_mut().zip(sizes).all(|(t, size)| {
                let n = ROWS * COLS * size / 8;
                t.try_reserve_exact(n).is_ok_and(|()| {
                    t.resize(n, 0);
                    true
                })
            });
            // without memory for tiles the inputs are read where they lie
            let sizes = if made { sizes } else { [0; 3] };
            for r in range {
                let start = others.row(raw, r / stripes / bands);
                let (first, j) = (r / stripes % bands * ROWS, r % stripes * COLS);
                let (n, m) = (ROWS.min(rows - first), COLS.min(cols - j));
                let at = |i: usize| -> [*mut u8; MAX_OPERANDS] {
                    std::array::from_fn(|k| {
                        let (row, col) = (self.strides[d][k], self.strides[0][k]);
                        start[k].wrapping_offset(row * i as isize).wrapping_offset(col * j as isize)
                    })
                };
                let mut strides = self.strides[0];
                for (k, size) in sizes.into_iter().enumerate().filter(|(_, size)| *size > 0) {
                    let (to, from) = (tile[k].as_mut_ptr().cast(), at(first)[k + 1]);
                    // SAFETY: the tile is inside the plan; the buffer holds `ROWS` rows of `COLS`.
                    unsafe { transpose_copy(to, (COLS * size) as isize, from, strides[k + 1], n, m, size) };
                    strides[k + 1] = size as isize;
                }
                for i in 0..n {
                    let mut p = at(first + i);
                    for (k, size) in sizes.into_iter().enumerate().filter(|(_, size)| *size > 0) {
                        p[k + 1] = tile[k].as_mut_ptr().cast::<u8>().wrapping_add(i * COLS * size);
                    }
                    // SAFETY: the caller's promise; tiles are disjoint between threads, and the buffers hold copies.
                    unsafe { run.call_unfenced(p.as_ptr(), strides.as_ptr(), m, params.as_ptr(), flags) };
                }
            }
            finish(flags);
        });
    }
    fn without<T: Copy>(list: &[T], d: usize) -> SmallVec<[T; 6]> {
        list.iter().enumerate().filter(|(i, _)| *i != d).map(|(_, v)| *v).collect()
    }
    fn row(&self, raw: &Raw, r: usize) -> [*mut u8; MAX_OPERANDS] {
        let mut p = raw.0;
        let mut rem = r;
        for d in 1..self.shape.len() {
            let i = (rem % self.shape[d]) as isize;
            rem /= self.shape[d];
            for k in 0..MAX_OPERANDS {
                p[k] = p[k].wrapping_offset(self.strides[d][k] * i);
            }
        }
        p
    }
}
