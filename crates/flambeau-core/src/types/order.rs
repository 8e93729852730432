//! Locks that debug builds watch: a mutex and a read-write lock with the standard library's interface.
//!
//! There is one order of the locks of the library, which nobody has to write down: the places where locks are made are its
//! members, and taking one while another is held says which comes first. A program (and so the whole test suite) that takes
//! two in both orders, on whatever threads and whenever, or two that were made at one place, ends in a panic that names both,
//! without having to hang. And [`none_held`] stands wherever code of the user's is called or dropped.
//!
//! Release builds have the standard library's locks and nothing else. The locks of flambeau-memory and flambeau-cpu are not
//! watched: they call nobody.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{self, LockResult, PoisonError, TryLockError, TryLockResult};

#[cfg(debug_assertions)]
mod watch {
    use std::cell::Cell;
    use std::collections::{BTreeMap, BTreeSet};
    use std::panic::Location;
    use std::sync::{Mutex, PoisonError};

    pub type Place = &'static Location<'static>;
    /// Places as what can be sorted.
    type Name = (&'static str, u32, u32);
    fn name(p: Place) -> Name {
        (p.file(), p.line(), p.column())
    }

    /// More locks than this at once are not watched.
    const MOST: usize = 16;
    thread_local! {
        // no destructor: it is there while the thread ends
        static HELD: Cell<([Option<Place>; MOST], usize)> = const { Cell::new(([None; MOST], 0)) };
    }
    /// For each place the places whose locks were taken while one of it was held.
    static AFTER: Mutex<BTreeMap<Name, BTreeSet<Name>>> = Mutex::new(BTreeMap::new());

    fn reaches(all: &BTreeMap<Name, BTreeSet<Name>>, from: Name, to: Name) -> bool {
        let (mut open, mut seen) = (vec![from], BTreeSet::new());
        while let Some(n) = open.pop() {
            if n == to {
                return true;
            }
            if seen.insert(n) {
                open.extend(all.get(&n).into_iter().flatten());
            }
        }
        false
    }
    /// That a lock made at this place is about to be taken.
    pub fn before(place: Place) {
        let (held, n) = HELD.get();
        for h in held[..n.min(MOST)].iter().flatten() {
            let (h, new) = (name(h), name(place));
            let mut all = AFTER.lock().unwrap_or_else(PoisonError::into_inner);
            if all.get(&h).is_some_and(|a| a.contains(&new)) {
                continue;
            }
            let wrong = h == new || reaches(&all, new, h);
            if !wrong {
                all.entry(h).or_default().insert(new);
            }
            drop(all);
            assert!(
                !wrong,
                "a lock of {new:?} is taken while one of {h:?} is held, and elsewhere the other way round"
            );
        }
    }
    /// One more is held, until it is dropped.
    pub struct Held(Place);
    impl Held {
        pub fn new(place: Place) -> Held {
            let (mut held, n) = HELD.get();
            if let Some(free) = held.get_mut(n) {
                *free = Some(place);
            }
            HELD.set((held, n + 1));
            Held(place)
        }
    }
    impl Drop for Held {
        fn drop(&mut self) {
            let (mut held, n) = HELD.get();
            // guards may be dropped in any order
            if let Some(i) =
                held[..n.min(MOST)].iter().rposition(|h| h.is_some_and(|h| name(h) == name(self.0)))
            {
                held[i..].rotate_left(1);
                held[MOST - 1] = None;
            }
            HELD.set((held, n.saturating_sub(1)));
        }
    }
    pub fn none_held(what: &str) {
        let (held, n) = HELD.get();
        assert!(
            n == 0 || std::thread::panicking(),
            "{what} while locks are held, those of {:?}",
            &held[..n.min(MOST)]
        );
    }
}

/// Debug builds panic where this thread holds a lock: what follows is code of the user's, `what`.
#[inline(always)]
pub fn none_held(what: &str) {
    #[cfg(debug_assertions)]
    watch::none_held(what);
    let _ = what;
}

macro_rules! lock {
    ($(#[$doc:meta])* $lock:ident; $($take:ident $try_take:ident $guard:ident),+) => {
        $(#[$doc])*
        pub struct $lock<T: ?Sized> {
            #[cfg(debug_assertions)]
            place: watch::Place,
            inner: sync::$lock<T>,
        }
        impl<T> $lock<T> {
            /// As the standard library's.
            #[track_caller]
            pub const fn new(value: T) -> Self {
                $lock {
                    #[cfg(debug_assertions)]
                    place: std::panic::Location::caller(),
                    inner: sync::$lock::new(value),
                }
            }
            /// As the standard library's.
            ///
            /// # Errors
            /// Poisoned.
            pub fn into_inner(self) -> LockResult<T> {
                self.inner.into_inner()
            }
        }
        impl<T: ?Sized> $lock<T> {
            /// As the standard library's.
            ///
            /// # Errors
            /// Poisoned.
            pub fn get_mut(&mut self) -> LockResult<&mut T> {
                self.inner.get_mut()
            }
            $(
                /// As the standard library's.
                ///
                /// # Errors
                /// Poisoned.
                pub fn $take(&self) -> LockResult<$guard<'_, T>> {
                    #[cfg(debug_assertions)]
                    watch::before(self.place);
                    match self.inner.$take() {
                        Ok(g) => Ok(self.$guard(g)),
                        Err(e) => Err(PoisonError::new(self.$guard(e.into_inner()))),
                    }
                }
                /// As the standard library's. It does not wait, so it has no place in the order.
                ///
                /// # Errors
                /// Held by somebody; poisoned.
                pub fn $try_take(&self) -> TryLockResult<$guard<'_, T>> {
                    match self.inner.$try_take() {
                        Ok(g) => Ok(self.$guard(g)),
                        Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
                        Err(TryLockError::Poisoned(e)) => {
                            Err(TryLockError::Poisoned(PoisonError::new(self.$guard(e.into_inner()))))
                        }
                    }
                }
                #[allow(non_snake_case)]
                fn $guard<'a>(&'a self, guard: sync::$guard<'a, T>) -> $guard<'a, T> {
                    $guard {
                        guard,
                        #[cfg(debug_assertions)]
                        _held: watch::Held::new(self.place),
                    }
                }
            )+
        }
        impl<T: Default> Default for $lock<T> {
            #[track_caller]
            fn default() -> Self {
                Self::new(T::default())
            }
        }
        impl<T: ?Sized + fmt::Debug> fmt::Debug for $lock<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.inner.fmt(f)
            }
        }
        $(
            /// As the standard library's.
            #[must_use = "the lock is given back when the guard is dropped"]
            pub struct $guard<'a, T: ?Sized> {
                guard: sync::$guard<'a, T>,
                #[cfg(debug_assertions)]
                _held: watch::Held,
            }
            impl<T: ?Sized> Deref for $guard<'_, T> {
                type Target = T;
                fn deref(&self) -> &T {
                    &self.guard
                }
            }
        )+
    };
}
lock! {
    /// A mutex whose order debug builds watch.
    Mutex; lock try_lock MutexGuard
}
lock! {
    /// A read-write lock whose order debug builds watch.
    RwLock; read try_read RwLockReadGuard, write try_write RwLockWriteGuard
}
impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
