//! The operator object. `F` is its typed function pointer; slots are erased pointers to functions of that very type.

use super::convention::{Convention, Habit};
use super::diverted::{self, Found};
use super::registry;
use super::wrapper;
use crate::dispatch::value::{AsValue, Value};
use crate::types::autocast::{self, Autocast};
use crate::types::device::Device;
use crate::types::error::{Error, Result};
use crate::types::keys::{ALL_KEYS, KEYS, Key, KeySet};
use crate::types::names::NameRule;
use crate::types::schema::Schema;
use crate::types::thread_keys;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Calls an operator with its arguments as values, one per schema argument, and returns its results.
pub type BoxedFn = fn(&[Value]) -> Result<Vec<Value>>;

/// What is known of an operator without its types.
pub struct OpInfo {
    /// `add.Tensor`.
    pub name: &'static str,
    /// Crate that owns it.
    pub owner: &'static str,
    /// Arguments and results.
    pub schema: Schema,
    /// Documented Python names (`torch.add`, `torch.Tensor.add`).
    pub python: &'static [&'static str],
    /// Further names in ATen (`_stack`).
    pub aten: &'static [&'static str],
    /// How Python calls it, where the schema does not say so.
    pub conventions: &'static [Convention],
    /// A body over other operators: it needs no kernel of its own at any key.
    pub composite: bool,
    /// Works element by element, by a formula.
    pub pointwise: bool,
    /// What it makes of names of dimensions.
    pub names: NameRule,
    /// What autocast does with its arguments.
    pub autocast: Autocast,
    /// The boxed call.
    pub boxed: BoxedFn,
    /// One line of documentation.
    pub doc: &'static str,
    /// What the table says about its gradient.
    pub grad: Differentiability,
    /// Of one that writes: the operator that gives the result instead. Of a view: the one that gives a copy.
    pub functional: Option<&'static OpInfo>,
}

/// The gradient verdict of a table row: there is no third state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Differentiability {
    /// Has a backward formula, checked by gradcheck.
    Formula,
    /// Differentiable through the operators that it is made of.
    Composite,
    /// Not differentiable.
    None,
}

/// An operator without its function type.
pub trait AnyOp: Sync {
    /// Name, schema, documentation.
    fn info(&self) -> &'static OpInfo;
    /// Whether key `k` has a kernel.
    fn has(&self, k: Key) -> bool;
    /// Calls by values.
    fn call_boxed(&self, args: &[Value]) -> Result<Vec<Value>> {
        (self.info().boxed)(args)
    }
    /// The slot of key `k` and what to put there so that calls go to [`call_fallback`]; none for operators defined at run
    /// time, which look for their kernels anyway. Only this module's neighbours can ask.
    #[doc(hidden)]
    fn slot(&self, _: Private, _: Key) -> Option<(&AtomicPtr<()>, *mut ())> {
        None
    }
    /// Fills the empty slot of `key` with what stands at the CPU's: rows whose operators ask the tables of back ends for
    /// memory and kernels are the same function on every device.
    fn adopt(&self, _key: Key) {}
}

/// Proof that a caller belongs to this module.
pub struct Private(pub(super) ());

impl OpInfo {
    /// Whether a call of it must go by autocast.
    pub(crate) fn seen_by_autocast(&'static self) -> bool {
        autocast::sees(&self.autocast, std::ptr::from_ref(self).cast())
    }
    /// What holds of calls under a documented name.
    pub fn habits(&self, path: &str) -> impl Iterator<Item = Habit> {
        let here = move |c: &&Convention| c.path.is_empty() || c.path == path;
        self.conventions.iter().filter(here).map(|c| c.habit)
    }
    /// Calls the operator by values, those defined at run time included: what fallbacks call on with.
    pub fn call(&'static self, args: &[Value]) -> Result<Vec<Value>> {
        if self.owner == crate::dispatch::custom::OWNER {
            return crate::dispatch::custom::call(self, args);
        }
        (self.boxed)(args)
    }
}

const fn erase<F: Copy>(f: F) -> *mut () {
    union U<F: Copy> {
        f: F,
        p: *mut (),
    }
    assert!(size_of::<F>() == size_of::<*mut ()>(), "operators are plain function pointers");
    // SAFETY: both fields are one pointer in size, and any function pointer is a valid raw pointer.
    unsafe { U { f }.p }
}

#[inline(always)]
fn restore<F: Copy>(p: *mut ()) -> F {
    union U<F: Copy> {
        f: F,
        p: *mut (),
    }
    const { assert!(size_of::<F>() == size_of::<*mut ()>(), "operators are plain function pointers") };
    // SAFETY: only `erase::<F>` fills what this is called on, so a non-null pointer is a value of type `F`.
    unsafe { U { p }.f }
}

