//! Link-time registration: one entry per crate, walked once.

use super::op::{AnyOp, OpInfo};
use crate::dispatch::value::Value;
use crate::types::error::Result;
use crate::types::keys::{KEYS, Key};
use crate::types::order;
use crate::types::order::{Mutex, RwLock};
use flambeau_memory::turn::Turn;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

/// What one crate brings: its operators, and functions that fill slots of other crates' operators.
pub struct CrateReg {
    /// Package name.
    pub name: &'static str,
    /// Its operators.
    pub ops: &'static [&'static dyn AnyOp],
    /// Run once: fill slots, set fallbacks.
    pub fills: &'static [fn()],
}

/// The link-time list. A crate adds itself with
/// `#[linkme::distributed_slice(flambeau_core::dispatch::registry::CRATES)] static REG: &CrateReg = ...;`
#[allow(unsafe_code)]
#[linkme::distributed_slice]
pub static CRATES: [&'static CrateReg];

static REGISTERED: Mutex<Vec<&'static CrateReg>> = Mutex::new(Vec::new());
/// One thread registers at a time; the others wait until its fills are done. A fill may call operators and register further
/// crates: its thread has the turn.
static TURN: LazyLock<Turn> = LazyLock::new(Turn::new);
static WALKED: AtomicBool = AtomicBool::new(false);

/// Walks the link-time list. Called by the first operator call that finds an empty slot, and by every look-up by name. What
/// other threads are registering is registered when it comes back.
pub fn init() {
    if WALKED.load(Ordering::Acquire) && TURN.is_free() {
        return;
    }
    let _turn = TURN.take();
    if !WALKED.swap(true, Ordering::AcqRel) {
        #[cfg(not(miri))]
        for c in CRATES {
            register(c);
        }
        #[cfg(miri)]
        register(&crate::generated::REG);
    }
}

#[allow(unsafe_code)]
#[linkme::distributed_slice(crate::tensor::graph::START)]
static START: fn() = init;

/// Adds a crate by hand: for interpreters and targets without link-time lists, and for plug-ins loaded at run time. A
/// crate name that is already registered is ignored (a crate under unit test is linked twice). On return its fills are done,
/// whichever thread does them; a fill must not wait for another thread that registers.
pub fn register(reg: &'static CrateReg) {
    let _turn = TURN.take();
    {
        let mut list = REGISTERED.lock().unwrap_or_else(|e| e.into_inner());
        if list.iter().any(|r| r.name == reg.name) {
            return;
        }
        list.push(reg);
    }
    for fill in reg.fills {
        fill();
    }
}

/// All registered crates. The fills of each are done, but for those that this thread itself is doing.
pub fn crates() -> Vec<&'static CrateReg> {
    init();
    let all = REGISTERED.lock().unwrap_or_else(|e| e.into_inner()).clone();
    if !TURN.is_free() {
        // what is in the list has begun: it has ended when the turn comes
        drop(TURN.take());
    }
    all
}

/// Python's modules whose functions ATen names with a prefix.
const MODULES: [(&str, &str); 3] = [("special_", "special"), ("linalg_", "linalg"), ("fft_", "fft")];

/// The operator of an ATen name: `aten::add.Tensor`; `aten::add`, the first of its overloads; or `aten::arccos`, which is
/// another operator's documented name here. What is none of ATen's has a namespace of its own: `flambeau::name`.
pub fn find(name: &str) -> Option<&'static dyn AnyOp> {
    let first = |is: &dyn Fn(&OpInfo) -> bool| {
        let crates = crates();
        crates.iter().flat_map(|c| c.ops.iter().copied()).find(|o| is(o.info()))
    };
    let Some(name) = name.strip_prefix("aten::") else {
        return name.contains("::").then(|| first(&|o| o.name == name)).flatten();
    };
    let base = name.split('.').next().unwrap_or(name);
    let documented = || {
        let module = MODULES.iter().find_map(|(p, m)| Some(format!("torch.{m}.{}", base.strip_prefix(p)?)));
        let paths = [Some(format!("torch.{base}")), module, Some(format!("torch.Tensor.{base}"))];
        paths.into_iter().flatten().find_map(|p| first(&|o| o.python.contains(&p.as_str())))
    };
    first(&|o| o.name == name)
        .or_else(|| first(&|o| o.name.split('.').next() == Some(base)))
        .or_else(documented)
}

