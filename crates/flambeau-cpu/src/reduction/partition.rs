//! How a view is cut among threads. Nothing here knows element types, so that it is compiled once: a reduction comes as
//! a [`Kernel`], and running values are bytes.

use super::fold::{BLOCK, GRAIN, Geo};
use crate::engine::SharedMut;
use crate::engine::parallel::{num_threads, parallel_chunks, parallel_for};
use crate::engine::room::filled;
use std::mem::MaybeUninit;

/// Elements of one row that one task takes.
const CHUNK: usize = 16 * BLOCK;
/// Columns in a tile.
const TILE: usize = 512;
/// Rows of a tile that one task takes.
const TILE_CHUNK: usize = 1024;
/// Results that a task holds before it hands them out.
const BATCH: usize = 64;
/// The most bytes of a running value.
pub(super) const MOST: usize = 32;

/// The unit of buffers: its alignment is enough for all running values.
type Unit = MaybeUninit<u128>;
const UNIT: usize = size_of::<Unit>();

/// A reduction over a view. `acc` points to `n` running values, aligned for them, which [`Kernel::fill`] initialises.
pub(super) trait Kernel: Sync {
    /// Bytes of a running value, at most [`MOST`].
    fn size(&self) -> usize;
    /// Writes `n` starts.
    ///
    /// # Safety
    /// `acc` is valid for `n` values.
    unsafe fn fill(&self, acc: *mut u8, n: usize);
    /// Reduces elements `from..to` of the rows `first..first + n`.
    ///
    /// # Safety
    /// `acc` is valid for `n` values, all initialised.
    unsafe fn rows(&self, first: usize, from: usize, to: usize, acc: *mut u8, n: usize);
    /// Reduces elements `from..to` of the `n` neighbouring columns that begin at the element `at`.
    ///
    /// # Safety
    /// As for `rows`.
    unsafe fn columns(&self, at: usize, from: usize, to: usize, acc: *mut u8, n: usize);
    /// `a[i] = join(a[i], b[i])`.
    ///
    /// # Safety
    /// Both are valid for `n` values, all initialised, and do not overlap.
    unsafe fn join(&self, a: *mut u8, b: *const u8, n: usize);
    /// Hands out the results of the rows `row..row + n`.
    ///
    /// # Safety
    /// As for `rows`.
    unsafe fn emit(&self, row: usize, acc: *const u8, n: usize);
}

/// Joins `parts` groups of `n` values into the first one, in pairs of neighbours.
///
/// # Safety
/// `acc` is valid for all, initialised.
unsafe fn join_all(k: &dyn Kernel, acc: *mut u8, parts: usize, n: usize, bytes: usize) {
    let mut step = 1;
    while step < parts {
        for c in (0..parts - step).step_by(2 * step) {
            // SAFETY: two different groups of the caller's.
            unsafe { k.join(acc.add(c * bytes), acc.add((c + step) * bytes), n) };
        }
        step *= 2;
    }
}

/// Most results of pieces that are kept at once: of one row, and of the tiles of one outer index.
const MOST_PARTS: usize = 1 << 16;
const MOST_TILES: usize = 1 << 12;

