//! Random generators (`torch.Generator`) and the default one.

use crate::types::error::{Error, Result};
use flambeau_cpu::random;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// A random number generator: mt19937 with PyTorch's streams. A handle; clones share the state.
#[derive(Clone)]
pub struct Generator(Arc<Mutex<random::Generator>>);

/// The seed that generators start with.
pub const DEFAULT_SEED: u64 = 67280421310721;

impl Default for Generator {
    fn default() -> Self {
        Self::new()
    }
}
impl Generator {
    /// A generator with the default seed.
    pub fn new() -> Self {
        Generator(Arc::new(Mutex::new(random::Generator::new(DEFAULT_SEED))))
    }
    /// The state, locked. Held only while a kernel draws.
    pub fn lock(&self) -> MutexGuard<'_, random::Generator> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// Sets the seed and restarts the stream.
    pub fn manual_seed(&self, seed: u64) -> &Self {
        self.lock().manual_seed(seed);
        self
    }
    /// The seed of the current stream.
    pub fn initial_seed(&self) -> u64 {
        self.lock().initial_seed()
    }
    /// Seeds from the operating system and returns the seed.
    pub fn seed(&self) -> u64 {
        self.lock().seed()
    }
    /// The state as bytes, in PyTorch's layout (`Generator.get_state`).
    pub fn state_bytes(&self) -> Vec<u8> {
        self.lock().get_state()
    }
    /// Restores what [`Generator::state_bytes`] gave.
    pub fn set_state_bytes(&self, state: &[u8]) -> Result<()> {
        self.lock().set_state(state).map_err(Error::runtime)
    }
    /// An independent generator with the same state.
    pub fn clone_state(&self) -> Generator {
        Generator(Arc::new(Mutex::new(self.lock().clone())))
    }
}
impl std::fmt::Debug for Generator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<torch._C.Generator>")
    }
}
impl PartialEq for Generator {
    fn eq(&self, o: &Self) -> bool {
        Arc::ptr_eq(&self.0, &o.0)
    }
}

thread_local! {
    static OWN: Cell<Option<&'static Generator>> = const { Cell::new(None) };
}
/// Generators of threads that have ended, for the next ones: [`default_generator`] lends them for ever.
static FREE: Mutex<Vec<&'static Generator>> = Mutex::new(Vec::new());

/// Until the guard is dropped, [`default_generator`] gives the calling thread a generator of its own with this seed. The
/// workers of a data loader have one each, as PyTorch's worker processes do.
#[must_use = "the thread's generator goes with its guard"]
pub fn thread_generator(seed: u64) -> ThreadGenerator {
    let free = FREE.lock().unwrap_or_else(|e| e.into_inner()).pop();
    let own = free.unwrap_or_else(|| Box::leak(Box::new(Generator::new())));
    own.manual_seed(seed);
    ThreadGenerator { own, before: OWN.replace(Some(own)), _thread: PhantomData }
}
/// See [`thread_generator`].
pub struct ThreadGenerator {
    own: &'static Generator,
    before: Option<&'static Generator>,
    _thread: PhantomData<*const ()>,
}
impl Drop for ThreadGenerator {
    fn drop(&mut self) {
        OWN.set(self.before);
        // somebody who kept a handle must not see the next thread draw from it
        if Arc::strong_count(&self.own.0) == 1 {
            FREE.lock().unwrap_or_else(|e| e.into_inner()).push(self.own);
        }
    }
}

/// The generator that is used where none is given: one for the program, except on threads with [`thread_generator`].
pub fn default_generator() -> &'static Generator {
    if let Some(own) = OWN.get() {
        return own;
    }
    static G: OnceLock<Generator> = OnceLock::new();
    G.get_or_init(Generator::new)
}

/// Seeds the default generator (`torch.manual_seed`).
pub fn manual_seed(seed: u64) -> Generator {
    default_generator().manual_seed(seed).clone()
}
/// The default generator's seed.
pub fn initial_seed() -> u64 {
    default_generator().initial_seed()
}
/// Seeds the default generator from the operating system.
pub fn seed() -> u64 {
    default_generator().seed()
}

/// Runs `f`, and puts the default generator's state back afterwards, however `f` ends.
#[doc(alias = "torch.random.fork_rng")]
pub fn fork_rng<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(Vec<u8>);
    impl Drop for Restore {
        fn drop(&mut self) {
            // the generator's own state is always one that it takes
            let _ = default_generator().set_state_bytes(&self.0);
        }
    }
    let _restore = Restore(default_generator().state_bytes());
    f()
}
