//! Settings of a thread that guards change for as long as they live, dropped in whatever order.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::thread::LocalKey;

/// What the guards of a thread that still live found before them, the oldest first.
pub type Outer<T> = RefCell<Vec<(u64, T)>>;

/// A setting of each thread, and the guards that put other values in its place. Reading it is one load.
///
/// A guard that is dropped before those made after it leaves the setting alone, and hands what it found to the next of
/// them: so when the last is dropped, the setting is what it was before the first.
pub struct Nested<T: Copy + 'static> {
    now: &'static LocalKey<Cell<T>>,
    outer: &'static LocalKey<Outer<T>>,
}
impl<T: Copy + 'static> Nested<T> {
    /// Of the place of the value, and the place where the guards remember.
    pub const fn new(now: &'static LocalKey<Cell<T>>, outer: &'static LocalKey<Outer<T>>) -> Self {
        Nested { now, outer }
    }
    /// The value in force.
    #[inline(always)]
    pub fn get(&self) -> T {
        self.now.get()
    }
    /// Another value, inside of the guards that live.
    pub fn set(&self, value: T) {
        self.now.set(value);
    }
    /// Another value until the guard is dropped.
    pub fn enter(&'static self, value: T) -> Entered<T> {
        thread_local! {
            static NEXT: Cell<u64> = const { Cell::new(0) };
        }
        let (id, found) = (NEXT.get(), self.now.get());
        NEXT.set(id + 1);
        // where the thread ends and the list is gone, the guard restores what it found
        let _ = self.outer.try_with(|o| o.borrow_mut().push((id, found)));
        self.now.set(value);
        Entered { of: self, id, found, _thread: PhantomData }
    }
}

/// Ends a value of a [`Nested`] setting when dropped. It belongs to its thread.
#[must_use = "the value ends with its guard"]
pub struct Entered<T: Copy + 'static> {
    of: &'static Nested<T>,
    id: u64,
    found: T,
    _thread: PhantomData<*const ()>,
}
impl<T: Copy + 'static> Drop for Entered<T> {
    fn drop(&mut self) {
        let found = self.of.outer.try_with(|o| leave(&mut o.borrow_mut(), self.id));
        match found {
            Ok(Left::Last(found)) => self.of.now.set(found),
            Ok(Left::HandedOn) => {}
            Ok(Left::Unknown) | Err(_) => self.of.now.set(self.found),
        }
    }
}

enum Left<T> {
    /// No younger guard lives: this is what was there before.
    Last(T),
    HandedOn,
    Unknown,
}
fn leave<T: Copy>(all: &mut Vec<(u64, T)>, id: u64) -> Left<T> {
    let Some(i) = all.iter().rposition(|e| e.0 == id) else { return Left::Unknown };
    let (_, found) = all.remove(i);
    match all.get_mut(i) {
        Some(next) => {
            next.1 = found;
            Left::HandedOn
        }
        None => Left::Last(found),
    }
}