/// A boxed kernel that serves every operator at one key.
pub type FallbackFn = fn(&'static OpInfo, Key, Vec<Value>) -> Result<Vec<Value>>;

/// What a key does with an operator that has no kernel at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// Error (composites run their body).
    None,
    /// The next lower key is tried.
    Through,
    /// A boxed function is called.
    Boxed,
}

static FALLBACKS: [OnceLock<Option<FallbackFn>>; KEYS] = [const { OnceLock::new() }; KEYS];

/// Gives key `k` one boxed kernel for all operators, or (`None`) lets calls fall through to the next key. The first
/// setting stays; later ones return `false`.
pub fn set_fallback(k: Key, f: Option<FallbackFn>) -> bool {
    FALLBACKS[k as usize].set(f).is_ok()
}
pub(crate) fn fallback(k: Key) -> Option<FallbackFn> {
    FALLBACKS[k as usize].get().copied().flatten()
}
/// A boxed kernel of a program's own for every operator at one key.
pub type UserFallback = Arc<dyn Fn(&'static OpInfo, Key, &[Value]) -> Result<Vec<Value>> + Send + Sync>;
static USER: RwLock<Vec<(u64, Key, UserFallback)>> = RwLock::new(Vec::new());
static USER_KEYS: AtomicU32 = AtomicU32::new(0);
static ENDED: AtomicBool = AtomicBool::new(false);

fn change_user_fallbacks(change: impl FnOnce(&mut Vec<(u64, Key, UserFallback)>)) {
    let mut all = USER.write().unwrap_or_else(|e| e.into_inner());
    change(&mut all);
    let keys = all.iter().fold(0, |s, f| s | 1 << f.1 as u8);
    USER_KEYS.store(keys, Ordering::Release);
}
/// Gives key `k` a kernel for all operators that have none there, until [`remove_user_fallback`]; the latest counts.
pub(crate) fn add_user_fallback(id: u64, k: Key, f: UserFallback) {
    change_user_fallbacks(|all| all.push((id, k, f)));
}
pub(crate) fn remove_user_fallback(id: u64) {
    let mut gone = Vec::new();
    change_user_fallbacks(|all| gone = all.extract_if(.., |f| f.0 == id).collect());
    if !gone.is_empty() {
        ENDED.store(true, Ordering::Release);
    }
    // what a program's closure holds is dropped without the lock
    order::none_held("a program's kernel is dropped");
    drop(gone);
}
/// Whether a fallback of a program's own was ever taken away.
pub(super) fn user_fallbacks_ended() -> bool {
    ENDED.load(Ordering::Acquire)
}
pub(crate) fn user_fallback(k: Key) -> Option<UserFallback> {
    if USER_KEYS.load(Ordering::Acquire) & 1 << k as u8 == 0 {
        return None;
    }
    let all = USER.read().unwrap_or_else(|e| e.into_inner());
    all.iter().rev().find(|f| f.1 == k).map(|f| f.2.clone())
}
pub(crate) fn fallback_kind(k: Key) -> Fallback {
    if USER_KEYS.load(Ordering::Acquire) & 1 << k as u8 != 0 {
        return Fallback::Boxed;
    }
    match FALLBACKS[k as usize].get() {
        None => Fallback::None,
        Some(None) => Fallback::Through,
        Some(Some(_)) => Fallback::Boxed,
    }
}

/// Operators that a program defined at run time (`torch.library`).
pub static DYNAMIC: RwLock<Vec<&'static dyn AnyOp>> = RwLock::new(Vec::new());
