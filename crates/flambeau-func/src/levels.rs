//! The vmaps that are under way on this thread.

use flambeau_core::api::ergonomic::expect;
use flambeau_core::api::into_arg::IntoArg;
use flambeau_core::internal::{excluding, including};
use flambeau_core::types::keys::{Key, KeySet};
use flambeau_core::{Error, Result};
use std::cell::{Cell, RefCell};

/// What random operators do inside of a vmap.
///
/// ```
/// use torch::func::{Randomness, VmapOptions, vmap_with};
/// let drawn = |r: Randomness| {
///     let noisy = |x: &torch::Tensor| x + torch::rand(());
///     vmap_with(noisy, VmapOptions::new().randomness(r))(&torch::zeros([2])).to_vec::<f32>()
/// };
/// let same = drawn(Randomness::Same);
/// assert_eq!(same[0], same[1]);
/// let different = drawn(Randomness::Different);
/// assert_ne!(different[0], different[1]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Randomness {
    /// They are refused.
    #[default]
    Error,
    /// Every slice gets numbers of its own.
    Different,
    /// All slices get the same numbers.
    Same,
}
impl Randomness {
    /// By PyTorch's word.
    ///
    /// # Errors
    /// Another word than `error`, `different` and `same`.
    pub fn parse(word: &str) -> Result<Randomness> {
        match word {
            "error" => Ok(Randomness::Error),
            "different" => Ok(Randomness::Different),
            "same" => Ok(Randomness::Same),
            other => Err(Error::runtime(format!(
                "Only allowed values for randomness are 'error', 'different', or 'same'. Got {other}"
            ))),
        }
    }
}
impl IntoArg<Randomness> for Randomness {
    fn into_arg(self) -> Randomness {
        self
    }
}
impl IntoArg<Randomness> for &str {
    #[track_caller]
    fn into_arg(self) -> Randomness {
        expect(Randomness::parse(self))
    }
}

/// One vmap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    /// Higher further inside; never used again.
    pub id: u64,
    /// Size of the dimension that it hides.
    pub batch: i64,
    pub randomness: Randomness,
}

thread_local! {
    static STACK: RefCell<Vec<Level>> = const { RefCell::new(Vec::new()) };
    /// How many of them a call sees: a rule works below its own.
    static VISIBLE: Cell<usize> = const { Cell::new(0) };
    static NEXT: Cell<u64> = const { Cell::new(1) };
}

/// The vmaps; nothing while the thread ends.
fn stack<R>(f: impl FnOnce(&mut Vec<Level>) -> R) -> Option<R> {
    STACK.try_with(|s| f(&mut s.borrow_mut())).ok()
}
/// The innermost vmap that a call sees.
pub(crate) fn top() -> Option<Level> {
    let i = VISIBLE.get().checked_sub(1)?;
    stack(|s| s.get(i).copied())?
}
/// All that a call sees, the outermost first.
pub(crate) fn visible() -> Vec<Level> {
    stack(|s| s[..VISIBLE.get().min(s.len())].to_vec()).unwrap_or_default()
}

struct Restore(usize);
impl Drop for Restore {
    fn drop(&mut self) {
        VISIBLE.set(self.0);
    }
}
/// Runs `f` one level further in: with a new vmap.
pub(crate) fn within<R>(batch: i64, randomness: Randomness, f: impl FnOnce(Level) -> R) -> R {
    let id = NEXT.get();
    NEXT.set(id + 1);
    let level = Level { id, batch, randomness };
    let before = VISIBLE.get();
    // what a rule hides stays hidden: it is not reached from in here
    let hidden = stack(|s| s.split_off(before.min(s.len()))).unwrap_or_default();
    struct Put(Vec<Level>, usize);
    impl Drop for Put {
        fn drop(&mut self) {
            let hidden = std::mem::take(&mut self.0);
            stack(|s| {
                s.truncate(self.1);
                s.extend(hidden);
            });
        }
    }
    let _put = Put(hidden, before);
    stack(|s| s.push(level));
    let _restore = Restore(before);
    VISIBLE.set(before + 1);
    including(KeySet::of(Key::Batched), || f(level))
}
/// Runs `f` without the innermost vmap: what a rule does.
pub(crate) fn below<R>(f: impl FnOnce() -> R) -> R {
    let before = VISIBLE.get();
    let _restore = Restore(before);
    VISIBLE.set(before.saturating_sub(1));
    if before <= 1 { excluding(KeySet::of(Key::Batched), f) } else { f() }
}
