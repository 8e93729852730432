//! Values that stand in each other, as lists stand in lists. What Rust derives for them recurses, and a million levels would
//! exhaust the stack, which ends the process: here is what does the same in a loop.

use crate::types::error::{Error, Result};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// A value that may hold others of its kind, its parts.
pub trait Nest: Sized {
    /// A value without parts, which takes the place of others for a moment.
    fn hollow() -> Self;
    /// Whether it has a place for parts.
    fn nests(&self) -> bool;
    /// Each part, in order.
    fn parts<'a>(&'a self, each: &mut dyn FnMut(&'a Self));
    /// Each part, in the same order.
    fn parts_mut<'a>(&'a mut self, each: &mut dyn FnMut(&'a mut Self));
}

/// Drops the parts of a value, and theirs, in a loop.
#[inline]
pub fn drop_parts<T: Nest>(v: &mut T) {
    if v.nests() {
        unnest(v);
    }
}
fn unnest<T: Nest>(v: &mut T) {
    fn open<T: Nest>(v: &mut T, all: &mut Vec<T>) {
        v.parts_mut(&mut |p| {
            if p.nests() {
                all.push(std::mem::replace(p, T::hollow()));
            }
        });
    }
    let mut all = Vec::new();
    open(v, &mut all);
    while let Some(mut next) = all.pop() {
        open(&mut next, &mut all);
    }
}

/// Levels of what a call takes or gives. What walks values within calls recurses; this many fit a thread's stack in every build.
pub const LEVELS: usize = 100;
/// Refuses values of more than [`LEVELS`] levels. It stands where values enter: calls by name, methods of objects, operators
/// defined at run time, and what a program's kernels, modes and functions give.
///
/// # Errors
/// Deeper values.
#[inline]
pub fn check<'a, T: Nest + 'a>(values: impl IntoIterator<Item = &'a T>) -> Result<()> {
    values.into_iter().try_for_each(|v| if v.nests() { check_one(v) } else { Ok(()) })
}
fn check_one<T: Nest>(v: &T) -> Result<()> {
    let mut open = vec![(v, 1)];
    while let Some((v, level)) = open.pop() {
        if level > LEVELS {
            return Err(Error::runtime(format!(
                "maximum recursion depth exceeded: a value is nested more than {LEVELS} levels deep"
            )));
        }
        v.parts(&mut |p| {
            if p.nests() {
                open.push((p, level + 1));
            }
        });
    }
    Ok(())
}

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
}
/// Calls what a program may have nested without end: functions of functions, schedules of schedules, wrappers of modules.
///
/// # Errors
/// Those of the call; more than [`LEVELS`] calls within each other.
pub fn call<R>(f: impl FnOnce() -> Result<R>) -> Result<R> {
    struct Less;
    impl Drop for Less {
        fn drop(&mut self) {
            CALLS.set(CALLS.get() - 1);
        }
    }
    if CALLS.get() >= LEVELS {
        return Err(Error::runtime("maximum recursion depth exceeded"));
    }
    CALLS.set(CALLS.get() + 1);
    let _less = Less;
    f()
}

/// A copy. `shell` copies a value with [`Nest::hollow`] in the place of each of its parts.
pub fn copy<T: Nest>(v: &T, shell: fn(&T) -> T) -> T {
    let mut root = shell(v);
    if v.nests() {
        let mut open = vec![(v, &mut root)];
        while let Some((from, to)) = open.pop() {
            let mut parts = Vec::new();
            from.parts(&mut |p| parts.push(p));
            let mut parts = parts.into_iter();
            to.parts_mut(&mut |to| {
                if let Some(from) = parts.next() {
                    *to = shell(from);
                    if from.nests() {
                        open.push((from, to));
                    }
                }
            });
        }
    }
    root
}

/// Calls `f` with each value that has no place for parts, in order.
pub fn leaves<'a, T: Nest>(v: &'a T, mut f: impl FnMut(&'a T)) {
    let mut open = vec![v];
    while let Some(v) = open.pop() {
        if v.nests() {
            let start = open.len();
            v.parts(&mut |p| open.push(p));
            open[start..].reverse();
        } else {
            f(v);
        }
    }
}
/// Calls `f` with each value that has no place for parts, in order.
///
/// # Errors
/// Those of `f`.
pub fn leaves_mut<T: Nest>(v: &mut T, mut f: impl FnMut(&mut T) -> Result<()>) -> Result<()> {
    let mut open = vec![v];
    while let Some(v) = open.pop() {
        if v.nests() {
            let start = open.len();
            v.parts_mut(&mut |p| open.push(p));
            open[start..].reverse();
        } else {
            f(v)?;
        }
    }
    Ok(())
}

/// Whether two values are equal. `shells` compares all but their parts.
pub fn equal<T: Nest>(a: &T, b: &T, shells: fn(&T, &T) -> bool) -> bool {
    let mut open = vec![(a, b)];
    while let Some((a, b)) = open.pop() {
        if !shells(a, b) {
            return false;
        }
        if a.nests() {
            let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
            a.parts(&mut |p| of_a.push(p));
            b.parts(&mut |p| of_b.push(p));
            if of_a.len() != of_b.len() {
                return false;
            }
            open.extend(of_a.into_iter().zip(of_b).rev());
        }
    }
    true
}

/// Levels that `Debug` shows.
const SHOWN: u32 = 200;
thread_local! {
    static SHOWING: Cell<u32> = const { Cell::new(0) };
}
/// Writes one level of a nest for `Debug`, and an ellipsis where a few hundred are open: formatting recurses.
///
/// # Errors
/// Those of the writer.
pub fn show(
    f: &mut fmt::Formatter<'_>,
    level: impl FnOnce(&mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    struct Up;
    impl Drop for Up {
        fn drop(&mut self) {
            SHOWING.set(SHOWING.get() - 1);
        }
    }
    if SHOWING.get() >= SHOWN {
        return f.write_str("...");
    }
    SHOWING.set(SHOWING.get() + 1);
    let _up = Up;
    level(f)
}

/// Levels of owners that are dropped by recursion, before the others wait for their turn.
const DROPPED_AT_ONCE: u32 = 32;
trait Anything {}
impl<T> Anything for T {}
type Waiting = RefCell<Vec<Box<dyn Anything>>>;

thread_local! {
    static LEVEL: Cell<u32> = const { Cell::new(0) };
    static WAITING: Waiting = const { RefCell::new(Vec::new()) };
    /// Takes its place while the thread ends, when it is gone: it has no destructor, and gives its memory back each time.
    static LATE: ManuallyDrop<Waiting> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}
/// One of the two lists. `LATE` has no destructor, so it is always there.
fn waiting<R>(f: impl Fn(&Waiting) -> R) -> Option<R> {
    WAITING.try_with(&f).or_else(|_| LATE.try_with(|late| f(late))).ok()
}

/// What owns values of any type that may own values in turn, without end: modules in containers, transforms in transforms.
/// Beyond some levels a drop only puts what it owns on a list of the thread, which the outermost drop works off.
#[derive(Clone, PartialEq, Eq)]
pub struct Deep<T: 'static>(Option<T>);

impl<T: 'static> Deep<T> {
    /// Owns it.
    pub const fn new(v: T) -> Self {
        Deep(Some(v))
    }
    /// Gives it up.
    pub fn take(mut self) -> T {
        match self.0.take() {
            Some(v) => v,
            None => unreachable!("it is taken once"),
        }
    }
}
impl<T: 'static> From<T> for Deep<T> {
    fn from(v: T) -> Self {
        Deep::new(v)
    }
}
impl<T: Default + 'static> Default for Deep<T> {
    fn default() -> Self {
        Deep::new(T::default())
    }
}
impl<A: 'static> FromIterator<A> for Deep<Vec<A>> {
    fn from_iter<I: IntoIterator<Item = A>>(items: I) -> Self {
        Deep::new(items.into_iter().collect())
    }
}
impl<T: 'static> Deref for Deep<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(v) => v,
            None => unreachable!("it is taken once"),
        }
    }
}
impl<T: 'static> DerefMut for Deep<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Some(v) => v,
            None => unreachable!("it is taken once"),
        }
    }
}
impl<T: fmt::Debug + 'static> fmt::Debug for Deep<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, |f| fmt::Debug::fmt(&**self, f))
    }
}
impl<T: 'static> Drop for Deep<T> {
    fn drop(&mut self) {
        struct Up(u32);
        impl Drop for Up {
            fn drop(&mut self) {
                LEVEL.set(self.0);
            }
        }
        let Some(owned) = self.0.take() else { return };
        let level = LEVEL.get();
        if level >= DROPPED_AT_ONCE {
            let slot = Cell::new(Some(owned));
            waiting(|w| w.borrow_mut().extend(slot.take().map(|o| Box::new(o) as Box<dyn Anything>)));
            return;
        }
        LEVEL.set(level + 1);
        let _up = Up(level);
        drop(owned);
        if level == 0 {
            while let Some(next) = waiting(|w| w.borrow_mut().pop()).flatten() {
                drop(next);
            }
            let _ = LATE.try_with(|late| drop(late.take()));
        }
    }
}
