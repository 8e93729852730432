//! Counted handles whose values live in the pool, and a lock for a few instructions.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use crate::pool;

/// A handle on a shared value, as `Arc` without weak handles: creation and the drop of the only handle need no atomic
/// read-modify-write, and the memory comes from the pool's thread-local stacks.
///
/// ```
/// use flambeau_memory::Shared;
/// let a = Shared::new(String::from("text"));
/// let b = a.clone();
/// assert!(Shared::same(&a, &b) && Shared::count(&a) == 2);
/// drop(b);
/// assert_eq!((&**a, Shared::count(&a)), ("text", 1));
/// ```
pub struct Shared<T> {
    inner: NonNull<Inner<T>>,
    _owns: PhantomData<Inner<T>>,
}

struct Inner<T> {
    count: AtomicUsize,
    value: T,
}

// SAFETY: as for `Arc`: handles on several threads give out `&T`, and any of them may be the one that drops the value.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

/// More handles than this are leaks about to overflow the count.
const MANY: usize = isize::MAX as usize;

impl<T> Shared<T> {
    const CLASS: usize = {
        assert!(align_of::<Inner<T>>() <= pool::ALIGN);
        pool::class_of(size_of::<Inner<T>>())
    };

    /// The first handle on a value.
    #[inline]
    pub fn new(value: T) -> Self {
        Self::with(|| value)
    }

    /// The first handle on what `make` gives, which is made in place: nothing is copied if `make` is inlined.
    #[inline(always)]
    pub fn with(make: impl FnOnce() -> T) -> Self {
        let inner = pool::take(Self::CLASS).cast::<Inner<T>>();
        // SAFETY: the block is ours, large and aligned enough (see `CLASS`). If `make` panics, it leaks.
        unsafe { inner.write(Inner { count: AtomicUsize::new(1), value: make() }) };
        Shared { inner, _owns: PhantomData }
    }

    /// The number of handles. Other threads may change it at any time, but 1 stays 1 while the caller keeps its handle
    /// to itself.
    #[inline(always)]
    pub fn count(this: &Self) -> usize {
        this.inner().count.load(Ordering::Acquire)
    }

    /// Whether two handles are on one value.
    #[inline(always)]
    pub fn same(a: &Self, b: &Self) -> bool {
        a.inner == b.inner
    }

    /// The value's address.
    #[inline(always)]
    pub fn as_ptr(this: &Self) -> *const T {
        &raw const this.inner().value
    }

    /// The value, if this is the only handle.
    #[inline(always)]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        if Self::count(this) != 1 {
            return None;
        }
        // SAFETY: the only handle is borrowed exclusively, so nobody can reach the value or make another handle; all
        // that former handles did happened before (Acquire in `count`, Release in `drop`).
        Some(unsafe { &mut (*this.inner.as_ptr()).value })
    }

    #[inline(always)]
    fn inner(&self) -> &Inner<T> {
        // SAFETY: the value lives as long as any handle.
        unsafe { self.inner.as_ref() }
    }

    #[inline(never)]
    fn last(&mut self) {
        // SAFETY: the caller is the last handle, and everything that others did has happened before (Acquire).
        unsafe { self.inner.drop_in_place() };
        // SAFETY: `new` took the block with this class.
        unsafe { pool::give(self.inner.cast(), Self::CLASS) };
    }
}

impl<T> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        // Relaxed as in `Arc`: a new handle is made from one that keeps the value alive.
        if self.inner().count.fetch_add(1, Ordering::Relaxed) > MANY {
            std::process::abort();
        }
        Shared { inner: self.inner, _owns: PhantomData }
    }
}

