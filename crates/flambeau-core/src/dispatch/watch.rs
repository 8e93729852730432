//! What sees calls come and go without a say in them: the profiler. A watcher stands among the modes of its thread
//! ([`overrides`]), but where it is on top a call passes with its arguments as they are: it costs no list of values.

use super::overrides::{self, Level, Mode, ModeGuard, Running};
use crate::dispatch::op::{OpInfo, call_fallback};
use crate::dispatch::value::{AsValue, Results, Value};
use crate::types::call::Call;
use crate::types::error::Result;
use crate::types::keys::Key;
use crate::types::{order, thread_keys};
use std::rc::Rc;

/// Told of every operator call of a thread.
pub trait Watcher {
    /// A call begins: as it was made, or below the gradients (`inner`), where composites come as what they are made of. `args` makes
    /// values of the arguments. What is given back comes with the call's end; none if that is of no interest.
    fn begin(&self, info: &'static OpInfo, inner: bool, args: &dyn Fn() -> Vec<Value>) -> Option<usize>;
    /// A call ends, also by an error or a panic.
    fn end(&self, call: usize);
}
/// Tells `watcher` of the calls of this thread, as they are made and below the gradients, until the guards are dropped.
pub fn push_watcher(watcher: Rc<dyn Watcher>) -> [ModeGuard; 2] {
    [Level::Function, Level::Dispatch].map(|level| overrides::push(level, Mode::Watches(watcher.clone())))
}

/// A watched call under way: its watcher, and what stands above, see nothing at this level until it is dropped.
pub struct Watched {
    watcher: Rc<dyn Watcher>,
    call: Option<usize>,
    _running: Running,
}
impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.watcher.end(call);
        }
    }
}
impl Watched {
    pub(super) fn new(
        watcher: Rc<dyn Watcher>,
        running: Running,
        info: &'static OpInfo,
        inner: bool,
        args: &dyn Fn() -> Vec<Value>,
    ) -> Watched {
        order::none_held("a mode runs");
        let call = watcher.begin(info, inner, args);
        Watched { watcher, call, _running: running }
    }
}

/// Generated adaptors ask this first: if a watcher is all that sent the call here, the call is made again, as it is, while the guard lives.
#[inline(never)]
pub fn watched(info: &'static OpInfo, args: &[&dyn AsValue]) -> Option<Watched> {
    let key = thread_keys::take_coming(std::ptr::from_ref(info).addr())?;
    let level = if key == Key::Mode { Level::Function } else { Level::Dispatch };
    let (mode, running) = overrides::step_below(level)?;
    match mode {
        Mode::Watches(w) => {
            let values = || args.iter().map(|a| a.as_value()).collect();
            Some(Watched::new(w, running, info, level == Level::Dispatch, &values))
        }
        Mode::Shown(_) => None,
    }
}
/// [`call_fallback`] with typed results; `again` makes the call again, where a watcher alone sent it here ([`watched`]).
#[inline(never)]
pub fn adapted<R: Results>(
    info: &'static OpInfo,
    args: &[&dyn AsValue],
    again: &mut dyn Call<(), Result<R>>,
) -> Result<R> {
    if let Some(_seen) = watched(info, args) {
        return again.call(());
    }
    call_fallback(info, args).and_then(R::from_values)
}