/// Reduces each row of the view; the kernel's `emit` gets each row once, possibly on several threads.
pub(super) fn reduce_rows(g: Geo, k: &dyn Kernel) {
    let rows = g.rows();
    if rows == 0 {
        return;
    }
    if g.n > 0 && g.inner > 1 && g.is == 1 && (g.ns != 1 || g.n == 1) {
        return columns(g, k);
    }
    let size = k.size();
    if g.n > CHUNK && rows < 2 * num_threads() {
        // Few long rows, each cut among threads.
        // of rows that are long because they repeat longer pieces, so that their results have room
        let chunk = CHUNK.max(g.n.div_ceil(MOST_PARTS));
        let parts = g.n.div_ceil(chunk);
        let mut buf = filled(Unit::uninit(), parts * MOST / UNIT);
        for row in 0..rows {
            let place = SharedMut::new(&mut buf);
            parallel_chunks(parts, &|c| {
                // SAFETY: each chunk has its own part of the buffer.
                unsafe {
                    let acc = place.ptr().cast::<u8>().add(c * size);
                    k.fill(acc, 1);
                    k.rows(row, c * chunk, ((c + 1) * chunk).min(g.n), acc, 1);
                }
            });
            let acc = buf.as_mut_ptr().cast();
            // SAFETY: the chunks initialised all parts.
            unsafe {
                join_all(k, acc, parts, 1, size);
                k.emit(row, acc, 1);
            }
        }
        return;
    }
    parallel_for(rows, g.grain(), |range| {
        let mut acc = [Unit::uninit(); BATCH * MOST / UNIT];
        let acc = acc.as_mut_ptr().cast();
        for first in range.clone().step_by(BATCH) {
            let n = BATCH.min(range.end - first);
            // SAFETY: the buffer has room for BATCH values.
            unsafe {
                k.fill(acc, n);
                k.rows(first, 0, g.n, acc, n);
                k.emit(first, acc, n);
            }
        }
    });
}

/// Neighbouring rows of the result are neighbours in memory: tiles of columns.
fn columns(g: Geo, k: &dyn Kernel) {
    let tiles = g.inner.div_ceil(TILE);
    // longer pieces where the results of all would be too many; how many there are depends on the sizes alone
    let room = (MOST_TILES / tiles).max(1);
    let chunk = TILE_CHUNK.max(g.n.div_ceil(room));
    let parts = g.n.div_ceil(chunk);
    // Bytes of a tile's running values.
    let bytes = k.size() * TILE;
    // Where tile `t` begins: result, element, columns.
    let at = |t: usize| {
        let (o, i) = (t / tiles, (t % tiles) * TILE);
        (o * g.inner + i, o * g.os as usize + i, TILE.min(g.inner - i))
    };
    // Groups of outer indices, so that the partial results stay small.
    let group =
        if parts == 1 { g.outer } else { (4 * num_threads()).div_ceil(tiles.saturating_mul(parts)).max(1) };
    for o in (0..g.outer).step_by(group) {
        let here = group.min(g.outer - o) * tiles;
        let mut buf = filled(Unit::uninit(), if parts == 1 { 0 } else { here * parts * bytes / UNIT });
        let place = SharedMut::new(&mut buf);
        let grain = (GRAIN / (TILE_CHUNK.min(g.n) * g.inner.min(TILE))).max(1);
        // Neighbouring tiles of the same rows come one after the other, in memory order.
        parallel_for(here * parts, grain, |r| {
            let mut own = [Unit::uninit(); TILE * MOST / UNIT];
            for u in r {
                let (t, c) = (u / (parts * tiles) * tiles + u % tiles, u / tiles % parts);
                let (row, first, n) = at(o * tiles + t);
                let to = ((c + 1) * chunk).min(g.n);
                // SAFETY: each (tile, chunk) has its own part of the buffer, and `own` has room for a tile.
                unsafe {
                    let acc = if parts == 1 {
                        own.as_mut_ptr().cast::<u8>()
                    } else {
                        place.ptr().cast::<u8>().add((t * parts + c) * bytes)
                    };
                    k.fill(acc, n);
                    k.columns(first, c * chunk, to, acc, n);
                    if parts == 1 {
                        k.emit(row, acc, n);
                    }
                }
            }
        });
        for t in 0..if parts == 1 { 0 } else { here } {
            let (row, _, n) = at(o * tiles + t);
            // SAFETY: the tasks initialised `n` values of each part.
            unsafe {
                let acc = buf.as_mut_ptr().cast::<u8>().add(t * parts * bytes);
                join_all(k, acc, parts, n, bytes);
                k.emit(row, acc, n);
            }
        }
    }
}