/// The kernels of a row on devices that are not built in: one function per back end, and the operators that run them.
pub struct Kernels<F: Copy> {
    slots: KernelSlots,
    _f: PhantomData<F>,
}
/// [`Kernels`] without their type, so that there is one of what they do.
struct KernelSlots {
    slots: [AtomicPtr<()>; Key::LINKED],
    forms: &'static [&'static dyn AnyOp],
}

impl<F: Copy> Kernels<F> {
    /// None yet.
    pub const fn new(forms: &'static [&'static dyn AnyOp]) -> Self {
        let slots = [const { AtomicPtr::new(std::ptr::null_mut()) }; Key::LINKED];
        Kernels { slots: KernelSlots { slots, forms }, _f: PhantomData }
    }
    /// Brings the kernel of a back end: from now on all forms of the row (functional, in place, `out=`) run on its devices.
    /// The first kernel stays; later ones, and those for keys that are no such devices', return `false`.
    pub fn register(&self, key: Key, kernel: F) -> bool {
        self.slots.register(key, erase(kernel))
    }
    /// The kernel for a device, if its back end brought one.
    pub fn get(&self, device: Device) -> Option<F> {
        let p = self.slots.get(device);
        if p.is_null() { None } else { Some(restore(p)) }
    }
    /// The kernel for a device; none on the meta device, where sizes are all there is.
    ///
    /// # Errors
    /// The device's back end brought none.
    #[cold]
    pub fn find(&self, device: Device) -> Result<Option<F>> {
        match self.slots.find(device) {
            Ok(p) if p.is_null() => Ok(None),
            Ok(p) => Ok(Some(restore(p))),
            Err(e) => Err(e),
        }
    }
}
impl KernelSlots {
    fn register(&self, key: Key, kernel: *mut ()) -> bool {
        // the kernel first: who finds the operator's slot filled must find it
        let Some(true) = key.linked().map(|i| fill(&self.slots[i], kernel)) else { return false };
        for op in self.forms {
            op.adopt(key);
        }
        true
    }
    /// Null where there is none.
    fn get(&self, device: Device) -> *mut () {
        let i = device.key_set().highest().and_then(Key::linked);
        i.map_or(std::ptr::null_mut(), |i| self.slots[i].load(Ordering::Acquire))
    }
    fn find(&self, device: Device) -> Result<*mut ()> {
        let p = self.get(device);
        if p.is_null() && device != Device::Meta { Err(no_device_kernel(self.forms, device)) } else { Ok(p) }
    }
}
/// Fills a slot; `false` if it is filled already.
fn fill(slot: &AtomicPtr<()>, f: *mut ()) -> bool {
    slot.compare_exchange(std::ptr::null_mut(), f, Ordering::AcqRel, Ordering::Acquire).is_ok()
}
#[cold]
#[inline(never)]
fn no_device_kernel(forms: &[&dyn AnyOp], device: Device) -> Error {
    let name = forms.first().map_or("this operator", |op| op.info().name);
    Error::missing(format!("{name} has no kernel for device {device}"))
}

/// An operator with function type `F`, always a plain `fn(...) -> Result<...>` pointer.
pub struct Op<F: Copy> {
    /// All of it but the type.
    table: Table,
    _f: PhantomData<F>,
}
/// An operator without its function type, so that there is one of what it does.
struct Table {
    slots: [AtomicPtr<()>; KEYS],
    info: &'static OpInfo,
    adaptor: AtomicPtr<()>,
    keep: u32,
}

