//! Work memory of kernels. A kernel's lists are as long as its tensors, so the machine may have no memory for them; a `Vec`
//! would end the process then. Kernels get theirs here, and leave by an unwinding of its own kind where there is none;
//! whoever runs kernels says [`attempt`], and has an error.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// There is no memory for so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom(pub usize);

#[cold]
#[inline(never)]
fn none(bytes: usize) -> ! {
    resume_unwind(Box::new(NoRoom(bytes)))
}

/// An empty list with room for `n` elements. Where there is none, [`attempt`] gives the error.
#[inline]
pub fn room<T>(n: usize) -> Vec<T> {
    let mut v = Vec::new();
    if v.try_reserve_exact(n).is_err() {
        none(n.saturating_mul(size_of::<T>()));
    }
    v
}
/// Asks for a block and gives it back: before a library does so that would end the process. Leaves as [`room`] does.
pub fn ask(bytes: usize) {
    let block = room::<u8>(bytes);
    // else the compiler sees that nobody uses it, and asks for none
    std::hint::black_box(block.as_ptr());
}
/// A list of `n` times the same element; otherwise as [`room`].
#[inline]
pub fn filled<T: Clone>(value: T, n: usize) -> Vec<T> {
    let mut v = room(n);
    v.resize(n, value);
    v
}
/// A list of `n` times the element of zero bytes, which the system may have at hand; otherwise as [`room`].
pub(crate) fn zeroed<T: bytemuck::Zeroable>(n: usize) -> Vec<T> {
    let bytes = n.saturating_mul(size_of::<T>());
    if bytes == 0 {
        return Vec::new();
    }
    let Ok(layout) = std::alloc::Layout::array::<T>(n) else { none(bytes) };
    // SAFETY: the layout is that of a `Vec` with room for `n` elements, which are not empty, and zeros are elements.
    unsafe {
        let at = std::alloc::alloc_zeroed(layout);
        if at.is_null() {
            none(bytes);
        }
        Vec::from_raw_parts(at.cast(), n, n)
    }
}
/// What an iterator gives; otherwise as [`room`].
#[inline]
pub fn collected<T>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let items = items.into_iter();
    let (least, most) = items.size_hint();
    let mut v = room(least);
    if most == Some(least) {
        v.extend(items);
        return v;
    }
    for item in items {
        if v.len() == v.capacity() {
            reserve(&mut v, 1);
        }
        v.push(item);
    }
    v
}
/// Room for `n` elements more; otherwise as [`room`].
#[inline]
pub(crate) fn reserve<T>(v: &mut Vec<T>, n: usize) {
    if v.try_reserve(n).is_err() {
        none(v.len().saturating_add(n).saturating_mul(size_of::<T>()));
    }
}
/// Makes a list longer, or cuts it; otherwise as [`room`].
#[inline]
pub(crate) fn grow<T: Clone>(v: &mut Vec<T>, n: usize, value: T) {
    reserve(v, n.saturating_sub(v.len()));
    v.resize(n, value);
}

/// Runs kernels. Other panics pass through.
///
/// # Errors
/// A kernel found no work memory. What it has written by then is any part of its results.
#[inline]
pub fn attempt<R>(f: impl FnOnce() -> R) -> Result<R, NoRoom> {
    catch_unwind(AssertUnwindSafe(f)).map_err(reason)
}
#[cold]
fn reason(payload: Box<dyn Any + Send>) -> NoRoom {
    match payload.downcast::<NoRoom>() {
        Ok(n) => *n,
        Err(other) => resume_unwind(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::parallel::{parallel_chunks, set_num_threads};

    #[test]
    fn what_there_is_no_room_for_is_an_error() {
        assert_eq!(attempt(|| filled(7u16, 3)), Ok(vec![7; 3]));
        assert_eq!(attempt(|| room::<u64>(1 << 60).len()), Err(NoRoom(1 << 63)));
        assert_eq!(attempt(|| filled(0u8, usize::MAX)), Err(NoRoom(usize::MAX)));
        assert_eq!(attempt(|| collected(0..usize::MAX).len()), Err(NoRoom(usize::MAX)));
        assert_eq!(collected([1, 2, 3].iter().map(|i| i * 2)), [2, 4, 6]);
        let other = catch_unwind(|| attempt(|| panic!("a panic of another kind")));
        assert_eq!(other.unwrap_err().downcast_ref(), Some(&"a panic of another kind"));
    }

    #[test]
    fn it_arrives_from_other_threads() {
        set_num_threads(4);
        let r = attempt(|| parallel_chunks(64, &|i| drop(room::<u8>(if i == 40 { usize::MAX } else { 1 }))));
        assert_eq!(r, Err(NoRoom(usize::MAX)));
        set_num_threads(1);
        let r = attempt(|| parallel_chunks(64, &|_| drop(room::<u8>(usize::MAX))));
        assert_eq!(r, Err(NoRoom(usize::MAX)));
    }
}
