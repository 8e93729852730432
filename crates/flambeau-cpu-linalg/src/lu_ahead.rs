//! LU decomposition of large matrices by panels of columns, for several threads. While the columns behind a panel are brought up to date, the task
//! that has the first of them goes on and decomposes them: they are the next panel. So panels, at which one thread works at a
//! time, take no time of their own as long as there is enough behind them. One thread does the same, so that the results do not depend on
//! the number of threads.

use super::field::Field;
use super::lu::{exchange, factor, update};
use crate::engine::SharedMut;
use crate::engine::parallel::parallel_chunks;
use std::sync::Mutex;

/// Smaller matrices gain less from a second thread than handing over costs, and recursion is faster with one.
const LEAST: usize = 384;
/// Columns of a panel.
const PANEL: usize = 64;
/// Columns of a task, at least.
const COLUMNS: usize = 48;
/// Tasks of a panel's columns, at most: as few as eight threads are busy with, since each copies the panel for its products.
const GROUPS: usize = 8;
/// Columns on the left whose rows are exchanged by one task.
const LEFT: usize = 256;

/// Whether [`by_panels`] is worth it.
pub(super) fn pays(m: usize, n: usize) -> bool {
    m.min(n) >= LEAST
}

/// What [`factor`] does, with the threads that there are. What a task has depends on the sizes alone: narrow and wide groups of columns take
/// steps with other roundings.
pub(super) fn by_panels<T: Field>(
    a: &mut [T],
    ld: usize,
    m: usize,
    n: usize,
    pivots: &mut [usize],
    pivot: bool,
) -> i32 {
    let k = m.min(n);
    let mut width = PANEL.min(k);
    let mut info = factor(a, ld, m, width, &mut pivots[..width], pivot);
    let mut from = 0;
    while width > 0 {
        let (left, rest) = a.split_at_mut(from * ld);
        let (panel, right) = rest.split_at_mut((width * ld).min(rest.len()));
        let panel = &panel[from..];
        let (rows, behind) = (m - from, n - from - width);
        let next = PANEL.min(k - from - width);
        let (known, later) = pivots.split_at_mut(from + width);
        let known = &known[from..];
        // columns that are no panel yet, and those before this one, whose rows follow
        let others = behind - next;
        let each = others.div_ceil(GROUPS).next_multiple_of(16).max(COLUMNS);
        let (first, groups, before) = (usize::from(next > 0), others.div_ceil(each), from.div_ceil(LEFT));
        let (left, right) = (SharedMut::new(left), SharedMut::new(right));
        // SAFETY: each column is one task's.
        let columns = |at, n| unsafe { right.slice(at * ld + from, (n - 1) * ld + rows) };
        let ahead = Mutex::new((&mut later[..next], 0));
        parallel_chunks(first + groups + before, &|task| {
            if task < first {
                let c = columns(0, next);
                update(panel, ld, rows, width, c, next, known);
                let mut ahead = ahead.lock().unwrap_or_else(|e| e.into_inner());
                ahead.1 = factor(&mut c[width..], ld, rows - width, next, &mut *ahead.0, pivot);
            } else if task < first + groups {
                let at = (task - first) * each;
                let n = each.min(others - at);
                update(panel, ld, rows, width, columns(next + at, n), n, known);
            } else {
                let at = (task - first - groups) * LEFT;
                let n = LEFT.min(from - at);
                // SAFETY: as above.
                let c = unsafe { left.slice(at * ld + from, (n - 1) * ld + rows) };
                exchange(c, ld, n, known);
            }
        });
        let found = ahead.into_inner().unwrap_or_else(|e| e.into_inner()).1;
        from += width;
        if info == 0 && found > 0 {
            info = found + from as i32;
        }
        width = next;
    }
    // rows counted from the top
    for (i, p) in pivots[..k].iter_mut().enumerate() {
        *p += i / PANEL * PANEL;
    }
    info
}
