//! Autocast: what an operator's row says of it, and the state of each thread.

use super::keys::Key;
use super::nested::{Entered, Nested, Outer};
use super::thread_keys;
use crate::DType;
use std::cell::{Cell, RefCell};

/// What autocast does with an operator's arguments: a word of the key `autocast` of its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cast {
    /// Nothing: the operator runs in the dtypes that it is given.
    None,
    /// Floating tensors are cast to the dtype of autocast.
    Lower,
    /// Floating tensors are cast to float32.
    Fp32,
    /// Tensors are left alone; a dtype that is not given becomes float32, where the first tensor is floating.
    OptDtype,
    /// Floating tensors are cast to the widest dtype among them.
    Promote,
    /// As [`Cast::Whole`], with results in the dtype of autocast: the last step is a product of matrices.
    Product,
    /// Tensors are left alone by the operator and by what its body calls: a kernel in PyTorch, a body here.
    Whole,
    /// The operator is refused.
    Banned,
}

/// A row's rules, one for each type of devices that has lists of its own in PyTorch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Autocast {
    /// On the CPU.
    pub cpu: Cast,
    /// On CUDA devices, and on those of back ends from outside the project.
    pub cuda: Cast,
    /// On Intel's GPUs.
    pub xpu: Cast,
    /// On Apple's GPUs.
    pub mps: Cast,
    /// On Meta's accelerators.
    pub mtia: Cast,
    /// Operators of PyTorch's without a row here whose work this row does: their rules are the same.
    pub stands_for: &'static [&'static str],
}
impl Autocast {
    /// No rule anywhere.
    pub const NONE: Autocast = Autocast::all(Cast::None);
    /// One rule everywhere.
    pub const fn all(c: Cast) -> Autocast {
        Autocast { cpu: c, cuda: c, xpu: c, mps: c, mtia: c, stands_for: &[] }
    }
    /// The rule on a type of devices.
    pub const fn on(&self, t: DeviceType) -> Cast {
        match t {
            DeviceType::Cpu => self.cpu,
            DeviceType::Cuda | DeviceType::Private => self.cuda,
            DeviceType::Xpu => self.xpu,
            DeviceType::Mps => self.mps,
            DeviceType::Mtia => self.mtia,
            _ => Cast::None,
        }
    }
}

/// Types of devices that autocast can be switched on for, in the order in which their rules are asked, the last first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum DeviceType {
    /// The CPU.
    Cpu,
    /// Meta's accelerators.
    Mtia,
    /// Microsoft's accelerators.
    Maia,
    /// Intel's GPUs.
    Xpu,
    /// Graphcore's.
    Ipu,
    /// Habana's.
    Hpu,
    /// XLA's.
    Xla,
    /// Apple's GPUs.
    Mps,
    /// CUDA devices.
    Cuda,
    /// Those of a back end from outside the project.
    Private,
}
/// Number of [`DeviceType`]s.
pub const TYPES: usize = 10;
impl DeviceType {
    /// All of them.
    pub const ALL: [DeviceType; TYPES] = [
        DeviceType::Cpu,
        DeviceType::Mtia,
        DeviceType::Maia,
        DeviceType::Xpu,
        DeviceType::Ipu,
        DeviceType::Hpu,
        DeviceType::Xla,
        DeviceType::Mps,
        DeviceType::Cuda,
        DeviceType::Private,
    ];
    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// Autocast on one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    on: u16,
    dtypes: [DType; TYPES],
    cache: bool,
}
impl State {
    const fn new() -> State {
        // PyTorch's defaults, in the order of the types
        const HALF: DType = DType::F16;
        const BRAIN: DType = DType::BF16;
        State { on: 0, dtypes: [BRAIN, HALF, BRAIN, HALF, HALF, BRAIN, BRAIN, HALF, HALF, HALF], cache: true }
    }
    /// Whether autocast is on for a type of devices.
    pub fn is_enabled(&self, t: DeviceType) -> bool {
        self.on & t.bit() != 0
    }
    /// Whether it is on at all.
    pub fn any(&self) -> bool {
        self.on != 0
    }
    /// The dtype that operators run in there.
    pub fn dtype(&self, t: DeviceType) -> DType {
        self.dtypes[t as usize]
    }
    /// Whether casts of weights are kept.
    pub fn is_cache_enabled(&self) -> bool {
        self.cache
    }
    /// The same with autocast on or off for a type of devices.
    pub fn enabled(mut self, t: DeviceType, on: bool) -> State {
        self.on = if on { self.on | t.bit() } else { self.on & !t.bit() };
        self
    }
    /// The same with another dtype.
    pub fn with_dtype(mut self, t: DeviceType, dtype: DType) -> State {
        self.dtypes[t as usize] = dtype;
        self
    }
    /// The same with or without the cache.
    pub fn with_cache(mut self, on: bool) -> State {
        self.cache = on;
        self
    }
}

thread_local! {
    static NOW: Cell<State> = const { Cell::new(State::new()) };
    static OUTER: Outer<State> = const { RefCell::new(Vec::new()) };
}
static STATE: Nested<State> = Nested::new(&NOW, &OUTER);

/// This thread's state.
pub fn state() -> State {
    STATE.get()
}
/// Another state, until further notice.
pub fn set_state(s: State) {
    STATE.set(s);
    thread_keys::admit(Key::Autocast, s.any());
}
/// Another state until the guard is dropped.
pub(crate) fn enter(s: State) -> Entering {
    let excluded = thread_keys::excluded(Key::Autocast);
    let inner = STATE.enter(s);
    thread_keys::admit(Key::Autocast, s.any());
    Entering { inner: Some(inner), excluded }
}
/// Ends a state when dropped.
pub(crate) struct Entering {
    inner: Option<Entered<State>>,
    excluded: bool,
}
impl Drop for Entering {
    fn drop(&mut self) {
        self.inner = None;
        thread_keys::admit(Key::Autocast, STATE.get().any());
        if self.excluded {
            thread_keys::exclude(Key::Autocast);
        }
    }
}

thread_local! {
    /// The operator whose call goes on without its rule, since none of its tensors is where autocast is on.
    static PASSING: Cell<*const ()> = const { Cell::new(std::ptr::null()) };
}
/// Whether a call of an operator with such rules must go by autocast. The operator is told by its address.
pub(crate) fn sees(rules: &Autocast, operator: *const ()) -> bool {
    let s = state();
    let rule = |t: &DeviceType| s.is_enabled(*t) && rules.on(*t) != Cast::None;
    s.any() && !std::ptr::eq(PASSING.get(), operator) && DeviceType::ALL.iter().any(rule)
}
/// Runs a call of an operator without its rule.
pub(crate) fn passing<R>(operator: *const (), call: impl FnOnce() -> R) -> R {
    struct Restore(*const ());
    impl Drop for Restore {
        fn drop(&mut self) {
            PASSING.set(self.0);
        }
    }
    let _restore = Restore(PASSING.get());
    PASSING.set(operator);
    call()
}
