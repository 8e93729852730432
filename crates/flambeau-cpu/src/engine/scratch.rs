//! Work memory that a thread keeps between kernel calls.

use super::room::grow;
use crate::Element;
use std::cell::RefCell;

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Larger buffers go back to the allocator, so that one big call does not pin its memory for ever.
const KEEP_BYTES: usize = 32 << 20;

thread_local! {
    static POOL: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// Calls `body` with `len` elements of scratch memory, aligned to 64 bytes, whose values are arbitrary. Calls may nest.
pub(crate) fn with_scratch<T: Element, R>(len: usize, body: impl FnOnce(&mut [T]) -> R) -> R {
    let lines = len.saturating_mul(size_of::<T>()).div_ceil(64);
    // at a thread's end there is no pool any more, and the buffer goes back to the allocator
    let mut buf = POOL.try_with(|p| p.borrow_mut().pop()).ok().flatten().unwrap_or_default();
    if buf.len() < lines {
        buf.clear();
        grow(&mut buf, lines, Line([0; 64]));
    }
    let r = body(&mut bytemuck::cast_slice_mut(&mut buf[..lines])[..len]);
    if buf.len() * 64 <= KEEP_BYTES {
        let _ = POOL.try_with(|p| {
            let mut p = p.borrow_mut();
            if p.len() < 4 {
                p.push(buf);
            }
        });
    }
    r
}
