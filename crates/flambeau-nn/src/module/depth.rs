//! How deeply modules may stand in each other. Walks and calls recurse, and an exhausted stack would end the process: beyond
//! a few hundred levels there is an error, as Python has one. Dropping cannot fail, so containers drop in a loop.

use flambeau_core::{Error, Result};
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// Levels of modules that are walked and called.
const MAX: u32 = 256;

thread_local! {
    static LEVEL: Cell<u32> = const { Cell::new(0) };
    static DROPPING: Cell<bool> = const { Cell::new(false) };
    static WAITING: Waiting = const { RefCell::new(Vec::new()) };
    /// Takes its place while the thread ends, when it is gone: it has no destructor, and gives its memory back each time.
    static LATE: ManuallyDrop<Waiting> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}
type Waiting = RefCell<Vec<Box<dyn Anything>>>;

/// One of the two lists. `LATE` has no destructor, so it is always there.
fn waiting<R>(f: impl Fn(&Waiting) -> R) -> Option<R> {
    WAITING.try_with(&f).or_else(|_| LATE.try_with(|late| f(late))).ok()
}

/// Until it is dropped, this thread is one level deeper in modules.
pub(crate) struct Level(());
impl Drop for Level {
    fn drop(&mut self) {
        LEVEL.set(LEVEL.get() - 1);
    }
}
/// One level deeper.
///
/// # Errors
/// Too deep, in Python's words.
pub(crate) fn enter() -> Result<Level> {
    let n = LEVEL.get();
    if n >= MAX {
        return Err(Error::runtime("maximum recursion depth exceeded"));
    }
    LEVEL.set(n + 1);
    Ok(Level(()))
}

trait Anything {}
impl<T> Anything for T {}

/// The named items of a container. What stands in it may be containers again, a million levels deep: the outermost one's drop
/// works their items off in a loop.
#[derive(Debug)]
pub(crate) struct Nested<F: 'static>(Vec<(String, F)>);
impl<F: 'static> Nested<F> {
    pub fn take(mut self) -> Vec<(String, F)> {
        std::mem::take(&mut self.0)
    }
}
impl<F: 'static> Default for Nested<F> {
    fn default() -> Self {
        Nested(Vec::new())
    }
}
impl<F: 'static> From<Vec<(String, F)>> for Nested<F> {
    fn from(items: Vec<(String, F)>) -> Self {
        Nested(items)
    }
}
impl<F: 'static> FromIterator<(String, F)> for Nested<F> {
    fn from_iter<I: IntoIterator<Item = (String, F)>>(items: I) -> Self {
        Nested(items.into_iter().collect())
    }
}
impl<F: 'static> Deref for Nested<F> {
    type Target = Vec<(String, F)>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
impl<F: 'static> DerefMut for Nested<F> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
impl<F: 'static> Drop for Nested<F> {
    fn drop(&mut self) {
        let items = std::mem::take(&mut self.0);
        if items.is_empty() {
            return;
        }
        let slot = Cell::new(Some(items));
        if DROPPING.get() {
            waiting(|w| w.borrow_mut().extend(slot.take().map(|i| Box::new(i) as Box<dyn Anything>)));
            return;
        }
        struct Reset;
        impl Drop for Reset {
            fn drop(&mut self) {
                DROPPING.set(false);
            }
        }
        DROPPING.set(true);
        let _reset = Reset;
        drop(slot.take());
        while let Some(next) = waiting(|w| w.borrow_mut().pop()).flatten() {
            drop(next);
        }
        let _ = LATE.try_with(|late| drop(late.take()));
    }
}