impl<T> Drop for Shared<T> {
    #[inline(always)]
    fn drop(&mut self) {
        // With a count of 1 nobody else has a handle, so nobody can change the count: no atomic decrement is needed.
        if self.inner().count.load(Ordering::Acquire) != 1 {
            if self.inner().count.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        self.last();
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.inner().value
    }
}

/// Never unwinds, so that what goes into the `Arc` may wait in registers.
#[inline(never)]
#[allow(improper_ctypes_definitions, reason = "called from Rust only; `extern` is what rules unwinding out")]
extern "C" fn new_uninit<T>() -> Arc<MaybeUninit<T>> {
    Arc::new_uninit()
}

/// An `Arc` of what `make` gives, which is made in place: `Arc::new` copies large values.
#[inline(always)]
pub fn arc_with<T>(make: impl FnOnce() -> T) -> Arc<T> {
    let arc = new_uninit::<T>();
    // SAFETY: the only handle was just made, so nobody else can reach the value.
    unsafe {
        Arc::as_ptr(&arc).cast::<T>().cast_mut().write(make());
        Arc::from_raw(Arc::into_raw(arc).cast::<T>())
    }
}

/// A head that all values of a kind have, and a body of its own, one behind the other.
#[repr(C)]
pub struct Headed<H, B> {
    /// The head.
    pub head: H,
    /// The body.
    pub body: B,
}
impl<H, B> Headed<H, B> {
    /// Its length in words.
    pub const WORDS: usize = {
        assert!(align_of::<Self>() == align_of::<u64>(), "a value of words");
        size_of::<Self>() / size_of::<u64>()
    };
}

/// An `Arc<Headed<H, B>>` whose body is not there yet: what makes it and its head knows nothing of the body, so one function
/// does that for all bodies. If it never gets one, it leaks.
pub struct Begun<H> {
    at: NonNull<H>,
    words: usize,
}
impl<H> Begun<H> {
    /// Memory for [`Headed::WORDS`] words, and the head in it, which is made in place.
    #[inline(always)]
    pub fn new(words: usize, head: impl FnOnce() -> H) -> Begun<H> {
        const { assert!(align_of::<H>() <= align_of::<u64>()) };
        assert!(words * size_of::<u64>() >= size_of::<H>(), "a value is longer than its head");
        let block = Arc::into_raw(Arc::<[u64]>::new_uninit_slice(words));
        let at = block.cast::<H>().cast_mut();
        // SAFETY: the only handle was just made, so nobody else reaches the block, which is aligned and long enough.
        unsafe {
            at.write(head());
            Begun { at: NonNull::new_unchecked(at), words }
        }
    }
    /// The whole value.
    #[inline(always)]
    pub fn with<B>(self, body: B) -> Arc<Headed<H, B>> {
        if self.words != Headed::<H, B>::WORDS {
            other_body();
        }
        let at = self.at.cast::<Headed<H, B>>().as_ptr();
        // SAFETY: the block came from an `Arc` of so many words, aligned as this value is and not shared with anybody; its head
        // is written, and the body is now.
        unsafe {
            (&raw mut (*at).body).write(body);
            Arc::from_raw(at)
        }
    }
}
#[cold]
#[inline(never)]
fn other_body() -> ! {
    panic!("a value gets another body than it was begun for")
}

/// A value behind a lock that is held for a few instructions: taking it is one atomic operation, giving it back a plain
/// store. Who finds it taken spins.
///
/// ```
/// let s = flambeau_memory::Slot::new(1);
/// assert_eq!(s.with(|v| std::mem::replace(v, 2)) + s.with(|v| *v), 3);
/// ```
pub struct Slot<T> {
    /// Whose it is ([`me`]), 0 while it is nobody's.
    taken: AtomicUsize,
    mark: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time (`taken`), and may move between threads.
unsafe impl<T: Send> Sync for Slot<T> {}

impl<T: Default> Default for Slot<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Slot<T> {
    /// A slot that holds `value`.
    #[inline]
    pub const fn new(value: T) -> Self {
        Slot { taken: AtomicUsize::new(0), mark: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Sets a flag that stays, beside the value.
    #[inline]
    pub fn mark(&self) {
        self.mark.store(true, Ordering::Release);
    }

    /// Whether [`Slot::mark`] was called. A look at it takes no lock.
    #[inline]
    pub fn is_marked(&self) -> bool {
        self.mark.load(Ordering::Acquire)
    }

    /// Runs `f` on the value. `f` must be short.
    ///
    /// # Panics
    /// When `f` comes back to this slot.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        struct Free<'a>(&'a AtomicUsize);
        impl Drop for Free<'_> {
            #[inline]
            fn drop(&mut self) {
                self.0.store(0, Ordering::Release);
            }
        }
        if !self.take() {
            self.wait();
        }
        let _free = Free(&self.taken);
        // SAFETY: this thread put its number into `taken` where nobody's was, and no other touches the value until it is free again.
        f(unsafe { &mut *self.value.get() })
    }

    #[inline(always)]
    fn take(&self) -> bool {
        self.taken.compare_exchange(0, me(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self) {
        assert!(self.taken.load(Ordering::Relaxed) != me(), "a slot was entered from within itself");
        let mut rounds = 0;
        while !self.take() {
            rounds += 1;
            if rounds < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// A number of this thread that no other living thread has, and not 0: the address of something of its own.
#[inline(always)]
fn me() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    // no destructor, so it is there until the thread is gone
    HERE.try_with(|h| std::ptr::from_ref(h).addr()).unwrap_or(1)
}