impl<F: Copy> Op<F> {
    /// An operator with the owner's kernels. `adaptor` packs typed arguments into values and calls a key's boxed
    /// fallback ([`call_fallback`]), but where only a watcher sent it a call (`dispatch::watch`), which it makes again. Composites are made by [`Op::composite`].
    pub const fn new(info: &'static OpInfo, kernels: &[(Key, F)], adaptor: F) -> Self {
        let mut slots = [const { AtomicPtr::new(std::ptr::null_mut()) }; KEYS];
        let mut i = 0;
        while i < kernels.len() {
            slots[kernels[i].0 as usize] = AtomicPtr::new(erase(kernels[i].1));
            i += 1;
        }
        // what is not differentiable does not concern the autograd key
        let skip = matches!(info.grad, Differentiability::None) && !info.schema.mutates();
        let keep = if skip { !KeySet::of(Key::Autograd).0 } else { !0 };
        let adaptor = AtomicPtr::new(erase(adaptor));
        Op { table: Table { slots, info, adaptor, keep }, _f: PhantomData }
    }
    /// A composite: `body` serves every key up to autograd. At [`Key::QuantizedCpu`] it serves where nobody brings a kernel:
    /// few bodies hold for integers that stand for numbers, and PyTorch has kernels of their own for many.
    pub const fn composite(info: &'static OpInfo, body: F, adaptor: F) -> Self {
        let mut slots = [const { AtomicPtr::new(std::ptr::null_mut()) }; KEYS];
        let mut i = 0;
        while i <= Key::Autograd as usize {
            if i != Key::Functionalize as usize && i != Key::QuantizedCpu as usize {
                slots[i] = AtomicPtr::new(erase(body));
            }
            i += 1;
        }
        let adaptor = AtomicPtr::new(erase(adaptor));
        Op { table: Table { slots, info, adaptor, keep: !0 }, _f: PhantomData }
    }
    /// The operator without its type, as lists of operators hold it.
    pub const fn any(&'static self) -> &'static dyn AnyOp {
        &self.table
    }
    /// Name, schema, documentation.
    pub fn info(&self) -> &'static OpInfo {
        self.table.info
    }
    /// Fills the slot of key `k`. A slot that is already filled keeps its first kernel and `false` is returned.
    pub fn register(&self, k: Key, f: F) -> bool {
        fill(&self.table.slots[k as usize], erase(f))
    }
    /// The kernel for arguments with these keys, after the thread's includes and excludes.
    #[inline(always)]
    pub fn get(&self, keys: KeySet) -> Result<F> {
        let ks = KeySet(thread_keys::effective(keys).0 & self.table.keep);
        let i = 31u32.wrapping_sub((ks.0 | 1).leading_zeros()) as usize % KEYS;
        let p = self.table.slots[i].load(Ordering::Acquire);
        if !p.is_null() && ks.0 != 0 {
            return Ok(restore(p));
        }
        match cold(&self.table, ks) {
            Ok(p) => Ok(restore(p)),
            Err(e) => Err(e),
        }
    }
    /// [`Op::get`] by a call, for operators whose calls are large: there is less code.
    #[inline]
    pub fn look_up(&self, keys: KeySet) -> Result<F> {
        match look_up(&self.table, keys) {
            Ok(p) => Ok(restore(p)),
            Err(e) => Err(e),
        }
    }
    /// The kernel of key `k` itself.
    pub fn at(&self, k: Key) -> Option<F> {
        let p = self.table.slots[k as usize].load(Ordering::Acquire);
        if p.is_null() { None } else { Some(restore(p)) }
    }
}

#[inline(never)]
fn look_up(table: &Table, keys: KeySet) -> Result<*mut ()> {
    let ks = KeySet(thread_keys::effective(keys).0 & table.keep);
    let p = ks.highest().map_or(std::ptr::null_mut(), |k| table.slots[k as usize].load(Ordering::Acquire));
    if p.is_null() { cold(table, ks) } else { Ok(p) }
}

/// The slot of a call that found its own empty. Without the function's type, so that there is one of it.
#[cold]
#[inline(never)]
fn cold(table: &Table, ks: KeySet) -> Result<*mut ()> {
    let (slots, info) = (&table.slots, table.info);
    let at = |k: Key| Some(slots[k as usize].load(Ordering::Acquire)).filter(|p| !p.is_null());
    registry::init();
    // no tensor argument at all: factories and composites over nothing run at the CPU slot
    let mut ks = if ks.without(KeySet(!KeySet::BACKENDS.0)).0 == 0 { ks | KeySet::of(Key::Cpu) } else { ks };
    while let Some(k) = ks.highest() {
        if let Some(f) = at(k) {
            return Ok(f);
        }
        match registry::fallback_kind(k) {
            registry::Fallback::Boxed if k == Key::Autocast && !info.seen_by_autocast() => {}
            registry::Fallback::Boxed if k == Key::Wrapper && info.composite && wrapper::takes_body(info) => {
                if let Some(f) = at(Key::Cpu) {
                    return Ok(f);
                }
            }
            registry::Fallback::Boxed if k == Key::Batched && wrapper::batched_body(info) => {
                if let Some(f) = at(Key::Cpu) {
                    return Ok(f);
                }
            }
            registry::Fallback::Boxed
                if info.composite && KeySet::BACKENDS.has(k) && at(Key::Cpu).is_some() =>
            {
                return Ok(slots[Key::Cpu as usize].load(Ordering::Acquire));
            }
            registry::Fallback::Boxed => {
                thread_keys::coming(std::ptr::from_ref(info).addr(), k);
                return Ok(table.adaptor.load(Ordering::Relaxed));
            }
            registry::Fallback::Through => {}
            registry::Fallback::None if info.composite => {
                if let Some(f) = at(Key::Cpu) {
                    return Ok(f);
                }
            }
            registry::Fallback::None => return Err(no_kernel(info, k)),
        }
        ks = ks.without(KeySet::of(k));
    }
    Err(no_kernel(info, Key::Cpu))
}

