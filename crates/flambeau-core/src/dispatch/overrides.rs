//! Modes: user code that sees every operator call of a thread, may call on, and may change arguments and results.
//!
//! A *function mode* sees calls as they are made: a composite such as `matmul` is one call. A *dispatch mode* stands below
//! the gradients: it sees what composites are made of, and the operators of backward passes too. Modes are stacked; the
//! one pushed last sees a call first, and what it calls is seen by those below it.
//!
//! ```
//! use torch::overrides::{self, OperatorCall};
//! use torch::{Tensor, ops};
//! use std::cell::RefCell;
//! use std::rc::Rc;
//! let names = Rc::new(RefCell::new(Vec::new()));
//! let log = names.clone();
//! let mode = overrides::push_function_mode(move |call: &OperatorCall<'_>| {
//!     log.borrow_mut().push(call.name());
//!     call.call_on()
//! });
//! let x = Tensor::from_vec(vec![1f32, 2.0], [2]);
//! ops::exp(&x).unwrap();
//! drop(mode);
//! ops::exp(&x).unwrap();
//! assert_eq!(*names.borrow(), ["exp"]);
//! ```

use crate::dispatch::op::OpInfo;
use crate::dispatch::registry::{self, UserFallback};
use crate::dispatch::results;
use crate::dispatch::value::Value;
use crate::dispatch::watch::{Watched, Watcher};
use crate::tensor::geometry::SizeVec;
use crate::types::deep;
use crate::types::error::Result;
use crate::types::keys::{Key, KeySet};
use crate::types::order;
use crate::types::schema::Schema;
use crate::types::thread_keys::{self, ExcludeGuard};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::{Arc, Once};

/// What a mode does with a call. Closures that take an [`OperatorCall`] are modes.
///
/// ```
/// use torch::library::Value;
/// use torch::overrides::{OperatorCall, OperatorMode, push_function_mode};
/// /// `add` becomes `sub`.
/// struct Turned;
/// impl OperatorMode for Turned {
///     fn call(&self, call: &OperatorCall<'_>) -> torch::Result<Vec<Value>> {
///         match (call.name(), call.args()) {
///             ("add.Tensor", [Value::Tensor(a), Value::Tensor(b), ..]) => Ok(vec![a.sub(b).into()]),
///             _ => call.call_on(),
///         }
///     }
/// }
/// let (a, b) = (torch::tensor([5.0]), torch::tensor([2.0]));
/// let mode = push_function_mode(Turned);
/// let c = a.add(&b);
/// drop(mode);
/// assert_eq!(c.to_vec::<f32>(), [3.0]);
/// ```
#[doc(alias = "torch.overrides.TorchFunctionMode")]
#[doc(alias = "torch.utils._python_dispatch.TorchDispatchMode")]
pub trait OperatorMode {
    /// The results of the call: usually those of [`OperatorCall::call_on`]. A mode below the gradients gives tensors of the sizes that
    /// the operator gives, since others are made of them.
    ///
    /// # Errors
    /// Whatever it likes; the caller of the operator gets it.
    fn call(&self, call: &OperatorCall<'_>) -> Result<Vec<Value>>;
}
impl<F: Fn(&OperatorCall<'_>) -> Result<Vec<Value>>> OperatorMode for F {
    fn call(&self, call: &OperatorCall<'_>) -> Result<Vec<Value>> {
        self(call)
    }
}

/// An operator call on its way.
pub struct OperatorCall<'a> {
    info: &'static OpInfo,
    args: &'a [Value],
    level: Level,
    /// Sizes of what the operator gave: results of these need no check.
    given: RefCell<Vec<SizeVec>>,
}
impl OperatorCall<'_> {
    /// The operator, for the library's own modes.
    #[doc(hidden)]
    pub fn operator(&self) -> &'static OpInfo {
        self.info
    }
    /// `add.Tensor`.
    pub fn name(&self) -> &'static str {
        self.info.name
    }
    /// Arguments and results of the operator.
    pub fn schema(&self) -> &'static Schema {
        &self.info.schema
    }
    /// Documented Python names (`torch.add`).
    pub fn python_names(&self) -> &'static [&'static str] {
        self.info.python
    }
    /// Made of other operators, which a function mode does not see.
    pub fn is_composite(&self) -> bool {
        self.info.composite
    }
    /// One value for each argument of the schema.
    pub fn args(&self) -> &[Value] {
        self.args
    }
    /// The call as it stands: first to the modes below, then to the operator.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn call_on(&self) -> Result<Vec<Value>> {
        self.call_with(self.args)
    }
    /// The same with other arguments.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn call_with(&self, args: &[Value]) -> Result<Vec<Value>> {
        deep::check(args)?;
        let results = run(self.level, self.info, args)?;
        if self.level == Level::Dispatch {
            self.given.replace(results::sizes(&results));
        }
        Ok(results)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Function,
    Dispatch,
}
impl Level {
    fn key(self) -> Key {
        match self {
            Level::Function => Key::Mode,
            Level::Dispatch => Key::Dispatch,
        }
    }
}

