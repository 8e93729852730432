//! Work memory that a thread keeps between kernel calls.

use super::room::zeroed;
use crate::Element;
use std::cell::RefCell;

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Larger buffers go back to the allocator, so that one big call does not pin its memory for ever.
const KEEP_BYTES: usize = 32 << 20;
/// Buffers that a thread keeps: kernels nest no deeper.
const KEEP: usize = 4;

thread_local! {
    static POOL: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// The smallest buffer of at least `lines`. Where there is none, the largest one makes room for one that is.
fn take(pool: &mut Vec<Vec<Line>>, lines: usize) -> Option<Vec<Line>> {
    let fits = (0..pool.len()).filter(|i| pool[*i].len() >= lines).min_by_key(|i| pool[*i].len());
    if fits.is_none()
        && let Some(largest) = (0..pool.len()).max_by_key(|i| pool[*i].len())
    {
        pool.swap_remove(largest);
    }
    fits.map(|i| pool.swap_remove(i))
}

/// Calls `body` with `len` elements of scratch memory, aligned to 64 bytes, whose values are arbitrary. Calls may nest.
pub fn with_scratch<T: Element, R>(len: usize, body: impl FnOnce(&mut [T]) -> R) -> R {
    let lines = len.saturating_mul(size_of::<T>()).div_ceil(64);
    let mut buf = buffer(lines);
    let r = body(&mut bytemuck::cast_slice_mut(&mut buf[..lines])[..len]);
    keep(buf);
    r
}
/// A buffer of at least `lines`.
fn buffer(lines: usize) -> Vec<Line> {
    // at a thread's end there is no pool any more, and the buffer goes back to the allocator
    let kept = POOL.try_with(|p| take(&mut p.borrow_mut(), lines)).ok().flatten();
    kept.unwrap_or_else(|| zeroed(lines))
}
/// Keeps it for the next call, where there is room.
fn keep(buf: Vec<Line>) {
    if buf.len() * 64 <= KEEP_BYTES {
        let _ = POOL.try_with(|p| {
            let mut p = p.borrow_mut();
            if p.len() < KEEP {
                p.push(buf);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_that_fits_is_taken() {
        let buffer = |n| vec![Line([0; 64]); n];
        let mut pool = vec![buffer(9), buffer(3), buffer(5)];
        assert_eq!(take(&mut pool, 4).map(|b| b.len()), Some(5));
        assert_eq!(take(&mut pool, 3).map(|b| b.len()), Some(3));
        // too small ones give way, the largest first
        pool.push(buffer(2));
        assert!(take(&mut pool, 10).is_none());
        assert_eq!(pool.iter().map(Vec::len).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn nested_calls_have_memory_of_their_own() {
        with_scratch::<f32, _>(1000, |a| {
            a.fill(1.0);
            with_scratch::<f32, _>(2000, |b| b.fill(2.0));
            assert!(a.iter().all(|v| *v == 1.0) && a.len() == 1000);
        });
    }
}