pub(crate) fn no_kernel(info: &OpInfo, k: Key) -> Error {
    if k == Key::Autograd {
        if info.grad == Differentiability::None {
            return Error::autograd(format!("{} is not differentiable", info.name));
        }
        return Error::autograd(format!("the crate {} brings no derivative of {}", info.owner, info.name));
    }
    // sparse tensors have the kernels that PyTorch's have: what has none there says this
    if k == Key::SparseCpu {
        let name = info.name;
        return Error::unsupported(format!(
            "Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend."
        ));
    }
    Error::missing(format!("{} has no kernel for the {k:?} key", info.name))
}

impl AnyOp for Table {
    fn info(&self) -> &'static OpInfo {
        self.info
    }
    fn has(&self, k: Key) -> bool {
        !self.slots[k as usize].load(Ordering::Acquire).is_null()
    }
    fn slot(&self, _: Private, k: Key) -> Option<(&AtomicPtr<()>, *mut ())> {
        Some((&self.slots[k as usize], self.adaptor.load(Ordering::Relaxed)))
    }
    fn adopt(&self, key: Key) {
        let p = self.slots[Key::Cpu as usize].load(Ordering::Acquire);
        if !p.is_null() {
            fill(&self.slots[key as usize], p);
        }
    }
}
impl<F: Copy + Sync> AnyOp for Op<F> {
    fn info(&self) -> &'static OpInfo {
        self.table.info
    }
    fn has(&self, k: Key) -> bool {
        self.table.has(k)
    }
    fn slot(&self, p: Private, k: Key) -> Option<(&AtomicPtr<()>, *mut ())> {
        self.table.slot(p, k)
    }
    fn adopt(&self, key: Key) {
        self.table.adopt(key);
    }
}

/// Hands a call to the boxed fallback of the highest key among the arguments' tensors that has one. Generated adaptors
/// call this. Arguments come by reference, so that the many adaptors are small.
#[inline(never)]
pub fn call_fallback(info: &'static OpInfo, args: &[&dyn AsValue]) -> Result<Vec<Value>> {
    let args: Vec<Value> = args.iter().map(|a| a.as_value()).collect();
    thread_keys::deeper(|| call_values(info, args)).unwrap_or_else(|| Err(too_deep(info)))
}
/// Of a call that is made of itself.
#[cold]
pub(crate) fn too_deep(info: &OpInfo) -> Error {
    Error::runtime(format!(
        "{}: maximum recursion depth exceeded: calls of operators within kernels of operators without end",
        info.name
    ))
}
fn call_values(info: &'static OpInfo, args: Vec<Value>) -> Result<Vec<Value>> {
    let keys = args.iter().fold(KeySet::EMPTY, |ks, v| ks | v.key_set());
    let ks = thread_keys::effective(keys);
    // what has no tensor runs on the CPU
    let ks = if ks.without(KeySet(!KeySet::BACKENDS.0)).0 == 0 { ks | KeySet::of(Key::Cpu) } else { ks };
    // what sent the call here may end before it is found here: then the call starts again
    let mut ended = false;
    for k in ALL_KEYS.iter().rev().filter(|k| ks.has(**k)) {
        if ended && let Some(r) = thread_keys::again(|| (info.boxed)(&args)) {
            return r;
        }
        match diverted::find(info, *k) {
            Found::Kernel(f) => {
                let results = f(&args)?;
                let of = (info.name, info.schema.mutates());
                super::results::check(of, |args| info.call(args), *k, &args, &results)?;
                return Ok(results);
            }
            Found::Ended => ended = true,
            Found::Never => {}
        }
        if let Some(f) = registry::user_fallback(*k) {
            return f(info, *k, &args);
        }
        if *k == Key::Autocast && !info.seen_by_autocast() {
            continue;
        }
        if let Some(f) = registry::fallback(*k) {
            return f(info, *k, args);
        }
    }
    if (ended || registry::user_fallbacks_ended())
        && let Some(r) = thread_keys::again(|| (info.boxed)(&args))
    {
        return r;
    }
    Err(no_kernel(info, ks.highest().unwrap_or(Key::Cpu)))
}