/// Who sees calls.
#[derive(Clone)]
pub(super) enum Mode {
    /// Is shown a call, and makes it or not.
    Shown(Rc<dyn OperatorMode>),
    /// Is told of it.
    Watches(Rc<dyn Watcher>),
}

struct Stack {
    /// Every mode that was pushed, with its number.
    modes: RefCell<Vec<(u64, Mode)>>,
    /// How many of them see calls: fewer while one of them runs.
    active: Cell<usize>,
}
thread_local! {
    static FUNCTION: Stack = const { Stack { modes: RefCell::new(Vec::new()), active: Cell::new(0) } };
    static DISPATCH: Stack = const { Stack { modes: RefCell::new(Vec::new()), active: Cell::new(0) } };
    static NEXT: Cell<u64> = const { Cell::new(0) };
}
/// What `f` makes of a stack of this thread. While the thread ends there may be none any more: then of an empty one.
fn with<R>(level: Level, f: impl Fn(&Stack) -> R) -> R {
    let found = match level {
        Level::Function => FUNCTION.try_with(&f),
        Level::Dispatch => DISPATCH.try_with(&f),
    };
    found.unwrap_or_else(|_| f(&Stack { modes: RefCell::new(Vec::new()), active: Cell::new(0) }))
}
fn set_active(level: Level, n: usize) {
    let watched = with(level, |s| {
        s.active.set(n);
        matches!(s.modes.borrow().get(n.wrapping_sub(1)), Some((_, Mode::Watches(_))))
    });
    thread_keys::set_included(level.key(), n > 0);
    thread_keys::set_watched(level.key(), watched);
}

/// The modes from one on see nothing until dropped: that one is running.
pub(super) struct Running {
    level: Level,
    id: u64,
}
impl Drop for Running {
    fn drop(&mut self) {
        // by number: the mode may have pushed others, or taken itself away
        let n = with(self.level, |s| {
            let modes = s.modes.borrow();
            modes.iter().position(|m| m.0 == self.id).map_or(s.active.get().min(modes.len()), |i| i + 1)
        });
        set_active(self.level, n);
    }
}

/// The mode on top, if there is one; only those below it see calls until the guard is dropped.
pub(super) fn step_below(level: Level) -> Option<(Mode, Running)> {
    let (id, mode, below) = with(level, |s| {
        let n = s.active.get();
        let top = s.modes.borrow().get(n.wrapping_sub(1)).cloned();
        top.map(|(id, mode)| (id, mode, n - 1))
    })?;
    set_active(level, below);
    Some((mode, Running { level, id }))
}
/// Shows the call to the mode on top, or makes it where there is none.
fn run(level: Level, info: &'static OpInfo, args: &[Value]) -> Result<Vec<Value>> {
    match step_below(level) {
        Some((Mode::Watches(w), running)) => {
            let _watched = Watched::new(w, running, info, level == Level::Dispatch, &|| args.to_vec());
            run(level, info, args)
        }
        Some((Mode::Shown(mode), _running)) => {
            order::none_held("a mode runs");
            let call = OperatorCall { info, args, level, given: RefCell::default() };
            let results = mode.call(&call)?;
            deep::check(&results)?;
            // what is made of this operator counts on its sizes
            let checked = level == Level::Dispatch && !info.schema.mutates();
            if checked && results::sizes(&results) != *call.given.borrow() {
                results::check_sizes(info.name, |args| info.call(args), args, &results)?;
            }
            Ok(results)
        }
        None => {
            let _below = ExcludeGuard::new(KeySet::of(level.key()));
            info.call(args)
        }
    }
}

