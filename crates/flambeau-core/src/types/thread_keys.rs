//! Thread-local dispatch state: keys that every call on this thread includes or skips.

use super::keys::{Key, KeySet};
use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    // include in the low half, exclude in the high half: one load on the hot path
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Applies the thread's includes and excludes to the keys of a call's arguments.
#[inline(always)]
pub fn effective(keys: KeySet) -> KeySet {
    let s = STATE.get();
    KeySet((keys.0 | s as u32) & !((s >> 32) as u32))
}

/// How tensors are made on this thread: one load for all that a fresh tensor asks.
const INFERENCE: u8 = 1;
const LENT: u8 = 2;
thread_local! {
    static MAKING: Cell<u8> = const { Cell::new(0) };
}
fn set_making(bit: u8, on: bool) -> bool {
    let old = MAKING.get();
    MAKING.set(if on { old | bit } else { old & !bit });
    old & bit != 0
}
/// Whether this thread is in inference mode: tensors made now are inference tensors.
#[inline(always)]
pub fn inference() -> bool {
    MAKING.get() & INFERENCE != 0
}
/// Enters or leaves inference mode; the engine's guard does so.
pub fn set_inference(on: bool) {
    set_making(INFERENCE, on);
}
/// Whether fresh tensors are asked of a lender (`tensor::handle::lent`).
#[inline(always)]
pub(crate) fn lends() -> bool {
    MAKING.get() & LENT != 0
}
/// Turns the thread's lender on or off until dropped.
pub(crate) struct Lending(bool, PhantomData<*const ()>);
impl Lending {
    pub(crate) fn switch(on: bool) -> Self {
        Lending(set_making(LENT, on), PhantomData)
    }
}
impl Drop for Lending {
    fn drop(&mut self) {
        set_making(LENT, self.0);
    }
}

thread_local! {
    static BOXED: Cell<u32> = const { Cell::new(0) };
}
/// How many boxed calls may be under way within each other on a thread: a kernel of the program's that comes back to its own
/// operator ends in an error, not at the end of the stack.
const DEEPEST: u32 = 200;
/// Runs a boxed call within those that are under way; none beyond [`DEEPEST`].
pub(crate) fn deeper<R>(call: impl FnOnce() -> R) -> Option<R> {
    struct Less;
    impl Drop for Less {
        fn drop(&mut self) {
            BOXED.set(BOXED.get() - 1);
        }
    }
    (BOXED.get() < DEEPEST).then(|| {
        BOXED.set(BOXED.get() + 1);
        let _less = Less;
        call()
    })
}

thread_local! {
    static AGAIN: Cell<u32> = const { Cell::new(0) };
}
/// Starts a call again from within itself, unless that happened a few times already.
pub(crate) fn again<R>(call: impl FnOnce() -> R) -> Option<R> {
    struct Less;
    impl Drop for Less {
        fn drop(&mut self) {
            AGAIN.set(AGAIN.get() - 1);
        }
    }
    (AGAIN.get() < 16).then(|| {
        AGAIN.set(AGAIN.get() + 1);
        let _less = Less;
        call()
    })
}

/// Adds a key to every call on this thread, or no longer does.
pub(crate) fn set_included(k: Key, on: bool) {
    let (s, bit) = (STATE.get(), 1 << k as u8);
    STATE.set(if on { s | bit } else { s & !bit });
}

thread_local! {
    /// Keys at which a watcher alone is told of calls next (`dispatch::watch`).
    static WATCHED: Cell<u32> = const { Cell::new(0) };
    /// The operator whose adaptor is about to run for such a key, by its address.
    static COMING: Cell<(usize, Key)> = const { Cell::new((0, Key::Mode)) };
}
/// Says whether calls at a key go to a watcher.
pub(crate) fn set_watched(k: Key, on: bool) {
    let bit = 1 << k as u8;
    WATCHED.set(if on { WATCHED.get() | bit } else { WATCHED.get() & !bit });
}
/// Notes that a call that found its slot at a key empty goes to its operator's adaptor next.
pub(crate) fn coming(operator: usize, k: Key) {
    if WATCHED.get() & 1 << k as u8 != 0 {
        COMING.set((operator, k));
    }
}
/// The key at which a watched call of the operator was just sent to its adaptor.
#[inline(always)]
pub(crate) fn take_coming(operator: usize) -> Option<Key> {
    let (of, key) = COMING.get();
    (of == operator).then(|| {
        COMING.set((0, key));
        key
    })
}

/// Whether calls on this thread skip a key.
pub(crate) fn excluded(k: Key) -> bool {
    STATE.get() & 1 << (32 + k as u8) != 0
}
/// Skips a key on this thread from now on.
pub(crate) fn exclude(k: Key) {
    STATE.set(STATE.get() | 1 << (32 + k as u8));
}
/// Adds a key to every call on this thread and takes it out of an outer exclusion, or no longer adds it.
pub(crate) fn admit(k: Key, on: bool) {
    set_included(k, on);
    if on {
        STATE.set(STATE.get() & !(1 << (32 + k as u8)));
    }
}

/// Runs `f`, and skips every key in `keys` on this thread meanwhile.
#[inline(always)]
pub fn excluding<R>(keys: KeySet, f: impl FnOnce() -> R) -> R {
    let _guard = ExcludeGuard::new(keys);
    f()
}
/// Runs `f`, and skips `k` and everything above it meanwhile: what a kernel at key `k` uses to call on below itself.
#[inline(always)]
pub fn below<R>(k: Key, f: impl FnOnce() -> R) -> R {
    let _guard = ExcludeGuard::from_up(k);
    f()
}
/// Runs `f`, and adds keys to every call on this thread meanwhile (modes: tracing, autocast, ...). Takes the keys out of an
/// outer exclusion.
pub fn including<R>(keys: KeySet, f: impl FnOnce() -> R) -> R {
    let _guard = IncludeGuard::new(keys);
    f()
}

/// Skips keys on this thread until dropped. It restores what it found, so it must not outlive an older one: it is handed to
/// nobody outside, who has [`excluding`].
pub(crate) struct ExcludeGuard {
    old: u64,
    _thread: PhantomData<*const ()>,
}
impl ExcludeGuard {
    /// Skips every key in `keys`.
    #[inline(always)]
    pub(crate) fn new(keys: KeySet) -> Self {
        let old = STATE.get();
        STATE.set(old | (keys.0 as u64) << 32);
        ExcludeGuard { old, _thread: PhantomData }
    }
    /// Skips `k` and everything above it: what a kernel at key `k` uses to call on below itself.
    #[inline(always)]
    pub(crate) fn from_up(k: Key) -> Self {
        Self::new(KeySet(!KeySet::below(k).0))
    }
}
impl Drop for ExcludeGuard {
    #[inline(always)]
    fn drop(&mut self) {
        STATE.set(self.old);
    }
}

/// Adds keys to every call on this thread until dropped; as [`ExcludeGuard`], in the order of a stack.
pub(crate) struct IncludeGuard {
    old: u64,
    _thread: PhantomData<*const ()>,
}
impl IncludeGuard {
    /// Adds every key in `keys`.
    pub(crate) fn new(keys: KeySet) -> Self {
        let old = STATE.get();
        STATE.set((old | keys.0 as u64) & !((keys.0 as u64) << 32));
        IncludeGuard { old, _thread: PhantomData }
    }
}
impl Drop for IncludeGuard {
    fn drop(&mut self) {
        STATE.set(self.old);
    }
}