/// Takes its mode away when dropped; guards may be dropped in any order.
#[must_use = "the mode ends with its guard"]
pub struct ModeGuard {
    level: Level,
    id: u64,
    _thread: PhantomData<*const ()>,
}
impl Drop for ModeGuard {
    fn drop(&mut self) {
        let (gone, n) = with(self.level, |s| {
            let mut modes = s.modes.borrow_mut();
            let n = s.active.get();
            match modes.iter().position(|m| m.0 == self.id) {
                Some(i) => (Some(modes.remove(i)), if i < n { n - 1 } else { n }),
                None => (None, n),
            }
        });
        set_active(self.level, n);
        // the mode's own drop may call operators
        order::none_held("a mode is dropped");
        drop(gone);
    }
}

pub(super) fn push(level: Level, mode: Mode) -> ModeGuard {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        for level in [Level::Function, Level::Dispatch] {
            let f: UserFallback = Arc::new(move |info, _, args| run(level, info, args));
            registry::add_user_fallback(0, level.key(), f);
        }
    });
    let id = NEXT.get();
    NEXT.set(id + 1);
    let n = with(level, |s| {
        let (mut modes, n) = (s.modes.borrow_mut(), s.active.get());
        // pushed by a running mode: above those that still see calls, below the one that runs
        let at = n.min(modes.len());
        modes.insert(at, (id, mode.clone()));
        n + 1
    });
    set_active(level, n);
    ModeGuard { level, id, _thread: PhantomData }
}
/// Shows every operator call of this thread, as it is made, to `mode` until the guard is dropped.
pub fn push_function_mode(mode: impl OperatorMode + 'static) -> ModeGuard {
    push(Level::Function, Mode::Shown(Rc::new(mode)))
}
/// Shows every call of an operator that is not made of others, below the gradients, to `mode` until the guard is dropped.
///
/// ```
/// use std::{cell::RefCell, rc::Rc};
/// use torch::overrides::{ModeGuard, OperatorCall, push_dispatch_mode};
/// let names = Rc::new(RefCell::new(Vec::new()));
/// let log = names.clone();
/// let mode: ModeGuard = push_dispatch_mode(move |call: &OperatorCall<'_>| {
///     log.borrow_mut().push(call.name());
///     call.call_on()
/// });
/// let _ = torch::ones([2, 2]).matmul(&torch::ones([2, 2]));
/// drop(mode);
/// assert!(names.borrow().contains(&"mm") && !names.borrow().contains(&"matmul"));
/// ```
pub fn push_dispatch_mode(mode: impl OperatorMode + 'static) -> ModeGuard {
    push(Level::Dispatch, Mode::Shown(Rc::new(mode)))
}

/// Runs `f` unseen by this thread's modes.
///
/// ```
/// use torch::overrides::{OperatorCall, push_function_mode, without_modes};
/// let _none = push_function_mode(|c: &OperatorCall<'_>| -> torch::Result<_> {
///     Err(torch::Error::runtime(format!("no {} here", c.name())))
/// });
/// assert!(torch::ops::exp(&without_modes(|| torch::ones([2]))).is_err());
/// ```
#[doc(alias = "torch._C.DisableTorchFunction")]
pub fn without_modes<R>(f: impl FnOnce() -> R) -> R {
    let _all = ExcludeGuard::new(KeySet::of(Key::Mode) | KeySet::of(Key::Dispatch));
    f()
}
